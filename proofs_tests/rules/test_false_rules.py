"""False rules are refuted by samples, and not proved; faults planted in the proofs prove one of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import Phase

import atl
from atl import guard
from atl.core.predicate import Predicate, negation
from atl.prove import Facts
from atl.text.printing import show_predicate
from proofs_tests.rules.test_rules import check_with_hypothesis
from rewrites.named_operators import padding
from rewrites.rule import Body, Cond, Elem, ElemT, Equation, Index, Matrix, Rule, Scalar, Vector, equation, rule
from rewrites.rule import given as premises
from rewrites.rule_checking import reindexing, symbolic
from rewrites.rule_checking.exhaustion import decide, found_spelled_out
from rewrites.rule_checking.status import Status, determine_status
from rewrites.rule_checking.symbolic import proved
from rewrites.rule_checking.symbolic_reading import under_binders
from rewrites.rule_checking.symbolic_values import Bracket, Poly
from rewrites.rules import RULES


@rule(family="false", source="Fig. 4.6 as printed")
def swapped_pads(v: Vector, k: Index) -> Equation:
    """E4: what is added on the left, dropped on the right."""
    return equation(atl.truncr(k, atl.padl(k, v)), v)


@rule(family="false", source="8.2.1 as printed")
def whole_tile(v: Vector, k: Index) -> Equation:
    """E10: a whole tile is dropped where k divides the extent."""
    return equation(atl.truncr(k - v.shape[0] % k, atl.flatten(atl.split(k, v))), v)


@rule(family="false", source="")
def eta_without_premise(n: Index, v: Vector) -> Equation:
    """A generation of the wrong extent."""
    return equation(atl.gen(n, lambda i: v[i]), v)


@rule(family="false", source="")
def flatten_of_transpose(v: Matrix) -> Equation:
    """The order of storage does matter."""
    return equation(atl.flatten(atl.transpose(v)), atl.flatten(v))


@rule(family="false", source="")
def hoisted_product(lo: Index, hi: Index, a: Body[Index], b: Body[Index]) -> Equation:
    """A sum of products is not a product of sums."""
    return equation(atl.sum((lo, hi), lambda i: a(i) * b(i)), atl.sum((lo, hi), a) * atl.sum((lo, hi), b))


@rule(family="false", source="")
def sum_without_order(lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A sum over a range that runs backwards is empty: it is not split there."""
    return equation(atl.sum((lo, hi), e), atl.sum((lo, 0), e) + atl.sum((0, hi), e))


@rule(family="false", source="")
def read_beyond(n: Index, e: Body[Index], k: Index) -> Equation:
    """An element beyond the last one is zero."""
    return equation(atl.gen(n, e)[k], e(k), premises(k >= 0, k <= n))


# Found by an attack: each was once accepted.


