"""Elements of C text: the domains of programs, with laws that text needs.

These are like the domains in which the reference interpreter computes, so that a text and its
program are compared as elements of one domain. They differ from those of `atl.meaning` in this:

- Literals are rounded to their type, since the text contains the rounded number.
- `stop`, which only derivatives see, is the identity.
- A minimum is the choice that a comparison makes: `a < b ? a : b`. So texts may compute it by comparisons.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable
from fractions import Fraction
from hashlib import blake2b
from typing import Any, Final, Generic, TypeVar

import numpy as np

from atl.core.dtypes import BOOL, TYPES, is_float, is_integer, range_of
from atl.core.operations import BinaryOp, UnaryOp
from atl.meaning.free_terms import FreeTerms, Term
from atl.meaning.modular import Modular, small_integer
from atl.meaning.polynomials import Polynomial, Polynomials, number
from atl.meaning.scalars import converted

WORK: Final = 60_000
"""Number of operations on terms of polynomials, after which residues are used."""


P = TypeVar("P", bound=Hashable)


def is_exact(source: str, target: str) -> bool:
    """Return whether each value of a type is one of another type.

    >>> is_exact("int8", "float32"), is_exact("float16", "float32"), is_exact("int32", "float32")
    (True, True, False)
    """
    narrow, wide = TYPES[source], TYPES[target]
    if source in (BOOL, target):
        return True
    if narrow.kind == wide.kind:
        return narrow.bits < wide.bits and (wide.signed or not narrow.signed)
    return narrow.kind == "integer" and wide.bits >= 32 and narrow.bits < 1 - math.log2(wide.epsilon)


class Casts(Generic[P]):
    """Conversions in a domain. One after a conversion that is exact is that of the first operand."""

    def __init__(self) -> None:
        self._exact: dict[tuple[P, str], tuple[str, P]] = {}

    def cast(self, target: str, source: str, x: P, cast: Callable[[str, str, P], P]) -> P:
        """Convert an element by a function."""
        source, x = self._exact.get((x, source), (source, x))
        if source == target:
            return x
        made = cast(target, source, x)
        if is_exact(source, target):
            self._exact[made, target] = source, x
        return made


def cast_number(target: str, value: Fraction) -> float | Fraction | None:
    """Return a number converted to a type; None if an integer type cannot represent it."""
    if is_float(target):
        return Fraction(rounded(float(value), target)) if value.denominator == 1 else None
    whole = math.trunc(value)
    low, high = range_of(target)
    return Fraction(whole) if low <= whole <= high else None


class TooManyTerms(Exception):
    """A polynomial that has too many terms."""


def rounded(value: float, dtype: str) -> float:
    """Return the number of an element type next to a literal.

    >>> rounded(0.1, "float32"), rounded(0.1, "float64")
    (0.10000000149011612, 0.1)
    """
    if not is_float(dtype) or dtype == "float64":
        return value
    return float(converted(np.float64(value), dtype))


class TextPolynomials(Polynomials):
    """Polynomials in the elements, for all of their values."""

    def __init__(self) -> None:
        super().__init__()
        self.work = 0
        self._operands: dict[Polynomial, tuple[Polynomial, Polynomial, str]] = {}
        self._casts: Casts[Polynomial] = Casts()

    def element(self, raw: Any, dtype: str) -> Polynomial:
        return super().element(raw.item() if isinstance(raw, np.generic) else raw, dtype)

    def constant(self, value: float, dtype: str) -> Polynomial:
        return number(rounded(value, dtype))

    def from_index(self, value: int, dtype: str) -> Polynomial:
        return number(rounded(value, dtype))

    def unary(self, op: UnaryOp, dtype: str, x: Polynomial) -> Polynomial:
        return x if op == "stop" else super().unary(op, dtype, x)

    def binary(self, op: BinaryOp, dtype: str, x: Polynomial, y: Polynomial) -> Polynomial:
        if op in ("min", "max") and is_integer(dtype):
            for bound, other in ((x, y), (y, x)):  # the initial value of a fold
                if bound.constant == range_of(dtype)[op == "min"]:
                    return other
        self.work += len(x.terms) * len(y.terms) if op == "mul" else 1
        self.work += (len(x.terms) + len(y.terms)) // 64
        if self.work > WORK:
            raise TooManyTerms
        made = super().binary(op, dtype, x, y)
        if op == "lt":
            self._operands[made] = x, y, dtype
        elif op == "le":
            self._operands[number(1) + -made] = y, x, dtype
        return made

    def where(self, test: Polynomial, x: Polynomial, y: Polynomial) -> Polynomial:
        if test.constant is not None:
            return x if test.constant else y
        if x == y:
            return x
        for less, first, second in ((test, x, y), (number(1) + -test, y, x)):
            # first if less, else second
            if less not in self._operands:
                continue
            left, right, dtype = self._operands[less]
            if (left, right) == (first, second):
                return self.binary("min", dtype, left, right)
            if (left, right) == (second, first):
                return self.binary("max", dtype, left, right)
            if not right.terms and second == left and first == -left:
                return self.unary("abs", dtype, left)
            if not left.terms and first == right and second == -right:
                return self.unary("abs", dtype, right)
        return super().where(test, x, y)

    def cast(self, target: str, source: str, x: Polynomial) -> Polynomial:
        if target == BOOL:
            return super().cast(target, source, x)
        return self._by_cases(lambda at: self._casts.cast(target, source, at, self._cast_one), x)

    def _cast_one(self, target: str, source: str, x: Polynomial) -> Polynomial:
        value = x.constant
        known = None if value is None else cast_number(target, value)
        return super().cast(target, source, x) if known is None else number(known)


class _Ranked:
    """An order of elements: numbers have theirs, and others get a place among them that looks random."""

    def __init__(self, draw: int) -> None:
        self._draw_of_order = draw
        self._ranks: dict[Any, float | Fraction] = {}

    def rank(self, x: Any, known: float | Fraction | None) -> float | Fraction:
        if known is not None:
            return known
        found = self._ranks.get(x)
        if found is None:
            digest = blake2b(f"{self._draw_of_order}: {x}".encode(), digest_size=8).digest()
            place = Fraction(int.from_bytes(digest, "big"), 1 << 60) - 8
            found = self._ranks[x] = place + Fraction(1, 1 << 80)
        return found


class _Ordered(Modular):
    """Elements modulo a prime with an order, by which they are compared."""

    @abstractmethod
    def _rank(self, x: int) -> float | Fraction:
        """Return the place of an element in the order."""

    def _less(self, x: int, y: int) -> int:
        return int(self._rank(x) < self._rank(y))

    def _equal(self, x: int, y: int) -> int:
        return int(x == y)

    def _extremum(self, op: BinaryOp, x: int, y: int) -> int:
        return (y if self._less(y, x) else x) if op == "min" else y if self._less(x, y) else x


class Residues(_Ordered):
    """Integers modulo a prime, in an order that looks random: with high probability for all elements of that order."""

    def __init__(self, draw: int = 0) -> None:
        super().__init__(draw)
        self._order = _Ranked(draw)
        self._large: dict[int, int] = {}
        self._casts: Casts[int] = Casts()

    def element(self, raw: Any, dtype: str) -> int:
        return super().element(raw.item() if isinstance(raw, np.generic) else raw, dtype)

    def constant(self, value: float, dtype: str) -> int:
        made = super().constant(rounded(value, dtype), dtype)
        if abs(value) >= 2**31:
            self._large[made] = int(value)
        return made

    def from_index(self, value: int, dtype: str) -> int:
        return self.constant(value, dtype)

    def _rank(self, x: int) -> float | Fraction:
        value = small_integer(x)
        return self._order.rank(x, self._large.get(x) if value is None else value)

    def unary(self, op: UnaryOp, dtype: str, x: int) -> int:
        if op == "abs":
            return super().unary("neg", dtype, x) if self._less(x, 0) else x
        return x if op == "stop" else super().unary(op, dtype, x)

    def binary(self, op: BinaryOp, dtype: str, x: int, y: int) -> int:
        if dtype != BOOL and op in ("and", "or", "xor", "floordiv", "mod", "shl", "shr"):
            a, b = small_integer(x), small_integer(y)
            if a is not None and b is not None:
                return self.constant(int(self._numbers.binary(op, dtype, Fraction(a), Fraction(b))), dtype)
        return super().binary(op, dtype, x, y)

    def cast(self, target: str, source: str, x: int) -> int:
        return self._casts.cast(target, source, x, self._cast_one) if target != BOOL else int(x != 0)

    def _cast_one(self, target: str, source: str, x: int) -> int:
        value = small_integer(x)
        known = None if value is None else cast_number(target, Fraction(value))
        return super().cast(target, source, x) if known is None else self.constant(float(known), target)


class TextTerms(FreeTerms, _Ordered):
    """Free terms: operations in their order, for all elements that are not NaN, in an order that looks random."""

    def __init__(self, draw: int = 0) -> None:
        self._order = _Ranked(draw)
        super().__init__(draw, finite=False)

    def constant(self, value: float, dtype: str) -> int:
        return super().constant(rounded(value, dtype), dtype)

    def from_index(self, value: int, dtype: str) -> int:
        return self.constant(value, dtype)

    def _rank(self, x: int) -> float | Fraction:
        if not isinstance(x, Term):
            return self._order.rank(f"integer {x}", small_integer(x))
        bare, negative = self._without_sign(x)
        node = self._nodes[bare]
        known = node[1] if node[0] in ("number", "constant") else None
        rank = self._order.rank(int(bare), known)
        return -rank if negative else rank

    def _compared(self, op: BinaryOp, x: Term, y: Term) -> int:
        a, b = self._rank(x), self._rank(y)
        return int(a < b if op == "lt" else a <= b if op == "le" else a == b)

    def _extreme(self, op: BinaryOp, x: Term, y: Term) -> Term:
        a, b = self._rank(x), self._rank(y)
        return (y if b < a else x) if op == "min" else y if a < b else x

    def unary(self, op: UnaryOp, dtype: str, x: int) -> int:
        if op == "abs" and isinstance(x, Term):
            bare, _ = self._without_sign(x)
            return self._neg(bare) if self._rank(bare) < 0 else bare
        return x if op == "stop" else super().unary(op, dtype, x)

    def fused(self, dtype: str, x: int, y: int, z: int) -> int:
        """Return x * y + z with one rounding, which no operations of a program are."""
        return self._node("fma", dtype, x, y, z)
