"""The prover's layers: trivial goals, linear arithmetic, a search for counterexamples, and z3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, assert_never

from atl.core import index as ix
from atl.core import predicate as pred
from atl.core.node import Identity
from atl.core.traversal import divisors, never_negative
from atl.errors import ATLError
from atl.prove.bits import by_bits
from atl.prove.facts import (
    Answer,
    Facts,
    Model,
    Proved,
    Refuted,
    Statistics,
    Unknown,
    declared,
    has_only_non_negative_terms,
    model_of,
    renumbered,
    symbols_of,
)
from atl.prove.linear import BUDGET, refuted, refuted_by_rounding
from atl.prove.reduction import reduced
from atl.prove.rows import System, Table, read_predicate
from atl.prove.search import Sample, Search, search
from atl.prove.smt import STEPS_AGAIN, Contradiction, GaveUp, solve
from atl.prove.steps import (
    is_least_at_ends,
    realisable,
    relevant,
    split_alternatives,
    split_remainders,
    with_plain_limits,
)

MEMO_SIZE: Final = 50_000
FIRST_BUDGET: Final = 1_500
QUICK_BUDGET: Final = 1_200
FIRST_TRIES: Final = 24
MORE_TRIES: Final = 200
LAST_TRIES: Final = 480
CONSISTENCY_BUDGET: Final = 1_000

statistics: Final = Statistics()
"""Number of queries that each layer answered in this process."""

_inconsistencies: Final[dict[Facts, bool]] = {}
Key: TypeAlias = tuple[Identity, Identity, bool, bool]
"""The memo key: the facts, the goal, and whether the slow layers and z3 are allowed."""
_memo: Final[dict[Key, Answer]] = {}
_smt: Final[ContextVar[bool]] = ContextVar("smt", default=True)


def prove(facts: Facts, goal: pred.Predicate, *, thorough: bool = True) -> Answer:
    """Decide whether the facts imply the goal, for all integers (and sizes >= 0).

    `Proved` is a proof, and `Refuted` contains numbers that were checked. A quotient is defined only if its divisor
    is positive. In a proof, an undefined quotient may be any integer, and a counterexample must not contain one.
    Exception: 0 // n is always simplified to 0. An array element outside the array is zero. Without `thorough`, z3 and
    long searches are skipped.
    """
    answer = _decide(facts, goal, thorough)
    return Refuted(answer.model.named(_variables(facts, goal))) if isinstance(answer, Refuted) else answer


def proves(facts: Facts, goal: pred.Predicate, *, thorough: bool = True) -> bool:
    """Return True if the goal is proved, and False if it is refuted or unknown."""
    return isinstance(_decide(facts, goal, thorough), Proved)


def _decide(facts: Facts, goal: pred.Predicate, thorough: bool) -> Answer:
    """Decide a query with the memo. A model may use the variable names of an equal earlier query."""
    known = goal.identity is pred.TRUE.identity or goal.identity in facts.known
    if known or (isinstance(goal, pred.NonNegative) and never_negative(goal.expression)):
        statistics.trivial += 1
        return Proved("trivial")
    key = (facts.identity, goal.identity, thorough, _smt.get())
    found = _memo.get(key)
    if found is not None:
        statistics.memo += 1
        return found
    answer = (
        _decide_conjunction(facts, goal, thorough)
        if isinstance(goal, pred.All)
        else _decide_simple(facts, goal, thorough)
    )
    _remember(key, answer)
    return answer


def _variables(facts: Facts, goal: pred.Predicate) -> Iterator[ix.Var]:
    for predicate in (*facts.predicates, goal):
        yield from (atom for atom in pred.atoms_of(predicate) if isinstance(atom, ix.Var))


@contextmanager
def without_smt() -> Iterator[None]:
    """Disable z3 inside a `with` block: goals that only z3 proves are unknown there.

    >>> from atl.core.index import size
    >>> from atl.core.predicate import at_most
    >>> n, m = size("n"), size("m")
    >>> square = at_most(n * m * 2, n * n + m * m)
    >>> prove(Facts(), square)
    Proved(layer='z3', vacuous=False)
    >>> with without_smt():
    ...     prove(Facts(), square)
    Unknown(reason='z3 was not used')
    """
    before = _smt.set(False)
    try:
        yield
    finally:
        _smt.reset(before)


def contradictory(facts: Facts) -> bool | None:
    """Return True if no integers satisfy the facts, False if some do, and None if unknown.

    `prove(facts, FALSE)` gives the same answer, with the integers as a counterexample.
    """
    match prove(facts, pred.FALSE):
        case Proved():
            return True
        case Refuted():
            return False
        case Unknown():
            return None


def forget() -> None:
    """Clear the memo. Answers do not depend on it."""
    _memo.clear()
    _inconsistencies.clear()


def _remember(key: Key, answer: Answer) -> None:
    if len(_memo) >= MEMO_SIZE:
        for old in list(_memo)[: MEMO_SIZE // 10]:
            _memo.pop(old, None)  # another thread may have evicted it
    _memo[key] = answer


def _decide_conjunction(facts: Facts, goal: pred.All, thorough: bool) -> Answer:
    """Prove each part separately; a refuted part decides the answer."""
    worst: Answer = Proved("trivial")
    for part in goal.parts:
        answer = _decide(facts, part, thorough)
        match answer:
            case Refuted():
                return answer
            case Unknown():
                worst = answer
            case Proved(layer, vacuous):
                if isinstance(worst, Proved):
                    deeper = max(worst.layer, layer, key=("trivial", "linear", "z3").index)
                    worst = Proved(deeper, worst.vacuous or vacuous)
    return worst


def _by_cases(facts: Facts, goal: pred.Predicate) -> bool:
    """Split an open query into cases, and return True if all of them are proved."""
    alternative = split_alternatives(facts, goal)
    if alternative is not None:
        return isinstance(prove(*alternative), Proved)
    cases = split_remainders(facts, goal)
    return bool(cases) and all(isinstance(prove(*case, thorough=False), Proved) for case in cases)


def _decide_simple(facts: Facts, goal: pred.Predicate, thorough: bool) -> Answer:
    """Decide a goal that is not a conjunction. Quick queries ignore irrelevant facts, and then are never refuted."""
    near = facts if thorough else relevant(facts, goal)
    if near is facts:
        return _decide_connected(facts, goal, thorough)
    answer = _decide(near, goal, thorough)
    return answer if isinstance(answer, Proved) else Unknown("the quick layers of the prover found no proof")


def _decide_connected(facts: Facts, goal: pred.Predicate, thorough: bool) -> Answer:
    """Decide the goal from the connected facts, and check the other facts for contradictions.

    A goal without leaves is decided from the facts connected to the first fact.
    """
    topics = symbols_of(goal) or frozenset().union(*facts.topics[:1])
    near, rest = facts.about(topics)
    answer = _decide_numbered(near, goal, thorough)
    if isinstance(answer, Proved) or not rest.predicates:
        return answer
    match _decide(rest, pred.FALSE, thorough):
        case Proved(layer):
            return Proved(layer, vacuous=True)
        case Refuted(model):
            return Refuted(answer.model.joined(model)) if isinstance(answer, Refuted) else answer
        case Unknown(reason):
            return Unknown(reason) if isinstance(answer, Refuted) else answer


def _decide_numbered(facts: Facts, goal: pred.Predicate, thorough: bool) -> Answer:
    """Decide a query with its variables numbered, so that renamed queries share a memo entry."""
    numbered, numbered_goal, variables = renumbered(facts, goal)
    key = (numbered.identity, numbered_goal.identity, thorough, _smt.get())
    answer = _memo.get(key)
    if answer is None:
        answer = _Query(numbered, numbered_goal, thorough=thorough).answer()
        _remember(key, answer)
    else:
        statistics.memo += 1
    return Refuted(answer.model.of_variables(variables)) if isinstance(answer, Refuted) else answer


# -- one query --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Query:
    """One query, which is passed through the layers.

    `thorough` enables the slow layers. `simplified` and `as_written` record which rewritings of the goal were tried, so
    that each is tried once.
    """

    facts: Facts
    goal: pred.Predicate
    thorough: bool
    simplified: bool = False
    as_written: bool = False

    def answer(self) -> Answer:
        if any(isinstance(atom, ix.Xor) for atom in pred.atoms_of(self.goal)) and self._by_bits(thorough=False):
            return self._proved("linear")
        if isinstance(self.goal, pred.NonNegative) and has_only_non_negative_terms(self.facts, self.goal.expression):
            return self._proved("linear")
        original = self.facts.predicates, pred.negation(self.goal)
        predicates = original if self.as_written else self._divided_out()
        solution = _solve_equalities(*predicates)
        table, known, denied = Table(), System(), System()
        for predicate in solution.facts:
            read_predicate(table, predicate, known)
        read_predicate(table, solution.denied, denied)
        whole = known.copy()
        whole.add(denied)
        if any(not case for case in whole.cases):
            return self._proved("linear")
        # Most quick queries do not follow, and finding a counterexample is faster than exhausting the proof search.
        samples = None if self.thorough else search(table, whole, undefined=not _divides(self.goal))
        if samples and (model := self._sampled(samples, FIRST_TRIES, table, solution)) is not None:
            return Refuted(model)
        if refuted(table, known, denied, effort=FIRST_BUDGET, splits=0):
            return self._proved("linear")
        if samples is None:
            samples = search(table, whole, undefined=not _divides(self.goal))
            if (model := self._sampled(samples, FIRST_TRIES, table, solution)) is not None:
                return Refuted(model)
        if self._at_ends() or (self.thorough and refuted_by_rounding(table, known, denied)):
            return self._proved("linear")
        effort = BUDGET if self.thorough else QUICK_BUDGET
        split = bool(whole.cases) or any(isinstance(atom, ix.Extremum | ix.Read) for atom in table.atoms.values())
        if split and refuted(table, known, denied, effort=effort):
            return self._proved("linear")
        if self.thorough and (model := self._sampled(samples, MORE_TRIES, table, solution)) is not None:
            return Refuted(model)
        products = any(len(monomial) > 1 for monomial in table.monomials)
        if products and refuted(table, known, denied, effort=effort, wide=True):
            return self._proved("linear")
        if predicates != original and not self.simplified:
            return replace(self, as_written=True).answer()
        if not self.thorough:
            statistics.unknown += 1
            return Unknown("the quick layers of the prover found neither a proof nor a counterexample")
        if (model := self._sampled(samples, LAST_TRIES, table, solution)) is not None:
            return Refuted(model)
        if not self.simplified and (simpler := self._simpler()) != self.goal:
            if simpler == pred.TRUE:
                return self._proved("linear")
            answer = _Query(self.facts, simpler, thorough=True, simplified=True).answer()
            if isinstance(answer, Refuted) and not realisable(self._arrays(table), answer.model):
                return Unknown("no array has the declared properties and the elements that were found")
            return answer
        if self._by_bits(thorough=True) or _by_cases(self.facts, self.goal) or self._with_solved(solution):
            return self._proved("linear")
        plain = with_plain_limits(self.facts)
        if plain is not self.facts:
            return replace(self, facts=plain).answer()
        return self._by_z3(table, whole, solution)

    def _by_bits(self, *, thorough: bool) -> bool:
        """Decompose the goal into bits, and prove the remaining goal."""
        left = by_bits(self.facts, self.goal)
        return left is not None and isinstance(_decide(self.facts, left, thorough), Proved)

    def _with_solved(self, solution: _Solution) -> bool:
        """Prove the goal after substituting solved equalities, as this may cancel parts of an exclusive or."""
        if not solution.solved or not any(isinstance(atom, ix.Xor) for atom in pred.atoms_of(self.goal)):
            return False
        facts, goal = list(self.facts.predicates), self.goal
        for leaf, value in solution.solved:
            facts = [_substituted(fact, leaf, value) for fact in facts]
            goal = _substituted(goal, leaf, value)
        return isinstance(prove(Facts().assume(*facts), goal, thorough=self.thorough), Proved)

    def _divided_out(self) -> tuple[tuple[pred.Predicate, ...], pred.Predicate]:
        """Return the facts and the negated goal, with multiples of positive divisors taken out of quotients.

        For example, (n + k) // k becomes n // k + 1.
        """
        original = self.facts.predicates, pred.negation(self.goal)
        facts, denied = original
        if not any(map(_may_be_divided_out, (*facts, denied))):
            return original
        everything = [expression for predicate in (*facts, denied) for expression in pred.expressions(predicate)]
        found = {divisor: None for expression in everything for divisor in divisors(expression)}
        # Use only facts without quotients, so that this query does not recur.
        plain = self.facts.only(lambda fact: not _divides(fact))
        positive = {d for d in found if proves(plain, pred.less(ix.ZERO, d), thorough=False)}
        if not positive:
            return original

        def divide(a: ix.Index, b: ix.Index) -> ix.Index:
            if b.constant is not None and b.constant <= 0:
                return ix.index(ix.Quotient(a, b))  # an undefined quotient
            return ix.divide_out(a, b) if b in positive else ix.floordiv(a, b)

        def taken_out(predicate: pred.Predicate) -> pred.Predicate:
            if not _may_be_divided_out(predicate):
                return predicate
            return pred.map_indices(predicate, lambda e: ix.map_leaves(e, ix.index, divide))

        return tuple(taken_out(fact) for fact in facts), taken_out(denied)

    def _at_ends(self) -> bool:
        """Prove a nonlinear inequality at the ends of the variables' ranges."""
        if not isinstance(self.goal, pred.NonNegative):
            return False
        nonlinear = any(len(monomial) > 1 for monomial, _ in self.goal.expression.terms)
        return nonlinear and is_least_at_ends(self.facts, self.goal.expression, self._can_prove)

    def _can_prove(self, predicate: pred.Predicate) -> bool:
        return proves(self.facts, predicate, thorough=False)

    def _simpler(self) -> pred.Predicate:
        """Return the goal with its quotients, minima and maxima simplified by the quick layers."""
        return pred.map_indices(self.goal, lambda expression: reduced(expression, self._can_prove))

    def _sampled(self, samples: Search, tries: int, table: Table, solution: _Solution) -> Model | None:
        sample = samples.sample(tries)
        model = None if sample is None else self._checked(table, sample, solution)
        statistics.search += model is not None
        return model

    def _proved(self, layer: Literal["linear", "z3"]) -> Proved:
        if layer == "linear":
            statistics.linear += 1
        else:
            statistics.z3 += 1
        return Proved(layer, self.goal == pred.FALSE or _inconsistent(self.facts))

    def _by_z3(self, table: Table, whole: System, solution: _Solution) -> Answer:
        if not _smt.get():
            statistics.unknown += 1
            return Unknown("z3 was not used")
        if self._by_related_facts(table):
            return self._proved("z3")
        reason = ""
        for defined in (False, True):
            verdict = solve(table, whole, defined=defined)
            match verdict:
                case Contradiction():
                    if not defined:
                        return self._proved("z3")
                    reason = "the goal holds if every divisor is positive, which was not proved"
                    break
                case Sample():
                    if model := self._checked(table, verdict, solution):
                        statistics.z3_refuted += 1
                        return Refuted(model)
                case GaveUp(reason):
                    break
        statistics.unknown += 1
        return Unknown(reason or "z3's counterexample needs a quotient by zero or less")

    def _by_related_facts(self, table: Table) -> bool:
        """Prove a nonlinear goal with z3 from the facts about its leaves only, as z3 often fails on more products."""
        topics = symbols_of(self.goal)
        related = self.facts.only(lambda fact: symbols_of(fact) <= topics)
        if len(related.predicates) == len(self.facts.predicates) or all(len(each) < 2 for each in table.monomials):
            return False
        few, system = Table(), System()
        for predicate in (*related.predicates, pred.negation(self.goal)):
            read_predicate(few, predicate, system)
        return isinstance(solve(few, system, defined=False, steps=STEPS_AGAIN), Contradiction)

    def _checked(self, table: Table, sample: Sample, solution: _Solution) -> Model | None:
        """Return the sample as a model if it satisfies the facts and not the goal."""
        leaves: dict[ix.Leaf, int] = {}
        for column, atom in table.atoms.items():
            if isinstance(atom, ix.Size | ix.Bound | ix.Var):
                leaves[atom] = sample.leaves[column]
        elements = [(name, position, value) for (name, position), value in sample.elements.items()]
        try:
            for leaf, value in reversed(solution.solved):
                leaves[leaf] = model_of(leaves.items(), elements).value(value)
            model = model_of(leaves.items(), elements)
            negative = any(isinstance(leaf, ix.Size) and value < 0 for leaf, value in model.leaves)
            if negative or model.satisfies(self.goal) or not realisable(self._arrays(table), model):
                return None
        except ZeroDivisionError:
            return None
        undefined = not _divides(self.goal)
        for fact in self.facts.predicates:
            try:
                if not model.satisfies(fact):
                    return None
            except ZeroDivisionError:
                if not undefined:
                    return None
        return model

    def _arrays(self, table: Table) -> Iterator[ix.Array]:
        """Yield the arrays that are read in the query, also if a substitution removed the read."""
        for predicate in (*self.facts.predicates, self.goal):
            yield from (atom.array for atom in pred.atoms_of(predicate) if isinstance(atom, ix.Read))
        yield from (atom.array for atom in table.atoms.values() if isinstance(atom, ix.Read))


