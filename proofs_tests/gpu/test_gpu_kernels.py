"""GPU kernels: results, barriers, placement of buffers, and refusals."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, Final

import numpy as np
import pytest

import atl
from atl.core.index import ZERO, Index, index
from atl.errors import IllegalMark, UnsupportedMark
from examples import gpu
from lowering import lower
from lowering.gpu import interpreter
from lowering.gpu import kernels as kn
from lowering.gpu.outlining import kernels
from lowering.nest.execution import Trap
from lowering.nest.loopnest import Allocate, For, at_iteration
from proofs_tests.gpu.shim.run import Shimmed
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
    "steps by launches": (lambda: gpu.steps_by_launches(4), [{"n": a, "T": b} for a, b in ((10, 5), (4, 0), (1, 2))]),
    "steps in blocks": (lambda: gpu.steps_in_blocks(8), [{"n": a, "T": b} for a, b in ((3, 5), (2, 0), (0, 2))]),
}
"""Schedules and sizes. Small tiles give every run several blocks, some of them partial."""

BARRIERS: Final = dict.fromkeys(SCHEDULES, 0) | {
    "product": 2,
    "product in lanes": 2,
    "transpose": 1,
    "blur": 1,
    "steps in blocks": 2,
}


def arrays_for(program: atl.Program, sizes: Sizes, seed: int = 0) -> dict[str, Any]:
    """Return arrays of small integers; positions and coordinates are those of a sparse matrix in rows."""
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
            out[array.name] *= 25  # a wrong maximum overflows float32
    return out


def extent_for(extent: Index, sizes: Sizes) -> int:
    return sum(coefficient * prod(sizes[str(index(atom))] for atom in atoms) for atoms, coefficient in extent.terms)


@lru_cache
def scheduled(name: str) -> tuple[atl.Program, kn.Kernels]:
    session = SCHEDULES[name][0]()
    return session.goal, kernels_of(session)


def kernels_of(session: Session) -> kn.Kernels:
    return kernels(lower(session.goal, target="cuda"))


def of_text(body: str, head: str = "f (x : float32[n]) : float32[n]") -> kn.Kernels:
    return kernels(lower(atl.parse(f"{head} := {body}"), target="cuda"))


def expected(program: atl.Program, sizes: Sizes, arrays: dict[str, Any]) -> Any:
    """Return the value of a program. `T`, a number of steps, is an argument, because no array has this extent."""
    steps: dict[str, Any] = {name: sizes[name] for name in program.sizes if name == "T"}
    return atl.evaluate(program, **arrays, **steps)


def same(program: atl.Program, got: Any, want: Any) -> bool:
    """Return whether results are equal; those of softmax may differ by rounding."""
    if program.name == "softmax":
        return got.shape == want.shape and np.allclose(got, want, rtol=2e-6, atol=1e-30)
    return np.array_equal(got, want)


def agree(held: kn.Kernels, program: atl.Program, sizes: Sizes, library: Any = None) -> None:
    """Compare kernels with their program: by the interpreter, or in a library built with the shim."""
    arrays = arrays_for(program, sizes)
    want = expected(program, sizes, arrays)
    if library is None:
        assert same(program, interpreter.run(held, sizes, arrays), want)
    else:
        assert same(program, Shimmed(library, held.nest)(program.name, sizes, arrays, want.shape), want)


@pytest.mark.long
@pytest.mark.sampled
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule_agrees_with_its_program(name: str) -> None:
    goal, held = scheduled(name)
    assert len(list(barriers(held))) == BARRIERS[name]
    for sizes in SCHEDULES[name][1]:
        agree(held, goal, sizes)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name, count in BARRIERS.items() if count])
def test_every_barrier_of_a_schedule_is_needed(name: str) -> None:
    goal, held = scheduled(name)
    sizes = SCHEDULES[name][1][0]
    for number in range(BARRIERS[name]):
        with pytest.raises(Trap, match=r"data race between threads .*, without a barrier"):
            interpreter.run(without_barrier(held, number), sizes, arrays_for(goal, sizes))


def barriers(held: kn.Kernels) -> Iterator[kn.Barrier]:
    for launch in kn.launches(held.body):
        yield from (step for step in kn.steps_of(launch.body) if isinstance(step, kn.Barrier))


def without_barrier(held: kn.Kernels, number: int) -> kn.Kernels:
    (launch,) = held.body
    assert isinstance(launch, kn.Launch)
    left = iter(range(1000))

    def kept(steps: kn.Steps) -> kn.Steps:
        out = [step for step in steps if not isinstance(step, kn.Barrier) or next(left) != number]
        return tuple(
            replace(step, body=kept(step.body)) if isinstance(step, kn.Repeat | kn.Branch) else step for step in out
        )

    return replace(held, body=(replace(launch, body=kept(launch.body)),))


@pytest.mark.long
def test_product_places_sums_in_registers_and_operands_in_shared_memory() -> None:
    (launch,) = kn.launches(kernels_of(gpu.product(64, (4, 4), 16)).body)
    assert launch.threads == (16, 16, 1)
    places = {s.buffer.name: launch.memories[s.buffer.uid] for s in kn.steps_of(launch.body) if isinstance(s, Allocate)}
    assert places == {
        "acc": kn.Distributed((kn.Share(1, "blocked", 1), kn.Share(0, "blocked", 1), None, None), (1, 1, 4, 4)),
        "Ap": "shared",
        "Bp": "shared",
    }
    assert not any(s.zeroed for s in kn.steps_of(launch.body) if isinstance(s, Allocate) and s.buffer.name != "acc")


def test_outermost_block_nests_are_launches() -> None:
    text = """
      let y := ⊞[i < n | block.x] 2 * x[i] in
      let z := ⊞[i < n] y[i] + 1 in
      ⊞[i < n | block.y] z[i] * y[i]
    """
    held = of_text(text)
    grids = [tuple(loop.mark.value for loop in launch.grid) for launch in kn.launches(held.body)]
    assert grids == [("block.x",), (), ("block.y",)]
    agree(held, held.nest.marks[0].program, {"n": 5})


def test_loop_around_launches_runs_on_the_host() -> None:
    held = of_text("⊞[i < n] ⊞[j < n | block.x] x[i] * x[j]", "f (x : float32[n]) : float32[n, n]")
    assert [type(step) for step in held.body] == [kn.HostLoop]
    agree(held, held.nest.marks[0].program, {"n": 4})


def test_adjacent_block_loops_are_separate_launches() -> None:
    held = of_text("(⊞[i < n | block.x] x[i]) ++ ⊞[i < n | block.x] 2 * x[i]", "f (x : float32[n]) : float32[2*n]")
    assert len(list(kn.launches(held.body))) == 2
    agree(held, held.nest.marks[0].program, {"n": 3})


def test_store_outside_of_thread_loops_is_made_by_one_thread() -> None:
    text = "⊞[i < n | block.x] let t | shared := ⊞[j < 8 | thread.x] x[i] + 1 in t[3] * t[5]"
    held = of_text(text)
    (launch,) = kn.launches(held.body)
    assert sum(isinstance(step, kn.Barrier) for step in launch.body) == 1
    agree(held, held.nest.marks[0].program, {"n": 3})


def test_scalars_computed_by_all_threads_wait_for_their_operands() -> None:
    text = """
      ⊞[i < n | block.x] let t | shared := ⊞[j < 8 | thread.x] x[i] in
        let s := t[0] + t[7] in ⊞[j < 8 | thread.x] s * x[i]
    """
    held = of_text(text, "f (x : float32[n]) : float32[n, 8]")
    assert len(list(barriers(held))) == 1
    agree(held, held.nest.marks[0].program, {"n": 3})


def test_partially_stored_shared_memory_is_cleared_first() -> None:
    text = "⊞[i < n | block.x] let t | shared := padr 3 ⊞[j < 8 | thread.x] x[i] in ⊞[j < 11 | thread.x] t[j]"
    held = of_text(text, "f (x : float32[n]) : float32[n, 11]")
    agree(held, held.nest.marks[0].program, {"n": 3})


@pytest.mark.parametrize("share", [kn.Share(0, "blocked", 4), kn.Share(0, "cyclic", 8)], ids=["blocked", "cyclic"])
def test_registers_are_distributed_in_blocks_or_cyclically(share: kn.Share) -> None:
    inner = "⊞[r < 4] ⊞[t < 8 | thread.x]" if share.how == "cyclic" else "⊞[t < 8 | thread.x] ⊞[r < 4]"
    read = "a[4*t + r]" if share.how == "blocked" else "a[8*r + t]"
    text = f"⊞[i < n | block.x] let a | registers := flatten {inner} x[i] + 1 in flatten {inner} {read}"
    held = of_text(text, "f (x : float32[n]) : float32[n, 32]")
    (launch,) = kn.launches(held.body)
    assert kn.Distributed((share,), (4,)) in launch.memories.values()
    assert sum(isinstance(place, kn.Distributed) for place in launch.memories.values()) == 1
    agree(held, held.nest.marks[0].program, {"n": 3})


def test_loop_of_one_thread_distributes_its_elements() -> None:
    inner = "⊞[q < 1 | thread.y] ⊞[t < 8 | thread.x] x[i] + 1"
    text = f"⊞[i < n | block.x] let a | registers := {inner} in {inner.replace('x[i] + 1', 'a[q, t]')}"
    held = of_text(text, "f (x : float32[n]) : float32[n, 1, 8]")
    (launch,) = kn.launches(held.body)
    (distributed,) = [place for place in launch.memories.values() if isinstance(place, kn.Distributed)]
    assert distributed.extents == (1, 1)
    agree(held, held.nest.marks[0].program, {"n": 3})


@pytest.mark.long
@pytest.mark.parametrize(("rows", "axes"), [(4, {"x", "y"}), (1, {"x"})])
def test_all_threads_fill_a_partial_tile(rows: int, axes: set[str]) -> None:
    s = reschedule(matmul()).gpu_map(["i", "j"], [rows, 4]).tile("p", 4)
    s.stage_registers("po", at="jo").stage_shared("A", at="po").stage_shared("B", at="po")
    (fill, _) = str(s.goal).partition("let Bp | shared :=")[2].split("let Ap | shared :=")
    assert {axis for axis in "xyz" if f"| thread.{axis}]" in fill} == axes
    held = kernels(lower(s.goal, target="cuda"))
    agree(held, s.goal, {"n": 5, "m": 6, "k": 7})


REFUSED: Final = """\
two loops on one axis: n, 64
⊞[i < n | block.x] ⊞[j < 64 | block.x] x[i]
IllegalMark: the nested loops i and j are both marked block.x

