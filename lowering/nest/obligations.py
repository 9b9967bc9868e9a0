"""Proof obligations of loop nests (§5.3.2, §5.3.3, §5.5.5), under which a nest computes its program.

- Each store is within the bounds of its buffer, pair by pair.
- No assignment overwrites a value: its reindexer is injective, and assignments to one buffer have no common cell.
- Each buffer is large enough for its elements.
- The keys of a merge increase.

It follows that flat addresses are in bounds, and differ where the pairs do: Horner's rule is injective on indices
within their extents. Reindexers preserve variables, commute with substitution and respect equality without a proof
obligation, since they are compositions of functions on canonical index expressions.

These answers are informative: compilation relies on pad-sets, and the loop-nest interpreter checks the same properties
at run time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, assert_never, get_args

from atl.checks.scope import initial_facts
from atl.core.index import ZERO, Index, Leaf, Var, index, map_leaves
from atl.core.predicate import FALSE, Predicate, at_most, conjunction, equal, less, within
from atl.prove import Answer, Facts, Proved, Refuted, prove
from atl.text.printing import show_predicate
from lowering.nest import loopnest as ln
from lowering.nest.accesses import other_run, same_cell_facts
from lowering.nest.marked_loops import Finger, Merge, is_merge, merge_at

ObligationKind: TypeAlias = Literal["bounds", "injectivity", "disjointness", "allocation", "order"]


@dataclass(frozen=True, slots=True)
class Obligation:
    """A goal to be proved from facts. The goal false means that the facts must contradict each other.

    `buffer` is the name of the buffer, or of the position whose keys must be ordered.
    """

    kind: ObligationKind
    buffer: str
    facts: Facts
    goal: Predicate

    def decide(self) -> Answer:
        return prove(self.facts, self.goal)

    def __str__(self) -> str:
        if self.goal == FALSE:
            return f"{self.kind} of {self.buffer}: never {', '.join(map(show_predicate, self.facts.predicates))}"
        return f"{self.kind} of {self.buffer}: {show_predicate(self.goal)}"


@dataclass(frozen=True, slots=True)
class ObligationReport:
    """The proved and unproved obligations of a nest. Tests check the latter by the loop-nest interpreter."""

    proved: tuple[Obligation, ...]
    unproved: tuple[tuple[Obligation, Answer], ...]

    @property
    def refuted(self) -> tuple[Obligation, ...]:
        """The obligations that are false. Nests that `lower` returns have none."""
        return tuple(obligation for obligation, answer in self.unproved if isinstance(answer, Refuted))

    def __str__(self) -> str:
        lines = [f"{len(self.proved)} of {len(self.proved) + len(self.unproved)} obligations proved"]
        for kind in get_args(ObligationKind):
            held = sum(obligation.kind == kind for obligation in self.proved)
            left = sum(obligation.kind == kind for obligation, _ in self.unproved)
            if held or left:
                lines.append(f"  {kind}: {held} proved, {left} unproved (tested by the loop-nest interpreter)")
        lines.extend(f"  not proved: {obligation}" for obligation, _ in self.unproved)
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _Store:
    """A store into a buffer, with the facts there and the loops since the buffer was cleared."""

    cell: ln.Cell
    assigns: bool
    facts: Facts
    loops: tuple[Var, ...]


def report(nest: ln.LoopNest) -> ObligationReport:
    """Try to prove each obligation of a loop nest."""
    proved: list[Obligation] = []
    unproved: list[tuple[Obligation, Answer]] = []
    for obligation in obligations(nest):
        answer = obligation.decide()
        if isinstance(answer, Proved):
            proved.append(obligation)
        else:
            unproved.append((obligation, answer))
    return ObligationReport(tuple(proved), tuple(unproved))


def obligations(nest: ln.LoopNest) -> Iterator[Obligation]:
    """Yield all obligations of a nest, in the order of its text."""
    facts = initial_facts(nest.assumptions, nest.inputs)
    walk = _Walk(nest)
    walk.block(nest.body, facts, ())
    yield from walk.found
    for stores in walk.stores.values():
        for position, store in enumerate(stores):
            yield from _bounds(store)
            if store.assigns:
                yield from _injectivity(store)
            for another in stores[position + 1 :]:
                if store.assigns and another.assigns:
                    yield _disjointness(store, another)


class _Walk:
    """A traversal that collects the stores to each buffer, and the obligations of allocations and merges."""

    def __init__(self, nest: ln.LoopNest) -> None:
        self.found: list[Obligation] = []
        self.stores: dict[int, list[_Store]] = {output.uid: [] for output in nest.outputs}
        self._strict_keys = nest.strict_keys
        self._fingers: set[Var] = set()  # variables of loops whose merges were visited
        self._room: dict[int, Index] = {}
        self._emptied: dict[int, int] = {output.uid: 0 for output in nest.outputs}

    def block(self, block: ln.Block, facts: Facts, loops: tuple[Var, ...]) -> None:
        for statement in block:
            match statement:
                case ln.For(variable, low, high, body):
                    self._order(statement, facts)
                    self.block(body, facts.assume(within(low, index(variable), high)), (*loops, variable))
                case ln.If(predicate, body):
                    self.block(body, facts.assume(predicate), loops)
                case ln.Assign(target):
                    self._store(target, True, facts, loops)
                case ln.Accumulate(target):
                    self._store(target, False, facts, loops)
                case ln.Allocate(buffer, capacity):
                    self._room[buffer.uid] = capacity
                    self._empty(buffer, facts, loops)
                case ln.Clear(cell=ln.Cell() as cell):
                    self._store(cell, False, facts, loops)
                case ln.Clear(buffer):
                    self._empty(buffer, facts, loops)
                case ln.Declare() | ln.Free() | ln.Gather():
                    pass
                case _:
                    assert_never(statement)

    def _order(self, loop: ln.For, facts: Facts) -> None:
        """Record that the keys of a merge increase."""
        merge = merge_at(loop) if is_merge(loop) and loop.variable not in self._fingers else None
        for finger in merge.fingers if isinstance(merge, Merge) else ():
            self._fingers.add(finger.variable)
            for goal in rising(finger, facts, strict=finger.variable in self._strict_keys):
                self.found.append(Obligation("order", finger.variable.name, *goal))

    def _store(self, cell: ln.Cell | ln.Scalar, assigns: bool, facts: Facts, loops: tuple[Var, ...]) -> None:
        if isinstance(cell, ln.Scalar):
            return
        since = loops[self._emptied[cell.buffer.storage.uid] :]
        self.stores.setdefault(cell.buffer.uid, []).append(_Store(cell, assigns, facts, since))

    def _empty(self, buffer: ln.Buffer, facts: Facts, loops: tuple[Var, ...]) -> None:
        """Record that the buffer is cleared, and that its capacity suffices."""
        self._emptied[buffer.uid] = len(loops)
        count = ln.elements(buffer.allocated_extents)
        if not _variables(count) <= {variable.uid for variable in loops}:
            return  # hoisted: its number of elements is known where it is cleared
        self.found.append(Obligation("allocation", buffer.name, facts, at_most(count, self._room[buffer.uid])))


def _variables(expression: Index) -> frozenset[int]:
    return expression.free


def _bounds(store: _Store) -> Iterator[Obligation]:
    for position, extent in store.cell.pairs:
        yield Obligation("bounds", store.cell.buffer.name, store.facts, within(ZERO, position, extent))


def _injectivity(store: _Store) -> Iterator[Obligation]:
    """Yield the goal that two iterations that store to the same pairs are equal."""
    if not store.loops:
        return
    same = conjunction(equal(index(variable), other_run(variable)) for variable in store.loops)
    yield Obligation("injectivity", store.cell.buffer.name, _both(store, store), same)


def _disjointness(store: _Store, another: _Store) -> Obligation:
    """Return the goal that no iterations of two assignments store to the same pairs."""
    return Obligation("disjointness", store.cell.buffer.name, _both(store, another), FALSE)


def _both(store: _Store, another: _Store) -> Facts:
    """Return the facts that two stores, in any two iterations, are to one cell."""
    return same_cell_facts(store.cell.pairs, store.facts, another.cell.pairs, another.facts, another.loops)


# -- sums of entries --------------------------------------------------------------------------------------------------


def stores_each_cell_once(block: ln.Block, buffer: ln.Buffer, facts: Facts) -> bool:
    """Return whether a block is proved to store at most once to each cell of a buffer, by one statement."""
    stores = list(_stores(block, buffer, facts, ()))
    if len(stores) != 1:
        return False
    (store,) = stores
    for position, variable in enumerate(store.loops):
        # In two iterations that first differ in this loop, of which one is the earlier
        both = same_cell_facts(store.cell.pairs, store.facts, store.cell.pairs, store.facts, store.loops[position:])
        if not isinstance(prove(both.assume(less(index(variable), other_run(variable))), FALSE), Proved):
            return False
    return True


def _stores(block: ln.Block, buffer: ln.Buffer, facts: Facts, loops: tuple[Var, ...]) -> Iterator[_Store]:
    for statement in block:
        match statement:
            case ln.For(variable, body=body):
                yield from _stores(body, buffer, facts.assume(statement.range), (*loops, variable))
            case ln.If(predicate, body):
                yield from _stores(body, buffer, facts.assume(predicate), loops)
            case ln.Assign(ln.Cell() as cell) | ln.Accumulate(ln.Cell() as cell) if cell.buffer == buffer:
                yield _Store(cell, isinstance(statement, ln.Assign), facts, loops)
            case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
                pass
            case _:
                assert_never(statement)


# -- keys of merges ---------------------------------------------------------------------------------------------------


def rises(finger: Finger, facts: Facts, *, strict: bool) -> Answer:
    """Try to prove that the keys of a finger increase, or do not decrease."""
    answers = [prove(*each) for each in rising(finger, facts, strict=strict)]
    return next((answer for answer in answers if not isinstance(answer, Proved)), answers[-1])


def rising(finger: Finger, facts: Facts, *, strict: bool) -> Iterator[tuple[Facts, Predicate]]:
    """Yield goals about each part of the keys at two positions, the first before the second, where earlier parts agree.

    Each goal comes with the facts about the positions.
    """
    loop = finger.loop
    later = other_run(loop.variable)

    def moved(leaf: Leaf) -> Index:
        return later if leaf == loop.variable else index(leaf)

    both = facts.assume(
        loop.range,
        within(loop.low, later, loop.high),
        less(index(loop.variable), later),
    )
    *leading, last = ((key, map_leaves(key, moved)) for key in finger.key)
    for here, there in leading:
        yield both, at_most(here, there)
        both = both.assume(equal(here, there))
    yield both, less(*last) if strict else at_most(*last)
