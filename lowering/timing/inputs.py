"""Random inputs for timing a program, which meet its declarations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from atl.core.dtypes import is_integer
from atl.core.index import Array, Index, Size, value_of
from atl.core.program import Program, checked_program, in_order_of_need, is_bool_array, is_strict
from atl.errors import ArgumentError, ATLError, InvalidArgument, OutOfMemory, brief
from atl.meaning.arguments import AnyArray, index_elements
from atl.meaning.random_elements import draw_integers

SEED: Final = 1
BELOW: Final = 100
"""Exclusive upper bound of integers without a declared range."""


def random_inputs(program: Program, sizes: Mapping[str, int], seed: int = SEED) -> dict[str, AnyArray]:
    """Return an array for each input. Floats are from 0.5 to 1.5, so that sums do not cancel and divisions are safe.

    Integers are in their declared range and order. Positions in a sparse operand are those of all its entries in
    order, so the rows have random lengths. Raises `ArgumentError` if a size is missing or no such array exists,
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
    for array in in_order_of_need(program.inputs):
        try:
            made[array.name] = _made(array, program, random, sizes, made)
            if array.high is not None and made[array.name].size and _has_positions(array, program):
                made[array.name].sort()
                made[array.name][[0, -1]] = 0, _value(array.high, sizes, made) - 1
        except ATLError:
            raise
        except (MemoryError, OverflowError, ValueError) as error:
            # NumPy raises ValueError if the number of bytes overflows.
            raise OutOfMemory(
                f"out of memory for random elements of {array.name}", required="smaller sizes", numbers=dict(sizes)
            ) from error
    return {array.name: made[array.name] for array in program.inputs}


def _has_positions(array: Array, program: Program) -> bool:
    """Return whether the array contains positions in another array of a sparse operand, as that of rows in CSR."""
    parts = next((each.arrays for each in program.packed if array.name in each.arrays), ())
    lengths = [each.shape[0] for each in program.inputs if each.name in parts and each.shape]
    return len(array.shape) == 1 and array.high is not None and array.high - 1 in lengths


def _made(
    array: Array, program: Program, random: np.random.Generator, sizes: Mapping[str, int], made: Mapping[str, AnyArray]
) -> Any:
    shape = tuple(_value(extent, sizes, made) for extent in array.shape)
    if is_bool_array(array):
        return random.integers(0, 2, shape).astype(np.bool_)
    if not is_integer(array.dtype):
        return (random.random(shape) + 0.5).astype(array.dtype)

    def ends(of: Array) -> tuple[int, int]:
        low = 0 if of.low is None else _value(of.low, sizes, made)
        if of.high is not None:
            return low, _value(of.high, sizes, made)
        return low, low + max(BELOW, _value(of.shape[-1], sizes, made) if is_strict(of) and of.shape else 1)

    drawn = draw_integers(array, program.inputs, shape, ends, made, random)
    if drawn is not None:
        return drawn.astype(array.dtype)
    low, high = ends(array)
    of = f"{shape[-1]} {array.monotonic} integers" if array.monotonic and shape else "integers"
    raise ArgumentError(
        f"no random elements for {array.name}: no {of} from {low} to {high - 1}",
        required="custom inputs",
        suggestions=("pass custom inputs: measure=partial(atl.measure, inputs={…})",),
    )


def _value(expression: Index, sizes: Mapping[str, int], made: Mapping[str, AnyArray]) -> int:
    return value_of(expression, lambda leaf: sizes[leaf.name] if isinstance(leaf, Size) else 0, index_elements(made))
