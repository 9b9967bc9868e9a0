"""Sparse operands of programs: accepted values, and no effect on the meaning of the program."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import atl
import sparse
from atl.core.index import bound, size
from atl.core.program import SparseOperand
from atl.errors import ArrayError, ATLError
from atl.meaning.specialise import specialise
from lowering import compile as compiled
from proofs_tests.sparse.matrices import MATRICES, dense
from proofs_tests.sparse.test_sparsify import SPMV
from rewrites import reschedule
from sparse.packing import OperandConverter

pytestmark = pytest.mark.sampled

DERIVED = reschedule(SPMV).sparsify("A", sparse.CSR).goal
(PACKED,) = DERIVED.packed


@pytest.mark.parametrize(
    "change",
    [
        {"name": 3},
        {"shape": ["n"]},
        {"shape": (3,)},
        {"shape": (bound(0),)},
        {"arrays": ["A_pos"]},
        {"arrays": (None,)},
        {"format": None},
        {"unpack": "unpack"},
    ],
)
def test_invalid_sparse_operands_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ATLError, match="a sparse operand"):
        replace(PACKED, **change)


@pytest.mark.parametrize(
    "packed", [(replace(PACKED, arrays=("B_pos",)),), (replace(PACKED, name="A_pos"),), (3,), [PACKED]]
)
def test_operand_must_consist_of_inputs(packed: Any) -> None:
    with pytest.raises(ATLError, match="the program spmv"):
        replace(DERIVED, packed=packed)


def test_program_equality_ignores_sparse_operands() -> None:
    assert replace(DERIVED, packed=()) == DERIVED
    assert hash(replace(DERIVED, packed=())) == hash(DERIVED)
    assert DERIVED.operands == ("A", "v")
    assert replace(DERIVED, packed=()).operands == ("A_pos", "A_crd", "A_val", "v")


@pytest.mark.parametrize("order", [("A_pos", "A_crd", "v", "A_val"), ("A_crd", "A_pos", "A_val", "v")])
def test_unpacking_follows_the_order_of_inputs(order: tuple[str, ...]) -> None:
    inputs = {array.name: array for array in DERIVED.inputs}
    kernel = compiled(replace(DERIVED, inputs=tuple(inputs[name] for name in order)))
    matrix, vector = MATRICES["no block divides it"](), np.arange(13.0)
    for value in (matrix, sparse.pack(matrix, sparse.CSR)):
        for _ in range(3):
            assert np.array_equal(kernel(A=value, v=vector), matrix @ vector)


def test_specialise_and_pickle_keep_sparse_operands() -> None:
    matrix, vector = MATRICES["no block divides it"](), np.arange(13.0)
    for program in (specialise(DERIVED, {"m": 13}), pickle.loads(pickle.dumps(DERIVED))):
        assert np.array_equal(compiled(program)(matrix, vector), matrix @ vector)
        assert np.array_equal(atl.evaluate(program, matrix, vector), matrix @ vector)
    assert specialise(DERIVED, {"m": 13}).packed[0].shape == (size("n"), atl.core.index.constant(13))
    with pytest.raises(ATLError, match="dimension 1 of A has 13 elements, not 12"):
        compiled(specialise(DERIVED, {"m": 12}))(matrix, vector[:12])


def test_size_inferred_from_the_operand_is_not_a_keyword() -> None:
    n, m = atl.sizes("n m")
    whole = atl.tensor("A", n, m, dtype="float64")
    program = atl.program("totals", [whole], atl.gen(m, lambda j: atl.sum(n, lambda i: whole[i, j])))
    derived = reschedule(program).sparsify("A", sparse.CSR).goal
    assert derived.free_sizes == ()
    matrix = MATRICES["no block divides it"]()
    kernel = compiled(derived)
    for _ in range(2):
        assert np.array_equal(kernel(matrix), matrix.sum(axis=0))
    held = {"A_pos": matrix.indptr, "A_crd": matrix.indices, "A_val": matrix.data}
    assert np.array_equal(kernel(m=13, **held), matrix.sum(axis=0))


def test_sparse_operand_fields() -> None:
    assert isinstance(PACKED, SparseOperand)
    assert (PACKED.name, PACKED.arrays, PACKED.format) == ("A", ("A_pos", "A_crd", "A_val"), "CSR")


DAMAGE: dict[str, Callable[[Any], object]] = {
    "coordinate too large": lambda a: a.indices.__setitem__(3, 10**6),
    "coordinate below zero": lambda a: a.indices.__setitem__(3, -1),
    "positions too large": lambda a: a.indptr.__setitem__(5, 10**7),
    "positions below zero": lambda a: a.indptr.__setitem__(5, -7),
    "more entries than stored": lambda a: a.indptr.__setitem__(-1, 10**7),
    "decreasing positions": lambda a: a.indptr.__setitem__(5, 0),
    "too few coordinates": lambda a: setattr(a, "indices", a.indices[:-3]),
    "too few values": lambda a: setattr(a, "data", a.data[:-3]),
    "too few positions": lambda a: setattr(a, "indptr", a.indptr[:-1]),
    "coordinates that are floats": lambda a: setattr(a, "indices", a.indices.astype(float)),
    "coordinates that are a list": lambda a: setattr(a, "indices", a.indices.tolist()),
}
WIDE = np.arange(13.0 * 9).reshape(13, 9) % 4


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("kind", ["csr", "csc", "bsr"])
def test_invalid_matrices_are_not_passed_to_scipy(kind: str, damage: str) -> None:
    """scipy does not validate indices, and would write out of bounds."""
    for form in (sparse.CSR, sparse.CSC, sparse.CSR.with_index_dtype("int64"), sparse.COO, sparse.BITMASK, sparse.BCSR):
        matrix = sp.csr_array(WIDE).asformat(kind)
        DAMAGE[damage](matrix)
        with pytest.raises(ArrayError):
            sparse.pack(matrix, form)


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr", "coo", "dia", "lil"])
@pytest.mark.parametrize("data", [None, np.ones((1, 84)), np.ones(84, np.float16)], ids=["none", "rows", "float16"])
def test_invalid_values_are_refused(kind: str, data: object) -> None:
    for form in (sparse.CSR, sparse.COO, sparse.BCSR, sparse.DIA):
        matrix = sp.csr_array(WIDE).asformat(kind)
        matrix.data = data
        with pytest.raises(ArrayError):
            sparse.pack(matrix, form)


@pytest.mark.parametrize("form", [sparse.CSR, sparse.CSC, sparse.COO, sparse.BITMASK, sparse.HASH, sparse.DIA])
@pytest.mark.parametrize(("axis", "at"), [(0, 10**6), (0, -1), (1, 9), (1, -1)])
def test_coordinates_out_of_bounds_are_refused(form: sparse.Format, axis: int, at: int) -> None:
    matrix = sp.coo_array(WIDE)
    matrix.coords[axis][3] = at
    with pytest.raises(ArrayError, match=f"coordinates along dimension {axis} are out of bounds"):
        sparse.pack(matrix, form)
    short = sp.coo_array(WIDE)
    short.data = short.data[:-3]
    with pytest.raises(ArrayError, match="there are 84 values"):
        sparse.pack(short, form)


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr"])
def test_unused_capacity_is_not_read_as_entries(kind: str) -> None:
    """scipy's own conversion to coordinates leaves some of them uninitialised."""
    for more in ((2, 2), (1, 3), (0, 1), (1, 0)):
        matrix = sp.csr_array(WIDE).asformat(kind)
        for name, count in zip(("indices", "data"), more, strict=True):
            held = getattr(matrix, name)
            setattr(matrix, name, np.concatenate([held, held[:count]]))
        for form in (sparse.CSR, sparse.CSC, sparse.COO, sparse.BITMASK, sparse.BCSR, sparse.HASH):
            assert np.array_equal(sparse.decompress(sparse.pack(matrix, form)), WIDE)


