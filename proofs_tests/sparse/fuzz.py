"""Random sparse tensors in every format, through kernels: each cell of a result against the dense formula.

`atl fuzz sparse --n 5000 --seed 1` prints the counts, and of a cell that is wrong the entries of the tensor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import numpy as np

import atl
import sparse
from atl.errors import ATLError
from lowering import Kernel
from lowering import compile as compiled
from proofs_tests.fuzzing import Progress, Tally, command, try_all
from proofs_tests.programs.choices import Seeded, chance, choose
from rewrites import reschedule
from sparse import Format, decompress
from sparse.tensors import SparseTensor, encoded

MATRICES: Final = (
    sparse.CSR, sparse.CSC, sparse.DCSR, sparse.DCSC, sparse.CSF, sparse.COO, sparse.BCSR, sparse.BCSR(2, 3),
    sparse.CSB(3, 2), sparse.DIA, sparse.BITMASK, sparse.HASH, sparse.CSR.with_index("int64"),
)  # fmt: skip
CUBES: Final = (sparse.CSF, sparse.COO, sparse.BITMASK, sparse.HASH, sparse.MODE_GENERIC)
LARGEST: Final = 12


@cache
def kernel_for(form: Format, rank: int) -> Kernel:
    """The product of a tensor in this format with a vector, along the last dimension."""
    shape = atl.sizes("n m" if rank == 2 else "n m k")
    tensor = atl.tensor("A", *shape, dtype="float64")
    v = atl.tensor("v", shape[-1], dtype="float64")

    def element(*at: atl.IndexExpr) -> atl.Tensor:
        return atl.sum(shape[-1], lambda last: tensor[(*at, last)] * v[last])

    made = atl.gen(*shape[:-1], element)
    return compiled(reschedule(atl.program("product", [tensor, v], made)).sparsify("A", form).done().rhs)


@dataclass(slots=True)
class Report(Tally[str]):
    """How many tensors there were, by the format that they were in, and what was wrong."""

    formats: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        counts = ", ".join(f"{name} {times}" for name, times in self.formats.most_common())
        lines = [self.opening("tensors"), f"formats: {counts}", f"{len(self.findings)} findings", *self.findings]
        return "\n".join(lines)


def tensor_of(number: int, seed: int) -> tuple[Format, tuple[int, ...], list[Any], Any]:
    """A format, a shape, and entries: coordinates that may repeat, in any order, and values that may be zero."""
    choices = Seeded.by(f"sparse {seed} {number}")
    rank = 3 if chance(choices, 30) else 2
    form = choose(choices, CUBES if rank == 3 else MATRICES)
    largest = LARGEST if rank == 2 else LARGEST // 2
    shape = tuple(choices.integer(0, largest) for _ in range(rank))
    room = int(np.prod(shape))
    count = 0 if not room else choices.integer(0, max(1, (room * choices.integer(0, 120)) // 100))
    coordinates = [np.array([choices.integer(0, n - 1) for _ in range(count)], np.int64) for n in shape]
    if chance(choices, 50) and count:
        order = np.lexsort(coordinates[::-1])
        coordinates = [each[order] for each in coordinates]
    values = np.array([choices.integer(-3, 5) for _ in range(count)], np.float64)
    return form, shape, coordinates, values


def one(report: Report, number: int) -> None:
    """Encodes a tensor, takes it apart again, and multiplies it with a vector."""
    form, shape, coordinates, values = tensor_of(number, report.seed)
    report.formats[repr(form)] += 1
    wanted = np.zeros(shape)
    np.add.at(wanted, tuple(coordinates), values)
    vector = np.arange(1.0, shape[-1] + 1)
    entries = list(zip(zip(*(each.tolist() for each in coordinates), strict=True), values.tolist(), strict=True))
    what = f"tensor {number} of seed {report.seed}, {form!r} of shape {shape}, entries {entries}"
    try:
        packed: SparseTensor = encoded(form, shape, coordinates, values)
        found = decompress(packed)
        product = kernel_for(form, len(shape))(packed, vector)
    except ATLError as error:
        report.findings.append(f"{what}: refused: {error}")
        return
    for name, made, meant in (("unpacked", found, wanted), ("times a vector", product, wanted @ vector)):
        wrong = np.argwhere(made != meant) if made.shape == meant.shape else np.zeros((1, 0))
        for at in wrong[:1]:
            report.findings.append(f"{what}: {name}, the cell {tuple(at.tolist())} is wrong: {made.tolist()}")


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
