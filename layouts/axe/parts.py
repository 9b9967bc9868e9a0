"""Parts of Axe layouts: the layout of a box of elements, and an axis split into several."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

import numpy as np

from atl.core.index import Index, floordiv, index
from atl.errors import brief
from layouts.axe.axes import Axis, Iter, Location, Shape, axis, extents_of, list_of, range_of, sizes_of_axes
from layouts.axe.layout import Axe, need_axe
from layouts.axe.operations import canonicalize, fuse, group, iters_of, same_locations
from layouts.axe.replicas import number, sign
from layouts.errors import CannotTabulate, LayoutError, NoLayout
from layouts.foundation.facts import Known, positive
from layouts.foundation.recovery import NoStrides, recover_modes
from layouts.foundation.semimodule import COORDINATES
from layouts.foundation.tuples import Extent, product, shown

Range: TypeAlias = tuple[Extent, Extent]
"""Start and stop."""


def slice_of(layout: Axe, shape: Shape, region: Sequence[tuple[object, object]]) -> Axe:
    """Return the layout of a box of elements, [start, stop) in each dimension of the shape, with row-major indices.

    For numbers the slice is read off the table of locations. It is found whenever there is one; otherwise `NoLayout` is
    raised. For symbolic sizes or bounds it is computed digit by digit. Raises `CannotTabulate` if it is not known
    whether the range ends at the end of an iter, and `LayoutError` if it is not proved to be within the shape.

    >>> from layouts.axe import S
    >>> slice_of(S[(6, 10):(7, 1)], (60,), [(5, 25)])
    S[(2,2,5):(7,2,1)] + 5@m
    >>> import atl
    >>> n, m, i = atl.sizes("n m i")
    >>> slice_of(S[(n, m):(m, 1)].given(4 * i + 4 <= n), (n, m), [(4 * i, 4 * i + 4), (0, m)])
    S[(4,m):(m,1)] + 4*i*m@m
    """
    need_axe(layout)
    extents = extents_of(shape)
    ranges = [range_of(each) for each in list_of(region, "the region")]
    known = layout.known.joined(positive(extents))
    if not known.same(product(tuple(extents)), layout.size) or len(ranges) != len(extents):
        raise LayoutError(f"the shape {brief(shape)} of {layout}", required=f"{layout.size} elements, a range for each")
    for (start, stop), extent in zip(ranges, extents, strict=True):
        if not (known.less(-1, start) and known.less(start, stop) and known.less(stop, extent + 1)):
            raise LayoutError(
                f"the range {start} to {stop} of {extent}",
                required="0 <= start < stop <= extent",
                suggestions=("state facts about sizes: layout.given(...)",) if _any_size(start, stop, extent) else (),
            )
    if layout.symbolic() or _any_size(*extents, *(part for each in ranges for part in each)):
        return _by_digits(layout, extents, ranges, known)
    return _by_table(layout, list(map(number, extents)), [(number(a), number(b)) for a, b in ranges])


def _any_size(*parts: Extent) -> bool:
    """Return whether one of these is symbolic."""
    return any(isinstance(part, Index) for part in parts)


def _by_table(layout: Axe, extents: Sequence[int], region: Sequence[tuple[int, int]]) -> Axe:
    size = number(layout.size)
    held = np.arange(prod(extents)).reshape(tuple(extents))[tuple(slice(start, stop) for start, stop in region)]
    table = layout.strides().table().reshape((size, -1))[held.reshape(-1)]
    modes = recover_modes(table, COORDINATES)
    if isinstance(modes, NoStrides):
        raise NoLayout(
            f"{layout} has no slice {brief(list(region))} of {shown(tuple(extents))}",
            required=f"iters; element {modes.index} of the slice is not at the location that they would give",
        )
    first = Location({at: int(step) for at, step in zip(layout.axes, table[0], strict=False)})
    return Axe(iters_of(modes, layout.axes), layout.replicated, first)


def _by_digits(layout: Axe, extents: Sequence[Extent], region: Sequence[Range], known: Known) -> Axe:
    """Return the slice, dimension by dimension, from the iters of each dimension."""
    whole = canonicalize(Axe(layout.sharded, (), layout.offset, known=known))
    grouped = group(whole, extents)
    iters: list[Iter] = []
    offset = layout.offset
    for dimension, (start, stop) in enumerate(region):
        found = _of_block(grouped.block(dimension), start, known.simple(stop - start), known)
        if found is None:
            raise CannotTabulate(
                f"it is not known for all sizes whether {layout} has a slice {start} to {stop} of {extents[dimension]}",
                required="a range within one step of the slower iters, or of whole steps; or numbers for sizes",
                suggestions=("state facts: layout.given(...)", "give numbers for the sizes: layout.where(...)"),
            )
        iters += found[0]
        offset = offset.plus(found[1])
    kept = [each for each in iters if each.extent != 1]
    return Axe(kept or [Iter(1, 1)], layout.replicated, offset, known=known)


def _of_block(block: Sequence[Iter], start: Extent, length: Extent, known: Known) -> tuple[list[Iter], Location] | None:
    """Return the iters of `length` elements from `start`, and the location of the first; None if unknown."""
    if not block:
        return [], Location({})
    *slower, last = block
    if not slower:
        return [Iter(length, last.stride, last.axis)], Location({last.axis: start * last.stride})
    steps, first = known.quotient(length, last.extent), known.quotient(start, last.extent)
    if steps is not None and first is not None:  # whole steps of the slower iters
        found = _of_block(slower, first, steps, known)
        return None if found is None else ([*found[0], last], found[1])
    first = _over(start, last.extent, known)
    low = known.simple(start - first * last.extent)
    parts = known.quotient(last.extent, length), known.quotient(start, length)
    if None in parts and not known.less(low + length - 1, last.extent):
        return None
    at = Location({last.axis: low * last.stride})
    return [Iter(length, last.stride, last.axis)], at.plus(_location_at(slower, first, known))


def _over(a: Extent, b: Extent, known: Known) -> Extent:
    """Return a // b."""
    return a // b if isinstance(a, int) and isinstance(b, int) else known.simple(floordiv(index(a), index(b)))


