"""Legality of marks: the interpreter independently confirms what the prover refuses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Final

import numpy as np
import pytest

import atl
from atl.checks.scope import initial_facts
from atl.core.index import Var, constant, index
from atl.core.marks import CONCURRENT, LoopMark
from atl.core.terms import Monoid
from atl.errors import IllegalMark, UnsafeAccess, UnsafeTruncation
from atl.prove import Unknown
from examples import beyond_the_paper, everyday
from examples.schedules import blur
from examples.schedules import matmul as matmul_schedules
from lowering import lower, print_nest
from lowering.lower import lower_unchecked
from lowering.nest import loopnest as ln
from lowering.nest.execution import Trap
from lowering.nest.interpreter import execute
from lowering.nest.text import outermost
from lowering.passes import after_passes
from lowering.targets import legality
from lowering.targets.legality import Conflict, check_legal, conflict
from proofs_tests.nests.planted_marks import Planted, planted
from proofs_tests.programs.generate import Case, case_by_seed
from proofs_tests.programs.random_marks import loops_of, with_marks
from proofs_tests.sessions.session_programs import A, f, k, matmul, n
from rewrites import reschedule

SEEDS: Final = range(150)
SIZES: Final = [{"n": rows, "m": columns} for rows, columns in product((0, 1, 2, 3, 5), (0, 1, 3))]


def find_conflict(made: Planted) -> Conflict | None:
    """Return the prover's conflict, if any."""
    nest = made.nest
    return conflict(made.loop, initial_facts(nest.assumptions, nest.inputs), outermost(nest))


def race(nest: ln.LoopNest, sizes: dict[str, int], arrays: dict[str, np.ndarray], order: int = 0) -> str:
    """Return the data race of two iterations in a run, if there is one."""
    try:
        execute(nest, sizes, arrays, order=order)
    except Trap as trap:
        if trap.kind != "data race":
            raise
        return trap.summary
    return ""


