"""Measures one case: each contestant is built and checked in a process of its own, and then timed in turn.

`python -m bench.measure '{"workload": …}' bench.workloads` is how `bench.command` does it: a process for each case,
with the libraries' threads set in its environment, whose lines on its standard output are events in JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from math import inf
from pathlib import Path
from typing import Any, Final

from atl.errors import AssumptionError
from bench.contest import Limit, Ours, Problem, Rival, Tuning, Workload
from bench.limits import limit_of
from bench.outcome import ALONE, LIMIT, Case, Contestant, LeftOut, Outcome, concluded
from bench.threads import Pools, settable
from bench.worker import Gone, Prepare, Watch, Worker
from lowering import Clock, Samples, ThreadClock, TimedFunction, Turn, WallClock, take_turns

IDLE_FOR: Final = 0.2


def measured(workload: Workload, case: Case, *, watch: Watch, clock: Clock | None = None) -> Outcome:
    """Everybody in the tables of a workload, at one size. An interrupt keeps what was measured until then.

    A contestant that computes something wrong or crashes is reported, and not timed further. With several threads all
    take turns with one thread too.
    """
    watch("making the inputs and the result by NumPy")
    problem = workload.pose(case.size)
    _ = problem.expected
    field = Field(problem, clock or (ThreadClock() if case.threads == 1 else WallClock()), watch)
    taking_part: list[Contestant] = []
    scale: float | None = None
    samples: Samples | None = None
    alone = replace(case, threads=1) if case.threads > 1 and settable() else None
    try:
        scale = field.enter(LIMIT, case, lambda _: _limit(workload.limit, problem, case))
        everybody: tuple[Ours | Rival | Tuning, ...] = (*workload.rivals, *workload.ours, *workload.tuned)
        for one in everybody:
            ours = not isinstance(one, Rival)
            if (passed_over := _passed_over(one, problem)) is not None:
                field.left_out.append(passed_over)
            elif (found := field.enter(one.name, case, partial(_prepared, one, problem, case), ours=ours)) is not None:
                taking_part.append(found)
                if alone is not None and not isinstance(one, Tuning):
                    field.enter(one.name, alone, partial(_prepared, one, problem, alone), ours=ours, suffix=ALONE)
        samples = take_turns(
            field.turns(),
            rounds=case.rounds,
            seconds=case.seconds,
            watch=lambda number: watch(f"measuring {len(taking_part)} in turn, round {number} of {case.rounds}"),
        )
    except KeyboardInterrupt:
        pass
    finally:
        field.end()
    samples = samples or Samples({name: [] for name in field.workers}, interrupted=True)
    samples.times.setdefault(LIMIT, [None] * max(map(len, samples.times.values()), default=0))
    stayed = tuple(one for one in taking_part if one.name not in field.gone)
    limit = (workload.limit.kind, scale or 1.0)
    return concluded(case, workload.says, limit, stayed, samples, tuple(field.left_out))


@dataclass(slots=True)
class Field:
    """The contestants of a case, each in a process of its own, and those that were left out or have crashed."""

    problem: Problem
    clock: Clock
    watch: Watch
    workers: dict[str, Worker] = field(default_factory=dict)
    ours: set[str] = field(default_factory=set)
    left_out: list[LeftOut] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)

    def enter(self, name: str, case: Case, prepare: Prepare, *, ours: bool = False, suffix: str = "") -> Any:
        """Return what `prepare` gives of a contestant, which takes part from now on; None where it does not."""
        self.watch(f"building and checking {name}{suffix}")
        others = tuple(self.workers.values())
        worker = Worker(prepare, self.problem, self.clock, case.threads, case.timeout, others)
        try:
            made = worker.ready(self.watch)
        except Gone as gone:
            made = LeftOut(name + suffix, ours, gone.why, f"{gone} while it was built and checked")
        except KeyboardInterrupt:
            worker.end()
            raise
        if isinstance(made, LeftOut):
            worker.end()
            self.left_out.append(made)
            return None
        # Tuning finds the numbers that belong to the name.
        named = (made.name if isinstance(made, Contestant) else name) + suffix
        self.workers[named] = worker
        if ours:
            self.ours.add(named)
        return made

    def turns(self) -> dict[str, Turn]:
        """Return a function for each contestant that takes its turn."""
        return {name: partial(self._turn, name) for name in self.workers}

    def _turn(self, name: str) -> tuple[float | None, float]:
        if name in self.gone:
            return None, 0.0
        try:
            return self.workers[name].sample()
        except Gone as gone:
            self.gone.add(name)
            self.left_out.append(LeftOut(name, name in self.ours, gone.why, f"{gone} while it was timed"))
            return None, inf

    def end(self) -> None:
        """End all processes."""
        for worker in self.workers.values():
            worker.end()


def _passed_over(one: Ours | Rival | Tuning, problem: Problem) -> LeftOut | None:
    """Return why a contestant is not even built: it is not for this size, or not installed."""
    if isinstance(one, Ours) and one.most is not None and problem.size > one.most:
        return LeftOut(one.name, True, "size", f"it is measured up to {one.most}")
    if isinstance(one, Rival) and problem.size < one.least:
        return LeftOut(one.name, False, "size", f"it is for {one.least} and more")
    if isinstance(one, Rival) and (lacking := one.lacks()):
        return LeftOut(one.name, False, "absent", f"{', '.join(lacking)} is not installed")
    return None


def _limit(limit: Limit, problem: Problem, case: Case) -> tuple[float, TimedFunction]:
    run, scale = limit_of(limit, problem, case.threads)
    return scale, run


def _prepared(
    one: Ours | Rival | Tuning, problem: Problem, case: Case, watch: Watch
) -> tuple[Contestant | LeftOut, TimedFunction | None]:
    """What runs it, once its result was found right; or why it does not take part."""
    if isinstance(one, Tuning):
        return _tuned(one, problem, case, watch)
    ours = isinstance(one, Ours)
    allocates = isinstance(one, Rival) and one.allocates
    try:
        if isinstance(one, Ours):
            run, derived = one.contestant(problem, case.threads)
        else:
            run, derived = one.make(problem, case.threads), False
        fault = problem.fault_of(run, allocates=allocates)
    except AssumptionError as error:
        return LeftOut(one.name, ours, "size", f"it is for {error.required}"), None
    if fault is not None:
        return LeftOut(one.name, ours, "wrong", fault), None
    return Contestant(one.name, ours, derived, allocates), run


def _tuned(
    one: Tuning, problem: Problem, case: Case, watch: Watch
) -> tuple[Contestant | LeftOut, TimedFunction | None]:
    """What autotuning has found, if anything."""
    found = one.found(problem, case.tune, watch)
    if found is None:
        return LeftOut(one.name, True, "absent", f"nothing faster is known of it: --tune 60 tries, at {case}"), None
    name, run = found
    if (fault := problem.fault_of(run)) is not None:
        return LeftOut(name, True, "wrong", fault), None
    return Contestant(name, ours=True, derived=True), run


def pinned() -> int | None:
    """Keeps this process on the core that was idler just now; nothing where the system cannot."""
    with suppress(OSError, AttributeError):
        before = _idle()
        time.sleep(IDLE_FOR)
        after = _idle()
        allowed = os.sched_getaffinity(0)
        core = max(allowed, key=lambda k: after.get(k, 0) - before.get(k, 0))
        os.sched_setaffinity(0, {core})
        return core
    return None


def _idle() -> dict[int, int]:
    """How long each core has been idle, in some unit."""
    told = Path("/proc/stat").read_text(encoding="ascii").splitlines()
    lines = [line.split() for line in told if line.startswith("cpu") and line[3] != " "]
    return {int(line[0][3:]): int(line[4]) for line in lines}


def main() -> None:
    """Measures a case, of the workloads of a module, and writes events: progress, and in the end the outcome."""
    described, module = sys.argv[1:]
    case, workloads = Case(**json.loads(described)), import_module(module).WORKLOADS
    # What a library prints must not come between the events.
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def tell(**event: object) -> None:
        print(json.dumps(event), file=events, flush=True)

    with events:
        core = pinned() if case.threads == 1 else None
        pools = Pools() if settable() else None
        if pools is not None:
            # Their environment has said it already, but to those alone that read it.
            pools.use(case.threads)
        tell(core=core, pools=[] if pools is None else pools.told())
        outcome = measured(workloads[case.workload], case, watch=lambda said: tell(said=said))
        tell(outcome=outcome.as_json())


if __name__ == "__main__":
    with suppress(BrokenPipeError, KeyboardInterrupt):
        main()
