"""The image of a layout, and its inverse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from atl.core.index import Index
from atl.prove import Proved, Refuted
from atl.surface.values import Condition
from layouts.errors import NoLayout
from layouts.foundation.bounds import cosize
from layouts.foundation.facts import in_order
from layouts.foundation.function import Function, IndexFunction, need_function
from layouts.foundation.layout import Layout
from layouts.foundation.recovery import NoStrides, recover_modes
from layouts.foundation.semimodule import BITS, INTEGERS, Array
from layouts.foundation.tuples import Extent
from layouts.proofs.injectivity import injective


def image(a: Function) -> Array:
    """Return the distinct locations of a, in ascending order; coordinates are rows.

    Raises `CannotTabulate` for symbolic sizes.

    >>> from layouts import Layout
    >>> image(Layout((2, 3), (3, 1)))
    array([0, 1, 2, 3, 4, 5])
    >>> image(Layout((4, 2), (1, 2)))
    array([0, 1, 2, 3, 4, 5])
    """
    need_function(a)
    values = a.table()
    if values.ndim > 1 and values.dtype == object:  # NumPy does not sort rows of Python integers
        return np.array(sorted({tuple(row) for row in values.tolist()}), dtype=object)
    return np.unique(values, axis=0) if values.ndim > 1 else np.unique(values)


def inverse(a: Function) -> Layout | IndexFunction:
    """Return the inverse of a: the function from locations to indices that undoes a, on the image of a.

    It is a layout if a is a bijection onto the numbers below its size and strides express the inverse; otherwise a
    function whose values outside the image are meaningless.

    Raises `NoLayout` if a is not proved injective, with two coordinates that share a location if any are found.

    >>> from layouts import Layout
    >>> inverse(Layout((4, 8), (8, 1)))
    (8,4):(4,1)
    >>> back = inverse(Layout((4, 8), (10, 1)))
    >>> back, back(Layout((4, 8), (10, 1))(2, 5)), Layout((4, 8)).coordinate(22)
    (inverse(38), 22, (2, 5))
    """
    need_function(a)
    answer = injective(a)
    if not isinstance(answer, Proved):
        raise NoLayout(
            f"{a} has no inverse",
            required="an injective function",
            numbers=answer.model.numbers if isinstance(answer, Refuted) else answer.reason,
        )
    if isinstance(a, Layout) and a.semimodule is INTEGERS and a.offset == 0:
        modes = [(n, d) for n, d in a.modes if n != 1 and isinstance(d, int | Index)]
        if (ordered := in_order(modes, a.known)) is not None:
            return _by_strides(a, ordered)
    return _by_table(a)


def _by_strides(a: Layout, ordered: Sequence[tuple[Extent, Extent]]) -> Layout | IndexFunction:
    """Return the inverse by division, for strides that have an order: greatest stride first."""
    joins: dict[int, Extent] = {}
    step: Extent = 1
    weights: list[tuple[Extent, Extent]] = []
    for n, d in a.modes:
        if n != 1:
            weights.append((d, step))  # type: ignore[arg-type]
        step = step * n
    for position, (_, d) in enumerate(ordered):
        joins[position] = next(weight for stride, weight in weights if stride == d)
    onto: Extent = 1
    for n, d in ordered:
        if not a.known.same(d, onto):
            break
        onto = onto * n
    else:
        return Layout.of_modes([(n, joins[k]) for k, (n, _) in enumerate(ordered)], known=a.known)

    def back(location: Any) -> Any:
        at: Any = 0
        left = location
        for k in range(len(ordered) - 1, -1, -1):
            digit = left // ordered[k][1]
            left = left - digit * ordered[k][1]
            at = at + digit * joins[k]
        return at

    return IndexFunction(
        cosize(a), back, lambda at: (a(at),), name="inverse", given=map(Condition, a.known.facts.predicates)
    )


def _by_table(a: Function) -> Layout | IndexFunction:
    values = a.table()
    if values.ndim > 1:
        raise NoLayout(f"the locations of {a} are coordinates", required="locations that are integers")
    low, high = int(values.min()), int(values.max())
    if low >= 0:
        back = np.full(high + 1, -1)
        back[values.astype(np.int64)] = np.arange(len(values))
        module = BITS if isinstance(a, Layout) and a.semimodule is BITS else INTEGERS
        if high + 1 == len(values) and not isinstance(modes := recover_modes(back, module), NoStrides) and back[0] == 0:
            return Layout.of_modes(modes)
        return IndexFunction(high + 1, lambda location: back[location], lambda at: (a(at),), name="inverse")
    locations = {int(value): at for at, value in enumerate(values)}
    return IndexFunction(high + 1, lambda location: locations[location], lambda at: (a(at),), name="inverse")
