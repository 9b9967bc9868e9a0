"""Encoding and decoding in all formats, compared by two independent implementations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import atl
import lowering
import sparse
from proofs_tests.sparse.ellpack import ELL
from proofs_tests.sparse.matrices import FORMATS, MATRICES, dense
from rewrites import reschedule
from sparse import compress, decompress, meaning, pack
from sparse.levels import Compressed, Hashed
from sparse.tensors import encode, entries


@pytest.mark.sampled
@pytest.mark.parametrize("form", FORMATS.values(), ids=repr)
def test_decompression_inverts_compression(form: sparse.Format) -> None:
    """DECOMPRESSCOMPRESS (§7.5.3), by the reference interpreter and by NumPy."""
    program = meaning(form, 2, dtype="float64")
    for name, made in MATRICES.items():
        matrix = made()
        packed = compress(form, matrix)
        assert np.array_equal(decompress(packed), dense(matrix)), name
        assert np.array_equal(atl.evaluate(program, A=packed), dense(matrix)), name


@pytest.mark.parametrize("form", FORMATS.values(), ids=repr)
def test_conversion_between_formats(form: sparse.Format) -> None:
    first = pack(MATRICES["no block divides it"](), form)
    for other in FORMATS.values():
        assert np.array_equal(decompress(pack(first, other)), decompress(first))


def test_formats_for_tensors_of_rank_3() -> None:
    random = np.random.default_rng(4)
    tensor = random.integers(1, 9, (4, 5, 3)) * (random.random((4, 5, 3)) < 0.3) * 1.0
    for form in (sparse.CSF, sparse.COO, sparse.BITMASK, sparse.HASH, sparse.MODE_GENERIC):
        packed = pack(tensor, form)
        assert np.array_equal(decompress(packed), tensor), form
        assert np.array_equal(atl.evaluate(meaning(form, 3, dtype="float64"), A=packed), tensor), form


@pytest.mark.parametrize("form", FORMATS.values(), ids=repr)
def test_conversion_to_scipy(form: sparse.Format) -> None:
    for made in MATRICES.values():
        back = sparse.to_scipy(pack(made(), form))
        assert np.array_equal(back.toarray(), dense(made()))
        rows, columns = made().shape
        blocks = "bsr" if rows % 4 == 0 and columns % 4 == 0 else "coo"
        assert back.format == {"CSR": "csr", "CSC": "csc", "DIA": "dia", "BCSR": blocks}.get(form.name, back.format)


@pytest.mark.parametrize("form", [sparse.CSR, sparse.CSC, sparse.COO, sparse.BCSR, sparse.DIA], ids=repr)
def test_conversion_to_scipy_shares_arrays(form: sparse.Format) -> None:
    packed = pack(MATRICES["blocks divide it"](), form)
    back = sparse.to_scipy(packed)
    assert back.format == {"BCSR": "bsr"}.get(form.name, form.name.lower())
    assert np.shares_memory(back.data, packed.values)


def test_scipy_conversion_sorts_and_sums_duplicates() -> None:
    """Conversion by scipy gives the same arrays as the encoder, for all scipy formats."""
    for name, made in MATRICES.items():
        for kind in ("csr", "csc", "coo", "lil", "dok"):
            value = made().asformat(kind)
            before = value.toarray()
            for form in (sparse.CSR, sparse.CSC):
                found, coordinates = pack(value, form), value.tocoo()
                own = encode(form, value.shape, coordinates.coords, coordinates.data)
                for a, b in zip(found.arrays, own.arrays, strict=True):
                    assert a.tolist() == b.tolist(), (name, kind, form)
            assert np.array_equal(value.toarray(), before)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "float16", "int8", "bool"])
def test_packed_coordinates_convert_like_the_encoder(dtype: str) -> None:
    """scipy's counting sort is used for the dtypes that it supports, and the encoder for the others."""
    for made in MATRICES.values():
        packed = pack(made(), sparse.COO)
        packed = replace(packed, values=packed.values.astype(dtype))
        coordinates, values = entries(packed)
        for form in (sparse.CSR, sparse.CSC.sorted(), sparse.CSR.with_index_dtype("int64")):
            found, own = pack(packed, form), encode(form, packed.shape, coordinates, values)
            assert (found.format, found.shape, found.values.dtype) == (form, packed.shape, values.dtype)
            for a, b in zip(found.arrays, own.arrays, strict=True):
                assert (a.dtype, a.tolist()) == (b.dtype, b.tolist())
            assert found.validation_cache == {}


