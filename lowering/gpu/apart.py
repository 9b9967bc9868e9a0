"""What must hold for the threads of kernels never to meet, stated and put to the prover: the report of race freedom.

Two threads of a block are ordered by barriers alone. So two accesses to one cell, of which one changes it, with no
barrier between them on some way through the kernel, must be of one thread: *the same cell means the same thread*, for
each axis of the block. Blocks are ordered by launches alone: between them, the same cell means the same block.

The barriers were derived from the same law, by a walk that puts one where it is not proved. This report is of what came
of it: it looks at a kernel as it is, goes twice round each loop, and takes nothing from that walk. A kernel in which a
barrier is missing has a pair here that is not proved.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from atl.checks.scope import known_at_the_start
from atl.core.index import Index, Leaf, Var, index, map_leaves
from atl.core.predicate import TRUE, Predicate, conjunction, conjuncts, equal, less
from atl.prove import Answer, Facts, Proved, prove, proves
from atl.text.printing import show_predicate
from lowering.gpu.folds import waits_for_all
from lowering.gpu.kernels import Barrier, Branch, HostBlock, HostBranch, HostLoop, Kernels, Launch, Repeat, Run, Steps
from lowering.gpu.touches import Touch, touches
from lowering.nest.accesses import after
from lowering.nest.aliasing import other_run, same_cell_facts
from lowering.nest.loopnest import Allocate, Clear, Declare, Free, Statement, accessed
from lowering.nest.text_scope import TextScope, outermost


@dataclass(frozen=True, slots=True)
class Pair:
    """Two accesses to one buffer that nothing orders: what is known where they meet, and what must follow.

    `between` says of whom they are: of two threads of a block, or of two blocks.
    """

    launch: int
    buffer: str
    one: str
    another: str
    between: str
    facts: Facts
    goal: Predicate

    def decide(self) -> Answer:
        """Axis by axis: of a cell i*m + j the row is the same, and where that is known, the column."""
        facts, answer = self.facts, prove(self.facts, TRUE)
        for part in conjuncts(self.goal):
            answer = prove(facts, part)
            if not isinstance(answer, Proved):
                return answer
            facts = facts.assume(part)
        return answer

    def __str__(self) -> str:
        return f"launch {self.launch}, {self.buffer}: `{self.one}` and `{self.another}`, of two {self.between}"


@dataclass(frozen=True, slots=True)
class Report:
    """Which pairs are proved apart for all sizes, and how many barriers the kernels have."""

    proved: tuple[Pair, ...]
    unproved: tuple[tuple[Pair, Answer], ...]
    barriers: int

    def __bool__(self) -> bool:
        return not self.unproved

    def __str__(self) -> str:
        total = len(self.proved) + len(self.unproved)
        lines = [f"{len(self.proved)} of {total} pairs of accesses proved apart, with {self.barriers} barriers"]
        for between in ("threads", "blocks"):
            held = sum(pair.between == between for pair in self.proved)
            left = sum(pair.between == between for pair, _ in self.unproved)
            if held or left:
                lines.append(f"  of two {between}: {held} proved, {left} not")
        lines.extend(f"  not proved: {pair} ({show_predicate(pair.goal)})" for pair, _ in self.unproved)
        return "\n".join(lines)


def report(kernels: Kernels) -> Report:
    """States for each launch of some kernels that no two threads meet, and asks the prover.

    >>> import atl
    >>> from lowering import lower
    >>> from lowering.gpu.formation import kernels
    >>> text = (
    ...     "f (x : float32[n]) : float32[n, 8] := ⊞[i < n | block.x] "
    ...     "let t | shared := ⊞[j < 8 | thread.x] x[i] in ⊞[j < 8 | thread.x] t[7 - j]")
    >>> print(report(kernels(lower(atl.parse(text), target="cuda"))))
    3 of 3 pairs of accesses proved apart, with 1 barriers
      of two threads: 2 proved, 0 not
      of two blocks: 1 proved, 0 not
    """
    proved: list[Pair] = []
    unproved: list[tuple[Pair, Answer]] = []
    barriers = 0
    nest = kernels.nest
    facts = known_at_the_start(nest.assumptions, nest.inputs)
    for number, (launch, known, scope) in enumerate(_launches(kernels.body, facts, outermost(nest))):
        walk = _Walk(number, launch)
        walk.whole(known, scope)
        barriers += walk.barriers
        for pair in (*walk.found, *walk.of_blocks()):
            answer = pair.decide()
            if isinstance(answer, Proved):
                proved.append(pair)
            else:
                unproved.append((pair, answer))
    return Report(tuple(proved), tuple(unproved), barriers)


def _launches(block: HostBlock, facts: Facts, scope: TextScope) -> Iterator[tuple[Launch, Facts, TextScope]]:
    for step in block:
        match step:
            case Launch():
                yield step, facts, scope
            case HostLoop(variable, body=body):
                yield from _launches(body, facts.assume(step.range), scope.bind(variable, variable.name)[1])
            case HostBranch(predicate, body):
                yield from _launches(body, facts.assume(predicate), scope)
            case Allocate():
                scope = after(scope, step)
            case Clear() | Free():
                pass
            case _:
                assert_never(step)


Rounds: TypeAlias = tuple[tuple[Repeat, int], ...]
"""The loops around, each with the number of the round that it is in."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """An access since the last barrier."""

    touch: Touch
    rounds: Rounds


@dataclass(slots=True)
class _Walk:
    """Goes through a launch as a thread does, twice round each loop, with what was touched since the last barrier."""

    number: int
    launch: Launch
    found: list[Pair] = field(default_factory=list)
    all: list[Touch] = field(default_factory=list)
    barriers: int = 0
    seen: list[_Seen] = field(default_factory=list)
    stated: set[tuple[int, int, str]] = field(default_factory=set)
    kept: dict[int, list[Touch]] = field(default_factory=dict)

    def whole(self, facts: Facts, scope: TextScope) -> None:
        for loop in self.launch.grid:
            facts, (_, scope) = facts.assume(loop.range), scope.bind(loop.variable, loop.variable.name)
        self._steps(self.launch.body, facts, scope, ())
        self.barriers = sum(1 for _ in _barriers(self.launch.body))

    def _steps(self, steps: Steps, facts: Facts, scope: TextScope, rounds: Rounds) -> None:
        for step in steps:
            match step:
                case Barrier():
                    self.seen.clear()
                case Run(statement, sums):
                    self._touched(self._of(statement, facts, scope), rounds)
                    if any(waits_for_all(fold, self.launch.threads) for fold in sums):
                        self.seen.clear()
                case Clear(zeroed=False) | Allocate() | Free():
                    pass
                case Declare() | Clear():
                    self._touched(self._of(step, facts, scope), rounds)
                case Repeat(variable, body=body):
                    before = list(self.seen)
                    inside, bound = facts.assume(step.range), scope.bind(variable, variable.name)[1]
                    for number in (0, 1):
                        self._steps(body, inside, bound, (*rounds, (step, number)))
                    if not proves(facts, less(step.low, step.high)):
                        self._either(before)
                case Branch(predicate, body):
                    before = list(self.seen)
                    self._steps(body, facts.assume(predicate), scope, rounds)
                    self._either(before)
                case _:
                    assert_never(step)
            if isinstance(step, Declare | Allocate):
                scope = after(scope, step)

    def _either(self, before: list[_Seen]) -> None:
        """What is seen after steps that may not be carried out: that, and what was seen before them."""
        known = {id(each) for each in before}
        self.seen = [*before, *(each for each in self.seen if id(each) not in known)]

    def _of(self, statement: Statement, facts: Facts, scope: TextScope) -> list[Touch]:
        """What a statement touches: the same each time that the walk comes to it."""
        if id(statement) not in self.kept:
            self.kept[id(statement)] = list(touches(statement, facts, scope, self.launch.threads, self.launch.places))
            self.all += self.kept[id(statement)]
        return self.kept[id(statement)]

    def _touched(self, here: list[Touch], rounds: Rounds) -> None:
        new = [_Seen(touch, rounds) for touch in here]
        for position, late in enumerate(new):
            for early in (*self.seen, *new[: position + 1]):
                self._pair(early, late)
        self.seen += new

    def _pair(self, early: _Seen, late: _Seen) -> None:
        one, another = early.touch, late.touch
        if isinstance(one.access.statement, Clear) and isinstance(another.access.statement, Clear):
            return  # cells are dealt to the threads by their numbers, whenever they are cleared
        if accessed(one.cell) != accessed(another.cell) or not (one.changes or another.changes):
            return
        # Loops around both: the same iteration, or a later one.
        known: list[Predicate] = []
        own = another
        later = ""
        outer = {id(loop): number for loop, number in early.rounds}
        for loop, number in late.rounds:
            if id(loop) not in outer or later:
                own = own.repeated(loop.variable)
            elif number > outer[id(loop)]:
                own, later = own.repeated(loop.variable), str(id(loop))
                known.append(less(index(loop.variable), other_run(loop.variable)))
        mark = (id(one), id(another), later)
        if mark in self.stated:
            return
        self.stated.add(mark)
        facts = same_cell_facts(one.cell.pairs, one.facts, own.cell.pairs, own.facts, own.own).assume(*known)
        mine = {variable.uid for variable in own.own}

        def renamed(leaf: Leaf) -> Index:
            return other_run(leaf) if isinstance(leaf, Var) and leaf.uid in mine else index(leaf)

        axes = [axis for axis, extent in enumerate(self.launch.threads) if extent > 1]
        goal = conjunction(equal(one.threads[axis], map_leaves(own.threads[axis], renamed)) for axis in axes)
        self.found.append(self._named(one, another, "threads", facts, goal))

    def _named(self, one: Touch, another: Touch, between: str, facts: Facts, goal: Predicate) -> Pair:
        name = one.cell.buffer.name
        return Pair(self.number, name, one.access.text, another.access.text, between, facts, goal)

    def of_blocks(self) -> Iterator[Pair]:
        """Pairs of accesses to what all blocks see: the same cell means the same block."""
        if not self.launch.grid:
            return
        grid = tuple(loop.variable for loop in self.launch.grid)
        shown = [touch for touch in self.all if self.launch.places.get(touch.cell.buffer.uid) is None]
        loops = tuple(_variables_of_repeats(self.launch.body))
        for position, one in enumerate(shown):
            for another in shown[position:]:
                if accessed(one.cell) != accessed(another.cell) or not (one.changes or another.changes):
                    continue
                own = (*another.own, *grid, *loops)
                facts = same_cell_facts(one.cell.pairs, one.facts, another.cell.pairs, another.facts, own)
                goal = conjunction(equal(index(variable), other_run(variable)) for variable in grid)
                yield self._named(one, another, "blocks", facts, goal)


def _barriers(steps: Steps) -> Iterator[Barrier]:
    for step in steps:
        if isinstance(step, Barrier):
            yield step
        elif isinstance(step, Repeat | Branch):
            yield from _barriers(step.body)


def _variables_of_repeats(steps: Steps) -> Iterator[Var]:
    for step in steps:
        if isinstance(step, Repeat):
            yield step.variable
        if isinstance(step, Repeat | Branch):
            yield from _variables_of_repeats(step.body)
