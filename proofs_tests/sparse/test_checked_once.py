"""Validation of index arrays: once for immutable packed tensors, in each call for other arrays."""

from __future__ import annotations

import copy
import pickle
import platform
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import atl
import sparse
from atl.errors import ArrayError
from lowering import Kernel, lower
from lowering import compile as compiled
from lowering.c.loops import gathering_flags, gathers, has_fibres
from lowering.c_compiler import find_compiler
from lowering.calls.arguments import validated_indices, view_of_bytes
from lowering.element_checks import ConstraintCheck
from proofs_tests.sparse.matrices import MATRICES
from proofs_tests.sparse.test_kernels import SPMSPM, TTV
from proofs_tests.sparse.test_sparsify import SPMV
from rewrites import reschedule
from sparse.levels import Metadata


def spmv() -> Kernel:
    return compiled(reschedule(SPMV).sparsify("A", sparse.CSR).goal)


def test_each_kernel_validates_a_packed_tensor_once() -> None:
    matrix, vector = MATRICES["no block divides it"](), np.arange(13.0)
    packed, first, second = sparse.pack(matrix, sparse.CSR), spmv(), spmv()
    for kernel in (first, second):
        kernel(packed, vector)  # the shapes are not cached yet
        kernel(packed, vector)
        assert np.array_equal(kernel(packed, vector), matrix @ vector)
    assert len(packed.validation_cache or ()) == 2
    (limits,) = first._limits.values()
    assert asked(first, packed, vector) == asked(first, A=packed, v=vector) == ()
    assert len(asked(first, matrix, vector)) == len(limits.checks) == 1


def asked(kernel: Kernel, *arrays: object, **named: object) -> tuple[ConstraintCheck, ...]:
    """Return the checks of array elements in a call whose shapes are cached."""
    *_, notable = kernel._bind_args(arrays, named)
    (limits,) = kernel._limits.values()
    return limits.checks_except(validated_indices(limits, notable))


def test_packed_indices_are_copied_and_read_only() -> None:
    matrix, vector = MATRICES["int64 indices"](), np.arange(5.0)
    for form in (sparse.CSR, sparse.CSR.with_index_dtype("int64"), sparse.COO, sparse.BCSR, sparse.DIA, sparse.HASH):
        packed = sparse.pack(matrix, form)
        for array in packed.arrays[:-1]:
            assert not np.shares_memory(array, matrix.indices)
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 7
            with pytest.raises(ValueError, match="WRITEABLE"):
                array.flags.writeable = True
    kernel = compiled(reschedule(SPMV).sparsify("A", sparse.CSR.with_index_dtype("int64")).goal)
    packed = sparse.pack(matrix, sparse.CSR.with_index_dtype("int64"))
    expected = matrix @ vector
    matrix.indices[:] = 10**6
    for _ in range(3):
        assert np.array_equal(kernel(packed, vector), expected)


def test_invalid_tensors_are_not_cached_as_valid() -> None:
    matrix, vector = MATRICES["no block divides it"](), np.arange(13.0)
    packed, kernel = sparse.pack(matrix, sparse.CSR), spmv()
    for _ in range(2):
        kernel(packed, vector)
    damaged = matrix.indices.copy()
    damaged[3] = 13
    damaged.flags.writeable = False
    outer, inner = packed.levels
    broken = replace(packed, levels=(outer, Metadata({**inner.arrays, "crd": damaged}, inner.extents, inner.count)))
    for _ in range(3):
        with pytest.raises(ArrayError, match="out of the declared range"):
            kernel(broken, vector)
    assert broken.validation_cache is None  # the owner of the array can make it writeable again


