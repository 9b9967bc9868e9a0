"""A fuzzer for pad-sets: no accepted program stores out of bounds, and few safe programs are refused.

`python -m proofs_tests.padding.fuzz --n 20000 --seed 1` prints the counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

import atl
from atl import Program
from atl.core.index import Size, value_at
from atl.errors import ATLError
from atl.meaning.interpret import denote
from atl.meaning.scalars import Machine
from atl.prove import Model, Proved, Refuted
from lowering.lower import lower_unchecked
from lowering.nest.execution import Trap
from lowering.nest.interpreter import execute
from lowering.nest.loopnest import LoopNest
from padtypes import truncations
from proofs_tests.fuzzing import Progress, Tally, command, counted, try_all
from proofs_tests.padding.pad_programs import Maker
from proofs_tests.programs import batch
from proofs_tests.programs.agreement import own_cache
from proofs_tests.programs.choices import Seeded

BOUND = 3
"""The largest size that the brute-force check of safety tries."""
CELLS = 4_000
"""The brute-force check skips sizes for which a program has more elements than this."""


@dataclass(slots=True)
class Report(Tally[str]):
    """Counts of the outcomes of a run."""

    discarded: Counter[str] = field(default_factory=Counter)
    accepted: int = 0
    runs: int = 0
    sanitized: int = 0
    safe: int = 0
    safe_accepted: int = 0
    refused: int = 0
    gave_up: int = 0
    counterexamples: int = 0
    operators: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        judged = self.accepted + self.refused
        share = 100 * self.safe_accepted / self.safe if self.safe else 100.0
        lines = [
            self.opening("programs"),
            f"  {judged} judged, {self.discarded.total()} discarded: {counted(dict(self.discarded.most_common()))}",
            f"  {self.accepted} accepted; {self.runs} runs of their loop nests, {self.sanitized} under sanitizers",
            f"  {self.refused} refused: {self.counterexamples} with a counterexample that was executed",
            f"  {self.gave_up} refused because the prover gave up ({100 * self.gave_up / max(1, judged):.2f} %)",
            f"  {self.safe} safe at every size up to {BOUND}, {self.safe_accepted} of them accepted ({share:.1f} %)",
            f"  operators: {counted(dict(sorted(self.operators.items())))}",
        ]
        return self.report(lines)


def arrays_of(program: Program, sizes: Mapping[str, int]) -> dict[str, npt.NDArray[Any]]:
    out: dict[str, npt.NDArray[Any]] = {}
    for array in program.inputs:
        shape = tuple(value_at(extent, sizes) for extent in array.shape)
        out[array.name] = np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)
    return out


def small_sizes(program: Program) -> Iterator[dict[str, int]]:
    ranges = [range(1, BOUND + 1) if name in "kt" else range(BOUND + 1) for name in program.sizes]
    for values in product(*ranges):
        yield dict(zip(program.sizes, values, strict=True))


def small_enough(program: Program, sizes: Mapping[str, int]) -> bool:
    count = 1
    for extent in program.type.shape:
        count *= max(1, value_at(extent, sizes))
    return count <= CELLS


def wrong_at(nest: LoopNest, program: Program, sizes: Mapping[str, int]) -> str | None:
    """Return the fault of a run at these sizes, a trap or a wrong result, or None.

    A cut element may stay within the buffer: after further padding it overwrites an element that should be zero.
    """
    arrays = arrays_of(program, sizes)
    try:
        found = execute(nest, sizes, arrays).to_numpy()
    except Trap as trap:
        return str(trap)
    meant = denote(program, sizes, arrays, Machine()).to_numpy(found.dtype)
    return None if np.array_equal(found, meant) else f"{found.tolist()}, expected {meant.tolist()}"


def judge(program: Program) -> tuple[str, Model | None]:
    """Return "accepted", "refused" with a counterexample, or "gave up"."""
    for truncation in truncations(program):
        for case in truncation.operand.cases:
            answer = truncation.decide(case)
            if isinstance(answer, Refuted):
                return "refused", answer.model
            if not isinstance(answer, Proved):
                return "gave up", None
    return "accepted", None


def sizes_in(model: Model, program: Program) -> dict[str, int]:
    """Return the sizes of a counterexample, with the minimum for sizes that it omits."""
    known = {leaf.name: value for leaf, value in model.leaves if isinstance(leaf, Size)}
    return {name: known.get(name, 1 if name in "kt" else 0) for name in program.sizes}


class Run:
    """A run over random programs of one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.counts = Report(seed)
        self.accepted: list[tuple[int, Program]] = []

    def program(self, number: int) -> Program | None:
        maker = Maker(Seeded.by(f"pads {self.seed} {number}"))
        try:
            program = maker.program()
        except ATLError as error:
            self.counts.discarded[type(error).__name__] += 1
            return None
        if not maker.nontrivial:
            self.counts.discarded["only trivial truncations"] += 1
            return None
        self.counts.operators.update(maker.used)
        return program

    def one(self, number: int, *, brute_force: bool) -> None:
        program = self.program(number)
        if program is None:
            return
        try:
            atl.check_safe(program)
            nest = lower_unchecked(program)
        except ATLError as error:
            self.counts.discarded[type(error).__name__] += 1
            return
        verdict, model = judge(program)
        if verdict == "accepted":
            self._accepted(number, program, nest)
        else:
            self._refused(number, program, nest, model)
        if brute_force:
            self._brute_force(program, nest, verdict)

    def _accepted(self, number: int, program: Program, nest: LoopNest) -> None:
        """Run at three sizes; exactly the elements that are not padding are stored (Theorems 2 and 3)."""
        self.counts.accepted += 1
        self.accepted.append((number, program))
        choices = Seeded.by(f"sizes {self.seed} {number}")
        exact = lower_unchecked(program, registers=False)
        for _ in range(3):
            sizes = {name: choices.integer(1 if name in "kt" else 0, 5) for name in program.sizes}
            if not small_enough(program, sizes):
                continue
            self.counts.runs += 1
            wrong = wrong_at(nest, program, sizes)
            if wrong is not None:
                self._failed(number, program, f"accepted, but at {sizes}: {wrong}")
                return
            if not footprint_is_exact(program, exact, sizes):
                self._failed(number, program, f"the cells stored at {sizes} are not those of the computed elements")
                return

    def _refused(self, number: int, program: Program, nest: LoopNest, model: Model | None) -> None:
        self.counts.refused += 1
        if model is None:
            self.counts.gave_up += 1
            return
        sizes = sizes_in(model, program)
        exact = lower_unchecked(program, registers=False)
        if wrong_at(nest, program, sizes) is None and footprint_is_exact(program, exact, sizes):
            self._failed(number, program, f"refused with {sizes}, where nothing is lost")
        else:
            self.counts.counterexamples += 1

    def _brute_force(self, program: Program, nest: LoopNest, verdict: str) -> None:
        for sizes in small_sizes(program):
            if small_enough(program, sizes) and wrong_at(nest, program, sizes) is not None:
                return
        self.counts.safe += 1
        self.counts.safe_accepted += verdict == "accepted"

    def sanitize(self, programs: Sequence[tuple[int, Program]], together: int = 50) -> None:
        """Run programs under the address and undefined-behaviour sanitizers, at two sizes each."""
        for start in range(0, len(programs), together):
            block = programs[start : start + together]
            sanitized = batch.Sanitized([program for _, program in block])
            calls: list[batch.Call] = []
            for which, (number, program) in enumerate(block):
                choices = Seeded.by(f"sanitized {self.seed} {number}")
                for _ in range(2):
                    sizes = {name: choices.integer(1 if name in "kt" else 0, 4) for name in program.sizes}
                    if small_enough(program, sizes):
                        free = {name: sizes[name] for name in program.free_sizes}
                        calls.append(batch.Call(which, {**arrays_of(program, sizes), **free}))
            for call, result in zip(calls, sanitized.run(calls), strict=True):
                self.counts.sanitized += 1
                if isinstance(result, batch.Report):
                    number, program = block[call.which]
                    self._failed(number, program, f"under sanitizers: {result.text}")

    def _failed(self, number: int, program: Program, why: str) -> None:
        self.counts.findings.append(f"program {number} of seed {self.seed}: {why}\n{program}")


