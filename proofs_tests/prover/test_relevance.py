"""Relevance filter: irrelevant facts do not slow a query down."""

from __future__ import annotations

import pytest

import atl
from atl import IndexExpr, Program
from atl.core.index import ZERO, Array, Index, Read, Var, index, size
from atl.core.predicate import at_most, equal, less, negation, within
from atl.prove import Facts, Proved, Refuted, forget, prove, statistics
from atl.prove.facts import has_only_non_negative_terms
from atl.prove.rows import _Lines
from atl.prove.steps import relevant
from lowering import lower

n = size("n")
i, j = (index(Var(uid, name)) for uid, name in enumerate("ij", 1))
EVEN = [less(i % d, index(d - 1)) for d in range(2, 30, 2)]
ODD = [negation(equal((i // d) % 3, index(1))) for d in range(3, 30, 2)]
INSIDE = Facts().assume(within(ZERO, i, n))


def nested(depth: int) -> Program:
    """Return nested guards, each with its own quotient and remainder."""
    x = atl.tensor("x", atl.sizes("n"))

    def element(k: IndexExpr) -> atl.Tensor:
        inside = x[k]
        for d in range(2, depth + 2):
            inside = atl.guard((k // d) % 3 != 1 if d % 2 else k % d < d - 1, inside)
        return inside

    return atl.program("nested", [x], atl.gen(atl.sizes("n"), element))


def test_nested_guards_are_decided_independently(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0
    eliminate = _Lines.eliminate

    def counted(*arguments: object) -> bool:
        nonlocal steps
        steps += 1
        return eliminate(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(_Lines, "eliminate", counted)
    forget()
    lower(nested(40))
    assert 0 < steps < 6_000, "59,000 if every query uses all facts"


def test_facts_about_other_quotients_are_dropped() -> None:
    facts = INSIDE.assume(*EVEN, *ODD)
    assert relevant(facts, less(i, n + 1)).predicates == INSIDE.predicates
    assert relevant(facts, less(i // 4, n)).predicates == (*INSIDE.predicates, EVEN[1])
    # i // 9 occurs in the conditions for 3, 9 and 27.
    assert relevant(facts, less(i // 9, n)).predicates == (*INSIDE.predicates, ODD[0], ODD[3], ODD[12])


def test_few_facts_are_all_kept() -> None:
    facts = INSIDE.assume(*EVEN[:5])
    assert relevant(facts, less(i, n)) is facts


def test_facts_that_bound_other_variables_are_kept() -> None:
    bounding = (less(i // 64, n // 64), at_most(j, i // 128), equal(i % 256, ZERO), less(i // n, j))
    facts = INSIDE.assume(*EVEN, *bounding)
    assert relevant(facts, less(i, n)).predicates == (*INSIDE.predicates, *bounding)
    assert isinstance(prove(facts, less(i, n), thorough=False), Proved)
    assert isinstance(prove(facts, at_most(j, n), thorough=False), Proved)


def test_dropped_facts_prevent_refutation() -> None:
    # i = 1 violates i % 2 < 1, a fact that the quick query drops.
    facts = Facts().assume(within(ZERO, i, index(2)), *EVEN)
    assert not isinstance(prove(facts, less(i, ZERO), thorough=False), Proved)
    answer = prove(facts, equal(i, ZERO))
    assert isinstance(answer, Proved)
    quick = prove(facts, at_most(i, ZERO), thorough=False)
    assert not isinstance(quick, Refuted)


def element(low: Index | None) -> Index:
    """Return the element at i of an array with the declared minimum `low`."""
    return index(Read(Array("crd", (n,), "int32", low=low), (i,)))


def test_natural_sum_is_proved_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atl.prove.prover._Query._divided_out", lambda *_, **__: pytest.fail("a slow layer was used"))
    forget()
    before = statistics.snapshot()
    facts = INSIDE.assume(*EVEN, at_most(ZERO, j))
    assert prove(facts, at_most(ZERO, 4 * j * n + element(ZERO) + 1)) == Proved("linear")
    assert statistics.since(before).z3 == 0


def test_possibly_negative_sum_is_not_natural() -> None:
    facts = INSIDE.assume(at_most(index(-1), j))
    assert has_only_non_negative_terms(facts, n * i + element(ZERO) + element(n) + 2)
    for wrong in (j, i - n, -element(ZERO), element(None), element(index(-1)), i - 1, n * j):
        assert not has_only_non_negative_terms(facts, wrong)
        assert not isinstance(prove(facts, at_most(ZERO, wrong)), Proved)
