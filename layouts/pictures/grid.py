"""Pictures of small layouts as text and SVG: a grid with the location of each coordinate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Final, TypeAlias

from atl.errors import ArgumentError, ATLError, InvalidArgument, brief
from atl.files.atomic import write_text
from atl.text.markup import Html, element, lines, svg
from layouts.axe import Axe, Location, axis, locations
from layouts.axe.axes import MEMORY
from layouts.errors import CannotTabulate
from layouts.foundation.function import Function, need_function
from layouts.foundation.layout import Layout
from layouts.foundation.tuples import as_nested, extent_of, modes_of, product
from layouts.linear.layout import LinearLayout

MOST_CELLS: Final = 4_096
MOST_DISPLAYED: Final = 256
"""Notebooks show larger layouts as text; `draw` still draws them."""
Colour: TypeAlias = Callable[[Any], int]
"""A function from the content of a cell to the number of its colour."""

PALETTE: Final = (
    "#aec7e8", "#ffd59e", "#b7e1b0", "#f4b6b6", "#d3c3e8", "#d8c4ba", "#f3c6e2", "#e3e3a8",
    "#8fb6dc", "#f6b96b", "#8fcb86", "#e59191", "#b79fd8", "#bca193", "#e39fcb", "#cdcd7c",
)  # fmt: skip
"""Colours that are light enough for black text."""


@dataclass(frozen=True, slots=True)
class Picture:
    """The cells of a grid, row by row: the text and the colour number of each.

    `str()` gives text and `svg()` an SVG document, which notebooks display.
    """

    title: str
    cells: tuple[tuple[str, ...], ...]
    colours: tuple[tuple[int, ...], ...]
    legend: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.cells, tuple) or not self.cells or not isinstance(self.colours, tuple):
            raise InvalidArgument(f"a picture of {brief(self.cells)}", required="the result of draw(layout)")

    def __str__(self) -> str:
        heads = [str(column) for column in range(len(self.cells[0]))]
        wide = max(len(text) for text in (*heads, *(cell for row in self.cells for cell in row)))
        left = len(str(len(self.cells) - 1))
        lines = [self.title] if self.title else []
        lines.append(" " * left + " |" + "".join(f" {head:>{wide}}" for head in heads))
        lines.append("-" * (left + 1) + "+" + "-" * ((wide + 1) * len(heads)))
        lines += [f"{k:>{left}} |" + "".join(f" {cell:>{wide}}" for cell in row) for k, row in enumerate(self.cells)]
        return "\n".join(lines)

    __repr__ = __str__

    def svg(self, *, cell: int = 32) -> str:
        """Return the picture as a complete SVG document; `cell` is the height of a cell in pixels."""
        if type(cell) is not int or not 1 <= cell <= 1_000:
            raise ArgumentError(f"cell={brief(cell)}", required="the height of a cell in pixels, from 1 to 1,000")
        longest = max(len(text) for row in self.cells for text in row)
        wide = max(cell, round(longest * cell * 0.27) + round(cell * 0.3))
        left, top = round(cell * 1.1), 24 + (26 if self.title else 0)
        drawn = [element("rect", width="100%", height="100%", fill="#ffffff")]
        if self.title:
            drawn.append(_text(left, 20, self.title, size=15, anchor="start", weight="bold"))
        drawn += [
            _text(left + column * wide + wide / 2, top - 7, str(column), size=cell * 0.34, fill="#666")
            for column in range(len(self.cells[0]))
        ]
        for k, (row, colours) in enumerate(zip(self.cells, self.colours, strict=True)):
            y = top + k * cell
            drawn.append(_text(left - 7, y + cell * 0.62, str(k), size=cell * 0.34, anchor="end", fill="#666"))
            for column, (text, colour) in enumerate(zip(row, colours, strict=True)):
                x = left + column * wide
                shade = "#ffffff" if colour < 0 else PALETTE[colour % len(PALETTE)]
                drawn.append(
                    element("rect", x=x, y=y, width=wide, height=cell, fill=shade, stroke="#333", stroke_width=0.7)
                )
                drawn.append(_text(x + wide / 2, y + cell * 0.63, text, size=cell * 0.4))
        height = top + len(self.cells) * cell + 10
        if self.legend:
            drawn.append(_text(left, height + 8, self.legend, size=12, anchor="start", fill="#444"))
            height += 18
        width = max(left + len(self.cells[0]) * wide + 12, left + 12 + round(8.2 * len(self.title)))
        width = max(width, left + 12 + round(6.4 * len(self.legend)))
        return svg(width, height, lines(drawn), viewBox=f"0 0 {width} {height}", font_family="sans-serif")

    def save(self, path: str | PathLike[str]) -> None:
        """Write the picture as SVG. Raises `InvalidArgument` if the file cannot be written."""
        write_text(path, self.svg(), what="the picture", required='a file path: "layout.svg"')

    def _repr_svg_(self) -> str:
        """Return the picture in a notebook."""
        return self.svg()


def _text(
    x: float, y: float, text: str, *, size: float, anchor: str = "middle", weight: str = "normal", fill: str = "#111"
) -> Html:
    style = {"font_size": f"{size:g}", "text_anchor": anchor, "font_weight": weight, "fill": fill}
    return element("text", text, x=f"{x:g}", y=f"{y:g}", **style)


def draw(function: Function, *, colour: str | Colour = "location", onto: object = None) -> Picture:
    """Draw the location of each coordinate. The first mode runs down, the others to the right, in order of the indices.

    Locations on axes are abbreviated by the first letters of the axes; all locations of an element are shown. Colours
    follow the location (`"location"`, eight colours in turn), the row or column (`"row"`, `"column"`), one of 32 banks
    (`"bank"`), or a function of the location. With `onto=(m, n)` a layout of threads and values is drawn on the tile of
    its locations: each cell shows which thread holds it and as which value, coloured by the thread or the `"value"`.
    Raises `CannotTabulate` for symbolic sizes.

    >>> draw(Layout((2, 4), (4, 1)))
    (2,4):(4,1)
      | 0 1 2 3
    --+--------
    0 | 0 1 2 3
    1 | 4 5 6 7
    >>> draw(Layout((2, 2), (2, 1)), onto=(2, 2))
    (2,2):(2,1)
      |    0    1
    --+----------
    0 | T0V0 T1V0
    1 | T0V1 T1V1
    """
    need_function(function)
    if function.table_size is None or function.table_size > MOST_CELLS:
        raise CannotTabulate(
            f"{function} is too large to draw, or its size is symbolic",
            required=f"up to {MOST_CELLS} elements",
            suggestions=("give numbers for the sizes: layout.where(n=8)",),
        )
    if isinstance(function, LinearLayout) and len(function.out_dims) == 2 and onto is None:
        return _of_digits(function, colour)
    if isinstance(function, Axe) and not function.symbolic() and onto is None:
        return _of_axes(function, colour)
    return _of_locations(function, colour) if onto is None else _of_threads(function, colour, onto)


def svg_of(function: Function) -> str | None:
    """Return the picture of a layout in a notebook; None for symbolic or large layouts."""
    if function.table_size is None or function.table_size > MOST_DISPLAYED:
        return None
    try:
        return draw(function).svg()
    except ATLError:  # such as locations that are not integers
        return None


def _of_digits(layout: LinearLayout, colour: str | Colour) -> Picture:
    """Return the digits that map to each location of two coordinates, abbreviated by unambiguous first letters."""
    names = list(layout.in_dims)
    short = _short(names)
    rows, columns = layout.out_dims.values()
    if rows * columns > MOST_CELLS:
        raise CannotTabulate(f"{layout} has {rows * columns} locations to draw", required=f"up to {MOST_CELLS}")
    if not isinstance(colour, str) or colour not in ("location", *names):
        raise InvalidArgument(f"colour={brief(colour)}", required=f"one of {', '.join(names)}")
    by = len(names) - 1 if colour == "location" else names.index(colour)
    cells = [["" for _ in range(columns)] for _ in range(rows)]
    colours = [[-1 for _ in range(columns)] for _ in range(rows)]
    for at, location in enumerate(layout.table().tolist()):
        digits = layout.box.digits(at)
        row, column = location % rows, location // rows
        text = "".join(f"{short[name].upper()}{digit}" for name, digit in zip(names, digits, strict=True))
        cells[row][column] += ("," if cells[row][column] else "") + text
        colours[row][column] = digits[by] if digits else 0
    down, right = layout.out_dims
    legend = f"{_legend(short)}; {down} down, {right} right"
    return Picture(str(layout), _frozen(cells, str), _frozen(colours, int), legend)


def _short(names: Sequence[str]) -> dict[str, str]:
    """Return the shortest unambiguous prefix of each name."""
    return {
        name: next(name[:k] for k in range(1, len(name) + 1) if _is_unambiguous(name[:k], name, names))
        for name in names
    }


def _legend(short: Mapping[str, str]) -> str:
    return ", ".join(f"{part.upper()} = {name}" for name, part in short.items())


def _is_unambiguous(part: str, name: str, names: Sequence[str]) -> bool:
    return part == name or not any(other.startswith(part) for other in names if other != name)


def _of_locations(function: Function, colour: str | Colour) -> Picture:
    grid = _grid(function, function.table().tolist())
    return Picture(str(function), _frozen(grid, _text_of), _frozen(_coloured(grid, colour), int))


def _of_axes(layout: Axe, colour: str | Colour) -> Picture:
    """Return the locations of each element, as numbers if all are in memory."""
    copies = layout.replicas()
    elements = range(layout.table_size or 0)
    if len(copies) * len(elements) > MOST_CELLS:
        raise CannotTabulate(
            f"{layout} has {len(copies)} locations for each of {len(elements)} elements", required=f"up to {MOST_CELLS}"
        )
    axes = layout.axes
    short = {} if axes in ((), (MEMORY,)) else _short([at.name for at in axes])
    unambiguous = short and not any(part[-1].isdigit() for part in short.values())

    def value(location: Location) -> Any:
        return [location[at] for at in axes] if short else location[MEMORY]

    def written(location: Location) -> str:
        if not unambiguous:
            return _text_of(value(location))
        return "".join(f"{part.upper()}{location[axis(name)]}" for name, part in short.items())

    legend = _legend(short) if unambiguous or not short else f"locations are ({', '.join(short)})"
    all_locations = [locations(layout, at) for at in elements]
    cells = _grid(layout, [",".join(map(written, found)) for found in all_locations])
    first = _grid(layout, [value(found[0]) for found in all_locations])
    return Picture(str(layout), _frozen(cells, str), _frozen(_coloured(first, colour), int), legend)


def _grid(function: Function, values: Sequence[Any]) -> list[list[Any]]:
    """Return the values of all indices, in rows; the first mode runs down."""
    modes = modes_of(function.shape)
    first = product(modes[0]) if len(modes) > 1 else 1
    rows = first if isinstance(first, int) else 1
    columns = len(values) // rows
    down, right = (columns, 1) if function.box.row_major else (1, rows)
    return [[values[down * row + right * column] for column in range(columns)] for row in range(rows)]


def _coloured(grid: Sequence[Sequence[Any]], colour: str | Colour) -> list[list[int]]:
    if isinstance(colour, str) and colour in ("row", "column"):
        return [[k if colour == "row" else column for column, _ in enumerate(row)] for k, row in enumerate(grid)]
    number = _colour(colour)
    return [[number(value) for value in row] for row in grid]


def _colour(colour: str | Colour) -> Colour:
    if callable(colour):
        return colour
    known: Mapping[str, Colour] = {
        "location": lambda value: (sum(value) if isinstance(value, list) else value) % 8,
        "bank": lambda value: (sum(value) if isinstance(value, list) else value) % 32,
    }
    if colour not in known:
        raise InvalidArgument(
            f"colour={brief(colour)}", required='"location", "bank", "row", "column", "thread", "value", or a function'
        )
    return known[colour]


def _of_threads(function: Function, colour: str | Colour, onto: object) -> Picture:
    tile = as_nested(onto, extent_of)
    if not isinstance(tile, tuple) or len(tile) != 2 or not isinstance(function, Layout) or len(function) != 2:
        raise InvalidArgument(
            f"{function} is drawn onto {brief(onto)}",
            required="a layout of two modes, threads and values, and a tile of two",
        )
    rows, columns = product(tile[0]), product(tile[1])
    threads = function[0].size
    if not isinstance(rows, int) or not isinstance(columns, int) or not isinstance(threads, int):
        raise CannotTabulate(f"the tile {brief(onto)} has symbolic extents", required="numbers for all sizes")
    cells = [["" for _ in range(columns)] for _ in range(rows)]
    colours = [[-1 for _ in range(columns)] for _ in range(rows)]
    for at, location in enumerate(function.table().tolist()):
        if not isinstance(location, int) or not 0 <= location < rows * columns:
            raise InvalidArgument(
                f"{function} has the location {location}", required=f"locations in the tile {brief(onto)}"
            )
        value, thread = divmod(at, threads)
        row, column = location % rows, location // rows
        cells[row][column] += ("," if cells[row][column] else "") + f"T{thread}V{value}"
        colours[row][column] = value if colour == "value" else thread
    return Picture(str(function), _frozen(cells, str), _frozen(colours, int))


def _frozen(grid: Sequence[Sequence[Any]], made: Callable[[Any], Any]) -> tuple[tuple[Any, ...], ...]:
    return tuple(tuple(made(cell) for cell in row) for row in grid)


def _text_of(value: Any) -> str:
    return f"({','.join(map(str, value))})" if isinstance(value, list) else str(value)
