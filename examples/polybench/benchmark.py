"""A kernel of PolyBench/C: its program, the sizes of each data set, and its initial arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

import atl
from atl import Program, Tensor

Array: TypeAlias = npt.NDArray[Any]
Extent: TypeAlias = atl.IndexExpr | int

REAL: Final = "float64"
DATA_SETS: Final = ("MINI", "SMALL", "MEDIUM", "LARGE")


class Sizes(dict[str, int]):
    """The sizes of a data set, read as attributes: `sizes.ni`."""

    def __getattr__(self, name: str) -> int:
        if name in self:
            return self[name]
        raise AttributeError(name)


@dataclass(frozen=True)
class Benchmark:
    """A kernel of PolyBench/C.

    `sizes` has the values of each size in `DATA_SETS`. `initial` returns the inputs of the program by name: arrays, and
    numbers for the inputs of rank 0. If PolyBench's results have large rounding errors, `well_posed` returns other
    sizes and inputs, for comparisons up to the order of summation.
    """

    name: str
    make: Callable[[], Program]
    sizes: Mapping[str, tuple[int, int, int, int]]
    initial: Callable[[Sizes], dict[str, Any]]
    well_posed: Callable[[Sizes], tuple[Sizes, dict[str, Any]]] | None = None

    @cached_property
    def program(self) -> Program:
        """The program without a schedule."""
        return self.make()

    def data_set(self, name: str) -> Sizes:
        """Return the sizes of a data set, such as "MINI"."""
        at = DATA_SETS.index(name)
        return Sizes({size: values[at] for size, values in self.sizes.items()})

    def call(self, sizes: Sizes) -> tuple[Sizes, dict[str, Any]]:
        """Return the sizes, and the arguments of the program: its inputs, and the sizes that no array determines."""
        sizes, given = self.well_posed(sizes) if self.well_posed else (sizes, self.initial(sizes))
        inputs = {each.name: np.asarray(given[each.name], dtype=each.dtype) for each in self.program.inputs}
        return sizes, {**inputs, **{name: sizes[name] for name in self.program.free_sizes}}


def real(name: str, *shape: Extent) -> Tensor:
    """Declare an input of double precision."""
    return atl.tensor(name, *shape, dtype=REAL)


def number(size: atl.IndexExpr) -> Tensor:
    """Return a size as a number of double precision."""
    return atl.cast(REAL, atl.value(size))


def table(*extents: int, of: Callable[..., Any]) -> Array:
    """Return the array of doubles whose element at i, j, … is `of(i, j, …)`."""
    return np.asarray(np.fromfunction(of, extents, dtype=np.int64), dtype=np.float64)
