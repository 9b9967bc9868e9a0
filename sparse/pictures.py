"""Pictures of small tensors and the arrays that hold them (as Fig. 7.1), and their descriptions as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from os import PathLike
from typing import Any, Final

import numpy as np

from atl.files.whole import write_text
from sparse.errors import FormatError
from sparse.levels import Bitmask, Compressed, Dense, Hashed, Level
from sparse.tensors import AnyArray, SparseTensor, dense, entries, need_sparse
from sparse.views import Permuted, Same, View

MOST_CELLS: Final = 1024
"""More elements, or more in one array, are not drawn."""
CELL: Final = 30
HIGH: Final = 24
PALETTE: Final = ("#aec7e8", "#ffd59e", "#b7e1b0", "#f4b6b6", "#d3c3e8", "#d8c4ba", "#f3c6e2", "#e3e3a8")
"""One colour for each row of the matrix, in turn: an entry has it where it stands, and its value in `val`."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A matrix and its arrays: `str()` is text, `svg()` a document, which a notebook shows."""

    tensor: SparseTensor

    def __str__(self) -> str:
        return "\n".join(self._lines())

    __repr__ = __str__

    def _lines(self) -> Iterator[str]:
        grid = _grid(self.tensor)
        wide = max((len(text) for row in grid for text in row), default=1)
        yield f"{self.tensor.format!r}"
        for row in grid:
            yield "  " + " ".join(f"{text:>{wide}}" for text in row)
        for name, array in _named(self.tensor):
            yield f"{name:>7}  {' '.join(map(_written, array))}"

    def svg(self) -> str:
        """The picture as SVG: the matrix, below it each array, entries of one row in one colour."""
        grid, rows = _grid(self.tensor), _rows_of_values(self.tensor)
        parts: list[str] = []
        for i, row in enumerate(grid):
            for j, text in enumerate(row):
                fill = PALETTE[i % len(PALETTE)] if text != "." else "#ffffff"
                parts.append(_box(90 + j * CELL, 34 + i * HIGH, fill, "" if text == "." else text))
        down = 34 + len(grid) * HIGH + 16
        widest = max((len(row) for row in grid), default=0)
        for name, array in _named(self.tensor):
            parts.append(f'<text x="80" y="{down + 16}" text-anchor="end">{escape(name, quote=False)}</text>')
            for k, number in enumerate(array):
                owner = rows[k] if name == "val" else -1
                fill = "#f2f2f2" if owner < 0 else PALETTE[owner % len(PALETTE)]
                parts.append(_box(90 + k * CELL, down, fill, _written(number)))
            down += HIGH + 6
            widest = max(widest, len(array))
        size = f'width="{110 + widest * CELL}" height="{down + 8}"'
        title = f'<text x="90" y="22" font-weight="bold">{escape(repr(self.tensor.format), quote=False)}</text>'
        style = 'font-family="DejaVu Sans, sans-serif" font-size="12" style="background:#ffffff"'
        return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{title}{"".join(parts)}</svg>\n'

    def _repr_svg_(self) -> str:
        return self.svg()

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the picture as SVG. Raises `WrongArgument` where no file can be."""
        write_text(path, self.svg(), what="the picture", required='a place for a file: "matrix.svg"')


def draw(tensor: SparseTensor, path: str | PathLike[str] | None = None) -> Picture:
    """The picture of a small matrix with the arrays of its levels: pos, crd, val; written as SVG where a path is given.

    Raises `FormatError` for what is no matrix, or has more than 1024 elements.

    >>> import numpy as np
    >>> from sparse import CSR, draw, pack
    >>> draw(pack(np.array([[6, 0, 9, 8], [0, 0, 0, 0], [5, 0, 0, 7]]), CSR))
    CSR
      6 . 9 8
      . . . .
      5 . . 7
        pos  0 3 3 5
        crd  0 2 3 0 3
        val  6 9 8 5 7
    """
    need_sparse(tensor)
    largest = max((array.size for array in tensor.arrays), default=0)
    if len(tensor.shape) != 2 or max(tensor.shape[0] * tensor.shape[1], largest) > MOST_CELLS:
        raise FormatError(
            f"a picture of a tensor of shape {tensor.shape}, of which {largest} numbers are stored",
            required=f"a matrix of at most {MOST_CELLS} elements",
        )
    made = Picture(tensor)
    if path is not None:
        made.save(path)
    return made


def svg_of(tensor: SparseTensor) -> str | None:
    """The picture of a tensor that a notebook shows; none of what is too large to be drawn."""
    try:
        return draw(tensor).svg()
    except FormatError:
        return None


def description(tensor: SparseTensor) -> dict[str, Any]:
    """What a tensor is stored as, as data in the style of binsparse's descriptors: levels, shape, types, counts.

    Levels are from the outside in; `transpose` is the order in which they hold the dimensions.

    >>> import numpy as np
    >>> from sparse import CSR, description, pack
    >>> description(pack(np.eye(2), CSR))["format"]["custom"]["level"]["level"]
    {'level_desc': 'sparse', 'rank': 1, 'level': {'level_desc': 'element'}}
    """
    need_sparse(tensor)
    level: dict[str, Any] = {"level_desc": "element"}
    for each, _ in reversed(tensor.format.levels_of(tensor.shape)):
        level = {"level_desc": _called(each), "rank": each.dims, "level": level}
    return {
        "version": "0.1",
        "format": {"name": repr(tensor.format), "custom": {**_viewed(tensor.format.view), "level": level}},
        "shape": list(tensor.shape),
        "number_of_stored_values": len(tensor.values),
        "data_types": {name: str(array.dtype) for name, array in _held(tensor)},
    }


def _called(level: Level) -> str:
    """binsparse's word for a level, and our own for those that it lacks."""
    words = {Dense: "dense", Compressed: "sparse", Bitmask: "bitmask", Hashed: "hash"}
    return next((word for of, word in words.items() if isinstance(level, of)), type(level).__name__.lower())


