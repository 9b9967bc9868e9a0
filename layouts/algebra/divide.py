"""Division of a layout into tiles.

Each division is the composition with a tiler and its complement, so every element is in exactly one tile. A tiler is a
layout or a number of elements; a tuple of tilers applies mode by mode.
"""

from __future__ import annotations

from typing import Any

from atl.errors import InvalidArgument, brief
from layouts.algebra.coalesce import need_layout
from layouts.algebra.complement import complement_in
from layouts.algebra.composition import composition, each_mode
from layouts.errors import LayoutError, NoLayout
from layouts.foundation.layout import Layout, make_layout
from layouts.foundation.tuples import modes_of


def logical_divide(layout: Layout, tiler: object) -> Layout:
    """Return the layout with the modes (tile, rest): elements of a tile, and tiles. Tuples of tilers go by mode.

    Each element is in exactly one tile. Raises `NoLayout` with the failing condition if strides do not express it.

    >>> logical_divide(Layout((4, 2, 3), (2, 1, 8)), Layout(4, 2))
    ((2,2),(2,3)):((4,1),(2,8))
    >>> logical_divide(Layout((8, 6), (6, 1)), (4, 3))
    ((4,2),(3,2)):((6,24),(1,3))
    """
    need_layout(layout)
    if isinstance(tiler, tuple | list):
        parts = [
            logical_divide(mode, tiler[position]) if position < len(tiler) else mode
            for position, mode in enumerate(modes_to_tile(layout, tiler))
        ]
        return _with_offset(make_layout(*parts), layout)
    if tiler is None:
        return make_layout(layout, Layout(1, 0))
    tile = tiler if isinstance(tiler, Layout) else Layout(tiler)
    tile = tile.with_facts(layout.known)
    made = composition(layout, make_layout(tile, complement_in(tile, layout.size, whole=True)))
    if not isinstance(made, Layout):
        raise NoLayout(
            f"{layout} divided by {tile} is not a layout",
            required=made.reason,
            suggestions=(f"composition(…) returns the function as a Chain: {brief(made)}",),
        )
    return made


def zipped_divide(layout: Layout, tiler: object) -> Layout:
    """Return the layout with two modes: all elements of a tile, and all tiles.

    >>> zipped_divide(Layout((8, 6), (6, 1)), (4, 3))
    ((4,3),(2,2)):((6,1),(24,3))
    """
    divided = logical_divide(layout, tiler)
    if not isinstance(tiler, tuple | list):
        return divided
    tiles, rests = unzipped(divided, tiler)
    return _with_offset(make_layout(make_layout(*tiles), make_layout(*rests)), layout)


def tiled_divide(layout: Layout, tiler: object) -> Layout:
    """Return the layout whose first mode is a tile; the other modes are those of the tiles.

    >>> tiled_divide(Layout((8, 6), (6, 1)), (4, 3))
    ((4,3),2,2):((6,1),24,3)
    """
    tile, rest = zipped_divide(layout, tiler)
    return _with_offset(make_layout(tile, *each_mode(rest)), layout)


def flat_divide(layout: Layout, tiler: object) -> Layout:
    """Return the layout with the modes of a tile, followed by the modes of the tiles.

    >>> flat_divide(Layout((8, 6), (6, 1)), (4, 3))
    (4,3,2,2):(6,1,24,3)
    """
    tile, rest = zipped_divide(layout, tiler)
    return _with_offset(make_layout(*each_mode(tile), *each_mode(rest)), layout)


def unzipped(divided: Layout, tiler: Any) -> tuple[list[Layout], list[Layout]]:
    """Split the modes of a divided layout into tiles and rests."""
    tiles: list[Layout] = []
    rests: list[Layout] = []
    for position, mode in enumerate(divided):
        if position >= len(tiler):
            rests.append(mode)
        elif isinstance(tiler[position], tuple | list):
            inner, outer = unzipped(mode, tiler[position])
            tiles.append(make_layout(*inner))
            rests.append(make_layout(*outer))
        else:
            tiles.append(mode[0])
            rests.append(mode[1])
    return tiles, rests


def modes_to_tile(layout: Layout, tiler: Any) -> list[Layout]:
    """Return the modes of a layout. Raises `InvalidArgument` for a tiler with more modes."""
    if len(tiler) > len(layout):
        raise InvalidArgument(
            f"a tiler of {len(tiler)} modes for {layout}",
            required=f"at most {len(layout)} modes, one for each mode of the layout",
        )
    return list(each_mode(layout))


def _with_offset(made: Layout, layout: Layout) -> Layout:
    """Return a result computed mode by mode, with the offset of the layout."""
    made.offset = layout.offset if made.offset == 0 else made.offset
    return made


# -- parts of a layout ------------------------------------------------------------------------------------------------


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
