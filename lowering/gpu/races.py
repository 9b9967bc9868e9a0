"""Report of race freedom: for each pair of accesses in a kernel, a statement for the prover.

Threads of a block are ordered by barriers only. Take two accesses to one cell, of which one writes, with no barrier
between them on some path through the kernel. They must be made by one thread: *the same cell implies the same thread*,
for each axis of the block. Blocks are ordered by launches only. So within a launch the same cell implies the same
block.

Barriers were inserted by the same law (`barriers`), by a traversal that adds one where the law is not proved. This
report is independent of that traversal. It inspects a finished kernel and passes through each loop twice. If a barrier
is missing, there is an unproved pair.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from atl.checks.scope import initial_facts
from atl.core.index import Index, Leaf, Var, index, map_leaves
from atl.core.predicate import TRUE, Predicate, conjunction, conjuncts, equal, less
from atl.prove import Answer, Facts, Proved, prove, proves
from atl.text.printing import show_predicate
from lowering.gpu.accesses import ThreadAccess, exchanged_in, thread_accesses
from lowering.gpu.arrivals import Arrival, arrivals
from lowering.gpu.folds import needs_barrier
from lowering.gpu.kernels import (
    Barrier,
    Branch,
    Commit,
    HostBlock,
    HostBranch,
    HostLoop,
    Kernels,
    Launch,
    Repeat,
    Run,
    Steps,
    Wait,
)
from lowering.nest.accesses import after, other_run, same_cell_facts
from lowering.nest.loopnest import Allocate, Clear, Declare, Free, Statement, accessed
from lowering.nest.text import TextScope, outermost


@dataclass(frozen=True, slots=True)
class Pair:
    """Two unordered accesses to one buffer: the facts if they access the same cell, and the goal to prove.

    `between` is "threads" for two threads of a block, or "blocks" for two blocks. It is "copies" if one is an
    asynchronous copy, which has to arrive before the other.
    """

    launch: int
    buffer: str
    one: str
    another: str
    between: str
    facts: Facts
    goal: Predicate

    def decide(self) -> Answer:
        """Prove the goal axis by axis: for a cell i*m + j first the row, then the column under equal rows."""
        facts, answer = self.facts, prove(self.facts, TRUE)
        for part in conjuncts(self.goal):
            answer = prove(facts, part)
            if not isinstance(answer, Proved):
                return answer
            facts = facts.assume(part)
        return answer

    def __str__(self) -> str:
        where = "without an arrival" if self.between == "copies" else f"in two {self.between}"
        return f"launch {self.launch}, {self.buffer}: `{self.one}` and `{self.another}` {where}"


@dataclass(frozen=True, slots=True)
class RaceReport:
    """The pairs of accesses that are proved race-free for all sizes, those that are not, and the number of barriers."""

    proved: tuple[Pair, ...]
    unproved: tuple[tuple[Pair, Answer], ...]
    barriers: int

    def __bool__(self) -> bool:
        return not self.unproved

    def __str__(self) -> str:
        total = len(self.proved) + len(self.unproved)
        lines = [f"{len(self.proved)} of {total} pairs of accesses proved race-free, with {self.barriers} barriers"]
        titles = {"threads": "between threads", "blocks": "between blocks", "copies": "arrivals of copies"}
        for between, title in titles.items():
            held = sum(pair.between == between for pair in self.proved)
            left = sum(pair.between == between for pair, _ in self.unproved)
            if held or left:
                lines.append(f"  {title}: {held} proved, {left} not")
        lines.extend(f"  not proved: {pair} ({show_predicate(pair.goal)})" for pair, _ in self.unproved)
        return "\n".join(lines)


def report(kernels: Kernels) -> RaceReport:
    """State race freedom for each launch, and try to prove it.

    >>> import atl
    >>> from lowering import lower
    >>> from lowering.gpu.outlining import kernels
    >>> text = (
    ...     "f (x : float32[n]) : float32[n, 8] := ⊞[i < n | block.x] "
    ...     "let t | shared := ⊞[j < 8 | thread.x] x[i] in ⊞[j < 8 | thread.x] t[7 - j]")
    >>> print(report(kernels(lower(atl.parse(text), target="cuda"))))
    3 of 3 pairs of accesses proved race-free, with 1 barriers
      between threads: 2 proved, 0 not
      between blocks: 1 proved, 0 not
    """
    proved: list[Pair] = []
    unproved: list[tuple[Pair, Answer]] = []
    barriers = 0
    nest = kernels.nest
    facts = initial_facts(nest.assumptions, nest.inputs)
    for number, (launch, known, scope) in enumerate(_launches(kernels.body, facts, outermost(nest))):
        traversal = _Traversal(number, launch)
        traversal.kernel(known, scope)
        barriers += traversal.barriers
        copied = map(traversal.pair_of, arrivals(launch, *_in_grid(launch, known, scope)))
        for pair in (*traversal.found, *traversal.between_blocks(), *copied):
            answer = pair.decide()
            if isinstance(answer, Proved):
                proved.append(pair)
            else:
                unproved.append((pair, answer))
    return RaceReport(tuple(proved), tuple(unproved), barriers)


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


def _in_grid(launch: Launch, facts: Facts, scope: TextScope) -> tuple[Facts, TextScope]:
    for loop in launch.grid:
        facts, (_, scope) = facts.assume(loop.range), scope.bind(loop.variable, loop.variable.name)
    return facts, scope


Rounds: TypeAlias = tuple[tuple[Repeat, int], ...]
"""The enclosing loops, each with its iteration in this traversal: 0 or 1."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """An access since the last barrier."""

    access: ThreadAccess
    rounds: Rounds


@dataclass(slots=True)
class _Traversal:
    """A traversal of a launch in execution order, twice through each loop; `seen` are the accesses since a barrier."""

    number: int
    launch: Launch
    found: list[Pair] = field(default_factory=list)
    all: list[ThreadAccess] = field(default_factory=list)
    barriers: int = 0
    seen: list[_Seen] = field(default_factory=list)
    stated: set[tuple[int, int, str]] = field(default_factory=set)
    cached: dict[int, list[ThreadAccess]] = field(default_factory=dict)

    def kernel(self, facts: Facts, scope: TextScope) -> None:
        facts, scope = _in_grid(self.launch, facts, scope)
        self._steps(self.launch.body, facts, scope, ())
        self.barriers = sum(1 for _ in _barriers(self.launch.body))

    def _steps(self, steps: Steps, facts: Facts, scope: TextScope, rounds: Rounds) -> None:
        for step in steps:
            match step:
                case Barrier():
                    self.seen.clear()
                case Run(statement, folds):
                    self._exchanged(statement, facts, scope)
                    self._add(self._accesses(statement, facts, scope), rounds)
                    if any(needs_barrier(fold, self.launch.threads) for fold in folds):
                        self.seen.clear()
                case Clear(zeroed=False) | Allocate() | Free() | Commit() | Wait():
                    pass
                case Declare() | Clear():
                    self._add(self._accesses(step, facts, scope), rounds)
                case Repeat(variable, body=body):
                    before = list(self.seen)
                    inside, bound = facts.assume(step.range), scope.bind(variable, variable.name)[1]
                    for number in (0, 1):
                        self._steps(body, inside, bound, (*rounds, (step, number)))
                    if not proves(facts, less(step.low, step.high)):
                        self._merge(before)
                case Branch(predicate, body):
                    before = list(self.seen)
                    self._steps(body, facts.assume(predicate), scope, rounds)
                    self._merge(before)
                case _:
                    assert_never(step)
            if isinstance(step, Declare | Allocate):
                scope = after(scope, step)

    def _merge(self, before: list[_Seen]) -> None:
        """Add what was seen before some steps that may not be executed."""
        known = {id(each) for each in before}
        self.seen = [*before, *(each for each in self.seen if id(each) not in known)]

    def _accesses(self, statement: Statement, facts: Facts, scope: TextScope) -> list[ThreadAccess]:
        """Return the accesses of a statement, the same objects on each visit."""
        if id(statement) not in self.cached:
            found = thread_accesses(statement, facts, scope, self.launch.threads, self.launch.memories)
            self.cached[id(statement)] = list(found)
            self.all += self.cached[id(statement)]
        return self.cached[id(statement)]

    def _add(self, here: list[ThreadAccess], rounds: Rounds) -> None:
        new = [_Seen(access, rounds) for access in here]
        for position, late in enumerate(new):
            for early in (*self.seen, *new[: position + 1]):
                self._pair(early, late)
        self.seen += new

    def _exchanged(self, statement: Statement, facts: Facts, scope: TextScope) -> None:
        """Pair the accesses of a statement to registers that other threads read. Earlier statements cannot race."""
        if id(statement) in self.cached:
            return
        here = list(exchanged_in(statement, facts, scope, self.launch.threads, self.launch.shuffles))
        self.all += here  # pairs are identified by their objects
        for position, late in enumerate(here):
            for early in here[: position + 1]:
                self._pair(_Seen(early, ()), _Seen(late, ()))

    def _pair(self, early: _Seen, late: _Seen) -> None:
        one, another = early.access, late.access
        if isinstance(one.access.statement, Clear) and isinstance(another.access.statement, Clear):
            return  # each cell is always cleared by the same thread
        if accessed(one.cell) != accessed(another.cell) or not (one.writes or another.writes):
            return
        # Loops around both: the same iteration, or a later one.
        known: list[Predicate] = []
        repeated = another
        later = ""
        outer = {id(loop): number for loop, number in early.rounds}
        for loop, number in late.rounds:
            if id(loop) not in outer or later:
                repeated = repeated.repeated(loop.variable)
            elif number > outer[id(loop)]:
                repeated, later = repeated.repeated(loop.variable), str(id(loop))
                known.append(less(index(loop.variable), other_run(loop.variable)))
        key = (id(one), id(another), later)
        if key in self.stated:
            return
        self.stated.add(key)
        facts = same_cell_facts(one.cell.pairs, one.facts, repeated.cell.pairs, repeated.facts, repeated.private)
        facts = facts.assume(*known)
        private = {variable.uid for variable in repeated.private}

        def renamed(leaf: Leaf) -> Index:
            return other_run(leaf) if isinstance(leaf, Var) and leaf.uid in private else index(leaf)

        axes = [axis for axis, extent in enumerate(self.launch.threads) if extent > 1]
        goal = conjunction(equal(one.threads[axis], map_leaves(repeated.threads[axis], renamed)) for axis in axes)
        self.found.append(self._make_pair(one, another, "threads", facts, goal))

    def _make_pair(self, one: ThreadAccess, another: ThreadAccess, between: str, facts: Facts, goal: Predicate) -> Pair:
        name = one.cell.buffer.name
        return Pair(self.number, name, one.access.text, another.access.text, between, facts, goal)

    def pair_of(self, arrival: Arrival) -> Pair:
        """Return the statement that a copy has arrived where its cell is accessed."""
        return self._make_pair(arrival.copy, arrival.access, "copies", arrival.facts, arrival.goal)

    def between_blocks(self) -> Iterator[Pair]:
        """Yield the pairs of accesses to memory that all blocks see: the same cell implies the same block."""
        if not self.launch.grid:
            return
        grid = tuple(loop.variable for loop in self.launch.grid)
        visible = [access for access in self.all if self.launch.memories.get(access.cell.buffer.uid) is None]
        loops = tuple(_variables_of_repeats(self.launch.body))
        for position, one in enumerate(visible):
            for another in visible[position:]:
                if accessed(one.cell) != accessed(another.cell) or not (one.writes or another.writes):
                    continue
                private = (*another.private, *grid, *loops)
                facts = same_cell_facts(one.cell.pairs, one.facts, another.cell.pairs, another.facts, private)
                goal = conjunction(equal(index(variable), other_run(variable)) for variable in grid)
                yield self._make_pair(one, another, "blocks", facts, goal)


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
