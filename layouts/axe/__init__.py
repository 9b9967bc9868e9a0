"""Axe layouts: layouts over named axes, with shards, replicas and an offset.

>>> from layouts.axe import R, S, axis, locations
>>> gpu = axis("gpu")
>>> rows = S[(2, 32, 128):(1 @ gpu, 128, 1)] + R[2:2 @ gpu]
>>> locations(rows, (1, 0, 5))
[1@gpu + 5@m, 3@gpu + 5@m]
"""

from layouts.axe.axes import Axis, Iter, Location, axis
from layouts.axe.layout import Axe, R, S, locations, span
from layouts.axe.operations import (
    Grouped,
    canonicalize,
    direct_sum,
    direct_sum_of,
    fuse,
    group,
    same_locations,
    tile,
    tile_of,
)
from layouts.axe.parts import slice_of, split

__all__ = [
    "Axe",
    "Axis",
    "Grouped",
    "Iter",
    "Location",
    "R",
    "S",
    "axis",
    "canonicalize",
    "direct_sum",
    "direct_sum_of",
    "fuse",
    "group",
    "locations",
    "same_locations",
    "slice_of",
    "span",
    "split",
    "tile",
    "tile_of",
]
