"""Edge-case tensors for `atl fuzz sparse`: their entries, and the objects that represent them in calls."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import scipy.sparse as sp

from proofs_tests.programs.choices import Choices, chance, choose
from sparse import Blocked, Format
from sparse.tensors import encode

Shape = tuple[int, ...]
LARGEST: Final = 12
INDIVISIBLE: Final = (5, 7, 11)
"""Extents that are not divisible by block sizes of 2, 3 or 4."""
EDGES: Final = (
    "any", "empty", "one entry", "full row", "empty rows", "no rows", "no columns", "zeros", "repeated", "in disorder",
    "int64", "undivided",
)  # fmt: skip
WAYS: Final = ("packed", "scipy", "scipy", "dense")
IN_SCIPY: Final = ("csr", "csc", "coo", "coo", "bsr", "bsr", "dia", "lil")


def tensor_at(choices: Choices, edge: str, rank: int, shape: Shape | None = None) -> tuple[Shape, list[Any], Any]:
    """Draw a shape and entries of an edge case, with duplicates, unsorted coordinates and zeros."""
    shape = shape or _shape_at(choices, edge, rank)
    elements = int(np.prod(shape))
    count = 0 if not elements else choices.integer(1, max(1, (elements * choices.integer(0, 120)) // 100))
    count = {"empty": 0, "one entry": min(1, elements)}.get(edge, count)
    at = [np.array([choices.integer(0, extent - 1) for _ in range(count)], np.int64) for extent in shape]
    if edge == "full row" and elements:
        row = choices.integer(0, shape[0] - 1)
        whole = np.arange(shape[-1])
        fixed = [np.full(shape[-1], row), *(np.zeros(shape[-1], np.int64) for _ in shape[1:-1]), whole][-rank:]
        at = [np.concatenate(pair) for pair in zip(at, fixed, strict=True)]
    if edge == "empty rows":
        at[0] //= 3
    if edge == "repeated":
        at = [np.tile(each, 2) for each in at]
    if edge != "in disorder" and chance(choices, 60) and len(at[0]):
        order = np.lexsort(at[::-1])
        at = [each[order] for each in at]
    values = np.array([choices.integer(-3, 5) for _ in at[0]], np.float64)
    return shape, at, np.zeros_like(values) if edge == "zeros" else values


def _shape_at(choices: Choices, edge: str, rank: int) -> Shape:
    largest = LARGEST if rank == 2 else LARGEST // 2
    if edge == "undivided":
        return tuple(choose(choices, INDIVISIBLE if rank == 2 else INDIVISIBLE[:2]) for _ in range(rank))
    shape = [choices.integer(0 if edge == "any" else 1, largest) for _ in range(rank)]
    if edge in ("no rows", "no columns"):
        shape[0 if edge == "no rows" else -1] = 0
    return tuple(shape)


def dense_of_entries(shape: Shape, coordinates: list[Any], values: Any) -> Any:
    """Return the tensor as a dense array; duplicates are summed."""
    made = np.zeros(shape)
    np.add.at(made, tuple(coordinates), values)
    return made


def passed_in(
    choices: Choices, form: Format, shape: Shape, coordinates: list[Any], values: Any, *, wide: bool
) -> tuple[str, Any]:
    """Return the kind and the value of an argument for a tensor: packed, a scipy matrix, or a dense array.

    A scipy matrix keeps unsorted and duplicate entries; its indices are int64 if `wide` is true. Block sizes are those
    of the format if it has blocks and they divide the shape. The padding of diagonals is NaN.
    """
    way = choose(choices, WAYS)
    if way == "dense":
        return way, dense_of_entries(shape, coordinates, values)
    if way == "packed":
        return "packed", encode(form, shape, coordinates, values)
    index = np.int64 if wide else np.int32
    held = sp.coo_array((values, tuple(each.astype(index) for each in coordinates)), shape=shape)
    if len(shape) != 2:
        return "coo", held
    kind = choose(choices, IN_SCIPY)
    if kind in ("csr", "csc"):
        return kind, _by_rows(kind, shape, coordinates, values, index)
    if kind == "coo" or 0 in shape:
        return kind, held
    if kind == "bsr":
        by = form.view.by if isinstance(form.view, Blocked) else (1, 1)
        divided = not any(extent % size for extent, size in zip(shape, by, strict=True))
        return kind, held.tobsr(by if divided else None)
    return kind, _with_nan_padding(held.todia()) if kind == "dia" else getattr(held, f"to{kind}")()


def _with_nan_padding(matrix: Any) -> Any:
    """Return a dia matrix whose padding is NaN."""
    rows, (_, stored) = matrix.shape[0], matrix.data.shape
    at = np.arange(stored) - matrix.offsets[:, None]
    matrix.data[(at < 0) | (at >= rows)] = np.nan
    return matrix


def _by_rows(kind: str, shape: Shape, coordinates: list[Any], values: Any, index: Any) -> Any:
    """Return a csr or csc matrix that keeps the given order of entries in each row or column."""
    outer, inner = coordinates if kind == "csr" else coordinates[::-1]
    order = np.argsort(outer, kind="stable")
    extent = shape[0 if kind == "csr" else 1]
    pos = np.concatenate([[0], np.cumsum(np.bincount(outer, minlength=extent))]).astype(index)
    made = getattr(sp, f"{kind}_array")(shape, dtype=np.float64)
    made.indptr, made.indices, made.data = pos, inner[order].astype(index), values[order]
    return made


def is_sorted(matrix: Any) -> bool:
    """Return whether the indices in each row or column of a scipy matrix are strictly increasing."""
    pos, crd = matrix.indptr, matrix.indices
    owner = np.repeat(np.arange(len(pos) - 1), np.diff(pos))
    return not bool(((owner[1:] == owner[:-1]) & (crd[1:] <= crd[:-1])).any())
