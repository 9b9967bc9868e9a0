"""Storage on the heap, of a size that never wraps round to a small number."""

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

MUCH: Final = 2**40
"""A larger number of elements is not multiplied by their size without a check."""
SMALL: Final = 64
"""A linear expression whose coefficients sum up to this at most cannot overflow: sizes are at most 2^56."""


def allocation(scope: TextScope, statement: Allocate, size: str) -> str:
    """The call that gets storage, aligned; where products in the capacity overflow, it asks for more than there is.

    `size` is that of an element. The capacity is written as the product of the extents, where it is that.
    """
    texts, number = _capacity(scope, statement)
    room = f"{number} * {size}" if number != 1 else size
    if texts:
        room = f"saturating_product({_nested('saturating_product', texts).text}, {room})"
    return f"aligned_{'zeros' if statement.zeroed else 'storage'}({room})"


def _capacity(scope: TextScope, statement: Allocate) -> tuple[list[Text], int]:
    """The factors of the capacity that are known only in a call, and the product of the others."""
    factors = list(statement.buffer.allocated_extents)
    if elements(statement.buffer.allocated_extents) != statement.capacity:
        factors = _factors(statement.capacity)
    number = prod(factor.constant for factor in factors if factor.constant is not None)
    texts = [_saturating(scope, factor) for factor in factors if factor.constant is None]
    if number > MUCH and texts:
        return [*texts, Text(str(number))], 1
    return texts, number


def _factors(e: Index) -> list[Index]:
    """What all terms have in common, and what is left: n, m - 1 and 4 for 4 * n * m - 4 * n."""
    if not e.terms:
        return [e]
    common: Counter[AnyAtom] = reduce(and_, (Counter(monomial) for monomial, _ in e.terms))
    number = gcd(*(value for _, value in e.terms))
    rest: dict[Monomial, int] = {}
    for monomial, value in e.terms:
        rest[tuple((Counter(monomial) - common).elements())] = value // number
    return [*map(index, common.elements()), polynomial(rest), constant(number)]


def _saturating(scope: TextScope, e: Index) -> Text:
    """An expression that is not negative; where its terms overflow, a very large number."""
    linear = all(len(monomial) <= 1 for monomial, _ in e.terms)
    if linear and sum(abs(value) for monomial, value in e.terms if monomial) <= SMALL:
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
