"""The command `python -m bench.gpu`: checks, calls, sanitizers and times on this machine's GPU, in one run.

Exit codes: 0 if everything is correct; 1 if a result is wrong or a sanitizer found an error; 2 for an unknown schedule;
3 without a GPU, driver or nvcc.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import atl
from atl.errors import AssumptionError, ATLError
from bench.environment import packages, processor
from bench.gpu.checking import Verdict, calls, checked
from bench.gpu.measuring import COPY, OURS, Row, measured
from bench.gpu.roofline import TAKES, TEXT, Roofline, measure_roofline
from bench.gpu.shipped import Shipped, names, shipped
from bench.report import need_writable
from lowering import GpuEnvironment, detect_gpu

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parent.parent
RIGHT, WRONG, REFUSED, ABSENT = 0, 1, 2, 3
FOUND: Final = 9
"""Exit code of a sanitizer that found an error."""
SANITIZED_WITHIN: Final = 240
SUMMARY: Final = re.compile(r"(?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.gpu",
        description="Check and measure the GPU schedules in examples/gpu.py.",
        epilog="Exit codes: 0 if everything is correct, 1 if a result is wrong or a sanitizer found an error, "
        "2 for an unknown schedule, 3 without a GPU, driver or nvcc.",
    )
    parser.add_argument("schedules", nargs="*", metavar="SCHEDULE", help=f"some of {', '.join(names())} (default: all)")
    parser.add_argument("--check-only", action="store_true", help="do not time, and run no sanitizer")
    parser.add_argument("--no-sanitizers", action="store_true", help="do not run compute-sanitizer")
    parser.add_argument("--checks", type=int, default=12, metavar="N", help="checks of each schedule (default: 12)")
    parser.add_argument("--rounds", type=int, default=30, metavar="N", help="samples of each candidate (default: 30)")
    parser.add_argument("--seed", type=int, default=None, help="seed of the random inputs (default: random)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="result file (default: in bench/gpu/results)")
    chosen = parser.parse_args(arguments)
    unknown = [name for name in chosen.schedules if name not in names()]
    if unknown or chosen.checks < 0 or chosen.rounds < 1:
        print(f"bench.gpu: unknown schedule {', '.join(unknown)}; choose from {', '.join(names())}" if unknown
              else "bench.gpu: --checks must be at least 0, and --rounds at least 1", file=sys.stderr)  # fmt: skip
        return REFUSED
    found = detect_gpu()
    if not found.complete:
        print(f"bench.gpu: needs nvcc, a driver and a GPU; found: {found}", file=sys.stderr)
        return ABSENT
    try:
        return run(chosen, found, atl.Gpu())
    except ATLError as error:
        print(f"bench.gpu: {error}", file=sys.stderr)
        return WRONG
    except ModuleNotFoundError as error:
        print(f"bench.gpu: {error.name} is not installed; run: python -m pip install .", file=sys.stderr)
        return ABSENT


def run(chosen: argparse.Namespace, found: GpuEnvironment, machine: Any) -> int:
    """Run the selected checks and measurements. Results are written after each, so that an interrupt loses none."""
    seed = secrets.randbelow(2**31) if chosen.seed is None else chosen.seed
    around = environment(found, seed)
    path = chosen.json or HERE / "results" / f"{_slug(around['gpu'])}.json"
    if not chosen.check_only:
        path.parent.mkdir(parents=True, exist_ok=True)
        need_writable(path)
    print(f"{around['gpu']}, compute capability {around['capability']}, nvcc {around['nvcc']}, seed {seed}", flush=True)
    device = atl.Device(machine, TEXT, "roofline", TAKES)
    kernels = [shipped(name).on(machine) for name in (chosen.schedules or names())]
    results: dict[str, Any] = {"machine": around, "complete": False}

    def keep(what: str, value: Any) -> None:
        results[what] = value
        if not chosen.check_only:
            path.write_text(json.dumps(results, indent=1), encoding="utf-8")

    verdicts = [_print_verdict(checked(each, device, seed=seed, times=chosen.checks)) for each in kernels]
    keep("checks", [verdict.as_json() for verdict in verdicts])
    wrong = [verdict for verdict in verdicts if verdict.message]
    if chosen.check_only:
        return WRONG if wrong else RIGHT
    of_calls = [_print_verdict(verdict) for verdict in calls(shipped("transpose").on(machine), device)]
    keep("calls", [verdict.as_json() for verdict in of_calls])
    wrong += [verdict for verdict in of_calls if verdict.message and not verdict.absent]
    if not chosen.no_sanitizers:
        of_tools = [_print_verdict(verdict) for verdict in sanitized([each.name for each in kernels], seed)]
        keep("sanitizers", [verdict.as_json() for verdict in of_tools])
        wrong += [verdict for verdict in of_tools if verdict.message and not verdict.absent]
    can, how = measure_roofline(device, times=chosen.rounds)
    keep("roofline", dict(how))
    copies, computes = can.bytes_per_second / 1e9, can.operations_per_second / 1e12
    print(f"roofline: {copies:.0f} GB/s by a copy (read plus written), {computes:.1f} TFLOP/s in float32")
    rows: list[Row] = []
    for row in _rows(kernels, device, can, chosen.rounds, seed):
        rows.append(row)
        keep("rows", [each.as_json() for each in rows])
    keep("complete", True)
    print(f"written: {path}")
    return WRONG if wrong or any(row.faults for row in rows) else RIGHT


def _rows(kernels: Sequence[Shipped], device: atl.Device, can: Roofline, rounds: int, seed: int) -> Iterator[Row]:
    for each in kernels:
        for sizes in each.work.sizes:
            try:
                row = measured(each, dict(sizes), device, can, rounds=rounds, seed=seed)
            except AssumptionError as error:
                print(f"{each.name} at {sizes}: not measured, requires {error.required}", flush=True)
                continue
            print("\n".join(lines(row)), flush=True)
            yield row


def lines(row: Row) -> Iterator[str]:
    """Return a row as lines of text."""
    sizes = ", ".join(f"{name} = {size}" for name, size in row.sizes.items())
    yield f"{row.schedule} at {sizes}: at least {row.floor_ms:.4f} ms ({row.floor_is})"
    for name in sorted(row.times, key=lambda name: row.ms(name) or 0.0):
        ms = row.ms(name) or 0.0
        moved = f"{row.bytes / ms / 1e6:7.0f} GB/s"
        rate = f"{row.operations / ms / 1e9:7.2f} TFLOP/s" if row.operations and name != COPY else moved
        ratio = row.ratio(name)
        compared = "" if name == OURS or ratio is None else "  takes {:.2f} of our time [{:.2f}-{:.2f}]".format(*ratio)
        of_floor = f"  {100 * row.floor_ms / ms:.0f} % of the roofline" if name != COPY else ""
        yield f"  {name:28}{ms:10.4f} ms  {rate}{of_floor}{compared}"
    yield from (f"  {name}: WRONG, not timed: {message}" for name, message in row.faults.items())
    yield from (f"  ({name}: {message})" for name, message in row.left_out.items())


def _print_verdict(verdict: Verdict) -> Verdict:
    message = (
        f"correct ({verdict.checks})"
        if not verdict.message
        else verdict.message
        if verdict.absent
        else f"WRONG: {verdict.message}"
    )
    print(f"{verdict.what}: {message}", flush=True)
    return verdict


# -- sanitizers -------------------------------------------------------------------------------------------------------


def sanitized(schedules: Sequence[str], seed: int) -> Iterator[Verdict]:
    """Run the checks under compute-sanitizer. Report if it is missing or does not run."""
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    tool = shutil.which("compute-sanitizer") or shutil.which(f"{home}/bin/compute-sanitizer")
    for kind in ("memcheck", "racecheck"):
        if tool is None:
            yield Verdict(kind, 0, "compute-sanitizer is not installed", absent=True)
            continue
        ours = [sys.executable, "-m", "bench.gpu", "--check-only", "--checks", "2", "--seed", str(seed), *schedules]
        command = [tool, "--tool", kind, "--error-exitcode", str(FOUND), *ours]
        paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        try:
            answer = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=SANITIZED_WITHIN, cwd=ROOT,
                env={**os.environ, "PYTHONPATH": paths},
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            yield Verdict(kind, 0, f"compute-sanitizer does not run here: {error}", absent=True)
            continue
        yield judged(kind, answer.returncode, answer.stdout + answer.stderr, len(schedules))


def judged(kind: str, code: int, output: str, count: int) -> Verdict:
    """Interpret the output of a sanitizer: no errors, errors found, or it does not run on this machine."""
    summary = SUMMARY.search(output)
    last = [line for line in output.strip().splitlines() if line.strip()][-6:]
    if summary is None:
        return Verdict(kind, 0, f"compute-sanitizer does not run here: {' | '.join(last)}", absent=True)
    errors = int(summary[1] or summary[2])
    if errors or code != 0:
        first = next(
            (line for line in output.splitlines() if "Invalid" in line or "Race" in line or "WRONG" in line), ""
        )
        return Verdict(kind, count, f"{errors} found, exit code {code}: {first.strip() or ' | '.join(last)}")
    return Verdict(kind, count)


# -- environment -------------------------------------------------------------------------------------------------------


def environment(found: GpuEnvironment, seed: int) -> dict[str, Any]:
    """Return a description of the machine and the software, for the result file."""
    gpu = found.names[0] if found.names else "an unnamed GPU"
    capability = ".".join(map(str, found.gpus[0])) if found.gpus else "unknown"
    return {
        "gpu": gpu,
        "capability": capability,
        "gpus": len(found.gpus),
        "driver": found.driver,
        "nvcc": found.nvcc,
        "cffi": find_spec("cffi") is not None,
        "atl": atl.__version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "packages": packages(("numpy", "torch", "cupy-cuda13x", "cupy-cuda12x", "nvidia-cublas", "cffi", "z3-solver")),
        "cpu": processor(),
        "system": platform.platform(),
        "seed": seed,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _commit() -> str | None:
    try:
        answer = subprocess.run(
            ["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "gpu"
