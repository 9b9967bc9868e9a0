"""Integers modulo a large prime as a domain of scalars, for recurrences, in which polynomials are too large.

The degree of a polynomial doubles in each step of y[p - 1] * y[p - 1]. Here each symbol is an independent number that
looks random. Two polynomials that differ have different values except with a probability of their degree divided by the
prime (Schwartz and Zippel). Functions such as exp are uninterpreted: equal operands give equal numbers.
"""

from __future__ import annotations

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
    """The domain of integers modulo `PRIME`, which ignores element types."""

    def __init__(self) -> None:
        self.divisions_by_zero = 0
        self.undefined = 0
        self._numbers = Exact()

    def constant(self, value: float, dtype: str) -> int:  # noqa: ARG002 (other domains need the type)
        return _reduced(Fraction(value))

    def from_index(self, value: int, dtype: str) -> int:  # noqa: ARG002
        return value % PRIME

    def element(self, raw: Any, dtype: str) -> int:  # noqa: ARG002
        """Convert an element; a polynomial in symbols takes its value at the numbers of the symbols."""
        if not isinstance(raw, Polynomial):
            return _reduced(Fraction(raw))
        total = 0
        for monomial, coefficient in raw.terms.items():
            term = _reduced(Fraction(coefficient))
            for name in monomial:
                term = term * _number(name) % PRIME
            total += term
        return total % PRIME

    def unary(self, op: UnaryOp, dtype: str, x: int) -> int:
        if op == "neg":
            return -x % PRIME
        if op == "invert" and dtype == BOOL:
            return int(not x)
        if not x and OPERATIONS[op].at_zero:
            return 0
        try:
            return _reduced(self._numbers.unary(op, "float64", Fraction(x))) if x in (0, 1) else _number(f"{op}({x})")
        except NotExact:
            return _number(f"{op}({x})")

    def binary(self, op: BinaryOp, dtype: str, x: int, y: int) -> int:  # noqa: ARG002
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
            case "min":
                return min(x, y)
            case "max":
                return max(x, y)
            case "lt":
                return int(x < y)
            case "le":
                return int(x <= y)
            case "eq":
                return int(x == y)
            case "and" | "or" | "xor" | "floordiv" | "mod" | "shl" | "shr":
                # Truth values have their meaning; other numbers have no bits and no quotients here.
                if {x, y} <= {0, 1} and op in ("and", "or", "xor"):
                    return {"and": x & y, "or": x | y, "xor": x ^ y}[op]
                return _number(f"{op}({x}, {y})")
            case _:
                assert_never(op)

    def where(self, test: int, x: int, y: int) -> int:
        return x if test else y

    def cast(self, target: str, source: str, x: int) -> int:
        if target == BOOL:
            return int(x != 0)
        return x if source in (target, BOOL) else _number(f"{target}({x})")

    def neutral(self, monoid: Monoid, dtype: str) -> int | None:  # noqa: ARG002
        match monoid:
            case "sum":
                return 0
            case "product":
                return 1
            case "max" | "min":
                return None


def _reduced(value: Fraction) -> int:
    return value.numerator * pow(value.denominator, -1, PRIME) % PRIME


@lru_cache(maxsize=1 << 16)
def _number(symbol: str) -> int:
    """Return the number of a symbol, the same in every run."""
    return int.from_bytes(blake2b(symbol.encode(), digest_size=16).digest(), "big") % PRIME
