"""Measurement of one case: each candidate is built and checked in a separate process, then timed in turn.

`bench.command` starts `python -m bench.measure '{"workload": …}' bench.workloads` for each case, with the number of
threads of the libraries in its environment. Each line of its standard output is an event in JSON.
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
from typing import Any, Final, TypeAlias

from atl.errors import AssumptionError
from bench.comparison import Baseline, OneCall, Ours, Problem, Roofline, Tuning, Workload
from bench.outcome import ALONE, ROOFLINE, Candidate, Case, LeftOut, Outcome, concluded, one_call_name
from bench.roofline import roofline_of
from bench.threads import Pools, settable
from bench.worker import Gone, Prepare, Watch, Worker
from lowering import Clock, Samples, ThreadClock, TimedFunction, Turn, WallClock, take_turns

Entrant: TypeAlias = Ours | Baseline | Tuning | OneCall

IDLE_FOR: Final = 0.2


def measured(workload: Workload, case: Case, *, watch: Watch, clock: Clock | None = None) -> Outcome:
    """Measure all candidates of a workload at one size. After an interrupt, return the measurements so far.

    A candidate that computes a wrong result or crashes is reported, and not timed further. With several threads, each
    candidate is also timed with one thread.
    """
    watch("making the inputs and the NumPy reference")
    problem = workload.pose(case.size)
    _ = problem.expected
    field = Field(problem, clock or (ThreadClock() if case.threads == 1 else WallClock()), watch)
    taking_part: list[Candidate] = []
    scale: float | None = None
    samples: Samples | None = None
    alone = replace(case, threads=1) if case.threads > 1 and settable() else None
    try:
        scale = field.enter(ROOFLINE, case, lambda _: _roofline(workload.roofline, problem, case))
        calls = field.one_calls(workload.ours[0], case) if case.budgets and workload.ours else ()
        everybody: tuple[Entrant, ...] = (*workload.baselines, *workload.ours, *workload.tuned, *calls)
        for one in everybody:
            ours = not isinstance(one, Baseline)
            if (skipped := _skipped(one, problem)) is not None:
                field.left_out.append(skipped)
            elif (found := field.enter(one.name, case, partial(_prepared, one, problem, case), ours=ours)) is not None:
                taking_part.append(found)
                if alone is not None and not _is_tuned(one):
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
    samples.times.setdefault(ROOFLINE, [None] * max(map(len, samples.times.values()), default=0))
    stayed = tuple(one for one in taking_part if one.name not in field.gone)
    roofline = (workload.roofline.kind, scale or 1.0)
    left_out, dense = tuple(field.left_out), not problem.is_sparse
    return concluded(case, workload.description, roofline, stayed, samples, left_out, dense=dense)


@dataclass(slots=True)
class Field:
    """The candidates of a case, each in a separate process, and those that were left out or have crashed."""

    problem: Problem
    clock: Clock
    watch: Watch
    workers: dict[str, Worker] = field(default_factory=dict)
    ours: set[str] = field(default_factory=set)
    left_out: list[LeftOut] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)

    def enter(self, name: str, case: Case, prepare: Prepare, *, ours: bool = False, suffix: str = "") -> Any:
        """Add a candidate. Return the value of `prepare`; None if the candidate is left out."""
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
        # Tuning finds the parameters, which are part of the name.
        named = (made.name if isinstance(made, Candidate) else name) + suffix
        self.workers[named] = worker
        if ours:
            self.ours.add(named)
        return made

    def one_calls(self, ours: Ours, case: Case) -> tuple[OneCall, ...]:
        """Return the calls of `s.optimize()` for the program that a schedule starts from.

        A separate process derives the schedule, because that fills caches, and would make the calls faster.
        """
        self.watch(f"deriving the program of {ours.name}")
        others = tuple(self.workers.values())
        worker = Worker(lambda _: (ours.start(self.problem), None), self.problem, self.clock, 1, case.timeout, others)
        try:
            program, keywords = worker.ready(self.watch)
        except Gone as gone:
            detail = f"{gone} while the program of {ours.name} was derived"
            self.left_out += [LeftOut(one_call_name(seconds), True, gone.why, detail) for seconds in case.budgets]
            return ()
        finally:
            worker.end()
        return tuple(OneCall(program, keywords, seconds) for seconds in case.budgets)

    def turns(self) -> dict[str, Turn]:
        """Return, for each candidate, a function that takes one sample."""
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


def _is_tuned(one: Entrant) -> bool:
    """Return True if a candidate is measured to be made. It is not made a second time for one thread."""
    return isinstance(one, Tuning) or (isinstance(one, OneCall) and one.seconds > 0)


def _skipped(one: Entrant, problem: Problem) -> LeftOut | None:
    """Return the reason for not building a candidate: its size range, or a missing package."""
    if isinstance(one, Ours) and one.max_size is not None and problem.size > one.max_size:
        return LeftOut(one.name, True, "size", f"only measured up to {one.max_size}")
    if isinstance(one, Baseline) and problem.size < one.min_size:
        return LeftOut(one.name, False, "size", f"needs a size of at least {one.min_size}")
    if isinstance(one, Baseline) and (lacking := one.lacks()):
        return LeftOut(one.name, False, "absent", f"{', '.join(lacking)} is not installed")
    return None


def _roofline(roofline: Roofline, problem: Problem, case: Case) -> tuple[float, TimedFunction]:
    run, scale = roofline_of(roofline, problem, case.threads)
    return scale, run


def _prepared(
    one: Entrant, problem: Problem, case: Case, watch: Watch
) -> tuple[Candidate | LeftOut, TimedFunction | None]:
    """Build a candidate and check its result. Return a function that runs it, or the reason to leave it out."""
    if isinstance(one, Tuning):
        return _tuned(one, problem, case, watch)
    ours, took = not isinstance(one, Baseline), None
    allocates = isinstance(one, Baseline) and one.allocates
    try:
        if isinstance(one, Ours):
            run, derived = one.candidate(problem, case.threads)
        elif isinstance(one, OneCall):
            run, derived, took = one.candidate(problem, case.threads, watch)
        else:
            run, derived = one.make(problem, case.threads), False
        fault = problem.fault_of(run, allocates=allocates)
    except AssumptionError as error:
        return LeftOut(one.name, ours, "size", f"requires {error.required}"), None
    if fault is not None:
        return LeftOut(one.name, ours, "wrong", fault), None
    return Candidate(one.name, ours, derived, allocates, took), run


def _tuned(one: Tuning, problem: Problem, case: Case, watch: Watch) -> tuple[Candidate | LeftOut, TimedFunction | None]:
    """Build and check the schedule that autotuning has found, if any."""
    found = one.found(problem, case.tune, watch)
    if found is None:
        return LeftOut(one.name, True, "absent", f"{case} has not been tuned: use --tune 60"), None
    name, run = found
    if (fault := problem.fault_of(run)) is not None:
        return LeftOut(name, True, "wrong", fault), None
    return Candidate(name, ours=True, derived=True), run


def pinned() -> int | None:
    """Pin this process to the core that was idle longest just now. Return None if the system cannot."""
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
    """Return the idle time of each core, in clock ticks."""
    stat = Path("/proc/stat").read_text(encoding="ascii").splitlines()
    lines = [line.split() for line in stat if line.startswith("cpu") and line[3] != " "]
    return {int(line[0][3:]): int(line[4]) for line in lines}


def main() -> None:
    """Measure a case of the workloads in a module. Write progress events, and the outcome as the last event."""
    described, module = sys.argv[1:]
    case, workloads = Case(**json.loads(described)), import_module(module).WORKLOADS
    # Output of libraries must not mix with the events.
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def emit(**event: object) -> None:
        print(json.dumps(event), file=events, flush=True)

    with events:
        core = pinned() if case.threads == 1 else None
        pools = Pools() if settable() else None
        if pools is not None:
            # Some libraries ignore the environment variables.
            pools.use(case.threads)
        emit(core=core, pools=[] if pools is None else pools.info())
        outcome = measured(workloads[case.workload], case, watch=lambda progress: emit(progress=progress))
        emit(outcome=outcome.as_json())


if __name__ == "__main__":
    with suppress(BrokenPipeError, KeyboardInterrupt):
        main()
