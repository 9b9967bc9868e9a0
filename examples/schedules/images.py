"""Programs on images, each with a NumPy reference: an unsharp mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

import atl
from atl import IndexExpr, Program, Tensor

Array: TypeAlias = npt.NDArray[Any]

n, m = atl.sizes("n m", min=1)
image = atl.tensor("image", n, m)

# -- an unsharp mask --------------------------------------------------------------------------------------------------

BINOMIAL: Final = (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16)
AMOUNT: Final = 1.5


def _clamped(at: IndexExpr, end: IndexExpr) -> IndexExpr:
    """Return the position nearest to `at` that is inside of the image."""
    return atl.imin(atl.imax(at, 0), end - 1)


def _smooth(value: Callable[[int], Tensor]) -> Tensor:
    """Return the five-tap binomial filter of five values."""
    first, *rest = (weight * value(t) for t, weight in enumerate(BINOMIAL))
    return sum(rest, first)


def unsharp_mask() -> Program:
    """Return an image sharpened by its difference from a blurred copy, with a repeated border."""
    around = atl.gen(n + 4, m + 4, lambda y, x: image[_clamped(y - 2, n), _clamped(x - 2, m)])

    def sharpened(row: Tensor) -> Tensor:
        def pixel(y: IndexExpr, x: IndexExpr) -> Tensor:
            return image[y, x] + AMOUNT * (image[y, x] - _smooth(lambda t: row[y + t, x]))

        return atl.gen(n, m, pixel)

    def rows(wide: Tensor) -> Tensor:
        filtered = atl.gen(n + 4, m, lambda y, x: _smooth(lambda t: wide[y, x + t]))
        return atl.let(filtered, sharpened, name="row")

    return atl.program("unsharp_mask", [image], atl.let(around, rows, name="wide"))


def numpy_unsharp_mask(image: Array) -> Array:
    """Compute `unsharp_mask` by NumPy."""
    rows, columns = image.shape
    wide = np.pad(image, 2, "edge")
    row = sum(weight * wide[:, t : t + columns] for t, weight in enumerate(BINOMIAL))
    blurred = sum(weight * row[t : t + rows] for t, weight in enumerate(BINOMIAL))
    out: Array = image + AMOUNT * (image - blurred)
    return out
