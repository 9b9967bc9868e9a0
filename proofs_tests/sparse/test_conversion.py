"""Conversions by kernels store the same arrays as conversions by NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from atl.errors import OutOfMemory
from sparse import BCSR, COO, CSC, CSF, CSR, DCSC, DCSR, VECTOR, Format, SparseTensor, conversion, pack, packing
from sparse.conversion import Conversion, convert
from sparse.packing import _by_numpy
from sparse.tensors import encode


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile every conversion, and forget it afterwards. scipy converts nothing."""
    monkeypatch.setattr(conversion, "SECONDS", 0.0)
    monkeypatch.setattr(conversion, "_SPENT", {})
    monkeypatch.setattr(conversion, "_KERNELS", {})
    monkeypatch.setattr(packing, "_convert_with_scipy", lambda *_: None)


def tensor(seed: int, form: Format, shape: tuple[int, ...]) -> SparseTensor:
    """Return a random tensor with duplicates, which the format keeps or not, unsorted coordinates and zeros."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(0, 20)) if all(shape) else 0
    at = [rng.integers(0, max(extent, 1), count) for extent in shape]
    return encode(form, shape, at, rng.integers(-2, 4, count).astype(np.float64))


def check(source: Format, target: Format, shapes: Sequence[tuple[int, ...]]) -> None:
    for seed, shape in enumerate([*shapes] * 4):
        given = tensor(seed, source, shape)
        made, wanted = pack(given, target), _by_numpy(given, target)
        assert made.format == target
        assert [a.tolist() for a in made.arrays] == [a.tolist() for a in wanted.arrays], (seed, shape)
        assert [a.dtype for a in made.arrays] == [a.dtype for a in wanted.arrays]
    (made_kernel,) = conversion._KERNELS.values()
    assert made_kernel is not None


MATRICES = [(5, 7), (0, 3), (3, 0), (1, 1), (9, 2)]


@pytest.mark.parametrize(("source", "target"), [(CSR, CSC), (COO, DCSR)])
def test_kernels_convert_matrices_as_numpy_does(source: Format, target: Format) -> None:
    check(source, target, MATRICES)


def test_kernels_convert_coordinates_to_fibres() -> None:
    check(COO, CSF, [(3, 4, 5), (2, 0, 3), (1, 6, 2)])


@pytest.mark.long
@pytest.mark.parametrize("target", [CSR, CSC, DCSR, DCSC, CSF, CSR.with_index_dtype("int64")], ids=repr)
@pytest.mark.parametrize("source", [CSR, CSC, DCSR, DCSC, CSF, COO, COO.sorted()], ids=repr)
def test_kernels_convert_between_all_formats(source: Format, target: Format) -> None:
    if source != target:
        check(source, target, MATRICES)


def test_vectors_and_other_targets_are_converted_by_numpy() -> None:
    given = tensor(3, CSR, (6, 6))
    for form in (BCSR(2, 3), COO):  # blocks, and a format that keeps duplicates
        assert np.array_equal(pack(given, form).toarray(), given.toarray())
    assert np.array_equal(pack(tensor(3, COO, (9,)), VECTOR).toarray(), tensor(3, COO, (9,)).toarray())
    assert [each.target for each in conversion._KERNELS] in ([], [VECTOR])


def test_types_without_kernels_are_converted_by_numpy() -> None:
    given = encode(CSR, (2, 2), [np.array([0]), np.array([1])], np.array([3], np.uint16))
    assert pack(given, CSC).values.dtype == np.uint16
    assert not conversion._KERNELS


def test_a_conversion_is_compiled_when_numpy_has_taken_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "SECONDS", 1.0)
    compiled: list[Conversion] = []

    def kernel(wanted: Conversion) -> Any:
        compiled.append(wanted)
        return lambda given: _by_numpy(given, wanted.target)

    monkeypatch.setattr(conversion, "_kernel", kernel)
    given = tensor(5, CSR, (4, 4))
    for spent, times in ((0.0, 0), (0.9, 0), (1.1, 1), (1.1, 1)):
        conversion._SPENT[Conversion(CSR, DCSC, 2, "float64")] = spent
        pack(given, DCSC)
        assert len(compiled) == times


def test_numpy_converts_if_a_kernel_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(_: Conversion) -> Any:
        raise OutOfMemory("no memory")

    monkeypatch.setattr(conversion, "_kernel", refusing)
    given = tensor(5, CSR, (4, 4))
    for _ in range(2):
        assert np.array_equal(convert(given, DCSC, lambda: _by_numpy(given, DCSC)).toarray(), given.toarray())


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr"])
def test_blocks_of_scipy_are_those_of_numpy(kind: str) -> None:
    for seed in range(10):
        given = tensor(seed, COO, (6, 9))
        matrix = sp.coo_array((given.values, tuple(given.arrays[:2])), shape=(6, 9))
        made = pack(matrix.tobsr((3, 3)) if kind == "bsr" else matrix.asformat(kind), BCSR(2, 3))
        stored = (matrix.tobsr((3, 3)) if kind == "bsr" else matrix).tocoo()
        wanted = encode(BCSR(2, 3), (6, 9), stored.coords, stored.data)
        assert [a.tolist() for a in made.arrays] == [a.tolist() for a in wanted.arrays]
        assert [(m.extents, m.count) for m in made.levels] == [(m.extents, m.count) for m in wanted.levels]
