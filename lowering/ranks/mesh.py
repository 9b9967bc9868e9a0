"""Meshes of ranks, and the names of a rank's coordinates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Final, TypeAlias

from atl.core.marks import DEVICE_LETTERS, DEVICES, LoopMark
from atl.errors import MeshError, brief

Coordinates: TypeAlias = tuple[int, ...]
"""The position of a rank along each axis of a mesh."""

LARGEST: Final = 1 << 20
"""Maximum number of ranks."""


def letter_of(axis: LoopMark) -> str:
    """Return the name of a device axis in a mesh: x, y or z."""
    return DEVICE_LETTERS[axis]


@dataclass(frozen=True, slots=True, init=False)
class Mesh:
    """The ranks of a distributed program: a box with up to three axes, x, y and z. Ranks are numbered row by row.

    Raises `MeshError` for no axis, another axis, or a number that is not positive.

    >>> import atl
    >>> mesh = atl.Mesh(x=2, y=3)
    >>> mesh, mesh.ranks, mesh.coordinates(4)
    (Mesh(x=2, y=3), 6, (1, 1))
    """

    extents: Mapping[LoopMark, int]

    def __init__(self, **extents: int) -> None:
        axes = {letter_of(axis): axis for axis in DEVICES}
        for name, extent in extents.items():
            if name not in axes:
                raise MeshError(f"a mesh has no axis {name}", required=f"axes among {', '.join(axes)}")
            if type(extent) is not int or not 1 <= extent <= LARGEST:
                raise MeshError(f"the axis {name} has {brief(extent)} ranks", required=f"a number from 1 to {LARGEST}")
        if not extents:
            raise MeshError("a mesh has no axes", required="one to three axes: atl.Mesh(x=4)")
        object.__setattr__(self, "extents", {axis: extents[name] for name, axis in axes.items() if name in extents})
        if self.ranks > LARGEST:
            raise MeshError(f"{self} has {self.ranks} ranks", required=f"at most {LARGEST}")

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return prod(self.extents.values())

    def coordinates(self, rank: int) -> Coordinates:
        """Return the coordinates of a rank."""
        found: list[int] = []
        for extent in list(self.extents.values())[::-1]:
            rank, digit = divmod(rank, extent)
            found.append(digit)
        return tuple(reversed(found))

    def number(self, at: Mapping[LoopMark, int]) -> int | None:
        """Return the rank with these coordinates; None if one of them is outside of the mesh."""
        rank = 0
        for axis, extent in self.extents.items():
            if not 0 <= at[axis] < extent:
                return None
            rank = rank * extent + at[axis]
        return rank

    def all(self) -> Iterator[Coordinates]:
        """Yield the coordinates of all ranks in order."""
        return product(*map(range, self.extents.values()))

    def __hash__(self) -> int:
        return hash(tuple(self.extents.items()))

    def __repr__(self) -> str:
        return f"Mesh({', '.join(f'{letter_of(axis)}={extent}' for axis, extent in self.extents.items())})"
