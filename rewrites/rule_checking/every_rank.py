"""A bound on the rank at which a statement can first be false, so that a proof at a small rank holds at every rank.

A statement is *uniform* if it treats every axis of its elements alike and by itself: each index, extent and condition
mentions one axis at most, and is the same expression for each of them. Element p of a side is then computed from reads
at index functions, one for each axis, and from conditions that are conjunctions over the axes.

Take sizes, indices, elements and a position for which a uniform statement is false. Keep some of the axes. For each
condition that fails, keep an axis at which it fails. For each tensor with m index functions, keep m - 1 axes; so many
suffice to tell the functions apart. On the kept axes all conditions have the same truth and reads are equal as
before, so the statement is false at that rank too. `docs/every_rank.md` has the proof. So a uniform statement that is
proved at the rank of this bound or above is true at all higher ranks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import product
from operator import le
from typing import Any, Final, NoReturn, TypeAlias, assert_never

from atl.checks.scope import Scope
from atl.core import predicate as pred
from atl.core import terms
from atl.core.index import ZERO, Index, Leaf, Var, atoms, index, map_leaves
from atl.core.predicate import Predicate
from atl.core.reshape_definitions import origin
from atl.core.substitution import instantiate, instantiate_tensor
from atl.core.traversal import children
from atl.errors import InvalidArgument
from atl.prove import Facts, Proved, prove, simplify
from rewrites.metavariables import Kind
from rewrites.rule import LaterStatements, Rule, ranks_text
from rewrites.rule_checking.element_premises import rule_without_tests, without_tests
from rewrites.rule_checking.symbolic import proved, windowed, windowed_predicate
from rewrites.rule_checking.symbolic_reading import granted, unconditional, unused_ids
from rewrites.rule_statement import (
    LARGEST_RANK,
    MAX_ELEMENT_RANK,
    Ranks,
    RuleStatement,
    choices_of_ranks,
    groups_of,
    is_checked,
    is_choice_of_ranks,
    permutations_of,
    permuted_groups,
)

Axis: TypeAlias = tuple[str, int]
"""A group of metavariables and the number of an axis of its elements."""
EVERY_RANK: Final = " and every rank"


class NotUniform(Exception):
    """A statement that does not treat every axis alike and by itself, with the reason."""


@dataclass(frozen=True, slots=True)
class ReadElement:
    """An element of a tensor metavariable applied to indices, at a position."""

    name: str
    indices: tuple[Index, ...]
    at: tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class IndexElement:
    """The number of an index."""

    expression: Index
    dtype: str | None


@dataclass(frozen=True, slots=True)
class CaseElement:
    """One element if a condition holds, and another one otherwise."""

    condition: Predicate
    value: Element
    otherwise: Element


@dataclass(frozen=True, slots=True)
class FoldElement:
    """A fold of an element over a range."""

    monoid: terms.Monoid
    low: Index
    high: Index
    body: Element


@dataclass(frozen=True, slots=True)
class OperationElement:
    """An operation on elements, of which a literal and padding have none. The operation mentions no index."""

    operation: tuple[object, ...]
    parts: tuple[Element, ...] = ()


Element: TypeAlias = "ReadElement | IndexElement | CaseElement | FoldElement | OperationElement"
"""An element of a side."""
PADDING: Final = OperationElement(("padding",))


@dataclass(frozen=True, slots=True)
class Schema:
    """A uniform statement without its rank: equal for two ranks if one has further axes like those of the other.

    `bounds` has the rank of each group at or above which a false statement has a false instance at that rank.
    """

    parts: tuple[Any, ...]
    bounds: Mapping[str, int]


def bounds_of(rule: Rule) -> Mapping[str, int] | str:
    """Return a bound for each group, or the reason why proofs of the statements do not prove the rule at every rank.

    The bounds are those of the statements of highest rank. These statements are uniform, and no bound is above their
    rank.
    """
    groups = groups_of(rule.metavariables)
    judged = [stated for stated in rule.statements.values() if is_checked(rule.metavariables, stated.element_ranks)]
    highest = {group: max((each.rank_of_group[group] for each in judged), default=-1) for group in groups}
    wanted = highest_checked(rule.metavariables)
    if any(rank < wanted for rank in highest.values()):
        return f"it is not stated at rank {wanted}"
    found = dict.fromkeys(groups, 0)
    for stated in judged:
        high = [group for group, rank in stated.rank_of_group.items() if rank == highest[group]]
        try:
            bounds = schema(stated).bounds if high else {}
        except NotUniform as reason:
            return str(reason)
        for group in high:
            found[group] = max(found[group], bounds[group])
            if found[group] > highest[group]:
                return f"a statement of this form that is false may first be so at rank {found[group]}"
    return found


def is_like(stated: RuleStatement, other: RuleStatement) -> bool:
    """Return whether a statement is true if another one is.

    It may differ from the other one in permutations, and have further axes of which the same is said.
    """
    try:
        found, known = schema(stated), schema(other)
    except NotUniform:
        return False
    return found.parts == known.parts and all(
        rank == other.rank_of_group[group] or rank > other.rank_of_group[group] >= known.bounds[group]
        for group, rank in stated.rank_of_group.items()
    )


def without_implied(rule: Rule) -> Rule:
    """Return a rule without the statements that are true if the others are.

    Those are the statements of ranks above `MAX_ELEMENT_RANK`, and those that differ from another one in permutations
    only. Raises `InvalidArgument` for a statement of such a rank that is not like one of a lower rank.
    """
    judged: dict[Ranks, RuleStatement] = {}
    for ranks, stated in rule.statements.items():
        if _source(rule, stated) not in (None, stated):
            continue
        if max(stated.element_ranks, default=0) > MAX_ELEMENT_RANK:
            raise InvalidArgument(
                f"the statement of {rule.name} for elements of rank {', '.join(map(str, stated.element_ranks))}"
                " does not follow from one of lower rank",
                required=f"statements of rank {MAX_ELEMENT_RANK} or less, and others with further axes like theirs",
            )
        judged[ranks] = stated
    return rule if len(judged) == len(rule.statements) else replace(rule, statements=judged)


def highest_checked(metavariables: Mapping[str, Kind]) -> int:
    """Return the highest rank at which a rule is checked for each choice of its permutations."""
    groups = len(groups_of(metavariables))
    return max((max(ranks[:groups], default=0) for ranks in choices_of_ranks(metavariables)), default=0)


def _lower(metavariables: Mapping[str, Kind], ranks: Ranks) -> Iterator[Ranks]:
    """Yield the highest checked ranks of the groups that are not above these ranks in any group."""
    for lower in product(*(range(min(rank, MAX_ELEMENT_RANK) + 1) for rank in ranks)):
        raised = ((*lower[:at], rank + 1, *lower[at + 1 :]) for at, rank in enumerate(lower) if rank < ranks[at])
        if is_checked(metavariables, lower) and not any(is_checked(metavariables, each) for each in raised):
            yield lower


def _source(rule: Rule, stated: RuleStatement) -> RuleStatement | None:
    """Return a statement for checked ranks which is this one, or of which this one repeats the axes."""
    for lower in _lower(rule.metavariables, stated.element_ranks):
        source = next((rule.statements[ranks] for ranks in rule.statements if ranks[: len(lower)] == lower), None)
        if source is stated or (source is not None and is_like(stated, source)):
            return source
    return None


@lru_cache(maxsize=4096)
def follows(rule: Rule, ranks: Ranks) -> bool:
    """Return whether the statement of a proved rule at these ranks is true: judged, like a lower one, or proved now."""
    stated = rule.statements[ranks]
    if max(stated.element_ranks, default=0) <= MAX_ELEMENT_RANK:
        return True
    return (
        _source(rule, stated) is not None
        or proved(rule_without_tests(replace(rule, statements={ranks: stated}))) is None
    )


def with_sources(rule: Rule, used: Iterable[Ranks]) -> tuple[Ranks, ...]:
    """Return these ranks of statements of a rule, and the ranks of statements that imply those statements.

    If one of them is `MAX_ELEMENT_RANK` or above, the lowest ranks of the rule are added. Random choices seldom meet
    premises at high ranks, so the rule is compared at low ones as well.
    """
    sources = [(ranks, _source(rule, rule.statements[ranks])) for ranks in used]
    every = [each for ranks, of in sources for each in ((ranks,) if of is None else (ranks, of.ranks))]
    if any(max(rule.statements[ranks].element_ranks, default=0) >= MAX_ELEMENT_RANK for ranks in every):
        every.append(min(rule.statements, key=lambda ranks: (sum(rule.statements[ranks].element_ranks), ranks)))
    return tuple(sorted(dict.fromkeys(every)))


def further(rule: Rule, state: Callable[[Ranks], RuleStatement]) -> Mapping[Ranks, RuleStatement]:
    """Return the statements of a rule with further ones up to `LARGEST_RANK` that follow from them.

    There are none if its bounds do not allow it. Of the permutations at those ranks, a reversal, a rotation, and a
    rotation of all axes but two, which are exchanged, are stated now. The others are stated when they are needed.
    """
    groups, permuted = groups_of(rule.metavariables), permuted_groups(rule.metavariables).values()
    if not groups or isinstance(bounds_of(rule), str):
        return rule.statements
    found: dict[Ranks, RuleStatement] = {}
    for ranks in product(range(LARGEST_RANK + 1), repeat=len(groups)):
        if not is_checked(rule.metavariables, ranks):
            with suppress(Exception):  # a user's function may raise anything
                orders = product(*(_representatives(ranks[groups.index(group)]) for group in permuted))
                made = [state((*ranks, *numbers)) for numbers in orders]
                if all(_source(rule, each) is not None for each in made):
                    found |= {each.ranks: each for each in made}
    every = {**rule.statements, **found}
    return WithPermutations(replace(rule, statements=every), state) if permuted and found else every


class WithPermutations(LaterStatements):
    """The statements of a rule that is proved for every rank, with all permutations of axes.

    Iteration yields those that were checked or stated at the declaration. Another permutation of the axes is stated
    when it is first needed, and refused unless the statement is like one that was checked.
    """

    def __init__(self, rule: Rule, state: Callable[[Ranks], RuleStatement]) -> None:
        self._rule = rule
        self._state = state
        self._known: dict[Ranks, RuleStatement | None] = dict(rule.statements)
        self._stated: dict[Ranks, RuleStatement | None] = {}

    def unchecked(self, ranks: Ranks) -> RuleStatement | None:
        """Return what the function returns for these ranks. It may be false; it is for matching only."""
        kinds = self._rule.metavariables
        if ranks not in self._stated:
            self._stated[ranks] = None
            if is_choice_of_ranks(kinds, ranks) and not is_checked(kinds, ranks[: len(groups_of(kinds))]):
                with suppress(Exception):  # a user's function may raise anything
                    self._stated[ranks] = self._state(ranks)
        return self._stated[ranks]

    def __getitem__(self, ranks: Ranks) -> RuleStatement:
        if ranks not in self._known:
            made = self.unchecked(ranks)
            self._known[ranks] = None if made is None or _source(self._rule, made) is None else made
        found = self._known[ranks]
        if found is None:
            raise KeyError(ranks)
        return found

    def __iter__(self) -> Iterator[Ranks]:
        return iter(self._rule.statements)

    def __len__(self) -> int:
        return len(self._rule.statements)


def _representatives(rank: int) -> list[int]:
    """Return the numbers of some permutations of a rank with cycles of different lengths."""
    axes = tuple(range(rank))
    swapped = (1, 0, *axes[3:], 2) if rank > 2 else axes[::-1]
    orders = dict.fromkeys((axes[::-1], (*axes[1:], *axes[:1]), swapped))
    return [permutations_of(rank).index(order) for order in orders]


def ranks_stated(rule: Rule) -> str:
    """Return the ranks of elements of the statements of a rule, in words."""
    return f", for elements of rank {ranks_text(rule.statements)}" if groups_of(rule.metavariables) else ""


def ranks_proved(rule: Rule) -> str:
    """Return the ranks of elements for which a rule is proved if its statements are proved, in words."""
    if not groups_of(rule.metavariables):
        return ""
    reason = bounds_of(rule)
    if not isinstance(reason, str):
        found = {stated.element_ranks for stated in rule.statements.values()}
        every = product(range(LARGEST_RANK + 1), repeat=len(groups_of(rule.metavariables)))
        missing = (ranks for ranks in every if ranks not in found)
        other = next((each for each in missing if any(all(map(le, lower, each)) for lower in found)), None)
        if other is None:
            return EVERY_RANK
        reason = (
            f"the function returned no equation for rank {', '.join(map(str, other))} that repeats one for lower ranks"
        )
    return f"{ranks_stated(rule)}: {reason}"


@lru_cache(maxsize=256)
def schema(stated: RuleStatement) -> Schema:
    """Return a statement without its rank. Raises `NotUniform`."""
    return _Extraction(without_tests(stated)).schema()


@cache
def _labelled(label: str) -> Var:
    """Return the variable with a label; it is the same for statements of all ranks."""
    return Var(next(unused_ids), label)


def _refuse(reason: str) -> NoReturn:
    raise NotUniform(reason)


def _variables(of: Index | Predicate) -> Iterator[Var]:
    found = atoms(of) if isinstance(of, Index) else pred.atoms_of(of)
    return (at for at in found if isinstance(at, Var))


class _Extraction:
    """The extraction of the schema of one statement."""

    def __init__(self, stated: RuleStatement) -> None:
        self.stated = stated
        self.rank = stated.rank_of_group
        self.axes: dict[int, Axis] = {}
        self.labels: dict[int, Var] = {}
        self.inner: set[int] = set()
        """Indices that have many values at one position of the sides: those of folds, and bound ones of no axis."""
        for uid, (name, dimension) in stated.extents.items():
            kind = stated.metavariables[name]
            if dimension >= kind.rank:
                self._declare(uid, (kind.group, dimension - kind.rank), f"extent of {name}")
        for uid, name in stated.names.items():
            kind = stated.metavariables[name]
            if kind.of_axis is not None:
                self._declare(uid, (kind.group, kind.of_axis[1]), f"index {kind.of_axis[0]}")
        self.conditions: dict[str, set[object]] = {group: set() for group in self.rank}
        self.contexts: dict[str, set[object]] = {group: set() for group in self.rank}
        self.reads: dict[tuple[str, str], set[Index]] = {}

    def _declare(self, uid: int, axis: Axis, label: str) -> None:
        self.axes[uid] = axis
        self.labels[uid] = _labelled(f"{label} {axis[0]}")

    def _variable(self, what: str, axis: Axis | None, number: int) -> Var:
        """Return the variable of a position or a bound index, of an axis or of none, numbered among those alike."""
        if axis is None:
            return _labelled(f"{what} {number}")
        made = _labelled(f"{what} {number} of {axis[0]} {axis[1]}")
        self._declare(made.uid, axis, f"{what} {number}")
        return made

    # -- one axis at a time -------------------------------------------------------------------------------------------

    def _axis(self, *parts: Index | Predicate) -> Axis | None:
        """Return the axis that these expressions mention; None if they mention none."""
        found = self._axes(*parts)
        if len(found) > 1:
            _refuse("an expression mentions several axes")
        if found and any(each.uid in self.inner for part in parts for each in _variables(part)):
            _refuse("an expression mentions an axis and a bound index of no axis")
        return next(iter(found), None)

    def _axes(self, *parts: Index | Predicate) -> set[Axis]:
        variables = (variable for part in parts for variable in _variables(part))
        return {self.axes[each.uid] for each in variables if each.uid in self.axes}

    def _template(self, of: Index) -> Index:
        return map_leaves(of, self._unnumbered)

    def _template_of(self, of: Predicate) -> Predicate:
        return pred.substitute(of, self._unnumbered)

    def _unnumbered(self, leaf: Leaf) -> Index:
        return index(self.labels.get(leaf.uid, leaf) if isinstance(leaf, Var) else leaf)

    def _alike(self, what: str, found: Iterable[tuple[Axis, object]]) -> dict[str, frozenset[object]]:
        """Return what is said of an axis of each group. Raises `NotUniform` unless it is said of each axis."""
        of_axis: dict[Axis, set[object]] = {}
        for axis, part in found:
            of_axis.setdefault(axis, set()).add(part)
        out: dict[str, frozenset[object]] = {}
        for group in dict.fromkeys(group for group, _ in of_axis):
            first = of_axis.get((group, 0), set())
            if any(of_axis.get((group, axis), set()) != first for axis in range(self.rank[group])):
                _refuse(f"{what} differ between axes")
            out[group] = frozenset(first)
        return out

    def _sorted(self, what: str, found: Iterable[Predicate]) -> tuple[frozenset[object], dict[str, frozenset[object]]]:
        """Return the predicates that mention no axis, and those of an axis of each group."""
        of_axes: list[tuple[Axis, object]] = []
        others: set[object] = set()
        for each in found:
            axis = self._axis(each)
            if axis is None:
                others.add(each)
            else:
                of_axes.append((axis, self._template_of(each)))
        return frozenset(others), self._alike(what, of_axes)

    # -- the statement ------------------------------------------------------------------------------------------------

    def schema(self) -> Schema:
        stated = self.stated
        lhs, rhs = windowed(stated.lhs), windowed(stated.rhs)
        premises = [windowed_predicate(premise) for premise in stated.premises]
        implied = Facts().assume(*premises)
        granted_all = [*unconditional(lhs), *unconditional(rhs)]
        needed = [each for each in granted_all if not isinstance(prove(implied, each), Proved)]
        facts = implied.assume(*needed)
        at, shapes = self._positions(lhs, rhs)
        inside = [pred.within(ZERO, p, extent) for p, extent in zip(at, lhs.type.shape, strict=True)]
        here = facts.assume(*inside)
        sides = tuple(self._checked(self._read(side, at, here, {}, 0)) for side in (lhs, rhs))
        always = self._sorted("conditions of well-formedness", needed)
        obligations: dict[object, set[Axis | None]] = {}
        for side in (lhs, rhs):
            for obligation, axis in self._conditional(side, Scope(facts), (), (), Counter()):
                obligations.setdefault(obligation, set()).add(axis)
        for axes in obligations.values():
            groups = [axis[0] for axis in axes if axis is not None]
            if any((group, axis) not in axes for group in groups for axis in range(self.rank[group])):
                _refuse("conditions of well-formedness differ between axes")
        types = (lhs.type.dtype, {**stated.element_types}, {**stated.parameter_types})
        parts = (
            sides, shapes, self._sorted("premises", premises), always, frozenset(obligations), types,
        )  # fmt: skip
        return Schema(_ordered(parts), {group: self._bound(group) for group in self.rank})

    def _bound(self, group: str) -> int:
        differences = sum(len(found) - 1 for (of, _), found in self.reads.items() if of == group)
        return max(1, len(self.conditions[group]) + len(self.contexts[group]) + differences)

    def _positions(self, lhs: terms.Expr, rhs: terms.Expr) -> tuple[tuple[Index, ...], object]:
        """Return a position of the sides, and the extents of both of them, those of axes without their numbers."""
        if lhs.type.rank != rhs.type.rank:
            _refuse("the ranks of the sides differ")
        seen: Counter[Axis | None] = Counter()
        at, others, of_axes = [], [], []
        for extents in zip(lhs.type.shape, rhs.type.shape, strict=True):
            axis = self._axis(*extents)
            at.append(index(self._variable("position", axis, seen[axis])))
            if axis is None:
                others.append(extents)
            else:
                of_axes.append((axis, (seen[axis], *map(self._template, extents))))
            seen[axis] += 1
        return tuple(at), (tuple(others), self._alike("extents of the sides", of_axes))

    def _assumed(self, facts: Facts, *further: Predicate) -> Facts:
        """Return the facts and those of the further ones that also hold of fewer axes: those that mention one at most.

        That a disjunction over the axes holds, such as that a test of all of them fails, need not hold of fewer.
        """
        parts = (part for each in further for part in pred.conjuncts(each))
        return facts.assume(*(each for each in parts if len(self._axes(each)) <= 1))

    # -- elements of a side -------------------------------------------------------------------------------------------

    def _read(
        self, term: terms.Expr, at: tuple[Index, ...], facts: Facts, bound: Mapping[int, terms.Expr], folds: int
    ) -> Element:
        """Return an element of a term, with conditions that the facts decide left out."""
        facts = self._assumed(facts, *granted(term, Scope(facts)))
        match term:
            case terms.Metavariable(_, name, _, indices, tensors):
                if tensors:
                    _refuse(f"{name} is a function of a tensor")
                return ReadElement(name, indices, tuple(simplify(facts, position) for position in at))
            case terms.TensorVar(uid):
                return self._read(bound[uid], at, facts, bound, folds)
            case terms.Constant(value, dtype):
                return OperationElement(("literal", value, dtype))
            case terms.Value(expression, dtype):
                return IndexElement(simplify(facts, expression), dtype)
            case terms.Padding():
                return PADDING
            case terms.Gen(low, _, body):
                return self._read(instantiate(body, low + at[0]), at[1:], facts, bound, folds)
            case terms.Reduce(monoid, low, high, body):
                variable = _labelled(f"fold {folds}")
                self.inner.add(variable.uid)
                inner = facts.assume(pred.within(low, index(variable), high))
                element = self._read(instantiate(body, index(variable)), at, inner, bound, folds + 1)
                return FoldElement(monoid, low, high, element)
            case terms.Guard(predicate, body):
                return self._case(predicate, (body, at), None, facts, bound, folds)
            case terms.Select(predicate, left, right):
                return self._case(predicate, (left, at), (right, at), facts, bound, folds)
            case terms.Access(tensor, position):
                there = pred.within(ZERO, position, tensor.type.shape[0])
                return self._case(there, (tensor, (position, *at)), None, facts, bound, folds)
            case terms.Concat(left, right):
                n = left.type.shape[0]
                after = (at[0] - n, *at[1:])
                return self._case(pred.less(at[0], n), (left, at), (right, after), facts, bound, folds)
            case terms.Reshape(op, operand):
                if isinstance(op, terms.Flatten):
                    facts = facts.assume(*(pred.at_most(index(1), extent) for extent in operand.type.shape[:2]))
                where = origin(op, operand.type.shape, at)
                return self._case(where.present, (operand, where.at), None, facts, bound, folds)
            case terms.Let(value, body):
                variable_of = terms.TensorVar(next(unused_ids), "let", value.type)
                inner_bound = {**bound, variable_of.uid: value}
                return self._read(instantiate_tensor(body, variable_of), at, facts, inner_bound, folds)
            case terms.Unary(op, operand):
                return OperationElement((op,), (self._read(operand, at, facts, bound, folds),))
            case terms.Cast(dtype, operand):
                cast = ("cast", dtype, operand.type.dtype)
                return OperationElement(cast, (self._read(operand, at, facts, bound, folds),))
            case terms.Binary(op, left, right):
                both = (left, right)
                return OperationElement((op,), tuple(self._read(part, at, facts, bound, folds) for part in both))
            case terms.Where(test, left, right):
                three = (test, left, right)
                return OperationElement(("where",), tuple(self._read(part, at, facts, bound, folds) for part in three))
            case terms.Rec():
                _refuse("a recurrence")
            case terms.Input() | terms.Local():
                _refuse("an open term")
            case _:
                assert_never(term)

    def _case(
        self, predicate: Predicate, holds: tuple[terms.Expr, tuple[Index, ...]],
        fails: tuple[terms.Expr, tuple[Index, ...]] | None, facts: Facts, bound: Mapping[int, terms.Expr], folds: int,
    ) -> Element:  # fmt: skip
        left: list[Predicate] = []
        known = facts
        for part in pred.conjuncts(predicate):
            if isinstance(prove(known, pred.negation(part)), Proved):
                left = [pred.FALSE]
                break
            if not isinstance(prove(known, part), Proved):
                left.append(part)
                known = self._assumed(known, part)
        condition = pred.conjunction(left)
        if condition == pred.TRUE:
            return self._read(*holds, facts, bound, folds)
        outside = self._assumed(facts, pred.negation(condition))
        otherwise = PADDING if fails is None else self._read(*fails, outside, bound, folds)
        if condition == pred.FALSE:
            return otherwise
        value = self._read(*holds, self._assumed(facts, condition), bound, folds)
        if isinstance(value, CaseElement) and value.otherwise == otherwise:
            # Nested tests with one alternative are one conjunction.
            return CaseElement(pred.conjunction((condition, value.condition)), value.value, otherwise)
        return value if value == otherwise else CaseElement(condition, value, otherwise)

    def _checked(self, element: Element) -> tuple[object, ...]:
        """Return the parts of an element without the numbers of axes, and count its conditions and index functions."""
        match element:
            case CaseElement(condition, value, otherwise):
                return ("case", self._condition(condition), self._checked(value), self._checked(otherwise))
            case ReadElement(name, indices, at):
                kind = self.stated.metavariables[name]
                own, rest = at[: kind.rank], at[kind.rank :]
                if any(self._axis(each) is not None for each in (*indices, *own)):
                    _refuse("an index of one axis is used for another dimension")
                for axis, position in enumerate(rest):
                    if self._axis(position) not in (None, (kind.group, axis)):
                        _refuse("an axis is read at an index of another one")
                if any(each.uid in self.inner for position in rest for each in _variables(position)):
                    _refuse("an index function depends on the index of a fold")
                functions = {self._template(position) for position in rest}
                if len(functions) > 1:
                    _refuse("index functions differ between axes")
                self.reads.setdefault((kind.group, name), set()).update(functions)
                return ("read", name, indices, own, *functions)
            case FoldElement(monoid, low, high, body):
                if self._axis(low, high) is not None:
                    _refuse("the range of a fold depends on an axis")
                return ("fold", monoid, low, high, self._checked(body))
            case IndexElement(expression, dtype):
                if self._axis(expression) is not None:
                    _refuse("an index of an axis is used as a number")
                return ("value", expression, dtype)
            case OperationElement(operation, parts):
                return ("operation", *operation, *map(self._checked, parts))
            case _:
                assert_never(element)

    def _condition(self, condition: Predicate) -> object:
        """Return a condition without the numbers of axes: a conjunction over the axes, or the negation of one."""
        negated = isinstance(condition, pred.Any)
        found = self._sorted("conditions", pred.conjuncts(pred.negation(condition) if negated else condition))
        for group in found[1]:
            self.conditions[group].add(_ordered(found))
        return (negated, found)

    # -- well-formedness ----------------------------------------------------------------------------------------------

    def _conditional(
        self, term: terms.Expr, scope: Scope, context: tuple[Predicate, ...], fails: tuple[object, ...],
        seen: Counter[Axis | None],
    ) -> Iterator[tuple[object, Axis | None]]:  # fmt: skip
        """Yield conditions of well-formedness that neither hold outright nor follow from what holds where they arise.

        Each has its context: the ranges of binders and the tests around it, and the conjunctions that fail there.
        """
        for goal in granted(term, scope):
            if not isinstance(prove(scope.facts, goal), Proved):
                around = _ordered(self._sorted("contexts", context))
                for group in dict.fromkeys(axis[0] for each in context if (axis := self._axis(each)) is not None):
                    self.contexts[group].add(around)
                yield (around, fails, self._template_of(goal)), self._axis(goal)
        for child in children(term):
            inside, known, failing, now = scope, context, fails, seen.copy()
            if child.part.assumes is not None:
                condition = scope.predicate(getattr(term, child.part.assumes))
                if child.part.negated and isinstance(condition, pred.All):
                    # It fails on all axes if it fails on those that are kept, so the context needs no further axis.
                    failing = (*fails, _ordered(self._sorted("contexts", condition.parts)))
                    inside = scope.assume(pred.negation(condition))
                else:
                    held = pred.negation(condition) if child.part.negated else condition
                    known, inside = (*known, *pred.conjuncts(held)), scope.assume(held)
            for binder in child.part.indices:
                low, high = (inside.index(getattr(term, each)) for each in (binder.low, binder.high))
                axis = self._axis(low, high)
                variable = self._variable("bound", axis, now[axis])
                if axis is None:
                    self.inner.add(variable.uid)
                now[axis] += 1
                _, inside = inside.bind(variable.name, low, high, variable.uid)
                known = (*known, *pred.conjuncts(pred.within(low, index(variable), high)))
            yield from self._conditional(child.expr, inside, known, failing, now)


def _ordered(of: Any) -> Any:
    """Return nested tuples with mappings as sets of pairs, which can be compared and hashed."""
    if isinstance(of, dict):
        return frozenset((key, _ordered(value)) for key, value in of.items())
    return tuple(map(_ordered, of)) if isinstance(of, tuple) else of


__all__ = [
    "NotUniform",
    "Schema",
    "WithPermutations",
    "bounds_of",
    "follows",
    "further",
    "is_like",
    "ranks_proved",
    "schema",
    "with_sources",
    "without_implied",
]
