"""Named axes, and locations on them: the values of Axe layouts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

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
