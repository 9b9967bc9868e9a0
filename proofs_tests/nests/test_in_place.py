"""Shared storage, and results stored over inputs: no cell is read after it was overwritten."""

from __future__ import annotations

import gc
from collections import Counter
from dataclasses import replace
from typing import Final

import numpy as np
import pytest

import atl
from atl.errors import ArrayError, ATLError
from lowering import compile as compile_kernel
from lowering import in_place as kernels_in_place
from lowering import lower, print_nest
from lowering.in_place import with_inputs_in_place
from lowering.lower import lower_unchecked
from lowering.nest.execution import Trap
from lowering.nest.interpreter import execute, run
from lowering.nest.loopnest import Allocate, For, LoopNest, statements
from lowering.nest.obligations import report
from lowering.passes import after_passes, buffers
from proofs_tests.nests import sharing_programs
from proofs_tests.programs.generate import Case, case_by_seed

pytestmark = pytest.mark.sampled

SIZES: Final = (1, 2, 3, 7)


def heap(nest: LoopNest) -> list[str]:
    return [s.buffer.name for s in statements(nest.body) if isinstance(s, Allocate)]


def agrees(of: atl.Program) -> None:
    nest, kernel = lower(of), compile_kernel(of)
    for size in SIZES:
        x = sharing_programs.vector(size)
        wanted = atl.evaluate(of, x)
        np.testing.assert_array_equal(run(nest, {"n": size}, {"x": x}), wanted)
        np.testing.assert_array_equal(kernel(x), wanted)
    assert not report(nest).refuted


def agrees_on_tables(of: atl.Program) -> None:
    nest, kernel = lower(of), compile_kernel(of)
    for n, m in ((1, 1), (3, 1), (1, 3), (2, 7), (5, 2)):
        x = sharing_programs.table(n, m)
        wanted = atl.evaluate(of, x)
        np.testing.assert_array_equal(run(nest, {"n": n, "m": m}, {"x": x}), wanted)
        np.testing.assert_array_equal(kernel(x), wanted)
    assert not report(nest).refuted


@pytest.mark.parametrize(
    ("body", "left"),
    [*sharing_programs.SHARED.values(), *sharing_programs.APART.values()],
    ids=[*sharing_programs.SHARED, *(f"{name}, later" for name in sharing_programs.APART)],
)
def test_let_shares_storage_unless_it_is_read_later(body: str, left: list[str]) -> None:
    agrees(sharing_programs.program(body))
    assert heap(lower(sharing_programs.program(body))) == left


@pytest.mark.parametrize("name", sharing_programs.COPIES)
def test_unneeded_copy_is_not_made(name: str) -> None:
    body, left = sharing_programs.COPIES[name]
    agrees(sharing_programs.program(body))
    nest = lower(sharing_programs.program(body))
    assert heap(nest) == left
    assert " = x[i]\n" not in print_nest(nest)


def test_marked_lets_have_the_marked_storage() -> None:
    for mark in ("heap", "stack"):
        body = f"let t | {mark} := ⊞[i < 8] 2 * x[0] in let u := ⊞[i < 8] t[i] + 1 in ⊞[i < n] u[0]"
        assert "t" in heap(lower(sharing_programs.program(body)))
    assert heap(lower(sharing_programs.program("let t | heap := x in ⊞[i < n] t[i] + t[n - 1 - i]"))) == ["t"]