blocks within threads: 64, n
⊞[j < 64 | thread.x] ⊞[i < n | block.x] x[i]
IllegalMark: the loop i is marked block.x, but in the loop j there is more than loops of blocks

blocks below a loop of a kernel: n, 2, n
⊞[i < n | block.x] ⊞[q < 2] ⊞[j < n | block.y] x[i]
IllegalMark: the loop j is marked block.y, but in the loop q there is more than loops of blocks

a variable number of threads: n
⊞[i < n | thread.x] x[i]
IllegalMark: the loop i is marked thread.x, but its number of threads is not constant

too many threads along an axis: 65
⊞[i < 65 | thread.z] x[0]
IllegalMark: needs 65 threads

too many threads in all: 64, 32
⊞[i < 64 | thread.y] ⊞[j < 32 | thread.x] x[0]
IllegalMark: 32 * 64 * 1 = 2048 threads

too much shared memory: n
⊞[i < n | block.x] let t | shared := ⊞[j < 58113 | unroll] x[i] in t[5]
UnsupportedMark: the shared memory of a block is too small for t

a buffer of variable size in a kernel: n, n
⊞[i < n | block.x] let t := ⊞[j < n] x[i] * x[j] in ⊞[j < n] t[n - 1 - j]
IllegalMark: the buffer t has no constant size, but is inside a kernel

