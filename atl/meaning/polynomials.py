"""Polynomials in the input elements as a domain of scalars: one run proves an equation for all element values.

A polynomial is a dictionary from monomials to rational coefficients. (On a matrix product, a dictionary was 18 times as
fast as a computer algebra system.) Other operations, such as square roots, are uninterpreted: each operation with its
operands is a symbol, so equal operands give equal symbols. Five laws are built in. A quotient is a product with an
inverse, and the inverse of 0 is 0. An extremum depends only on the set of its operands. A function of a number is
evaluated where the result is rational. A test, such as x < y, is a symbol t with t² = t: a choice between a and b is
t a + (1 - t) b, and a function of a polynomial with tests is computed in both cases of each. The exponential of a sum
is a product with factors for each term, as over the real numbers, and exp(a) * exp(-a) = 1.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Final, TypeVar, assert_never

from atl.core.dtypes import BOOL
from atl.core.operations import OPERATIONS, BinaryOp, UnaryOp
from atl.core.terms import Monoid
from atl.errors import NotExact
from atl.meaning.scalars import Scalars

Monomial = tuple[str, ...]
"""Symbols in sorted order, with repetition."""
M = TypeVar("M")
P = TypeVar("P")
MOST_FACTORS: Final = 16
"""Maximum power of a factor in exp(x); a term of x with a larger coefficient is one factor."""
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


def factors_of_exponential(terms: Iterable[tuple[M, Coefficient]]) -> Iterator[tuple[M, Fraction, int]]:
    """Yield the factors of exp(Σ c m), as over the real numbers: exp(c/k m) to the power k, as m, c/k and k."""
    for monomial, coefficient in terms:
        whole = Fraction(coefficient)
        power = abs(whole.numerator) if abs(whole.numerator) <= MOST_FACTORS else 1
        yield monomial, whole / power, power


def compared(x: P, y: P, constant: Callable[[P], Fraction | None], holds: Callable[..., bool]) -> bool | None:
    """Return the result of a comparison of equal values or of constants, or None if it is not known.

    It is not known for large constants, which may be those of integers that wrap.
    """
    if x == y:
        return holds(0, 0)
    a, b = constant(x), constant(y)
    return None if a is None or b is None or max(abs(a), abs(b)) >= 2**31 else holds(a, b)


def _constant(polynomial: Polynomial) -> Fraction | None:
    return polynomial.constant


def _with(polynomial: Polynomial, name: str, value: int) -> Polynomial:
    """Return the polynomial with 0 or 1 for a test."""
    total: dict[Monomial, Coefficient] = {}
    for monomial, coefficient in polynomial.terms.items():
        if value or name not in monomial:
            rest = tuple(each for each in monomial if each != name)
            total[rest] = total.get(rest, 0) + coefficient
    return Polynomial(total)


class Polynomials(Scalars[Polynomial]):
    """The domain of polynomials. Of element types it distinguishes only truth values."""

    def __init__(self) -> None:
        self.divisions_by_zero = 0
        self.undefined = 0
        self._extrema: dict[Polynomial, tuple[BinaryOp, frozenset[Polynomial]]] = {}
        self._tests: set[str] = set()
        self._inverses: dict[str, str] = {}
        """The symbol of exp(-a) for each symbol exp(a)."""

    def constant(self, value: float, dtype: str) -> Polynomial:  # noqa: ARG002 (other domains need the type)
        return number(value)

    def from_index(self, value: int, dtype: str) -> Polynomial:  # noqa: ARG002
        return number(value)

    def element(self, raw: Any, dtype: str) -> Polynomial:
        found = raw if isinstance(raw, Polynomial) else number(raw)
        if dtype == BOOL:
            self._tests.update(name for monomial in found.terms for name in monomial)
        return found

    def unary(self, op: UnaryOp, dtype: str, x: Polynomial) -> Polynomial:
        match op:
            case "neg":
                return -x
            case "invert":
                return number(1 if dtype == BOOL else -1) + -x
            case "exp":
                return self._by_cases(self._exponential, x)
            case (
                "abs" | "sqrt" | "log" | "tanh" | "erf" | "sin" | "cos" | "log1p" | "expm1" | "floor" | "round" | "stop"
            ):
                return self._by_cases(lambda at: self._applied(op, dtype, at), x)
            case _:
                assert_never(op)

    def _exponential(self, x: Polynomial) -> Polynomial:
        made = number(1)
        for monomial, coefficient, power in factors_of_exponential(x.terms.items()):
            term = Polynomial({monomial: coefficient})
            name, inverse = f"exp({term})", f"exp({-term})"
            self._inverses |= {name: inverse, inverse: name}
            for _ in range(power):
                made = self._product(made, symbol(name))
        return made

    def _applied(self, op: UnaryOp | BinaryOp, dtype: str, *operands: Polynomial) -> Polynomial:
        """Return the result for constants, if it is rational, else a symbol."""
        known = [value for value in (operand.constant for operand in operands) if value is not None]
        try:
            if len(known) == len(operands):
                return number(OPERATIONS[op].exact(dtype, *known))
        except NotExact:
            pass
        return symbol(f"{op}({', '.join(map(str, operands))})")

    def binary(self, op: BinaryOp, dtype: str, x: Polynomial, y: Polynomial) -> Polynomial:
        match op:
            case "add":
                return x + y
            case "sub":
                return x + -y
            case "mul":
                return self._product(x, y)
            case "div":
                return self._product(x, self._by_cases(self._inverse, y))
            case "lt":
                return self._by_cases(self._less, x, y)
            case "le":
                return number(1) + -self._by_cases(self._less, y, x)
            case "eq":
                return self._by_cases(self._equal, x, y)
            case "and" | "min" if dtype == BOOL:
                return self._product(x, y)
            case "or" | "max" if dtype == BOOL:
                return x + y + -self._product(x, y)
            case "xor" if dtype == BOOL:
                return x + y + -(number(2) * self._product(x, y))
            case "min" | "max":
                return self._by_cases(lambda *at: self._extremum(op, *at), x, y)
            case "and" | "or" | "xor":
                return self._by_cases(lambda *at: self._applied(op, dtype, *sorted(at, key=str)), x, y)
            case "floordiv" | "mod" | "shl" | "shr":
                return self._by_cases(lambda *at: self._applied(op, dtype, *at), x, y)

    def where(self, test: Polynomial, x: Polynomial, y: Polynomial) -> Polynomial:
        return self._product(test, x) + self._product(number(1) + -test, y)

    # -- tests

    def _test(self, name: str) -> Polynomial:
        self._tests.add(name)
        return symbol(name)

    def _less(self, x: Polynomial, y: Polynomial) -> Polynomial:
        """Return the test x < y. It is not that of y - x > 0, which differs where integers wrap."""
        known = compared(x, y, _constant, operator.lt)
        return self._test(f"[{x} < {y}]") if known is None else number(int(known))

    def _equal(self, x: Polynomial, y: Polynomial) -> Polynomial:
        known = compared(x, y, _constant, operator.eq)
        low, high = sorted((str(x), str(y)))
        return self._test(f"[{low} = {high}]") if known is None else number(int(known))

    def _product(self, x: Polynomial, y: Polynomial) -> Polynomial:
        """Return a product in which each test occurs once, and exp(a) * exp(-a) nowhere."""
        product = x * y
        if self._inverses:
            product = self._cancelled(product)
        if self._tests.isdisjoint(name for monomial in product.terms for name in monomial):
            return product
        total: dict[Monomial, Coefficient] = {}
        for monomial, value in product.terms.items():
            once = tuple(
                name for at, name in enumerate(monomial) if name not in self._tests or name not in monomial[:at]
            )
            total[once] = total.get(once, 0) + value
        return Polynomial(total)

    def _cancelled(self, product: Polynomial) -> Polynomial:
        total: dict[Monomial, Coefficient] = {}
        for monomial, value in product.terms.items():
            names = list(monomial)
            for name in monomial:
                inverse = self._inverses.get(name)
                if inverse in names and name in names:
                    names.remove(name)
                    names.remove(inverse)
            total[tuple(names)] = total.get(tuple(names), 0) + value
        return Polynomial(total)

    def _by_cases(self, function: Callable[..., Polynomial], *operands: Polynomial) -> Polynomial:
        """Apply a function to polynomials without tests: in the case that a test holds, and in the case that it fails.

        Tests are chosen in the order of their names, so that equal operands yield equal results.
        """
        tests = {name for operand in operands for monomial in operand.terms for name in monomial} & self._tests
        if not tests:
            return function(*operands)
        test = min(tests)
        holds, fails = (
            self._by_cases(function, *(_with(operand, test, value) for operand in operands)) for value in (1, 0)
        )
        return self.where(symbol(test), holds, fails)

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
        if source in (target, BOOL):
            return x
        if target == BOOL:
            return number(1) + -self._by_cases(self._equal, x, number(0))
        return self._by_cases(lambda at: symbol(f"{target}({at})") if at.terms else at, x)

    def neutral(self, monoid: Monoid, dtype: str) -> Polynomial | None:  # noqa: ARG002
        match monoid:
            case "sum":
                return number(0)
            case "product":
                return number(1)
            case "max" | "min":
                return None
