"""Roofline of a GPU, measured in the same run: copying memory, and fused multiply-adds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import atl
from lowering import DeviceArray

CHAINS: Final = 8
THREADS: Final = 256
BLOCKS: Final = 132 * 16

# Each thread copies four times 16 bytes. The chains of multiply-adds start with different numbers, and their sum is
# stored, so the compiler cannot eliminate any of them.
TEXT: Final = f"""\
#include <stdint.h>

struct alignas(16) atl_quad {{
    unsigned a, b, c, d;
}};

__global__ void __launch_bounds__({THREADS}) copied_0(const atl_quad *__restrict__ from, const int64_t count,
        atl_quad *__restrict__ to)
{{
    const int64_t first = (int64_t)blockIdx.x * {4 * THREADS} + threadIdx.x;
    #pragma unroll
    for (int part = 0; part < 4; part++) {{
        const int64_t at = first + {THREADS} * part;
        if (at < count)
            to[at] = from[at];
    }}
}}

extern "C" int copied(const atl_quad *from, int64_t count, atl_quad *to, cudaStream_t stream)
{{
    cudaLaunchConfig_t how = {{}};
    how.stream = stream;
    how.gridDim = dim3((unsigned)((count + {4 * THREADS - 1}) / {4 * THREADS}), 1, 1);
    how.blockDim = dim3({THREADS}, 1, 1);
    return (int)cudaLaunchKernelEx(&how, copied_0, from, count, to);
}}

__global__ void __launch_bounds__({THREADS}) chained_0(const float x, const float y, const int64_t rounds,
        float *__restrict__ to)
{{
    float chain[{CHAINS}];
    #pragma unroll
    for (int k = 0; k < {CHAINS}; k++)
        chain[k] = x + (float)(threadIdx.x + k);
    for (int64_t i = 0; i < rounds; i++) {{
        #pragma unroll
        for (int k = 0; k < {CHAINS}; k++)
            chain[k] = chain[k] * x + y;
    }}
    float all = 0.0f;
    #pragma unroll
    for (int k = 0; k < {CHAINS}; k++)
        all += chain[k];
    to[(int64_t)blockIdx.x * {THREADS} + threadIdx.x] = all;
}}

extern "C" int chained(float x, float y, int64_t rounds, int64_t blocks, float *to, cudaStream_t stream)
{{
    cudaLaunchConfig_t how = {{}};
    how.stream = stream;
    how.gridDim = dim3((unsigned)blocks, 1, 1);
    how.blockDim = dim3({THREADS}, 1, 1);
    return (int)cudaLaunchKernelEx(&how, chained_0, x, y, rounds, to);
}}
"""
TAKES: Final[dict[str, Any]] = {
    "copied": ("address", "int64_t", "address", "address"),
    "chained": ("float", "float", "int64_t", "int64_t", "address", "address"),
}


@dataclass(frozen=True, slots=True)
class Roofline:
    """Bytes per second of a copy (read plus written), and operations per second."""

    bytes_per_second: float
    operations_per_second: float

    def floor(self, of_bytes: float, operations: float) -> tuple[float, str]:
        """Return a lower bound of the time in milliseconds, and its kind: "copy" or "fma"."""
        moved, computed = 1e3 * of_bytes / self.bytes_per_second, 1e3 * operations / self.operations_per_second
        return max((moved, "copy"), (computed, "fma"))


def copying(device: atl.Device, source: DeviceArray, to: DeviceArray) -> Callable[[], None]:
    """Return a function that copies one array to the other."""
    count = min(source.nbytes, to.nbytes) // 16
    return lambda: device.call("copied", source, count, to, device.stream)


def chaining(device: atl.Device, to: DeviceArray, rounds: int) -> tuple[Callable[[], None], float]:
    """Return a function that runs chains of multiply-adds, and their number of operations."""
    blocks = to.shape[0] // THREADS
    return (
        lambda: device.call("chained", 0.999, 1e-6, rounds, blocks, to, device.stream),
        2.0 * CHAINS * rounds * blocks * THREADS,
    )


def measure_roofline(
    device: atl.Device, *, count: int = 2**28, rounds: int = 4096, times: int = 20
) -> tuple[Roofline, Mapping[str, Any]]:
    """Measure the roofline of a device: the medians of `times` runs. A copy moves `count` bytes."""
    source, to = device.empty((count // 4,), "float32"), device.empty((count // 4,), "float32")
    sums = device.empty((min(BLOCKS * THREADS, count // 4 // THREADS * THREADS),), "float32")
    try:
        chain, operations = chaining(device, sums, rounds)
        found = device.in_turn({"copy": copying(device, source, to), "fma": chain}, rounds=times)
    finally:
        device.free(source, to, sums)
    copy, fma = (sorted(found[name])[len(found[name]) // 2] for name in ("copy", "fma"))
    made = Roofline(2e3 * count / copy, 1e3 * operations / fma)
    return made, {
        "copy": {"bytes": count, "ms": found["copy"], "bytes_per_second": made.bytes_per_second},
        "fma": {"operations": operations, "ms": found["fma"], "operations_per_second": made.operations_per_second},
    }
