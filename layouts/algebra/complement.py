"""What a layout leaves out: its complement, its nullspace."""

from __future__ import annotations

from typing import Any

from atl.core.index import Index, floordiv, index
from atl.errors import WrongArgument, brief
from layouts.algebra.coalesce import coalesced, is_zero, need_layout
from layouts.errors import LayoutError, NoLayout
from layouts.foundation.known import Known, in_order
from layouts.foundation.layout import Layout, Mode
from layouts.foundation.semimodule import times
from layouts.foundation.tuples import Extent, as_nested, extent_of, like, product


def complement(layout: Layout, size: object = None) -> Layout:
    """A layout of what a layout leaves out of `size` places, in ascending order: no place is hit by both but the first.

    Where each stride is a multiple of what the modes before it reach, together they hit each place exactly once; else
    gaps stay, in which no block fits. Without a size its last mode says how it goes on, past all places of the layout.
    Raises `NoLayout` where two strides of the layout overlap.

    >>> complement(Layout(4, 1), 24), complement(Layout((2, 2), (1, 6)), 24), complement(Layout((2, 2), (1, 5)))
    (6:4, (3,2):(2,12), (2,1):(2,10))
    >>> import atl
    >>> complement(Layout((4, atl.sizes("n")), (1, 4)))
    1:4*n
    """
    return left_out(layout, size, whole=False)


def left_out(layout: Layout, size: object, *, whole: bool) -> Layout:
    """The complement; with `whole`, one that leaves no gaps, and `NoLayout` where there is none."""
    need_layout(layout)
    wanted = size.shape if isinstance(size, Layout) else 1 if size is None else size
    places = product(as_nested(wanted, extent_of))
    if isinstance(places, int) and places < 1:
        raise LayoutError(f"the complement of {layout} in {places} places", required="a number of places, 1 or more")
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
                required=f"{span} divides the stride {d}: so far do the modes of smaller strides reach"
                if whole
                else f"{span} <= {d}: so far do the modes of smaller strides reach",
                numbers={"stride": d, "reach": span},
            )
        out.append((between, span))
        span = known.simple(n * d)
    out.append((_ceiling(places, span, known), span))
    return Layout.of_modes(coalesced(out, known, endless=size is None), known=known)


def _ascending(layout: Layout, modes: list[tuple[Extent, Any]], known: Known) -> list[tuple[Extent, Extent]]:
    for _, d in modes:
        if not isinstance(d, int | Index) or (isinstance(d, int) and d < 0):
            raise NoLayout(f"{layout} has no complement", required=f"positive integers as strides, and not {d}")
    if all(isinstance(d, int) for _, d in modes):
        return sorted(modes, key=lambda mode: mode[1])
    ordered = in_order(modes, known)
    if ordered is None:
        raise NoLayout(
            f"{layout} has no complement that is known",
            required="an order in which each stride is proved to exceed what the modes before it span",
            suggestions=("state what holds of the sizes: Layout(…, given=[…])",),
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
    """The indices that a layout takes to its first place because they move in modes that do not.

    >>> nullspace(Layout((2, 4, 3), (1, 0, 2)))
    4:2
    """
    need_layout(layout)
    step: Extent = 1
    out: list[Mode] = []
    for n, d in layout.modes:
        if is_zero(d):
            out.append((n, step))
        step = step * n
    return Layout.of_modes(coalesced(out, layout.known), known=layout.known)


def upcast(layout: Layout, n: int) -> Layout:
    """The layout of places that hold n elements each: what it was in elements, in vectors of n.

    A stride is to be a multiple of n, or to divide it.

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
                f"{layout} in places of {n}", required=f"{n} divides the stride {stride}, or is a multiple of it"
            )
        else:
            fewer = -(-n // abs(stride))
            modes.append((_ceiling(extent, fewer, layout.known), (1 if stride > 0 else -1) * -(-abs(stride) // n)))
    return _renewed(layout, modes)


def downcast(layout: Layout, n: int) -> Layout:
    """The layout of the parts of places, n in each: what it was in vectors of n, in elements.

    The first mode that steps from place to place goes through the parts as well; without one, of each place the first
    part is left, as in CuTe. (Where several modes step by one, CuTe lets each go through the parts, and meets places
    that the layout does not have.)

    >>> downcast(Layout((2, 4), (1, 2)), 4)
    (8,4):(1,8)
    """
    _need_count(layout, n)
    units = [place for place, (_, d) in enumerate(layout.modes) if d == 1]
    through = next((place for place in units if layout.modes[place][0] != 1), units[0] if units else None)
    modes: list[Mode] = [
        (n * extent, d) if place == through else (extent, times(n, d)) for place, (extent, d) in enumerate(layout.modes)
    ]
    return _renewed(layout, modes)


def _renewed(layout: Layout, modes: list[Mode]) -> Layout:
    extents, strides = (list(part) for part in zip(*modes, strict=True))
    if layout.offset != 0:
        raise NoLayout(f"{layout} starts at {layout.offset}", required="a layout that starts at zero")
    return Layout.made(
        like(layout.shape, iter(extents)), like(layout.shape, iter(strides)), tuple(modes), known=layout.known
    )


def _need_count(layout: Layout, n: int) -> None:
    need_layout(layout)
    if type(n) is not int or n < 1:
        raise WrongArgument(f"places of {brief(n)} elements", required="a number of elements, 1 or more")
