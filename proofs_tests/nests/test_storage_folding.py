"""Lets marked `ring`: computed in the loop that reads them, with a window of rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import product
from random import Random
from typing import Any, Final

import numpy as np
import pytest

import atl
from atl.core.index import ZERO, constant
from atl.core.marks import LetMark
from atl.errors import IllegalMark, UnsupportedMark
from atl.prove import Proved
from examples.schedules import blur
from lowering import compile as compile_kernel
from lowering import lower, print_nest
from lowering.nest import loopnest as ln
from lowering.nest.execution import Trap
from lowering.nest.interpreter import run
from lowering.nest.loopnest import in_other_buffers
from lowering.nest.obligations import report
from lowering.passes import storage_folding as folding
from lowering.passes.storage_folding import with_folded_storage
from lowering.targets.legality import check_legal
from proofs_tests.nests.by_hand import at, cell, i, j, loop, n, nest, output, vi, vj
from proofs_tests.nests.ring_programs import PROGRAMS, ROWS, picture, program, random_program
from rewrites import reschedule

SIZES: Final = tuple(product((1, 2, 3, 4, 7), (1, 2, 5)))


@cache
def lowered(name: str) -> tuple[atl.Program, ln.LoopNest]:
    of = program(PROGRAMS[name])
    return of, lower(of)


def ring_rows(nest: ln.LoopNest) -> list[int]:
    return [s.buffer.rows for s in ln.statements(nest.body) if isinstance(s, ln.Allocate) and s.mark is LetMark.RING]


@pytest.mark.sampled
@pytest.mark.parametrize("name", PROGRAMS)
def test_ring_keeps_the_meaning_at_any_size(name: str) -> None:
    of, nest = lowered(name)
    assert ring_rows(nest)
    assert all(ring_rows(nest))
    kernel = compile_kernel(of)
    for rows, columns in SIZES:
        v = picture(rows, columns)
        wanted = atl.evaluate(of, v)
        np.testing.assert_array_equal(run(nest, {"n": rows, "m": columns}, {"v": v}), wanted)
        np.testing.assert_array_equal(kernel(v), wanted)


def differing(seed: int, count: int) -> tuple[Counter[int], list[str]]:
    """Run random programs with rings; return how many rings have how many rows, and the programs that are wrong."""
    seen: Counter[int] = Counter()
    wrong: list[str] = []
    for number in range(count):
        of = random_program(Random(f"{seed}:{number}"))
        try:
            nest = lower(of)
        except IllegalMark:
            continue  # the window applies only in some iterations
        seen.update(ring_rows(nest))
        for rows in (1, 3, 6):
            v = picture(rows, 2)
            try:
                found = run(nest, {"n": rows, "m": 2}, {"v": v})
            except Trap as trap:
                wrong.append(f"{of}\n{trap}")
                break
            if not np.array_equal(found, atl.evaluate(of, v)):
                wrong.append(f"{of}\nat n = {rows}")
                break
    return seen, wrong


@pytest.mark.long
def test_rings_of_random_windows_keep_the_meaning() -> None:
    seen, wrong = differing(seed=3, count=60)
    assert wrong == []
    assert sum(count for rows, count in seen.items() if rows > 1) >= 30


@pytest.mark.long
@pytest.mark.parametrize(
    ("of", "name", "wrong"),
    [
        (folding._Window, "earlier", property(lambda window: 0)),
        (folding._Window, "new", property(lambda window: 1)),
        (folding, "prove", lambda *_given, **_named: Proved("linear")),
    ],
    ids=["too late", "one row for several", "no window"],
)
def test_random_windows_find_a_planted_fault(of: Any, name: str, wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of, name, wrong)
    assert differing(seed=3, count=30)[1]


@pytest.mark.parametrize("name", PROGRAMS)
def test_obligations_of_nests_with_rings_are_not_refuted(name: str) -> None:
    assert not report(lowered(name)[1]).refuted


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("rows of two", [2]),
        ("one row", [1]),
        ("a row that stays two behind", [1]),
        ("a window of a sum", [5]),
        ("two rows an iteration", [3]),
        ("every third row", [1]),
        ("one let after the other", [3, 3]),
        ("blocks of rows", [5]),
        ("a ring for each block", [2]),
    ],
)
def test_ring_has_exactly_the_rows_of_its_window(name: str, rows: list[int]) -> None:
    assert ring_rows(lowered(name)[1]) == rows


def test_each_row_is_computed_once_and_only_inside_the_let() -> None:
    text = print_nest(lowered("one let after the other")[1])
    assert text.count("b[y + 4, x] =") == 2  # its value, or a zero
    assert text.count("c[y + 2, x] =") == 1
    assert "for y in -4..n:" in text


PLAIN: Final = f"let b | ring := ⊞[y < n] {ROWS} in "
REFUSED: Final = {
    "in reverse": (
        PLAIN + "⊞[y < n] ⊞[x < m] b[n - 1 - y, x]",
        "row n - y - 1 in `out[y, x] = b[n - y - 1, x]` is not in a window that moves with the loop y",
    ),
    "a row that stays": (
        PLAIN + "⊞[y < n] ⊞[x < m] b[0, x]",
        "row 0 in `out[y, x] = b[0, x]` is not in a window that moves with the loop y",
    ),
    "one that moves and one that stays": (
        PLAIN + "⊞[y < n] ⊞[x < m] b[y, x] + b[0, x]",
        "row 0 in `out[y, x] = b[y, x] + b[0, x]` is not in the window of 1 rows from y on; row 0 in iteration",
    ),
    "too many rows": (
        PLAIN + "⊞[y < n] ⊞[x < m] Σ[r < n - y] b[y + r, x]",
        "row y + r in `total += b[y + r, x]` is not in a window that moves with the loop y",
    ),
    "a number of rows that is a size": (
        PLAIN + "⊞[y < n] ⊞[x < m] Σ[r < m] [y + r < n] · b[y + r, x]",
        "the loop y needs m of its rows at a time, which is not constant",
    ),
    "two steps": (
        "let b | ring := ⊞[y < 2*n] ⊞[x < m] [y < n] · v[y, x] in ⊞[y < n] ⊞[x < m] b[y, x] + b[2*y, x]",
        "row y in `out[y, x] = b[y, x] + b[2*y, x]` is not in a window that moves with the loop y",
    ),
    "two loops": (PLAIN + "(⊞[y < n] ⊞[x < m] b[y, x]) ++ ⊞[y < n] ⊞[x < m] b[y, x]", "2 statements read it"),
    "a loop over columns": (
        PLAIN + "transpose ⊞[x < m] ⊞[y < n] b[y, x]",
        "row y in `out[y, x] = b[y, x]` is not in a window that moves with the loop x",
    ),
    "a parallel loop": (
        PLAIN + "⊞[y < n | parallel] ⊞[x < m] b[y, x]",
        "the loop y, which reads it, is marked parallel",
    ),
    "rows that run at once": (
        "let b | ring := ⊞[y < n | parallel] ⊞[x < m] v[y, x] in ⊞[y < n] ⊞[x < m] b[y, x]",
        "its rows are computed by the loop y, which is marked parallel",
    ),
    "rows in reverse": (
        "let b | ring := Σ[y < n] place(n, n - 1 - y, ⊞[x < m] v[y, x]) in ⊞[y < n] ⊞[x < m] b[y, x]",
        "its rows are computed by the loop y",
    ),
    "rows in blocks": (
        "let b | ring := flatten ⊞[yo < n] ⊞[yi < 4] ⊞[x < m] v[yo, x] in ⊞[y < 4*n] ⊞[x < m] b[y, x]",
        "its rows are computed by the loop y",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_let_without_a_window_is_refused(name: str) -> None:
    body, message = REFUSED[name]
    with pytest.raises(IllegalMark) as caught:
        lower(program(body))
    refused = caught.value
    assert refused.summary.startswith(f"the buffer b is marked ring; {message}")
    assert (refused.binder, refused.mark, refused.code) == ("b", "ring", "ATL506")
    assert refused.required
    assert refused.place is not None
    assert refused.place.text[refused.place.start :].startswith("let b | ring")
    assert 's.mark("b", None) removes the mark' in refused.suggestions
    without = program(body.replace("b | ring", "b"))
    lower(without)


def test_numbers_of_a_refusal_give_an_iteration_and_a_row() -> None:
    with pytest.raises(IllegalMark) as caught:
        lower(program(REFUSED["one that moves and one that stays"][0]))
    numbers = caught.value.numbers
    assert isinstance(numbers, dict)
    assert numbers["y"] != 0
    assert f"row 0 in iteration {numbers['y']}" in caught.value.summary


def test_rows_are_not_moved_past_changes_of_their_operands() -> None:
    b, total = ln.Buffer(7, "b", "float32", (n,)), ln.Scalar(8, "total", "float32")
    out = output(n)
    let = ln.Allocate(b, n, mark=LetMark.RING)
    rows = loop(vi, n, ln.Assign(cell(b, i), ln.Load(total)))
    counted = loop(vj, n, ln.Assign(cell(out, j), at(b, j)), ln.Accumulate(total, "add", ln.Number(1, "float32")))
    start = ln.Declare(total, ln.Number(0, "float32"))
    made = with_folded_storage(nest("counted", [], out, start, let, rows, counted, ln.Free(b), sizes="n"))
    (refused,) = made.refused
    assert "changes the operands of its rows" in refused.summary
    assert run(made, {"n": 4}, {}).tolist() == [0] * 4
    with pytest.raises(IllegalMark, match="changes the operands of its rows"):
        check_legal(made)


@pytest.mark.parametrize("row", [0, 1])
def test_rows_are_moved_past_stores_to_other_cells_only(row: int) -> None:
    """The loop that reads b stores to row `row` of a, backwards; the rows of b are computed from row 0."""
    a, b = ln.Buffer(6, "a", "float32", (constant(2), n)), ln.Buffer(7, "b", "float32", (n,))
    out = output(n)
    first = loop(vi, n, *(ln.Assign(cell(a, constant(r), i), ln.FromIndex(i, "float32")) for r in range(2)))
    rows = loop(vi, n, ln.Assign(cell(b, i), at(a, ZERO, i)))
    stored = ln.Accumulate(cell(a, constant(row), n - 1 - j), "add", ln.Number(9, "float32"))
    reader = loop(vj, n, ln.Assign(cell(out, j), at(b, j)), stored)
    let = ln.Allocate(b, n, mark=LetMark.RING)
    block = (ln.Allocate(a, 2 * n), first, let, rows, reader, ln.Free(b), ln.Free(a))
    made = with_folded_storage(nest("moved", [], out, *block, sizes="n"))
    assert len(made.refused) == 1 - row
    assert any(isinstance(s, ln.Allocate) and s.buffer.rows == 1 for s in ln.statements(made.body)) == bool(row)
    assert run(made, {"n": 5}, {}).tolist() == [0, 1, 2, 3, 4]


def test_scalar_cannot_be_a_ring() -> None:
    with pytest.raises(UnsupportedMark):
        compile_kernel(program("⊞[y < n] let b | ring := v[y, 0] in b * b"))


def mapped(block: ln.Block, change: Any) -> ln.Block:
    out: list[Any] = []
    for statement in block:
        match statement:
            case ln.For(body=body) | ln.If(body=body):
                out += change(replace(statement, body=mapped(body, change)))
            case _:
                out += change(statement)
    return tuple(out)


def fewer_rows(nest: ln.LoopNest) -> ln.LoopNest:
    """Remove one row from the window."""
    (buffer,) = (s.buffer for s in ln.statements(nest.body) if isinstance(s, ln.Allocate))
    return replace(nest, body=in_other_buffers(nest.body, {buffer: replace(buffer, rows=buffer.rows - 1)}))


def later(nest: ln.LoopNest) -> ln.LoopNest:
    """Start the loop where the program's loop starts, without the first rows."""

    def late(s: Any) -> list[Any]:
        return [replace(s, low=s.low + 1) if isinstance(s, ln.For) and s.low.constant == -2 else s]

    return replace(nest, body=mapped(nest.body, late))