def test_writeable_arrays_are_validated_in_each_call() -> None:
    matrix, vector = MATRICES["no block divides it"](), np.arange(13.0)
    packed, kernel = sparse.pack(matrix, sparse.CSR), spmv()
    outer, inner = packed.levels
    held = {role: array.copy() for role, array in inner.arrays.items()}
    mine = replace(packed, levels=(outer, Metadata(held, inner.extents, inner.count)))
    assert mine.validation_cache is None
    for _ in range(3):
        assert np.array_equal(kernel(mine, vector), matrix @ vector)
    held["crd"][3] = -1
    with pytest.raises(ArrayError, match="out of the declared range"):
        kernel(mine, vector)


def test_views_of_writeable_arrays_are_not_cached() -> None:
    matrix, vector = MATRICES["no block divides it"](), np.arange(13.0)
    packed, kernel = sparse.pack(matrix, sparse.CSR), spmv()
    for _ in range(2):
        kernel(packed, vector)
    for again in (copy.deepcopy(packed), pickle.loads(pickle.dumps(packed))):
        assert again.validation_cache == {}
        for _ in range(3):
            assert np.array_equal(kernel(again, vector), matrix @ vector)
        with pytest.raises(ValueError, match="read-only"):
            again.arrays[1][...] = 7
    outer, inner = packed.levels
    behind = inner.arrays["crd"].copy()
    view = behind.view()
    view.flags.writeable = False
    seen = replace(packed, levels=(outer, Metadata({**inner.arrays, "crd": view}, inner.extents, inner.count)))
    mine = copy.deepcopy(seen)
    for each in (seen, mine):
        assert each.validation_cache is None
        for _ in range(3):
            assert np.array_equal(kernel(each, vector), matrix @ vector)
    behind[3] = 10**6
    with pytest.raises(ArrayError, match="out of the declared range"):
        kernel(seen, vector)
    mine.arrays[1][3] = 10**6
    with pytest.raises(ArrayError, match="out of the declared range"):
        kernel(mine, vector)


def test_cache_is_unaffected_by_later_changes_to_arrays() -> None:
    matrix, vector = MATRICES["no block divides it"](), np.arange(13.0)
    packed, kernel = sparse.pack(matrix, sparse.CSR), spmv()
    for _ in range(3):
        kernel(packed, vector)
    pos: Any = packed.arrays[0]
    crd: Any = packed.arrays[1]
    other = np.full(crd.shape, 10**6, crd.dtype)
    crd.__setstate__((1, crd.shape, crd.dtype, False, other.tobytes()))
    pos.__setstate__((1, (1,), pos.dtype, False, bytes(4)))
    assert np.array_equal(kernel(packed, vector), matrix @ vector)
    # The cache is per kernel; a kernel that has forgotten its valid shapes validates the current arrays.
    for again in (spmv(), kernel):
        again._validated.clear()
        with pytest.raises(ArrayError):
            again(packed, vector)


def test_cache_handles_arrays_at_an_offset() -> None:
    held = np.frombuffer(np.arange(10, dtype=np.int32).tobytes(), np.int32)
    for view in (held, held[3:7], held[2:8].reshape(2, 3), held[:0], held[4:].view(np.int64)):
        own = view_of_bytes(view)
        assert own is not None
        assert np.array_equal(own, view)
        assert own.base is not view
        assert np.shares_memory(own, view) == bool(view.size)
    assert view_of_bytes(held[::2]) is None
    assert view_of_bytes(held.copy()) is None


def test_cache_has_one_record_for_different_other_operands() -> None:
    n, m, k = atl.sizes("n m k")
    left, right = atl.tensor("A", n, m, dtype="float64"), atl.tensor("B", m, k, dtype="float64")
    body = atl.gen(n, k, lambda i, j: atl.sum(m, lambda p: left[i, p] * right[p, j]))
    kernel = compiled(reschedule(atl.program("spmm", [left, right], body)).sparsify("A", sparse.CSR).goal)
    matrix = MATRICES["no block divides it"]()
    packed = sparse.pack(matrix, sparse.CSR)
    assert packed.validation_cache is not None
    noted = []
    for _ in range(3):
        for width in (1, 4):
            assert np.array_equal(kernel(packed, np.ones((13, width))), matrix @ np.ones((13, width)))
            noted.append([*packed.validation_cache.values()])
    assert len(noted[-1]) == 1
    assert noted[-1][0] is noted[2][0]
    assert asked(kernel, packed, np.ones((13, 4))) == ()


