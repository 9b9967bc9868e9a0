"""Index expressions and predicates in C.

Polynomials are factored by Horner's rule where that makes them shorter, and a - b * (a // b) is written as a % b.
C's own division is used where the nest guarantees a nonnegative numerator; elsewhere a helper rounds down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from math import gcd
from typing import Final, TypeAlias, assert_never

from atl.core import index as ix
from atl.core.dtypes import ELEMENTS
from atl.core.predicate import All, Any, NonNegative, NonZero, Predicate, Zero, negation
from atl.core.program import AtLeast, Below, bounds_of, is_bool_array
from atl.core.reshape_definitions import Pairs
from lowering.c.text import AND, COMPARISON, EQUALITY, OR, PRIMARY, PRODUCT, SUM, UNARY, Text
from lowering.nest.loopnest import elements, flat
from lowering.nest.text import TextScope

NARROW: Final = tuple(name for name in ELEMENTS if name != "int64")
"""Types whose elements are widened before arithmetic."""
SLACK: Final = 4
MAX_COMPARED: Final = 10
"""Polynomials with more terms are factored in one way, without comparing alternatives."""


def index_text(scope: TextScope, expression: ix.Index) -> Text:
    """Print an index expression, factored if that is shorter."""
    return _sum(_parts(scope, terms_of(expression)))


def address_text(scope: TextScope, pairs: Pairs) -> Text:
    """Print the flat address of an index structure: nested like its pairs, unless a polynomial is clearly shorter.

    The address of ((i, n // 64), (k, 64)) stays nested; that of ((i // 64, n // 64), (i % 64, 64)) becomes `i`.
    """
    whole = index_text(scope, flat(pairs))
    return _unless_clearly_shorter(_nested(scope, pairs), whole) if len(pairs) > 1 else whole


def count_text(scope: TextScope, count: ix.Index, extents: tuple[ix.Index, ...]) -> Text:
    """Print a number of elements: as the product of the extents, unless the polynomial is clearly shorter."""
    whole = index_text(scope, count)
    if len(extents) < 2 or elements(extents) != count:
        return whole
    factors = [index_text(scope, extent) for extent in extents]
    if sum(factor.narrow for factor in factors) > 1:
        return whole
    return _unless_clearly_shorter(Text(" * ".join(factor.at(PRODUCT + 1) for factor in factors), PRODUCT), whole)


def _unless_clearly_shorter(structured: Text, whole: Text) -> Text:
    return structured if len(structured.text) <= len(whole.text) + SLACK else whole


def _nested(scope: TextScope, pairs: Pairs) -> Text:
    parts: list[Part] = []
    for position, extent in pairs:
        if parts and extent != ix.ONE:
            if len(parts) == 1 and parts[0].text.text == "1" and not parts[0].negative:
                parts = _parts(scope, terms_of(extent))  # m + j, not 1 * m + j
            else:
                parts = [_times(parts, index_text(scope, extent), after=True)]
        parts.extend(_parts(scope, terms_of(position)))
    return _sum(parts)


# -- polynomials ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Remainder:
    """numerator % denominator, rounded as in Python."""

    numerator: ix.Index
    denominator: ix.Index


Factor: TypeAlias = ix.AnyAtom | Remainder
Terms: TypeAlias = dict[tuple[Factor, ...], int]


@dataclass(frozen=True, slots=True)
class Part:
    """A term of a sum, without its sign."""

    text: Text
    negative: bool = False


def _parts(scope: TextScope, terms: Mapping[tuple[Factor, ...], int]) -> list[Part]:
    """Return the terms in reading order, with common factors extracted where that is shorter."""
    ordered = sorted(terms.items(), key=lambda term: _reading_order(term[0]))
    best = [Part(_product(scope, abs(value), factors), value < 0) for factors, value in ordered]
    if len(terms) < 2:
        return best
    shared = _shared_factors(terms)
    for factor in shared if len(terms) <= MAX_COMPARED else shared[:1]:
        inside: Terms = {_without(factors, factor): value for factors, value in terms.items() if factor in factors}
        outside: Terms = {factors: value for factors, value in terms.items() if factor not in factors}
        multiple = _times(_parts(scope, inside), _factor(scope, factor), after=True)
        best = _shorter([multiple, *_parts(scope, outside)], best)
    common = gcd(*terms.values())
    if common > 1:
        inside = {factors: value // common for factors, value in terms.items()}
        best = _shorter([_times(_parts(scope, inside), _literal(common), after=False)], best)
    return best


def _times(parts: list[Part], factor: Text, *, after: bool) -> Part:
    """Multiply a sum by a factor; a minus sign common to all terms is moved outside."""
    negative = all(part.negative for part in parts)
    inner = _sum([replace(part, negative=False) for part in parts] if negative else parts)
    left, right = (inner, factor) if after else (factor, inner)
    if left.narrow and right.narrow:
        left = left.widened()
    return Part(Text(f"{left.at(PRODUCT)} * {right.at(PRODUCT + 1)}", PRODUCT), negative)


def _shorter(new: list[Part], old: list[Part]) -> list[Part]:
    return new if len(_sum(new).text) < len(_sum(old).text) else old


def _sum(parts: list[Part]) -> Text:
    """Join terms with their signs, beginning with a positive term if there is one."""
    if not parts:
        return _literal(0)
    first = next((k for k, part in enumerate(parts) if not part.negative), 0)
    ordered = [parts[first], *parts[:first], *parts[first + 1 :]]
    narrow = all(part.text.narrow for part in parts)
    lead = ordered[0].text
    if len(parts) == 1 and not ordered[0].negative:
        return lead
    if narrow and not lead.text.isdigit():
        lead, narrow = lead.widened(), False
    elif narrow and len(parts) > 1:
        ordered[1], narrow = replace(ordered[1], text=ordered[1].text.widened()), False
    text = f"-{lead.at(PRODUCT)}" if ordered[0].negative else lead.at(PRODUCT)
    for part in ordered[1:]:
        text += f" {'-' if part.negative else '+'} {part.text.at(PRODUCT)}"
    return Text(text, SUM, narrow)


def _product(scope: TextScope, coefficient: int, factors: tuple[Factor, ...]) -> Text:
    texts = [_factor(scope, factor) for factor in sorted(factors, key=_reading_order_of_factor)]
    if coefficient != 1 or not texts:
        texts.insert(0, _literal(coefficient))
    if len(texts) == 1:
        return texts[0]
    if all(text.narrow for text in texts):
        texts[-1] = texts[-1].widened()
    return Text(" * ".join(text.at(PRODUCT + 1) for text in texts), PRODUCT)


def _literal(value: int) -> Text:
    return Text(str(value), narrow=value < 2**31)


def _reading_order(factors: tuple[Factor, ...]) -> tuple[object, ...]:
    return (-len(factors), *sorted(map(_reading_order_of_factor, factors)))


def _reading_order_of_factor(factor: Factor) -> tuple[object, ...]:
    """Order loop variables, and expressions of them, before sizes: `i * n + j`."""
    match factor:
        case ix.Size():
            return (1, factor.order)
        case Remainder(numerator, denominator):
            return (0, (3, numerator.order, denominator.order))
        case ix.Var() | ix.Bound() | ix.Quotient() | ix.Extremum() | ix.Xor() | ix.Read():
            return (0, factor.order)
    assert_never(factor)


def _shared_factors(terms: Mapping[tuple[Factor, ...], int]) -> list[Factor]:
    """Return up to three factors shared by two or more terms, the most frequent first."""
    count: dict[Factor, int] = {}
    for factors in terms:
        for factor in dict.fromkeys(factors):
            count[factor] = count.get(factor, 0) + 1
    shared = [factor for factor, times in count.items() if times > 1]
    return sorted(shared, key=lambda factor: (-count[factor], _reading_order_of_factor(factor)))[:3]


def _without(factors: tuple[Factor, ...], factor: Factor) -> tuple[Factor, ...]:
    at = factors.index(factor)
    return (*factors[:at], *factors[at + 1 :])


# -- remainders -------------------------------------------------------------------------------------------------------


def terms_of(expression: ix.Index) -> Terms:
    """Return the terms of a sum, with c * a - c * b * (a // b) written as c * (a % b) where that has fewer terms."""
    found: list[tuple[ix.Index, Remainder]] = []
    quotients = [atom for factors, _ in expression.terms for atom in factors if isinstance(atom, ix.Quotient)]
    for quotient in dict.fromkeys(quotients):
        a, b = quotient.numerator, quotient.denominator
        multiplier = _multiplier(expression, quotient)
        if multiplier is None:
            continue
        rest = expression - multiplier * (a - b * ix.index(quotient))
        if len(rest.terms) + len(multiplier.terms) < len(expression.terms):
            expression = rest
            found.append((multiplier, Remainder(a, b)))
    terms: Terms = dict(expression.terms)
    for multiplier, remainder in found:
        for factors, value in multiplier.terms:
            terms[*factors, remainder] = value
    return terms


def _multiplier(expression: ix.Index, quotient: ix.Quotient) -> ix.Index | None:
    """Return c such that the terms of the expression with q = a // b are -c * b * q, or None."""
    gathered: dict[tuple[ix.AnyAtom, ...], int] = {}
    for factors, value in expression.terms:
        if quotient in factors:
            left = list(factors)
            left.remove(quotient)
            gathered[tuple(left)] = -value
    return _exact_quotient(ix.polynomial(gathered), quotient.denominator)


def _exact_quotient(a: ix.Index, b: ix.Index) -> ix.Index | None:
    """Return a / b if it is a polynomial, else None."""
    if not b.terms:
        return None  # in a loop that never runs, over an empty tensor
    out, rest = ix.ZERO, a
    lead, divisor = b.terms[0]
    while rest.terms:
        factors, value = rest.terms[0]
        left = list(factors)
        for atom in lead:
            if atom not in left:
                return None
            left.remove(atom)
        if value % divisor:
            return None
        step = ix.polynomial({tuple(left): value // divisor})
        shorter = rest - step * b
        if len(shorter.terms) >= len(rest.terms):
            return None
        out, rest = out + step, shorter
    return out


# -- atoms ------------------------------------------------------------------------------------------------------------


def _factor(scope: TextScope, factor: Factor) -> Text:
    match factor:
        case ix.Size() | ix.Var():
            return Text(scope.name(factor))
        case ix.Quotient(a, b):
            return _division(scope, a, b, "/", "floor_div")
        case Remainder(a, b):
            return _division(scope, a, b, "%", "floor_mod")
        case ix.Extremum(kind, choices):
            texts = [index_text(scope, choice).text for choice in choices]
            called = scope.function(f"{kind}_index") if scope.indices else f"{kind}_int64"
            return Text(reduce(lambda inner, outer: f"{called}({outer}, {inner})", reversed(texts)))
        case ix.Xor(parts):
            operands = [index_text(scope, part).widened() for part in parts]
            return Text(f"({' ^ '.join(operand.at(PRODUCT) for operand in operands)})")
        case ix.Read(array, indices):
            name = scope.name(array.name)
            if not indices:
                return Text(name, PRIMARY, array.dtype in NARROW)
            address = address_text(scope, tuple(zip(indices, array.shape, strict=True)))
            return Text(f"{name}[{address.text}]", PRIMARY, array.dtype in NARROW)
        case ix.Bound():
            raise AssertionError("a loop nest has no bound indices")
    assert_never(factor)


def _division(scope: TextScope, a: ix.Index, b: ix.Index, operator: str, helper: str) -> Text:
    above, below = index_text(scope, a), index_text(scope, b)
    if scope.is_nonnegative(a):
        narrow = above.narrow and below.narrow
        return Text(f"{above.at(PRODUCT)} {operator} {below.at(PRODUCT + 1)}", PRODUCT, narrow)
    return Text(f"{scope.function(helper)}({above.text}, {below.text})")


# -- predicates -------------------------------------------------------------------------------------------------------


def predicate_text(scope: TextScope, predicate: Predicate) -> Text:
    """Print a predicate. Each part is tested only if the parts to its left allow it."""
    match predicate:
        case NonNegative(expression) if (element := _truth(expression)) is not None:
            return index_text(scope, element)
        case NonNegative(expression) if (element := _truth(-expression - 1)) is not None:
            return Text(f"!{index_text(scope, element).at(UNARY)}", UNARY)
        case NonNegative() | Zero() | NonZero():
            return _comparison(scope, predicate)
        case All(parts):
            texts = []
            for part in parts:
                texts.append(predicate_text(scope, part).at(AND + 1))
                scope = scope.under(part)
            return Text(" && ".join(texts) or "1", AND)
        case Any(parts):
            texts = []
            for part in parts:
                texts.append(predicate_text(scope, part).at(AND + 1))
                scope = scope.under(negation(part))
            return Text(" || ".join(texts) or "0", OR)
    assert_never(predicate)


def _truth(expression: ix.Index) -> ix.Index | None:
    """Return the Boolean element to which the expression's nonnegativity is equivalent, or None."""
    element = expression + 1
    atom = element.atom
    return element if isinstance(atom, ix.Read) and is_bool_array(atom.array) else None


Sides: TypeAlias = tuple[Terms, str, Terms]
"""The left side of a comparison, its operator, and the right side."""


def sides(predicate: NonNegative | Zero | NonZero) -> Sides:
    """Return the two sides of a comparison, with each term on the side where its coefficient is positive.

    The same holds for the constant, with two exceptions: if that side is otherwise empty, or if it is an element that
    may be any 64-bit integer, to which nothing can be added without overflow.
    """
    terms = terms_of(predicate.expression)
    offset = terms.pop((), 0)
    positive: Terms = {factors: value for factors, value in terms.items() if value > 0}
    negative: Terms = {factors: -value for factors, value in terms.items() if value < 0}
    match predicate:
        case NonNegative():
            return _ordered(positive, negative, offset)
        case Zero():
            return _equated(positive, "==", negative, offset)
        case NonZero():
            return _equated(positive, "!=", negative, offset)
    assert_never(predicate)


def _ordered(larger: Terms, smaller: Terms, offset: int) -> Sides:
    """larger + offset >= smaller."""
    if not larger:
        return smaller, "<", {(): offset + 1}
    if not smaller:
        return {(): -offset}, "<=", larger
    if offset < 0:
        if _is_full(smaller):
            return smaller, "<", _with(larger, offset + 1)
        return _with(smaller, -offset - 1), "<", larger
    if _is_full(larger):
        return _with(smaller, -offset), "<=", larger
    return smaller, "<=", _with(larger, offset)


def _equated(left: Terms, sign: str, right: Terms, offset: int) -> Sides:
    """left + offset = right."""
    if not left:
        left, right, offset = right, left, -offset
    if not right:
        return left, sign, {(): -offset}
    if _is_full(left if offset > 0 else right):
        return _with(left, min(offset, 0)), sign, _with(right, min(-offset, 0))
    return _with(left, max(offset, 0)), sign, _with(right, max(-offset, 0))


def _is_full(terms: Terms) -> bool:
    """Return whether a side is a single element that may be any 64-bit integer."""
    if len(terms) != 1:
        return False
    ((factors, value),) = terms.items()
    return value == 1 and len(factors) == 1 and isinstance(factors[0], ix.Read) and not is_limited(factors[0].array)


def is_limited(array: ix.Array) -> bool:
    """Return whether elements are known to be smaller than 64 bits: bounded on both sides, or int32."""
    return array.dtype == "int32" or {type(fact) for fact in bounds_of(array)} == {AtLeast, Below}


def _with(terms: Terms, offset: int) -> Terms:
    return {**terms, (): offset} if offset else terms


def _comparison(scope: TextScope, predicate: NonNegative | Zero | NonZero) -> Text:
    left, sign, right = sides(predicate)
    first, second = (_sum(_parts(scope, side)).at(SUM) for side in (left, right))
    return Text(f"{first} {sign} {second}", COMPARISON if isinstance(predicate, NonNegative) else EQUALITY)
