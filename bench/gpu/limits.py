"""The limits of a GPU, measured in the same run: copying memory, and fused multiply-adds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lowering import Device, DeviceArray

CHAINS: Final = 8
THREADS: Final = 256
BLOCKS: Final = 132 * 16

# A thread moves 16 bytes at a time, four times, a grid's width apart. The chains of multiply-adds begin with different
# numbers and go into one sum, which is stored, so that the compiler can leave none of them out.
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
class Limits:
    """What the machine can do: bytes copied in a second, read and written, and operations in a second."""

    bytes_per_second: float
    operations_per_second: float

    def floor(self, of_bytes: float, operations: float) -> tuple[float, str]:
        """The milliseconds that nothing goes below, and which limit that is."""
        moved, computed = 1e3 * of_bytes / self.bytes_per_second, 1e3 * operations / self.operations_per_second
        return max((moved, "copy"), (computed, "fma"))


def copying(device: Device, source: DeviceArray, to: DeviceArray) -> Callable[[], None]:
    """A run that copies as many bytes as both arrays have."""
    count = min(source.nbytes, to.nbytes) // 16
    return lambda: device.call("copied", source, count, to, device.stream)


def chaining(device: Device, to: DeviceArray, rounds: int) -> tuple[Callable[[], None], float]:
    """A run of multiply-adds into an array of floats, and how many operations it is."""
    blocks = to.shape[0] // THREADS
    return (
        lambda: device.call("chained", 0.999, 1e-6, rounds, blocks, to, device.stream),
        2.0 * CHAINS * rounds * blocks * THREADS,
    )


def limits(
    device: Device, *, count: int = 2**28, rounds: int = 4096, times: int = 20
) -> tuple[Limits, Mapping[str, Any]]:
    """The limits of a device, the median of so many times each; `count` bytes are copied."""
    source, to = device.empty((count // 4,), "float32"), device.empty((count // 4,), "float32")
    sums = device.empty((min(BLOCKS * THREADS, count // 4 // THREADS * THREADS),), "float32")
    try:
        chain, operations = chaining(device, sums, rounds)
        found = device.in_turn({"copy": copying(device, source, to), "fma": chain}, rounds=times)
    finally:
        device.free(source, to, sums)
    copy, fma = (sorted(found[name])[len(found[name]) // 2] for name in ("copy", "fma"))
    made = Limits(2e3 * count / copy, 1e3 * operations / fma)
    return made, {
        "copy": {"bytes": count, "ms": found["copy"], "bytes_per_second": made.bytes_per_second},
        "fma": {"operations": operations, "ms": found["fma"], "operations_per_second": made.operations_per_second},
    }
