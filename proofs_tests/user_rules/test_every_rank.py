"""Rules proved for every rank: bounds of statements, permutations of axes, and false rules, which are not promoted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import atl
from atl.surface.values import Tensor
from examples.xla_rules import at, over, transposed, window
from proofs_tests.user_rules import false_at_high_ranks
from rewrites.elaboration import stated
from rewrites.errors import DoesNotApply, FalseRule
from rewrites.rule import USER_FAMILY, Rule, metavariables_of
from rewrites.rule_checking.every_rank import bounds_of, follows, further, ranks_proved, schema
from rewrites.rule_checking.registry import register
from rewrites.rule_checking.symbolic import proved
from rewrites.rule_statement import MAX_ELEMENT_RANK, choices_of_ranks, groups_of
from rewrites.rules import RULES
from rewrites.user_rules import Elem, ElemT, Equation, Indices, Perm, PermT, equation, given, proof_status, rule

TRUE_UP_TO_4 = false_at_high_ranks.TRUE_UP_TO_4
EVERY = "proved for all sizes and every rank"


def unchecked(function: Callable[..., Equation]) -> Rule:
    """Return a rule with the statements that a declaration would have, without judging them."""
    kinds = metavariables_of(function)
    found = {}
    for ranks in choices_of_ranks(kinds):
        made = stated(function, kinds, ranks)
        if made.lhs != made.rhs:
            found[ranks] = made
    made_rule = Rule(function.__name__, USER_FAMILY, "", "a law", kinds, found)
    return replace(made_rule, statements=further(made_rule, lambda ranks: stated(function, kinds, ranks)))


def window_of_window(v: Elem, s: Indices, m: Indices, t: Indices, k: Indices) -> Equation:
    """A part of a part is a part."""
    axes = zip(v.shape, s, m, t, k, strict=True)
    inside = [each for n, a, b, c, d in axes for each in (a >= 0, a + b <= n, c >= 0, d >= 0, c + d <= b)]
    first = [a + c for a, c in zip(s, t, strict=True)]
    return equation(window(window(v, s, m), t, k), window(v, first, k), given(*inside))


@pytest.mark.long
def test_rule_for_every_rank_applies_at_rank_6(tmp_path: Path) -> None:
    made = rule(window_of_window)
    assert str(proof_status(made)) == EVERY
    v = atl.tensor("v", 4, 5, 4, 5, 4, 5)
    inner = window(v, [1] * 6, [3] * 6)
    theorem = atl.reschedule(atl.program("p", [v], window(inner, [1] * 6, [2] * 6))).rw(made).done()
    theorem.save(tmp_path / "p.atl.json")
    assert str(atl.load(tmp_path / "p.atl.json")) == str(theorem)


def test_forged_statement_of_rank_5_is_refused() -> None:
    @rule
    def doubled(v: Elem) -> Equation:
        """A sum of equal terms is their double."""
        return equation(v + v, 2 * v)

    wrong = {
        ranks: made if max(ranks) < 5 else replace(made, rhs=made.lhs) for ranks, made in doubled.statements.items()
    }
    with pytest.raises(atl.errors.InvalidArgument, match="does not follow from one of lower rank"):
        register(replace(doubled, statements=wrong))
    alone = {ranks: made for ranks, made in doubled.statements.items() if max(ranks) >= 5}
    with pytest.raises(atl.errors.InvalidArgument, match="does not follow from one of lower rank"):
        register(replace(doubled, statements=alone))


def transposed_sum(a: Elem, b: Elem, p: Perm) -> Equation:
    """A sum of transposed tensors is the transposed sum."""
    return equation(transposed(a, p) + transposed(b, p), transposed(a + b, p))


@pytest.mark.long
def test_rule_with_a_permutation_applies(tmp_path: Path) -> None:
    made = rule(transposed_sum)
    assert str(proof_status(made)) == EVERY
    n, m, k = atl.sizes("n m k")
    x, y = atl.tensor("x", n, m, k), atl.tensor("y", n, m, k)
    program = atl.program("p", [x, y], transposed(x, (2, 0, 1)) + transposed(y, (2, 0, 1)))
    theorem = atl.reschedule(program).rw(made).done()
    theorem.save(tmp_path / "p.atl.json")
    assert str(atl.load(tmp_path / "p.atl.json")) == str(theorem)
    atl.reschedule(program).rw(made, p=(2, 0, 1))
    for wrong in ((0, 1, 2), (1, 2, 0), (2, 2, 1)):
        with pytest.raises(DoesNotApply, match="no place in the goal matches transposed_sum"):
            atl.reschedule(program).rw(made, p=wrong)


def test_counterexample_at_rank_0_has_the_empty_permutation() -> None:
    def wrong(v: Elem, p: Perm) -> Equation:
        """A transposed sum of equal terms is a term."""
        return equation(transposed(v + v, p), v)

    with pytest.raises(FalseRule, match=r"p = \(\), v = 1: the left side is 2, the right one 1"):
        rule(wrong)


@pytest.mark.long
def test_two_permutations_are_composed() -> None:
    @rule
    def twice(a: Elem, p: Perm, q: Perm) -> Equation:
        """A transposition of a transposition is a transposition."""
        return equation(transposed(transposed(a, p), q), transposed(a, tuple(p[axis] for axis in q)))

    assert str(proof_status(twice)) == EVERY

    def reversed_order(a: Elem, p: Perm, q: Perm) -> Equation:
        """A transposition of a transposition, composed the wrong way round."""
        return equation(transposed(transposed(a, p), q), transposed(a, tuple(q[axis] for axis in p)))

    with pytest.raises(FalseRule, match=r"p = \(\d, \d, \d\), q = \(\d, \d, \d\)"):
        rule(reversed_order)


def test_statement_one_rank_above_the_bound_is_proved() -> None:
    made = unchecked(window_of_window)
    bounds = bounds_of(made)
    assert bounds == {"s": 1}
    for rank in (1, 2, MAX_ELEMENT_RANK + 1):
        assert proved(replace(made, statements={(rank,): made.statements[rank,]})) is None
        assert schema(made.statements[rank,]).parts == schema(made.statements[4,]).parts or rank == 1


@pytest.mark.parametrize("count", [2, 3, 4])
def test_bound_is_reached(count: int) -> None:
    """A statement with n conditions is false at rank n, and true below: a smaller bound would be wrong."""
    made = unchecked(false_at_high_ranks.pigeonhole(count))
    assert bounds_of(made) == {"s": count}
    assert proved(replace(made, statements={(count - 1,): made.statements[count - 1,]})) is None
    assert proved(replace(made, statements={(count,): made.statements[count,]})) is not None


@pytest.mark.parametrize(
    "law",
    [pytest.param(law, marks=pytest.mark.long if law in false_at_high_ranks.LONG else ()) for law in TRUE_UP_TO_4],
    ids=lambda law: law.__name__,
)
def test_rule_that_is_false_at_rank_5_or_6_is_not_promoted(law: Callable[..., Equation]) -> None:
    assert ranks_proved(unchecked(law)).startswith((", for elements of rank 0", ", for elements of rank 1"))


@pytest.mark.slow
@pytest.mark.parametrize("law", TRUE_UP_TO_4, ids=lambda law: law.__name__)
def test_rule_that_is_false_at_rank_5_or_6_is_declared_for_lower_ranks(law: Callable[..., Equation]) -> None:
    assert "every rank" not in str(proof_status(rule(law)))


def test_function_that_raises_at_rank_5_is_named_in_the_status() -> None:
    def doubled(v: Elem) -> Equation:
        """A sum of equal terms is their double."""
        if v.rank == 5:
            raise ValueError
        return equation(v + v, 2 * v)

    made = unchecked(doubled)
    assert sorted(made.statements) == [(0,), (1,), (2,), (3,), (4,), (6,)]
    reason = "the function returned no equation for rank 5 that repeats one for lower ranks"
    assert ranks_proved(made) == f", for elements of rank 0, 1, 2, 3, 4, 6: {reason}"


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("raises", [False, True])
def test_rule_with_several_permutations_that_changes_above_the_checked_ranks(count: int, raises: bool) -> None:
    """Two permutations are checked up to rank 3, and three up to rank 2, so rank 4 (3) is the first that may differ."""
    checked = 5 - count

    def composed(a: Tensor, *orders: tuple[int, ...]) -> Equation:
        if raises and a.rank > checked:
            raise RuntimeError
        left, order = a, tuple(range(a.rank))
        for each in orders:
            left, order = transposed(left, each), tuple(order[axis] for axis in each)
        return equation(left, transposed(a, order) + int(a.rank > checked))

    def two(a: Elem, p: Perm, q: Perm) -> Equation:
        """A transposition of a transposition is a transposition, up to some rank."""
        return composed(a, p, q)

    def three(a: Elem, p: Perm, q: Perm, r: Perm) -> Equation:
        """Three transpositions are one, up to some rank."""
        return composed(a, p, q, r)

    made = unchecked(two if count == 2 else three)
    assert max(made.statements)[0] == checked
    assert ranks_proved(made).endswith(f"no equation for rank {checked + 1} that repeats one for lower ranks")


def test_rule_that_is_not_stated_at_a_checked_rank_is_not_for_every_rank() -> None:
    def doubled(v: Elem) -> Equation:
        """A sum of equal terms is their double."""
        return equation(v + v, v + v if v.rank == 2 else 2 * v)

    assert ranks_proved(unchecked(doubled)).endswith("no equation for rank 2 that repeats one for lower ranks")


@pytest.mark.long
@pytest.mark.parametrize("first", [None, (4, 2), (4, 4), (5, 2)])
def test_permutations_of_two_groups_are_stated_where_both_ranks_are_high(first: tuple[int, int] | None) -> None:
    """There are 48 pairs of permutations at ranks (4, 2), more than are checked: it must be like (4, 1) or (3, 2)."""

    def outer(a: Elem, b: ElemT, p: Perm, q: PermT) -> Equation:
        """An outer product of transposed tensors is a transposed one."""
        if (a.rank, b.rank) == first:
            return equation(a, a + 1)

        def product(left: Tensor, right: Tensor) -> Tensor:
            shape = (*left.shape, *right.shape)
            made: Tensor = over(shape, lambda i: at(left, i[: left.rank]) * at(right, i[left.rank :]))
            return made

        order = (*p, *(a.rank + axis for axis in q))
        return equation(product(transposed(a, p), transposed(b, q)), transposed(product(a, b), order))

    made = unchecked(outer)
    if first is None:
        assert ranks_proved(made) == " and every rank"
        assert {(4, 2), (5, 2), (4, 4), (6, 6)} <= {each.element_ranks for each in made.statements.values()}
        assert made.statements[4, 2, 13, 1] is not None
    else:
        assert ranks_proved(made).endswith(
            f"no equation for rank {first[0]}, {first[1]} that repeats one for lower ranks"
        )


def test_any_error_of_the_function_ends_the_ranks_of_a_rule() -> None:
    def doubled(v: Elem) -> Equation:
        """A sum of equal terms is their double."""
        assert v.rank <= 4
        return equation(v + v, 2 * v)

    assert max(unchecked(doubled).statements) == (4,)


@pytest.mark.long
def test_error_for_a_later_permutation_does_not_end_the_call() -> None:
    fails = False

    @rule
    def swapped_sum(a: Elem, b: Elem, p: Perm) -> Equation:
        """A sum of transposed tensors is the transposed sum."""
        if fails:
            raise RuntimeError
        return transposed_sum(a, b, p)

    fails = True
    x, y = atl.tensor("x", *[2] * 5), atl.tensor("y", *[2] * 5)
    order = (1, 0, 2, 3, 4)
    program = atl.program("p", [x, y], transposed(x, order) + transposed(y, order))
    with pytest.raises(DoesNotApply):
        atl.reschedule(program).rw(swapped_sum)
    with pytest.raises(DoesNotApply):
        atl.reschedule(program).rw(swapped_sum, p=order)


def test_rule_without_statements_has_no_bounds() -> None:
    made = replace(unchecked(transposed_sum), statements={})
    assert bounds_of(made) == "it is not stated at rank 4"


def test_axis_named_by_number_is_not_promoted() -> None:
    def first_axis(v: Elem) -> Equation:
        """A tensor of one row is that row, repeated once."""
        return equation(over(v.shape, lambda i: at(v, (0, *i[1:]))), v, given(v.shape[0] == 1))

    kinds = metavariables_of(first_axis)
    found = {ranks: stated(first_axis, kinds, ranks) for ranks in choices_of_ranks(kinds) if ranks != (0,)}
    assert "differ between axes" in str(bounds_of(Rule("first_axis", USER_FAMILY, "", "a law", kinds, found)))


def test_groups_have_bounds_of_their_own() -> None:
    def broadcast(a: Elem, b: Elem, t: ElemT) -> Equation:
        """A sum of broadcasts is the broadcast of the sum."""
        return equation(over(t.shape, lambda _: a) + over(t.shape, lambda _: b), over(t.shape, lambda _: a + b))

    assert bounds_of(unchecked(broadcast)) == {"s": 1, "t": 1}


@pytest.mark.parametrize("name", ["split_gen", "let_let", "ll_sum", "sum_add", "adjoint_of_let"])
@pytest.mark.long
def test_rule_of_the_catalogue_is_proved_at_rank_5_where_it_is_used(name: str) -> None:
    catalogued = RULES[name]
    assert follows(catalogued, (5,) * len(groups_of(catalogued.metavariables)))


def test_rule_that_is_not_proved_is_refused_above_rank_4() -> None:
    blocks = RULES["rec_blocks"]
    assert follows(blocks, (MAX_ELEMENT_RANK,))
    assert not follows(blocks, (MAX_ELEMENT_RANK + 1,))


@pytest.mark.parametrize("law", [false_at_high_ranks.one_more_at_5, false_at_high_ranks.diagonal_above_4])
def test_false_statement_of_rank_5_does_not_follow(law: Callable[..., Equation]) -> None:
    made = unchecked(law)
    high = stated(law, made.metavariables, (5,))
    assert not follows(replace(made, statements={**made.statements, (5,): high}), (5,))
