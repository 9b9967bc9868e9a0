"""Predicates over index expressions, in negation normal form.

The literals are e >= 0, e = 0 and e != 0; conjunctions and disjunctions keep the order in which they were written (a
kernel tests from left to right), but two that differ in order only are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import gcd
from typing import Final, TypeAlias, TypeGuard

from atl.core.index import (
    ONE,
    AnyAtom,
    Array,
    Index,
    Leaf,
    Order,
    atoms,
    linear,
    map_leaves,
    polynomial,
    value_of,
)
from atl.core.node import Node, malformed


@dataclass(frozen=True, slots=True, eq=False)
class NonNegative(Node):
    """expression >= 0."""

    expression: Index

    def __post_init__(self) -> None:
        _need_index(self.expression)
        self._seal(self.expression, (self.expression,), loose=self.expression.loose)


@dataclass(frozen=True, slots=True, eq=False)
class Zero(Node):
    """expression = 0; of e and -e the one whose first coefficient is positive is kept."""

    expression: Index

    def __post_init__(self) -> None:
        _need_index(self.expression)
        self._seal(self.expression, (self.expression,), loose=self.expression.loose)


@dataclass(frozen=True, slots=True, eq=False)
class NonZero(Node):
    """expression != 0, in the same form."""

    expression: Index

    def __post_init__(self) -> None:
        _need_index(self.expression)
        self._seal(self.expression, (self.expression,), loose=self.expression.loose)


@dataclass(frozen=True, slots=True, eq=False)
class All(Node):
    """Every part holds; with no parts, true."""

    parts: tuple[Predicate, ...]

    def __post_init__(self) -> None:
        _need_predicates(self.parts)
        self._seal(frozenset(self.parts), self.parts, loose=max((part.loose for part in self.parts), default=0))


@dataclass(frozen=True, slots=True, eq=False)
class Any(Node):
    """Some part holds; with no parts, false."""

    parts: tuple[Predicate, ...]

    def __post_init__(self) -> None:
        _need_predicates(self.parts)
        self._seal(frozenset(self.parts), self.parts, loose=max((part.loose for part in self.parts), default=0))


Literal: TypeAlias = NonNegative | Zero | NonZero
Predicate: TypeAlias = NonNegative | Zero | NonZero | All | Any

PREDICATES: Final[tuple[type[Predicate], ...]] = (NonNegative, Zero, NonZero, All, Any)
"""The constructors of predicates: the members of `Predicate`."""
_NUMBERS_OF_PREDICATES: Final = frozenset(map(id, PREDICATES))


def is_predicate(value: object) -> TypeGuard[Predicate]:
    """Whether this is a predicate; a class of somebody's own that says it equals one of these is none."""
    return id(type(value)) in _NUMBERS_OF_PREDICATES


def _need_index(given: object) -> None:
    if type(given) is not Index:
        raise malformed("a comparison", given, "an index expression")


def _need_predicates(given: object) -> None:
    if type(given) is not tuple or not all(map(is_predicate, given)):
        raise malformed("a condition", given, "conditions")


TRUE: Final = All(())
FALSE: Final = Any(())