def has_race(made: Planted) -> bool:
    """Return whether iterations conflict at some small size, for some elements of the index array."""
    for sizes in SIZES:
        count = sizes["n"]
        for at in (np.zeros(count, np.int64), np.arange(count), np.arange(count) // 2, np.full(count, -1)):
            if race(made.nest, sizes, made.arrays(sizes, at)):
                return True
    return False


@pytest.fixture(scope="module")
def verdicts() -> dict[int, Conflict | None]:
    return {seed: find_conflict(planted(seed)) for seed in SEEDS}


@pytest.mark.long
def test_refusals_and_proofs_agree_with_runs(verdicts: dict[int, Conflict | None]) -> None:
    counted: Counter[str] = Counter()
    for seed, verdict in verdicts.items():
        meeting = has_race(planted(seed))
        assert meeting <= (verdict is not None), print_nest(planted(seed).nest)
        counted["legal" if verdict is None else "refuted" if verdict.model is not None else "unknown"] += 1
        counted["met"] += meeting
    assert counted["met"] >= 40
    assert counted["legal"] >= 20
    assert counted["unknown"] <= 3


@pytest.mark.long
def test_numbers_of_a_refusal_give_a_run_with_a_conflict(verdicts: dict[int, Conflict | None]) -> None:
    tried = 0
    for seed, verdict in verdicts.items():
        if verdict is None or verdict.model is None:
            continue
        made, numbers = planted(seed), verdict.model.numbers
        sizes = {"n": numbers.get("n", 3), "m": numbers.get("m", 3)}
        at = np.array([numbers.get(f"at[{row}]", -1) for row in range(sizes["n"])], np.int64)
        assert race(made.nest, sizes, made.arrays(sizes, at)), f"{print_nest(made.nest)}\n{numbers}"
        tried += 1
    assert tried >= 40


def test_conflict_is_found_in_any_order_of_iterations() -> None:
    for seed in range(30):
        made = planted(seed)
        sizes = {"n": 4, "m": 3}
        seen = {bool(race(made.nest, sizes, made.arrays(sizes), order)) for order in range(6)}
        assert len(seen) == 1


def safe(program: atl.Program) -> bool:
    try:
        lower(program)
    except (UnsafeAccess, UnsafeTruncation):
        return False
    return True


@pytest.mark.long
@pytest.mark.parametrize("registers", [True, False])
def test_each_loop_of_random_programs_is_legal_or_conflicts(registers: bool) -> None:
    """Mark each loop of each program alone; a legal mark has no conflict in a run."""
    counted: Counter[str] = Counter()
    for number in range(30):
        made = case_by_seed(23, number)
        if not isinstance(made, Case) or not safe(made.program):
            continue
        for path in loops_of(made.program):
            nest = after_passes(lower_unchecked(with_marks(made.program, {path: "parallel"}), registers=registers))
            if not any(isinstance(inside, ln.For) and inside.mark in CONCURRENT for inside in ln.statements(nest.body)):
                continue
            try:
                check_legal(nest)
            except IllegalMark as refused:
                counted["refuted" if refused.numbers else "unknown"] += 1
            else:
                counted["legal"] += 1
                assert not race(nest, dict(made.sizes), dict(made.arrays))
    assert counted["legal"] >= 20
    assert counted["unknown"] <= 1
    assert registers or counted["refuted"]


def test_refusal_names_two_accesses_two_iterations_and_the_cell() -> None:
    s = reschedule(matmul()).interchange("j").mark("p", "parallel")
    with pytest.raises(IllegalMark) as caught:
        lower(s.goal)
    refused = caught.value
    numbers = refused.numbers
    assert isinstance(numbers, dict)
    other = numbers["p'"]
    assert refused.summary == (
        f"the loop p is marked parallel, but iterations {numbers['p']} and {other} "
        f"both access out[{numbers['i']}, {numbers['j']}] (data race)"
    )
    assert refused.required == (
        "no iteration accesses what another iteration writes; `out[i, j] += A[i, p] * B[p, j]` writes it in both"
    )
    assert refused.suggestions == ('s.mark("p", None) removes the mark',)
    assert refused.place is not None
    assert refused.place.text[refused.place.start :].startswith("Σ[p < k | parallel]")


def test_read_of_another_iteration_is_reported_with_both_accesses() -> None:
    vi = Var(1, "i")
    at = index(vi)
    out, size = ln.Buffer(0, "out", "float32", (constant(8),), "output"), constant(8)
    here, before = ln.Cell(out, ((at, size),)), ln.Cell(out, ((at - 1, size),))
    running = ln.For(vi, constant(1), size, (ln.Accumulate(here, "add", ln.Load(before)),), LoopMark.VECTOR)
    with pytest.raises(IllegalMark) as caught:
        check_legal(ln.LoopNest("running", (), (), out, (running,)))
    assert re.fullmatch(
        r"the loop i is marked vector, but iterations \d and \d both access out\[\d\] \(data race\)",
        caught.value.summary,
    )
    assert caught.value.required == (
        "no iteration accesses what another iteration writes; `out[i] += out[i - 1]` writes it in one iteration, "
        "`out[i] += out[i - 1]` reads it in the other"
    )


def test_unproved_mark_is_refused_without_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legality, "prove", lambda *_: Unknown("not asked"))
    s = reschedule(matmul()).mark("i", "parallel")
    message = "the loop i is marked parallel, but two of its iterations may access the same element of out"
    with pytest.raises(IllegalMark, match=message) as caught:
        lower(s.goal)
    assert caught.value.numbers is None


def test_all_illegal_marks_are_reported_together() -> None:
    s = reschedule(matmul()).interchange("j").interchange("i").mark("p", "parallel").mark("i", "unroll")
    with pytest.raises(IllegalMark, match="another mark is refused: unroll of i") as caught:
        lower(s.goal)
    assert [(other.binder, other.mark) for other in caught.value.others] == [("i", "unroll")]


def test_mark_on_a_loop_that_is_not_lowered_is_refused() -> None:
    s = reschedule(atl.program("t", [f], atl.sqrt(atl.gen(n, lambda i: f[i])))).mark("i", "parallel")
    message = "the loop i is marked parallel, but lowering does not make a loop of it"
    with pytest.raises(IllegalMark, match=message) as caught:
        lower(s.goal)
    assert "s.normalize() shows the loops after lowering" in caught.value.suggestions
    assert "# parallel" in print_nest(lower(s.normalize().mark("i", "parallel").goal))


@pytest.mark.parametrize(
    "body",
    [
        "let t := ⊞[i < n | parallel] f[i] in ⊞[i < n] f[i]",
        "⊞[i < n] [1 < 0] · Σ[j < n | vector] f[j]",
        "⊞[i < n] ((Σ[j < n | vector] f[j]) + Σ[j < n | vector] f[j])",
    ],
    ids=["a loop in an unused let", "a loop in what is never done", "equal sums"],
)
def test_marked_loop_without_effect_is_accepted(body: str) -> None:
    lower(atl.parse(f"t (f : float32[n]) : float32[n]\n    given 1 <= n :=\n  {body}"))


