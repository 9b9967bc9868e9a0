"""Programs with several results, which are stored in one array: splitting this array into the results."""

from __future__ import annotations

import copyreg
from collections import namedtuple
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, TypeAlias

import numpy as np

from atl.core.index import Index, Leaf, Read, Size, atoms, value_of
from atl.core.program import Program, bounds
from atl.errors import ArrayError
from atl.meaning.arguments import index_elements

CACHE_SIZE: Final = 64
"""Number of combinations of sizes for which the layout of the results is cached."""

EXACT: Final = 1 << 53
"""Below this number, float64 holds all integers."""

Places: TypeAlias = tuple[tuple[slice, tuple[int, ...]], ...]
"""For each result, its slice of the whole array, and its shape."""


@cache
def named(*names: str) -> Any:
    """Return the named-tuple class with these fields; it is shared by all programs and can be pickled."""
    return _picklable(namedtuple("Results", names))


def _picklable(tuples: Any) -> Any:
    copyreg.pickle(tuples, _pickle)
    return tuples


def _pickle(several: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    return _unpickle, (several._fields, tuple(several))


def _unpickle(names: tuple[str, ...], each: tuple[Any, ...]) -> Any:
    return named(*names)(*each)


class ResultLayout:
    """The slices and shapes of the results of a program in the array of all elements."""

    def __init__(self, program: Program) -> None:
        self.named = named(*[result.name for result in program.results])
        self._bounds = tuple(bounds(program.results))
        self._dtypes = tuple(result.dtype for result in program.results)
        extents = (atom for result in program.results for extent in result.shape for atom in atoms(extent))
        self._by_sizes = not any(isinstance(atom, Read) for atom in extents)
        self._known: dict[tuple[int, ...], Places] = {}

    def split(self, whole: Any, sizes: Mapping[str, int], arrays: Mapping[str, Any]) -> Any:
        """Split an array of all elements into a named tuple of views.

        The array may be of any library with slices and `reshape`.
        """
        return self.views(whole, self.places_of(sizes, arrays))

    def views(self, whole: Any, places: Places) -> Any:
        """Return the views at these slices as a named tuple; results of another element type are copies."""
        parts = [whole[at].reshape(shape) for at, shape in places]
        return self.named(*map(_converted, parts, self._dtypes, self.named._fields))

    def places(self, sizes: Mapping[str, Any], arrays: Mapping[str, Any]) -> Places:
        """Return the slices and shapes. Sizes may be symbols of a tracer."""
        element = index_elements(arrays)

        def leaf(at: Leaf) -> int:
            return sizes[at.name] if isinstance(at, Size) else 0

        def value(expression: Index) -> int:
            return value_of(expression, leaf, element)

        return tuple(
            (slice(value(start), value(stop)), tuple(map(value, result.shape))) for result, start, stop in self._bounds
        )

    def places_of(self, sizes: Mapping[str, int], arrays: Mapping[str, Any]) -> Places:
        """Return the slices and shapes for known sizes, cached."""
        if not self._by_sizes:
            return self.places(sizes, arrays)
        key = tuple(sizes.values())
        found = self._known.get(key)
        if found is None:
            found = self.places(sizes, arrays)
            if len(self._known) >= CACHE_SIZE:
                self._known.clear()
            self._known[key] = found
        return found


def _converted(part: Any, dtype: str | None, name: str) -> Any:
    """Convert an array of NumPy, PyTorch or a library like NumPy to an element type; exact values are kept.

    Raises `ArrayError` for an int64 that float64 may have rounded.
    """
    if dtype is None or part.dtype == object:
        return part
    if dtype == "int64" and part.dtype == np.float64 and (rounded := np.abs(part) >= EXACT).any():
        raise ArrayError(
            f"an element of {name} may have been rounded to {int(part[rounded][0])}: results were joined as float64",
            required=f"results of int64 below 2^53 = {EXACT} in absolute value, if other results are floats",
            suggestions=("call a kernel, which computes each result in its own type: atl.compile(program)",),
        )
    if hasattr(part, "astype"):
        return part.astype(dtype)
    import torch

    return part.to(getattr(torch, dtype))


def split_results(program: Program, whole: Any, sizes: Mapping[str, int], arrays: Mapping[str, Any]) -> Any:
    """Return the named tuple of results if the program has several, and the array itself otherwise."""
    return ResultLayout(program).split(whole, sizes, arrays) if program.results else whole
