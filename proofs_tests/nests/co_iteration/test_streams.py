"""Streams (non-temporal stores): results, printed form, refusals and planted faults."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

import atl
import lowering.c.loops
import lowering.nest.execution
from atl.core.index import constant
from atl.core.marks import LoopMark
from atl.errors import IllegalMark, RefusedMark, UnsupportedMark
from lowering import compile as compiled
from lowering import lower, print_c
from lowering.in_place import with_inputs_in_place
from lowering.nest.execution import Trap
from lowering.nest.interpreter import execute, run
from lowering.nest.loopnest import CacheLines, For, LoopNest, statements
from lowering.nest.marked_loops import Stream, of_lines, row_of, stream_at
from proofs_tests.programs.batch import Call, Sanitized
from rewrites import Session, reschedule

pytestmark = pytest.mark.usefixtures("private_cache")

AnyArray = npt.NDArray[Any]
SEEDS: Final = range(20)
SIZES: Final = (0, 1, 15, 16, 17, 31, 33, 64, 83)
n, m = atl.sizes("n m")


def doubled(dtype: str = "float32") -> Session:
    a = atl.tensor("a", n, m, dtype=dtype)
    program = atl.program("doubled", [a], atl.gen(n, m, lambda i, j: a[i, j] + a[i, j]))
    return reschedule(program).mark("j", "stream")


def by_rows() -> Session:
    """Return a program on tiles of rows, the last one partial, with a buffer and a loop for each column."""
    a = atl.tensor("a", n, m)
    program = atl.program("rows", [a], atl.gen(n, m, lambda i, j: atl.let(a[i, j] + 1, lambda b: b * b, name="b")))
    s = reschedule(program).tile("i", 3).interchange("ii")
    return s.mark("j", "stream").tails("io", strategy="split")


def streams(nest: LoopNest) -> list[Stream]:
    found = (stream_at(each) for each in statements(nest.body) if isinstance(each, For))
    return [stream for stream in found if stream is not None]


def test_iterations_before_a_cache_line_run_alone() -> None:
    assert (
        compiled(doubled().goal).source.partition("float *restrict out)\n")[2]
        == """\
{
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < m; j++) {
            if (begins_line(out, i * m + j, sizeof *out)) {
                for (; j + 16 <= m; j += 16) {
                    _Alignas(64) float line[16];
                    #pragma omp simd
                    for (int64_t lane = 0; lane < 16; lane++) {
                        const int64_t j_lane = j + lane;
                        line[j_lane - j] = a[i * m + j_lane] + a[i * m + j_lane];
                    }
                    stream_line(&out[i * m + j], &line[0]);
                }
                if (j >= m) {
                    break;
                }
            }
            out[i * m + j] = a[i * m + j] + a[i * m + j];
        }
    }
    stream_fence();
    return 0;
}
"""
    )


def test_each_thread_orders_its_own_stores() -> None:
    text = print_c(lower(doubled().mark("i", "parallel").goal))
    assert text.count("        stream_fence();\n    }\n    stream_fence();\n    return 0;") == 1


def test_loops_shorter_than_a_line_are_plain() -> None:
    text = print_c(lower(doubled().tile("j", 8).tails(strategy="split").goal))
    assert "stream" not in text
    assert "stream" not in print_c(lower(atl.parse("f (x : float32[n]) := ⊞[i < min(n, 15) | stream] x[i]")))


@pytest.mark.parametrize(("dtype", "width"), [("float32", 16), ("float64", 8), ("int32", 16), ("int64", 8)])
def test_line_has_64_bytes(dtype: str, width: int) -> None:
    assert [stream.width for stream in streams(lower(doubled(dtype).goal))] == [width]


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_lines_may_begin_anywhere_and_stores_stay_inside(dtype: str) -> None:
    kernel = compiled(doubled(dtype).mark("i", "parallel").goal)
    for shift in range(17):
        for size in SIZES:
            around = np.full(3 * size + 64, 7, dtype)
            a = np.arange(3 * size).reshape(3, size).astype(dtype)
            kernel(a, out=around[shift : shift + 3 * size].reshape(3, size))
            wanted = np.full_like(around, 7)
            wanted[shift : shift + 3 * size] = 2 * a.reshape(-1)
            assert (around == wanted).all(), (shift, size)


@pytest.mark.parametrize("make", [doubled, by_rows])
def test_interpreter_runs_lines_in_any_order(make: Any) -> None:
    session = make()
    nest, name = lower(session.goal), session.goal.inputs[0].name
    assert streams(nest)
    for seed in SEEDS:
        rows, columns = 1 + seed % 8, 13 + 5 * (seed % 9)
        given = np.random.default_rng(seed).integers(-9, 9, (rows, columns)).astype(np.float32)
        sizes, arrays = {"n": rows, "m": columns}, {name: given}
        wanted = execute(nest, sizes, arrays, order=None).to_numpy()
        assert (execute(nest, sizes, arrays, order=seed).to_numpy() == wanted).all()


def test_result_in_place_of_an_operand_is_streamed() -> None:
    nest = with_inputs_in_place(lower(doubled().goal), ["a"])
    given = np.arange(120, dtype=np.float32).reshape(3, 40)
    assert (run(nest, {"n": 3, "m": 40}, {"a": given}) == 2 * given).all()
    kernel, held = compiled(doubled().goal), given.copy()
    kernel(held, out=held)
    assert (held == 2 * given).all()


def test_streams_run_under_the_sanitizers() -> None:
    goals = [doubled().goal, by_rows().goal, doubled().mark("i", "parallel").goal]
    calls = []
    for which, goal in enumerate(goals):
        calls += [Call(which, {goal.inputs[0].name: np.ones((7, size), np.float32)}) for size in (1, 33, 70)]
    for call, result in zip(calls, Sanitized(goals).run(calls), strict=True):
        assert isinstance(result, np.ndarray), (call, result)


REFUSED: Final = {
    "it stores to s, which is read later": "⊞[i < n] let s | heap := ⊞[j < m | stream] 2 * x[i, j] in s[0] + s[m - 1]",
    "its iterations store to out with a stride of 2 elements": "transpose ⊞[i < 2] ⊞[j < m | stream] x[i, j]",
    "its iterations reduce to one scalar, total": "⊞[i < n] Σ[j < m | stream] x[i, j]",
    "it stores in a condition that differs between its iterations": "⊞[i < n] ⊞[j < m | stream] [j % 2 == 0] · x[i, j]",
    "it stores in the loop i, which is not proved to have at most 64": "transpose ⊞[j < m | stream] ⊞[i < n] x[i, j]",
    "each of its iterations stores more than 64": "transpose ⊞[j < m | stream] ⊞[i < 65] x[i, j]",
}


@pytest.mark.parametrize("said", REFUSED)
def test_loop_without_whole_lines_is_refused(said: str) -> None:
    program = atl.parse(f"f (x : float32[n, m]) given 65 <= n, 4 <= m := {REFUSED[said]}")
    with pytest.raises(IllegalMark) as caught:
        lower(program)
    assert "is marked stream, but " + said in caught.value.summary
    assert caught.value.place is not None
    *_, taken = caught.value.suggestions
    session = reschedule(program)
    eval(taken.partition(" removes")[0], {"s": session})
    lower(session.goal)


def test_accumulation_into_the_result_is_refused() -> None:
    running = atl.parse("f (x : float32[n, m]) := Σ[p < n] ⊞[j < m | stream] x[p, j]")
    with pytest.raises(IllegalMark, match="it adds to elements of out, which requires reading them"):
        lower(running)


@pytest.mark.parametrize("outer", ["vector", "stream"])
def test_nested_lanes_are_refused(outer: str) -> None:
    program = atl.parse(f"f (x : float32[n]) := transpose ⊞[j < n | stream] ⊞[i < 20 | {outer}] x[j] + 1.0")
    if outer == "stream":
        with pytest.raises(IllegalMark, match="the loop i in it is marked stream"):
            lower(program)
        return
    nest = lower(program)
    assert len(streams(nest)) == 1
    inner = atl.parse("f (x : float32[n]) := ⊞[i < n | vector] ⊞[j < n | stream] x[j] + x[i]")
    with pytest.raises(UnsupportedMark) as caught:
        print_c(lower(inner))
    assert caught.value.summary == "the loop j is marked stream, but is inside the loop i marked vector"


def test_cuda_has_no_streams() -> None:
    with pytest.raises(RefusedMark, match="marked stream, which the CUDA target does not support"):
        compiled(doubled().goal, target="cuda")


def planted(nest: LoopNest, lines: Any) -> LoopNest:
    """Return the nest with its loops' cache lines replaced."""

    def altered(block: Any) -> Any:
        return tuple(
            replace(each, body=altered(each.body), lines=lines(each.lines) if each.lines else None)
            if isinstance(each, For)
            else each
            for each in block
        )

    return replace(nest, body=altered(nest.body))


