"""The GPU schedules of `examples/gpu.py`, with the sizes at which they are measured."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import atl
from atl.core.index import value_at
from atl.core.program import Program
from examples import gpu
from examples.schedules import everyday

Array = npt.NDArray[Any]
Sizes = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Work:
    """Measurement of a program: its sizes, its number of operations, and a NumPy reference."""

    sizes: tuple[dict[str, int], ...]
    operations: Callable[[Sizes], float] | None = None
    """Number of floating-point operations, if the program is compute-bound."""
    reference: Callable[..., Array] | None = None
    """Result in double precision, from the inputs in order."""
    inputs: Callable[[Sizes, int], dict[str, Array]] | None = None
    """Inputs for given sizes and a seed, if random ones would be unrealistic."""


def _blurred(v: Array) -> Array:
    wide = np.pad(v, 1)
    n, m = v.shape
    out: Array = np.add.reduce([wide[i : i + n, j : j + m] for i in range(3) for j in range(3)])
    return out


def _sparse_rows(sizes: Sizes, seed: int) -> dict[str, Array]:
    """Return a sparse matrix with rows of random lengths, and a vector."""
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
"""Measurements by program name. Other programs use the sizes of `LARGE` and have no reference there."""
LARGE: Final = {1: 2**26, 2: 8192, 3: 512, 4: 128}
"""Value of each size, by the number of sizes of a program."""


class Shipped:
    """A GPU schedule of the examples, with its program and its kernel."""

    def __init__(self, name: str, session: atl.Session) -> None:
        self.name: Final = name
        theorem = session.done()
        self.program: Final[Program] = theorem.lhs
        """The program before the first step, which defines the result."""
        self.kernel: atl.GpuKernel = atl.compile(theorem.rhs, target="cuda")

    @cached_property
    def work(self) -> Work:
        """Measurement of this program."""
        sizes = self.program.sizes
        usual = {name: LARGE.get(len(sizes), 64) for name in sizes}
        return WORKS.get(self.program.name) or Work((usual,))

    def inputs_at(self, sizes: Sizes, seed: int) -> dict[str, Array]:
        """Return random inputs for given sizes."""
        made = self.work.inputs
        return atl.random_inputs(self.program, sizes, seed) if made is None else made(sizes, seed)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type of the result."""
        return np.dtype(self.kernel.nest.output.dtype)

    def shape_at(self, sizes: Sizes) -> tuple[int, ...]:
        """Return the shape of the result."""
        return tuple(value_at(extent, sizes) for extent in self.program.shape)

    def bytes_at(self, sizes: Sizes, inputs: Mapping[str, Array]) -> int:
        """Return the least number of bytes moved: each input read once, the result written once."""
        return sum(array.nbytes for array in inputs.values()) + prod(self.shape_at(sizes)) * self.dtype.itemsize

    def on(self, machine: Any) -> Shipped:
        """Use another machine for the kernel, as the tests do."""
        self.kernel = atl.GpuKernel(self.kernel.program, self.kernel.kernels, machine)
        return self


def names() -> list[str]:
    """Return the names of the schedules: the functions of `examples/gpu.py` that return a session."""
    found = inspect.getmembers(gpu, inspect.isfunction)
    return [name for name, made in found if made.__annotations__.get("return") == "atl.Session"]


def shipped(name: str) -> Shipped:
    """Return the schedule of this name, with its default parameters."""
    return Shipped(name, getattr(gpu, name)())
