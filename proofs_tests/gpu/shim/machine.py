"""A machine without a GPU: the shim in place of CUDA, and arrays on its device."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lowering.device import runtime
from lowering.device.building import Declared, Functions, open_library
from proofs_tests.gpu.shim.run import build

Array = npt.NDArray[Any]


@dataclass(slots=True)
class ShimMachine:
    """A machine that builds with a C++ compiler and the shim; a test may plant a fault in `text`, the CUDA calls."""

    folder: Path
    text: str = runtime.TEXT
    libraries: list[Any] = field(default_factory=list)

    def functions(self, source: str, name: str, declared: Declared) -> Functions:
        """Build the text with the CUDA runtime of the shim and return its functions."""
        # Each library has its own file: of two at one path only the first is loaded.
        number = len(list(self.folder.glob("*.so")))
        library = build([source, self.text], self.folder, f"{name}{number}")
        self.libraries.append(library)
        return open_library(self.folder / f"{name}{number}.so", declared)

    @property
    def shim(self) -> Shim:
        """Device of the library that was built last."""
        return Shim(self.libraries[-1])


class Shim:
    """The device of a library, as tests use it: arrays, work in streams, and failing calls."""

    def __init__(self, library: Any) -> None:
        self.library = library
        pointers = {"shim_array": ctypes.c_void_p, "shim_finding": ctypes.c_char_p, "shim_said": ctypes.c_char_p}
        sizes = dict.fromkeys(("shim_result", "shim_arrays", "shim_waiting", "shim_calls"), ctypes.c_size_t)
        for name, result in (pointers | sizes).items():
            getattr(library, name).restype = result

    def array(self, held: Array, *, known: bool = True) -> int:
        """Allocate an array on the device and return its address; unknown elements are poisoned."""
        at = held.ctypes.data_as(ctypes.c_void_p) if known else None
        address: int = self.library.shim_array(ctypes.c_size_t(held.nbytes), at)
        return address

    def write_later(self, memory: int, held: Array, stream: int) -> None:
        """Enqueue a write of `held` to a stream."""
        data = held.ctypes.data_as(ctypes.c_void_p)
        self.library.shim_write_later(
            ctypes.c_void_p(memory), data, ctypes.c_size_t(held.nbytes), ctypes.c_void_p(stream)
        )

    def read(self, memory: int, like: Array) -> Array:
        """Read the current elements of an array on the device."""
        made = np.empty_like(like)
        self.unknown = self.library.shim_result(
            ctypes.c_void_p(memory), made.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(made.nbytes)
        )
        return made

    def free(self, memory: int) -> None:
        self.library.shim_free(ctypes.c_void_p(memory))

    def fail(self, call: str, error: int, after: int = 0) -> None:
        """Let a CUDA call fail after `after` successful calls."""
        self.library.shim_fail(call.encode(), error, after)

    def synchronize(self, stream: int) -> int:
        error: int = self.library.atl_wait(ctypes.c_void_p(stream))
        return error

    def put_on(self, memory: int, device: int) -> None:
        """Assign an array to another GPU."""
        self.library.shim_put_on(ctypes.c_void_p(memory), device)

    def waiting(self, stream: int) -> int:
        """Return the amount of work in a stream that has not been waited for."""
        count: int = self.library.shim_waiting(ctypes.c_void_p(stream))
        return count

    @property
    def arrays(self) -> int:
        count: int = self.library.shim_arrays()
        return count

    @property
    def device(self) -> int:
        number: int = self.library.shim_device()
        return number

    @property
    def findings(self) -> str:
        """Findings of the shim."""
        texts: list[bytes] = [self.library.shim_finding(), self.library.shim_said()]
        return " ".join(text.decode() for text in texts if text)

    def reset(self) -> None:
        self.library.shim_reset()


@dataclass(slots=True)
class ByInterface:
    """An array on the device with `__cuda_array_interface__`, as in CuPy, numba and PyTorch."""

    pointer: int
    like: Array
    stream: int | None = None
    changed: dict[str, Any] = field(default_factory=dict)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.like.shape,
            "typestr": self.like.dtype.str,
            "data": (self.pointer, False),
            "strides": None,
            "stream": self.stream,
            "version": 3,
            **self.changed,
        }


class _Managed(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("rank", ctypes.c_int32),
        ("kind", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


@dataclass(slots=True)
class ByDLPack:
    """An array on the device with DLPack. The importing stream waits for the array's stream, as in PyTorch."""

    pointer: int
    like: Array
    shim: Shim
    made_in: int = 0
    kind: int | None = None
    strides: tuple[int, ...] | None = None
    asked: list[int] = field(default_factory=list)
    kept: list[Any] = field(default_factory=list)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __dlpack__(self, *, stream: int) -> object:
        self.asked.append(stream)
        if self.made_in and self.made_in != stream:
            self.shim.library.atl_order(ctypes.c_void_p(stream), ctypes.c_void_p(self.made_in))
        rank = self.like.ndim
        shape = (ctypes.c_int64 * rank)(*self.like.shape)
        strides = None if self.strides is None else (ctypes.c_int64 * rank)(*self.strides)
        tensor = _Managed(
            data=self.pointer - 16,
            device=(ctypes.c_int32 * 2)(2, 0),
            rank=rank,
            kind={"i": 0, "u": 1, "f": 2}[self.like.dtype.kind] if self.kind is None else self.kind,
            bits=8 * self.like.dtype.itemsize,
            lanes=1,
            shape=ctypes.addressof(shape),
            strides=None if strides is None else ctypes.addressof(strides),
            offset=16,
        )
        self.kept += [shape, strides, tensor]
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        capsule: object = new(ctypes.addressof(tensor), b"dltensor", None)
        return capsule
