"""Arrays of other libraries in a call: read where they are, and the result given back in the caller's kind.

NumPy's `asarray` sees the memory of anything that has `__array__` or the buffer protocol, `from_dlpack` that of what
has only DLPack. The result of a call with PyTorch's tensors is one, by the `from_dlpack` of their library.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from atl.core.index import Array
from atl.core.program import Program
from atl.errors import ArgumentError, ArrayError, InvalidArgument, brief
from atl.meaning.arguments import CONVERSION_ERRORS
from lowering.c.values.scalars import C_TYPES
from lowering.calls.looking import WALKED

IN_MEMORY: Final = (1, 3, 11)
"""DLPack's numbers for memory that a processor reads: its own, and such that a GPU reads too (CUDA's, ROCm's)."""


@dataclass(frozen=True, slots=True)
class Exchanged:
    """A call with NumPy's arrays in the place of another library's, and what makes the caller's kind of its result."""

    arrays: tuple[object, ...]
    named: dict[str, object]
    out: npt.NDArray[Any] | None
    back: Callable[[Any], object]


def exchanged(
    program: Program, arrays: tuple[object, ...], named: Mapping[str, object], out: object
) -> Exchanged | None:
    """The same call with NumPy's arrays, none of them copied; nothing, where no array is of another library.

    Raises `ArgumentError` and `ArrayError` for arrays that another library does not hand out, that are not in the
    memory of this machine, or whose elements are of another type.
    """
    declared = {array.name: array for array in program.inputs}
    found: list[object] = []

    def taken(name: str, value: object) -> object:
        if name not in declared or not _is_foreign(value):
            return value
        found.append(value)
        return _input(declared[name], value)

    positional = tuple(map(taken, program.operands, arrays)) + arrays[len(program.operands) :]
    by_name = {name: taken(name, value) for name, value in named.items()}
    if _is_foreign(out):
        # Several results are views of the output, in its kind.
        return Exchanged(
            positional, by_name, _output(out), lambda made: _of_kind([out], made) if isinstance(made, tuple) else out
        )
    if not found:
        return None
    filled: Any = out
    return Exchanged(positional, by_name, filled, lambda result: result if out is result else _of_kind(found, result))


def _is_foreign(value: object) -> bool:
    """Whether a value is an array of another library: one that knows DLPack."""
    return hasattr(type(value), "__dlpack__") and not isinstance(value, np.ndarray | np.generic)


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
    """The array where it is. Which way is asked first matters: PyTorch's DLPack forgets that a view is negated."""
    try:
        told = value.__dlpack_device__() if hasattr(value, "__dlpack_device__") else None
        elsewhere = isinstance(told, tuple) and len(told) == 2 and int(told[0]) not in IN_MEMORY
        if not elsewhere:
            return np.asarray(value) if hasattr(value, "__array__") else np.from_dlpack(value)
    except CONVERSION_ERRORS as error:
        hints = (f"pass {name}.detach()",) if getattr(value, "requires_grad", False) is True else ()
        raise ArgumentError(
            f"{name} is not handed out by its library: {error}", required=required, suggestions=hints
        ) from None
    raise ArgumentError(
        f"{name} is not in the memory of this machine: its device is {told} by DLPack",
        required=f"{required}, in memory",
        suggestions=(f"pass {name}.cpu()" if _library(value) == "torch" else f"pass a copy of {name} in memory",),
    )


def _output(out: Any) -> npt.NDArray[Any]:
    """The memory of an array that is to be filled: a copy of it would be filled in vain."""
    seen = _seen("out", out, "an array in memory that can be written to")
    if seen.size and seen.ctypes.data != _address(out):
        raise ArrayError(
            "out would be filled in a copy: its library does not hand out its own memory",
            required="an array whose memory can be written to",
            suggestions=("leave out=… away, and a new array is made",),
        )
    return seen


def _address(value: Any) -> int | None:
    """Where the elements of an array are, by DLPack."""
    try:
        return int(np.from_dlpack(value).ctypes.data)
    except CONVERSION_ERRORS:
        return None


# -- the way back -----------------------------------------------------------------------------------------------------


def _library(value: object) -> str | None:
    """The name of the library that the type of an array is of: the first in the order of its bases that has DLPack."""
    for kind in type(value).__mro__:
        name = kind.__module__.partition(".")[0]
        if callable(getattr(sys.modules.get(name), "from_dlpack", None)):
            return name
    return None


def _of_kind(found: list[object], result: object) -> object:
    """The result as an array of the library of the first foreign input that has a way back; else as it is."""
    if isinstance(result, tuple) and hasattr(result, "_make"):
        return result._make(_of_kind(found, each) for each in result)
    if not isinstance(result, np.ndarray):
        return result
    for value in found:
        space = getattr(value, "__array_namespace__", None)
        made = getattr(space() if callable(space) else sys.modules.get(_library(value) or ""), "from_dlpack", None)
        if callable(made):
            return made(result)
    return result


# -- calls that copy nothing ------------------------------------------------------------------------------------------


def refuse_copies(program: Program, arrays: tuple[object, ...], named: Mapping[str, object]) -> None:
    """Raises `ArrayError` for the first array of a call that would be copied, or made of numbers, for C to read it."""
    given = {**dict(zip(program.operands, arrays, strict=False)), **named}
    for array in program.inputs:
        value = given.get(array.name)
        if value is None or not array.shape:
            continue
        try:
            held = _seen(array.name, value, array.dtype) if _is_foreign(value) else np.asarray(value, copy=False)
        except ArgumentError:
            raise
        except CONVERSION_ERRORS:
            raise _copied(array, f"is {brief(value, kind=True)}, of which an array would be made") from None
        if _is_foreign(value) and held.size and held.ctypes.data != _address(value):
            raise _copied(array, "is handed out as a copy by its library")
        if held.flags.num & WALKED != WALKED:
            what = "C-contiguous" if held.flags.aligned else "aligned"
            raise _copied(array, f"is not {what}: its strides are {held.strides} bytes")


def _copied(array: Array, why: str) -> ArrayError:
    return ArrayError(
        f"{array.name} {why}, and copy=False asks for no copy",
        required=f"elements of {C_TYPES[array.dtype]} that stand one after the other, the last index going fastest",
        suggestions=(
            f"pass np.ascontiguousarray({array.name}), which is a copy that you keep",
            "leave copy=False away, and it is copied for the call",
        ),
    )


def wants_no_copy(copy: object) -> bool:
    """Whether `copy=` of a call asks for none. Raises `InvalidArgument` for what it does not take."""
    if copy is None or copy is False:
        return copy is False
    raise InvalidArgument(
        f"copy={brief(copy)}",
        required="copy=None, which copies what C cannot walk, or copy=False, which refuses it",
    )