@pytest.mark.parametrize("name", sharing_programs.APART)
def test_interpreter_traps_overwritten_reads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a fault: every let shares storage, whatever is read later."""
    of = sharing_programs.program(sharing_programs.APART[name][0])
    monkeypatch.setattr(buffers, "find_overwritten_read", lambda *_: None)
    nest = after_passes(lower_unchecked(of))
    if heap(nest) == sharing_programs.APART[name][1]:
        assert "by shape" in name  # such lets are never candidates
        return
    with pytest.raises(Trap) as caught:
        run(nest, {"n": 7}, {"x": sharing_programs.vector(7)})
    assert caught.value.kind in ("aliased", "data race", "overwritten")


@pytest.mark.parametrize("name", sharing_programs.ROWS)
def test_let_of_one_row_shares_the_row_computed_from_it(name: str) -> None:
    agrees_on_tables(sharing_programs.table_program(sharing_programs.ROWS[name]))
    left = ["t"] if name == "one of two" else []
    assert [of for of in heap(lower(sharing_programs.table_program(sharing_programs.ROWS[name]))) if of in "ts"] == left


@pytest.mark.parametrize("name", sharing_programs.OWN_ROWS)
def test_let_of_one_row_read_later_has_separate_storage(name: str) -> None:
    agrees_on_tables(sharing_programs.table_program(sharing_programs.OWN_ROWS[name]))
    assert "t" in heap(lower(sharing_programs.table_program(sharing_programs.OWN_ROWS[name])))


@pytest.mark.parametrize("name", ["the element before", "in reverse", "the element after, at once"])
def test_interpreter_traps_overwritten_reads_of_a_row(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a fault: every row shares storage, whatever is read later."""
    monkeypatch.setattr(buffers, "find_overwritten_read", lambda *_: None)
    nest = after_passes(lower_unchecked(sharing_programs.table_program(sharing_programs.OWN_ROWS[name])))
    assert heap(nest) == []
    with pytest.raises(Trap) as caught:
        run(nest, {"n": 3, "m": 7}, {"x": sharing_programs.table(3, 7)})
    assert caught.value.kind in ("aliased", "data race", "overwritten")


def test_interpreter_traps_leftovers_in_a_row_of_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a fault: part of a row is assumed to be all of it."""
    monkeypatch.setattr(buffers, "_go_over", lambda *_: True)
    nest = after_passes(lower_unchecked(sharing_programs.table_program(sharing_programs.OWN_ROWS["not the whole row"])))
    with pytest.raises(Trap, match="out at 3 still has a value of another tensor in its storage"):
        run(nest, {"n": 3, "m": 5}, {"x": sharing_programs.table(3, 5)})


RESULTS: Final = {
    "element by element": "⊞[i < n] 2 * x[i] * x[i]",
    "the element after": "⊞[i < n] x[i] + [i + 1 < n] · x[i + 1]",
    "a sum of what comes": "⊞[i < n] Σ[i <= j < n] x[j]",
    "through a let": "let t := ⊞[i < n] 2 * x[i] in ⊞[i < n] t[i] + t[n - 1 - i]",
    "a total first": "let t := Σ[i < n] x[i] in ⊞[i < n] x[i] * t",
    "vectors": "⊞[i < n | vector] x[i] + 1",
    "threads": "⊞[i < n | parallel] x[i] + 1",
    "not at all": "⊞[i < n] 1.0",
    "padding with new zeros": "padr 1 ⊞[i < n - 1] 2 * x[i]",
}
REFUSED: Final = {
    "the element before": (
        "⊞[i < n] x[i] + [1 <= i] · x[i - 1]",
        "is read after it was overwritten: `out[i] = x[i] + (x[i - 1] if 1 <= i else 0.0)` reads it, in a later iter",
    ),
    "in reverse": ("⊞[i < n] x[n - 1 - i]", "is read after it was overwritten"),
    "all of it": (
        "⊞[i < n] Σ[j < n] x[j]",
        "is read after it was overwritten: `total += x[j]` reads it, after `out[i] = total` has stored there",
    ),
    "the element after, at once": (
        "⊞[i < n | vector] select(i + 1 < n, x[i + 1], x[i])",
        "reads it, in an iteration of the vector loop i, whose order is not defined",
    ),
    "in reverse, at once": ("⊞[i < n | parallel] x[n - 1 - i]", "reads it, in a later iteration"),
    "padding": ("truncr 1 padr 2 ⊞[i < n - 1] x[i]", "padding in the result is zeroed before anything is read"),
    "two passes": ("(⊞[i < n] x[i]) + Σ[j < 2] ⊞[i < n] x[i]", "is read after it was overwritten"),
}
INSTEAD: Final = {
    "the element after, at once": ('s.mark("i", None) makes the iterations of i run in order',),
    "padding": ("use atl.select(p, e, 0) in place of a guard, which computes the elements that a guard skips",),
}


@pytest.mark.parametrize("name", RESULTS)
def test_result_may_overwrite_an_input_read_before(name: str) -> None:
    of = sharing_programs.program(RESULTS[name])
    kernel = compile_kernel(of)
    for size in SIZES:
        x = sharing_programs.vector(size)
        wanted = kernel(x)
        nest = with_inputs_in_place(kernel.nest, ["x"])
        np.testing.assert_array_equal(run(nest, {"n": size}, {"x": x}), wanted)
        assert kernel(x, out=x) is x
        np.testing.assert_array_equal(x, wanted)


def test_kernel_keeps_the_library_of_its_in_place_function_loaded() -> None:
    kernel, x = compile_kernel(sharing_programs.program("⊞[i < n] x[i] + 3.5")), sharing_programs.vector(4)
    wanted = x + 3.5
    kernel(x, out=x)
    gc.collect()
    kernel(x, out=x)
    np.testing.assert_array_equal(x, wanted + 3.5)


@pytest.mark.parametrize("name", REFUSED)
def test_result_that_overwrites_later_reads_is_refused(name: str) -> None:
    body, message = REFUSED[name]
    kernel, x = compile_kernel(sharing_programs.program(body)), sharing_programs.vector(5)
    before = x.copy()
    with pytest.raises(ArrayError) as caught:
        kernel(x, out=x)
    assert caught.value.summary.startswith("out is the input x, and ")
    assert message in caught.value.summary
    assert caught.value.suggestions == (*INSTEAD.get(name, ()), "pass a copy of x, or omit out=…")
    assert "once" not in str(caught.value)
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(kernel(x.copy(), out=x), kernel(before))


@pytest.mark.parametrize("name", [name for name in REFUSED if name != "padding"])
def test_interpreter_traps_a_result_stored_too_early(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a fault: no overwritten read is reported."""
    nest = lower(sharing_programs.program(REFUSED[name][0]))
    monkeypatch.setattr(kernels_in_place, "find_overwritten_read", lambda *_: None)
    wrong = with_inputs_in_place(nest, ["x"])
    with pytest.raises(Trap) as caught:
        run(wrong, {"n": 7}, {"x": sharing_programs.vector(7)})
    assert caught.value.kind in ("aliased", "data race")


