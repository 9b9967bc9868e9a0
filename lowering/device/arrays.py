"""Arrays of any library that are already on a GPU: `__cuda_array_interface__` and DLPack, without copies.

Version 3 of `__cuda_array_interface__` declares the stream in which the array is computed. DLPack is given the stream
in which the array will be used, and its library makes that stream wait.
"""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from numbers import Integral
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from atl.errors import ArgumentError, ArrayError, brief
from lowering.device.runtime import LEGACY

ON_A_GPU: Final = (2, 13)
"""DLPack's device types of CUDA memory and CUDA managed memory."""
ADDRESSES: Final = 1 << 64
"""Upper bound of addresses, and of streams, which are addresses."""
MAX_BYTES: Final = (1 << 63) - 1
"""Largest size of an array in bytes."""
KINDS: Final = {0: "i", 1: "u", 2: "f", 4: "bfloat", 5: "c", 6: "b"}
"""DLPack's type codes, with NumPy's kinds."""


@dataclass(frozen=True, slots=True)
class GpuArray:
    """An array on a GPU. `stream` computes it, if declared; `owner` is kept alive with it."""

    name: str
    pointer: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    writeable: bool
    stream: int | None
    owner: object = field(repr=False, default=None)

    @property
    def bytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize

    def placeholder(self) -> npt.NDArray[Any]:
        """Return a NumPy array of the same shape and dtype that takes no memory."""
        return np.broadcast_to(np.zeros((), self.dtype), self.shape)

    def overlaps(self, other: GpuArray) -> bool:
        """Return whether the arrays share a byte."""
        return self.pointer < other.pointer + other.bytes and other.pointer < self.pointer + self.bytes


def is_on_gpu(value: object) -> bool:
    """Return whether a value is an array on a GPU, by its interfaces."""
    return not isinstance(value, np.ndarray) and (_interface("", value) is not None or _has_dlpack(value))


def declared_stream(value: object) -> int | None:
    """Return the stream in which an array is computed, if the array declares one."""
    interface = _interface("", value)
    stream = interface.get("stream") if interface is not None else None
    if stream is None:
        return None
    if isinstance(stream, bool) or not isinstance(stream, Integral) or not 0 <= int(stream) < ADDRESSES:
        raise ArgumentError(
            f"an array declares the stream {brief(stream, kind=True)}", required="the number of a stream"
        )
    return int(stream) or LEGACY


def on_gpu(name: str, value: object, stream: int) -> GpuArray:
    """Wrap an array for use in a stream. The interface that declares the array's stream is preferred.

    Raises `ArgumentError` if its library does not export it, and `ArrayError` if it is not C-contiguous.
    """
    interface = _interface(name, value)
    if interface is not None and (interface.get("stream") is not None or not _has_dlpack(value)):
        held = _by_interface(name, interface, declared_stream(value), value)
    else:
        held = _by_dlpack(name, value, stream)
    if min(held.shape, default=0) < 0 or prod(max(e, 1) for e in held.shape) * held.dtype.itemsize > MAX_BYTES:
        raise ArrayError(
            f"{name} declares the invalid shape {held.shape}",
            required=f"nonnegative extents, and at most {MAX_BYTES} bytes in total",
        )
    return held


def _has_dlpack(value: object) -> bool:
    device = getattr(value, "__dlpack_device__", None)
    if isinstance(value, type) or not callable(device) or not hasattr(value, "__dlpack__"):
        return False
    found = device()
    return isinstance(found, tuple) and len(found) == 2 and found[0] in ON_A_GPU


# -- __cuda_array_interface__ -----------------------------------------------------------------------------------------


