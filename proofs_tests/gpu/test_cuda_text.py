"""CUDA text of kernels: its form, detection of nvcc and GPUs, and errors of calls."""

import re
import shutil
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import atl
from atl.errors import GpuMissing, InvalidArgument
from examples import gpu
from lowering import GpuKernel
from lowering import compile as compile_program
from lowering.device import detection
from lowering.device.detection import GpuEnvironment, detect_gpu, find_nvcc
from lowering.gpu import gpu_kernel
from rewrites import Session

NVCC: Final = shutil.which("nvcc")

SHIPPED: Final[dict[str, Callable[[], Session]]] = {
    "product": gpu.product,
    "product of any sizes": lambda: gpu.product(64, (4, 4), 16, lanes=False),
    "transpose": gpu.transpose,
    "blur": gpu.blur_in_tiles,
    "row sums by blocks": gpu.row_sums_by_blocks,
    "row sums by warps": gpu.row_sums_by_warps,
    "softmax by warps": gpu.softmax_by_warps,
    "whole sum": gpu.whole_sum_in_two_launches,
    "sparse rows by threads": gpu.spmv_by_threads,
    "sparse rows by warps": gpu.spmv_by_warps,
    "convolution": gpu.convolution_by_gather,
    "steps by launches": gpu.steps_by_launches,
    "steps in blocks": gpu.steps_in_blocks,
}


@lru_cache
def kernel(name: str) -> GpuKernel:
    return compile_program(SHIPPED[name]().goal, target="cuda")


def of_text(text: str) -> GpuKernel:
    return compile_program(atl.parse(text), target="cuda")


def test_transpose_is_readable_cuda() -> None:
    _, _, code = kernel("transpose").source.partition("__global__")
    wanted = """ void __launch_bounds__(256) transposed_0(const float *__restrict__ A, const index_t n,
        const index_t m, float *__restrict__ out)
{
    const index_t jo = (index_t)blockIdx.y;
    const index_t io = (index_t)blockIdx.x;
    __shared__ __align__(16) float tile[1056];
    {
        const index_t ji = (index_t)threadIdx.x;
        #pragma unroll
        for (index_t iio = 0; iio < 4; iio++) {
            {
                const index_t iii = (index_t)threadIdx.y;
                tile[ji * 33 + 8 * iio + iii] = 32 * io + 8 * iio + iii < n && 32 * jo + ji < m
                        ? A[(32 * io + 8 * iio + iii) * m + 32 * jo + ji]
                        : 0.0f;
            }
        }
    }
    __syncthreads(); /* tile is changed, and then read */
    #pragma unroll
    for (index_t jio = 0; jio < 4; jio++) {
        {
            const index_t jii = (index_t)threadIdx.y;
            {
                const index_t ii = (index_t)threadIdx.x;
                if (32 * io + ii < n && 32 * jo + 8 * jio + jii < m) {
                    out[(32 * jo + 8 * jio + jii) * n + 32 * io + ii] = tile[(8 * jio + jii) * 33 + ii];
                }
            }
        }
    }
}

/* transposed: out[m, n] from A[n, m]; arrays in global memory. */
extern "C" int transposed(const float *A, int64_t n, int64_t m, float *out, cudaStream_t stream)
{
    cudaError_t error = cudaSuccess;
    /* True if 32 bits hold every index for these sizes. */
    const bool narrow = fmax(m, 1) * fmax(n, 1) + 104.0 * fmax(m, 1) + 104.0 * fmax(n, 1)
            + 1352.0 <= 2147480000.0;
    cudaLaunchConfig_t how = {};
    how.stream = stream;
    if ((m + 31) / 32 > 0 && (n + 31) / 32 > 0) {
        how.gridDim = dim3((unsigned)((n + 31) / 32), (unsigned)((m + 31) / 32), 1);
        how.blockDim = dim3(32, 8, 1);
        if ((error = narrow ? cudaLaunchKernelEx(&how, transposed_0<int32_t>, A, n, m, out)
                : cudaLaunchKernelEx(&how, transposed_0<int64_t>, A, n, m, out)) != cudaSuccess)
            return (int)error;
    }
    return (int)error;
}
"""
    assert code == wanted


def test_names_reserved_in_cuda_are_changed() -> None:
    source = of_text("class (this : float32[n]) : float32[n] := ⊞[threadIdx < n | block.x] this[threadIdx]").source
    assert 'extern "C" int class2(const float *this2, int64_t n, float *out, cudaStream_t stream)' in source
    assert "const index_t threadIdx2 = (index_t)blockIdx.x;" in source


def test_integer_arithmetic_wraps() -> None:
    source = of_text("f (x : int32[n]) : int32[n] := ⊞[i < n | block.x] 3 * x[i] - x[i] + 1").source
    assert "out[i] = add_int32(sub_int32(mul_int32(3, x[i]), x[i]), 1);" in source
    assert "(int32_t)((uint32_t)a * (uint32_t)b)" in source


