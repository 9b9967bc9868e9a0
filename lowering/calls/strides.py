"""Strides of NumPy arrays, in elements: which of them are one, and whether elements share memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

AnyArray: TypeAlias = npt.NDArray[Any]
UnitStrides: TypeAlias = tuple[bool, ...]
"""For each dimension, whether its stride is one element."""
_WORK: Final = 10_000
"""Limit of the search for a common element of two arrays; beyond, they are taken to overlap."""


def unit_strides(array: AnyArray) -> UnitStrides | None:
    """Return which strides of an array are one element; None if it is not aligned, or a stride is not whole."""
    if not array.flags.aligned or any(stride % array.itemsize for stride in array.strides):
        return None
    return tuple(stride == array.itemsize for stride in array.strides)


def strides_of(array: AnyArray) -> Iterator[int]:
    """Yield the strides of an array that are not one element, in elements."""
    return (stride // array.itemsize for stride in array.strides if stride != array.itemsize)


def has_distinct_elements(array: AnyArray) -> bool:
    """Return whether no two elements of an array are at one place, by a sufficient condition on its strides."""
    covered = 0
    for stride, extent in sorted(zip(map(abs, array.strides), array.shape, strict=True)):
        if extent > 1:
            if stride < covered + array.itemsize:
                return False
            covered += stride * (extent - 1)
    return True


def shares_memory(out: AnyArray, inputs: Collection[AnyArray]) -> bool:
    """Return whether an element of the output is one of an input, or may be one."""
    for each in inputs:
        try:
            if np.shares_memory(out, each, max_work=_WORK):  # type: ignore[arg-type]  # NumPy documents any number
                return True
        except np.exceptions.TooHardError:
            return True
    return False