shared memory outside of all blocks: n
let t | shared := ⊞[j < 8] x[0] in ⊞[i < n | block.x] t[3]
IllegalMark: the buffer t is marked shared, but is outside of all loops of blocks

a register read by another thread: n, 64
⊞[i < n | block.x] let a | registers := ⊞[t < 64 | thread.x] x[i] in ⊞[t < 64 | thread.x] a[63 - t]
IllegalMark: the buffer a is marked registers

a register without a thread: n, 64
⊞[i < n | block.x] let a | registers := ⊞[t < 64 | thread.x] x[i] in ⊞[t < 64] a[t]
IllegalMark: not all threads along x reach it

a data race of threads: n, 4, 8
⊞[b < n | block.x] ⊞[i < 4 | thread.y] (⊞[j < 8 | thread.x] x[b]) ⊕ Σ[q < n] ⊞[j < 8] x[q]
IllegalMark: the loop i is marked thread.y, but two threads access out

a private buffer used by other threads: n, 64
⊞[i < n | block.x] ⊞[t < 64 | thread.y] let u := ⊞[j < 4 | thread.x] x[i] in u[0] + u[3]
IllegalMark: the loop j is marked thread.x, but its threads would share u

a sum over a part of a block: n, 8
⊞[i < n | block.x] ⊞[t < 8 | thread.y] [t < 3] · Σ[j < 64 | thread.x] x[i]
IllegalMark: the loop j is marked thread.x, but threads along x fold into total

