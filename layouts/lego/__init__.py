"""LEGO layouts: a logical view of an array, mapped to memory by a chain of permutations of tiles.

>>> from layouts.lego import GroupBy, RegP
>>> layout = GroupBy([6, 6]).OrderBy(RegP([2, 3, 2, 3], [1, 3, 2, 4]))
>>> layout.apply(1, 3), layout.inv(12), layout.strides()
(12, (1, 3), ((3,2),(3,2)):((3,18),(1,9)))
"""

from layouts.lego.expansion import CoverBy, ExpandBy, TileInto
from layouts.lego.group_by import GroupBy, OrderBy, TileBy
from layouts.lego.permutations import Col, GenP, RegP, Row
from layouts.lego.slices import Slice, part_of

__all__ = [
    "Col", "CoverBy", "ExpandBy", "GenP", "GroupBy", "OrderBy", "RegP", "Row", "Slice", "TileBy", "TileInto", "part_of",
]  # fmt: skip
