"""Recipes on the workloads of the benchmark: which of them fit, and that each goal computes what its program does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import numpy as np
import pytest

import atl
from atl import Program
from atl.core.index import Size
from atl.core.predicate import holds
from bench.workloads import WORKLOADS
from lowering import Machine
from lowering.timing.inputs import random_inputs
from proofs_tests.recipes.machines import AVX2, TINY
from rewrites import Session, reschedule

RECIPES: Final[dict[str, str]] = {
    "blur": "jam_rows guards_to_bounds",
    "stencil": "guards_to_bounds",
    "transpose": "transpose_in_tiles",
    "addition": "",
    "stencils": "stage_windows guards_to_bounds",
    "gaussian": "elements jam_rows guards_to_bounds",
    "heat": "stage_windows guards_to_bounds",
    "product": "tile_sums guards_to_bounds",
    "product-tiles": "tile_sums guards_to_bounds",
    "product-float64": "tile_sums guards_to_bounds",
    "batched": "tile_sums guards_to_bounds",
    "matrix-vector": "accumulate_rows",
    "conv1d": "tile_sums guards_to_bounds",
    "conv1d-odd": "tile_sums guards_to_bounds",
    "im2col": "inline_copies tile_sums guards_to_bounds",
    "conv2d": "tile_sums guards_to_bounds",
    "softmax": "multiply_by_reciprocals fuse_rows",
    "layer-norm": "multiply_by_reciprocals fuse_rows",
    "attention": "multiply_by_reciprocals fuse_rows tile_sums guards_to_bounds",
    "perceptron": "elements fuse_rows tile_sums guards_to_bounds",
    "mttkrp": "tile_sums guards_to_bounds",
    "triangular": "tile_sums guards_to_bounds",
    "dense-gelu": "fuse_epilogues tile_sums guards_to_bounds",
    "multi-head": "multiply_by_reciprocals fuse_rows tile_sums guards_to_bounds",
    "depthwise": "unroll_taps keep_coefficients guards_to_bounds",
    "batched-matrix-vector": "accumulate_rows",
    "unsharp-mask": "inline_copies jam_rows guards_to_bounds",
    "harris": "inline_copies stage_windows unroll_taps guards_to_bounds",
    "pyramid-level": "split_phases fuse_rows guards_to_bounds",
    "spmm": "accumulate_columns",
    "prefix-sum": "",
    "biquad": "",
    "gru": "",
    "product-backward": "tile_sums guards_to_bounds compute_in_result",
    "convolution-backward": "tile_sums guards_to_bounds compute_in_result",
    "softmax-backward": "multiply_by_reciprocals inline_copies fuse_rows",
    "softmax-recomputing": "multiply_by_reciprocals inline_copies fuse_rows",
    "layer-norm-backward": "elements bind_outside multiply_by_reciprocals inline_copies fuse_rows accumulate_columns "
    "compute_in_result",
    "stencil-backward": "inline_copies guards_to_bounds",
    "embedding-backward": "",
}
"""The recipes that fit each workload, for AVX2."""
SIZES: Final = (1, 5, 17, 33, 40)
"""Sizes below, at and above the tiles."""


@cache
def program_of(name: str) -> Program:
    """Return the program of a workload, without a schedule; a sparse one after `sparsify`."""
    workload = WORKLOADS[name]
    program, _ = workload.ours[0].start(workload.pose(workload.quick or workload.sizes[0]))
    return program


@cache
def optimized(name: str, machine: Machine, size: int | None = None) -> Session:
    """Return a session with the optimized goal of a workload, by the model or for known sizes."""
    program = program_of(name)
    sizes = None if size is None else sizes_for(program, size)
    return reschedule(program).optimize(sizes, machine=machine)


def sizes_for(program: Program, size: int) -> dict[str, int]:
    """Return sizes near a number that satisfy the assumptions: smaller and different ones for more dimensions."""
    most = max(len(array.shape) for array in program.inputs)
    small = size if most < 3 else max(1, size // 3)
    chosen = {name: max(1, small - k % 2) for k, name in enumerate(program.sizes)}
    if not all(_hold(program, chosen)):
        chosen = dict.fromkeys(program.sizes, small)
    while not all(_hold(program, chosen)):
        chosen = {name: value + 1 for name, value in chosen.items()}
    return chosen


def _leaves(sizes: dict[str, int]) -> Any:
    return lambda leaf: sizes[leaf.name] if isinstance(leaf, Size) else 0


def _hold(program: Program, sizes: dict[str, int]) -> list[bool]:
    return [holds(each, _leaves(sizes), lambda _array, _at: 0) for each in program.assumptions]


def check_goal(s: Session, sizes: Sequence[int]) -> None:
    """Compare the compiled goal with the compiled program at these sizes, up to the rounding of float32."""
    program = s.theorem.lhs
    plain, goal = atl.compile(program), s.compile()
    for size in sizes:
        chosen = sizes_for(program, size)
        arrays = random_inputs(program, chosen)
        found, expected = (made(**arrays, **chosen) for made in (goal, plain))
        for one, other in zip(found, expected, strict=True) if program.results else [(found, expected)]:
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.long
@pytest.mark.thinned(1)
@pytest.mark.sampled
@pytest.mark.parametrize("name", RECIPES)
def test_expected_recipes_fit_the_workload(name: str) -> None:
    s = optimized(name, AVX2)
    assert s.report is not None
    assert " ".join(outcome.recipe.name for outcome in s.report.applied) == RECIPES[name]
    assert s.check()
    assert s.theorem.lhs == program_of(name)


def test_every_workload_has_expected_recipes() -> None:
    assert list(RECIPES) == list(WORKLOADS)


@pytest.mark.long
@pytest.mark.sampled
@pytest.mark.thinned(29)
@pytest.mark.parametrize("machine", [AVX2, TINY], ids=["avx2", "tiny"])
@pytest.mark.parametrize("name", RECIPES)
def test_optimized_workload_agrees_with_its_program(name: str, machine: Machine) -> None:
    check_goal(optimized(name, machine), SIZES)


@pytest.mark.long
@pytest.mark.sampled
@pytest.mark.thinned(13)
@pytest.mark.parametrize("name", RECIPES)
def test_workload_optimized_for_known_sizes_agrees_at_others(name: str) -> None:
    # With the caches of this machine, every array is large: sums are blocked, and results are stored past the caches.
    check_goal(optimized(name, TINY, 33), (17, 33, 40))
