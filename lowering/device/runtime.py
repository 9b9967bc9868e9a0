"""CUDA runtime calls, with CUDA's errors raised as ours. The C functions are part of each kernel's library."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import addressof, c_float, c_int, c_void_p, create_string_buffer
from typing import Any, Final

from atl.errors import CudaError, OutOfMemory
from lowering.device.building import Declared, Functions, ParameterKind

FILE: Final = "atl_calls.cpp"
"""Name of the file with these functions; no kernel has this name."""

TEXT: Final = """\
/* The functions of CUDA that a call of a kernel needs, in C; each returns an error code. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static void atl_kept(char *to, const char *said)
{
    strncpy(to, said, 255);
    to[255] = 0;
}

extern "C" {
int atl_error(int number, char *name, char *said)
{
    atl_kept(name, cudaGetErrorName((cudaError_t)number));
    atl_kept(said, cudaGetErrorString((cudaError_t)number));
    return 0;
}

int atl_device(int *device) { return cudaGetDevice(device); }
int atl_use_device(int device) { return cudaSetDevice(device); }

int atl_allocate(void **memory, size_t bytes, cudaStream_t stream) { return cudaMallocAsync(memory, bytes, stream); }
int atl_free(void *memory, cudaStream_t stream) { return cudaFreeAsync(memory, stream); }

int atl_fill(void *memory, int byte, size_t bytes, cudaStream_t stream)
{
    return cudaMemsetAsync(memory, byte, bytes, stream);
}

int atl_copy_in(void *to, const void *from, size_t bytes, cudaStream_t stream)
{
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream);
}

int atl_copy_out(void *to, const void *from, size_t bytes, cudaStream_t stream)
{
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream);
}

int atl_wait(cudaStream_t stream) { return cudaStreamSynchronize(stream); }

/* Work put into the one stream from now on waits for the work that is in the other one now. */
int atl_order(cudaStream_t later, cudaStream_t earlier)
{
    cudaEvent_t event;
    int error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    if (error)
        return error;
    error = cudaEventRecord(event, earlier);
    if (!error)
        error = cudaStreamWaitEvent(later, event, 0);
    const int left = cudaEventDestroy(event);
    return error ? error : left;
}

int atl_where(const void *memory, int *kind, int *device)
{
    struct cudaPointerAttributes held;
    const int error = cudaPointerGetAttributes(&held, memory);
    if (error)
        return error;
    *kind = held.type;
    *device = held.device;
    return 0;
}

