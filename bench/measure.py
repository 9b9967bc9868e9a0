"""One case measured, in this process: everybody is built, checked, and then timed in turn with all others.

`python -m bench.measure '{"workload": …}'` is how `bench.command` does it: a process for each case, with the libraries'
threads set in its environment, whose lines on its standard output are events in JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from atl.errors import AssumptionError, brief
from bench.contest import Ours, Problem, Rival, Tuning, Workload
from bench.limits import limit_of
from bench.outcome import ALONE, LIMIT, Case, Contestant, LeftOut, Outcome, concluded
from bench.settling import settle
from bench.threads import Pools, settable
from lowering import Clock, Run, ThreadClock, WallClock, alternate

Watch = Callable[[str], None]
IDLE_FOR: Final = 0.2


def measured(workload: Workload, case: Case, *, watch: Watch, clock: Clock | None = None) -> Outcome:
    """Everybody in the tables of a workload, at one size. An interrupt keeps what was measured until then.

    Whoever computes something wrong is not timed, and told. With several threads all take turns with one thread too.
    """
    clock = clock or (ThreadClock() if case.threads == 1 else WallClock())
    watch("making the inputs and the result by NumPy")
    problem = workload.pose(case.size)
    _ = problem.expected
    left_out: list[LeftOut] = []
    runs: dict[str, Run] = {}
    taking_part: list[Contestant] = []
    interrupted = False
    limit, scale = limit_of(workload.limit, problem, case.threads)
    alone = replace(case, threads=1) if case.threads > 1 and settable() else None
    try:
        everybody: tuple[Ours | Rival | Tuning, ...] = (*workload.rivals, *workload.ours, *workload.tuned)
        for one in everybody:
            watch(f"building and checking {one.name}")
            ready = _tuned(one, problem, case, watch) if isinstance(one, Tuning) else _prepared(one, problem, case)
            if isinstance(ready, LeftOut):
                left_out.append(ready)
                continue
            contestant, run = ready
            taking_part.append(contestant)
            runs[contestant.name] = run
            if alone is None or isinstance(one, Tuning):
                continue
            by_itself = _prepared(one, problem, alone)
            if isinstance(by_itself, LeftOut):
                left_out.append(by_itself)
            else:
                runs[contestant.name + ALONE] = by_itself[1]
    except KeyboardInterrupt:
        interrupted = True
    samples = alternate(
        {LIMIT: limit, **runs},
        rounds=0 if interrupted else case.rounds,
        seconds=case.seconds,
        clock=clock,
        watch=lambda number: watch(f"measuring {len(runs)} in turn, round {number} of {case.rounds}"),
        before=_between_turns(case.threads) if case.threads > 1 else lambda _: None,
    )
    samples.interrupted |= interrupted
    return concluded(case, workload.says, (workload.limit.kind, scale), tuple(taking_part), samples, tuple(left_out))


def _between_turns(threads: int) -> Callable[[str], None]:
    """What is done before a turn: libraries are told how many threads it has; those of the one before sleep."""
    pools = Pools() if settable() else None

    def before(name: str) -> None:
        if pools is not None:
            pools.use(1 if name.endswith(ALONE) else threads)
        settle()

    return before


def _prepared(one: Ours | Rival, problem: Problem, case: Case) -> tuple[Contestant, Run] | LeftOut:
    """What runs it, once its result was found right; or why it does not take part."""
    ours = isinstance(one, Ours)
    if isinstance(one, Ours) and one.most is not None and problem.size > one.most:
        return LeftOut(one.name, ours, "size", f"it is measured up to {one.most}")
    if isinstance(one, Rival) and problem.size < one.least:
        return LeftOut(one.name, ours, "size", f"it is for {one.least} and more")
    if isinstance(one, Rival) and (lacking := one.lacks()):
        return LeftOut(one.name, ours, "absent", f"{', '.join(lacking)} is not installed")
    allocates = isinstance(one, Rival) and one.allocates
    try:
        if isinstance(one, Ours):
            run, derived = one.contestant(problem, case.threads)
        else:
            run, derived = one.make(problem, case.threads), False
        fault = problem.fault_of(run, allocates=allocates)
    except AssumptionError as error:
        return LeftOut(one.name, ours, "size", f"it is for {error.required}")
    except Exception as error:  # noqa: BLE001 (whatever goes wrong in another's library is no reason to measure nobody)
        return _failed(one.name, error, ours=ours)
    if fault is not None:
        return LeftOut(one.name, ours, "wrong", fault)
    return Contestant(one.name, ours, derived, allocates), run


def _tuned(one: Tuning, problem: Problem, case: Case, watch: Watch) -> tuple[Contestant, Run] | LeftOut:
    """What autotuning has found, if anything."""
    try:
        found = one.found(problem, case.tune, watch)
        if found is None:
            return LeftOut(one.name, True, "absent", f"nothing faster is known of it: --tune 60 tries, at {case}")
        name, run = found
        fault = problem.fault_of(run)
    except Exception as error:  # noqa: BLE001 (as of any other contestant)
        return _failed(one.name, error, ours=True)
    if fault is not None:
        return LeftOut(name, True, "wrong", fault)
    return Contestant(name, ours=True, derived=True), run


def _failed(name: str, error: Exception, *, ours: bool) -> LeftOut:
    return LeftOut(name, ours, "failed", f"{type(error).__name__}: {brief(str(error), 300)}")


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
    """Measures the case in the first argument, and writes events: progress, and in the end the outcome."""
    from bench.workloads import WORKLOADS

    case = Case(**json.loads(sys.argv[1]))
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
        outcome = measured(WORKLOADS[case.workload], case, watch=lambda said: tell(said=said))
        tell(outcome=outcome.as_json())


if __name__ == "__main__":
    with suppress(BrokenPipeError, KeyboardInterrupt):
        main()
