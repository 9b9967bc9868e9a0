"""The nest that computes a bound on the rounding error of each element of a kernel's result.

Each float x of the kernel becomes some numbers in double precision:

- `value`: x computed in double precision;
- `size`: a bound on the sum of the absolute values of the monomials that x consists of;
- `absolute`: errors that do not grow with `size`: underflow, and results where a comparison may be decided wrongly;
- `chained` and `nested`: numbers of roundings, in units of the smallest unit roundoff u of the nest.

The error of x, and that of `value`, is at most ((1 + u)^K - 1) * size + absolute with K = chained + nested. This holds
for every order of operations that compilers may choose:

- Additions are reassociated. A monomial of a sum of n terms meets at most n - 1 additions in any order, so `chained`
  adds up over the terms. It also adds up for products, since a compiler may factor: a * (p + q) + a * (r + s) may
  become a * (p + q + r + s). A nest `in_order` has its own order, so `nested` is the depth and `chained` is zero.
- Products are reassociated, too. A partial product may underflow where the product as it is written does not. `reach`
  is a bound on the product of any of the factors, so that this error is at most 2^-150 (for float32) times `reach`.
- Contraction to a fused multiply-add leaves out a rounding.

Quotients, roots and functions multiply `size` by their slope. A compiler does not reassociate across these, and neither
across memory that it cannot remove: a value that is loaded from a buffer on the heap was rounded when it was stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Final, Literal, TypeAlias, assert_never, cast

import numpy as np

from atl.core import index as ix
from atl.core.dtypes import TYPES, is_float, range_of
from atl.core.marks import LetMark, LoopMark
from atl.core.operations import OPERATIONS, Arithmetic, BinaryOp, UnaryOp, error_bound
from atl.core.predicate import TRUE, Predicate, negation
from atl.errors import Location, NoErrorBound
from atl.meaning.scalars import converted
from lowering.nest import loopnest as ln
from lowering.nest.text import outermost, show_statement
from lowering.passes.stores import without_dead_stores
from lowering.rounding.expressions import (
    INFINITE,
    ONE,
    WIDE,
    ZERO,
    chosen,
    function,
    known,
    magnitude,
    minus,
    most,
    number,
    over,
    plus,
    test,
    times,
)  # fmt: skip
from lowering.rounding.formula import roundings

Channel: TypeAlias = Literal["value", "size", "absolute", "chained", "nested", "reach"]
CHANNELS: Final[tuple[Channel, ...]] = ("value", "size", "absolute", "chained", "nested", "reach")
"""The numbers that a float becomes."""

SLACK: Final = 1 + 2.0**-20
"""Factor for the roundings of the bound itself, of which there are less than 2^30."""
SMALL_BUFFER: Final = 512
"""Largest number of elements of a buffer of the bound that is on the stack."""


def unit_roundoff(dtype: str) -> float:
    """Return the relative error of a correctly rounded operation, half of the distance from 1 to the next number."""
    return TYPES[dtype].epsilon / 2


@dataclass(frozen=True, slots=True)
class _Range:
    """The largest number of a type, and the largest error where a result is subnormal."""

    greatest: float
    underflow: float


RANGES: Final[Mapping[str, _Range]] = {
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
        """True if there is no error for any arguments."""
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


def bound_nest(nest: ln.LoopNest, *, fast_math: bool = False) -> ln.LoopNest:
    """Return the nest with the same inputs whose output has a bound on the error of each element, in float64.

    Raises `NoErrorBound`.
    """
    if nest.assembly is not None:
        raise NoErrorBound(
            f"the result of {nest.name} is assembled as {nest.assembly.format}",
            required="a result in a dense array",
            suggestions=("omit s.assemble(…) for the bound",),
        )
    return _Bounds(nest, fast_math=fast_math).nest()


@dataclass(frozen=True, slots=True)
class Roundings:
    """The number of roundings of a kernel: `count` in units of the unit roundoff `unit`."""

    count: ix.Index
    unit: float


def roundings_of(nest: ln.LoopNest, *, fast_math: bool = False) -> Roundings:
    """Return the number of roundings that a monomial of a result meets, as a formula in the sizes.

    Raises `NoErrorBound`.
    """
    bounds = _Bounds(nest, fast_math=fast_math, by_counts=True)
    made = bounds.nest()
    if not is_float(nest.output.dtype):
        return Roundings(ix.ZERO, bounds.unit)
    counts, result = bounds.counts()
    return Roundings(roundings(made, counts, result), bounds.unit)


class _Bounds:
    """The translation of a nest. With `by_counts`, all relative errors are counted, and none is in `absolute`."""

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

    def nest(self) -> ln.LoopNest:
        output = self._nest.output
        body = self._block(self._nest.body)
        result = replace(output, uid=next(self._ids), dtype=WIDE)
        loops = tuple((ix.Var(next(self._ids), f"i{at}"), extent) for at, extent in enumerate(output.extents))
        pairs = tuple((ix.index(variable), extent) for variable, extent in loops)
        before: list[ln.Statement] = []
        after: list[ln.Statement] = []
        if is_float(output.dtype):
            parts = [self._buffer(output, channel) for channel in CHANNELS]
            held = [part for part in parts if part is not None]
            zeroed = not self._nest.complete
            before = [_allocated(each, ln.elements(output.extents), zeroed=zeroed) for each in held]
            after = [ln.Free(each) for each in held]
            self._out = []
            error = self._error(self._load(ln.Cell(output, pairs)), last=True, dtype=output.dtype)
        else:
            self._out, error = [], ZERO
        last: ln.Block = (*self._out, ln.Assign(ln.Cell(result, pairs), error))
        for variable, extent in reversed(loops):
            last = (ln.For(variable, ix.ZERO, extent, last),)
        made = replace(
            self._nest,
            name=f"{self._nest.name}_error_bound",
            output=result,
            body=(*before, *body, *last, *after),
            complete=True,
            marks=(),
            refused=(),
            in_place=(),
            recurrences=frozenset(),
            row_storage=(),
            in_order=True,
            origins={},
        )
        return without_dead_stores(made)

    def counts(self) -> tuple[frozenset[Hashable], tuple[Hashable, ...]]:
        """Return the storage of all counts, and that of the counts of the result."""
        held: list[tuple[tuple[int, Channel], ln.Scalar | ln.Buffer]] = [*self._scalars.items(), *self._buffers.items()]
        counts = frozenset(ln.key(each) for (_, channel), each in held if channel in ("chained", "nested"))
        parts = (self._buffer(self._nest.output, channel) for channel in ("chained", "nested"))
        return counts, tuple(ln.key(part) for part in parts if part is not None)

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

    # -- statements ---------------------------------------------------------------------------------------------------

    def _let(self, value: ln.ScalarExpr, name: str) -> ln.ScalarExpr:
        """Return the value, in a variable unless it is a literal or a variable."""
        if isinstance(value, ln.Number) or (isinstance(value, ln.Load) and isinstance(value.source, ln.Scalar)):
            return value
        variable = ln.Scalar(next(self._ids), name, value.dtype)
        self._out.append(ln.Declare(variable, value))
        return ln.Load(variable)

    def _block(self, block: ln.Block) -> ln.Block:
        outside, self._out = self._out, []
        scope = self._scope
        for statement in block:
            self._at = statement
            self._statement(statement)
            match statement:
                case ln.Declare(ln.Scalar() as named) | ln.Allocate(named):
                    _, self._scope = self._scope.bind(ln.key(named), named.name)
                case ln.For() | ln.If() | ln.Assign() | ln.Accumulate() | ln.Clear() | ln.Free() | ln.Gather():
                    pass
                case _:
                    assert_never(statement)
        made, self._out, self._scope = tuple(self._out), outside, scope
        return made

    def _statement(self, statement: ln.Statement) -> None:
        match statement:
            case ln.For(variable, low, high, body, call=call):
                if call is not None and any(is_float(operand.buffer.dtype) for operand in call.operands):
                    raise self._refused(
                        f"the instruction {call.function} rounds in its own way",
                        "loops of C without calls of instructions",
                        "compile without the call: omit s.call(…) or s.dispatch(…); that kernel has a bound of its own",
                    )
                scope = self._scope
                _, self._scope = scope.bind(variable, variable.name)
                made = ln.For(variable, low, high, self._block(body), mark=LoopMark.NONE)
                self._scope = scope
                statement.share_range(made)
                self._out.append(made)
            case ln.If(predicate, body):
                self._out.append(ln.If(predicate, self._block(body)))
            case ln.Declare(variable, initial):
                if is_float(variable.dtype):
                    for place, value in self._parts(variable, self._state(initial)):
                        self._out.append(ln.Declare(cast(ln.Scalar, place), value))
                else:
                    self._out.append(replace(statement, initial=self._whole(initial), mark=LetMark.NONE))
            case ln.Assign(target, value):
                self._in_a_block(lambda: self._assign(target, value))
            case ln.Accumulate(target, op, value):
                self._in_a_block(lambda: self._accumulate(target, op, value))
            case ln.Allocate(buffer, capacity, storage):
                for each in self._copies(buffer):
                    self._out.append(
                        replace(
                            statement, buffer=each, mark=LetMark.NONE, let=None, vectors=(),
                            storage=storage if storage != "registers" and each is buffer else _storage(capacity),
                        )
                    )  # fmt: skip
            case ln.Clear(buffer, _, _, _, cell):
                for each in self._copies(buffer):
                    moved = None if cell is None else ln.Cell(each, cell.pairs)
                    self._out.append(replace(statement, buffer=each, cell=moved))
            case ln.Free(buffer):
                self._out.extend(ln.Free(each) for each in self._copies(buffer))
            case ln.Gather():
                raise AssertionError("a dense result has no rows to gather")
            case _:
                assert_never(statement)

    def _copies(self, buffer: ln.Buffer) -> Iterator[ln.Buffer]:
        if not is_float(buffer.dtype):
            yield buffer
            return
        for channel in CHANNELS:
            made = self._buffer(buffer, channel)
            if made is not None:
                yield made

    def _in_a_block(self, write: Callable[[], None]) -> None:
        """Write statements, in a block of their own if they declare variables."""
        outside, self._out = self._out, []
        write()
        made, self._out = self._out, outside
        if any(isinstance(each, ln.Declare) for each in made):
            self._out.append(ln.If(TRUE, tuple(made)))
        else:
            self._out.extend(made)

    def _assign(self, target: ln.Cell | ln.Scalar, value: ln.ScalarExpr) -> None:
        if not is_float(value.dtype):
            self._out.append(ln.Assign(target, self._whole(value)))
            return
        state = self._state(value)
        if self._is_opaque(target):
            state = self._closed(state, value.dtype)
        self._out.extend(ln.Assign(place, part) for place, part in self._parts(target, state))

    def _accumulate(self, target: ln.Cell | ln.Scalar, op: BinaryOp, value: ln.ScalarExpr) -> None:
        if not is_float(value.dtype):
            self._out.append(ln.Accumulate(target, cast(Arithmetic, op), self._whole(value)))
            return
        state, dtype = self._state(value), value.dtype
        if op in ("add", "sub"):
            self._add(target, op, state, dtype)
            return
        made = self._named(self._binary(op, dtype, self._load(target), state))
        if self._is_opaque(target):
            made = self._closed(made, dtype)
        for place, part in self._parts(target, made):
            if isinstance(place, ln.Cell):
                self._out.append(ln.Clear(place.buffer, ix.ONE, cell=place))
            self._out.append(ln.Assign(place, part))

    def _add(self, target: ln.Cell | ln.Scalar, op: Literal["add", "sub"], state: State, dtype: str) -> None:
        """Write an addition to a cell or variable, which may have no value yet."""
        weight = self._weight(dtype)
        if self._is_opaque(target) and state.reach is not None:
            state = replace(state, absolute=self._let(self._within_range(state, dtype, state.absolute), "absolute"))
        for place, part in self._parts(target, state):
            channel = _channel_of(place, self._scalars, self._buffers)
            match channel:
                case "value":
                    self._out.append(ln.Accumulate(place, op, part))
                case "size" | "absolute" | "reach":
                    self._out.append(ln.Accumulate(place, "add", part))
                case "chained":
                    self._out.append(ln.Accumulate(place, "add", plus(part, weight)))
                case "nested":
                    more = state.roundings if self._in_order else part
                    if known(more) != 0:
                        now = ln.Load(place)
                        self._out.append(ln.Accumulate(place, "add", minus(most(now, more), now)))
                    if self._in_order:
                        self._out.append(ln.Accumulate(place, "add", weight))
                case _:
                    assert_never(channel)

    # -- floats -------------------------------------------------------------------------------------------------------

    def _weight(self, dtype: str) -> ln.Number:
        """Return the roundings of one operation in this type, in units of `unit`."""
        return number(unit_roundoff(dtype) / self.unit)

    def _growth(self, roundings: ln.ScalarExpr) -> ln.ScalarExpr:
        """Return (1 + u)^K - 1 for K roundings, or a bit more."""
        value = known(roundings)
        if value is None:
            return function("expm1", times(number(self.unit), roundings))
        return number(math.expm1(value * self.unit) * (1 + 2.0**-50))

    def _error(self, state: State, *, last: bool = False, dtype: str | None = None) -> ln.ScalarExpr:
        """Return a bound on the error of a number; with `last`, infinity for one that is not a number."""
        found = plus(times(self._growth(state.roundings), state.size), state.absolute)
        if not last:
            return found if state.is_exact else self._let(times(number(SLACK), found), "error")
        assert dtype is not None
        found = self._let(times(number(SLACK), self._within_range(state, dtype, found)), "error")
        finite = test("lt", plus(found, magnitude(state.value)), INFINITE)
        return chosen(finite, found, INFINITE)

    def _within_range(self, state: State, dtype: str, error: ln.ScalarExpr) -> ln.ScalarExpr:
        """Return the error, or infinity where a number may overflow on the way."""
        if state.is_exact:
            return chosen(test("lt", state.size, INFINITE), error, INFINITE)
        largest = most(state.size, state.farthest) if state.reach is not None else state.size
        reached = plus(times(plus(ONE, self._growth(state.roundings)), largest), state.absolute)
        return chosen(test("lt", self._let(reached, "reached"), number(RANGES[dtype].greatest)), error, INFINITE)

    def _closed(self, state: State, dtype: str) -> State:
        """Return a number as an operand across which compilers do not reassociate."""
        if state.is_exact:
            return state
        absolute = self._let(self._within_range(state, dtype, state.absolute), "absolute")
        return State(state.value, state.size, absolute, nested=self._let(state.roundings, "nested"))

    def _named(self, state: State) -> State:
        return State(
            self._let(state.value, "value"), self._let(state.size, "size"), self._let(state.absolute, "absolute"),
            self._let(state.chained, "chained"), self._let(state.nested, "nested"),
            None if state.reach is None else self._let(state.reach, "reach"),
        )  # fmt: skip

    def _state(self, e: ln.ScalarExpr) -> State:
        """Return the numbers of a float expression."""
        return self._named(self._computed(e))

    def _computed(self, e: ln.ScalarExpr) -> State:
        match e:
            case ln.Number(value, dtype):
                held = float(converted(np.float64(value), dtype)) if math.isfinite(value) else value
                if math.isinf(value):  # the initial value of a maximum or minimum
                    return State(number(value), ZERO)
                off = abs(held - value) if math.isfinite(held) else math.inf
                if self._by_counts:
                    return State(number(value), number(abs(value)), nested=self._weight(dtype) if off else ZERO)
                return State(number(value), number(abs(value)), number(off))
            case ln.Load(source):
                return self._load(source)
            case ln.FromIndex(index, dtype):
                position = self._let(ln.FromIndex(index, WIDE), "index")
                return State(position, magnitude(position), nested=self._weight(dtype))
            case ln.Apply("where", (condition, left, right), dtype):
                return self._where(condition, left, right, dtype)
            case ln.Apply(op, (operand,), dtype):
                return self._unary(cast(UnaryOp, op), dtype, self._state(operand))
            case ln.Apply(op, (left, right), dtype):
                return self._binary(cast(BinaryOp, op), dtype, self._state(left), self._state(right))
            case ln.Apply(op, arguments):
                raise AssertionError(f"{op} of {len(arguments)} arguments")
            case ln.Choose(predicate, left, right):
                return self._choice(predicate, left, right)
            case ln.Convert(argument, dtype):
                return self._conversion(argument, dtype)
        assert_never(e)

    def _choice(self, predicate: Predicate, left: ln.ScalarExpr, right: ln.ScalarExpr) -> State:
        """Return the numbers of the branch that is taken. Only that one is evaluated, since reads need conditions."""
        made = ln.Scalar(next(self._ids), "chosen", left.dtype)
        for place, _ in self._parts(made, State(ZERO, ZERO)):
            self._out.append(ln.Declare(cast(ln.Scalar, place), ZERO))
        for condition, branch in ((predicate, left), (negation(predicate), right)):
            outside, self._out = self._out, []
            self._out.extend(ln.Assign(place, part) for place, part in self._parts(made, self._state(branch)))
            inner, self._out = tuple(self._out), outside
            self._out.append(ln.If(condition, inner))
        return self._load(made)

    def _conversion(self, argument: ln.ScalarExpr, dtype: str) -> State:
        if not is_float(argument.dtype):
            value = self._let(ln.Convert(self._whole(argument), WIDE), "value")
            low, high = range_of(argument.dtype)
            exact = max(-low, high) <= 1 / unit_roundoff(dtype)
            return State(value, magnitude(value), nested=ZERO if exact else self._weight(dtype))
        state = self._state(argument)
        narrower = unit_roundoff(dtype) > unit_roundoff(argument.dtype)
        if argument.dtype == dtype:
            return state
        if not (narrower or RANGES[dtype].greatest < RANGES[argument.dtype].greatest):
            return self._closed(state, argument.dtype)
        state = self._closed(state, argument.dtype)
        lost = _unless_zero(state, RANGES[dtype].underflow)
        if state.is_exact or self._by_counts:
            absolute = plus(state.absolute, lost)
            rounded = replace(state, absolute=absolute, nested=plus(state.nested, self._weight(dtype)))
        else:
            # Relative to the value and not to `size`, which is much larger if a sum cancels.
            near = plus(magnitude(state.value), times(number(2), self._error(state)))
            own = times(number(unit_roundoff(dtype)), near)
            rounded = replace(state, absolute=plus(state.absolute, own, lost))
        return self._closed(self._named(rounded), dtype)

    def _where(self, condition: ln.ScalarExpr, left: ln.ScalarExpr, right: ln.ScalarExpr, dtype: str) -> State:
        doubts: list[ln.ScalarExpr] = []
        decided = self._let(self._whole(condition, doubts), "holds")
        x, y = self._closed(self._state(left), dtype), self._closed(self._state(right), dtype)
        absolute = chosen(decided, x.absolute, y.absolute)
        if doubts:
            # Either operand may be the result; the other one may be the exact value.
            errors = times(number(3), plus(self._error(x), self._error(y)))
            either = plus(magnitude(minus(x.value, y.value)), errors)
            for doubt in doubts:
                absolute = chosen(doubt, either, absolute)
        return State(
            chosen(decided, x.value, y.value),
            most(x.size, y.size) if doubts else chosen(decided, x.size, y.size),
            absolute,
            nested=most(x.nested, y.nested),
        )

    # -- operations ---------------------------------------------------------------------------------------------------

    def _unary(self, op: UnaryOp, dtype: str, x: State) -> State:
        match op:
            case "neg":
                return replace(x, value=function("neg", x.value))
            case "stop":
                return x
            case "abs":
                return replace(self._closed(x, dtype), value=function("abs", x.value))
            case "floor" | "round":
                x = self._closed(x, dtype)
                value = self._let(function(op, x.value), "value")
                size = function("abs", value)
                if x.is_exact:
                    return State(value, size)
                error = times(number(2), self._error(x))
                low, high = function(op, minus(x.value, error)), function(op, plus(x.value, error))
                same = test("eq", low, high)
                return State(value, size, chosen(same, ZERO, plus(ONE, times(number(2), error))))
            case "sqrt" | "exp" | "log" | "tanh" | "erf" | "sin" | "cos" | "log1p" | "expm1":
                return self._function(op, dtype, self._closed(x, dtype))
            case "invert":
                raise AssertionError("the complement of a float")
        assert_never(op)

    def _function(self, op: UnaryOp, dtype: str, x: State) -> State:
        """Return the numbers of a function, whose error grows by its largest slope near the operand."""
        if self._fast_math:
            raise self._refused(f"{op} is computed in an unknown way with fast_math=True", "a kernel without fast_math")
        value = self._let(function(op, x.value), "value")
        bounds = [error_bound(op, cast('Literal["float32", "float64"]', dtype), fma=fma) for fma in (True, False)]
        units = ZERO if OPERATIONS[op].error is None and op != "sqrt" else number(math.ceil(2 * max(bounds)))
        weight = times(units, self._weight(dtype))
        underflow = number(8 * RANGES[dtype].underflow)
        if x.is_exact:
            return self._closed(State(value, magnitude(value), underflow, nested=weight), dtype)
        error = self._error(x)
        reach = times(number(2 * SLACK), error)
        slope = self._let(self._slope(op, x.value, reach), "slope")
        size = plus(magnitude(value), times(slope, x.size))
        absolute = plus(times(number(SLACK), slope, x.absolute), underflow)
        nested = plus(x.nested, weight)
        if op in ("tanh", "erf", "sin", "cos"):
            # All values are between -1 and 1, so that no error exceeds 2.
            small = test("lt", error, ONE)
            size = chosen(small, size, magnitude(value))
            absolute = chosen(small, absolute, chosen(test("lt", error, INFINITE), number(2.5), INFINITE))
        if op == "sqrt":
            # Zero is exact, although the slope there is infinite.
            exact = test("eq", error, ZERO)
            size = chosen(exact, magnitude(value), size)
            absolute = chosen(exact, ZERO, absolute)
        return self._closed(self._named(State(value, size, absolute, nested=nested)), dtype)

    def _slope(self, op: UnaryOp, value: ln.ScalarExpr, reach: ln.ScalarExpr) -> ln.ScalarExpr:
        """Return the largest slope of a function within `reach` of a value; infinity if there is none."""

        def inverse(low: ln.ScalarExpr) -> ln.ScalarExpr:
            low = self._let(minus(low, plus(reach, times(number(2.0**-40), magnitude(low)))), "low")
            positive = test("lt", ZERO, low)
            bounded = function("sqrt", low) if op == "sqrt" else low
            return chosen(positive, over(number(0.5 if op == "sqrt" else 1), bounded), INFINITE)

        match op:
            case "sqrt" | "log":
                return inverse(value)
            case "log1p":
                return inverse(self._let(plus(ONE, value), "low"))
            case "exp" | "expm1":
                return times(number(SLACK), function("exp", plus(value, reach)))
            case "tanh" | "sin" | "cos":
                return ONE
            case "erf":
                return number(2 / math.sqrt(math.pi) * SLACK)
            case "neg" | "abs" | "floor" | "round" | "stop" | "invert":
                raise AssertionError(f"{op} has no slope")
        assert_never(op)

    def _binary(self, op: BinaryOp, dtype: str, x: State, y: State) -> State:
        match op:
            case "add" | "sub":
                weight = self._weight(dtype)
                chained, nested = added_roundings(x, y, in_order=self._in_order, weight=weight)
                reach = None if x.reach is None and y.reach is None else plus(x.farthest, y.farthest)
                return State(
                    function(op, x.value, y.value), plus(x.size, y.size), plus(x.absolute, y.absolute),
                    chained, nested, reach,
                )  # fmt: skip
            case "mul":
                return self._product(dtype, x, y)
            case "div":
                return self._quotient(dtype, self._closed(x, dtype), self._closed(y, dtype))
            case "min" | "max":
                x, y = self._closed(x, dtype), self._closed(y, dtype)
                return State(
                    function(op, x.value, y.value), most(x.size, y.size), most(x.absolute, y.absolute),
                    nested=most(x.nested, y.nested),
                )  # fmt: skip
            case "lt" | "le" | "eq" | "and" | "or" | "xor" | "floordiv" | "mod" | "shl" | "shr":
                raise AssertionError(f"{op} of floats is not a float")
        assert_never(op)

    def _product(self, dtype: str, x: State, y: State) -> State:
        single = x.reach is None and y.reach is None
        farthest = self._let(times(x.farthest, y.farthest), "reach") if self._has_products else None
        lost = number(RANGES[dtype].underflow) if single or self._in_order else times(
            number(RANGES[dtype].underflow), plus(farthest or ONE, ONE)
        )  # fmt: skip
        nonzero = test("lt", ZERO, function("min", x.size, y.size))
        absolute = plus(
            times(x.absolute, y.size, self._twice_grown(y)),
            times(y.absolute, x.size, self._twice_grown(x)),
            times(number(3), x.absolute, y.absolute),
            lost if known(x.absolute) != 0 or known(y.absolute) != 0 else chosen(nonzero, lost, ZERO),
        )
        size = times(x.size, y.size)
        if not x.is_exact and not y.is_exact:
            # Where the sums that are multiplied cancel, their values are much smaller than their sizes.
            across = times(x.size, plus(magnitude(y.value), times(number(2), self._error(y))))
            down = times(y.size, plus(magnitude(x.value), times(number(2), self._error(x))))
            size = function("min", size, plus(across, down))
        return State(
            function("mul", x.value, y.value), size, times(number(1 + 2.0**-7), absolute),
            plus(x.chained, y.chained), plus(x.nested, y.nested, self._weight(dtype)), farthest,
        )  # fmt: skip

    def _twice_grown(self, x: State) -> ln.ScalarExpr:
        """Return (1 + u)^2K or more, for K roundings."""
        twice = times(number(2 * self.unit), x.roundings)
        value = known(twice)
        return function("exp", twice) if value is None else number(math.exp(value))

    def _quotient(self, dtype: str, x: State, y: State) -> State:
        if self._fast_math:
            raise self._refused("a quotient may be computed with a reciprocal", "a kernel without fast_math")
        value = self._let(function("div", x.value, y.value), "value")
        error, size = self._error(y), magnitude(y.value)
        doubled = times(number(2 * SLACK), error)
        low = size if y.is_exact else minus(times(number(1 - 2.0**-40), size), doubled)
        low = self._let(low, "low")
        far = times(number(2), self._error(x))
        ratio = self._let(over(plus(magnitude(x.value), far), low), "ratio")
        spread = over(plus(x.size, times(ratio, y.size)), low) if not y.is_exact else over(x.size, low)
        absolute = over(plus(x.absolute, times(ratio, y.absolute)), low)
        lost = plus(times(number(1 + 2.0**-7), absolute), number(2 * RANGES[dtype].underflow))
        # A formula divides only by products of exact or rounded numbers, for which 1 / (1 - u)^K <= (1 + u)^2K.
        # The spread includes the divisor's error otherwise.
        nested = plus(x.nested, y.nested, y.nested) if self._by_counts else most(x.nested, y.nested)
        return self._closed(
            self._named(
                State(
                    value,
                    spread,
                    chosen(test("lt", ZERO, low), lost, INFINITE),
                    nested=plus(nested, self._weight(dtype)),
                )
            ),
            dtype,
        )

    # -- integers and truth values ------------------------------------------------------------------------------------

    def _whole(self, e: ln.ScalarExpr, doubts: list[ln.ScalarExpr] | None = None) -> ln.ScalarExpr:
        """Return an expression of integers or truth values, which is the kernel's own unless one of `doubts` holds.

        Raises `NoErrorBound` if it depends on a float that may be rounded, and there is no list of doubts.
        """
        match e:
            case ln.Number() | ln.Load() | ln.FromIndex():
                return e
            case ln.Apply("lt" | "le" | "eq" as op, (left, right)) if is_float(left.dtype):
                x, y = self._state(left), self._state(right)
                if not (x.is_exact and y.is_exact):
                    x, y = self._closed(x, left.dtype), self._closed(y, left.dtype)
                    if doubts is None:
                        raise self._refused("a comparison of rounded numbers decides", "operands that are not rounded")
                    away = magnitude(minus(x.value, y.value))
                    near = times(number(3), plus(self._error(x), self._error(y)))
                    # Not `away <= near`, which is false for NaN.
                    sure = test("lt", near, away)
                    doubts.append(self._let(ln.Apply("invert", (sure,), "bool"), "doubt"))
                return test(op, x.value, y.value)
            case ln.Apply(op, arguments, dtype):
                return ln.Apply(op, tuple(self._whole(argument, doubts) for argument in arguments), dtype)
            case ln.Choose(predicate, left, right):
                return ln.Choose(predicate, self._alone(left), self._alone(right))
            case ln.Convert(argument, dtype):
                if not is_float(argument.dtype):
                    return ln.Convert(self._whole(argument, doubts), dtype)
                state = self._state(argument)
                if not state.is_exact:
                    raise self._refused(f"a rounded number is converted to {dtype}", "operands that are not rounded")
                return ln.Convert(state.value, dtype)
        assert_never(e)

    def _alone(self, e: ln.ScalarExpr) -> ln.ScalarExpr:
        """Return a branch of a choice of integers, which must not need statements of its own."""
        before = len(self._out)
        made = self._whole(e)
        if len(self._out) > before:
            raise self._refused("a choice of integers compares floats", "integers, or a choice of floats")
        return made


def _unless_zero(state: State, amount: float) -> ln.ScalarExpr:
    """Return the amount, or zero for a number that is zero."""
    if known(state.absolute) != 0:
        return number(amount)
    return chosen(test("lt", ZERO, state.size), number(amount), ZERO)


def _channel_of(
    place: ln.Cell | ln.Scalar,
    scalars: Mapping[tuple[int, Channel], ln.Scalar],
    buffers: Mapping[tuple[int, Channel], ln.Buffer],
) -> Channel:
    held: Mapping[tuple[int, Channel], ln.Scalar | ln.Buffer] = scalars if isinstance(place, ln.Scalar) else buffers
    uid = place.uid if isinstance(place, ln.Scalar) else place.buffer.uid
    return next(channel for (_, channel), each in held.items() if each.uid == uid)


def _storage(capacity: ix.Index) -> Literal["stack", "heap"]:
    constant = capacity.constant
    return "stack" if constant is not None and constant <= SMALL_BUFFER else "heap"


def _allocated(buffer: ln.Buffer, capacity: ix.Index, *, zeroed: bool) -> ln.Allocate:
    return ln.Allocate(buffer, capacity, _storage(capacity), zeroed)


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
