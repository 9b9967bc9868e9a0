"""Schedules timed on the GPU, in turn with a copy of as many bytes and other libraries, beside the floor in time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from bench.gpu.checking import fault
from bench.gpu.cublas import Cublas, CublasFailed
from bench.gpu.limits import Limits, copying
from bench.gpu.shipped import Shipped
from lowering import Device, DeviceArray, spread

Array = npt.NDArray[Any]
Run = Callable[[], object]

COPY: Final = "copy of as many bytes"
OURS: Final = "ours"
LONG_SUMS: Final = 1e-4
"""How far a sum of thousands of products in single precision may be off, relative to it."""


@dataclass(slots=True)
class Row:
    """A schedule at some sizes: times in milliseconds, and all that they are compared with."""

    schedule: str
    program: str
    sizes: dict[str, int]
    bytes: int
    operations: float
    floor_ms: float
    floor_is: str
    times: dict[str, list[float]]
    faults: dict[str, str]
    left_out: dict[str, str] = field(default_factory=dict)

    def ms(self, name: str) -> float | None:
        """The median time of a contestant."""
        found = spread(self.times.get(name, []))
        return None if found is None else found.middle

    def ratio(self, other: str) -> tuple[float, float, float] | None:
        """Another's time over ours: the median over the rounds, and 10 to 90 % of them."""
        pairs = zip(self.times.get(other, []), self.times.get(OURS, []), strict=False)
        found = spread([theirs / ours for theirs, ours in pairs])
        return None if found is None else (found.middle, found.low, found.high)

    def as_json(self) -> dict[str, Any]:
        ours = self.ms(OURS)
        return {
            "schedule": self.schedule,
            "program": self.program,
            "sizes": self.sizes,
            "bytes": self.bytes,
            "operations": self.operations,
            "floor_ms": self.floor_ms,
            "floor_is": self.floor_is,
            "ms": {name: self.ms(name) for name in self.times},
            "of_floor": None if ours is None else self.floor_ms / ours,
            "ratios": {name: self.ratio(name) for name in self.times if name != OURS},
            "times": self.times,
            "faults": self.faults,
            "left_out": self.left_out,
        }


def measured(shipped: Shipped, sizes: dict[str, int], device: Device, limits: Limits, *, rounds: int, seed: int) -> Row:
    """One schedule at one choice of sizes. Whoever computes something wrong is told, and not timed."""
    work = shipped.work
    arrays = shipped.inputs_at(sizes, seed)
    shape = shipped.shape_at(sizes)
    of_bytes, operations = shipped.bytes_at(sizes, arrays), work.operations(sizes) if work.operations else 0.0
    floor, which = limits.floor(of_bytes, operations)
    row = Row(shipped.name, shipped.program.name, sizes, of_bytes, operations, floor, which, {}, {})
    there = {name: device.array(held) for name, held in arrays.items()}
    out = device.empty(shape, shipped.dtype)
    half = max(16, of_bytes // 2)
    source, to = (device.empty((half,), "uint8") for _ in range(2))
    try:
        wanted = None
        if work.reference is not None:
            wanted = work.reference(*(held.astype(np.float64) for held in arrays.values()))
        free = {name: sizes[name] for name in shipped.program.free_sizes}
        prepared = shipped.kernel.prepared(**there, out=out, stream=device.stream, **free)
        contestants: dict[str, Run] = {OURS: prepared, **_rivals(row, shipped, there, out, device)}
        runs: dict[str, Run] = {COPY: copying(device, source, to)}
        for name, run in contestants.items():
            device.poison(out)
            try:
                run()
                got = device.read(out)
            except Exception as error:  # noqa: BLE001 (whatever goes wrong in another's library is told)
                said = f"{type(error).__name__}: {error}"
            else:
                said = "" if wanted is None else fault(got, wanted, LONG_SUMS)
                if wanted is None:
                    row.left_out[f"check of {name}"] = "no reference at this size: the smaller ones are checked"
            if said:
                row.faults[name] = said
            else:
                runs[name] = run
        row.times = device.in_turn(runs, rounds=rounds)
    finally:
        device.free(*there.values(), out, source, to)
    return row


def _rivals(
    row: Row, shipped: Shipped, there: Mapping[str, DeviceArray], out: DeviceArray, device: Device
) -> dict[str, Run]:
    """The others that do the same work here, each into `out`; why one does not take part stands in the row."""
    found: dict[str, Run] = {}
    arrays = list(there.values())
    if shipped.program.name == "product" and shipped.dtype == np.float32:
        try:
            cublas = Cublas(device.stream)
            found[f"cuBLAS {cublas.version}"] = lambda: cublas.product(arrays[0], arrays[1], out)
        except (OSError, AttributeError, CublasFailed) as error:
            row.left_out["cuBLAS"] = str(error)
    if shipped.program.name in TORCH:
        if find_spec("torch") is None:
            row.left_out["PyTorch"] = "torch is not installed"
        else:
            try:
                made = _of_torch(row, TORCH[shipped.program.name], arrays, out, device)
                found |= {} if made is None else {"PyTorch": made}
            except Exception as error:  # noqa: BLE001 (as above)
                row.left_out["PyTorch"] = f"{type(error).__name__}: {error}"
    return found


TORCH: Final[dict[str, Callable[..., object]]] = {
    "transposed": lambda torch, out, a: out.copy_(a.t()),
    "row_sums": lambda torch, out, x: torch.sum(x, 1, out=out),
    "softmax": lambda torch, out, x: torch.softmax(x, 1, out=out),
}


def _of_torch(
    row: Row, computes: Callable[..., object], arrays: list[DeviceArray], out: DeviceArray, device: Device
) -> Run | None:
    import torch

    if not torch.cuda.is_available():
        row.left_out["PyTorch"] = "torch sees no GPU"
        return None
    tensors = [torch.as_tensor(array, device="cuda") for array in arrays]
    into = torch.as_tensor(out, device="cuda")
    stream = torch.cuda.ExternalStream(device.stream)

    def run() -> None:
        with torch.cuda.stream(stream):
            computes(torch, into, *tensors)

    return run