def footprint_is_exact(program: Program, nest: LoopNest, sizes: Mapping[str, int]) -> bool:
    """Return whether exactly the elements that are not padding are stored, with the correct values."""
    arrays = arrays_of(program, sizes)
    meaning = denote(program, sizes, arrays, Machine())
    try:
        outcome = execute(nest, sizes, arrays)
    except Trap:
        return False
    padding = meaning.padding().reshape(-1)
    stored = np.zeros(padding.shape, dtype=bool)
    stored[list(outcome.cells)] = True
    return bool((stored == ~padding).all()) and np.array_equal(outcome.to_numpy(), meaning.to_numpy(np.float32))


def run_pads(
    numbers: Sequence[int],
    seed: int,
    progress: Progress[str] | None = None,
    *,
    brute_force_every: int = 4,
    sanitize_every: int = 4,
) -> Report:
    """Test the programs with these numbers, and compare every `brute_force_every`-th decision with brute force.

    Every `sanitize_every`-th accepted program, unless it is 0, is compiled and run under sanitizers, with buffers of
    the exact size.
    """
    run = Run(seed)
    run.counts.wanted = len(numbers)
    try_all(run.counts, numbers, lambda number: run.one(number, brute_force=number % brute_force_every == 0), progress)
    if sanitize_every:
        with own_cache():
            run.sanitize(run.accepted[::sanitize_every])
    return run.counts


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return 0 without findings, 1 with findings, 130 when interrupted."""
    return command(arguments, run_pads, name="pads", what="programs", description=__doc__)


if __name__ == "__main__":
    raise SystemExit(main())
