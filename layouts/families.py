"""Conversions between the families of layouts: the same function of coordinates, in another representation.

A conversion is exact, or raises an error with an element that the other family cannot express. Coordinates are kept.
Flat indices may change, as they are colexicographic in CuTe and row-major in LEGO and Axe.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import atl
from layouts.axe import Axe, Axis, Iter, Location, axis, locations
from layouts.axe.axes import MEMORY
from layouts.errors import CannotTabulate, NoLayout
from layouts.foundation.box import Box
from layouts.foundation.function import Function, IndexFunction, need_function
from layouts.foundation.layout import Layout
from layouts.foundation.recovery import NoStrides, recover_box_modes
from layouts.foundation.semimodule import BITS, COORDINATES, INTEGERS, Array, Coordinate
from layouts.foundation.tuples import Extent, leaves, modes_of, product
from layouts.lego import GenP, GroupBy, RegP
from layouts.linear.layout import LinearLayout


def as_layout(function: Function) -> Layout:
    """Return the function by a shape with strides: integers, coordinates (Axe's axes, in order of their names), or F2.

    Raises `NoLayout` with an element whose location no strides give, or which has several locations.

    >>> from layouts.axe import S, axis
    >>> from layouts.lego import GroupBy, RegP
    >>> as_layout(GroupBy([6, 6]).OrderBy(RegP([2, 3, 2, 3], [1, 3, 2, 4])))
    ((3,2),(3,2)):((3,18),(1,9))
    >>> as_layout(S[(4, 8):(8 @ axis("lane"), 1 @ axis("reg"))])
    (4,8):(8*E(0),E(1))
    """
    need_function(function)
    if isinstance(function, Layout):
        return function
    if isinstance(function, Axe):
        return _of_axe(function)
    if isinstance(function, GroupBy) and all(isinstance(p, RegP) for link in function.chain for p in link.permutations):
        strides = function.strides()
        if isinstance(strides, Layout):
            return strides
    made = _by_table(function)
    if isinstance(made, Layout):
        return made
    if isinstance(function, LinearLayout):
        return function.strides()
    raise NoLayout(f"{function} has no strides: {made}", required="a function that a shape and strides express")


def _of_axe(layout: Axe) -> Layout:
    if layout.replicates:
        raise NoLayout(
            f"element 0 of {layout} has the locations {locations(layout, 0)}", required="one location for each element"
        )
    in_memory = layout.axes in ((), (MEMORY,))
    units: dict[Axis, Any] = {at: 1 if in_memory else Coordinate((0,) * k + (1,)) for k, at in enumerate(layout.axes)}
    start: Any = 0
    for at, steps in layout.offset.parts.items():
        start = start + units[at] * steps
    modes = [(each.extent, units[each.axis] * each.stride) for each in layout.sharded]
    return Layout.of_modes(modes, offset=start, known=layout.known)


def _by_table(function: Function) -> Layout | str:
    """Return the layout with the same locations at all coordinates, or an element whose location no strides give."""
    if function.table_size is None:
        raise CannotTabulate(
            f"{function} has {function.size} elements", required="numbers for all sizes, and at most a million elements"
        )
    extents = [extent for extent in map(product, modes_of(function.shape)) if isinstance(extent, int)]
    values = function.colexicographic()
    found = recover_box_modes(values, extents, COORDINATES if values.ndim > 1 else INTEGERS)
    if isinstance(found, NoStrides):
        at = Box(tuple(extents)).digits(found.index)
        return f"at {at if len(at) > 1 else at[0]} the location is {np.asarray(values[found.index]).tolist()}"
    start: Any = Coordinate(tuple(map(int, values[0]))) if values.ndim > 1 else int(values[0])
    parts = [Layout.of_modes(modes) for modes in found]
    if len(parts) == 1:
        return Layout(parts[0].shape, parts[0].stride, offset=start)
    return Layout(tuple(part.shape for part in parts), tuple(part.stride for part in parts), offset=start)


def as_axe(function: Function, axes: Sequence[str | Axis] | None = None) -> Axe:
    """Convert to sharded iters along named axes: one axis for integers (default: memory), or one per coordinate.

    Raises `NoLayout` if strides do not express it, or a stride is along two axes.

    >>> as_axe(Layout((4, (2, 4)), (8, (1, 2)))), as_axe(LinearLayout.identity_1d(8, "lane", "i"))
    (S[(4,4,2):(8,2,1)], S[8:1])
    """
    if isinstance(function, Axe):
        return function
    layout = as_layout(function)
    if layout.is_constant and layout.semimodule is BITS:
        made = _by_table(layout)
        if not isinstance(made, Layout):
            raise NoLayout(f"{layout} is not a sum of steps along axes: {made}", required="steps that add as integers")
        layout = made
    if layout.semimodule is BITS or not layout.is_vectorised:
        raise NoLayout(f"{layout} is not known to be a sum of steps along axes", required="numbers for all sizes")
    wide = layout.width if layout.semimodule is COORDINATES else 1
    if axes is None:
        axes = [MEMORY] if wide == 1 else [f"a{number}" for number in range(wide)]
    names = [axis(each) for each in axes]
    if len(names) < wide:
        raise NoLayout(f"{len(names)} axes for {wide} coordinates", required="a name for each")
    iters = []
    for extent, stride in _row_by_row(layout, whole=not isinstance(function.shape, tuple)):
        moving = _steps(stride, names)
        if len(moving) != 1:
            raise NoLayout(f"{extent}:{stride} in {layout} is not an iter", required="a nonzero stride along one axis")
        iters.append(Iter(extent, moving[0][1], moving[0][0]))
    return Axe(iters or [Iter(1, 1)], (), Location(dict(_steps(layout.offset, names))), known=layout.known)


def _row_by_row(layout: Layout, *, whole: bool = False) -> list[tuple[Extent, Any]]:
    """Return the modes of extent other than 1, slowest first, within each top-level mode or over the whole layout."""
    parts = [layout.modes] if whole else [part.modes for part in layout]
    return [mode for modes in parts for mode in reversed(modes) if mode[0] != 1]


def _steps(stride: Any, names: Sequence[Axis]) -> list[tuple[Axis, Extent]]:
    parts = tuple(stride) if isinstance(stride, Coordinate) else (stride,)
    return [(at, part) for at, part in zip(names, parts, strict=False) if part != 0]


def as_lego(function: Function) -> GroupBy:
    """Return the function as a view with one link: a RegP if its strides permute dimensions, otherwise a GenP.

    LEGO layouts are bijections. Raises `NoLayout` if the function is not a bijection onto the numbers below its size,
    with two elements that share a location or one outside.

    >>> as_lego(Layout((4, 8), (1, 4))), as_lego(Layout((2, (2, 3)), (1, (6, 2))))
    (GroupBy([4,8]).OrderBy(RegP([4,8], [2,1])), GroupBy([2,6]).OrderBy(RegP([2,3,2], [3,2,1])))
    """
    if isinstance(function, GroupBy):
        return function
    if isinstance(function, Axe):
        function = as_layout(_without_still_axes(function))
    need_function(function)
    dims = [product(mode) for mode in modes_of(function.shape)]
    if isinstance(function, Layout) and function.semimodule is INTEGERS and function.offset == 0:
        split = _row_by_row(function)
        order = _location_of(function, split)
        if order:
            facts = [atl.Condition(fact) for fact in function.known.facts.predicates]
            return GroupBy(dims, given=facts).OrderBy(RegP([extent for extent, _ in split], order))
    extents = [extent for extent in dims if isinstance(extent, int)]
    if len(extents) < len(dims) or function.table_size is None:
        raise CannotTabulate(f"{function} is not a permutation of dimensions", required="numbers for all sizes")
    table = _bijection(function, extents)
    by_location = np.argsort(table.reshape(-1))
    digits = Box(tuple(extents), row_major=True)

    def element(location: int) -> tuple[int, ...]:
        return tuple(map(int, digits.digits(int(by_location[location]))))

    return GroupBy(extents).OrderBy(GenP(extents, lambda *at: int(table[at]), element))


def _without_still_axes(layout: Axe) -> Axe:
    """Return the layout without axes used only by iters of extent 1, on which all elements have location 0."""
    iters = [Iter(1, 1) if each.extent == 1 else each for each in layout.sharded]
    return Axe(iters, layout.replicated, layout.offset, known=layout.known)


def _location_of(layout: Layout, split: Sequence[tuple[Extent, Any]]) -> list[int]:
    """Return the dimensions, from 1, slowest first, if the strides are those of a permutation; else an empty list."""
    order: list[int] = []
    reach: Extent = 1
    while len(order) < len(split):
        fitting = [
            k for k, (_, stride) in enumerate(split, start=1) if k not in order and layout.known.same(stride, reach)
        ]
        if not fitting:
            return []
        order.append(fitting[0])
        reach = reach * split[fitting[0] - 1][0]
    return order[::-1]


def _bijection(function: Function, extents: Sequence[int]) -> Array:
    """Return the table of locations of all coordinates, if they are the numbers below the size, each once."""
    values = function.colexicographic()
    if values.ndim > 1:
        raise NoLayout(f"the locations of {function} are coordinates", required="locations that are integers")
    size = len(values)
    digits = Box(tuple(extents))
    seen: dict[int, int] = {}
    for at, location in enumerate(values.tolist()):
        if not 0 <= location < size:
            raise NoLayout(
                f"{function} maps {digits.digits(at)} to {location}", required=f"locations from 0 to {size - 1}"
            )
        if location in seen:
            raise NoLayout(
                f"{function} maps {digits.digits(seen[location])} and {digits.digits(at)} to {location}",
                required="distinct locations: LEGO layouts are bijections",
            )
        seen[location] = at
    table: Array = values.reshape(extents[::-1]).T
    return table


def as_function(function: Function) -> IndexFunction:
    """Return the function as a formula, with its inverse if it is injective and sizes are numbers.

    >>> made = as_function(Layout((4, 8), (8, 1)))
    >>> made(2, 3), made.inverse(19)
    (19, (2, 3))
    """
    need_function(function)
    if isinstance(function, IndexFunction):
        return function
    inner = as_layout(function) if isinstance(function, Axe) else function
    return IndexFunction(inner.shape, lambda *digits: inner.at(digits), _inverse_by_table(inner), name=str(inner))


def _inverse_by_table(function: Function) -> Any:
    if function.table_size is None or any(not isinstance(extent, int) for extent in leaves(function.shape)):
        return None
    values = function.table()
    if values.ndim > 1 or len(np.unique(values)) < len(values):
        return None
    element_at = {int(location): at for at, location in enumerate(values.tolist())}

    def inverse(location: Any) -> Any:
        if (at := element_at.get(int(location))) is None:
            raise NoLayout(f"{function} has no element at {location}", required="the location of an element")
        return function.box.digits(at)

    return inverse
