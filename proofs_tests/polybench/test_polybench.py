"""The kernels of PolyBench/C: equal values to plain C loops in every way to run a program, and no more operations."""

from __future__ import annotations

from functools import cache
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import atl
from atl.core.index import value_of
from bench.comparison import Array
from bench.polybench.references import REFERENCES
from examples.polybench import BENCHMARKS, DATA_SETS, Benchmark, Sizes
from lowering import lower
from lowering.nest.interpreter import run
from lowering.nest.loopnest import Allocate, statements
from proofs_tests.polybench.counting import COMPILER, Counter

RELATIVE: Final = 1e-12
"""Largest error of an element, relative to the largest element of the result."""
MORE_OPERATIONS: Final = 1.05
"""Largest number of operations of a kernel, relative to those of plain C."""

NAMES: Final = tuple(BENCHMARKS)

TINY: Final = "TINY"
"""A third of MINI, at which the interpreters take less than a few seconds."""
INTERPRETED: Final = (TINY, pytest.param("MINI", marks=pytest.mark.slow))


@cache
def posed(name: str, data_set: str) -> tuple[Benchmark, Sizes, dict[str, Any], Array]:
    """Return a kernel, the sizes and arguments of a data set, and the results of plain C as one vector."""
    benchmark = BENCHMARKS[name]
    if data_set == TINY:
        sizes = Sizes({size: value // 3 for size, value in benchmark.data_set("MINI").items()})
    else:
        sizes = benchmark.data_set(data_set)
    sizes, arguments = benchmark.call(sizes)
    return benchmark, sizes, arguments, flat(REFERENCES[name].run(arguments, sizes))


@cache
def kernel(name: str) -> atl.Kernel:
    return atl.compile(BENCHMARKS[name].program)


def flat(results: Any) -> Array:
    """Return one or several results as one vector, the results in order."""
    return np.concatenate([np.ravel(each) for each in (results if isinstance(results, tuple) else (results,))])


def check_equal(got: Array, wanted: Array) -> None:
    allowed = RELATIVE * np.abs(wanted).max() if got.dtype.kind == "f" else 0
    np.testing.assert_allclose(got, wanted, rtol=0, atol=allowed, strict=True)


@pytest.mark.sampled
@pytest.mark.parametrize("data_set", DATA_SETS[:2])
@pytest.mark.parametrize("name", NAMES)
def test_kernel_agrees_with_plain_c(name: str, data_set: str) -> None:
    _, _, arguments, wanted = posed(name, data_set)
    check_equal(flat(kernel(name)(**arguments)), wanted)


@pytest.mark.long
@pytest.mark.parametrize("data_set", INTERPRETED)
@pytest.mark.parametrize("name", NAMES)
def test_interpreter_agrees_with_plain_c(name: str, data_set: str) -> None:
    benchmark, _, arguments, wanted = posed(name, data_set)
    check_equal(flat(atl.evaluate(benchmark.program, **arguments)), wanted)


@pytest.mark.long
@pytest.mark.parametrize("data_set", INTERPRETED)
@pytest.mark.parametrize("name", NAMES)
def test_loop_nest_agrees_with_plain_c(name: str, data_set: str) -> None:
    benchmark, sizes, arguments, wanted = posed(name, data_set)
    arrays = {each.name: arguments[each.name] for each in benchmark.program.inputs}
    check_equal(flat(run(kernel(name).nest, sizes, arrays)), wanted)


@pytest.mark.long
@pytest.mark.skipif(COMPILER is None, reason="g++ is not installed")
@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", NAMES)
def test_kernel_has_no_more_operations_than_plain_c(name: str, tmp_path: Path) -> None:
    benchmark, sizes, arguments, wanted = posed(name, "SMALL")
    dtype, nest, reference = benchmark.program.dtype, kernel(name).nest, REFERENCES[name]
    plain = Counter(reference.source, reference.function, dtype, tmp_path)
    values = reference.values(arguments, sizes)
    plain.call(*values.values())
    check_equal(flat(tuple(values[each] for each in reference.results)), wanted)

    ours = Counter(kernel(name).source, nest.name, dtype, tmp_path)
    inputs = [arguments[each.name] if each.shape else arguments[each.name].item() for each in nest.inputs]
    out = np.empty(len(wanted), dtype)
    ours.call(*inputs, *(sizes[size] for size in nest.sizes), out)
    check_equal(out, wanted)
    assert 0 < ours.operations <= MORE_OPERATIONS * plain.operations


STATES: Final = {
    "adi": (0, 2),  # the other two arrays are the results of the passes along columns and rows
    "fdtd-2d": (1, 1),
    "floyd-warshall": (0, 0),
    "gramschmidt": (1, 1),
    "heat-3d": (2, 2),
    "jacobi-1d": (1, 2),  # the other array is the state between two steps
    "jacobi-2d": (1, 2),
    "seidel-2d": (0, 0),
}
"""The number of states of its iteration that a kernel keeps outside of the result, and of arrays that it allocates.

An array counts as its size relative to that of a state.
"""
FOR_VECTORS: Final = 0.15
"""Size of the vectors that a kernel allocates, at most, relative to the size of a state."""


@pytest.mark.long
@pytest.mark.parametrize("name", STATES)
def test_iteration_keeps_few_states(name: str) -> None:
    sizes = BENCHMARKS[name].data_set("SMALL")
    rows, arrays = STATES[name]
    allocated = [each for each in statements(lower(BENCHMARKS[name].program).body) if isinstance(each, Allocate)]
    sized = lambda leaf: sizes[getattr(leaf, "name", "")]  # noqa: E731
    elements = [value_of(each.capacity, sized, lambda *_: 0) for each in allocated]
    kept = [(each.buffer.rows, count) for each, count in zip(allocated, elements, strict=True) if each.buffer.rows]
    assert [number for number, _ in kept] == ([rows] if rows else [])
    result = prod(value_of(extent, sized, lambda *_: 0) for extent in BENCHMARKS[name].program.shape)
    state = kept[0][1] / rows if rows else result
    assert sum(elements) / state <= arrays + FOR_VECTORS
