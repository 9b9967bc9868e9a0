"""Products of matrices, and of a matrix and a vector."""

from __future__ import annotations

from typing import Final

import numpy as np

from bench.baselines import halide, loops, shapes
from bench.baselines.c import by_hand
from bench.baselines.libraries import numba, numpy, torch
from bench.comparison import Baseline, Ours, Problem, Roofline, Tuning, Workload, moved, posed
from bench.workloads import programs
from examples import beyond_the_paper, derivations, everyday, fast
from examples.schedules import layers, matmul

BLAS: Final = numpy("NumPy with its BLAS", lambda a, b, out: np.matmul(a, b, out=out))
TORCH: Final = torch("PyTorch", lambda library, a, b, out: library.matmul(a, b, out=out))
BATCH: Final = 4


def _operations(problem: Problem) -> float:
    return 2.0 * problem.size**3


PACKED_SHARED: Final = ("io", "⊞[jo < _] ⊞[p < _] _")
"""Parallel loops of a packed product: over tiles of rows, and over the panels that are packed."""

BASELINES: Final[tuple[Baseline, ...]] = (
    BLAS,
    TORCH,
    halide.PRODUCT,
    halide.PRODUCT_IN_TILES,
    Baseline("C packed", by_hand("product", shapes.PRODUCT)),
)

PRODUCT: Final = Workload(
    "product",
    "a product of n x n matrices, float32",
    (512, 1021, 1024, 2048, 4096),
    posed(np.matmul, lambda n: ((n, n),) * 3, terms=lambda n: n),
    (
        Ours(fast.product_by_panels, parallel=("jo",)),
        Ours(fast.product_blocked, parallel=("io", "⊞[jo < _] ⊞[pi < _] _")),
        Ours(fast.product_in_square_tiles, parallel=("io",)),
        Ours(everyday.product_packed, parallel=PACKED_SHARED),
        Ours(derivations.matmul_tiled, {"C": 64}, max_size=1024),
        Ours(derivations.matmul_tiled_with_tails, {"C": 64}, max_size=1024),
        Ours(matmul.naive, max_size=1024),
    ),
    BASELINES,
    Roofline("fma", _operations),
    max_size=16_000,
    quick=512,
    tuned=(
        Tuning(fast.product_by_panels, {"rows": (8, 6, 14), "columns": (32, 16, 64)}),
        Tuning(fast.product_blocked, {"terms": (256, 512), "near": (64, 32, 128)}),
    ),
)

TILES: Final = ((8, 32), (14, 32), (12, 32), (8, 48), (6, 64))

PRODUCT_TILES: Final = Workload(
    "product-tiles",
    "a product of n x n matrices, float32, in tiles of several shapes",
    (512, 1024),
    posed(np.matmul, lambda n: ((n, n),) * 3, terms=lambda n: n),
    tuple(
        Ours(everyday.product_packed, tiles={"rows": rows, "columns": columns}, parallel=PACKED_SHARED)
        for rows, columns in TILES
    ),
    (BLAS,),
    Roofline("fma", _operations),
    max_size=16_000,
)

PRODUCT_FLOAT64: Final = Workload(
    "product-float64",
    "a product of n x n matrices, float64",
    (512, 1024, 2048),
    posed(np.matmul, lambda n: ((n, n),) * 3, terms=lambda n: n, dtype="float64"),
    (Ours(fast.product_in_double, parallel=("jo",)), Ours(programs.product_float64, max_size=1024)),
    BASELINES,
    Roofline("fma", _operations),
    max_size=12_000,
)

BATCHED: Final = Workload(
    "batched",
    f"{BATCH} products of n x n matrices",
    (256,),
    posed(np.matmul, lambda n: ((BATCH, n, n),) * 3, terms=lambda n: n),
    (
        Ours(fast.batched_product_by_panels, parallel=("b",)),
        Ours(beyond_the_paper.batched_product_blocked),
        Ours(beyond_the_paper.batched_product_one_row),
        Ours(beyond_the_paper.batched_product_flat, max_size=512),
        Ours(layers.batched_product, max_size=512),
    ),
    (BLAS, TORCH),
    Roofline("fma", lambda problem: BATCH * _operations(problem)),
    max_size=8_000,
)

MATRIX_VECTOR: Final = Workload(
    "matrix-vector",
    "an n x n matrix times a vector",
    (1000, 4000),
    posed(np.matmul, lambda n: ((n, n), (n,), (n,)), terms=lambda n: n),
    (Ours(fast.matrix_vector_by_rows, parallel=("io",)), Ours(programs.matrix_vector)),
    (
        BLAS,
        torch("PyTorch", lambda library, a, x, out: library.mv(a, x, out=out)),
        Baseline("C four rows at a time", by_hand("applied", shapes.MATRIX_VECTOR)),
        numba("numba", loops.matrix_vector),
    ),
    Roofline("read", moved),
    max_size=40_000,
    quick=1000,
)

WORKLOADS: Final = (PRODUCT, PRODUCT_TILES, PRODUCT_FLOAT64, BATCHED, MATRIX_VECTOR)
