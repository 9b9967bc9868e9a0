"""Index overflow: the integers that a kernel must compute exactly in 64 bits.

Sums and products may wrap, since they are exact modulo 2^64 and so correct if the final value fits. The final value
must fit where it is compared, divided, used as a divisor, as an operand of a minimum or maximum, as a loop bound, or as
the extent of a buffer. Addresses fit because their tensor is in memory. Indices converted to scalars wrap by
definition.
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
    """Yield all sums that must fit, except single sizes, variables and elements, which always fit."""
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
    """Yield the operands within a sum, then the sum."""
    yield from _within(inside, terms)
    if len(terms) > 1 or any(len(factors) != 1 or value != 1 for factors, value in terms.items() if factors):
        yield Operand(inside, terms)


def _within(inside: Inside, terms: Terms) -> Operands:
    """Yield the operands within a sum that may wrap."""
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
