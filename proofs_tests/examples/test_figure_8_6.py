"""The corrected programs of Fig. 8.6: operators, padding, obligations, and agreement with NumPy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import padtypes
from atl import Program
from atl.core.index import value_at
from atl.core.terms import Concat, Flatten, Gen, Reshape, Split, Transpose, TruncateLeft, TruncateRight
from atl.core.traversal import children
from examples.schedules import blur, convolution, matmul, tensor_addition
from lowering import compile as compile_kernel
from lowering import lower
from lowering.nest.interpreter import run
from lowering.nest.obligations import report

pytestmark = pytest.mark.sampled

Array = npt.NDArray[Any]

PROGRAMS: dict[str, tuple[Callable[[], Program], str]] = {
    # name: (program, gens concats truncations transposes flattens splits)
    "gather": (convolution.gather, "3 0 0 0 0 0"),
    "scatter": (convolution.scatter, "3 0 0 0 0 0"),
    "im2col conv": (convolution.direct, "3 0 0 0 0 0"),
    "im2col mat": (convolution.im2col, "7 0 0 0 0 0"),
    "matmul": (matmul.naive, "2 0 0 0 0 0"),
    "tiled matmul": (matmul.tiled, "4 0 2 1 2 0"),
    "tiled+tails matmul": (matmul.tiled_with_tails, "10 2 2 1 2 0"),
    "two-stage blur": (blur.two_stage, "4 0 0 0 0 0"),
    "fused blur": (blur.fused, "2 0 0 0 0 0"),
    "fused+tails blur": (blur.fused_with_tails, "8 4 0 0 0 0"),
    # Fig. 8.6 has 21 6 3 7 3 0. Fig. 8.2 does not show the last row of tiles. Ours covers the whole width by a staged
    # buffer and its use (5 gens instead of 2), and needs no truncation and flattening of its own.
    "tiled+tails+staged blur": (blur.tiled_staged_with_tails, "24 6 2 7 2 0"),
    "tensor add": (tensor_addition.nested, "4 0 0 0 0 0"),
    "split tensor add": (tensor_addition.flat, "1 0 0 0 0 3"),
}


def operators(program: Program) -> str:
    """Count each operator of Fig. 8.6, without sums."""
    found: Counter[str] = Counter()
    stack = [program.body]
    while stack:
        term = stack.pop()
        match term:
            case Gen() | Concat():
                found[type(term).__name__] += 1
            case Reshape(TruncateLeft() | TruncateRight()):
                found["Truncate"] += 1
            case Reshape(Transpose() | Flatten() | Split() as operator):
                found[type(operator).__name__] += 1
            case _:
                pass
        stack.extend(child.expr for child in children(term))
    return " ".join(str(found[name]) for name in ("Gen", "Concat", "Truncate", "Transpose", "Flatten", "Split"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_operators_are_counted_as_in_the_figure(name: str) -> None:
    program, counts = PROGRAMS[name]
    assert operators(program()) == counts


@pytest.mark.parametrize("name", PROGRAMS)
def test_truncations_remove_only_padding(name: str) -> None:
    padtypes.check(PROGRAMS[name][0]())


@pytest.mark.parametrize("name", PROGRAMS)
def test_obligations_of_the_loop_nest_are_proved(name: str) -> None:
    found = report(lower(PROGRAMS[name][0]()))
    assert not found.unproved, str(found)


def sizes(names: str, values: str) -> list[dict[str, int]]:
    """Parse sizes from columns of numbers: sizes("n m", "2 3 / 5 7") is n = 2, m = 3 and n = 5, m = 7."""
    rows = (map(int, row.split()) for row in values.split("/"))
    return [dict(zip(names.split(), row, strict=True)) for row in rows]


SIZES = {
    "conv": sizes("B K C W R", "1 2 1 1 1 / 2 2 3 7 3 / 0 2 1 5 2 / 2 2 2 4 6 / 1 2 2 5 0"),
    "matmul": sizes(
        "M N K C", "4 8 3 4 / 5 7 3 4 / 1 1 1 1 / 0 3 2 2 / 3 0 2 2 / 3 3 0 2 / 13 11 5 3 / 2 3 2 8 / 6 6 2 3"
    ),
    "blur": sizes(
        "n m k_n k_m", "2 2 1 1 / 6 10 2 4 / 7 9 3 4 / 13 11 4 5 / 5 3 8 8 / 12 2 3 3 / 34 34 8 16 / 10 14 4 4"
    ),
    "add": sizes("M N K C", "2 3 4 5 / 1 1 1 1 / 0 2 3 1 / 3 5 2 7"),
}


def integers(*shape: int) -> Array:
    return np.random.default_rng(0).integers(0, 10, shape).astype(np.float32)


def expected_blur(v: Array) -> Array:
    padded = np.pad(v, 1)
    n, m = v.shape
    out = np.zeros_like(v)
    for dy in range(3):
        for dx in range(3):
            out += padded[dy : dy + n, dx : dx + m]
    return out


def expected_convolution(x: Array, w: Array, width: int) -> Array:
    out = np.zeros((x.shape[0], w.shape[0], width), np.float32)
    for p in range(width):
        for r in range(w.shape[2]):
            if p + r < x.shape[2]:
                out[:, :, p] += x[:, :, p + r] @ w[:, :, r].T
    return out


def arguments(program: Program, sizes: dict[str, int]) -> tuple[dict[str, Array], Array]:
    """Return integer-valued inputs of a program at these sizes, and the expected output."""
    given = {array.name: integers(*_extents(array.shape, sizes)) for array in program.inputs}
    match list(given):
        case ["v"]:
            return given, expected_blur(given["v"])
        case ["m1", "m2"]:
            return given, given["m1"] @ given["m2"]
        case ["x", "w"]:
            return given, expected_convolution(given["x"], given["w"], sizes["W"])
        case _:
            return given, given["t1"] + given["t2"]


def _extents(shape: tuple[Any, ...], sizes: dict[str, int]) -> tuple[int, ...]:
    return tuple(value_at(extent, sizes) for extent in shape)


def cases(name: str) -> list[dict[str, int]]:
    kind = "matmul" if "matmul" in name else "blur" if "blur" in name else "add" if "add" in name else "conv"
    return SIZES[kind]


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernel_agrees_with_numpy_at_every_size(name: str) -> None:
    program = PROGRAMS[name][0]()
    kernel = compile_kernel(program)
    for at in cases(name):
        given, expected = arguments(program, at)
        free: dict[str, Any] = {size: at[size] for size in program.free_sizes}
        np.testing.assert_array_equal(kernel(**given, **free), expected, err_msg=str(at))


@pytest.mark.parametrize("name", PROGRAMS)
def test_loop_nest_stores_each_element_once_and_in_bounds(name: str) -> None:
    program = PROGRAMS[name][0]()
    nest = lower(program)
    for at in cases(name)[:4]:
        given, expected = arguments(program, at)
        here = {size: at[size] for size in program.sizes}
        np.testing.assert_array_equal(run(nest, here, given), expected, err_msg=str(at))
