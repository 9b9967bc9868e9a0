"""Arrays of other libraries in a call, which are read without a copy, and whose kind the result has.

`numpy.asarray` gives access to the memory of arrays with `__array__` or the buffer protocol, and `from_dlpack` to that
of arrays with DLPack only. A call with PyTorch tensors returns one, by the `from_dlpack` of their library.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from atl.core.index import Array
from atl.core.program import Program
from atl.errors import ArgumentError, ArrayError, InvalidArgument, brief
from atl.meaning.arguments import CONVERSION_ERRORS
from lowering.c.scalars import C_TYPES
from lowering.calls.arguments import WALKED
from lowering.calls.strides import unit_strides

IN_MEMORY: Final = (1, 3, 11)
"""DLPack's device types of memory that the CPU can read: its own, and memory pinned for CUDA or ROCm."""


@dataclass(frozen=True, slots=True)
class Exchanged:
    """A call with NumPy arrays instead of foreign arrays, and the conversion of its result to the caller's library."""

    arrays: tuple[object, ...]
    named: dict[str, object]
    out: npt.NDArray[Any] | None
    back: Callable[[Any], object]


def exchanged(
    program: Program, arrays: tuple[object, ...], named: Mapping[str, object], out: object
) -> Exchanged | None:
    """Return the call with NumPy views of foreign arrays, or None without foreign arrays.

    Raises `ArgumentError` and `ArrayError` for arrays that their library does not export, that are not in the memory of
    this machine, or that have another element type.
    """
    declared = {array.name: array for array in program.inputs}
    found: list[object] = []

    def taken(name: str, value: object) -> object:
        if name not in declared or not is_foreign(value):
            return value
        found.append(value)
        return _input(declared[name], value)

    positional = tuple(map(taken, program.operands, arrays)) + arrays[len(program.operands) :]
    by_name = {name: taken(name, value) for name, value in named.items()}
    if is_foreign(out):
        # Several results are views of the output, in its kind.
        return Exchanged(
            positional,
            by_name,
            seen_output(out),
            lambda made: _of_kind([out], made) if isinstance(made, tuple) else out,
        )
    if not found:
        return None
    filled: Any = out
    return Exchanged(positional, by_name, filled, lambda result: result if out is result else _of_kind(found, result))


def is_foreign(value: object) -> bool:
    """Return whether a value is an array of another library, which is one with DLPack."""
    return hasattr(type(value), "__dlpack__") and not isinstance(value, np.ndarray | np.generic)


def kind_of_array(value: object) -> str:
    """Describe a value in an error message: an array by its element type and shape, without elements."""
    if isinstance(value, np.ndarray):
        masked = "a masked" if isinstance(value, np.ma.MaskedArray) else "a NumPy"
        return f"{masked} array of {value.dtype} of shape {value.shape}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)} elements"
    return brief(value, kind=True)


def _input(array: Array, value: Any) -> npt.NDArray[Any]:
    held = _seen(array.name, value, f"{array.name}: {array.dtype}")
    if held.dtype != np.dtype(array.dtype):
        raise ArrayError(
            f"the elements of {array.name} are {held.dtype}, not {array.dtype}",
            required=f"{array.name}: {array.dtype} of {len(array.shape)} dimensions",
            suggestions=(_conversion(array, value),),
        )
    return held


def _conversion(array: Array, value: Any) -> str:
    if _library(value) == "torch":
        return f"pass {array.name}.to(torch.{array.dtype})"
    return f"pass {array.name}.astype({array.dtype!r})"


def _seen(name: str, value: Any, required: str) -> npt.NDArray[Any]:
    """Return a NumPy view of the array. `__array__` is preferred: PyTorch's DLPack ignores that a view is negated."""
    try:
        device = value.__dlpack_device__() if hasattr(value, "__dlpack_device__") else None
        elsewhere = isinstance(device, tuple) and len(device) == 2 and int(device[0]) not in IN_MEMORY
        if not elsewhere:
            if str(getattr(value, "dtype", None)) == "torch.bfloat16":  # which PyTorch does not export
                return np.asarray(value.view(sys.modules["torch"].uint16)).view("bfloat16")
            return np.asarray(value) if hasattr(value, "__array__") else np.from_dlpack(value)
    except CONVERSION_ERRORS as error:
        hints = (f"pass {name}.detach()",) if getattr(value, "requires_grad", False) is True else ()
        raise ArgumentError(
            f"{name} cannot be exported by its library: {error}", required=required, suggestions=hints
        ) from None
    raise ArgumentError(
        f"{name} is not in the memory of this machine: its DLPack device is {device}",
        required=f"{required}, in memory",
        suggestions=(f"pass {name}.cpu()" if _library(value) == "torch" else f"pass a copy of {name} in memory",),
    )


