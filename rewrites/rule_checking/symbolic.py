"""Symbolic proofs of rules: both sides are equal for all sizes, indices, conditions and elements.

Both sides are evaluated at a symbolic position by the definitions of the operators. If the prover cannot decide a
condition, the proof is split in two cases. A condition that depends on the index of a sum becomes a factor [p] of its
terms instead. The results are two polynomials, which are compared. A rule about sums is proved by induction on an
extent: the sides are equal if it is empty, and grow by the same amount with it. A rule about recurrences is proved by
their definition, or by induction on rows: if earlier rows are equal to those of the other side, so is the next row.

Proofs assume that both sides are well-formed: the obligations of `atl.checks.wellformed` are facts where they arise.
Each statement of the rule, one for each rank of elements, is proved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count, product
from typing import Final, TypeAlias

from atl.core import predicate as pred
from atl.core import terms
from atl.core.dtypes import BOOL
from atl.core.index import ZERO as NONE
from atl.core.index import Array, Index, Leaf, Size, Var, atoms, index, map_leaves, read
from atl.core.index import Read as ReadOf
from atl.core.substitution import rebuild, transform
from atl.core.traversal import children, subterms
from atl.errors import ATLError
from atl.prove import Facts, Proved, prove
from rewrites.rule import Rule
from rewrites.rule_checking.reindexing import reindexed
from rewrites.rule_checking.symbolic_reading import Hypothesis, Peel, Reader, unconditional, under_binders, unused_ids
from rewrites.rule_checking.symbolic_values import Poly, Stuck, Undecided, vanishes
from rewrites.rule_statement import RuleStatement

DEEPEST: Final = 20
"""Maximum depth of case splits."""
MOST_CASES: Final = 1000
"""Maximum number of cases, those that are split further included."""


# -- proofs -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Goal:
    """The goal lhs = rhs at these positions, under the facts.

    In an induction step `hypothesis` is the goal for the smaller extent. Variables in `fixed` are not solved for.
    """

    lhs: terms.Expr
    rhs: terms.Expr
    at: tuple[Index, ...]
    facts: tuple[pred.Predicate, ...]
    hypothesis: Goal | None = None
    fixed: tuple[Var, ...] = ()

    def where(self, variable: Var, value: Index) -> Goal:
        """Return the goal with an index variable replaced."""

        def leaf(at: Leaf) -> Index:
            return value if at == variable else index(at)

        return replace(
            self,
            lhs=transform(self.lhs, lambda at, depth: leaf(at)),
            rhs=transform(self.rhs, lambda at, depth: leaf(at)),
            at=tuple(map_leaves(position, leaf) for position in self.at),
            facts=tuple(pred.substitute(fact, leaf) for fact in self.facts),
            hypothesis=None if self.hypothesis is None else self.hypothesis.where(variable, value),
        )

    def assuming(self, literal: pred.Predicate) -> Goal:
        """Return the goal with one more fact. An equation is solved for a variable if possible."""
        if isinstance(literal, pred.Zero):
            for monomial, coefficient in literal.expression.terms:
                if len(monomial) == 1 and isinstance(monomial[0], Var) and coefficient in (1, -1):
                    rest = literal.expression - index(monomial[0]) * coefficient
                    if monomial[0] not in (*atoms(rest), *self.fixed):
                        return self.where(monomial[0], rest * -coefficient)
        return replace(self, facts=(*self.facts, literal))

    def difference(
        self, facts: Facts, *, linear: bool, peels: tuple[Peel | None, Peel | None] = (None, None), proves: bool = False
    ) -> Poly:
        left, right = (Reader({}, linear, peel, proves=proves) for peel in peels)
        return left.read(self.lhs, self.at, facts) - right.read(self.rhs, self.at, facts)


Attempt: TypeAlias = Callable[[Goal, Facts], bool]


def _split(goal: Goal, attempt: Attempt, depth: int = 0, started: Iterator[int] | None = None) -> None:
    """Prove the goal by cases. Raises `Stuck`."""
    started = count(1) if started is None else started
    if next(started) > MOST_CASES:
        raise Stuck("too many cases")
    facts = Facts().assume(*goal.facts)
    if isinstance(prove(facts, pred.FALSE), Proved):
        return
    try:
        if not attempt(goal, facts):
            raise Stuck("the normal forms of both sides differ")
    except Undecided as undecided:
        if depth == DEEPEST:
            raise Stuck("too many cases") from None
        for literal in (undecided.literal, pred.negation(undecided.literal)):
            _split(goal.assuming(literal), attempt, depth + 1, started)


def _reads_equal(*, linear: bool) -> Attempt:
    return lambda goal, facts: vanishes(goal.difference(facts, linear=linear), facts)


def _by_definition(goal: Goal, facts: Facts) -> bool:
    """Compare the sides with rows of recurrences read by their definitions."""
    left, right = (Reader({}, linear=True, unfolds=True).read(side, goal.at, facts) for side in (goal.lhs, goal.rhs))
    return vanishes(left - right, facts)


def _by_rows(goal: Goal, facts: Facts) -> bool:
    """Compare a row of a side that is a recurrence with the other side, assuming that all earlier rows are equal."""
    for whole, other in ((goal.lhs, goal.rhs), (goal.rhs, goal.lhs)):
        if isinstance(whole, terms.Rec):
            step = Reader({}, linear=True, unfolds=True, hypothesis=Hypothesis(whole, other))
            row = Reader({}, linear=True, unfolds=True).read(other, goal.at, facts)
            if vanishes(step.read(whole, goal.at, facts) - row, facts):
                return True
    return False


def _by_induction(goal: Goal, variable: Var, over: Index, *, linear: bool, ends: Ends) -> None:
    """Prove the goal by induction on `variable`, with the extent `over` empty in the base case.

    The step splits one term off each sum. `ends` is true for a side if it is the first term rather than the last. The
    third value is true if sums inside these terms are split too.
    """
    *firsts, nested = ends
    left, right = (Peel(variable, first=first, nested=nested) for first in firsts)

    def step(now: Goal, facts: Facts) -> bool:
        assert now.hypothesis is not None
        after = now.difference(facts, linear=linear, peels=(left, right))
        for needed in now.hypothesis.facts:
            if isinstance(prove(facts, pred.negation(needed)), Proved):
                return vanishes(after, facts)
            if not isinstance(prove(facts, needed), Proved):
                raise Undecided(needed)
        # Its conditions under binders follow from those of the larger instance, or are proved where they are needed.
        known = facts.assume(*under_binders(now.lhs), *under_binders(now.rhs))
        return vanishes(after - now.hypothesis.difference(known, linear=linear, proves=True), facts)

    _split(replace(goal, facts=(*goal.facts, pred.at_most(over, NONE))), _reads_equal(linear=linear))
    grown = goal.where(variable, index(variable) + 1)
    facts = (*grown.facts, pred.at_most(NONE, over))
    _split(replace(grown, facts=facts, hypothesis=goal, fixed=(variable,)), step)


def goals(rule: Rule) -> Iterator[Goal]:
    """Yield the goals of a rule: one for each statement."""
    return map(_goal, rule.statements.values())


def _goal(stated: RuleStatement) -> Goal:
    lhs, rhs = windowed(stated.lhs), windowed(stated.rhs)
    facts = [windowed_predicate(premise) for premise in stated.premises]
    facts += [*unconditional(lhs), *unconditional(rhs)]
    known = Facts().assume(*facts)
    if lhs.type.rank != rhs.type.rank:
        raise Stuck(f"the ranks {lhs.type.rank} and {rhs.type.rank} differ")
    for a, b in zip(lhs.type.shape, rhs.type.shape, strict=True):
        if a != b and not isinstance(prove(known, pred.equal(a, b)), Proved):
            raise Stuck(f"the extents {a} and {b} are not proved equal")
    at = tuple(index(Var(next(unused_ids), f"p{place}")) for place in range(lhs.type.rank))
    inside = [pred.within(NONE, position, extent) for position, extent in zip(at, lhs.type.shape, strict=True)]
    solved = _solved(Goal(lhs, rhs, at, tuple(facts + inside)))
    for position, extent in zip(at, solved.lhs.type.shape, strict=True):
        variable = _variable(position)
        if extent == index(1) and variable is not None:
            solved = solved.where(variable, NONE)
    return solved


def _solved(goal: Goal) -> Goal:
    """Solve the equations among the facts of the goal for variables."""
    for fact in goal.facts:
        without = replace(goal, facts=tuple(other for other in goal.facts if other != fact))
        if isinstance(fact, pred.Zero) and fact not in (solved := without.assuming(fact)).facts:
            return _solved(solved)
    return goal


def windowed(term: terms.Expr) -> terms.Expr:
    """Return a term in which condition metavariables are arrays with indices on both sides of zero."""
    return rebuild(term, lambda child: windowed(child.expr), _window)


def windowed_predicate(predicate: pred.Predicate) -> pred.Predicate:
    """Return a premise with the same arrays."""
    return pred.map_indices(predicate, _window)


def _window(expression: Index) -> Index:
    """Replace reads of condition metavariables by reads of an array with indices on both sides of zero."""
    total = NONE
    for monomial, coefficient in expression.terms:
        term = index(coefficient)
        for part in monomial:
            if isinstance(part, ReadOf) and part.array.dtype == BOOL:
                reach = index(Size(f"{part.array.name}.reach"))
                array = Array(f"{part.array.name}.", tuple(reach * 2 for _ in part.indices), "int64")
                term = term * read(array, tuple(position + reach for position in part.indices))
            else:
                term = term * index(part)
        total = total + term
    return total


def proved(rule: Rule) -> str | None:
    """Try to prove a rule for all sizes. Return None on success, otherwise the reason of failure."""
    try:
        found = list(goals(rule))
        known: Induction | None = None
        for goal in found:
            known = _proved(rule, goal, known)
    except Stuck as stuck:
        return str(stuck)
    except ATLError as error:
        return f"{type(error).__name__}: {error.args[0]}"
    return None if found else "the rule has no statement at any rank"


def is_proved_equal(goal: Goal) -> bool:
    """Return whether both sides of a goal are proved equal without induction."""
    try:
        _split(goal, _reads_equal(linear=True))
    except (Stuck, ATLError):
        return False
    return True


NOT_LINEAR: Final = ("sum_add", "sum_sub", "sum_neg", "sum_mul_left", "sum_mul_right", "sum_div")
"""The rules that state the linearity of sums, which are proved without using it."""


Ends: TypeAlias = tuple[bool, bool, bool]
Induction: TypeAlias = tuple[Ends, int]
"""The `ends` of `_by_induction`, and the position of the extent in the order in which extents are tried."""
ENDS: Final[tuple[Ends, ...]] = (
    (False, False, True), (True, True, True), (False, True, True), (True, False, True), (False, False, False),
)  # fmt: skip


def _proved(rule: Rule, goal: Goal, known: Induction | None) -> Induction | None:
    """Prove a goal; return the induction, if one was needed. `known`, that of another rank, is tried first."""
    linear = rule.name not in NOT_LINEAR
    try:
        _split(goal, _reads_equal(linear=linear))
    except Stuck as reason:
        if linear:
            with suppress(Stuck):
                _split(goal, _reindexed)
                return known
        if _by_amount(goal, linear=linear):
            return known
        # Most inductions are on the extent of the last sum, and many on that of the first.
        found = list(_inductions(goal))
        extents = [*found[-1:], *found[:1], *found[-2:0:-1]] if len(found) > 1 else found
        ways: list[Induction] = [(ends, number) for ends in ENDS for number in range(len(extents))]
        for ends, number in sorted(ways, key=lambda way: way != known):
            variable, over = extents[number]
            try:
                _by_induction(goal, variable, over, linear=linear, ends=ends)
            except Stuck:
                continue
            return ends, number
        for attempt in (_by_definition, _by_rows) if linear else ():
            try:
                _split(goal, attempt)
            except Stuck:
                continue
            return known
        raise reason from None
    return known


def _by_amount(goal: Goal, *, linear: bool) -> bool:
    """Prove a goal by induction on k if one side has a sum over n + k, and the other side one over n; or n and n - k.

    In the base case k is at most 0, and in the step the additional term of the longer sum vanishes.
    """
    left, right = (
        [term.high - term.low for term in subterms(side) if isinstance(term, terms.Reduce)]
        for side in (goal.lhs, goal.rhs)
    )
    for longer, shorter in [*product(left, right), *product(right, left)]:
        amount = _variable(longer - shorter)
        if amount is None:
            continue
        whole = _variable(longer)
        if whole == amount:  # n + k for n must be an arbitrary number
            continue
        renamed = goal if whole is None else goal.where(whole, longer + index(amount))
        with suppress(Stuck):
            _by_induction(renamed, amount, index(amount), linear=linear, ends=(False, False, True))
            return True
    return False


def _variable(of: Index) -> Var | None:
    """Return the variable that an index expression consists of, if it does."""
    return next((part for part in atoms(of) if isinstance(part, Var) and of == index(part)), None)


def _reindexed(goal: Goal, facts: Facts) -> bool:
    def value(term: terms.Expr, known: Facts, inside: tuple[Var, ...]) -> Poly:
        return Reader({}, linear=True, inside=inside).read(term, goal.at, known)

    return reindexed(goal.lhs, goal.rhs, facts, value)


def _inductions(goal: Goal) -> Iterator[tuple[Var, Index]]:
    """Yield the metavariables with which an extent of a sum grows by one, and the extents."""
    found: dict[tuple[Var, Index], None] = {}

    def visit(term: terms.Expr) -> None:
        extent = term.high - term.low if isinstance(term, terms.Reduce) else NONE
        for variable in atoms(extent):
            if not extent.loose and isinstance(variable, Var) and _growth(extent, variable) == 1:
                found[variable, extent] = None
        for child in children(term):
            visit(child.expr)

    visit(goal.lhs)
    visit(goal.rhs)
    yield from found


def _growth(extent: Index, variable: Var) -> int | None:
    """Return by how much an extent grows with a variable; None if not by a constant."""
    before = map_leaves(extent, lambda leaf: index(variable) - 1 if leaf == variable else index(leaf))
    return (extent - before).constant


__all__ = ["Goal", "Stuck", "proved", "windowed", "windowed_predicate"]
