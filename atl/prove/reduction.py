"""Simplification of index expressions with a predicate `can_prove` that answers simple queries.

Each step is an equation that holds if the answers of `can_prove` are correct.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations
from math import gcd
from typing import Final, Literal, TypeAlias, assert_never

from atl.core import index as ix
from atl.core.predicate import Predicate, at_most, less, within

MAX_STEPS: Final = 24
"""Maximum number of steps of a polynomial division."""

CanProve: TypeAlias = Callable[[Predicate], bool]
"""A function that returns True for predicates that it can prove."""


def reduced(expression: ix.Index, can_prove: CanProve) -> ix.Index:
    """Return an equal expression with quotients, minima and maxima simplified or evaluated."""
    return _simplified(_Cache(can_prove, {}), expression)


class _Cache:
    """The prover function and the atoms simplified so far."""

    __slots__ = ("can_prove", "done")

    def __init__(self, can_prove: CanProve, done: dict[ix.AnyAtom, ix.Index]) -> None:
        self.can_prove = can_prove
        self.done = done


def _compound(expression: ix.Index) -> bool:
    return any(
        isinstance(atom, ix.Quotient | ix.Extremum | ix.Xor | ix.Read)
        for monomial, _ in expression.terms
        for atom in monomial
    )


def _simplified(cache: _Cache, expression: ix.Index) -> ix.Index:
    if not _compound(expression):
        return expression
    total = []
    for monomial, coefficient in expression.terms:
        product = ix.ONE
        for atom in monomial:
            product = product * _simplified_atom(cache, atom)
        total.append((coefficient, product))
    return ix.linear(total)


def _simplified_atom(cache: _Cache, atom: ix.AnyAtom) -> ix.Index:
    found = cache.done.get(atom)
    if found is None:
        found = cache.done[atom] = _new_atom(cache, atom)
    return found


def _new_atom(cache: _Cache, atom: ix.AnyAtom) -> ix.Index:
    match atom:
        case ix.Size() | ix.Bound() | ix.Var():
            return ix.index(atom)
        case ix.Quotient(numerator, denominator):
            return _quotient(cache, _simplified(cache, numerator), _simplified(cache, denominator))
        case ix.Extremum(kind, choices):
            return _extremum(cache.can_prove, kind, [_simplified(cache, choice) for choice in choices])
        case ix.Xor(parts):
            return ix.exclusive_or(*(_simplified(cache, part) for part in parts))
        case ix.Read(array, indices):
            return ix.read(array, tuple(_simplified(cache, position) for position in indices))
    assert_never(atom)


def _extremum(can_prove: CanProve, kind: Literal["min", "max"], choices: list[ix.Index]) -> ix.Index:
    """Drop each choice that is never better than another one."""
    kept = list(choices)
    for choice in choices:
        others = [other for other in kept if other is not choice]
        for other in others:
            dominated = at_most(other, choice) if kind == "min" else at_most(choice, other)
            if can_prove(dominated):
                kept = others
                break
    return ix.extremum(kind, *kept)


# -- quotients --------------------------------------------------------------------------------------------------------


def _quotient(cache: _Cache, a: ix.Index, b: ix.Index) -> ix.Index:
    """Simplify a // b, with the first form that applies."""
    can_prove = cache.can_prove
    if b.constant is not None and b.constant <= 0:
        return ix.index(ix.Quotient(a, b))  # dead code: the divisor is not positive
    if b.constant is None and not can_prove(less(ix.ZERO, b)):
        return ix.floordiv(a, b)
    out, rest = _divided(a, b)
    if out.terms:
        reduced_rest = _quotient(cache, rest, b)
        if reduced_rest.atom == ix.Quotient(rest, b) and rest.offset < 0 < out.offset:
            # Keep a ceiling as (n + k - 1) // k: its numerator is non-negative, that of (n - 1) // k + 1 need not be.
            return out - 1 + ix.index(ix.Quotient(rest + b, b))
        return out + reduced_rest
    if (value := _decided(can_prove, a, b)) is not None:
        return ix.constant(value)
    inner = a.atom
    if isinstance(inner, ix.Xor) and b.constant is not None and not b.constant & (b.constant - 1):
        parts = [_quotient(cache, part, b) for part in inner.parts]  # shifting distributes over exclusive or
        if sum(part != ix.ZERO for part in parts) < len(parts):
            return ix.exclusive_or(*parts)
    if isinstance(inner, ix.Quotient) and can_prove(less(ix.ZERO, inner.denominator)):
        return _quotient(cache, inner.numerator, inner.denominator * b)
    for factor, whole, remainder in _shared_factors(a, b):
        if can_prove(within(ix.ZERO, remainder, factor)):  # so the factor is positive
            return _quotient(cache, whole, _divided(b, factor)[0])
    return ix.floordiv(a, b)


