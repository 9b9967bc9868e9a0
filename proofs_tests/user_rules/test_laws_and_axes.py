"""Laws that proofs of user-defined rules use, and rules with an index for each axis of a tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import atl
from atl.errors import InvalidArgument
from rewrites import reschedule
from rewrites.certificates.certificate import dumps, loads
from rewrites.errors import FalseRule
from rewrites.rule import rule as unchecked_rule
from rewrites.rule_checking.symbolic import proved
from rewrites.user_rules import Body, Elem, Equation, Index, Indices, Scalar, equation, given, proof_status, rule


@pytest.mark.long
def test_laws_of_quotients_extrema_absolute_values_and_remainders_are_proved() -> None:
    @rule
    def quotient_of_quotients(a: Scalar, b: Scalar, c: Scalar, d: Scalar) -> Equation:
        """A quotient of quotients is a quotient of products."""
        return equation((a / 2 / b) / (c / d), (a * d) / (2 * b * c))

    @rule
    def distributes(a: Scalar, b: Scalar, c: Scalar) -> Equation:
        """A maximum distributes over a minimum, and absorbs a minimum of its operand."""
        left = atl.maximum(a, atl.minimum(atl.minimum(b, c), atl.maximum(b, c)))
        return equation(left, atl.minimum(atl.maximum(a, b), atl.maximum(a, c)))

    @rule
    def squares(a: Elem, b: Elem) -> Equation:
        """The square of an absolute value is the square."""
        return equation(abs(a - b) * abs(b - a), (a - b) * (a - b))

    @rule
    def remainders(a: Elem, b: Elem) -> Equation:
        """A remainder of a remainder is the remainder."""
        return equation((a % b) % b, a % b)

    @rule
    def in_order(a: Scalar, b: Scalar, c: Scalar) -> Equation:
        """Where limits are in order, it does not matter which of them is applied first."""
        first, second = atl.maximum(b, atl.minimum(a, c)), atl.minimum(atl.maximum(b, a), c)
        return equation(atl.where(b <= c, first, a), atl.where(b <= c, second, a))

    for each in (quotient_of_quotients, distributes, squares, remainders, in_order):
        assert str(proof_status(each)).startswith("proved for all sizes"), each


@pytest.mark.long
def test_sum_over_multiples_is_proved() -> None:
    @rule
    def dilated(n: Index, d: Index, x: Scalar[Index], w: Scalar[Index]) -> Equation:
        """A sum over all indices that counts only multiples of d is one over the multiples."""
        every = atl.sum((n - 1) * d + 1, lambda i: atl.guard(i % d == 0, x(i) * w(i // d)))
        return equation(every, atl.sum(n, lambda k: x(k * d) * w(k)), given(n >= 1, d >= 1))

    assert proof_status(dilated).status == 3

    def one_more(n: Index, d: Index, x: Scalar[Index], w: Scalar[Index]) -> Equation:
        """A sum with one multiple too many."""
        every = atl.sum(n * d + 1, lambda i: atl.guard(i % d == 0, x(i) * w(i // d)))
        return equation(every, atl.sum(n, lambda k: x(k * d) * w(k)), given(n >= 1, d >= 1))

    with pytest.raises(FalseRule):
        rule(one_more)


@pytest.mark.parametrize(
    "law",
    [
        lambda a, b, c: (abs(a) * abs(b), a * b),
        lambda a, b, c: (a / (b / c), a / b / c),
        lambda a, b, c: (a / a * b, b),
        lambda a, b, c: ((a % b) % c, a % c),
        lambda a, b, c: (atl.maximum(a, atl.minimum(b, c)), atl.minimum(atl.maximum(a, b), c)),
        lambda a, b, c: (atl.where(c < b, atl.maximum(b, atl.minimum(a, c)), a), atl.where(c < b, c, a)),
        lambda a, b, c: (atl.where(a < atl.minimum(b, c), a, b), atl.where(a < b, a, b)),
        lambda a, b, c: (atl.where(b <= c, atl.maximum(b, c), a), atl.where(b <= c, b, a)),
    ],
    ids=("abs", "quotient", "cancelling", "remainder", "distribution", "opposite order", "less", "larger"),
)
def test_wrong_laws_are_refused(law: Callable[..., Any]) -> None:
    def wrong(a: Scalar, b: Scalar, c: Scalar) -> Equation:
        """A law that does not hold."""
        return equation(*law(a, b, c))

    with pytest.raises(FalseRule):
        rule(wrong)


def window(v: Any, start: Any, length: Any) -> Any:
    """Return the part of a tensor from `start`, one index for each axis."""
    return atl.gen(*length, lambda *i: v[tuple(s + k for s, k in zip(start, i, strict=True))])


def is_window(extents: Any, start: Any, length: Any) -> list[Any]:
    axes = zip(extents, start, length, strict=True)
    return [part for n, s, m in axes for part in (s >= 0, m >= 0, s + m <= n)]


@pytest.mark.long
def test_rule_over_any_number_of_axes_is_stated_once() -> None:
    @rule
    def part_of_part(v: Elem, s: Indices, m: Indices, t: Indices, k: Indices) -> Equation:
        """A part of a part is a part."""
        sums = [a + b for a, b in zip(s, t, strict=True)]
        return equation(
            window(window(v, s, m), t, k), window(v, sums, k), given(*is_window(v.shape, s, m), *is_window(m, t, k))
        )

    assert (proof_status(part_of_part).status, sorted(part_of_part.statements)) == (
        3,
        [(rank,) for rank in range(1, 7)],
    )
    for extents in ((9,), (9, 8), (9, 8, 7)):
        x, rank = atl.tensor("x", *extents), len(extents)
        made = window(window(x, [1] * rank, [6] * rank), [2] * rank, [3] * rank)
        s = reschedule(atl.program("p", [x], made))
        wanted = atl.program("p", [x], window(x, [3] * rank, [3] * rank)).body
        assert s.rw(part_of_part).goal.body == wanted
        given_all: dict[str, Any] = {"s": (1,) * rank, "m": (6,) * rank, "t": (2,) * rank, "k": (3,) * rank}
        made_again = reschedule(atl.program("p", [x], made)).rw(part_of_part, **given_all)
        assert loads(dumps(made_again.done())).rhs.body == wanted

    x = atl.tensor("x", 9)
    with pytest.raises(InvalidArgument, match="s=3"):
        reschedule(atl.program("p", [x], window(window(x, (1,), (6,)), (2,), (3,)))).rw(part_of_part, s=3)


@pytest.mark.long
def test_rule_that_is_false_along_the_third_axis_only_is_refused() -> None:
    def wrong(v: Elem, s: Indices, m: Indices) -> Equation:
        """A part, one further along the third axis."""
        further = [a + int(axis == 2) for axis, a in enumerate(s)]
        return equation(
            window(v, s, m) + 0,
            window(v, further, m),
            given(*is_window(v.shape, further, m), *is_window(v.shape, s, m)),
        )

    with pytest.raises(FalseRule):
        rule(wrong)


def test_indices_need_a_tensor_with_these_axes() -> None:
    def counts(n: Indices, k: Index) -> Equation:
        """Numbers that count."""
        return equation(atl.gen(*n, lambda *i: atl.value(k)), atl.gen(*n, lambda *i: atl.value(k + 0)))

    with pytest.raises(InvalidArgument, match="n is for the axes of elements of which the rule has none"):
        rule(counts)


def test_smaller_instance_of_an_induction_is_proved_to_be_well_formed() -> None:
    """For n = 7 the left side is the sum of all terms, but the smaller instance truncates by -1."""
    many = 7

    @unchecked_rule(family="attack")
    def forgets(n: Index, e: Body[Index]) -> Equation:
        """The first terms are forgotten."""

        def kept(i: Any) -> Any:
            last = atl.gen(n - many + 1, lambda _: atl.select(n < many, e(i) - e(i), e(i)))
            return atl.truncr(n - many, last)

        right = atl.gen(1, lambda _: atl.sum(n, lambda i: atl.guard(i >= many - 1, e(i))))
        return equation(atl.sum(n, kept), right, given(n >= 0))

    assert proved(forgets) == "the normal forms of both sides differ"


@pytest.mark.long
def test_repeated_maximum_is_compared_by_its_definition() -> None:
    @rule
    def repeats(n: Index, m: Index, e: Body[Index]) -> Equation:
        """A maximum of equal maxima is one of them."""
        return equation(
            atl.reduce("max", n, lambda _: atl.reduce("max", m, e)),
            atl.reduce("max", m, e),
            given(n >= 1, m >= 1),
        )

    assert "divided by 0" not in str(proof_status(repeats))


def test_triangular_sum_of_elements_of_any_rank_is_proved() -> None:
    @rule
    def triangular(n: Index, e: Body[Index]) -> Equation:
        """A triangular sum has each term as often as it occurs."""
        rows = atl.sum(n, lambda i: atl.sum(i, e))
        return equation(rows, atl.sum(n, lambda j: atl.value(n - 1 - j) * e(j)))

    assert str(proof_status(triangular)) == "proved for all sizes and every rank"
