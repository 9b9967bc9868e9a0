"""A fuzzer for assembled sparse results: random operands, compared with the dense formula and the interpreter.

`atl fuzz sparse --assembled --n 5000 --seed 1`: each result must equal the dense formula, its entries must be the cells
that the loop-nest interpreter stores, each once, and in order if the format is sorted. In half of the calls, the arrays
of the result are too small at first, so that the kernel continues several times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pytest

from atl.meaning.arguments import bind
from lowering import Kernel
from lowering.calls import assembling
from lowering.nest.assembly import gathers
from lowering.nest.interpreter import execute
from proofs_tests.fuzzing import Progress, Tally, command, try_all
from proofs_tests.programs.choices import Choices, Seeded, chance, choose
from proofs_tests.sparse.assembled.formulas import FORMULAS, UNSORTED, WITH_ZEROS, Formula, kernel_for
from proofs_tests.sparse.random_tensors.entries import EDGES, dense_of_entries, passed_in, tensor_at
from sparse import CSR, VECTOR, Format, SparseTensor, pack
from sparse.tensors import entries

BLOCK: Final = 25
"""The number of consecutive calls of one kernel."""


@dataclass(slots=True)
class Report(Tally[str]):
    """Counts of calls by formula, the ways rows were stored, and the findings."""

    formulas: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    results: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        lines = [self.opening("assembled results")]
        for title, counts in (("formulas", self.formulas), ("rows", self.kinds), ("results", self.results)):
            lines.append(f"  {title}: " + ", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
        return self.report(lines)


def one(report: Report, number: int) -> None:
    """Call a kernel with random operands, and check its result."""
    block = number // BLOCK
    drawn = Seeded.by(f"assembled kernel {report.seed} {block}")
    formula = FORMULAS[block % len(FORMULAS)]
    form, result = choose(drawn, formula.formats), choose(drawn, formula.results)
    zeros = not chance(drawn, 20)
    label = f"call {number} of seed {report.seed}, {formula.name}, {form!r} to {result!r}, zeros={zeros}"
    report.formulas[formula.name] += 1
    report.results[repr(result)] += 1
    choices = Seeded.by(f"assembled {report.seed} {number}")
    try:
        kernel = kernel_for(formula, form, result, zeros)
        passed, dense, ones = _operands(choices, formula, form)
        call = Call(kernel, passed, formula.meant(*dense), (formula.pattern or formula.meant)(*ones) > 0, result, zeros)
        found = call.fault(small=chance(choices, 50))
        report.kinds[_kind(kernel)] += 1
    except Exception as error:  # noqa: BLE001 (any exception is a finding)
        found = f"{type(error).__name__}: {error}"
    if found is not None:
        report.findings.append(f"{label}: {found}")


def _kind(kernel: Kernel) -> str:
    return gathers(kernel.nest)[0].kind


def _operands(choices: Choices, formula: Formula, form: Format) -> tuple[list[Any], list[Any], list[Any]]:
    """Draw the operands of a call, and return them with their dense values, and with 1 at each entry."""
    sizes = {name: choices.integer(0 if chance(choices, 10) else 1, 11) for name in "nmk"}
    passed, dense, ones = [], [], []
    for name, extents in (*formula.operands.items(), *formula.others.items()):
        shape = tuple(extent if isinstance(extent, int) else sizes[str(extent)] for extent in extents)
        edge = choose(choices, [edge for edge in EDGES if edge not in ("no rows", "no columns", "undivided")])
        _, coordinates, values = tensor_at(choices, edge, len(shape), shape)
        value = dense_of_entries(shape, coordinates, values)
        dense.append(value)
        if name not in formula.operands:
            passed.append(value)
            ones.append(np.ones(shape))
            continue
        held = form if len(shape) > 1 else VECTOR
        if held.ordered or len(shape) == 1 or formula.dtype != "float64":
            passed.append(pack(value.astype(formula.dtype), held))
        else:
            passed.append(passed_in(choices, held, shape, coordinates, values, wide=edge == "int64")[1])
        at, _ = entries(pack(passed[-1], held))
        ones.append(np.zeros(shape))
        ones[-1][tuple(at)] = 1
    return passed, dense, ones


@contextmanager
def small_arrays() -> Iterator[None]:
    """Begin with space for the entries of one row, and let arrays grow by a factor of 2."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assembling.Assembler, "_guess", lambda *_: 0)
        patch.setattr(assembling, "LEAST", 0)
        patch.setattr(assembling, "GROWTH", 2)
        yield


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a kernel: its arguments, the value of the result, and where it has entries."""

    kernel: Kernel
    passed: Sequence[Any]
    meant: Any
    pattern: Any
    result: Format
    zeros: bool

    def fault(self, *, small: bool) -> str | None:
        """Return what is wrong with the result; None if it is correct."""
        with small_arrays() if small else nullcontext():
            made = self.kernel(*self.passed)
        coordinates, values = coordinates_of(made)
        if tuple(made.shape) != self.meant.shape:
            return f"the shape is {made.shape}, not {self.meant.shape}"
        dense = dense_of_entries(self.meant.shape, coordinates, values)
        if not np.array_equal(dense, self.meant):
            return f"the value is {dense.tolist()}, not {self.meant.tolist()}, for {self.passed}"
        if self.result.name in WITH_ZEROS:
            return None
        cells = list(zip(*(each.tolist() for each in coordinates), strict=True))
        return self._wrong_entries(cells) or _not_sorted(cells, self.result)

    def _wrong_entries(self, cells: Sequence[tuple[int, ...]]) -> str | None:
        if len(set(cells)) < len(cells):
            return f"an element has several entries: {cells}"
        call = bind(self.kernel.program, list(self.passed), {})
        stored = execute(self.kernel.nest, call.sizes, call.arrays).cells
        wanted = {at for at, value in stored.items() if self.zeros or value != 0}
        pattern = {int(at) for at in np.flatnonzero(self.pattern) if self.zeros or self.meant.flat[at] != 0}
        if wanted != pattern:
            return f"the nest stores {sorted(wanted)}, but the entries are {sorted(pattern)}"
        got = {int(np.ravel_multi_index(at, self.meant.shape)) for at in cells}
        return f"the entries are {sorted(got)}, but the nest stores {sorted(wanted)}" if got != wanted else None


def coordinates_of(made: Any) -> tuple[list[Any], Any]:
    """Return the coordinates and values of a result, in the order in which it stores them."""
    if isinstance(made, SparseTensor):
        return entries(made)
    found = made.tocoo()
    return [np.asarray(each) for each in found.coords], found.data


def _not_sorted(cells: list[tuple[int, ...]], result: Format) -> str | None:
    if result.name in UNSORTED:
        return None
    order = getattr(result.view, "order", range(len(cells[0]) if cells else 0))
    turned = [tuple(cell[dimension] for dimension in order) for cell in cells]
    outer = [cell[0] for cell in turned] if len(order) > 1 else []
    if outer != sorted(outer):
        return f"the rows of {cells} are not in order"
    ordered = result.ordered or result.name not in (CSR.name, "CSC")
    return f"{cells} are not sorted" if ordered and turned != sorted(turned) else None


def run_assembled(
    numbers: Sequence[int], seed: int, progress: Progress[str] | None = None, *, first: bool = False
) -> Report:
    """Run the given calls of a seed; stop at the first finding if `first` is true."""
    report = Report(seed, len(numbers))
    try_all(report, numbers, lambda number: one(report, number), progress, first=first)
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is 0 without findings, 1 with findings, 130 if interrupted."""
    summary = "Assembled sparse results of random operands, compared with the dense formula and the interpreter."
    return command(arguments, run_assembled, name="sparse --assembled", what="results", description=summary)


if __name__ == "__main__":
    raise SystemExit(main())