def test_strictly_increasing_positions_allow_parallel_scatter() -> None:
    terms, bins = atl.sizes("terms bins")
    weight = atl.tensor("weight", terms)

    def scattered(at: atl.Tensor) -> atl.Program:
        body = atl.sum(terms, lambda p: atl.place(bins, at[p], weight[p]))
        return reschedule(atl.program("t", [at, weight], body)).mark("p", "parallel").goal

    lower(scattered(atl.tensor("at", terms, dtype="int64", range=(0, bins), monotonic="increasing")))
    with pytest.raises(IllegalMark, match=r"iterations \d and \d both access out\[0\]"):
        lower(scattered(atl.tensor("at", terms, dtype="int64", range=(0, bins))))


SCHEDULES: Final[dict[str, Callable[[], atl.Program]]] = {
    "a product in tiles, with tails": matmul_schedules.tiled_with_tails,
    "a blur in tiles, with tails": blur.tiled_staged_with_tails,
    "a product of packed operands": lambda: everyday.product_packed(8, 32).goal,
    "a product of triangles": lambda: everyday.triangular_by_rows().goal,
    "a stencil in tiles, twice": lambda: everyday.two_steps_in_tiles().goal,
    "attention in blocks": lambda: beyond_the_paper.attention_in_blocks().goal,
    "a batch of products in blocks": lambda: beyond_the_paper.batched_product_blocked().goal,
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", SCHEDULES)
def test_outermost_loops_of_schedules_may_run_in_parallel(name: str) -> None:
    program = SCHEDULES[name]()
    loops = loops_of(program)
    outermost_loops = [path for path in loops if not any(path[: len(by)] == by != path for by in loops)]
    nest = lower(with_marks(program, dict.fromkeys(outermost_loops, "parallel")))
    assert any(isinstance(inside, ln.For) and inside.mark in CONCURRENT for inside in ln.statements(nest.body))


@pytest.mark.parametrize("mark", ["parallel", "vector"])
@pytest.mark.parametrize("monoid", ["sum", "max", "min", "product"])
def test_reduction_is_concurrent_into_a_scalar_but_not_a_cell(mark: str, monoid: Monoid) -> None:
    total = atl.program("t", [f], atl.reduce(monoid, (0, n), lambda p: f[p]), given=[n > 0])
    lower(reschedule(total).mark("p", mark).goal)
    rows = atl.program("t", [A], atl.sum(n, lambda i: atl.gen(k, lambda j: A[i, j])))
    with pytest.raises(IllegalMark, match="both access out"):
        lower(reschedule(rows).mark("i", mark).goal)


def test_threads_reduce_into_a_scalar_and_blocks_do_not() -> None:
    for mark in ("block.x", "thread.y"):
        lower(reschedule(matmul()).mark("i", mark).goal)
    lower(reschedule(matmul()).mark("p", "thread.y").goal)
    message = r"the loop p is marked block.x, but iterations . and . both access total"
    with pytest.raises(IllegalMark, match=message) as e:
        lower(reschedule(matmul()).mark("p", "block.x").goal)
    assert any("interchange" in hint for hint in e.value.suggestions)


def test_only_loops_of_constant_extent_are_unrolled() -> None:
    s = reschedule(matmul()).tile("p", 8)
    assert "for pi in 0..8:  # unroll" in print_nest(lower(s.branch().mark("pi", "unroll").goal))
    message = "the loop po is marked unroll, but its number of iterations is not constant"
    with pytest.raises(IllegalMark, match=message) as caught:
        lower(s.mark("po", "unroll").goal)
    assert caught.value.required == "a constant extent; it is ceildiv(k, 8)"
    hint = 's.tile(…).tails(strategy="split") separates full tiles, which have a constant extent'
    assert hint in caught.value.suggestions


def test_buffers_are_not_hoisted_out_of_concurrent_loops() -> None:
    s = reschedule(matmul()).lbind("A[_, _]", "a").hoist("a")
    alloc = "alloc a[k]"
    assert print_nest(lower(s.goal)).splitlines()[1] == f"    {alloc}"
    outer = print_nest(lower(s.branch().mark("i", "parallel").goal)).splitlines()
    assert outer[1:4] == ["    for i in 0..n:  # parallel", f"        {alloc}", "        for j in 0..m:"]
    inner = print_nest(lower(s.branch().mark("j", "parallel").goal)).splitlines()
    assert inner[1:4] == ["    for i in 0..n:", "        for j in 0..m:  # parallel", f"            {alloc}"]


def test_buffer_in_a_parallel_loop_fits_its_iteration() -> None:
    program = atl.parse(
        """t (f : float32[n]) : float32[n] :=
             ⊞[i < n | parallel] Σ[p < 2] let b := ⊞[j < i + 1 + p] 2 * f[max(0, j - 1)] in Σ[q < i + 1 + p] b[q]"""
    )
    text = print_nest(lower(program))
    assert "        alloc b[i + 2]" in text
    f_of = np.arange(5, dtype=np.float32)
    nest = lower(program)
    outcome = execute(nest, {"n": 5}, {"f": f_of})
    np.testing.assert_array_equal(outcome.to_numpy(), atl.evaluate(program, f_of))


def test_buffer_cleared_by_all_iterations_is_found_by_both() -> None:
    buffer = ln.Buffer(12, "buf", "float32", (constant(3),))
    out = ln.Buffer(0, "out", "float32", (constant(4),), "output")
    vi = Var(1, "i")
    body = (
        ln.Clear(buffer, constant(3)),
        ln.Accumulate(ln.Cell(out, ((index(vi), constant(4)),)), "add", ln.Number(1, "float32")),
    )
    loop = ln.For(vi, constant(0), constant(4), body, LoopMark.PARALLEL)
    nest = ln.LoopNest("emptied", (), (), out, (ln.Allocate(buffer, constant(3)), loop, ln.Free(buffer)))
    with pytest.raises(IllegalMark, match=r"iterations \d and \d both access buf\[\d\]") as caught:
        check_legal(nest)
    assert "`clear buf[0..3]` writes it in both" in (caught.value.required or "")
    assert "buf at 0" in race(nest, {}, {})
    alone = replace(nest, body=(replace(loop, body=(ln.Allocate(buffer, constant(3)), *body, ln.Free(buffer))),))
    check_legal(alone)
    assert not race(alone, {}, {})


def test_buffers_beyond_the_stack_stay_in_their_iteration() -> None:
    lets = "".join(f"let t{at} := ⊞[j < 8192] x[i, j] + {at} in " for at in range(4))
    used = " + ".join(f"t{at}[q]" for at in range(4))
    program = atl.parse(f"t (x : float32[n, 8192]) : float32[n] :=\n  ⊞[i < n | parallel] {lets}Σ[q < 8192] ({used})")
    lines = print_nest(lower(program)).splitlines()
    on_heap = [line for line in lines if "alloc" in line and "on stack" not in line]
    assert len(on_heap) == 2
    assert all(line.startswith("        alloc") for line in on_heap)


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (
            "⊞[i < n | parallel] select(k <= 3, f[i], 2 * f[i])",
            ["if k <= 3:", "for i in 0..n:  # parallel", "if 4 <= k:", "for i in 0..n:  # parallel"],
        ),
        ("⊞[i < n | vector] [k <= i] · f[i]", ["for i in k..n:  # vector"]),
        ("⊞[i < 1 | parallel] f[0] * f[i]", ["for i in 0..1:  # parallel"]),
        (
            "⊞[i < n | parallel] [k = 3] · Σ[p < 1 | vector] f[p]",
            ["if k = 3:", "for i in 0..n:  # parallel", None, "if k != 3:", "for i in 0..n:  # parallel"],
        ),
    ],
    ids=["a loop that is written twice", "a bound", "one iteration", "a test that leaves two loops"],
)
def test_mark_stays_with_its_loop_in_all_passes(body: str, shown: list[str | None]) -> None:
    extent = "1" if "i < 1" in body else "n"
    program = atl.parse(f"t (f : float32[n], k : size) : float32[{extent}]\n    given 1 <= n, 1 <= k :=\n  {body}")
    nest = lower(program)
    lines = [line.strip() for line in print_nest(nest).splitlines() if line.strip().startswith(("for", "if"))]
    wanted = ["for p in 0..1:  # vector" if line is None else line for line in shown]
    assert lines == wanted
    loops = [loop for loop in ln.statements(nest.body) if isinstance(loop, ln.For)]
    assert {loop.binder for loop in loops} == {binder.path for binder in nest.marks}


def test_loop_whose_variable_sizes_an_outer_buffer_is_kept() -> None:
    program = atl.parse(
        """t (f : float32[4]) : float32[1] :=
             ⊞[i < 1] Σ[k < 2] let b := ⊞[j < 1 - i + k] 2 * f[j] in Σ[q < 1 - i + k] b[q]"""
    )
    ones = np.ones(4, np.float32)
    assert execute(lower(program), {}, {"f": ones}).to_numpy().tolist() == atl.evaluate(program, ones).tolist() == [6.0]
