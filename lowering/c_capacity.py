"""How many elements a buffer has, as a size_t that never wraps round to a small number."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from math import gcd, prod
from operator import and_
from typing import Final

from atl.index import AnyAtom, Index, Monomial, constant, index, polynomial
from lowering.c_index import index_text
from lowering.c_text import PRODUCT, SUM, Text
from lowering.loopnest import elements
from lowering.place import Place

SMALL: Final = 64
"""A linear expression whose coefficients sum up to this at most cannot overflow: sizes are at most 2^56."""


def capacity_text(place: Place, capacity: Index, extents: tuple[Index, ...]) -> Text:
    """The capacity; where products in it overflow, a number for which there is no memory.

    It is written as the product of the extents, where it is that.
    """
    capacity = place.simplify(capacity)
    factors = [place.simplify(extent) for extent in extents]
    if elements(tuple(factors)) != capacity:
        factors = _factors(capacity)
    number = prod(factor.constant for factor in factors if factor.constant is not None)
    texts = [_saturating(place, factor) for factor in factors if factor.constant is None]
    if number != 1 or not texts:
        texts.append(Text(str(number)))
    return _nested("saturating_product", texts)


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


def _saturating(place: Place, e: Index) -> Text:
    """An expression that is not negative; where its terms overflow, a very large number."""
    linear = all(len(monomial) <= 1 for monomial, _ in e.terms)
    if linear and sum(abs(value) for monomial, value in e.terms if monomial) <= SMALL:
        return index_text(place, e)
    added: list[Text] = []
    for monomial, value in e.terms:
        if value > 0:
            factors = [index_text(place, index(atom)) for atom in monomial]
            if value > 1 or not factors:
                factors.append(Text(str(value)))
            added.append(_nested("saturating_product", factors))
    total = _nested("saturating_sum", added or [Text("0")])
    taken = polynomial({monomial: -value for monomial, value in e.terms if value < 0})
    return Text(f"{total.text} - {index_text(place, taken).at(PRODUCT)}", SUM) if taken.terms else total


def _nested(function: str, texts: list[Text]) -> Text:
    return reduce(lambda inner, text: Text(f"{function}({inner.text}, {text.text})"), texts)
