"""Which integers C must hold exactly for a kernel to compute what its program means.

A sum or a product may wrap on the way: it is exact modulo 2^64, so that it is right in the end if its value fits. So
the value must fit wherever something else is done with it: where it is compared, divided, a divisor, a choice of a
minimum or maximum, the end of a loop, or the extent of a buffer. An address lies within its tensor, which is in memory;
and what becomes a scalar wraps, by its meaning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from atl.core.index import Bound, Extremum, Index, Quotient, Read, Size, Var
from atl.core.predicate import All, Any, NonNegative, NonZero, Predicate, Zero, negation
from lowering.c.index import Factor, Remainder, Terms, sides, terms_of
from lowering.nest.loopnest import (
    Accumulate,
    Allocate,
    Apply,
    Assign,
    Block,
    Cell,
    Choose,
    Clear,
    Convert,
    Declare,
    For,
    Free,
    FromIndex,
    If,
    Load,
    LoopNest,
    Number,
    Scalar,
    ScalarExpr,
    Statement,
    elements,
)


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """The inside of a loop or a branch, where `predicate` holds; `outside` is around it."""

    outside: Place | None = None
    predicate: Predicate | None = None

    def under(self, predicate: Predicate) -> Place:
        return Place(self, predicate)


@dataclass(frozen=True, slots=True)
class Operand:
    """A sum that C computes at a place, and whose value must fit."""

    place: Place
    terms: Terms


Operands: TypeAlias = Iterator[Operand]


def operands(nest: LoopNest) -> Operands:
    """All of them, but those that are nothing but a size, a variable or an element: these fit as they are."""
    start = Place()
    for extent in nest.output.extents:
        yield from _inside(start, terms_of(extent))
    yield from _in_block(start, nest.body)


# -- statements -------------------------------------------------------------------------------------------------------


def _in_block(place: Place, block: Block) -> Operands:
    for statement in block:
        yield from _in_statement(place, statement)


def _in_statement(place: Place, statement: Statement) -> Operands:
    match statement:
        case For(_, low, high, body):
            yield from _whole(place, low)
            yield from _whole(place, high)
            yield from _in_block(place.under(statement.range), body)
        case If(predicate, body):
            yield from _in_predicate(place, predicate)
            yield from _in_block(place.under(predicate), body)
        case Assign(target, value) | Accumulate(target, _, value):
            yield from _in_storage(place, target)
            yield from _in_scalar(place, value)
        case Declare(_, initial):
            yield from _in_scalar(place, initial)
        case Allocate(buffer, count) | Clear(buffer, count):
            # The extents of a buffer that is allocated outside of a loop may speak of the loop's variable.
            for part in buffer.extents if count == elements(buffer.extents) else (count,):
                yield from _whole(place, part)
        case Free():
            return
        case _:
            assert_never(statement)


def _in_storage(place: Place, at: Cell | Scalar) -> Operands:
    if isinstance(at, Cell):
        for pair in at.pairs:
            for part in pair:
                yield from _inside(place, terms_of(part))


def _in_scalar(place: Place, e: ScalarExpr) -> Operands:
    match e:
        case Number():
            return
        case Load(source):
            yield from _in_storage(place, source)
        case FromIndex(index):
            yield from _inside(place, terms_of(index))
        case Apply(_, arguments):
            for argument in arguments:
                yield from _in_scalar(place, argument)
        case Choose(predicate, left, right):
            yield from _in_predicate(place, predicate)
            yield from _in_scalar(place.under(predicate), left)
            yield from _in_scalar(place.under(negation(predicate)), right)
        case Convert(argument):
            yield from _in_scalar(place, argument)
        case _:
            assert_never(e)


def _in_predicate(place: Place, predicate: Predicate) -> Operands:
    """A part is tested only where those to the left of it hold, or in a disjunction where they do not."""
    match predicate:
        case NonNegative() | Zero() | NonZero():
            left, _, right = sides(predicate)
            yield from _sum(place, left)
            yield from _sum(place, right)
        case All(parts):
            for part in parts:
                yield from _in_predicate(place, part)
                place = place.under(part)
        case Any(parts):
            for part in parts:
                yield from _in_predicate(place, part)
                place = place.under(negation(part))
        case _:
            assert_never(predicate)


# -- expressions ------------------------------------------------------------------------------------------------------


def _whole(place: Place, e: Index) -> Operands:
    yield from _sum(place, terms_of(e))


def _sum(place: Place, terms: Terms) -> Operands:
    """The sum, after the operands in it."""
    yield from _inside(place, terms)
    if len(terms) > 1 or any(len(factors) != 1 or value != 1 for factors, value in terms.items() if factors):
        yield Operand(place, terms)


def _inside(place: Place, terms: Terms) -> Operands:
    """The operands in a sum that may wrap itself."""
    for factor in dict.fromkeys(factor for factors in terms for factor in factors):
        yield from _in_factor(place, factor)


def _in_factor(place: Place, factor: Factor) -> Operands:
    match factor:
        case Size() | Var() | Bound():
            return
        case Quotient(numerator, denominator) | Remainder(numerator, denominator):
            yield from _whole(place, numerator)
            yield from _whole(place, denominator)
        case Extremum(_, choices):
            for choice in choices:
                yield from _whole(place, choice)
        case Read(array, indices):
            for part in (*indices, *array.shape):
                yield from _inside(place, terms_of(part))
        case _:
            assert_never(factor)
