"""The arrays of assembled results are those that encoding the same entries gives; planted faults are detected."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest

from proofs_tests.sparse.assembled import fuzz
from proofs_tests.sparse.assembled.formulas import FIBRES, FORMULAS, TURNED
from proofs_tests.sparse.ellpack import ELL
from sparse import BCSR, COO, CSC, CSF, CSR, DCSC, DCSR, DIA, MODE_GENERIC, VECTOR, Format, SparseTensor
from sparse import assembly as assembled
from sparse.assembly import ResultMaker, Rows
from sparse.tensors import encode

FORMATS: dict[int, tuple[Format, ...]] = {
    1: (VECTOR, COO, CSF),
    2: (CSR, CSC, DCSR, DCSC, COO, CSF, COO.sorted()),
    3: (COO, CSF, FIBRES, TURNED),
}
SHAPES: dict[int, list[tuple[int, ...]]] = {
    1: [(7,), (0,)],
    2: [(5, 4), (0, 3), (3, 0), (1, 1)],
    3: [(4, 3, 5), (2, 0, 3), (0, 2, 2), (3, 1, 1)],
}


def rows_of(form: Format, shape: tuple[int, ...], dense: Any) -> tuple[ResultMaker, list[Any]]:
    """Return the maker of a result, and the arrays of rows that a kernel returns for the nonzero elements."""
    maker = form.assembly(len(shape)).make
    assert isinstance(maker, ResultMaker)
    turned = dense.transpose(maker.order)
    rows = turned.shape[0] if len(shape) > 1 else 1
    flat = turned.reshape(rows, prod(turned.shape[len(shape) > 1 :]))
    row, column = np.nonzero(flat)
    pos = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=flat.shape[0]))])
    kind = np.int32 if len(shape) < 3 else np.int64
    return maker, [pos.astype(np.int32), column.astype(kind), flat[row, column]]


def random_tensor(seed: int, shape: tuple[int, ...]) -> Any:
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random(shape) < rng.choice([0.0, 0.2, 0.6, 1.0]), rng.integers(1, 9, shape), 0)
    if dense.size and seed % 2:
        dense[0] = 0
    return dense.astype(np.float64)


@pytest.mark.parametrize("rank", FORMATS)
def test_levels_are_read_off_the_rows(rank: int) -> None:
    for form in FORMATS[rank]:
        for shape in SHAPES[rank]:
            for seed in range(12):
                dense = random_tensor(seed, shape)
                maker, arrays = rows_of(form, shape, dense)
                assert Rows(maker.order, shape, *arrays).levels(form) is not None
                made = maker(arrays, shape, in_scipy=False)
                at = np.nonzero(dense)
                wanted = encode(form, shape, at, dense[at])
                assert isinstance(made, SparseTensor)
                assert [a.tolist() for a in made.arrays] == [a.tolist() for a in wanted.arrays], (form, shape, dense)
                assert [a.dtype for a in made.arrays] == [a.dtype for a in wanted.arrays]
                assert [level.count for level in made.levels] == [level.count for level in wanted.levels]
                assert made.validation_cache is not None


@pytest.mark.parametrize(("form", "shape"), [(BCSR, (5, 4)), (DIA, (5, 4)), (ELL, (5, 4)), (MODE_GENERIC, (4, 3, 5))])
def test_other_formats_are_encoded(form: Format, shape: tuple[int, ...]) -> None:
    dense = random_tensor(4, shape)
    maker, arrays = rows_of(form, shape, dense)
    assert Rows(maker.order, shape, *arrays).levels(form) is None
    made = maker(arrays, shape, in_scipy=False)
    assert isinstance(made, SparseTensor)
    assert np.array_equal(made.toarray(), dense)


def off_by_one(starts: Any, end: int) -> Any:
    found = np.append(starts, end)
    return np.where(np.arange(len(found)) == 1, np.minimum(found + 1, end), found)


def without_last(starts: Any, end: int) -> Any:
    return np.append(starts, starts[-1] if len(starts) > 1 else end)


FAULTS = {
    "an array of positions that is off by one": (CSF, "T", {"_bounds": off_by_one}),
    "a forgotten row": (DCSR, "A", {"_bounds": without_last}),
    "columns out of order": (DCSC, "A", {}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_in_levels_are_detected(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    result, name, patches = FAULTS[fault]
    for attribute, wrong in patches.items():
        monkeypatch.setattr(assembled, attribute, wrong)
    if not patches:
        levels = Rows.levels

        def turned(rows: Rows, form: Format) -> Any:
            return levels(Rows(rows.order, rows.shape, rows.pos, rows.crd[::-1].copy(), rows.values), form)

        monkeypatch.setattr(Rows, "levels", turned)
    (formula,) = (each for each in FORMULAS if each.name == name)
    monkeypatch.setattr(fuzz, "FORMULAS", (replace(formula, formats=formula.formats[:1], results=(result,)),))
    assert fuzz.run_assembled(range(2 * fuzz.BLOCK), 3, first=True).findings
