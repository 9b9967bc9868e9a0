"""Drawings of small matrices with their arrays (as in Fig. 7.1), and format descriptions as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from typing import Any, Final

import numpy as np

from atl.files.atomic import write_text
from atl.text.markup import Html, element, joined, svg
from sparse.errors import FormatError
from sparse.levels import Bitmask, Compressed, Dense, Hashed, Level
from sparse.tensors import AnyArray, SparseTensor, check_sparse_tensor, entries, to_dense
from sparse.views import Identity, Permuted, View

MAX_CELLS: Final = 1024
"""The largest number of elements that is drawn, in the matrix and in each array."""
CELL_WIDTH: Final = 30
ROW_HEIGHT: Final = 24
PALETTE: Final = ("#aec7e8", "#ffd59e", "#b7e1b0", "#f4b6b6", "#d3c3e8", "#d8c4ba", "#f3c6e2", "#e3e3a8")
"""Colours assigned to the rows cyclically; an entry has the colour of its row in the matrix and in `val`."""


@dataclass(frozen=True, slots=True)
class MatrixDrawing:
    """A drawing of a matrix and its arrays: text by `str()`, SVG by `svg()` and in notebooks."""

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
        for name, array in _flat_arrays(self.tensor):
            yield f"{name:>7}  {' '.join(map(_format_number, array))}"

    def svg(self) -> str:
        """Return the drawing as SVG: the matrix and below it each array, with one colour for each row."""
        grid, rows = _grid(self.tensor), _rows_of_values(self.tensor)
        parts: list[Html] = []
        for i, row in enumerate(grid):
            for j, text in enumerate(row):
                fill = PALETTE[i % len(PALETTE)] if text != "." else "#ffffff"
                parts.append(_box(90 + j * CELL_WIDTH, 34 + i * ROW_HEIGHT, fill, "" if text == "." else text))
        down = 34 + len(grid) * ROW_HEIGHT + 16
        widest = max((len(row) for row in grid), default=0)
        for name, array in _flat_arrays(self.tensor):
            parts.append(element("text", name, x=80, y=down + 16, text_anchor="end"))
            for k, number in enumerate(array):
                owner = rows[k] if name == "val" else -1
                fill = "#f2f2f2" if owner < 0 else PALETTE[owner % len(PALETTE)]
                parts.append(_box(90 + k * CELL_WIDTH, down, fill, _format_number(number)))
            down += ROW_HEIGHT + 6
            widest = max(widest, len(array))
        title = element("text", repr(self.tensor.format), x=90, y=22, font_weight="bold")
        style = {"font_family": "DejaVu Sans, sans-serif", "font_size": "12", "style": "background:#ffffff"}
        return svg(110 + widest * CELL_WIDTH, down + 8, title, parts, **style)

    def _repr_svg_(self) -> str:
        return self.svg()

    def save(self, path: str | PathLike[str]) -> None:
        """Write the drawing as SVG. Raises `InvalidArgument` if the file cannot be written."""
        write_text(path, self.svg(), what="the drawing", required='a path for a file, such as "matrix.svg"')


def draw(tensor: SparseTensor, path: str | PathLike[str] | None = None) -> MatrixDrawing:
    """Draw a small matrix with the arrays of its levels (pos, crd, val), and write it as SVG if `path` is given.

    Raises `FormatError` if the tensor is not a matrix or has more than 1024 elements.

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
    check_sparse_tensor(tensor)
    largest = max((array.size for array in tensor.arrays), default=0)
    if len(tensor.shape) != 2 or max(tensor.shape[0] * tensor.shape[1], largest) > MAX_CELLS:
        raise FormatError(
            f"cannot draw a tensor of shape {tensor.shape} with {largest} stored values",
            required=f"a matrix of at most {MAX_CELLS} elements",
        )
    made = MatrixDrawing(tensor)
    if path is not None:
        made.save(path)
    return made


