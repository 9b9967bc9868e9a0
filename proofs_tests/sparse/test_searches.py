"""Sums that find the block of an entry are eliminated; loops that remain dense are named in notes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import atl
from proofs_tests.sessions.session_programs import body
from rewrites import Session, reschedule
from sparse import BCSR, COO, CSB, CSC, CSR, Format

pytestmark = pytest.mark.sampled

n, m, k = atl.sizes("n m k")
A, B = atl.tensor("A", n, m, dtype="float64"), atl.tensor("B", n, m, dtype="float64")
D = atl.tensor("D", m, k, dtype="float64")
PRODUCT = atl.program("product", [A, D], atl.gen(n, k, lambda i, j: atl.sum(m, lambda q: A[i, q] * D[q, j])))
ELEMENTWISE = atl.program("elementwise", [A, B], atl.gen(n, m, lambda i, j: A[i, j] * B[i, j]))
GRAM = atl.program("gram", [A], atl.gen(n, n, lambda i, j: atl.sum(m, lambda q: A[i, q] * A[j, q])))


def derived(program: atl.Program, *formats: Format) -> Session:
    s = reschedule(program)
    for array, form in zip(program.inputs, formats, strict=False):
        s = s.sparsify(array.name, form)
    return s


def notes(s: Session) -> list[str]:
    return [note for call in s.steps for note in call.notes]


@pytest.mark.parametrize(
    ("program", "first", "second", "wanted"),
    [
        (PRODUCT, CSR, BCSR(2, 3), "Σ[D_pos[A_crd[p] // 2] <= p1 < D_pos[A_crd[p] // 2 + 1]]"),
        (PRODUCT, COO, BCSR(2, 3), "Σ[D_pos[A_crd1[p] // 2] <= p1 < D_pos[A_crd1[p] // 2 + 1]]"),
        (PRODUCT, BCSR(3, 2), BCSR(2, 3), "Σ[D_pos[A_crd[p1]] <= p3 < D_pos[A_crd[p1] + 1]] Σ[p4 < 2]"),
        (PRODUCT, CSR, CSB(2, 2), "Σ[D_pos_3[⌈k / 2⌉*(A_crd[p] // 2) + p1] <= p2"),
        (ELEMENTWISE, BCSR(2, 3), BCSR(2, 3), "Σ[B_pos[p] <= p2 < B_pos[p + 1]]"),
    ],
    ids=repr,
)
def test_block_of_an_entry_is_computed(program: atl.Program, first: Format, second: Format, wanted: str) -> None:
    s = derived(program, first, second)
    assert wanted in body(s)
    assert not any("is dense" in note for note in notes(s))
    rng = np.random.default_rng(2)
    a, d = (rng.integers(0, 3, shape).astype(np.float64) for shape in ((5, 7), (7, 4)))
    b: Any = d if program is PRODUCT else a[::-1].copy()
    assert np.array_equal(s.compile()(a, b), a @ d if program is PRODUCT else a * b)


def test_dense_loops_are_noted() -> None:
    relu = atl.program("relu", [A], atl.gen(n, m, lambda i, j: atl.maximum(A[i, j], 0.0)))
    assert notes(derived(relu, BCSR.sorted())) == [
        "the loop j is dense, and tests each index for the blocks of entries"
    ]
    assert notes(derived(relu, CSR.sorted())) == []


def test_pairs_of_entries_are_noted() -> None:
    s = derived(GRAM, CSR)
    assert notes(s) == ["the loops p and p1 compare all pairs of entries, unless they are marked as a merge"]
    twice = atl.program("twice", [A, B], atl.gen(n, n, lambda i, j: atl.sum(m, lambda q: A[i, q] * B[j, q])))
    s = derived(twice, CSR, CSC)
    assert notes(s) == []
    value = np.arange(12.0).reshape(3, 4) % 5
    assert np.array_equal(s.compile()(value, value), value @ value.T)
