"""Free terms as a domain of scalars: floating-point operations with the laws that keep every bit, and no others.

Two sides of an equation that are one free term are equal in every bit for all elements, in every float type: sums and
products keep their order and their rounding. The laws are those of IEEE 754 for rounding to nearest:

- x + y = y + x and x * y = y * x; x - y = x + (-y);
- x * 1 = x / 1 = x; x + 0 = x if x cannot be -0, as no sum that starts at 0 can;
- signs move out of products, quotients and conversions; |-x| = |x|;
- a maximum or minimum is associative and idempotent: of zeros, the first operand is the result;
- x < x is false; equal operations have equal results; operations on integers are exact.

With `finite`, numbers are compared where no operand or result is infinite or NaN, and -0 equals 0. Then these hold too:
x + 0 = x, 0 * x = 0 / x = 0, x + (-x) = 0, -(x + y) = -x + -y; a maximum depends only on the set of its operands, and
x <= y is the negation of y < x.
"""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from typing import Any, Final, TypeAlias

from atl.core.dtypes import BOOL, is_integer
from atl.core.operations import COMPARISONS, OPERATIONS, BinaryOp, UnaryOp
from atl.core.terms import Monoid
from atl.errors import NotExact
from atl.meaning.modular import Modular, small_integer

Node: TypeAlias = tuple[Any, ...]
"""The name of an operation, and the numbers of its operands."""
EXACT: Final = 256
"""Integers up to this number are elements of every float type, so that a constant has one value in all of them."""


class Term(int):
    """A free term: the number of its node, so that equal terms are equal numbers."""

    __slots__ = ()


