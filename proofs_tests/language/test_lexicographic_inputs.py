"""Declarations of inputs in lexicographic order outside the prover: sizes, random elements, exported checks."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

import atl
from atl.core.program import Program
from atl.errors import ATLError, InvalidArgument, InvalidName
from lowering.export.cases import cases
from lowering.timing.inputs import random_inputs
from proofs_tests.calls.test_export import make
from rewrites.egraph.counterexamples import find_counterexample

n, m, k = atl.sizes("n m k")
r = atl.tensor("r", k, dtype="int32", range=(0, n), monotonic="nondecreasing")
c = atl.tensor("c", k, dtype="int32", range=(0, m), monotonic=("increasing", "after", r))


def descents() -> atl.Tensor:
    """Return the number of elements of `c` below the one before."""
    return atl.sum((1, k), lambda p: atl.guard(c[p] < c[p - 1], 1))


def program(*inputs: atl.Tensor) -> Program:
    return atl.program("q", list(inputs), descents(), given=[k >= 1])


def doubled() -> Program:
    a = atl.tensor("A", n, m)
    return atl.program("double", [a], atl.gen(n, m, lambda i, j: a[i, j] * 2))


def test_input_that_only_orders_another_must_be_listed() -> None:
    with pytest.raises(InvalidName, match="q uses the tensor r, which is not among its inputs"):
        program(c)


def test_sizes_of_a_sparsified_goal_can_be_fixed() -> None:
    s = atl.reschedule(doubled())
    goal = s.sparsify("A", atl.COO.sorted()).goal
    kernel = atl.compile(goal, sizes={"n": 2, "m": 3, "A_nnz": 2})
    dense = np.array([[0, 0, 1], [2, 0, 0]], np.float32)
    assert kernel(atl.pack(dense, atl.COO.sorted())).tolist() == (2 * dense).tolist()


@pytest.mark.parametrize("sizes", [(40, 40, 100), (3, 4, 12), (1, 9, 9), (7, 1, 7), (2, 2, 0)])
@pytest.mark.parametrize("late", [False, True])
def test_random_inputs_are_distinct_and_in_order(sizes: tuple[int, int, int], late: bool) -> None:
    rows, columns, count = sizes
    for seed in range(5):
        whole = program(*((c, r) if late else (r, c)))
        made = random_inputs(whole, {"n": rows, "m": columns, "k": count}, seed)
        assert list(made) == [each.name for each in whole.inputs]
        pairs = list(zip(made["r"].tolist(), made["c"].tolist(), strict=True))
        assert pairs == sorted(set(pairs))
        assert len(pairs) == count
        assert all(0 <= row < rows and 0 <= column < columns for row, column in pairs)


def test_too_many_distinct_pairs_are_refused() -> None:
    with pytest.raises(ATLError, match="no random elements for r: no 13 nondecreasing integers from 0 to 2"):
        random_inputs(program(r, c), {"n": 3, "m": 4, "k": 13})


@pytest.mark.parametrize("strict", [*itertools.product((False, True), repeat=3)])
def test_random_triples_are_in_their_declared_order(strict: tuple[bool, ...]) -> None:
    last: atl.Tensor | None = None
    inputs = []
    for name, each in zip("abc", strict, strict=True):
        order = "increasing" if each else "nondecreasing"
        last = atl.tensor(
            name, k, dtype="int64", range=(0, 30), monotonic=order if last is None else (order, "after", last)
        )
        inputs.append(last)
    whole = atl.program("q", inputs, atl.sum(k, lambda p: atl.guard(inputs[2][p] > 0, 1)))
    made = random_inputs(whole, {"k": 25})
    for end in range(1, 4):
        tuples = list(zip(*(made[name].tolist() for name in "abc"[:end]), strict=True))
        assert tuples == sorted(set(tuples) if strict[end - 1] else tuples)


def test_random_segments_are_in_order() -> None:
    s = atl.reschedule(doubled())
    made = random_inputs(s.sparsify("A", atl.CSR.sorted()).goal, {"n": 40, "m": 40, "A_nnz": 100})
    pos, crd = made["A_pos"], made["A_crd"]
    for first, last in itertools.pairwise(pos.tolist()):
        assert (np.diff(crd[first:last]) > 0).all()


def test_counterexample_has_descending_elements_in_different_rows() -> None:
    none = atl.program("q", [r, c], atl.sum((1, k), lambda p: atl.guard(c[p] < c[p], 1)), given=[k >= 1])
    assert find_counterexample(program(r, c), none) is not None


def test_sizes_of_a_check_allow_all_distinct_pairs() -> None:
    assert cases(program(r, c), {"n": 10, "m": 3, "k": 30}) == ((30, 10, 3),)
    with pytest.raises(InvalidArgument, match="q cannot be checked"):
        cases(program(r, c), {"n": 10, "m": 3, "k": 31})


def test_exported_check_draws_distinct_pairs_in_order(tmp_path: Path) -> None:
    wrong = atl.sum(
        (1, k), lambda p: atl.guard((r[p] < r[p - 1]) | ((r[p] == r[p - 1]) & (c[p] <= c[p - 1])), 1)
    ) + atl.sum(k, lambda p: atl.guard((c[p] < 0) | (c[p] >= m) | (r[p] < 0) | (r[p] >= n), 1))
    whole = atl.program("drawn", [c, r], atl.gen(1, lambda _: atl.cast("int32", wrong)), given=[k >= 1])
    folder = atl.compile(whole).write(tmp_path, sizes={"n": 9, "m": 3, "k": 26})
    text = (folder / "drawn_plain.c").read_text()
    # The number of faults is compared with a version that returns zero.
    head = text[text.index("int drawn_plain(") : text.index("{")]
    body = "{ (void)c; (void)r; (void)n; (void)k; (void)m; out[0] = 0; return 0; }"
    (folder / "drawn_plain.c").write_text(f"#include <stdint.h>\n{head}{body}\n")
    made = make(folder, "check", "CFLAGS=-O0 -fsanitize=address", "LDFLAGS=-fsanitize=address")
    assert made.returncode == 0, made.stdout + made.stderr
    assert "1 of 1 case" in made.stdout, made.stdout
    assert "0 wrong" in made.stdout
