"""Storage by strides: the digits of a location are the indices, ordered by stride."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from itertools import product as combinations
from math import prod
from typing import Any, Final

from atl.core.index import ZERO, Index, imax, index
from atl.surface.reindexing import Reindexing
from layouts.errors import NoLayout
from layouts.foundation.box import Box
from layouts.foundation.facts import Known, in_order
from layouts.foundation.tuples import Extent, Shape, leaves, modes_of, shown

MOST_ELEMENTS: Final = 2**14
"""Largest size for which a pair of elements that share a location is searched for."""


_ORDERING: Final = (
    "state facts that order the strides, in both places: Layout(…, given=…) and reschedule(program, given=…)",
    "IndexFunction(…), with an inverse",
)
"""Suggestions if the order of symbolic strides is not proved."""


def stored_by_strides(
    shape: tuple[Index, ...],
    domain: Shape,
    strides: Sequence[object],
    offset: object,
    known: Known,
    *,
    copies: bool = False,
) -> Reindexing:
    """Return the reindexing by strides; `domain` has a mode for each dimension.

    The locations are a box whose extents are the quotients of consecutive strides. If the strides do not divide one
    another, locations are flat addresses, and each digit is found by division, largest stride first. Raises `NoLayout`
    if two elements share a location. With `copies` they may, and the offset may be nonzero.
    """
    modes = modes_of(domain)
    written = f"{shown(domain)} with strides {', '.join(map(str, strides))}"
    if len(modes) != len(shape):
        raise NoLayout(
            f"{written} has {len(modes)} mode{'s' if len(modes) > 1 else ''}",
            required=f"one mode for each dimension of the tensor, which has {len(shape)}",
        )
    if offset != 0 and not copies:
        raise NoLayout(f"{written} begins at {offset}", required="offset 0, as the tensor gets its own buffer")
    extents = list(leaves(domain))
    moving = _in_order(extents, strides, known, written, copies=copies)
    steps = None if moving is None or offset != 0 else _steps([stride for _, stride in moving], known)
    if steps is None or moving is None:
        return _at_addresses(shape, modes, strides, offset, moving, copies=copies)
    order = [position for position, _ in moving]
    outermost = [extents[order[-1]]] if order else []
    places = (*outermost, *reversed(steps))

    def to(*at: Any) -> tuple[Any, ...]:
        digits = [digit for mode, x in zip(modes, at, strict=True) for digit in Box(mode).digits(x)]
        first = [] if len(steps) < len(order) else [index(0)]
        return (*(digits[position] for position in reversed(order)), *first)

    def inverse(*at: Any) -> tuple[Any, ...]:
        digits: list[Any] = [index(0)] * len(extents)
        for position, digit in zip(reversed(order), at, strict=False):
            digits[position] = digit
        left = iter(digits)
        return tuple(Box(mode).join([next(left) for _ in leaves(mode)]) for mode in modes)

    return Reindexing(shape, tuple(map(index, places)), to, None if copies else inverse)


def _at_addresses(
    shape: tuple[Index, ...],
    modes: Sequence[Shape],
    strides: Sequence[object],
    offset: object,
    moving: Sequence[tuple[int, Extent]] | None,
    *,
    copies: bool,
) -> Reindexing:
    """Return the reindexing to flat addresses. Digits with nonzero strides are found by division, largest first."""
    steps = [stride for stride in strides if isinstance(stride, int | Index)]
    start = offset if isinstance(offset, int | Index) else 0
    most: Extent = start
    for extent, step in zip((extent for mode in modes for extent in leaves(mode)), steps, strict=True):
        most = most if isinstance(step, int) and step < 0 else most + (extent - 1) * step
    length = most + 1 if isinstance(most, int) else imax(ZERO, most + 1)

    def to(*at: Any) -> tuple[Any, ...]:
        digits = [digit for mode, x in zip(modes, at, strict=True) for digit in Box(mode).digits(x)]
        return (sum((digit * step for digit, step in zip(digits, steps, strict=True)), start),)

    def inverse(p: Any) -> tuple[Any, ...]:
        digits: list[Any] = [index(0)] * len(steps)
        for position, step in reversed(moving or ()):
            digits[position] = p // step
            p = p % step
        left = iter(digits)
        return tuple(Box(mode).join([next(left) for _ in leaves(mode)]) for mode in modes)

    inverse_or_none = None if copies or moving is None else inverse
    return Reindexing(shape, (index(max(length, 0) if isinstance(length, int) else length),), to, inverse_or_none)


def _in_order(
    extents: Sequence[Extent], strides: Sequence[object], known: Known, written: str, *, copies: bool
) -> list[tuple[int, Extent]] | None:
    """Return the modes of nonzero stride, ordered so that each stride exceeds the span of those before it.

    None without such an order: with `copies`, or for numbers where no two elements are found to share a location.
    """
    moving: list[tuple[int, Extent, Extent]] = []
    for position, (extent, stride) in enumerate(zip(extents, strides, strict=True)):
        if not isinstance(stride, int | Index):
            raise NoLayout(
                f"the values of {written} are not addresses",
                required="strides that are integers or sizes",
                suggestions=("layouts.swizzled(…) for an exclusive or",),
            )
        if extent == 1:
            continue
        if copies and known.same(stride, 0):
            continue
        if known.same(stride, 0):
            raise NoLayout(
                f"{written} stores all elements along mode {position}, of extent {extent}, at one location",
                required="distinct locations; copies may be read, not stored",
                suggestions=("s.view(…), for an input that the caller stores this way",),
            )
        moving.append((position, extent, stride))
    ordered = in_order([(extent, stride) for _, extent, stride in moving], known)
    if ordered is None and copies:
        return None
    if ordered is None:
        pair = _collision(extents, strides)
        if pair is None and all(isinstance(part, int) for part in (*extents, *strides)):
            return None  # the order is sufficient, not necessary
        raise NoLayout(
            f"it is not known whether {written} stores two elements at one location"
            if pair is None
            else f"{written} stores two elements at one location: those with the digits {pair[0]} and {pair[1]}",
            required="an order of the modes in which each stride exceeds the span of the modes before it",
            suggestions=() if pair else _ORDERING,
        )
    out = []
    for wanted in ordered:
        at = next(k for k, (_, extent, stride) in enumerate(moving) if (extent, stride) == wanted)
        position, _, stride = moving.pop(at)
        out.append((position, stride))
    return out


def _collision(extents: Sequence[Extent], strides: Sequence[object]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the digits of two elements that share a location, if the size is small enough to search."""
    counts = [extent for extent in extents if isinstance(extent, int)]
    if len(counts) < len(extents) or prod(counts) > MOST_ELEMENTS:
        return None
    seen: dict[object, tuple[int, ...]] = {}
    for digits in combinations(*map(range, counts)):
        location = index(0)
        for digit, stride in zip(digits, strides, strict=True):
            location = location + (digit * stride if isinstance(stride, int | Index) else 0)
        if location in seen:
            return seen[location], digits
        seen[location] = digits
    return None


def _steps(strides: Sequence[Extent], known: Known) -> list[Extent] | None:
    """Return the extents of all digits of a location but the outermost, innermost first; None without divisibility."""
    if not strides:
        return [1]
    inner = [1] if strides[0] != 1 else []
    quotients = [known.quotient(above, below) for below, above in pairwise([*inner, *strides])]
    found = [quotient for quotient in quotients if quotient is not None]
    return found if len(found) == len(quotients) else None
