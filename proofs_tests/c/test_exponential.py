"""The exponential function of generated C: how far off it is, what it makes of special values, and that it is a loop of
vectors."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

import atl
from lowering import compile as compiled
from lowering.c import helpers
from lowering.c.functions import exponential
from lowering.compiler import find_compiler
from proofs_tests.compilers import has_vectorised_loop, predefined
from proofs_tests.programs.agreement import own_cache

Array = npt.NDArray[Any]

pytestmark = pytest.mark.usefixtures("each_compiler")

BOUND: Final = 1.1
"""In units in the last place, as the C says."""
APART: Final = 251
"""Of so many floats next to each other one is tried; all of them were, and 1.0096 is the most that any is off."""


def exponential_of(x: Array) -> Array:
    """What a kernel computes."""
    n = atl.sizes("n")
    of = atl.tensor("x", n, dtype=str(x.dtype))
    made: Array = compiled(atl.program("exponentials", [of], atl.gen(n, lambda i: atl.exp(of[i]))))(x)
    return made


def floats(low: float, high: float) -> Array:
    """Floats between two of the same sign, evenly over their bits."""
    first, last = sorted(int(np.float32(end).view(np.uint32)) for end in (low, high))
    return np.arange(first, last + 1, APART, dtype=np.uint32).view(np.float32)


def off_by(x: Array) -> float:
    """The most that the exponential of a float is off, in units in the last place; infinite, where that is wrong."""
    found, exact = exponential_of(x).astype(np.float64), np.exp(x.astype(np.float64))
    # Beyond this the nearest float is infinity.
    finite = exact < 2.0**128 - 2.0**103
    unit = np.spacing(np.where(finite, exact, 1.0).astype(np.float32)).astype(np.float64)
    with np.errstate(invalid="ignore"):
        off = np.where(finite, np.abs(found - exact) / unit, np.where(found == np.inf, 0.0, np.inf))
    return float(off.max())


@pytest.mark.sampled
@pytest.mark.parametrize(("low", "high"), [(1e-9, 89.0), (-1e-9, -87.5), (-87.5, -105.0), (0.0, 1e-9)])
def test_a_float_is_within_the_bound(low: float, high: float) -> None:
    assert off_by(floats(low, high)) <= BOUND


def test_a_double_is_within_the_bound() -> None:
    draw = np.random.default_rng(2)
    x = np.concatenate([draw.uniform(-745, 709.7, 1500), draw.standard_normal(1500), draw.uniform(-1e-8, 1e-8, 100)])
    with localcontext() as context:
        context.prec = 50
        for at, found in zip(x, exponential_of(x), strict=True):
            exact = Decimal(float(at)).exp()
            off = abs(Decimal(float(found)) - exact) / Decimal(float(np.spacing(float(exact))))
            assert off <= Decimal(str(BOUND)), at


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_values_are_what_they_must_be(dtype: str) -> None:
    x = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1e4, -1e4, np.finfo(dtype).max, np.finfo(dtype).min], dtype)
    found = exponential_of(x)
    np.testing.assert_array_equal(found, np.array([1, 1, np.inf, 0, np.nan, np.inf, 0, np.inf, 0], dtype))
    assert found.dtype == dtype
    least, ends = np.finfo(dtype).smallest_subnormal, {"float32": (88.7228, -103.9), "float64": (709.78, -745.1)}[dtype]
    above, below = exponential_of(np.array(ends, dtype))
    assert np.isfinite(above)
    assert above > 0.99 * np.finfo(dtype).max
    assert below == least


@pytest.fixture
def has_fma() -> None:
    if not {"__FP_FAST_FMA", "__FMA__", "__ARM_FEATURE_FMA"} & predefined(find_compiler()):
        pytest.skip("without fused multiply-adds the library's function is called")


@pytest.mark.long
def test_a_bound_that_does_not_hold_is_found(has_fma: None, monkeypatch: pytest.MonkeyPatch) -> None:
    right = exponential.EXPONENTIALS["exp_float"]
    faults = (("0.16666518f", "0.1666f"), ("2.1219444e-4f", "2.1219e-4f"), ("0x4b40017f", "0x4b40017d"))
    for before, after in faults:
        assert before in right
        monkeypatch.setitem(helpers._HELPERS, "exp_float", right.replace(before, after))
        with own_cache():
            assert off_by(floats(1e-3, 89.0)) > BOUND


def test_a_loop_of_exponentials_is_one_of_vectors(has_fma: None) -> None:
    compiler, head = find_compiler(), "void f(const T *restrict x, T *restrict y)\n{\n"
    for kind in ("float", "double"):
        code = head.replace("T", kind) + f"    for (int i = 0; i < 4096; i++) y[i] = exp_{kind}(x[i]);\n}}\n"
        assert has_vectorised_loop(f"{helpers.preamble(code)}\n{code}", compiler)
