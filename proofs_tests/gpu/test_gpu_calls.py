"""Calls of GPU kernels: copies, streams, errors, and arrays already on the GPU. The shim replaces CUDA."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import atl
from atl import errors
from examples import gpu
from lowering import GpuKernel, lower, recorded_plan
from lowering.device import building, calls, detection, runtime
from lowering.device.detection import GpuEnvironment
from lowering.gpu import gpu_kernel
from lowering.gpu.outlining import kernels
from proofs_tests.gpu.shim.machine import ByDLPack, ByInterface, Shim, ShimMachine
from proofs_tests.gpu.shim.run import COMPILER
from rewrites import reschedule

pytestmark = [pytest.mark.skipif(COMPILER is None, reason="no C++ compiler"), pytest.mark.sampled]

A_STREAM: Final = 4096
"""A stream created by the caller."""
ANOTHER: Final = 8192

SUM: Final = """
added (x : float32[n], y : float32[n], c : float32) : float32[n] :=
  let t := ⊞[i < n | block.x] x[i] + y[i] in ⊞[i < n | block.x] c * t[n - 1 - i]
"""
OF_SUM: Final = atl.parse(SUM)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("calls")


def shimmed(program: atl.Program, machine: ShimMachine) -> GpuKernel:
    return GpuKernel(program, kernels(lower(program, target="cuda")), machine)


@pytest.fixture(scope="module")
def built(folder: Path) -> tuple[GpuKernel, ShimMachine]:
    """Build the kernels of SUM by calling them once."""
    machine = ShimMachine(folder)
    kernel = shimmed(atl.parse(SUM), machine)
    kernel(*given(1))
    return kernel, machine


@pytest.fixture
def kernel(built: tuple[GpuKernel, ShimMachine]) -> GpuKernel:
    return built[0]


@pytest.fixture
def shim(built: tuple[GpuKernel, ShimMachine]) -> Iterator[Shim]:
    """Return the device in its initial state, and check afterwards that a call left no memory allocated."""
    device = built[1].shim
    device.reset()
    before = device.arrays
    yield device
    device.fail("", 0)
    for stream in (runtime.LEGACY, runtime.PER_THREAD, A_STREAM, ANOTHER):
        device.synchronize(stream)
    device.reset()
    assert device.arrays == before, "the call has left memory behind"


def given(n: int) -> tuple[Any, Any, float]:
    random = np.random.default_rng(n)
    return random.random(n, np.float32), random.random(n, np.float32), 2.0


def meant(x: Any, y: Any, c: float) -> Any:
    return (np.float32(c) * (x + y))[::-1]


class Held:
    """The arrays x, y and out of a call on the device, with their elements."""

    def __init__(self, shim: Shim, n: int = 5) -> None:
        self.shim, (self.x, self.y, self.c) = shim, given(n)
        self.at = [shim.array(self.x), shim.array(self.y), shim.array(self.x, known=False)]

    def read(self) -> Any:
        return self.shim.read(self.at[2], self.x)

    def free(self) -> None:
        for at in self.at:
            self.shim.free(at)


@pytest.fixture
def held(shim: Shim) -> Iterator[Held]:
    arrays = Held(shim)
    yield arrays
    arrays.free()


@pytest.mark.parametrize("n", [0, 1, 5, 300])
def test_numpy_arrays_are_copied_in_and_out(n: int, kernel: GpuKernel, shim: Shim) -> None:
    x, y, c = given(n)
    assert np.array_equal(kernel(x, y, c), meant(x, y, c))
    assert np.array_equal(kernel(c=c, y=y, x=x), meant(x, y, c))
    assert shim.waiting(runtime.PER_THREAD) <= 8, "frees alone are left in the stream"


def test_several_results_are_views_of_one_array(folder: Path) -> None:
    text = "f (x : float32[n]) : (u : float32[n], v : float32[n]) := (gen[i < n | block.x] 2 * x[i]) ++ x"
    x, kernel = given(5)[0], shimmed(atl.parse(text), ShimMachine(folder))
    for out in (None, np.memmap(folder / "both", dtype=np.float32, mode="w+", shape=(10,))):
        found = kernel(x, out=out)
        assert np.array_equal(np.concatenate([found.u, found.v]), np.concatenate([2 * x, x]))


def test_result_is_stored_in_out(kernel: GpuKernel, shim: Shim) -> None:
    x, y, c = given(6)
    for out in (np.full(6, np.nan, np.float32), np.full(12, np.nan, np.float32)[::2]):
        assert kernel(x, y, c, out=out) is out
        assert np.array_equal(out, meant(x, y, c))
    want = meant(x, y, c)
    assert np.array_equal(kernel(x, y, c, out=x), want), "the GPU has a copy of the input"


def test_arrays_that_are_not_contiguous_are_copied_first(kernel: GpuKernel, shim: Shim) -> None:
    wide = np.random.default_rng(0).random((6, 3), np.float32)
    x, y = wide[:, 0], wide[::-1, 1]
    assert np.array_equal(kernel(x, y, 1.5), meant(x, y, 1.5))


@pytest.mark.parametrize("sizes", [(11, 13), (8, 16), (0, 4)])
def test_shipped_kernel_is_called_with_and_without_cffi(
    sizes: tuple[int, int], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = np.random.default_rng(1).random(sizes, np.float32)
    program = gpu.transpose(8, 2).goal
    if sizes == (8, 16):
        monkeypatch.setattr(building, "find_spec", lambda name: None)
    assert np.array_equal(shimmed(program, ShimMachine(folder))(a), a.T)


def test_gpu_arrays_with_streams_need_no_copy_and_no_wait(kernel: GpuKernel, held: Held, shim: Shim) -> None:
    arrays = [ByInterface(at, held.x, A_STREAM) for at in held.at]
    assert kernel(arrays[0], arrays[1], held.c, out=arrays[2]) is arrays[2]
    assert shim.waiting(A_STREAM) > 0
    held.read()
    assert shim.unknown == held.x.nbytes, "nothing runs until the stream is waited for"
    assert shim.synchronize(A_STREAM) == 0
    assert np.array_equal(held.read(), meant(held.x, held.y, held.c))


@pytest.mark.parametrize("streams", [(ANOTHER, A_STREAM), (A_STREAM, ANOTHER)], ids=["theirs first", "ours first"])
def test_call_is_ordered_with_work_in_another_stream(
    streams: tuple[int, int], kernel: GpuKernel, held: Held, shim: Shim
) -> None:
    made = held.x + 1
    shim.write_later(held.at[0], made, ANOTHER)
    x, y, out = (
        ByInterface(at, held.x, stream) for at, stream in zip(held.at, (ANOTHER, A_STREAM, A_STREAM), strict=True)
    )
    kernel(x, y, held.c, out=out)
    shim.write_later(held.at[0], np.zeros_like(made), ANOTHER)  # by the owner, who is unaware of the call
    assert [shim.synchronize(stream) for stream in streams] == [0, 0]
    assert np.array_equal(held.read(), meant(made, held.y, held.c))


def test_host_waits_where_no_stream_is_declared(kernel: GpuKernel, held: Held, shim: Shim) -> None:
    x, y, out = (ByInterface(at, held.x) for at in held.at)
    kernel(x, y, held.c, out=out)
    assert np.array_equal(held.read(), meant(held.x, held.y, held.c))


def test_dlpack_receives_the_stream_of_the_call(kernel: GpuKernel, held: Held, shim: Shim) -> None:
    made = held.x + 1
    shim.write_later(held.at[0], made, ANOTHER)
    x, y, out = (ByDLPack(at, held.x, shim, ANOTHER) for at in held.at)
    kernel(x, y, held.c, out=out)
    assert x.asked == y.asked == out.asked == [runtime.LEGACY]
    assert np.array_equal(held.read(), meant(made, held.y, held.c))


def test_arrays_of_host_and_gpu_may_be_mixed(kernel: GpuKernel, held: Held, shim: Shim) -> None:
    result = kernel(ByDLPack(held.at[0], held.x, shim), held.y, held.c)
    assert isinstance(result, np.ndarray)
    assert np.array_equal(result, meant(held.x, held.y, held.c))
    out = ByInterface(held.at[2], held.x, A_STREAM)
    kernel(held.x, held.y, held.c, out=out)
    assert np.array_equal(held.read(), meant(held.x, held.y, held.c)), "NumPy arrays may be reused after the call"


def test_kernel_runs_in_a_stream_of_the_caller(kernel: GpuKernel, held: Held, shim: Shim) -> None:
    class OfPyTorch:
        cuda_stream = A_STREAM

    class OfTheProtocol:
        def __cuda_stream__(self) -> tuple[int, int]:
            return (0, A_STREAM)

    for stream in (A_STREAM, np.int64(A_STREAM), OfPyTorch(), OfTheProtocol()):
        shim.reset()
        x, y, out = (ByDLPack(at, held.x, shim) for at in held.at)
        kernel.on(stream)(x, y, held.c, out=out)
        assert x.asked == [A_STREAM]
        assert shim.waiting(A_STREAM) > 0
        assert shim.synchronize(A_STREAM) == 0
        assert np.array_equal(held.read(), meant(held.x, held.y, held.c))
    for wrong in ("4096", -1, None, True, 1 << 64):
        with pytest.raises(errors.InvalidArgument, match="stream="):
            kernel.on(wrong)


def test_declared_facts_are_checked_for_gpu_arrays(folder: Path) -> None:
    n, m = atl.sizes("n m")
    x, at = atl.tensor("x", n), atl.tensor("at", m, dtype="int32", range=(0, n))
    program = atl.program("gather", [x, at], atl.gen(m, lambda i: x[at[i]]))
    machine = ShimMachine(folder)
    kernel = shimmed(program, machine)
    values, places = np.arange(4, dtype=np.float32), np.array([3, 0, 1], np.int32)
    assert kernel(values, places).tolist() == [3, 0, 1]
    shim = machine.shim
    x_there = ByInterface(shim.array(values), values, A_STREAM)
    for held, right in ((places, True), (places + 1, False)):
        there = ByInterface(shim.array(held, known=False), held, ANOTHER)
        shim.write_later(there.pointer, held, ANOTHER)
        if right:
            assert kernel(x_there, there).tolist() == [3, 0, 1]
        else:
            with pytest.raises(errors.ArrayError, match=r"at\[0\]"):
                kernel(x_there, there)


class ByNothing(ByDLPack):
    def __dlpack__(self, *, stream: int) -> object:
        return stream


INVALID: Final = "has an invalid __cuda_array_interface__"


def changed(**entries: Any) -> Callable[[Held], object]:
    return lambda h: ByInterface(h.at[0], h.x, changed=entries)


REFUSED: Final[dict[str, tuple[Callable[[Held], object], str]]] = {
    "a shape": (lambda h: ByInterface(h.at[0], h.x[:3]), "give different n"),
    "elements": (changed(typestr="<f8"), "float64, not float32"),
    "a mask": (changed(mask=True), "has a mask"),
    "strides": (changed(strides=(8,)), "not C-contiguous"),
    "strides by DLPack": (lambda h: ByDLPack(h.at[0], h.x, h.shim, strides=(2,)), "not C-contiguous"),
    "no data": (changed(data=None), INVALID),
    "a negative shape": (changed(shape=(-5,)), INVALID),
    "a fractional shape": (changed(shape=(5.5,)), INVALID),
    "too many elements": (changed(shape=(1 << 62,)), "at most .* bytes"),
    "too long an empty array": (changed(shape=(0, 1 << 65)), "at most .* bytes"),
    "a negative address": (lambda h: ByInterface(-8, h.x), INVALID),
    "an address of 70 bits": (lambda h: ByInterface(1 << 70, h.x), INVALID),
    "a stream of 70 bits": (changed(stream=1 << 70), "declares the stream"),
    "strides of another rank": (changed(strides=(4, 4)), INVALID),
    "no stream": (changed(stream="a"), "declares the stream 'a'"),
    "no capsule": (lambda h: ByNothing(h.at[0], h.x, h.shim), "cannot be exported by its library"),
    "bfloat16": (lambda h: ByDLPack(h.at[0], h.x, h.shim, kind=4), "DLPack type 4"),
    "memory of the host": (lambda h: ByInterface(h.x.ctypes.data // 16 * 16, h.x), "is unknown to CUDA"),
    "misaligned": (lambda h: ByInterface(h.at[0] + 2, h.x), "not a multiple of 4"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_unreadable_array_is_refused(what: str, kernel: GpuKernel, held: Held) -> None:
    make, message = REFUSED[what]
    with pytest.raises((errors.ArrayError, errors.ArgumentError), match=message):
        kernel(make(held), held.y, held.c)


def test_failing_array_protocols_are_reported(kernel: GpuKernel, held: Held) -> None:
    class OnHost:
        def __array__(self, *_: object, **__: object) -> Any:
            raise RuntimeError("gradients are asked for")

    class OnGpu:
        @property
        def __cuda_array_interface__(self) -> Any:
            raise RuntimeError("gradients are asked for")

    class ByBoth(OnGpu):
        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

        def __dlpack__(self, *, stream: int) -> object:
            raise BufferError(f"not in {stream}")

    for each in (OnHost(), OnGpu(), ByBoth()):
        with pytest.raises(errors.ArgumentError, match=r"gradients|not in 1"):
            kernel(each, held.y, held.c)


OUT_REFUSED: Final[dict[str, tuple[Callable[[Held], object], str]]] = {
    "a list": (lambda h: [0.0] * 5, "out is a list"),
    "a shape": (lambda h: np.empty(4, np.float32), r"out has the shape \(4,\)"),
    "elements": (lambda h: np.empty(5), "the elements of out are float64"),
    "not writeable": (lambda h: np.broadcast_to(np.float32(0), 5), "not writeable"),
    "not writeable there": (lambda h: ByInterface(h.at[2], h.x, changed={"data": (h.at[2], True)}), "not writeable"),
    "an input": (lambda h: ByInterface(h.at[0], h.x), "out shares memory with the input x"),
}


@pytest.mark.parametrize("what", OUT_REFUSED)
def test_unsuitable_out_is_refused(what: str, kernel: GpuKernel, held: Held) -> None:
    make, message = OUT_REFUSED[what]
    with pytest.raises(errors.ArrayError, match=message):
        kernel(ByInterface(held.at[0], held.x), held.y, held.c, out=make(held))


def test_all_arrays_must_be_on_one_gpu(kernel: GpuKernel, held: Held, shim: Shim) -> None:
    for at in held.at:
        shim.put_on(at, 1)
    x, y, out = (ByInterface(at, held.x, A_STREAM) for at in held.at)
    kernel(x, y, held.c, out=out)
    assert shim.device == 0
    shim.put_on(held.at[1], 0)
    with pytest.raises(errors.ArrayError, match="on several GPUs") as caught:
        kernel(x, y, held.c, out=out)
    assert "y = on GPU 0" in str(caught.value)
    shim.fail("cudaMemcpyAsync", 1)
    with pytest.raises(errors.CudaError):
        kernel(x, held.y, held.c)
    assert shim.device == 0


CALLS: Final = {
    "cudaGetDevice": 2,
    "cudaMallocAsync": 4,
    "cudaMemcpyAsync": 3,
    "cudaLaunchKernelEx": 2,
    "cudaStreamSynchronize": 1,
}
"""CUDA functions that a call of SUM uses, and how often."""


@pytest.mark.parametrize("after", range(5))
@pytest.mark.parametrize("call", CALLS)
def test_failing_cuda_function_is_reported(call: str, after: int, kernel: GpuKernel, shim: Shim) -> None:
    x, y, c = given(5)
    shim.fail(call, 1, after)
    if after >= CALLS[call]:
        assert np.array_equal(kernel(x, y, c), meant(x, y, c))
        return
    with pytest.raises(errors.CudaError, match=r"cudaErrorInvalidValue \(as the shim says\)") as caught:
        kernel(x, y, c)
    assert (caught.value.name, caught.value.number) == ("cudaErrorInvalidValue", 1)


def test_failing_stream_functions_are_reported(kernel: GpuKernel, held: Held, shim: Shim) -> None:
    for call in ("cudaEventCreate", "cudaEventRecord", "cudaStreamWaitEvent", "cudaPointerGetAttributes"):
        shim.reset()
        shim.fail(call, 1)
        x, y, out = (ByInterface(at, held.x, stream) for at, stream in zip(held.at, (ANOTHER, 1, 1), strict=True))
        with pytest.raises(errors.CudaError, match="cudaErrorInvalidValue"):
            kernel(x, y, held.c, out=out)


def test_lack_of_memory_is_an_out_of_memory_error(kernel: GpuKernel, shim: Shim) -> None:
    for after in range(3):
        shim.fail("cudaMallocAsync", 2, after)
        with pytest.raises(errors.OutOfMemory, match="cudaErrorMemoryAllocation"):
            kernel(*given(5))


def test_kernel_fault_is_reported_when_the_host_waits(folder: Path) -> None:
    machine = ShimMachine(folder)
    program = atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n | block.x] x[i]")
    kernel = shimmed(program, machine)
    wrong = kernel.source.replace("out[i] =", "out[i + 1] =")
    caller = calls.Caller(program, kernel.kernels, wrong, "f", machine)
    with pytest.raises(errors.CudaError, match="f failed on the GPU: cudaErrorLaunchFailure") as caught:
        caller(None, (np.ones(3, np.float32),), None, {})
    assert "start a new process" in str(caught.value)
    assert "an access outside of all arrays" in machine.shim.findings


def test_grid_larger_than_cuda_allows_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "f (x : float32[n]) : float32[n] := ⊞[i < n | block.{}] x[i]"
    for axis, most in (("y", 65_535), ("z", 65_535), ("x", 2**31 - 1)):
        kernel = shimmed(atl.parse(text.format(axis)), ShimMachine(folder))
        x = np.broadcast_to(np.float32(1), most + 1)
        with pytest.raises(errors.GridTooLarge, match=f"marked block.{axis}, has {most + 1} iterations") as caught:
            kernel(x)
        assert ('s.mark("i", "block.x")' in str(caught.value)) == (axis != "x")


@pytest.mark.long
def test_host_loop_launches_one_grid_per_iteration(folder: Path) -> None:
    program = atl.parse("f (x : float32[n]) : float32[n, n] := ⊞[i < n] padr (n - i) ⊞[j < i | block.y] x[j]")
    kernel = shimmed(program, ShimMachine(folder))
    assert np.array_equal(kernel(x := np.arange(1, 5, dtype=np.float32)), atl.evaluate(program, x=x))
    with pytest.raises(errors.GridTooLarge, match="has 65536 iterations"):
        kernel(np.broadcast_to(np.float32(1), 65_537))


FAULTS: Final[dict[str, tuple[str, str]]] = {
    "nothing is copied in": ("return cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream);", "return 0;"),
    "nothing is copied out": ("return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream);", "return 0;"),
    "half is copied out": ("from, bytes, cudaMemcpyDeviceToHost", "from, bytes / 2, cudaMemcpyDeviceToHost"),
    "too much is copied": ("from, bytes, cudaMemcpyHostToDevice", "from, bytes + 64, cudaMemcpyHostToDevice"),
    "copied in the wrong direction": ("cudaMemcpyHostToDevice", "cudaMemcpyDeviceToHost"),
    "copied in in another stream": ("cudaMemcpyHostToDevice, stream", "cudaMemcpyHostToDevice, (cudaStream_t)4096"),
    "copied out in another stream": ("cudaMemcpyDeviceToHost, stream", "cudaMemcpyDeviceToHost, (cudaStream_t)4096"),
    "no wait": ("return cudaStreamSynchronize(stream);", "return 0;"),
    "wait for another stream": ("cudaStreamSynchronize(stream)", "cudaStreamSynchronize((cudaStream_t)4096)"),
    "memory is not freed": ("return cudaFreeAsync(memory, stream);", "return 0;"),
    "no order of streams": ("error = cudaStreamWaitEvent(later, event, 0);", "error = 0;"),
    "streams ordered the wrong way": ("cudaEventRecord(event, earlier)", "cudaEventRecord(event, later)"),
    "errors are ignored": ("error ? error : left", "0"),
}


def check_calls(machine: ShimMachine) -> None:
    """Call with host and GPU arrays, in several streams and with a failing function, and check each call."""
    kernel = shimmed(OF_SUM, machine)
    x, y, c = given(5)
    out = np.full(5, np.nan, np.float32)
    kernel(x, y, c, out=out)
    shim = machine.shim
    assert np.array_equal(out, meant(x, y, c))
    shim.synchronize(runtime.PER_THREAD)
    assert shim.arrays == 0, "memory is left"
    held = Held(shim)
    made = held.x + 1
    shim.write_later(held.at[0], made, ANOTHER)
    streams = (ANOTHER, A_STREAM, A_STREAM)
    x_there, y_there, out_there = (ByInterface(at, made, s) for at, s in zip(held.at, streams, strict=True))
    kernel(x_there, y_there, c, out=out_there)
    shim.write_later(held.at[0], np.zeros_like(made), ANOTHER)
    assert shim.synchronize(ANOTHER) == 0
    shim.synchronize(A_STREAM)
    assert np.array_equal(held.read(), meant(made, held.y, c))
    shim.fail("cudaStreamWaitEvent", 1)
    with pytest.raises(errors.CudaError):
        kernel(x_there, y_there, c, out=out_there)


def test_calls_without_faults_pass(folder: Path) -> None:
    check_calls(ShimMachine(folder))


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_in_the_cuda_runtime_is_found(fault: str, folder: Path) -> None:
    before, after = FAULTS[fault]
    assert before in runtime.TEXT
    with pytest.raises((AssertionError, errors.ATLError, pytest.fail.Exception)):
        check_calls(ShimMachine(folder, runtime.TEXT.replace(before, after)))


def test_host_loop_bounds_may_not_depend_on_elements() -> None:
    with pytest.raises(errors.IllegalMark, match="a condition around it depends on elements of p") as caught:
        lower_to_kernels(
            atl.parse(
                "f (x : float32[n], p : int64[n]) : float32[n, n] := ⊞[j < n] [p[j] > 2] · ⊞[i < n | block.x] x[i]"
            )
        )
    assert 's.interchange("i")' in str(caught.value)
    n, m = atl.sizes("n m")
    x, p = atl.tensor("x", n), atl.tensor("p", m, dtype="int64", range=(0, n))
    body = atl.gen(m, lambda j: atl.sum(p[j], lambda q: atl.gen(n, lambda i: x[i] * x[q])))
    program = atl.program("f", [x, p], body)
    with pytest.raises(errors.IllegalMark, match="the loop q around it depends on elements of p"):
        lower_to_kernels(reschedule(program).mark("i", "block.x").goal)
    rows = atl.program("f", [x, p], atl.guard(m > 0, atl.gen(p[0], lambda i: x[i])))
    with pytest.raises(errors.UnsupportedMark, match="depend on elements of p"):
        lower_to_kernels(rows)


def lower_to_kernels(program: atl.Program) -> None:
    kernels(lower(program, target="cuda"))


NVCC: Final = detection.find_nvcc()


@pytest.mark.long
@pytest.mark.skipif(NVCC is None, reason="nvcc is not installed: no kernel is built for a GPU here")
def test_kernel_is_built_for_named_architectures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATL_CACHE", str(tmp_path))
    monkeypatch.setattr(gpu_kernel, "detect_gpu", lambda: GpuEnvironment("13.0", None))
    kernel = gpu_kernel.compile_for_gpu(atl.parse(SUM))
    path = kernel.build()
    plan = recorded_plan(path)
    assert plan is not None
    named = [part for part in plan.commands[0] if part.startswith("-gencode")]
    assert [part for part in named if "sm_" in part] == [
        f"-gencode=arch=compute_{number},code=sm_{number}" for number in (80, 90)
    ]
    assert "code=compute_" in named[-1]
    assert path.with_suffix(".cu").read_text() == kernel.source
    before = path.stat().st_mtime_ns
    assert kernel.build() == path
    assert path.stat().st_mtime_ns == before  # found in the cache
    functions = building.open_library(path, {"added": ("address",) * 3 + ("int64_t",), "atl_device": ("address",)})
    assert set(functions) == {"added", "atl_device"}


def fake_nvcc(folder: Path, script: str) -> str:
    path = folder / "nvcc"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


ANSWERS: Final = """
case "$1" in
--version) echo "Cuda compilation tools, release 12.1, V12.1.1"; exit 0;;
--list-gpu-arch) printf 'compute_70\\ncompute_80\\ncompute_90\\n'; exit 0;;
esac
"""


def test_architectures_are_those_of_the_installed_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVCC", fake_nvcc(tmp_path, ANSWERS))
    nvcc = detection.find_nvcc()
    assert nvcc is not None
    assert detection.release_of(nvcc) == "12.1"
    targets = {
        (): ["arch=compute_80,code=sm_80", "arch=compute_90,code=sm_90", "arch=compute_90,code=compute_90"],
        ((9, 0), (8, 0), (9, 0)): ["arch=compute_80,code=sm_80", "arch=compute_90,code=sm_90"],
        ((12, 0),): ["arch=compute_90,code=compute_90"],
    }
    for gpus, want in targets.items():
        built = building._targets(nvcc, GpuEnvironment("12.1", "12.1", gpus))
        assert built == [f"-gencode={target}" for target in want]
    with pytest.raises(errors.CompilerFailed, match="does not support GPUs of compute capability"):
        building._targets(nvcc, GpuEnvironment("12.1", "12.1", ((6, 1),)))


def test_messages_of_nvcc_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVCC", fake_nvcc(tmp_path, f'{ANSWERS}\necho "nvcc fatal: no host compiler" >&2; exit 1'))
    monkeypatch.setattr(gpu_kernel, "detect_gpu", lambda: GpuEnvironment("12.1", None))
    with pytest.raises(errors.CompilerFailed, match="nvcc fatal: no host compiler") as caught:
        gpu_kernel.compile_for_gpu(atl.parse(SUM)).build()
    assert "NVCC_CCBIN" in str(caught.value)
    assert "set CC" not in str(caught.value)


def test_nvcc_flags_of_the_environment_identify_the_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVCC", fake_nvcc(tmp_path, ANSWERS))
    before = detection.find_nvcc()
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-G")
    assert detection.find_nvcc() != before


def test_without_nvcc_a_kernel_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "find_nvcc", lambda: None)
    monkeypatch.setattr(gpu_kernel, "detect_gpu", lambda: GpuEnvironment(None, "12.4", ((9, 0),)))
    kernel = gpu_kernel.compile_for_gpu(atl.parse(SUM))
    assert "__global__" in kernel.source
    found = r"no nvcc, a driver for CUDA 12\.4, 1 GPU of compute capability 9\.0"
    for attempt in (lambda: kernel(*given(3)), kernel.build):
        with pytest.raises(errors.GpuMissing, match=found):
            attempt()
    with pytest.raises(errors.ArrayError, match="give different n"):
        kernel(np.ones(3, np.float32), np.ones(2, np.float32), 1.0)


def test_program_may_have_the_name_of_a_runtime_function(folder: Path) -> None:
    program = atl.parse("atl_wait (x : float32[n]) : float32[n] := ⊞[i < n | block.x] x[i]")
    assert shimmed(program, ShimMachine(folder))(np.ones(2, np.float32)).tolist() == [1, 1]


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_nvcc_version_is_detected() -> None:
    assert NVCC is not None
    assert detection.release_of(NVCC)
    assert str(GpuEnvironment("13.0", None)) == "nvcc 13.0, no driver (libcuda.so.1), no GPU"
