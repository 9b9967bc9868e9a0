"""Storage of recurrences: the rows that are kept, with the reason, and loops split at borders."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

import atl
from atl import IndexExpr, Program, Tensor, gen, guard, iterate, rec, select
from atl.core.predicate import TRUE
from lowering import lower, print_nest
from lowering.c import memory
from lowering.nest import loopnest as ln
from lowering.nest.execution import Trap
from lowering.nest.interpreter import run
from lowering.passes import buffers, recurrences
from lowering.passes.splitting import MOST_CUTS
from proofs_tests.nests.random_recurrences import run_recurrences
from proofs_tests.nests.recurrence_programs import DTYPE, A, T, a, fibonacci, n, retreat, shortest_paths, stencil
from rewrites import reschedule


def row_storage(program: Program, name: str = "u") -> ln.RowStorage:
    """Return the storage of the only recurrence of this name."""
    (found,) = [storage for storage in lower(program).row_storage if storage.name == name]
    return found


def check(program: Program, size: int = 6, steps: int = 5) -> None:
    """Compare the loop nest, whose interpreter traps reads of replaced elements, and C with the meaning."""
    arrays: dict[str, Any] = {
        array.name: np.random.default_rng(7).uniform(-1, 1, (size,) * len(array.shape)) for array in program.inputs
    }
    sizes = {"n": size, "T": steps}
    asked = {name: sizes[name] for name in program.sizes}
    scalars: dict[str, Any] = {"T": steps} if "T" in program.sizes else {}
    expected = atl.evaluate(program, **arrays, **scalars)
    for result in (run(lower(program), asked, arrays), atl.compile(program)(**arrays, **scalars)):
        np.testing.assert_allclose(result, expected, rtol=1e-12)


def problems(count: int, seed: int) -> list[tuple[tuple[tuple[int, int], ...], bool]]:
    """Return random stencils. Row-major order allows those in place that read no element before their own."""
    chance = Random(seed)
    around = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
    return [(tuple(chance.sample(around, chance.choice((1, 1, 2, 3)))), chance.random() < 0.5) for _ in range(count)]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_a_step_is_in_place_exactly_if_no_read_follows_the_store(seed: int) -> None:
    in_place = 0
    for reads, by_rows in problems(20, seed):
        program = stencil(list(reads), by_rows=by_rows)
        storage = row_storage(program)
        allowed = all(distance >= (0, 0) for distance in reads)
        in_place += allowed
        assert storage.rows == (1 if allowed else 2), (reads, by_rows, str(storage))
        assert ("would be replaced" in storage.reason) is not allowed
        check(program, size=5, steps=3)
    assert 4 <= in_place <= 16


@pytest.mark.long
def test_random_recurrences_are_in_place_where_they_may_be() -> None:
    report = run_recurrences(range(20), seed=3, compiled=False)
    assert report.findings == [], str(report)
    assert report.may == 10
    assert report.are >= 9


def test_recurrence_that_is_wrongly_in_place_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrences, "find_overwritten_read", lambda *_: None)
    report = run_recurrences(range(2), seed=3, compiled=False)
    assert ["wrongly computed in place" in found for found in report.findings] == [True]


def test_the_reason_names_the_read_the_store_and_numbers() -> None:
    program = stencil([(-1, 0), (1, 0)], by_rows=False)
    storage = str(row_storage(program))
    assert storage.startswith("u: 2 rows are kept, one of them in the result, and row 0 is A; `u[s, i, j] = ")
    assert "reads an element of row s - 1 that would be replaced before, in an earlier iteration (" in storage
    assert "i = 1" in storage
    assert "i' = 2" in storage
    assert "once" not in storage
    assert storage in print_nest(lower(program)).replace("\n    # ", " ")
    kept, copied = str(reschedule(program).explain("u")).splitlines()
    assert kept == storage
    assert copied.startswith(
        "u: elements that each step copies are stored in the first rows, until all kept rows have "
    )
    with pytest.raises(atl.ATLError, match="no local recurrence or ring 'v'") as refused:
        reschedule(program).explain("v")
    assert refused.value.required == "one of u"
    source = " ".join(atl.compile(program).source.split())
    assert " ".join(storage.split()) in source


def test_elements_that_never_change_are_copied_until_all_rows_have_them() -> None:
    program = stencil([(-1, 0), (0, -1), (0, 0), (0, 1), (1, 0)], by_rows=False)
    lines = print_nest(lower(program)).splitlines()
    copies = [at for at, line in enumerate(lines) if line.strip().startswith("u[s, ") and "/" not in line]
    assert len(copies) >= 4
    assert all("if s < 3:" in "".join(lines[at - 3 : at]) for at in copies)
    for steps in range(4):
        check(program, size=4, steps=steps)


def test_row_that_is_stored_has_its_elements_one_step_earlier() -> None:
    """Only rows that are read from an input need one more copy of the ends."""

    def step(_: IndexExpr, u: Tensor) -> Tensor:
        return gen(n, lambda i: select((i >= 1) & (i + 1 < n), u[i - 1] + u[i + 1], u[i]))

    program = atl.program("within", [a], gen(n, lambda i: 2 * iterate(T, a, step)[i]))
    nest = lower(program)
    assert nest.external_rows is None
    assert " < 2:" in print_nest(nest)
    assert " < 3:" not in print_nest(nest)
    for steps in range(4):
        check(program, size=4, steps=steps)


@pytest.mark.parametrize("changes", [1, 2, 3])
def test_first_row_is_stored_if_several_loops_compute_the_others(changes: int) -> None:
    """The loop over rows is split where the step changes, and the copies are in its first part only."""

    def step(s: IndexExpr, u: Tensor) -> Tensor:
        rest = gen(n - 1, lambda i: select(s < changes, u[n - 1 - i] * 2, u[n - 1 - i] * 4))
        return atl.concat(gen(1, lambda i: u[i]), rest)

    program = atl.program("parts", [a], iterate(T, a, step))
    nest = lower(program)
    assert print_nest(nest).count("for s in") == 2
    assert nest.external_rows is not None
    assert nest.external_rows.first is None
    for steps in range(6):
        check(program, size=4, steps=steps)


def test_elements_that_are_copied_in_some_steps_are_stored_in_each() -> None:
    program = retreat()
    assert row_storage(program).rows == 2
    assert [(buffer.rows, buffer.in_place) for buffer in allocated(program)] == [(2, False)]
    check(program)


def test_the_interpreter_finds_a_copy_that_is_missing() -> None:
    """Planted: no copies at all, so that elements of the second row have no value."""
    nest = lower(stencil([(-1, 0), (1, 0)], by_rows=False))
    planted = replace(nest, body=_without_guarded(nest.body))
    with pytest.raises(Trap, match="which has no value"):
        run(planted, {"n": 5, "T": 2}, {"A": np.ones((5, 5))})


def _without_guarded(block: ln.Block) -> ln.Block:
    """Drop all branches."""
    return tuple(
        ln.with_body(s, _without_guarded(s.body)) if isinstance(s, ln.For) else s
        for s in block
        if not isinstance(s, ln.If)
    )


def test_a_window_of_rows_is_circular() -> None:
    """Three rows are kept of a recurrence that reads two rows back, and its last row is read."""
    program = fibonacci()
    assert row_storage(program, "y").rows == 3
    check(program)


def test_all_rows_are_kept_if_one_reads_the_first() -> None:
    rows = rec(n, lambda p, y: a[p] + select(p >= 1, y[p - 1] + y[0], 0), dtype=DTYPE)
    program = atl.program("first", [a], rows[n - 1])
    storage = row_storage(program, "y")
    assert storage.rows == 0
    assert "reads row 0" in storage.reason
    check(program)


def test_all_rows_are_kept_of_a_result_or_after_several_first_rows() -> None:
    guarded = rec(n, lambda p, y: gen(n, lambda i: guard(i <= p, select(p >= 1, y[p - 1, i], 0) + a[i])), of=(n,))
    check(atl.program("result", [a], guarded))
    program = atl.program("many", [a], rec(a, 2 * n, lambda p, y: 2 * y[p - 1])[2 * n - 1])
    assert row_storage(program, "y").reason == "it begins with n rows"
    check(program)


def test_reason_for_three_rows_is_the_read_of_the_oldest() -> None:
    body = "(rec[2 <= p < n + 2] y from ⊞[_ < 2] ⊞[i < m] x[i] in ⊞[i < m] y[p - 1, i] + y[p - 2, i])[n + 1]"
    found = row_storage(atl.parse(f"f (x : float32[m], n : size) : float32[m] :=\n  {body}"), "y")
    assert (found.rows, found.reason) == (3, "`y[p, i] = y[p - 1, i] + y[p - 2, i]` reads row p - 2")


def test_read_in_a_loop_after_the_store_needs_two_rows() -> None:
    def step(s: IndexExpr, u: Tensor) -> Tensor:
        return atl.concat(gen(1, lambda i: 2 * u[i]), gen(n - 1, lambda i: u[i + 1] + u[0]))

    program = atl.program("later", [a], iterate(T, a, step))
    storage = row_storage(program)
    assert storage.rows == 2
    assert "would be replaced before, by `u[s, 0] = " in storage.reason
    check(program)


def test_row_before_the_last_is_kept_if_it_is_read_afterwards() -> None:
    rows = atl.scan(T, a, lambda s, u: gen(n, lambda i: u[i] / 2))
    program = atl.program("change", [a], atl.let(rows, lambda r: gen(n, lambda i: r[T, i] - r[atl.imax(T - 1, 0), i])))
    assert row_storage(program, "r").rows == 2
    check(program)


def test_choice_of_two_rows_at_different_places_stays_a_choice() -> None:
    def later(u: Tensor) -> Tensor:
        return rec(n, lambda j, r: select(j % 2 < 1, u[j], r[atl.imax(j - 1, 0)] + 1), dtype=DTYPE)

    program = atl.program("choice", [a], iterate(T, a, lambda s, u: later(u)))
    assert row_storage(program).rows == 1
    check(program)


def test_padding_of_a_row_is_not_that_of_the_row_before() -> None:
    program = atl.program(
        "padded", [a], rec(n, lambda p, y: gen(n, lambda i: guard(i <= p, a[i] + 1)), of=(n,), dtype=DTYPE)[n - 1]
    )
    check(program)
    moving = atl.program(
        "moving",
        [a],
        iterate(T, a, lambda s, u: gen(n, lambda i: guard((i + s) % 2 < 1, u[i] + 1))),
    )
    storage = row_storage(moving)
    check(moving)
    assert storage.rows == 2 or "padding" not in storage.reason


def test_a_step_that_changes_one_row_stores_just_that() -> None:
    scaled = iterate(T, A, lambda s, u: gen(n, n, lambda i, j: select(i < 2, 2 * u[i, j], u[i, j])))
    program = atl.program("scaled", [A], scaled)
    text = print_nest(lower(program))
    assert row_storage(program).rows == 1
    assert "for i in 0..2:" in text
    assert "if" not in text
    check(program)
    one = atl.program(
        "one", [A], iterate(n - 1, A, lambda s, u: gen(n, n, lambda i, j: select(i <= s, u[i, j], u[i, j] - u[s, j])))
    )
    assert row_storage(one).rows == 1
    check(one)


def test_loops_in_steps_are_split_at_borders() -> None:
    program = stencil([(-1, 0), (0, -1), (0, 0), (0, 1), (1, 0)], by_rows=False)
    text = print_nest(lower(program))
    assert text.count("for j in 1..(n - 1):") == 1
    many = [
        (i, j) for i, j in product(range(1, MOST_CUTS + 3), repeat=2) if i == j
    ]  # more places than a loop is cut at
    steps = atl.program(
        "many",
        [A],
        iterate(
            T,
            A,
            lambda s, u: gen(
                n, n, lambda i, j: sum((select(j < k, u[i, j] / k, u[i, j]) for k, _ in many), 0 * u[i, j])
            ),
        ),
    )
    check(steps)


@pytest.mark.parametrize(
    ("condition", "bounds"),
    [
        (lambda i: i <= n - 3, ["0..(n - 2)", "(n - 2)..n"]),
        (lambda i: i >= 2, ["0..2", "2..n"]),
        (lambda i: i != 2, ["0..2", "3..n"]),
    ],
)
def test_loop_is_cut_exactly_where_a_condition_changes(condition: Any, bounds: list[str]) -> None:
    step = iterate(T, a, lambda s, u: gen(n, lambda i: select(condition(i), 2 * u[i], 3 * u[i])))
    program = atl.program("cut", [a], step)
    text = print_nest(lower(program)).split("for s in", 1)[1]
    assert [part.partition(":")[0] for part in text.split("for i in ")[1:]] == bounds
    check(program)


def test_the_range_between_two_cuts_needs_no_clamps() -> None:
    m = atl.sizes("m")
    b = atl.tensor("b", m, dtype=DTYPE)
    inner = iterate(T, b, lambda s, u: gen(m, lambda i: select((i >= 1) & (i + 1 < m), u[i - 1] + u[i + 1], u[i])))
    program = atl.program("inner", [b], inner)
    assert "for i in 1..(m - 1):" in print_nest(lower(program))
    kernel = atl.compile(program)
    for size in range(5):
        values = np.random.default_rng(size).random(size)
        expected = atl.evaluate(program, values, T=3)
        np.testing.assert_allclose(kernel(values, T=3), expected)
        np.testing.assert_allclose(run(kernel.nest, {"m": size, "T": 3}, {"b": values}), expected)


def test_the_interpreter_finds_an_illegal_fold() -> None:
    """Planted: a stencil that reads both neighbours in one row."""
    program = stencil([(-1, 0), (1, 0)], by_rows=False)
    nest = lower(program)
    (buffer,) = {s.buffer for s in ln.statements(nest.body) if isinstance(s, ln.Allocate)}
    one = replace(buffer, rows=1, in_place=True)
    kept = tuple(s for s in nest.body if not isinstance(s, ln.Clear))
    planted = replace(nest, body=_without_starts(ln.in_other_buffers(kept, {buffer: one})))
    with pytest.raises(Trap, match="is read, but row"):
        run(planted, {"n": 5, "T": 2}, {"A": np.ones((5, 5))})
    fewer = replace(nest, body=ln.in_other_buffers(nest.body, {buffer: replace(buffer, rows=1)}))
    with pytest.raises(Trap):
        run(fewer, {"n": 5, "T": 2}, {"A": np.ones((5, 5))})


def _without_starts(block: ln.Block) -> ln.Block:
    """Drop the statements that start rows."""
    return tuple(
        ln.with_body(s, _without_starts(s.body)) if isinstance(s, ln.For | ln.If) else s
        for s in block
        if not isinstance(s, ln.Clear)
    )


def test_a_choice_of_two_rows_in_one_place_is_one_read() -> None:
    text = print_nest(lower(shortest_paths()))
    assert "if" not in text.split("\n", 3)[-1]
    check(shortest_paths())


def test_rows_are_accessed_through_pointers() -> None:
    last = iterate(T, A, lambda s, u: gen(n, n, lambda i, j: select(i >= 1, u[i - 1, n - 1 - j], u[i, j])))
    source = atl.compile(atl.program("more", [A], last + 1)).source
    assert "double *restrict u_row = &u[" in source
    assert "const double *restrict u_row2 = &u[" in source


def allocated(program: Program) -> list[ln.Buffer]:
    return [each.buffer for each in ln.statements(lower(program).body) if isinstance(each, ln.Allocate)]


def test_last_of_one_row_is_computed_in_the_result() -> None:
    program = shortest_paths()
    assert allocated(program) == []
    assert str(row_storage(program)).startswith("u: one row is kept, in the result; each element of row ")
    check(program)
    paths = np.random.default_rng(5).random((6, 6))
    result = paths.copy()
    np.testing.assert_allclose(atl.compile(program)(result, out=result), atl.evaluate(program, paths))


def test_one_row_is_apart_from_an_input_that_may_be_the_result() -> None:
    """A call may pass `A` as `out`, so the steps that read `A` do not store to the result."""
    step = iterate(T, A, lambda s, u: gen(n, n, lambda i, j: u[i, j] / 2 + A[i, j]))
    program = atl.program("halves", [A], step)
    assert [(buffer.name, buffer.rows) for buffer in allocated(program)] == [("u", 1)]
    check(program)
    numbers = np.random.default_rng(5).random((6, 6))
    result = numbers.copy()
    np.testing.assert_allclose(atl.compile(program)(result, T=3, out=result), atl.evaluate(program, numbers, T=3))


def three_rows() -> Program:
    """Return a program whose rows read the two rows before, and whose result is the last row."""

    def row(p: IndexExpr, y: Tensor) -> Tensor:
        return gen(n, lambda j: y[p - 1, n - 1 - j] + select(p >= 2, y[p - 2, j], a[j]))

    return atl.program("three_rows", [a], rec(gen(1, lambda _: a), T + 1, row)[T])


TWO_ROWS = stencil([(-1, 0), (1, 0)], by_rows=False)


@pytest.mark.parametrize("program", [TWO_ROWS, retreat(), three_rows()], ids=["stencil", "retreat", "three_rows"])
def test_rows_are_computed_in_the_result_in_turn(program: Program) -> None:
    kernel = atl.compile(program)
    (array,), ring = program.inputs, kernel.nest.external_rows
    assert ring is not None
    assert f" is {array.name};" in str(row_storage(program, ring.buffer.name))
    assert f"? {array.name}" in kernel.source
    assert "? out" in kernel.source
    numbers = np.random.default_rng(6).random((7,) * len(array.shape))
    for steps in range(6):
        expected = atl.evaluate(program, numbers, T=steps)
        given, strided = numbers.copy(), np.full(tuple(2 * size for size in numbers.shape), np.nan)
        view = strided[tuple(slice(None, None, 2) for _ in numbers.shape)]
        for result in (
            kernel(numbers, T=steps, out=np.full_like(numbers, np.nan)),
            kernel(numbers, T=steps, out=view),
            kernel(given, T=steps, out=given),
        ):
            np.testing.assert_allclose(result, expected)
    assert str(kernel.validate()).startswith("the C text of ")


def test_rows_are_apart_from_a_result_that_needs_more_than_the_last_row() -> None:
    last = iterate(T, A, lambda s, u: gen(n, n, lambda i, j: select(i >= 1, u[i - 1, n - 1 - j], u[i, j])))
    for body in (last + 1, atl.transpose(last), atl.concat(last, A)):
        nest = lower(atl.program("more", [A], body))
        assert nest.external_rows is None


@pytest.mark.parametrize("fault", ["the other parity", "borders are not copied", "a first row is read again"])
def test_wrong_rows_in_the_result_are_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if fault == "the other parity":
        row = memory._external_row

        def planted(scope: Any, rows: ln.ExternalRows, at: Any, *, stored: bool) -> str:
            return row(scope, rows, at + 1, stored=stored)

        monkeypatch.setattr(memory, "_external_row", planted)
    elif fault == "borders are not copied":
        monkeypatch.setattr(buffers, "_with_another_copy", lambda body, _: body)
    else:
        monkeypatch.setattr(memory, "less", lambda *_: TRUE)
    kernel = atl.compile(TWO_ROWS)
    with pytest.raises(atl.ATLError):
        kernel.validate()


@pytest.mark.parametrize(("distance", "rows"), [(0, 1), (1, 2)])
def test_last_row_is_read_in_place(distance: int, rows: int) -> None:
    """A let that is the last row needs no copy of it."""

    def step(_: IndexExpr, u: Tensor) -> Tensor:
        def cell(i: IndexExpr, j: IndexExpr) -> Tensor:
            return select((i >= 1) & (i + 1 < n), u[i - distance, j] + u[i + 1, j], u[i, j])

        return gen(n, n, cell)

    program = atl.program("twice", [A], atl.let(iterate(T, A, step), lambda last: last @ last.T, name="last"))
    assert [(buffer.name, buffer.rows) for buffer in allocated(program)] == [("u", rows)]
    check(program)


def test_rows_of_changing_length_are_kept_in_a_hoisted_buffer() -> None:
    def last(i: IndexExpr) -> Tensor:
        rows = iterate(2, gen(i, lambda j: a[j]), lambda s, u: gen(i, lambda j: u[i - 1 - j] + 1))
        return atl.sum(i, lambda j: rows[j])

    program = atl.program("lengths", [a], gen(n, last))
    assert "change in the loops around it" in row_storage(program, "u").reason
    check(program)
