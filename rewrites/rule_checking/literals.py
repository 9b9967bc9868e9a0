"""Literals of a rule, and numbers at which a rule with literals may be false: at them, around and between them.

`where(2 < a, x, y) = where(3 <= a, x, y)` is false between 2 and 3 only. So elements, indices and extents come from
the literals, from numbers near them, and from operations on literals and earlier numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from math import floor
from typing import Final

from atl.core.dtypes import INTEGERS, is_integer, range_of
from atl.core.index import Index, atoms, parts_of
from atl.core.predicate import expressions
from atl.core.terms import Constant, Value
from atl.core.traversal import indices_in, subterms
from rewrites.rule_checking.choices import Choices, choose
from rewrites.rule_statement import RuleStatement

_SIMPLE: Final = (Fraction(0), Fraction(1))
NEAR: Final = (Fraction(1), Fraction(-1), Fraction(1, 1024), Fraction(-1, 1024))
"""Differences between a literal and numbers just around it."""
_LIMITS: Final = tuple(limit + more for of in INTEGERS for limit in range_of(of) for more in (-1, 0, 1))
_LARGE: Final = (*_LIMITS, 10**6, (1 << 24) + 1, (1 << 53) + 1)
"""Indices that wrap, or that float types do not represent."""


@lru_cache(maxsize=256)
def literals(stated: RuleStatement) -> tuple[Fraction, ...]:
    """Return the numbers in an equation and its premises, except 0, 1 and -1: those of elements and of indices."""
    parts = [part for side in (stated.lhs, stated.rhs) for part in subterms(side)]
    found = {Fraction(part.value) for part in parts if isinstance(part, Constant)}
    # An index n that is compared with 9 is written n - 9 = 0.
    nested = indices_of(stated)
    numbers = [Fraction(value) for within in nested for _, value in within.terms]
    numbers += [Fraction(within.offset // value) for within in nested for _, value in within.terms]
    found.update(sign * value for value in numbers for sign in (1, -1))
    return tuple(sorted(value for value in found if abs(value) not in _SIMPLE))


def indices_of(stated: RuleStatement) -> list[Index]:
    """Return the index expressions in an equation and its premises, each followed by its parts."""
    every = [each for side in (stated.lhs, stated.rhs) for part in subterms(side) for each in indices_in(part)]
    every += [each for premise in stated.premises for each in expressions(premise)]
    return [within for each in every for within in _nested(each)]


@lru_cache(maxsize=256)
def large_indices(stated: RuleStatement) -> tuple[int, ...]:
    """Return large indices for a statement in which an index becomes an element; none for any other."""
    parts = (part for side in (stated.lhs, stated.rhs) for part in subterms(side))
    return _LARGE if any(isinstance(part, Value) and part.index.constant is None for part in parts) else ()


def _nested(expression: Index) -> Iterator[Index]:
    yield expression
    for atom in atoms(expression):
        yield from parts_of(atom)


def near(choices: Choices, known: Sequence[Fraction], earlier: Sequence[Fraction] = ()) -> Fraction:
    """Draw a literal, a number near it or between two literals, or the result of operations on such numbers."""
    at = choices.integer(0, len(known) - 1)
    match choices.integer(0, 5):
        case 0 | 1:
            return known[at]
        case 2:
            return known[at] + choose(choices, NEAR)
        case 3:
            return (known[at] + known[at - 1]) / 2
        case _:
            return _combined(choices, known[at], choose(choices, (*known, *_SIMPLE, *earlier)))


def _combined(choices: Choices, x: Fraction, y: Fraction) -> Fraction:
    match choices.integer(0, 4):
        case 0:
            return x + y
        case 1:
            return x - y
        case 2:
            return y - x
        case 3 if y:
            return x / y
        case _:
            return x * y


def as_element(value: Fraction, dtype: str) -> Fraction:
    """Return a number as an element of a type: an integer type rounds it down and wraps."""
    if not is_integer(dtype):
        return value
    low, high = range_of(dtype)
    return Fraction((floor(value) - low) % (high - low + 1) + low)
