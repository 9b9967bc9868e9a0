"""Numbers for sizes, and what is known of them made use of."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from atl.core.index import Index, Leaf, Size, index, map_leaves
from atl.core.predicate import Predicate, substitute
from atl.surface.values import IndexExpr
from layouts.foundation.tuples import Extent, extent_of


def placed(extent: Extent, sizes: Mapping[str, int]) -> Extent:
    """An extent with numbers for some of its sizes."""
    if isinstance(extent, int):
        return extent

    return extent_of(map_leaves(extent, partial(_number, sizes)))


def placed_in(predicate: Predicate, sizes: Mapping[str, int]) -> Predicate:
    """A condition with numbers for some of its sizes."""
    return substitute(predicate, partial(_number, sizes))


def _number(sizes: Mapping[str, int], leaf: Leaf) -> Index:
    return index(sizes[leaf.name]) if isinstance(leaf, Size) and leaf.name in sizes else index(leaf)


def plain(value: Any) -> Any:
    """What a person writes, as the nodes that are computed with; arrays stay."""
    return value.node if isinstance(value, IndexExpr) else value