def test_scipy_arrays_with_unused_capacity_are_packed() -> None:
    matrix = sp.csr_array((np.arange(1.0, 5.0), np.array([1, 0, 1, 9], np.int64), np.array([0, 1, 2])), shape=(2, 2))
    assert [array.tolist() for array in pack(matrix, sparse.CSR).arrays] == [[0, 1, 2], [1, 0], [1.0, 2.0]]


def test_coo_keeps_order_and_duplicates() -> None:
    packed = pack(MATRICES["duplicates"](), sparse.COO)
    assert [array.tolist() for array in packed.arrays] == [[1, 0, 1, 1], [2, 1, 2, 0], [1.0, 2.0, 4.0, 8.0]]


def test_unique_levels_sum_duplicates() -> None:
    packed = pack(MATRICES["duplicates"](), sparse.CSR)
    assert [array.tolist() for array in packed.arrays] == [[0, 1, 3, 3], [1, 0, 2], [2.0, 8.0, 5.0]]


def test_csr_arrays_of_a_small_matrix() -> None:
    matrix = np.array([[6, 0, 9, 8], [0, 0, 0, 0], [5, 0, 0, 7]])
    pos, crd, val = pack(matrix, sparse.CSR).arrays
    assert (pos.tolist(), crd.tolist(), val.tolist()) == ([0, 3, 3, 5], [0, 2, 3, 0, 3], [6, 9, 8, 5, 7])


def refused(error: type[Exception], form: sparse.Format, value: Any) -> str:
    with pytest.raises(error) as caught:
        pack(value, form)
    return str(caught.value)


def test_full_hash_table_error_states_the_required_width() -> None:
    text = refused(sparse.CapacityExceeded, sparse.HASH(3), np.ones((2, 5)))
    assert "5 entries do not fit in a hash table of width 3" in text
    assert "a width of at least 5, the largest number of entries of one parent" in text
    assert "use Hashed(10)" in text


def test_hash_table_may_be_exactly_full() -> None:
    assert np.array_equal(decompress(pack(np.ones((2, 5)), sparse.HASH(5))), np.ones((2, 5)))


def test_hash_collisions_are_resolved() -> None:
    form = sparse.HASH(7, lambda coordinate: 0 * coordinate + 5)
    tensor = np.diag(np.arange(1.0, 8.0)) + np.eye(7, k=1)
    packed = pack(tensor, form)
    assert np.array_equal(decompress(packed), tensor)
    level, m = form.levels_of((7, 7))[1][0], packed.levels[1]
    assert level.well_formed(m)
    assert level.crd_pos(m, 0, (6,)) is None


def test_unsupported_rank_is_refused() -> None:
    text = refused(sparse.FormatError, sparse.CSR, np.zeros(3))
    assert "the format CSR stores 2 dimensions, not 1" in text
    assert "a tensor of rank 3 has no diagonals" in refused(sparse.FormatError, sparse.DIA, np.zeros((1, 2, 3)))
    assert "blocks with 2 dimensions do not fit a tensor of rank 3" in refused(
        sparse.FormatError, sparse.BCSR, np.zeros((1, 2, 3))
    )
    assert "(1, 0) is not a permutation of 3 dimensions" in refused(sparse.FormatError, sparse.CSC, np.zeros((1, 2, 3)))


def test_string_cannot_be_packed() -> None:
    assert "'matrix' (str) cannot be packed as CSR" in refused(sparse.NotPackable, sparse.CSR, "matrix")


def test_index_overflow_error_suggests_int64() -> None:
    wide = sp.coo_array((np.array([1.0]), (np.array([0]), np.array([2**40]))), shape=(2, 2**41))
    text = refused(sparse.FormatError, sparse.CSR, wide)
    assert "does not fit into int32" in text
    assert '.with_index_dtype("int64")' in text
    assert pack(wide, sparse.CSR.with_index_dtype("int64")).arrays[1].tolist() == [2**40]


