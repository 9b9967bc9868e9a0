"""Named axes, and places on them: what layouts in Axe's words take elements to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from atl.errors import WrongArgument, brief


@dataclass(frozen=True, slots=True, order=True)
class Axis:
    """A hardware axis: registers, lanes, warps, memory, devices. `4 @ lane` is a step of four along it.

    >>> lane = axis("lane")
    >>> 4 @ lane, 5 @ lane + 1 @ axis("warp")
    (4@lane, 5@lane + 1@warp)
    """

    name: str

    def __rmatmul__(self, steps: int) -> Place:
        if type(steps) is not int:
            raise WrongArgument(f"{brief(steps)} @ {self}", required="an integer, as in 4 @ lane")
        return Place({self: steps})

    def __repr__(self) -> str:
        return self.name


def axis(name: str | Axis) -> Axis:
    """The axis of this name; an axis is itself."""
    if isinstance(name, Axis):
        return name
    if not isinstance(name, str) or not name.isidentifier():
        raise WrongArgument(f"axis({brief(name)})", required='a name: axis("lane")')
    return Axis(name)


MEMORY: Final = Axis("m")
"""The axis of strides that name none: memory."""


class Place:
    """A place: an integer on each axis, 0 where nothing is said."""

    __slots__ = ("parts",)

    def __init__(self, parts: Mapping[Axis, int]) -> None:
        self.parts = {axis: parts[axis] for axis in sorted(parts) if parts[axis]}

    def __getitem__(self, at: Axis) -> int:
        return self.parts.get(at, 0)

    def plus(self, other: Place) -> Place:
        """The place further on by the other."""
        return Place({at: self[at] + other[at] for at in {*self.parts, *other.parts}})

    def __add__(self, other: object) -> Place:
        return self.plus(other) if isinstance(other, Place) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return self.parts == other.parts if isinstance(other, Place) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self.parts.items()))

    def __repr__(self) -> str:
        return " + ".join(f"{steps}@{at}" for at, steps in self.parts.items()) or "0"


def place_of(value: object) -> Place:
    """What a person means: an integer is along memory."""
    if isinstance(value, Place):
        return value
    if type(value) is int:
        return Place({MEMORY: value})
    raise WrongArgument(f"{brief(value)} is no place", required="an integer, or steps along axes: 4 @ lane + 1 @ warp")


@dataclass(frozen=True, slots=True)
class Iter:
    """So many steps of a stride along one axis."""

    extent: int
    stride: int
    axis: Axis = MEMORY

    @property
    def reach(self) -> int:
        """How far the last step is from the first."""
        return (self.extent - 1) * self.stride

    def __repr__(self) -> str:
        return f"{self.extent}:{self.stride}" + ("" if self.axis == MEMORY else f"@{self.axis}")


def iter_of(extent: object, stride: object) -> Iter:
    """An iter that a person writes. Raises `WrongArgument` for what is none."""
    at = place_of(stride)
    if type(extent) is not int or extent < 1:
        raise WrongArgument(f"the extent {brief(extent)} of an iter", required="an integer of at least 1")
    if len(at.parts) > 1 or (not at.parts and extent > 1):
        raise WrongArgument(f"the stride {at} of an iter", required="a stride along one axis that is not 0: 4 @ lane")
    ((along, steps),) = at.parts.items() or ((MEMORY, 1),)
    return Iter(extent, steps, along)
