"""False rules that small numbers do not refute: with literals, large indices, rare tests, operands of other extents."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

import atl
from atl import cast, gen, guard, imin, maximum, minimum, rec, select, value, where
from rewrites.errors import FalseRule
from rewrites.rule_checking.registry import status_of
from rewrites.rule_checking.status import Status
from rewrites.user_rules import Body, Elem, Equation, Index, Matrix, Scalar, Vector, equation, given, rule

pytestmark = pytest.mark.sampled


# -- literals of elements ---------------------------------------------------------------------------------------------


def between_two(a: Scalar, x: Scalar, y: Scalar) -> Equation:
    """False for 5/2."""
    return equation(where(a > 2, x, y), where(a >= 3, x, y))


def at_one(a: Scalar, x: Scalar, y: Scalar) -> Equation:
    """False at one number."""
    return equation(where(a == 12345, x, y), y)


def at_a_root(a: Scalar, x: Scalar, y: Scalar) -> Equation:
    """False at 49."""
    return equation(where(2 * a + 1 == 99, x, y), y)


def at_a_sum(a: Scalar, b: Scalar, x: Scalar, y: Scalar) -> Equation:
    """False on a line."""
    return equation(where(3 * a - b == 12345, x, y), y)


def at_three(a: Scalar, b: Scalar, c: Scalar, x: Scalar, y: Scalar) -> Equation:
    """False where three tests hold."""
    return equation(where((a == 777) & (b == -12345) & (c == 50), x, y), y)


def in_a_gap(a: Elem, x: Elem, y: Elem) -> Equation:
    """False in a small interval."""
    return equation(where((a > 1000.25) & (a < 1000.5), x, y), y)


def of_extrema(a: Scalar) -> Equation:
    """False from 1999."""
    return equation(minimum(maximum(a, 1000), 2000), minimum(maximum(a, 1000), 1999))


def of_magnitudes(a: Elem, x: Elem) -> Equation:
    """False near 500."""
    return equation(where(atl.abs(a - 500) < 0.25, x, 0 * x), 0 * x)


def in_a_recurrence(a: Vector, n: Index) -> Equation:
    """False where the first element is 500."""
    kept = rec(a, n, lambda p, y: where(y[p - 1] == 500, 0 * y[p - 1], y[p - 1]))
    return equation(kept, rec(a, n, lambda p, y: y[p - 1]), given(a.shape[0] >= 1))


# -- literals of indices and extents ----------------------------------------------------------------------------------


def at_an_index(n: Index, e: Body[Index]) -> Equation:
    """False at two indices."""
    return equation(guard(n == 12345, e(n)), guard(n == 777, e(n)))


def from_a_term(n: Index, e: Body[Index]) -> Equation:
    """False from 201."""
    return equation(atl.sum(n, e), atl.sum(imin(n, 200), e))


def of_quotients(n: Index, e: Body[Index]) -> Equation:
    """False from 100."""
    return equation(e(n // 100), e(n // 101), given(n >= 0))


def at_a_multiple(n: Index, e: Elem) -> Equation:
    """False at 33."""
    return equation(guard(3 * n == 99, e), 0 * e)


def beyond_small_extents(v: Vector) -> Equation:
    """False for 101 elements."""
    return equation(v[100], 0 * v[0], given(v.shape[0] >= 1))


def at_an_extent(a: Elem) -> Equation:
    """False for rows of 6 elements."""
    return equation(a + guard(a.shape[0] == 6, a) if a.rank else a, a)


def of_an_element(i: Index, v: Vector) -> Equation:
    """False for rows of more than 140 elements, and at one of them."""
    return equation(guard(i != 140, v[i]), v[i], given(i >= 0, i < v.shape[0]))


def of_a_far_element(i: Index, j: Index, m: Matrix) -> Equation:
    """False for rows of more than 123456 elements."""
    return equation(m[j, i], guard(i != 123456, m[j, i]), given(j >= 0, j < m.shape[0]))


# -- roundings --------------------------------------------------------------------------------------------------------


def of_rounding_twice(a: Scalar) -> Equation:
    """False next to midpoints of two elements of float16."""
    return equation(cast("float16", cast("float32", a)), cast("float16", a))


def of_rounding_integers(a: Scalar) -> Equation:
    """False for integers of 64 bits next to midpoints of two elements of float32."""
    return equation(cast("float32", cast("float64", a)), cast("float32", a))


# -- large indices ----------------------------------------------------------------------------------------------------


def of_a_large_index(n: Index, a: Scalar) -> Equation:
    """False from 2^31, where an int32 wraps."""
    none = 0 * cast("int64", a)
    return equation(none + cast("int64", cast("int32", none + value(n))), none + value(n), given(n >= 0))


def of_the_value(n: Index, a: Scalar, b: Scalar) -> Equation:
    """False from 10^6."""
    return equation(a * value(n), a * value(imin(n, 10**6)) + 0 * b)


# -- extents of operands ----------------------------------------------------------------------------------------------


def dot(y: atl.Tensor, v: atl.Tensor) -> atl.Tensor:
    return atl.sum(v.shape[0], lambda i: y[i] * v[i])


def of_a_sum(y: Vector, v: Vector, w: Vector) -> Equation:
    """False if v has no elements and w has some."""
    return equation(atl.sum(v.shape[0], lambda i: y[i] * (v + w)[i]), dot(y, v) + dot(y, w))


def of_a_maximum(y: Vector, v: Vector, w: Vector) -> Equation:
    """False if v has no elements and w has some; it has an operation without laws."""
    return equation(
        atl.sum(v.shape[0], lambda i: maximum(v, w)[i]) + dot(y, w),
        atl.sum(v.shape[0], lambda i: maximum(w, v)[i]) + atl.sum(v.shape[0], lambda i: y[i] * w[i]),
    )


def of_a_selection(p: Scalar, y: Elem, a: Elem, b: Elem, n: Index) -> Equation:
    """False where nothing is computed on the left, and b has more elements."""
    left = atl.sum(n, lambda i: atl.sum(*a.shape, lambda *at: select(i == 0, a, b)[at])) if a.rank else a
    right = atl.sum(
        n,
        lambda i: (
            guard(i == 0, atl.sum(*a.shape, lambda *at: a[at])) + guard(i != 0, atl.sum(*b.shape, lambda *at: b[at]))
        ),
    )
    return equation(left + 0 * p, (right if a.rank else a) + 0 * p, given(n >= 2))


FALSE = (
    between_two, at_one, at_a_root, at_a_sum, at_three, in_a_gap, of_extrema, of_magnitudes, in_a_recurrence,
    at_an_index, from_a_term, of_quotients, at_a_multiple, beyond_small_extents, at_an_extent, of_a_large_index,
    of_the_value, of_a_sum, of_a_maximum, of_a_selection, of_an_element, of_a_far_element, of_rounding_twice,
)  # fmt: skip


@pytest.mark.parametrize("law", FALSE, ids=lambda law: law.__name__)
def test_false_rule_is_refuted(law: Callable[..., Equation]) -> None:
    with pytest.raises(FalseRule, match=f"{law.__name__} is false"):
        rule(law)


def absorbed(v: Vector, w: Vector) -> Equation:
    """False in the third row; symbols show a difference in the first."""
    same = gen(v.shape[0], lambda p: minimum(v[p], maximum(v[p], w[p])) + guard(p == 2, v[p]))
    return equation(same, v, given(v.shape[0] <= w.shape[0]))


def test_elements_are_those_of_the_row_that_differs() -> None:
    with pytest.raises(FalseRule) as refused:
        rule(absorbed)
    assert re.search(r"v\[2\] = \S+, w\[2\] = \S+: at \[2\] the left", str(refused.value.numbers))


def test_at_most_twelve_elements_are_listed() -> None:
    with pytest.raises(FalseRule) as refused:
        rule(from_a_term)
    assert "e(11) = 12, …: the left side" in str(refused.value.numbers)


def test_rule_that_is_false_for_integers_is_of_floats_only() -> None:
    found = status_of(rule(of_rounding_integers))
    assert found is not None
    assert found.integer_counterexample is not None


# -- true rules with literals -----------------------------------------------------------------------------------------


def turned(a: Elem, x: Elem, y: Elem) -> Equation:
    """A comparison is exchanged."""
    return equation(where(a < 100, x, y), where(a >= 100, y, x))


def clamped(a: Scalar) -> Equation:
    """A clamp in both orders."""
    return equation(minimum(maximum(a, 1000), 2000), maximum(minimum(a, 2000), 1000))


def at_its_index(n: Index, e: Body[Index]) -> Equation:
    """An index is replaced by the number that it equals."""
    return equation(guard(n == 12345, e(n)), guard(n == 12345, e(12345)))


def of_equal_extents(n: Index, k: Index, a: Elem, b: Elem) -> Equation:
    """Addition commutes in each element, also where none is computed."""
    return equation(gen(n, lambda i: a + b)[k], gen(n, lambda i: b + a)[k])


TRUE = {
    turned: Status.PROVED,
    clamped: Status.PROVED,
    at_its_index: Status.PROVED,
    of_equal_extents: Status.BOUNDED,
}


@pytest.mark.parametrize("law", TRUE, ids=lambda law: law.__name__)
def test_true_rule_is_accepted(law: Callable[..., Equation]) -> None:
    found = status_of(rule(law))
    assert found is not None
    assert found.status == TRUE[law]
