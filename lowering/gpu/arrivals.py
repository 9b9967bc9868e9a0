"""Arrival of asynchronous copies: for each access to a row that is copied, a statement that the copy has arrived.

Each thread counts its groups of copies. A copy belongs to the group number g that is committed next. A wait that leaves
the last n of c groups lets the groups below c - n of the thread arrive, and the next barrier those of all threads. Let
a be that number at the last barrier before an access. To be proved, for a copy to the same place of the circular buffer
that is made before the access: g < a.

For rows that are read H iterations after they are copied to S places, this says that n is at most H - 1 (a row has
arrived) and that H is at most S - 1 (no later row is on its way to its place).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from atl.core.index import ONE, ZERO, Index, Leaf, Var, imax, index, map_leaves
from atl.core.predicate import Predicate, at_most, less
from atl.prove import Facts, Proved, prove, proves
from lowering.gpu import kernels as kn
from lowering.gpu.accesses import ThreadAccess, thread_accesses
from lowering.nest import loopnest as ln
from lowering.nest.accesses import after, other_run, same_cell_facts
from lowering.nest.text import TextScope


@dataclass(frozen=True, slots=True)
class Arrival:
    """A copy, an access to the same place after it, and the goal to prove: the copy has arrived."""

    copy: ThreadAccess
    access: ThreadAccess
    facts: Facts
    goal: Predicate
    around: tuple[Var, ...]


@dataclass(frozen=True, slots=True)
class _Groups:
    """The number of groups that a thread has committed, that have arrived, and that have arrived in all threads.

    The last two are lower bounds.
    """

    committed: Index = ZERO
    waited: Index = ZERO
    arrived: Index = ZERO

    def at(self, variable: Var, value: Index) -> _Groups:
        def leaf(found: Leaf) -> Index:
            return value if found == variable else index(found)

        return _Groups(*(map_leaves(e, leaf) for e in (self.committed, self.waited, self.arrived)))


@dataclass(frozen=True, slots=True)
class _Seen:
    """An access, the groups there, and the loops around it that all threads execute together."""

    access: ThreadAccess
    groups: _Groups
    loops: tuple[Var, ...]

    def is_copy(self, launch: kn.Launch) -> bool:
        return self.access.writes and any(loop.uid in launch.copies for loop in self.access.access.loops)


def arrivals(launch: kn.Launch, facts: Facts, scope: TextScope) -> Iterator[Arrival]:
    """Yield the statements to be proved of a launch, in the scope of its grid."""
    if not launch.copies:
        return
    traversal = _Traversal(launch)
    traversal.steps(launch.body, facts, scope, _Groups(), (), record=True)
    for at, copy in enumerate(traversal.seen):
        if not copy.is_copy(launch):
            continue
        for position, other in enumerate(traversal.seen):
            found = _arrival(copy, other, at <= position)
            if found is not None:
                yield found


def _arrival(copy: _Seen, other: _Seen, before: bool) -> Arrival | None:
    """Return the statement about a copy and another access; `before` if the copy is not later in the text."""
    one, another = copy.access, other.access
    if ln.accessed(one.cell) != ln.accessed(another.cell):
        return None
    common = next((a for a, b in zip(copy.loops, other.loops, strict=False) if a == b), None)
    if common is None and not before:
        return None
    private = tuple(dict.fromkeys((*one.private, *copy.loops)))
    own = {variable.uid for variable in private}

    def renamed(leaf: Leaf) -> Index:
        return other_run(leaf) if isinstance(leaf, Var) and leaf.uid in own else index(leaf)

    facts = same_cell_facts(another.cell.pairs, another.facts, one.cell.pairs, one.facts, private)
    if common is not None:
        # In one iteration, no cell is stored twice.
        in_order = at_most if before and not another.writes else less
        facts = facts.assume(in_order(other_run(common), index(common)))
    goal = less(map_leaves(copy.groups.committed, renamed), other.groups.arrived)
    return Arrival(one, another, facts, goal, other.loops)


def with_derived_waits(launch: kn.Launch, facts: Facts, scope: TextScope) -> tuple[kn.Launch, Arrival | None]:
    """Return the launch with the weakest waits that are proved to suffice; without, if it copies nothing.

    The second value is a statement that is not proved with any wait, if there is one.
    """
    if not launch.copies:
        return replace(launch, body=_mapped(launch.body, {}, keep=False)), None
    waits = {step.of: step.groups for step in kn.steps_of(launch.body) if isinstance(step, kn.Wait)}
    failed: Arrival | None = None
    for loop, most in waits.items():
        for groups in range(most, -1, -1):
            launch = replace(launch, body=_mapped(launch.body, {loop: groups}))
            here = (each for each in arrivals(launch, facts, scope) if loop in each.around)
            failed = next((each for each in here if not isinstance(prove(each.facts, each.goal), Proved)), None)
            if failed is None:
                break
        if failed is not None:
            break
    return launch, failed


def _mapped(steps: kn.Steps, groups: Mapping[Var, int], *, keep: bool = True) -> kn.Steps:
    """Return the steps with other numbers of groups in the waits of some loops; or without groups, unless `keep`."""
    out: list[kn.Step] = []
    for step in steps:
        match step:
            case kn.Wait(of=of):
                out += [replace(step, groups=groups.get(of, step.groups))] if keep else []
            case kn.Commit():
                out += [step] if keep else []
            case kn.Repeat(body=body) | kn.Branch(body=body):
                out.append(replace(step, body=_mapped(body, groups, keep=keep)))
            case kn.Run() | kn.Barrier() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free():
                out.append(step)
            case _:
                assert_never(step)
    return tuple(out)


@dataclass(slots=True)
class _Traversal:
    """A traversal of the steps of a launch, which counts groups; `seen` are the accesses in the order of the text."""

    launch: kn.Launch
    seen: list[_Seen] = field(default_factory=list)

    def steps(
        self, steps: kn.Steps, facts: Facts, scope: TextScope, groups: _Groups, loops: tuple[Var, ...], *, record: bool
    ) -> _Groups:
        """Return the groups after the steps; record accesses if `record` is set."""
        for step in steps:
            match step:
                case kn.Commit():
                    groups = replace(groups, committed=groups.committed + ONE)
                case kn.Wait(count):
                    groups = replace(groups, waited=groups.committed - count)
                case kn.Barrier():
                    groups = replace(groups, arrived=groups.waited)
                case kn.Run(statement) | (ln.Declare() as statement) | (ln.Clear(zeroed=True) as statement):
                    if record:
                        self._record(statement, facts, scope, groups, loops)
                case kn.Repeat():
                    groups = self._repeat(step, facts, scope, groups, loops, record=record)
                case kn.Branch(predicate, body):
                    assert not _commits(body), "a group is committed under a condition"
                    self.steps(body, facts.assume(predicate), scope, groups, loops, record=record)
                case ln.Allocate() | ln.Free() | ln.Clear():
                    pass
                case _:
                    assert_never(step)
            if isinstance(step, ln.Declare | ln.Allocate):
                scope = after(scope, step)
        return groups

    def _record(
        self, statement: ln.Statement, facts: Facts, scope: TextScope, groups: _Groups, loops: tuple[Var, ...]
    ) -> None:
        found = thread_accesses(statement, facts, scope, self.launch.threads, self.launch.memories)
        self.seen += [_Seen(access, groups, loops) for access in found]

    def _repeat(
        self,
        loop: kn.Repeat,
        facts: Facts,
        scope: TextScope,
        groups: _Groups,
        loops: tuple[Var, ...],
        *,
        record: bool,
    ) -> _Groups:
        """Pass through a loop. What has arrived never leaves, so the numbers before the loop are lower bounds in it.

        A better one is the number at the end of the previous iteration, if it also holds before the first.
        """
        variable, inside = loop.variable, (*loops, loop.variable)
        _, bound = scope.bind(variable, variable.name)
        known = facts.assume(loop.range)
        each = _commits(loop.body)
        start = replace(groups, committed=groups.committed + (index(variable) - loop.low) * each)
        end = self.steps(loop.body, known, bound, start, inside, record=False)
        previous = replace(end.at(variable, index(variable) - ONE), committed=start.committed)
        first = previous.at(variable, loop.low)
        runs = facts.assume(less(loop.low, loop.high))
        holds_first = proves(runs, at_most(first.waited, groups.waited)) and proves(
            runs, at_most(first.arrived, groups.arrived)
        )
        if holds_first and self.steps(loop.body, known, bound, previous, inside, record=False) == end:
            start = previous
        self.steps(loop.body, known, bound, start, inside, record=record)
        return replace(groups, committed=groups.committed + imax(ZERO, loop.high - loop.low) * each)


def _commits(steps: kn.Steps) -> int:
    """Return the number of groups that an execution of steps commits. Loops of a pipeline are not in other loops."""
    count = 0
    for step in steps:
        match step:
            case kn.Commit():
                count += 1
            case kn.Repeat(body=body) | kn.Branch(body=body):
                assert not _commits(body), "a group is committed in a loop or under a condition"
            case kn.Run() | kn.Barrier() | kn.Wait() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free():
                pass
            case _:
                assert_never(step)
    return count
