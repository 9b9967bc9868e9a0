"""Polynomials in the input elements as a domain of scalars: one run proves an equation for all element values.

A polynomial is a dictionary from monomials to rational coefficients. (On a matrix product, a dictionary was 18 times as
fast as a computer algebra system.) Other operations, such as square roots, are uninterpreted: each operation with its
operands is a symbol, so equal operands give equal symbols. Three laws are built in. A quotient is a product with an
inverse, and the inverse of 0 is 0. An extremum depends only on the set of its operands. A function of a number is
evaluated where the result is rational.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from atl.core.terms import BinaryOp, Monoid, UnaryOp
from atl.errors import NotExact
from atl.meaning.scalars import Exact, Scalars

Monomial = tuple[str, ...]
"""Symbols in sorted order, with repetition."""
Coefficient = int | Fraction
"""An integer or a fraction: integers are added several times as fast."""


class Polynomial:
    """An immutable polynomial. Equal polynomials have the same terms."""

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: Mapping[Monomial, Coefficient]) -> None:
        self.terms = {monomial: value for monomial, value in terms.items() if value}
        self._hash: int | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polynomial) and self.terms == other.terms

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self.terms.items()))
        return self._hash

    def __add__(self, other: Polynomial) -> Polynomial:
        total = dict(self.terms)
        for monomial, value in other.terms.items():
            total[monomial] = total.get(monomial, 0) + value
        return Polynomial(total)

    def __mul__(self, other: Polynomial) -> Polynomial:
        total: dict[Monomial, Coefficient] = {}
        for left, a in self.terms.items():
            for right, b in other.terms.items():
                monomial = tuple(sorted((*left, *right))) if left and right else left or right
                total[monomial] = total.get(monomial, 0) + a * b
        return Polynomial(total)

    def __neg__(self) -> Polynomial:
        return Polynomial({monomial: -value for monomial, value in self.terms.items()})

    @property
    def constant(self) -> Fraction | None:
        """The value, if the polynomial contains no symbol."""
        if not self.terms:
            return Fraction(0)
        return Fraction(self.terms[()]) if len(self.terms) == 1 and () in self.terms else None

    def __str__(self) -> str:
        parts = sorted(self.terms.items())
        return " + ".join("*".join((str(value), *monomial)) for monomial, value in parts) or "0"

    __repr__ = __str__


def symbol(name: str) -> Polynomial:
    """Return a variable."""
    return Polynomial({(name,): 1})


def number(value: float | Fraction) -> Polynomial:
    """Return a constant."""
    exact = Fraction(value)
    return Polynomial({(): exact.numerator if exact.denominator == 1 else exact})


class Polynomials(Scalars[Polynomial]):
    """The domain of polynomials, which ignores element types."""

    def __init__(self) -> None:
        self.divisions_by_zero = 0
        self.undefined = 0
        self._numbers = Exact()
        self._extrema: dict[Polynomial, tuple[BinaryOp, frozenset[Polynomial]]] = {}

    def constant(self, value: float, dtype: str) -> Polynomial:  # noqa: ARG002 (other domains need the type)
        return number(value)

    def from_index(self, value: int, dtype: str) -> Polynomial:  # noqa: ARG002
        return number(value)

    def element(self, raw: Any, dtype: str) -> Polynomial:  # noqa: ARG002
        return raw if isinstance(raw, Polynomial) else number(raw)

    def unary(self, op: UnaryOp, dtype: str, x: Polynomial) -> Polynomial:  # noqa: ARG002
        if op == "neg":
            return -x
        try:
            return (
                symbol(f"{op}({x})") if x.constant is None else number(self._numbers.unary(op, "float64", x.constant))
            )
        except NotExact:
            return symbol(f"{op}({x})")

    def binary(self, op: BinaryOp, dtype: str, x: Polynomial, y: Polynomial) -> Polynomial:  # noqa: ARG002
        match op:
            case "add":
                return x + y
            case "sub":
                return x + -y
            case "mul":
                return x * y
            case "div":
                return x * self._inverse(y)
            case "min" | "max":
                return self._extremum(op, x, y)

    def _inverse(self, x: Polynomial) -> Polynomial:
        value = x.constant
        if value is None:
            return symbol(f"1/({x})")
        self.divisions_by_zero += not value
        return number(1 / value if value else 0)

    def _extremum(self, op: BinaryOp, x: Polynomial, y: Polynomial) -> Polynomial:
        """Return an extremum as the symbol for the set of operands, with nested extrema of the same kind flattened."""
        operands: set[Polynomial] = set()
        for part in (x, y):
            kind, within = self._extrema.get(part, (op, frozenset((part,))))
            operands |= within if kind == op else {part}
        known = [value for value in (part.constant for part in operands) if value is not None]
        if known:
            best = number(max(known) if op == "max" else min(known))
            operands = {part for part in operands if part.constant is None} | {best}
        if len(operands) == 1:
            return operands.pop()
        found = symbol(f"{op}({', '.join(sorted(map(str, operands)))})")
        self._extrema[found] = op, frozenset(operands)
        return found

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
