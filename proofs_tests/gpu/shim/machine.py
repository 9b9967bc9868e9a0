"""A machine without a GPU on which kernels are called: the shim in the place of CUDA, and arrays on its device."""

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
    """Builds with a C++ compiler and the shim; `text` is CUDA's calls, in which a test may plant a fault."""

    folder: Path
    text: str = runtime.TEXT
    libraries: list[Any] = field(default_factory=list)

    def functions(self, source: str, name: str, declared: Declared) -> Functions:
        """The functions of the text, built with the shim's part of CUDA."""
        # Each library is a file of its own: of two at one path only the first is loaded.
        number = len(list(self.folder.glob("*.so")))
        library = build([source, self.text], self.folder, f"{name}{number}")
        self.libraries.append(library)
        return open_library(self.folder / f"{name}{number}.so", declared)

    @property
    def shim(self) -> Shim:
        """The device of the library that was built last."""
        return Shim(self.libraries[-1])


class Shim:
    """What a test does with the device of a library: arrays on it, work in its streams, calls that fail."""

    def __init__(self, library: Any) -> None:
        self.library = library
        for name, gives in (
            ("shim_array", ctypes.c_void_p),
            ("shim_finding", ctypes.c_char_p),
            ("shim_said", ctypes.c_char_p),
            ("shim_result", ctypes.c_size_t),
            ("shim_arrays", ctypes.c_size_t),
            ("shim_waiting", ctypes.c_size_t),
            ("shim_calls", ctypes.c_size_t),
        ):
            getattr(library, name).restype = gives

    def array(self, held: Array, *, known: bool = True) -> int:
        """The address of an array on the device; without known elements it is poisoned."""
        at = held.ctypes.data_as(ctypes.c_void_p) if known else None
        address: int = self.library.shim_array(ctypes.c_size_t(held.nbytes), at)
        return address

    def write_later(self, memory: int, held: Array, stream: int) -> None:
        """Puts into a stream that the array holds this."""
        data = held.ctypes.data_as(ctypes.c_void_p)
        self.library.shim_write_later(
            ctypes.c_void_p(memory), data, ctypes.c_size_t(held.nbytes), ctypes.c_void_p(stream)
        )

    def read(self, memory: int, like: Array) -> Array:
        """What an array on the device holds now."""
        made = np.empty_like(like)
        self.unknown = self.library.shim_result(
            ctypes.c_void_p(memory), made.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(made.nbytes)
        )
        return made

    def free(self, memory: int) -> None:
        self.library.shim_free(ctypes.c_void_p(memory))

    def fail(self, call: str, error: int, after: int = 0) -> None:
        """Lets a call of CUDA fail, after so many that do not."""
        self.library.shim_fail(call.encode(), error, after)

    def synchronize(self, stream: int) -> int:
        error: int = self.library.atl_wait(ctypes.c_void_p(stream))
        return error

    def put_on(self, memory: int, device: int) -> None:
        """Says that an array is on another GPU."""
        self.library.shim_put_on(ctypes.c_void_p(memory), device)

    def waiting(self, stream: int) -> int:
        """How much work is in a stream that nobody has waited for."""
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
    def said(self) -> str:
        """What the shim has found."""
        texts: list[bytes] = [self.library.shim_finding(), self.library.shim_said()]
        return " ".join(text.decode() for text in texts if text)

    def reset(self) -> None:
        self.library.shim_reset()


@dataclass(slots=True)
class ByInterface:
    """An array on a device with `__cuda_array_interface__`, as CuPy, numba and PyTorch have it."""

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
    """An array on a device with DLPack. The stream that asks for it is made to wait for its own, as PyTorch does."""

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