@rule(family="false", source="")
def collapse_of_negatives(n: Index, k: Index, e: Body[Index, Index]) -> Equation:
    """n * k is positive where both are negative; a body that does not use p // k does not ask for a positive k."""
    nested = atl.sum(n, lambda i: atl.sum(k, lambda j: e(i, j)))
    return equation(nested, atl.sum(n * k, lambda p: e(p // k, p % k)))


@rule(family="false", source="")
def tiles_of_negatives(n: Index, k: Index, e: Body[Index]) -> Equation:
    """0 // k is 0 whatever k is: there are no tiles where n = 1 - k."""
    tiles = atl.sum(atl.ceildiv(n, k), lambda o: atl.sum(k, lambda i: atl.guard(o * k + i < n, e(o * k + i))))
    return equation(atl.sum(n, e), tiles)


@rule(family="false", source="")
def divisor_taken_for_granted(n: Index, k: Index, e: Body[Index]) -> Equation:
    """A body that does not use its index has no divisor."""
    return equation(e(n // k), atl.guard(k > 0, e(n // k)))


@rule(family="false", source="")
def element_at_a_quotient(n: Index, k: Index, v: Vector) -> Equation:
    """0 // k is 0 also where k is not positive."""
    return equation(v[n // k], guard(k > 0, v[n // k]))


@rule(family="false", source="")
def false_from_six(n: Index, e: Body[Index]) -> Equation:
    """The sum of the first five terms, true at small sizes."""
    return equation(atl.sum(n, e), atl.sum(atl.imin(n, 5), e))


@rule(family="false", source="")
def body_taken_as_affine(x: ElemT, z: ElemT, e: Body[ElemT]) -> Equation:
    """Not every function of a tensor is linear in it and a constant."""
    return equation(atl.let(x + z, e), e(x) + e(z) - e(padding(x)))


@rule(family="false", source="")
def condition_without_gaps(a: Index, p: Cond[Index], e: Elem) -> Equation:
    """A condition may hold at a and a + 2, and not between."""
    return equation(atl.guard(p(a) & p(a + 2), e), atl.guard(p(a) & p(a + 1) & p(a + 2), e))


@rule(family="false", source="")
def odd_elements_vanish(n: Index, e: Body[Index]) -> Equation:
    """True for no n but those of no odd index: an induction on half of n would prove it."""
    return equation(atl.sum(n, lambda i: guard(i % 2 >= 1, e(i))), atl.sum(0, e))


@rule(family="false", source="")
def even_sums_vanish(n: Index, e: Body[Index]) -> Equation:
    """True for even n only, as the elements cancel in pairs."""
    return equation(atl.sum(n, lambda i: guard(n % 2 >= 1, e(i))), atl.sum(0, e))


# Attacks on guards taken for ranges of sums.


@rule(family="false", source="")
def tiles_without_the_last(n: Index, k: Index, e: Body[Index]) -> Equation:
    """The terms after the last whole tile are forgotten."""
    tiles = atl.sum(n // k, lambda o: atl.sum(k, lambda i: guard(o * k + i < n, e(o * k + i))))
    return equation(atl.sum(n, e), tiles, premises(k > 0, n >= 0))


@rule(family="false", source="")
def tiles_that_overlap(n: Index, k: Index, e: Body[Index]) -> Equation:
    """The first term of a tile is also the last one of the tile before."""
    tiles = atl.sum(atl.ceildiv(n, k), lambda o: atl.sum(k + 1, lambda i: guard(o * k + i < n, e(o * k + i))))
    return equation(atl.sum(n, e), tiles, premises(k > 0))


@rule(family="false", source="")
def guard_of_one_term_of_two(n: Index, m: Index, e: Body[Index], f: Body[Index]) -> Equation:
    """The second addend has no guard."""
    return equation(
        atl.sum(n, lambda i: guard(i < m, e(i)) + f(i)), atl.sum(m, lambda i: e(i) + f(i)), premises(m >= 0, m <= n)
    )


@rule(family="false", source="")
def guard_beyond_the_sum(lo: Index, hi: Index, a: Index, b: Index, e: Body[Index]) -> Equation:
    """The sum may end before the range of the guard."""
    return equation(atl.sum((lo, hi), lambda k: guard((a <= k) & (k < b), e(k))), atl.sum((a, b), e), premises(lo <= a))


@rule(family="false", source="")
def reversed_and_more(n: Index, e: Body[Index], f: Body[Index]) -> Equation:
    """The indices correspond one to one, and the terms differ."""
    return equation(atl.sum(n, e), atl.sum(n, lambda i: e(n - 1 - i) + f(i)), premises(n >= 0))


OF_REINDEXING = (
    reversed_and_more,
    tiles_without_the_last,
    tiles_that_overlap,
    guard_of_one_term_of_two,
    guard_beyond_the_sum,
    odd_elements_vanish,
    even_sums_vanish,
    collapse_of_negatives,
    tiles_of_negatives,
)
OF_CONDITIONS = (
    divisor_taken_for_granted,
    element_at_a_quotient,
    false_from_six,
    body_taken_as_affine,
    condition_without_gaps,
)
TYPICAL = (
    swapped_pads,
    whole_tile,
    eta_without_premise,
    flatten_of_transpose,
    hoisted_product,
    sum_without_order,
    read_beyond,
)

FALSE = (*OF_REINDEXING, *OF_CONDITIONS, *TYPICAL)


@pytest.mark.parametrize("stated", FALSE, ids=lambda stated: stated.name)
def test_false_rule_is_not_proved(stated: Rule) -> None:
    assert isinstance(proved(stated), str)


@pytest.mark.long
@pytest.mark.parametrize("stated", FALSE, ids=lambda stated: stated.name)
def test_false_rule_is_refuted(stated: Rule) -> None:
    assert decide(stated, cases=300).counterexample is not None
    assert determine_status(stated).status == Status.UNSUPPORTED


@pytest.mark.long
@pytest.mark.parametrize("stated", TYPICAL, ids=lambda stated: stated.name)
def test_hypothesis_refutes_a_false_rule(stated: Rule) -> None:
    with pytest.raises(AssertionError, match="Counterexample"):
        check_with_hypothesis(stated, 500, [Phase.generate])


@pytest.mark.parametrize("part", ["_same_terms", "_inverse"])
def test_fault_in_reindexing_proves_a_false_rule(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reindexing, part, lambda *_: True)
    assert [stated.name for stated in OF_REINDEXING if proved(stated) is None]


def test_tuples_without_terms_may_not_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A range in which each condition and its opposite hold is empty."""

    def support(value: Poly, facts: Facts) -> Iterator[Predicate]:
        parts = [part for monomial, _ in value.terms for part, _ in monomial if isinstance(part, Bracket)]
        return iter([each for part in parts for each in (part.literal, negation(part.literal))])

    monkeypatch.setattr(reindexing, "_support", support)
    assert proved(odd_elements_vanish) is None


@rule(family="false", source="")
def exchanged(lo: Index, hi: Index, a: Body[Index], b: Body[Index], v: Vector, m: Index) -> Equation:
    """A sum whose conditions are facts if it has terms; the one on m is under a guard, the one on the index is none."""
    return equation(
        atl.sum((lo, hi), lambda i: a(i) + b(i) * guard(m < 3, v[m]) * v[i]),
        atl.sum((lo, hi), lambda i: b(i) * guard(m < 3, v[m]) * v[i] + a(i)),
    )


def test_conditions_under_a_binder_hold_if_its_range_is_not_empty() -> None:
    scalars, vectors, *_ = [set(map(show_predicate, under_binders(of.lhs))) for of in exchanged.statements.values()]
    assert scalars == {"hi <= lo ∨ 0 <= v_0"}
    extents = {f"hi <= lo ∨ 0 <= {extent}" for extent in ("a_0", "b_0", "v_0", "v_1")}
    assert vectors == {"hi <= lo ∨ a_0 = b_0", "hi <= lo ∨ b_0 = v_1", *extents}


@rule(family="false", source="")
def extent_of_nothing(v: Vector, x: Scalar) -> Equation:
    """A tensor that is only asked for its extent need not be one: its extent may be negative."""
    return equation(x, guard(v.shape[0] >= 0, x))


@rule(family="false", source="")
def extent_under_a_binder(n: Index, v: Vector, x: Scalar) -> Equation:
    """Without terms, v is read nowhere."""
    total = atl.sum(n, lambda i: v[i])
    return equation(x + total, guard(v.shape[0] >= 0, x) + total)


@rule(family="false", source="")
def extent_under_a_guard(p: Cond, v: Vector, x: Scalar) -> Equation:
    """Where p does not hold, v is read nowhere."""
    return equation(x + guard(p, v[0]), guard(v.shape[0] >= 0, x) + guard(p, v[0]))


@rule(family="false", source="")
def sum_to_an_extent(n: Index, v: Vector, x: Scalar) -> Equation:
    """A negative extent has no sum with so many terms."""
    total = atl.sum(n, lambda i: v[i])
    return equation(x * atl.value(v.shape[0]) + total, atl.sum(v.shape[0], lambda _: x) + total)


@pytest.mark.parametrize(
    "stated", [extent_of_nothing, extent_under_a_binder, extent_under_a_guard, sum_to_an_extent], ids=lambda of: of.name
)
def test_extents_of_tensors_that_are_not_evaluated_may_be_negative(stated: Rule) -> None:
    assert proved(stated) is not None


def test_numbers_of_a_refusal_are_those_compared() -> None:
    for stated in (divisor_taken_for_granted, element_at_a_quotient):
        found = found_spelled_out(stated)
        assert found is not None
        assert found.sizes["n"] == 0 >= found.sizes["k"]


@pytest.mark.parametrize("name", symbolic.NOT_LINEAR)
def test_linearity_of_sums_is_proved_without_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def uses_linearity(*_: object) -> bool:
        raise AssertionError

    for attempt in ("_reindexed", "_by_definition", "_by_rows"):
        monkeypatch.setattr(symbolic, attempt, uses_linearity)
    assert proved(RULES[name]) is None
