"""Packed operands of programs: what they may be made of, and that they are carried along and no part of a meaning."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import atl
import sparse
from atl.core.index import bound, size
from atl.core.program import Packed
from atl.errors import ATLError
from atl.meaning.specialise import specialise
from lowering import compile as compiled
from proofs_tests.sparse.matrices import MATRICES
from proofs_tests.sparse.test_sparsify import SPMV
from rewrites import reschedule

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
        {"apart": "apart"},
    ],
)
def test_what_is_no_packed_operand_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ATLError, match="a packed operand"):
        replace(PACKED, **change)


@pytest.mark.parametrize(
    "packed", [(replace(PACKED, arrays=("B_pos",)),), (replace(PACKED, name="A_pos"),), (3,), [PACKED]]
)
def test_an_operand_that_is_not_made_of_the_inputs_is_refused(packed: Any) -> None:
    with pytest.raises(ATLError, match="the program spmv"):
        replace(DERIVED, packed=packed)


def test_programs_are_equal_however_their_operands_are_passed() -> None:
    assert replace(DERIVED, packed=()) == DERIVED
    assert hash(replace(DERIVED, packed=())) == hash(DERIVED)
    assert DERIVED.operands == ("A", "v")
    assert replace(DERIVED, packed=()).operands == ("A_pos", "A_crd", "A_val", "v")


def test_operands_are_kept_where_sizes_are_fixed_and_where_programs_are_pickled() -> None:
    matrix, vector = MATRICES["no block divides it"](), np.arange(13.0)
    for program in (specialise(DERIVED, {"m": 13}), pickle.loads(pickle.dumps(DERIVED))):
        assert np.array_equal(compiled(program)(matrix, vector), matrix @ vector)
        assert np.array_equal(atl.evaluate(program, matrix, vector), matrix @ vector)
    assert specialise(DERIVED, {"m": 13}).packed[0].shape == (size("n"), atl.core.index.constant(13))
    with pytest.raises(ATLError, match="dimension 1 of A has 13 elements, not 12"):
        compiled(specialise(DERIVED, {"m": 12}))(matrix, vector[:12])


def test_a_size_that_only_the_operand_tells_is_no_keyword() -> None:
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


def test_a_packed_operand_is_made_of_what_it_says() -> None:
    assert isinstance(PACKED, Packed)
    assert (PACKED.name, PACKED.arrays, PACKED.format) == ("A", ("A_pos", "A_crd", "A_val"), "CSR")
