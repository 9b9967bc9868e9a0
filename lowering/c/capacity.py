"""Heap allocations whose size cannot wrap around to a small number."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from math import gcd, prod
from operator import and_
from typing import Final

from atl.core.index import AnyAtom, Index, Monomial, constant, index, polynomial
from lowering.c.text import PRODUCT, SUM, Text
from lowering.c.values.index import index_text
from lowering.nest.loopnest import Allocate, elements
from lowering.nest.text_scope import TextScope

MAX_UNCHECKED: Final = 2**40
"""Largest constant number of elements that is multiplied by their size without an overflow check."""
MAX_COEFFICIENTS: Final = 64
"""Linear expressions with this sum of coefficients cannot overflow, since sizes are at most 2^56."""


def allocation(scope: TextScope, statement: Allocate, size: str) -> str:
    """Return the call that allocates an aligned buffer; it requests too much, and fails, if the capacity overflows.

    `size` is the size of an element. The capacity is written as the product of the extents if it is equal to it.
    """
    texts, number = _capacity(scope, statement)
    total = f"{number} * {size}" if number != 1 else size
    if texts:
        total = f"saturating_product({_nested('saturating_product', texts).text}, {total})"
    return f"aligned_{'zeros' if statement.zeroed else 'storage'}({total})"


def _capacity(scope: TextScope, statement: Allocate) -> tuple[list[Text], int]:
    """Return the factors of the capacity that depend on sizes, and the product of the constant ones."""
    factors = list(statement.buffer.room)
    if elements(statement.buffer.room) != statement.capacity:
        factors = _factors(statement.capacity)
    number = prod(factor.constant for factor in factors if factor.constant is not None)
    texts = [_saturating(scope, factor) for factor in factors if factor.constant is None]
    if number > MAX_UNCHECKED and texts:
        return [*texts, Text(str(number))], 1
    return texts, number


def _factors(e: Index) -> list[Index]:
    """Factor out what all terms have in common: 4 * n * m - 4 * n gives n, m - 1 and 4."""
    if not e.terms:
        return [e]
    common: Counter[AnyAtom] = reduce(and_, (Counter(monomial) for monomial, _ in e.terms))
    number = gcd(*(value for _, value in e.terms))
    rest: dict[Monomial, int] = {}
    for monomial, value in e.terms:
        rest[tuple((Counter(monomial) - common).elements())] = value // number
    return [*map(index, common.elements()), polynomial(rest), constant(number)]


def _saturating(scope: TextScope, e: Index) -> Text:
    """Print a nonnegative expression that becomes very large if its terms overflow."""
    linear = all(len(monomial) <= 1 for monomial, _ in e.terms)
    if linear and sum(abs(value) for monomial, value in e.terms if monomial) <= MAX_COEFFICIENTS:
        return index_text(scope, e)
    added: list[Text] = []
    for monomial, value in e.terms:
        if value > 0:
            factors = [index_text(scope, index(atom)) for atom in monomial]
            if value > 1 or not factors:
                factors.append(Text(str(value)))
            added.append(_nested("saturating_product", factors))
    total = _nested("saturating_sum", added or [Text("0")])
    taken = polynomial({monomial: -value for monomial, value in e.terms if value < 0})
    return Text(f"{total.text} - {index_text(scope, taken).at(PRODUCT)}", SUM) if taken.terms else total


def _nested(function: str, texts: list[Text]) -> Text:
    return reduce(lambda inner, text: Text(f"{function}({inner.text}, {text.text})"), texts)
