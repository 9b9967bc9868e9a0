"""Index expressions and predicates, made smaller by what is known of their leaves.

Every step is an equation that holds under the facts; what only the deeper layers of the prover would see stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from math import gcd
from typing import Final, Literal, assert_never

from atl.index import (
    ONE,
    ZERO,
    AnyAtom,
    Bound,
    Extremum,
    Index,
    Monomial,
    Quotient,
    Read,
    Size,
    Var,
    constant,
    extremum,
    floordiv,
    index,
    linear,
    polynomial,
    read,
)
from atl.predicate import (
    FALSE,
    TRUE,
    All,
    Any,
    NonNegative,
    NonZero,
    Predicate,
    Zero,
    at_most,
    conjunction,
    disjunction,
    less,
    map_indices,
    negation,
    within,
)
from atl.prove.answer import Proved
from atl.prove.facts import Facts
from atl.prove.prover import prove

MAX_STEPS: Final = 24
"""Steps of one polynomial division."""


def simplify(facts: Facts, expression: Index) -> Index:
    """An expression equal to the given one wherever the facts hold.

    Quotients: 0 <= a < b gives a // b = 0; multiples of the divisor and factors common to both sides leave the
    quotient; (a // b) // c = a // (b * c). All of it for divisors proved positive only, constant or symbolic. Of a
    minimum or maximum the choices that another one beats are dropped.
    """
    if not _compound(expression):
        return expression
    return _simplified(_Cache(facts, {}), expression)


def simplify_predicate(facts: Facts, predicate: Predicate) -> Predicate:
    """A predicate equivalent to the given one wherever the facts hold.

    What the facts decide is dropped. A part of a conjunction counts as a fact for the later parts, and its negation
    for the later parts of a disjunction: both are tested from left to right.
    """
    match predicate:
        case All(parts):
            kept: list[Predicate] = []
            for part in parts:
                simpler = simplify_predicate(facts, part)
                if simpler == FALSE:
                    return FALSE
                kept.append(simpler)
                facts = facts.assume(simpler)
            return conjunction(kept)
        case Any(parts):
            kept = []
            for part in parts:
                simpler = simplify_predicate(facts, part)
                if simpler == TRUE:
                    return TRUE
                kept.append(simpler)
                facts = facts.assume(negation(simpler))
            return disjunction(kept)
        case NonNegative() | Zero() | NonZero():
            simpler = map_indices(predicate, lambda expression: simplify(facts, expression))
            if holds(facts, simpler):
                return TRUE
            return FALSE if holds(facts, negation(simpler)) else simpler
    assert_never(predicate)


def holds(facts: Facts, goal: Predicate) -> bool:
    """Whether the quick layers of the prover see that the goal follows."""
    return isinstance(prove(facts, goal, thorough=False), Proved)


# -- expressions ------------------------------------------------------------------------------------------------------


class _Cache:
    """The facts, and the atoms simplified under them so far."""

    __slots__ = ("done", "facts")

    def __init__(self, facts: Facts, done: dict[AnyAtom, Index]) -> None:
        self.facts = facts
        self.done = done


def _compound(expression: Index) -> bool:
    return any(isinstance(atom, Quotient | Extremum | Read) for monomial, _ in expression.terms for atom in monomial)


def _simplified(cache: _Cache, expression: Index) -> Index:
    if not _compound(expression):
        return expression
    total = []
    for monomial, coefficient in expression.terms:
        product = ONE
        for atom in monomial:
            product = product * _simplified_atom(cache, atom)
        total.append((coefficient, product))
    return linear(total)


def _simplified_atom(cache: _Cache, atom: AnyAtom) -> Index:
    found = cache.done.get(atom)
    if found is None:
        found = cache.done[atom] = _new_atom(cache, atom)
    return found


def _new_atom(cache: _Cache, atom: AnyAtom) -> Index:
    match atom:
        case Size() | Bound() | Var():
            return index(atom)
        case Quotient(numerator, denominator):
            return _quotient(cache, _simplified(cache, numerator), _simplified(cache, denominator))
        case Extremum(kind, choices):
            return _extremum(cache.facts, kind, [_simplified(cache, choice) for choice in choices])
        case Read(array, indices):
            return read(array, tuple(_simplified(cache, position) for position in indices))
    assert_never(atom)


def _extremum(facts: Facts, kind: Literal["min", "max"], choices: list[Index]) -> Index:
    """Drops each choice that some other one is always as good as."""
    kept = list(choices)
    for choice in choices:
        others = [other for other in kept if other is not choice]
        for other in others:
            beaten = at_most(other, choice) if kind == "min" else at_most(choice, other)
            if holds(facts, beaten):
                kept = others
                break
    return extremum(kind, *kept)


# -- quotients --------------------------------------------------------------------------------------------------------


def _quotient(cache: _Cache, a: Index, b: Index) -> Index:
    """a // b, in the first of these forms that applies."""
    facts = cache.facts
    if b.constant is None and not holds(facts, less(ZERO, b)):
        return floordiv(a, b)
    out, rest = _divided(a, b)
    if out.terms:
        return out + _quotient(cache, rest, b)
    if (value := _decided(facts, a, b)) is not None:
        return constant(value)
    inner = a.atom
    if isinstance(inner, Quotient) and holds(facts, less(ZERO, inner.denominator)):
        return _quotient(cache, inner.numerator, inner.denominator * b)
    for factor, whole, remainder in _shared_factors(a, b):
        if holds(facts, less(ZERO, factor)) and holds(facts, within(ZERO, remainder, factor)):
            return _quotient(cache, whole, _divided(b, factor)[0])
    return floordiv(a, b)


def _decided(facts: Facts, a: Index, b: Index) -> int | None:
    """The value of a // b, if the facts show it to be 0, -1 or 1."""
    if holds(facts, at_most(ZERO, a)):
        if holds(facts, less(a, b)):
            return 0
        return 1 if holds(facts, at_most(b, a)) and holds(facts, less(a, b * 2)) else None
    return -1 if holds(facts, less(a, ZERO)) and holds(facts, at_most(-b, a)) else None


def _divided(a: Index, b: Index) -> tuple[Index, Index]:
    """a = out * b + rest, by polynomial division; a divisor of several terms only where that shortens the rest."""
    divisor = b.constant
    if divisor is not None:
        whole = {monomial: value // divisor for monomial, value in a.terms if not monomial or value % divisor == 0}
        out = polynomial(whole)
        return out, linear(((1, a), (-divisor, out)))
    lead, coefficient = b.terms[0]
    out, rest = ZERO, a
    for _ in range(MAX_STEPS):
        step = _leading_multiple(rest, lead, coefficient)
        if step is None:
            break
        shorter = rest - step * b
        if len(shorter.terms) >= len(rest.terms):
            break
        out, rest = out + step, shorter
    return out, rest


def _leading_multiple(a: Index, lead: Monomial, coefficient: int) -> Index | None:
    """The first term of `a` that the leading term divides, over it."""
    for monomial, value in a.terms:
        left = list(monomial)
        for atom in lead:
            if atom not in left:
                break
            left.remove(atom)
        else:
            if value % coefficient == 0:
                return polynomial({tuple(left): value // coefficient})
    return None


def _shared_factors(a: Index, b: Index) -> Iterable[tuple[Index, Index, Index]]:
    """Factors f of b with a = f * whole + rest: then a // b = whole // (b / f), where 0 <= rest < f. Largest first."""
    divisor = b.constant
    if divisor is not None:
        sizes = {gcd(divisor, value) for monomial, value in a.terms if monomial}
        for size in sorted(sizes, reverse=True):
            if 1 < size < divisor:
                factor = constant(size)
                yield (factor, *_divided(a, factor))
        return
    if len(b.terms) != 1:
        return
    ((monomial, _),) = b.terms
    seen: dict[Monomial, None] = {}
    for degree in range(len(monomial), 0, -1):
        seen.update(dict.fromkeys(combinations(monomial, degree)))
    for part in seen:
        factor = polynomial({part: 1})
        whole, rest = _divided(a, factor)
        if whole.terms and factor != b:
            yield factor, whole, rest


def exact_multiple(a: Index, b: Index) -> Index | None:
    """a / b, where polynomial division leaves no rest."""
    out, rest = _divided(a, b)
    return None if rest.terms else out
