"""Exported certificates are well-formed, and faults change the text; no Rocq needed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

import atl
from atl.cli import main as command_line
from atl.cli.certify import default_output, refusal
from atl.cli.command import REFUSED
from examples import derivations
from proofs_tests.rocq import refusals
from proofs_tests.rocq.figure import in_recurrences, sessions
from proofs_tests.rocq.test_statements import unbound
from rewrites import reschedule
from rewrites.certificates.certificate import describe
from rewrites.kernel import reflexivity
from rewrites.rocq import coqc
from rewrites.rocq.certificates import Derivation, context, derivation, text_of
from rewrites.rocq.notation import Notation, word


@pytest.fixture(scope="module")
def tiled() -> Derivation:
    return derivation(derivations.pipeline_tiled().done())


def test_file_has_rules_programs_lemmas_and_theorem(tiled: Derivation) -> None:
    text = text_of(tiled)
    used = {step.rule.name for step in tiled.steps}
    assert all(f"Lemma {name} :" in text for name in used)
    assert text.count("Definition program_") == len(tiled.programs) == len(tiled.steps) + 1
    assert re.findall(r"Lemma step_(\d+)", text) == [str(k) for k in range(len(tiled.steps))]
    assert "Theorem certified" in text
    assert "Print Assumptions certified." in text


def test_every_name_in_a_program_is_bound(tiled: Derivation) -> None:
    for derived in (tiled, derivation(derivations.blur_two_stage_with_tails().done())):
        for program in derived.programs:
            given = [*map(word, program.sizes), *(word(array.name) for array in program.inputs)]
            assert not unbound(" ".join([*(f"({name} : Z)" for name in given), Notation().term(program.body)]))


def test_declarations_of_sizes_and_arrays_are_hypotheses() -> None:
    n, m = atl.sizes("n m", min=1)
    at = atl.tensor("at", n, dtype="int64", range=(0, m), monotonic="increasing")
    x = atl.tensor("x", m)
    program = atl.program("gather", [at, x], atl.gen(n, lambda i: x[at[i]]))
    given = list(context([program]))
    assert "Variable at' : list Z -> Z." in given
    assert "Variable x' : tensor." in given
    assert "Hypothesis n'natural : 0 <= n'." in given
    assert sum("at'fact" in line for line in given) == 3
    assert "forall p''0 : Z, 0 <= p''0 < n' -> at' (p''0::nil) < m'." in " ".join(given)


def test_theorem_without_steps_is_exported() -> None:
    n = atl.sizes("n")
    x = atl.tensor("x", n)
    text = text_of(derivation(reflexivity(atl.program("same", [x], atl.gen(n, lambda i: x[i])))))
    assert "Definition program_0" in text
    assert "Lemma step_0" not in text


@pytest.mark.long
def test_each_fault_changes_the_file() -> None:
    sound = (derivations.pipeline_tiled(), derivations.pipeline_split())
    whole = {text_of(derivation(session.done()), refusals.SECONDS_EACH) for session in sound}
    faults = dict(refusals.wrong_certificates())
    assert len(faults) >= 10
    assert not whole & set(faults.values())
    assert len(set(faults.values())) == len(faults)


def test_all_derivations_of_the_figure_are_checked() -> None:
    assert len(sessions()) == 13


OF_ROWS = ("strips", "blocks")


@pytest.mark.parametrize("name", OF_ROWS)
def test_step_on_rows_of_a_recurrence_needs_that_it_reads_earlier_ones(name: str) -> None:
    text = text_of(derivation(in_recurrences()[name]().done()))
    assert f"Lemma rec_{name}" in text
    assert "reads_before" in text


@pytest.mark.parametrize("name", [name for name in in_recurrences() if name not in OF_ROWS])
def test_steps_inside_recurrences_go_down_by_congruence(name: str) -> None:
    text = text_of(derivation(in_recurrences()[name]().done()))
    lemma = "down_rec_first" if name == "first_rows" else "down_rec"
    assert f"apply ({lemma} " in text


def test_certificate_is_exported_without_rocq(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coqc, "found", lambda: None)
    file = tmp_path / "fused-pipeline.atl.json"
    derivations.pipeline_fused().done().save(file)
    assert command_line(["certify", str(file)]) == 0
    said = capsys.readouterr()
    assert "3 steps as lemmas" in said.out
    assert "apt-get install coq" in said.err
    assert "Theorem certified" in (tmp_path / "fused_pipeline.v").read_text()
    assert default_output(Path("3 × 3.json")).name == "_3___3.v"


def test_certify_does_not_overwrite_certificates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "fused.atl.json"
    derivations.pipeline_fused().done().save(file)
    before = file.read_text()
    for out in (file, tmp_path / "with space.v", tmp_path / "Meaning.v", tmp_path / "missing" / "fused.v"):
        assert command_line(["certify", str(file), "--out", str(out)]) == REFUSED
        said = capsys.readouterr().err
        assert "is not a usable name for a Rocq file" in said or "cannot be written" in said
    assert file.read_text() == before


def test_exporter_names_do_not_shadow_program_names() -> None:
    j, q, p, n = atl.sizes("j q p n")
    pos = atl.tensor("pos", q + 1, dtype="int64", range=(0, j + 1))
    idx = atl.tensor("idx", j, dtype="int64", range=(0, n), monotonic=("increasing", pos))
    at = atl.tensor("at", j, p)
    body = atl.gen(j, lambda p: atl.gen(n, lambda q: at[p, 0]))
    program = atl.program("rows", [pos, idx, at], body, given=[p >= 1])
    file = text_of(derivation(reflexivity(program)))
    bound = re.findall(r"forall ([\w']+) :", file) + re.findall(r"\(([\w']+) : Z\)", file)
    binders = re.findall(r"fun ([\w']+) =>", file)
    assert {"p''0", "p''1", "j''"} <= set(bound)
    assert {"p'1", "q'2"} == set(binders)
    names = {word(name) for name in (*program.sizes, *(array.name for array in program.inputs))}
    assert not names & {*bound, *binders}
    assert not set(bound) & set(binders)


def test_trusted_list_names_rocq_after_a_check() -> None:
    n = atl.sizes("n")
    x = atl.tensor("x", n)
    session = reschedule(atl.program("same", [x], atl.gen(n, lambda i: x[i])))
    session.rw("gen_eta")
    theorem = session.done()
    assert "the prover" in describe(theorem)
    by_rocq = describe(theorem, checked_by_rocq=True).partition("trusting")[2]
    assert "the kernel of Rocq" in by_rocq
    assert "prover" not in by_rocq


def test_row_orders_and_booleans_are_hypotheses() -> None:
    n, k = atl.sizes("n k")
    pos = atl.tensor("pos", n + 1, dtype="int64", range=(0, k + 1), monotonic="nondecreasing")
    idx = atl.tensor("idx", k, dtype="int64", range=(0, n), monotonic=("increasing", pos))
    kept = atl.tensor("kept", n, dtype="bool")
    x = atl.tensor("x", n)
    program = atl.program("some", [pos, idx, kept, x], atl.sum(n, lambda i: atl.guard(kept[i], x[i])))
    given = " ".join(context([program]))
    assert "pos' (p''0::nil) <= pos' (q''::nil)" in given
    assert (
        "pos' (j''::nil) <= p''0 -> p''0 + 1 < pos' (j'' + 1::nil) -> idx' (p''0::nil) < idx' (p''0 + 1::nil)" in given
    )
    assert "Variable kept' : list Z -> Z." in given
    assert "kept' (i'1::nil)" in Notation().term(program.body)


@pytest.fixture
def fused(tmp_path: Path) -> Path:
    file = tmp_path / "fused.atl.json"
    derivations.pipeline_fused().done().save(file)
    return file


def test_files_of_one_name_are_checked_separately(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    read: list[str] = []

    def run(command: list[str], cwd: Path, **_: Any) -> subprocess.CompletedProcess[str]:
        if not read:
            read.append("")
            coqc.check("Certificate", "the other", tmp_path)
        read.append((Path(cwd) / command[-1]).read_text())
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    assert coqc.check("Certificate", "this one", tmp_path).accepted
    assert read == ["", "the other", "this one"]


def test_files_do_not_clash_with_the_library(fused: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert default_output(Path("a/Lemmas.atl.json")) == Path("a/_Lemmas.v")
    assert default_output(Path("my fused.json")) == Path("my_fused.v")
    for name in ("Lemmas.v", "my-own.v"):
        assert command_line(["certify", str(fused), "--out", str(fused.with_name(name))]) == REFUSED
        assert f"{name} is not a usable name for a Rocq file" in capsys.readouterr().err
        assert not fused.with_name(name).exists()


def test_unwritable_path_is_reported(fused: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line(["certify", str(fused), "--out", str(fused.parent / "nowhere" / "x.v")]) == REFUSED
    assert "x.v cannot be written" in capsys.readouterr().err


def test_unprovable_nest_keeps_the_certificate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    n, m = atl.sizes("n m")
    a = atl.tensor("a", n, m)
    largest = atl.program("largest", [a], atl.gen(n, lambda i: atl.reduce("max", m, lambda j: a[i, j])))
    reschedule(largest).tile("i", 8).done().save(tmp_path / "largest.json")
    assert command_line(["certify", "--nest", str(tmp_path / "largest.json")]) == REFUSED
    assert "try: the certificate alone, without --nest" in capsys.readouterr().err


def test_a_refusal_names_the_lemma_and_its_step() -> None:
    text = text_of(derivation(derivations.pipeline_fused().done()))
    line = text[: text.index("Lemma step_1")].count("\n") + 3
    said = refusal(text, coqc.Answer("Error: No applicable tactic.", 2.0, line))
    assert said.startswith("Rocq refused the proof at `step_1` (get_gen, at [0, 0, 0]), line ")
    assert "neither a proof nor a counterexample was found" in said
    assert refusal(text, coqc.Answer("Error: more than 600 s", 600.0, 0)).startswith("Rocq refused the proof, line 0")


def test_trusted_assumptions_are_named_as_in_the_file() -> None:
    theorem = derivations.pipeline_fused().done()
    last = f"program_{len(theorem.steps)}"
    assert f"Definition {last} " in text_of(derivation(theorem))
    assert f"that program_0 and {last} of the Rocq file are these" in describe(theorem, checked_by_rocq=True)


def test_accepted_nest_is_shown_whole(
    fused: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coqc, "found", lambda: "coqc")
    monkeypatch.setattr(coqc, "library", lambda: Path("library"))
    monkeypatch.setattr(coqc, "check", lambda *_: coqc.Answer("", 1.0))
    assert command_line(["certify", "--nest", str(fused)]) == 0
    said = capsys.readouterr().out
    assert "    pipeline(f[n]) -> out[n]\n        for i in 0..n:" in said
    assert "`nest` in the Rocq file is this loop nest" in said
