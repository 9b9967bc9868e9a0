"""The exactness of a rule: whether its two sides agree in every bit when they are computed in floating point.

It is decided like `exhaustion`, over free terms (`atl.meaning.free_terms`) instead of polynomials: one run decides it
at one choice of integers for all elements and float types. Choices include sums of `LONG` terms and more, because
shorter ones have the same order in many blocks as in one.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import islice
from random import Random
from typing import Final

from atl.core.terms import Reduce
from atl.core.traversal import subterms
from atl.meaning.free_terms import FreeTerms, Term
from rewrites.rule import Equation, Rule
from rewrites.rule_checking import exhaustion
from rewrites.rule_checking.exhaustion import EXTENTS, WINDOW, Generic
from rewrites.rule_statement import RuleStatement

CHOICES: Final = 24
"""Number of choices of small sizes for each statement."""
LONG_CHOICES: Final = 200
"""Number of choices with longer sums for each statement with a fold; few may satisfy all premises."""
LONGER: Final[dict[range, Sequence[int]]] = {WINDOW: (*range(-2, 9), 6, 7, 8), EXTENTS: (*range(6), 6, 6, 8, 8, 12)}
"""Values of indices and extents for longer sums; extents are often equal, as most premises and shapes require."""
LONG: Final = 5
"""Number of terms of a sum that must be compared: shorter ones may have one order by chance."""
DRAWS: Final = 8_000
"""Maximum number of draws for choices with longer sums."""
MOST_TESTS: Final = 4
"""Maximum number of tests of elements for which every combination of results is tried."""
RANDOM_TESTS: Final = 8
"""Number of random combinations that are tried for more tests."""


class Exactness(IntEnum):
    """Agreement of two sides in floating point."""

    ROUNDS = 0
    """They may round differently."""
    FINITE = 1
    """They are equal where no operand or result is infinite or NaN; only the sign of a zero may differ."""
    BITS = 2
    """They are equal in every bit for all elements; all NaN count as one."""

    def __str__(self) -> str:
        return self.name.lower()

    @property
    def text(self) -> str:
        """The meaning in words."""
        return _TEXTS[self]


_TEXTS: Final = {
    Exactness.BITS: "keeps every bit of floats",
    Exactness.FINITE: "keeps every bit of finite floats, except the sign of a zero",
    Exactness.ROUNDS: "rounds floats differently",
}


def determine_exactness(rule: Rule, seed: int = 0) -> Exactness:
    """Return the exactness of a rule: the weakest of its statements at the choices that are tried.

    A rule is taken to round if nothing could be compared, or no sum that is long enough. Operations that only integers
    have are exact.
    """
    found, compared = Exactness.BITS, False
    for stated in rule.statements.values():
        if exhaustion.a_type_of(stated) != exhaustion.FLOAT:
            compared = True
            continue
        longest = 0
        for generic in _generics(stated, seed):
            made = exhaustion.instance(stated, generic)
            if made is None:
                continue
            while found > Exactness.ROUNDS and (terms := _agree(made, generic, finite=found < Exactness.BITS)) is None:
                found = Exactness(found - 1)
            if found == Exactness.ROUNDS:
                return found
            compared, longest = True, max(longest, terms or 0)
        if 1 < longest < LONG and _folds(stated) and exhaustion.is_low(stated):
            return Exactness.ROUNDS
    return found if compared else Exactness.ROUNDS


def _generics(stated: RuleStatement, seed: int) -> Iterator[Generic]:
    """Yield generic arguments: some of small sizes, then some with longer sums if the statement has a fold."""
    low = exhaustion.is_low(stated)
    yield from exhaustion.generics(stated, CHOICES if low else 1, seed)
    if low and _folds(stated):
        random, of = Random(seed), exhaustion.spaces(stated.metavariables)
        drawn = ({name: random.choice(LONGER.get(space, space)) for name, space in of.items()} for _ in range(DRAWS))
        for variant, choice in enumerate(islice(filter(exhaustion.satisfying(stated), drawn), LONG_CHOICES)):
            yield Generic(stated, choice, variant=variant)


def _folds(stated: RuleStatement) -> bool:
    """Return whether a side of a statement is or contains a fold."""
    return any(isinstance(at, Reduce) for side in (stated.lhs, stated.rhs) for at in subterms(side))


def _agree(made: Equation, generic: Generic, *, finite: bool) -> int | None:
    """Return None if two sides are not one free term in each element, for some results of tests.

    Otherwise return the largest number of operands of a chain of additions, products or extrema in them.
    """
    tests = draw = longest = 0
    while draw < (2**tests if tests <= MOST_TESTS else RANDOM_TESTS):
        domain = FreeTerms(draw, finite=finite, enumerated=tests <= MOST_TESTS)
        left, right = (exhaustion.meant(side, generic, domain) for side in (made.lhs, made.rhs))
        if exhaustion.counterexample(generic, left, right, operator.ne) is not None:
            return None
        elements = (at for at in left[1].ravel() if isinstance(at, Term))
        longest = max(longest, *map(domain.longest_chain, elements), 0)
        tests, draw = max(tests, len(domain.tests)), draw + 1
    return longest
