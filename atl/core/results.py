"""Several results of one program, whose body contains their elements one result after the other, in row-major order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from keyword import iskeyword

from atl.core.index import ONE, ZERO, Index
from atl.core.node import malformed


@dataclass(frozen=True, slots=True)
class Result:
    """One of several results: its name and its extents, which depend on sizes and elements of the inputs."""

    name: str
    shape: tuple[Index, ...]

    def __post_init__(self) -> None:
        extents = self.shape if type(self.shape) is tuple else (None,)
        named = type(self.name) is str and self.name.isidentifier() and not iskeyword(self.name)
        if (
            not named
            or self.name.startswith("_")
            or any(not isinstance(extent, Index) or extent.loose or extent.free for extent in extents)
        ):
            raise malformed(
                "a result",
                (self.name, self.shape),
                "a name that is a Python identifier and does not begin with _, and extents over sizes",
            )

    def over(self, extent: Callable[[Index], Index]) -> Result:
        """Apply a function to each extent."""
        return Result(self.name, tuple(map(extent, self.shape)))

    @property
    def count(self) -> Index:
        """Number of elements."""
        product = ONE
        for extent in self.shape:
            product = product * extent
        return product


def bounds(results: Iterable[Result]) -> Iterator[tuple[Result, Index, Index]]:
    """Yield each result with the start and the end of its elements in the body."""
    end = ZERO
    for result in results:
        start, end = end, end + result.count
        yield result, start, end


def total(results: Iterable[Result]) -> Index:
    """Return the total number of elements."""
    return [ZERO, *(end for _, _, end in bounds(results))][-1]
