"""A workload of graphs: a sparse matrix times a dense one."""

from __future__ import annotations

import warnings
from typing import Final

import numpy as np

import atl
from bench.baselines.c import VECTORS, built
from bench.baselines.layers import SPMM as SPMM_IN_C
from bench.baselines.libraries import TORCH
from bench.comparison import Array, Baseline, Ours, Problem, Roofline, Workload, numbers, pages_for
from examples import fast_layers
from examples.schedules.networks import WIDE
from lowering import TimedFunction
from sparse import Metadata

ENTRIES: Final = 10
"""Entries of each row."""


def _constant(array: Array) -> Array:
    """Return an immutable copy, whose indices a kernel validates once."""
    return np.frombuffer(array.tobytes(), array.dtype)


def _posed(size: int) -> Problem:
    """Return a square matrix with a few entries at random columns of each row, and a dense one of 32 columns."""
    count = min(ENTRIES, size)
    # One entry in each of `count` ranges of columns: sorted, and without repetition.
    first = np.arange(count) * size // count
    width = (np.arange(count) + 1) * size // count - first
    crd = first + np.random.default_rng(1).integers(0, width, (size, count))
    levels = (
        Metadata({}, (size,), size),
        Metadata(
            {
                "pos": _constant((np.arange(size + 1) * count).astype(np.int32)),
                "crd": _constant(crd.astype(np.int32).ravel()),
            },
            (size,),
            size * count,
        ),
    )
    graph = atl.SparseTensor(atl.CSR, (size, size), levels, numbers((size * count,), seed=2))
    memory, out = pages_for((size, WIDE), "float32")
    return Problem(size, (graph, numbers((size, WIDE), seed=3)), out, _reference, count, memory)


def _reference(graph: atl.SparseTensor, features: Array) -> Array:
    _, crd, values = graph.arrays
    rows = len(features)
    out: Array = np.einsum("ik,ikj->ij", values.reshape(rows, -1).astype(np.float64), features[crd.reshape(rows, -1)])
    return out


def _scipy(problem: Problem, _: int) -> TimedFunction:
    graph, features = problem.inputs
    matrix = atl.to_scipy(graph)
    return lambda: matrix @ features


def _torch(problem: Problem, threads: int) -> TimedFunction:
    import torch

    torch.set_num_threads(threads)
    graph, features = problem.inputs
    arrays = [torch.from_numpy(array.copy()) for array in graph.arrays]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its sparse tensors are a beta version
        matrix = torch.sparse_csr_tensor(*arrays, size=graph.shape)
    dense = torch.from_numpy(features)

    def run() -> object:
        with torch.inference_mode():
            return matrix @ dense

    return run


def _by_hand(problem: Problem, threads: int) -> TimedFunction:
    graph, features = problem.inputs
    declared = "void spmm(const int32_t *, const int32_t *, const float *, const float *, float *, int64_t);"
    function = built((VECTORS + SPMM_IN_C).replace("REAL", "float"), "spmm", declared, threads=threads)
    return function(*graph.arrays, features, problem.out, problem.size)


def _moved(problem: Problem) -> float:
    graph, features = problem.inputs
    return float(sum(array.nbytes for array in graph.arrays) + features.nbytes + problem.out.nbytes)


SPMM: Final = Workload(
    "spmm",
    f"an n x n matrix with {ENTRIES} entries in each row, in the format CSR, times {WIDE} columns",
    (10_000, 100_000),
    _posed,
    (Ours(fast_layers.spmm_in_registers, parallel=("i",)), Ours(fast_layers.spmm_by_entries, parallel=("i",))),
    (
        Baseline("SciPy", _scipy, ("scipy",), allocates=True),
        Baseline("PyTorch", _torch, TORCH, allocates=True),
        Baseline("C rows in registers", _by_hand),
    ),
    Roofline("copy", _moved),
    max_size=1_000_000,
    quick=10_000,
)

WORKLOADS: Final = (SPMM,)
