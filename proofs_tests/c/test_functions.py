"""Functions of generated C: error bounds, special values, and vectorised loops."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import mpmath
import numpy as np
import numpy.typing as npt
import pytest

import atl
from atl.core.operations import UnaryOp, error_bound
from lowering import compile as compiled
from lowering.c import helpers
from lowering.c_compiler import find_compiler
from proofs_tests.compilers import has_vectorised_loop
from proofs_tests.programs.agreement import own_cache

Array = npt.NDArray[Any]

pytestmark = pytest.mark.usefixtures("each_compiler")

FUNCTIONS: Final[tuple[UnaryOp, ...]] = ("exp", "log", "tanh", "erf", "sin", "cos", "log1p", "expm1")
IN_C: Final = ("exp", "log", "tanh")
"""Functions of doubles that are written in C."""
STEP: Final = 251
"""Distance between tested floats."""
INF: Final = np.inf
FloatType: TypeAlias = Literal["float32", "float64"]


def computed(function: str, x: Array) -> Array:
    n = atl.sizes("n")
    of = atl.tensor("x", n, dtype=str(x.dtype))
    made: Array = compiled(atl.program(function, [of], atl.gen(n, lambda i: getattr(atl, function)(of[i]))))(x)
    return made


def bound(function: UnaryOp, dtype: FloatType = "float32") -> float:
    """Return the bound on the error for the processor of the compiler, in units in the last place."""
    return error_bound(function, dtype, fma=find_compiler().fma)


def floats(low: float, high: float) -> Array:
    """Return floats between two of the same sign, evenly spaced over their bits."""
    first, last = sorted(int(np.float32(end).view(np.uint32)) for end in (low, high))
    return np.arange(first, last + 1, STEP, dtype=np.uint32).view(np.float32)


def largest_error(function: str, x: Array) -> float:
    """Return the largest error of a function of floats, in units in the last place; infinity for a wrong infinity."""
    library = np.vectorize(math.erf) if function == "erf" else getattr(np, function)
    found, exact = computed(function, x).astype(np.float64), library(x.astype(np.float64))
    # Beyond this the nearest float is infinity.
    finite = np.abs(exact) < 2.0**128 - 2.0**103
    unit = np.spacing(np.where(finite, np.abs(exact), 1.0).astype(np.float32)).astype(np.float64)
    with np.errstate(invalid="ignore"):
        error = np.where(finite, np.abs(found - exact) / unit, np.where(found == np.copysign(INF, exact), 0.0, INF))
    return float(error.max())


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("function", "low", "high"),
    [
        ("exp", 1e-9, 89.0), ("exp", -1e-9, -87.5), ("exp", -87.5, -105.0), ("exp", 0.0, 1e-9),
        ("log", 0.5, 2.0), ("log", 1e-45, 0.5), ("log", 2.0, 3.4e38),
        ("tanh", 0.0, 0.6), ("tanh", 0.5, 12.0), ("tanh", -0.1, -100.0),
        ("erf", 0.0, 1.1), ("erf", 0.9, 5.0), ("erf", -0.1, -100.0),
        ("sin", 0.0, 1.0), ("sin", 0.5, 1e5), ("sin", -1.0, -100.0), ("sin", 1e5, 3.4e38),
        ("log1p", 0.0, 1e-6), ("log1p", -1e-9, -0.99), ("log1p", 1e-6, 3.4e38),
        ("expm1", 0.0, 1e-6), ("expm1", -1e-9, -100.0), ("expm1", 1e-6, 89.0),
        ("cos", 0.0, 1.0), ("cos", 0.5, 1e5), ("cos", -1.0, -100.0), ("cos", 1e5, 3.4e38),
    ],
)  # fmt: skip
def test_float_is_within_the_bound(function: UnaryOp, low: float, high: float) -> None:
    assert largest_error(function, floats(low, high)) <= bound(function)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_double_is_within_the_bound(function: UnaryOp) -> None:
    draw, tiny = np.random.default_rng(2), 2.0 ** -np.arange(2, 60)
    x = np.concatenate([draw.uniform(-700, 700, 700), draw.standard_normal(1500), 1 + draw.uniform(-1e-3, 1e-3, 300)])
    x = np.concatenate([np.abs(x) if function in ("log", "log1p") else x, tiny * draw.uniform(1, 2, len(tiny))])
    limit = bound(function, "float64")
    with mpmath.workdps(40):
        for at, found in zip(x, computed(function, x), strict=True):
            exact = getattr(mpmath, function)(mpmath.mpf(float(at)))
            assert abs(mpmath.mpf(float(found)) - exact) <= limit * np.spacing(abs(float(exact))), at


def test_documents_have_the_bounds() -> None:
    text = (Path(__file__).parents[2] / "docs" / "kernels.md").read_text(encoding="utf-8")
    for function in FUNCTIONS:
        bounds = [error_bound(function, dtype, fma=fma) for fma in (True, False) for dtype in get_args(FloatType)]
        assert f"| `{function}` | {' | '.join(f'{each:g}' for each in bounds)} |" in text


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_large_arguments_are_computed_under_fast_math(dtype: str) -> None:
    n = atl.sizes("n")
    x = atl.tensor("x", n, dtype=dtype)
    kernel = compiled(atl.program("tanh", [x], atl.gen(n, lambda i: atl.tanh(x[i]))), fast_math=True)
    at = np.array([44.3, 44.5, 100, 1e30, -45, -1e30, 0.1, 19.9, 20.1], dtype)
    np.testing.assert_allclose(kernel(at), np.tanh(at), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("exp", [1, 1, INF, 0, np.nan, INF, 0, INF, 0]),
        ("log", [-INF, -INF, INF, np.nan, np.nan, None, np.nan, None, np.nan]),
        ("tanh", [0, 0, 1, -1, np.nan, 1, -1, 1, -1]),
        ("erf", [0, 0, 1, -1, np.nan, 1, -1, 1, -1]),
        ("sin", [0, 0, np.nan, np.nan, np.nan, None, None, None, None]),
        ("cos", [1, 1, np.nan, np.nan, np.nan, None, None, None, None]),
    ],
)
def test_special_values(function: str, expected: list[float | None], dtype: str) -> None:
    x = np.array([0, -0.0, INF, -INF, np.nan, 1e4, -1e4, np.finfo(dtype).max, np.finfo(dtype).min], dtype)
    with np.errstate(all="ignore"):
        library = x if function == "erf" else getattr(np, function)(x)
    wanted = [at if value is None else value for at, value in zip(library, expected, strict=True)]
    found = computed(function, x)
    np.testing.assert_allclose(found, np.array(wanted, dtype), rtol=1e-6)
    assert found.dtype == dtype


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_results_at_the_ends_of_the_range(dtype: str) -> None:
    least, ends = np.finfo(dtype).smallest_subnormal, {"float32": (88.7228, -103.9), "float64": (709.78, -745.1)}[dtype]
    above, below = computed("exp", np.array(ends, dtype))
    assert np.isfinite(above)
    assert above > 0.99 * np.finfo(dtype).max
    assert below == least
    np.testing.assert_allclose(computed("log", np.array([least], dtype)), np.log([float(least)]), rtol=1e-6)
    assert computed("tanh", np.array([least], dtype)) == least


@pytest.fixture
def has_fma() -> None:
    if not find_compiler().fma:
        pytest.skip("without fused multiply-adds the library's function is called")


@pytest.mark.long
@pytest.mark.parametrize(
    ("function", "before", "after", "low", "high"),
    [
        ("exp", "0.16666518f", "0.1666f", 1e-3, 89.0),
        ("exp", "2.1219444e-4f", "2.1219e-4f", 1e-3, 89.0),
        ("exp", "0x4b40017f", "0x4b40017d", 1e-3, 89.0),
        ("log", "0.3999955f", "0.3998f", 0.5, 2.0),
        ("log", "-2.1219444e-4f", "-2.1218e-4f", 2.0, 1e30),
        ("log", "n - 25.0f", "n - 24.0f", 1e-45, 1e-38),
        ("tanh", "0.13333087f", "0.13332f", 0.1, 0.6),
        ("tanh", "-large", "large", -0.6, -1.0),
        ("erf", "0.11283618f", "0.11283f", 0.1, 1.0),
        ("erf", "-0.63319033f", "-0.63317f", 1.0, 4.0),
        ("erf", "-large", "large", -1.1, -2.0),
    ],
)
def test_wrong_constant_is_found(
    has_fma: None, function: UnaryOp, before: str, after: str, low: float, high: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = helpers._HELPERS[f"{function}_float"]
    assert before in right
    monkeypatch.setitem(helpers._HELPERS, f"{function}_float", right.replace(before, after))
    with own_cache():
        assert largest_error(function, floats(low, high)) > bound(function)


@pytest.mark.parametrize(
    "before", ["0.04166664623058492", "-6.123233995736766e-17", "-8.107164398512609e-17", "number & 2"]
)
def test_wrong_constant_of_sine_is_found(has_fma: None, before: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = helpers._HELPERS["sine_of_sum"]
    assert before in right
    after = "number & 4" if "&" in before else f"({before} * 0.999)"
    monkeypatch.setitem(helpers._HELPERS, "sine_of_sum", right.replace(before, after))
    with own_cache():
        assert largest_error("sin", floats(0.5, 3.4e38)) > bound("sin")


@pytest.mark.parametrize(("function", "kind"), [*product(FUNCTIONS, ["float"]), *product(IN_C, ["double"])])
def test_loop_is_vectorised(has_fma: None, function: str, kind: str) -> None:
    head = "void f(const T *restrict x, T *restrict y)\n{\n".replace("T", kind)
    code = f"{head}    for (int i = 0; i < 4096; i++) y[i] = {function}_{kind}(x[i]);\n}}\n"
    assert has_vectorised_loop(f"{helpers.preamble(code)}\n{code}", find_compiler())