def test_suggestions_of_a_refusal_are_accepted() -> None:
    x = sharing_programs.vector(7)
    for body in ("⊞[i < n] select(i < 5, x[i], 0.0)", "⊞[i < n] select(i + 1 < n, x[i + 1], x[i])"):
        kernel = compile_kernel(sharing_programs.program(body))
        wanted = kernel(x)
        np.testing.assert_array_equal(wanted, kernel(held := x.copy(), out=held))


@pytest.mark.parametrize(
    "body", [sharing_programs.ROWS["element by element"], sharing_programs.OWN_ROWS["another input, by shape"]]
)
def test_result_of_rows_may_overwrite_an_input(body: str) -> None:
    kernel, x = compile_kernel(sharing_programs.table_program(body)), sharing_programs.table(3, 5)
    wanted = kernel(x)
    np.testing.assert_array_equal(kernel(x, out=x), wanted)


def test_missing_element_of_a_result_is_trapped() -> None:
    nest = with_inputs_in_place(lower(sharing_programs.program("⊞[i < n] x[i] + 1")), ["x"])
    short = replace(nest, body=tuple(replace(s, high=s.high - 1) for s in nest.body if isinstance(s, For)))
    with pytest.raises(Trap, match="incomplete"):
        run(short, {"n": 3}, {"x": sharing_programs.vector(3)})


