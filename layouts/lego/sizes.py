"""Numbers for sizes, and what is known of them made use of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from atl.core.index import Index, Leaf, Size, index, map_leaves
from layouts.foundation.tuples import Extent, extent_of


def placed(extent: Extent, sizes: Mapping[str, int]) -> Extent:
    """An extent with numbers for some of its sizes."""
    if isinstance(extent, int):
        return extent

    def leaf(known: Leaf) -> Index:
        return index(sizes[known.name]) if isinstance(known, Size) and known.name in sizes else index(known)

    return extent_of(map_leaves(extent, leaf))


def plain(value: Any) -> Any:
    """What a person writes, as the nodes that are computed with; arrays and slices stay."""
    return value if isinstance(value, np.ndarray | slice) else extent_of(value)
