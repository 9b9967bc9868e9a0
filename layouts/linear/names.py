"""Named dimensions of power-of-two size, and locations as integers: coordinates concatenated, the first lowest."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from atl.errors import InvalidArgument, brief
from layouts.errors import LayoutError, NoLayout


class Dims:
    """The names and sizes of coordinates, and the positions of their bits in a location."""

    __slots__ = ("sizes", "widths")

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = dict(sizes)
        self.widths = {name: size.bit_length() - 1 for name, size in self.sizes.items()}

    @staticmethod
    def of_pairs(pairs: Iterable[tuple[str, int]]) -> Dims:
        """Return the dimensions for pairs of a name and a size. Raises `LayoutError` if a pair is invalid."""
        sizes: dict[str, int] = {}
        for pair in pairs:
            if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], str):
                raise InvalidArgument(f"{brief(pair)} is not a dimension", required='a name and its size: ("row", 8)')
            if pair[0] in sizes:
                raise InvalidArgument(f"{pair[0]!r} twice", required="distinct names")
            power(pair[1], f"the size of {pair[0]!r}")
            sizes[pair[0]] = pair[1]
        return Dims(sizes)

    @property
    def bits(self) -> int:
        """The number of bits of a location."""
        return sum(self.widths.values())

    def size(self, name: str) -> int:
        """Return the size of a coordinate. Raises `InvalidArgument` if there is none of that name."""
        if name not in self.sizes:
            raise InvalidArgument(f"{brief(name)} is not a coordinate", required=f"one of {', '.join(self.sizes)}")
        return self.sizes[name]

    def split(self, location: Any) -> tuple[Any, ...]:
        """Return the coordinates of a location."""
        parts = []
        for width in self.widths.values():
            parts.append(location & ((1 << width) - 1))
            location = location >> width
        return tuple(parts)

    def named(self, location: Any) -> dict[str, Any]:
        """Return the coordinates of a location, by name."""
        return dict(zip(self.sizes, self.split(location), strict=True))

    def join(self, parts: Sequence[int]) -> int:
        """Return the location with these coordinates, each within its size."""
        location, at = 0, 0
        for part, width in zip(parts, self.widths.values(), strict=True):
            location |= part << at
            at += width
        return location

    def of(self, parts: Mapping[str, int]) -> int:
        """Return the location with these coordinates, all others zero."""
        return self.join([parts.get(name, 0) for name in self.sizes])

    def renamed(self, other: Dims, location: int) -> int:
        """Return the location with the same coordinates in these dimensions; other coordinates are dropped."""
        return self.of(other.named(location))

    def shifted(self, other: Dims, location: int, by: Mapping[str, int]) -> int:
        """Return the location with the coordinates of `other`, each multiplied by a size."""
        parts = other.named(location)
        return self.of({name: part * by.get(name, 1) for name, part in parts.items()})

    def lowered(self, other: Dims, location: int, by: Mapping[str, int]) -> int:
        """Return the location with the coordinates of `other` divided by sizes. Raises `NoLayout` on a remainder."""
        parts = other.named(location)
        for name, part in parts.items():
            if part % by.get(name, 1):
                raise NoLayout(f"{name!r} goes to {part}", required=f"a multiple of {by[name]}, the size of the factor")
        return self.of({name: part // by.get(name, 1) for name, part in parts.items()})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dims) and list(self.sizes.items()) == list(other.sizes.items())

    def __hash__(self) -> int:
        return hash(tuple(self.sizes.items()))


def need_names(names: Iterable[object]) -> None:
    """Raise `InvalidArgument` for names that could not be parsed back from a printed layout."""
    for name in names:
        if not isinstance(name, str) or not name.isidentifier():
            raise InvalidArgument(f"{brief(name)} is not a valid name", required='letters, digits and _, as in "lane0"')


def power(size: object, what: str) -> int:
    """Return the exponent of a power of two. Raises `LayoutError` for anything else."""
    if type(size) is not int or size < 1 or size & (size - 1):
        raise LayoutError(f"{what} is {brief(size)}", required="a power of two")
    return size.bit_length() - 1


def joined(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes of a product, in an order that keeps both orders if possible, else in that of the first."""
    try:
        names = supremum(list(first), list(second))
    except NoLayout:
        names = [*first, *(name for name in second if name not in first)]
    return {name: first.get(name, 1) * second.get(name, 1) for name in names}


def divided(sizes: Mapping[str, int], by: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes of a quotient. Raises `NoLayout` if a size is not divisible."""
    for name, size in by.items():
        if sizes.get(name, 0) % size or name not in sizes:
            raise NoLayout(f"{name!r} has size {sizes.get(name)}, and its factor {size}", required="a multiple of it")
    return {name: size // by.get(name, 1) for name, size in sizes.items()}


def same_names(what: str, given: Collection[str], needed: Collection[str]) -> None:
    """Raise `LayoutError` if the given names are not exactly the needed ones."""
    if sorted(given) != sorted(needed):
        raise LayoutError(f"{what} are {', '.join(given) or 'none'}", required=", ".join(needed) or "none")


def need_all(what: str, held: int, new: Dims) -> None:
    """Raise `LayoutError` if the new dimensions have another number of bits."""
    if new.bits != held:
        raise LayoutError(
            f"{what} of {new.bits} bits instead of {held}", required=f"sizes whose product is {1 << held}"
        )


def split_of(vector: int, widths: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Return the bits of a vector, split by dimension."""
    for name, width in widths.items():
        yield name, vector & ((1 << width) - 1)
        vector >>= width


def supremum(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """Return an order of names that keeps both orders. Raises `NoLayout` if they contradict each other.

    >>> supremum(["a", "b"], ["a", "c"])
    ['a', 'b', 'c']
    """
    for names in (first, second):
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise InvalidArgument(f"the order {brief(names)}", required="a list of names")
    out: list[str] = []
    left, right = list(first), list(second)
    while left or right:
        if left and left[0] not in right[1:]:
            name = left[0]
        elif right and right[0] not in left[1:]:
            name = right[0]
        else:
            raise NoLayout(
                f"the orders {first} and {second} contradict each other", required="orders with a common extension"
            )
        out.append(name)
        left, right = [each for each in left if each != name], [each for each in right if each != name]
    return out