def with_too_few_rows(lines: CacheLines) -> CacheLines:
    few = [replace(b, extents=(constant(1), *b.extents[1:])) if len(b.extents) > 1 else b for b in lines.buffers]
    return replace(lines, buffers=tuple(few))


def test_lines_for_too_few_rows_are_trapped() -> None:
    three = atl.parse("f (x : float32[n]) := transpose ⊞[j < n | stream] ⊞[i < 3] x[j] + 1.0")
    nest = lower(three)
    given = {"x": np.ones(40, np.float32)}
    assert run(nest, {"n": 40}, given).shape == (3, 40)
    with pytest.raises(Trap, match="line"):
        run(planted(nest, with_too_few_rows), {"n": 40}, given)


def test_lines_longer_than_their_buffer_are_trapped() -> None:
    nest = planted(lower(doubled().goal), lambda lines: replace(lines, width=17))
    with pytest.raises(Trap, match="line"):
        run(nest, {"n": 2, "m": 60}, {"a": np.ones((2, 60), np.float32)})


def test_lines_stored_before_they_are_computed_are_trapped(monkeypatch: pytest.MonkeyPatch) -> None:
    def turned(stream: Stream) -> Any:
        made, computed, stored, *freed = of_lines(stream)
        return (made, stored, computed, *freed)

    monkeypatch.setattr(lowering.nest.execution, "of_lines", turned)
    with pytest.raises(Trap, match="uninitialised"):
        run(lower(doubled().goal), {"n": 2, "m": 60}, {"a": np.ones((2, 60), np.float32)})