def _viewed(view: View) -> dict[str, Any]:
    if isinstance(view, Same):
        return {}
    return {"transpose": list(view.order)} if isinstance(view, Permuted) else {"view": repr(view)}


def _held(tensor: SparseTensor) -> Iterator[tuple[str, AnyArray]]:
    """The arrays by their roles, with the number of the level where a role occurs twice."""
    roles = [role for level in tensor.levels for role in level.arrays]
    for number, level in enumerate(tensor.levels, 1):
        for role, array in level.arrays.items():
            yield (f"{role}_{number}" if roles.count(role) > 1 else role), array
    yield "val", tensor.values


def _named(tensor: SparseTensor) -> Iterator[tuple[str, AnyArray]]:
    yield from ((name, array.ravel()) for name, array in _held(tensor))


def _grid(tensor: SparseTensor) -> list[list[str]]:
    """What is written in each cell of the matrix; a point where there is no entry."""
    elements, (coordinates, _) = dense(tensor), entries(tensor)
    stored = np.zeros(tensor.shape, bool)
    stored[tuple(coordinates)] = True
    rows, columns = tensor.shape
    return [[_written(elements[i, j]) if stored[i, j] else "." for j in range(columns)] for i in range(rows)]


def _rows_of_values(tensor: SparseTensor) -> list[int]:
    """The row of the matrix that each stored value belongs to; -1 of one that stands for no element."""
    numbered = SparseTensor(tensor.format, tensor.shape, tensor.levels, np.arange(len(tensor.values)))
    (row, _), positions = entries(numbered)
    found = np.full(len(tensor.values), -1)
    found[positions] = row
    return [int(each) for each in found]


def _written(number: Any) -> str:
    return f"{number:.3g}" if isinstance(number, np.floating) else str(number)


def _box(x: int, y: int, fill: str, text: str) -> str:
    middle = (
        f'<text x="{x + CELL / 2}" y="{y + 16}" text-anchor="middle">{escape(text, quote=False)}</text>' if text else ""
    )
    return f'<rect x="{x}" y="{y}" width="{CELL}" height="{HIGH}" fill="{fill}" stroke="#888"/>{middle}'
