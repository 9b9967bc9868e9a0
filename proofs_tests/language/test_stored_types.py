"""Element types that are only stored: float16, bfloat16, int8 and uint8."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

import atl
from atl.core import dtypes, terms
from atl.core.dtypes import STORED
from atl.core.operations import BINARY, COMPARISONS, UNARY, accepts
from atl.errors import ArrayError, DtypeError, InvalidArgument, UnsafeAccess
from atl.meaning.scalars import converted
from atl.surface.values import Tensor
from lowering import GpuKernel
from lowering import compile as compile_program
from rewrites import reschedule
from rewrites.errors import DoesNotApply

Array = npt.NDArray[Any]

HALVES: Final = ("float16", "bfloat16")
n, m = atl.sizes("n m", min=1)


@cache
def conversion(source: str, target: str) -> Callable[[Array], Array]:
    x = atl.tensor("x", n, dtype=source)
    compiled: Callable[[Array], Array] = atl.compile(atl.program("convert", [x], atl.cast(target, x)))
    return compiled


def patterns(dtype: str) -> Array:
    """Return all values of a type of 16 bits."""
    return np.arange(1 << 16, dtype=np.uint16).view(dtype)


def assert_same(found: Array, wanted: Array) -> None:
    """Compare bit by bit; NaN equals any NaN."""
    assert found.dtype == wanted.dtype
    bits = f"u{found.dtype.itemsize}"
    both = np.isnan(found.astype(np.float64)) & np.isnan(wanted.astype(np.float64))
    np.testing.assert_array_equal(found.view(bits)[~both], wanted.view(bits)[~both])
    assert bool(np.isnan(found.astype(np.float64))[both].all())


def floats(count: int) -> Array:
    """Return floats of random bits, and some around the smallest numbers of float16."""
    random = np.random.default_rng(16)
    bits = random.integers(0, 1 << 32, count, dtype=np.uint64).astype(np.uint32).view(np.float32)
    return np.concatenate([bits, random.standard_normal(count // 10).astype(np.float32) * np.float32(1e-6)])


# -- conversions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", HALVES)
def test_each_pattern_is_converted_to_the_float_with_its_value(dtype: str) -> None:
    with np.errstate(invalid="ignore"):
        assert_same(conversion(dtype, "float32")(patterns(dtype)), patterns(dtype).astype(np.float32))


@pytest.mark.parametrize("count", [200_000, pytest.param(1_000_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("dtype", HALVES)
def test_floats_are_rounded_as_by_numpy(dtype: str, count: int) -> None:
    with np.errstate(all="ignore"):
        assert_same(conversion("float32", dtype)(floats(count)), floats(count).astype(dtype))


@pytest.mark.parametrize("dtype", HALVES)
def test_doubles_are_rounded_once(dtype: str) -> None:
    """A number next to the middle of two neighbours is a tie only if it is rounded to a float first."""
    with np.errstate(all="ignore"):
        values = patterns(dtype).astype(np.float64)
        middle = (values + np.roll(values, 1)) / 2
        given = np.concatenate([middle, middle * (1 + 2.0**-40), middle * (1 - 2.0**-40), floats(50_000)])
        wanted = converted(given, dtype)
        if dtype == "float16":
            assert_same(wanted, given.astype(np.float16))
        assert_same(conversion("float64", dtype)(given), wanted)
    tie = np.array([1 + 2.0**-8 + 2.0**-40])
    assert float(converted(tie, "bfloat16")[0]) == 1 + 2.0**-7
    assert float(tie.astype("bfloat16")[0]) == 1  # rounded twice


@pytest.mark.parametrize("source", ["int32", "int64", "int8", "uint8"])
@pytest.mark.parametrize("target", STORED)
def test_integers_are_converted_as_by_the_interpreter(source: str, target: str) -> None:
    random, of = np.random.default_rng(8), np.iinfo(source)
    whole = random.integers(of.min, of.max, 500, dtype=source, endpoint=True)
    given = whole >> random.integers(0, of.bits, 500).astype(source)
    program = atl.program("convert", [x := atl.tensor("x", n, dtype=source)], atl.cast(target, x))
    with np.errstate(over="ignore"):
        wanted = np.asarray(atl.evaluate(program, given))
    assert_same(conversion(source, target)(given), wanted)
    assert_same(np.asarray(atl.evaluate_fast(program, given)), wanted)


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", STORED)
def test_arithmetic_is_refused_with_the_cast_to_write(dtype: str) -> None:
    x = atl.tensor("x", n, dtype=dtype)
    wide = "float32" if dtype in HALVES else "int32"
    refused: list[Callable[[], Tensor]] = [
        lambda: x + x, lambda: -x, x.sum, x.max, lambda: atl.maximum(x, x),
    ]  # fmt: skip
    for each in refused:
        with pytest.raises(DtypeError, match=rf"(?s)of {dtype} elements, which are only stored.*atl\.cast\(\"{wide}\""):
            each()
    for op in (*UNARY, *BINARY):
        assert accepts(op, dtype) == (op in COMPARISONS and dtype not in HALVES)


def test_range_of_small_integers_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="an array of int32 or int64"):
        atl.tensor("k", n, dtype="int8", range=(0, 3))


def test_arrays_of_another_type_are_refused() -> None:
    program = atl.program("f", [x := atl.tensor("x", n, dtype="float16")], atl.cast("float32", x))
    with pytest.raises(ArrayError, match=r"(?s)float64, not float16.*x\.astype\(np\.float16\)"):
        atl.compile(program)(np.ones(3))


def test_bfloat16_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dtypes, "_HAS_ML_DTYPES", False)
    with pytest.raises(DtypeError, match=r"(?s)needs the package ml_dtypes.*atl-tensor\[half\]"):
        atl.tensor("x", n, dtype="bfloat16")


# -- programs ---------------------------------------------------------------------------------------------------------


def moved(x: Tensor, k: Tensor) -> dict[str, Tensor]:
    """Return programs that move elements without computing with them."""
    return {
        "transpose": atl.transpose(x),
        "pad": atl.padl(1, atl.padr(2, x)),
        "concat": atl.concat(x, x),
        "split": atl.split(3, x),
        "select": atl.gen(n, m, lambda i, j: atl.select(j < 2, x[i, j], 0)),
        "gather": atl.gen(n, lambda i: atl.guard((k[i] >= 0) & (k[i] < m), x[i, k[i]])),
        "let": atl.let(atl.gen(n, m, lambda i, j: x[i, m - 1 - j]), atl.flatten),
        "rec": atl.rec(n, lambda p, y: atl.gen(m, lambda j: atl.select(p >= 1, y[p - 1, m - 1 - j], x[0, j])), of=(m,)),
    }


@pytest.mark.parametrize("dtype", STORED)
def test_elements_are_moved(dtype: str) -> None:
    x, k = atl.tensor("x", n, m, dtype=dtype), atl.tensor("k", n, dtype="int8")
    given = np.arange(12).reshape(4, 3).astype(dtype)
    for name, body in moved(x, k).items():
        inputs = [x, k] if name == "gather" else [x]
        program = atl.program(name, inputs, body)
        assert atl.parse(str(program)) == program
        arrays = [given, np.array([0, 2, -1, 1], np.int8)][: len(inputs)]
        found = atl.compile(program)(*arrays)
        assert_same(found, np.asarray(atl.evaluate(program, *arrays)))
        assert_same(found, np.asarray(atl.evaluate_fast(program, *arrays)))


@pytest.mark.parametrize("dtype", STORED)
def test_scalars_are_passed_by_value(dtype: str) -> None:
    s, y = atl.tensor("s", dtype=dtype), atl.tensor("y", n)
    kernel = atl.compile(atl.program("scale", [s, y], y * atl.cast("float32", s)))
    for given in (3, np.array(3).astype(dtype)):
        assert kernel(given, np.ones(2, np.float32)).tolist() == [3, 3]


def test_exact_evaluation_does_not_round() -> None:
    x = atl.tensor("x", n, dtype="float64")
    program = atl.program("f", [x], atl.cast("float64", atl.cast("bfloat16", x)))
    assert atl.evaluate(program, np.array([1 + 2.0**-20]), exact=True).tolist() == [1 + 2.0**-20]
    assert atl.evaluate(program, np.array([1 + 2.0**-20])).tolist() == [1]


# -- schedules --------------------------------------------------------------------------------------------------------


def product(dtype: str) -> atl.Program:
    wide = "float32" if dtype in HALVES else "int32"
    k = atl.sizes("k")
    a, b = atl.tensor("A", n, k, dtype=dtype), atl.tensor("B", k, m, dtype=dtype)
    return atl.program(
        "matmul", [a, b],
        atl.gen(n, m, lambda i, j: atl.sum(k, lambda p: atl.cast(wide, a[i, p]) * atl.cast(wide, b[p, j]))),
    )  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("dtype", STORED)
def test_optimized_product_converts_each_element_once(dtype: str) -> None:
    s = reschedule(product(dtype)).optimize()
    loops = str(s.goal).split("acc | registers := ")[1].split("in")[0]
    assert "cast" not in loops
    random = np.random.default_rng(3)
    a, b = (random.integers(0, 4, shape).astype(dtype) for shape in ((37, 19), (19, 45)))
    np.testing.assert_array_equal(s.compile()(a, b), a.astype(np.int64) @ b.astype(np.int64))


def test_guards_move_through_conversions() -> None:
    x = atl.tensor("x", n, dtype="float16")
    s = reschedule(atl.program("f", [x], atl.gen(n, lambda i: atl.cast("float32", atl.guard(i < 3, x[i])))))
    s.rw("guard_cast_float32", reverse=True)
    assert "[i < 3] · cast(float32, x[i])" in str(s.goal)


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("dtype", HALVES)
def test_tensors_of_pytorch(dtype: str) -> None:
    import torch

    x = atl.tensor("x", n, m, dtype=dtype)
    given = torch.arange(6.0).reshape(2, 3).to(getattr(torch, dtype))
    found = atl.compile(atl.program("f", [x], atl.transpose(x)))(given)
    assert isinstance(found, torch.Tensor)
    assert torch.equal(found, given.T)


@pytest.mark.long
def test_shared_tiles_hold_stored_elements_and_need_no_guards() -> None:
    s = reschedule(product("float16"))
    s.gpu_map(["i", "j"], [[64, 8], [64, 4]]).stage_registers("p", at="jo").tile("p", 16)
    s.stage_shared("B", at="po").stage_shared("A", at="po")
    goal = " ".join(str(s.goal).split())
    assert "⊞[jii < 4] cast(float32, Ap[pi, iio, iii]) * cast(float32, Bp[pi, jio, jii]) in" in goal
    kernel = compile_program(s.goal, target="cuda")
    assert isinstance(kernel, GpuKernel)
    text = kernel.source
    assert "uint16_t Ap[1024];" in text
    assert "float_from_float16(Ap[" in text


def test_entries_that_may_repeat_are_not_multiplied() -> None:
    a, v = atl.tensor("A", n, m, dtype="float16"), atl.tensor("v", m)
    product = atl.gen(n, lambda i: atl.sum(m, lambda j: atl.cast("float32", a[i, j]) * v[j]))
    with pytest.raises(DoesNotApply, match=r"(?s)at most one entry for each element.*'A', CSR\.sorted\(\)"):
        reschedule(atl.program("spmv", [a, v], product)).sparsify("A", atl.CSR)


@pytest.mark.parametrize("dtype", STORED)
def test_constants_are_stored(dtype: str) -> None:
    x, w = atl.tensor("x", n, dtype=dtype), atl.constant([1, 2, 3], dtype=dtype)
    program = atl.program("f", [x], atl.concat(x, atl.gen(3, lambda i: w[i])))
    assert atl.compile(program)(np.ones(1, dtype)).tolist() == [1, 1, 2, 3]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
def test_schedules_that_store_are_searched(dtype: str) -> None:
    x = atl.tensor("x", n, m)
    program = atl.program("f", [x], atl.cast(dtype, atl.gen(n, m, lambda i, j: x[i, j] * 2)))
    kernel = reschedule(program).optimize(sizes={"n": 20, "m": 30}, seconds=1).compile()
    assert kernel(np.ones((2, 3), np.float32)).tolist() == [[2, 2, 2], [2, 2, 2]]


@pytest.mark.parametrize("dtype", STORED)
def test_indices_are_stored_by_a_cast(dtype: str) -> None:
    """An index with elements of a small type would wrap, so a comparison of such constants would depend on the type."""
    x = atl.tensor("x", n, dtype=dtype)
    with pytest.raises(DtypeError, match=rf'(?s)with {dtype} elements.*atl\.cast\("{dtype}", atl\.value\(i\)\)'):
        atl.gen(n, lambda i: atl.select(i < 2, atl.value(i), x[i]))
    program = atl.program("f", [x], atl.gen(n, lambda i: atl.select(i < 2, x[i], atl.cast(dtype, atl.value(i) + 300))))
    given = np.ones(4, dtype)
    found = atl.compile(program)(given)
    assert_same(found, np.asarray(atl.evaluate(program, given)))
    assert_same(found, np.asarray(atl.evaluate_fast(program, given)))


@pytest.mark.parametrize("constant", [2**31 + 5, 2**32, -(2**31) - 1, 2**60 + 1])
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
def test_constant_indices_wrap_in_c_as_in_the_interpreter(dtype: str, constant: int) -> None:
    x = atl.tensor("x", n, dtype=dtype)
    test = atl.gen(n, lambda i: atl.where(x[i] < atl.value(constant), 1, 2))
    program = atl.program("f", [x], atl.cast("int32", test))
    given = np.array([-3, 0, 7], dtype)
    assert atl.compile(program)(given).tolist() == atl.evaluate(program, given).tolist()


def test_terms_do_not_depend_on_an_optional_package(monkeypatch: pytest.MonkeyPatch) -> None:
    x = atl.tensor("x", n)
    monkeypatch.setattr(dtypes, "_HAS_ML_DTYPES", False)
    assert terms.Cast("bfloat16", x.node).type.dtype == "bfloat16"
    with pytest.raises(DtypeError, match="needs the package ml_dtypes"):
        atl.cast("bfloat16", x)


def test_small_integers_have_the_bounds_of_their_type() -> None:
    y, k = atl.tensor("y", 256), atl.tensor("k", n, dtype="uint8")
    program = atl.program("table", [y, k], atl.gen(n, lambda i: y[k[i]]))
    given = np.array([0, 7, 255], np.uint8)
    assert atl.compile(program)(np.arange(256, dtype=np.float32), given).tolist() == [0, 7, 255]
    short = atl.tensor("y", 255)
    with pytest.raises(UnsafeAccess) as refused:
        atl.check_safe(atl.program("table", [short, k], atl.gen(n, lambda i: short[k[i]])))
    assert "k[0] = 255" in str(refused.value)