def seen_output(out: Any) -> npt.NDArray[Any]:
    """Return a NumPy view of the output array. Raises `ArrayError` if the library would export a copy."""
    seen = _seen("out", out, "an array in memory that can be written to")
    if seen.size and seen.ctypes.data != _address(out):
        raise ArrayError(
            "the library of out exports a copy, which would be filled instead of out",
            required="an array whose memory can be written to",
            suggestions=("omit out=…, and a new array is made",),
        )
    return seen


def _address(value: Any) -> int | None:
    """Return the address of the elements of an array by DLPack."""
    try:
        return int(np.from_dlpack(value).ctypes.data)
    except CONVERSION_ERRORS:
        return None


# -- conversion of results --------------------------------------------------------------------------------------------


def _library(value: object) -> str | None:
    """Return the name of the library of an array's type: the first one with DLPack in the order of its bases."""
    for kind in type(value).__mro__:
        name = kind.__module__.partition(".")[0]
        if callable(getattr(sys.modules.get(name), "from_dlpack", None)):
            return name
    return None


def _of_kind(found: list[object], result: object) -> object:
    """Convert the result to the library of the first foreign input with `from_dlpack`, if any."""
    if isinstance(result, tuple) and hasattr(result, "_make"):
        return result._make(_of_kind(found, each) for each in result)
    if not isinstance(result, np.ndarray):
        return result
    for value in found:
        namespace = getattr(value, "__array_namespace__", None)
        library = namespace() if callable(namespace) else sys.modules.get(_library(value) or "")
        made = getattr(library, "from_dlpack", None)
        if callable(made) and result.dtype.kind == "V":  # bfloat16, which NumPy does not export
            return made(result.view(np.uint16)).view(library.bfloat16)  # type: ignore[union-attr]
        if callable(made):
            return made(result)
    return result


# -- copy=False -------------------------------------------------------------------------------------------------------


def refuse_copies(
    program: Program,
    arrays: tuple[object, ...],
    named: Mapping[str, object],
    may_have_strides: Collection[str] = (),
) -> frozenset[str]:
    """Raise `ArrayError` for the first argument of a call that would be copied or converted to an array.

    Return the names of the arrays that are not contiguous and can be read by their strides.
    """
    strided: set[str] = set()
    given = {**dict(zip(program.operands, arrays, strict=False)), **named}
    for array in program.inputs:
        value = given.get(array.name)
        if value is None or not array.shape:
            continue
        try:
            held = _seen(array.name, value, array.dtype) if is_foreign(value) else np.asarray(value, copy=False)
        except ArgumentError:
            raise
        except CONVERSION_ERRORS:
            raise _copied(array, f"is {brief(value, kind=True)}, which would be converted to an array") from None
        if is_foreign(value) and held.size and held.ctypes.data != _address(value):
            raise _copied(array, "is exported as a copy by its library")
        if held.flags.num & WALKED != WALKED:
            if array.name in may_have_strides and unit_strides(held) is not None:
                strided.add(array.name)
                continue
            what = "C-contiguous" if held.flags.aligned else "aligned"
            raise _copied(array, f"is not {what}: its strides are {held.strides} bytes")
    return frozenset(strided)


def _copied(array: Array, why: str) -> ArrayError:
    return ArrayError(
        f"{array.name} {why}, but copy=False forbids copies",
        required=f"contiguous elements of {C_TYPES[array.dtype]} in row-major order",
        suggestions=(
            f"pass np.ascontiguousarray({array.name}), a copy that you can reuse",
            "omit copy=False, and it is copied for the call",
        ),
    )


def wants_no_copy(copy: object) -> bool:
    """Return whether `copy=` of a call forbids copies. Raises `InvalidArgument`."""
    if copy is None or copy is False:
        return copy is False
    raise InvalidArgument(
        f"copy={brief(copy)}",
        required="copy=None, which copies arrays that are not contiguous, or copy=False, which reads them by strides",
    )