@pytest.mark.parametrize("at", [0, 1, 2])
def test_invalid_coordinate_arrays_are_refused(at: int) -> None:
    matrix = sp.coo_array(WIDE)
    matrix.coords = (matrix.coords[:1], matrix.coords[0], (3, 4))[at]
    with pytest.raises(ArrayError, match="the coordinates of the sparse matrix are invalid"):
        sparse.pack(matrix, sparse.CSR)


def test_inconsistent_lil_and_dia_matrices_are_refused() -> None:
    rows = sp.lil_array(WIDE)
    rows.rows[0] = [10**5]
    rows.data[0] = [1.0]
    diagonals = sp.dia_array(WIDE)
    diagonals.offsets = diagonals.offsets[:-1]
    for matrix in (rows, diagonals):
        for form in (sparse.CSR, sparse.CSC, sparse.COO):
            with pytest.raises(ArrayError):
                sparse.pack(matrix, form)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_diagonals_out_of_bounds_are_dropped(dtype: str) -> None:
    """scipy truncates offsets to 32 bits, and then writes out of bounds."""
    ends = np.iinfo(dtype)
    for outside in (-4, 5, 100, ends.min, ends.max, min(ends.max, 2**32), min(ends.max, 2**32 - 1)):
        matrix = sp.dia_array((np.ones((3, 5)), [-1, 0, 2]), shape=(4, 5))
        matrix.offsets = np.array([outside, 0, 2], dtype)
        for form in (sparse.CSR, sparse.DIA, sparse.COO):
            assert np.array_equal(sparse.decompress(sparse.pack(matrix, form)), np.eye(4, 5) + np.eye(4, 5, 2))
        matrix.offsets[0] = 2
        with pytest.raises(ArrayError, match="the offsets of the sparse matrix are invalid"):
            sparse.pack(matrix, sparse.DIA)


