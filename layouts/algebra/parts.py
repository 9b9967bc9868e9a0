"""Parts of a layout, under CuTe's names: flatten, select, local_tile."""

from __future__ import annotations

from atl.errors import InvalidArgument, brief
from layouts.algebra.coalesce import need_layout
from layouts.algebra.divide import zipped_divide
from layouts.errors import LayoutError
from layouts.foundation.layout import Layout, make_layout
from layouts.foundation.tuples import modes_of


def flatten(layout: Layout) -> Layout:
    """Return the same function with all modes at the top level.

    >>> flatten(Layout((2, (3, 4)), (12, (4, 1))))
    (2,3,4):(12,4,1)
    """
    need_layout(layout)
    return Layout.of_modes(layout.modes, offset=layout.offset, known=layout.known)


def select(layout: Layout, *modes: int) -> Layout:
    """Return these modes in this order; the digits of all others are 0. Raises `NoMode` for a missing mode.

    >>> select(Layout((2, 3, (4, 5)), (60, 20, (5, 1))), 2, 0)
    ((4,5),2):((5,1),60)
    """
    need_layout(layout)
    if not modes:
        raise InvalidArgument("select without modes", required="mode numbers, as in select(layout, 0, 2)")
    made = layout[modes[0]] if len(modes) == 1 else make_layout(*(layout[mode] for mode in modes))
    return Layout.made(made.shape, made.stride, made.modes, offset=layout.offset, known=layout.known)


def local_tile(layout: Layout, tile: object, coordinate: object) -> Layout:
    """Return the tile at a coordinate of the grid of tiles. `None` keeps a mode of the grid.

    Raises the errors of `zipped_divide`, and `LayoutError` for a coordinate outside the grid.

    >>> local_tile(Layout((8, 6), (6, 1)), (4, 3), (1, 0))
    (4,3):(6,1)+24
    >>> local_tile(Layout((8, 6), (6, 1)), (4, 3), (None, 1))
    ((4,3),2):((6,1),24)+3
    """
    tiles = zipped_divide(layout, tile)
    grid = modes_of(tiles[1].shape)
    given = coordinate if isinstance(coordinate, tuple) else (coordinate,)
    if len(given) not in (1, len(grid)):
        raise LayoutError(f"the tile {brief(coordinate)} of a grid of {len(grid)} modes", required=f"{len(grid)} parts")
    for part, extent in zip(given, grid, strict=False):
        if isinstance(part, int) and isinstance(extent, int) and len(given) == len(grid) and not 0 <= part < extent:
            raise LayoutError(f"the tile {brief(coordinate)}", required=f"a coordinate of the grid {tiles[1].shape}")
    made: Layout = tiles(None, given if len(given) > 1 else given[0])
    return made