@pytest.mark.parametrize("by", [(0, 4), (2, -1), (), (2.0, 2)])
def test_invalid_block_shapes_are_refused(by: Any) -> None:
    with pytest.raises(sparse.FormatError, match="a tuple of positive integers"):
        sparse.Blocked(by)


def test_user_defined_format() -> None:
    """A format that has no name: columns of 1 × 4 blocks."""
    view = sparse.Composed(sparse.Permuted((1, 0)), sparse.Blocked((1, 4)))
    form = sparse.Format("by columns of blocks", (Compressed(), Compressed(), sparse.Dense(), sparse.Dense()), view)
    for made in MATRICES.values():
        assert np.array_equal(decompress(pack(made(), form)), dense(made()))


@pytest.mark.parametrize(
    ("levels", "message"),
    [([Compressed()], "a tuple of level formats"), ((Compressed(), "dense"), "a tuple of level formats")],
)
def test_invalid_levels_are_refused(levels: Any, message: str) -> None:
    with pytest.raises(sparse.FormatError, match=message):
        sparse.Format("mine", levels)


def test_format_without_parameters_is_not_callable() -> None:
    with pytest.raises(atl.ATLError, match="the format CSR takes no parameters"):
        sparse.CSR(4)
    assert repr(sparse.BCSR(2, 8)) == "BCSR(2, 8)"
    assert sparse.HASH(4).levels_of((1,))[0][0] == Hashed(4)


def test_level_count_must_match_the_view() -> None:
    rows = sparse.Format("rows of blocks", (sparse.Dense(), Compressed(), sparse.Dense()), sparse.Blocked((1, 4)))
    found = r"stores 3 dimensions, not 4 after applying its view \(the tensor has 2\)"
    with pytest.raises(sparse.FormatError, match=found):
        pack(np.eye(4), rows)


@pytest.mark.parametrize("dimensions", [0, -1, True, "2"])
def test_compressed_level_needs_a_dimension(dimensions: object) -> None:
    with pytest.raises(sparse.FormatError, match="a compressed level with"):
        sparse.Compressed(dimensions)  # type: ignore[arg-type]


def test_hash_function_must_return_integers() -> None:
    with pytest.raises(sparse.FormatError, match="the hash function returns float64"):
        sparse.pack(np.eye(4), sparse.HASH(8, lambda c: c / 2))
    assert np.array_equal(sparse.decompress(sparse.pack(np.eye(4), sparse.HASH(8, lambda _: 5))), np.eye(4))


def test_dense_kernel_refuses_scipy_matrix_with_two_suggestions() -> None:
    n, m = atl.sizes("n m")
    a, v = atl.tensor("A", n, m), atl.tensor("v", m)
    times = atl.program("times", [a, v], atl.gen(n, lambda i: atl.sum(m, lambda j: a[i, j] * v[j])))
    plain, derived = lowering.compile(times), lowering.compile(reschedule(times).sparsify("A", sparse.CSR).goal)
    ones = np.ones(3, dtype=np.float32)
    for matrix in (sp.csr_matrix(np.eye(3, dtype=np.float32)), sp.coo_array(np.eye(3, dtype=np.float32))):
        with pytest.raises(atl.ArgumentError) as refused:
            plain(matrix, ones)
        derive, densify = refused.value.suggestions
        assert 'reschedule(program).sparsify("A", sparse.CSR)' in derive
        assert densify == "pass A.toarray()"
        assert np.array_equal(plain(matrix.toarray(), ones), ones)
        assert np.array_equal(derived(sp.csr_array(matrix), ones), ones)


@pytest.mark.parametrize("form", [*FORMATS.values(), ELL], ids=repr)
def test_stored_elements_are_counted_and_made_dense(form: sparse.Format) -> None:
    matrix = MATRICES["no block divides it"]()
    packed = pack(matrix, form)
    assert np.array_equal(packed.toarray(), dense(matrix))
    assert packed.nnz == len(entries(packed)[1]) >= matrix.nnz