def svg_or_none(tensor: SparseTensor) -> str | None:
    """Return the drawing as SVG for notebooks; None if the tensor is too large or not a matrix."""
    try:
        return draw(tensor).svg()
    except FormatError:
        return None


def description(tensor: SparseTensor) -> dict[str, Any]:
    """Describe the storage of a tensor as data, in the style of a binsparse descriptor: levels, shape, dtypes, sizes.

    Levels are listed outermost first; `transpose` is the order in which they store the dimensions.

    >>> import numpy as np
    >>> from sparse import CSR, description, pack
    >>> description(pack(np.eye(2), CSR))["format"]["custom"]["level"]["level"]
    {'level_desc': 'sparse', 'rank': 1, 'level': {'level_desc': 'element'}}
    """
    check_sparse_tensor(tensor)
    level: dict[str, Any] = {"level_desc": "element"}
    for each, _ in reversed(tensor.format.levels_of(tensor.shape)):
        level = {"level_desc": _descriptor_name(each), "rank": each.dims, "level": level}
    return {
        "version": "0.1",
        "format": {"name": repr(tensor.format), "custom": {**_view_descriptor(tensor.format.view), "level": level}},
        "shape": list(tensor.shape),
        "number_of_stored_values": len(tensor.values),
        "data_types": {name: str(array.dtype) for name, array in _named_arrays(tensor)},
    }


def _descriptor_name(level: Level) -> str:
    """Return binsparse's name of a level; for other levels, the class name in lower case."""
    names = {Dense: "dense", Compressed: "sparse", Bitmask: "bitmask", Hashed: "hash"}
    return next((name for kind, name in names.items() if isinstance(level, kind)), type(level).__name__.lower())


def _view_descriptor(view: View) -> dict[str, Any]:
    if isinstance(view, Identity):
        return {}
    return {"transpose": list(view.order)} if isinstance(view, Permuted) else {"view": repr(view)}


def _named_arrays(tensor: SparseTensor) -> Iterator[tuple[str, AnyArray]]:
    """Yield the arrays with their names, numbered by level if several levels have the same name."""
    roles = [role for level in tensor.levels for role in level.arrays]
    for number, level in enumerate(tensor.levels, 1):
        for role, array in level.arrays.items():
            yield (f"{role}_{number}" if roles.count(role) > 1 else role), array
    yield "val", tensor.values


def _flat_arrays(tensor: SparseTensor) -> Iterator[tuple[str, AnyArray]]:
    yield from ((name, array.ravel()) for name, array in _named_arrays(tensor))


def _grid(tensor: SparseTensor) -> list[list[str]]:
    """Return the text of each cell of the matrix; a dot where an entry is missing."""
    elements, (coordinates, _) = to_dense(tensor), entries(tensor)
    stored = np.zeros(tensor.shape, bool)
    stored[tuple(coordinates)] = True
    rows, columns = tensor.shape
    return [[_format_number(elements[i, j]) if stored[i, j] else "." for j in range(columns)] for i in range(rows)]


def _rows_of_values(tensor: SparseTensor) -> list[int]:
    """Return the row of each stored value; -1 for padding."""
    numbered = SparseTensor(tensor.format, tensor.shape, tensor.levels, np.arange(len(tensor.values)))
    (row, _), positions = entries(numbered)
    found = np.full(len(tensor.values), -1)
    found[positions] = row
    return [int(each) for each in found]


def _format_number(number: Any) -> str:
    return f"{number:.3g}" if isinstance(number, np.floating) else str(number)


def _box(x: int, y: int, fill: str, text: str) -> Html:
    box = element("rect", x=x, y=y, width=CELL_WIDTH, height=ROW_HEIGHT, fill=fill, stroke="#888")
    label = element("text", text, x=x + CELL_WIDTH / 2, y=y + 16, text_anchor="middle")
    return joined([box, label]) if text else box
