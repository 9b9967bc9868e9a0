"""Results of different element types in a call: an array for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from atl.core.program import Program
from atl.errors import ArrayError, OutOfMemory
from atl.meaning.results import ResultLayout
from lowering.c.scalars import C_TYPES
from lowering.calls.exchange import is_foreign, kind_of_array, seen_output
from lowering.calls.strides import shares_memory
from lowering.nest.loopnest import LoopNest

AnyArray = npt.NDArray[Any]


class ResultBuffers:
    """The arrays that a C function with a buffer for each result fills."""

    def __init__(self, program: Program, nest: LoopNest, ffi: Any, from_buffer: Callable[..., Any]) -> None:
        self._name: Final = program.name
        self._sizes: Final = nest.sizes
        self._names: Final = tuple(each.name for each in program.results)
        self._layout: Final = ResultLayout(program)
        self._dtypes: Final = tuple(np.dtype(buffer.dtype) for buffer in nest.results)
        self._pointers: Final = tuple(ffi.typeof(f"{C_TYPES[buffer.dtype]}[]") for buffer in nest.results)
        self._from_buffer = from_buffer

    def arrays(self, out: object, sizes: Sequence[int], values: Mapping[str, Any]) -> tuple[Any, list[Any]]:
        """Return the results of a call as a named tuple, new or those of `out`, and the pointers to them.

        `values` are the inputs by name. Raises `ArrayError` for an `out` that cannot store the results, and
        `OutOfMemory`.
        """
        shapes = [shape for _, shape in self._layout.places_of(dict(zip(self._sizes, sizes, strict=True)), values)]
        if out is None:
            made: list[Any] = self._new(shapes, sizes)
            filled = made
        else:
            made, filled = self._given(out, shapes, values)
        into = [self._from_buffer(kind, array) for kind, array in zip(self._pointers, filled, strict=True)]
        return self._layout.named(*made), into

    def _new(self, shapes: Sequence[tuple[int, ...]], sizes: Sequence[int]) -> list[AnyArray]:
        try:
            return [np.empty(shape, dtype) for shape, dtype in zip(shapes, self._dtypes, strict=True)]
        except (MemoryError, ValueError):
            needed = sum(prod(shape) * dtype.itemsize for shape, dtype in zip(shapes, self._dtypes, strict=True))
            raise OutOfMemory(
                f"there is not enough memory for the results of {self._name}",
                required=f"{needed} bytes",
                numbers=dict(zip(self._sizes, sizes, strict=True)),
            ) from None

    def _given(
        self, out: object, shapes: Sequence[tuple[int, ...]], values: Mapping[str, Any]
    ) -> tuple[list[Any], list[AnyArray]]:
        """Return the arrays of `out`, and NumPy views of them."""
        if not isinstance(out, tuple | list) or len(out) != len(shapes):
            raise self._bad(f"out is {kind_of_array(out)}", shapes)
        given = [*out]
        arrays = [seen_output(each) if is_foreign(each) else each for each in given]
        for name, array, shape, dtype in zip(self._names, arrays, shapes, self._dtypes, strict=True):
            if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
                raise self._bad(f"out.{name} is {kind_of_array(array)}", shapes)
            if array.shape != shape or array.dtype != dtype:
                raise self._bad(f"out.{name} has {array.dtype} of shape {array.shape}", shapes)
            flags = array.flags
            if not (flags.c_contiguous and flags.aligned and flags.writeable):
                what = "writeable" if not flags.writeable else "C-contiguous" if flags.aligned else "aligned"
                raise self._bad(f"out.{name} is not {what}", shapes)
        others = [value for value in values.values() if isinstance(value, np.ndarray)]
        for at, array in enumerate(arrays):
            if shares_memory(array, [*others, *arrays[:at]]):
                raise self._bad(f"out.{self._names[at]} shares memory with an input or another result", shapes)
        return given, arrays

    def _bad(self, what: str, shapes: Sequence[tuple[int, ...]]) -> ArrayError:
        each = zip(self._names, self._dtypes, shapes, strict=True)
        return ArrayError(
            what,
            required="a tuple of arrays, contiguous, aligned, writeable, without overlap: "
            + ", ".join(f"{name}: {dtype} of shape {shape}" for name, dtype, shape in each),
            suggestions=("omit out=… to get new arrays",),
        )
