"""Marked loops in C: printed directives, results, and lack of memory in threads."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pytest

import atl
import lowering
from atl.core.index import ONE, constant
from atl.core.marks import LoopMark
from atl.core.predicate import at_most
from atl.core.terms import Monoid
from atl.errors import CompilerFailed, OutOfMemory, UnsupportedMark
from lowering import lower, print_c
from lowering.builds import build_shared, find_compiler, recorded_plan
from lowering.c_compiler import OPENMP, OPENMP_SIMD, has_openmp
from lowering.in_place import with_inputs_in_place
from lowering.nest import loopnest as ln
from lowering.passes import after_passes
from proofs_tests.c.scripts import script
from proofs_tests.c.test_c_memory import COUNTED, allocations
from proofs_tests.compilers import lacking
from proofs_tests.nests.by_hand import ZERO, at, binary, cell, i, n, output, vi, vj
from proofs_tests.programs.batch import Call, Sanitized
from proofs_tests.sessions.session_programs import f, matmul
from rewrites import Session, reschedule

pytestmark = pytest.mark.usefixtures("private_cache")

MONOIDS: Final[tuple[Monoid, ...]] = ("sum", "product", "max", "min")


def product() -> Session:
    return reschedule(matmul())


def loop_lines(text: str) -> list[str]:
    """Return the directives and loop heads, with their indentation."""
    lines = (line for line in text.splitlines() if line.lstrip().startswith(("#pragma", "for ")))
    return [line.removesuffix(" {") for line in lines]


def test_marked_loops_have_their_directives() -> None:
    s = product().tile("p", 8).mark("i", "parallel").mark("j", "vector").mark("pi", "unroll")
    assert loop_lines(print_c(lower(s.goal))) == [
        "    #pragma omp parallel for schedule(static)",
        "    for (int64_t i = 0; i < n; i++)",
        "        #pragma omp simd",
        "        for (int64_t j = 0; j < m; j++)",
        "            for (int64_t po = 0; po < (k + 7) / 8; po++)",
        "                #pragma GCC unroll 8",
        "                for (int64_t pi = 0; pi < 8; pi++)",
    ]


@pytest.mark.parametrize(("mark", "directive"), [("parallel", "parallel for schedule(static)"), ("vector", "simd")])
@pytest.mark.parametrize(
    ("monoid", "dtype", "clause"),
    [
        ("sum", "float32", "+: total"),
        ("product", "int64", "*: product"),
        ("max", "int32", "max: greatest"),
        ("min", "int64", "min: least"),
        ("max", "float64", "max: greatest_key"),
        ("min", "float32", "min: least_key"),
    ],
)
def test_reductions_are_declared_in_the_directive(
    mark: str, directive: str, monoid: Monoid, dtype: str, clause: str
) -> None:
    size, inner = atl.sizes("n k", min=1)
    x = atl.tensor("x", size, inner, dtype=dtype)
    body = atl.reduce(monoid, (0, size), lambda p: atl.reduce(monoid, (0, inner), lambda q: x[p, q]))
    folded = reschedule(atl.program("folded", [x], body)).mark("p", mark)
    assert loop_lines(print_c(lower(folded.goal)))[-3:-1] == [
        f"    #pragma omp {directive} reduction({clause})",
        "    for (int64_t p = 0; p < n; p++)",
    ]


@pytest.mark.parametrize("monoid", MONOIDS)
def test_vector_loop_that_only_reduces_has_no_directive(monoid: Monoid) -> None:
    folded = atl.program("t", [f], atl.reduce(monoid, (0, n_of(f)), lambda p: f[p]), given=[n_of(f) > 0])
    assert print_c(lower(reschedule(folded).mark("p", "vector").goal)) == print_c(lower(folded))


def test_nested_sums_share_one_reduction_variable() -> None:
    body = "Σ[i < n | parallel] Σ[j < m | vector] [j % 3 = 0] · x[i, j]"
    text = print_c(lower(atl.parse(f"t (x : float32[n, m]) : float32 := {body}")))
    assert [line.strip() for line in loop_lines(text)][::2] == [
        "#pragma omp parallel for schedule(static) reduction(+: total)",
        "#pragma omp simd reduction(+: total)",
    ]


def test_directive_stays_on_one_line() -> None:
    size = atl.sizes("n")
    x = atl.tensor("x", size)
    long = "a_name_of_very_many_letters_" * 4
    total = atl.sum(size, lambda p: atl.guard(p % 3 < 2, x[p]))
    body = atl.let(total, lambda t: atl.gen(size, lambda i: t * x[i]), name=long)
    kernel = lowering.compile(reschedule(atl.program("t", [x], body)).mark("p", "vector").goal)
    assert f"#pragma omp simd reduction(+: {long})\n" in kernel.source
    assert kernel(np.ones(3, np.float32)).tolist() == [2.0] * 3


@pytest.mark.parametrize("count", [0, 1, 2])
def test_only_loops_of_several_iterations_are_unrolled(count: int) -> None:
    body = (ln.Accumulate(cell(output(n), i), "add", ln.Number(1, "float32")),)
    nest = ln.LoopNest("t", ("n",), (), output(n), (ln.For(vi, ZERO, constant(count), body, LoopMark.UNROLL),))
    assert ("#pragma GCC unroll 2" in print_c(nest)) == (count == 2)
    assert ("#pragma" in print_c(nest)) == (count == 2)


IVDEP: Final = "#pragma GCC ivdep"


def guarded(target: ln.Cell, source: ln.Cell) -> str:
    """Print a loop that stores a conditional read."""
    value = ln.Choose(at_most(ONE, i), ln.Load(source), ln.Number(0, "float32"))
    local = ln.Buffer(7, "x", "float32", (n,), "local")
    made = (ln.Allocate(local, n), ln.For(vi, ZERO, n, (ln.Assign(target, value),)), ln.Free(local))
    return print_c(ln.LoopNest("t", ("n",), (), output(n), made, complete=False))


def test_conditional_reads_get_an_ivdep_pragma() -> None:
    out, x = output(n), ln.Buffer(7, "x", "float32", (n,), "local")
    assert IVDEP in guarded(cell(out, i), cell(x, i - 1))
    assert IVDEP not in guarded(cell(out, i), cell(out, i - 1)), "stored by an earlier iteration"
    assert IVDEP not in guarded(cell(out, i), cell(replace(x, home=out), i - 1)), "an alias of the output"
    assert IVDEP not in guarded(cell(out, i * 2), cell(x, i - 1)), "gcc would have to scatter"
    assert IVDEP not in guarded(cell(out, ZERO), cell(x, i - 1)), "all iterations store to one cell"
    assert IVDEP not in guarded(cell(out, n - i), cell(x, i - 1))


def test_ivdep_pragma_is_printed_only_where_needed() -> None:
    assert IVDEP not in print_c(lower(atl.parse("t (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i]")))
    guard = "t (x : float32[n, m]) : float32[n, m] := ⊞[i < n] ⊞[j < m] x[i, j] + [1 <= j] · x[i, j - 1]"
    assert loop_lines(print_c(lower(atl.parse(guard))))[-2:] == [
        "        #pragma GCC ivdep",
        "        for (int64_t j = 0; j < m; j++)",
    ]


def test_loop_in_place_has_no_ivdep_pragma() -> None:
    kernel = lowering.compile(atl.parse("t (x : float32[n]) : float32[n] := ⊞[i < n] x[i] + [i + 1 < n] · x[i + 1]"))
    assert IVDEP in kernel.source
    assert IVDEP not in print_c(with_inputs_in_place(kernel.nest, ["x"]))
    x = np.arange(40, dtype=np.float32)
    expected = x + np.append(x[1:], 0)
    kernel(x, out=x)
    np.testing.assert_array_equal(x, expected)


RUN: Final[dict[str, Callable[[], Session]]] = {
    "rows in parallel": lambda: product().mark("i", "parallel"),
    "rows in parallel, columns in vectors": lambda: product().mark("i", "parallel").mark("j", "vector"),
    "a sum in parallel": lambda: product().mark("p", "parallel"),
    "a sum in vectors": lambda: product().mark("p", "vector"),
    "tiles in parallel, unrolled": lambda: (
        product().tile(["i", "j", "p"], [4, 4, 8]).mark("io", "parallel").mark("pi", "unroll").mark("ji", "unroll")
    ),
    "a buffer for each thread": lambda: product().lbind("A[_, _]", "a").hoist("a").mark("i", "parallel"),
    "a buffer for each iteration of an inner loop": lambda: (
        product().lbind("A[_, _]", "a").hoist("a").mark("j", "parallel")
    ),
    "a small buffer in each lane": lambda: (
        product().tile("p", 8).stage("A[_, _]", at="po", name="a").mark("j", "vector")
    ),
    "vectors within vectors": lambda: product().mark("i", "vector").mark("j", "vector").mark("p", "vector"),
}


@pytest.mark.thinned(11)
@pytest.mark.sampled
@pytest.mark.parametrize("name", RUN)
def test_marked_program_agrees_with_the_unmarked_one(name: str, each_compiler: str) -> None:
    s = RUN[name]()
    marked, plain = lowering.compile(s.goal), lowering.compile(s.branch().mark("_", None).goal)
    numbers = np.random.default_rng(1)
    for rows, inner, columns in ((1, 1, 1), (5, 9, 7), (33, 17, 20), (0, 3, 2), (3, 0, 2)):
        a = numbers.integers(-3, 4, (rows, inner)).astype(np.float32)
        b = numbers.integers(-3, 4, (inner, columns)).astype(np.float32)
        np.testing.assert_array_equal(marked(a, b), plain(a, b))


@pytest.mark.thinned(13)
@pytest.mark.sampled
@pytest.mark.parametrize("mark", ["parallel", "vector"])
@pytest.mark.parametrize("monoid", MONOIDS)
def test_marked_reduction_of_floats_keeps_nan_and_neutral_element(
    mark: str, monoid: Monoid, each_compiler: str
) -> None:
    program = atl.program("t", [f], atl.reduce(monoid, (0, n_of(f)), lambda p: f[p]), given=[n_of(f) > 0])
    kernel, plain = lowering.compile(reschedule(program).mark("p", mark).goal), lowering.compile(program)
    x = np.array([2, -1, 1, 2, -2, 1, 1, 3, 1, 1, -1] * 3, np.float32)
    for made in (x, -np.abs(x), np.full(1, -np.inf, np.float32), np.full(7, np.inf, np.float32)):
        assert kernel(made) == plain(made)
    for place in (0, 5, 32):
        spoilt = x.copy()
        spoilt[place] = np.nan
        assert np.isnan(kernel(spoilt))


def n_of(of: atl.Tensor) -> atl.IndexExpr:
    return of.shape[0]


THREADS: Final = """\
#include <omp.h>
int threads(int *out)
{
    #pragma omp parallel for schedule(static)
    for (int i = 0; i < 64; i++) {
        out[i] = omp_get_thread_num();
    }
    return omp_get_max_threads();
}
"""
ASKED: Final = """\
import ctypes, sys
of, out = ctypes.CDLL(sys.argv[1]), (ctypes.c_int * 64)()
print(of.threads(out), len({*out}))
"""


@pytest.mark.parametrize("count", [1, 3])
def test_number_of_threads_is_set_by_the_environment(count: int) -> None:
    path = build_shared(THREADS, name="threads")
    done = subprocess.run(
        [sys.executable, "-c", ASKED, str(path)],
        env={**os.environ, "OMP_NUM_THREADS": str(count), "OMP_DYNAMIC": "false"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [str(count), str(count)]


@pytest.mark.long
def test_deleted_parallel_kernel_leaves_other_threads_alone() -> None:
    a, b = np.ones((64, 8), np.float32), np.ones((8, 5), np.float32)
    for name in ("rows in parallel", "a sum in parallel", "a buffer for each thread"):
        kernel = lowering.compile(RUN[name]().goal)
        assert kernel(a, b).tolist() == [[8.0] * 5] * 64
        del kernel
        gc.collect()


def test_kernel_with_threads_is_called_concurrently() -> None:
    kernel = lowering.compile(RUN["a buffer for each thread"]().goal)
    a, b = np.ones((64, 8), np.float32), np.ones((8, 5), np.float32)
    with ThreadPoolExecutor(3) as pool:
        for made in pool.map(lambda scale: kernel(scale * a, b), np.arange(12, dtype=np.float32)):
            assert made.tolist() == [[float(made[0, 0])] * 5] * 64


@pytest.mark.parametrize(
    ("mark", "flags", "linked"),
    [("parallel", {OPENMP}, {OPENMP}), ("vector", {OPENMP_SIMD}, set()), (None, set(), set())],
)
def test_openmp_flags_are_used_only_where_needed(mark: str | None, flags: set[str], linked: set[str]) -> None:
    plan = recorded_plan(lowering.compile(product().mark("i", mark).goal).path)
    assert plan is not None
    compiling, linking = plan.commands
    assert {flag for flag in compiling if "openmp" in flag} == flags
    assert {flag for flag in linking if "openmp" in flag} == linked


@pytest.mark.parametrize(("mark", "flag"), [("parallel", OPENMP), ("vector", OPENMP_SIMD)])
def test_compiler_without_openmp_is_reported_with_a_remedy(
    mark: str, flag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuses = f'for flag; do [ "$flag" = {flag} ] && {{ echo no omp >&2; exit 1; }}; done'
    body = f'{refuses}\nexec {find_compiler().path} "$@"'
    monkeypatch.setenv("CC", str(script(tmp_path / "plain-cc", body)))
    assert not has_openmp(find_compiler(), flag)
    s = product().mark("i", mark)
    with pytest.raises(CompilerFailed, match=f"does not support OpenMP, needed by {mark} loops of 'matmul'") as caught:
        lowering.compile(s.goal)
    assert caught.value.required == f"a C compiler that builds programs with {flag}"
    assert any('s.mark("_", None)' in suggestion for suggestion in caught.value.suggestions)
    lowering.compile(s.mark("_", None).goal)


def test_gcc_has_openmp() -> None:
    compiler = find_compiler()
    if compiler.kind != "gcc":
        pytest.skip("clang's OpenMP is a separate package")
    assert has_openmp(compiler, OPENMP)
    assert has_openmp(compiler, OPENMP_SIMD)


@pytest.mark.parametrize("outer", ["parallel", "vector"])
def test_nested_parallel_loop_is_refused(outer: str) -> None:
    s = product().mark("i", outer).mark("j", "parallel")
    with pytest.raises(UnsupportedMark) as caught:
        lowering.compile(s.goal)
    assert caught.value.summary == f"the loop j is marked parallel, but is inside the loop i marked {outer}"
    for suggestion in caught.value.suggestions:
        tried = s.branch()
        eval(suggestion, {"s": tried})
        lowering.compile(tried.goal)


def test_heap_buffer_in_each_lane_is_refused() -> None:
    s = product().lbind("A[_, _]", "a").hoist("a").mark("j", "vector")
    with pytest.raises(UnsupportedMark) as caught:
        lowering.compile(s.goal)
    assert caught.value.summary == "the loop j is marked vector, but each of its iterations allocates a on the heap"
    assert caught.value.place is not None
    assert caught.value.place.text[caught.value.place.start :].startswith("⊞[j < m | vector]")


def test_unrolling_too_many_iterations_is_refused() -> None:
    many = atl.parse("t (x : float32[n]) : float32[n] := ⊞[i < n] Σ[q < 65535 | unroll] x[i] * x[i]")
    with pytest.raises(UnsupportedMark, match="the loop q is marked unroll, but has 65535 iterations") as caught:
        lowering.compile(many)
    assert caught.value.required == "at most 65534 iterations"
    s = reschedule(many)
    eval(caught.value.suggestions[0].partition(" moves")[0], {"s": s})
    assert "#pragma GCC unroll 8" in print_c(lower(s.goal))


def in_threads() -> ln.LoopNest:
    """Return a nest with buffers outside of a parallel loop, in it, in a loop within it, and after it."""
    made = [ln.Buffer(uid, name, "float32", (n,)) for uid, name in enumerate("abcdefg", 1)]
    a, b, c, d, e, g, h = made
    fill = [ln.Assign(cell(buffer, ZERO), ln.Number(1, "float32")) for buffer in made]
    inner = ln.For(
        vj, ZERO, n, (ln.Allocate(e, n), fill[4], ln.Accumulate(cell(d, ZERO), "add", at(e, ZERO)), ln.Free(e))
    )
    stored = ln.Assign(cell(output(n), i), binary("add", at(a, ZERO), binary("add", at(c, ZERO), at(d, ZERO))))
    body = (ln.Allocate(c, n), ln.Allocate(d, n), fill[2], fill[3], inner, stored, ln.Free(d), ln.Free(c))
    last = ln.Accumulate(cell(output(n), ZERO), "add", binary("add", at(g, ZERO), at(h, ZERO)))
    of = atl.tensor("x", atl.sizes("n"))
    return ln.LoopNest(
        *("f", ("n",), lower(atl.program("f", [of], of)).inputs, output(n)),
        (
            *(ln.Allocate(a, n), fill[0], ln.Allocate(b, n), fill[1], ln.Allocate(g, n), fill[5]),
            ln.For(vi, ZERO, n, body, LoopMark.PARALLEL),
            *(ln.Allocate(h, n), fill[6], last, ln.Accumulate(cell(g, ZERO), "add", at(b, ZERO))),
            *(ln.Free(h), ln.Free(g), ln.Free(b), ln.Free(a)),
        ),
    )


LOCKED: Final = (
    COUNTED
    + """\
