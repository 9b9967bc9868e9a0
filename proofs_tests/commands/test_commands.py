"""The command line: output and exit codes of each command."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from atl.cli.command import FAILED, REFUSED
from atl.cli.main import COMMANDS, main
from atl.errors import ATLError
from atl.files.arrays import parse_values
from atl.files.programs import load_program
from proofs_tests.fuzzing import Tally
from rewrites import rules

HERE = Path(__file__).resolve().parents[2]
MATMUL = str(HERE / "examples" / "matmul.py")
WINDOWS = str(HERE / "examples" / "windows.py")

SQUARED = """
import atl
n = atl.sizes("n")
x = atl.tensor("x", n, dtype="float64")
squared = atl.program("squared", [x], x * x)
"""


def run_main(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Return the exit code, the output, and the error output of a command."""
    code = main(arguments)
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return code, captured.out, captured.err


def written(folder: Path, text: str) -> str:
    path = folder / "written.py"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_show_prints_formula_shape_and_proofs(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run_main(capsys, "show", f"{WINDOWS}:windows")
    assert (code, err) == (0, "")
    assert "⊞[i < n] Σ[j < k] [j <= i] · x[i - j]" in out
    assert "result      float64 of shape (n,)" in out
    assert "sizes       n, k (keyword arguments of a call: k)" in out
    assert "assumed     1 <= k, k <= n" in out
    assert "accesses    each proved" in out
    assert "int64_t" not in out


def test_show_prints_the_loop_nest_and_c(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run_main(capsys, "show", MATMUL, "--nest", "--c")
    assert code == 0
    assert "for p in 0..k:" in out
    assert "for (int64_t p = 0; p < k; p++)" in out


def test_module_is_found_by_name(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE)
    assert run_main(capsys, "show", "examples.matmul:matmul")[0] == 0


def test_file_may_import_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "its_neighbour.py").write_text("import atl\nx = atl.tensor('x', 3)\n", encoding="utf-8")
    target = written(tmp_path, "import atl\nfrom its_neighbour import x\np = atl.program('p', [x], x + 1)\n")
    assert load_program(target).name == "p"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("nowhere.py:p", "the file nowhere.py does not exist"),
        ("no_such_module:p", "no_such_module cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'"),
        (f"{MATMUL}:matmull", "has the programs matmul"),
        (f"{MATMUL}:A", "A in "),
        (f"{HERE / 'atl' / 'errors.py'}:p", "define a program with @atl.program"),
    ],
)
def test_missing_program_is_reported(target: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run_main(capsys, "show", target)
    assert (code, out) == (REFUSED, "")
    assert message in err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("ratio = 1 / 0", "cannot be loaded: ZeroDivisionError: division by zero"),
        ("y = x[0][1]", "a tensor of rank 0"),
    ],
)
def test_error_in_a_user_file_is_reported_with_its_line(
    line: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = written(tmp_path, f"import atl\nn = atl.sizes('n')\nx = atl.tensor('x', n)\n{line}\n")
    code, _, err = run_main(capsys, "show", target)
    assert code == REFUSED
    assert all(part in err for part in (message, f"at {target}:4", line))


def test_unsafe_program_is_shown_and_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "import atl\nn = atl.sizes('n')\nx = atl.tensor('x', n)\nbody = atl.gen(n, lambda i: x[i + 1])\n"
    code, out, err = run_main(capsys, "show", written(tmp_path, f"{text}p = atl.program('p', [x], body)\n"))
    assert code == REFUSED
    assert "⊞[i < n] x[i + 1]" in out
    assert "each proved" not in out
    assert "goes out of bounds [ATL301]" in err


def test_run_reads_and_writes_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.arange(5.0)
    np.save(tmp_path / "x.npy", x)
    out = tmp_path / "sums.npy"
    code, printed, _ = run_main(capsys, "run", WINDOWS, f"x={tmp_path / 'x.npy'}", "k=2", "-o", str(out))
    assert code == 0
    assert "float64 of shape (5,)" in printed
    assert np.array_equal(np.load(out), [0, 1, 3, 5, 7])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sums.npy", "x.npy"]


def test_run_prints_a_result_without_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.ones(3))
    assert run_main(capsys, "run", WINDOWS, f"x={tmp_path / 'x.npy'}", "k=3")[1] == "[1. 2. 3.]\n"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["x=x.npy"], "no array determines the size k"),
        (["x=x.npy", "k"], "'k' is not an argument"),
        (["x=x.npy", "k=two"], "k=two is not an integer"),
        (["x=x.npy", "k=0"], "violate an assumption"),
        (["x=x.npy", "k=9"], "violate an assumption"),
        (["x=x.npy", "k=1", "k=2"], "k is given twice"),
        (["x=gone.npy", "k=1"], "x=gone.npy cannot be read"),
        (["x=text.npy", "k=1"], "x=text.npy cannot be read"),
        (["x=pickled.npy", "k=1"], "x=pickled.npy cannot be read"),
        (["x=many.npz", "k=1"], "is an archive of arrays: a, b"),
        (["x=single.npy", "k=1"], "the elements of x are float32, not float64"),
        (["k=1"], "missing argument 'x'"),
        (["x=x.npy", "k=1", "q=3"], "has no argument q"),
        (["x=x.npy", "k=1", "-o", "nowhere/out.npy"], "nowhere/out.npy cannot be written"),
    ],
)
def test_run_reports_errors_and_writes_nothing(
    values: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.ones(3))
    np.save("single.npy", np.ones(3, dtype=np.float32))
    np.save("pickled.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez("many.npz", a=np.ones(3), b=np.ones(3))
    Path("text.npy").write_text("1 2 3", encoding="utf-8")
    before = sorted(tmp_path.iterdir())
    code, _, err = run_main(capsys, "run", WINDOWS, *values)
    assert code == REFUSED
    assert message in err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.long
def test_damaged_array_file_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Change each byte of the header and truncate the file there: NumPy evaluates the header."""
    np.save(tmp_path / "x.npy", np.ones(3))
    program = load_program(written(tmp_path, SQUARED))
    whole = (tmp_path / "x.npy").read_bytes()
    damaged = tmp_path / "damaged.npy"
    for at in range(len(whole)):
        for change in (b"\x00", b"(", b"9", b"", None):
            damaged.write_bytes(whole[:at] if change is None else whole[:at] + change + whole[at + 1 :])
            with contextlib.suppress(ATLError):
                parse_values(program, [f"x={damaged}"])
    damaged.write_bytes(whole.replace(b"}", b"]"))
    code, _, err = run_main(capsys, "run", written(tmp_path, SQUARED), f"x={damaged}")
    assert code == 2
    assert "cannot be read" in err
    assert "required: a .npy file with numbers" in err


def squared(tmp_path: Path, capsys: pytest.CaptureFixture[str], out: object) -> tuple[int, str, str]:
    np.save(tmp_path / "x.npy", np.arange(3.0))
    return run_main(capsys, "run", written(tmp_path, SQUARED), f"x={tmp_path / 'x.npy'}", "-o", str(out))


def test_run_writes_to_a_device_and_reports_a_full_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert squared(tmp_path, capsys, "/dev/null")[0] == 0
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    code, _, err = squared(tmp_path, capsys, "/dev/full")
    assert code == 2
    assert "No space left" in err
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)


def test_run_writes_to_a_named_pipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", str(tmp_path / "pipe")], stdout=subprocess.PIPE)
    assert squared(tmp_path, capsys, tmp_path / "pipe")[0] == 0
    read = np.load(BytesIO(reader.communicate()[0]))
    assert read.tolist() == [0, 1, 4]
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_run_follows_links_and_keeps_permissions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "kept.npy").touch(mode=0o600)
    (tmp_path / "kept.npy").chmod(0o640)
    (tmp_path / "link.npy").symlink_to(tmp_path / "kept.npy")
    before = os.umask(0o027)
    try:
        assert squared(tmp_path, capsys, tmp_path / "link.npy")[0] == 0
        assert squared(tmp_path, capsys, tmp_path / "new.npy")[0] == 0
    finally:
        os.umask(before)
    assert (tmp_path / "link.npy").is_symlink()
    assert np.load(tmp_path / "kept.npy").tolist() == [0, 1, 4]
    assert stat.S_IMODE((tmp_path / "kept.npy").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "new.npy").stat().st_mode) == 0o640


def test_fuzz_returns_the_code_of_the_fuzzer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def differential(arguments: list[str]) -> int:
        asked.append(arguments)
        return 1

    monkeypatch.setattr("proofs_tests.programs.differential.main", differential)
    assert run_main(capsys, "fuzz", "diff", "--n", "7", "--seed", "3")[0] == FAILED
    assert run_main(capsys, "fuzz", "diff", "--marked")[0] == FAILED
    assert asked == [["--n", "7", "--seed", "3"], ["--marked"]]


@pytest.mark.parametrize("module", ["attacks.kernel_fuzz", "attacks.prover_fuzz", "inputs.fuzz"])
def test_finding_of_a_fuzzer_is_reproduced_by_its_number(
    module: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[list[int], int]] = []

    def run(numbers: Sequence[int], seed: int, _: object) -> Tally[str]:
        asked.append((list(numbers), seed))
        return Tally(seed, len(numbers))

    what = module.rpartition(".")[2].removesuffix("_fuzz").replace("fuzz", "inputs")
    monkeypatch.setattr(f"proofs_tests.{module}.run_{what}", run)
    assert run_main(capsys, "fuzz", what, "--seed", "3", "--only", "7")[0] == 0
    assert run_main(capsys, "fuzz", what)[0] == 0
    assert asked == [([7], 3), (list(range(1000)), 0)]


def test_main_without_a_command_prints_help(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run_main(capsys)
    assert code == 0
    assert all(each.name in out for each in COMMANDS)


def test_interrupt_ends_with_130(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(target: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("atl.files.programs.load_program", interrupted)
    assert run_main(capsys, "show", "anything") == (130, "", "atl: interrupted\n")


def as_command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "atl", *arguments],
        cwd=HERE,
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, **environment},
        check=False,
    )


def test_python_m_atl_is_the_command() -> None:
    assert as_command("--version").stdout.startswith("atl ")


def test_terminal_without_unicode_gets_ascii() -> None:
    shown = as_command("show", MATMUL, PYTHONIOENCODING="ascii")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "gen[i < n] gen[j < m] sum[p < k] A[i, p] * B[p, j]" in shown.stdout


@pytest.mark.long
def test_closed_pipe_is_not_an_error() -> None:
    command = f"{sys.executable} -m atl show {MATMUL} --nest --c | head -n 1"
    done = subprocess.run(command, shell=True, cwd=HERE, capture_output=True, encoding="utf-8", check=False)
    assert done.stderr == ""


@pytest.mark.long
def test_derive_writes_a_schedule_its_proof_and_a_picture(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    proof, picture = str(tmp_path / "proof.atl.json"), str(tmp_path / "graph.svg")
    asked = ("--auto", "--limit", "120", "--size", "n=64", "--tiles", "4,8", "-o", proof, "--picture", picture)
    code, out, err = run_main(capsys, "derive", MATMUL, *asked)
    assert code == 0
    assert "⊞[i < n] Σ[p < k] ⊞[j < m] A[i, p] * B[p, j]" in out
    assert "node limit" in out
    assert "after 1 rounds" in err
    assert Path(picture).read_text(encoding="utf-8").startswith("<svg")
    assert run_main(capsys, "check", proof)[0] == 0


@pytest.mark.long
def test_unwritable_picture_does_not_lose_the_schedule(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    proof, picture = str(tmp_path / "proof.atl.json"), str(tmp_path / "no" / "graph.svg")
    code, out, err = run_main(capsys, "derive", MATMUL, "--auto", "--limit", "120", "-o", proof, "--picture", picture)
    assert code != 0
    assert "⊞[i < n]" in out
    assert "cannot be written" in err
    assert run_main(capsys, "check", proof)[0] == 0


@pytest.mark.parametrize("asked", [("--size", "n=x"), ("--size", "q=3"), ("--tiles", "8,"), ("--cost", "money")])
def test_derive_refuses_invalid_options(capsys: pytest.CaptureFixture[str], asked: tuple[str, str]) -> None:
    code, out, err = run_main(capsys, "derive", MATMUL, "--auto", *asked)
    assert (code, out) == (REFUSED, "")
    assert "required:" in err


def test_rule_is_shown_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run_main(capsys, "rules", "get_gen", "guard_true")
    assert code == 0
    assert "get_gen (access, §4.2.1): Reading an element in the range of a generation" in out
    assert "    (⊞[lo <= i < hi] e(i))[k]  =  e(lo + k)\n" in out
    assert "  e: a tensor, as a function of an index\n  k: an index\n" in out
    assert "  premise: 0 <= k\n  premise: lo + k < hi\n" in out
    assert "    [p] · e  =  e\n  p: a condition\n  e: a tensor\n  premise: p\n" in out


@pytest.mark.long
def test_every_rule_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run_main(capsys, "rules")
    assert code == 0
    names = [line.split()[-1] for line in (line[:41] for line in out.split("\n")) if line.strip()]
    code, shown, _ = run_main(capsys, "rules", *rules)
    assert code == 0
    assert len(names) == shown.count("  =  ") == len(rules)


def test_unknown_rule_suggests_a_similar_one(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run_main(capsys, "rules", "get_gne")
    assert code == REFUSED
    assert "did you mean get_gen" in err
