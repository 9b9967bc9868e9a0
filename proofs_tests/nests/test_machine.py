"""The interpreter of loop nests: it computes what the nest says, and every kind of fault in a nest is trapped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

import atl
from atl.core.index import ONE, ZERO, Array, Index, Quotient, Var, constant, imax, index, read, size
from atl.core.marks import LoopMark
from atl.core.predicate import TRUE, less
from atl.errors import TooLarge, UnsafeAccess
from atl.meaning.interpret import evaluate
from lowering.lower import lower
from lowering.nest.interpreter import AnyArray, Outcome, execute, run
from lowering.nest.loopnest import (
    Accumulate,
    Allocate,
    Apply,
    Assign,
    Block,
    Buffer,
    Cell,
    Choose,
    Clear,
    Convert,
    Declare,
    For,
    Free,
    FromIndex,
    If,
    Load,
    LoopNest,
    Number,
    Scalar,
    Statement,
)
from lowering.nest.traps import Trap, TrapKind

N = size("n")
I = Var(1, "i")  # noqa: E741 (the loop variable of the nests here)
AT_I = index(I)
X = Buffer(10, "x", "float32", (N,), "input")
OUT = Buffer(11, "out", "float32", (N,), "output")
BUF = Buffer(12, "buf", "float32", (N,))
TOTAL = Scalar(20, "total", "float32")
ONE32 = Number(1, "float32")


def cell(buffer: Buffer, at: Index, extent: Index = N) -> Cell:
    return Cell(buffer, ((at, extent),))


def every(*body: Statement) -> For:
    return For(I, ZERO, N, body)


def nest(*body: Statement, complete: bool = False) -> LoopNest:
    return LoopNest("made", ("n",), (Array("x", (N,), "float32"),), OUT, body, complete=complete)


def outcome(*body: Statement, complete: bool = False, n: int = 3) -> Outcome:
    return execute(nest(*body, complete=complete), {"n": n}, {"x": np.arange(1, n + 1, dtype=np.float32)})


STORE = every(Assign(cell(OUT, AT_I), ONE32))
FILL = every(Assign(cell(BUF, AT_I), ONE32))
COPY = every(Assign(cell(OUT, AT_I), Load(cell(BUF, AT_I))))


# -- nests that are right ---------------------------------------------------------------------------------------------


def test_a_nest_stores_what_it_says() -> None:
    doubled = Apply("mul", (Number(2, "float32"), Load(cell(X, AT_I))), "float32")
    assert (
        run(nest(every(Assign(cell(OUT, AT_I), doubled))), {"n": 3}, {"x": np.ones(3, np.float32)}).tolist() == [2] * 3
    )


def test_the_cells_that_are_stored_are_told_apart_from_padding() -> None:
    first = outcome(Assign(cell(OUT, ZERO), Number(0, "float32")))
    assert set(first.cells) == {0}
    assert first.to_numpy().tolist() == [0, 0, 0]


def test_a_sum_may_add_to_a_cleared_cell() -> None:
    into_first = outcome(every(Accumulate(cell(OUT, ZERO), "add", Load(cell(X, AT_I)))))
    assert into_first.to_numpy().tolist() == [6, 0, 0]


def test_a_scalar_runs_through_a_loop() -> None:
    body = (
        Declare(TOTAL, Number(0, "float32")),
        every(Accumulate(TOTAL, "max", Load(cell(X, AT_I)))),
        Assign(cell(OUT, ZERO), Load(TOTAL)),
    )
    assert outcome(*body).to_numpy()[0] == 3


def test_a_scalar_is_folded_into_at_once_and_by_one_operation_only() -> None:
    store = Assign(cell(OUT, ZERO), Load(TOTAL))
    added = replace(every(Accumulate(TOTAL, "add", ONE32), Accumulate(TOTAL, "sub", ONE32)), mark=LoopMark.PARALLEL)
    assert outcome(Declare(TOTAL, ONE32), added, store).to_numpy()[0] == 1
    both = replace(every(Accumulate(TOTAL, "add", ONE32), Accumulate(TOTAL, "max", ONE32)), mark=LoopMark.PARALLEL)
    with pytest.raises(Trap, match=r"data race: total: .* in iteration . of the parallel loop i, .* in iteration ."):
        outcome(Declare(TOTAL, ONE32), both, store)


def test_a_hoisted_buffer_is_empty_again_after_a_clear() -> None:
    j = Var(2, "j")
    inner = For(j, ZERO, N, (Assign(cell(BUF, index(j)), FromIndex(AT_I, "float32")),))
    last = Assign(cell(OUT, AT_I), Load(cell(BUF, N - 1)))
    body = (Allocate(BUF, N, zeroed=False), every(Clear(BUF, N, zeroed=False), inner, last), Free(BUF))
    assert outcome(*body, complete=True).to_numpy().tolist() == [0, 1, 2]


def test_only_the_chosen_branch_is_looked_at() -> None:
    outside = Load(cell(X, N))
    chosen = Choose(less(AT_I, ZERO), outside, Convert(Number(2.5, "float64"), "float32"))
    assert outcome(every(Assign(cell(OUT, AT_I), chosen), If(less(N, ZERO), (STORE,)))).to_numpy().tolist() == [2.5] * 3


def test_a_loop_that_runs_backwards_does_nothing() -> None:
    assert not outcome(For(I, N, ZERO, (Assign(cell(OUT, ZERO), ONE32),))).cells


def test_float32_rounds_at_every_operation_and_integers_wrap() -> None:
    narrow = Apply("add", (Number(2.0**24, "float32"), ONE32), "float32")
    assert outcome(Assign(cell(OUT, ZERO), narrow)).to_numpy()[0] == 2.0**24
    most = Apply("add", (Number(2**31 - 1, "int32"), Number(1, "int32")), "int32")
    wrapped = outcome(Assign(cell(OUT, ZERO), Convert(most, "float32")))
    assert wrapped.to_numpy()[0] == -(2.0**31)


def test_quotients_by_zero_and_undefined_casts_are_counted() -> None:
    quotient = Apply("div", (ONE32, Number(0, "float32")), "float32")
    beyond = Convert(Convert(Number(1e10, "float32"), "int32"), "float32")
    seen = outcome(Assign(cell(OUT, ZERO), quotient), Assign(cell(OUT, ONE), beyond))
    assert (seen.divisions_by_zero, seen.undefined) == (1, 1)


def test_a_run_may_be_given_a_limit() -> None:
    execute(nest(STORE), {"n": 10}, {"x": np.ones(10, np.float32)}, steps=20)
    with pytest.raises(TooLarge, match="more steps"):
        execute(nest(STORE), {"n": 100}, {"x": np.ones(100, np.float32)}, steps=20)


@pytest.mark.parametrize("n", [0, 1, 4, 7])
def test_a_lowered_program_gives_what_the_program_means(n: int) -> None:
    n_, k = atl.sizes("n k")
    x = atl.tensor("x", n_, dtype="int64")
    tiled = atl.flatten(atl.split(3, atl.let(atl.padr(k, x), lambda y: atl.gen(n_ + k, lambda i: y[i] * y[i] + 1))))
    program = atl.program("tiled", [x], tiled)
    array = np.arange(n, dtype=np.int64)
    assert np.array_equal(run(lower(program), {"n": n, "k": 2}, {"x": array}), evaluate(program, x=array, k=2))


def branch_with_a_buffer(most: int | None) -> atl.Program:
    """Within a selection, a buffer as long as an element that only the branch may read says."""
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
def test_a_buffer_of_a_branch_is_not_measured_where_the_branch_is_not_taken(most: int) -> None:
    program = branch_with_a_buffer(most)
    held: dict[str, AnyArray] = {"lengths": np.array([2, 3]), "x": np.arange(1, 6)}
    found = run(lower(program), {"n": 5, "m": 2}, held)
    assert found.tolist() == evaluate(program, lengths=held["lengths"], x=held["x"]).tolist() == [1, 4, 7, 7, 7]


def test_a_buffer_of_a_branch_with_no_known_bound_is_refused() -> None:
    with pytest.raises(UnsafeAccess, match="of b is read where the condition around b may be false") as caught:
        lower(branch_with_a_buffer(None))
    assert "range=(0, most)" in str(caught.value)


# -- nests that are not -----------------------------------------------------------------------------------------------

ALLOCATED = Allocate(BUF, N)
READ_BUF = Assign(cell(OUT, ZERO), Load(cell(BUF, ZERO)))
WIDE = Buffer(13, "wide", "float32", (N, constant(2)))

FAULTS: Mapping[str, tuple[TrapKind, Block]] = {
    "a store beyond the end": ("out of bounds", (every(Assign(cell(OUT, AT_I + 1), ONE32)),)),
    "a store before the start": ("out of bounds", (every(Assign(cell(OUT, AT_I - 1), ONE32)),)),
    "a read beyond the end": ("out of bounds", (every(Assign(cell(OUT, AT_I), Load(cell(X, AT_I + 1)))),)),
    "a column in the next row, at a good address": (
        "out of bounds",
        (
            Allocate(WIDE, N * 2),
            Assign(Cell(WIDE, ((ZERO, N), (constant(2), constant(2)))), ONE32),
            Free(WIDE),
        ),
    ),
    "extents of another shape": (
        "shape",
        (Allocate(WIDE, N * 2), Assign(Cell(WIDE, ((ZERO, constant(2)), (ZERO, N))), ONE32), Free(WIDE)),
    ),
    "too little room": ("capacity", (Allocate(BUF, N - 1), FILL, Free(BUF))),
    "a negative room": ("capacity", (Allocate(BUF, ZERO - 1), Free(BUF))),
    "clearing more than there is": ("capacity", (ALLOCATED, Clear(BUF, N + 1), Free(BUF))),
    "clearing a negative number": ("capacity", (ALLOCATED, Clear(BUF, ZERO - 1), Free(BUF))),
    "a read of what was not cleared": ("uninitialised", (Allocate(BUF, N, zeroed=False), READ_BUF, Free(BUF))),
    "a read of what was forgotten": (
        "uninitialised",
        (ALLOCATED, FILL, Clear(BUF, N, zeroed=False), READ_BUF, Free(BUF)),
    ),
    "an addition to what was not cleared": (
        "uninitialised",
        (Allocate(BUF, N, zeroed=False), Accumulate(cell(BUF, ZERO), "add", ONE32), Free(BUF)),
    ),
    "a maximum with an empty cell": (
        "uninitialised",
        (ALLOCATED, Accumulate(cell(BUF, ZERO), "max", ONE32), Free(BUF)),
    ),
    "two assignments to a cell": ("overwritten", (STORE, STORE)),
    "a missing clear in a loop": ("overwritten", (ALLOCATED, For(Var(2, "j"), ZERO, N, (FILL,)), Free(BUF))),
    "a store to an input": ("read-only", (Assign(cell(X, ZERO), ONE32),)),
    "a buffer that is not allocated": ("no storage", (FILL,)),
    "use after free": ("no storage", (ALLOCATED, Free(BUF), READ_BUF)),
    "free of what is not allocated": ("no storage", (Free(BUF),)),
    "freed twice": ("double free", (ALLOCATED, Free(BUF), Free(BUF))),
    "freed by an inner block": ("double free", (ALLOCATED, If(TRUE, (Free(BUF),)))),
    "never freed": ("leak", (ALLOCATED,)),
    "never freed in a loop": ("leak", (every(ALLOCATED),)),
    "allocated twice": ("leak", (ALLOCATED, ALLOCATED, Free(BUF))),
    "a scalar that is read before its declaration": ("undeclared", (Assign(cell(OUT, ZERO), Load(TOTAL)),)),
    "a scalar that is assigned without declaration": ("undeclared", (Assign(TOTAL, ONE32),)),
    "a scalar that is added to without declaration": ("undeclared", (Accumulate(TOTAL, "add", ONE32),)),
    "a scalar out of its block": (
        "undeclared",
        (If(TRUE, (Declare(TOTAL, ONE32),)), Assign(cell(OUT, ZERO), Load(TOTAL))),
    ),
    "a scalar declared twice": ("redeclared", (Declare(TOTAL, ONE32), Declare(TOTAL, ONE32))),
    "a loop variable outside of its loop": ("undeclared", (Assign(cell(OUT, AT_I), ONE32),)),
    "a loop variable bound twice": ("redeclared", (every(STORE),)),
    "two iterations that run at once and add to one cell": (
        "data race",
        (replace(every(Accumulate(cell(OUT, ZERO), "add", ONE32)), mark=LoopMark.PARALLEL),),
    ),
    "an iteration that reads what another one stores, and runs at once with it": (
        "data race",
        (replace(every(Accumulate(cell(OUT, AT_I), "add", Load(cell(OUT, N - 1 - AT_I)))), mark=LoopMark.VECTOR),),
    ),
    "a variable that iterations add to at once, and read": (
        "data race",
        (Declare(TOTAL, ONE32), replace(every(Accumulate(TOTAL, "add", Load(TOTAL))), mark=LoopMark.VECTOR)),
    ),
    "a variable into which the blocks of a GPU fold": (
        "data race",
        (Declare(TOTAL, ONE32), replace(every(Accumulate(TOTAL, "add", ONE32)), mark=LoopMark.BLOCK_X)),
    ),
    "a quotient by zero": ("divisor", (Assign(cell(OUT, index(Quotient(ONE, N - 3))), ONE32),)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_trapped(fault: str) -> None:
    kind, body = FAULTS[fault]
    with pytest.raises(Trap) as trap:
        outcome(*body)
    assert trap.value.kind == kind
    assert kind in str(trap.value)


def test_an_element_that_is_not_stored_is_trapped_where_all_should_be() -> None:
    assert outcome(STORE, complete=True).to_numpy().tolist() == [1, 1, 1]
    with pytest.raises(Trap, match="incomplete: nothing is stored at 2"):
        outcome(For(I, ZERO, N - 1, (Assign(cell(OUT, AT_I), ONE32),)), complete=True)


def test_a_complete_output_is_not_zero_before_it_is_stored() -> None:
    with pytest.raises(Trap, match="uninitialised"):
        outcome(every(Accumulate(cell(OUT, AT_I), "add", ONE32)), complete=True)


def test_a_read_in_an_index_is_watched_too() -> None:
    positions = Array("f", (N,), "int64", ZERO, N)
    at = read(positions, (AT_I + 1,))
    made = replace(nest(every(Assign(cell(OUT, imax(at, ZERO)), ONE32))), inputs=(positions,))
    held: dict[str, AnyArray] = {"f": np.arange(3)}
    with pytest.raises(Trap, match="out of bounds: f\\[3\\] in an index"):
        execute(made, {"n": 3}, held)
