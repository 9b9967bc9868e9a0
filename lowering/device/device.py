"""The GPU as a place for arrays and a clock: what tests and measurements need besides calls of kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from statistics import median
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from atl.errors import InvalidArgument, brief
from lowering.device.building import Kind
from lowering.device.calls import Machine
from lowering.device.runtime import DECLARED, PER_THREAD, Runtime
from lowering.timing.harness import rotated

NOTHING: Final[Mapping[str, tuple[Kind, ...]]] = MappingProxyType({})
POISON: Final = 0xFF
"""Of such bytes floating-point numbers are not-a-numbers, and integers -1."""


@dataclass(frozen=True, slots=True)
class DeviceArray:
    """An array on the GPU, C-contiguous, with `__cuda_array_interface__`; it stays until `Device.free`."""

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
        """How many bytes it takes."""
        return prod(self.shape) * self.dtype.itemsize


class Device:
    """Memory and time of the GPU that this thread uses, in one stream; and functions of CUDA text of one's own.

    `takes` says of each function of the text what it takes; each gives an int, 0 for success. Raises `GpuMissing`,
    `CompilerFailed`, and `CudaError` for what CUDA refuses.
    """

    stream: Final = PER_THREAD
    """The number of the stream in which all of it is."""

    def __init__(
        self,
        machine: Machine,
        text: str = "",
        name: str = "device",
        takes: Mapping[str, tuple[Kind, ...]] | None = None,
    ) -> None:
        if not callable(getattr(machine, "functions", None)):
            raise InvalidArgument(f"machine={brief(machine)}", required="where kernels run: Gpu()")
        self._functions = machine.functions(text, name, {**DECLARED, **(takes or {})})
        self._runtime = Runtime(self._functions)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> DeviceArray:
        """A new array, poisoned: floats are not-a-numbers."""
        dtype = np.dtype(dtype)
        made = DeviceArray(
            self._runtime.allocate(max(prod(shape) * dtype.itemsize, 1), self.stream), shape, dtype, self.stream
        )
        self.poison(made)
        return made

    def poison(self, array: DeviceArray) -> None:
        """Sets an array to what no result is."""
        self._runtime.fill(array.pointer, POISON, array.nbytes, self.stream)

    def array(self, held: npt.NDArray[Any]) -> DeviceArray:
        """A copy of an array of NumPy's."""
        held = np.asarray(held, order="C")
        made = self.empty(held.shape, held.dtype)
        if held.nbytes:
            self._runtime.copy_in(made.pointer, held, self.stream)
            self._runtime.wait(self.stream)
        return made

    def read(self, array: DeviceArray) -> npt.NDArray[Any]:
        """What an array holds when all is done that is in the stream."""
        made = np.empty(array.shape, array.dtype)
        if made.nbytes:
            self._runtime.copy_out(made, array.pointer, self.stream)
        self._runtime.wait(self.stream)
        return made

    def free(self, *arrays: DeviceArray) -> None:
        """Gives the memory of arrays back."""
        for array in arrays:
            self._runtime.free(array.pointer, self.stream)

    def wait(self) -> None:
        """Waits until all is done that is in the stream."""
        self._runtime.wait(self.stream)

    def call(self, name: str, *arguments: object) -> None:
        """Calls a function of the text; arrays are passed as where they begin."""
        given = [each.pointer if isinstance(each, DeviceArray) else each for each in arguments]
        self._runtime.check(self._functions[name](*given), name)

    def milliseconds(self, run: Callable[[], object], times: int) -> float:
        """How long one of so many runs takes on the GPU, which one after the other put work into the stream."""
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
            self._runtime.forget(start)
            self._runtime.forget(end)

    def in_turn(
        self, contestants: Mapping[str, Callable[[], object]], *, rounds: int, least: float = 5.0
    ) -> dict[str, list[float]]:
        """Milliseconds of each contestant, once in every round, each as often in a row as takes `least` milliseconds.

        The order is `rotated` from round to round.
        """
        names = list(contestants)
        times: dict[str, int] = {}
        for name in names:
            run = contestants[name]
            self.milliseconds(run, 2)
            once = median(self.milliseconds(run, 3) for _ in range(3))
            times[name] = max(1, min(1000, int(least / max(once, 1e-3))))
        found: dict[str, list[float]] = {name: [] for name in names}
        for number in range(rounds):
            for name in rotated(names, number):
                found[name].append(self.milliseconds(contestants[name], times[name]))
        return found
