"""Integers modulo a large prime as a domain of scalars, for recurrences, in which polynomials are too large.

The degree of a polynomial doubles in each step of y[p - 1] * y[p - 1]. Here each symbol is an independent number that
looks random. Two polynomials that differ have different values except with a probability of their degree divided by the
prime (Schwartz and Zippel). Functions such as exp are uninterpreted: equal operands give equal numbers. Residues have
no order. So an extremum is a function of the set of its operands. A test of numbers that are not small integers has a
result, 0 or 1, that depends on the draw. Few tests run through all results; those of many tests are random.
"""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, assert_never

from atl.core.dtypes import BOOL
from atl.core.operations import OPERATIONS, BinaryOp, UnaryOp
from atl.core.terms import Monoid
from atl.errors import NotExact
from atl.meaning.polynomials import Polynomial
from atl.meaning.scalars import Exact, Scalars

PRIME: Final = (1 << 61) - 1


class Modular(Scalars[int]):
    """The domain of integers modulo `PRIME`, which ignores element types except that of truth values.

    `draw` selects the results of tests between numbers that are not small integers. If `enumerated`, they are its bits,
    in the order of the tests; otherwise they are random. `uninterpreted` is true if a result depends on more than the
    laws of a field, and `tests` contains the results that depend on the draw.
    """

    def __init__(self, draw: int = 0, *, enumerated: bool = False) -> None:
        self.divisions_by_zero = 0
        self.undefined = 0
        self.uninterpreted = False
        self.tests: dict[str, int] = {}
        self._draw = draw
        self._enumerated = enumerated
        self._numbers = Exact()
        self._extrema: dict[int, tuple[BinaryOp, frozenset[int]]] = {}

    def constant(self, value: float, dtype: str) -> int:  # noqa: ARG002 (other domains need the type)
        return _reduced(Fraction(value))

    def from_index(self, value: int, dtype: str) -> int:  # noqa: ARG002
        return value % PRIME

    def element(self, raw: Any, dtype: str) -> int:
        """Convert an element; a polynomial in symbols takes its value at the numbers of the symbols."""
        if not isinstance(raw, Polynomial):
            return _reduced(Fraction(raw))
        value_of = self._test if dtype == BOOL else _number
        total = 0
        for monomial, coefficient in raw.terms.items():
            term = _reduced(Fraction(coefficient))
            for name in monomial:
                term = term * value_of(name) % PRIME
            total += term
        return total % PRIME

    def unary(self, op: UnaryOp, dtype: str, x: int) -> int:
        match op:
            case "neg":
                return -x % PRIME
            case "invert":
                return ((1 if dtype == BOOL else -1) - x) % PRIME
            case (
                "abs" | "sqrt" | "exp" | "log" | "tanh" | "erf" | "sin" | "cos" | "log1p" | "expm1" | "floor" | "round"
                | "stop"
            ):  # fmt: skip
                if not x and OPERATIONS[op].at_zero:
                    return 0
                with suppress(NotExact):
                    if x in (0, 1):
                        return _reduced(self._numbers.unary(op, "float64", Fraction(x)))
                return self._symbol(f"{op}({x})")
            case _:
                assert_never(op)

    def binary(self, op: BinaryOp, dtype: str, x: int, y: int) -> int:
        match op:
            case "add":
                return (x + y) % PRIME
            case "sub":
                return (x - y) % PRIME
            case "mul":
                return x * y % PRIME
            case "div":
                self.divisions_by_zero += not y
                return x * pow(y, -1, PRIME) % PRIME if y else 0
            case "lt":
                return self._less(x, y)
            case "le":
                return 1 - self._less(y, x)
            case "eq":
                return self._equal(x, y)
            case "and" | "min" if dtype == BOOL:
                return x & y
            case "or" | "max" if dtype == BOOL:
                return x | y
            case "xor" if dtype == BOOL:
                return x ^ y
            case "min" | "max":
                return self._extremum(op, x, y)
            case "and" | "or" | "xor":
                return self._symbol(f"{op}({min(x, y)}, {max(x, y)})")
            case "floordiv" | "mod" | "shl" | "shr":
                return self._symbol(f"{op}({x}, {y})")
            case _:
                assert_never(op)

    def where(self, test: int, x: int, y: int) -> int:
        return x if test else y

    def _symbol(self, name: str) -> int:
        self.uninterpreted = True
        return _number(name)

    def _test(self, name: str) -> int:
        """Return the result of a test, 0 or 1, that this draw has selected."""
        self.uninterpreted = True
        if name not in self.tests:
            drawn = self._draw >> len(self.tests) if self._enumerated else _number(f"{self._draw}: {name}")
            self.tests[name] = drawn & 1
        return self.tests[name]

    def _less(self, x: int, y: int) -> int:
        a, b = small_integer(x), small_integer(y)
        if x == y or (a is not None and b is not None):
            return int(x != y and a is not None and b is not None and a < b)
        return self._test(f"{x} < {y}")

    def _equal(self, x: int, y: int) -> int:
        if x == y or (small_integer(x) is not None and small_integer(y) is not None):
            return int(x == y)
        return self._test(f"{min(x, y)} = {max(x, y)}")

    def _extremum(self, op: BinaryOp, x: int, y: int) -> int:
        """Return a number for the set of operands, with nested extrema of the same kind flattened."""
        operands: set[int] = set()
        for part in (x, y):
            kind, within = self._extrema.get(part, (op, frozenset((part,))))
            operands |= within if kind == op else {part}
        known = [value for value in map(small_integer, operands) if value is not None]
        if known:
            best = max(known) if op == "max" else min(known)
            operands = {part for part in operands if small_integer(part) is None} | {best % PRIME}
        if len(operands) == 1:
            return operands.pop()
        found = self._symbol(f"{op}({', '.join(map(str, sorted(operands)))})")
        self._extrema[found] = op, frozenset(operands)
        return found

    def cast(self, target: str, source: str, x: int) -> int:
        if source in (target, BOOL) or not x:
            return x
        return 1 - self._equal(x, 0) if target == BOOL else self._symbol(f"{target}({x})")

    def neutral(self, monoid: Monoid, dtype: str) -> int | None:  # noqa: ARG002
        match monoid:
            case "sum":
                return 0
            case "product":
                return 1
            case "max" | "min":
                return None


def small_integer(x: int) -> int | None:
    """Return the value of an integer that does not wrap in any type, as for constants; None for other numbers."""
    value = x if x < PRIME // 2 else x - PRIME
    return value if abs(value) < 2**31 else None


def _reduced(value: Fraction) -> int:
    return value.numerator * pow(value.denominator, -1, PRIME) % PRIME


@lru_cache(maxsize=1 << 16)
def _number(symbol: str) -> int:
    """Return the number of a symbol, the same in every run."""
    return int.from_bytes(blake2b(symbol.encode(), digest_size=16).digest(), "big") % PRIME
