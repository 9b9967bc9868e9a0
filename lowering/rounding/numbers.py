"""The numbers that a float of a kernel becomes in the nest of its error bound, and where they are stored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Final, Literal, TypeAlias, assert_never

import numpy as np

from atl.core.dtypes import TYPES
from atl.errors import Location, NoErrorBound
from lowering.nest import loopnest as ln
from lowering.nest.text import outermost, show_statement
from lowering.rounding.expressions import ONE, WIDE, ZERO, known, magnitude, most, plus

Channel: TypeAlias = Literal["value", "size", "absolute", "chained", "nested", "reach"]
CHANNELS: Final[tuple[Channel, ...]] = ("value", "size", "absolute", "chained", "nested", "reach")
"""The numbers that a float becomes."""

SLACK: Final = 1 + 2.0**-20
"""Factor for the roundings of the bound itself, of which there are less than 2^30."""


def unit_roundoff(dtype: str) -> float:
    """Return the relative error of a correctly rounded operation, half of the distance from 1 to the next number."""
    return TYPES[dtype].epsilon / 2


@dataclass(frozen=True, slots=True)
class _Range:
    """The largest number of a type, and the largest error where a result is subnormal."""

    greatest: float
    underflow: float


RANGES: Final[dict[str, _Range]] = {
    "float64": _Range(float(np.finfo(np.float64).max), 2.0**-1074),
    "float32": _Range(float(np.finfo(np.float32).max), 2.0**-150),
    "bfloat16": _Range((2 - 2.0**-7) * 2.0**127, 2.0**-134),
    "float16": _Range(65504.0, 2.0**-25),
}


@dataclass(frozen=True, slots=True)
class State:
    """The numbers of a float. `reach` is None if it is the larger of 1 and `size`."""

    value: ln.ScalarExpr
    size: ln.ScalarExpr
    absolute: ln.ScalarExpr = ZERO
    chained: ln.ScalarExpr = ZERO
    nested: ln.ScalarExpr = ZERO
    reach: ln.ScalarExpr | None = None

    @property
    def roundings(self) -> ln.ScalarExpr:
        """The number of roundings."""
        return plus(self.chained, self.nested)

    @property
    def is_exact(self) -> bool:
        """True if the error is zero for all arguments."""
        return all(known(part) == 0 for part in (self.absolute, self.chained, self.nested))

    @property
    def farthest(self) -> ln.ScalarExpr:
        """A bound of at least 1 on the product of any factors."""
        return most(ONE, self.size) if self.reach is None else self.reach


def added_roundings(
    x: State, y: State, *, in_order: bool, weight: ln.ScalarExpr
) -> tuple[ln.ScalarExpr, ln.ScalarExpr]:
    """Return the roundings, chained and nested, of a sum."""
    if in_order:
        return ZERO, plus(most(x.roundings, y.roundings), weight)
    return plus(x.chained, y.chained, weight), most(x.nested, y.nested)


class Storage:
    """The variables and buffers of the numbers.

    With `by_counts`, all relative errors are counted, and none is in `absolute`.
    """

    def __init__(self, nest: ln.LoopNest, *, fast_math: bool, by_counts: bool = False) -> None:
        self._nest = nest
        self._by_counts = by_counts
        self._fast_math = fast_math
        self._in_order = nest.in_order
        self._ids: Iterator[int] = count(next(ln.unused_ids(nest)))
        self._buffers: dict[tuple[int, Channel], ln.Buffer] = {}
        self._scalars: dict[tuple[int, Channel], ln.Scalar] = {}
        self._out: list[ln.Statement] = []
        self._at: ln.Statement | None = None
        self._scope = outermost(nest)
        allocated = [s for s in ln.statements(nest.body) if isinstance(s, ln.Allocate)]
        self._transparent = frozenset(
            s.buffer.uid
            for s in allocated
            if s.storage != "heap" and not s.buffer.rows and not s.buffer.in_place and s.buffer.home is None
        )
        self._added_to = frozenset(
            s.target.buffer.storage.uid
            for s in ln.statements(nest.body)
            if isinstance(s, ln.Accumulate) and isinstance(s.target, ln.Cell)
        )
        self._has_products = any(map(_is_product_of_results, ln.statements(nest.body)))
        wide = any(each == "float64" for each in _float_types(nest))
        self.unit: Final = unit_roundoff("float64" if wide else "float32")

    def _refused(self, summary: str, required: str, *suggestions: str) -> NoErrorBound:
        place = None if self._at is None else Location(show_statement(self._scope, self._at).strip())
        return NoErrorBound(f"{summary} in {self._nest.name}", place=place, required=required, suggestions=suggestions)

    # -- storage ------------------------------------------------------------------------------------------------------

    def _buffer(self, buffer: ln.Buffer, channel: Channel) -> ln.Buffer | None:
        """Return the buffer of one of the numbers; None if it is not stored."""
        owner = buffer.storage
        if channel == "reach" and (owner.uid not in self._transparent or not self._has_products):
            return None
        if channel == "chained" and (
            self._in_order or (owner.uid not in self._transparent and owner.uid not in self._added_to)
        ):
            return None
        key = (buffer.uid, channel)
        if key not in self._buffers:
            home = None if buffer.home is None else self._buffer(buffer.home, channel)
            self._buffers[key] = replace(
                buffer, uid=next(self._ids), name=f"{buffer.name}_{channel}", dtype=WIDE, role="local", home=home
            )
        return self._buffers[key]

    def _place(self, at: ln.Cell | ln.Scalar, channel: Channel) -> ln.Cell | ln.Scalar | None:
        if (channel == "chained" and self._in_order) or (channel == "reach" and not self._has_products):
            return None
        if isinstance(at, ln.Scalar):
            key = (at.uid, channel)
            if key not in self._scalars:
                self._scalars[key] = ln.Scalar(next(self._ids), f"{at.name}_{channel}", WIDE)
            return self._scalars[key]
        buffer = self._buffer(at.buffer, channel)
        return None if buffer is None else ln.Cell(buffer, at.pairs)

    def _is_opaque(self, at: ln.Cell | ln.Scalar) -> bool:
        """Return whether a compiler keeps the rounded value that is stored there."""
        return isinstance(at, ln.Cell) and at.buffer.storage.uid not in self._transparent

    def _load(self, source: ln.Cell | ln.Scalar) -> State:
        if isinstance(source, ln.Cell) and source.buffer.storage.role == "input":
            value = self._let(ln.Convert(ln.Load(source), WIDE), "x")
            return State(value, self._let(magnitude(value), "size"))
        found: dict[Channel, ln.ScalarExpr] = {}
        for channel in CHANNELS:
            place = self._place(source, channel)
            if place is not None:
                found[channel] = self._let(ln.Load(place), channel)
        state = State(
            found["value"], found["size"], found["absolute"], found.get("chained", ZERO), found["nested"],
            found.get("reach"),
        )  # fmt: skip
        if self._is_opaque(source):
            return replace(state, chained=ZERO, nested=self._let(state.roundings, "nested"))
        return state

    def _parts(self, target: ln.Cell | ln.Scalar, state: State) -> Iterator[tuple[ln.Cell | ln.Scalar, ln.ScalarExpr]]:
        values: dict[Channel, ln.ScalarExpr] = {
            "value": state.value,
            "size": state.size,
            "absolute": state.absolute,
            "chained": state.chained,
            "nested": state.nested,
            "reach": state.farthest,
        }
        for channel, value in values.items():
            place = self._place(target, channel)
            if place is not None:
                yield place, value

    def _let(self, value: ln.ScalarExpr, name: str) -> ln.ScalarExpr:
        """Return the value, in a variable unless it is a literal or a variable."""
        if isinstance(value, ln.Number) or (isinstance(value, ln.Load) and isinstance(value.source, ln.Scalar)):
            return value
        variable = ln.Scalar(next(self._ids), name, value.dtype)
        self._out.append(ln.Declare(variable, value))
        return ln.Load(variable)


def _is_product_of_results(statement: ln.Statement) -> bool:
    """Return whether a statement multiplies floats that are not all elements of inputs."""
    match statement:
        case ln.Accumulate(op="mul"):
            return True
        case ln.Assign(value=value) | ln.Accumulate(value=value) | ln.Declare(initial=value):
            return any(
                isinstance(part, ln.Apply) and part.op == "mul" and not all(map(_is_element, part.arguments))
                for part in ln.parts_of(value)
            )
        case ln.For() | ln.If() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
            return False
    assert_never(statement)


def _is_element(e: ln.ScalarExpr) -> bool:
    if isinstance(e, ln.Convert):
        return _is_element(e.argument)
    return isinstance(e, ln.Load) and isinstance(e.source, ln.Cell) and e.source.buffer.storage.role == "input"


def _float_types(nest: ln.LoopNest) -> Iterator[str]:
    """Yield the types of the floats that the nest computes with."""
    for statement in ln.statements(nest.body):
        match statement:
            case ln.Assign(value=value) | ln.Accumulate(value=value) | ln.Declare(initial=value):
                yield from (part.dtype for part in ln.parts_of(value))
            case ln.For() | ln.If() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
                pass
            case _:
                assert_never(statement)
