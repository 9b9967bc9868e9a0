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

from atl.core import index as ix
from atl.core.predicate import NonNegative, Predicate, at_most, less
from atl.prove.facts import Facts

MAX_SUBSTITUTIONS: Final = 40
"""Maximum number of substitutions of variables by ends."""
MAX_TERMS: Final = 60
FIRST_DIGIT: Final = -(1 << 40)
"""First id of the variables for digits; other variables do not have such ids."""


def is_least_at_ends(facts: Facts, expression: ix.Index, can_prove: Callable[[Predicate], bool]) -> bool:
    """Return True if the expression is proved non-negative; `can_prove` answers simple queries under the facts."""
    search = _Ends(facts, cache(can_prove))
    return search.never_negative(search.in_digits(expression), frozenset())


@dataclass(slots=True)
class _Ends:
    facts: Facts
    can_prove: Callable[[Predicate], bool]
    digits: dict[ix.AnyAtom, ix.Index] = field(default_factory=dict)
    """Variables for remainders, with their divisors."""
    left: int = MAX_SUBSTITUTIONS

    def never_negative(self, e: ix.Index, done: frozenset[ix.AnyAtom]) -> bool:
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
                if eliminated.isdisjoint(ix.atoms(end)) and self.never_negative(rest + multiple * end, eliminated):
                    return True
            return False
        return False

    def _variables(self, e: ix.Index) -> list[ix.AnyAtom]:
        """Return the atoms with ranges, innermost first, as an inner range may contain outer variables."""
        found = dict.fromkeys(atom for monomial, _ in e.terms for atom in monomial if _varies(atom))
        return sorted(found, key=lambda atom: (atom not in self.digits, isinstance(atom, ix.Quotient), _depth(atom)))

    def _sign(self, e: ix.Index) -> int:
        """Return 1 for >= 0 and -1 for <= 0, by the signs of the terms; 0 for unknown."""
        signs = {value > 0 for _, value in e.terms}
        if len(signs) > 1 or not all(self._is_non_negative(atom) for monomial, _ in e.terms for atom in monomial):
            return 0
        return 1 if signs != {False} else -1

    def _is_non_negative(self, atom: ix.AnyAtom) -> bool:
        return isinstance(atom, ix.Size) or atom in self.digits or self.can_prove(NonNegative(ix.index(atom)))

    def _is_positive(self, divisor: ix.Index) -> bool:
        """Return True if a divisor is positive. Constants are checked even under contradictory facts."""
        return divisor.constant > 0 if divisor.constant is not None else self.can_prove(less(ix.ZERO, divisor))

    # -- ranges ------------------------------------------------------------------------------------------------------

    def _ends(self, variable: ix.AnyAtom, *, up: bool) -> Iterator[ix.Index]:
        """Yield upper (`up`) or lower bounds of the variable."""
        if variable in self.digits:
            yield self.digits[variable] - ix.ONE if up else ix.ZERO
        elif isinstance(variable, ix.Quotient):
            yield from self._ends_of_quotient(variable, up=up)
        else:
            yield from self._ends_in_facts(variable, up=up)

    def _ends_in_facts(self, variable: ix.AnyAtom, *, up: bool) -> Iterator[ix.Index]:
        for fact in self.facts.predicates:
            if isinstance(fact, NonNegative):
                multiple, rest = _collected(fact.expression, variable)
                if multiple == (-ix.ONE if up else ix.ONE):
                    yield rest if up else -rest

    def _ends_of_quotient(self, quotient: ix.Quotient, *, up: bool) -> Iterator[ix.Index]:
        yield from self._ends_in_facts(quotient, up=up)
        a, b = quotient.numerator, quotient.denominator
        if not self._is_positive(b):
            return
        if not up:
            if self.can_prove(at_most(ix.ZERO, a)):
                yield ix.ZERO
            return
        for leaf in self._variables(a):
            multiple, rest = _collected(a, leaf)
            if multiple == ix.ONE:
                for end in self._ends_in_facts(leaf, up=True):
                    # This is end // b, written as the ceiling of the next number, minus 1.
                    yield ix.floordiv(rest + end + b, b, positive=True) - ix.ONE

    # -- digits ------------------------------------------------------------------------------------------------------

    def in_digits(self, e: ix.Index) -> ix.Index:
        """Replace a variable in the numerator a of a quotient by the digits of a = b * (a // b) + digit."""
        split: set[ix.AnyAtom] = set()
        for quotient in [*dict.fromkeys(atom for monomial, _ in e.terms for atom in monomial)]:
            if not isinstance(quotient, ix.Quotient) or not self._is_positive(quotient.denominator):
                continue
            for leaf in self._variables(quotient.numerator):
                multiple, rest = _collected(quotient.numerator, leaf)
                times, others = _collected(e, leaf)
                if multiple == ix.ONE and times is not None and times.terms and leaf not in split:
                    split.add(leaf)
                    digit = ix.Var(FIRST_DIGIT - len(self.digits), "digit")
                    self.digits[digit] = quotient.denominator
                    whole = quotient.denominator * ix.index(quotient) + ix.index(digit) - rest
                    e = others + times * whole
                    break
        return e


def _collected(e: ix.Index, variable: ix.AnyAtom) -> tuple[ix.Index | None, ix.Index]:
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
    return ix.polynomial(multiple), ix.polynomial(rest)


def _varies(atom: ix.AnyAtom) -> bool:
    """Return True for variables and quotients with variables in the numerator."""
    return isinstance(atom, ix.Var | ix.Bound) or (
        isinstance(atom, ix.Quotient) and any(map(_varies, ix.atoms(atom.numerator)))
    )


def _depth(atom: ix.AnyAtom) -> int:
    """Return a sort key that is smaller for inner variables."""
    match atom:
        case ix.Bound(position):
            return position
        case ix.Var(uid):
            return -uid
        case ix.Size() | ix.Quotient() | ix.Extremum() | ix.Xor() | ix.Read():
            return 0