def after_the_readers(nest: ln.LoopNest) -> ln.LoopNest:
    """Compute rows after the reads of their iteration."""

    def turned(s: Any) -> list[Any]:
        return [replace(s, body=(s.body[-1], *s.body[:-1]))] if isinstance(s, ln.For) and s.low.constant == -2 else [s]

    return replace(nest, body=mapped(nest.body, turned))


def never_begun(nest: ln.LoopNest) -> ln.LoopNest:
    """Omit the statements that start a new row."""
    return replace(nest, body=mapped(nest.body, lambda s: [] if isinstance(s, ln.Clear) else [s]))


def begun_one_too_far(nest: ln.LoopNest) -> ln.LoopNest:
    """Start the wrong row."""

    def changed(s: Any) -> list[Any]:
        return [replace(s, row=s.row - 1) if isinstance(s, ln.Clear) and s.row is not None else s]

    return replace(nest, body=mapped(nest.body, changed))


@pytest.mark.parametrize("fault", [fewer_rows, later, after_the_readers, never_begun, begun_one_too_far])
def test_interpreter_traps_missing_rows(fault: Any) -> None:
    of = reschedule(blur.two_stage()).mark("buf", "ring").goal
    nest = lower(of)
    v = picture(5, 3)
    np.testing.assert_array_equal(run(nest, {"n": 5, "m": 3}, {"v": v}), atl.evaluate(of, v))
    wrong = fault(nest)
    assert wrong != nest
    with pytest.raises(Trap) as caught:
        run(wrong, {"n": 5, "m": 3}, {"v": v})
    assert caught.value.kind in ("ring", "out of bounds", "capacity")


def test_row_without_enough_capacity_is_trapped() -> None:
    of = reschedule(blur.two_stage()).mark("buf", "ring").goal
    nest = lower(of)

    def short(s: Any) -> list[Any]:
        return [replace(s, count=s.count - 1) if isinstance(s, ln.Clear) else s]

    def narrow(s: Any) -> list[Any]:
        return [replace(s, capacity=s.capacity - 1) if isinstance(s, ln.Allocate) else s]

    for change in (short, narrow):
        with pytest.raises(Trap, match="capacity"):
            run(replace(nest, body=mapped(nest.body, change)), {"n": 5, "m": 3}, {"v": picture(5, 3)})
