"""Programs on images, each with a NumPy reference: an unsharp mask and a corner detector."""

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


def _bordered() -> Tensor:
    """Return the image with its border repeated for two pixels."""
    return atl.gen(n + 4, m + 4, lambda y, x: image[_clamped(y - 2, n), _clamped(x - 2, m)])


def _smooth(value: Callable[[int], Tensor]) -> Tensor:
    """Return the five-tap binomial filter of five values."""
    first, *rest = (weight * value(t) for t, weight in enumerate(BINOMIAL))
    return sum(rest, first)


def unsharp_mask() -> Program:
    """Return an image sharpened by its difference from a blurred copy, with a repeated border."""

    def sharpened(row: Tensor) -> Tensor:
        def pixel(y: IndexExpr, x: IndexExpr) -> Tensor:
            return image[y, x] + AMOUNT * (image[y, x] - _smooth(lambda t: row[y + t, x]))

        return atl.gen(n, m, pixel)

    def rows(wide: Tensor) -> Tensor:
        filtered = atl.gen(n + 4, m, lambda y, x: _smooth(lambda t: wide[y, x + t]))
        return atl.let(filtered, sharpened, name="row")

    return atl.program("unsharp_mask", [image], atl.let(_bordered(), rows, name="wide"))


def numpy_unsharp_mask(image: Array) -> Array:
    """Compute `unsharp_mask` by NumPy."""
    rows, columns = image.shape
    wide = np.pad(image, 2, "edge")
    row = np.sum([weight * wide[:, t : t + columns] for t, weight in enumerate(BINOMIAL)], axis=0)
    blurred = np.sum([weight * row[t : t + rows] for t, weight in enumerate(BINOMIAL)], axis=0)
    out: Array = image + AMOUNT * (image - blurred)
    return out


# -- corners ----------------------------------------------------------------------------------------------------------

SENSITIVITY: Final = 0.04


def harris() -> Program:
    """Return Harris's measure of corners, det - k trace², from gradients by Sobel's filters, with a repeated border."""

    def gradients(wide: Tensor) -> Tensor:
        def across(y: IndexExpr, x: IndexExpr) -> Tensor:
            column = [wide[y, x + t] + 2.0 * wide[y + 1, x + t] + wide[y + 2, x + t] for t in (0, 2)]
            return column[1] - column[0]

        def down(y: IndexExpr, x: IndexExpr) -> Tensor:
            row = [wide[y + t, x] + 2.0 * wide[y + t, x + 1] + wide[y + t, x + 2] for t in (0, 2)]
            return row[1] - row[0]

        return atl.let(
            atl.gen(n + 2, m + 2, across),
            lambda gx: atl.let(atl.gen(n + 2, m + 2, down), lambda gy: corners(gx, gy), name="gy"),
            name="gx",
        )

    def corners(gx: Tensor, gy: Tensor) -> Tensor:
        def three_rows(a: Tensor, b: Tensor) -> Tensor:
            return atl.gen(n, m + 2, lambda y, x: atl.sum(3, lambda r: a[y + r, x] * b[y + r, x]))

        def measured(xx: Tensor, xy: Tensor, yy: Tensor) -> Tensor:
            def pixel(y: IndexExpr, x: IndexExpr) -> Tensor:
                a, b, c = (atl.sum(3, lambda q, of=of: of[y, x + q]) for of in (xx, xy, yy))
                return a * c - b * b - SENSITIVITY * (a + c) * (a + c)

            return atl.gen(n, m, pixel)

        def xy_and_yy(xx: Tensor) -> Tensor:
            return atl.let(
                three_rows(gx, gy),
                lambda xy: atl.let(three_rows(gy, gy), lambda yy: measured(xx, xy, yy), name="yy"),
                name="xy",
            )

        return atl.let(three_rows(gx, gx), xy_and_yy, name="xx")

    return atl.program("harris", [image], atl.let(_bordered(), gradients, name="wide"))


def numpy_harris(image: Array) -> Array:
    """Compute `harris` by NumPy."""
    wide = np.pad(image, 2, "edge")
    tall = wide[:-2] + 2 * wide[1:-1] + wide[2:]
    broad = wide[:, :-2] + 2 * wide[:, 1:-1] + wide[:, 2:]
    gx, gy = tall[:, 2:] - tall[:, :-2], broad[2:] - broad[:-2]

    def box(of: Array) -> Any:
        row = of[:-2] + of[1:-1] + of[2:]
        return row[:, :-2] + row[:, 1:-1] + row[:, 2:]

    xx, xy, yy = box(gx * gx), box(gx * gy), box(gy * gy)
    trace = xx + yy
    out: Array = xx * yy - xy * xy - SENSITIVITY * trace * trace
    return out
