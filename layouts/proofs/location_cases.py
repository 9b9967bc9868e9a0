"""Cases of a location with minima and maxima, in which the prover's quick layers decide it and its inverse.

A location such as `i // G * G * N + j * min(M - i // G * G, G) + i % G`, of tiles in groups of G rows of which the last
may be smaller, is proved in three steps, each of which holds for all numbers:

- a digit that is divided by an extent becomes `q * extent + r` with new variables q >= 0 and 0 <= r < extent,
- each choice of a minimum or maximum is a case, in which it is the smallest or largest,
- a choice with several terms becomes a new variable s, by which one of its sizes is expressed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from atl.core.index import ONE, ZERO, Extremum, Index, Leaf, Quotient, Size, Var, atoms, index, map_leaves
from atl.core.predicate import Predicate, at_most, substitute, within
from atl.prove import simplify
from layouts.foundation.facts import EMPTY, Known
from layouts.foundation.variables import digit_variable

MOST_CASES: Final = 16
"""Largest number of nested choices."""


@dataclass(frozen=True, slots=True)
class Case:
    """Digits and the parts of their location under some facts. `placed` substitutes the new variables for sizes."""

    digits: tuple[Index, ...]
    location: tuple[Index, ...]
    known: Known
    placed: Callable[[Index], Index]

    def simple(self, value: Index) -> Index:
        """Return an expression over digits and sizes, with the new variables, simplified by the facts."""
        return simplify(self.known.facts, self.placed(value))


def location_cases(digits: Sequence[Index], location: Sequence[Index], known: Known) -> Iterator[Case]:
    """Return cases that together cover all digits; none if the location has no minimum or maximum.

    >>> from atl.core.index import imin, size
    >>> from layouts.foundation.variables import any_digits
    >>> M, G = size("M"), size("G")
    >>> (i,), known = any_digits([M], EMPTY.assume(at_most(ONE, G)))
    >>> for case in location_cases([i], [imin(M - i // G * G, G)], known):
    ...     print(case.digits, case.location)
    (q0*G + r0,) (s,)
    (q0*G + r0,) (G,)
    """
    if any(isinstance(atom, Extremum) for part in location for atom in atoms(part)):
        yield from _chosen(_divided(digits, location, known), 1)


def _divided(digits: Sequence[Index], location: Sequence[Index], known: Known) -> Case:
    """Write each digit that is divided by an extent as a quotient and a remainder."""
    values: dict[Leaf, Index] = {}
    limits: list[Predicate] = []
    for k, digit in enumerate(digits):
        divisors = {
            atom.denominator
            for part in location
            for atom in atoms(part)
            if isinstance(atom, Quotient) and atom.numerator == digit
        }
        divisor = next((each for each in divisors if not _variables(each)), None)
        leaf = digit.atom
        if divisor is None or not isinstance(leaf, Var) or not known.holds(at_most(ONE, divisor)):
            continue
        first = 2 * k + len(digits)
        quotient, rest = (index(digit_variable(first + at, f"{name}{k}")) for at, name in enumerate("qr"))
        values[leaf] = divisor * quotient + rest
        limits += [at_most(ZERO, quotient), within(ZERO, rest, divisor)]
    case = Case(tuple(digits), tuple(location), known, lambda value: value)
    return _substituted(case, values, limits)


def _variables(expression: Index) -> bool:
    return any(isinstance(atom, Var) for atom in atoms(expression))


def _substituted(case: Case, values: Mapping[Leaf, Index], more: Iterable[Predicate]) -> Case:
    """Return the case with expressions for some leaves, and more facts."""

    def leaf(of: Leaf) -> Index:
        return values.get(of, index(of))

    def placed(value: Index) -> Index:
        return map_leaves(case.placed(value), leaf)

    facts = (substitute(fact, leaf) for fact in (*case.known.facts.predicates, *more))
    known = EMPTY.assume(*facts)
    digits, location = (tuple(map_leaves(part, leaf) for part in parts) for parts in (case.digits, case.location))
    return Case(digits, tuple(simplify(known.facts, part) for part in location), known, placed)


def _chosen(case: Case, depth: int) -> Iterator[Case]:
    """Return a case for each choice of a minimum or maximum, until none is left."""
    atom = next((each for part in case.location for each in atoms(part) if isinstance(each, Extremum)), None)
    if atom is None or 2**depth > MOST_CASES:
        yield case
        return
    for choice in atom.choices:
        order = (at_most(choice, each) if atom.kind == "min" else at_most(each, choice) for each in atom.choices)
        new = digit_variable(3 * len(case.digits) + depth, "s")
        yield from _chosen(_substituted(case, _named(choice, new), order), depth + 1)


def _named(choice: Index, new: Var) -> dict[Leaf, Index]:
    """Return the value of one size of a choice with several terms, by a new variable for the choice."""
    for monomial, coefficient in choice.terms if len(choice.terms) > 1 else ():
        (leaf, *others) = monomial or (None,)
        if coefficient == 1 and not others and isinstance(leaf, Size):
            rest = choice - index(leaf)
            if leaf not in set(atoms(rest)):
                return {leaf: index(new) - rest}
    return {}