#undef aligned_alloc
#undef free
static void *locked_allocate(size_t size)
{
    void *storage;
    #pragma omp critical (memory)
    storage = had(size);
    return storage;
}
static void locked_free(void *storage)
{
    #pragma omp critical (memory)
    counted_free(storage);
}
#define aligned_alloc(line, size) locked_allocate(size)
#define free locked_free
"""
)
"""Allocation functions that count, with a lock for several threads."""


@pytest.mark.parametrize("flags", [("-Wno-unknown-pragmas",), (OPENMP,)], ids=["one thread", "threads"])
def test_failing_allocation_of_a_thread_frees_all_others_once(flags: tuple[str, ...], tmp_path: Path) -> None:
    if OPENMP in flags and not has_openmp(find_compiler(), OPENMP):
        pytest.skip("the compiler has no OpenMP")
    text = print_c(after_passes(in_threads()))
    assert "goto" not in text[text.index("#pragma") : text.index("if (failed)")]
    assert allocations(text, tmp_path, *flags, counted=LOCKED) == 3 + 8 * (2 + 8) + 1


def test_lack_of_memory_in_a_thread_is_reported() -> None:
    program = atl.parse(
        """t (f : float32[n], k : size) : float32[n]
              given 1 <= k :=
          ⊞[i < n | parallel] let b := ⊞[j < k] f[i] + f[j % n] in b[k - 1]"""
    )
    kernel = lowering.compile(program)
    assert "            failed = 1;\n        } else {" in kernel.source
    assert "    if (failed) {\n        return OUT_OF_MEMORY;\n    }" in kernel.source
    f_of = np.arange(4, dtype=np.float32)
    assert kernel(f_of, k=3).tolist() == [2.0, 3.0, 4.0, 5.0]
    with pytest.raises(OutOfMemory, match="there is not enough memory for a buffer of t"):
        kernel(f_of, k=2**50)
    assert kernel(f_of, k=3).tolist() == [2.0, 3.0, 4.0, 5.0]


@pytest.mark.long
@pytest.mark.skipif(bool(lacking()), reason=lacking())
def test_marked_programs_run_under_the_sanitizers() -> None:
    goals = [make().goal for make in RUN.values()]
    a, b = np.ones((9, 5), np.float32), np.ones((5, 11), np.float32)
    results = Sanitized(goals).run([Call(which, {"A": a, "B": b}) for which in range(len(goals))])
    for result in results:
        assert isinstance(result, np.ndarray), result
        assert result.tolist() == [[5.0] * 11] * 9
