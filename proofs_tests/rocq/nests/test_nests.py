"""Exported loop nests are well-formed, and unprovable nests are refused; no Rocq needed."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import atl
from atl.cli import main as command_line
from atl.core.index import index
from atl.errors import InvalidArgument
from examples import derivations
from examples.schedules import matmul
from lowering import lower
from lowering.nest.loopnest import Allocate, Assign, Buffer, Cell, Clear, For, Free, Load, LoopNest, Number
from proofs_tests.rocq.nests import assembled, checked
from proofs_tests.rocq.nests.faults import FAULTS, nests, wrong_nests
from rewrites.kernel import reflexivity
from rewrites.rocq import coqc
from rewrites.rocq.certificates import Derivation, derivation
from rewrites.rocq.nests.kernels import text_by_theorem, text_of, texts_of

n, m = atl.sizes("n m")
x, y = atl.tensor("x", n), atl.tensor("y", m)


def text(program: atl.Program) -> str:
    return text_of(derivation(reflexivity(program)), lower(program))


def test_file_states_safety_and_correctness_of_the_nest() -> None:
    theorem = derivations.pipeline_fused().done()
    file = text_of(derivation(theorem), lower(theorem.rhs))
    assert "Theorem certified" in file
    assert "Definition nest : statement" in file
    assert re.search(r"Lemma nest_safe : safe \(only \d+ \(n'::nil\)\) nest\.", file)
    text = file[file.index("Theorem lowered") : file.index("Proof.", file.index("Theorem lowered"))]
    assert "nest /\\" in text
    assert re.search(r"run nest s \d+ \(p''0::nil\) = program_0 \(p''0::nil\)", text)
    assert "Print Assumptions certified.\nPrint Assumptions lowered." in file
    assert "Admitted" not in file


def test_statements_print_declared_and_address_extents() -> None:
    file = text(matmul.naive())
    nest = file[file.index("Definition nest") : file.index("Lemma nest_safe")]
    assert nest.count("(For ") == 3
    assert "(Element m1' (M'::K'::nil) (M'::K'::nil)" in nest
    assert nest.count("(") == nest.count(")")


def test_uninitialised_storage_is_arbitrary() -> None:
    file = text(derivations.pipeline())
    garbage = re.findall(r"Variable (garbage''\d+) : tensor\.", file)
    assert len(garbage) == 2  # before the first store, and after the storage is freed
    assert all(file.count(name) > 1 for name in garbage)


def test_partially_stored_output_is_zeroed() -> None:
    file = text(atl.program("shift", [x], atl.gen(n, lambda i: atl.guard(i >= 2, x[i - 2]))))
    assert re.search(
        r"Definition nest : statement :=\n\(Then \(Storage \d+ \(n'::nil\) n' \(Own n'\) \(fun _ => zero\)\)", file
    )


def test_elements_read_as_indices_are_checked() -> None:
    at = atl.tensor("at", n, dtype="int64", range=(0, m))
    file = text(atl.program("gather", [at, y], atl.gen(n, lambda i: y[at[i]])))
    assert re.search(r"\(Then \(Look \(n'::nil\) \(i'\d+::nil\)\)\n\(Assign ", file)


def test_unsupported_nests_are_refused_with_a_message() -> None:
    highest = atl.program("highest", [x], atl.reduce("max", n, lambda i: x[i]))
    with pytest.raises(InvalidArgument, match="-inf cannot be written in Rocq"):
        text(highest)
    shared = atl.let(
        atl.gen(n, lambda i: x[i] * 2),
        lambda a: atl.let(atl.gen(n, lambda i: a[i] + 1), lambda b: atl.gen(n, lambda i: a[i] * b[i])),
    )
    with pytest.raises(InvalidArgument, match="shares the storage of"):
        text(atl.program("shared", [x], shared))


def test_arrays_have_the_declared_extents() -> None:
    a = atl.tensor("a", n, m)
    program = atl.program("copy", [a], atl.gen(n, m, lambda i, j: a[i, j]))
    nest = lower(program)
    (outer,) = nest.body
    assert isinstance(outer, For)
    (inner,) = outer.body
    assert isinstance(inner, For)
    (store,) = inner.body
    assert isinstance(store, Assign)
    assert isinstance(store.value, Load)
    assert isinstance(store.value.source, Cell)
    source = store.value.source
    wider = (source.buffer.extents[0], source.buffer.extents[1] + 1)
    moved = Cell(
        replace(source.buffer, extents=wider), tuple((at, e) for (at, _), e in zip(source.pairs, wider, strict=True))
    )
    wrong = replace(outer, body=(replace(inner, body=(replace(store, value=Load(moved)),)),))
    file = text_of(derivation(reflexivity(program)), replace(nest, body=(wrong,)))
    assert "(Element a' (n'::m'::nil) (n'::(m' + 1)::nil)" in file


def test_statements_of_the_wrong_rank_are_refused() -> None:
    program = atl.program("double", [x], atl.gen(n, lambda i: 2 * x[i]))
    nest = lower(program)
    assert nest.complete
    given = Buffer(0, "x", "float32", nest.output.extents, "input")
    first = Cell(given, ((index(0), nest.output.extents[0]),))
    alone = Buffer(900, "alone", "float32", ())
    for statement, why in (
        (Assign(first, Number(5, "float32")), "a store to the input x"),
        (Free(given), "x, which is not a local tensor"),
        (Assign(Cell(alone, ()), Number(5, "float32")), "alone is a buffer of rank 0"),
        (Clear(Buffer(901, "late", "float32", nest.output.extents), index(1)), "late is cleared but never allocated"),
        (
            Allocate(Buffer(nest.output.uid, "t", "float32", nest.output.extents), index(1)),
            "t and out have the same id",
        ),
    ):
        with pytest.raises(InvalidArgument, match=why):
            text_of(derivation(reflexivity(program)), replace(nest, body=(statement, *nest.body)))
    with pytest.raises(InvalidArgument, match="out holds int8"):
        text_of(derivation(reflexivity(program)), replace(nest, body=(), output=replace(nest.output, dtype="int8")))


def test_ends_of_rows_of_assembled_results_are_printed_and_proved() -> None:
    file = text(assembled.matrix())
    assert re.search(r"\(Gather \d+ \(Some i'\d+\)\)", file)
    assert re.search(r"Lemma nest_ends : match nest with Then _ c => ends \d+ 0 2 0 n' c", file)
    stated = file[file.index("Theorem assembles") : file.index("Proof.", file.index("Theorem assembles"))]
    assert "NoDup" in stated
    assert "by_rows" in stated
    assert re.search(r"decompressed 0 \(assembled \d+ nest s\) n' \(p''0::p''1::nil\) = program_0", stated)
    assert "Print Assumptions assembles." in file


def test_rows_of_columns_and_counted_rows_are_printed() -> None:
    counted = text(assembled.matrix(atl.CSC))
    assert re.search(r"\(Gather \d+ None\)", counted)
    assert re.search(r"ends_last \d+ 1 2 c", counted)
    assert "by_rows" not in counted


@pytest.mark.long
def test_each_fault_in_rows_changes_the_nest() -> None:
    faults = list(assembled.wrong())
    assert len(faults) >= 17
    assert all(wrong.body != lower(program).body for _, program, wrong in faults)


@pytest.mark.long
def test_each_fault_is_planted_somewhere_and_changes_the_nest() -> None:
    planted = list(wrong_nests())
    assert len(planted) >= 40
    assert {name.partition(": ")[2] for name in (each.name for each in planted)} >= set(FAULTS)
    whole = {text_of(derivation(reflexivity(program)), nest) for program, nest in nests()}
    assert not whole & {each.text for each in planted}


def _between(file: str, start: str, end: str) -> str:
    return file[file.index(start) : file.index(end, file.index(start))]


def _libraries(derived: Derivation, nest: LoopNest) -> list[str]:
    return [file.partition(".")[0].removeprefix("Require Import ") for file in texts_of(derived, nest)]


def test_both_proofs_state_the_same_theorem_about_the_same_stores() -> None:
    for program in (matmul.naive(), derivations.pipeline()):
        derived, nest = derivation(reflexivity(program)), lower(program)
        files = text_by_theorem(derived, nest), text_of(derived, nest)
        first, second = (_between(file, "Theorem lowered", "Proof.") for file in files)
        assert first == second
        first, second = (_between(file, "Definition nest", "\n\n") for file in files)
        stores = re.findall(r"\((?:Assign|Accumulate) [^\n]*? \((?:Load|Number|Element|Of_\w+) \S*", first)
        assert stores
        assert stores == re.findall(r"\((?:Assign|Accumulate) [^\n]*? \((?:Load|Number|Element|Of_\w+) \S*", second)
        assert _libraries(derived, nest) == ["Lowering", "Storing"]


def test_term_contains_the_choices_of_lowering() -> None:
    file = text_by_theorem(derivation(reflexivity(matmul.naive())), lower(matmul.naive()))
    assert re.search(r"\(Sum \(Some \d+\) 0 K' \(fun k'\d+ =>\n\(Leaf \(Binary mul", file)
    rows = atl.tensor("A", n, m)

    def row(i: atl.IndexExpr) -> atl.Tensor:
        return atl.let(atl.gen(m, lambda j: rows[i, j]), lambda t: atl.gen(m, lambda j: t[m - 1 - j]))

    program = atl.program("reversed", [rows], atl.gen(n, row))
    file = text_by_theorem(derivation(reflexivity(program)), lower(program))
    assert re.search(r"\(Reserve \(-\d+\) m' ", file)
    assert re.search(r"\(Bind \d+ \(m'::nil\) \(Hoisted false m' \(-\d+\) m' ", file)


def test_nests_outside_of_the_core_language_need_their_own_proof() -> None:
    at = atl.tensor("at", n, dtype="int64", range=(0, m))
    read = atl.program("gather", [at, y], atl.gen(n, lambda i: y[at[i]]))
    padded = atl.program("padded", [x], atl.padl(3, atl.gen(n, lambda i: x[i])))
    for program in (read, padded, assembled.matrix()):
        derived, nest = derivation(reflexivity(program)), lower(program)
        with pytest.raises(InvalidArgument, match="not in the core language"):
            text_by_theorem(derived, nest)
        assert "Lowering" not in _libraries(derived, nest)


def test_checked_nests_start_from_the_original_program() -> None:
    assert {"product", "product in tiles", "product in tiles with tails", "pipeline fused", "blur fused"} <= set(
        checked.NESTS
    )


def test_certify_includes_the_nest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coqc, "found", lambda: None)
    file = tmp_path / "fused.atl.json"
    derivations.pipeline_fused().done().save(file)
    assert command_line(["certify", "--nest", str(file)]) == 0
    assert "the theorem `lowered`" in capsys.readouterr().out
    assert "Theorem lowered" in (tmp_path / "fused.v").read_text()


def test_certify_exports_the_nest_of_a_strict_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coqc, "found", lambda: None)
    file = tmp_path / "gathered.atl.json"
    reflexivity(derivations.scatter_to_gather().done().rhs).save(file)
    for option, additions in (("--nest", 1), ("--strict", 2)):
        assert command_line(["certify", option, str(file)]) == 0
        written = (tmp_path / "gathered.v").read_text()
        assert "Theorem lowered" in written
        assert written.count("(Accumulate add") == additions


def test_certify_proves_the_nest_itself_if_the_theorem_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def check(name: str, text: str, library: Path, limit: float = coqc.LIMIT) -> coqc.Answer:
        tried.append(text.partition(".")[0])
        return coqc.Answer("", 1.0, 1 if len(tried) < accepted else None)

    monkeypatch.setattr(coqc, "found", lambda: "coqc")
    monkeypatch.setattr(coqc, "library", lambda: tmp_path)
    monkeypatch.setattr(coqc, "check", check)
    file = tmp_path / "fused.atl.json"
    derivations.pipeline_fused().done().save(file)
    libraries = ["Require Import Lowering", "Require Import Storing"]
    for accepted, code in ((1, 0), (2, 0), (3, 1)):
        tried.clear()
        assert command_line(["certify", "--nest", str(file)]) == code
        assert tried == libraries[: min(accepted, 2)]
        assert (tmp_path / "fused.v").read_text().startswith(tried[-1])
    assert "Rocq refused the proof" in capsys.readouterr().out