a scalar used in another kernel: n
let s := Σ[j < n] x[j] in ⊞[i < n | block.x] s * x[i]
IllegalMark: the scalar s is computed in one kernel and used in another

a scalar of the host used in a kernel: n
let s := 2 in ⊞[i < n | block.x] s * x[i]
IllegalMark: the scalar s is computed in one kernel and used in another

a sum over one block: n
⊞[j < n] Σ[i < 1 | block.x] x[j]
IllegalMark: the scalar total is computed in one kernel and used in another

a mark of a CPU: n
⊞[i < n | parallel] x[i]
UnsupportedMark: CUDA target
"""
"""Programs with the shapes of their results, and the errors that refuse them."""


@pytest.mark.parametrize("case", REFUSED.split("\n\n"), ids=lambda case: case.partition(":")[0])
def test_program_that_cannot_be_a_kernel_is_refused(case: str) -> None:
    shape, body, kind, message = re.fullmatch(r".*: (.*)\n(.*)\n(\w+): (.*)\n?", case).groups()  # type: ignore[union-attr]
    with pytest.raises((IllegalMark, UnsupportedMark), match=re.escape(message)) as caught:
        of_text(body, f"f (x : float32[n]) : float32[{shape}] given 1 <= n")
    assert type(caught.value).__name__ == kind
    assert caught.value.required
    assert caught.value.suggestions


def test_sums_over_blocks_or_tensors_are_refused() -> None:
    with pytest.raises(IllegalMark, match="both access total") as caught:
        kernels_of(reschedule(matmul()).mark("p", "block.x"))
    assert any("partial sums" in hint for hint in caught.value.suggestions)
    rows = atl.program("t", [A], atl.sum(4, lambda i: atl.gen(k, lambda j: atl.guard(i < n, A[i, j]))))
    with pytest.raises(IllegalMark, match="both access out") as caught:
        kernels_of(reschedule(rows).mark("i", "thread.x"))
    assert any("interchange" in hint for hint in caught.value.suggestions)


def test_register_of_another_thread_is_trapped() -> None:
    text = "⊞[i < n | block.x] let a | registers := ⊞[t < 8 | thread.x] x[i] in ⊞[t < 8 | thread.x] a[t]"
    held = of_text(text, "f (x : float32[n]) : float32[n, 8]")
    (launch,) = kn.launches(held.body)
    *before, last, free = launch.body
    assert isinstance(last, kn.Run)
    assert isinstance(last.statement, For)
    shifted = _reversed(last.statement)
    planted = replace(held, body=(replace(launch, body=(*before, kn.Run(shifted), free)),))
    with pytest.raises(Trap, match="register") as trap:
        interpreter.run(planted, {"n": 1}, {"x": np.ones(1, np.float32)})
    assert trap.value.kind == "register"


def _reversed(loop: For) -> For:
    """Return the loop with 7 - t substituted for t."""
    return replace(loop, body=at_iteration(loop, 7 - index(loop.variable)))


def test_race_between_two_blocks_of_a_launch_is_trapped() -> None:
    held = of_text("⊞[i < n | block.x] x[i]")
    (launch,) = kn.launches(held.body)
    (run,) = launch.body
    assert isinstance(run, kn.Run)
    still = replace(run, statement=at_zero(run.statement, launch))
    planted = replace(held, body=(replace(launch, body=(still,)),))
    with pytest.raises(Trap, match="data race between two blocks of a launch"):
        interpreter.run(planted, {"n": 2}, {"x": np.ones(2, np.float32)})


def at_zero(statement: Any, launch: kn.Launch) -> Any:
    (loop,) = launch.grid
    (made_of,) = at_iteration(replace(loop, body=(statement,)), ZERO)
    return made_of


def test_transpose_runs_for_small_sizes_of_all_kinds() -> None:
    """Run with no element, one, a whole tile, and one more than a tile."""
    session = gpu.transpose(4, 2)
    held = kernels_of(session)
    for rows, columns in product((0, 1, 4, 5), repeat=2):
        agree(held, session.goal, {"n": rows, "m": columns})


def test_block_of_threads_computes_a_sum() -> None:
    made_of = atl.program("p", [f], atl.gen(n, lambda i: atl.sum(4, lambda j: f[i])))
    held = kernels_of(reschedule(made_of).mark("i", "block.x").mark("j", "thread.x"))
    (launch,) = kn.launches(held.body)
    assert launch.threads == (4, 1, 1)
    agree(held, made_of, {"n": 3})


def tiles_of_a_product() -> Session:
    return reschedule(matmul()).gpu_map(["i", "j"], [8, 8])


@pytest.mark.long
def test_tile_is_not_shared_within_a_loop_of_threads() -> None:
    s = tiles_of_a_product().tile("p", 8)
    before = str(s)
    with pytest.raises(DoesNotApply, match="inside the thread loop ii") as refused:
        s.stage_shared("A", at="po")
    assert str(s) == before
    place, registers = refused.value.suggestions
    assert place == 'at="jo"'
    assert registers.startswith('s.stage_registers("po", at="jo") first')
    s.stage_registers("po", at="jo").stage_shared("A", at="po")
    assert kernels(lower(s.goal, target="cuda")).body


def test_single_number_is_not_a_tile() -> None:
    with pytest.raises(DoesNotApply, match="Ap is a single element"):
        tiles_of_a_product().stage_shared("A", at="p")


def test_tile_of_variable_size_is_hoisted_out_of_the_grid() -> None:
    s = tiles_of_a_product().stage_shared("A", at="jo")
    with pytest.raises(IllegalMark, match="has no constant size") as refused:
        kernels(lower(s.goal, target="cuda"))
    assert refused.value.suggestions[0].startswith('s.hoist("Ap", out_of="io")')
    s.hoist("Ap", out_of="io").mark("Ap", "global")
    assert len(list(kn.launches(kernels(lower(s.goal, target="cuda")).body))) == 2
