"""Maxima and minima over a loop in C: agreement with NumPy, NaN of either sign, and vectorised loops.

A long fold of floats compares *keys* instead: integers in the same order as the floats, with NaN at the end.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

import atl
from atl.core.terms import Monoid
from lowering import compile as compiled
from lowering import lower, print_c
from lowering.c import helpers
from lowering.c_compiler import find_compiler
from proofs_tests.compilers import has_vectorised_loop, predefined
from proofs_tests.programs.agreement import own_cache
from rewrites import reschedule

Array = npt.NDArray[Any]
FLOATS: Final = ("float32", "float64")
KINDS: Final[tuple[Monoid, ...]] = ("max", "min")

n, m = atl.sizes("n m")

pytestmark = [pytest.mark.sampled, pytest.mark.usefixtures("each_compiler")]


def folded(kind: Monoid, dtype: str, mark: str | None = None) -> atl.Program:
    x = atl.tensor("x", n, m, dtype=dtype)
    made = atl.program("folded", [x], atl.gen(n, lambda i: atl.reduce(kind, m, lambda j: x[i, j])))
    return reschedule(made).mark("j", mark).goal


def numbers(dtype: str, count: int) -> Array:
    """Return rows of ordinary and special numbers, some with NaN of either sign."""
    draw = np.random.default_rng(count)
    tiny, top = np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max
    special = np.array([0, -0.0, tiny, -tiny, top, -top, np.inf, -np.inf, 1, -1], dtype)
    rows = [draw.standard_normal((8, count)).astype(dtype), draw.choice(special, (40, count))]
    rows += [np.full((1, count), value, dtype) for value in (np.inf, -np.inf, -1)]
    held = np.concatenate(rows)
    for at, row in enumerate(held[::2]):
        row[draw.integers(count, size=at % 3)] = np.copysign(np.array(np.nan, dtype), (-1.0) ** at)
    return held


def wanted(kind: Monoid, x: Array) -> Array:
    out: Array = x.max(axis=1) if kind == "max" else x.min(axis=1)
    return out


@pytest.mark.thinned(11)
@pytest.mark.parametrize("mark", [None, "vector", "parallel"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kind", KINDS)
def test_fold_of_floats_agrees_with_numpy(kind: Monoid, dtype: str, mark: str | None) -> None:
    kernel = compiled(folded(kind, dtype, mark))
    assert "_key" in kernel.source
    for count in (1, 2, 17, 64, 100):
        x = numbers(dtype, count)
        assert np.isnan(wanted(kind, x)).any()
        np.testing.assert_array_equal(kernel(x), wanted(kind, x))


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("max", "a = a == a ? a : NAN;", ""),  # a negative NaN is below all else
        ("min", "a = a == a ? a : -NAN;", "a = a == a ? a : NAN;"),
        ("max", "return key ^ ((key >> 31) & INT32_MAX);", "return key;"),
        ("min", "key ^= (key >> 31) & INT32_MAX;", ""),
    ],
)
def test_fault_in_the_keys_is_found(kind: Monoid, before: str, after: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = 0
    for name in (f"{kind}_key_float", "float_of_key"):
        right = helpers._HELPERS[name]
        planted += before in right
        monkeypatch.setitem(helpers._HELPERS, name, right.replace(before, after))
    assert planted == 1
    x = numbers("float32", 100)
    with own_cache():
        assert not np.array_equal(compiled(folded(kind, "float32"))(x), wanted(kind, x), equal_nan=True)


@pytest.mark.thinned(13)
@pytest.mark.parametrize("mark", [None, "vector"])
@pytest.mark.parametrize("dtype", [*FLOATS, "int32", "int64"])
@pytest.mark.parametrize("kind", KINDS)
def test_fold_is_vectorised(kind: Monoid, dtype: str, mark: str | None) -> None:
    compiler = find_compiler()
    macros = predefined(compiler)
    if dtype.endswith("64") and "__SSE2__" in macros and "__SSE4_2__" not in macros:
        pytest.skip("SSE2 does not compare 64-bit integers in vectors")
    assert has_vectorised_loop(print_c(lower(folded(kind, dtype, mark))), compiler)


def test_folded_term_may_read_other_variables() -> None:
    body = "⊞[i < n] let t := 2 * y[i] in max[j < m] exp(x[i, j] - t)"
    program = atl.parse(f"f (x : float32[n, m], y : float32[n]) : float32[n] :=\n  {body}")
    folding = "greatest_key = max_int32(greatest_key, max_key_float(exp_float(x[i * m + j] - t)));"
    assert folding in print_c(lower(program))


def test_two_parts_of_a_split_fold_have_two_keys() -> None:
    body = "rec[p < n] y from padding(float32[0]) in max[j < n] select(j < p, x[p, j], 1)"
    kernel = compiled(atl.parse(f"f (x : float32[n, n]) : float32[n] :=\n  {body}"))
    assert "greatest_key2 = " in kernel.source
    x = numbers("float32", 20)[:20]
    np.testing.assert_array_equal(kernel(x), np.where(np.tri(20, k=-1) > 0, x, np.float32(1)).max(axis=1))


@pytest.mark.parametrize("body", ["⊞[i < n] max[j < 16] x[i, j]", "⊞[i < n] Σ[j < m | vector] x[i, j]"])
def test_short_folds_and_sums_have_no_keys(body: str) -> None:
    """Compilers unroll a short fold and vectorise the loop around it."""
    text = f"f (x : float32[n, m]) : float32[n]\n    given 16 <= m, 1 <= n :=\n  {body}"
    assert "_key" not in print_c(lower(atl.parse(text)))


CLIPPED: Final = "⊞[r < n] let t | registers := ⊞[c < 20] max(x[r, c], min(y[c], z[r])) in ⊞[c < 20] t[c]"


def clipped(dtype: str) -> atl.Program:
    kind = f"{dtype}[n, 20]"
    return atl.parse(f"clipped (x : {kind}, y : {dtype}[20], z : {dtype}[n]) : {kind} :=\n  {CLIPPED}")


def operands(dtype: str) -> tuple[Array, Array, Array]:
    x = numbers(dtype, 20) if dtype in FLOATS else np.random.default_rng(1).integers(-9, 9, (9, 20)).astype(dtype)
    return x, x[4].copy(), np.resize(x[6], len(x))


def clip(x: Array, y: Array, z: Array) -> Array:
    return np.asarray(np.maximum(x, np.minimum(y, z[:, None])))


@pytest.mark.parametrize("dtype", [*FLOATS, "int32", "int64"])
def test_maxima_and_minima_of_a_register_tile_use_vectors(dtype: str) -> None:
    kernel, given = compiled(clipped(dtype)), operands(dtype)
    assert "= max_vector" in kernel.source
    np.testing.assert_array_equal(kernel(*given), clip(*given))


@pytest.mark.parametrize(
    "fault", [{"b != b": "a != a"}, {"(b > a)": "(b < a)", "_max_ps": "_min_ps"}, {"~of_b": "of_b"}]
)
def test_fault_in_the_maximum_of_vectors_is_found(fault: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, right in helpers._EXTREMES_OF_VECTORS.items():
        if name.startswith("max_") and name.endswith("_float"):
            wrong = right
            for before, after in fault.items():
                assert before in right
                wrong = wrong.replace(before, after)
            monkeypatch.setitem(helpers._EXTREMES_OF_VECTORS, name, wrong)
    given = operands("float32")
    with own_cache():
        assert not np.array_equal(compiled(clipped("float32"))(*given), clip(*given), equal_nan=True)