def _inconsistent(facts: Facts) -> bool:
    """Return True if linear arithmetic without case splits proves that the facts are contradictory."""
    found = _inconsistencies.get(facts)
    if found is None:
        table, known = Table(), System()
        for predicate in facts.predicates:
            read_predicate(table, predicate, known)
        known.cases = [case for case in known.cases if not case]
        found = refuted(table, known, System(), effort=CONSISTENCY_BUDGET)
        if len(_inconsistencies) >= MEMO_SIZE:
            _inconsistencies.clear()
        _inconsistencies[facts] = found
    return found


def _may_be_divided_out(predicate: pred.Predicate) -> bool:
    """Return True if dividing out may change a quotient of the predicate."""
    return any(map(_contains_multiple, pred.atoms_of(predicate)))


def _contains_multiple(atom: ix.AnyAtom) -> bool:
    """Return True if some term of the numerator contains the divisor, a single product."""
    if not isinstance(atom, ix.Quotient) or len(atom.denominator.terms) != 1:
        return False
    ((factors, _),) = atom.denominator.terms
    return atom.numerator.constant is not None or any(
        all(factor in monomial for factor in factors) for monomial, _ in atom.numerator.terms
    )


def _divides(predicate: pred.Predicate) -> bool:
    """Return True if the predicate contains a quotient."""
    return any(isinstance(atom, ix.Quotient) for atom in pred.atoms_of(predicate))


