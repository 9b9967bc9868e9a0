"""Many facts that have nothing to do with a question do not make it slow."""

from __future__ import annotations

import pytest

import atl
from atl import IndexExpr, Program
from atl.core.index import ZERO, Array, Index, Read, Var, index, size
from atl.core.predicate import at_most, equal, less, negation, within
from atl.prove import Facts, Proved, Refuted, forget, prove, statistics
from atl.prove.facts import has_only_non_negative_terms
from atl.prove.linear.elimination import _Lines
from atl.prove.relevance import relevant
from lowering import lower

n = size("n")
i, j = (index(Var(uid, name)) for uid, name in enumerate("ij", 1))
EVEN = [less(i % d, index(d - 1)) for d in range(2, 30, 2)]
ODD = [negation(equal((i // d) % 3, index(1))) for d in range(3, 30, 2)]
INSIDE = Facts().assume(within(ZERO, i, n))


def nested(depth: int) -> Program:
    """As many guards, one in the other, each about a quotient and a remainder of its own."""
    x = atl.tensor("x", atl.sizes("n"))

    def element(k: IndexExpr) -> atl.Tensor:
        inside = x[k]
        for d in range(2, depth + 2):
            inside = atl.guard((k // d) % 3 != 1 if d % 2 else k % d < d - 1, inside)
        return inside

    return atl.program("nested", [x], atl.gen(atl.sizes("n"), element))


def test_each_of_forty_nested_guards_is_decided_without_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0
    eliminate = _Lines.eliminate

    def counted(*arguments: object) -> bool:
        nonlocal steps
        steps += 1
        return eliminate(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(_Lines, "eliminate", counted)
    forget()
    lower(nested(40))
    assert 0 < steps < 6_000, "59,000 where every question looks at all facts"


def test_facts_about_quotients_of_their_own_are_left_out() -> None:
    facts = INSIDE.assume(*EVEN, *ODD)
    assert relevant(facts, less(i, n + 1)).predicates == INSIDE.predicates
    assert relevant(facts, less(i // 4, n)).predicates == (*INSIDE.predicates, EVEN[1])
    # i // 9 is in the conditions for 3, 9 and 27.
    assert relevant(facts, less(i // 9, n)).predicates == (*INSIDE.predicates, ODD[0], ODD[3], ODD[12])


def test_a_few_facts_are_all_looked_at() -> None:
    facts = INSIDE.assume(*EVEN[:5])
    assert relevant(facts, less(i, n)) is facts


def test_facts_that_bound_what_else_there_is_are_kept() -> None:
    bounding = (less(i // 64, n // 64), at_most(j, i // 128), equal(i % 256, ZERO), less(i // n, j))
    facts = INSIDE.assume(*EVEN, *bounding)
    assert relevant(facts, less(i, n)).predicates == (*INSIDE.predicates, *bounding)
    assert isinstance(prove(facts, less(i, n), thorough=False), Proved)
    assert isinstance(prove(facts, at_most(j, n), thorough=False), Proved)


def test_what_is_left_out_makes_no_counterexample() -> None:
    # With i = 1, which the question does not look at, i % 2 < 1 is false: it is no counterexample.
    facts = Facts().assume(within(ZERO, i, index(2)), *EVEN)
    assert not isinstance(prove(facts, less(i, ZERO), thorough=False), Proved)
    answer = prove(facts, equal(i, ZERO))
    assert isinstance(answer, Proved)
    quick = prove(facts, at_most(i, ZERO), thorough=False)
    assert not isinstance(quick, Refuted)


def element(low: Index | None) -> Index:
    """The element at i of an array that is declared to hold no less than this."""
    return index(Read(Array("crd", (n,), "int32", low=low), (i,)))


def test_a_sum_of_what_is_not_negative_is_seen_at_once_among_many_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "atl.prove.prover._Query._divided_out", lambda *_, **__: pytest.fail("it was looked at closely")
    )
    forget()
    before = statistics.snapshot()
    facts = INSIDE.assume(*EVEN, at_most(ZERO, j))
    assert prove(facts, at_most(ZERO, 4 * j * n + element(ZERO) + 1)) == Proved("linear")
    assert statistics.since(before).z3 == 0


def test_what_may_be_negative_adds_no_naturals() -> None:
    facts = INSIDE.assume(at_most(index(-1), j))
    assert has_only_non_negative_terms(facts, n * i + element(ZERO) + element(n) + 2)
    for wrong in (j, i - n, -element(ZERO), element(None), element(index(-1)), i - 1, n * j):
        assert not has_only_non_negative_terms(facts, wrong)
        assert not isinstance(prove(facts, at_most(ZERO, wrong)), Proved)
