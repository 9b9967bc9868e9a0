"""Several results of one program: its elements are theirs, one result after the other, each row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from keyword import iskeyword

from atl.core.index import ONE, ZERO, Index
from atl.core.node import malformed


@dataclass(frozen=True, slots=True)
class Result:
    """A result among several: what it is called, and its extents, over sizes and elements of the inputs."""

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
                "a name that an attribute of Python can have and that does not begin with _, and extents over sizes",
            )

    def over(self, extent: Callable[[Index], Index]) -> Result:
        """The result with each extent as this function gives it."""
        return Result(self.name, tuple(map(extent, self.shape)))

    @property
    def count(self) -> Index:
        """How many elements it has."""
        product = ONE
        for extent in self.shape:
            product = product * extent
        return product


def bounds(results: Iterable[Result]) -> Iterator[tuple[Result, Index, Index]]:
    """Each result with the first of its elements and the one after its last, among those of all."""
    end = ZERO
    for result in results:
        start, end = end, end + result.count
        yield result, start, end


def total(results: Iterable[Result]) -> Index:
    """How many elements all of them have."""
    return [ZERO, *(end for _, _, end in bounds(results))][-1]
