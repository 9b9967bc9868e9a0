"""Rules that are true for elements of rank 0 to 4 and false above, which must not be proved for every rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from math import prod
from typing import Any, Final

import atl
from examples.xla_rules import at, every, over, transposed
from rewrites import user_rules
from rewrites.user_rules import Elem, Equation, Indices, Perm, equation, given


def any_of(*parts: Any) -> Any:
    found: Any = False
    for part in parts:
        found = part | found
    return found


def alike(a: Any, b: Any) -> list[Any]:
    return [n == m for n, m in zip(a.shape, b.shape, strict=True)]


def one_differs(indices: Sequence[Sequence[Any]]) -> list[Any]:
    """Return premises: along each axis at most one of these indices is not zero."""
    return [(x == 0) | (y == 0) for axis in zip(*indices, strict=True) for x, y in combinations(axis, 2)]


Law = Callable[..., Equation]


def _with_indices(count: int, name: str, state: Callable[..., Equation], kind: str = "") -> Law:
    """Return a law of two tensors and this number of tuples of indices, of another group if `kind` is "T"."""
    names = [f"s{k}" for k in range(count)]
    parameters = ", ".join(f"{each}: Indices{kind}" for each in names)
    found: dict[str, Any] = {}
    text = f"def {name}(a: Elem{kind}, b: Elem{kind}, {parameters}) -> Equation:\n"
    text += (
        f'    """A law that is false only if there are enough axes."""\n    return state(a, b, [{", ".join(names)}])'
    )
    exec(text, {**vars(user_rules), "state": state}, found)
    return found[name]  # type: ignore[no-any-return]


def chosen(a: Any, b: Any, indices: Sequence[Sequence[Any]]) -> Equation:
    """One of the indices is zero, if there are more of them than axes: a is chosen."""
    out = b
    for each in indices:
        out = atl.select(every(*(x == 0 for x in each)), a, out)
    return equation(out, a, given(*one_differs(indices), *alike(a, b)))


def pigeonhole(count: int, kind: str = "") -> Law:
    """Return a law with this number of conditions that is false first at this rank."""
    return _with_indices(count, f"pigeonhole_{count}", chosen, kind)


def guarded(a: Any, b: Any, indices: Sequence[Sequence[Any]]) -> Equation:
    """A guard of all disjunctions is empty."""
    body = a
    for each in indices:
        body = atl.guard(any_of(*(x != 0 for x in each)), body)
    return equation(b + body, b, given(*one_differs(indices), *alike(a, b)))


def product_of_guards(a: Any, b: Any, indices: Sequence[Sequence[Any]]) -> Equation:
    """A product of differences, one of which is zero."""
    parts = [a - atl.guard(every(*(x == 0 for x in each)), a) for each in indices]
    return equation(b + prod(parts[1:], start=parts[0]), b, given(*one_differs(indices), *alike(a, b)))


def elements_differ(a: Any, b: Any, indices: Sequence[Sequence[Any]]) -> Equation:
    """Of more elements than axes and one, each of which differs from the first along few axes, two are equal."""
    inside = [part for each in indices for n, x in zip(a.shape, each, strict=True) for part in (x >= 0, x < n)]
    first = at(a, [0 for _ in a.shape])
    product = prod([first - at(a, each) for each in indices[1:]], start=first - at(a, indices[0]))
    positive = [n >= 1 for n in a.shape]
    return equation(b + product, b + 0 * product, given(*one_differs(indices), *inside, *positive))


def largest_elements(a: Any, b: Any, indices: Sequence[Sequence[Any]]) -> Equation:
    """The same, with a sum of absolute values of which one vanishes."""
    inside = [part for each in indices for n, x in zip(a.shape, each, strict=True) for part in (x >= 0, x < n)]
    first = at(a, [0 for _ in a.shape])
    least = abs(first - at(a, indices[0]))
    for each in indices[1:]:
        least = atl.minimum(least, abs(first - at(a, each)))
    return equation(b + least, b + 0 * least, given(*one_differs(indices), *inside, *[n >= 1 for n in a.shape]))


# -- functions that treat further axes in another way -----------------------------------------------------------------


def reversed_first(a: Any, most: int) -> Any:
    def element(i: Sequence[Any]) -> Any:
        return at(a, [a.shape[axis] - 1 - k if axis < most else k for axis, k in enumerate(i)])

    return over(a.shape, element)


def reverse_first_four(v: Elem) -> Equation:
    """Reversing all axes, and then the first four, changes nothing."""
    return equation(reversed_first(reversed_first(v, 99), 4), v)


def reverse_first_five(v: Elem) -> Equation:
    """Reversing all axes, and then the first five, changes nothing."""
    return equation(reversed_first(reversed_first(v, 99), 5), v)


def one_more_at_5(v: Elem) -> Equation:
    """Zero is added, and one at rank 5."""
    return equation(v + (1 if v.rank == 5 else 0), v)


def one_more_at_6(v: Elem) -> Equation:
    """Zero is added, and one at rank 6."""
    return equation(v + (1 if v.rank == 6 else 0), v)


def premise_up_to_4(v: Elem, s: Indices) -> Equation:
    """A shift by zero along the first four axes, and by anything along others."""
    shifted = over(v.shape, lambda i: at(v, [k + x for k, x in zip(i, s, strict=True)]))
    return equation(shifted, v, given(*[x == 0 for x in s[:4]]))


def rotated(v: Any) -> Any:
    return over((v.shape[-1], *v.shape[:-1]), lambda i: at(v, (*i[1:], i[0]))) if v.rank else v


def rotate_12_times(v: Elem) -> Equation:
    """Rotating the axes 12 times changes nothing, since 12 is a multiple of 1 to 4."""
    out = v
    for _ in range(12):
        out = rotated(out)
    return equation(out, v)


def permute_12_times(v: Elem, p: Perm) -> Equation:
    """Permuting the axes 12 times changes nothing, since each permutation of four axes has an order that divides 12."""
    out = v
    for _ in range(12):
        out = transposed(out, p)
    return equation(out, v)


def sum_of_four(v: Elem) -> Equation:
    """The sum over all axes is the sum over the first four."""
    whole = atl.sum(*v.shape, lambda *i: at(v, i)) if v.rank else v
    some = atl.sum(*v.shape[:4], lambda *i: at(v, (*i, *[0] * (v.rank - len(i))))) if v.rank else v
    return equation(whole + 0, some)


def extents_of_four(v: Elem) -> Equation:
    """A part along the first four axes is the whole, if the others have one element; this is not required."""
    part = over([n if d < 4 else 1 for d, n in enumerate(v.shape)], lambda i: at(v, i))
    return equation(part, v)


def clamped_index(v: Elem) -> Equation:
    """An index is limited along the axes after the fourth."""
    inner = over(v.shape, lambda i: at(v, [k if d < 4 else atl.imin(k, 0) for d, k in enumerate(i)]))
    return equation(inner, v)


def number_of_axes(v: Elem) -> Equation:
    """The number of axes, or four at most, as a factor."""
    return equation(v * v.rank, v * min(v.rank, 4) + 0)


def diagonal_above_4(v: Elem) -> Equation:
    """The fifth axis is read at the index of the fourth."""
    return equation(over(v.shape, lambda i: at(v, [i[3] if d == 4 else k for d, k in enumerate(i)])), v)


def _tree(x: Sequence[Any], left: tuple[int, ...] = (0, 1, 2, 3), used: tuple[int, ...] = ()) -> Any:
    """Return 1, by cases that help the prover: which of the indices are 0, 1, 2 and 3."""
    out: Any = atl.cast("float32", 1)
    if left and len(x) <= 4:
        for k in reversed(range(len(x))):
            if k not in used:
                out = atl.select(x[k] == left[0], _tree(x, left[1:], (*used, k)), out)
    return out


def diagonal_of_a_fold(a: Elem, x: Indices) -> Equation:
    """A product of differences of elements, some of which are on the diagonal, vanishes."""
    if not x:
        return equation(a, a)
    e = [at(a, [(k + 4 - j) // 4 for k in x]) for j in (1, 2, 3, 4)]

    def from_diagonal(b: Any) -> Any:
        return atl.reduce("product", 2, lambda t: b - at(a, [t for _ in x]))

    product = (e[0] - e[1]) * (e[1] - e[2]) * (e[2] - e[3]) * from_diagonal(e[0]) * from_diagonal(e[3])
    inside = [limit for k in x for limit in (k >= 0, k <= 4)]
    return equation(product * _tree(x), e[3] - e[3], given(*[n == 2 for n in a.shape], *inside))


def least_is_and(a: Elem, b: Elem) -> Equation:
    """The choice, which no axis reaches, makes the elements truth values up to rank 4."""
    least = atl.minimum(a, b)
    if a.rank < 5:
        least = atl.select(a.shape[0] >= 0 if a.shape else True, least, atl.where(a, b, b))
    return equation(least, a & b, given(*alike(a, b)))


TRUE_UP_TO_4: Final[tuple[Law, ...]] = (
    *(_with_indices(n, f"{state.__name__}_{n}", state) for n in (5, 6)
      for state in (chosen, guarded, product_of_guards, elements_differ, largest_elements)),
    pigeonhole(5, "T"),
    reverse_first_four, reverse_first_five, one_more_at_5, one_more_at_6, premise_up_to_4, rotate_12_times,
    permute_12_times, sum_of_four, extents_of_four, clamped_index, number_of_axes, diagonal_above_4, diagonal_of_a_fold,
    least_is_and,
)  # fmt: skip
"""25 rules that are true at ranks up to 4, or 5, and false at rank 5 or 6."""
LONG: Final = (diagonal_of_a_fold, permute_12_times, rotate_12_times, *TRUE_UP_TO_4[1:11])
"""Those that take longer, or differ little from others."""
