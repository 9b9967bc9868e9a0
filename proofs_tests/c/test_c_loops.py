"""Loops of emitted C: invariant tests, clearing and repeated sums are moved out or computed once."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import atl
import lowering
import lowering.c.loops
from atl.core.index import constant
from atl.core.predicate import at_most, conjunction, less
from lowering import lower, print_c
from lowering.builds import find_compiler, has_sanitizers
from lowering.c.loops import NOT_VECTORISED
from lowering.c.text import wrapped
from lowering.nest.loopnest import Assign, Declare, For, FromIndex, If, Load, Number, Scalar
from lowering.nest.text import TextScope
from proofs_tests.nests.by_hand import body_of, cell, i, j, k, loop, n, nest, output, run, vi, vj
from proofs_tests.programs.batch import Call, Report, Sanitized, compile_many
from rewrites import reschedule

N, M = atl.sizes("n m")

pytestmark = pytest.mark.usefixtures("private_cache")
needs_sanitizers = pytest.mark.skipif(not has_sanitizers(find_compiler()), reason="the compiler has no sanitizers")


def code(program: atl.Program) -> str:
    text = print_c(lower(program))
    return text[text.index("\n{\n") :]


def against_reference(program: atl.Program, **sizes: Any) -> None:
    numbers = np.random.default_rng(3)
    shapes = {a.name: [sizes[str(extent)] for extent in a.shape] for a in program.inputs}
    arrays: dict[str, Any] = {name: numbers.integers(-4, 5, shape).astype(np.float32) for name, shape in shapes.items()}
    given = {str(extent) for a in program.inputs for extent in a.shape}
    call: dict[str, Any] = {**arrays, **{name: value for name, value in sizes.items() if name not in given}}
    np.testing.assert_allclose(lowering.compile(program)(**call), atl.evaluate(program, **call))


def test_loop_of_one_iteration_is_replaced_by_its_body() -> None:
    unrolled = reschedule(
        atl.parse("f (X : float32[m, n]) := ⊞[io < ⌈n / 4⌉] ⊞[p < m] ⊞[ii < 4] [4*io + ii < n] · X[p, 4*io + ii]")
    )
    program = unrolled.unroll("ii").tails().goal
    text = code(program)
    assert "< 1;" not in text
    assert "out[(io * m + p) * 4 + 3] = X[p * n + 4 * io + 3];" in text
    against_reference(program, m=3, n=6)


def test_declarations_in_a_single_iteration_end_with_it() -> None:
    out, first = output(n), [Scalar(uid, "s", "float32") for uid in (8, 9)]
    once = [
        loop(v, constant(4), Declare(s, FromIndex(of, "float32")), Assign(cell(out, of), Load(s)), low=constant(3))
        for v, s, of in zip((vi, vj), first, (i, j - 1), strict=True)
    ]
    assert run(nest("once", [], out, *once, sizes="n", complete=False), [], [4], 4).tolist() == [0, 0, 2, 3]


def test_marked_loop_of_one_iteration_is_kept() -> None:
    program = atl.parse("f (x : float32[n]) := ⊞[i < 1 | parallel] ⊞[j < n] x[j]")
    assert "for i in 0..1:  # parallel" in lowering.print_nest(lower(program))


def test_invariant_test_is_unswitched() -> None:
    x = atl.tensor("x", N, M)
    program = atl.program("f", [x], atl.gen(N, M, lambda p, q: atl.guard((p * p >= 4) & (q * q < 5), x[p, q])))
    assert """\
        if (4 <= p * p) {
            for (int64_t q = 0; q < m; q++) {
                if (q * q < 5) {
""" in code(program)
    for n_, m_ in ((0, 3), (1, 0), (7, 9)):
        against_reference(program, n=n_, m=m_)


def test_guard_around_a_loop_body_becomes_a_bound() -> None:
    x = atl.tensor("x", N, M)
    body = atl.gen(N, M, lambda p, q: atl.guard((p >= 2) & (q < 5) & (2 * q < p + 3) & (q != 1), x[p, q]))
    program = atl.program("f", [x], body)
    assert """\
    for (int64_t p = 2; p < n; p++) {
        for (int64_t q = 0; q < min_int64(m, min_int64(p / 2 + 2, 5)); q++) {
            if (q != 1) {
""" in code(program)
    for n_, m_ in ((0, 3), (1, 0), (3, 2), (7, 9)):
        against_reference(program, n=n_, m=m_)


def test_sliding_windows_and_short_inner_loops_keep_their_tests() -> None:
    x = atl.tensor("x", N)
    ends = atl.gen(N, lambda p: atl.sum(5, lambda r: atl.guard((p + r >= 2) & (p + r < N + 2), x[p + r - 2])))
    assert "for (int64_t r = 0; r < 5; r++)" in code(atl.program("f", [x], ends))
    double = atl.program("g", [x], atl.gen(N, lambda p: 2 * x[p]))
    assert "for (int64_t pi = 0; pi < 8; pi++)" in code(reschedule(double).tile("p", 8).goal)
    assert "pi < min_int64(n - 32 * po, 32); pi++)" in code(reschedule(double).tile("p", 32).goal)


def test_selection_by_an_outer_index_becomes_two_loops() -> None:
    x = atl.tensor("x", N, M)
    program = atl.program("f", [x], atl.gen(N, M, lambda p, q: atl.guard(p >= 1, x[p - 1, q]) + x[p, q]))
    text = code(program)
    inner = [line for line in text.splitlines() if line.startswith(" " * 16)]
    assert inner == [
        "                out[p * m + q] = x[(p - 1) * m + q] + x[p * m + q];",
        "                out[p * m + q] = x[p * m + q];",
    ]
    for n_, m_ in ((0, 3), (1, 2), (6, 5)):
        against_reference(program, n=n_, m=m_)


def test_that_may_divide_by_zero_stays_in_its_loop() -> None:
    out = output(n)
    divided = less(constant(0), n // k)
    of = nest("f", [], out, loop(vj, k, If(divided, (Assign(cell(out, j), Number(1, "float32")),))), sizes="n k")
    assert "for (int64_t j = 0; j < k; j++) {\n        if (" in body_of(of)
    # A division by zero would end the process.
    assert run(of, [], [2, 0], 2).shape == (2,)


def test_with_a_positive_divisor_is_unswitched() -> None:
    out = output(n)
    divided = less(constant(0), (k - 9) // 3)
    of = nest("f", [], out, loop(vj, n, If(divided, (Assign(cell(out, j), Number(1, "float32")),))), sizes="n k")
    assert body_of(of).index("if (") < body_of(of).index("for (")


def test_declaration_in_a_branch_does_not_reach_the_next_branch() -> None:
    out, first, second = output(n, n), Scalar(8, "s", "float32"), Scalar(9, "s", "float32")
    here = cell(out, i, j)
    low, high = (conjunction((less(i * i, k), part)) for part in (less(j, k), at_most(k, j)))
    branches = (
        If(low, (Declare(first, FromIndex(i, "float32")), Assign(here, Load(first)))),
        If(high, (Declare(second, FromIndex(j, "float32")), Assign(here, Load(second)))),
    )
    of = nest("f", [], out, loop(vi, n, loop(vj, n, *branches)), sizes="n k", complete=False)
    assert body_of(of).count("i * i < k") == 1
    assert run(of, [], [3, 2], 9).tolist() == [0, 0, 2, 1, 1, 2, 0, 0, 0]


def test_many_tests_in_a_loop_do_not_multiply_its_text() -> None:
    x = atl.tensor("x", N, M)
    program = atl.program(
        "f", [x], atl.gen(N, M, lambda p, q: sum((atl.guard(p >= c, x[p - c, q]) for c in range(1, 9)), x[p, q]))
    )
    assert code(program).count("for (") == 2
    against_reference(program, n=5, m=3)


def test_condition_is_not_tested_again_within_itself() -> None:
    x = atl.tensor("x", N, M)

    def element(p: atl.IndexExpr, q: atl.IndexExpr) -> atl.Tensor:
        return atl.guard(p + q < 7, atl.select(p + q < 7, x[p, q], 1) + atl.guard(p + q < 9, x[p, q]))

    text = code(atl.program("f", [x], atl.gen(N, M, element)))
    assert "q < min_int64(7 - p, m)" in text
    assert "if (" not in text
    assert "?" not in text[text.index("for (") :]


def test_repeated_sum_is_computed_once() -> None:
    x = atl.tensor("x", N, M)

    def of_row(p: atl.IndexExpr) -> atl.Tensor:
        return atl.sum(M, lambda q: x[p, q])

    program = atl.program("f", [x], atl.gen(N, lambda p: of_row(p) * of_row(p) + atl.guard(p < 3, of_row(p))))
    assert code(program).count("for (") == 2
    against_reference(program, n=5, m=4)


def test_only_sums_under_the_same_condition_are_shared() -> None:
    x, k_ = atl.tensor("x", N, M), atl.sizes("k")

    def of_row(p: atl.IndexExpr, most: Any) -> atl.Tensor:
        return atl.guard(p < most, atl.sum(M, lambda q: x[p, q]))

    once = atl.program("f", [x], atl.gen(N, lambda p: of_row(p, k_) + atl.sqrt(of_row(p, k_) * of_row(p, k_))))
    assert code(once).count("for (") == 2
    twice = atl.program("f", [x], atl.gen(N, lambda p: of_row(p, k_) + atl.sqrt(of_row(p, 2) * of_row(p, 2))))
    assert code(twice).count("for (") == 3
    for program in (once, twice):
        against_reference(program, n=5, m=4, k=3)


def panel(guarded: Any) -> atl.Program:
    """Return a program that reads each row from a panel of ten elements, some of them padding."""
    x = atl.tensor("x", N, M)
    body = atl.gen(N, lambda p: atl.let(guarded(x, p), lambda t: atl.sum(10, lambda q: t[q] * t[9 - q]), name="panel"))
    return atl.program("f", [x], body)


PANELS: dict[str, tuple[Any, bool]] = {
    "a read": (lambda x, p: atl.gen(10, lambda q: atl.guard(q < M, x[p, q])), False),
    "all of it": (lambda x, p: atl.guard(p >= 2, atl.gen(10, lambda q: atl.guard(q < M, x[p, q]))), False),
    "a sum": (lambda x, p: atl.gen(10, lambda q: atl.guard(q < M, atl.sum(N, lambda r: x[r, q]))), False),
    "a let": (
        lambda x, p: atl.gen(
            10, lambda q: atl.let(atl.sum(M, lambda r: x[p, r]), lambda s: atl.guard(q < M, s * x[p, q]))
        ),
        False,
    ),
    "a pad after": (lambda x, p: atl.padr(3, atl.gen(7, lambda q: atl.guard(q < M, x[p, q]))), False),
    "a pad before": (
        lambda x, p: atl.guard(p >= 2, atl.padl(3, atl.gen(7, lambda q: atl.guard(q < M, x[p, q])))),
        False,
    ),
    "side by side": (
        lambda x, p: atl.concat(
            atl.padr(1, atl.gen(2, lambda q: 1.0 + atl.value(p))), atl.gen(7, lambda q: atl.guard(q < M, x[p, q]))
        ),
        False,
    ),
    "a sum of panels": (lambda x, p: atl.sum(N, lambda r: atl.gen(10, lambda q: atl.guard(q < M, x[r, q]))), True),
    "cut off": (lambda x, p: atl.truncr(1, atl.gen(11, lambda q: atl.guard((q < 10) & (q < M), x[p, q]))), True),
}
"""Panels, and whether they have to be cleared."""


@pytest.mark.sampled
@pytest.mark.parametrize(("guarded", "cleared"), PANELS.values(), ids=PANELS)
def test_panel_is_cleared_only_where_no_zero_can_be_stored(guarded: Any, cleared: bool) -> None:
    program = panel(guarded)
    assert ("{0}" in code(program)) == cleared
    for n_, m_ in ((1, 1), (4, 5), (3, 12)):
        against_reference(program, n=n_, m=m_)


x2 = atl.tensor("x", N, M)
ROWS = {
    "a buffer": atl.let(
        atl.gen(N + 2, M, lambda p, q: atl.guard((p >= 1) & (p <= N), x2[p - 1, q] + 1)),
        lambda t: atl.gen(N, M, lambda p, q: t[p, q] + t[p + 1, q] + t[p + 2, q]),
        name="t",
    ),
    "the output": atl.gen(N + 2, M, lambda p, q: atl.guard((p >= 1) & (p <= N), x2[p - 1, q] + 1)),
    "guards around rows": atl.gen(N, lambda p: atl.guard(p < M, atl.gen(M, lambda q: x2[p, q]))),
    "guards in and around": atl.gen(
        N, lambda p: atl.guard(p < M, atl.gen(M, lambda q: atl.guard(p >= 1, atl.sum(M, lambda r: x2[p, r]))))
    ),
    "pads around": atl.padl(1, atl.padr(2, x2)),
    "pads within rows": atl.transpose(atl.gen(M, lambda q: atl.padl(2, atl.gen(N, lambda p: x2[p, q])))),
    "pads of rows": atl.gen(N, lambda p: atl.padr(N, atl.gen(M, lambda q: x2[p, q]))),
    "pieces": atl.concat(atl.gen(2, M, lambda p, q: atl.guard(p >= 2, x2[p, q])), x2),
}


@pytest.mark.sampled
@pytest.mark.parametrize("body", ROWS.values(), ids=ROWS)
def test_only_rows_that_are_all_padding_are_zeroed(body: Any) -> None:
    program = atl.program("f", [x2], body)
    assert "memset" not in code(program)
    assert "aligned_zeros" not in code(program)
    assert "= 0.0f;" in code(program)
    for n_, m_ in ((1, 1), (4, 5), (6, 3)):
        against_reference(program, n=n_, m=m_)


def test_without_registers_padding_is_cleared_first() -> None:
    for body in ROWS.values():
        assert "= 0.0f;" not in print_c(lower(atl.program("f", [x2], body), registers=False))


def test_padding_within_rows_is_cleared_with_the_rest() -> None:
    # Loops end where the padding begins; storing zeros there would need a test.
    triangle = atl.program("f", [x2], atl.gen(N, M, lambda p, q: atl.guard(q <= p, x2[p, q])))
    assert "memset" in code(triangle)
    against_reference(triangle, n=4, m=5)


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        (
            "    out[i] = i < n ? first_of_all[i * m + j] + 1.0f : i < m ? second_of_all[i * m + j] : third_of_all[i];",
            [
                "    out[i] = i < n ? first_of_all[i * m + j] + 1.0f",
                "            : i < m ? second_of_all[i * m + j]",
                "            : third_of_all[i];",
            ],
        ),
        (
            "total += x[i] + (1 <= i && i < rather_long ? some_long_array[i * m + j] : another_long_array[j]) + y[i];",
            [
                "total += x[i]",
                "        + (1 <= i && i < rather_long",
                "                ? some_long_array[i * m + j]",
                "                : another_long_array[j])",
                "        + y[i];",
            ],
        ),
        ("    a = b + c;", ["    a = b + c;"]),
        ("    " + "a" * 80, ["    " + "a" * 80]),
        (
            f"    for (int64_t {'i' * 60} = 0; {'i' * 60} < n; {'i' * 60}++) {{",
            [f"    for (int64_t {'i' * 60} = 0;", f"            {'i' * 60} < n;", f"            {'i' * 60}++) {{"],
        ),
    ],
    ids=["selection", "brackets", "short", "unbreakable", "loop head"],
)
def test_long_line_is_broken(line: str, lines: list[str]) -> None:
    assert wrapped(line, 60) == lines


@pytest.mark.parametrize(
    "text",
    [
        f"p (x : float32[n]) := gen[{'i' * 120} < n] 2 * x[{'i' * 120}]",
        f"p (x : float32[n]) := {' '.join(f'sum[row{at} < 2]' for at in range(26))} sum[i < n] x[i]",
    ],
    ids=["a name of many letters", "many loops"],
)
def test_loop_head_too_long_for_a_line_is_printed(text: str) -> None:
    printed = code(atl.parse(text))
    assert printed.count("for (int64_t") == text.count("[") - text.count("x[") - text.count("32[")


SEGMENTS = (
    "f (pos : int32[n + 1] in [0, k + 1), x : float64[k]) : float64[n] := ⊞[i < n] Σ[pos[i] <= p < pos[i + 1]] x[p]"
)
BETWEEN = """
g (pos : int32[n] in [0, k + 1), x : float64[k]) : float64[max(0, n - 1)] :=
  ⊞[i < max(0, n - 1)] Σ[pos[i] <= p < pos[i + 1]] x[p]
"""
NESTED = """
h (first : int32[n + 1] in [0, m + 1), pos : int32[m + 1] in [0, k + 1), x : float64[k]) : float64[n] :=
  ⊞[i < n] Σ[first[i] <= q < first[i + 1]] Σ[pos[q] <= p < pos[q + 1]] x[p]
"""
TWICE = """
t (pos : int32[n + 1] in [0, k + 1), x : float64[k]) : float64[n] :=
  ⊞[i < n] let s := Σ[pos[i] <= p < pos[i + 1]] x[p] in Σ[pos[i] <= p < pos[i + 1]] s * x[p]
"""


def test_end_of_a_segment_is_reused_as_the_next_beginning() -> None:
    text = code(atl.parse(SEGMENTS))
    assert "for (int64_t i = 0, p_end = i < n ? pos[i] : 0; i < n; i++)" in text
    assert text.count("pos[") == 2, "each element is read once"
    for two_loops in (NESTED, TWICE):
        text = code(atl.parse(two_loops))
        assert text.count("p_first") + text.count("q_first") == 4, "each of the two loops has its own beginning"


@pytest.mark.parametrize("ends", ["pos[2*i] <= p < pos[2*i + 1]", "pos[i] <= p < other[i + 1]", "3*i <= p < 3*i + 3"])
def test_segments_that_are_not_adjacent_reuse_no_ends(ends: str) -> None:
    of = "[2*n + 1] in [0, 3*n + 1)"
    assert "_end" not in code(
        atl.parse(f"f (pos : int32{of}, other : int32{of}, x : float64[3*n]) : float64[n] := ⊞[i < n] Σ[{ends}] x[p]")
    )


def test_parallel_segments_read_their_own_beginnings() -> None:
    assert "_end" not in code(reschedule(atl.parse(SEGMENTS)).mark("i", "parallel").goal)


def calls_with_segments() -> list[Call]:
    """Return calls of each program with random ends, sorted or not, including empty segments and no rows."""
    numbers = np.random.default_rng(7)
    calls = []
    for number in range(24):
        n, m, k = (int(size) for size in numbers.integers(0, 5, 3))
        x = numbers.integers(-4, 5, k).astype(np.float64)

        def ends(count: int, most: int, *, ascending: bool = number % 2 == 0) -> Any:
            drawn = numbers.integers(0, most + 1, count).astype(np.int32)
            return np.sort(drawn) if ascending else drawn

        of_rows, between = {"pos": ends(n + 1, k)}, {"pos": ends(n, k)}
        nested = {"first": ends(n + 1, m), "pos": ends(m + 1, k)}
        every = (of_rows, between, nested, of_rows)
        calls += [Call(which, {**arrays, "x": x}) for which, arrays in enumerate(every)]
    return calls


@needs_sanitizers
def test_segments_in_any_order_are_summed_without_stray_reads() -> None:
    programs = [atl.parse(text) for text in (SEGMENTS, BETWEEN, NESTED, TWICE)]
    calls = calls_with_segments()
    for call, found in zip(calls, Sanitized(programs).run(calls), strict=True):
        assert isinstance(found, np.ndarray), found
        np.testing.assert_array_equal(found, atl.evaluate(programs[call.which], **dict[str, Any](call.arguments)))


@pytest.mark.long
@pytest.mark.parametrize("where", ["", "[j <= i] · "])
def test_each_copy_of_a_loop_covers_the_whole_segment(where: str) -> None:
    """Unrolling a tile in registers copies the loop; a copy under a condition has its own block."""
    ends = np.array([0, 2, 2, 5, 3, 7], np.int32)
    tiles = atl.parse(f"""
        tiles (pos : int32[n + 1] in [0, k + 1), x : float64[k, 4], y : float64[2]) : float64[n, 2, 4] := ⊞[i < n]
          let t | registers := ⊞[j < 2] {where}Σ[pos[i] <= p < pos[i + 1]] ⊞[l < 4] x[p, l] * y[j] in 2 * t
    """)
    arrays: dict[str, Any] = {"pos": ends, "x": np.arange(28.0).reshape(7, 4), "y": np.array([1.0, 3.0])}
    kernel = lowering.compile(tiles)
    assert kernel.source.count("for (int64_t p") == 2
    assert np.array_equal(kernel(**arrays), atl.evaluate(tiles, **arrays))


@needs_sanitizers
def test_read_of_a_segment_without_rows_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    original = lowering.c.loops.with_segment_ends

    def always(scope: TextScope, loop: For, last: str) -> tuple[TextScope, str]:
        scope, text = original(scope, loop, last)
        return scope, text.replace(f"{scope.name(loop.variable)} < {last} ?", "1 ?")

    monkeypatch.setattr("lowering.c.loops.with_segment_ends", always)
    nothing = Call(0, {"pos": np.zeros(0, np.int32), "x": np.zeros(0)})
    (found,) = Sanitized([atl.parse(BETWEEN)]).run([nothing])
    assert isinstance(found, Report)


# -- reads of neighbours under a condition ----------------------------------------------------------------------------

NEIGHBOURS = {
    "reversed": "f (A : float64[n, 2]) := ⊞[i < n] ⊞[j < 2] [i % 4 = 1] · A[i, 1 - j]",
    "selected": "f (A : float64[n, 2]) := ⊞[i < n] ⊞[j < 2] select(i % 4 = 1, A[i, 1 - j], 1)",
    "in a vector loop": "f (A : float64[n, 2]) := ⊞[i < n | vector] ⊞[j < 2] [i % 4 = 1] · A[i, 1 - j]",
    "kept": "f (A : float64[n, 2]) := ⊞[i < n] let t := ⊞[j < 2] [i % 4 = 1] · A[i, 1 - j] in t",
    "in order": "f (A : float64[n, 2], B : float64[n, 2]) := "
    "⊞[i < n] ⊞[j < 2] B[i, j] + [2 <= (i + 1) // 2] · 3 * A[i, j]",
    "five": "f (A : float64[n, 2], B : float64[n, 2]) given 5 <= n := "
    "⊞[i < 5] ⊞[j < 2] B[i, j] + [2 <= (i + 1) // 2] · 3 * A[i, j]",
    "elements": "f (A : float32[n, 6], B : float32[n, 6], C : float64[n, 6], D : float64[n, 6]) := "
    "⊞[i < n] ⊞[j < 6] where(A[i, j] < B[i, j], C[i, j], D[i, j])",
    "indices": "f (A : int32[n, 2]) : float32[n, 2] := ⊞[i < n] ⊞[j < 2] [i % 4 = 1] · value(A[i, 1 - j])",
}


@pytest.mark.long
@pytest.mark.usefixtures("each_target")
@pytest.mark.parametrize("name", NEIGHBOURS)
def test_conditional_reads_of_neighbours_are_exact(name: str) -> None:
    program = atl.parse(NEIGHBOURS[name])
    draw = np.random.default_rng(3)
    width = {array.shape[1].constant or 0 for array in program.inputs}.pop()
    arrays: dict[str, Any] = {
        a.name: 100 + draw.permutation(11 * width).reshape(11, width).astype(a.dtype) for a in program.inputs
    }
    np.testing.assert_array_equal(lowering.compile(program)(**arrays), atl.evaluate(program, **arrays))


BRANCHES = [
    f"f{number} (A : {dtype}[n, 2], B : {dtype}[n, 2], K : int32[n, 2]) : {dtype}[{rows}, 2] given 8 <= n := "
    f"⊞[i < {rows}] ⊞[j < 2] select({condition}, {values})"
    for number, (condition, values, rows, dtype) in enumerate(
        product(
            ("2 <= (i + 1) // 2", "i % 4 = 1", "K[i, j] < 5"),
            ("A[i, j], B[i, j]", "3 * A[i, 1 - j] + B[i, j], B[i, j]", "A[i, 1 - j], B[i, j]", "A[i, j], 0"),
            ("5", "8", "n"),
            ("float32", "float64", "int32"),
        )
    )
]
"""Rows of two elements in two branches. Without the barrier, gcc 12.2 with AVX2 computes 82 of these 108 wrongly."""


@pytest.mark.long
@pytest.mark.usefixtures("each_target")
def test_branches_around_rows_of_two_are_exact() -> None:
    programs = list(map(atl.parse, BRANCHES))
    draw, wrong = np.random.default_rng(3), list[str]()
    for text, program, kernel in zip(BRANCHES, programs, compile_many(programs), strict=True):
        arrays: dict[str, Any] = {a.name: draw.integers(0, 10, (11, 2)).astype(a.dtype) for a in program.inputs}
        if not np.array_equal(kernel(**arrays), atl.evaluate(program, **arrays)):
            wrong.append(text)
    assert not wrong


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("⊞[i < n] [2*i + 1 < n ∧ i % 4 = 1] · (x[2*i] * x[2*i + 1])", True),
        ("⊞[i < n] [2*i + 1 < n ∧ i % 4 = 1] · (x[n - 2*i - 1] * x[n - 2*i - 2])", True),
        ("⊞[i < n // 2] where(x[2*i] < 1, x[2*i + 1], 1)", True),
        ("⊞[i < n] where(x[i] < 1, x[i], 1)", False),
        ("⊞[i < n] [3*i + 1 < n ∧ K[3*i] = K[3*i + 1]] · x[i]", True),
        ("⊞[i < n] ⊞[j < 16] [16*i + j < n] · x[16*i + j]", True),
        ("⊞[i < n] ⊞[j < 17 | unroll] [17*i + j < n] · x[17*i + j]", True),
        ("⊞[i < n] ⊞[j < 17] [17*i + j < n] · x[17*i + j]", False),
        ("⊞[i < n] ⊞[j < n] [2*i + 1 < n ∧ j < i] · (x[2*i] * x[2*i + 1])", False),
        ("⊞[i < n] [2*i < n ∧ i % 4 = 1] · (x[2*i] * x[2*i])", False),
        ("⊞[i < n] [i + 1 < n] · (x[i] * x[i + 1])", False),
        ("⊞[i < n] [i + 1 < n] · (x[n - 1 - i] * x[n - 2 - i])", False),
        ("⊞[i < n // 2] x[2*i] * x[2*i + 1]", False),
        ("⊞[i < n // 2] ⊞[j < 2] select(j // 2 = 0, x[2*i], x[2*i + 1])", False),
    ],
)
def test_only_loops_that_read_neighbours_under_a_condition_are_not_vectorised(body: str, expected: bool) -> None:
    text = print_c(lower(atl.parse(f"f (x : float32[n], K : int32[n]) := {body}")))
    assert text.count(NOT_VECTORISED) == expected
