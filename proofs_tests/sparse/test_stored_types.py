"""Sparse operands and results of types that are only stored, such as float16: entries are added in a wider type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import atl
from atl.core.dtypes import has_arrays
from atl.errors import DtypeError
from rewrites import Session, reschedule
from rewrites.errors import DoesNotApply
from sparse import COO, CSR, SparseTensor, decompress, pack

n, m, k = atl.sizes("n m k")
TYPES = [dtype for dtype in ("float16", "bfloat16", "int8") if has_arrays(dtype)]
SAMPLED = [pytest.param(dtype, marks=pytest.mark.long if dtype != "float16" else ()) for dtype in TYPES]


def wide(dtype: str, e: atl.Tensor) -> atl.Tensor:
    return atl.cast("int32" if dtype == "int8" else "float32", e)


def elementwise(dtype: str, function: Any) -> Session:
    a, b = (atl.tensor(name, n, m, dtype=dtype) for name in "AB")
    body = atl.gen(n, m, lambda i, j: atl.cast(dtype, function(wide(dtype, a[i, j]), wide(dtype, b[i, j]))))
    return reschedule(atl.program("f", [a, b], body))


def values(dtype: str, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(0, 6, 2))
    drawn = (np.round(rng.normal(size=shape), 1) * 10 * (rng.random(shape) < 0.5) for _ in range(2))
    one, other = (each.astype(np.dtype(dtype)) for each in drawn)
    return one, other


@pytest.mark.parametrize("dtype", SAMPLED)
def test_operands_are_computed_with_in_a_wider_type(dtype: str) -> None:
    a = atl.tensor("A", n, m, dtype=dtype)
    x = atl.tensor("x", m, dtype="int32" if dtype == "int8" else "float32")
    body = atl.gen(n, lambda i: atl.sum(m, lambda j: wide(dtype, a[i, j]) * x[j]))
    product = reschedule(atl.program("product", [a, x], body)).sparsify("A", CSR.sorted())
    kernel = product.compile()
    assert "out[i] =" in kernel.source
    for seed in range(8):
        value, _ = values(dtype, seed)
        vector = np.arange(value.shape[1]).astype(x.dtype)
        np.testing.assert_allclose(kernel(value, vector), value.astype(vector.dtype) @ vector, rtol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("dtype", SAMPLED)
@pytest.mark.parametrize("zeros", [True, False])
def test_results_are_rounded_once(dtype: str, zeros: bool) -> None:
    for function in (lambda a, b: a + b, lambda a, b: a * b):
        s = elementwise(dtype, function).sparsify("A", CSR.sorted()).sparsify("B", CSR.sorted())
        kernel = s.assemble(CSR.sorted(), zeros=zeros).compile()
        for seed in range(8):
            one, other = values(dtype, seed)
            made = kernel(one, other)
            assert isinstance(made, SparseTensor)
            assert made.values.dtype == one.dtype
            assert zeros or (made.values != 0).all()
            assert decompress(made).tolist() == dense(dtype, function, one, other).tolist()


def dense(dtype: str, function: Any, one: Any, other: Any) -> Any:
    computed = np.int32 if dtype == "int8" else np.float32
    return function(one.astype(computed), other.astype(computed)).astype(one.dtype)


def test_entries_that_are_rounded_to_zero_are_dropped() -> None:
    a = atl.tensor("A", n, m, dtype="float16")
    body = atl.gen(n, m, lambda i, j: atl.cast("float16", wide("float16", a[i, j]) * 0.25))
    s = reschedule(atl.program("quarter", [a], body)).sparsify("A", CSR.sorted())
    value = np.array([[6e-8, 1.0], [0.0, 6e-8]], np.float16)
    assert s.assemble(CSR.sorted()).compile()(value).values.tolist() == [0.0, 0.25, 0.0]
    made = s.assemble(CSR.sorted(), zeros=False).compile()(value)
    assert [each.tolist() for each in made.arrays] == [[0, 1, 1], [1], [0.25]]


def test_duplicates_are_added_before_they_are_rounded() -> None:
    a = atl.tensor("A", n, m, dtype="float16")
    s = reschedule(atl.program("same", [a], atl.gen(n, m, lambda i, j: a[i, j]))).sparsify("A", COO)
    crd, each = np.zeros(3, np.int32), np.array([1.0, 0.0004, 0.0004], np.float16)
    made = s.assemble(CSR).compile()(A_crd0=crd, A_crd1=crd, A_val=each, n=1, m=1)
    assert made.values.tolist() == [np.float16(each.astype(np.float32).sum())] != [1.0]


def test_functions_of_repeated_entries_are_refused() -> None:
    a, x = atl.tensor("A", n, m, dtype="float16"), atl.tensor("x", m)
    body = atl.gen(n, lambda i: atl.sum(m, lambda j: wide("float16", a[i, j]) * x[j]))
    with pytest.raises(DoesNotApply, match="still dense") as error:
        reschedule(atl.program("product", [a, x], body)).sparsify("A", CSR)
    assert "try: sparsify('A', CSR.sorted())" in str(error.value)


def test_packed_tensors_of_16_bits_have_their_elements() -> None:
    for dtype in TYPES:
        value, _ = values(dtype, 3)
        assert decompress(pack(value, CSR)).tolist() == value.tolist()


def test_other_uses_of_16_bits_are_refused_by_name() -> None:
    with pytest.raises(DtypeError, match=r"scipy\.sparse has no matrices of float16"):
        pack(np.ones((2, 2), np.float16), CSR).to_scipy()
    s = elementwise("float16", lambda a, b: a * b)
    with pytest.raises(DtypeError, match="the result cannot be stored like A") as error:
        s.sparsify("A", CSR.sorted(), result=True)
    assert "then s.assemble(…)" in str(error.value)


def test_results_of_16_bits_are_packed_where_scipy_has_no_such_type() -> None:
    a = atl.tensor("A", n, m)
    body = atl.gen(n, m, lambda i, j: atl.cast("float16", 2 * a[i, j]))
    s = reschedule(atl.program("twice", [a], body)).sparsify("A", CSR.sorted()).assemble(CSR.sorted())
    made = s.compile()(sp.csr_array(np.eye(2, dtype=np.float32)))
    assert isinstance(made, SparseTensor)
    assert made.values.tolist() == [2.0, 2.0]