@pytest.mark.parametrize("form", [sparse.CSR, sparse.CSC])
def test_cache_distinguishes_shapes_with_equal_entry_counts(form: sparse.Format) -> None:
    kernel = compiled(reschedule(SPMV).sparsify("A", form).goal)
    matrices = [np.eye(rows, columns)[:, ::-1] for rows, columns in ((3, 4), (6, 3), (3, 5), (9, 3), (3, 3))]
    for made in (sparse.pack, lambda dense, form: sparse.to_scipy(sparse.pack(dense, form))):
        operands = [made(dense, form) for dense in matrices]
        for _ in range(4):
            for operand, dense in zip(operands, matrices, strict=True):
                vector = np.arange(1.0, 1 + dense.shape[1])
                assert np.array_equal(kernel(operand, vector), dense @ vector)


def test_packed_values_are_validated_in_each_call() -> None:
    matrix, vector = MATRICES["no block divides it"](), np.arange(13.0)
    values, kernel = matrix.data.copy(), spmv()
    packed = replace(sparse.pack(matrix, sparse.CSR), values=values)
    for _ in range(3):
        kernel(packed, vector)
    values *= 2
    assert np.array_equal(kernel(packed, vector), 2 * (matrix @ vector))
    values.resize(1000, refcheck=False)
    with pytest.raises(ArrayError, match="A_nnz"):
        kernel(packed, vector)
    values.resize(matrix.nnz, refcheck=False)
    values[:] = matrix.data
    assert np.array_equal(kernel(packed, vector), matrix @ vector)


@pytest.mark.long
def test_gather_loops_have_short_vectors() -> None:
    s = reschedule(SPMV)
    assert not gathers(compiled(s.goal).nest)
    for form, wanted in ((sparse.CSR, True), (sparse.CSC, True), (sparse.COO, True), (sparse.HASH, True)):
        assert gathers(compiled(reschedule(SPMV).sparsify("A", form).goal).nest) is wanted
    blocks = reschedule(SPMV).sparsify("A", sparse.BCSR).pad("v").tails(strategy="split")
    assert not gathers(compiled(blocks.goal).nest)  # a block reads adjacent elements


@pytest.mark.long
def test_fibre_sums_are_not_vectorised() -> None:
    of_tensor = lower(reschedule(TTV).sparsify("T", sparse.CSF).goal)
    assert has_fibres(of_tensor)
    assert has_fibres(lower(reschedule(SPMSPM).sparsify("A", sparse.CSR).sparsify("E", sparse.CSR).goal))
    for form in (sparse.CSR, sparse.DCSR, sparse.COO, sparse.HASH):
        assert not has_fibres(lower(reschedule(SPMV).sparsify("A", form).goal))
    found = find_compiler()
    gcc = replace(found, kind="gcc")
    wanted = ("-fno-tree-vectorize",) if platform.machine() in ("x86_64", "AMD64") else ()
    assert gathering_flags(of_tensor, gcc) == wanted


def test_only_gcc_on_x86_gets_the_vector_width_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    nest, found = spmv().nest, find_compiler()
    gcc = replace(found, kind="gcc")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert gathering_flags(nest, gcc) == ("-mprefer-vector-width=128",)
    assert gathering_flags(compiled(SPMV).nest, gcc) == ()
    entries = reschedule(SPMV).sparsify("A", sparse.COO)
    assert gathering_flags(lower(entries.goal), gcc) == ("-mprefer-vector-width=128",)
    assert "-falign-loops=64" in gathering_flags(lower(entries.mark("p", "runs").goal), gcc)
    assert gathering_flags(nest, replace(found, kind="clang")) == ()
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert gathering_flags(nest, gcc) == ()
