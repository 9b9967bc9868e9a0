"""Runs (segmented reduction): results, printed form, refusals and planted faults."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any, Final

import numpy as np
import pytest

import atl
import lowering.c.loops
import lowering.nest.execution
from atl.core.program import Program
from atl.errors import IllegalMark
from lowering import compile as compiled
from lowering import lower, print_nest
from lowering.c.text import indented
from lowering.nest.interpreter import run
from lowering.nest.marked_loops import Runs, runs_at
from proofs_tests.nests.co_iteration.programs import with_all_sums_marked

KEYS: Final = 3
n, z = atl.sizes("n z")
a = atl.tensor("a", z)
row = atl.tensor("row", z, dtype="int64", range=(0, n))


def added_up() -> Program:
    """Σp place n row[p] a[p]."""
    return with_all_sums_marked(
        atl.program("added_up", [row, a], atl.sum(z, lambda p: atl.place(n, row[p], a[p]))), "runs"
    )


def test_runs_are_correct_for_any_order_of_keys() -> None:
    nest, kernel = lower(added_up()), compiled(added_up())
    for count in range(5):
        values = np.float32(2.0) ** np.arange(count, dtype=np.float32)
        for keys in product(range(KEYS), repeat=count):
            given = {"row": np.array(keys, np.int64), "a": values}
            wanted = np.bincount(given["row"], values, KEYS)
            assert kernel(**given, n=KEYS).tolist() == wanted.tolist()
            assert run(nest, {"n": KEYS, "z": count}, given).tolist() == wanted.tolist()


def test_run_accumulates_in_a_scalar_and_stores_once() -> None:
    assert "for p in 0..z:  # runs\n        out[row[p]] += a[p]" in print_nest(lower(added_up()))
    assert (
        compiled(added_up()).source.partition("sizeof *out);\n")[2]
        == """\
    for (int64_t p = 0; p < z;) {
        const int64_t p_first = p;
        float total = 0;
        do {
            total += a[p];
            p++;
        } while (p < z && row[p] == row[p_first]);
        out[row[p_first]] += total;
    }
    return 0;
}
"""
    )


def test_keys_of_several_dimensions_and_conditions_form_runs() -> None:
    column = atl.tensor("column", z, dtype="int64", range=(0, n))
    terms = atl.sum(
        z, lambda p: atl.place(n, row[p], atl.place(n, column[p], atl.guard(p % 2 == 0, a[p] * atl.sum(3, atl.value))))
    )
    program = with_all_sums_marked(atl.program("both", [row, column, a], terms), "runs")
    kernel, nest = compiled(program), lower(program)
    assert "while (p < z && row[p] == row[p_first] && column[p] == column[p_first])" in kernel.source
    random = np.random.default_rng(3)
    for count in (0, 1, 7, 30):
        given: dict[str, Any] = {
            "row": random.integers(0, 2, count),
            "column": random.integers(0, 2, count),
            "a": random.integers(1, 9, count).astype(np.float32),
        }
        wanted = np.zeros((4, 4), np.float32)
        np.add.at(wanted, (given["row"][::2], given["column"][::2]), 3 * given["a"][::2])
        assert (kernel(**given, n=4) == wanted).all()
        assert (run(nest, {"n": 4, "z": count}, given) == wanted).all()


def refused(body: atl.Tensor, *inputs: atl.Tensor) -> str:
    program = atl.program("p", list(inputs), body)
    with pytest.raises(IllegalMark) as error:
        lower(with_all_sums_marked(program, "runs"))
    return str(error.value)


def test_sum_that_stores_nothing_at_keys_is_refused() -> None:
    message = refused(atl.sum(z, lambda p: a[p]), a)
    assert "the loop p is marked runs, but it does not add to an element of a tensor" in message
    assert "Σ[p < z] place n row[p] e(p)" in message


def test_rows_placed_at_keys_are_refused() -> None:
    m = atl.sizes("m")
    rows = atl.tensor("rows", z, m)
    message = refused(atl.sum(z, lambda p: atl.place(n, row[p], rows[p])), row, rows)
    assert "each of its terms is added to several elements of out" in message


def test_long_rows_placed_at_keys_are_refused() -> None:
    rows = atl.tensor("rows", z, 300)
    message = refused(atl.sum(z, lambda p: atl.place(n, row[p], rows[p])), row, rows)
    assert "or to a row of at most 256 elements, whose length is constant" in message


def added_rows() -> Program:
    """Σp place n row[p] ⊞[r < 3] b[p, r] * a[p]."""
    b = atl.tensor("b", z, 3)
    body = atl.sum(z, lambda p: atl.place(n, row[p], atl.gen(3, lambda r: b[p, r] * a[p])))
    return with_all_sums_marked(atl.program("added_rows", [row, a, b], body), "runs")


def test_short_rows_are_summed_in_several_variables() -> None:
    nest, kernel = lower(added_rows()), compiled(added_rows())
    assert "float total[3] = {0};" in kernel.source
    rng = np.random.default_rng(0)
    for count in range(5):
        for keys in product(range(KEYS), repeat=count):
            values = {"a": rng.integers(-3, 4, count).astype(np.float32), "b": rng.random((count, 3), np.float32)}
            given: dict[str, Any] = {"row": np.array(keys, np.int64), **values}
            wanted = np.zeros((KEYS, 3), np.float32)
            np.add.at(wanted, given["row"], given["b"] * given["a"][:, None])
            np.testing.assert_allclose(kernel(**given, n=KEYS), wanted, rtol=1e-5, atol=1e-6)
            if count < 3:
                made = run(nest, {"n": KEYS, "z": count}, given)
                np.testing.assert_allclose(np.array(made.tolist(), float), wanted, rtol=1e-5, atol=1e-6)


def test_totals_that_are_not_cleared_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"row": np.array([0, 1]), "a": np.ones(2, np.float32), "b": np.ones((2, 3), np.float32)}
    assert compiled(added_rows())(**given, n=2).tolist() == [[1, 1, 1], [1, 1, 1]]
    monkeypatch.setattr(lowering.c.loops, "indented", lambda lines: [_kept(line) for line in indented(lines)])
    assert compiled(added_rows())(**given, n=2).tolist() != [[1, 1, 1], [1, 1, 1]]


def _kept(line: str) -> str:
    return line.replace("float total[3]", "static float total[3]")


def test_keys_inside_the_tensor_only_under_a_condition_are_refused() -> None:
    anywhere = atl.tensor("anywhere", z, dtype="int64")
    inside = atl.sum(z, lambda p: atl.guard((anywhere[p] >= 0) & (anywhere[p] < n), atl.place(n, anywhere[p], a[p])))
    message = refused(inside, anywhere, a)
    assert "its keys are not proved to be positions of out" in message


def test_run_that_ends_late_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_keys(loop: Any) -> Any:
        runs = runs_at(loop)
        return replace(runs, keys=()) if isinstance(runs, Runs) else runs

    given = {"row": np.array([0, 1]), "a": np.ones(2, np.float32)}
    monkeypatch.setattr(lowering.c.loops, "runs_at", without_keys)
    monkeypatch.setattr(lowering.nest.execution, "runs_at", without_keys)
    assert run(lower(added_up()), {"n": 2, "z": 2}, given).tolist() != [1, 1]
    with pytest.raises(atl.ATLError):
        compiled(added_up())  # `p_first`, which locates the element, is undefined
