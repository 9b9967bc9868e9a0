"""Random merges and runs: the reference, the loop-nest interpreter and sanitized C agree."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import pytest

import lowering.c.loops
from lowering.targets.capabilities import marked_binders
from proofs_tests.compilers import lacking
from proofs_tests.nests.co_iteration.programs import merge_case, nested_case, runs_case
from proofs_tests.programs.agreement import Expected, compiled, expected, interpreted, own_cache
from proofs_tests.programs.choices import Seeded
from proofs_tests.programs.random_marks import lowered
from proofs_tests.sampling import few_and_rest

TRIED = 9
pytestmark = pytest.mark.skipif(bool(lacking("sanitizers")), reason=lacking("sanitizers"))


@cache
def walks(numbers: range) -> tuple[Expected, ...]:
    """Return the expected results of random merges and runs with legal marks."""
    found = []
    for number in numbers:
        for make in (merge_case, nested_case, runs_case):
            drawn = make(Seeded.by(f"agreement:{make.__name__}:{number}"))
            program, nest = lowered(drawn.program)
            wanted = expected(replace(drawn, program=program), nest) if marked_binders(program) else None
            if isinstance(wanted, Expected):
                found.append(wanted)
    return tuple(found)


@pytest.mark.parametrize("numbers", few_and_rest(TRIED))
def test_random_merges_and_runs_agree(numbers: range) -> None:
    kinds = Counter(marked_binders(wanted.case.program)[0].mark.value for wanted in walks(numbers))
    assert min(kinds["merge"], kinds["runs"]) > len(numbers) / 4
    assert [fault for wanted in walks(numbers) if (fault := interpreted(wanted)) is not None] == []
    with own_cache():
        assert [fault for fault in compiled(walks(numbers)) if fault is not None] == []


@pytest.mark.long
def test_merge_that_reads_one_position_too_far_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    original = lowering.c.loops._merge_loop

    def too_far(*arguments: object) -> list[str]:
        first, *lines = original(*arguments)  # type: ignore[arg-type]
        return [first.replace(" < ", " <= "), *lines]

    monkeypatch.setattr(lowering.c.loops, "_merge_loop", too_far)
    merges = [w for w in walks(range(TRIED)) if marked_binders(w.case.program)[0].mark.value == "merge"]
    with own_cache():
        faults = [fault for fault in compiled(merges[:4]) if fault is not None]
    assert any(fault.is_report for fault in faults)
