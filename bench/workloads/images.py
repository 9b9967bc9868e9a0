"""Workloads of image processing for which no schedule of the library was made."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from bench.baselines.c import by_hand
from bench.baselines.images import HARRIS as HARRIS_IN_C
from bench.baselines.images import UNSHARP
from bench.baselines.libraries import numpy, scipy, torch
from bench.comparison import Array, Baseline, Ours, Roofline, Workload, moved, posed
from examples import fast_images
from examples.schedules import images

COPIED: Final = Roofline("copy", moved)


def _scipy_unsharp(image: Array, out: Array) -> object:
    from scipy.ndimage import correlate1d

    taps = np.array(images.BINOMIAL, np.float32)
    blurred = correlate1d(correlate1d(image, taps, 1, mode="nearest"), taps, 0, mode="nearest")
    np.subtract(image, blurred, out=out)
    out *= images.AMOUNT
    out += image
    return out


def _torch_unsharp(library: Any, image: Any, out: Any) -> Any:
    taps, function = library.tensor(images.BINOMIAL), library.nn.functional
    wide = function.pad(image[None, None], (2, 2, 2, 2), mode="replicate")
    blurred = function.conv2d(function.conv2d(wide, taps.view(1, 1, 1, 5)), taps.view(1, 1, 5, 1))[0, 0]
    library.sub(image, blurred, out=out)
    return library.add(image, out, alpha=images.AMOUNT, out=out)


UNSHARP_MASK: Final = Workload(
    "unsharp-mask",
    "an n x n image sharpened by a separable five-tap filter, with a repeated border",
    (500, 2000),
    posed(images.numpy_unsharp_mask, lambda n: ((n, n),) * 2),
    (
        Ours(fast_images.unsharp_mask_by_rows, parallel=("yo",)),
        Ours(fast_images.unsharp_mask_by_ring),
        Ours(fast_images.unsharp_mask_in_strips, parallel=("yo",)),
        Ours(images.unsharp_mask),
    ),
    (
        Baseline("C fused", by_hand("unsharp", UNSHARP)),
        torch("PyTorch", _torch_unsharp),
        scipy("SciPy correlate1d", _scipy_unsharp),
        numpy("NumPy", lambda image, _: images.numpy_unsharp_mask(image), allocates=True),
    ),
    COPIED,
    max_size=30_000,
    quick=500,
)


def _torch_harris(library: Any, image: Any, out: Any) -> Any:
    function = library.nn.functional
    wide = function.pad(image[None, None], (2, 2, 2, 2), mode="replicate")
    across = library.tensor(((-1.0, 0, 1), (-2, 0, 2), (-1, 0, 1)))
    gradients = function.conv2d(wide, library.stack((across, across.T))[:, None])[0]
    gx, gy = gradients
    products = library.stack((gx * gx, gx * gy, gy * gy))
    xx, xy, yy = function.avg_pool2d(products, 3, 1, divisor_override=1)
    trace = xx + yy
    library.sub(xx * yy, xy * xy, out=out)
    return out.sub_(trace.square_(), alpha=images.SENSITIVITY)


def _scipy_harris(image: Array, out: Array) -> object:
    from scipy.ndimage import correlate1d

    wide = np.pad(image, 2, "edge")

    def filtered(of: Array, down: tuple[int, ...], across: tuple[int, ...]) -> Any:
        return correlate1d(correlate1d(of, down, 0), across, 1)[1:-1, 1:-1]

    gx, gy = filtered(wide, (1, 2, 1), (-1, 0, 1)), filtered(wide, (-1, 0, 1), (1, 2, 1))
    xx, xy, yy = (filtered(of, (1, 1, 1), (1, 1, 1)) for of in (gx * gx, gx * gy, gy * gy))
    np.subtract(xx * yy, xy * xy, out=out)
    trace = xx + yy
    out -= images.SENSITIVITY * trace * trace
    return out


HARRIS: Final = Workload(
    "harris",
    "Harris's measure of corners in an n x n image, with a repeated border",
    (1000, 2000),
    posed(images.numpy_harris, lambda n: ((n, n),) * 2, terms=lambda _: 64),
    (Ours(fast_images.harris_in_strips, parallel=("yo",)), Ours(images.harris)),
    (
        Baseline("C rings in strips", by_hand("harris", HARRIS_IN_C)),
        torch("PyTorch", _torch_harris),
        scipy("SciPy correlate1d", _scipy_harris),
        numpy("NumPy", lambda image, _: images.numpy_harris(image), allocates=True),
    ),
    COPIED,
    max_size=30_000,
    quick=1000,
)

WORKLOADS: Final = (UNSHARP_MASK, HARRIS)
