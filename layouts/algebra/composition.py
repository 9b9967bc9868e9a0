"""Exact composition (§6.4.3): the result equals outer ∘ inner at every index, or is not a layout.

The condition printed in the paper is not sufficient (erratum E33): (6, 2):(1, 7) after (3, 2):(2, 3) has no strides.
Here each mode of the inner layout is split over the modes of the outer one, digit by digit. Divisions must be exact.
Digits that several modes add in one outer mode must stay below its extent, so that they do not carry. If this is
proved, for numbers or symbolic sizes, the strides follow. Otherwise the strides are read off a table of values. If
that fails too, the result is a `Chain`, which is not a layout and has a `reason`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from atl.core.index import Index, index
from atl.core.predicate import at_most
from atl.errors import InvalidArgument, brief
from layouts.algebra.coalesce import coalesced, differing, is_zero
from layouts.errors import NoLayout
from layouts.foundation import semimodule
from layouts.foundation.box import nested_digits, split
from layouts.foundation.facts import EMPTY, Known
from layouts.foundation.function import Chain, Function
from layouts.foundation.layout import Layout, Mode, part_of
from layouts.foundation.recovery import NoStrides, recover_box_modes
from layouts.foundation.tuples import Extent, Nested, Shape, leaves, modes_of


@dataclass(frozen=True, slots=True)
class Piece:
    """`steps` steps of `units` each, in one mode of the outer layout."""

    steps: Extent
    units: Extent
    mode: int


class Unproved(Exception):
    """A condition could not be proved."""


@dataclass(slots=True)
class Walk:
    """Splits the modes of an inner layout over those of an outer one. `trace` records the steps, for `explain`."""

    outer: Sequence[Mode]
    known: Known
    strict: bool = False
    trace: list[str] | None = None

    def pieces(self, steps: Extent, stride: Extent) -> list[Piece]:
        """Split `steps` steps of `stride` into pieces in the outer modes. Raises `Unproved` if this is not proved."""
        if stride == 0:
            return [Piece(steps, 0, 0)]
        known, out = self.known, list[Piece]()
        last = len(self.outer) - 1
        for mode in range(last):
            extent = self.outer[mode][0]
            if stride != 1 and (past := known.quotient(stride, extent)) is not None:
                if self.trace is not None:
                    self.trace.append(f"a step of {stride} wraps {past} times around mode {mode}, of extent {extent}")
                stride = past
                continue
            fits = self._fits(steps, stride, extent)
            if fits and not (self.strict and known.quotient(extent, stride) is None):
                if self.trace is not None:
                    self.trace.append(f"{steps} steps of {stride} stay within mode {mode}, of extent {extent}")
                return [*out, Piece(steps, stride, mode)]
            if (inside := known.quotient(extent, stride)) is None:
                raise Unproved(f"{stride} divides {extent}, the extent of mode {mode}, or is a multiple of it")
            if (rest := known.quotient(steps, inside)) is None:
                raise Unproved(
                    f"{inside} divides {steps}: mode {mode}, of extent {extent}, holds {inside} of the steps"
                )
            if self.trace is not None:
                filled = f"{inside} steps of {stride} fill mode {mode}, of extent {extent}"
                self.trace.append(f"{filled}; {rest} steps of 1 remain for the next mode")
            out.append(Piece(inside, stride, mode))
            steps, stride = rest, 1
            if rest == 1:
                return out
        if self.trace is not None:
            self.trace.append(f"{steps} steps of {stride} continue in mode {last}, the last")
        return [*out, Piece(steps, stride, last)]

    def _fits(self, steps: Extent, stride: Extent, extent: Extent) -> bool:
        if isinstance(steps, int) and isinstance(stride, int) and isinstance(extent, int):
            return stride > 0 and (steps - 1) * stride < extent
        return self.known.less((steps - 1) * stride, extent) and self.known.less(0, stride)

    def require_no_carry(self, pieces: Iterable[Piece], offset: Sequence[Any]) -> None:
        """Require that the sum of all pieces in a mode is below its extent, so that they do not carry."""
        if len(self.outer) == 1:
            return
        sums: list[Any] = list(offset)
        for piece in pieces:
            sums[piece.mode] = sums[piece.mode] + (piece.steps - 1) * piece.units
        for mode, (total, (extent, _)) in enumerate(zip(sums[:-1], self.outer, strict=False)):
            if not self.known.less(total, extent):
                raise Unproved(f"{total} < {extent}, so that the sum in mode {mode} has no carry")
            if total != 0 and self.trace is not None:
                self.trace.append(f"in mode {mode} the digits sum to at most {total} < {extent}: no carry")

    def require_disjoint_bits(self, pieces: Iterable[Piece], offset: Sequence[Any]) -> None:
        """Require, over F2, that the summands in a mode have no bits in common, so that sums and multiples of digits
        are those without carries.
        """
        taken = list(offset)
        for piece in pieces:
            steps, units, mode = piece.steps, piece.units, piece.mode
            if not (isinstance(steps, int) and isinstance(units, int) and isinstance(taken[mode], int) and units >= 0):
                raise Unproved(f"{steps} and {units} are numbers, as strides are over F2")
            if steps > 2 and units & (units - 1):
                raise Unproved(f"{units} is a power of two, so that its multiples have no carries over F2")
            bits = units * ((1 << (steps - 1).bit_length()) - 1) if steps > 1 else 0
            if taken[mode] & bits:
                raise Unproved(f"the summands in mode {mode} have no bits in common, over F2")
            taken[mode] |= bits


def composition(outer: object, inner: object, *, strict: bool = False, given: Iterable[object] = ()) -> Layout | Chain:
    """Return the function i ↦ outer(inner(i)), on the shape of the inner layout, each mode of which is refined.

    The result is a `Layout` if a shape and strides express it. For numbers this is decided exactly; for symbolic sizes
    it depends on whether the divisions can be proved. Otherwise the result is a `Chain`, with false `is_layout` and the
    missing condition in `reason`. `inner` may be a layout or another function, a shape (a compact layout), or a tuple
    with an entry for each mode of the outer layout, where None keeps the mode. With `strict=True` only compositions
    that CuTe admits are accepted.

    Raises `NoLayout` with `strict` only.

    >>> composition(Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1)))
    ((2,2),3):((24,2),8)
    >>> refused = composition(Layout((6, 2), (1, 7)), Layout((3, 2), (2, 3)))
    >>> refused.is_layout, refused(2, 1)
    (False, 8)
    >>> import atl
    >>> n = atl.sizes("n")
    >>> tall, rows = Layout((n, 8), (8, 1)), Layout((4, 2), (n // 4, n))
    >>> composition(tall, rows, given=[n % 4 == 0])
    (4,2):(2*n,1)
    """
    if isinstance(inner, tuple | list):
        return _by_mode(outer, tuple(inner), strict, given)
    after, before = _function(outer), _function(inner)
    known = after.known.joined(before.known).given(given)
    if isinstance(after, Layout) and isinstance(before, Layout):
        try:
            made = composed(after, before, known, strict=strict)
            at = differing(made, Chain(after, before, ""))
            if at is None:
                return made
            reason = f"a law of the strides fails: the value at {at} would be {made(at)}"
        except Unproved as question:
            reason = str(question)
    else:
        reason = f"{after if not isinstance(after, Layout) else before} is not a shape with strides"
    if strict:
        raise NoLayout(
            f"{after} after {before}: CuTe does not admit this composition",
            required=reason,
            suggestions=("omit strict=True: the result is then an exact Layout if there is one, or else a Chain",),
        )
    return tabulated(after, before, known, reason)


def composed(
    outer: Layout, inner: Layout, known: Known, *, strict: bool = False, trace: list[str] | None = None
) -> Layout:
    """Return the composition in closed form. Raises `Unproved` with the first condition that is not proved."""
    modes = coalesced(outer.modes, known, endless=True) or [(1, 0)]
    walk = Walk(modes, known, strict, trace)
    over_f2 = outer.semimodule is semimodule.BITS
    start: Sequence[Any] = (0,) * len(modes)
    if inner.offset != 0:
        start = _digits_of(inner.offset, modes, known)
    every: list[Piece] = []
    shape: list[Any] = []
    stride: list[Any] = []
    flat: list[Mode] = []
    for steps, step in inner.modes:
        if type(step) is not int and not isinstance(step, Index):
            raise Unproved(f"the stride {step} of the inner layout is an integer")
        if trace is not None:
            trace.append(f"mode {steps}:{step}")
        pieces = walk.pieces(steps, step)
        if over_f2 and not all(isinstance(piece.units, int) and piece.units >= 0 for piece in pieces):
            raise Unproved(f"steps of {step} are non-negative numbers, as strides are over F2")
        every += pieces
        made = [(piece.steps, _times(piece.units, modes[piece.mode][1], known)) for piece in pieces]
        flat += made
        shape.append(made[0][0] if len(made) == 1 else tuple(n for n, _ in made))
        stride.append(made[0][1] if len(made) == 1 else tuple(d for _, d in made))
    walk.require_no_carry(every, start)
    if over_f2:
        walk.require_disjoint_bits(every, start)
    offset: Any = outer.offset
    for digit, (_, step) in zip(start, modes, strict=True):
        if digit != 0:
            offset = offset + digit * step
    if isinstance(inner.shape, tuple):
        return Layout.made(
            nested_digits(inner.shape, iter(shape)), nested_digits(inner.shape, iter(stride)), tuple(flat),
            offset=offset, known=known,
        )  # fmt: skip
    return Layout.made(shape[0], stride[0], tuple(flat), offset=offset, known=known)


def _times(units: Extent, stride: semimodule.Stride, known: Known) -> semimodule.Stride:
    if type(units) is int and type(stride) is int:
        return units * stride
    value: semimodule.Stride = semimodule.times(units, stride)
    return known.simple(value) if isinstance(value, Index) else value


def _digits_of(offset: semimodule.Stride, modes: Sequence[Mode], known: Known) -> tuple[Any, ...]:
    if type(offset) is not int and not isinstance(offset, Index):
        raise Unproved(f"the offset {offset} of the inner layout is an integer")
    if isinstance(offset, Index) and not known.holds(at_most(index(0), offset)):
        raise Unproved(f"0 <= {offset}, the offset of the inner layout")
    return tuple(known.simple(digit) for digit in split(offset, [extent for extent, _ in modes]))


def tabulated(outer: Function, inner: Function, known: Known, reason: str) -> Layout | Chain:
    """Return the composition from its table of values: a layout with these values, or a chain if there is none."""
    chain = Chain(outer, inner, reason)
    extents = [extent for extent in leaves(inner.shape) if isinstance(extent, int)]
    if not chain.has_table:
        return chain
    values = chain.table()
    if isinstance(values.flat[0], semimodule.Element):
        return chain
    module: semimodule.Vectorised[Any] = semimodule.COORDINATES if values.ndim > 1 else semimodule.INTEGERS
    if isinstance(outer, Layout) and isinstance(outer.semimodule, semimodule.Vectorised):
        module = outer.semimodule
    found = recover_box_modes(values, extents, module)
    if isinstance(found, NoStrides):
        at = nested_digits(inner.shape, iter(inner.box.digits(found.index)))
        return Chain(
            outer, inner, f"no strides give {_value(values[found.index], module)}, the value at {at} (needed: {reason})"
        )
    parts = [
        Layout.of_modes(_endless(modes, extent, module.zero)) for modes, extent in zip(found, extents, strict=True)
    ]
    shape = nested_digits(inner.shape, iter(part.shape for part in parts))
    stride = nested_digits(inner.shape, iter(part.stride for part in parts))
    made = part_of(shape, stride, known)
    start: semimodule.Stride = _value(values[0], module)
    made.offset = 0 if is_zero(start) else start
    return made


def _endless(modes: tuple[Mode, ...], extent: int, zero: semimodule.Stride) -> tuple[Mode, ...]:
    return modes or ((extent, zero),)


def _value(value: Any, module: semimodule.Vectorised[Any]) -> Any:
    if module is semimodule.COORDINATES:
        return semimodule.Coordinate(tuple(int(part) for part in value))
    return semimodule.F2(int(value)) if module is semimodule.BITS else int(value)


def _function(value: object) -> Function:
    if isinstance(value, Function):
        return value
    if isinstance(value, tuple | list | int | Index) or hasattr(value, "node"):
        return Layout(value)
    raise InvalidArgument(f"{brief(value)} is not a layout", required="a layout, a shape, or a tuple of them")


def _by_mode(outer: object, tiler: tuple[object, ...], strict: bool, given: Iterable[object]) -> Layout | Chain:
    """Compose each mode of the outer layout with its tiler; modes without a tiler are kept."""
    if not isinstance(outer, Layout):
        raise InvalidArgument(f"{brief(outer)} has no modes to tile", required="a layout")
    if len(tiler) > len(outer):
        raise InvalidArgument(
            f"a tiler of {len(tiler)} modes for {outer}",
            required=f"at most {len(outer)} modes, one for each mode of the layout",
        )
    facts = list(given)
    parts: list[Layout] = []
    for position, mode in enumerate(outer):
        part = mode
        if position < len(tiler) and tiler[position] is not None:
            made = composition(mode, tiler[position], strict=strict, given=facts)
            if not isinstance(made, Layout):
                return Chain(outer, _block(outer, tiler, facts), f"in mode {position}: {made.reason}")
            part = made
        parts.append(part)
    known = outer.known.given(facts)
    for part in parts:
        known = known.joined(part.known)
    offset: Any = outer.offset
    for part in parts:
        offset = offset + part.offset
    made = part_of(tuple(part.shape for part in parts), tuple(part.stride for part in parts), known)
    made.offset = offset
    return made


def _block(outer: Layout, tiler: tuple[object, ...], given: list[object]) -> Layout:
    """Return the layout over the flat indices of the outer layout whose modes are the tilers."""
    shapes: list[Shape] = []
    strides: list[Nested[semimodule.Stride]] = []
    step: Extent = 1
    offset: Any = 0
    for position, mode in enumerate(outer):
        wanted = tiler[position] if position < len(tiler) else None
        inner = Layout(mode.shape) if wanted is None else _function(wanted)
        if not isinstance(inner, Layout):
            raise InvalidArgument(f"{brief(wanted)} is not a layout", required="a layout for each mode, or None")
        shapes.append(inner.shape)
        strides.append(_scaled(inner.stride, step))
        offset = offset + inner.offset * step  # type: ignore[operator]
        step = step * mode.size
    made = part_of(tuple(shapes), tuple(strides), EMPTY.joined(outer.known).given(given))
    made.offset = offset
    return made


def _scaled(stride: Any, by: Extent) -> Any:
    if isinstance(stride, tuple):
        return tuple(_scaled(part, by) for part in stride)
    return stride * by


def each_mode(layout: Layout) -> Iterator[Layout]:
    """Return the top-level modes."""
    return (part_of(n, d, layout.known) for n, d in zip(modes_of(layout.shape), modes_of(layout.stride), strict=True))