def test_buffers_between_launches_are_in_global_memory() -> None:
    body = "let y := ⊞[i < n | block.x] 2 * x[i] in ⊞[i < n | block.x] y[i] * y[n - 1 - i]"
    source = of_text(f"f (x : float32[n]) : float32[n] := {body}").source
    assert "cudaMallocAsync((void **)&y, (size_t)(n + 1) * sizeof *y, stream)" in source
    assert len(re.findall(r"cudaFreeAsync\(y, stream\);\s+return \(int\)error;", source)) == 2, "where a launch fails"
    assert "f_0(const float *__restrict__ x, float *__restrict__ y)" in source
    assert re.search(r"f_1\([^)]*const float \*__restrict__ y[,)]", source)
    assert source.index("&how, f_0<") < source.index("&how, f_1<") < source.rindex("cudaFreeAsync(y, stream)")


def test_store_outside_of_thread_loops_needs_no_loop() -> None:
    body = "⊞[i < n | block.x] let t | shared := ⊞[j < 8 | thread.x] x[i] + 1 in t[3] * t[5]"
    source = of_text(f"f (x : float32[n]) : float32[n] := {body}").source
    assert "if (threadIdx.x == 0)\n        out[i] = t[3] * t[5];" in source


def test_call_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    held = kernel("transpose")
    monkeypatch.setattr(gpu_kernel, "detect_gpu", lambda: GpuEnvironment("13.0", None))
    with pytest.raises(GpuMissing) as caught:
        held(np.zeros((2, 3), np.float32))
    assert caught.value.required == ("nvcc, a driver and a GPU; found: nvcc 13.0, no driver (libcuda.so.1), no GPU")
    two = GpuEnvironment(None, "12.4", ((9, 0), (8, 0)))
    assert str(two) == "no nvcc, a driver for CUDA 12.4, 2 GPUs of compute capability 8.0, 9.0"
    with pytest.raises(ValueError, match="A"):
        held(np.zeros(3, np.float32))
    assert repr(held) == "<GpuKernel transposed(A[n, m])>"


def test_environment_is_detected_without_a_gpu() -> None:
    found = detect_gpu()
    assert (found.nvcc is None) == (find_nvcc() is None)
    assert found.complete == bool(found.nvcc and found.gpus)


class Driver:
    """A replacement of libcuda.so.1 with one GPU, or with one function that fails."""

    def __init__(self, fails: str = "") -> None:
        self.fails = fails

    def __getattr__(self, name: str) -> Callable[..., int]:
        answers = {"cuDriverGetVersion": 12100, "cuDeviceGetCount": 1, "cuDeviceGet": 0, "cuDeviceGetAttribute": 9}

        def call(*given: Any) -> int:
            if name == self.fails:
                return 100
            if name == "cuDeviceGetName":
                given[0].value = b"a GPU"
            elif name != "cuInit":
                minor = name == "cuDeviceGetAttribute" and given[1].value == detection.MINOR
                given[0]._obj.value = 4 if minor else answers[name]
            return 0

        return call


@pytest.mark.parametrize(
    ("fails", "found"),
    [
        ("", ("12.10", (((9, 4), "a GPU"),))),
        ("cuDriverGetVersion", (None, ())),
        ("cuInit", ("12.10", ())),
        ("cuDeviceGetCount", ("12.10", ())),
    ],
)
def test_driver_reports_its_version_and_gpus(fails: str, found: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detection, "CDLL", lambda name: Driver(fails))
    assert detection._driver() == found


def test_program_without_a_release_is_not_nvcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("silent", "exit 0"), ("failing", "echo release 13.0; exit 1"), ("broken", "")):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{text}\n" if text else "", encoding="utf-8")
        path.chmod(0o755)
        assert detection._version(str(path), 0) == ""
    for home in ("NVCC", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(home, raising=False)
    monkeypatch.setattr(detection, "DEFAULT_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_nvcc() is None


def test_options_of_another_target_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="fast_math"):
        compile_program(gpu.transpose().goal, target="cuda", fast_math=True)


def test_fixed_sizes_are_constants_in_the_text() -> None:
    session = gpu.transpose()
    source = compile_program(session.goal, target="cuda", sizes={"n": 64, "m": 96}).source
    assert "how.gridDim = dim3((unsigned)(2), (unsigned)(3), 1);" in source
    assert "if (" not in source.partition("__global__")[2].partition("extern")[0]


@pytest.mark.parametrize("text", ["t[3] * t[5]", "Σ[j < 8 | thread.x] t[j]"])
def test_unused_index_is_not_declared(text: str) -> None:
    """Compilers warn of unused variables."""
    body = f"⊞[i < n | block.x] let t | shared := ⊞[j < 8 | thread.x] 2.0 in {text}"
    called = of_text(f"f (x : float32[n]) : float32[n] := {body}").source.partition("__global__")[2]
    assert called.count("const index_t i = ") == 1
