"""Complement and null space of a layout, and changes of element size (upcast, downcast)."""

from __future__ import annotations

from typing import Any

from atl.core.index import Index, floordiv, index
from atl.errors import InvalidArgument, brief
from layouts.algebra.coalesce import coalesced, is_zero, need_layout, need_vectorised
from layouts.errors import LayoutError, NoLayout
from layouts.foundation.facts import Known, in_order
from layouts.foundation.layout import Layout, Mode
from layouts.foundation.semimodule import times
from layouts.foundation.tuples import Extent, as_nested, extent_of, like, product


def complement(layout: Layout, size: object = None) -> Layout:
    """Return a layout of the locations below `size` that `layout` does not reach, in ascending order.

    The two share only location 0. If each stride is a multiple of the reach of the modes before it, the two together
    reach each location exactly once; otherwise gaps remain that are too small for a block. Without a size the last mode
    gives the continuation past all locations of the layout. Raises `NoLayout` if two strides of the layout overlap.

    >>> complement(Layout(4, 1), 24), complement(Layout((2, 2), (1, 6)), 24), complement(Layout((2, 2), (1, 5)))
    (6:4, (3,2):(2,12), (2,1):(2,10))
    >>> import atl
    >>> complement(Layout((4, atl.sizes("n")), (1, 4)))
    1:4*n
    """
    return complement_in(layout, size, whole=False)


def complement_in(layout: Layout, size: object, *, whole: bool) -> Layout:
    """Return the complement. With `whole` it must not leave gaps; `NoLayout` if no complement does."""
    need_layout(layout)
    wanted = size.shape if isinstance(size, Layout) else 1 if size is None else size
    limit = product(as_nested(wanted, extent_of))
    if isinstance(limit, int) and limit < 1:
        raise LayoutError(
            f"the complement of {layout} in {limit} locations", required="a number of locations, 1 or more"
        )
    known = layout.known
    modes = [(n, d) for n, d in layout.modes if n != 1 and not is_zero(d)]
    out: list[Mode] = []
    span: Extent = 1
    for n, d in _ascending(layout, modes, known):
        between = known.quotient(d, span)
        if between is None and not whole and known.less(span - 1, d):
            between = known.simple(floordiv(index(d), index(span)))
        if between is None:
            raise NoLayout(
                f"{layout} has no complement{' without gaps' if whole else ''}",
                required=f"{span}, the reach of the modes with smaller strides, divides the stride {d}"
                if whole
                else f"{span}, the reach of the modes with smaller strides, is at most {d}",
                numbers={"stride": d, "reach": span},
            )
        out.append((between, span))
        span = known.simple(n * d)
    out.append((_ceiling(limit, span, known), span))
    return Layout.of_modes(coalesced(out, known, endless=size is None), known=known)


def _ascending(layout: Layout, modes: list[tuple[Extent, Any]], known: Known) -> list[tuple[Extent, Extent]]:
    for _, d in modes:
        if not isinstance(d, int | Index) or (isinstance(d, int) and d < 0):
            raise NoLayout(f"{layout} has no complement", required=f"positive integer strides, not {d}")
    if all(isinstance(d, int) for _, d in modes):
        return sorted(modes, key=lambda mode: mode[1])
    ordered = in_order(modes, known)
    if ordered is None:
        raise NoLayout(
            f"no complement of {layout} is known",
            required="an order in which each stride is proved to exceed the span of the modes before it",
            suggestions=("state facts about the sizes: Layout(…, given=[…])",),
        )
    return ordered


def _ceiling(whole: Extent, part: Extent, known: Known) -> Extent:
    if (exact := known.quotient(whole, part)) is not None:
        return exact
    if isinstance(whole, int) and isinstance(part, int):
        return -(-whole // part)
    if whole == 1:
        return 1
    return known.simple(floordiv(index(whole) + index(part) - 1, index(part)))


def nullspace(layout: Layout) -> Layout:
    """Return the indices that a layout maps to its first location because they differ only in modes of stride zero.

    >>> nullspace(Layout((2, 4, 3), (1, 0, 2)))
    4:2
    """
    need_vectorised(layout)
    step: Extent = 1
    out: list[Mode] = []
    for n, d in layout.modes:
        if is_zero(d):
            out.append((n, step))
        step = step * n
    return Layout.of_modes(coalesced(out, layout.known), known=layout.known)


def upcast(layout: Layout, n: int) -> Layout:
    """Return the layout with units of n elements instead of single elements, as for vector loads.

    Each stride must be a multiple of n or divide it.

    >>> upcast(Layout((8, 4), (1, 8)), 4), downcast(upcast(Layout((8, 4), (1, 8)), 4), 4)
    ((2,4):(1,2), (8,4):(1,8))
    """
    _need_count(layout, n)
    modes: list[Mode] = []
    for extent, stride in layout.modes:
        whole = layout.known.quotient(stride, n) if isinstance(stride, Index) else None
        if is_zero(stride) or whole is not None:
            modes.append((extent, 0 if whole is None else whole))
        elif not isinstance(stride, int) or (stride % n and n % abs(stride)):
            raise NoLayout(
                f"{layout} in units of {n} elements",
                required=f"{n} divides the stride {stride}, or is a multiple of it",
            )
        else:
            fewer = -(-n // abs(stride))
            modes.append((_ceiling(extent, fewer, layout.known), (1 if stride > 0 else -1) * -(-abs(stride) // n)))
    return _renewed(layout, modes)


def downcast(layout: Layout, n: int) -> Layout:
    """Return the layout with units split into n elements each, the counterpart of `upcast`.

    The first mode of stride 1 also runs through the elements of a unit; without such a mode only the first element of
    each unit is kept, as in CuTe. (If several modes have stride 1, CuTe refines each of them and reaches locations
    that the layout does not have.)

    >>> downcast(Layout((2, 4), (1, 2)), 4)
    (8,4):(1,8)
    """
    _need_count(layout, n)
    units = [position for position, (_, d) in enumerate(layout.modes) if d == 1]
    through = next((position for position in units if layout.modes[position][0] != 1), units[0] if units else None)
    modes: list[Mode] = [
        (n * extent, d) if position == through else (extent, times(n, d))
        for position, (extent, d) in enumerate(layout.modes)
    ]
    return _renewed(layout, modes)


def _renewed(layout: Layout, modes: list[Mode]) -> Layout:
    extents, strides = (list(part) for part in zip(*modes, strict=True))
    if layout.offset != 0:
        raise NoLayout(f"{layout} starts at {layout.offset}", required="a layout with offset 0")
    return Layout.made(
        like(layout.shape, iter(extents)), like(layout.shape, iter(strides)), tuple(modes), known=layout.known
    )


def _need_count(layout: Layout, n: int) -> None:
    need_vectorised(layout)
    if type(n) is not int or n < 1:
        raise InvalidArgument(f"units of {brief(n)} elements", required="a number of elements, 1 or more")
