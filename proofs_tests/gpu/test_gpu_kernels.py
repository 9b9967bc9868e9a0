"""Kernels of a GPU: what they compute, where their threads wait, and what cannot be one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, Final

import numpy as np
import pytest

import atl
from atl.core.index import Index, index
from atl.errors import IllegalMark, UnsupportedMark
from examples import gpu
from lowering import lower
from lowering.gpu import interpreter
from lowering.gpu.kernels import (
    Barrier,
    Branch,
    Distributed,
    HostLoop,
    Kernels,
    Launch,
    Repeat,
    Run,
    Share,
    Steps,
    launches,
    steps_of,
)
from lowering.gpu.outlining import kernels
from lowering.nest.loopnest import Allocate, For
from lowering.nest.traps import Trap
from proofs_tests.sessions.session_programs import A, f, k, matmul, n
from rewrites import Session, reschedule
from rewrites.errors import DoesNotApply

Sizes = dict[str, int]
Made = Callable[[], Session]

SCHEDULES: Final[dict[str, tuple[Made, list[Sizes]]]] = {
    "product": (
        lambda: gpu.product(8, (2, 4), 4, lanes=False),
        [{"n": a, "m": b, "k": c} for a, b, c in ((11, 13, 7), (8, 8, 4), (1, 9, 5), (0, 3, 2), (3, 2, 0))],
    ),
    "product in lanes": (
        lambda: gpu.product(8, (2, 4), 4),
        [{"n": a, "m": b, "k": c} for a, b, c in ((11, 12, 7), (8, 8, 4), (1, 20, 5), (3, 4, 0))],
    ),
    "transpose": (lambda: gpu.transpose(8, 2), [{"n": a, "m": b} for a, b in ((11, 13), (8, 16), (1, 3), (0, 4))]),
    "blur": (lambda: gpu.blur_in_tiles(3, 4), [{"n": a, "m": b} for a, b in ((7, 9), (3, 4), (1, 1), (2, 5))]),
    "row sums by blocks": (lambda: gpu.row_sums_by_blocks(64), [{"n": 3, "m": a} for a in (133, 64, 5, 0)]),
    "row sums by warps": (lambda: gpu.row_sums_by_warps(4), [{"n": a, "m": b} for a, b in ((7, 40), (4, 32), (1, 3))]),
    "softmax by warps": (
        lambda: gpu.softmax_by_warps(2),
        [{"n": a, "m": b} for a, b in ((3, 40), (2, 32), (1, 3), (2, 0))],
    ),
    "whole sum": (
        lambda: gpu.whole_sum_in_two_launches(64, 64),
        [{"n": a, "m": b} for a, b in ((70, 3), (64, 64), (1, 70), (0, 2))],
    ),
    "sparse rows by threads": (
        lambda: gpu.spmv_by_threads(32),
        [{"n": a, "m": b, "A_nnz": c} for a, b, c in ((35, 6, 50), (32, 3, 0), (1, 1, 1))],
    ),
    "sparse rows by warps": (
        lambda: gpu.spmv_by_warps(2),
        [{"n": a, "m": b, "A_nnz": c} for a, b, c in ((3, 6, 150), (2, 3, 0), (1, 7, 65))],
    ),
    "convolution": (
        lambda: gpu.convolution_by_gather(2, 4),
        [{"B": 2, "C": 2, "K": 3, "W": 9, "R": 3}, {"B": 1, "C": 1, "K": 2, "W": 4, "R": 1}],
    ),
}
"""Small tiles, so that every run has several blocks, of which some stick out."""

BARRIERS: Final = {
    "product": 2,
    "product in lanes": 2,
    "transpose": 1,
    "blur": 1,
    "row sums by blocks": 0,
    "row sums by warps": 0,
    "softmax by warps": 0,
    "whole sum": 0,
    "sparse rows by threads": 0,
    "sparse rows by warps": 0,
    "convolution": 0,
}


def arrays_for(program: atl.Program, sizes: Sizes, seed: int = 0) -> dict[str, Any]:
    """Small integers; of arrays of positions and coordinates, those of a sparse matrix in rows."""
    random = np.random.default_rng(seed)
    out: dict[str, Any] = {}
    for array in program.inputs:
        shape = [extent_for(extent, sizes) for extent in array.shape]
        if array.name.endswith("_pos"):
            ends = np.sort(random.integers(0, sizes["A_nnz"] + 1, shape))
            ends[0], ends[-1] = 0, sizes["A_nnz"]
            out[array.name] = ends.astype(array.dtype)
        elif array.name.endswith("_crd"):
            out[array.name] = random.integers(0, sizes["m"], shape).astype(array.dtype)
        else:
            out[array.name] = random.integers(-4, 5, shape).astype(array.dtype)
        if array.name == "logits":
            out[array.name] *= 25  # what takes another maximum from them is too large for float32
    return out


def extent_for(extent: Index, sizes: Sizes) -> int:
    """The extent for these sizes."""
    return sum(coefficient * prod(sizes[str(index(atom))] for atom in atoms) for atoms, coefficient in extent.terms)


@lru_cache
def scheduled(name: str) -> tuple[atl.Program, Kernels]:
    session = SCHEDULES[name][0]()
    return session.goal, made(session)


def made(session: Session) -> Kernels:
    return kernels(lower(session.goal, target="cuda"))


def of_text(body: str, head: str = "f (x : float32[n]) : float32[n]") -> Kernels:
    return kernels(lower(atl.parse(f"{head} := {body}"), target="cuda"))


def same(program: atl.Program, got: Any, want: Any) -> bool:
    """Equal, as sums of small integers are in any order; 40 powers are rounded in each order of adding them."""
    if program.name == "softmax":
        return got.shape == want.shape and np.allclose(got, want, rtol=2e-6, atol=1e-30)
    return np.array_equal(got, want)


def agree(held: Kernels, program: atl.Program, sizes: Sizes) -> None:
    arrays = arrays_for(program, sizes)
    assert same(program, interpreter.run(held, sizes, arrays), atl.evaluate(program, **arrays))


# -- what is shipped --------------------------------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_computes_what_its_program_means(name: str) -> None:
    goal, held = scheduled(name)
    assert len(list(barriers(held))) == BARRIERS[name]
    for sizes in SCHEDULES[name][1]:
        agree(held, goal, sizes)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name, count in BARRIERS.items() if count])
def test_no_barrier_of_a_schedule_can_be_left_out(name: str) -> None:
    goal, held = scheduled(name)
    sizes = SCHEDULES[name][1][0]
    for number in range(BARRIERS[name]):
        with pytest.raises(Trap, match=r"data race between threads .*, without a barrier"):
            interpreter.run(without_barrier(held, number), sizes, arrays_for(goal, sizes))


def barriers(held: Kernels) -> Iterator[Barrier]:
    for launch in launches(held.body):
        yield from (step for step in steps_of(launch.body) if isinstance(step, Barrier))


def without_barrier(held: Kernels, number: int) -> Kernels:
    (launch,) = held.body
    assert isinstance(launch, Launch)
    left = iter(range(1000))

    def kept(steps: Steps) -> Steps:
        out = [step for step in steps if not isinstance(step, Barrier) or next(left) != number]
        return tuple(replace(step, body=kept(step.body)) if isinstance(step, Repeat | Branch) else step for step in out)

    return replace(held, body=(replace(launch, body=kept(launch.body)),))


@pytest.mark.long
def test_the_product_keeps_its_sums_in_registers_and_its_operands_in_shared_memory() -> None:
    (launch,) = launches(made(gpu.product(64, (4, 4), 16)).body)
    assert launch.threads == (16, 16, 1)
    places = {s.buffer.name: launch.memories[s.buffer.uid] for s in steps_of(launch.body) if isinstance(s, Allocate)}
    assert places == {
        "acc": Distributed((Share(1, "blocked", 1), Share(0, "blocked", 1), None, None), (1, 1, 4, 4)),
        "Ap": "shared",
        "Bp": "shared",
    }
    assert not any(s.zeroed for s in steps_of(launch.body) if isinstance(s, Allocate) and s.buffer.name != "acc")


# -- launches ---------------------------------------------------------------------------------------------------------


def test_each_outermost_nest_of_blocks_is_a_launch_and_the_rest_is_of_one_block() -> None:
    text = """
      let y := ⊞[i < n | block.x] 2 * x[i] in
      let z := ⊞[i < n] y[i] + 1 in
      ⊞[i < n | block.y] z[i] * y[i]
    """
    held = of_text(text)
    assert [tuple(loop.mark.value for loop in launch.grid) for launch in launches(held.body)] == [
        ("block.x",),
        (),
        ("block.y",),
    ]
    agree(held, held.nest.marks[0].program, {"n": 5})


def test_a_loop_around_launches_runs_on_the_host() -> None:
    held = of_text("⊞[i < n] ⊞[j < n | block.x] x[i] * x[j]", "f (x : float32[n]) : float32[n, n]")
    assert [type(step) for step in held.body] == [HostLoop]
    agree(held, held.nest.marks[0].program, {"n": 4})


def test_loops_of_blocks_side_by_side_are_launches_of_their_own() -> None:
    held = of_text("(⊞[i < n | block.x] x[i]) ++ ⊞[i < n | block.x] 2 * x[i]", "f (x : float32[n]) : float32[2*n]")
    assert len(list(launches(held.body))) == 2
    agree(held, held.nest.marks[0].program, {"n": 3})


def test_a_store_outside_of_a_loop_of_threads_is_made_by_the_first_one() -> None:
    text = "⊞[i < n | block.x] let t | shared := ⊞[j < 8 | thread.x] x[i] + 1 in t[3] * t[5]"
    held = of_text(text)
    (launch,) = launches(held.body)
    assert sum(isinstance(step, Barrier) for step in launch.body) == 1
    agree(held, held.nest.marks[0].program, {"n": 3})


def test_numbers_that_all_threads_compute_wait_for_what_they_are_made_of() -> None:
    text = """
      ⊞[i < n | block.x] let t | shared := ⊞[j < 8 | thread.x] x[i] in
        let s := t[0] + t[7] in ⊞[j < 8 | thread.x] s * x[i]
    """
    held = of_text(text, "f (x : float32[n]) : float32[n, 8]")
    assert len(list(barriers(held))) == 1
    agree(held, held.nest.marks[0].program, {"n": 3})


def test_shared_memory_that_is_not_stored_in_full_is_cleared_first() -> None:
    text = "⊞[i < n | block.x] let t | shared := padr 3 ⊞[j < 8 | thread.x] x[i] in ⊞[j < 11 | thread.x] t[j]"
    held = of_text(text, "f (x : float32[n]) : float32[n, 11]")
    agree(held, held.nest.marks[0].program, {"n": 3})


# -- registers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [Share(0, "blocked", 4), Share(0, "cyclic", 8)], ids=["blocked", "cyclic"])
def test_registers_are_dealt_in_blocks_or_in_turns(share: Share) -> None:
    inner = (
        "flatten ⊞[t < 8 | thread.x] ⊞[r < 4] x[i] + 1"
        if share.how == "blocked"
        else ("flatten ⊞[r < 4] ⊞[t < 8 | thread.x] x[i] + 1")
    )
    text = f"⊞[i < n | block.x] let a | registers := {inner} in {inner.replace('x[i] + 1', _read(share))}"
    held = of_text(text, "f (x : float32[n]) : float32[n, 32]")
    (launch,) = launches(held.body)
    assert [place for place in launch.memories.values() if isinstance(place, Distributed)] == [
        Distributed((share,), (4,))
    ]
    agree(held, held.nest.marks[0].program, {"n": 3})


def test_a_loop_of_one_thread_deals_its_elements_too() -> None:
    inner = "⊞[q < 1 | thread.y] ⊞[t < 8 | thread.x] x[i] + 1"
    text = f"⊞[i < n | block.x] let a | registers := {inner} in {inner.replace('x[i] + 1', 'a[q, t]')}"
    held = of_text(text, "f (x : float32[n]) : float32[n, 1, 8]")
    (launch,) = launches(held.body)
    (dealt,) = [place for place in launch.memories.values() if isinstance(place, Distributed)]
    assert dealt.extents == (1, 1)
    agree(held, held.nest.marks[0].program, {"n": 3})


@pytest.mark.long
@pytest.mark.parametrize(("rows", "axes"), [(4, {"x", "y"}), (1, {"x"})])
def test_all_threads_fill_a_tile_that_is_cut_short(rows: int, axes: set[str]) -> None:
    s = reschedule(matmul()).gpu_map(["i", "j"], [rows, 4]).tile("p", 4)
    s.stage_registers("po", at="jo").stage_shared("A", at="po").stage_shared("B", at="po")
    (fill, _) = str(s.goal).partition("let Bp | shared :=")[2].split("let Ap | shared :=")
    assert {axis for axis in "xyz" if f"| thread.{axis}]" in fill} == axes
    held = kernels(lower(s.goal, target="cuda"))
    agree(held, s.goal, {"n": 5, "m": 6, "k": 7})


def _read(share: Share) -> str:
    return "a[4*t + r]" if share.how == "blocked" else "a[8*r + t]"


# -- what is refused --------------------------------------------------------------------------------------------------

ONE_EACH = "⊞[i < n | block.x] let a | registers := ⊞[t < 64 | thread.x] x[i] in"
ROWS = "f (x : float32[n]) : float32[n, 64]"
REFUSED: Final[dict[str, tuple[str, str, type[Exception], str]]] = {
    "two loops on one axis": (
        "⊞[i < n | block.x] ⊞[j < 64 | block.x] x[i]",
        ROWS,
        IllegalMark,
        "the nested loops i and j are both marked block.x",
    ),
    "blocks within threads": (
        "⊞[j < 64 | thread.x] ⊞[i < n | block.x] x[i]",
        "f (x : float32[n]) : float32[64, n]",
        IllegalMark,
        "the loop i is marked block.x, but in the loop j there is more than loops of blocks",
    ),
    "blocks below a loop of a kernel": (
        "⊞[i < n | block.x] ⊞[q < 2] ⊞[j < n | block.y] x[i]",
        "f (x : float32[n]) : float32[n, 2, n]",
        IllegalMark,
        "the loop j is marked block.y, but in the loop q there is more than loops of blocks",
    ),
    "threads of no constant number": (
        "⊞[i < n | thread.x] x[i]",
        "f (x : float32[n]) : float32[n]",
        IllegalMark,
        "the loop i is marked thread.x, but its number of threads is not constant",
    ),
    "too many threads along an axis": (
        "⊞[i < 65 | thread.z] x[0]",
        "f (x : float32[4]) : float32[65]",
        IllegalMark,
        "needs 65 threads",
    ),
    "too many threads in all": (
        "⊞[i < 64 | thread.y] ⊞[j < 32 | thread.x] x[0]",
        "f (x : float32[4]) : float32[64, 32]",
        IllegalMark,
        r"32 \* 64 \* 1 = 2048 threads",
    ),
    "too much shared memory": (
        "⊞[i < n | block.x] let t | shared := ⊞[j < 12289 | unroll] x[i] in t[5]",
        "f (x : float32[n]) : float32[n]",
        UnsupportedMark,
        "the shared memory of a block is too small for t",
    ),
    "a buffer of no constant size in a kernel": (
        "⊞[i < n | block.x] let t := ⊞[j < n] x[i] * x[j] in ⊞[j < n] t[n - 1 - j]",
        "f (x : float32[n]) : float32[n, n]",
        IllegalMark,
        "the buffer t has no constant size, but is inside a kernel",
    ),
    "shared memory outside of all blocks": (
        "let t | shared := ⊞[j < 8] x[0] in ⊞[i < n | block.x] t[3]",
        "f (x : float32[n]) : float32[n] given 1 <= n",
        IllegalMark,
        "the buffer t is marked shared, but is outside of all loops of blocks",
    ),
    "a register that another thread reads": (
        f"{ONE_EACH} ⊞[t < 64 | thread.x] a[63 - t]",
        ROWS,
        IllegalMark,
        "the buffer a is marked registers",
    ),
    "a register that no thread is named for": (
        f"{ONE_EACH} ⊞[t < 64] a[t]",
        ROWS,
        IllegalMark,
        "does not determine a thread along x",
    ),
    "threads that meet in one loop": (
        "⊞[b < n | block.x] ⊞[i < 4 | thread.y] (⊞[j < 8 | thread.x] x[b]) ⊕ Σ[q < n] ⊞[j < 8] x[q]",
        "f (x : float32[n]) : float32[n, 4, 8]",
        IllegalMark,
        "the loop i is marked thread.y, but two threads access out",
    ),
    "a buffer of each thread that others touch": (
        "⊞[i < n | block.x] ⊞[t < 64 | thread.y] let u := ⊞[j < 4 | thread.x] x[i] in u[0] + u[3]",
        ROWS,
        IllegalMark,
        "the loop j is marked thread.x, but its threads would share u",
    ),
    "a sum over a part of a block": (
        "⊞[i < n | block.x] ⊞[t < 8 | thread.y] [t < 3] · Σ[j < 64 | thread.x] x[i]",
        "f (x : float32[n]) : float32[n, 8]",
        IllegalMark,
        "the loop j is marked thread.x, but threads along x fold into total",
    ),
    "a number of a kernel that another one needs": (
        "let s := Σ[j < n] x[j] in ⊞[i < n | block.x] s * x[i]",
        "f (x : float32[n]) : float32[n]",
        IllegalMark,
        "the scalar s is computed in one kernel and used in another",
    ),
    "a number of the host that blocks need": (
        "let s := 2 in ⊞[i < n | block.x] s * x[i]",
        "f (x : float32[n]) : float32[n]",
        IllegalMark,
        "the scalar s is computed in one kernel and used in another",
    ),
    "a sum over one block": (
        "⊞[j < n] Σ[i < 1 | block.x] x[j]",
        "f (x : float32[n]) : float32[n]",
        IllegalMark,
        "the scalar total is computed in one kernel and used in another",
    ),
    "a mark of a CPU": ("⊞[i < n | parallel] x[i]", "f (x : float32[n]) : float32[n]", UnsupportedMark, "CUDA target"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_a_kernel_is_refused(what: str) -> None:
    body, head, kind, says = REFUSED[what]
    with pytest.raises(kind, match=says) as caught:
        of_text(body, head)
    assert isinstance(caught.value, IllegalMark | UnsupportedMark)
    assert caught.value.required
    assert caught.value.suggestions


def test_blocks_and_tensors_are_not_summed_over_threads() -> None:
    with pytest.raises(IllegalMark, match="both access total") as caught:
        made(reschedule(matmul()).mark("p", "block.x"))
    assert any("partial sums" in hint for hint in caught.value.suggestions)
    rows = atl.program("t", [A], atl.sum(4, lambda i: atl.gen(k, lambda j: atl.guard(i < n, A[i, j]))))
    with pytest.raises(IllegalMark, match="both access out") as caught:
        made(reschedule(rows).mark("i", "thread.x"))
    assert any("interchange" in hint for hint in caught.value.suggestions)


# -- what the interpreter of kernels finds by itself ------------------------------------------------------------------


def test_a_register_of_another_thread_is_trapped() -> None:
    text = "⊞[i < n | block.x] let a | registers := ⊞[t < 8 | thread.x] x[i] in ⊞[t < 8 | thread.x] a[t]"
    held = of_text(text, "f (x : float32[n]) : float32[n, 8]")
    (launch,) = launches(held.body)
    *before, last, free = launch.body
    assert isinstance(last, Run)
    assert isinstance(last.statement, For)
    shifted = _reversed(last.statement)
    planted = replace(held, body=(replace(launch, body=(*before, Run(shifted), free)),))
    with pytest.raises(Trap, match="register") as trap:
        interpreter.run(planted, {"n": 1}, {"x": np.ones(1, np.float32)})
    assert trap.value.kind == "register"


def _reversed(loop: For) -> For:
    """The loop with 7 - t in place of t."""
    from lowering.nest.substitution import at_iteration

    return replace(loop, body=at_iteration(loop, 7 - index(loop.variable)))


def test_two_blocks_of_a_launch_that_meet_are_trapped() -> None:
    held = of_text("⊞[i < n | block.x] x[i]")
    (launch,) = launches(held.body)
    (run,) = launch.body
    assert isinstance(run, Run)
    still = replace(run, statement=at_zero(run.statement, launch))
    planted = replace(held, body=(replace(launch, body=(still,)),))
    with pytest.raises(Trap, match="data race between two blocks of a launch"):
        interpreter.run(planted, {"n": 2}, {"x": np.ones(2, np.float32)})


def at_zero(statement: Any, launch: Launch) -> Any:
    from atl.core.index import ZERO
    from lowering.nest.substitution import at_iteration

    (loop,) = launch.grid
    (made_of,) = at_iteration(replace(loop, body=(statement,)), ZERO)
    return made_of


def test_sizes_of_every_kind_are_run() -> None:
    """A small grid of sizes: none, one, a whole tile, and one more than that."""
    session = gpu.transpose(4, 2)
    held = made(session)
    for rows, columns in product((0, 1, 4, 5), repeat=2):
        agree(held, session.goal, {"n": rows, "m": columns})


def test_a_scalar_that_only_some_threads_change_is_refused() -> None:
    made_of = atl.program("p", [f], atl.gen(n, lambda i: atl.sum(4, lambda j: f[i])))
    held = made(reschedule(made_of).mark("i", "block.x").mark("j", "thread.x"))
    (launch,) = launches(held.body)
    assert launch.threads == (4, 1, 1)
    agree(held, made_of, {"n": 3})


# -- tiles that no block could share ----------------------------------------------------------------------------------


def tiles_of_a_product() -> Session:
    return reschedule(matmul()).gpu_map(["i", "j"], [8, 8])


@pytest.mark.long
def test_a_tile_is_not_shared_within_a_loop_of_threads() -> None:
    s = tiles_of_a_product().tile("p", 8)
    before = str(s)
    with pytest.raises(DoesNotApply, match="within the loop ii of threads") as refused:
        s.stage_shared("A", at="po")
    assert str(s) == before
    place, registers = refused.value.suggestions
    assert place == 'at="jo"'
    assert registers.startswith('s.stage_registers("po", at="jo") first')
    s.stage_registers("po", at="jo").stage_shared("A", at="po")
    assert kernels(lower(s.goal, target="cuda")).body


def test_a_single_number_is_no_tile() -> None:
    with pytest.raises(DoesNotApply, match="Ap is a single element"):
        tiles_of_a_product().stage_shared("A", at="p")


def test_a_tile_that_grows_leaves_the_whole_grid() -> None:
    s = tiles_of_a_product().stage_shared("A", at="jo")
    with pytest.raises(IllegalMark, match="has no constant size") as refused:
        kernels(lower(s.goal, target="cuda"))
    assert refused.value.suggestions[0].startswith('s.hoist("Ap", out_of="io")')
    s.hoist("Ap", out_of="io").mark("Ap", "global")
    assert len(list(launches(kernels(lower(s.goal, target="cuda")).body))) == 2