def test_stale_sortedness_flag_of_scipy_is_ignored() -> None:
    matrix = sp.csr_array(WIDE)
    assert matrix.has_canonical_format
    matrix.indices[:2] = matrix.indices[1::-1].copy()
    matrix.data[:2] = matrix.data[1::-1].copy()
    packed = sparse.pack(matrix, sparse.CSR.sorted())
    assert packed.arrays[1][0] < packed.arrays[1][1]
    assert np.array_equal(sparse.decompress(packed), WIDE)
    assert matrix.indices[0] > matrix.indices[1]  # the argument itself is not sorted


@pytest.mark.long
def test_pack_sorts_and_adds_duplicates_only_for_sorted_formats() -> None:
    matrix = sp.coo_array((np.array([1.0, 2.0, 4.0]), ([2, 0, 2], [1, 3, 1])), shape=(3, 4))
    kernel = compiled(reschedule(SPMV).sparsify("A", sparse.COO.sorted()).goal)
    for given in (matrix, sparse.pack(matrix, sparse.COO)):
        packed = sparse.pack(given, sparse.COO.sorted())
        assert [array.tolist() for array in packed.arrays] == [[0, 2], [3, 1], [2.0, 5.0]]
        assert kernel(packed, np.ones(4)).tolist() == [2.0, 0.0, 5.0]
    assert sparse.pack(matrix, sparse.COO).arrays[0].tolist() == [2, 0, 2]


def test_scipy_vectors_and_nested_lists_are_accepted() -> None:
    kernel = compiled(DERIVED)
    with pytest.raises(ArrayError, match="A has 1 dimension, not 2"):
        kernel(sp.csr_array(np.ones(3)), np.ones(3))
    assert sparse.pack(sp.csr_array(np.array([0.0, 4.0])), sparse.VECTOR).arrays[0].tolist() == [1]
    assert kernel([[0.0, 2.0], [1.0, 0.0]], np.array([1.0, 10.0])).tolist() == [20.0, 1.0]


