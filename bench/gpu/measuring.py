"""Measurement of schedules on the GPU, in turn with a copy of as many bytes and other libraries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import atl
from bench.gpu.checking import fault
from bench.gpu.cublas import Cublas, CublasFailed
from bench.gpu.roofline import Roofline, copying
from bench.gpu.shipped import Shipped
from lowering import DeviceArray, spread

Array = npt.NDArray[Any]
Run = Callable[[], object]

COPY: Final = "copy of as many bytes"
OURS: Final = "ours"
LONG_SUMS: Final = 1e-4
"""Relative tolerance for sums of thousands of products in single precision."""


@dataclass(slots=True)
class Row:
    """The times of a schedule and its baselines at given sizes, in milliseconds."""

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
        """Return the median time of a candidate."""
        found = spread(self.times.get(name, []))
        return None if found is None else found.middle

    def ratio(self, other: str) -> tuple[float, float, float] | None:
        """Return a baseline's time over ours: the median over the rounds, and their 10 % and 90 % quantiles."""
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


def measured(
    shipped: Shipped, sizes: dict[str, int], device: atl.Device, roofline: Roofline, *, rounds: int, seed: int
) -> Row:
    """Measure a schedule at given sizes. Candidates with wrong results are reported and not timed."""
    work = shipped.work
    arrays = shipped.inputs_at(sizes, seed)
    shape = shipped.shape_at(sizes)
    of_bytes, operations = shipped.bytes_at(sizes, arrays), work.operations(sizes) if work.operations else 0.0
    floor, which = roofline.floor(of_bytes, operations)
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
        candidates: dict[str, Run] = {OURS: prepared, **_baselines(row, shipped, there, out, device)}
        runs: dict[str, Run] = {COPY: copying(device, source, to)}
        for name, run in candidates.items():
            device.poison(out)
            try:
                run()
                got = device.read(out)
            except Exception as error:  # noqa: BLE001 (any error of another library is reported)
                fault_text = f"{type(error).__name__}: {error}"
            else:
                fault_text = "" if wanted is None else fault(got, wanted, LONG_SUMS)
                if wanted is None:
                    row.left_out[f"check of {name}"] = "no reference at this size; smaller sizes are checked"
            if fault_text:
                row.faults[name] = fault_text
            else:
                runs[name] = run
        row.times = device.in_turn(runs, rounds=rounds)
    finally:
        device.free(*there.values(), out, source, to)
    return row


def _baselines(
    row: Row, shipped: Shipped, there: Mapping[str, DeviceArray], out: DeviceArray, device: atl.Device
) -> dict[str, Run]:
    """Return the baselines for this program, each writing into `out`. The row records why others are left out."""
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
    row: Row, computes: Callable[..., object], arrays: list[DeviceArray], out: DeviceArray, device: atl.Device
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
