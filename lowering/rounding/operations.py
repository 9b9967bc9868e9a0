"""Operations on the numbers that a float becomes in the nest of an error bound."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal, assert_never, cast

from atl.core.operations import OPERATIONS, BinaryOp, UnaryOp, error_bound
from lowering.nest import loopnest as ln
from lowering.rounding.expressions import (
    INFINITE,
    ONE,
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
from lowering.rounding.numbers import RANGES, SLACK, State, Storage, added_roundings, unit_roundoff


class Operations(Storage):
    """The operations of floats, with their errors."""

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
