"""Random inputs for timing a program, which meet its declarations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from atl.core.dtypes import is_integer
from atl.core.index import Array, Index, Leaf, Size, value_of
from atl.core.program import Program, checked_program, is_bool_array
from atl.errors import ArgumentError, ATLError, InvalidArgument, OutOfMemory, brief
from atl.meaning.arguments import AnyArray, index_elements

SEED: Final = 1
BELOW: Final = 100
"""Exclusive upper bound of integers without a declared range."""


def random_inputs(program: Program, sizes: Mapping[str, int], seed: int = SEED) -> dict[str, AnyArray]:
    """Return an array for each input. Floats are from 0.5 to 1.5, so that sums do not cancel and divisions are safe.

    Integers are in their declared range and order. Raises `ArgumentError` if a size is missing or no such array exists,
    and `OutOfMemory` if an array is too large.

    >>> import atl
    >>> from lowering.timing.inputs import random_inputs
    >>> made = random_inputs(atl.parse("f (x : float32[n, 2]) : float32[n] := ⊞[i < n] x[i, 0]"), {"n": 3})
    >>> made["x"].shape, str(made["x"].dtype)
    ((3, 2), 'float32')
    """
    checked_program(program)
    if not isinstance(sizes, Mapping) or not all(isinstance(size, int) and size >= 0 for size in sizes.values()):
        raise InvalidArgument(f"sizes={brief(sizes)}", required="a number, 0 or more, for each size")
    if not isinstance(seed, int) or seed < 0:
        raise InvalidArgument(f"seed={brief(seed)}", required="a whole number, 0 or more")
    missing = [name for name in program.sizes if name not in sizes]
    if missing:
        raise ArgumentError(
            f"no value for the size{'s' if len(missing) > 1 else ''} {', '.join(missing)} of {program.name}",
            required=f"all of them: sizes={{{', '.join(f'{name!r}: …' for name in program.sizes)}}}",
        )
    made: dict[str, AnyArray] = {}
    random = np.random.default_rng(seed)
    for array in program.inputs:
        try:
            made[array.name] = _made(array, random, sizes, made)
        except ATLError:
            raise
        except (MemoryError, OverflowError, ValueError) as error:
            # NumPy raises ValueError if the number of bytes overflows.
            raise OutOfMemory(
                f"out of memory for random elements of {array.name}", required="smaller sizes", numbers=dict(sizes)
            ) from error
    return made


def _made(array: Array, random: np.random.Generator, sizes: Mapping[str, int], made: Mapping[str, AnyArray]) -> Any:
    def value(expression: Index) -> int:
        return value_of(expression, lambda leaf: _size(leaf, sizes), index_elements(made))

    shape = tuple(value(extent) for extent in array.shape)
    if is_bool_array(array):
        return random.integers(0, 2, shape).astype(np.bool_)
    if not is_integer(array.dtype):
        return (random.random(shape) + 0.5).astype(array.dtype)
    low = 0 if array.low is None else value(array.low)
    high = low + BELOW if array.high is None else value(array.high)
    strict = array.monotonic == "increasing"
    count = shape[-1] if strict and shape else 1
    if array.high is None:
        high = max(high, low + count)
    if high - low < count and 0 not in shape:
        raise ArgumentError(
            f"no random elements for {array.name}: there are not {count} increasing integers from {low} to {high - 1}",
            required="custom inputs",
            suggestions=("pass custom inputs: measure=partial(atl.measure, inputs={…})",),
        )
    if not strict:
        drawn = random.integers(low, high, shape, dtype=array.dtype)
        return np.sort(drawn, axis=-1) if array.monotonic and shape else drawn
    # The last dimension increases: each row is a sorted sample without replacement.
    rows = np.empty(shape, array.dtype)
    for at in np.ndindex(*shape[:-1]):
        rows[at] = low + np.sort(random.choice(high - low, count, replace=False))
    return rows


def _size(leaf: Leaf, sizes: Mapping[str, int]) -> int:
    return sizes[leaf.name] if isinstance(leaf, Size) else 0
