"""The kernels and the edges of `atl fuzz sparse`: formulas on a sparse tensor, and tensors of special forms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import numpy as np

import atl
import sparse
from lowering import Kernel
from lowering import compile as compiled
from proofs_tests.programs.choices import Choices, chance
from rewrites import reschedule
from sparse import Format

Shape = tuple[int, ...]
LARGEST: Final = 12
n, m, k = atl.sizes("n m k")


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula on a tensor A and one dense operand, by the extents of both; `result` stores the result as A is."""

    name: str
    operand: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    body: Callable[[atl.Tensor, atl.Tensor, tuple[Any, ...]], atl.Tensor]
    meant: Callable[[Any, Any], Any] = field(compare=False)
    cubes: bool = False
    result: bool = False


def _times_vector(tensor: atl.Tensor, v: atl.Tensor, shape: tuple[Any, ...]) -> atl.Tensor:
    def element(*at: atl.IndexExpr) -> atl.Tensor:
        return atl.sum(shape[-1], lambda last: tensor[(*at, last)] * v[last])

    return atl.gen(*shape[:-1], element)


FORMULAS: Final = (
    Formula("A v", lambda shape: shape[-1:], _times_vector, lambda a, v: a @ v, cubes=True),
    Formula(
        "A B",
        lambda shape: (shape[-1], 2),
        lambda a, b, shape: atl.gen(shape[0], 2, lambda i, r: atl.sum(shape[1], lambda j: a[i, j] * b[j, r])),
        lambda a, b: a @ b,
    ),
    Formula(
        "A * D",
        lambda shape: shape,
        lambda a, d, shape: atl.gen(*shape, lambda i, j: a[i, j] * d[i, j]),
        lambda a, d: a * d,
    ),
    Formula(
        "A + D",
        lambda shape: shape,
        lambda a, d, shape: atl.gen(*shape, lambda i, j: a[i, j] + d[i, j]),
        lambda a, d: a + d,
    ),
    Formula(
        "rows of A scaled, stored as A",
        lambda shape: shape[:1],
        lambda a, w, shape: atl.gen(*shape, lambda i, j: w[i] * a[i, j]),
        lambda a, w: w[:, None] * a,
        result=True,
    ),
)


@cache
def kernel_for(form: Format, formula: Formula, rank: int) -> Kernel:
    """The kernel of a formula on a tensor in a format."""
    shape = (n, m, k)[:rank]
    tensor = atl.tensor("A", *shape, dtype="float64")
    other = atl.tensor("B", *formula.operand(shape), dtype="float64")
    program = atl.program("formula", [tensor, other], formula.body(tensor, other, shape))
    return compiled(reschedule(program).sparsify("A", form, result=formula.result).done().rhs)


def dense_of(result: Any) -> Any:
    """A result as an array, however it is stored."""
    if isinstance(result, sparse.SparseTensor):
        return sparse.decompress(result)
    return result if isinstance(result, np.ndarray) else result.toarray()


# -- edges ------------------------------------------------------------------------------------------------------------

EDGES: Final = (
    "any", "empty", "one entry", "full row", "empty rows", "no rows", "no columns", "zeros", "repeated", "in disorder",
)  # fmt: skip


def tensor_at(choices: Choices, edge: str, rank: int) -> tuple[Shape, list[Any], Any]:
    """A shape, and entries: coordinates that may repeat, in any order, and values that may be zero, at an edge."""
    largest = LARGEST if rank == 2 else LARGEST // 2
    shape = [choices.integer(0 if edge == "any" else 1, largest) for _ in range(rank)]
    if edge in ("no rows", "no columns"):
        shape[0 if edge == "no rows" else -1] = 0
    room = int(np.prod(shape))
    count = 0 if not room else choices.integer(1, max(1, (room * choices.integer(0, 120)) // 100))
    count = {"empty": 0, "one entry": min(1, room)}.get(edge, count)
    at = [np.array([choices.integer(0, extent - 1) for _ in range(count)], np.int64) for extent in shape]
    if edge == "full row":
        row = choices.integer(0, shape[0] - 1)
        whole = np.arange(shape[-1])
        fixed = [np.full(shape[-1], row), *(np.zeros(shape[-1], np.int64) for _ in shape[1:-1]), whole]
        at = [np.concatenate(pair) for pair in zip(at, fixed, strict=True)]
    if edge == "empty rows":
        at[0] //= 3
    if edge == "repeated":
        at = [np.tile(each, 2) for each in at]
    if edge != "in disorder" and chance(choices, 60) and len(at[0]):
        order = np.lexsort(at[::-1])
        at = [each[order] for each in at]
    values = np.array([choices.integer(-3, 5) for _ in at[0]], np.float64)
    return tuple(shape), at, np.zeros_like(values) if edge == "zeros" else values
