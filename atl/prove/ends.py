"""Addresses of any rank: an expression is at least what it is where each variable is at that end of its range.

In s0*s1*s2 - 1 - (i*s1*s2 + j*s2 + k) the coefficient of i is negative, so that i = s0 - 1 makes it least; then j and k
follow, and what is left is 0. Elimination would need a product of hypotheses for each of them. A variable that stands
in a quotient is split first into its digits: i = K*(i // K) + r with 0 <= r < K, where i // K is a variable of its own.
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

TRIES: Final = 40
"""How many variables are put at ends of their ranges, in all."""
MAX_TERMS: Final = 60
FIRST_DIGIT: Final = -(1 << 40)
"""The ids of the variables that digits are; no other variable has such a one."""


def is_least_at_ends(facts: Facts, expression: Index, shown: Callable[[Predicate], bool]) -> bool:
    """Whether the expression is seen not to be negative; `shown` answers small questions under the facts."""
    search = _Ends(facts, cache(shown))
    return search.never_negative(search.in_digits(expression), frozenset())


@dataclass(slots=True)
class _Ends:
    facts: Facts
    shown: Callable[[Predicate], bool]
    digits: dict[AnyAtom, Index] = field(default_factory=dict)
    """The variables that are remainders, with their divisors."""
    left: int = TRIES

    def never_negative(self, e: Index, done: frozenset[AnyAtom]) -> bool:
        """Whether the expression is seen not to be negative, with what is not done of its variables at their ends."""
        if self._sign(e) > 0:
            return True
        if all(len(monomial) < 2 for monomial, _ in e.terms):
            return self.shown(NonNegative(e))
        if len(e.terms) > MAX_TERMS:
            return False
        for variable in self._variables(e):
            multiple, rest = _collected(e, variable)
            if multiple is None or not (sign := self._sign(multiple)):
                continue
            gone = done | {variable}
            for end in self._ends(variable, up=sign < 0):
                self.left -= 1
                if self.left < 0:
                    return False
                if gone.isdisjoint(atoms(end)) and self.never_negative(rest + multiple * end, gone):
                    return True
            return False
        return False

    def _variables(self, e: Index) -> list[AnyAtom]:
        """The atoms that vary within ranges, the innermost first: an inner range may speak of outer ones."""
        found = dict.fromkeys(atom for monomial, _ in e.terms for atom in monomial if _varies(atom))
        return sorted(found, key=lambda atom: (atom not in self.digits, isinstance(atom, Quotient), _depth(atom)))

    def _sign(self, e: Index) -> int:
        """1 for >= 0, -1 for <= 0, by its terms; 0 when they do not tell."""
        signs = {value > 0 for _, value in e.terms}
        if len(signs) > 1 or not all(self._is_natural(atom) for monomial, _ in e.terms for atom in monomial):
            return 0
        return 1 if signs != {False} else -1

    def _is_natural(self, atom: AnyAtom) -> bool:
        return isinstance(atom, Size) or atom in self.digits or self.shown(NonNegative(index(atom)))

    def _is_positive(self, divisor: Index) -> bool:
        """Whether it is seen to be; a number that is not is none even where the facts contradict each other."""
        return divisor.constant > 0 if divisor.constant is not None else self.shown(less(ZERO, divisor))

    # -- ranges ------------------------------------------------------------------------------------------------------

    def _ends(self, variable: AnyAtom, *, up: bool) -> Iterator[Index]:
        """Expressions that the variable is at most, or at least."""
        if variable in self.digits:
            yield self.digits[variable] - ONE if up else ZERO
        elif isinstance(variable, Quotient):
            yield from self._ends_of_quotient(variable, up=up)
        else:
            yield from self._ends_stated(variable, up=up)

    def _ends_stated(self, variable: AnyAtom, *, up: bool) -> Iterator[Index]:
        for fact in self.facts.predicates:
            if isinstance(fact, NonNegative):
                multiple, rest = _collected(fact.expression, variable)
                if multiple == (-ONE if up else ONE):
                    yield rest if up else -rest

    def _ends_of_quotient(self, quotient: Quotient, *, up: bool) -> Iterator[Index]:
        yield from self._ends_stated(quotient, up=up)
        a, b = quotient.numerator, quotient.denominator
        if not self._is_positive(b):
            return
        if not up:
            if self.shown(at_most(ZERO, a)):
                yield ZERO
            return
        for leaf in self._variables(a):
            multiple, rest = _collected(a, leaf)
            if multiple == ONE:
                for end in self._ends_stated(leaf, up=True):
                    # That is end // b, written as the ceiling of what follows the end, less 1.
                    yield floordiv(rest + end + b, b, positive=True) - ONE

    # -- digits ------------------------------------------------------------------------------------------------------

    def in_digits(self, e: Index) -> Index:
        """The expression with a = b * (a // b) + digit for a variable in the numerator a of a quotient in it."""
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
    """What the variable is multiplied by, and the terms without it; None where it occurs in a power."""
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
    """Whether it is a variable, or a quotient with one in its numerator."""
    return isinstance(atom, Var | Bound) or (isinstance(atom, Quotient) and any(map(_varies, atoms(atom.numerator))))


def _depth(atom: AnyAtom) -> int:
    """Smaller for inner variables."""
    match atom:
        case Bound(position):
            return position
        case Var(uid):
            return -uid
        case Size() | Quotient() | Extremum() | Xor() | Read():
            return 0
