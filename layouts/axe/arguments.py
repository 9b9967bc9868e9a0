"""Argument checks for operations on Axe layouts: shapes, ranges, axes with sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from atl.core.index import Index
from atl.errors import InvalidArgument, brief
from atl.surface.values import IndexExpr
from layouts.axe.axes import Axis, axis
from layouts.foundation.tuples import Extent, extent_of

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
