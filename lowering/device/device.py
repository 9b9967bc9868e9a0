"""GPU arrays, and the timing of GPU work, for tests and benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from statistics import median
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from atl.errors import InvalidArgument, brief
from lowering.device.building import ParameterKind
from lowering.device.calls import Machine
from lowering.device.runtime import DECLARED, PER_THREAD, Runtime
from lowering.timing.harness import rotated

POISON: Final = 0xFF
"""Fill byte of uninitialised arrays: floats become NaN, and integers -1."""


@dataclass(frozen=True, slots=True)
class DeviceArray:
    """A C-contiguous array on the GPU, with `__cuda_array_interface__`. `Device.free` frees its memory."""

    pointer: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    stream: int

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.pointer, False),
            "strides": None,
            "stream": self.stream,
            "version": 3,
        }

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return prod(self.shape) * self.dtype.itemsize


class Device:
    """The current thread's GPU: its memory, a stream, timing, and functions of a CUDA text.

    `text` is additional CUDA source, and `takes` the signatures of its functions, which return 0 for success. Raises
    `GpuMissing`, `CompilerFailed`; `CudaError` for errors of CUDA.
    """

    stream: Final = PER_THREAD
    """Number of the stream that is used throughout."""

    def __init__(
        self,
        machine: Machine,
        text: str = "",
        name: str = "device",
        takes: Mapping[str, tuple[ParameterKind, ...]] | None = None,
    ) -> None:
        if not callable(getattr(machine, "functions", None)):
            raise InvalidArgument(f"machine={brief(machine)}", required="a machine that runs kernels: Gpu()")
        self._functions = machine.functions(text, name, {**DECLARED, **(takes or {})})
        self._runtime = Runtime(self._functions)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> DeviceArray:
        """Allocate an array filled with `POISON`."""
        dtype = np.dtype(dtype)
        made = DeviceArray(
            self._runtime.allocate(max(prod(shape) * dtype.itemsize, 1), self.stream), shape, dtype, self.stream
        )
        self.poison(made)
        return made

    def poison(self, array: DeviceArray) -> None:
        """Fill an array with `POISON`, which no result contains."""
        self._runtime.fill(array.pointer, POISON, array.nbytes, self.stream)

    def array(self, held: npt.NDArray[Any]) -> DeviceArray:
        """Copy a NumPy array to the GPU."""
        held = np.asarray(held, order="C")
        made = self.empty(held.shape, held.dtype)
        if held.nbytes:
            self._runtime.copy_in(made.pointer, held, self.stream)
            self._runtime.wait(self.stream)
        return made

    def read(self, array: DeviceArray) -> npt.NDArray[Any]:
        """Wait for the stream, and return a copy of an array's elements."""
        made = np.empty(array.shape, array.dtype)
        if made.nbytes:
            self._runtime.copy_out(made, array.pointer, self.stream)
        self._runtime.wait(self.stream)
        return made

    def free(self, *arrays: DeviceArray) -> None:
        """Free the memory of arrays."""
        for array in arrays:
            self._runtime.free(array.pointer, self.stream)

    def wait(self) -> None:
        """Wait for all work in the stream."""
        self._runtime.wait(self.stream)

    def call(self, name: str, *arguments: object) -> None:
        """Call a function of the text; arrays are passed as pointers."""
        values = [each.pointer if isinstance(each, DeviceArray) else each for each in arguments]
        self._runtime.check(self._functions[name](*values), name)

    def milliseconds(self, run: Callable[[], object], times: int) -> float:
        """Time runs that enqueue work in the stream; return the milliseconds per run on the GPU."""
        if not callable(run) or not isinstance(times, int) or times < 1:
            raise InvalidArgument(f"run={brief(run)}, times={brief(times)}", required="a function, and 1 or more times")
        start, end = self._runtime.event(), self._runtime.event()
        try:
            self._runtime.record(start, self.stream)
            for _ in range(times):
                run()
            self._runtime.record(end, self.stream)
            self._runtime.wait(self.stream)
            return self._runtime.elapsed(start, end) / times
        finally:
            self._runtime.destroy(start)
            self._runtime.destroy(end)

    def in_turn(self, candidates: Mapping[str, Callable[[], object]], *, rounds: int) -> dict[str, list[float]]:
        """Time each candidate once per round; return the milliseconds per run.

        In a round, each candidate runs repeatedly for about 5 milliseconds. `rotated` rotates the order in each round.
        """
        names = list(candidates)
        times: dict[str, int] = {}
        for name in names:
            run = candidates[name]
            self.milliseconds(run, 2)
            once = median(self.milliseconds(run, 3) for _ in range(3))
            times[name] = max(1, min(1000, int(5.0 / max(once, 1e-3))))
        found: dict[str, list[float]] = {name: [] for name in names}
        for number in range(rounds):
            for name in rotated(names, number):
                found[name].append(self.milliseconds(candidates[name], times[name]))
        return found
