"""An input for which two programs give different results, looked for at random."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, Final

import numpy as np

from atl.core import dtypes
from atl.core.index import Array, Leaf, Size, value_of
from atl.core.program import Program
from atl.errors import ATLError
from atl.meaning.interpret import evaluate

TRIES: Final = 40
LARGEST: Final = 7
MOST_ELEMENTS: Final = 4_000
SHOWN: Final = 8
"""An array of so few elements is shown."""


def differing_input(left: Program, right: Program, *, tries: int = TRIES, seed: int = 0) -> dict[str, int] | None:
    """Numbers for which two programs with the same inputs differ: sizes, elements of short inputs, and where they do.

    None where none was found: 40 times sizes and elements are drawn and both are computed exactly. What is no input of
    one of them, or too large, is passed over.
    """
    random = Random(seed)
    sizes = sorted({*left.sizes, *right.sizes})
    for _ in range(tries):
        at = {size: random.randint(0, LARGEST) for size in sizes}
        try:
            given: dict[str, Any] = {array.name: _elements(array, at, random) for array in left.inputs}
            results = [
                evaluate(program, exact=True, **given, **{size: at[size] for size in program.free_sizes})
                for program in (left, right)
            ]
        except (ATLError, MemoryError):
            continue
        first, second = results
        if first.shape != second.shape:
            return at
        wrong = np.argwhere(first != second)
        if len(wrong):
            where = {f"element {dimension}": int(position) for dimension, position in enumerate(wrong[0])}
            return {**at, **_short(given), **where}
    return None


def _short(given: Mapping[str, Any]) -> dict[str, int]:
    """The elements of arrays that have few."""
    return {
        f"{name}[{', '.join(map(str, position))}]": int(array[position])
        for name, array in given.items()
        if array.size <= SHOWN
        for position in np.ndindex(array.shape)
    }


def _elements(array: Array, sizes: Mapping[str, int], random: Random) -> Any:
    def value(leaf: Leaf) -> int:
        assert isinstance(leaf, Size)
        return sizes[leaf.name]

    def no_element(of: Array, at: tuple[int, ...]) -> int:
        raise MemoryError(f"{of.name}{at} is not known yet")

    shape = tuple(value_of(extent, value, no_element) for extent in array.shape)
    count = int(np.prod(shape))
    if count > MOST_ELEMENTS:
        raise MemoryError
    low = -4 if array.low is None else value_of(array.low, value, no_element)
    high = 5 if array.high is None else value_of(array.high, value, no_element)
    if array.dtype == dtypes.TRUTH or high <= low:
        high = low + 1
    flat = [random.randrange(low, high) for _ in range(count)]
    made = np.array(flat).reshape(shape)
    if array.increasing:
        made = np.sort(made, axis=-1)
    return made.astype(array.dtype if dtypes.is_integer(array.dtype) else "float64")
