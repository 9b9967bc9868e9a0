"""Help of commands: examples run, exit codes are listed, and JSON output parses."""

from __future__ import annotations

import argparse
import io
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

import atl
from atl.cli import command, main
from atl.cli.command import CODES, FAILED, GOOD, REFUSED
from atl.cli.main import COMMANDS, parser
from atl.cli.terminal import supports_colour, with_progress
from rewrites import reschedule

HERE = Path(__file__).resolve().parents[2]
EXAMPLES = [(each.name, example) for each in COMMANDS for example in each.examples]
LONG = {each.name for each in COMMANDS if each.long}
TESTED_ELSEWHERE = (
    "atl derive examples/matmul.py --auto",
    "atl rules get_gen --proof",
    "atl rules --json",
    "atl run stencil.py",
)
"""Slow examples, and those of files of a user, with a separate test."""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the files that the examples use."""
    from scipy.io import mmwrite
    from scipy.sparse import csr_array, save_npz

    (tmp_path / "examples").symlink_to(HERE / "examples")
    matrix = np.array([[6.0, 0.0, 9.0, 8.0], [0.0, 0.0, 0.0, 0.0], [5.0, 0.0, 0.0, 7.0]])
    mmwrite(tmp_path / "matrix.mtx", csr_array(matrix))
    save_npz(tmp_path / "matrix.npz", csr_array(matrix))
    np.save(tmp_path / "x.npy", np.arange(5.0))
    start = atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i]")
    reschedule(start).rw("mul_comm").done().save(tmp_path / "proof.atl.json")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ATL_CACHE", str(tmp_path / "kept"))
    return tmp_path


class Terminal:
    """A standard input that is a terminal, or an output that may be one."""

    def __init__(self, *, terminal: bool = True) -> None:
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


def test_every_command_has_an_example_in_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    for each in COMMANDS:
        with pytest.raises(SystemExit) as ended:
            main([each.name, "--help"])
        assert ended.value.code == 0
        shown = capsys.readouterr().out
        assert each.examples
        assert all(f"\n  {example}\n" in shown for example in each.examples)
        assert each.summary in " ".join(shown.split())


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "example"), EXAMPLES, ids=[example for _, example in EXAMPLES])
def test_example_runs(
    name: str, example: str, checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = shlex.split(example)
    assert words[:2] == ["atl", name]
    if name in LONG or example.startswith(TESTED_ELSEWHERE):
        parser().parse_args(words[1:])
        return
    monkeypatch.setattr(sys, "stdin", Terminal())
    with create_pipe_input() as given, create_app_session(input=given, output=DummyOutput()):
        given.send_text("quit\n")
        code = main(words[1:])
    captured = capsys.readouterr()
    assert code == GOOD, captured.err
    assert captured.out
    if "--json" in words:
        json.loads(captured.out)
    written = [words[at + 1] for at, word in enumerate(words) if word in ("-o", "--svg")]
    assert all((checkout / file).stat().st_size for file in written)


def test_exit_codes_are_in_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == GOOD
    shown = capsys.readouterr().out
    for code, meaning in CODES.items():
        assert re.search(rf"^ +{code}  {re.escape(meaning)}$", shown, re.MULTILINE)
    assert {value for name, value in vars(command).items() if name.isupper() and isinstance(value, int)} == {*CODES}


def as_json(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, object]:
    code = main(words)
    return code, json.loads(capsys.readouterr().out)


def test_refusal_is_printed_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "unsafe.py").write_text(
        "import atl\nn = atl.sizes('n')\nx = atl.tensor('x', n)\n"
        "p = atl.program('p', [x], atl.gen(n, lambda i: x[i + 1]))\n",
        encoding="utf-8",
    )
    code, data = as_json(capsys, "show", str(tmp_path / "unsafe.py"), "--json")
    assert code == REFUSED
    assert isinstance(data, dict)
    error = data["error"]
    assert (error["code"], error["numbers"]) == ("ATL301", {"n": "1", "i": "0"})
    assert "0 <= i + 1 < n" in error["required"]


def test_certificates_are_checked_with_json_output(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (checkout / "proof.atl.json").read_text(encoding="utf-8")
    (checkout / "wrong.atl.json").write_text(text.replace("forward", "reverse"), encoding="utf-8")
    (checkout / "other.atl.json").write_text(text.replace('"mul_comm", "with"', '"trust", "with"'), encoding="utf-8")
    code, data = as_json(capsys, "check", "proof.atl.json", "other.atl.json", "gone.json", "--json")
    assert code == FAILED
    assert isinstance(data, dict)
    assert data["accepted"] is False
    good, bad, gone = data["certificates"]
    assert (good["accepted"], good["steps"][0]["rule"], bad["accepted"]) == (True, "mul_comm", False)
    assert good["status"] == {"mul_comm": "proved for all sizes"}
    assert "trust" in bad["error"]["summary"]
    assert "cannot be read" in gone["error"]["summary"]
    assert as_json(capsys, "check", "proof.atl.json", "--json")[0] == GOOD


def test_certificate_with_a_packed_operand_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from sparse import CSR

    spmv = atl.parse("spmv (A : float64[n, m], v : float64[m]) : float64[n] := ⊞[i < n] Σ[j < m] A[i, j] * v[j]")
    reschedule(spmv).sparsify("A", CSR).done().save(tmp_path / "spmv.json")
    assert main(["check", str(tmp_path / "spmv.json")]) == GOOD
    assert "Proved by" in capsys.readouterr().out


@pytest.mark.long
def test_rules_and_tactics_are_listed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    from rewrites import rules

    _, listed = as_json(capsys, "rules", "--json")
    assert isinstance(listed, list)
    assert [rule["name"] for rule in listed] == [*rules]
    assert all(rule["left"] and rule["right"] and rule["status"] in ("proved", "bounded") for rule in listed)
    _, listed = as_json(capsys, "tactics", "tile", "rw", "--json")
    assert isinstance(listed, list)
    assert [(entry["name"], entry["call"][:7]) for entry in listed] == [("tile", "s.tile("), ("rw", "s.rw(na")]


def test_fuzzer_reports_findings_as_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def found(arguments: list[str]) -> int:
        print("seed 0: a finding", *arguments)
        return 1

    monkeypatch.setattr("proofs_tests.padding.fuzz.main", found)
    code, data = as_json(capsys, "fuzz", "pads", "--n", "3", "--json")
    assert code == FAILED
    assert isinstance(data, dict)
    assert data["found_nothing"] is False
    assert data["report"] == ["seed 0: a finding --n 3"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["matrix.mtx", "ELL"], "ELL is not a sparse format"),
        (["matrix.txt", "CSR"], "has an unknown suffix"),
        (["gone.mtx", "CSR"], "gone.mtx cannot be read"),
        (["broken.mtx", "CSR"], "broken.mtx cannot be read"),
        (["broken.npz", "CSR"], "broken.npz cannot be read"),
        (["broken.npy", "CSR"], "broken.npy cannot be read"),
        (["matrix.mtx", "CSR", "CSC", "--svg", "out.svg"], "one format"),
        (["matrix.mtx", "CSR", "--svg", "nowhere/out.svg"], "cannot be written"),
    ],
)
def test_unreadable_matrix_is_reported(
    words: list[str], message: str, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("broken.mtx", "broken.npz", "broken.npy"):
        (checkout / name).write_bytes(b"%%MatrixMarket matrix\n\x00\xff")
    assert main(["sparse", *words]) == REFUSED
    err = capsys.readouterr().err
    assert message in err
    assert "Error(" not in err
    assert not (checkout / "out.svg").exists()


def test_large_matrix_is_shown_by_its_levels(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(checkout / "large.npy", np.eye(50))
    assert main(["sparse", "large.npy", "CSR"]) == GOOD
    out = capsys.readouterr().out
    assert re.search(r"Compressed of +50 +50 positions +pos: 51 int32, crd: 50 int32", out)
    assert "50 × 50 float64, 50 values stored; 804 bytes" in out


def test_export_follows_the_suffix(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file, part in (("m.c", "for (int64_t p"), ("m.nest", "for p in 0..k:"), ("m.txt", "Σ[p < k]")):
        assert main(["export", "examples/matmul.py", "-o", file]) == GOOD
        assert part in (checkout / file).read_text(encoding="utf-8")
    assert atl.parse((checkout / "m.txt").read_text(encoding="utf-8")).name == "matmul"
    assert main(["export", "proof.atl.json", "-o", "again.py"]) == GOOD
    names: dict[str, object] = {}
    exec((checkout / "again.py").read_text(encoding="utf-8"), names)
    assert "x[i] * 2" in str(getattr(names["theorem"], "rhs", ""))
    capsys.readouterr()
    assert main(["export", "proof.atl.json", "--as", "txt"]) == GOOD
    assert "x[i] * 2" in capsys.readouterr().out
    assert main(["export", "proof.atl.json", "-o", "proof.html"]) == GOOD
    assert "mul_comm" in (checkout / "proof.html").read_text(encoding="utf-8")
    assert main(["export", "proof.atl.json", "--as", "folder", "-o", "taken"]) == GOOD
    assert {"Makefile", "f.c", "f.h", "f.atl.json"} <= {file.name for file in (checkout / "taken").iterdir()}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["examples/matmul.py", "--as", "folder"], "a folder cannot be printed"),
        (["examples/matmul.py", "--as", "folder", "-o", "examples/matmul.py"], "is not a directory"),
        (["examples/matmul.py", "--as", "html"], "needs a certificate, not a program"),
        (["examples/matmul.py"], "no output kind was chosen"),
        (["examples/matmul.py", "-o", "x.pdf"], "unknown output kind: pdf"),
        (["examples/matmul.py", "-o", "x"], "unknown output kind: a file without a suffix"),
        (["examples/matmul.py", "--as", "py"], "needs a certificate, not a program"),
        (["examples/matmul.py", "-o", "nowhere/x.c"], "cannot be written"),
        (["gone.json", "--as", "c"], "gone.json cannot be read"),
    ],
)
def test_invalid_export_is_reported(
    words: list[str], message: str, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {file.name for file in checkout.iterdir()}
    assert main(["export", *words]) == REFUSED
    assert message in capsys.readouterr().err
    assert {file.name for file in checkout.iterdir()} - {"kept"} == before


def test_completions_name_every_command_and_work_in_bash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert main(["completion", shell]) == GOOD
        script = capsys.readouterr().out
        assert all(each.name in script for each in COMMANDS)
        if shell == "bash":
            (tmp_path / "atl").write_text(script, encoding="utf-8")
    asked = f"source {tmp_path / 'atl'}; COMP_WORDS=(atl ca); COMP_CWORD=1; _shtab_atl; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "-c", asked], capture_output=True, encoding="utf-8", check=False)
    assert done.stdout.strip() == "cache", done.stderr


def test_colour_needs_a_terminal_that_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert not supports_colour(Terminal(terminal=False))  # type: ignore[arg-type]
    assert supports_colour(Terminal())  # type: ignore[arg-type]
    for name, value, coloured in (("NO_COLOR", "1", False), ("NO_COLOR", "", True), ("TERM", "dumb", False)):
        monkeypatch.setenv(name, value)
        assert supports_colour(Terminal()) == coloured  # type: ignore[arg-type]


def test_slow_iteration_shows_progress_and_yields_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    class Errors(io.StringIO):
        def isatty(self) -> bool:
            return True

    errors = Errors()
    monkeypatch.setattr(sys, "stderr", errors)
    monkeypatch.setattr("atl.cli.terminal.PROGRESS_DELAY", -1.0)
    assert [*with_progress(range(5), "counting")] == [0, 1, 2, 3, 4]
    shown = errors.getvalue()
    assert "counting" in shown
    monkeypatch.setattr("atl.cli.terminal.PROGRESS_DELAY", 60.0)
    assert [*with_progress(range(5), "counting")] == [0, 1, 2, 3, 4]
    assert errors.getvalue() == shown


def test_every_argument_has_a_help_text() -> None:
    groups = [action for action in parser()._actions if isinstance(action, argparse._SubParsersAction)]
    for each in (each for group in groups for each in group.choices.values()):
        assert all(action.help for action in each._actions), each.prog
