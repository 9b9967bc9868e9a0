"""The results of a program of several, taken out of the one array that has the elements of all."""

from __future__ import annotations

import copyreg
from collections import namedtuple
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, TypeAlias

from atl.core.index import Index, Leaf, Read, Size, atoms, value_of
from atl.core.program import Program
from atl.core.results import bounds
from atl.meaning.arguments import index_elements

REMEMBERED: Final = 64
"""For how many combinations of sizes it is remembered where the results lie."""

Places: TypeAlias = tuple[tuple[slice, tuple[int, ...]], ...]
"""Of each result its elements among all, and its shape."""


@cache
def named(*names: str) -> Any:
    """The tuples of results with these names: one class for all programs that have them, which can be pickled."""
    return _can_be_pickled(namedtuple("Results", names))


def _can_be_pickled(tuples: Any) -> Any:
    copyreg.pickle(tuples, _written)
    return tuples


def _written(several: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    return _read, (several._fields, tuple(several))


def _read(names: tuple[str, ...], each: tuple[Any, ...]) -> Any:
    return named(*names)(*each)


class Several:
    """Where the results of a program lie among the elements of its body, for the sizes of each call."""

    def __init__(self, program: Program) -> None:
        self._named = named(*[result.name for result in program.results])
        self._bounds = tuple(bounds(program.results))
        extents = (atom for result in program.results for extent in result.shape for atom in atoms(extent))
        self._by_sizes = not any(isinstance(atom, Read) for atom in extents)
        self._known: dict[tuple[int, ...], Places] = {}

    def of(self, whole: Any, sizes: Mapping[str, int], arrays: Mapping[str, Any]) -> Any:
        """The results by their names, each a view of the array of all elements.

        That may be of any library whose arrays have slices and `reshape`.
        """
        return self.views(whole, self._remembered(sizes, arrays))

    def views(self, whole: Any, places: Places) -> Any:
        """The results by their names, which lie there."""
        return self._named(*[whole[at].reshape(shape) for at, shape in places])

    def places(self, sizes: Mapping[str, Any], arrays: Mapping[str, Any]) -> Places:
        """Where they lie; sizes may be symbols of a tracer's."""
        element = index_elements(arrays)

        def leaf(at: Leaf) -> int:
            return sizes[at.name] if isinstance(at, Size) else 0

        def value(expression: Index) -> int:
            return value_of(expression, leaf, element)

        return tuple(
            (slice(value(start), value(stop)), tuple(map(value, result.shape))) for result, start, stop in self._bounds
        )

    def _remembered(self, sizes: Mapping[str, int], arrays: Mapping[str, Any]) -> Places:
        if not self._by_sizes:
            return self.places(sizes, arrays)
        key = tuple(sizes.values())
        found = self._known.get(key)
        if found is None:
            found = self.places(sizes, arrays)
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[key] = found
        return found


def apart(program: Program, whole: Any, sizes: Mapping[str, int], arrays: Mapping[str, Any]) -> Any:
    """The results of a call, if the program has several; else the array as it is."""
    return Several(program).of(whole, sizes, arrays) if program.results else whole
