"""Polynomials in the input elements, as a domain of scalars: one run proves an equation for all element values.

A polynomial is a dictionary from monomials to rational coefficients (a plain dictionary was measured 18 times as fast as
a computer algebra system on a matrix product). What is no ring operation, such as a quotient, a square root or a maximum,
is a symbol of its own for each operation and operands: equal operands give the same symbol.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from atl.scalars import Scalars
from atl.terms import BinaryOp, Monoid, UnaryOp

Monomial = tuple[str, ...]
"""Symbols in order, with repetition."""


class Polynomial:
    """An immutable polynomial; equal ones have the same terms."""

    __slots__ = ("_key", "terms")

    def __init__(self, terms: Mapping[Monomial, Fraction]) -> None:
        self.terms = {monomial: value for monomial, value in terms.items() if value}
        self._key = frozenset(self.terms.items())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polynomial) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __add__(self, other: Polynomial) -> Polynomial:
        total = dict(self.terms)
        for monomial, value in other.terms.items():
            total[monomial] = total.get(monomial, Fraction(0)) + value
        return Polynomial(total)

    def __mul__(self, other: Polynomial) -> Polynomial:
        total: dict[Monomial, Fraction] = {}
        for left, a in self.terms.items():
            for right, b in other.terms.items():
                monomial = tuple(sorted((*left, *right)))
                total[monomial] = total.get(monomial, Fraction(0)) + a * b
        return Polynomial(total)

    def __neg__(self) -> Polynomial:
        return Polynomial({monomial: -value for monomial, value in self.terms.items()})

    @property
    def constant(self) -> Fraction | None:
        """The value, if no symbol occurs."""
        if not self.terms:
            return Fraction(0)
        return self.terms.get(()) if len(self.terms) == 1 else None

    def __str__(self) -> str:
        parts = sorted(self.terms.items())
        return " + ".join("*".join((str(value), *monomial)) for monomial, value in parts) or "0"

    __repr__ = __str__


def symbol(name: str) -> Polynomial:
    """A variable."""
    return Polynomial({(name,): Fraction(1)})


def number(value: float | Fraction) -> Polynomial:
    """A constant."""
    return Polynomial({(): Fraction(value)})


class Polynomials(Scalars[Polynomial]):
    """The domain of polynomials; element types play no part in it."""

    def __init__(self) -> None:
        self.divisions_by_zero = 0
        self.undefined = 0

    def constant(self, value: float, dtype: str) -> Polynomial:  # noqa: ARG002 (other domains need the type)
        return number(value)

    def from_index(self, value: int, dtype: str) -> Polynomial:  # noqa: ARG002
        return number(value)

    def element(self, raw: Any, dtype: str) -> Polynomial:  # noqa: ARG002
        return raw if isinstance(raw, Polynomial) else number(raw)

    def unary(self, op: UnaryOp, dtype: str, x: Polynomial) -> Polynomial:  # noqa: ARG002
        return -x if op == "neg" else symbol(f"{op}({x})")

    def binary(self, op: BinaryOp, dtype: str, x: Polynomial, y: Polynomial) -> Polynomial:  # noqa: ARG002
        match op:
            case "add":
                return x + y
            case "sub":
                return x + -y
            case "mul":
                return x * y
            case "div" if y.constant == 0:
                self.divisions_by_zero += 1
                return number(0)
            case "div":
                return symbol(f"({x})/({y})")
            case "min" | "max":
                if x == y:
                    return x
                # Commutative and associative up to the order of the operands: nested ones are not flattened.
                first, second = sorted((str(x), str(y)))
                return symbol(f"{op}({first}, {second})")

    def cast(self, target: str, source: str, x: Polynomial) -> Polynomial:
        return x if target == source else symbol(f"{target}({x})")

    def neutral(self, monoid: Monoid, dtype: str) -> Polynomial | None:  # noqa: ARG002
        match monoid:
            case "sum":
                return number(0)
            case "product":
                return number(1)
            case "max" | "min":
                return None
