"""The exactness of a rule: whether its two sides agree in every bit when they are computed in floating point.

It is decided like `exhaustion`, over free terms (`atl.meaning.free_terms`) instead of polynomials: one run decides it
at one choice of integers for all elements. Choices include sums of `LONG` terms and more, because shorter ones have
the same order in many blocks as in one.

Free terms of two float types differ only in casts, of which the one to the type of its operand does nothing. So a
statement with casts is decided at every type that it names, and at another type of each kind.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Sequence
from enum import IntEnum
from itertools import chain, cycle, islice, product
from math import prod
from random import Random
from typing import Final

from atl.core.dtypes import BOOL, KINDS, TYPES, is_float, kind_of
from atl.core.index import Index, Quotient, atoms
from atl.core.operations import COMPARISONS, BinaryOp, UnaryOp, accepts
from atl.core.terms import OF_MONOID, Binary, Cast, Expr, Metavariable, Reduce, Unary
from atl.core.traversal import subterms
from atl.meaning.free_terms import FreeTerms, Term
from rewrites.rule import Equation, Rule
from rewrites.rule_checking import exhaustion, small_choices
from rewrites.rule_checking.generic_arguments import FLOAT, Generic
from rewrites.rule_checking.literals import indices_of, literals
from rewrites.rule_checking.small_choices import EXTENTS, WINDOW
from rewrites.rule_statement import RuleStatement

CHOICES: Final = 24
"""Number of choices of small sizes for each statement. Few suffice: each holds for all elements."""
LONG_CHOICES: Final = 200
"""Number of choices with longer sums for each statement with a fold.

There are more of them than `CHOICES`, because some violate premises, which is found only when they are instantiated.
"""
LONGER: Final[dict[range, Sequence[int]]] = {WINDOW: (*range(-2, 9), 6, 7, 8), EXTENTS: (*range(6), 6, 6, 8, 8, 12)}
"""Values of indices and extents for longer sums; extents are often equal, as most premises and shapes require."""
FARTHEST: Final = 2
"""Largest absolute value of a number in a statement. The small choices, up to 3, include larger and smaller sizes."""
LONG: Final = 5
"""Number of terms of a sum that must be compared: in shorter sums, different orders may agree by chance."""
DRAWS: Final = 8_000
"""Maximum number of draws for choices with longer sums: 40 for each, because few draws may satisfy the premises."""
CHOICES_OF_WAY: Final = 3
"""Minimum number of choices of small sizes for each assignment of element types."""
MOST_WAYS: Final = 256
"""Maximum number of assignments of element types to the type variables of a statement; more are not decided."""
MOST_TESTS: Final = 4
"""Maximum number of tests of elements for which every combination of results is tried.

