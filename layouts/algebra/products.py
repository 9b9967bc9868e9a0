"""Products: a layout repeated at the locations of another layout."""

from __future__ import annotations

from layouts.algebra.coalesce import need_layout
from layouts.algebra.complement import complement
from layouts.algebra.composition import composition, each_mode
from layouts.algebra.divide import modes_to_tile, unzipped
from layouts.errors import NoLayout
from layouts.foundation.layout import Layout, make_layout
from layouts.foundation.tuples import Extent


def logical_product(block: Layout, tiler: object) -> Layout:
    """Return the layout with the modes (block, copies): the block, repeated without overlap in the order of the tiler.

    The copies are the composition of the block's complement with the tiler; a tuple of tilers goes by mode. Raises
    `NoLayout` if the block has no complement, or strides do not express the copies.

    >>> logical_product(Layout((2, 2), (4, 1)), Layout(6, 1))
    ((2,2),(2,3)):((4,1),(2,8))
    """
    need_layout(block)
    if isinstance(tiler, tuple | list):
        return make_layout(
            *(
                logical_product(mode, tiler[position]) if position < len(tiler) else mode
                for position, mode in enumerate(modes_to_tile(block, tiler))
            )
        )
    copies = tiler if isinstance(tiler, Layout) else Layout(tiler)
    rest = complement(block.with_facts(copies.known))  # without a size, as it must hold any number of copies
    made = composition(rest, copies)
    if not isinstance(made, Layout):
        raise NoLayout(f"{block} repeated by {copies} is not a layout", required=made.reason)
    return make_layout(block, made)


def zipped_product(block: Layout, tiler: object) -> Layout:
    """Return the layout with two modes: the block with all its modes, and all copies."""
    made = logical_product(block, tiler)
    if not isinstance(tiler, tuple | list):
        return made
    blocks, copies = unzipped(made, tiler)
    return make_layout(make_layout(*blocks), make_layout(*copies))


def tiled_product(block: Layout, tiler: object) -> Layout:
    """Return the layout whose first mode is the block; the other modes are those of the copies."""
    first, copies = zipped_product(block, tiler)
    return make_layout(first, *each_mode(copies))


def flat_product(block: Layout, tiler: object) -> Layout:
    """Return the layout with the modes of the block, followed by those of the copies."""
    first, copies = zipped_product(block, tiler)
    return make_layout(*each_mode(first), *each_mode(copies))


def blocked_product(block: Layout, tiler: Layout) -> Layout:
    """Return the block repeated in each mode: mode k is (block mode k, copies mode k), so blocks are contiguous.

    >>> blocked_product(Layout((2, 5), (5, 1)), Layout((3, 4), (1, 3)))
    ((2,3),(5,4)):((5,10),(1,30))
    """
    parts = _side_by_side(block, tiler)
    return make_layout(*(make_layout(one, many) for one, many in parts))


def raked_product(block: Layout, tiler: Layout) -> Layout:
    """Return the block interleaved with its copies in each mode: mode k is (copies mode k, block mode k).

    >>> raked_product(Layout((2, 5), (5, 1)), Layout((3, 4), (1, 3)))
    ((3,2),(4,5)):((10,5),(30,1))
    """
    parts = _side_by_side(block, tiler)
    return make_layout(*(make_layout(many, one) for one, many in parts))


def _side_by_side(block: Layout, tiler: Layout) -> list[tuple[Layout, Layout]]:
    need_layout(block)
    need_layout(tiler)
    wide = max(len(block), len(tiler))
    first, copies = logical_product(_padded(block, wide), _padded(tiler, wide))
    return list(zip(each_mode(first), each_mode(copies), strict=True))


def _padded(layout: Layout, wide: int) -> Layout:
    """Return the layout with modes of extent 1 appended, up to `wide` modes."""
    one: Extent = 1
    return make_layout(*each_mode(layout), *(Layout(one, 0) for _ in range(wide - len(layout))))