class FreeTerms(Modular):
    """The domain of free terms for float types, and of integers modulo a prime for the others.

    Results of tests are selected by `draw`, as for `Modular`.
    """

    def __init__(self, draw: int = 0, *, finite: bool, enumerated: bool = False) -> None:
        super().__init__(draw, enumerated=enumerated)
        self.finite = finite
        self._numbered: dict[Node, Term] = {}
        self._nodes: list[Node] = []
        self._positive: dict[Term, bool] = {}
        self._longest: dict[Term, int] = {}
        self._chains: dict[tuple[str, Term], int] = {}
        self._zero, self._one = self._number(0), self._number(1)

    def _node(self, *parts: Any) -> Term:
        """Return the number of a node."""
        found = self._numbered.get(parts)
        if found is None:
            found = self._numbered[parts] = Term(len(self._nodes))
            self._nodes.append(parts)
        return found

    def _number(self, value: float) -> Term:
        """Return the term of a small integer. A negative one is the negation of a positive one."""
        return self._node("number", int(value)) if value >= 0 else self._node("neg", self._number(-value))

    def _value(self, x: Term) -> int | None:
        """Return the integer that a term is; None for other terms and for -0."""
        match self._nodes[x]:
            case ("number", value):
                return int(value)
            case ("neg", operand) if operand != self._zero:
                positive = self._value(operand)
                return None if positive is None else -positive
            case _:
                return None

    # -- elements -----------------------------------------------------------------------------------------------------

    def constant(self, value: float, dtype: str) -> int:
        if not _is_float(dtype):
            return super().constant(value, dtype)
        if value == int(value) and abs(value) <= EXACT:
            return self._number(value)
        return self._node("constant", value, dtype) if value > 0 else self._neg(self._node("constant", -value, dtype))

    def from_index(self, value: int, dtype: str) -> int:
        if not _is_float(dtype):
            return super().from_index(value, dtype)
        return self._number(value) if abs(value) <= EXACT else self._node("index", value, dtype)

    def element(self, raw: Any, dtype: str) -> int:
        return self._node("element", str(raw)) if _is_float(dtype) else super().element(raw, dtype)

    def neutral(self, monoid: Monoid, dtype: str) -> int | None:
        if not _is_float(dtype) or monoid in ("max", "min"):
            return super().neutral(monoid, dtype)
        return self._zero if monoid == "sum" else self._one

    # -- operations ---------------------------------------------------------------------------------------------------

    def unary(self, op: UnaryOp, dtype: str, x: int) -> int:
        if not isinstance(x, Term):
            return super().unary(op, dtype, x)
        if op == "neg":
            return self._neg(x)
        value = self._value(x)
        if value in (0, 1):
            with suppress(NotExact):
                made = OPERATIONS[op].exact(dtype, Fraction(value))
                if made.denominator == 1:
                    return self._number(int(made))
        return self._node(op, self._without_sign(x)[0] if op == "abs" else x)

    def binary(self, op: BinaryOp, dtype: str, x: int, y: int) -> int:
        # A comparison is Boolean, whatever it compares.
        if not (isinstance(x, Term) and isinstance(y, Term)):
            return super().binary(op, dtype, x, y)
        if op in COMPARISONS:
            return self._compared(op, x, y)
        match op:
            case "add":
                return self._add(x, y)
            case "sub":
                return self._add(x, self._neg(y))
            case "mul" | "div":
                return self._scaled(op, x, y)
            case "min" | "max":
                return self._extreme(op, x, y)
            case _:
                return self._node(op, x, y)

    def _compared(self, op: BinaryOp, x: Term, y: Term) -> int:
        match op:
            case "lt":
                return self._decided("lt", x, y, same=False)
            case "le" if self.finite:
                return 1 - self._decided("lt", y, x, same=False)
            case "le":
                return self._decided("le", x, y, same=None)
            case _:
                return self._decided("eq", min(x, y), max(x, y), same=True if self.finite else None)

    def cast(self, target: str, source: str, x: int) -> int:
        if source == target:
            return x
        if not isinstance(x, Term):
            if not _is_float(target):
                return super().cast(target, source, x)
            small = small_integer(x)
            whole = small is not None and abs(small) <= EXACT
            return self._number(small) if whole and small is not None else self._node("integer", x, target)
        if target == BOOL:
            return 1 - self._decided("eq", min(x, self._zero), max(x, self._zero), same=True)
        if not _is_float(target):
            value = self._value(x)
            return super().constant(value, target) if value is not None else self._symbol(f"{target} {x}")
        operand, negative = self._without_sign(x)
        made = operand if self._value(operand) is not None else self._node("cast", operand, source, target)
        return self._neg(made) if negative else made

    # -- laws ---------------------------------------------------------------------------------------------------------

    def _without_sign(self, x: Term) -> tuple[Term, bool]:
        match self._nodes[x]:
            case ("neg", operand):
                return operand, True
            case _:
                return x, False

    def _neg(self, x: Term) -> Term:
        match self._nodes[x]:
            case ("neg", operand):
                return Term(operand)
            case ("add", left, right) if self.finite:
                return self._add(self._neg(left), self._neg(right))
            case _:
                return x if self.finite and x == self._zero else self._node("neg", x)

    def _add(self, x: Term, y: Term) -> Term:
        a, b = self._value(x), self._value(y)
        if a is not None and b is not None and abs(a + b) <= EXACT:
            return self._number(a + b)
        for one, other in ((x, y), (y, x)):
            if one == self._zero and (self.finite or self._is_never_minus_zero(other)):
                return other
            if one == self._node("neg", self._zero):
                return other
        if self.finite and x == self._neg(y):
            return self._zero
        return self._node("add", *sorted((x, y)))

    def _scaled(self, op: BinaryOp, x: Term, y: Term) -> Term:
        """Return a product or quotient, with the signs of its operands outside."""
        (x, minus), (y, other_minus) = self._without_sign(x), self._without_sign(y)
        made = self._of_positive(op, x, y)
        return made if minus == other_minus else self._neg(made)

    def _of_positive(self, op: BinaryOp, x: Term, y: Term) -> Term:
        if y == self._one:
            return x
        if self.finite and self._zero in (x, y):
            return self._zero  # in the reference interpreter x / 0 is 0
        if op == "div":
            return self._node(op, x, y)
        if x == self._one:
            return y
        a, b = self._value(x), self._value(y)
        if a is not None and b is not None and a * b <= EXACT:
            return self._number(a * b)
        return self._node(op, *sorted((x, y)))

    def _extreme(self, op: BinaryOp, x: Term, y: Term) -> Term:
        parts = [part for operand in (x, y) for part in self._parts(op, operand)]
        if self.finite:
            parts = sorted(set(parts))
        else:
            halves = self._parts(op, x), self._parts(op, y)
            parts = [*halves[0]] if halves[0] == halves[1] else parts
            parts = [part for at, part in enumerate(parts) if not at or part != parts[at - 1]]
        values = [value for value in map(self._value, parts) if value is not None]
        if len(values) == len(parts):
            return self._number(max(values) if op == "max" else min(values))
        return parts[0] if len(parts) == 1 else self._node(op, *parts)

    def _parts(self, op: BinaryOp, x: Term) -> tuple[Term, ...]:
        of, *operands = self._nodes[x]
        return tuple(operands) if of == op else (x,)

    def _decided(self, op: BinaryOp, x: Term, y: Term, *, same: bool | None) -> int:
        """Return the result of a test: that of numbers, `same` for equal terms unless None, or else drawn."""
        a, b = self._value(x), self._value(y)
        if a is not None and b is not None:
            return int(OPERATIONS[op].exact("float64", Fraction(a), Fraction(b)))
        return int(same) if x == y and same is not None else self._test(f"{op} {x} {y}")

    def longest_chain(self, x: Term) -> int:
        """Return the largest number of operands of one chain of additions, products, maxima or minima in a term."""
        found = self._longest.get(x)
        if found is None:
            operands = [part for part in self._nodes[x][1:] if isinstance(part, Term)]
            below = max(map(self.longest_chain, operands), default=0)
            found = self._longest[x] = max(below, self._chain(self._nodes[x][0], x))
        return found

    def _chain(self, op: str, x: Term) -> int:
        """Return the number of operands of the chain of an operation that a term is. Numbers do not count."""
        found = self._chains.get((op, x))
        if found is None:
            of, *operands = self._nodes[x]
            if of == "neg":
                found = self._chain(op, *operands)
            elif of == op and of in ("add", "mul", "max", "min"):
                found = sum(self._chain(op, part) for part in operands)
            else:
                found = int(of != "number")
            self._chains[op, x] = found
        return found

    def _is_never_minus_zero(self, x: Term) -> bool:
        """Return whether a term is never -0. A sum is -0 only if both operands are."""
        found = self._positive.get(x)
        if found is None:
            found = self._positive[x] = self._has_a_positive_zero(self._nodes[x])
        return found

    def _has_a_positive_zero(self, node: Node) -> bool:
        match node:
            case ("number" | "constant" | "index" | "integer" | "abs" | "exp", *_):
                return True
            case ("neg", operand):
                return self._nodes[operand][0] in ("number", "constant") and operand != self._zero
            case ("add", left, right):
                return self._is_never_minus_zero(left) or self._is_never_minus_zero(right)
            case ("mul", left, right):
                return bool(left == right)
            case ("max" | "min", *operands):
                return all(map(self._is_never_minus_zero, operands))
            case _:
                return False


def _is_float(dtype: str) -> bool:
    return dtype != BOOL and not is_integer(dtype)
