"""Workloads of neural networks: convolutions, softmax, layer norm, attention, dense layers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from bench.baselines import halide, loops, shapes
from bench.baselines.c import by_hand
from bench.baselines.libraries import numba, numpy, scipy, torch
from bench.comparison import Array, Baseline, Ours, Problem, Roofline, Workload, moved, posed
from examples import beyond_the_paper, derivations, fast
from examples import everyday as schedules
from examples.schedules import anchors, convolution, everyday, layers

B, K, C, R = 4, 64, 64, 5
SQUARE: Final = 3
HEAD: Final = 64

windows = np.lib.stride_tricks.sliding_window_view


def _gathered(x: Array, w: Array) -> Array:
    """Convolve an input that is zero past its end."""
    return _direct(np.pad(x, ((0, 0), (0, 0), (0, R))), w)


def _direct(x: Array, w: Array) -> Array:
    taken = windows(x, R, axis=2)[:, :, : x.shape[2] - R]
    columns = np.ascontiguousarray(taken.transpose(0, 1, 3, 2)).reshape(len(x), C * R, -1)
    out: Array = w.reshape(len(w), -1) @ columns
    return out


def _filtered(x: Array, w: Array) -> Array:
    taken = windows(x, (SQUARE, SQUARE), axis=(2, 3))
    columns = taken.transpose(0, 1, 4, 5, 2, 3).reshape(len(x), C * SQUARE**2, -1)
    out: Array = (w.reshape(len(w), -1) @ columns).reshape(len(x), len(w), *taken.shape[2:4])
    return out


def _softmax_of_scipy(x: Array, _: Array) -> Any:
    from scipy.special import softmax

    return softmax(x, axis=1)


def _torch_conv(library: Any, x: Any, w: Any, out: Any) -> Any:
    """Convolve with padding at both ends, and drop the elements before the first."""
    return library.nn.functional.conv1d(x, w, padding=R - 1)[:, :, R - 1 : R - 1 + out.shape[2]]


def _macs(problem: Problem) -> float:
    return 2.0 * B * C * R * len(problem.inputs[1]) * problem.size


def _one_dimension(name: str, outer: int, size: int, quick: int | None = None) -> Workload:
    """Return the convolution to `outer` channels. The hand-written C exists for 64 only."""
    by_c = (Baseline("C tiles in registers", by_hand("convolution", shapes.CONVOLUTION)),) if outer == K else ()
    return Workload(
        name,
        f"a convolution of n positions, {B} samples, {C} channels to {outer}, {R} taps",
        (size,),
        posed(_gathered, lambda n: ((B, C, n), (outer, C, R), (B, outer, n)), terms=lambda _: C * R),
        (
            Ours(fast.convolution_in_registers, parallel=("n",)),
            Ours(
                fast.convolution_in_registers,
                fixed=lambda n: {"B": B, "C": C, "K": outer, "R": R, "W": n},
                parallel=("n",),
            ),
            Ours(convolution.gather),
            Ours(derivations.scatter_to_gather),
        ),
        (
            torch("PyTorch", _torch_conv, allocates=True),
            numpy("NumPy im2col with its BLAS", lambda x, w, _: _gathered(x, w), allocates=True),
            *by_c,
        ),
        Roofline("fma", _macs),
        max_size=100_000,
        quick=quick,
    )


CONV1D: Final = _one_dimension("conv1d", K, 4096, quick=1024)
CONV1D_ODD: Final = _one_dimension("conv1d-odd", 60, 4093)

IM2COL: Final = Workload(
    "im2col",
    "the same convolution, of an input that contains every window",
    (4096,),
    posed(_direct, lambda n: ((B, C, n + R), (K, C, R), (B, K, n)), terms=lambda _: C * R),
    (
        Ours(fast.windows_in_registers, size_parameters=("W",), parallel=("n",)),
        Ours(derivations.im2col, size_parameters=("W",)),
        Ours(convolution.direct, size_parameters=("W",)),
    ),
    (
        torch("PyTorch", lambda library, x, w, _: library.nn.functional.conv1d(x, w)[:, :, :-1], allocates=True),
        numpy("NumPy im2col with its BLAS", lambda x, w, _: _direct(x, w), allocates=True),
    ),
    Roofline("fma", _macs),
    max_size=100_000,
)

CONV2D: Final = Workload(
    "conv2d",
    f"a convolution to n x n pixels, {C} channels to {K}, {SQUARE} x {SQUARE} taps",
    (56, 224),
    posed(
        _filtered,
        lambda n: ((1, C, n + SQUARE - 1, n + SQUARE - 1), (K, C, SQUARE, SQUARE), (1, K, n, n)),
        terms=lambda _: C * SQUARE**2,
    ),
    (
        Ours(fast.filters_in_registers, size_parameters=("H", "W"), parallel=("y",)),
        Ours(
            fast.filters_in_registers,
            tiles={"channels": 8, "columns": 56},
            size_parameters=("H", "W"),
            parallel=("y",),
        ),
        Ours(fast.filter_windows_in_registers, size_parameters=("H", "W"), parallel=("y",)),
        Ours(anchors.filters, size_parameters=("H", "W"), max_size=64),
    ),
    (
        torch("PyTorch", lambda library, x, w, _: library.nn.functional.conv2d(x, w), allocates=True),
        numpy("NumPy im2col with its BLAS", lambda x, w, _: _filtered(x, w), allocates=True),
        halide.FILTERS,
        Baseline("C tiles in registers", by_hand("filters", shapes.FILTERS)),
    ),
    Roofline("fma", lambda problem: 2.0 * K * C * SQUARE**2 * problem.size**2),
    max_size=2_000,
)

SOFTMAX: Final = Workload(
    "softmax",
    "softmax of n rows of 1000",
    (2000,),
    posed(everyday.numpy_softmax, lambda n: ((n, 1000),) * 2, terms=lambda _: 1000),
    (Ours(schedules.softmax_by_rows, parallel=("i",)), Ours(everyday.softmax)),
    (
        torch("PyTorch", lambda library, x, out: library.softmax(x, 1, out=out)),
        numpy("NumPy", lambda x, _: everyday.numpy_softmax(x), allocates=True),
        scipy("SciPy", _softmax_of_scipy, allocates=True),
    ),
    Roofline("copy", moved),
    max_size=200_000,
    quick=2000,
)

LAYER_NORM: Final = Workload(
    "layer-norm",
    "layer norm of n rows of 1000",
    (2000,),
    posed(layers.numpy_layer_norm, lambda n: ((n, 1000),) * 2, terms=lambda _: 1000),
    (Ours(fast.layer_norm_by_rows, parallel=("i",)), Ours(layers.layer_norm)),
    (
        torch("PyTorch", lambda library, x, _: library.nn.functional.layer_norm(x, (1000,)), allocates=True),
        numpy("NumPy", lambda x, _: layers.numpy_layer_norm(x), allocates=True),
        numba("numba", loops.layer_norm),
        Baseline("C three passes", by_hand("layer_norm", shapes.LAYER_NORM)),
    ),
    Roofline("copy", moved),
    max_size=200_000,
)

ATTENTION: Final = Workload(
    "attention",
    f"one head of attention, n queries of width {HEAD} on 2048 keys",
    (512,),
    posed(layers.numpy_attention, lambda n: ((n, HEAD), (2048, HEAD), (2048, HEAD), (n, HEAD)), terms=lambda _: 2048),
    (
        Ours(fast.attention_in_registers, parallel=("io",)),
        Ours(beyond_the_paper.attention_in_blocks),
        Ours(beyond_the_paper.attention_by_rows),
        Ours(layers.attention),
    ),
    (
        torch(
            "PyTorch",
            lambda library, q, k, v, _: library.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[
                0
            ],
            allocates=True,
        ),
        numpy("NumPy with its BLAS", lambda q, k, v, _: layers.numpy_attention(q, k, v), allocates=True),
    ),
    Roofline("fma", lambda problem: 4.0 * problem.size * 2048 * HEAD),
    max_size=20_000,
)

PERCEPTRON: Final = Workload(
    "perceptron",
    "two layers, 256 to 512 to 64, of n samples",
    (1024,),
    posed(
        everyday.numpy_perceptron,
        lambda n: ((n, 256), (256, 512), (512,), (512, 64), (64,), (n, 64)),
        terms=lambda _: 512,
    ),
    (Ours(schedules.perceptron_in_blocks, parallel=("so",)), Ours(everyday.perceptron)),
    (numpy("NumPy with its BLAS", lambda *arrays: everyday.numpy_perceptron(*arrays[:-1]), allocates=True),),
    Roofline("fma", lambda problem: 2.0 * problem.size * (256 * 512 + 512 * 64)),
    max_size=100_000,
)

MTTKRP: Final = Workload(
    "mttkrp",
    "a cube of n x 128 x 128 times two matrices of rank 32",
    (64,),
    posed(
        everyday.numpy_mttkrp,
        lambda n: ((n, 128, 128), (128, 32), (128, 32), (n, 32)),
        terms=lambda _: 128 * 128,
    ),
    (Ours(schedules.mttkrp_factored, parallel=("i",)), Ours(everyday.mttkrp)),
    (numpy("NumPy", lambda *arrays: everyday.numpy_mttkrp(*arrays[:-1]), allocates=True),),
    Roofline("fma", lambda problem: 2.0 * problem.size * 128 * 128 * 32),
    max_size=4_000,
)

TRIANGULAR: Final = Workload(
    "triangular",
    "a triangular n x n matrix times a full one",
    (512,),
    posed(everyday.numpy_triangular, lambda n: ((n, n),) * 3, terms=lambda n: n),
    (Ours(schedules.triangular_by_rows, parallel=("i",)), Ours(everyday.triangular_product)),
    (numpy("NumPy with its BLAS", lambda a, b, _: everyday.numpy_triangular(a, b), allocates=True),),
    Roofline("fma", lambda problem: float(problem.size**3)),
    max_size=8_000,
)

WORKLOADS: Final = (CONV1D, CONV1D_ODD, IM2COL, CONV2D, SOFTMAX, LAYER_NORM, ATTENTION, PERCEPTRON, MTTKRP, TRIANGULAR)
