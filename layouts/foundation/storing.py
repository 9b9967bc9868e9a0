"""Strides as a way to store a tensor: the digits of its indices, ordered by their strides, are those of a place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from atl.core.index import Index, index
from atl.surface.reindexing import Reindexing
from layouts.errors import NoLayout
from layouts.foundation.box import Box
from layouts.foundation.known import Known, in_order
from layouts.foundation.tuples import Extent, Shape, leaves, modes_of, shown


def stored_by_strides(
    shape: tuple[Index, ...],
    domain: Shape,
    strides: Sequence[object],
    offset: object,
    known: Known,
    *,
    copies: bool = False,
) -> Reindexing:
    """Where the elements of a tensor of this shape go by the strides of a domain with a mode for each dimension.

    The places are a box whose extents are the quotients of strides that follow one another. Raises `NoLayout` where two
    elements meet, and where strides do not divide one another: then no box of digits has these places. With `copies`
    elements may meet along modes of stride 0, and nowhere else.
    """
    modes = modes_of(domain)
    written = f"{shown(domain)} with strides {', '.join(map(str, strides))}"
    if len(modes) != len(shape):
        raise NoLayout(
            f"{written} has {len(modes)} mode{'s' if len(modes) > 1 else ''}",
            required=f"one for each dimension of the tensor, which has {len(shape)}",
        )
    if offset != 0:
        raise NoLayout(f"{written} begins at {offset}", required="no offset: storage of its own begins at 0")
    extents = list(leaves(domain))
    moving = _in_order(extents, strides, known, written, copies=copies)
    steps = _steps([stride for _, stride in moving], known, written) if moving else [1]
    order = [place for place, _ in moving]
    outermost = [extents[order[-1]]] if order else []
    places = (*outermost, *reversed(steps))

    def to(*at: Any) -> tuple[Any, ...]:
        digits = [digit for mode, x in zip(modes, at, strict=True) for digit in Box(mode).digits(x)]
        first = [] if len(steps) < len(order) else [index(0)]
        return (*(digits[place] for place in reversed(order)), *first)

    def back(*at: Any) -> tuple[Any, ...]:
        digits: list[Any] = [index(0)] * len(extents)
        for place, digit in zip(reversed(order), at, strict=False):
            digits[place] = digit
        left = iter(digits)
        return tuple(Box(mode).join([next(left) for _ in leaves(mode)]) for mode in modes)

    return Reindexing(shape, tuple(map(index, places)), to, None if copies else back)


def _in_order(
    extents: Sequence[Extent], strides: Sequence[object], known: Known, written: str, *, copies: bool
) -> list[tuple[int, Extent]]:
    """The modes that move, each with its stride, ordered so that each stride exceeds what those before it span."""
    moving: list[tuple[int, Extent, Extent]] = []
    for place, (extent, stride) in enumerate(zip(extents, strides, strict=True)):
        if not isinstance(stride, int | Index):
            raise NoLayout(
                f"{written} has values that are no addresses",
                required="strides that are integers or sizes",
                suggestions=("layouts.swizzled(…) for an exclusive or",),
            )
        if extent == 1:
            continue
        if copies and known.same(stride, 0):
            continue
        if known.same(stride, 0):
            raise NoLayout(
                f"{written} stores all elements along mode {place}, of extent {extent}, at one place",
                required="a place of its own for each element; copies may be read, not stored",
                suggestions=("s.view(…), for an input that a call gives so",),
            )
        moving.append((place, extent, stride))
    ordered = in_order([(extent, stride) for _, extent, stride in moving], known)
    if ordered is None:
        raise NoLayout(
            f"it is not known that {written} stores no two elements at one place",
            required="an order of the modes in which each stride exceeds all that the modes before it span",
            suggestions=("an IndexFunction with onto=: there elements may share places",) if copies else (),
        )
    out = []
    for wanted in ordered:
        at = next(k for k, (_, extent, stride) in enumerate(moving) if (extent, stride) == wanted)
        place, _, stride = moving.pop(at)
        out.append((place, stride))
    return out


def _steps(strides: Sequence[Extent], known: Known, written: str) -> list[Extent]:
    """The extents of the places but for the outermost one, from the innermost on."""
    inner = [1] if strides and strides[0] != 1 else []
    return list(_quotients([*inner, *strides], known, written))


def _quotients(strides: Sequence[Extent], known: Known, written: str) -> Iterator[Extent]:
    for below, above in pairwise(strides):
        quotient = known.quotient(above, below)
        if quotient is None:
            raise NoLayout(
                f"the places of {written} are those of no box of digits: the stride {above} is not known to be a "
                f"multiple of {below}",
                required=f"{below} divides {above}",
                suggestions=("a pitch that is a multiple of what it spans",),
            )
        yield quotient
