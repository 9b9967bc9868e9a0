"""What ships for a GPU: every schedule of `examples/gpu.py`, with the sizes at which it is measured."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from atl.core.index import Leaf, Size, value_of
from atl.core.program import Program
from examples import gpu
from examples.schedules import everyday
from lowering import GpuKernel, random_inputs
from lowering import compile as compile_program
from rewrites import Session

Array = npt.NDArray[Any]
Sizes = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Work:
    """How a program is measured: its sizes, what is fast on paper, and the result by NumPy."""

    sizes: tuple[dict[str, int], ...]
    operations: Callable[[Sizes], float] | None = None
    """Floating-point operations, where they and not bytes are the floor."""
    reference: Callable[..., Array] | None = None
    """The result in double precision, of the inputs in order."""
    inputs: Callable[[Sizes, int], dict[str, Array]] | None = None
    """The inputs for some sizes and a seed, where random ones are none that anybody has."""


def _blurred(v: Array) -> Array:
    wide = np.pad(v, 1)
    n, m = v.shape
    out: Array = np.add.reduce([wide[i : i + n, j : j + m] for i in range(3) for j in range(3)])
    return out


def _sparse_rows(sizes: Sizes, seed: int) -> dict[str, Array]:
    """A sparse matrix in rows of random lengths, and a vector."""
    random, count = np.random.default_rng(seed), sizes["A_nnz"]
    inner = np.sort(random.integers(0, count, max(sizes["n"] - 1, 0), endpoint=True))
    pos = np.concatenate([[0], inner, [count]])[: sizes["n"] + 1].astype(np.int32)
    crd = random.integers(0, max(sizes["m"], 1), count, dtype=np.int32)
    return {"A_pos": pos, "A_crd": crd, "A_val": _numbers(random, count), "v": _numbers(random, sizes["m"])}


def _numbers(random: np.random.Generator, count: int) -> Array:
    return (random.random(count) + 0.5).astype(np.float32)


def _sparse_product(pos: Array, crd: Array, val: Array, v: Array) -> Array:
    sums = np.concatenate([[0.0], np.cumsum(val * v[crd.astype(np.int64)])])
    rows = pos.astype(np.int64)
    return np.asarray(sums[rows[1:]] - sums[rows[:-1]])


SQUARE: Final = ({"n": 8192, "m": 8192}, {"n": 8191, "m": 8193})
WORKS: Final[dict[str, Work]] = {
    "product": Work(
        ({"n": 4096, "m": 4096, "k": 4096}, {"n": 4093, "m": 4091, "k": 4099}),
        lambda s: 2.0 * s["n"] * s["m"] * s["k"],
        lambda a, b: a @ b,
    ),
    "transposed": Work(SQUARE, None, lambda a: a.T),
    "blur_fused": Work(SQUARE, None, _blurred),
    "row_sums": Work(SQUARE, None, lambda x: x.sum(axis=1)),
    "softmax": Work(SQUARE, None, everyday.numpy_softmax),
    "whole_sum": Work(SQUARE, None, lambda x: np.asarray(x.sum())),
    "gather": Work(
        ({"B": 32, "C": 64, "W": 4096, "K": 64, "R": 5},),
        lambda s: 2.0 * s["B"] * s["K"] * s["W"] * s["C"] * s["R"],
    ),
    "spmv": Work(({"n": 2**20, "m": 2**20, "A_nnz": 2**24},), None, _sparse_product, _sparse_rows),
}
"""By the names of programs. One that is not here is measured with sizes of `LARGE`, by its bytes, unchecked there."""
LARGE: Final = {1: 2**26, 2: 8192, 3: 512, 4: 128}
"""By how many sizes a program has: what each of them is."""


class Shipped:
    """A schedule that ships, with its program, its theorem and its kernel."""

    def __init__(self, name: str, session: Session) -> None:
        self.name: Final = name
        theorem = session.done()
        self.program: Final[Program] = theorem.lhs
        """What is meant: the program before the first step."""
        self.kernel: GpuKernel = compile_program(theorem.rhs, target="cuda")

    @cached_property
    def work(self) -> Work:
        """How it is measured."""
        sizes = self.program.sizes
        usual = {name: LARGE.get(len(sizes), 64) for name in sizes}
        return WORKS.get(self.program.name) or Work((usual,))

    def inputs_at(self, sizes: Sizes, seed: int) -> dict[str, Array]:
        """Random inputs."""
        made = self.work.inputs
        return random_inputs(self.program, sizes, seed) if made is None else made(sizes, seed)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The elements of the result."""
        return np.dtype(self.kernel.nest.output.dtype)

    def shape_at(self, sizes: Sizes) -> tuple[int, ...]:
        """The shape of the result."""

        def leaf(at: Leaf) -> int:
            return sizes[at.name] if isinstance(at, Size) else 0

        return tuple(value_of(extent, leaf, lambda *_: 0) for extent in self.program.shape)

    def bytes_at(self, sizes: Sizes, inputs: Mapping[str, Array]) -> int:
        """The fewest bytes to be moved: each input read once, each element of the result written once."""
        return sum(array.nbytes for array in inputs.values()) + prod(self.shape_at(sizes)) * self.dtype.itemsize

    def on(self, machine: Any) -> Shipped:
        """The same kernel for a machine of one's own, as a test has it."""
        self.kernel = GpuKernel(self.kernel.program, self.kernel.kernels, machine)
        return self


def names() -> list[str]:
    """The schedules: the functions of `examples/gpu.py` that give a session."""
    found = inspect.getmembers(gpu, inspect.isfunction)
    return [name for name, made in found if made.__annotations__.get("return") == "Session" and name != "reschedule"]


def shipped(name: str) -> Shipped:
    """The schedule of this name, with the numbers that it has by default."""
    return Shipped(name, getattr(gpu, name)())
