"""Coalescing (§6.4.2): the same function with fewer modes; filters for modes with stride zero."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from atl.errors import InvalidArgument, brief
from layouts.errors import NoLayout
from layouts.foundation.facts import Known
from layouts.foundation.function import Chain, Function
from layouts.foundation.layout import READ, Layout, Mode, part_of
from layouts.foundation.semimodule import F2, Coordinate, Element, Stride, times
from layouts.foundation.tuples import Nested, Shape, leaves, like, modes_of, shown


def coalesced(modes: Iterable[Mode], known: Known, *, endless: bool = False) -> list[Mode]:
    """Merge adjacent modes where the second continues the first, and drop modes of extent 1.

    Beyond its domain a layout continues in its last mode. With `endless` these values are kept too: a last mode of
    extent 1 then stays, unless it continues the mode before it.
    """
    out: list[Mode] = []
    last: Mode | None = None
    for mode in modes:
        last = mode
        if mode[0] == 1:
            continue
        if out and (merged := _merged(out[-1], mode, known)) is not None:
            out[-1] = merged
        else:
            out.append(mode)
    if endless and last is not None and last[0] == 1 and not (out and _merged(out[-1], last, known)):
        out.append(last)
    return out


def _merged(first: Mode, second: Mode, known: Known) -> Mode | None:
    (n, d), (m, e) = first, second
    if type(d) is int and type(e) is int and type(n) is int:  # fast path
        return (n * m, d) if n * d == e else None
    if isinstance(d, F2) or isinstance(e, F2):
        # Over F2, two digits combine into one index without carries only if the first extent is a power of two.
        powers = type(n) is int and n & (n - 1) == 0
        return (n * m, d) if powers and same_stride(times(n, d), e, known) else None
    return (known.simple(n * m), d) if same_stride(times(n, d), e, known) else None


def same_stride(a: Stride, b: Stride, known: Known) -> bool:
    """Return whether two strides are proved equal."""
    if isinstance(a, Coordinate) and isinstance(b, Coordinate):
        width = max(len(a.parts), len(b.parts))
        return all(known.same(a[k], b[k]) for k in range(width))
    if isinstance(a, Coordinate | F2 | Element) or isinstance(b, Coordinate | F2):
        return is_zero(a) and is_zero(b) if type(a) is not type(b) else a == b
    return not isinstance(b, Element) and known.same(a, b)


def is_zero(a: Stride) -> bool:
    """Return whether a stride is the zero of its semimodule."""
    return a in (0, F2(0), Coordinate(()))


def coalesce(layout: Layout, profile: object = None) -> Layout:
    """Return the same function with as few modes as possible; 1:0 for a layout of one element.

    It is the same on the domain of the layout (§6.4.2 and erratum E35). Known facts about sizes are used and kept. With
    a profile each mode is coalesced separately: a tuple recurses into the mode, anything else coalesces it as a whole.

    >>> coalesce(Layout((2, (1, 6)), (1, (6, 2)))), coalesce(Layout((2, (1, 6)), (1, (6, 2))), (1, 1))
    (12:1, (2,6):(1,2))
    >>> import atl
    >>> n = atl.sizes("n")
    >>> coalesce(Layout((4, n), (1, 4)))
    4*n:1
    """
    need_layout(layout)
    if not isinstance(profile, tuple | list):
        modes = coalesced(layout.modes, layout.known)
        start = layout.offset if modes or layout.is_vectorised else layout(0)  # a zero of the semimodule
        made = Layout.of_modes(modes, offset=start, known=layout.known)
    else:
        shape, stride = _by_mode(layout.shape, layout.stride, tuple(profile), layout.known)
        made = part_of(shape, stride, layout.known)
        made.offset = layout.offset
    if (at := differing(made, layout)) is not None:
        raise NoLayout(
            f"{layout} has modes that merge by the laws of its strides, but its value at {at} is {layout(at)}, "
            f"not {made(at)}",
            required="a semimodule, whose laws hold",
            suggestions=("layouts.broken_laws(…) finds a law that fails",),
        )
    return made


def differing(made: Layout, wanted: Function) -> int | None:
    """Return the first index at which a layout over a user's semimodule differs from the function it is to equal.

    Its laws are not proved, so each result is compared at all indices.
    """
    if made.is_vectorised:
        return None
    return next((at for at, (x, y) in enumerate(zip(made.table(), wanted.table(), strict=True)) if x != y), None)


def _by_mode(
    shape: Shape, stride: Nested[Stride], profile: tuple[object, ...], known: Known
) -> tuple[Shape, Nested[Stride]]:
    shapes, strides = modes_of(shape), modes_of(stride)
    if len(profile) > len(shapes):
        raise InvalidArgument(
            f"a profile of {len(profile)} modes for {shown(shape)}", required=f"at most {len(shapes)} modes"
        )
    out: list[tuple[Shape, Nested[Stride]]] = []
    for position, (inner, steps) in enumerate(zip(shapes, strides, strict=True)):
        if position >= len(profile):
            out.append((inner, steps))
        elif isinstance(wanted := profile[position], tuple | list):
            out.append(_by_mode(inner, steps, tuple(wanted), known))
        else:
            merged = Layout.of_modes(coalesced(zip(leaves(inner), leaves(steps), strict=True), known))
            out.append((merged.shape, merged.stride))
    return tuple(part for part, _ in out), tuple(part for _, part in out)


def filter_zeros(layout: Layout) -> Layout:
    """Return the layout with extent 1 in each mode of stride zero.

    >>> filter_zeros(Layout((2, 4, 3), (1, 0, 2)))
    (2,1,3):(1,0,2)
    """
    need_vectorised(layout)
    extents = iter([1 if is_zero(stride) else extent for extent, stride in layout.modes])
    made = part_of(like(layout.shape, extents), layout.stride, layout.known)
    made.offset = layout.offset
    return made


def filter(layout: Layout) -> Layout:  # noqa: A001 (CuTe's name)
    """Return the coalesced modes with nonzero stride: the same locations without repetition by stride zero.

    >>> filter(Layout((2, 4, 3), (1, 0, 2)))
    6:1
    """
    return coalesce(filter_zeros(layout))


def need_layout(value: Any) -> None:
    """Raise `InvalidArgument` if `value` is not a `Layout`."""
    if not isinstance(value, Layout):
        raise InvalidArgument(
            f"{brief(value)} is not a layout", required="a Layout: a shape with strides", suggestions=_instead(value)
        )


def need_vectorised(layout: Layout) -> None:
    """Raise `NoLayout` if the strides are of a user's semimodule, whose zero and units are not known."""
    need_layout(layout)
    if not layout.is_vectorised:
        raise NoLayout(f"{layout} has strides of a user's semimodule", required="integers, coordinates, or F2(…)")


def _instead(value: object) -> tuple[str, ...]:
    """Return suggestions for turning another function into a layout."""
    match value:
        case Chain(outer=outer, inner=inner):
            return (f"apply the operation to {inner}, then composition({outer}, …) to its result",)
        case Function():
            return ("layouts.as_layout(…) converts it to a shape and strides, if there are any",)
        case str():
            return (READ,)
        case _:
            return ()
