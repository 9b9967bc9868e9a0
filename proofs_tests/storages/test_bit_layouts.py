"""Tensors stored through layouts over F2, compositions with swizzles, and Axe layouts."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np
import pytest

import atl
from atl import load
from atl.core.index import constant
from atl.core.program import Program
from layouts import F2, Chain, Function, Layout, LinearLayout, NoLayout, Swizzle, composition
from layouts.axe import R, S, axis
from layouts.foundation import storing as storing_bits
from proofs_tests.sessions.session_programs import body
from proofs_tests.storages.storages import faults_in_c
from rewrites import reschedule
from rewrites.errors import NotInjective

n = atl.sizes("n")
lane, reg = axis("lane"), axis("reg")


def scaled(*extents: object) -> Program:
    shape = ", ".join(map(str, extents))
    return atl.parse(f"scaled (A : float32[{shape}]) : float32[{shape}] := 2 * A")


STORED: Final[dict[str, tuple[Function, str]]] = {
    "a swizzle of rows":
        (LinearLayout.from_bases([("i", [17, 34, 68]), ("j", [1, 2, 4, 8])], ["offset"]), "i, j // 8, xor(i, j % 8)"),
    "two coordinates":
        (LinearLayout.from_bases([("i", [(1, 0), (2, 1), (0, 2)]), ("j", [(1, 1), (0, 4), (0, 8), (4, 0)])],
        ["x", "y"]), ""),
    "unused locations": (LinearLayout.from_bases([("i", [32, 64, 128]), ("j", [1, 2, 4, 8])], ["offset"]), ""),
    "CuTe's swizzle after rows": (composition(Swizzle(2, 0, 3), Layout((8, 16), (16, 1))), ""),
    "CuTe's swizzle in chunks": (composition(Swizzle(2, 2, 3), Layout((8, 16), (16, 1))), ""),
    "strides over F2": (Layout((8, 16), (F2(17), F2(1))), "i, j // 8, xor(i, j % 8)"),
    "modes within modes": (Layout(((2, 4), (4, 4)), ((F2(1), F2(10)), (F2(66), F2(16)))), ""),
    "Axe's lanes and registers":
        (S[(2, 4, 4, 4) : (4 @ lane, 1 @ lane, 4 @ reg, 1 @ reg)], "i // 4, i % 4, j // 4, j % 4"),
    "Axe's memory, in blocks of columns": (S[(8, 4, 4) : (4, 32, 1)], "j // 4, i, j % 4"),
    "Axe's memory, with gaps": (S[(8, 2, 8) : (8, 128, 1)], "j // 8, i, j % 8"),
}  # fmt: skip
"""Storages of 8 x 16 elements, with the location of element i, j for some."""


@pytest.mark.sampled
@pytest.mark.parametrize("name", STORED)
def test_elements_are_stored_at_layout_locations(name: str) -> None:
    layout, read = STORED[name]
    made = layout.stored((constant(8), constant(16)))
    extents = [extent.constant for extent in made.places]
    at = {(i, j): made.place((constant(i), constant(j))) for i in range(8) for j in range(16)}
    flat = {e: int(np.ravel_multi_index([p.constant for p in place], extents)) for e, place in at.items()}  # type: ignore[arg-type,misc]
    table = layout.table()
    if isinstance(layout, LinearLayout | Chain | Layout):
        places = layout.colexicographic().reshape(16, 8).T
        assert all(places[e] == flat[e] for e in flat)
    else:  # along axes in their order, first axis outermost
        order = np.unique(table.reshape(128, -1), axis=0, return_inverse=True)[1].reshape(8, 16)
        ranks = np.unique(list(flat.values()), return_inverse=True)[1]
        assert all(order[e] == rank for e, rank in zip(flat, ranks, strict=True))
    s = reschedule(scaled(8, 16)).store("A", layout)
    assert body(s).endswith(f"2 * As[{read}]" if read else "]")


@pytest.mark.long
def test_stored_layouts_agree_in_c() -> None:
    sessions = [reschedule(scaled(8, 16)).store("A", layout) for layout, _ in STORED.values()]
    assert faults_in_c(sessions, [{}]) == []


def test_certificate_of_a_swizzled_storage_is_valid(tmp_path: Path) -> None:
    s = reschedule(scaled(8, 16)).store("A", STORED["CuTe's swizzle after rows"][0])
    s.done().save(tmp_path / "stored.atl.json")
    assert load(tmp_path / "stored.atl.json").rhs == s.goal


def test_swizzle_of_symbolic_rows_uses_flat_addresses() -> None:
    s = reschedule(scaled("n", 64)).store("A", composition(Swizzle(3, 3, 3), Layout((n, 64), (64, 1))))
    assert body(s) == (
        "let As := ⊞[p < 64*n] A[p // 64, xor(p, 8*((p // 64) % 8)) % 64] in "
        "⊞[i < n] ⊞[j < 64] 2 * As[xor(8*(i % 8), 64*i + j)]"
    )
    assert faults_in_c([s], [{"n": rows} for rows in (0, 1, 9)]) == []


REFUSED: Final[dict[str, tuple[Any, str]]] = {
    "no full rank": (
        LinearLayout.from_bases([("i", [1, 2, 3]), ("j", [4, 8, 16, 32])], ["offset"]),
        r"two elements at one location: those at \(0, 0\) and \(7, 0\)",
    ),
    "another rank": (LinearLayout.identity_1d(128, "i", "offset"), "has 1 dimensions"),
    "replicas": (S[(8, 16) : (16, 1)] + R[2:128], "elements have several locations"),
    "an offset": (S[(8, 16) : (16, 1)] + 3, "the offset is not 0"),
    "iters across dimensions": (S[(4, 32) : (32, 1)], "do not make up the dimensions"),
    "not linear": (Chain(Layout(256, 3), Layout((8, 16), (16, 1))), "has no known inverse"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unsuitable_bit_layouts_are_refused(name: str) -> None:
    layout, text = REFUSED[name]
    with pytest.raises(NoLayout, match=text):
        reschedule(scaled(8, 16)).store("A", layout)


def test_layout_of_another_size_is_refused() -> None:
    with pytest.raises(atl.ATLError, match="the layout is for 8 x 16 elements, the tensor has 16 x 16"):
        reschedule(scaled(16, 16)).store("A", STORED["a swizzle of rows"][0])


def test_wrong_inverse_of_bits_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = storing_bits._inverse

    def wrong(*given: Any) -> list[list[set[int]]]:
        rows = right(*given)
        rows[0][0], rows[0][1] = rows[0][1], rows[0][0]
        return rows

    monkeypatch.setattr(storing_bits, "_inverse", wrong)
    with pytest.raises(NotInjective, match="would be lost"):
        reschedule(scaled(8, 16)).store("A", STORED["a swizzle of rows"][0])


@pytest.mark.long
def test_random_layouts_of_full_rank_are_stored() -> None:
    numbers = Random(6)
    for _ in range(3):
        columns: list[int] = []
        while len(columns) < 6:
            column = numbers.randrange(1, 64)
            if column not in _spanned(columns):
                columns.append(column)
        layout = LinearLayout.from_bases([("i", columns[:2]), ("j", columns[2:])], [("offset", 64)])
        s = reschedule(scaled(4, 16)).store("A", layout)
        given = np.arange(64, dtype=np.float32).reshape(4, 16)
        assert np.array_equal(atl.evaluate(s.goal, A=given), 2 * given)


def _spanned(columns: list[int]) -> set[int]:
    found = {0}
    for column in columns:
        found |= {each ^ column for each in found}
    return found
