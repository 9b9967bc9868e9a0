"""Workloads of image processing for which no schedule of the library was made."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from bench.baselines.c import by_hand
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

WORKLOADS: Final = (UNSHARP_MASK,)
