"""The command `atl bench`: selects workloads, measures each in a separate process, and shows progress."""

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
from bench import one_calls, report
from bench.arguments import declare
from bench.comparison import Tuning
from bench.environment import environment
from bench.errors import MeasuringFailed, UnknownWorkload, WrongSize
from bench.isa import settings
from bench.outcome import Case, Outcome
from bench.threads import THREADS
from bench.workloads import WORKLOADS

HERE: Final = Path(__file__).resolve().parent.parent
FAILED: Final = 1
INTERRUPTED: Final = 130
CPU_OVERRIDES: Final = (
    "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "MKL_DEBUG_CPU_TYPE", "MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR",
    "ATEN_CPU_CAPABILITY", "DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES",
    "NPY_DISABLE_CPU_FEATURES", "NPY_ENABLE_CPU_FEATURES",
)  # fmt: skip
"""Environment variables that select another CPU for a library. One of them halved the speed of OpenBLAS."""
QUICK: Final = 1.0
"""Seconds of measuring for each case of a quick run. Building and checking take longer."""


def run(arguments: argparse.Namespace) -> int:
    """Measure and print the selected cases. Return 1 if a result was wrong, 130 after an interrupt."""
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
    around = environment(arguments.isa)
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
        pass  # nothing of that case was measured yet
    else:
        complete = len(outcomes) == len(cases) and not any(outcome.interrupted for outcome in outcomes)
    keep()
    if outcomes:
        print(f"\n{one_calls.table(outcomes)}", flush=True)
    if arguments.plot is not None and outcomes:
        report.plot(arguments.plot, outcomes)
    if not complete:
        print(f"atl: interrupted after {len(outcomes)} of {len(cases)} cases", file=sys.stderr)
        return INTERRUPTED
    return FAILED if any(outcome.faults for outcome in outcomes) else 0


def chosen(arguments: argparse.Namespace) -> list[Case]:
    """Return the selected cases. Raises `UnknownWorkload` and `WrongSize`."""
    for name, least, most in (
        ("threads", 1, 1024), ("rounds", 1, 10_000), ("seconds", 0, 3600), ("tune", 0, 86_400),
        ("one_call", 0, 86_400), ("timeout", 1, 86_400),
    ):  # fmt: skip
        value = getattr(arguments, name)
        if value is not None and not least <= value <= most:
            option = name.replace("_", "-")
            raise WrongSize(f"--{option} is out of range: {value}", required=f"a number from {least} to {most}")
    seconds = arguments.seconds if arguments.seconds is not None else QUICK if arguments.quick else 15.0
    names = arguments.workloads or [w.name for w in WORKLOADS.values() if not arguments.quick or w.quick is not None]
    bounds = (arguments.threads, arguments.rounds, seconds, arguments.tune, arguments.timeout)
    return [
        Case(workload, size, *bounds, arguments.one_call, arguments.isa)
        for name in names
        for workload, size in _sized(name, quick=arguments.quick)
    ]


def _sized(selector: str, *, quick: bool) -> Iterator[tuple[str, int]]:
    name, at, size = selector.partition("@")
    if name not in WORKLOADS:
        near = get_close_matches(name, WORKLOADS, 3, 0.5)
        raise UnknownWorkload(
            f"unknown workload {name!r}",
            required=f"one of {', '.join(WORKLOADS)}",
            suggestions=(f"did you mean {' or '.join(near)}?",) if near else (),
        )
    workload = WORKLOADS[name]
    if not at:
        sizes = workload.sizes if not quick else (workload.quick or min(workload.sizes),)
        yield from ((name, each) for each in sizes)
        return
    if not (size.isascii() and size.isdigit() and 1 <= int(size) <= workload.max_size):
        raise WrongSize(
            f"{size!r} is not a size of {name}",
            required=f"a number from 1 to {workload.max_size}",
            suggestions=(f"{name}@{workload.sizes[0]} is {workload.description}, for n = {workload.sizes[0]}",),
        )
    yield name, int(size)


def listed(name: str) -> str:
    """Describe a workload: its sizes, schedules and baselines."""
    workload = WORKLOADS[name]
    return "\n".join([
        f"{name}: {workload.description}",
        f"  sizes      {', '.join(map(str, workload.sizes))}, or any other up to {workload.max_size}",
        f"  schedules  {', '.join(ours.name for ours in workload.ours)}",
        *(f"  tuned      {each.schedule.__name__}: {_choices(each)}" for each in workload.tuned),
        f"  baselines  {', '.join(baseline.name for baseline in workload.baselines)}",
        f"  roofline   {report.ROOFLINES[workload.roofline.kind]}",
    ])  # fmt: skip


def _choices(tuning: Tuning) -> str:
    return ", ".join(f"{name} of {', '.join(map(str, values))}" for name, values in tuning.choices.items())


def described(around: dict[str, Any]) -> str:
    """Describe the machine, the versions and the flags."""
    there = ", ".join(f"{package} {number}" for package, number in around["packages"].items() if number)
    limits = ", ".join(f"{name}={value}" for name, value in around["limits"].items())
    return "\n".join((
        f"{around['cpu']}, {around['cores']} cores, load {around['load']:.1f}; {around['compiler']}",
        f"Python {around['python']}, {there}",
        f"flags of our kernels and of the hand-written C: {' '.join(around['flags'])}",
        *([f"limited to {around['isa']}: {limits}"] if limits else []),
    ))  # fmt: skip


def in_own_process(
    case: Case, watch: Callable[[str], None], workloads: str = "bench.workloads"
) -> tuple[Outcome, dict[str, Any]]:
    """Measure a case by `bench.measure` in a separate process.

    The first interrupt is passed on to that process, the second kills it. `workloads` names the module that has them.
    """
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    kept = {name: value for name, value in os.environ.items() if name not in CPU_OVERRIDES}
    variables = {**kept, **settings(case.isa), **dict.fromkeys(THREADS, str(case.threads)), "PYTHONPATH": path}
    command = [sys.executable, "-m", "bench.measure", json.dumps(asdict(case)), workloads]
    started: dict[str, Any] = {}
    interrupted = False
    # A new session, so that an interrupt at the terminal reaches the process only from here.
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, encoding="utf-8", env=variables, start_new_session=True
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
                    return Outcome.from_json(event["outcome"]), started
                if "progress" in event:
                    watch(event["progress"])
                else:
                    started = event
            except KeyboardInterrupt:
                if interrupted:
                    os.killpg(process.pid, signal.SIGKILL)
                    raise
                interrupted = True
                watch("interrupted; finishing the round")
                process.send_signal(signal.SIGINT)
    if interrupted:
        raise KeyboardInterrupt
    raise MeasuringFailed(
        f"the process that measured {case} ended with status {process.returncode} and without a result",
        required="a process that ends with a result; its output is above",
    )


def _progress(what: str) -> Callable[[str], None]:
    """Return a function that shows progress on stderr: on one line of a terminal, otherwise once per kind of work."""
    terminal = sys.stderr.isatty()
    shown = [""]

    def show(progress: str) -> None:
        if terminal:
            line = f"{what}: {progress}" if progress else ""
            print(f"\r\033[K{line[:118]}", end="", file=sys.stderr, flush=True)
        elif (kind := progress.partition(" ")[0]) not in shown:
            print(f"{what}: {progress}", file=sys.stderr, flush=True)
            shown.append(kind)

    return show


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `python -m bench`, the same as `atl bench`."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Compare our schedules with their baselines.")
    declare(parser)
    try:
        return run(parser.parse_args(arguments))
    except ATLError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
