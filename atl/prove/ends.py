"""Bounds of nonlinear expressions, such as addresses: each variable is replaced by the end of its range.

In s0*s1*s2 - 1 - (i*s1*s2 + j*s2 + k) the coefficient of i is negative, so the minimum is at i = s0 - 1. Then j and k
follow, and 0 remains. Linear arithmetic would need a product of hypotheses for each variable. A variable inside a
quotient is first split into digits: i = K*(i // K) + r with 0 <= r < K, with i // K as a new variable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from atl.core.index import (
    ONE,
    ZERO,
    AnyAtom,
    Bound,
    Extremum,
    Index,
    Quotient,
    Read,
    Size,
    Var,
    Xor,
    atoms,
    floordiv,
    index,
    polynomial,
)
from atl.core.predicate import NonNegative, Predicate, at_most, less
from atl.prove.facts import Facts

MAX_SUBSTITUTIONS: Final = 40
"""Maximum number of substitutions of variables by ends."""
MAX_TERMS: Final = 60
FIRST_DIGIT: Final = -(1 << 40)
"""First id of the variables for digits; other variables do not have such ids."""


def is_least_at_ends(facts: Facts, expression: Index, can_prove: Callable[[Predicate], bool]) -> bool:
    """Return True if the expression is proved non-negative; `can_prove` answers simple queries under the facts."""
    search = _Ends(facts, cache(can_prove))
    return search.never_negative(search.in_digits(expression), frozenset())


@dataclass(slots=True)
class _Ends:
    facts: Facts
    can_prove: Callable[[Predicate], bool]
    digits: dict[AnyAtom, Index] = field(default_factory=dict)
    """Variables for remainders, with their divisors."""
    left: int = MAX_SUBSTITUTIONS

    def never_negative(self, e: Index, done: frozenset[AnyAtom]) -> bool:
        """Return True if the expression is proved non-negative after replacing the variables not in `done`."""
        if self._sign(e) > 0:
            return True
        if all(len(monomial) < 2 for monomial, _ in e.terms):
            return self.can_prove(NonNegative(e))
        if len(e.terms) > MAX_TERMS:
            return False
        for variable in self._variables(e):
            multiple, rest = _collected(e, variable)
            if multiple is None or not (sign := self._sign(multiple)):
                continue
            eliminated = done | {variable}
            for end in self._ends(variable, up=sign < 0):
                self.left -= 1
                if self.left < 0:
                    return False
                if eliminated.isdisjoint(atoms(end)) and self.never_negative(rest + multiple * end, eliminated):
                    return True
            return False
        return False

    def _variables(self, e: Index) -> list[AnyAtom]:
        """Return the atoms with ranges, innermost first, as an inner range may contain outer variables."""
        found = dict.fromkeys(atom for monomial, _ in e.terms for atom in monomial if _varies(atom))
        return sorted(found, key=lambda atom: (atom not in self.digits, isinstance(atom, Quotient), _depth(atom)))

    def _sign(self, e: Index) -> int:
        """Return 1 for >= 0 and -1 for <= 0, by the signs of the terms; 0 for unknown."""
        signs = {value > 0 for _, value in e.terms}
        if len(signs) > 1 or not all(self._is_non_negative(atom) for monomial, _ in e.terms for atom in monomial):
            return 0
        return 1 if signs != {False} else -1

    def _is_non_negative(self, atom: AnyAtom) -> bool:
        return isinstance(atom, Size) or atom in self.digits or self.can_prove(NonNegative(index(atom)))

    def _is_positive(self, divisor: Index) -> bool:
        """Return True if a divisor is positive. Constants are checked even under contradictory facts."""
        return divisor.constant > 0 if divisor.constant is not None else self.can_prove(less(ZERO, divisor))

    # -- ranges ------------------------------------------------------------------------------------------------------

    def _ends(self, variable: AnyAtom, *, up: bool) -> Iterator[Index]:
        """Yield upper (`up`) or lower bounds of the variable."""
        if variable in self.digits:
            yield self.digits[variable] - ONE if up else ZERO
        elif isinstance(variable, Quotient):
            yield from self._ends_of_quotient(variable, up=up)
        else:
            yield from self._ends_in_facts(variable, up=up)

    def _ends_in_facts(self, variable: AnyAtom, *, up: bool) -> Iterator[Index]:
        for fact in self.facts.predicates:
            if isinstance(fact, NonNegative):
                multiple, rest = _collected(fact.expression, variable)
                if multiple == (-ONE if up else ONE):
                    yield rest if up else -rest

    def _ends_of_quotient(self, quotient: Quotient, *, up: bool) -> Iterator[Index]:
        yield from self._ends_in_facts(quotient, up=up)
        a, b = quotient.numerator, quotient.denominator
        if not self._is_positive(b):
            return
        if not up:
            if self.can_prove(at_most(ZERO, a)):
                yield ZERO
            return
        for leaf in self._variables(a):
            multiple, rest = _collected(a, leaf)
            if multiple == ONE:
                for end in self._ends_in_facts(leaf, up=True):
                    # This is end // b, written as the ceiling of the next number, minus 1.
                    yield floordiv(rest + end + b, b, positive=True) - ONE

    # -- digits ------------------------------------------------------------------------------------------------------

    def in_digits(self, e: Index) -> Index:
        """Replace a variable in the numerator a of a quotient by the digits of a = b * (a // b) + digit."""
        split: set[AnyAtom] = set()
        for quotient in [*dict.fromkeys(atom for monomial, _ in e.terms for atom in monomial)]:
            if not isinstance(quotient, Quotient) or not self._is_positive(quotient.denominator):
                continue
            for leaf in self._variables(quotient.numerator):
                multiple, rest = _collected(quotient.numerator, leaf)
                times, others = _collected(e, leaf)
                if multiple == ONE and times is not None and times.terms and leaf not in split:
                    split.add(leaf)
                    digit = Var(FIRST_DIGIT - len(self.digits), "digit")
                    self.digits[digit] = quotient.denominator
                    whole = quotient.denominator * index(quotient) + index(digit) - rest
                    e = others + times * whole
                    break
        return e


def _collected(e: Index, variable: AnyAtom) -> tuple[Index | None, Index]:
    """Return the coefficient of the variable (None if it occurs in a power) and the other terms."""
    multiple, rest = {}, {}
    for monomial, value in e.terms:
        if variable not in monomial:
            rest[monomial] = value
            continue
        at = monomial.index(variable)
        left = (*monomial[:at], *monomial[at + 1 :])
        if variable in left:
            return None, e
        multiple[left] = value
    return polynomial(multiple), polynomial(rest)


def _varies(atom: AnyAtom) -> bool:
    """Return True for variables and quotients with variables in the numerator."""
    return isinstance(atom, Var | Bound) or (isinstance(atom, Quotient) and any(map(_varies, atoms(atom.numerator))))


def _depth(atom: AnyAtom) -> int:
    """Return a sort key that is smaller for inner variables."""
    match atom:
        case Bound(position):
            return position
        case Var(uid):
            return -uid
        case Size() | Quotient() | Extremum() | Xor() | Read():
            return 0
