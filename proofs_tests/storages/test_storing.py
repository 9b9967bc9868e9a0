"""Tensors stored through layouts: derived kernels, C under sanitizers, and refusals."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atl
from atl import load
from atl.core.index import constant
from atl.core.program import Program
from atl.errors import ATLError, InvalidArgument
from atl.prove import Facts
from atl.surface.reindexing import Reindexing
from layouts import (
    F2,
    Box,
    IndexFunction,
    Layout,
    LinearLayout,
    NoLayout,
    antidiagonal,
    blocked,
    column_major,
    morton,
    padded,
    row_major,
    skewed,
    swizzled,
)
from lowering import lower, print_nest
from proofs_tests.sessions.session_programs import body, matmul, pipeline
from proofs_tests.storages.storages import STORAGES, T, faults_in_c
from rewrites import DoesNotApply, Session, reschedule
from rewrites.errors import NotInjective
from rewrites.tactics.reindexing.formulas import check_reindexing

n, m = atl.sizes("n m")


@cache
def products(name: str) -> Session:
    """Store both operands of the product; cached, so tests must not modify the session."""
    return reschedule(matmul(), given=[T >= 1]).store("B", STORAGES[name]).store("A", STORAGES[name])


@pytest.mark.parametrize("way", [blocked, padded, swizzled, morton])
def test_storage_without_parameters_is_refused(way: Any) -> None:
    with pytest.raises(InvalidArgument, match=f"{way.__name__} is called with the shape .*instead of its parameters"):
        reschedule(matmul()).store("B", way)


def test_symbolic_strides_need_facts_in_layout_and_program() -> None:
    program = atl.parse("f (A : float32[n, m]) : float32[n, m] := 2 * A")
    p = atl.sizes("p")
    with pytest.raises(NoLayout, match="in both places"):
        reschedule(program).store("A", Layout((n, m), (p, 1)))
    s = reschedule(program, given=[p >= m]).store("A", Layout((n, m), (p, 1), given=[p >= m]))
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(atl.evaluate(s.goal, A=given, p=5), 2 * given)


@pytest.mark.sampled
@pytest.mark.parametrize("name", STORAGES)
def test_product_operands_are_stored_by_one_call_each(name: str, tmp_path: Path) -> None:
    s = products(name)
    assert str(s.check()).startswith("no problems found")
    theorem = s.done()
    theorem.save(tmp_path / "product.atl.json")
    assert load(tmp_path / "product.atl.json").rhs == theorem.rhs
    assert len(s.steps) == 2


@pytest.mark.long
def test_products_agree_in_c() -> None:
    assert faults_in_c([products(name) for name in STORAGES]) == []


@pytest.mark.long
def test_reads_use_stored_locations() -> None:
    assert body(reschedule(matmul()).store("B", blocked(4, 8))) == (
        "let Bs := ⊞[p0 < ⌈k / 4⌉] ⊞[p1 < ⌈m / 8⌉] ⊞[p2 < 4] ⊞[p3 < 8] [4*p0 + p2 < k ∧ 8*p1 + p3 < m] · "
        "B[4*p0 + p2, 8*p1 + p3] in ⊞[i < n] ⊞[j < m] Σ[p < k] A[i, p] * Bs[p // 4, j // 8, p % 4, j % 8]"
    )
    assert body(reschedule(matmul()).store("B", swizzled(8), name="turned")).endswith(
        "A[i, p] * turned[p, j // 8, xor(j % 8, p % 8)]"
    )


def test_stored_let_keeps_its_name_and_mark() -> None:
    s = reschedule(pipeline()).mark("buf", "heap").store("buf", blocked(8))
    assert body(s) == (
        "let buf | heap := ⊞[p0 < ⌈n / 8⌉] ⊞[p1 < 8] [8*p0 + p1 < n] · f[8*p0 + p1] in "
        "⊞[i < n] [1 <= i] · buf[⌈i / 8⌉ - 1, (i + 7) % 8] + buf[i // 8, i % 8]"
    )
    assert faults_in_c([s]) == []


def test_whole_tensor_use_is_read_back() -> None:
    program = atl.parse("f (A : float32[n, m]) : float32[n, m] := let y := 2 * A in y + y")
    s = reschedule(program).store("y", column_major)
    assert body(s) == (
        "let y := ⊞[p0 < m] ⊞[p1 < n] 2 * A[p1, p0] in (⊞[i0 < n] ⊞[i1 < m] y[i1, i0]) ⊕ ⊞[i0 < n] ⊞[i1 < m] y[i1, i0]"
    )
    assert faults_in_c([s]) == []


@pytest.mark.long
def test_let_inside_loops_is_stored_there() -> None:
    program = atl.parse(
        "f (A : float32[n, m]) : float32[n, m] := "
        "⊞[i < n] let y := ⊞[j < m] A[i, j] + 1 in ⊞[j < m] y[m - 1 - j] * y[j]"
    )
    s = reschedule(program).store("y", blocked(4))
    assert "⊞[p0 < ⌈m / 4⌉] ⊞[p1 < 4] [4*p0 + p1 < m] · (A[i, 4*p0 + p1] + 1)" in body(s)
    assert faults_in_c([s]) == []


@pytest.mark.long
def test_compact_strides_store_like_named_storages() -> None:
    s = reschedule(matmul())
    k = atl.sizes("k")
    assert s.branch().store("B", Layout((k, m), (1, k))).goal == s.branch().store("B", column_major).goal
    tiled = Layout(((4, (k + 3) // 4), (8, (m + 7) // 8)), ((8, 32 * ((m + 7) // 8)), (1, 32)))
    assert s.branch().store("B", tiled).goal == s.branch().store("B", blocked(4, 8)).goal
    assert faults_in_c([s.branch().store("B", Layout((k, m), (2 * m, 2)))]) == []


REFUSED = {
    "zero stride": (Layout((n, m), (0, 1)), NoLayout, "stores all elements along mode 0, of extent n, at one location"),
    "overlap": (Layout((n, m), (1, 1)), NoLayout, "stores two elements at one location"),
    "beyond the box": (Layout((2, 4), (5, 1)), NotInjective, r"the element at \(\d+, \d+\) would be lost"),
    "offset": (Layout((n, m), (m, 1), offset=3), NoLayout, "begins at 3"),
    "not addresses": (Layout((n, m), (F2(9), F2(1))), NoLayout, "the values of .* are not addresses"),
    "rank": (row_major(n), NoLayout, "has 1 mode"),
    "no box": (IndexFunction((n, m), lambda i, j: i * m + j), NoLayout, "onto=Box"),
    "half": (IndexFunction((n, m), lambda i, j: (i, j // 2), lambda i, q: (i, 2 * q), onto=Box((n, m), row_major=True)),
        NotInjective, r"the elements \(0, 0\) and \(0, 1\) would both be stored at \(0, 0\)"),
    "a class": (Layout, InvalidArgument, "is not a layout"),
    "a number": (3, InvalidArgument, "is not a layout"),
    "function of nothing": (lambda: 3, InvalidArgument, "is not a layout"),
    "function to nothing": (lambda shape: shape, InvalidArgument, "is not a layout"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_unsuitable_layouts_are_refused(case: str) -> None:
    layout, error, text = REFUSED[case]
    with pytest.raises(error, match=text) as refused:
        reschedule(atl.parse("f (A : float32[n, m]) : float32[n, m] := 2 * A")).store("A", layout)  # type: ignore[arg-type]
    assert isinstance(refused.value, ATLError)


def test_invalid_store_arguments_are_refused() -> None:
    s = reschedule(matmul())
    with pytest.raises(DoesNotApply, match="neither a let nor an input"):
        s.store("j", skewed)
    with pytest.raises(InvalidArgument, match="a let keeps its name"):
        reschedule(pipeline()).store("buf", padded(1), name="other")
    with pytest.raises(InvalidArgument, match="cannot name a let"):
        s.store("A", skewed, name="2")
    assert s.goal == matmul()


def test_invalid_reindexings_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="3 are not extents"):
        Reindexing(3, (), tuple, tuple)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="5 is not a function"):
        Reindexing((), (), tuple, 5)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="is not the name of an input"):
        reschedule(matmul()).view(0, skewed)  # type: ignore[arg-type]


@pytest.mark.long
def test_non_dividing_strides_use_flat_addresses() -> None:
    program = atl.parse("f (A : float32[2, 4]) : float32[2, 4] := ⊞[i < 2] ⊞[j < 4] 2 * A[i, j]")
    s = reschedule(program).store("A", Layout((2, 4), (7, 2)))
    assert body(s) == (
        "let As := ⊞[p < 14] [(p % 7) % 2 = 0] · A[p // 7, (p % 7) // 2] in ⊞[i < 2] ⊞[j < 4] 2 * As[7*i + 2*j]"
    )
    symbolic = atl.parse("f (A : float32[n, m]) : float32[n, m] := ⊞[i < n] ⊞[j < m] 2 * A[i, j]")
    wide = reschedule(symbolic).store("A", Layout((n, m), (2 * m + 1, 2)))
    assert body(wide).endswith("2 * As[2*i*m + 2*j + i]")
    assert faults_in_c([s], [{}]) == []
    assert faults_in_c([wide], [{"n": a, "m": b} for a, b in ((3, 5), (0, 2), (2, 0), (1, 1))]) == []


def test_colliding_strides_are_refused_with_two_elements() -> None:
    program = atl.parse("f (A : float32[2, 4]) : float32[2, 4] := 2 * A")
    with pytest.raises(NoLayout, match=r"two elements at one location: those with the digits \(0, 3\) and \(1, 0\)"):
        reschedule(program).store("A", Layout((2, 4), (3, 1)))
    one = atl.parse("f (A : float32[1, 1]) : float32[1, 1] := 2 * A")
    assert "As[0]" in body(reschedule(one).store("A", Layout((1, 1), (1, 1))))


def test_result_of_a_stored_tensor_is_unchanged() -> None:
    program: Program = atl.parse("f (A : float32[n, m]) : float32[n, m] := let y := 2 * A in y")
    s = reschedule(program).store("y", skewed)
    assert body(s).endswith("⊞[i0 < n] ⊞[i1 < m] y[i0, (i0 + i1) % m]")
    assert faults_in_c([s]) == []


@pytest.mark.parametrize("shape", ["2, 3", "3, 6", "4, m"])
def test_swizzle_of_few_rows_has_a_tail(shape: str) -> None:
    s = reschedule(atl.parse(f"scaled (A : float32[{shape}]) : float32[{shape}] := 2 * A"))
    s.store("A", swizzled(4))
    rows, columns = (6 if part == "m" else int(part) for part in shape.split(", "))
    given = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    assert np.array_equal(atl.evaluate(s.goal, A=given), 2 * given)


@pytest.mark.long
def test_loops_over_few_columns_run_in_swizzle_order() -> None:
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    s = reschedule(atl.parse("total (A : float32[2, 3]) : float32 := Σ[i < 2] Σ[j < 3] A[i, j]"))
    s.reorder(["i", "j"], swizzled(4, 3))
    assert atl.evaluate(s.goal, A=given) == 15


@pytest.mark.long
def test_element_loops_store_at_computed_locations() -> None:
    program = atl.parse(
        "f (A : float32[n, m]) : float32[m, n] := let t := ⊞[i < n] ⊞[j < m] 2 * A[i, j] in ⊞[j < m] ⊞[i < n] t[i, j]"
    )
    s = reschedule(program).store("t", skewed, loops="elements")
    assert body(s) == (
        "let t := Σ[i < n] Σ[j < m] place n i place m ((i + j) % m) (2 * A[i, j]) in "
        "⊞[j < m] ⊞[i < n] t[i, (j + i) % m]"
    )
    assert "t[i, (i + j) % m] = 2.0 * A[i, j]" in print_nest(lower(s.goal))
    column = reschedule(program).store("A", column_major, loops="elements")
    assert faults_in_c([s, column]) == []


@pytest.mark.long
def test_element_loops_skip_padding() -> None:
    program = atl.parse("f (A : float32[n, m]) : float32[m, n] := let t := 2 * A in ⊞[j < m] ⊞[i < n] t[i, j]")
    s = reschedule(program).store("t", blocked(4, 8), loops="elements")
    stored = "place ⌈n / 4⌉ (i // 4) place ⌈m / 8⌉ (j // 8) place 4 (i % 4) place 8 (j % 8) (2 * A[i, j])"
    assert stored in body(s)
    turned = [reschedule(program).store("t", way, loops="elements") for way in (swizzled(4), antidiagonal)]
    assert faults_in_c([s, *turned]) == []


@pytest.mark.long
def test_element_loops_join_many_digits() -> None:
    bits = LinearLayout.from_bases([("i", [1]), ("j", [8, 16, 12, 2])], [("at", 32)])
    s = reschedule(atl.parse("f (A : float32[2, 16]) : float32[2, 16] := 2 * A")).store("A", bits, loops="elements")
    assert "place 4 (2*(i1 // 8) + i0) A[i0, i1]" in body(s)
    program = atl.parse("f (A : float32[n, m, k]) : float32[n, m, k] := 2 * A")
    bricks = reschedule(program).store("A", blocked(2, 3, 4), loops="elements")
    assert "place 24 (12*(i0 % 2) + 4*(i1 % 3) + i2 % 4) A[i0, i1, i2]" in body(bricks)
    with pytest.raises(InvalidArgument, match='loops="places" or loops="elements"'):
        s.store("B", skewed, loops="rows")  # type: ignore[arg-type]


@pytest.mark.long
@pytest.mark.parametrize("strides", [(3, 2), (4, 3)])
def test_injectivity_is_proved_without_an_inverse(strides: tuple[int, int]) -> None:
    s = reschedule(atl.parse("f (A : float32[2, 3]) : float32[2, 3] := let y := 2 * A in ⊞[i < 2] ⊞[j < 3] y[i, j]"))
    s.store("y", Layout((2, 3), strides))
    a, b = strides
    size = a + 2 * b + 1
    assert f"place {size} " in body(s)
    assert faults_in_c([s], [{}]) == []
    onto = IndexFunction((2, 3), lambda i, j: (a * i + b * j,), onto=Box((size,), row_major=True))
    made = onto.stored((constant(2), constant(3)))
    assert made.inverse is None
    check_reindexing(made, Facts())
    with pytest.raises(NotInjective, match=r"the elements \(0, 2\) and \(1, 0\)"):
        reschedule(s.goal).store("A", IndexFunction((2, 3), lambda i, j: (2 * i + j,), onto=Box((5,), row_major=True)))
