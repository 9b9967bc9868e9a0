"""Random sparse tensors in every format, through kernels: each cell of a result against the dense formula.

`atl fuzz sparse --n 5000 --seed 1` prints how many tensors there were for each formula, format and edge, and of a cell
that is wrong the entries of the tensor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

import sparse
from atl.errors import ATLError
from proofs_tests.fuzzing import Progress, Tally, command, try_all
from proofs_tests.programs.choices import Seeded, chance, choose
from proofs_tests.sparse.fuzz_kernels import EDGES, FORMULAS, dense_of, kernel_for, tensor_at
from sparse import decompress
from sparse.tensors import SparseTensor, encoded

MATRICES: Final = (
    sparse.CSR, sparse.CSC, sparse.DCSR, sparse.DCSC, sparse.CSF, sparse.COO, sparse.BCSR, sparse.BCSR(2, 3),
    sparse.CSB(3, 2), sparse.DIA, sparse.BITMASK, sparse.HASH, sparse.CSR.with_index("int64"),
)  # fmt: skip
CUBES: Final = (sparse.CSF, sparse.COO, sparse.BITMASK, sparse.HASH, sparse.MODE_GENERIC)
BLOCK: Final = 500
"""So many tensors in a row meet one formula: a short run needs few kernels."""


@dataclass(slots=True)
class Report(Tally[str]):
    """How many tensors there were, by formula, format and edge, and what was wrong."""

    cells: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    wrong: set[tuple[str, str, str]] = field(default_factory=set)

    @property
    def formats(self) -> set[str]:
        """The formats that there were tensors in."""
        return {form for _, form, _ in self.cells}

    def __str__(self) -> str:
        parts = (self._table(formula.name) for formula in FORMULAS if any(key[0] == formula.name for key in self.cells))
        return "\n".join([self.opening("tensors"), *parts, f"{len(self.findings)} findings", *self.findings])

    def _table(self, formula: str) -> str:
        """How many tensors there were in each format, at each edge; WRONG where one was."""
        wide = [max(len(edge), 5) for edge in EDGES]
        lines = [f"{formula:32}" + "  ".join(f"{edge:>{w}}" for edge, w in zip(EDGES, wide, strict=True))]
        for form in sorted({name for of, name, _ in self.cells if of == formula}):
            row = (self._cell((formula, form, edge), w) for edge, w in zip(EDGES, wide, strict=True))
            lines.append(f"  {form:30}" + "  ".join(row))
        return "\n".join(lines)

    def _cell(self, key: tuple[str, str, str], wide: int) -> str:
        return f"{'WRONG' if key in self.wrong else self.cells[key]:>{wide}}"


def one(report: Report, number: int) -> None:
    """Encodes a tensor, takes it apart again, and puts it through a kernel."""
    choices = Seeded.by(f"sparse {report.seed} {number}")
    formula, edge = FORMULAS[number // BLOCK % len(FORMULAS)], choose(choices, EDGES)
    rank = 3 if formula.cubes and chance(choices, 30) else 2
    form = choose(choices, CUBES if rank == 3 else MATRICES)
    shape, coordinates, values = tensor_at(choices, edge, rank)
    wanted = np.zeros(shape)
    np.add.at(wanted, tuple(coordinates), values)
    extents = formula.operand(shape)
    other = (np.arange(int(np.prod(extents))) % 7 - 2.0).reshape(extents)
    entries = list(zip(zip(*(each.tolist() for each in coordinates), strict=True), values.tolist(), strict=True))
    what = f"tensor {number} of seed {report.seed}, {form!r} of shape {shape}, {edge}, entries {entries}"
    key = (formula.name, repr(form), edge)
    report.cells[key] += 1
    try:
        packed: SparseTensor = encoded(form, shape, coordinates, values)
        found = decompress(packed)
        kernel = kernel_for(form, formula, rank)
        made = [dense_of(kernel(packed, other)) for _ in range(2)]  # the second time shapes are remembered
    except ATLError as error:
        report.wrong.add(key)
        report.findings.append(f"{what}: refused: {error}")
        return
    meant = formula.meant(wanted, other)
    for name, result, right in (("unpacked", found, wanted), *((formula.name, each, meant) for each in made)):
        wrong = np.argwhere(result != right) if result.shape == right.shape else np.zeros((1, 0))
        for at in wrong[:1]:
            report.wrong.add(key)
            report.findings.append(f"{what}: {name}, the cell {tuple(at.tolist())} is wrong: {result.tolist()}")


def run_sparse(
    numbers: Sequence[int], seed: int, progress: Progress[str] | None = None, *, first: bool = False
) -> Report:
    """These tensors of a seed; with `first`, no more than up to the first finding."""
    report = Report(seed, len(numbers))
    try_all(report, numbers, lambda number: one(report, number), progress, first=first)
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: 0 without findings, 1 with some, 130 when interrupted."""
    said = "Random sparse tensors in every format, through kernels."
    return command(arguments, run_sparse, name="sparse", what="tensors", description=said)


if __name__ == "__main__":
    raise SystemExit(main())
