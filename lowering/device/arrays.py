"""Arrays that are in the memory of a GPU already, of whatever library: by `__cuda_array_interface__` or by DLPack.

The first says in which stream the array is made, if it is of version 3; DLPack is told the stream in which the array
will be used, and its library puts into it what has to be waited for. Neither is copied.
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
"""DLPack's numbers for the memory of a GPU by CUDA, and for managed memory."""
ADDRESSES: Final = 1 << 64
"""Less than this is every address, and every number of a stream, which is one."""
MOST_BYTES: Final = (1 << 63) - 1
"""So many bytes an array has at most."""
KINDS: Final = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}
"""DLPack's numbers for kinds of elements, with NumPy's letters."""


@dataclass(frozen=True, slots=True)
class OnGpu:
    """An array on a GPU. `stream` is the one in which it is made, if that is told; `kept` must not go before it."""

    name: str
    pointer: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    writeable: bool
    stream: int | None
    kept: object = field(repr=False, default=None)

    @property
    def bytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize

    def stands_for(self) -> npt.NDArray[Any]:
        """An array of NumPy's of the same shape and elements that takes no memory."""
        return np.broadcast_to(np.zeros((), self.dtype), self.shape)

    def overlaps(self, other: OnGpu) -> bool:
        """Whether both have a byte in common."""
        return self.pointer < other.pointer + other.bytes and other.pointer < self.pointer + self.bytes


def is_on_gpu(value: object) -> bool:
    """Whether a value says that it is an array on a GPU."""
    return not isinstance(value, np.ndarray) and (_interface("", value) is not None or _has_dlpack(value))


def told_stream(value: object) -> int | None:
    """The stream in which an array is made, if it tells one."""
    interface = _interface("", value)
    stream = interface.get("stream") if interface is not None else None
    if stream is None:
        return None
    if isinstance(stream, bool) or not isinstance(stream, Integral) or not 0 <= int(stream) < ADDRESSES:
        raise ArgumentError(
            f"an array is said to be made in the stream {brief(stream, kind=True)}", required="the number of a stream"
        )
    return int(stream) or LEGACY


def on_gpu(name: str, value: object, stream: int) -> OnGpu:
    """An array that is to be used in a stream, by the interface that says more of its own stream.

    Raises `ArgumentError` for what its library does not hand out, and `ArrayError` for an array whose elements do not
    stand one after the other.
    """
    interface = _interface(name, value)
    if interface is not None and (interface.get("stream") is not None or not _has_dlpack(value)):
        held = _by_interface(name, interface, told_stream(value), value)
    else:
        held = _by_dlpack(name, value, stream)
    if min(held.shape, default=0) < 0 or prod(max(e, 1) for e in held.shape) * held.dtype.itemsize > MOST_BYTES:
        raise ArrayError(
            f"{name} says that it has the shape {held.shape}",
            required=f"extents from 0 on, and at most {MOST_BYTES} bytes in all",
        )
    return held


def _has_dlpack(value: object) -> bool:
    device = getattr(value, "__dlpack_device__", None)
    if isinstance(value, type) or not callable(device) or not hasattr(value, "__dlpack__"):
        return False
    told = device()
    return isinstance(told, tuple) and len(told) == 2 and told[0] in ON_A_GPU


# -- __cuda_array_interface__ -----------------------------------------------------------------------------------------


def _interface(name: str, value: object) -> Mapping[str, Any] | None:
    """What a value says of itself by `__cuda_array_interface__`; nothing, if it is no array on a GPU."""
    try:
        interface = getattr(value, "__cuda_array_interface__", None)
    except (RuntimeError, TypeError, ValueError) as error:
        if _has_dlpack(value):
            return None
        raise ArgumentError(
            f"{name or 'an array'} is not handed out by its library: {error}",
            required="an array on a GPU that has __cuda_array_interface__ or __dlpack__",
        ) from None
    return interface if isinstance(interface, Mapping) else None


def _by_interface(name: str, interface: Mapping[str, Any], stream: int | None, kept: object) -> OnGpu:
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
            f"{name} has a __cuda_array_interface__ that says too little: {brief(str(error))}",
            required="shape, typestr and data, as version 3 of the interface has them",
        ) from None
    if interface.get("mask") is not None:
        raise ArgumentError(f"{name} has a mask, which would be lost", required="an array without a mask")
    if strides is not None:
        _check_strides(name, shape, strides, dtype.itemsize)
    return OnGpu(name, pointer, shape, dtype, not readonly, stream, kept)


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


def _by_dlpack(name: str, value: Any, stream: int) -> OnGpu:
    """The tensor in a capsule, which keeps it: nobody takes it out, so that its own destructor frees it."""
    try:
        capsule = value.__dlpack__(stream=stream)
        tensor = _Tensor.from_address(_GET_POINTER(capsule, b"dltensor"))
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ArgumentError(
            f"{name} is not handed out by its library: {error}",
            required="an array that __dlpack__(stream=…) gives",
            suggestions=(f"pass {name}.detach(), if it is a tensor of PyTorch's that gradients are asked for",),
        ) from None
    kind, bits = KINDS.get(tensor.dtype.kind), tensor.dtype.bits
    if kind is None or bits % 8 or tensor.dtype.lanes != 1:
        raise ArrayError(
            f"the elements of {name} are none of NumPy's: type {tensor.dtype.kind} of DLPack's, of {bits} bits",
            required="elements of the declared type",
        )
    shape = tuple(tensor.shape[at] for at in range(tensor.rank))
    dtype = np.dtype("bool" if kind == "b" else f"{kind}{bits // 8}")
    if tensor.strides:
        strides = tuple(tensor.strides[at] * dtype.itemsize for at in range(tensor.rank))
        _check_strides(name, shape, strides, dtype.itemsize)
    return OnGpu(name, (tensor.data or 0) + tensor.offset, shape, dtype, True, None, (capsule, value))


def _check_strides(name: str, shape: tuple[int, ...], strides: tuple[int, ...], size: int) -> None:
    """Raises `ArrayError` unless the elements stand one after the other, the last index going fastest."""
    wanted = size
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent > 1 and stride != wanted and 0 not in shape:
            raise ArrayError(
                f"{name} is not C-contiguous",
                required=f"an array on a GPU whose elements stand one after the other; its strides are {strides} bytes",
                suggestions=(f"pass {name}.contiguous() of PyTorch's, or cupy.ascontiguousarray({name})",),
            )
        wanted *= extent
