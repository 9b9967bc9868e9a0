"""What must hold of a loop nest for it to mean its program (§5.3.2, §5.3.3, §5.5.5), stated and put to the prover.

Each store lies within its buffer, pair by pair; an assignment never meets a cell that holds a value: its reindexer is
injective on what is stored, and two assignments to one buffer have no cell in common; each buffer has room for what it
holds; the keys of a merge rise. That the flat address is within the buffer, and differs where the pairs do, follows:
Horner's rule is injective on indices within their extents. That reindexers preserve variables, commute with
substitution and respect equality needs no query: they are compositions of functions on canonical index expressions.

Nothing rests on these answers: a program is compiled because its pad-sets allow it, and the loop-nest interpreter
checks the same things as it runs. They say how much is known before any run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, assert_never, get_args

from atl.checks.scope import initial_facts
from atl.core.index import ZERO, Index, Var, index
from atl.core.predicate import FALSE, Predicate, at_most, conjunction, equal, within
from atl.prove import Answer, Facts, Proved, Refuted, prove
from atl.text.printing import show_predicate
from lowering.nest.loopnest import (
    Accumulate,
    Allocate,
    Assign,
    Block,
    Buffer,
    Cell,
    Clear,
    Declare,
    For,
    Free,
    If,
    LoopNest,
    Scalar,
    elements,
)
from lowering.nest.meeting import meeting, other
from lowering.nest.walks.merges import Merge, is_merge, merge_at
from lowering.nest.walks.order import rising

Kind: TypeAlias = Literal["bounds", "injectivity", "disjointness", "allocation", "order"]


@dataclass(frozen=True, slots=True)
class Obligation:
    """A goal to be proved from facts; a goal of false says that the facts contradict each other.

    It is about a buffer of this name, or the order of keys at the position that has it.
    """

    kind: Kind
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
class Report:
    """Which obligations of a nest are proved; the others are checked by the loop-nest interpreter in tests."""

    proved: tuple[Obligation, ...]
    unproved: tuple[tuple[Obligation, Answer], ...]

    @property
    def refuted(self) -> tuple[Obligation, ...]:
        """Those that are false: there are none in what `lower` makes."""
        return tuple(obligation for obligation, answer in self.unproved if isinstance(answer, Refuted))

    def __str__(self) -> str:
        lines = [f"{len(self.proved)} of {len(self.proved) + len(self.unproved)} obligations proved"]
        for kind in get_args(Kind):
            held = sum(obligation.kind == kind for obligation in self.proved)
            left = sum(obligation.kind == kind for obligation, _ in self.unproved)
            if held or left:
                lines.append(f"  {kind}: {held} proved, {left} left to the loop-nest interpreter")
        lines.extend(f"  not proved: {obligation}" for obligation, _ in self.unproved)
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _Store:
    """A store into a buffer: what is known there, and the loops between the buffer's emptying and the store."""

    cell: Cell
    assigns: bool
    facts: Facts
    loops: tuple[Var, ...]


def report(nest: LoopNest) -> Report:
    """States the obligations of a loop nest and asks the prover for each."""
    proved: list[Obligation] = []
    unproved: list[tuple[Obligation, Answer]] = []
    for obligation in obligations(nest):
        answer = obligation.decide()
        if isinstance(answer, Proved):
            proved.append(obligation)
        else:
            unproved.append((obligation, answer))
    return Report(tuple(proved), tuple(unproved))


def obligations(nest: LoopNest) -> Iterator[Obligation]:
    """All obligations of a nest, in the order of its text."""
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
    """Collects the stores of a nest, buffer by buffer, and the obligations of its allocations."""

    def __init__(self, nest: LoopNest) -> None:
        self.found: list[Obligation] = []
        self.stores: dict[int, list[_Store]] = {nest.output.uid: []}
        self._strict = nest.strict
        self._fingers: set[Var] = set()  # the loops of merges that were looked at with those around them
        self._room: dict[int, Index] = {}
        self._emptied: dict[int, int] = {nest.output.uid: 0}

    def block(self, block: Block, facts: Facts, loops: tuple[Var, ...]) -> None:
        for statement in block:
            match statement:
                case For(variable, low, high, body):
                    self._order(statement, facts)
                    self.block(body, facts.assume(within(low, index(variable), high)), (*loops, variable))
                case If(predicate, body):
                    self.block(body, facts.assume(predicate), loops)
                case Assign(target):
                    self._store(target, True, facts, loops)
                case Accumulate(target):
                    self._store(target, False, facts, loops)
                case Allocate(buffer, capacity):
                    self._room[buffer.uid] = capacity
                    self._empty(buffer, facts, loops)
                case Clear(buffer):
                    self._empty(buffer, facts, loops)
                case Declare() | Free():
                    pass
                case _:
                    assert_never(statement)

    def _order(self, loop: For, facts: Facts) -> None:
        """The keys of a merge rise."""
        walk = merge_at(loop) if is_merge(loop) and loop.variable not in self._fingers else None
        for finger in walk.fingers if isinstance(walk, Merge) else ():
            self._fingers.add(finger.variable)
            asked = rising(finger, facts, strict=finger.variable in self._strict)
            self.found.append(Obligation("order", finger.variable.name, *asked))

    def _store(self, cell: Cell | Scalar, assigns: bool, facts: Facts, loops: tuple[Var, ...]) -> None:
        if isinstance(cell, Scalar):
            return
        since = loops[self._emptied[cell.buffer.storage.uid] :]
        self.stores.setdefault(cell.buffer.uid, []).append(_Store(cell, assigns, facts, since))

    def _empty(self, buffer: Buffer, facts: Facts, loops: tuple[Var, ...]) -> None:
        """From here on the buffer holds nothing, and has room for all of its elements."""
        self._emptied[buffer.uid] = len(loops)
        count = elements(buffer.room)
        if not _variables(count) <= {variable.uid for variable in loops}:
            return  # hoisted: what it holds is known where it is emptied
        self.found.append(Obligation("allocation", buffer.name, facts, at_most(count, self._room[buffer.uid])))


def _variables(expression: Index) -> frozenset[int]:
    return expression.free


def _bounds(store: _Store) -> Iterator[Obligation]:
    for position, extent in store.cell.pairs:
        yield Obligation("bounds", store.cell.buffer.name, store.facts, within(ZERO, position, extent))


def _injectivity(store: _Store) -> Iterator[Obligation]:
    """Two iterations that store to the same pairs are the same iteration."""
    if not store.loops:
        return
    same = conjunction(equal(index(variable), other(variable)) for variable in store.loops)
    yield Obligation("injectivity", store.cell.buffer.name, _both(store, store), same)


def _disjointness(store: _Store, another: _Store) -> Obligation:
    """No two iterations of two assignments store to the same pairs."""
    return Obligation("disjointness", store.cell.buffer.name, _both(store, another), FALSE)


def _both(store: _Store, another: _Store) -> Facts:
    """That a store and another one, with variables of its own for the loops around it, are to one cell."""
    return meeting(store.cell.pairs, store.facts, another.cell.pairs, another.facts, another.loops)
