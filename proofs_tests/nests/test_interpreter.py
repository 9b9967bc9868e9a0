"""The interpreter of loop nests: its results, and traps for every kind of fault."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

import atl
from atl.core import index as ix
from atl.core.marks import LoopMark
from atl.core.predicate import TRUE, less
from atl.errors import TooLarge, UnsafeAccess
from atl.meaning.interpret import evaluate
from lowering.nest import loopnest as ln
from lowering.nest.execution import Trap, TrapKind
from lowering.nest.interpreter import AnyArray, Outcome, execute, run
from lowering.pipeline import lower

N = ix.size("n")
I = ix.Var(1, "i")  # noqa: E741 (the loop variable of the nests here)
AT_I = ix.index(I)
X = ln.Buffer(10, "x", "float32", (N,), "input")
OUT = ln.Buffer(11, "out", "float32", (N,), "output")
BUF = ln.Buffer(12, "buf", "float32", (N,))
TOTAL = ln.Scalar(20, "total", "float32")
ONE32 = ln.Number(1, "float32")


def cell(buffer: ln.Buffer, at: ix.Index, extent: ix.Index = N) -> ln.Cell:
    return ln.Cell(buffer, ((at, extent),))


def every(*body: ln.Statement) -> ln.For:
    return ln.For(I, ix.ZERO, N, body)


def nest(*body: ln.Statement, complete: bool = False) -> ln.LoopNest:
    return ln.LoopNest("made", ("n",), (ix.Array("x", (N,), "float32"),), OUT, body, complete=complete)


def outcome(*body: ln.Statement, complete: bool = False, n: int = 3) -> Outcome:
    return execute(nest(*body, complete=complete), {"n": n}, {"x": np.arange(1, n + 1, dtype=np.float32)})


STORE = every(ln.Assign(cell(OUT, AT_I), ONE32))
FILL = every(ln.Assign(cell(BUF, AT_I), ONE32))
COPY = every(ln.Assign(cell(OUT, AT_I), ln.Load(cell(BUF, AT_I))))


def test_nest_stores_its_values() -> None:
    doubled = ln.Apply("mul", (ln.Number(2, "float32"), ln.Load(cell(X, AT_I))), "float32")
    given = {"x": np.ones(3, np.float32)}
    assert run(nest(every(ln.Assign(cell(OUT, AT_I), doubled))), {"n": 3}, given).tolist() == [2] * 3


def test_stored_cells_are_distinguished_from_padding() -> None:
    first = outcome(ln.Assign(cell(OUT, ix.ZERO), ln.Number(0, "float32")))
    assert set(first.cells) == {0}
    assert first.to_numpy().tolist() == [0, 0, 0]


def test_sum_may_add_to_a_cleared_cell() -> None:
    into_first = outcome(every(ln.Accumulate(cell(OUT, ix.ZERO), "add", ln.Load(cell(X, AT_I)))))
    assert into_first.to_numpy().tolist() == [6, 0, 0]


def test_scalar_accumulates_over_a_loop() -> None:
    body = (
        ln.Declare(TOTAL, ln.Number(0, "float32")),
        every(ln.Accumulate(TOTAL, "max", ln.Load(cell(X, AT_I)))),
        ln.Assign(cell(OUT, ix.ZERO), ln.Load(TOTAL)),
    )
    assert outcome(*body).to_numpy()[0] == 3


def test_parallel_loop_reduces_by_one_operation_only() -> None:
    store = ln.Assign(cell(OUT, ix.ZERO), ln.Load(TOTAL))
    added, both = (
        replace(every(*(ln.Accumulate(TOTAL, op, ONE32) for op in ops)), mark=LoopMark.PARALLEL)
        for ops in (("add", "sub"), ("add", "max"))
    )
    assert outcome(ln.Declare(TOTAL, ONE32), added, store).to_numpy()[0] == 1
    with pytest.raises(Trap, match=r"data race: total: .* in iteration . of the parallel loop i, .* in iteration ."):
        outcome(ln.Declare(TOTAL, ONE32), both, store)


def test_hoisted_buffer_is_empty_after_a_clear() -> None:
    j = ix.Var(2, "j")
    inner = ln.For(j, ix.ZERO, N, (ln.Assign(cell(BUF, ix.index(j)), ln.FromIndex(AT_I, "float32")),))
    last = ln.Assign(cell(OUT, AT_I), ln.Load(cell(BUF, N - 1)))
    body = (ln.Allocate(BUF, N, zeroed=False), every(ln.Clear(BUF, N, zeroed=False), inner, last), ln.Free(BUF))
    assert outcome(*body, complete=True).to_numpy().tolist() == [0, 1, 2]


def test_only_the_chosen_branch_is_evaluated() -> None:
    outside = ln.Load(cell(X, N))
    chosen = ln.Choose(less(AT_I, ix.ZERO), outside, ln.Convert(ln.Number(2.5, "float64"), "float32"))
    seen = outcome(every(ln.Assign(cell(OUT, AT_I), chosen), ln.If(less(N, ix.ZERO), (STORE,))))
    assert seen.to_numpy().tolist() == [2.5] * 3


def test_loop_with_reversed_bounds_does_nothing() -> None:
    assert not outcome(ln.For(I, N, ix.ZERO, (ln.Assign(cell(OUT, ix.ZERO), ONE32),))).cells


def test_float32_rounds_at_every_operation_and_integers_wrap() -> None:
    narrow = ln.Apply("add", (ln.Number(2.0**24, "float32"), ONE32), "float32")
    assert outcome(ln.Assign(cell(OUT, ix.ZERO), narrow)).to_numpy()[0] == 2.0**24
    most = ln.Apply("add", (ln.Number(2**31 - 1, "int32"), ln.Number(1, "int32")), "int32")
    wrapped = outcome(ln.Assign(cell(OUT, ix.ZERO), ln.Convert(most, "float32")))
    assert wrapped.to_numpy()[0] == -(2.0**31)


def test_divisions_by_zero_and_undefined_casts_are_counted() -> None:
    quotient = ln.Apply("div", (ONE32, ln.Number(0, "float32")), "float32")
    beyond = ln.Convert(ln.Convert(ln.Number(1e10, "float32"), "int32"), "float32")
    seen = outcome(ln.Assign(cell(OUT, ix.ZERO), quotient), ln.Assign(cell(OUT, ix.ONE), beyond))
    assert (seen.divisions_by_zero, seen.undefined) == (1, 1)


def test_number_of_steps_can_be_limited() -> None:
    execute(nest(STORE), {"n": 10}, {"x": np.ones(10, np.float32)}, steps=20)
    with pytest.raises(TooLarge, match="more steps"):
        execute(nest(STORE), {"n": 100}, {"x": np.ones(100, np.float32)}, steps=20)


@pytest.mark.parametrize("n", [0, 1, 4, 7])
def test_lowered_program_agrees_with_its_meaning(n: int) -> None:
    n_, k = atl.sizes("n k")
    x = atl.tensor("x", n_, dtype="int64")
    tiled = atl.flatten(atl.split(3, atl.let(atl.padr(k, x), lambda y: atl.gen(n_ + k, lambda i: y[i] * y[i] + 1))))
    program = atl.program("tiled", [x], tiled)
    array = np.arange(n, dtype=np.int64)
    assert np.array_equal(run(lower(program), {"n": n, "k": 2}, {"x": array}), evaluate(program, x=array, k=2))


def branch_with_a_buffer(most: int | None) -> atl.Program:
    """Return a program with a buffer in a selection, whose extent is an element that only one branch may read."""
    n, m = atl.sizes("n m")
    range_ = None if most is None else (0, most)
    lengths = atl.tensor("lengths", m, dtype="int64", range=range_)
    x = atl.tensor("x", n, dtype="int64")

    def element(i: atl.IndexExpr) -> atl.Tensor:
        length = atl.imax(0, lengths[i])
        buffer = atl.gen(length, lambda k: atl.guard(k >= 1, x[i]))
        total = atl.let(buffer, lambda b: atl.sum(length, lambda k: b[k]), name="b")
        return atl.select(i < m, total, atl.cast("int64", 7))

    return atl.program("branch", [lengths, x], atl.gen(n, element))


@pytest.mark.parametrize("most", [100, 100_000])  # on the stack, on the heap
def test_extent_in_a_branch_is_read_only_if_taken(most: int) -> None:
    program = branch_with_a_buffer(most)
    held: dict[str, AnyArray] = {"lengths": np.array([2, 3]), "x": np.arange(1, 6)}
    found = run(lower(program), {"n": 5, "m": 2}, held)
    assert found.tolist() == evaluate(program, lengths=held["lengths"], x=held["x"]).tolist() == [1, 4, 7, 7, 7]


def test_unbounded_buffer_in_a_branch_is_refused() -> None:
    with pytest.raises(UnsafeAccess, match="of b is read where the condition around b may be false") as caught:
        lower(branch_with_a_buffer(None))
    assert "range=(0, most)" in str(caught.value)


ALLOCATED = ln.Allocate(BUF, N)
READ_BUF = ln.Assign(cell(OUT, ix.ZERO), ln.Load(cell(BUF, ix.ZERO)))
TWO = ix.constant(2)
WIDE = ln.Buffer(13, "wide", "float32", (N, TWO))
ALLOCATED_WIDE = ln.Allocate(WIDE, N * 2)

FAULTS: Mapping[str, tuple[TrapKind, ln.Block]] = {
    "a store beyond the end": ("out of bounds", (every(ln.Assign(cell(OUT, AT_I + 1), ONE32)),)),
    "a store before the start": ("out of bounds", (every(ln.Assign(cell(OUT, AT_I - 1), ONE32)),)),
    "a read beyond the end": ("out of bounds", (every(ln.Assign(cell(OUT, AT_I), ln.Load(cell(X, AT_I + 1)))),)),
    "a column in the next row, at a valid address": (
        "out of bounds",
        (ALLOCATED_WIDE, ln.Assign(ln.Cell(WIDE, ((ix.ZERO, N), (TWO, TWO))), ONE32), ln.Free(WIDE)),
    ),
    "extents of another shape": (
        "shape",
        (ALLOCATED_WIDE, ln.Assign(ln.Cell(WIDE, ((ix.ZERO, TWO), (ix.ZERO, N))), ONE32), ln.Free(WIDE)),
    ),
    "too small a capacity": ("capacity", (ln.Allocate(BUF, N - 1), FILL, ln.Free(BUF))),
    "a negative capacity": ("capacity", (ln.Allocate(BUF, ix.ZERO - 1), ln.Free(BUF))),
    "clearing more than the capacity": ("capacity", (ALLOCATED, ln.Clear(BUF, N + 1), ln.Free(BUF))),
    "clearing a negative number": ("capacity", (ALLOCATED, ln.Clear(BUF, ix.ZERO - 1), ln.Free(BUF))),
    "a read of an uninitialised cell": ("uninitialised", (ln.Allocate(BUF, N, zeroed=False), READ_BUF, ln.Free(BUF))),
    "a read of an invalidated cell": (
        "uninitialised",
        (ALLOCATED, FILL, ln.Clear(BUF, N, zeroed=False), READ_BUF, ln.Free(BUF)),
    ),
    "an addition to an uninitialised cell": (
        "uninitialised",
        (ln.Allocate(BUF, N, zeroed=False), ln.Accumulate(cell(BUF, ix.ZERO), "add", ONE32), ln.Free(BUF)),
    ),
    "a maximum with an empty cell": (
        "uninitialised",
        (ALLOCATED, ln.Accumulate(cell(BUF, ix.ZERO), "max", ONE32), ln.Free(BUF)),
    ),
    "two assignments to a cell": ("overwritten", (STORE, STORE)),
    "a missing clear in a loop": (
        "overwritten",
        (ALLOCATED, ln.For(ix.Var(2, "j"), ix.ZERO, N, (FILL,)), ln.Free(BUF)),
    ),
    "a store to an input": ("read-only", (ln.Assign(cell(X, ix.ZERO), ONE32),)),
    "a store to a buffer without storage": ("no storage", (FILL,)),
    "use after free": ("no storage", (ALLOCATED, ln.Free(BUF), READ_BUF)),
    "free of a buffer without storage": ("no storage", (ln.Free(BUF),)),
    "freed twice": ("double free", (ALLOCATED, ln.Free(BUF), ln.Free(BUF))),
    "freed by an inner block": ("double free", (ALLOCATED, ln.If(TRUE, (ln.Free(BUF),)))),
    "never freed": ("leak", (ALLOCATED,)),
    "never freed in a loop": ("leak", (every(ALLOCATED),)),
    "allocated twice": ("leak", (ALLOCATED, ALLOCATED, ln.Free(BUF))),
    "a scalar that is read before its declaration": ("undeclared", (ln.Assign(cell(OUT, ix.ZERO), ln.Load(TOTAL)),)),
    "a scalar that is assigned without declaration": ("undeclared", (ln.Assign(TOTAL, ONE32),)),
    "a scalar that is added to without declaration": ("undeclared", (ln.Accumulate(TOTAL, "add", ONE32),)),
    "a scalar out of its block": (
        "undeclared",
        (ln.If(TRUE, (ln.Declare(TOTAL, ONE32),)), ln.Assign(cell(OUT, ix.ZERO), ln.Load(TOTAL))),
    ),
    "a scalar declared twice": ("redeclared", (ln.Declare(TOTAL, ONE32), ln.Declare(TOTAL, ONE32))),
    "a loop variable outside of its loop": ("undeclared", (ln.Assign(cell(OUT, AT_I), ONE32),)),
    "a loop variable bound twice": ("redeclared", (every(STORE),)),
    "parallel iterations that add to one cell": (
        "data race",
        (replace(every(ln.Accumulate(cell(OUT, ix.ZERO), "add", ONE32)), mark=LoopMark.PARALLEL),),
    ),
    "an iteration that reads what a concurrent one stores": (
        "data race",
        (
            replace(
                every(ln.Accumulate(cell(OUT, AT_I), "add", ln.Load(cell(OUT, N - 1 - AT_I)))), mark=LoopMark.VECTOR
            ),
        ),
    ),
    "a scalar that concurrent iterations add to and read": (
        "data race",
        (ln.Declare(TOTAL, ONE32), replace(every(ln.Accumulate(TOTAL, "add", ln.Load(TOTAL))), mark=LoopMark.VECTOR)),
    ),
    "a scalar that GPU blocks reduce into": (
        "data race",
        (ln.Declare(TOTAL, ONE32), replace(every(ln.Accumulate(TOTAL, "add", ONE32)), mark=LoopMark.BLOCK_X)),
    ),
    "a quotient by zero": ("divisor", (ln.Assign(cell(OUT, ix.index(ix.Quotient(ix.ONE, N - 3))), ONE32),)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_trapped(fault: str) -> None:
    kind, body = FAULTS[fault]
    with pytest.raises(Trap) as trap:
        outcome(*body)
    assert trap.value.kind == kind
    assert kind in str(trap.value)


def test_missing_element_of_a_complete_output_is_trapped() -> None:
    assert outcome(STORE, complete=True).to_numpy().tolist() == [1, 1, 1]
    with pytest.raises(Trap, match="incomplete: nothing is stored at 2"):
        outcome(ln.For(I, ix.ZERO, N - 1, (ln.Assign(cell(OUT, AT_I), ONE32),)), complete=True)


def test_complete_output_is_not_zeroed_first() -> None:
    with pytest.raises(Trap, match="uninitialised"):
        outcome(every(ln.Accumulate(cell(OUT, AT_I), "add", ONE32)), complete=True)


def test_read_in_an_index_is_checked() -> None:
    positions = ix.Array("f", (N,), "int64", ix.ZERO, N)
    at = ix.read(positions, (AT_I + 1,))
    made = replace(nest(every(ln.Assign(cell(OUT, ix.imax(at, ix.ZERO)), ONE32))), inputs=(positions,))
    held: dict[str, AnyArray] = {"f": np.arange(3)}
    with pytest.raises(Trap, match="out of bounds: f\\[3\\] in an index"):
        execute(made, {"n": 3}, held)


@pytest.mark.parametrize(
    "rows",
    [
        "(let t := (⊞[j < 2] x[i + j]) ++ (⊞[2 <= j < n - i] x[i + j]) in t[0] + t[1])",
        "(let t := padr (n - i - 2) ⊞[j < 2] x[i + j] in t[0] + t[1])",
        "(rec[2 <= s < n - i] u from ⊞[j < 2] x[i + j] in u[s - 1])[1]",
    ],
    ids=("joined", "padded", "recurrent"),
)
def test_zeros_for_a_false_condition_stay_in_the_buffer(rows: str) -> None:
    # At i = n - 1, the whole has one row, but its first part would have two.
    text = f"f (x : float32[n]) : float32[n] := ⊞[i < n] select(i + 2 <= n, {rows}, x[i])"
    program, x = atl.parse(text), np.arange(3, dtype=np.float32)
    assert np.array_equal(run(lower(program), {"n": 3}, {"x": x}), evaluate(program, x=x))