int atl_event(cudaEvent_t *event) { return cudaEventCreate(event); }
int atl_record(cudaEvent_t event, cudaStream_t stream) { return cudaEventRecord(event, stream); }
int atl_elapsed(float *milliseconds, cudaEvent_t from, cudaEvent_t to)
{
    return cudaEventElapsedTime(milliseconds, from, to);
}
int atl_forget(cudaEvent_t event) { return cudaEventDestroy(event); }
}
"""

_SIGNATURES: Final[dict[str, tuple[tuple[ParameterKind, ...], str]]] = {
    "atl_error": (("number", "address", "address"), "cudaGetErrorName"),
    "atl_device": (("address",), "cudaGetDevice"),
    "atl_use_device": (("number",), "cudaSetDevice"),
    "atl_allocate": (("address", "bytes", "address"), "cudaMallocAsync"),
    "atl_free": (("address", "address"), "cudaFreeAsync"),
    "atl_fill": (("address", "number", "bytes", "address"), "cudaMemsetAsync"),
    "atl_copy_in": (("address", "address", "bytes", "address"), "cudaMemcpyAsync"),
    "atl_copy_out": (("address", "address", "bytes", "address"), "cudaMemcpyAsync"),
    "atl_wait": (("address",), "cudaStreamSynchronize"),
    "atl_order": (("address", "address"), "cudaStreamWaitEvent"),
    "atl_where": (("address", "address", "address"), "cudaPointerGetAttributes"),
    "atl_event": (("address",), "cudaEventCreate"),
    "atl_record": (("address", "address"), "cudaEventRecord"),
    "atl_elapsed": (("address", "address", "address"), "cudaEventElapsedTime"),
    "atl_forget": (("address",), "cudaEventDestroy"),
}
"""Argument types of each function, and the CUDA call that it makes."""

DECLARED: Final[Declared] = {name: takes for name, (takes, _) in _SIGNATURES.items()}

LEGACY: Final = 1
"""The legacy default stream, which synchronises with all blocking streams."""
PER_THREAD: Final = 2
"""The default stream of the calling thread."""

ON_DEVICE: Final = (2, 3)
"""Kinds of memory that kernels read at full speed: device memory and managed memory."""
NO_MEMORY: Final = "cudaErrorMemoryAllocation"
FATAL: Final = frozenset({
    "cudaErrorIllegalAddress", "cudaErrorLaunchTimeout", "cudaErrorHardwareStackError", "cudaErrorIllegalInstruction",
    "cudaErrorMisalignedAddress", "cudaErrorInvalidAddressSpace", "cudaErrorInvalidPc", "cudaErrorLaunchFailure",
    "cudaErrorAssert", "cudaErrorECCUncorrectable", "cudaErrorUnknown",
})  # fmt: skip
"""Errors after which CUDA refuses all further calls of a process."""

RESTART: Final = "start a new process: CUDA refuses all further calls of this one"
ADVICE: Final = {
    "cudaErrorInsufficientDriver": "install a newer driver, or set NVCC to the nvcc of an older CUDA",
    "cudaErrorNoKernelImageForDevice": "set NVCC to an nvcc that supports this GPU",
}


class Runtime:
    """CUDA's calls through the functions of a library. Pointers, streams and events are numbers.

    Each method raises `CudaError` with CUDA's name of the error; `OutOfMemory` if there is not enough memory.
    """

    def __init__(self, functions: Functions) -> None:
        self._functions = functions

    def check(self, number: int, what: str) -> None:
        """Raise the error with a number, unless that is 0; `what` names the call that failed."""
        if number == 0:
            return
        name, message = create_string_buffer(256), create_string_buffer(256)
        self._functions["atl_error"](number, addressof(name), addressof(message))
        called, meant = name.value.decode(errors="replace"), message.value.decode(errors="replace")
        summary = f"{what} failed on the GPU: {called} ({meant})"
        if called == NO_MEMORY:
            raise OutOfMemory(summary, required="enough free memory on the GPU for this call")
        advice = ADVICE.get(called, RESTART if called in FATAL else "")
        raise CudaError(
            summary,
            name=called,
            number=number,
            required="a call that succeeds in CUDA",
            suggestions=(advice,) if advice else (),
        )

    def _call(self, name: str, *arguments: object) -> None:
        self.check(self._functions[name](*arguments), _SIGNATURES[name][1])

    # -- devices ------------------------------------------------------------------------------------------------------

    def device(self) -> int:
        """Return the number of the current thread's GPU."""
        number = c_int(0)
        self._call("atl_device", addressof(number))
        return number.value

    @contextmanager
    def using(self, device: int) -> Iterator[None]:
        """Switch the current thread to a GPU, and back at the end."""
        before = self.device()
        if before == device:
            yield
            return
        self._call("atl_use_device", device)
        try:
            yield
        finally:
            self._functions["atl_use_device"](before)

    def where(self, memory: int) -> tuple[int, int]:
        """Return the kind of memory at an address (0, 1: host, 2: device, 3: managed), and the number of its GPU."""
        kind, device = c_int(0), c_int(0)
        self._call("atl_where", memory, addressof(kind), addressof(device))
        return kind.value, device.value

    # -- memory -------------------------------------------------------------------------------------------------------

    def allocate(self, count: int, stream: int) -> int:
        """Allocate memory in stream order; return its address."""
        memory = c_void_p(0)
        self._call("atl_allocate", addressof(memory), count, stream)
        return memory.value or 0

    def free(self, memory: int, stream: int) -> None:
        """Free memory in stream order."""
        self._call("atl_free", memory, stream)

    def fill(self, memory: int, byte: int, count: int, stream: int) -> None:
        """Set bytes of GPU memory to one value."""
        self._call("atl_fill", memory, byte, count, stream)

    def copy_in(self, to: int, held: Any, stream: int) -> None:
        """Copy a contiguous NumPy array to the GPU."""
        self._call("atl_copy_in", to, held.ctypes.data, held.nbytes, stream)

    def copy_out(self, held: Any, source: int, stream: int) -> None:
        """Copy GPU memory into a contiguous NumPy array."""
        self._call("atl_copy_out", held.ctypes.data, source, held.nbytes, stream)

    # -- streams ------------------------------------------------------------------------------------------------------

    def wait(self, stream: int, what: str = "cudaStreamSynchronize") -> None:
        """Wait for all work in the stream; `what` names the call in an error."""
        self.check(self._functions["atl_wait"](stream), what)

    def order(self, later: int, earlier: int) -> None:
        """Make later work in one stream wait for all work that is now in another stream."""
        if later != earlier:
            self._call("atl_order", later, earlier)

    def event(self) -> int:
        """Create an event for timing."""
        event = c_void_p(0)
        self._call("atl_event", addressof(event))
        return event.value or 0

    def record(self, event: int, stream: int) -> None:
        """Record an event in a stream."""
        self._call("atl_record", event, stream)

    def elapsed(self, start: int, end: int) -> float:
        """Return the milliseconds between two recorded events."""
        milliseconds = c_float(0)
        self._call("atl_elapsed", addressof(milliseconds), start, end)
        return milliseconds.value

    def destroy(self, event: int) -> None:
        """Destroy an event."""
        self._call("atl_forget", event)