# -- equalities -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Solution:
    """The predicates after substituting the leaves that equalities determine."""

    facts: Sequence[pred.Predicate]
    denied: pred.Predicate
    solved: Sequence[tuple[ix.Leaf, ix.Index]]


def _solve_equalities(facts: Sequence[pred.Predicate], denied: pred.Predicate) -> _Solution:
    """Substitute each leaf that an equality determines, also inside quotients and reads."""
    left = [*facts, *pred.conjuncts(denied)]
    declaring = {leaf for predicate in left for leaf in _declaring(predicate)}
    solved: list[tuple[ix.Leaf, ix.Index]] = []
    position = 0
    while position < len(left):
        predicate = left[position]
        position += 1
        if not isinstance(predicate, pred.Zero) or (found := _solvable(predicate.expression, declaring)) is None:
            continue
        leaf, value = found
        try:
            replaced = [_substituted(other, leaf, value) for other in left]
        except (ATLError, ZeroDivisionError):
            continue
        left = replaced
        solved.append((leaf, value))
        if isinstance(leaf, ix.Size):
            left.append(pred.non_negative(value))
        position = 0
    if not solved:
        return _Solution(facts, denied, solved)
    return _Solution(left, pred.TRUE, solved)


def _substituted(predicate: pred.Predicate, leaf: ix.Leaf, value: ix.Index) -> pred.Predicate:
    return pred.substitute(predicate, lambda other: value if other == leaf else ix.index(other))


