"""`atl bench`: which workloads are measured, each in a process of its own, and what is told while that goes on."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from atl.errors import ATLError
from bench import report
from bench.arguments import declare
from bench.contest import Tuning
from bench.environment import environment
from bench.errors import MeasuringFailed, UnknownWorkload, WrongSize
from bench.outcome import Case, Outcome
from bench.threads import THREADS
from bench.workloads import WORKLOADS

HERE: Final = Path(__file__).resolve().parent.parent
FAILED: Final = 1
INTERRUPTED: Final = 130
PRETENDED: Final = (
    "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "MKL_DEBUG_CPU_TYPE", "MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR",
    "ATEN_CPU_CAPABILITY", "DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES",
    "NPY_DISABLE_CPU_FEATURES", "NPY_ENABLE_CPU_FEATURES",
)  # fmt: skip
"""Settings that tell a rival of another processor than there is: OpenBLAS took twice its time with one of them."""
QUICK: Final = 1.0
"""Seconds of measuring for each case of a quick run: with what is built it takes about a minute."""


def run(arguments: argparse.Namespace) -> int:
    """Measures and prints; 1 where somebody computed something wrong, 130 where it was interrupted."""
    cases = chosen(arguments)
    if arguments.list:
        for name in dict.fromkeys(case.workload for case in cases):
            print(listed(name))
        return 0
    for path in filter(None, (arguments.json, arguments.plot)):
        report.need_writable(path)
    if arguments.plot is not None:
        report.need_matplotlib(arguments.plot)
    outcomes: list[Outcome] = []
    around = environment()
    print(described(around), flush=True)
    complete = False

    def keep() -> None:
        if arguments.json is not None:
            around["load_after"] = os.getloadavg()[0]
            report.save(arguments.json, report.written(outcomes, around, complete=complete))

    try:
        for number, case in enumerate(cases, 1):
            outcome, process = in_own_process(case, _progress(f"{case} ({number} of {len(cases)})"))
            outcomes.append(outcome)
            around.setdefault("processes", []).append({"case": str(case), **process})
            print(f"\n{report.table(outcome)}", flush=True)
            keep()
            if outcome.interrupted:
                break
    except KeyboardInterrupt:
        pass  # before anything of that case was measured
    else:
        complete = len(outcomes) == len(cases) and not any(outcome.interrupted for outcome in outcomes)
    keep()
    if arguments.plot is not None and outcomes:
        report.plot(arguments.plot, outcomes)
    if not complete:
        print(f"atl: interrupted; measured until then: {len(outcomes)} of {len(cases)} cases", file=sys.stderr)
        return INTERRUPTED
    return FAILED if any(outcome.faults for outcome in outcomes) else 0


def chosen(arguments: argparse.Namespace) -> list[Case]:
    """The cases that are asked for. Raises `UnknownWorkload` and `WrongSize`."""
    for name, least, most in (
        ("threads", 1, 1024), ("rounds", 1, 10_000), ("seconds", 0, 3600), ("tune", 0, 86_400), ("timeout", 1, 86_400)
    ):  # fmt: skip
        value = getattr(arguments, name)
        if value is not None and not least <= value <= most:
            raise WrongSize(f"--{name} is {value}", required=f"a number from {least} to {most}")
    seconds = arguments.seconds if arguments.seconds is not None else QUICK if arguments.quick else 15.0
    names = arguments.workloads or [w.name for w in WORKLOADS.values() if not arguments.quick or w.quick is not None]
    return [
        Case(workload, size, arguments.threads, arguments.rounds, seconds, arguments.tune, arguments.timeout)
        for name in names
        for workload, size in _sized(name, quick=arguments.quick)
    ]


def _sized(asked: str, *, quick: bool) -> Iterator[tuple[str, int]]:
    name, at, size = asked.partition("@")
    if name not in WORKLOADS:
        near = get_close_matches(name, WORKLOADS, 3, 0.5)
        raise UnknownWorkload(
            f"there is no workload called {name!r}",
            required=f"one of {', '.join(WORKLOADS)}",
            suggestions=(f"did you mean {' or '.join(near)}?",) if near else (),
        )
    workload = WORKLOADS[name]
    if not at:
        sizes = workload.sizes if not quick else (workload.quick or min(workload.sizes),)
        yield from ((name, each) for each in sizes)
        return
    if not (size.isascii() and size.isdigit() and 1 <= int(size) <= workload.most):
        raise WrongSize(
            f"{size!r} is no size of {name}",
            required=f"a number from 1 to {workload.most}",
            suggestions=(f"{name}@{workload.sizes[0]} is {workload.says}, for n = {workload.sizes[0]}",),
        )
    yield name, int(size)


def listed(name: str) -> str:
    """A workload with all that is compared."""
    workload = WORKLOADS[name]
    return "\n".join([
        f"{name}: {workload.says}",
        f"  sizes      {', '.join(map(str, workload.sizes))}, or any other up to {workload.most}",
        f"  schedules  {', '.join(ours.name for ours in workload.ours)}",
        *(f"  tuned      {each.schedule.__name__}: {_choices(each)}" for each in workload.tuned),
        f"  rivals     {', '.join(rival.name for rival in workload.rivals)}",
        f"  limit      {report.LIMITS[workload.limit.kind]}",
    ])  # fmt: skip


def _choices(tuning: Tuning) -> str:
    return ", ".join(f"{name} of {', '.join(map(str, values))}" for name, values in tuning.choices.items())


def described(around: dict[str, Any]) -> str:
    """The machine and the versions, in three lines."""
    there = ", ".join(f"{package} {number}" for package, number in around["packages"].items() if number)
    return "\n".join((
        f"{around['cpu']}, {around['cores']} cores, load {around['load']:.1f}; {around['compiler']}",
        f"Python {around['python']}, {there}",
        f"flags of our kernels and of the C by hand: {' '.join(around['flags'])}",
    ))  # fmt: skip


def in_own_process(
    case: Case, watch: Callable[[str], None], workloads: str = "bench.workloads"
) -> tuple[Outcome, dict[str, Any]]:
    """A case measured by `bench.measure` in a process of its own; an interrupt is passed on, a second one ends it.

    `workloads` is the module that has them.
    """
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    kept = {name: value for name, value in os.environ.items() if name not in PRETENDED}
    settings = {**kept, **dict.fromkeys(THREADS, str(case.threads)), "PYTHONPATH": path}
    command = [sys.executable, "-m", "bench.measure", json.dumps(asdict(case)), workloads]
    begun: dict[str, Any] = {}
    told = False
    # A session of its own: an interrupt at the terminal reaches it only from here.
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, encoding="utf-8", env=settings, start_new_session=True
    ) as process:
        assert process.stdout is not None
        while True:
            try:
                line = process.stdout.readline()
                if not line:
                    break
                event = json.loads(line)
                if "outcome" in event:
                    watch("")
                    return Outcome.from_json(event["outcome"]), begun
                if "said" in event:
                    watch(event["said"])
                else:
                    begun = event
            except KeyboardInterrupt:
                if told:
                    os.killpg(process.pid, signal.SIGKILL)
                    raise
                told = True
                watch("interrupted; ending the round")
                process.send_signal(signal.SIGINT)
    if told:
        raise KeyboardInterrupt
    raise MeasuringFailed(
        f"the process that measured {case} ended with status {process.returncode} and said nothing of what came out",
        required="a process that ends with a result; what it said stands above",
    )


def _progress(what: str) -> Callable[[str], None]:
    """Tells on the error stream what is going on: on one line of a terminal, and else once for each kind of work."""
    terminal = sys.stderr.isatty()
    told = [""]

    def tell(said: str) -> None:
        if terminal:
            line = f"{what}: {said}" if said else ""
            print(f"\r\033[K{line[:118]}", end="", file=sys.stderr, flush=True)
        elif (kind := said.partition(" ")[0]) not in told:
            print(f"{what}: {said}", file=sys.stderr, flush=True)
            told.append(kind)

    return tell


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m bench`, the same as `atl bench`."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measures our schedules beside their rivals.")
    declare(parser)
    try:
        return run(parser.parse_args(arguments))
    except ATLError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