def _location_at(block: Sequence[Iter], element: Extent, known: Known) -> Location:
    """Return the location of an element of these iters."""
    found = Location({})
    for position in reversed(range(len(block))):
        each = block[position]
        above = _over(element, each.extent, known) if position else 0
        found = found.plus(Location({each.axis: known.simple(element - above * each.extent) * each.stride}))
        element = above
    return found


def split(layout: Axe, whole: str | Axis, sizes: Sequence[tuple[str | Axis, object]]) -> Axe:
    """Split one axis into several, fastest first, each with its size: the inverse of `fuse`.

    Raises `NoLayout` if an iter or a sum of iters carries from one new axis to the next, and `CannotTabulate` if this
    is unknown for symbolic sizes.

    >>> from layouts.axe import S, axis
    >>> warp, lane, thread = map(axis, ("warp", "lane", "thread"))
    >>> split(S[128:1 @ thread], thread, [(lane, 32), (warp, 4)])
    S[(4,32):(1@warp,1@lane)]
    >>> import atl
    >>> n = atl.sizes("n")
    >>> split(S[(n, 32):(32 @ thread, 1 @ thread)], thread, [(lane, 32), (warp, n)])
    S[(n,32):(1@warp,1@lane)]
    """
    need_axe(layout)
    along, into = axis(whole), sizes_of_axes(sizes)
    known = layout.known.joined(positive(size for _, size in into))
    given = Axe(layout.sharded, layout.replicated, layout.offset, known=known)
    parts = [_split(each, along, into, known) for each in layout.sharded]
    replicas = [_split(each, along, into, known) for each in layout.replicated]
    offset = Location({at: held for at, held in layout.offset.parts.items() if at != along})
    left = layout.offset[along]
    for at, size in into[:-1]:
        above = _over(left, size, known)
        offset, left = offset.plus(Location({at: known.simple(left - above * size)})), above
    offset = offset.plus(Location({into[-1][0]: left}))
    made = Axe(
        [each for part in parts for each in part], [each for part in replicas for each in part], offset, known=known
    )
    if not same_locations(fuse(made, along, into), given):
        raise NoLayout(f"{layout} is not split into {', '.join(str(at) for at, _ in into)}", required="no carries")
    return canonicalize(made)


def _split(each: Iter, whole: Axis, sizes: Sequence[tuple[Axis, Extent]], known: Known) -> list[Iter]:
    if each.axis != whole:
        return [each]
    out: list[Iter] = []
    extent, way = each.extent, 1 if each.extent == 1 else sign(each.stride, known)
    stride = each.stride * way
    for at, size in sizes[:-1]:
        above = known.quotient(stride, size)
        if above is not None:
            stride = above
            continue
        if known.less((extent - 1) * stride, size):
            return [Iter(extent, stride * way, at), *out]
        fits = known.quotient(size, stride)
        rest = None if fits is None else known.quotient(extent, fits)
        if fits is None or rest is None:
            refused: type[NoLayout | CannotTabulate] = CannotTabulate if _any_size(extent, stride, size) else NoLayout
            raise refused(f"{each} cannot be split at {size} of {at}", required="an iter that ends there")
        if fits != 1:
            out.insert(0, Iter(fits, stride * way, at))
        extent, stride = rest, 1
    return [Iter(extent, stride * way, sizes[-1][0]), *out]
