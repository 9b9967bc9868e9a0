"""Calls of kernels on a GPU: copies, streams, errors, arrays that are there already. The shim is in CUDA's place."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import atl
from atl.errors import (
    ArgumentError,
    ArrayError,
    ATLError,
    CompilerFailed,
    CudaError,
    GpuMissing,
    GridTooLarge,
    IllegalMark,
    InvalidArgument,
    OutOfMemory,
    UnsupportedMark,
)
from examples import gpu
from lowering import GpuKernel, lower, recorded_plan
from lowering.device import building, calls, detection, runtime
from lowering.device.detection import GpuEnvironment
from lowering.gpu import compiled
from lowering.gpu.outlining import kernels
from proofs_tests.gpu.shim.machine import ByDLPack, ByInterface, Shim, ShimMachine
from proofs_tests.gpu.shim.run import COMPILER

pytestmark = [pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler"), pytest.mark.sampled]

A_STREAM: Final = 4096
"""The number of a stream that is made by somebody else."""
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
    """The kernels of SUM, called once, so that they are built."""
    machine = ShimMachine(folder)
    kernel = shimmed(atl.parse(SUM), machine)
    kernel(*given(1))
    return kernel, machine


@pytest.fixture
def kernel(built: tuple[GpuKernel, ShimMachine]) -> GpuKernel:
    return built[0]


@pytest.fixture
def shim(built: tuple[GpuKernel, ShimMachine]) -> Iterator[Shim]:
    """The device, as it is when a process begins; what a call has allocated on it must be gone after it."""
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
    """The arrays of a call on the device: x, y and out, with what they hold."""

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


# -- arrays of NumPy's ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 5, 300])
def test_arrays_of_numpy_are_copied_in_and_out(n: int, kernel: GpuKernel, shim: Shim) -> None:
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


def test_the_result_goes_into_the_array_that_is_given(kernel: GpuKernel, shim: Shim) -> None:
    x, y, c = given(6)
    for out in (np.full(6, np.nan, np.float32), np.full(12, np.nan, np.float32)[::2]):
        assert kernel(x, y, c, out=out) is out
        assert np.array_equal(out, meant(x, y, c))
    want = meant(x, y, c)
    assert np.array_equal(kernel(x, y, c, out=x), want), "the GPU has a copy of the input"


def test_arrays_that_no_gpu_could_walk_are_copied_first(kernel: GpuKernel, shim: Shim) -> None:
    wide = np.random.default_rng(0).random((6, 3), np.float32)
    x, y = wide[:, 0], wide[::-1, 1]
    assert np.array_equal(kernel(x, y, 1.5), meant(x, y, 1.5))


@pytest.mark.parametrize("sizes", [(11, 13), (8, 16), (0, 4)])
def test_a_shipped_kernel_is_called_with_cffi_and_without(
    sizes: tuple[int, int], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = np.random.default_rng(1).random(sizes, np.float32)
    program = gpu.transpose(8, 2).goal
    if sizes == (8, 16):
        monkeypatch.setattr(building, "find_spec", lambda name: None)
    assert np.array_equal(shimmed(program, ShimMachine(folder))(a), a.T)


# -- arrays on a GPU --------------------------------------------------------------------------------------------------


def test_arrays_on_the_gpu_are_not_copied_and_nobody_waits_where_streams_are_told(
    kernel: GpuKernel, held: Held, shim: Shim
) -> None:
    arrays = [ByInterface(at, held.x, A_STREAM) for at in held.at]
    assert kernel(arrays[0], arrays[1], held.c, out=arrays[2]) is arrays[2]
    assert shim.waiting(A_STREAM) > 0
    held.read()
    assert shim.unknown == held.x.nbytes, "nothing is done until somebody waits for the stream"
    assert shim.synchronize(A_STREAM) == 0
    assert np.array_equal(held.read(), meant(held.x, held.y, held.c))


@pytest.mark.parametrize("streams", [(ANOTHER, A_STREAM), (A_STREAM, ANOTHER)], ids=["theirs first", "ours first"])
def test_a_call_waits_for_what_is_made_in_another_stream_and_that_one_for_the_call(
    streams: tuple[int, int], kernel: GpuKernel, held: Held, shim: Shim
) -> None:
    made = held.x + 1
    shim.write_later(held.at[0], made, ANOTHER)
    x, y, out = (
        ByInterface(at, held.x, stream) for at, stream in zip(held.at, (ANOTHER, A_STREAM, A_STREAM), strict=True)
    )
    kernel(x, y, held.c, out=out)
    shim.write_later(held.at[0], np.zeros_like(made), ANOTHER)  # by its owner, who knows nothing of the call
    assert [shim.synchronize(stream) for stream in streams] == [0, 0]
    assert np.array_equal(held.read(), meant(made, held.y, held.c))


def test_the_host_waits_where_a_stream_is_not_told(kernel: GpuKernel, held: Held, shim: Shim) -> None:
    x, y, out = (ByInterface(at, held.x) for at in held.at)
    kernel(x, y, held.c, out=out)
    assert np.array_equal(held.read(), meant(held.x, held.y, held.c))


def test_dlpack_is_told_the_stream_in_which_its_array_is_used(kernel: GpuKernel, held: Held, shim: Shim) -> None:
    made = held.x + 1
    shim.write_later(held.at[0], made, ANOTHER)
    x, y, out = (ByDLPack(at, held.x, shim, ANOTHER) for at in held.at)
    kernel(x, y, held.c, out=out)
    assert x.asked == y.asked == out.asked == [runtime.LEGACY]
    assert np.array_equal(held.read(), meant(made, held.y, held.c))


def test_arrays_of_both_kinds_go_together(kernel: GpuKernel, held: Held, shim: Shim) -> None:
    result = kernel(ByDLPack(held.at[0], held.x, shim), held.y, held.c)
    assert isinstance(result, np.ndarray)
    assert np.array_equal(result, meant(held.x, held.y, held.c))
    out = ByInterface(held.at[2], held.x, A_STREAM)
    kernel(held.x, held.y, held.c, out=out)
    assert np.array_equal(held.read(), meant(held.x, held.y, held.c)), "NumPy's arrays are the caller's after the call"


def test_a_kernel_is_called_in_a_stream_of_the_callers(kernel: GpuKernel, held: Held, shim: Shim) -> None:
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
        with pytest.raises(InvalidArgument, match="stream="):
            kernel.on(wrong)


def test_elements_of_which_something_is_declared_are_looked_at_on_the_gpu_too(folder: Path) -> None:
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
            with pytest.raises(ArrayError, match=r"at\[0\]"):
                kernel(x_there, there)


class ByNothing(ByDLPack):
    def __dlpack__(self, *, stream: int) -> object:
        return stream


REFUSED: Final[dict[str, tuple[Callable[[Held], object], str]]] = {
    "a shape": (lambda h: ByInterface(h.at[0], h.x[:3]), "give different n"),
    "elements": (lambda h: ByInterface(h.at[0], h.x, changed={"typestr": "<f8"}), "float64, not float32"),
    "a mask": (lambda h: ByInterface(h.at[0], h.x, changed={"mask": h}), "has a mask"),
    "strides": (lambda h: ByInterface(h.at[0], h.x, changed={"strides": (8,)}), "not C-contiguous"),
    "strides by DLPack": (lambda h: ByDLPack(h.at[0], h.x, h.shim, strides=(2,)), "not C-contiguous"),
    "nothing said": (
        lambda h: ByInterface(h.at[0], h.x, changed={"data": None}),
        "has an invalid __cuda_array_interface__",
    ),
    "a shape below zero": (
        lambda h: ByInterface(h.at[0], h.x, changed={"shape": (-5,)}),
        "has an invalid __cuda_array_interface__",
    ),
    "a shape of fractions": (
        lambda h: ByInterface(h.at[0], h.x, changed={"shape": (5.5,)}),
        "has an invalid __cuda_array_interface__",
    ),
    "more than there can be": (lambda h: ByInterface(h.at[0], h.x, changed={"shape": (1 << 62,)}), "at most .* bytes"),
    "more of nothing": (lambda h: ByInterface(h.at[0], h.x, changed={"shape": (0, 1 << 65)}), "at most .* bytes"),
    "an address below zero": (lambda h: ByInterface(-8, h.x), "has an invalid __cuda_array_interface__"),
    "an address of 70 bits": (lambda h: ByInterface(1 << 70, h.x), "has an invalid __cuda_array_interface__"),
    "a stream of 70 bits": (lambda h: ByInterface(h.at[0], h.x, changed={"stream": 1 << 70}), "declares the stream"),
    "strides of another rank": (
        lambda h: ByInterface(h.at[0], h.x, changed={"strides": (4, 4)}),
        "has an invalid __cuda_array_interface__",
    ),
    "no stream": (lambda h: ByInterface(h.at[0], h.x, changed={"stream": "a"}), "declares the stream 'a'"),
    "no capsule": (lambda h: ByNothing(h.at[0], h.x, h.shim), "cannot be exported by its library"),
    "bfloat16": (lambda h: ByDLPack(h.at[0], h.x, h.shim, kind=4), "DLPack type 4"),
    "memory of the host": (lambda h: ByInterface(h.x.ctypes.data // 16 * 16, h.x), "is unknown to CUDA"),
    "no multiple": (lambda h: ByInterface(h.at[0] + 2, h.x), "not a multiple of 4"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_an_array_that_no_kernel_can_read_is_refused(what: str, kernel: GpuKernel, held: Held) -> None:
    make, said = REFUSED[what]
    with pytest.raises((ArrayError, ArgumentError), match=said):
        kernel(make(held), held.y, held.c)


def test_what_its_library_does_not_hand_out_is_no_array(kernel: GpuKernel, held: Held) -> None:
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
        with pytest.raises(ArgumentError, match=r"gradients|not in 1"):
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
def test_what_cannot_hold_the_result_is_refused(what: str, kernel: GpuKernel, held: Held) -> None:
    make, said = OUT_REFUSED[what]
    with pytest.raises(ArrayError, match=said):
        kernel(ByInterface(held.at[0], held.x), held.y, held.c, out=make(held))


def test_all_arrays_are_on_one_gpu_which_is_used_for_the_call_alone(kernel: GpuKernel, held: Held, shim: Shim) -> None:
    for at in held.at:
        shim.put_on(at, 1)
    x, y, out = (ByInterface(at, held.x, A_STREAM) for at in held.at)
    kernel(x, y, held.c, out=out)
    assert shim.device == 0
    shim.put_on(held.at[1], 0)
    with pytest.raises(ArrayError, match="on several GPUs") as caught:
        kernel(x, y, held.c, out=out)
    assert "y = on GPU 0" in str(caught.value)
    shim.fail("cudaMemcpyAsync", 1)
    with pytest.raises(CudaError):
        kernel(x, held.y, held.c)
    assert shim.device == 0


# -- what goes wrong --------------------------------------------------------------------------------------------------

CALLS: Final = {
    "cudaGetDevice": 2,
    "cudaMallocAsync": 4,
    "cudaMemcpyAsync": 3,
    "cudaLaunchKernelEx": 2,
    "cudaStreamSynchronize": 1,
}
"""The calls of CUDA that a call of SUM makes, and how often."""


@pytest.mark.parametrize("after", range(5))
@pytest.mark.parametrize("call", CALLS)
def test_every_call_of_cuda_that_fails_is_told_by_its_name(
    call: str, after: int, kernel: GpuKernel, shim: Shim
) -> None:
    x, y, c = given(5)
    shim.fail(call, 1, after)
    if after >= CALLS[call]:
        assert np.array_equal(kernel(x, y, c), meant(x, y, c))
        return
    with pytest.raises(CudaError, match=r"cudaErrorInvalidValue \(as the shim says\)") as caught:
        kernel(x, y, c)
    assert (caught.value.name, caught.value.number) == ("cudaErrorInvalidValue", 1)


def test_calls_for_streams_that_fail_are_told_too(kernel: GpuKernel, held: Held, shim: Shim) -> None:
    for call in ("cudaEventCreate", "cudaEventRecord", "cudaStreamWaitEvent", "cudaPointerGetAttributes"):
        shim.reset()
        shim.fail(call, 1)
        x, y, out = (ByInterface(at, held.x, stream) for at, stream in zip(held.at, (ANOTHER, 1, 1), strict=True))
        with pytest.raises(CudaError, match="cudaErrorInvalidValue"):
            kernel(x, y, held.c, out=out)


def test_no_memory_is_an_error_of_memory(kernel: GpuKernel, shim: Shim) -> None:
    for after in range(3):
        shim.fail("cudaMallocAsync", 2, after)
        with pytest.raises(OutOfMemory, match="cudaErrorMemoryAllocation"):
            kernel(*given(5))


def test_what_kernels_do_wrong_is_told_when_they_are_waited_for(folder: Path) -> None:
    machine = ShimMachine(folder)
    program = atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n | block.x] x[i]")
    kernel = shimmed(program, machine)
    wrong = kernel.source.replace("out[i] =", "out[i + 1] =")
    caller = calls.Caller(program, kernel.kernels, wrong, "f", machine)
    with pytest.raises(CudaError, match="f failed on the GPU: cudaErrorLaunchFailure") as caught:
        caller(None, (np.ones(3, np.float32),), None, {})
    assert "start a new process" in str(caught.value)
    assert "an access outside of all arrays" in machine.shim.said


def test_a_grid_is_not_larger_than_cuda_takes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "f (x : float32[n]) : float32[n] := ⊞[i < n | block.{}] x[i]"
    for axis, most in (("y", 65_535), ("z", 65_535), ("x", 2**31 - 1)):
        kernel = shimmed(atl.parse(text.format(axis)), ShimMachine(folder))
        x = np.broadcast_to(np.float32(1), most + 1)
        with pytest.raises(GridTooLarge, match=f"marked block.{axis}, has {most + 1} iterations") as caught:
            kernel(x)
        assert ('s.mark("i", "block.x")' in str(caught.value)) == (axis != "x")


@pytest.mark.long
def test_a_loop_of_the_host_has_as_many_launches_as_it_takes(folder: Path) -> None:
    program = atl.parse("f (x : float32[n]) : float32[n, n] := ⊞[i < n] padr (n - i) ⊞[j < i | block.y] x[j]")
    kernel = shimmed(program, ShimMachine(folder))
    assert np.array_equal(kernel(x := np.arange(1, 5, dtype=np.float32)), atl.evaluate(program, x=x))
    with pytest.raises(GridTooLarge, match="has 65536 iterations"):
        kernel(np.broadcast_to(np.float32(1), 65_537))


FAULTS: Final[dict[str, tuple[str, str]]] = {
    "nothing is copied in": ("return cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream);", "return 0;"),
    "nothing is copied out": ("return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream);", "return 0;"),
    "half is copied out": ("from, bytes, cudaMemcpyDeviceToHost", "from, bytes / 2, cudaMemcpyDeviceToHost"),
    "too much is copied": ("from, bytes, cudaMemcpyHostToDevice", "from, bytes + 64, cudaMemcpyHostToDevice"),
    "the wrong way": ("cudaMemcpyHostToDevice", "cudaMemcpyDeviceToHost"),
    "copied in in another stream": ("cudaMemcpyHostToDevice, stream", "cudaMemcpyHostToDevice, (cudaStream_t)4096"),
    "copied out in another stream": ("cudaMemcpyDeviceToHost, stream", "cudaMemcpyDeviceToHost, (cudaStream_t)4096"),
    "nobody waits": ("return cudaStreamSynchronize(stream);", "return 0;"),
    "another stream is waited for": ("cudaStreamSynchronize(stream)", "cudaStreamSynchronize((cudaStream_t)4096)"),
    "memory stays": ("return cudaFreeAsync(memory, stream);", "return 0;"),
    "no order of streams": ("error = cudaStreamWaitEvent(later, event, 0);", "error = 0;"),
    "the other order of streams": ("cudaEventRecord(event, earlier)", "cudaEventRecord(event, later)"),
    "errors are passed over": ("error ? error : left", "0"),
}


def called_in_all_ways(machine: ShimMachine) -> None:
    """Calls with arrays of both kinds, in several streams, with one that fails; asserts what must hold of each."""
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
    with pytest.raises(CudaError):
        kernel(x_there, y_there, c, out=out_there)


def test_nothing_is_found_where_there_is_no_fault(folder: Path) -> None:
    called_in_all_ways(ShimMachine(folder))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_what_calls_cuda_is_found(fault: str, folder: Path) -> None:
    before, after = FAULTS[fault]
    assert before in runtime.TEXT
    with pytest.raises((AssertionError, ATLError, pytest.fail.Exception)):
        called_in_all_ways(ShimMachine(folder, runtime.TEXT.replace(before, after)))


# -- what the host cannot know ----------------------------------------------------------------------------------------


def test_the_host_reads_no_array() -> None:
    with pytest.raises(IllegalMark, match="a condition around it depends on elements of p") as caught:
        of_text("f (x : float32[n], p : int64[n]) : float32[n, n] := ⊞[j < n] [p[j] > 2] · ⊞[i < n | block.x] x[i]")
    assert 's.interchange("i")' in str(caught.value)
    n, m = atl.sizes("n m")
    x, p = atl.tensor("x", n), atl.tensor("p", m, dtype="int64", range=(0, n))
    body = atl.gen(m, lambda j: atl.sum(p[j], lambda q: atl.gen(n, lambda i: x[i] * x[q])))
    program = atl.program("f", [x, p], body)
    from rewrites import reschedule

    with pytest.raises(IllegalMark, match="the loop q around it depends on elements of p"):
        lower_to_kernels(reschedule(program).mark("i", "block.x").goal)
    rows = atl.program("f", [x, p], atl.guard(m > 0, atl.gen(p[0], lambda i: x[i])))
    with pytest.raises(UnsupportedMark, match="depend on elements of p"):
        lower_to_kernels(rows)


def of_text(text: str) -> None:
    lower_to_kernels(atl.parse(text))


def lower_to_kernels(program: atl.Program) -> None:
    kernels(lower(program, target="cuda"))


# -- building ---------------------------------------------------------------------------------------------------------

NVCC: Final = detection.find_nvcc()


@pytest.mark.long
@pytest.mark.skipif(NVCC is None, reason="nvcc is not installed: no kernel is built for a GPU here")
def test_a_kernel_is_built_for_named_architectures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATL_CACHE", str(tmp_path))
    monkeypatch.setattr(compiled, "detect_gpu", lambda: GpuEnvironment("13.0", None))
    kernel = compiled.compile_for_gpu(atl.parse(SUM))
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
    assert path.stat().st_mtime_ns == before  # it is found in the cache
    functions = building.open_library(path, {"added": ("address",) * 3 + ("int64_t",), "atl_device": ("address",)})
    assert set(functions) == {"added", "atl_device"}


def fake_nvcc(folder: Path, script: str) -> str:
    path = folder / "nvcc"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


SAYS: Final = """
case "$1" in
--version) echo "Cuda compilation tools, release 12.1, V12.1.1"; exit 0;;
--list-gpu-arch) printf 'compute_70\\ncompute_80\\ncompute_90\\n'; exit 0;;
esac
"""


def test_architectures_are_those_of_the_gpus_that_are_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVCC", fake_nvcc(tmp_path, SAYS))
    nvcc = detection.find_nvcc()
    assert nvcc is not None
    assert detection.release_of(nvcc) == "12.1"
    targets = {
        (): ["arch=compute_80,code=sm_80", "arch=compute_90,code=sm_90", "arch=compute_90,code=compute_90"],
        ((9, 0), (8, 0), (9, 0)): ["arch=compute_80,code=sm_80", "arch=compute_90,code=sm_90"],
        ((12, 0),): ["arch=compute_90,code=compute_90"],
    }
    for gpus, want in targets.items():
        assert building._targets(nvcc, GpuEnvironment("12.1", "12.1", gpus)) == [
            f"-gencode={target}" for target in want
        ]
    with pytest.raises(CompilerFailed, match="does not support GPUs of compute capability"):
        building._targets(nvcc, GpuEnvironment("12.1", "12.1", ((6, 1),)))


def test_what_nvcc_says_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NVCC", fake_nvcc(tmp_path, f'{SAYS}\necho "nvcc fatal: no host compiler" >&2; exit 1'))
    monkeypatch.setattr(compiled, "detect_gpu", lambda: GpuEnvironment("12.1", None))
    with pytest.raises(CompilerFailed, match="nvcc fatal: no host compiler") as caught:
        compiled.compile_for_gpu(atl.parse(SUM)).build()
    assert "NVCC_CCBIN" in str(caught.value)
    assert "set CC" not in str(caught.value)


def test_what_nvcc_reads_of_the_environment_belongs_to_what_it_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NVCC", fake_nvcc(tmp_path, SAYS))
    before = detection.find_nvcc()
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-G")
    assert detection.find_nvcc() != before


def test_without_nvcc_a_kernel_has_its_text_and_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "find_nvcc", lambda: None)
    monkeypatch.setattr(compiled, "detect_gpu", lambda: GpuEnvironment(None, "12.4", ((9, 0),)))
    kernel = compiled.compile_for_gpu(atl.parse(SUM))
    assert "__global__" in kernel.source
    for attempt in (lambda: kernel(*given(3)), kernel.build):
        with pytest.raises(GpuMissing, match=r"no nvcc, a driver for CUDA 12\.4, 1 GPU of compute capability 9\.0"):
            attempt()
    with pytest.raises(ArrayError, match="give different n"):
        kernel(np.ones(3, np.float32), np.ones(2, np.float32), 1.0)


def test_a_program_may_have_the_name_of_a_function_of_its_library(folder: Path) -> None:
    program = atl.parse("atl_wait (x : float32[n]) : float32[n] := ⊞[i < n | block.x] x[i]")
    assert shimmed(program, ShimMachine(folder))(np.ones(2, np.float32)).tolist() == [1, 1]


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
def test_versions_are_found() -> None:
    assert NVCC is not None
    assert detection.release_of(NVCC)
    assert str(GpuEnvironment("13.0", None)) == "nvcc 13.0, no driver (libcuda.so.1), no GPU"
