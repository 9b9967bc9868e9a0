"""Strict kernels: the operations of the program in its order, whatever the compiler, the target and the threads."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atl
from atl.core.program import Program
from atl.errors import IllegalMark, InvalidArgument
from lowering.builds import IN_ORDER
from lowering.nest import loopnest as ln
from lowering.pipeline import lower
from proofs_tests.programs import strict
from proofs_tests.programs.strict import Derived, compare, first_difference, targets, value
from proofs_tests.rules.exactness_samples import IEEE

n, m = atl.sizes("n m", min=1)
A = atl.tensor("A", n, m)
TOTAL = atl.program("total", [A], atl.sum(n, m, lambda i, j: A[i, j]))
DOT = atl.program("dot", [A], atl.gen(n, lambda i: atl.sum(m, lambda j: A[i, j] * A[i, j])))
COLUMNS = atl.program(
    "columns", [A], atl.sum(n, lambda i: atl.sum(n, lambda p: atl.gen(m, lambda j: A[i, j] * A[p, j])))
)
ADDED = atl.program("added", [A], atl.gen(n, lambda i: A[i, 0] + atl.sum(m, lambda j: A[i, j])))
SQUARES = atl.program("squares", [A], atl.gen(n, m, lambda i, j: A[i, j] * A[i, j] + A[0, j]))
DIFFERENCE = atl.program(
    "difference",
    [A],
    atl.gen(m, lambda j: A[0, j]) - atl.sum(n, lambda i: atl.gen(m, lambda j: A[i, j])),
    given=[n >= 1],
)
GUARDED = atl.program(
    "guarded", [A], atl.gen(n, lambda i: atl.sum(m, lambda j: atl.guard(j <= i, atl.sum(j, lambda k: A[i, k] / 3))))
)
PROGRAMS = (TOTAL, DOT, SQUARES, COLUMNS, ADDED, DIFFERENCE, GUARDED)


def arrays(seed: int = 0, rows: int = 9, columns: int = 33) -> np.ndarray[Any, Any]:
    numbers = np.random.default_rng(seed)
    return (numbers.uniform(-1, 1, (rows, columns)) * 10.0 ** numbers.integers(-4, 5, (rows, columns))).astype(
        np.float32
    )


def difference(program: Program, kernel: Any) -> str | None:
    given = arrays()
    return first_difference(value(program, {"A": given}, IEEE()), kernel(given), bits=True)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.name)
def test_strict_kernel_has_the_bits_of_the_interpreter(program: Program) -> None:
    assert difference(program, atl.compile(program, strict=True)) is None


def test_nested_sum_has_a_variable_for_each_sum() -> None:
    def variables(*, in_order: bool) -> int:
        nest = lower(TOTAL, strict=in_order)
        return sum(isinstance(statement, ln.Declare) for statement in ln.statements(nest.body))

    assert (variables(in_order=False), variables(in_order=True)) == (1, 2)


def derived(program: Program, *, in_order: bool = True) -> Derived:
    s = atl.reschedule(program)
    expected = value(program, {"A": arrays()}, IEEE())
    return Derived(0, s, lower(program, strict=in_order), [({"A": arrays()}, expected)])


def findings(one: Derived, flags: Sequence[str]) -> list[str]:
    report = strict.Report()
    compare([one], report, flags)
    assert report.builds == len(list(targets()))
    return report.findings


@pytest.mark.long
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.name)
def test_every_target_has_the_bits_of_the_interpreter(program: Program) -> None:
    assert findings(derived(program), IN_ORDER) == []


@pytest.mark.long
def test_contraction_is_found() -> None:
    """Contracted products are rounded once instead of twice, where the processor has the instruction.

    gcc does not contract a sum in order: it multiplies whole vectors first.
    """
    assert findings(derived(SQUARES), (*IN_ORDER, "-ffp-contract=fast", "-march=x86-64-v3")) != []


@pytest.mark.long
def test_reassociated_reduction_is_found() -> None:
    flags = ("-fassociative-math", "-fno-signed-zeros", "-ffp-contract=off")
    assert findings(derived(DOT), flags) != []


@pytest.mark.long
@pytest.mark.parametrize("program", [TOTAL, COLUMNS], ids=lambda each: each.name)
def test_sums_joined_by_lowering_are_found(program: Program) -> None:
    """Without `strict`, lowering adds the terms of nested sums one after the other."""
    assert findings(derived(program, in_order=False), IN_ORDER) != []


@pytest.mark.long
def test_random_strict_derivations() -> None:
    report = strict.run(range(12), 1)
    assert report.findings == []
    assert report.compared


@pytest.mark.parametrize("mark", ["vector", "parallel"])
def test_marks_that_reorder_sums_are_refused(mark: str) -> None:
    s = atl.reschedule(DOT, strict=True).mark("j", mark)
    with pytest.raises(IllegalMark, match=f"the loop j is marked {mark}, which computes total in another order"):
        s.compile()
    s.compile(strict=False)


def test_segmented_reductions_of_floats_are_refused() -> None:
    """A run that comes back is summed from zero: (a + b) + (c + d) instead of ((a + b) + c) + d."""
    text = "runs (k : int32[n] in [0, m), v : DTYPE[n], z : DTYPE[m]) : DTYPE[m] := Σ[p < n | runs] place m k[p] v[p]"
    floats = atl.parse(text.replace("DTYPE", "float32"))
    with pytest.raises(IllegalMark, match="the loop p is marked runs, but it sums the floats of a run before"):
        atl.compile(floats, strict=True)
    atl.compile(floats)
    atl.compile(atl.parse(text.replace("DTYPE", "int32")), strict=True)


def co_iterated(first: str, second: str) -> Program:
    return atl.parse(
        f"""merged (a : int32[n] {first}, x : float32[n], b : int32[m] {second}, y : float32[m]) : float32 :=
          Σ[p < n | merge] Σ[q < m | merge] [a[p] = b[q]] · x[p] * y[q]"""
    )


def test_merge_that_joins_sums_of_several_terms_is_refused() -> None:
    with pytest.raises(IllegalMark, match="the keys of q may repeat, so that its floats are not summed first"):
        atl.compile(co_iterated("strict", "rising"), strict=True)
    atl.compile(co_iterated("strict", "rising"))


@pytest.mark.parametrize("first", ["strict", "rising"])
def test_merge_of_sums_of_one_term_keeps_the_bits(first: str) -> None:
    program = co_iterated(first, "strict")
    numbers = np.random.default_rng(1)
    every = np.arange(99, dtype=np.int32)
    keys = every if first == "strict" else np.sort(numbers.integers(0, 50, 99, np.int32))
    given = keys, numbers.uniform(-1, 1, 99).astype(np.float32), every, arrays()[0].repeat(3)
    assert atl.compile(program, strict=True)(*given) == atl.evaluate(program, *given)


def test_threads_and_lanes_of_results_keep_the_bits() -> None:
    s = atl.reschedule(DOT, strict=True).tile("i", 4).mark("io", "parallel")
    assert difference(DOT, s.compile()) is None
    columns = atl.reschedule(COLUMNS, strict=True).vectorize("j", 8)
    assert difference(COLUMNS, columns.compile()) is None


def test_maximum_keeps_the_first_of_two_zeros() -> None:
    x = atl.tensor("x", n)
    program = atl.program("largest", [x], atl.reduce("max", n, lambda i: x[i]))
    kernel = atl.compile(program, strict=True)
    for first in (0.0, -0.0):
        given = np.array([first, -first] * 20, np.float32)
        assert np.signbit(kernel(given)) == np.signbit(first) == np.signbit(atl.evaluate(program, given))


def test_pickled_kernel_is_strict() -> None:
    kernel = pickle.loads(pickle.dumps(atl.compile(TOTAL, strict=True)))
    assert kernel.nest.in_order
    assert difference(TOTAL, kernel) is None


def test_exported_kernel_is_strict(tmp_path: Path) -> None:
    folder = atl.compile(TOTAL, strict=True).write(tmp_path / "total")
    assert all(flag in (folder / "Makefile").read_text(encoding="utf-8") for flag in IN_ORDER)


@pytest.mark.parametrize("options", [{"fast_math": True}, {"target": "cuda"}])
def test_strict_is_refused_with_other_options(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="strict=True"):
        atl.compile(TOTAL, strict=True, **options)
    with pytest.raises(InvalidArgument, match="strict=1"):
        atl.compile(TOTAL, strict=1)  # type: ignore[call-overload]
