"""Barrier insertion: a barrier at each point where two threads of a block may have a data race, and nowhere else.

A barrier is inserted between two steps, or between an iteration of a loop and the next one, unless it is proved that
the same cell implies the same thread. A data race within one statement cannot be prevented by a barrier: it is
refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from atl.core.index import index
from atl.core.predicate import less
from atl.prove import Facts, proves
from lowering.gpu import kernels as kn
from lowering.gpu.accesses import Race, ThreadAccess, exchanged_in, find_race, thread_accesses
from lowering.gpu.folds import needs_barrier
from lowering.nest.accesses import after, other_run
from lowering.nest.loopnest import Allocate, Cell, Clear, Declare, Free
from lowering.nest.text import TextScope


@dataclass(frozen=True, slots=True)
class Place:
    """The facts and the names in scope at the start of a block of steps."""

    facts: Facts
    scope: TextScope


class RaceInStatement(Exception):
    """A data race between two threads in one statement."""

    def __init__(self, run: kn.Run, found: Race) -> None:
        super().__init__(run, found)
        self.run = run
        self.found = found


@dataclass(slots=True)
class _Synchronized:
    """Steps with their barriers, and the accesses after the last barrier and before the first one.

    `waits` is set if every execution of the steps reaches a barrier.
    """

    steps: list[kn.Step] = field(default_factory=list)
    last: list[ThreadAccess] = field(default_factory=list)
    first: list[ThreadAccess] = field(default_factory=list)
    waits: bool = False

    def add_barrier(self, found: Race, when: str = "") -> None:
        self.steps.append(kn.Barrier(_reason(found, when)))
        self.note_barrier()

    def note_barrier(self) -> None:
        self.last = []
        self.waits = True

    def note_accesses(self, first: list[ThreadAccess], last: list[ThreadAccess], *, waits: bool = False) -> None:
        """Record the accesses of steps before their first barrier and after their last one."""
        if not self.waits:
            self.first += first
        if waits:
            self.note_barrier()
        self.last += last


@dataclass(frozen=True, slots=True)
class BarrierInsertion:
    """Insertion of barriers into the steps of a kernel with blocks of `extents` threads."""

    extents: kn.Extents
    memories: Mapping[int, kn.Memory]
    shuffles: Mapping[Cell, kn.Shuffle]

    def steps(self, steps: kn.Steps, place: Place) -> kn.Steps:
        """Return the steps with barriers. Raises `RaceInStatement`."""
        return tuple(self._synchronized(steps, place).steps)

    def _synchronized(self, steps: kn.Steps, place: Place) -> _Synchronized:
        out = _Synchronized()
        for step in steps:
            match step:
                case kn.Run(statement, folds):
                    here = list(thread_accesses(statement, place.facts, place.scope, self.extents, self.memories))
                    exchanged = list(exchanged_in(statement, place.facts, place.scope, self.extents, self.shuffles))
                    within = find_race(here, here, self.extents) or find_race(exchanged, exchanged, self.extents)
                    if within is not None:
                        raise RaceInStatement(step, within)
                    self._separate(out, here)
                    out.note_accesses(here, here)
                    out.steps.append(step)
                    if any(needs_barrier(fold, self.extents) for fold in folds):
                        out.note_barrier()
                case Clear(zeroed=False):
                    out.steps.append(step)
                case Declare() | Clear():
                    here = list(thread_accesses(step, place.facts, place.scope, self.extents, self.memories))
                    self._separate(out, here)
                    out.note_accesses(here, here)
                    out.steps.append(step)
                case kn.Repeat():
                    self._repeat(out, step, place)
                case kn.Branch(predicate, body):
                    inside = self._synchronized(body, replace(place, facts=place.facts.assume(predicate)))
                    self._separate(out, inside.first)
                    out.note_accesses(inside.first, inside.last)
                    out.steps.append(replace(step, body=tuple(inside.steps)))
                case kn.Barrier():
                    out.steps.append(step)
                    out.note_barrier()
                case Allocate() | Free() | kn.Commit() | kn.Wait():
                    out.steps.append(step)
                case _:
                    assert_never(step)
            if isinstance(step, Declare | Allocate):
                place = replace(place, scope=after(place.scope, step))
        return out

    def _separate(self, out: _Synchronized, here: list[ThreadAccess]) -> None:
        """Add a barrier if accesses race with those since the last barrier."""
        found = find_race(out.last, here, self.extents)
        if found is not None:
            out.add_barrier(found)

    def _repeat(self, out: _Synchronized, loop: kn.Repeat, place: Place) -> None:
        _, scope = place.scope.bind(loop.variable, loop.variable.name)
        inside = self._synchronized(loop.body, Place(place.facts.assume(loop.range), scope))
        following = less(index(loop.variable), other_run(loop.variable))
        found = find_race(inside.last, inside.first, self.extents, (loop.variable, following))
        if found is not None:
            inside.add_barrier(found, f", in the next iteration of {loop.variable.name}")
        first = [access.repeated(loop.variable) for access in inside.first]
        last = [access.repeated(loop.variable) for access in inside.last]
        self._separate(out, first)
        runs = proves(place.facts, less(loop.low, loop.high))
        out.note_accesses(first, last, waits=inside.waits and runs)
        out.steps.append(replace(loop, body=tuple(inside.steps)))


def _reason(found: Race, when: str) -> str:
    name = found.one.cell.buffer.name
    before = "changed" if found.one.writes else "read"
    return f"{name} is {before}, and then {'changed' if found.another.writes else 'read'}{when}"
