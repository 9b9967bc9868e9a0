"""Workloads of layers for which no schedule of the library was made: only hand schedules of the examples."""

from __future__ import annotations

from typing import Any, Final

from bench.baselines import layers
from bench.baselines.c import by_hand
from bench.baselines.libraries import numpy, torch
from bench.comparison import Baseline, Ours, Roofline, Workload, posed
from examples import fast_layers
from examples.schedules import networks

WIDTH, HIDDEN = 512, 2048
HEADS, HEAD = 8, 64


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

WORKLOADS: Final = (DENSE_GELU, MULTI_HEAD)