def _declaring(predicate: pred.Predicate) -> Iterator[ix.AnyAtom]:
    """Yield the atoms in the declarations of arrays that are read; these sizes are not substituted."""
    for atom in pred.atoms_of(predicate):
        if isinstance(atom, ix.Read):
            for part in declared(atom.array):
                yield from ix.atoms(part)


def _solvable(expression: ix.Index, kept: set[ix.AnyAtom]) -> tuple[ix.Leaf, ix.Index] | None:
    """Solve expression = 0 for a leaf that has coefficient 1 or -1 and occurs only once."""
    best: tuple[ix.Leaf, int] | None = None
    for monomial, coefficient in expression.terms:
        if len(monomial) != 1 or abs(coefficient) != 1:
            continue
        leaf: ix.AnyAtom = monomial[0]
        if (
            not isinstance(leaf, ix.Size | ix.Bound | ix.Var)
            or leaf in kept
            or sum(atom == leaf for atom in ix.atoms(expression)) != 1
        ):
            continue
        if best is None or not isinstance(leaf, ix.Size):
            best = (leaf, coefficient)
    if best is None:
        return None
    leaf, coefficient = best
    rest = expression - ix.index(leaf) * coefficient
    return leaf, -rest if coefficient > 0 else rest


# -- simplification ---------------------------------------------------------------------------------------------------