def _decided(can_prove: CanProve, a: ix.Index, b: ix.Index) -> int | None:
    """Return the value of a // b if it is proved to be 0, -1 or 1."""
    if can_prove(at_most(ix.ZERO, a)):
        if can_prove(less(a, b)):
            return 0
        return 1 if can_prove(at_most(b, a)) and can_prove(less(a, b * 2)) else None
    return -1 if can_prove(less(a, ix.ZERO)) and can_prove(at_most(-b, a)) else None


def _divided(a: ix.Index, b: ix.Index) -> tuple[ix.Index, ix.Index]:
    """Divide polynomials: a = out * b + rest. If b has several terms, each step must shorten the rest."""
    divisor = b.constant
    if divisor is not None:
        whole = {monomial: value // divisor for monomial, value in a.terms if not monomial or value % divisor == 0}
        out = ix.polynomial(whole)
        return out, ix.linear(((1, a), (-divisor, out)))
    lead, coefficient = b.terms[0]
    out, rest = ix.ZERO, a
    for _ in range(MAX_STEPS):
        step = _leading_multiple(rest, lead, coefficient)
        if step is None:
            break
        shorter = rest - step * b
        if len(shorter.terms) >= len(rest.terms):
            break
        out, rest = out + step, shorter
    return out, rest


def _leading_multiple(a: ix.Index, lead: ix.Monomial, coefficient: int) -> ix.Index | None:
    """Return the quotient of the first term of `a` that the leading term of the divisor divides."""
    for monomial, value in a.terms:
        left = list(monomial)
        for atom in lead:
            if atom not in left:
                break
            left.remove(atom)
        else:
            if value % coefficient == 0:
                return ix.polynomial({tuple(left): value // coefficient})
    return None


def _shared_factors(a: ix.Index, b: ix.Index) -> Iterable[tuple[ix.Index, ix.Index, ix.Index]]:
    """Yield (f, whole, rest), largest first: f divides b and a = f * whole + rest.

    If 0 <= rest < f, then a // b = whole // (b / f).
    """
    divisor = b.constant
    if divisor is not None:
        sizes = {gcd(divisor, value) for monomial, value in a.terms if monomial}
        for size in sorted(sizes, reverse=True):
            if 1 < size < divisor:
                factor = ix.constant(size)
                yield (factor, *_divided(a, factor))
        return
    if len(b.terms) != 1:
        return
    ((monomial, _),) = b.terms
    seen: dict[ix.Monomial, None] = {}
    for degree in range(len(monomial), 0, -1):
        seen.update(dict.fromkeys(combinations(monomial, degree)))
    for part in seen:
        factor = ix.polynomial({part: 1})
        whole, rest = _divided(a, factor)
        if whole.terms:
            yield factor, whole, rest


def exact_multiple(a: ix.Index, b: ix.Index) -> ix.Index | None:
    """Return a / b if polynomial division leaves no remainder, and None otherwise or for b = 0."""
    if not b.terms:
        return None
    out, rest = _divided(a, b)
    return None if rest.terms else out
