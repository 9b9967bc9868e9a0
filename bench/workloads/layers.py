"""Workloads of layers for which no schedule of the library was made: only hand schedules of the examples."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from bench.baselines import layers
from bench.baselines.c import by_hand
from bench.baselines.libraries import numpy, torch
from bench.comparison import Array, Baseline, Ours, Roofline, Workload, moved, posed
from examples import fast_layers, flash_attention
from examples.schedules import networks

WIDTH, HIDDEN = 512, 2048
HEADS, HEAD = 8, 64
CHANNELS: Final = 64


def _torch_gelu(library: Any, samples: Any, weights: Any, bias: Any, out: Any) -> Any:
    library.addmm(bias, samples, weights, out=out)
    return library.ops.aten.gelu_(out, approximate="tanh")


DENSE_GELU: Final = Workload(
    "dense-gelu",
    f"a dense layer of n samples, {WIDTH} to {HIDDEN}, with bias and GELU",
    (512,),
    posed(
        networks.numpy_dense_gelu,
        lambda n: ((n, WIDTH), (WIDTH, HIDDEN), (HIDDEN,), (n, HIDDEN)),
        terms=lambda _: WIDTH,
        scales=(1, 4 / WIDTH, 1),
    ),
    (Ours(fast_layers.dense_gelu_by_panels, parallel=("ho",)), Ours(networks.dense_gelu, max_size=512)),
    (
        torch("PyTorch", _torch_gelu),
        numpy("NumPy with its BLAS", lambda x, w, b, _: networks.numpy_dense_gelu(x, w, b), allocates=True),
        Baseline("C packed, GELU in the tile", by_hand("dense_gelu", layers.DENSE_GELU)),
    ),
    Roofline("fma", lambda problem: 2.0 * problem.size * WIDTH * HIDDEN),
    max_size=100_000,
    quick=128,
)


def _torch_attention(library: Any, query: Any, key: Any, value: Any, _: Any) -> Any:
    return library.nn.functional.scaled_dot_product_attention(query[None], key[None], value[None])[0]


MULTI_HEAD: Final = Workload(
    "multi-head",
    f"attention of n queries on n keys with {HEADS} heads of width {HEAD}",
    (512,),
    posed(networks.numpy_multi_head_attention, lambda n: ((HEADS, n, HEAD),) * 4, terms=lambda n: n),
    (
        Ours(fast_layers.multi_head_attention_in_registers, parallel=("b",)),
        Ours(flash_attention.flash_attention_in_registers, parallel=("b",)),
        Ours(networks.multi_head_attention, max_size=1024),
    ),
    (
        torch("PyTorch", _torch_attention, allocates=True),
        numpy("NumPy with its BLAS", lambda q, k, v, _: networks.numpy_multi_head_attention(q, k, v), allocates=True),
        Baseline("C tiles in registers", by_hand("attention", layers.ATTENTION)),
    ),
    Roofline("fma", lambda problem: 4.0 * HEADS * HEAD * problem.size**2),
    max_size=8_000,
    quick=256,
)


def _torch_depthwise(library: Any, image: Any, filters: Any, _: Any) -> Any:
    """Convolve in the layout of channels last, which PyTorch is fastest with."""
    taps = filters.permute(2, 0, 1)[:, None].contiguous(memory_format=library.channels_last)
    made = library.nn.functional.conv2d(image.permute(2, 0, 1)[None], taps, padding=1, groups=image.shape[2])
    return made[0].permute(1, 2, 0)


DEPTHWISE: Final = Workload(
    "depthwise",
    f"a 3 x 3 convolution of each of {CHANNELS} channels of n x n pixels, channels last",
    (56, 112),
    posed(networks.numpy_depthwise, lambda n: ((n, n, CHANNELS), (3, 3, CHANNELS), (n, n, CHANNELS))),
    (Ours(fast_layers.depthwise_in_registers, parallel=("y",)), Ours(networks.depthwise)),
    (
        torch("PyTorch", _torch_depthwise, allocates=True),
        numpy("NumPy", lambda image, filters, _: networks.numpy_depthwise(image, filters), allocates=True),
        Baseline("C sliding window", by_hand("depthwise", layers.DEPTHWISE)),
    ),
    Roofline("copy", moved),
    max_size=4_000,
    quick=112,
)

BATCH: Final = 64


def _numpy_product(matrices: Array, vectors: Array, out: Array) -> object:
    return np.matmul(matrices, vectors[:, :, None], out=out[:, :, None])


MATRIX_VECTORS: Final = Workload(
    "batched-matrix-vector",
    f"{BATCH} matrices of n x n, each times its own vector",
    (128, 512),
    posed(networks.numpy_batched_matrix_vector, lambda n: ((BATCH, n, n), (BATCH, n), (BATCH, n)), terms=lambda n: n),
    (Ours(fast_layers.batched_matrix_vector_by_rows, parallel=("b",)), Ours(networks.batched_matrix_vector)),
    (
        # Three to six times as fast as `bmm` with a column on the right.
        torch("PyTorch", lambda library, a, x, out: library.bmm(x[:, None], a.mT, out=out[:, None])),
        numpy("NumPy with its BLAS", _numpy_product),
        Baseline("C four rows at a time", by_hand("applied", layers.MATRIX_VECTORS)),
    ),
    Roofline("read", moved),
    max_size=8_000,
    quick=128,
)

WORKLOADS: Final = (DENSE_GELU, MULTI_HEAD, DEPTHWISE, MATRIX_VECTORS)