def non_negative(expression: Index) -> Predicate:
    """expression >= 0, decided where it is constant, with the integer tightening of the constant term."""
    value = expression.constant
    if value is not None:
        return TRUE if value >= 0 else FALSE
    common = gcd(*(coefficient for monomial, coefficient in expression.terms if monomial))
    if common > 1:
        expression = polynomial({monomial: coefficient // common for monomial, coefficient in expression.terms})
    return NonNegative(expression)


def zero(expression: Index) -> Predicate:
    """expression = 0, decided where it is constant or where the constant term shows that it cannot be."""
    value = expression.constant
    if value is not None:
        return TRUE if value == 0 else FALSE
    common = gcd(*(coefficient for monomial, coefficient in expression.terms if monomial))
    if expression.offset % common:
        return FALSE
    sign = 1 if expression.terms[0][1] > 0 else -1
    if common * sign != 1:
        expression = polynomial(
            {monomial: sign * (coefficient // common) for monomial, coefficient in expression.terms}
        )
    return Zero(expression)


def negation(predicate: Predicate) -> Predicate:
    """Where the predicate does not hold. Each node remembers its own, and not that of an equal one: hints differ."""
    known: Predicate | None = getattr(predicate, "opposite", None)
    if known is None:
        known = _negated(predicate)
        object.__setattr__(predicate, "opposite", known)
    return known


def _negated(predicate: Predicate) -> Predicate:
    match predicate:
        case NonNegative(expression):
            return non_negative(-expression - 1)
        case Zero(expression):
            return NonZero(expression)
        case NonZero(expression):
            return Zero(expression)
        case All(parts):
            return disjunction(negation(part) for part in parts)
        case Any(parts):
            return conjunction(negation(part) for part in parts)


def conjunction(predicates: Iterable[Predicate]) -> Predicate:
    """Every one of these; nested conjunctions are flattened, repetitions drop."""
    kept: dict[Predicate, None] = {}
    for predicate in predicates:
        if predicate == FALSE:
            return FALSE
        kept.update(dict.fromkeys(predicate.parts if isinstance(predicate, All) else (predicate,)))
    return next(iter(kept)) if len(kept) == 1 else All(tuple(kept))


def disjunction(predicates: Iterable[Predicate]) -> Predicate:
    """Some of these; nested disjunctions are flattened, repetitions drop."""
    kept: dict[Predicate, None] = {}
    for predicate in predicates:
        if predicate == TRUE:
            return TRUE
        kept.update(dict.fromkeys(predicate.parts if isinstance(predicate, Any) else (predicate,)))
    return next(iter(kept)) if len(kept) == 1 else Any(tuple(kept))


def truth(element: Index) -> Predicate:
    """That an element of an input of truth values is true."""
    return non_negative(element - 1)


def at_most(a: Index, b: Index) -> Predicate:
    return non_negative(b - a)


def less(a: Index, b: Index) -> Predicate:
    return non_negative(linear(((1, b), (-1, a), (-1, ONE))))


def equal(a: Index, b: Index) -> Predicate:
    return zero(a - b)


def within(low: Index, expression: Index, high: Index) -> Predicate:
    """low <= expression < high."""
    return conjunction((at_most(low, expression), less(expression, high)))


def conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    return predicate.parts if isinstance(predicate, All) else (predicate,)


def map_indices(predicate: Predicate, function: Callable[[Index], Index]) -> Predicate:
    """The predicate with `function` applied to the expression of every literal."""
    match predicate:
        case NonNegative(expression):
            mapped = function(expression)
            return predicate if mapped is expression else non_negative(mapped)
        case Zero(expression):
            mapped = function(expression)
            return predicate if mapped is expression else zero(mapped)
        case NonZero(expression):
            mapped = function(expression)
            return predicate if mapped is expression else negation(zero(mapped))
        case All(parts):
            return conjunction(map_indices(part, function) for part in parts)
        case Any(parts):
            return disjunction(map_indices(part, function) for part in parts)


def substitute(predicate: Predicate, leaf: Callable[[Leaf], Index]) -> Predicate:
    return map_indices(predicate, lambda expression: map_leaves(expression, leaf))


def expressions(predicate: Predicate) -> Iterable[Index]:
    """The expression of every literal."""
    match predicate:
        case NonNegative(expression) | Zero(expression) | NonZero(expression):
            yield expression
        case All(parts) | Any(parts):
            for part in parts:
                yield from expressions(part)


def atoms_of(predicate: Predicate) -> tuple[AnyAtom, ...]:
    """The atoms of its expressions, nested ones before those that hold them, each once. Each node remembers its own."""
    known: tuple[AnyAtom, ...] | None = getattr(predicate, "inside", None)
    if known is None:
        known = tuple(dict.fromkeys(atom for expression in expressions(predicate) for atom in atoms(expression)))
        object.__setattr__(predicate, "inside", known)
    return known


def holds(predicate: Predicate, leaf: Callable[[Leaf], int], element: Callable[[Array, tuple[int, ...]], int]) -> bool:
    """Whether the predicate is true; tested from left to right, and no further than needed."""
    match predicate:
        case NonNegative(expression):
            return value_of(expression, leaf, element) >= 0
        case Zero(expression):
            return value_of(expression, leaf, element) == 0
        case NonZero(expression):
            return value_of(expression, leaf, element) != 0
        case All(parts):
            return all(holds(part, leaf, element) for part in parts)
        case Any(parts):
            return any(holds(part, leaf, element) for part in parts)


def predicate_order(predicate: Predicate) -> Order:
    """A key that sorts predicates the same in every run."""
    match predicate:
        case NonNegative(expression):
            return (0, expression.order)
        case Zero(expression):
            return (1, expression.order)
        case NonZero(expression):
            return (2, expression.order)
        case All(parts):
            return (3, *sorted(predicate_order(part) for part in parts))
        case Any(parts):
            return (4, *sorted(predicate_order(part) for part in parts))
