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

Quotients, roots and functions multiply `size` by their slope. A compiler does not reassociate across these, nor across
memory that it cannot remove: a value that is loaded from a buffer on the heap was rounded when it was stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, assert_never, cast

import numpy as np

from atl.core import index as ix
from atl.core.dtypes import is_float, range_of
from atl.core.marks import LetMark, LoopMark
from atl.core.operations import Arithmetic, BinaryOp, UnaryOp
from atl.core.predicate import TRUE, Predicate, negation
from atl.errors import NoErrorBound
from atl.meaning.scalars import converted
from lowering.nest import loopnest as ln
from lowering.passes.stores import without_dead_stores
from lowering.rounding.expressions import WIDE, ZERO, chosen, known, magnitude, minus, most, number, plus, test, times
from lowering.rounding.formula import roundings
from lowering.rounding.numbers import CHANNELS, RANGES, Channel, State, unit_roundoff
from lowering.rounding.operations import Operations

SMALL_BUFFER: Final = 512
"""Largest number of elements of a buffer of the bound that is on the stack."""


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
    if not any(is_float(output.dtype) for output in nest.outputs):
        return Roundings(ix.ZERO, bounds.unit)
    return Roundings(roundings(made, *bounds.counts()), bounds.unit)


class _Bounds(Operations):
    """The translation of a nest."""

    def nest(self) -> ln.LoopNest:
        body = self._block(self._nest.body)
        bounds = {each: replace(each, uid=next(self._ids), dtype=WIDE) for each in self._nest.outputs}
        held = [part for output in bounds for part in self._copies(output) if is_float(output.dtype)]
        zeroed = not self._nest.complete
        before = (_allocated(each, ln.elements(each.extents), zeroed=zeroed) for each in held)
        last = (statement for output, bound in bounds.items() for statement in self._errors(output, bound))
        made = replace(
            self._nest,
            name=f"{self._nest.name}_error_bound",
            output=bounds.get(self._nest.output, self._nest.output),
            results=tuple(bounds[each] for each in self._nest.results),
            body=(*before, *body, *last, *map(ln.Free, held)),
            complete=True,
            marks=(),
            refused=(),
            in_place=(),
            recurrences=frozenset(),
            row_storage=(),
            storage_notes=(),
            external_rows=None,
            in_order=True,
            origins={},
        )
        return without_dead_stores(made)

    def _errors(self, output: ln.Buffer, bound: ln.Buffer) -> ln.Block:
        """Return the loops that store the bound on the error of each element of an output."""
        loops = tuple((ix.Var(next(self._ids), f"i{at}"), extent) for at, extent in enumerate(output.extents))
        pairs = tuple((ix.index(variable), extent) for variable, extent in loops)
        self._out = []
        error: ln.ScalarExpr = ZERO
        if is_float(output.dtype):
            error = self._error(self._load(ln.Cell(output, pairs)), last=True, dtype=output.dtype)
        block: ln.Block = (*self._out, ln.Assign(ln.Cell(bound, pairs), error))
        for variable, extent in reversed(loops):
            block = (ln.For(variable, ix.ZERO, extent, block),)
        return block

    def counts(self) -> tuple[frozenset[Hashable], tuple[tuple[Hashable, ...], ...]]:
        """Return the storage of all counts, and that of the counts of each result."""
        held: list[tuple[tuple[int, Channel], ln.Scalar | ln.Buffer]] = [*self._scalars.items(), *self._buffers.items()]
        counts = frozenset(ln.key(each) for (_, channel), each in held if channel in ("chained", "nested"))
        return counts, tuple(map(self._counts_of, self._nest.outputs))

    def _counts_of(self, output: ln.Buffer) -> tuple[Hashable, ...]:
        parts = (self._buffer(output, channel) for channel in ("chained", "nested"))
        return tuple(ln.key(part) for part in parts if part is not None and is_float(output.dtype))

    # -- statements ---------------------------------------------------------------------------------------------------

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

    # -- integers and truth values ------------------------------------------------------------------------------------

    def _whole(self, e: ln.ScalarExpr, doubts: list[ln.ScalarExpr] | None = None) -> ln.ScalarExpr:
        """Return an expression of integers or truth values, equal to the kernel's value unless one of `doubts` holds.

        Raises `NoErrorBound` if it depends on a float that may be rounded, and no list of doubts is given.
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
