"""The validation cache of sparse tensors, whose indices never change and are checked once, not by each call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lowering.facts import ElementConstraints

AnyArray: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class CachedValidation:
    """A cached validation of a sparse operand: its indices meet these constraints.

    `arrays` are private views of the index arrays, over the same immutable bytes, and the values as passed, which are
    not validated. So changes to the operand's arrays affect neither the validity of `pointers` nor the checked content.
    `shapes` are those of the operand and of its index arrays.
    """

    limits: ElementConstraints
    arrays: tuple[AnyArray, ...]
    pointers: tuple[Any, ...]
    shapes: tuple[tuple[int, ...], ...]


def view_of_bytes(array: AnyArray) -> AnyArray | None:
    """Return a new view of the bytes object that a contiguous array is a view of, or None if it is not."""
    held: Any = array
    while isinstance(held, np.ndarray):
        held = held.base
    if not isinstance(held, bytes) or not array.flags.c_contiguous:
        return None
    if not array.size:
        return np.zeros(array.shape, array.dtype)
    offset = array.ctypes.data - np.frombuffer(held, np.uint8).ctypes.data
    return np.frombuffer(held, array.dtype, array.size, offset).reshape(array.shape)