def _interface(name: str, value: object) -> Mapping[str, Any] | None:
    """Return the `__cuda_array_interface__` of a value, or None if it is not an array on a GPU."""
    try:
        interface = getattr(value, "__cuda_array_interface__", None)
    except (RuntimeError, TypeError, ValueError) as error:
        if _has_dlpack(value):
            return None
        raise ArgumentError(
            f"{name or 'an array'} cannot be exported by its library: {error}",
            required="an array on a GPU that has __cuda_array_interface__ or __dlpack__",
        ) from None
    return interface if isinstance(interface, Mapping) else None


def _by_interface(name: str, interface: Mapping[str, Any], stream: int | None, owner: object) -> GpuArray:
    try:
        shape = tuple(operator.index(extent) for extent in interface["shape"])
        dtype = np.dtype(interface["typestr"])
        pointer, readonly = operator.index(interface["data"][0] or 0), bool(interface["data"][1])
        strides = interface.get("strides")
        strides = None if strides is None else tuple(operator.index(stride) for stride in strides)
        if min(shape, default=0) < 0 or len(shape if strides is None else strides) != len(shape):
            raise ValueError(f"shape {shape}, strides {strides}")
        if not 0 <= pointer < ADDRESSES:
            raise ValueError(f"data at {pointer:#x}")
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ArgumentError(
            f"{name} has an invalid __cuda_array_interface__: {brief(str(error))}",
            required="shape, typestr and data, as in version 3 of the interface",
        ) from None
    if interface.get("mask") is not None:
        raise ArgumentError(f"{name} has a mask, which would be lost", required="an array without a mask")
    if strides is not None:
        _check_strides(name, shape, strides, dtype.itemsize)
    return GpuArray(name, pointer, shape, dtype, not readonly, stream, owner)


# -- DLPack -----------------------------------------------------------------------------------------------------------


class _Device(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int32), ("number", ctypes.c_int32))


class _Type(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("rank", ctypes.c_int32),
        ("dtype", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


_GET_POINTER: Final = ctypes.pythonapi.PyCapsule_GetPointer
_GET_POINTER.restype, _GET_POINTER.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


def _by_dlpack(name: str, value: Any, stream: int) -> GpuArray:
    """Return the array in a DLPack capsule. The capsule is not consumed, so its destructor frees the array."""
    try:
        capsule = value.__dlpack__(stream=stream)
        tensor = _Tensor.from_address(_GET_POINTER(capsule, b"dltensor"))
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ArgumentError(
            f"{name} cannot be exported by its library: {error}",
            required="an array that supports __dlpack__(stream=…)",
            suggestions=(f"pass {name}.detach(), if it is a PyTorch tensor that requires gradients",),
        ) from None
    kind, bits = KINDS.get(tensor.dtype.kind), tensor.dtype.bits
    if kind is None or bits % 8 or tensor.dtype.lanes != 1 or (kind == "bfloat" and bits != 16):
        raise ArrayError(
            f"the elements of {name} have no NumPy type: DLPack type {tensor.dtype.kind} with {bits} bits",
            required="elements of the declared type",
        )
    shape = tuple(tensor.shape[at] for at in range(tensor.rank))
    dtype = np.dtype("bool" if kind == "b" else f"bfloat{bits}" if kind == "bfloat" else f"{kind}{bits // 8}")
    if tensor.strides:
        strides = tuple(tensor.strides[at] * dtype.itemsize for at in range(tensor.rank))
        _check_strides(name, shape, strides, dtype.itemsize)
    return GpuArray(name, (tensor.data or 0) + tensor.offset, shape, dtype, True, None, (capsule, value))


def _check_strides(name: str, shape: tuple[int, ...], strides: tuple[int, ...], size: int) -> None:
    """Raise `ArrayError` unless the strides are those of a C-contiguous array."""
    wanted = size
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent > 1 and stride != wanted and 0 not in shape:
            raise ArrayError(
                f"{name} is not C-contiguous",
                required=f"a C-contiguous array on the GPU; its strides are {strides} bytes",
                suggestions=(f"pass {name}.contiguous() of PyTorch, or cupy.ascontiguousarray({name})",),
            )
        wanted *= extent