def test_two_inputs_and_the_result_may_be_one_array() -> None:
    both = compile_kernel(atl.parse("t (x : float32[n], y : float32[n]) : float32[n] := ⊞[i < n] x[i] * y[i]"))
    x = np.arange(5, dtype=np.float32)
    assert both(x, x, out=x).tolist() == [0, 1, 4, 9, 16]
    y = np.full(5, 2, np.float32)
    assert both(x, y, out=y).tolist() == [0, 2, 8, 18, 32]
    with pytest.raises(ArrayError, match="out shares memory with the input y") as caught:
        both(x[:3].copy(), y[1:4], out=y[:3])
    assert caught.value.required == "an output that overlaps no input, or that is exactly one of the inputs"


def test_result_may_touch_but_not_overlap_an_input() -> None:
    both = compile_kernel(atl.parse("t (x : float32[n], y : float32[m]) : float32[n] := ⊞[i < n] x[i] + Σ[j < m] y[j]"))
    held = np.arange(12, dtype=np.float32)
    assert both(held[:4], held[8:], out=held[4:8]).tolist() == [38, 39, 40, 41]
    for begin in (1, 3, 5, 7, 9, 11):
        out = held[begin : begin + 1]
        for x, y in ((held[begin - 1 : begin], held[begin + 1 :]), (held[begin + 1 : begin + 2], held[:begin])):
            if x.size:
                assert both(x, y, out=out)[0] == x[0] + y.sum()
    for begin in range(9):
        for other in range(9):
            x, out = held[begin : begin + 4], held[other : other + 4]
            if 0 < abs(begin - other) < 4:
                with pytest.raises(ArrayError, match="out shares memory with the input x"):
                    both(x, held[:0], out=out)
            else:
                wanted = x.copy()
                assert both(x, held[:0], out=out).tolist() == wanted.tolist()
    # An empty result stores nothing, and an empty input is not read.
    assert both(held[:0], held, out=held[5:5]).size == 0
    assert both(held[:4], held[2:2], out=held[:4]) is not None


@pytest.mark.long
def test_index_arrays_and_other_shapes_cannot_be_overwritten() -> None:
    gather = atl.tensor("at", atl.sizes("n"), dtype="int64", range=(0, atl.sizes("n")))
    of = compile_kernel(atl.program("t", [gather], atl.gen(atl.sizes("n"), lambda i: gather[gather[i]])))
    at = np.array([2, 0, 1])
    with pytest.raises(ArrayError, match="its elements are indices, which are read repeatedly"):
        of(at, out=at)
    turned = compile_kernel(atl.parse("t (x : float32[n, m]) : float32[m, n] := ⊞[i < m] ⊞[j < n] x[j, i]"))
    square = np.ones((2, 2), np.float32)
    with pytest.raises(ArrayError, match="the shape of the result differs at some sizes"):
        turned(square, out=square)


@pytest.mark.long
def test_random_programs_proved_in_place_agree() -> None:
    counted: Counter[str] = Counter()
    for number in range(60):
        made = case_by_seed(23, number)
        if not isinstance(made, Case):
            continue
        try:
            nest = lower(made.program)
        except ATLError:
            continue
        for array in made.program.inputs:
            if not array.shape:
                continue
            try:
                of = with_inputs_in_place(nest, [array.name])
            except ArrayError:
                counted["refused"] += 1
                continue
            counted["in place"] += 1
            found = execute(of, made.sizes, made.arrays)
            wanted = execute(nest, made.sizes, made.arrays)
            np.testing.assert_array_equal(found.to_numpy(), wanted.to_numpy())
    assert counted["in place"] >= 3
    assert counted["refused"] >= 10


@pytest.mark.long
def test_random_programs_with_shared_storage_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lowering.targets.capabilities.STACK_LIMIT", 0)  # all buffers on the heap
    shared = 0
    for number in range(60):
        made = case_by_seed(29, number)
        if not isinstance(made, Case):
            continue
        try:
            lower(made.program)
        except ATLError:
            continue
        before = lower_unchecked(made.program)
        after = after_passes(before)
        shared += len(heap(after)) < len(heap(before))
        found, wanted = (execute(nest, made.sizes, made.arrays).to_numpy() for nest in (after, before))
        np.testing.assert_array_equal(found, wanted)
    assert shared >= 3
