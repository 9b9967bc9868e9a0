"""Schedules of examples/halves.py: 16-bit storage with arithmetic in float32, and products by tensor cores."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from examples import halves
from lowering.gpu import races
from lowering.gpu.gpu_kernel import GpuKernel
from proofs_tests.gpu.shim.run import COMPILER, Shimmed, build
from proofs_tests.instructions.products import expected, kernel_by_warps, operands
from rewrites.session.session import Session

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler: printed kernels are not run here")

Array = npt.NDArray[Any]


def kernel_of(s: Session) -> GpuKernel:
    made = s.compile(target="cuda")
    assert isinstance(made, GpuKernel)
    assert races.report(made.kernels)
    return made


def run(made: GpuKernel, folder: Path, shape: tuple[int, ...], sizes: dict[str, int], **arrays: Array) -> Array:
    return Shimmed(build([made.source], folder), made.nest)(made.program.name, sizes, arrays, shape)


def integers(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype("float16")


def rows(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype("float16")


@pytest.mark.long
def test_grouped_product(tmp_path: Path) -> None:
    made = kernel_of(halves.grouped_product((16, 8, 16), 1))
    a, b = integers(1, 3, 20, 24), integers(2, 3, 24, 16)
    got = run(made, tmp_path, (3, 20, 16), {"g": 3, "n": 20, "k": 24, "m": 16}, A=a, B=b)
    assert np.array_equal(got, a.astype("float32") @ b.astype("float32"))
    assert made.source.count("copy_async(&") == 4


@pytest.mark.long
def test_products_of_attention(tmp_path: Path) -> None:
    made = kernel_of(halves.attention_products((16, 8, 16), 1))
    assert made.source.count("__global__") == 3
    q, k, v = (integers(seed, 2, length, 16) for seed, length in enumerate((20, 24, 24)))
    got = run(made, tmp_path, (2, 20, 16), {"h": 2, "n": 20, "l": 24, "d": 16}, Q=q, K=k, V=v)
    scores = (q.astype("float32") @ k.astype("float32").transpose(0, 2, 1)).astype("float16")
    assert np.array_equal(got, scores.astype("float32") @ v.astype("float32"))


def test_softmax(tmp_path: Path) -> None:
    x = rows(1, 5, 70)
    got = run(kernel_of(halves.softmax()), tmp_path, x.shape, {"n": 5, "m": 70}, x=x)
    powers = np.exp(x.astype("float64") - x.max(1, keepdims=True))
    assert np.allclose(got, powers / powers.sum(1, keepdims=True), rtol=2**-10, atol=2**-24)


@pytest.mark.long
def test_layer_norm(tmp_path: Path) -> None:
    x, scale, bias = rows(1, 5, 70), rows(2, 70), rows(3, 70)
    made = kernel_of(halves.layer_norm())
    got = run(made, tmp_path, x.shape, {"n": 5, "m": 70}, x=x, scale=scale, bias=bias)
    wide = x.astype("float64")
    normal = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    assert np.allclose(got, normal * scale + bias, rtol=2**-10, atol=2**-10)


@pytest.mark.long
@pytest.mark.thinned(13)
@pytest.mark.parametrize(("left", "right"), [("A[i, p]", "B[j, p]"), ("A[p, i]", "B[p, j]"), ("A[p, i]", "B[j, p]")])
def test_transposed_operands_are_stored_ahead(left: str, right: str, tmp_path: Path) -> None:
    made = kernel_by_warps("float16", "float32", "mma_m16n8k16", (16, 8, 16), 1, left, right, 2)
    a, b = operands((24, 16, 40), "float16", left=left, right=right)
    got = run(made, tmp_path, (24, 16), {"n": 24, "m": 16, "k": 40}, A=a, B=b)
    assert np.array_equal(got, expected(a, b, "float32", left=left, right=right))
