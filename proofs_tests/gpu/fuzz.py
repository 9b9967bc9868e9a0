"""Random GPU kernels: each run by the kernel interpreter and, printed, under a C++ compiler.

Refused programs are counted by reason. Both runs are compared exactly with the program interpreter: all values are
small integers. The verdict includes minimum shares of programs with threads, barriers and sums.
"""

import re
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from ctypes import c_int64
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import numpy as np

import atl
from atl.core.marks import THREADS
from atl.core.program import Program
from atl.errors import ATLError
from lowering import lower
from lowering.cuda.index_width import bounds_of_indices, evaluate_bounds
from lowering.cuda.printer import print_cuda
from lowering.gpu import interpreter
from lowering.gpu.kernels import Barrier, Kernels, Run, launches, steps_of
from lowering.gpu.outlining import kernels
from lowering.gpu.races import report as race_report
from lowering.nest.loopnest import For, LoopNest, statements
from proofs_tests.fuzzing import Progress, Tally, command, try_all
from proofs_tests.gpu.shim.programs import program_by_seed
from proofs_tests.gpu.shim.run import COMPILER, Finding, Indices, Shimmed, build

SIZES: Final = (1, 3)
TOGETHER: Final = 40
"""Number of printed programs that are compiled together."""
TYPES: Final[tuple[Indices, ...]] = ("shim_index", "int32_t", "int64_t")
"""Index types of printed programs, in turn."""
LEAST: Final = {
    "threads": 0.5,
    "shared and barriers": 0.25,
    "sums over threads": 0.1,
    "vectors": 0.04,
    "copies": 0.02,
}
"""Required share of features among the programs that ran."""


@dataclass(slots=True)
class Report(Tally[str]):
    """Outcome of all programs."""

    ran: int = 0
    printed: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        why = "".join(f"\n    {count} {reason}" for reason, count in self.refused.most_common())
        has = ", ".join(f"{100 * self.seen[what] / max(self.ran, 1):.0f} % {what}" for what in LEAST)
        lines = [
            self.opening("programs"),
            f"  {self.ran} ran, of which {self.printed} under a C++ compiler too; of them {has}",
            f"  {sum(self.refused.values())} refused:{why or ' none'}",
            f"  {len(self.findings)} findings",
        ]
        return "\n".join([*lines, *(f"\nFINDING {found}" for found in self.findings[:20])])


@dataclass(slots=True)
class Waiting:
    """A program waiting to be compiled and run."""

    number: int
    program: Program
    held: Kernels
    calls: list[tuple[dict[str, int], dict[str, Any], Any]]


class Fuzz:
    """All programs of one seed."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.report = Report(seed)
        self._folder = folder
        self._waiting: list[Waiting] = []

    def one(self, number: int) -> None:
        """Test one program; its printed form is compiled later, together with others."""
        report = self.report
        text = program_by_seed(report.seed, number)
        try:
            program = atl.parse(text)
            held = kernels(lower(program, target="cuda"))
        except ATLError as error:
            report.refused[f"{type(error).__name__}: {_reason(error)}"] += 1
            return
        calls = []
        for n in SIZES:
            arrays = _arrays(program, n)
            want = atl.evaluate(program, **arrays)
            calls.append(({"n": n}, arrays, want))
            try:
                got = interpreter.run(held, {"n": n}, arrays)
            except ATLError as error:
                report.findings.append(f"{number}, interpreted with n = {n}: {error}\n{text}")
                return
            if not np.array_equal(got, want):
                report.findings.append(f"{number}, interpreted with n = {n}: another result\n{text}")
                return
        proof = race_report(held)
        if not proof:
            report.findings.append(f"{number}, threads that are not proved race-free: {proof}\n{text}")
            return
        report.ran += 1
        report.seen.update(_has(held))
        self._waiting.append(Waiting(number, program, held, calls))
        if len(self._waiting) == TOGETHER:
            self.printed()

    def printed(self) -> None:
        """Run the printed programs that wait."""
        waiting, self._waiting = self._waiting, []
        if not waiting or COMPILER is None:
            return
        types: list[Indices] = [TYPES[one.number % len(TYPES)] for one in waiting]
        sources = [print_cuda(one.held) for one in waiting]
        library = build(sources, self._folder, f"kernels{waiting[0].number}", index=types)
        library.shim_greatest.restype = c_int64
        for one in waiting:
            run = Shimmed(library, one.held.nest)
            for sizes, arrays, want in one.calls:
                library.shim_greatest()
                try:
                    got = run(one.program.name, sizes, arrays, want.shape)
                    greatest = library.shim_greatest()
                    if greatest > greatest_index(one.held.nest, sizes):
                        raise Finding(f"an index is {greatest}, which is greater than its bound")
                except Finding as finding:
                    self.report.findings.append(f"{one.number}, printed, with {sizes}: {finding}\n{one.program}")
                    break
                if not np.array_equal(got, want):
                    self.report.findings.append(f"{one.number}, printed, with {sizes}: another result\n{one.program}")
                    break
            self.report.printed += 1


def greatest_index(nest: LoopNest, sizes: Mapping[str, int]) -> Fraction:
    """Return the bound on every integer computed for an index, for these sizes."""
    bounds = bounds_of_indices(nest)
    assert bounds is not None
    return max((evaluate_bounds(each, sizes) for each in bounds), default=Fraction(0))


def _reason(error: ATLError) -> str:
    """Return the summary of a refusal without its names and terms."""
    plain = re.sub(r"`[^`]*`", "_", str(error.summary))
    return re.sub(r"\b(fuzzed\d+|[tijb]\d*|[xyz](?= fold)|total\d*|greatest\d*|thread\.[xyz])\b", "_", plain)


def _arrays(program: Program, n: int) -> dict[str, Any]:
    random = np.random.default_rng(n)
    return {array.name: random.integers(-3, 4, (n, 8, 8)).astype(np.float32) for array in program.inputs}


def _has(held: Kernels) -> set[str]:
    found: set[str] = set()
    for launch in launches(held.body):
        steps = list(steps_of(launch.body))
        if any(
            isinstance(s, For) and s.mark in THREADS
            for step in steps
            if isinstance(step, Run)
            for s in statements((step.statement,))
        ):
            found.add("threads")
        if launch.wide:
            found.add("vectors")
        if launch.copies:
            found.add("copies")
        if "shared" in launch.memories.values() and any(isinstance(step, Barrier) for step in steps):
            found.add("shared and barriers")
        if any(isinstance(step, Run) and step.folds for step in steps):
            found.add("sums over threads")
    return found


def run_gpu(numbers: Sequence[int], seed: int, progress: Progress[str] | None = None) -> Report:
    """Test the programs with these numbers and this seed."""
    with tempfile.TemporaryDirectory() as folder:
        fuzz = Fuzz(seed, Path(folder))
        fuzz.report.wanted = len(numbers)
        try_all(fuzz.report, numbers, fuzz.one, progress)
        fuzz.printed()
    report = fuzz.report
    if len(numbers) > 1:
        for what, least in LEAST.items():
            if report.seen[what] < least * report.ran:
                report.findings.append(f"too few programs that ran have {what}: less than {least:.0%}")
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0 without findings, 1 with findings, 130 when interrupted."""
    description = "Runs random GPU kernels without a GPU, in two ways, and compares the results."
    return command(arguments, run_gpu, name="cuda", what="programs", description=description)


if __name__ == "__main__":
    raise SystemExit(main())