@pytest.mark.parametrize("form", [sparse.CSR, sparse.COO, sparse.CSF, sparse.HASH, sparse.BITMASK], ids=repr)
def test_operands_of_another_rank_are_refused(form: sparse.Format) -> None:
    convert = OperandConverter(form, "A", "float64", 2)
    vectors: list[Any] = [np.ones(3), [1.0, 2.0], sp.coo_array(np.ones(3)), sparse.pack(np.ones(3), sparse.VECTOR)]
    for vector in (*vectors, sparse.pack(np.ones(3), sparse.COO)):
        with pytest.raises(
            ArrayError, match=f"A has 1 dimension, not 2.*[\\s\\S]*a tensor of rank 2, in the format {form}"
        ):
            convert(vector)
    for tensor in (np.ones((2, 3, 4)), sparse.pack(np.ones((2, 3, 4)), sparse.COO)):
        with pytest.raises(ArrayError, match=r"A has 3 dimensions, not 2: its shape is \(2, 3, 4\)"):
            convert(tensor)
    for value in (None, "A", 3.0, [[1.0], [2.0, 3.0]], sp.csr_array):
        with pytest.raises(sparse.NotPackable):
            convert(value)


@pytest.mark.parametrize("value", [[[1.0], [2.0, 3.0]], sp.csr_array, np.ma.masked_array([[1.0]], [[True]])])
def test_ragged_lists_types_and_masked_arrays_are_refused(value: object) -> None:
    with pytest.raises(sparse.NotPackable):
        sparse.pack(value, sparse.CSR)


HELD = {"csr": sparse.CSR, "csc": sparse.CSC, "coo": sparse.COO, "bsr": sparse.BCSR(2, 3), "dia": sparse.DIA}


def held_as(kind: str, matrix: Any) -> Any:
    return matrix.tobsr((2, 3)) if kind == "bsr" else matrix.asformat(kind)


@pytest.mark.parametrize("kind", HELD)
def test_matching_scipy_arrays_are_shared(kind: str) -> None:
    matrix = held_as(kind, sp.csr_array(WIDE[:12]))
    arrays, shape = OperandConverter(HELD[kind], "A", "float64", 2)(matrix)
    assert shape == (12, 9)
    assert np.shares_memory(arrays[-1], matrix.data)
    names = {"coo": ("row", "col"), "dia": ()}.get(kind, ("indptr", "indices"))
    assert all(np.shares_memory(each, getattr(matrix, name)) for each, name in zip(arrays, names, strict=False))
    packed = sparse.pack(matrix, HELD[kind]).arrays
    assert all(np.array_equal(*both) for both in zip(arrays, packed, strict=True))


@pytest.mark.parametrize("kind", HELD)
def test_kernels_on_shared_scipy_arrays(kind: str) -> None:
    kernel = compiled(reschedule(SPMV).sparsify("A", HELD[kind]).goal)
    tried = 0
    for name, made in MATRICES.items():
        matrix: Any = made()
        if kind == "bsr" and (matrix.shape[0] % 2 or matrix.shape[1] % 3):
            continue
        held, v = held_as(kind, matrix), np.arange(1.0, matrix.shape[1] + 1)
        assert np.array_equal(kernel(held, v), dense(matrix) @ v), name
        tried += 1
    assert tried > (3 if kind == "bsr" else 15)


@pytest.mark.parametrize("make", [sp.coo_array, sp.coo_matrix])
def test_call_refuses_coordinates_out_of_bounds(make: Callable[[Any], Any]) -> None:
    kernel = compiled(reschedule(SPMV).sparsify("A", sparse.COO).goal)
    for axis, at in ((0, 13), (0, -1), (1, 9), (1, -1)):
        matrix = make(WIDE)
        (matrix.row, matrix.col)[axis][3] = at
        with pytest.raises(ATLError, match=f"A_crd{axis}"):
            kernel(matrix, np.ones(9))
    short = make(WIDE)
    short.data = short.data[:-3]
    with pytest.raises(ArrayError, match="A_nnz"):
        kernel(short, np.ones(9))


def test_padding_of_diagonals_is_not_read() -> None:
    kernel = compiled(reschedule(SPMV).sparsify("A", sparse.DIA).goal)
    for rows, columns in ((4, 6), (6, 4), (5, 5)):
        for width in (columns, columns - 1):
            matrix = sp.dia_array((np.full((3, width), 7.0), [-2, 0, 3]), shape=(rows, columns))
            for k, offset in enumerate((-2, 0, 3)):
                outside = [j for j in range(width) if not 0 <= j - offset < rows]
                matrix.data[k, outside] = np.nan
            v = np.arange(1.0, columns + 1)
            assert np.array_equal(kernel(matrix, v), matrix @ v)


