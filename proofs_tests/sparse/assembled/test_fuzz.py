"""Random assembled results are correct, and planted faults are detected."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from atl.core.index import index
from lowering import lower as _lower  # noqa: F401 (loads the package before its modules are patched)
from lowering.c import assembly, loops
from lowering.lower import _Lowering
from lowering.nest import loopnest as ln
from lowering.passes import assembly as rows
from lowering.passes import workspaces
from proofs_tests.crashes import in_child
from proofs_tests.sampling import few_and_rest
from proofs_tests.sparse.assembled import fuzz
from proofs_tests.sparse.assembled.formulas import FORMULAS, kernel_for
from sparse import COO, CSC, CSR

OF = {formula.name: formula for formula in FORMULAS}


@pytest.mark.parametrize("blocks", few_and_rest(len(FORMULAS)))
def test_random_results_are_correct(blocks: range) -> None:
    report = fuzz.run_assembled([block * fuzz.BLOCK + call for block in blocks for call in range(8)], 3)
    assert report.findings == []
    assert "entries" not in str(report)


@pytest.fixture
def fresh_kernels() -> Iterator[None]:
    """Compile kernels with a planted fault, and drop them afterwards."""
    kernel_for.cache_clear()
    yield
    kernel_for.cache_clear()


def _replacing(original: Callable[..., Any], old: str, new: str) -> Callable[..., Any]:
    """Return the printing function with a fault in its text."""

    def printed(*arguments: Any) -> Any:
        lines = original(*arguments)
        assert isinstance(lines, list)
        return [line.replace(old, new) for line in lines]

    return printed


FAULTS = {
    "a bit is not cleared": ("A B", CSR.sorted(), "_from_bits", "_bits[word] = 0;", "_bits[word] = 1;"),
    "an outdated position is used": ("A B", CSR, "_placed", "< first", "< 0"),
    "a column is out of order": ("A B", CSR.sorted(), "_from_bits", "64 * group + ", "64 * group + 63 - "),
    "a count forgets a row": ("A transposed", CSR, "_count", " + 2]++;", " + 2] += p % 2;"),
    "two entries are not merged": ("A", CSC, "_combined", "== out_crd[at]", "== -1"),
    "the bound of a row is wrong": ("A B", CSR, "gather", "done = i + 1;", "done = i + (i < 1);"),
    "equal columns of a union are subtracted": ("A + B", CSR.sorted(), "union", "A_val[p] + ", "A_val[p] - "),
    "a count of adjacent segments forgets a store": ("A", CSC, "coalesced_count", "+ 2]++", "+ 2] += p != 1"),
    "a bit of a parallel row is not counted": ("A B in parallel", CSR, "_from_bits", "+= __b", "+= 1 + __b"),
    "a parallel row begins too early": ("A B in parallel", CSR, "_begin_parallel_row", "_pos[i]", "_pos[i - (i > 1)]"),
}


@pytest.mark.usefixtures("fresh_kernels")
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_in_the_text_are_detected(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, result, function, old, new = FAULTS[fault]
    monkeypatch.setattr(assembly, function, _replacing(getattr(assembly, function), old, new))
    assert _finding(name, result, monkeypatch)


@pytest.mark.long
@pytest.mark.usefixtures("fresh_kernels")
def test_a_skip_of_equal_keys_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "_skip", _replacing(loops._skip, "] < ", "] <= "))
    assert _finding("A * B merged", CSR.sorted(), monkeypatch)


@pytest.mark.long
@pytest.mark.usefixtures("fresh_kernels")
def test_a_workspace_that_is_not_emptied_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspaces, "index", lambda variable: index(variable) // 2)
    assert _finding("C * (A B) by rows", CSR.sorted(), monkeypatch)


@pytest.mark.usefixtures("fresh_kernels")
def test_a_row_that_is_repeated_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    original = assembly.row_loop

    def repeating(*arguments: Any) -> Any:
        skipped, first, begins = original(*arguments)
        return [line.replace("_space[0]", "_space[0] - 1") for line in skipped], first, begins

    monkeypatch.setattr(assembly, "row_loop", repeating)
    assert _finding("A B", CSR.sorted(), monkeypatch)


@pytest.mark.usefixtures("fresh_kernels")
@pytest.mark.parametrize("times", [0, 2])
def test_a_row_gathered_twice_or_never_is_detected(times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    original = rows._ended

    def ended(block: ln.Block, ends: dict[int, ln.Gather]) -> ln.Block:
        made = original(block, ends)
        return tuple(
            ln.with_body(each, (*each.body[:-1], *each.body[-1:] * times)) if isinstance(each, ln.For) else each
            for each in made
        )

    monkeypatch.setattr(rows, "_ended", ended)
    assert _finding("A B", CSR.sorted(), monkeypatch)


@pytest.mark.long
@pytest.mark.usefixtures("fresh_kernels")
def test_zeros_stored_for_false_guards_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Lowering, "_stores_each_term", lambda *_: True)
    assert _finding("A * B", CSR.sorted(), monkeypatch)


def _finding(name: str, result: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the first finding of the fuzzer for a formula, or the empty string.

    Some of the faults write out of bounds, so the kernels run in a child process. Those in parallel rows do not, and
    a forked process refuses parallel kernels.
    """
    formats = {"A transposed": (COO,), "A + B": (CSR.sorted(),), "A * B merged": (CSR.sorted(),)}.get(name, (CSR,))
    monkeypatch.setattr(fuzz, "FORMULAS", (replace(OF[name], formats=formats, results=(result,)),))

    def found() -> str:
        return "".join(fuzz.run_assembled(range(4 * fuzz.BLOCK), 3, first=True).findings[:1])

    return found() if "parallel" in name else in_child(found)
