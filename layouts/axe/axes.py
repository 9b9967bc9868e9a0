"""Named axes, and locations on them: the values of Axe layouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeAlias

from atl.core.index import Index
from atl.errors import InvalidArgument, brief
from atl.surface.values import IndexExpr
from layouts.foundation.tuples import Extent, extent_of


@dataclass(frozen=True, slots=True, order=True)
class Axis:
    """A hardware axis: registers, lanes, warps, memory, devices. `4 @ lane` is a stride of 4 along it.

    >>> lane = axis("lane")
    >>> 4 @ lane, 5 @ lane + 1 @ axis("warp")
    (4@lane, 5@lane + 1@warp)
    """

    takes_steps: ClassVar[bool] = True
    name: str

    def __rmatmul__(self, steps: object) -> Location:
        if type(steps) is not int and not isinstance(steps, IndexExpr | Index):
            raise InvalidArgument(f"{brief(steps)} @ {self}", required="an integer or an extent, as in 4 @ lane")
        return Location({self: extent_of(steps)})

    def __repr__(self) -> str:
        return self.name


def axis(name: str | Axis) -> Axis:
    """Return the axis of this name; an `Axis` is returned unchanged."""
    if isinstance(name, Axis):
        return name
    if not isinstance(name, str) or not name.isidentifier():
        raise InvalidArgument(f"axis({brief(name)})", required='an identifier: axis("lane")')
    return Axis(name)


MEMORY: Final = Axis("m")
"""The default axis of strides without a name: memory."""


class Location:
    """A location: an integer, or an expression over sizes, on each axis; 0 on all other axes."""

    __slots__ = ("parts",)

    def __init__(self, parts: Mapping[Axis, Extent]) -> None:
        steps = {axis: extent_of(parts[axis]) for axis in sorted(parts)}
        self.parts = {axis: each for axis, each in steps.items() if each != 0}

    def __getitem__(self, at: Axis) -> Extent:
        return self.parts.get(at, 0)

    def plus(self, other: Location) -> Location:
        """Return the sum of two locations."""
        return Location({at: self[at] + other[at] for at in {*self.parts, *other.parts}})

    def __add__(self, other: object) -> Location:
        return self.plus(other) if isinstance(other, Location) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return self.parts == other.parts if isinstance(other, Location) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self.parts.items()))

    def __repr__(self) -> str:
        return " + ".join(f"{_factor(steps)}@{at}" for at, steps in self.parts.items()) or "0"


def _factor(steps: Extent) -> str:
    return f"({steps})" if isinstance(steps, Index) and len(steps.terms) > 1 else str(steps)


def location_of(value: object) -> Location:
    """Return the location that a user's value denotes; an integer is along memory."""
    if isinstance(value, Location):
        return value
    if type(value) is int or isinstance(value, IndexExpr | Index):
        return Location({MEMORY: extent_of(value)})
    raise InvalidArgument(
        f"{brief(value)} is not a location", required="an integer, or steps along axes: 4 @ lane + 1 @ warp"
    )


@dataclass(frozen=True, slots=True)
class Iter:
    """`extent` steps of a stride along one axis."""

    extent: Extent
    stride: Extent
    axis: Axis = MEMORY

    @property
    def reach(self) -> Extent:
        """The distance from the first step to the last."""
        return (self.extent - 1) * self.stride

    def __repr__(self) -> str:
        return f"{self.extent}:" + (str(self.stride) if self.axis == MEMORY else f"{_factor(self.stride)}@{self.axis}")


def iter_of(extent: object, stride: object) -> Iter:
    """Return the iter that a user's extent and stride denote. Raises `InvalidArgument` if one is invalid."""
    at = location_of(stride)
    many = extent_of(extent) if type(extent) is int or isinstance(extent, IndexExpr | Index) else 0
    if isinstance(many, int) and many < 1:
        raise InvalidArgument(f"the extent {brief(extent)} of an iter", required="an integer of at least 1, or sizes")
    if len(at.parts) > 1 or (not at.parts and many != 1):
        raise InvalidArgument(f"the stride {at} of an iter", required="a stride along one axis that is not 0: 4 @ lane")
    ((along, steps),) = at.parts.items() or ((MEMORY, 1),)
    return Iter(many, steps, along)


# -- arguments --------------------------------------------------------------------------------------------------------


Shape: TypeAlias = Sequence[object]


def list_of(value: object, called: str) -> Sequence[Any]:
    """Return a tuple or list argument. Raises `InvalidArgument` for anything else."""
    if not isinstance(value, tuple | list):
        raise InvalidArgument(f"{called}: {brief(value)}", required="a list")
    return value


def extents_of(shape: Shape) -> list[Extent]:
    """Return the extents of a shape: integers of at least 1, or sizes."""
    found: list[Extent] = []
    for extent in list_of(shape, "the shape"):
        if type(extent) is not int and not isinstance(extent, IndexExpr | Index):
            raise InvalidArgument(f"the shape {brief(shape)}", required="extents of at least 1")
        found.append(extent_of(extent))
        if isinstance(found[-1], int) and found[-1] < 1:
            raise InvalidArgument(f"the shape {brief(shape)}", required="extents of at least 1")
    return found


def sizes_of_axes(sizes: object) -> list[tuple[Axis, Extent]]:
    """Return the axes, each once, with their sizes."""
    found: list[tuple[Axis, Extent]] = []
    for each in list_of(sizes, "the sizes of axes"):
        if not isinstance(each, tuple | list) or len(each) != 2:
            raise InvalidArgument(
                f"{brief(each)} is not an axis with its size", required="pairs: [(lane, 32), (warp, 4)]"
            )
        found.append((axis(each[0]), extents_of([each[1]])[0]))
    if not found or len({at for at, _ in found}) < len(found):
        raise InvalidArgument(
            f"the axes {brief(sizes)}", required="each axis once, with its size: [(lane, 32), (warp, 4)]"
        )
    return found


def range_of(value: object) -> tuple[Extent, Extent]:
    """Return the start and stop of a range: integers, or index expressions over sizes."""
    parts = value if isinstance(value, tuple | list) else ()
    if len(parts) != 2 or any(type(part) is not int and not isinstance(part, IndexExpr | Index) for part in parts):
        raise InvalidArgument(f"the range {brief(value)}", required="two integers, or sizes: (start, stop)")
    return extent_of(parts[0]), extent_of(parts[1])
