"""Predicates over index expressions, in negation normal form.

The literals are e >= 0, e = 0 and e != 0. Conjunctions and disjunctions keep the order of their parts, because a kernel
tests from left to right. Equality ignores this order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import gcd
from typing import Final, TypeAlias, TypeGuard

from atl.core import index as ix
from atl.core.node import Node, malformed


@dataclass(frozen=True, slots=True, eq=False)
class NonNegative(Node):
    """expression >= 0."""

    expression: ix.Index

    def __post_init__(self) -> None:
        _need_index(self.expression)
        self._seal(self.expression, (self.expression,), loose=self.expression.loose)


@dataclass(frozen=True, slots=True, eq=False)
class Zero(Node):
    """expression = 0, with the sign for which the first coefficient is positive."""

    expression: ix.Index

    def __post_init__(self) -> None:
        _need_index(self.expression)
        self._seal(self.expression, (self.expression,), loose=self.expression.loose)


@dataclass(frozen=True, slots=True, eq=False)
class NonZero(Node):
    """expression != 0, with the sign for which the first coefficient is positive."""

    expression: ix.Index

    def __post_init__(self) -> None:
        _need_index(self.expression)
        self._seal(self.expression, (self.expression,), loose=self.expression.loose)


@dataclass(frozen=True, slots=True, eq=False)
class All(Node):
    """Conjunction of the parts; true without parts."""

    parts: tuple[Predicate, ...]

    def __post_init__(self) -> None:
        _need_predicates(self.parts)
        self._seal(frozenset(self.parts), self.parts, loose=max((part.loose for part in self.parts), default=0))


@dataclass(frozen=True, slots=True, eq=False)
class Any(Node):
    """Disjunction of the parts; false without parts."""

    parts: tuple[Predicate, ...]

    def __post_init__(self) -> None:
        _need_predicates(self.parts)
        self._seal(frozenset(self.parts), self.parts, loose=max((part.loose for part in self.parts), default=0))


Literal: TypeAlias = NonNegative | Zero | NonZero
Predicate: TypeAlias = NonNegative | Zero | NonZero | All | Any

PREDICATES: Final[tuple[type[Predicate], ...]] = (NonNegative, Zero, NonZero, All, Any)
"""Constructors of predicates: the members of `Predicate`."""
_IDS_OF_PREDICATES: Final = frozenset(map(id, PREDICATES))


def is_predicate(value: object) -> TypeGuard[Predicate]:
    """Return whether this is a predicate; classes are compared by id, because a foreign class may define equality."""
    return id(type(value)) in _IDS_OF_PREDICATES


def _need_index(given: object) -> None:
    if type(given) is not ix.Index:
        raise malformed("a comparison", given, "an index expression")


def _need_predicates(given: object) -> None:
    if type(given) is not tuple or not all(map(is_predicate, given)):
        raise malformed("a condition", given, "a tuple of conditions")


TRUE: Final = All(())
FALSE: Final = Any(())


def non_negative(expression: ix.Index) -> Predicate:
    """Return expression >= 0, decided if it is constant, with the constant term tightened for integers."""
    value = expression.constant
    if value is not None:
        return TRUE if value >= 0 else FALSE
    common = gcd(*(coefficient for monomial, coefficient in expression.terms if monomial))
    if common > 1:
        expression = ix.polynomial({monomial: coefficient // common for monomial, coefficient in expression.terms})
    return NonNegative(expression)


def zero(expression: ix.Index) -> Predicate:
    """Return expression = 0, decided if it is constant or if divisibility of the constant term rules it out."""
    value = expression.constant
    if value is not None:
        return TRUE if value == 0 else FALSE
    common = gcd(*(coefficient for monomial, coefficient in expression.terms if monomial))
    if expression.offset % common:
        return FALSE
    sign = 1 if expression.terms[0][1] > 0 else -1
    if common * sign != 1:
        expression = ix.polynomial(
            {monomial: sign * (coefficient // common) for monomial, coefficient in expression.terms}
        )
    return Zero(expression)


def negation(predicate: Predicate) -> Predicate:
    """Return the negation, cached in the node: equal nodes may differ in the names of their variables."""
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
    """Return the conjunction, with nested conjunctions flattened and duplicates removed."""
    kept: dict[Predicate, None] = {}
    for predicate in predicates:
        if predicate == FALSE:
            return FALSE
        kept.update(dict.fromkeys(predicate.parts if isinstance(predicate, All) else (predicate,)))
    return next(iter(kept)) if len(kept) == 1 else All(tuple(kept))


def disjunction(predicates: Iterable[Predicate]) -> Predicate:
    """Return the disjunction, with nested disjunctions flattened and duplicates removed."""
    kept: dict[Predicate, None] = {}
    for predicate in predicates:
        if predicate == TRUE:
            return TRUE
        kept.update(dict.fromkeys(predicate.parts if isinstance(predicate, Any) else (predicate,)))
    return next(iter(kept)) if len(kept) == 1 else Any(tuple(kept))


def truth(element: ix.Index) -> Predicate:
    """Return the condition that an element of a Boolean input is true."""
    return non_negative(element - 1)


def at_most(a: ix.Index, b: ix.Index) -> Predicate:
    """Return a <= b."""
    return non_negative(b - a)


def less(a: ix.Index, b: ix.Index) -> Predicate:
    """Return a < b."""
    return non_negative(ix.linear(((1, b), (-1, a), (-1, ix.ONE))))


def equal(a: ix.Index, b: ix.Index) -> Predicate:
    """Return a = b."""
    return zero(a - b)


def within(low: ix.Index, expression: ix.Index, high: ix.Index) -> Predicate:
    """Return low <= expression < high."""
    return conjunction((at_most(low, expression), less(expression, high)))


def conjuncts(predicate: Predicate) -> tuple[Predicate, ...]:
    """Return the conjuncts of a predicate."""
    return predicate.parts if isinstance(predicate, All) else (predicate,)


def map_indices(predicate: Predicate, function: Callable[[ix.Index], ix.Index]) -> Predicate:
    """Apply `function` to the expression of every literal."""
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


def substitute(predicate: Predicate, leaf: Callable[[ix.Leaf], ix.Index]) -> Predicate:
    """Replace the leaves of every literal."""
    return map_indices(predicate, lambda expression: ix.map_leaves(expression, leaf))


def expressions(predicate: Predicate) -> Iterable[ix.Index]:
    """Yield the expression of every literal."""
    match predicate:
        case NonNegative(expression) | Zero(expression) | NonZero(expression):
            yield expression
        case All(parts) | Any(parts):
            for part in parts:
                yield from expressions(part)


def atoms_of(predicate: Predicate) -> tuple[ix.AnyAtom, ...]:
    """Return the distinct atoms of the predicate, nested atoms before those that contain them, cached in the node."""
    known: tuple[ix.AnyAtom, ...] | None = getattr(predicate, "inside", None)
    if known is None:
        known = tuple(dict.fromkeys(atom for expression in expressions(predicate) for atom in ix.atoms(expression)))
        object.__setattr__(predicate, "inside", known)
    return known


def holds(
    predicate: Predicate, leaf: Callable[[ix.Leaf], int], element: Callable[[ix.Array, tuple[int, ...]], int]
) -> bool:
    """Evaluate the predicate from left to right, with short-circuit evaluation."""
    match predicate:
        case NonNegative(expression):
            return ix.value_of(expression, leaf, element) >= 0
        case Zero(expression):
            return ix.value_of(expression, leaf, element) == 0
        case NonZero(expression):
            return ix.value_of(expression, leaf, element) != 0
        case All(parts):
            return all(holds(part, leaf, element) for part in parts)
        case Any(parts):
            return any(holds(part, leaf, element) for part in parts)


def predicate_order(predicate: Predicate) -> ix.Order:
    """Return a sort key for predicates that is the same in every run."""
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
