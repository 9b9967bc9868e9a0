"""Random sparse tensors through all formats and kernels; planted faults are detected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import lowering.c.loops
from proofs_tests.crashes import in_child
from proofs_tests.sampling import few_and_rest
from proofs_tests.sparse.random_tensors import fuzz
from proofs_tests.sparse.random_tensors.formulas import FORMULAS, kernel_for
from sparse import CSR
from sparse.levels import Compressed, Encoded

MERGED = next(formula for formula in FORMULAS if formula.name == "A x merged, x sparse")
"""The formula with the fewest loops around its merge."""


@pytest.fixture
def by_rows_alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restrict the fuzzer to a merge of rows, with a freshly compiled kernel."""
    monkeypatch.setattr(fuzz, "FORMULAS", (replace(MERGED, name="by rows", formats=(CSR.sorted(),), cubes=()),))
    yield
    kernel_for.cache_clear()


@pytest.mark.long
@pytest.mark.parametrize("numbers", few_and_rest(100))
def test_random_tensors_give_correct_results(numbers: range) -> None:
    report = fuzz.run_sparse(numbers, 11)
    assert report.findings == []
    if numbers.start:  # the first range is too short to cover every format
        assert len(report.formats) >= 13
        assert "in disorder" in str(report)
    assert "A v" in str(report)


@pytest.mark.long
def test_random_merges_are_correct_or_refused_as_unsorted() -> None:
    of = {formula.name: at * fuzz.BLOCK for at, formula in enumerate(FORMULAS)}
    begins = (of["A x merged, x sparse"], of["A v in runs"])
    report = fuzz.run_sparse([begin + at for begin in begins for at in range(60)], 5)
    assert report.findings == []
    assert report.refused > 0
    assert {"csr", "csc", "coo", "packed", "dense"} <= set(report.ways)


@pytest.mark.long
def test_wrong_results_are_reported_with_exit_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = replace(FORMULAS[0], meant=lambda a, v: 2.0 * (a @ v))
    monkeypatch.setattr(fuzz, "FORMULAS", (broken,))
    assert fuzz.main(["--n", "60", "--seed", "3"]) == 1
    assert "WRONG" in capsys.readouterr().out


def test_fuzzer_detects_shifted_values(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Compressed.encode

    def shifted(self: Compressed, *arguments: Any, **options: Any) -> Encoded:
        made = original(self, *arguments, **options)
        count = made.metadata.count
        return Encoded(made.metadata, (made.positions + 1) % count if count > 4 else made.positions)

    monkeypatch.setattr(Compressed, "encode", shifted)
    found = _finding(range(250), 11)
    assert "is wrong" in found
    assert "entries [" in found


@pytest.mark.long
@pytest.mark.usefixtures("by_rows_alone")
def test_fuzzer_detects_a_wrong_merge_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def both(positions: list[str], keys: list[tuple[str, ...]], _: list[bool]) -> list[str]:
        (p, q), (a, b) = positions, keys
        return [f"{p}++;", f"{q} += {lowering.c.loops._less(b, a, or_equal=True)};"]

    monkeypatch.setattr(lowering.c.loops, "_two_steps", both)
    assert "is wrong" in _finding(range(100), 5)


@pytest.mark.long
@pytest.mark.usefixtures("by_rows_alone")
def test_fuzzer_detects_an_unnecessary_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "is_sorted", lambda _: False)
    report = fuzz.run_sparse(range(100), 5, first=True)
    assert "DID NOT RAISE" in report.findings[0]


def _finding(numbers: range, seed: int) -> str:
    """Return the first finding of the fuzzer in a child process, because kernels may access memory out of bounds."""
    return in_child(lambda: "".join(fuzz.run_sparse(numbers, seed, first=True).findings[:1]))
