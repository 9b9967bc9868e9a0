"""What the schedules of `examples.beyond_the_paper` gain: each beside the program that it was derived from, and NumPy.

`python -m bench.schedules` runs the three in turn, many times, and prints ratios of the medians; one thread.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from statistics import median
from typing import Any, Final

import numpy as np

from examples import beyond_the_paper as beyond
from examples import everyday
from examples.schedules import everyday as programs
from examples.schedules.layers import numpy_attention, numpy_batched, numpy_stencils
from lowering import compile as compile_kernel
from rewrites import Session

ROUNDS: Final = 15
PICTURE: Final = ((4000, 4000),)
BATCH: Final = ((4, 256, 256), (4, 256, 256))
SQUARE: Final = ((512, 512), (512, 512))
CUBE: Final = ((64, 128, 128), (128, 32), (128, 32))
FILTERED: Final = ((4000, 4000), (5,))
LAYERS: Final = ((1024, 256), (256, 512), (512,), (512, 64), (64,))
ROWS: Final = ((2000, 1000),)
FIELD: Final = ((200, 200, 200),)
HEAD: Final = ((512, 64), (2048, 64), (2048, 64))
CASES: Final[tuple[tuple[Callable[[], Session], Callable[..., Any], tuple[tuple[int, ...], ...]], ...]] = (
    (beyond.stencils_fused, numpy_stencils, PICTURE),
    (beyond.stencils_by_rows, numpy_stencils, PICTURE),
    (beyond.stencils_tiled, numpy_stencils, PICTURE),
    (beyond.batched_product_one_row, numpy_batched, BATCH),
    (beyond.batched_product_blocked, numpy_batched, BATCH),
    (beyond.attention_by_rows, numpy_attention, HEAD),
    (beyond.attention_in_blocks, numpy_attention, HEAD),
    (everyday.product_packed, programs.numpy_product, SQUARE),
    (everyday.mttkrp_factored, programs.numpy_mttkrp, CUBE),
    (everyday.gaussian_by_strips, programs.numpy_gaussian, FILTERED),
    (everyday.triangular_by_rows, programs.numpy_triangular, SQUARE),
    (everyday.perceptron_in_blocks, programs.numpy_perceptron, LAYERS),
    (everyday.softmax_by_rows, programs.numpy_softmax, ROWS),
    (everyday.two_steps_in_tiles, programs.numpy_two_steps, FIELD),
)


def main() -> None:
    print(f"Python {platform.python_version()} on {platform.machine()}, medians of {ROUNDS} rounds, in turn")
    print(f"{'schedule':28}{'ms':>9}{'start':>9}{'NumPy':>9}{'start / ours':>14}{'NumPy / ours':>14}")
    for derive, numpy_does, shapes in CASES:
        theorem = derive().done()
        numbers = np.random.default_rng(1)
        arrays = [numbers.random(shape, np.float32) for shape in shapes]
        runs: list[Callable[..., Any]] = [compile_kernel(theorem.rhs), compile_kernel(theorem.lhs), numpy_does]
        times: list[list[float]] = [[] for _ in runs]
        for _ in range(ROUNDS):
            for run, taken in zip(runs, times, strict=True):
                start = time.perf_counter()
                run(*arrays)
                taken.append(1e3 * (time.perf_counter() - start))
        ours, naive, rival = map(median, times)
        print(f"{derive.__name__:28}{ours:9.2f}{naive:9.2f}{rival:9.2f}{naive / ours:14.2f}{rival / ours:14.2f}")


if __name__ == "__main__":
    main()
