"""Kernels with barriers wherever two threads of a block would meet in a cell, and in no other place.

A barrier is derived between two steps, and between an iteration of a loop and the next one, unless it is proved that
the same cell means the same thread. Where one statement makes two threads meet there is no place for a barrier: it is
refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from atl.core.index import index
from atl.core.predicate import less
from atl.prove import Facts, proves
from lowering.gpu.folds import waits_for_all
from lowering.gpu.kernels import (
    Barrier,
    Branch,
    Extents,
    Repeat,
    Run,
    Step,
    Steps,
    Where,
)
from lowering.gpu.touches import Met, Touch, met, touches
from lowering.nest.accesses import after
from lowering.nest.aliasing import other_run
from lowering.nest.loopnest import Allocate, Clear, Declare, Free
from lowering.nest.text_scope import TextScope


@dataclass(frozen=True, slots=True)
class Place:
    """What is known where a block of steps begins, and the names in sight there."""

    facts: Facts
    scope: TextScope


class MetWithin(Exception):
    """Two threads meet in one statement."""

    def __init__(self, run: Run, found: Met) -> None:
        super().__init__(run, found)
        self.run = run
        self.found = found


@dataclass(slots=True)
class _Passed:
    """Steps with their barriers: what has been touched since the last one, and before the first one.

    `waits` says that every run of the steps comes to a barrier.
    """

    steps: list[Step] = field(default_factory=list)
    last: list[Touch] = field(default_factory=list)
    first: list[Touch] = field(default_factory=list)
    waits: bool = False

    def barrier(self, found: Met, when: str = "") -> None:
        self.steps.append(Barrier(_why(found, when)))
        self.waited()

    def waited(self) -> None:
        self.last = []
        self.waits = True

    def passed(self, first: list[Touch], last: list[Touch], *, waits: bool = False) -> None:
        """What is touched by steps before their first barrier and after their last one."""
        if not self.waits:
            self.first += first
        if waits:
            self.waited()
        self.last += last


@dataclass(frozen=True, slots=True)
class Synchronised:
    """Puts barriers into the steps of a kernel, whose blocks have so many threads and whose buffers are there."""

    extents: Extents
    places: Mapping[int, Where]

    def steps(self, steps: Steps, place: Place) -> Steps:
        """The steps with barriers. Raises `MetWithin`."""
        return tuple(self._passed(steps, place).steps)

    def _passed(self, steps: Steps, place: Place) -> _Passed:
        out = _Passed()
        for step in steps:
            match step:
                case Run(statement, sums):
                    here = list(touches(statement, place.facts, place.scope, self.extents, self.places))
                    within = met(here, here, self.extents)
                    if within is not None:
                        raise MetWithin(step, within)
                    self._apart(out, here)
                    out.passed(here, here)
                    out.steps.append(step)
                    if any(waits_for_all(fold, self.extents) for fold in sums):
                        out.waited()
                case Clear(zeroed=False):
                    out.steps.append(step)
                case Declare() | Clear():
                    here = list(touches(step, place.facts, place.scope, self.extents, self.places))
                    self._apart(out, here)
                    out.passed(here, here)
                    out.steps.append(step)
                case Repeat():
                    self._repeated(out, step, place)
                case Branch(predicate, body):
                    inside = self._passed(body, replace(place, facts=place.facts.assume(predicate)))
                    self._apart(out, inside.first)
                    out.passed(inside.first, inside.last)
                    out.steps.append(replace(step, body=tuple(inside.steps)))
                case Allocate() | Free() | Barrier():
                    out.steps.append(step)
                case _:
                    assert_never(step)
            if isinstance(step, Declare | Allocate):
                place = replace(place, scope=after(place.scope, step))
        return out

    def _apart(self, out: _Passed, here: list[Touch]) -> None:
        """A barrier before what is done next, if that meets what was done since the last one."""
        found = met(out.last, here, self.extents)
        if found is not None:
            out.barrier(found)

    def _repeated(self, out: _Passed, loop: Repeat, place: Place) -> None:
        _, scope = place.scope.bind(loop.variable, loop.variable.name)
        inside = self._passed(loop.body, Place(place.facts.assume(loop.range), scope))
        following = less(index(loop.variable), other_run(loop.variable))
        found = met(inside.last, inside.first, self.extents, (loop.variable, following))
        if found is not None:
            inside.barrier(found, f", in the next iteration of {loop.variable.name}")
        first = [touch.repeated(loop.variable) for touch in inside.first]
        self._apart(out, first)
        goes_round = proves(place.facts, less(loop.low, loop.high))
        out.passed(first, [touch.repeated(loop.variable) for touch in inside.last], waits=inside.waits and goes_round)
        out.steps.append(replace(loop, body=tuple(inside.steps)))


def _why(found: Met, when: str) -> str:
    name = found.one.cell.buffer.name
    before = "changed" if found.one.changes else "read"
    return f"{name} is {before}, and then {'changed' if found.another.changes else 'read'}{when}"
