"""Named dimensions of powers of two, and places as integers: the coordinates strung together, the first lowest."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from atl.errors import WrongArgument, brief
from layouts.errors import LayoutError, NoLayout


class Dims:
    """The names and sizes of coordinates, and where the bits of each stand in a place."""

    __slots__ = ("sizes", "widths")

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = dict(sizes)
        self.widths = {name: size.bit_length() - 1 for name, size in self.sizes.items()}

    @staticmethod
    def of_pairs(pairs: Iterable[tuple[str, int]]) -> Dims:
        """Of pairs of a name and a size. Raises `LayoutError` where they are no such."""
        sizes: dict[str, int] = {}
        for pair in pairs:
            if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], str):
                raise WrongArgument(f"{brief(pair)} is no dimension", required='a name and its size: ("row", 8)')
            if pair[0] in sizes:
                raise WrongArgument(f"{pair[0]!r} twice", required="a name for each dimension")
            power(pair[1], f"the size of {pair[0]!r}")
            sizes[pair[0]] = pair[1]
        return Dims(sizes)

    @property
    def bits(self) -> int:
        """The number of bits of a place."""
        return sum(self.widths.values())

    def size(self, name: str) -> int:
        """The size of a coordinate. Raises `WrongArgument` where there is none of that name."""
        if name not in self.sizes:
            raise WrongArgument(f"{brief(name)} is no coordinate", required=f"one of {', '.join(self.sizes)}")
        return self.sizes[name]

    def split(self, place: Any) -> tuple[Any, ...]:
        """The coordinates of a place."""
        parts = []
        for width in self.widths.values():
            parts.append(place & ((1 << width) - 1))
            place = place >> width
        return tuple(parts)

    def named(self, place: Any) -> dict[str, Any]:
        """The coordinates of a place, by name."""
        return dict(zip(self.sizes, self.split(place), strict=True))

    def join(self, parts: Sequence[int]) -> int:
        """The place of coordinates, each of them within its size."""
        place, at = 0, 0
        for part, width in zip(parts, self.widths.values(), strict=True):
            place |= part << at
            at += width
        return place

    def of(self, parts: Mapping[str, int]) -> int:
        """The place of some coordinates, the others being zero."""
        return self.join([parts.get(name, 0) for name in self.sizes])

    def renamed(self, other: Dims, place: int) -> int:
        """The place of the same coordinates here; those that are not here are left out."""
        return self.of(other.named(place))

    def shifted(self, other: Dims, place: int, by: Mapping[str, int]) -> int:
        """The place here of another's coordinates, each times a size."""
        parts = other.named(place)
        return self.of({name: part * by.get(name, 1) for name, part in parts.items()})

    def lowered(self, other: Dims, place: int, by: Mapping[str, int]) -> int:
        """The place here of another's coordinates, each divided by a size, or `NoLayout` where one does not divide."""
        parts = other.named(place)
        for name, part in parts.items():
            if part % by.get(name, 1):
                raise NoLayout(f"{name!r} goes to {part}", required=f"a multiple of {by[name]}, the size of the factor")
        return self.of({name: part // by.get(name, 1) for name, part in parts.items()})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dims) and list(self.sizes.items()) == list(other.sizes.items())

    def __hash__(self) -> int:
        return hash(tuple(self.sizes.items()))


def need_names(names: Iterable[object]) -> None:
    """Refuses names of digits and coordinates that would not be read back from how a layout is printed."""
    for name in names:
        if not isinstance(name, str) or not name.isidentifier():
            raise WrongArgument(f"{brief(name)} is no name of a dimension", required='letters, digits and _: "lane0"')


def power(size: object, what: str) -> int:
    """The exponent of a power of two. Raises `LayoutError` for what is none."""
    if type(size) is not int or size < 1 or size & (size - 1):
        raise LayoutError(f"{what} is {brief(size)}", required="a power of two")
    return size.bit_length() - 1


def joined(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    """The sizes of a product, in an order that keeps those of both; where they contradict each other, the first's."""
    try:
        names = supremum(list(first), list(second))
    except NoLayout:
        names = [*first, *(name for name in second if name not in first)]
    return {name: first.get(name, 1) * second.get(name, 1) for name in names}


def divided(sizes: Mapping[str, int], by: Mapping[str, int]) -> dict[str, int]:
    """The sizes of a quotient. Raises `NoLayout` where a size does not divide."""
    for name, size in by.items():
        if sizes.get(name, 0) % size or name not in sizes:
            raise NoLayout(f"{name!r} has size {sizes.get(name)}, and its factor {size}", required="a multiple of it")
    return {name: size // by.get(name, 1) for name, size in sizes.items()}


def same_names(what: str, given: Collection[str], needed: Collection[str]) -> None:
    """Refuses other names than those that are there."""
    if sorted(given) != sorted(needed):
        raise LayoutError(f"{what} are {', '.join(given) or 'none'}", required=", ".join(needed) or "none")


def need_all(what: str, held: int, new: Dims) -> None:
    """Refuses to deal out bits that are not there, or to forget some."""
    if new.bits != held:
        raise LayoutError(
            f"{what} of {new.bits} bits in the place of {held}", required=f"sizes whose product is {1 << held}"
        )


def split_of(vector: int, widths: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """The bits of a vector, by the dimension that they are in."""
    for name, width in widths.items():
        yield name, vector & ((1 << width) - 1)
        vector >>= width


def supremum(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """An order of names that keeps both orders. Raises `NoLayout` where they contradict each other.

    >>> supremum(["a", "b"], ["a", "c"])
    ['a', 'b', 'c']
    """
    for names in (first, second):
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise WrongArgument(f"the order {brief(names)}", required="a list of names")
    out: list[str] = []
    left, right = list(first), list(second)
    while left or right:
        if left and left[0] not in right[1:]:
            name = left[0]
        elif right and right[0] not in left[1:]:
            name = right[0]
        else:
            raise NoLayout(f"the orders {first} and {second} contradict each other", required="one order for both")
        out.append(name)
        left, right = [each for each in left if each != name], [each for each in right if each != name]
    return out
