"""Workloads on grids: stencils in two and three dimensions, transposition and addition."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from bench.baselines import halide, loops, shapes
from bench.baselines.c import by_hand
from bench.baselines.libraries import numba, numpy, scipy, torch
from bench.comparison import Array, Baseline, Ours, Roofline, Tuning, Workload, moved, posed
from bench.workloads import programs
from examples import beyond_the_paper, derivations, fast
from examples import everyday as schedules
from examples.schedules import anchors, blur, everyday
from examples.schedules.layers import numpy_stencils, stencils

COPIED: Final = Roofline("copy", moved)


def _blurred(v: Array) -> Array:
    wide = np.pad(v, 1)
    rows = wide[:, :-2] + wide[:, 1:-1] + wide[:, 2:]
    out: Array = rows[:-2] + rows[1:-1] + rows[2:]
    return out


def _correlated(v: Array, weights: Any, out: Array) -> object:
    from scipy.ndimage import correlate

    return correlate(v, weights, output=out, mode="constant")


def _around(v: Array) -> Array:
    wide = np.pad(v, 1)
    one, low, high = slice(1, -1), slice(None, -2), slice(2, None)
    sides = wide[low, one, one] + wide[high, one, one] + wide[one, low, one] + wide[one, high, one]
    out: Array = 0.4 * v + 0.1 * (sides + wide[one, one, low] + wide[one, one, high])
    return out


SIDE: Final = [[0, 0, 0], [0, 0.1, 0], [0, 0, 0]]
CROSS: Final = np.array([SIDE, [[0, 0.1, 0], [0.1, 0.4, 0.1], [0, 0.1, 0]], SIDE], np.float32)

BLUR: Final = Workload(
    "blur",
    "3 x 3 sums of an n x n image, with zeros outside",
    (2000, 8000),
    posed(_blurred, lambda n: ((n, n),) * 2),
    (
        Ours(fast.blur_six_rows, parallel=("yo",)),
        Ours(fast.blur_streamed, parallel=("yo",)),
        Ours(fast.blur_by_ring),
        Ours(fast.blur_by_rings_in_strips),
        Ours(fast.blur_in_tiles, parallel=("yo",)),
        Ours(fast.blur_in_two_stages, parallel=("y",)),
        Ours(derivations.blur_fused_with_tails),
        Ours(derivations.blur_fused),
        Ours(derivations.blur_two_stage_with_tails),
        Ours(derivations.blur_tiled_staged_with_tails, {"k_n": 64, "k_m": 64}),
        Ours(blur.two_stage),
    ),
    (
        *halide.BLURS,
        Baseline("C fused", by_hand("blur_fused", shapes.BLUR_FUSED)),
        Baseline("C ring of three rows", by_hand("blur_ring", shapes.BLUR_RING)),
        numba("numba fused", loops.blur),
        scipy("SciPy correlate", lambda v, out: _correlated(v, np.ones((3, 3), np.float32), out)),
    ),
    COPIED,
    max_size=30_000,
    quick=2000,
    tuned=(Tuning(fast.blur_six_rows, {"rows": (6, 4, 2, 8)}),),
)

STENCIL: Final = Workload(
    "stencil",
    "seven-point stencil on n x n x n",
    (200, 320),
    posed(_around, lambda n: ((n, n, n),) * 2),
    (Ours(fast.seven_points_inside, parallel=("x",)), Ours(anchors.seven_points)),
    (
        Baseline("C plain loops", by_hand("stencil", shapes.STENCIL)),
        numba("numba", loops.stencil),
        scipy("SciPy correlate", lambda v, out: _correlated(v, CROSS, out)),
    ),
    COPIED,
    max_size=1_000,
    quick=200,
)

TRANSPOSE: Final = Workload(
    "transpose",
    "the transpose of an n x n matrix",
    (1000, 2048, 4000),
    posed(np.transpose, lambda n: ((n, n),) * 2),
    (Ours(fast.transpose_in_tiles, parallel=("jo",)), Ours(programs.transpose)),
    (
        numpy("NumPy", lambda x, out: np.copyto(out, x.T)),
        torch("PyTorch", lambda _, x, out: out.copy_(x.t())),
        Baseline("C tiles of 16 x 16", by_hand("transposed", shapes.TRANSPOSE)),
        numba("numba tiles of 16 x 16", loops.transpose),
    ),
    COPIED,
    max_size=30_000,
    quick=1000,
)

ADDITION: Final = Workload(
    "addition",
    "the sum of two n x n matrices",
    (2000,),
    posed(np.add, lambda n: ((n, n),) * 3),
    (Ours(anchors.addition), Ours(fast.addition_streamed, parallel=("i",))),
    (
        numpy("NumPy", lambda a, b, out: np.add(a, b, out=out)),
        torch("PyTorch", lambda library, a, b, out: library.add(a, b, out=out)),
        Baseline("C", by_hand("added", shapes.ADDITION)),
        numba("numba", loops.addition),
    ),
    COPIED,
    max_size=30_000,
    quick=2000,
)

LAYERS: Final = Workload(
    "stencils",
    "a five-point stencil of a five-point stencil, n x n",
    (4000,),
    posed(numpy_stencils, lambda n: ((n, n),) * 2, terms=lambda _: 32),
    (
        Ours(beyond_the_paper.stencils_tiled, parallel=("yo",)),
        Ours(beyond_the_paper.stencils_by_rows),
        Ours(beyond_the_paper.stencils_fused),
        Ours(stencils),
    ),
    (numpy("NumPy", lambda v, _: numpy_stencils(v), allocates=True),),
    COPIED,
    max_size=20_000,
)

GAUSSIAN: Final = Workload(
    "gaussian",
    "separable five-tap filter of an n x n image",
    (4000,),
    posed(everyday.numpy_gaussian, lambda n: ((n, n), (5,), (n, n)), terms=lambda _: 32),
    (Ours(schedules.gaussian_by_strips, parallel=("yo",)), Ours(everyday.gaussian)),
    (numpy("NumPy", lambda v, taps, _: everyday.numpy_gaussian(v, taps), allocates=True),),
    COPIED,
    max_size=20_000,
)

HEAT: Final = Workload(
    "heat",
    "two time steps of a seven-point stencil on n x n x n",
    (200,),
    posed(everyday.numpy_two_steps, lambda n: ((n, n, n),) * 2, terms=lambda _: 32),
    (Ours(schedules.two_steps_in_tiles, parallel=("xo",)), Ours(everyday.two_steps)),
    (numpy("NumPy", lambda v, _: everyday.numpy_two_steps(v), allocates=True),),
    COPIED,
    max_size=800,
)

WORKLOADS: Final = (BLUR, STENCIL, TRANSPOSE, ADDITION, LAYERS, GAUSSIAN, HEAT)