def test_line_stored_elsewhere_is_found_in_c(monkeypatch: pytest.MonkeyPatch) -> None:
    def shifted(line: Any) -> Any:
        cell = row_of(line)
        (first, width) = cell.pairs[-1]
        return replace(cell, pairs=(*cell.pairs[:-1], (first + 1, width)))

    monkeypatch.setattr(lowering.c.loops, "row_of", shifted)
    a = np.arange(120, dtype=np.float32).reshape(2, 60)
    assert (compiled(doubled().goal)(a) != 2 * a).any()


def test_conflicting_iterations_are_refused_and_trapped() -> None:
    nest = lower(doubled().goal)

    def meeting(each: Any) -> Any:
        if each.mark is not LoopMark.STREAM:
            return replace(each, body=tuple(map(meeting, each.body)))
        (store,) = each.body
        row, (_, extent) = store.target.pairs
        target = replace(store.target, pairs=(row, (constant(0), extent)))
        return replace(each, body=(replace(store, target=target),), lines=None)

    wrong = replace(nest, body=tuple(map(meeting, nest.body)))
    for seed in SEEDS:
        with pytest.raises(Trap, match=r"data race|overwritten"):
            execute(wrong, {"n": 2, "m": 40}, {"a": np.ones((2, 40), np.float32)}, order=seed)
