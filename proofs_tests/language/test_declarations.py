"""Declared facts about inputs: they are checked by each call and prove nothing about other inputs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import atl
import lowering
from atl.core.index import Array, Read, Size, bound, constant, index, read, size
from atl.core.predicate import at_most, less, within
from atl.core.program import AtLeast, Below, Monotonic, facts_of
from atl.core.terms import Guard, Input
from atl.core.traversal import subterms
from atl.errors import ArrayError, InvalidName, UnsafeAccess
from atl.prove import Facts, Proved, prove
from rewrites import kernel, reschedule
from rewrites.errors import DoesNotApply, NotAdmitted, NotEqual, PremiseFailed
from rewrites.rules import RULES


def test_reads_of_arrays_with_different_bounds_differ() -> None:
    zero, seven, m = index(0), index(7), index(Size("m"))
    bounds = [(None, None), (zero, None), (None, zero), (zero, zero), (zero, seven), (seven, zero), (zero, m)]
    arrays = [Array("A", (index(Size("n")),), "int64", low, high) for low, high in bounds]
    arrays += [replace(array, monotonic="increasing") for array in arrays]
    assert len(set(arrays)) == len(arrays)
    assert len({index(Read(array, (bound(0),))) for array in arrays}) == len(arrays)
    assert len({Input(array) for array in arrays}) == len(arrays)


def gathered(bounds: tuple[Any, Any] | None) -> atl.Program:
    n = atl.sizes("n")
    choice = atl.tensor("A", n, dtype="int64", range=bounds)
    x = atl.tensor("x", n)
    return atl.program("p", [choice, x], atl.gen(n, lambda i: atl.guard(choice[i] >= 0, x[i])))


@pytest.mark.parametrize("first", [True, False], ids=["stated first", "stated last"])
def test_declarations_prove_nothing_in_another_program(first: bool) -> None:
    m = atl.sizes("m")
    programs = [gathered((0, m)), gathered(None)]
    for stated in programs if first else programs[::-1]:
        session = reschedule(stated)
        if stated is programs[0]:
            session.rw("guard_true")
            assert not any(isinstance(term, Guard) for term in subterms(session.goal.body))
        else:
            with pytest.raises((DoesNotApply, PremiseFailed)):
                session.rw("guard_true")
    (step,) = reschedule(programs[0]).rw("guard_true").done().steps
    with pytest.raises((NotAdmitted, NotEqual)):
        kernel.rewrite(kernel.reflexivity(programs[1]), step.rule, step.path, step.arguments)
    guard: Any = next(term for term in subterms(programs[1].body) if isinstance(term, Guard))
    arguments = {"p": guard.predicate, "e": guard.body}
    with pytest.raises(PremiseFailed):
        kernel.rewrite(kernel.reflexivity(programs[1]), RULES["guard_true"], (0,), arguments)


def test_guard_on_scalar_input_is_checked_rewritten_and_run() -> None:
    n = atl.sizes("n")
    k, x = atl.tensor("k", dtype="int64"), atl.tensor("x", n)
    first = atl.program("first", [k, x], atl.gen(n, lambda i: atl.guard(atl.imin(k) > i, x[i])))
    atl.check_safe(first)
    elements = np.arange(1, 6, dtype=np.float32)
    assert atl.evaluate(first, k=3, x=elements).tolist() == [1, 2, 3, 0, 0]
    session = reschedule(first)
    with pytest.raises((DoesNotApply, PremiseFailed)):
        session.rw("guard_true")
    split = session.split_loop("i", 0).done()
    assert atl.evaluate(split.rhs, k=-1, x=elements).tolist() == [0, 0, 0, 0, 0]
    beyond = atl.program("beyond", [k, x], atl.gen(n, lambda i: atl.guard(atl.imin(k) > i, x[atl.imin(k) - 1])))
    with pytest.raises(UnsafeAccess) as refused:
        atl.check_safe(beyond)
    assert refused.value.numbers


def test_array_range_is_not_taken_from_an_equal_name() -> None:
    n, k = atl.sizes("n k")
    table = atl.tensor("A", k)
    for bounds in ((0, k), None, (0, k)):
        at = atl.tensor("f", n, dtype="int32", range=bounds)
        gather = atl.program("gather", [table, at], atl.gen(n, lambda i, at=at: table[at[i]]))
        if bounds:
            atl.check_safe(gather)
        else:
            with pytest.raises(UnsafeAccess):
                atl.check_safe(gather)


@pytest.mark.parametrize("order", [(2, 0), (0, 2)])
def test_least_size_is_not_taken_from_an_equal_name(order: tuple[int, int]) -> None:
    for least in order:
        m = atl.sizes("m", min=least)
        made = atl.program("p", [], atl.gen(m, lambda i, m=m: atl.guard(~(m == i), 1.0)))
        assert bool(made.assumptions) == (least > 0)


def test_program_extents_support_index_arithmetic() -> None:
    n, m = atl.sizes("n m")
    (extent,) = atl.program("ones", [], atl.gen(n, lambda i: 1)).shape
    results: tuple[Any, ...] = (extent + m, m + extent, 1 + extent, 1 - extent, 2 * extent, extent * m, extent % m)
    assert list(map(str, results)) == ["m + n", "m + n", "n + 1", "1 - n", "2*n", "m*n", "n % m"]
    compared: tuple[Any, ...] = (extent < m, extent == m, extent != m)
    assert list(map(str, compared)) == ["n < m", "m = n", "m ≠ n"]
    assert str(atl.gen(extent, lambda i: 1).shape) == "(n,)"


def declared_as(bounds: str) -> atl.Program:
    return atl.parse(
        f"p (A : int64[n]{bounds}, x : float32[m]) : float32[n] :=\n  ⊞[i < n] [0 <= A[i] and 1 <= m] · 2 * x[0]"
    )


CHECKED = {
    " in [5, ∞)": ([5, 9], [9, 4]),
    " in [m, ∞)": ([3, 4], [3, 2]),
    " in (-∞, m)": ([-(2**63), 2], [0, 3]),
    " in (-∞, -1)": ([-2, -3], [-2, -1]),
    " in [0, m)": ([0, 2], [-1, 0]),
    " strict": ([3, 4], [4, 4]),
    " in [5, ∞) strict": ([5, 6], [5, 5]),
}


@pytest.mark.sampled
@pytest.mark.parametrize("bounds", CHECKED)
def test_each_way_to_run_checks_declarations(bounds: str) -> None:
    right, wrong = (np.array(elements, dtype=np.int64) for elements in CHECKED[bounds])
    x = np.ones(3, np.float32)
    stated = declared_as(bounds)
    kernel_of_it = lowering.compile(stated)
    for _ in range(3):  # repeated: the kernel caches validated shapes
        assert kernel_of_it(right, x).tolist() == atl.evaluate(stated, A=right, x=x).tolist()
        with pytest.raises(ArrayError, match=r"range|increasing"):
            kernel_of_it(wrong, x)
    for exact in (False, True):
        with pytest.raises(ArrayError, match=r"range|increasing"):
            atl.evaluate(stated, exact=exact, A=wrong, x=x)


def test_a_single_bound_is_reported_alone() -> None:
    with pytest.raises(ArrayError) as refused:
        atl.evaluate(declared_as(" in [m, ∞)"), A=np.array([3, 2]), x=np.ones(3, np.float32))
    assert "m <= element in all of A" in str(refused.value)
    assert "A[1] = 2" in str(refused.value)


def test_prover_assumes_exactly_what_calls_check() -> None:
    n, at = size("n"), bound(0)
    low, high = constant(5), constant(9)
    for array in (
        Array("A", (n,), "int64"),
        Array("A", (n,), "int64", low),
        Array("A", (n,), "int64", None, high),
        Array("A", (n,), "int64", low, high),
        Array("A", (n,), "int64", low, high, monotonic="increasing"),
    ):
        facts = facts_of(array)
        inside = Facts().assume(within(constant(0), at, n - 1))
        first, second = read(array, (at,)), read(array, (at + 1,))
        believed = [
            (AtLeast(low), at_most(low, first)),
            (Below(high), less(first, high)),
            (Monotonic(strict=True), less(first, second)),
        ]
        for fact, goal in believed:
            assert isinstance(prove(inside, goal), Proved) == (fact in facts)


def test_declarations_and_conditions_refer_to_declared_inputs() -> None:
    n = atl.sizes("n")
    ends = atl.tensor("ends", 1, dtype="int64")
    said = atl.tensor("ends", 1, dtype="int64", range=(5, 9))
    through = atl.tensor("A", n, dtype="int64", range=(0, said[0]))
    x = atl.tensor("x", n)
    with pytest.raises(InvalidName, match="ends is declared twice"):
        atl.program("p", [ends, through, x], x)
    with pytest.raises(InvalidName, match="not among its inputs"):
        atl.program("p", [through, x], x)
    with pytest.raises(InvalidName, match="ends is declared twice"):
        atl.program("p", [ends, x], x, given=[said[0] >= 7])


def test_flatten_of_rows_without_elements_compiles() -> None:
    x = atl.tensor("x", atl.sizes("n"), 0)
    kernel = lowering.compile(atl.program("none", [x], atl.abs(atl.flatten(x))))
    assert kernel(np.zeros((3, 0), np.float32)).shape == (0,)
