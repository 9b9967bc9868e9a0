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

from atl.core.index import Bound, Extremum, Index, Quotient, Read, Size, Var, Xor
from lowering.c.values.index import Factor, Remainder, Terms, sides, terms_of
from lowering.nest.index_expressions import Compared, Computed, IndexUse, Inside, index_expressions
from lowering.nest.loopnest import LoopNest


@dataclass(frozen=True, slots=True)
class Operand:
    """A sum that C computes at a place, and whose value must fit."""

    inside: Inside
    terms: Terms


Operands: TypeAlias = Iterator[Operand]


def operands(nest: LoopNest) -> Operands:
    """All of them, but those that are nothing but a size, a variable or an element: these fit as they are."""
    for occurrence in index_expressions(nest):
        match occurrence:
            case Computed(inside, use, expression):
                yield from _of(inside, use, expression)
            case Compared(inside, condition):
                left, _, right = sides(condition)
                yield from _sum(inside, left)
                yield from _sum(inside, right)
            case _:
                assert_never(occurrence)


def _of(inside: Inside, use: IndexUse, e: Index) -> Operands:
    match use:
        case IndexUse.COUNT:
            yield from _whole(inside, e)
        case IndexUse.ADDRESS | IndexUse.SCALAR:
            yield from _within(inside, terms_of(e))
        case _:
            assert_never(use)


def _whole(inside: Inside, e: Index) -> Operands:
    yield from _sum(inside, terms_of(e))


def _sum(inside: Inside, terms: Terms) -> Operands:
    """The sum, after the operands in it."""
    yield from _within(inside, terms)
    if len(terms) > 1 or any(len(factors) != 1 or value != 1 for factors, value in terms.items() if factors):
        yield Operand(inside, terms)


def _within(inside: Inside, terms: Terms) -> Operands:
    """The operands in a sum that may wrap itself."""
    for factor in dict.fromkeys(factor for factors in terms for factor in factors):
        yield from _in_factor(inside, factor)


def _in_factor(inside: Inside, factor: Factor) -> Operands:
    match factor:
        case Size() | Var() | Bound():
            return
        case Quotient(numerator, denominator) | Remainder(numerator, denominator):
            yield from _whole(inside, numerator)
            yield from _whole(inside, denominator)
        case Extremum(_, parts) | Xor(parts):
            for part in parts:
                yield from _whole(inside, part)
        case Read(array, indices):
            for part in (*indices, *array.shape):
                yield from _within(inside, terms_of(part))
        case _:
            assert_never(factor)