@pytest.mark.parametrize("outside", [-6, 5, 2**31 - 1, -(2**31)])
def test_call_ignores_a_diagonal_out_of_bounds(outside: int) -> None:
    matrix = sp.dia_array((np.ones((2, 5)), [0, 2]), shape=(6, 5))
    matrix.offsets = np.array([outside, 2], np.int32)
    kernel = compiled(reschedule(SPMV).sparsify("A", sparse.DIA).goal)
    assert np.array_equal(kernel(matrix, np.ones(5)), np.eye(6, 5, 2).sum(1))


def test_other_scipy_formats_are_converted() -> None:
    for kind, form in (("bsr", sparse.BCSR(3, 3)), ("coo", sparse.COO.sorted())):
        matrix = held_as(kind, sp.csr_array(WIDE[:12]))
        arrays, _ = OperandConverter(form, "A", "float64", 2)(matrix)
        assert not np.shares_memory(arrays[0], matrix.row if kind == "coo" else matrix.indptr)
        assert np.array_equal(sparse.decompress(sparse.pack(matrix, form)), WIDE[:12])
    with pytest.raises(ArrayError, match="float32"):
        OperandConverter(sparse.COO, "A", "float64", 2)(sp.coo_array(WIDE.astype(np.float32)))


def test_call_refuses_a_list_of_indices() -> None:
    matrix = sp.csr_array(WIDE)
    matrix.indices = matrix.indices.tolist()
    with pytest.raises(ArrayError, match="indices of the sparse matrix are invalid"):
        compiled(DERIVED)(matrix, np.ones(9))


@pytest.mark.parametrize("offsets", [[0.5, 2.0], [np.nan, 2.0], ["0", "2"]])
def test_call_refuses_non_integer_offsets(offsets: list[object]) -> None:
    matrix = sp.dia_array((np.ones((2, 5)), [0, 2]), shape=(6, 5))
    matrix.offsets = np.array(offsets)
    with pytest.raises(ArrayError, match="offsets of the sparse matrix are invalid"):
        compiled(reschedule(SPMV).sparsify("A", sparse.DIA).goal)(matrix, np.ones(5))


@pytest.mark.parametrize("kind", HELD)
def test_only_indices_of_another_dtype_are_copied(kind: str) -> None:
    matrix = held_as(kind, sp.csr_array(WIDE[:12]))
    for name in ("indptr", "indices", "offsets"):
        if hasattr(matrix, name):
            setattr(matrix, name, getattr(matrix, name).astype(np.int64))
    if kind == "coo":
        matrix.coords = tuple(each.astype(np.int64) for each in matrix.coords)
    (*indices, values), _ = OperandConverter(HELD[kind], "A", "float64", 2)(matrix)
    assert np.shares_memory(values, matrix.data)
    assert {each.dtype for each in indices} == {np.dtype(np.int32)}
    kernel = compiled(reschedule(SPMV).sparsify("A", HELD[kind]).goal)
    assert np.array_equal(kernel(matrix, np.arange(9.0)), WIDE[:12] @ np.arange(9.0))
    if kind != "dia":
        at = matrix.coords[0] if kind == "coo" else matrix.indices
        at[0] = 2**32
        with pytest.raises(ArrayError):  # and not element 0
            kernel(matrix, np.arange(9.0))


def test_index_conversion_sorts_for_a_sorted_format() -> None:
    matrix = sp.csr_array(WIDE)
    matrix.indices[:2], matrix.data[:2] = matrix.indices[1::-1].copy(), matrix.data[1::-1].copy()
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    kernel = compiled(reschedule(SPMV).sparsify("A", sparse.CSR.sorted()).goal)
    assert np.array_equal(kernel(matrix, np.arange(9.0)), WIDE @ np.arange(9.0))
