"""What is found out once of operands that never change, and not by each call: of the indices of packed tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lowering.facts import ElementConstraints

AnyArray: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class CachedValidation:
    """What a kernel found out of a packed operand: that its indices meet these limits, what C is passed for them.

    The arrays are those of indices, and the values as they were passed, of which nothing is known. Those of indices are
    the note's own, over the same bytes: whatever is done to those of the operand, what the pointers point to stays, and
    stays as it was checked. The shapes are that of the operand and those of its indices.
    """

    limits: ElementConstraints
    arrays: tuple[AnyArray, ...]
    pointers: tuple[Any, ...]
    shapes: tuple[tuple[int, ...], ...]


def view_of_bytes(array: AnyArray) -> AnyArray | None:
    """A contiguous array once more, straight over the bytes that it is a view of; None where it is no such thing."""
    held: Any = array
    while isinstance(held, np.ndarray):
        held = held.base
    if not isinstance(held, bytes) or not array.flags.c_contiguous:
        return None
    if not array.size:
        return np.zeros(array.shape, array.dtype)
    offset = array.ctypes.data - np.frombuffer(held, np.uint8).ctypes.data
    return np.frombuffer(held, array.dtype, array.size, offset).reshape(array.shape)