If a statement has more comparisons than this, their number is the maximum.
"""
RANDOM_TESTS: Final = 8
"""Minimum number of random combinations that are tried if there are more tests."""
FOR_EACH_RESULT: Final = 4
"""Number of random combinations for each combination of results of the comparisons of a statement."""
MOST_COMPARISONS: Final = 8
"""Maximum number of comparisons of a statement; more are not decided."""


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


def determine_exactness(rule: Rule, *, cautious: bool = False) -> Exactness:
    """Return the exactness of a rule: the weakest of its statements at the choices that are tried.

    A rule counts as one that rounds if nothing could be compared, if all compared sums were too short (`LONG`), or if
    it has too many type variables or comparisons, or a number above `FARTHEST`. A statement without floats keeps every
    bit.

    With `cautious`, for user-defined rules, it also counts as one that rounds if an index is not linear, which reaches
    large sizes without large numbers, or if no sum of at least `LONG` terms was compared.
    """
    has_long_sums = any(exhaustion.is_low(stated) and _folds(stated) for stated in rule.statements.values())
    found, compared = Exactness.BITS, False
    for stated in rule.statements.values():
        if not has_floats(stated):
            compared = True
            continue
        if prod(map(len, _candidates(stated))) > MOST_WAYS or _comparisons(stated) > MOST_COMPARISONS:
            return Exactness.ROUNDS
        if any(abs(value) > FARTHEST for value in literals(stated)):
            return Exactness.ROUNDS  # sizes beyond this number, where another branch may be chosen, are not compared
        longest, ops, low = 0, _folds(stated), exhaustion.is_low(stated)
        if cautious and (not all(map(_is_linear, indices_of(stated))) or (ops and not low and not has_long_sums)):
            return Exactness.ROUNDS
        for generic in _generics(stated):
            made = exhaustion.instance(stated, generic)
            if made is None:
                continue
            terms = _agree(made, generic, ops, finite=found < Exactness.BITS)
            if terms is None and found == Exactness.BITS:
                found, terms = Exactness.FINITE, _agree(made, generic, ops, finite=True)
            if terms is None:
                return Exactness.ROUNDS
            compared, longest = True, max(longest, terms)
        if ops and low and (cautious or longest > 1) and longest < LONG:
            return Exactness.ROUNDS
    return found if compared else Exactness.ROUNDS


def _is_linear(expression: Index) -> bool:
    """Return whether an index is no product of variables, and no quotient or remainder by a variable."""
    divisors = (atom.denominator for atom in atoms(expression) if isinstance(atom, Quotient))
    products = any(len(monomial) > 1 for monomial, _ in expression.terms)
    return not products and all(divisor.constant is not None for divisor in divisors)


def has_floats(stated: RuleStatement) -> bool:
    """Return whether a statement has floats for some element types."""
    types = {*_named(stated), *chain.from_iterable(_candidates(stated))}
    return any(map(is_float, types))


def _named(stated: RuleStatement) -> frozenset[str]:
    """Return the element types that a statement names."""
    of = (*stated.element_types.values(), *stated.parameter_types.values())
    parts = (at for side in (stated.lhs, stated.rhs) for at in subterms(side))
    return frozenset(dtype for dtype in (*of, *(at.type.dtype for at in parts)) if dtype in TYPES)


def _candidates(stated: RuleStatement) -> list[list[str]]:
    """Return the element types at which each type variable is tried: those named, and another one of each kind.

    Without casts, floats are enough: fewer laws hold for them than for integers and truth values.
    """
    named = sorted(_named(stated))
    others = (next((of for of in TYPES if of not in named and kind_of(of) == kind), None) for kind in KINDS)
    every = dict.fromkeys((*named, *(of for of in others if of is not None), FLOAT))
    fewest = None if exhaustion.has_casts(stated) else 1
    used = [_used(stated, variable) for variable in stated.type_variables]
    found = ([of for of in every if all(accepts(op, of) for op in ops)] for ops in used)
    return [sorted(of, key=is_float, reverse=True)[:fewest] for of in found]


def _used(stated: RuleStatement, variable: str) -> set[UnaryOp | BinaryOp]:
    """Return the operations on elements of the type of a variable."""
    found: set[UnaryOp | BinaryOp] = set()
    for at in chain(subterms(stated.lhs), subterms(stated.rhs)):
        match at:
            case Unary(op, operand) | Binary(op, operand):
                found |= {op} if operand.type.dtype == variable else set()
            case Reduce() if at.type.dtype == variable:
                found.add(OF_MONOID[at.monoid])
            case _:
                pass
    return found


def _comparisons(stated: RuleStatement) -> int:
    """Return the number of different truth values of elements in a statement."""
    found: set[Expr] = set()
    for at in chain(subterms(stated.lhs), subterms(stated.rhs)):
        match at:
            case Binary(op) if op in COMPARISONS:
                found.add(at)
            case Cast(dtype) if dtype == BOOL:
                found.add(at)
            case Metavariable(name=name) if stated.element_types[name] == BOOL:
                found.add(at)
            case _:
                pass
    return len(found)


def _generics(stated: RuleStatement) -> Iterator[Generic]:
    """Yield generic arguments: some of small sizes, then some with longer sums if the statement has a fold."""
    low, variables = exhaustion.is_low(stated), stated.type_variables
    ways = [dict(zip(variables, types, strict=True)) for types in product(*_candidates(stated))]
    small = list(exhaustion.generics(stated, CHOICES if low else 1))
    # Elements of higher ranks have the types of lower ones, in turn.
    wanted = max(len(small), len(ways) * min(len(small), CHOICES_OF_WAY)) if low else len(small)
    for at, generic in enumerate(islice(cycle(small), wanted)):
        yield Generic(stated, generic.choice, ways[(at + sum(stated.ranks)) % len(ways)], at)
    if low and _folds(stated):
        random, of = Random(0), small_choices.spaces_of(stated)
        drawn = ({name: random.choice(LONGER.get(space, space)) for name, space in of.items()} for _ in range(DRAWS))
        for variant, choice in enumerate(islice(filter(small_choices.satisfying(stated), drawn), LONG_CHOICES)):
            yield Generic(stated, choice, ways[variant % len(ways)], variant)


def _folds(stated: RuleStatement) -> frozenset[str]:
    """Return the operations of the folds in a statement."""
    parts = (at for side in (stated.lhs, stated.rhs) for at in subterms(side))
    return frozenset(OF_MONOID[at.monoid] for at in parts if isinstance(at, Reduce))


def _agree(made: Equation, generic: Generic, ops: Collection[str], *, finite: bool) -> int | None:
    """Compare the free terms of two sides, element by element, for combinations of results of tests.

    Return None if they differ. Otherwise return the largest number of operands in a chain of one of `ops`.
    """
    comparisons = _comparisons(generic.stated)
    enumerable, several = max(MOST_TESTS, comparisons), max(RANDOM_TESTS, FOR_EACH_RESULT * 2**comparisons)
    tests = draw = longest = 0
    while draw < (2**tests if tests <= enumerable else several):
        domain = FreeTerms(draw, finite=finite, enumerated=tests <= enumerable)
        left, right = (exhaustion.meant(side, generic, domain) for side in (made.lhs, made.rhs))
        if exhaustion.counterexample(generic, left, right, operator.ne) is not None:
            return None
        elements = (at for at in left[1].ravel() if isinstance(at, Term))
        longest = max(longest, 0, *(domain.longest_chain(at, ops) for at in elements))
        tests, draw = max(tests, len(domain.tests)), draw + 1
    return longest
