"""Random programs through the search; planted faults in the search are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import atl
from atl.core.program import Program
from atl.core.traversal import children
from atl.errors import ATLError
from proofs_tests.sampling import few_and_rest
from proofs_tests.search import fuzz as search_fuzz
from rewrites import reschedule
from rewrites.egraph import Limit, saturate
from rewrites.egraph import terms as egraph_terms
from rewrites.egraph.contexts import Context, Contexts
from rewrites.egraph.terms import Terms, label

SMALL = Limit(nodes=900, rounds=5)


@pytest.mark.long
@pytest.mark.parametrize("numbers", few_and_rest(10))
def test_random_programs_keep_values_with_proof(numbers: range) -> None:
    report = search_fuzz.run(numbers, seed=3)
    assert report.findings == []
    assert report.outcomes["proved"] >= len(numbers) // 6  # about one in four programs has a proved alternative


def test_exclusive_or_of_a_constant_and_an_index_has_a_price() -> None:
    assert search_fuzz.run(range(14, 15), seed=4).findings == []


@pytest.mark.long
def test_search_undoes_random_expensive_steps() -> None:
    back, lost = search_fuzz.recovered(3, seed=0)
    assert back == 3, lost


@pytest.mark.slow
def test_search_recovers_nine_of_ten_expensive_programs() -> None:
    back, _ = search_fuzz.recovered(200, seed=1)
    assert back >= 180


@pytest.mark.slow
def test_thousand_random_programs_keep_values_with_proof() -> None:
    report = search_fuzz.run(range(1_700), seed=1)
    assert report.findings == []
    assert len(report.times) >= 1_000


def _nested_guards() -> Program:
    n = atl.sizes("n")
    f, h = atl.tensor("f", n), atl.tensor("h", n)

    def bound(i: Any) -> Any:
        return atl.let(h[i] * f[i], lambda x: atl.guard(i >= 1, x) + x)

    body = atl.gen(n, lambda i: atl.guard(i >= 1, bound(i)) + bound(i))
    return atl.program("guards", [f, h], body)


def _folded() -> Program:
    n = atl.sizes("n", min=1)
    x = atl.tensor("x", n, n)
    body = atl.gen(n, lambda i: atl.reduce("max", n, lambda k: atl.gen(n, lambda j: x[k, j])[i + 1 - 1 * (i // n)]))
    return atl.program("folded", [x], body)


def _refused(program: Program) -> list[str]:
    """Return the errors that kernel and checks find in the results of a search."""
    s = reschedule(program)
    found = saturate(program, limit=SMALL)
    refused = []
    for choice in found.best(k=8, cost="code size"):
        try:
            choice.proved(s.begin)
        except ATLError as error:
            refused.append(error.code)
    return refused


def _without_guards(patch: pytest.MonkeyPatch) -> None:
    """Ignore guards when comparing places."""
    first = dict[object, int]()

    def place(_: Terms, at: Context) -> int:
        return first.setdefault((at.loops, at.tensors, at.folded), at.number)

    patch.setattr(Terms, "_context_key", place)


def _without_folds(patch: pytest.MonkeyPatch) -> None:
    """Ignore folds."""
    patch.setattr(Contexts, "_folding", lambda _, at, __, ___: at)


def _without_types(patch: pytest.MonkeyPatch) -> None:
    """Ignore types of parts when comparing nodes."""
    patch.setattr(egraph_terms, "label", lambda term: label(term)[: len(label(term)) - len(children(term))])


def _two_extents() -> Program:
    n = atl.sizes("n")
    x, y = atl.tensor("x", n + 1), atl.tensor("y", n)
    return atl.program("two", [x, y], atl.gen(n, lambda i: x[i + 1] + y[i + 1]))


@pytest.mark.long
@pytest.mark.parametrize(
    ("leave_out", "program", "codes"),
    [
        pytest.param(_without_guards, _nested_guards(), {"ATL701", "ATL702"}, id="guards"),
        pytest.param(_without_folds, _folded(), {"ATL702"}, id="folds"),
        pytest.param(_without_types, _two_extents(), {"ATL301"}, id="types"),
    ],
)
def test_planted_faults_of_the_search_are_caught(
    leave_out: Callable[[pytest.MonkeyPatch], None], program: Program, codes: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _refused(program) == []
    leave_out(monkeypatch)
    refused = _refused(program)
    assert refused
    assert set(refused) <= codes
