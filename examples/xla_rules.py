# mypy: disallow-any-generics=False
# ruff: noqa: PLR0124, B002, ARG001
"""Rewrite rules of XLA's algebraic simplifier, stated as user-defined rules, each once for tensors of any rank.

TensorRight (POPL 2025) proves these rules for tensors of any rank. The names are those of its files, the statements
are ours. `a: Elem` is a tensor with any axes, `start: Indices` has an index for each of them. An axis that is treated
apart, such as the one that is concatenated, is the first one: `a: Vector`. New axes of a broadcast are those of
`t: ElemT`, of which only the shape is used.

    python examples/xla_rules.py            # declares and proves them all
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import atl
from rewrites.user_rules import (
    Body,
    Cube,
    Elem,
    ElemT,
    Equation,
    Index,
    Indices,
    IndicesT,
    Perm,
    Rule,
    Scalar,
    Vector,
    equation,
    given,
    proof_status,
    rule,
)  # fmt: skip

LAWS: list[Callable[..., Equation]] = []
"""The functions that state the rules. Their names are those of the files in TensorRight, with the number there."""


def law(function: Callable[..., Equation]) -> Callable[..., Equation]:
    """Add the function of a rule to the list. The rule is declared, and proved, by `rules`."""
    LAWS.append(function)
    return function


# -- the operators of XLA ---------------------------------------------------------------------------------------------


def over(extents: Sequence[Any], body: Callable[[tuple[Any, ...]], Any]) -> Any:
    """Return the tensor of these extents whose element at i is body(i)."""
    return atl.gen(*extents, lambda *i: body(i)) if extents else body(())


def at(a: Any, i: Iterable[Any]) -> Any:
    """Return the element of a tensor at an index for each of its first axes."""
    places = tuple(i)
    return a[places] if places else a


def full(extents: Sequence[Any], value: Any) -> Any:
    """Return a tensor of one value."""
    return over(extents, lambda _: value)


def total(extents: Sequence[Any], body: Callable[[tuple[Any, ...]], Any]) -> Any:
    """Return the sum of body(i) over all i."""
    return atl.sum(*extents, lambda *i: body(i)) if extents else body(())


def every(*parts: Any) -> Any:
    """Return the conjunction of conditions."""
    found: Any = True
    for part in parts:
        found = part & found
    return found


def strided(a: Any, start: Sequence[Any], end: Sequence[Any], step: Sequence[Any]) -> Any:
    """Return the slice of the first axes from start to end in steps."""
    extents = [atl.ceildiv(e - s, p) for s, e, p in zip(start, end, step, strict=True)]
    return over(extents, lambda i: at(a, [s + p * k for s, p, k in zip(start, step, i, strict=True)]))


def is_slice(extents: Sequence[Any], start: Sequence[Any], end: Sequence[Any], step: Sequence[Any]) -> list[Any]:
    """Return the conditions under which such a slice is within the tensor."""
    axes = zip(extents, start, end, step, strict=True)
    return [part for n, s, e, p in axes for part in (s >= 0, s <= e, e <= n, p >= 1)]


def window(a: Any, start: Sequence[Any], length: Sequence[Any]) -> Any:
    """Return the slice of this length from start: a dynamic slice."""
    return over(length, lambda i: at(a, [s + k for s, k in zip(start, i, strict=True)]))


def is_window(extents: Sequence[Any], start: Sequence[Any], length: Sequence[Any]) -> list[Any]:
    """Return the conditions under which such a slice is within the tensor."""
    axes = zip(extents, start, length, strict=True)
    return [part for n, s, m in axes for part in (s >= 0, m >= 0, s + m <= n)]


def updated(a: Any, b: Any, start: Sequence[Any]) -> Any:
    """Return a with b in place of its part from start: a dynamic update of a slice."""

    def element(i: tuple[Any, ...]) -> Any:
        inside = every(*((s <= k) & (k < s + m) for s, k, m in zip(start, i, b.shape, strict=True)))
        return atl.select(inside, at(b, [k - s for s, k in zip(start, i, strict=True)]), at(a, i)) if i else b

    return over(a.shape, element)


def padded(a: Any, value: Any, low: Sequence[Any], high: Sequence[Any], gap: Sequence[Any] | None = None) -> Any:
    """Return a with `low` and `high` values around it, and `gap` between its elements. The amounts may be negative."""
    axes = list(zip(a.shape, low, high, gap or [0] * len(low), strict=False))

    def element(i: tuple[Any, ...]) -> Any:
        if not i:
            return a
        inside = every(*((m <= k) & ((k - m) // (g + 1) < n) for k, (n, m, _, g) in zip(i, axes, strict=True)))
        if gap is not None:
            inside = every(inside, *((k - m) % (g + 1) == 0 for k, (_, m, _, g) in zip(i, axes, strict=True)))
        return atl.select(inside, at(a, [(k - m) // (g + 1) for k, (_, m, _, g) in zip(i, axes, strict=True)]), value)

    return over([m + n + (n - 1) * g + h for n, m, h, g in axes], element)


def reversed_(a: Any) -> Any:
    """Return a tensor in reverse order along each axis."""
    return over(a.shape, lambda i: at(a, [n - 1 - k for n, k in zip(a.shape, i, strict=True)]))


def ordered(of: Sequence[Any], order: Sequence[int]) -> list[Any]:
    """Return what belongs to each axis, after a transposition to this order of the axes."""
    return [of[axis] for axis in order]


def transposed(a: Any, order: Sequence[int]) -> Any:
    """Return a tensor with its axes in another order."""
    return over(ordered(a.shape, order), lambda i: at(a, [i[order.index(axis)] for axis in range(len(order))]))


def clamp(low: Any, a: Any, high: Any) -> Any:
    """Return a, limited to low and high."""
    return atl.minimum(atl.maximum(low, a), high)


def plus(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    """Return the sums of the indices of each axis."""
    return [x + y for x, y in zip(a, b, strict=True)]


def same(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
    """Return the conditions that the indices of each axis are equal."""
    return [x == y for x, y in zip(a, b, strict=True)]


def without_gaps(n: Any, gap: Any, k: Any, body: Callable[[Any], Any]) -> Any:
    """Return element k of n elements with `gap` zeros between them, and zeros around them."""
    inside = (k >= 0) & (k // (gap + 1) < n) & (k % (gap + 1) == 0)
    return atl.guard(inside, body(k // (gap + 1)))


def reversed_along(a: Any, axes: Sequence[int]) -> Any:
    """Return a tensor with three axes in reverse order along some of them."""
    return over(a.shape[:3], lambda i: at(a, [a.shape[d] - 1 - k if d in axes else k for d, k in enumerate(i)]))


def ones(a: Sequence[Any]) -> list[int]:
    """Return 1 for each axis."""
    return [1] * len(a)


TRUE = atl.value(0) == atl.value(0)
FALSE = atl.value(0) == atl.value(1)


# -- sums -------------------------------------------------------------------------------------------------------------


@law
def add_01(a: Elem, c: Scalar, d: Scalar) -> Equation:
    """Two constants are added at once."""
    return equation((a + full(a.shape, c)) + full(a.shape, d), a + full(a.shape, c + d))


@law
def add_02(a: Elem) -> Equation:
    """Zero is neutral on the right."""
    return equation(a + 0, a)


@law
def add_03(a: Elem) -> Equation:
    """Zero is neutral on the left."""
    return equation(0 + a, a)


@law
def add_04(a: Elem, c: Scalar) -> Equation:
    """A constant moves to the right."""
    return equation(full(a.shape, c) + a, a + full(a.shape, c))


# -- broadcasts -------------------------------------------------------------------------------------------------------


@law
def broadcast_01(a: Elem, b: Elem, t: ElemT) -> Equation:
    """A sum of broadcasts is the broadcast of the sum."""
    return equation(over(t.shape, lambda _: a) + over(t.shape, lambda _: b), over(t.shape, lambda _: a + b))


@law
def broadcast_02(a: Elem, b: Elem, t: ElemT) -> Equation:
    """A product of broadcasts is the broadcast of the product."""
    return equation(over(t.shape, lambda _: a) * over(t.shape, lambda _: b), over(t.shape, lambda _: a * b))


@law
def broadcast_03(t: Elem, order: Perm, c: Scalar) -> Equation:
    """A transposed constant tensor is a constant tensor."""
    return equation(transposed(full(t.shape, c), order), full(ordered(t.shape, order), c))


@law
def broadcast_04(t: Elem, c: Scalar) -> Equation:
    """A reversed constant tensor is the tensor."""
    return equation(reversed_(full(t.shape, c)), full(t.shape, c))


@law
def broadcast_05(t: Elem, start: Indices, end: Indices, step: Indices, c: Scalar) -> Equation:
    """A slice of a constant tensor is constant."""
    return equation(
        strided(full(t.shape, c), start, end, step),
        full([atl.ceildiv(e - s, p) for s, e, p in zip(start, end, step, strict=True)], c),
        given(*is_slice(t.shape, start, end, step)),
    )


@law
def broadcast_06(t: Elem, start: Indices, length: Indices, c: Scalar) -> Equation:
    """A dynamic slice of a constant tensor is constant."""
    return equation(window(full(t.shape, c), start, length), full(length, c), given(*is_window(t.shape, start, length)))


@law
def broadcast_07(n: Index, m: Index, t: Elem) -> Equation:
    """A broadcast of numbers that count is a tensor that counts."""
    return equation(
        atl.transpose(over((n,), lambda i: full((m, *t.shape), atl.value(i[0])))),
        over((m, n, *t.shape), lambda i: atl.value(i[1])),
        given(n >= 0, m >= 0),
    )


@law
def broadcast_08(a: Elem, n: Index, m: Index) -> Equation:
    """A broadcast of a broadcast is a broadcast."""
    return equation(
        atl.transpose(over((n,), lambda _: over((m,), lambda _: a))), over((m, n), lambda _: a), given(n >= 0, m >= 0)
    )


# -- limits -----------------------------------------------------------------------------------------------------------


@law
def clamp_01(a: Elem, b: Elem, c: Elem) -> Equation:
    """Clamping twice to the same limits is clamping."""
    return equation(clamp(b, clamp(b, a, c), c), clamp(b, a, c))


@law
def clamp_02(a: Elem, b: Elem, c: Elem) -> Equation:
    """Where the limits are in order, the larger of one and a smaller value is clamped."""
    return equation(atl.where(b < c, atl.maximum(b, atl.minimum(a, c)), a), atl.where(b < c, clamp(b, a, c), a))


@law
def clamp_03(a: Elem, b: Elem, c: Elem) -> Equation:
    """The smaller of one limit and a larger value is clamped."""
    return equation(atl.minimum(b, atl.maximum(a, c)), clamp(c, a, b))


# -- comparisons ------------------------------------------------------------------------------------------------------


@law
def compare_01(a: Elem) -> Equation:
    """`a > a` is false everywhere."""
    return equation(a > a, full(a.shape, FALSE))


@law
def compare_02(a: Elem) -> Equation:
    """`a < a` is false everywhere."""
    return equation(a < a, full(a.shape, FALSE))


@law
def compare_03(a: Elem) -> Equation:
    """`~(a == a)` is false everywhere."""
    return equation(~(a == a), full(a.shape, FALSE))


@law
def compare_04(a: Elem) -> Equation:
    """`a >= a` is true everywhere."""
    return equation(a >= a, full(a.shape, TRUE))


@law
def compare_05(a: Elem) -> Equation:
    """`a <= a` is true everywhere."""
    return equation(a <= a, full(a.shape, TRUE))


@law
def compare_06(a: Elem) -> Equation:
    """`a == a` is true everywhere."""
    return equation(a == a, full(a.shape, TRUE))


# -- concatenations ---------------------------------------------------------------------------------------------------


def listed(*parts: Any) -> Any:
    """Return the concatenation of vectors, by cases of the index."""

    def element(i: Any, first: Any, *rest: Any) -> Any:
        n = first.shape[0]
        return atl.select(i < n, at(first, (i,)), element(i - n, *rest)) if rest else at(first, (i,))

    extent = parts[0].shape[0]
    for part in parts[1:]:
        extent = extent + part.shape[0]
    return over((extent,), lambda i: element(i[0], *parts))


@law
def concat_01(a: Vector, b: Vector) -> Equation:
    """A list of two is concatenated as a pair."""
    return equation(listed(a, b), atl.concat(a, b))


@law
def concat_02(a: Vector, b: Vector, c: Vector) -> Equation:
    """Concatenation is associative."""
    return equation(atl.concat(a, atl.concat(b, c)), atl.concat(atl.concat(a, b), c))


@law
def concat_03(a: Vector, b: Vector, c: Vector) -> Equation:
    """A list of three is concatenated from the right."""
    return equation(listed(a, b, c), atl.concat(a, atl.concat(b, c)))


@law
def concat_04(a: Vector, s: Index, m: Index, e: Index, start: Indices, end: Indices, step: Indices) -> Equation:
    """Adjacent slices are concatenated to a slice."""
    return equation(
        atl.concat(strided(a, (s, *start), (m, *end), (1, *step)), strided(a, (m, *start), (e, *end), (1, *step))),
        strided(a, (s, *start), (e, *end), (1, *step)),
        given(*is_slice(a.shape, (s, *start), (m, *end), (1, *step)), m <= e, e <= a.shape[0]),
    )


@law
def concat_05(b: Vector, low: Index, c: Scalar) -> Equation:
    """A constant before a tensor is padding."""
    return equation(
        atl.concat(full((low, *b.shape[1:]), c), b), padded(b, full(b.shape[1:], c), (low,), (0,)), given(low >= 0)
    )


@law
def concat_06(a: Vector, high: Index, c: Scalar) -> Equation:
    """A constant behind a tensor is padding."""
    return equation(
        atl.concat(a, full((high, *a.shape[1:]), c)), padded(a, full(a.shape[1:], c), (0,), (high,)), given(high >= 0)
    )


@law
def concat_07(a: Vector, b: Vector, c: Vector) -> Equation:
    """A concatenation from the right is that of a list of three."""
    return equation(atl.concat(a, atl.concat(b, c)), listed(a, b, c))


# -- quotients and remainders -----------------------------------------------------------------------------------------


@law
def divmod_01(a: Elem) -> Equation:
    """One is neutral as a divisor."""
    return equation(a / 1, a)


@law
def divmod_02(a: Elem, c: Scalar) -> Equation:
    """A quotient is the product with the reciprocal."""
    return equation(a / full(a.shape, c), a * full(a.shape, 1 / c))


@law
def divmod_03(a: Elem, b: Elem, c: Elem, d: Elem) -> Equation:
    """A quotient of quotients is the quotient of products."""
    return equation((a / b) / (c / d), (a * d) / (b * c))


@law
def divmod_04(a: Elem, b: Elem, c: Elem) -> Equation:
    """A quotient by a quotient is the quotient of a product."""
    return equation(a / (b / c), (a * c) / b)


@law
def divmod_05(a: Elem, b: Elem) -> Equation:
    """A remainder of a remainder by the same divisor is the remainder."""
    return equation((a % b) % b, a % b)


@law
def divmod_06(t: Elem, n: Index, c: Index) -> Equation:
    """Numbers below the divisor are their remainders."""
    return equation(
        over((n, *t.shape), lambda i: atl.value(i[0] % c)),
        over((n, *t.shape), lambda i: atl.value(i[0])),
        given(n >= 0, c >= 1, n <= c),
    )


@law
def divmod_07(t: Elem, n: Index, c: Index) -> Equation:
    """Adding the divisor does not change the remainders of numbers that count."""
    return equation(
        over((n, *t.shape), lambda i: atl.value((i[0] + c) % c)),
        over((n, *t.shape), lambda i: atl.value(i[0] % c)),
        given(n >= 0, c >= 1),
    )


@law
def divmod_08(t: Elem, x: Index, c: Index) -> Equation:
    """Adding the divisor does not change a remainder."""
    return equation(
        over(t.shape, lambda _: atl.value((x + c) % c)), over(t.shape, lambda _: atl.value(x % c)), given(c >= 1)
    )


# -- products of tensors ----------------------------------------------------------------------------------------------


@law
def dot_01(n: Index, m: Index, x: Body[Index], y: Body[Index], c: Body[Index], d: Body[Index]) -> Equation:
    """A product of concatenations is the sum of the products of their parts."""
    return equation(
        atl.sum(n + m, lambda i: atl.select(i < n, x(i), y(i - n)) * atl.select(i < n, c(i), d(i - n))),
        atl.sum(2, lambda j: atl.select(j < 1, atl.sum(n, lambda i: x(i) * c(i)), atl.sum(m, lambda i: y(i) * d(i)))),
        given(n >= 0, m >= 0),
    )


@law
def dot_02(n: Index, a: Body[Index], b: Body[Index]) -> Equation:
    """The operands of a product commute."""
    return equation(
        atl.sum(n, lambda i: a(i) * b(i)),
        atl.sum(n, lambda i: b(i) * a(i)),
        given(n >= 0, *same(a(0).shape, b(0).shape)),
    )


@law
def dot_03(n: Index, m: Index, a: Body[Index], b: Body[Index, Index], c: Body[Index]) -> Equation:
    """Products are associative."""
    return equation(
        atl.sum(n, lambda i: a(i) * atl.sum(m, lambda j: b(i, j) * c(j))),
        atl.sum(m, lambda j: atl.sum(n, lambda i: a(i) * b(i, j)) * c(j)),
        given(n >= 0, m >= 0),
    )


@law
def dot_04(x: Vector, y: Vector, n: Index) -> Equation:
    """A product without contraction is that of broadcasts."""
    return equation(
        over((x.shape[0],), lambda i: over((n,), lambda _: at(x, i)) * over((n,), lambda _: at(y, i))),
        over((x.shape[0], n), lambda i: at(x, i[:1]) * at(y, i[:1])),
        given(n >= 0, x.shape[0] == y.shape[0]),
    )


@law
def dot_05(t: Elem, n: Index, x: Body[Index], y: Body[Index]) -> Equation:
    """A product over no terms is zero."""
    return equation(atl.sum(n, lambda i: x(i) * y(i)), x(0) * 0, given(n == 0))


@law
def dot_06(n: Index, m: Index, x: Body[Index, Index], y: Body[Index]) -> Equation:
    """A product with a tensor of contracted axes only is a sum of products."""
    return equation(
        over((m,), lambda j: atl.sum(n, lambda i: x(j[0], i) * y(i))),
        atl.sum(n, lambda i: over((m,), lambda j: x(j[0], i)) * over((m,), lambda _: y(i))),
        given(n >= 0, m >= 0),
    )


# -- dynamic slices ---------------------------------------------------------------------------------------------------


@law
def dyslice_01(a: Vector, start: Index, length: Index) -> Equation:
    """A dynamic slice is a slice."""
    return equation(
        window(a, (start,), (length,)),
        atl.truncl(start, atl.truncr(a.shape[0] - start - length, a)),
        given(*is_window(a.shape[:1], (start,), (length,))),
    )


@law
def dyslice_02(a: Elem, start: Indices, length: Indices) -> Equation:
    """A slice of the whole is the tensor."""
    return equation(window(a, start, length), a, given(*[s == 0 for s in start], *same(length, a.shape)))


@law
def dyslice_03(a: Elem, start: Indices, length: Indices, t: ElemT, first: IndicesT, count: IndicesT) -> Equation:
    """A slice of a broadcast is the broadcast of a slice."""
    return equation(
        window(over(t.shape, lambda _: a), (*first, *start), (*count, *length)),
        over(count, lambda _: window(a, start, length)),
        given(*is_window(a.shape, start, length), *is_window(t.shape, first, count)),
    )


@law
def dyslice_04(a: Elem, order: Perm, start: Indices, length: Indices) -> Equation:
    """A slice of a transpose is the transpose of a slice."""
    return equation(
        window(transposed(a, order), ordered(start, order), ordered(length, order)),
        transposed(window(a, start, length), order),
        given(*is_window(a.shape, start, length)),
    )


@law
def dyslice_05(a: Elem, start: Indices, length: Indices, first: Indices, count: Indices) -> Equation:
    """A slice of a slice is a slice."""
    return equation(
        window(window(a, start, length), first, count),
        window(a, plus(start, first), count),
        given(*is_window(a.shape, start, length), *is_window(length, first, count)),
    )


@law
def dyslice_06(t: Elem, n: Index, s: Index) -> Equation:
    """An element of numbers that count is its index."""
    return equation(
        window(over((n, *t.shape), lambda i: atl.value(i[0])), (s,), (1,)),
        full((1, *t.shape), atl.value(s)),
        given(s >= 0, s < n),
    )


# -- updates of slices ------------------------------------------------------------------------------------------------


@law
def dyupslice_01(a: Elem, b: Elem, start: Indices) -> Equation:
    """Adding an update of zero updates a slice with a sum."""
    return equation(
        a + updated(full(a.shape, 0), b, start),
        updated(a, b + window(a, start, b.shape), start),
        given(*is_window(a.shape, start, b.shape)),
    )


@law
def dyupslice_02(a: Elem, t: Elem, start: Indices, c: Scalar) -> Equation:
    """An update of a constant tensor is padding."""
    return equation(
        updated(full(t.shape, c), a, start),
        padded(a, c, start, [n - m - s for n, m, s in zip(t.shape, a.shape, start, strict=True)]),
        given(*is_window(t.shape, start, a.shape)),
    )


@law
def dyupslice_03(a: Elem, b: Elem, start: Indices) -> Equation:
    """An update of everything is the update."""
    return equation(updated(a, b, start), b, given(*[s == 0 for s in start], *same(a.shape, b.shape)))


@law
def dyupslice_04(a: Elem, b: Elem, start: Indices, length: Indices, first: Indices) -> Equation:
    """An update with an updated slice of the same tensor updates less."""
    return equation(
        updated(a, updated(window(a, start, length), b, first), start),
        updated(a, b, plus(start, first)),
        given(*is_window(a.shape, start, length), *is_window(length, first, b.shape)),
    )


# -- numbers that count -----------------------------------------------------------------------------------------------


@law
def iota_01(t: Elem, n: Index) -> Equation:
    """One number that counts is zero."""
    return equation(
        over((n, *t.shape), lambda i: atl.value(i[0])), over((n, *t.shape), lambda i: atl.value(0)), given(n == 1)
    )


# -- logical operations -----------------------------------------------------------------------------------------------


@law
def logical_01(x: Elem) -> Equation:
    """Anything or true is true."""
    return equation((x < 0) | full(x.shape, TRUE), full(x.shape, TRUE))


@law
def logical_02(x: Elem) -> Equation:
    """True or anything is true."""
    return equation(full(x.shape, TRUE) | (x < 0), full(x.shape, TRUE))


@law
def logical_03(x: Elem) -> Equation:
    """False is neutral for or, on the right."""
    return equation((x < 0) | full(x.shape, FALSE), x < 0)


@law
def logical_04(x: Elem) -> Equation:
    """False is neutral for or, on the left."""
    return equation(full(x.shape, FALSE) | (x < 0), x < 0)


@law
def logical_05(x: Elem) -> Equation:
    """True is neutral for and, on the right."""
    return equation((x < 0) & full(x.shape, TRUE), x < 0)


@law
def logical_06(x: Elem) -> Equation:
    """True is neutral for and, on the left."""
    return equation(full(x.shape, TRUE) & (x < 0), x < 0)


@law
def logical_07(x: Elem) -> Equation:
    """Anything and false is false."""
    return equation((x < 0) & full(x.shape, FALSE), full(x.shape, FALSE))


@law
def logical_08(x: Elem) -> Equation:
    """False and anything is false."""
    return equation(full(x.shape, FALSE) & (x < 0), full(x.shape, FALSE))


@law
def logical_09(a: Elem, c: Scalar, d: Scalar) -> Equation:
    """Less than both is less than the smaller."""
    return equation((a < full(a.shape, c)) & (full(a.shape, d) > a), a < full(a.shape, atl.minimum(c, d)))


@law
def logical_10(a: Elem, b: Elem) -> Equation:
    """The larger exceeds the second if the first does."""
    return equation(atl.maximum(a, b) > b, a > b)


@law
def logical_11(a: Elem, b: Elem) -> Equation:
    """The larger exceeds the first if the second does."""
    return equation(atl.maximum(a, b) > a, b > a)


# -- products ---------------------------------------------------------------------------------------------------------


@law
def mul_01(a: Elem) -> Equation:
    """One is neutral on the right."""
    return equation(a * 1, a)


@law
def mul_02(a: Elem) -> Equation:
    """One is neutral on the left."""
    return equation(1 * a, a)


@law
def mul_03(a: Elem) -> Equation:
    """A product with zero is zero."""
    return equation(a * 0, full(a.shape, 0))


@law
def mul_04(a: Elem) -> Equation:
    """A product of zero is zero."""
    return equation(0 * a, full(a.shape, 0))


@law
def mul_05(a: Elem, b: Elem, c: Scalar, d: Scalar) -> Equation:
    """Constants are multiplied at once."""
    return equation((a * full(a.shape, c)) * (b * full(b.shape, d)), (a * b) * full(a.shape, c * d))


@law
def mul_06(a: Elem, c: Scalar, d: Scalar) -> Equation:
    """Two constants are multiplied at once."""
    return equation((a * full(a.shape, c)) * full(a.shape, d), a * full(a.shape, c * d))


@law
def mul_07(a: Vector, b: Elem, c: Scalar) -> Equation:
    """A constant factor moves into a broadcast."""
    return equation(
        (a * full(a.shape, c)) * over(a.shape[:1], lambda _: b), over(a.shape[:1], lambda _: b * full(b.shape, c)) * a
    )


@law
def mul_08(a: Elem, b: Elem, c: Elem) -> Equation:
    """Products are distributive."""
    return equation(a * c + b * c, (a + b) * c)


@law
def mul_09(a: Elem) -> Equation:
    """The square of an absolute value is the square."""
    return equation(abs(a) * abs(a), a * a)


@law
def mul_10(a: Elem, b: Elem) -> Equation:
    """A product of exponentials is that of the sum."""
    return equation(atl.exp(a) * atl.exp(b), atl.exp(a + b))


# -- negations --------------------------------------------------------------------------------------------------------


@law
def not_01(x: Elem) -> Equation:
    """Not is its own inverse."""
    return equation(~~(x < 0), x < 0)


@law
def not_02(a: Elem) -> Equation:
    """Negation is its own inverse."""
    return equation(-(-a), a)


# -- padding ----------------------------------------------------------------------------------------------------------


@law
def pad_01(a: Elem, low: Indices, high: Indices, gap: Indices, c: Scalar) -> Equation:
    """Padding by nothing is the tensor."""
    return equation(padded(a, c, low, high, gap), a, given(*[m == 0 for m in (*low, *high, *gap)]))


@law
def pad_02(a: Vector, low: Index, high: Index, gap: Index, c: Elem) -> Equation:
    """One element has no gaps."""
    return equation(
        padded(a, c, (low,), (high,), (gap,)),
        padded(a, c, (low,), (high,)),
        given(a.shape[0] == 1, gap >= 0, low >= 0, high >= 0),
    )


@law
def pad_03(a: Elem, low: Indices, high: Indices, n: Index, c: Scalar) -> Equation:
    """An axis that is only broadcast is not padded."""
    return equation(
        padded(over((n,), lambda _: a), c, (0, *low), (0, *high)),
        over((n,), lambda _: padded(a, c, low, high)),
        given(n >= 0, *[m >= 0 for m in (*low, *high)]),
    )


@law
def pad_04(a: Elem, low: Indices, high: Indices, c: Scalar) -> Equation:
    """Negative padding is a slice."""
    return equation(
        padded(a, c, [-m for m in low], [-m for m in high]),
        strided(a, low, [n - m for n, m in zip(a.shape, high, strict=True)], ones(low)),
        given(
            *is_slice(a.shape, low, [n - m for n, m in zip(a.shape, high, strict=True)], ones(low)),
            *[m >= 0 for m in high],
        ),
    )


# -- reductions -------------------------------------------------------------------------------------------------------


@law
def reduce_01(n: Index, m: Index, x: Body[Index], y: Body[Index]) -> Equation:
    """A product of sums is the sum of products."""
    return equation(
        atl.sum(n, x) * atl.sum(m, y), atl.sum(n, lambda i: atl.sum(m, lambda j: x(i) * y(j))), given(n >= 0, m >= 0)
    )


@law
def reduce_02(n: Index, m: Index, x: Body[Index], y: Body[Index]) -> Equation:
    """The sum of two sums is that of a concatenation."""
    return equation(
        atl.sum(2, lambda j: atl.select(j < 1, atl.sum(n, x), atl.sum(m, y))),
        atl.sum(n + m, lambda i: atl.select(i < n, x(i), y(i - n))),
        given(n >= 0, m >= 0),
    )


@law
def reduce_03(n: Index, x: Body[Index], c: Scalar) -> Equation:
    """A constant factor moves into a sum."""
    return equation(
        full(x(0).shape, c) * atl.sum(n, x), atl.sum(n, lambda i: full(x(0).shape, c) * x(i)), given(n >= 0)
    )


@law
def reduce_04(n: Index, x: Body[Index], order: Perm) -> Equation:
    """A sum of transposed tensors is the transpose of the sum."""
    return equation(atl.sum(n, lambda i: transposed(x(i), order)), transposed(atl.sum(n, x), order), given(n >= 0))


@law
def reduce_05(n: Index, m: Index, x: Body[Index, Index]) -> Equation:
    """A sum of sums may be taken in either order."""
    return equation(
        atl.sum(m, lambda j: atl.sum(n, lambda i: x(i, j))),
        atl.sum(n, lambda i: atl.sum(m, lambda j: x(i, j))),
        given(n >= 0, m >= 0),
    )


@law
def reduce_06(n: Index, m: Index, x: Body[Index, Index], y: Body[Index, Index]) -> Equation:
    """A sum of products is the product with more contracted axes."""
    return equation(
        atl.sum(m, lambda j: atl.sum(n, lambda i: x(i, j) * y(i, j))),
        atl.sum(n, lambda i: atl.sum(m, lambda j: x(i, j) * y(i, j))),
        given(n >= 0, m >= 0),
    )


@law
def reduce_07(a: Vector) -> Equation:
    """The sum over one element is the element."""
    return equation(atl.sum(a.shape[0], lambda i: a[i]), a[0], given(a.shape[0] == 1))


@law
def reduce_08(n: Index, x: Body[Index], order: Perm) -> Equation:
    """The sum over an axis of one element, after a transposition, is the transposed element."""
    return equation(atl.sum(n, lambda i: transposed(x(i), order)), transposed(x(0), order), given(n == 1))


# -- transpositions ---------------------------------------------------------------------------------------------------


@law
def relabel_01(a: Elem, order: Perm, further: Perm) -> Equation:
    """A transposition of a transposition is a transposition."""
    return equation(transposed(transposed(a, order), further), transposed(a, ordered(order, further)))


@law
def relabel_02(a: Elem) -> Equation:
    """Transposing axes to where they are changes nothing."""
    return equation(transposed(a, range(a.rank)), a)


# -- reversals --------------------------------------------------------------------------------------------------------


@law
def reverse_01(a: Elem) -> Equation:
    """A tensor of one element along each axis is its reverse."""
    return equation(reversed_(a), a, given(*[n == 1 for n in a.shape]))


@law
def reverse_02(a: Elem) -> Equation:
    """Reversal is its own inverse."""
    return equation(reversed_(reversed_(a)), a)


@law
def reverse_03(a: Cube) -> Equation:
    """Reversals along some axes and others are one along those of one of them."""
    return equation(reversed_along(reversed_along(a, (0, 1)), (1, 2)), reversed_along(a, (0, 2)))


@law
def reverse_04(a: Elem, c: Scalar) -> Equation:
    """A constant is added before or after a reversal."""
    return equation(reversed_(a + full(a.shape, c)), reversed_(a) + full(a.shape, c))


# -- extrema ----------------------------------------------------------------------------------------------------------
# A literal cannot be infinite. These rules are about any number that bounds the elements, as an infinity does.


@law
def max_01(a: Elem, low: Scalar) -> Equation:
    """A lower bound of an element is neutral in its maximum."""
    below = full(a.shape, low)
    return equation(atl.where(below <= a, atl.maximum(a, below), a), a)


@law
def max_02(a: Elem, high: Scalar) -> Equation:
    """An upper bound of an element is neutral in its minimum."""
    above = full(a.shape, high)
    return equation(atl.where(a <= above, atl.minimum(a, above), a), a)


# -- choices ----------------------------------------------------------------------------------------------------------


@law
def select_01(p: Elem, a: Elem) -> Equation:
    """A choice between equal tensors is the tensor."""
    return equation(atl.where(p < 0, a, a), a, given(*same(p.shape, a.shape)))


@law
def select_02(a: Elem, b: Elem) -> Equation:
    """A choice by true is the first tensor."""
    return equation(atl.where(full(a.shape, TRUE), a, b), a, given(*same(a.shape, b.shape)))


@law
def select_03(a: Elem, b: Elem) -> Equation:
    """A choice by false is the second tensor."""
    return equation(atl.where(full(a.shape, FALSE), a, b), b, given(*same(a.shape, b.shape)))


@law
def select_04(p: Elem, a: Elem, b: Elem) -> Equation:
    """A choice by a negation is the opposite choice."""
    return equation(atl.where(~(p < 0), a, b), atl.where(p < 0, b, a))


# -- slices -----------------------------------------------------------------------------------------------------------


@law
def slice_01(a: Elem, start: Indices, end: Indices, step: Indices) -> Equation:
    """A slice of the whole is the tensor."""
    return equation(
        strided(a, start, end, step), a, given(*[s == 0 for s in start], *same(end, a.shape), *[p == 1 for p in step])
    )


@law
def slice_02(t: Elem, start: Indices, end: Indices, step: Indices, c: Scalar) -> Equation:
    """A slice of a constant is a constant."""
    return equation(
        strided(full(t.shape, c), start, end, step),
        full([atl.ceildiv(e - s, p) for s, e, p in zip(start, end, step, strict=True)], c),
        given(*is_slice(t.shape, start, end, step)),
    )


@law
def slice_03(
    a: Elem, start: Indices, end: Indices, step: Indices, t: ElemT, first: IndicesT, last: IndicesT, by: IndicesT
) -> Equation:
    """A slice of a broadcast is the broadcast of a slice."""
    return equation(
        strided(over(t.shape, lambda _: a), (*first, *start), (*last, *end), (*by, *step)),
        over(
            [atl.ceildiv(e - s, p) for s, e, p in zip(first, last, by, strict=True)],
            lambda _: strided(a, start, end, step),
        ),
        given(*is_slice(a.shape, start, end, step), *is_slice(t.shape, first, last, by)),
    )


@law
def slice_04(a: Elem, low: Indices, high: Indices, gap: Indices, c: Scalar) -> Equation:
    """The slice of a padded tensor that takes its elements is the tensor."""
    return equation(
        strided(
            padded(a, c, low, high, gap),
            low,
            [n + m + (n - 1) * g for n, m, g in zip(a.shape, low, gap, strict=True)],
            [g + 1 for g in gap],
        ),
        a,
        given(*[n >= 1 for n in a.shape], *[m >= 0 for m in (*low, *high, *gap)]),
    )


@law
def slice_05(a: Elem, low: Indices, high: Indices, start: Indices, end: Indices, step: Indices, c: Scalar) -> Equation:
    """A slice of padding is constant."""
    if not a.rank:
        raise atl.errors.RankError("a scalar has no padding", required="an axis")
    return equation(
        strided(padded(a, c, low, high), start, end, step),
        full([atl.ceildiv(e - s, p) for s, e, p in zip(start, end, step, strict=True)], c),
        given(
            *[m >= 0 for m in (*a.shape, *low, *high)],
            *is_slice([n + m + h for n, m, h in zip(a.shape, low, high, strict=True)], start, end, step),
            *[(e <= m) | (s >= n + m) for n, m, s, e in zip(a.shape, low, start, end, strict=True)],
        ),
    )


@law
def slice_06(a: Elem, low: Indices, high: Indices, start: Indices, end: Indices, c: Scalar) -> Equation:
    """A slice of a padded tensor within the tensor is a slice of it."""
    return equation(
        strided(padded(a, c, low, high), start, end, ones(start)),
        strided(
            a,
            [s - m for s, m in zip(start, low, strict=True)],
            [e - m for e, m in zip(end, low, strict=True)],
            ones(start),
        ),
        given(
            *[m >= 0 for m in (*low, *high)],
            *[
                part
                for n, m, s, e in zip(a.shape, low, start, end, strict=True)
                for part in (s >= m, s <= e, e <= n + m)
            ],
        ),
    )


@law
def slice_07(
    a: Elem, start: Indices, end: Indices, step: Indices, first: Indices, last: Indices, by: Indices
) -> Equation:
    """A slice of a slice without strides is a slice."""
    return equation(
        strided(strided(a, start, end, step), first, last, by),
        strided(a, plus(start, first), plus(start, last), step),
        given(
            *[p == 1 for p in (*step, *by)],
            *is_slice(a.shape, start, end, ones(start)),
            *is_slice([e - s for s, e in zip(start, end, strict=True)], first, last, ones(start)),
        ),
    )


@law
def slice_08(a: Vector, b: Vector, start: Indices, end: Indices, step: Indices) -> Equation:
    """The slice of a concatenation that is its second part is a slice of that."""
    return equation(
        strided(atl.concat(a, b), (a.shape[0], *start), (a.shape[0] + b.shape[0], *end), (1, *step)),
        strided(b, (0, *start), (b.shape[0], *end), (1, *step)),
        given(
            a.shape[0] >= 0,
            *is_slice(b.shape, (0, *start), (b.shape[0], *end), (1, *step)),
            *same(a.shape[1:], b.shape[1:]),
        ),
    )


@law
def slice_09(a: Elem, n: Index, s: Index, e: Index, p: Index) -> Equation:
    """A slice of new axes of a broadcast is a broadcast."""
    return equation(
        strided(over((n,), lambda _: a), (s,), (e,), (p,)),
        over((atl.ceildiv(e - s, p),), lambda _: a),
        given(*is_slice((n,), (s,), (e,), (p,))),
    )


@law
def slice_10(
    a: Vector, b: Vector, s: Index, e: Index, p: Index, start: Indices, end: Indices, step: Indices
) -> Equation:
    """A slice of a concatenation within its first part is a slice of that."""
    return equation(
        strided(atl.concat(a, b), (s, *start), (e, *end), (p, *step)),
        strided(a, (s, *start), (e, *end), (p, *step)),
        given(
            b.shape[0] >= 0,
            *is_slice(a.shape, (s, *start), (e, *end), (p, *step)),
            *same(a.shape[1:], b.shape[1:]),
        ),
    )


@law
def slice_11(
    a: Vector, b: Vector, s: Index, e: Index, p: Index, start: Indices, end: Indices, step: Indices
) -> Equation:
    """A slice of a concatenation within its second part is a slice of that."""
    return equation(
        strided(atl.concat(a, b), (s + a.shape[0], *start), (e + a.shape[0], *end), (p, *step)),
        strided(b, (s, *start), (e, *end), (p, *step)),
        given(
            a.shape[0] >= 0,
            *is_slice(b.shape, (s, *start), (e, *end), (p, *step)),
            *same(a.shape[1:], b.shape[1:]),
        ),
    )


@law
def slice_12(
    a: Vector, b: Vector, c: Vector, s: Index, e: Index, p: Index, start: Indices, end: Indices, step: Indices
) -> Equation:
    """A slice of a list behind its first part is that of the other parts."""
    return equation(
        strided(atl.concat(a, atl.concat(b, c)), (s + a.shape[0], *start), (e + a.shape[0], *end), (p, *step)),
        strided(atl.concat(b, c), (s, *start), (e, *end), (p, *step)),
        given(
            *(x.shape[0] >= 0 for x in (a, b, c)),
            *is_slice((b.shape[0] + c.shape[0], *b.shape[1:]), (s, *start), (e, *end), (p, *step)),
            *same(a.shape[1:], b.shape[1:]),
            *same(c.shape[1:], b.shape[1:]),
        ),
    )


@law
def slice_13(a: Elem, start: Indices, end: Indices, step: Indices) -> Equation:
    """A slice of a reversal is the reversal of a slice."""
    return equation(
        strided(reversed_(a), start, end, step),
        reversed_(
            strided(
                a,
                [n - s - (p * ((e - s - 1) // p) + 1) for n, s, e, p in zip(a.shape, start, end, step, strict=True)],
                [n - s for n, s in zip(a.shape, start, strict=True)],
                step,
            )
        ),
        given(*is_slice(a.shape, start, end, step), *[s < e for s, e in zip(start, end, strict=True)]),
    )


# -- differences ------------------------------------------------------------------------------------------------------


@law
def sub_01(a: Elem) -> Equation:
    """Zero is neutral as a subtrahend."""
    return equation(a - 0, a)


@law
def sub_02(a: Elem, c: Scalar) -> Equation:
    """A difference is the sum with the negation."""
    return equation(a - full(a.shape, c), a + full(a.shape, -c))


@law
def sub_03(a: Elem) -> Equation:
    """A difference of equal tensors is zero."""
    return equation(a - a, full(a.shape, 0))


# -- convolutions -----------------------------------------------------------------------------------------------------


@law
def conv_00(
    n: Index,
    k: Index,
    f: Index,
    low: Index,
    high: Index,
    plow: Index,
    phigh: Index,
    gap: Index,
    by: Index,
    x: Scalar[Index, Index],
    w: Scalar[Index, Index],
) -> Equation:
    """A convolution of a padded input is one with more padding and dilation."""
    return equation(
        over(
            (low + plow + n + (n - 1) * gap + phigh + high - (k - 1) * by,),
            lambda o: atl.sum(
                f,
                lambda c: atl.sum(
                    k,
                    lambda y: (
                        atl.guard(
                            (o[0] + y * by >= low) & (o[0] + y * by < low + plow + n + (n - 1) * gap + phigh),
                            without_gaps(n, gap, o[0] + y * by - low - plow, lambda i: x(c, i)),
                        )
                        * w(c, y)
                    ),
                ),
            ),
        ),
        over(
            (low + plow + n + (n - 1) * gap + phigh + high - (k - 1) * by,),
            lambda o: atl.sum(
                f,
                lambda c: atl.sum(
                    k, lambda y: without_gaps(n, gap, o[0] + y * by - (low + plow), lambda i: x(c, i)) * w(c, y)
                ),
            ),
        ),
        given(
            n >= 1,
            k >= 1,
            f >= 0,
            by >= 1,
            gap >= 0,
            *[m >= 0 for m in (low, high, plow, phigh)],
            low + plow + n + (n - 1) * gap + phigh + high >= (k - 1) * by,
        ),
    )


@law
def conv_01(n: Index, k: Index, f: Index, gap: Index, x: Scalar[Index, Index], w: Scalar[Index, Index]) -> Equation:
    """A convolution with a dilated kernel has strides in its window."""
    return equation(
        over(
            (n,),
            lambda o: atl.sum(
                f,
                lambda c: atl.sum(
                    (k - 1) * (gap + 1) + 1, lambda y: x(c, o[0] + y) * without_gaps(k, gap, y, lambda j: w(c, j))
                ),
            ),
        ),
        over((n,), lambda o: atl.sum(f, lambda c: atl.sum(k, lambda j: x(c, o[0] + j * (gap + 1)) * w(c, j)))),
        given(n >= 0, k >= 1, f >= 0, gap >= 0),
    )


@law
def conv_03(n: Index, f: Index, x: Scalar[Index, Index], w: Scalar[Index, Index]) -> Equation:
    """A convolution with a kernel of one element is a product."""
    return equation(
        over((n,), lambda o: atl.sum(f, lambda c: atl.sum(1, lambda y: x(c, o[0] + y) * w(c, y)))),
        over((n,), lambda o: atl.sum(f, lambda c: x(c, o[0]) * w(c, 0))),
        given(n >= 0, f >= 0),
    )


# -- all of them ------------------------------------------------------------------------------------------------------


def rules() -> dict[str, Rule]:
    """Declare all rules, which takes about two minutes, and return them by name."""
    return {function.__name__: rule(function) for function in LAWS}


def main() -> None:
    """Print the proof status of each rule."""
    found = {name: proof_status(each) for name, each in rules().items()}
    for name, status in found.items():
        print(f"{name:14}{status}")  # noqa: T201
    proved = sum(str(status).startswith("proved") for status in found.values())
    print(f"{proved} of {len(found)} rules are proved for all sizes")  # noqa: T201


if __name__ == "__main__":
    main()
