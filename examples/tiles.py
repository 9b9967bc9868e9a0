"""Register tiles for this machine, the defaults of the schedules in this folder. A number that is not 0 is kept."""

from __future__ import annotations

from math import lcm, prod

import atl


def register_tile(rows: int = 0, columns: int = 0, dtype: str = "float32") -> tuple[int, int]:
    """Return rows and columns of a register tile that is two vectors wide."""
    most_rows, two_vectors = atl.machine().register_tile(dtype)
    return rows or most_rows, columns or two_vectors


def largest_tile(rows: int = 0, columns: int = 0, dtype: str = "float32") -> tuple[int, int]:
    """Return rows and columns of the register tile with most elements, for operands that are all packed."""
    most_rows, vectors = max(atl.machine().register_tiles(dtype), key=prod)
    return rows or most_rows, columns or vectors


def power_of_two_rows() -> int:
    """Return the rows of a register tile, rounded down so that usual sizes leave no partial tile."""
    most_rows, _ = atl.machine().register_tile("float32")
    return 1 << most_rows.bit_length() - 1


def multiple_below(size: int, *parts: int) -> int:
    """Return the largest multiple of all parts up to a size, or the least one if that is larger."""
    step = lcm(*parts)
    return max(1, size // step) * step