def simplify(facts: Facts, expression: ix.Index) -> ix.Index:
    """Return an expression equal to `expression` wherever the facts hold.

    Quotients by positive divisors: a // b = 0 for 0 <= a < b; multiples of the divisor and common factors are taken
    out; (a // b) // c = a // (b * c). Redundant choices of a minimum or maximum are dropped.
    """
    return reduced(expression, lambda predicate: holds(facts, predicate))


def simplify_predicate(facts: Facts, predicate: pred.Predicate) -> pred.Predicate:
    """Return a predicate equivalent to `predicate` wherever the facts hold.

    Decided parts are dropped. Parts are processed left to right: each part of a conjunction is a fact for the later
    parts, and so is the negation of each part of a disjunction.
    """
    match predicate:
        case pred.All(parts):
            kept: list[pred.Predicate] = []
            for part in parts:
                simpler = simplify_predicate(facts, part)
                if simpler == pred.FALSE:
                    return pred.FALSE
                kept.append(simpler)
                facts = facts.assume(simpler)
            return pred.conjunction(kept)
        case pred.Any(parts):
            kept = []
            for part in parts:
                simpler = simplify_predicate(facts, part)
                if simpler == pred.TRUE:
                    return pred.TRUE
                kept.append(simpler)
                facts = facts.assume(pred.negation(simpler))
            return pred.disjunction(kept)
        case pred.NonNegative() | pred.Zero() | pred.NonZero():
            simpler = pred.map_indices(predicate, lambda expression: simplify(facts, expression))
            if holds(facts, simpler):
                return pred.TRUE
            return pred.FALSE if holds(facts, pred.negation(simpler)) else simpler
    assert_never(predicate)


def holds(facts: Facts, goal: pred.Predicate) -> bool:
    """Return True if the quick layers of the prover prove the goal."""
    return proves(facts, goal, thorough=False)
