"""Staging: separate buffers for distinct reads, one for equal reads, of minimal size."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import atl
from atl.errors import InvalidArgument
from lowering import lower
from lowering.nest.loopnest import Allocate, statements
from proofs_tests.sessions.session_programs import A, assert_agrees, body, f, k, m, matmul, n, pipeline
from proofs_tests.tactics.test_packing import gram, transposed
from proofs_tests.tactics.test_tiling import z
from rewrites import DoesNotApply, Session, reschedule

D = atl.tensor("D", m, k)
T = atl.sizes("T")
g = atl.tensor("g", n)


def stencil() -> atl.Program:
    return atl.program("stencil", [f], atl.gen(n, lambda i: atl.guard((i >= 1) & (i + 1 < n), f[i - 1] + f[i + 1])))


def of_let(value: atl.Tensor) -> atl.Program:
    """Return each element of a let twice, by rows or by elements."""
    if len(value.shape) == 1:
        return atl.program("p", [A, f], atl.let(value, lambda t: atl.gen(value.shape[0], lambda a: t[a] * 2), name="t"))
    rows, columns = value.shape
    return atl.program(
        "p", [A, f], atl.let(value, lambda t: atl.gen(rows, columns, lambda a, b: t[a, b] * 2), name="t")
    )


def triangle() -> atl.Program:
    return atl.program(
        "triangle", [A, g], atl.gen(n, lambda i: atl.sum(n, lambda q: atl.guard((q <= i) & (q < k), A[i, q] * g[q])))
    )


def shifted() -> atl.Program:
    """Return reads of f that are in range only by a condition on another loop."""
    return atl.program(
        "shifted", [f, A], atl.gen(n, lambda i: atl.sum(k, lambda q: atl.guard(q + i < n, f[q] * A[i, q])))
    )


def variance() -> atl.Program:
    return atl.program("variance", [A], atl.gen(n, lambda i: atl.sum(k, lambda p: A[i, p] * A[i, p])))


def two_sums() -> atl.Program:
    return atl.program("two_sums", [A], atl.gen(
        n, lambda i: atl.sum(k, lambda p: 2 * A[i, p]) * atl.sum(k, lambda q: 2 * A[i, q] + 1)))  # fmt: skip


STAGED: dict[str, tuple[Callable[[], Session], str]] = {
    "rows i and rows j of a matrix": (
        lambda: reschedule(gram()).tile(["i", "j"], [4, 8]).stage("A", at="jo", name="panel"),
        ("let panel := ⊞[i < 4] ⊞[j < k] [4*io + i < n] · A[4*io + i, j] in "
        "let panel1 := ⊞[i < 8] ⊞[j < k] [8*jo + i < n] · A[8*jo + i, j] in"),
    ),
    "the same by a pattern": (
        lambda: reschedule(gram()).tile(["i", "j"], [4, 8]).stage("A[_, _]", at="jo", name="panel"),
        "· Σ[p < k] panel[ii, p] * panel1[ji, p]",
    ),
    "the second of two reads": (
        lambda: reschedule(gram()).tile(["i", "j"], [4, 8]).stage("A[_, _]", at="jo", name="panel", nth=1),
        "· Σ[p < k] A[4*io + ii, p] * panel[ji, p]",
    ),
    "reads at a constant distance": (
        lambda: reschedule(stencil()).tile("i", 4).stage("f", at="io", name="part"),
        ("let part := ⊞[i < 6] [1 <= 4*io + i <= n] · f[4*io + i - 1] in ⊞[ii < 4] [4*io + ii < n] · "
        "[1 <= 4*io + ii ∧ 4*io + ii + 1 < n] · (part[ii] + part[ii + 2])"),
    ),
    "a read within another one": (
        lambda: reschedule(atl.program("p", [A], atl.gen(n, lambda i: atl.sum(
            k, lambda p: A[i, p] * A[i, 0])), given=[k >= 1])).stage("A", at="i", name="row"),
        "⊞[i < n] let row := ⊞[i1 < 1] ⊞[j < k] A[i, j] in Σ[p < k] row[0, p] * row[0, 0]",
    ),
    "reads of which one goes on where the other ends": (
        lambda: reschedule(matmul()).split_loop("p", "k // 4 * 4").stage("A", at="i", name="row"),
        "⊞[i < n] let row := ⊞[i1 < 1] ⊞[j < k] A[i, j] in ⊞[j < m] (Σ[p < 4*(k // 4)] row[0, p] * B[p, j])",
    ),
    "rows and columns that cross": (
        lambda: reschedule(atl.program("p", [z], atl.gen(n, n, lambda i, j: atl.sum(
            n, lambda p: z[i, p] * z[p, j])))).tile(["i", "j"], [4, 8]).stage("z", at="jo", name="part"),
        ("let part := ⊞[i < 4] ⊞[j < n] [4*io + i < n] · z[4*io + i, j] in "
        "let part1 := ⊞[i < n] ⊞[j < 8] [8*jo + j < n] · z[i, 8*jo + j] in"),
    ),
    "a transposed let, in its own order": (
        lambda: reschedule(transposed()).tile(["i", "j"], [4, 8]).stage("Dt", at="jo"),
        "let Dt := ⊞[i < k] ⊞[j < 8] [8*jo + j < m] · D[8*jo + j, i] in",
    ),
    "a let that is split": (
        lambda: reschedule(of_let(atl.split(4, f))).tile("a", 8).stage("t", at="ao"),
        "let t := ⊞[i < 8] ⊞[j < 4] [32*ao + 4*i + j < n] · f[32*ao + 4*i + j] in",
    ),
    "a let that is flattened": (
        lambda: reschedule(of_let(atl.flatten(A))).tile("a", 8).stage("t", at="ao"),
        "let t := ⊞[i < 8] [8*ao + i < k*n] · A[(8*ao + i) // k, (8*ao + i) % k] in",
    ),
    "a let that is padded": (
        lambda: reschedule(of_let(atl.padr(3, f))).tile("a", 8).stage("t", at="ao"),
        "let t := ⊞[i < 8] [8*ao + i < n] · f[8*ao + i] in",
    ),
    "a let that is a sum of rows": (
        lambda: reschedule(of_let(atl.sum(n, lambda c: 2 * A[c]))).tile("a", 8).stage("t", at="ao"),
        "let t := ⊞[i < 8] [8*ao + i < k] · Σ[c < n] 2 * A[c, 8*ao + i] in",
    ),
    "a read that a guard ties to another loop": (
        lambda: reschedule(triangle()).tile("i", 8).stage("g[_]", at="io", name="part"),
        ("let part := ⊞[q < n] [q < k] · g[q] in ⊞[ii < 8] [8*io + ii < n] · Σ[q < n] [q <= 8*io + ii ∧ q < k] · "
        "A[8*io + ii, q] * part[q]"),
    ),
    "a read that is within its tensor only by such a guard": (
        lambda: reschedule(shifted()).stage("f[_]", name="part"),
        "let part := ⊞[q < k] [q < n] · f[q] in ⊞[i < n] Σ[q < k] [i + q < n] · part[q] * A[i, q]",
    ),
    "equal subterms": (
        lambda: reschedule(variance()).stage("A[_, _]", at="i", name="row"),
        "⊞[i < n] let row := ⊞[p < k] A[i, p] in Σ[p < k] row[p] * row[p]",
    ),
    "the second of equal subterms": (
        lambda: reschedule(variance()).stage("A[_, _]", at="i", name="row", nth=1),
        "⊞[i < n] let row := ⊞[p < k] A[i, p] in Σ[p < k] A[i, p] * row[p]",
    ),
    "equal subterms of two loops": (
        lambda: reschedule(two_sums()).stage("2 * _", at="i", name="twice"),
        "⊞[i < n] let twice := ⊞[p < k] 2 * A[i, p] in (Σ[p < k] twice[p]) * Σ[q < k] twice[q] + 1",
    ),
    "one of equal subterms of two loops": (
        lambda: reschedule(two_sums()).stage("2 * _", at="i", name="twice", nth=1),
        "⊞[i < n] let twice := ⊞[q < k] 2 * A[i, q] in (Σ[p < k] 2 * A[i, p]) * Σ[q < k] twice[q] + 1",
    ),
    "a guarded element of tiles": (
        lambda: reschedule(atl.program("p", [f], atl.gen(n, lambda i: 2 * f[i]))).tile("i", 8).stage(
            "[_] · _", at="io", name="part"),
        "let part := ⊞[ii < 8] [8*io + ii < n] · 2 * f[8*io + ii] in ⊞[ii < 8] [8*io + ii < n] · part[ii]",
    ),
    "bound, all equal ones": (
        lambda: reschedule(variance()).lbind("A[_, _]", "a"),
        "⊞[i < n] Σ[p < k] let a := A[i, p] in a * a",
    ),
    "bound, the second one": (
        lambda: reschedule(variance()).lbind("A[_, _]", "a", nth=1),
        "⊞[i < n] Σ[p < k] A[i, p] * let a := A[i, p] in a",
    ),
    "bound below the guard that keeps it safe": (
        lambda: reschedule(atl.program("p", [f], atl.gen(n, lambda i: atl.guard(i >= 1, f[i - 1] * 2)
            + atl.guard(i >= 1, f[i - 1])))).lbind("f[_]", "a"),
        "⊞[i < n] [1 <= i] · (let a := f[i - 1] in a) * 2 + [1 <= i] · f[i - 1]",
    ),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("name", STAGED)
def test_buffer_holds_reads_and_serves_equal_ones(name: str) -> None:
    make, expected = STAGED[name]
    s = make()
    assert expected in body(s)
    assert_agrees(s)


def test_panel_buffers_are_smaller_than_the_matrix() -> None:
    s = reschedule(gram()).tile(["i", "j"], [4, 8]).stage("A", at="jo", name="panel")
    buffers = [at.buffer for at in statements(lower(s.goal).body) if isinstance(at, Allocate)]
    assert {str(buffer.extents[0]) for buffer in buffers} == {"4", "8"}


def test_growing_buffer_is_reported() -> None:
    s = reschedule(matmul()).tile(["i", "j"], 4).stage("A", at="jo", name="At")
    note = "At holds 4 x k elements: it grows with k"
    assert str(s.steps).endswith(f"; {note}")
    assert str(s.explain()).endswith(f"\nnote: {note}")
    assert repr(s).endswith(f"\n-- {note}")
    assert note in s._repr_html_()
    assert note not in str(s.goal)
    assert repr(s.stage("B[_, _]", at="ji", name="Bt")).endswith("\n-- Bt holds k elements: it grows with k")
    assert "grows" not in repr(s.undo(2).tile("p", 8).stage("A", at="po", name="At"))


def test_tile_sizes_do_not_count_as_growth() -> None:
    s = reschedule(pipeline(), given=[T >= 1]).tile("⊞[_ < _] _ + _", T).stage("buf", at="io")
    assert "let buf := ⊞[i < T + 1]" in body(s)
    assert "grows" not in repr(s)
    s.hoist("buf", out_of="io")
    assert "grows with n" in repr(s)


def test_abandoned_attempts_leave_no_note() -> None:
    work = reschedule(matmul()).begin()

    def tried(number: int) -> None:
        work.notes.append(f"note {number}")
        if number < 2:
            raise DoesNotApply("not here")

    work.try_each([1, 2], tried)
    assert work.notes == ["note 2"]


def test_filling_loops_inherit_marks_of_copying_loops() -> None:
    s = reschedule(matmul()).tile(["i", "j"], [4, 8]).mark("ii", "unroll").mark("ji", "vector")
    s.stage("Σ[p < _] _", at="jo", name="acc")
    filled, copied = body(s).split(" in ", 1)
    for loop in ("⊞[ii < 4 | unroll]", "⊞[ji < 8 | vector]"):
        assert loop in filled
        assert loop in copied


def test_copying_loops_do_not_inherit_computing_marks() -> None:
    s = reschedule(matmul()).mark("p", "vector").stage("A[_, _]", at="i", name="row")
    assert body(s) == "⊞[i < n] let row := ⊞[p < k] A[i, p] in ⊞[j < m] Σ[p < k | vector] row[p] * B[p, j]"


def test_partial_let_keeps_loop_marks() -> None:
    s = reschedule(pipeline()).mark("⊞[i < n] f[_]", "vector").tile("⊞[_ < _] _ + _", 8).stage("buf", at="io")
    assert "let buf := ⊞[i < 9 | vector]" in body(s)


def test_selected_place_is_checked() -> None:
    with pytest.raises(DoesNotApply, match=r"A\[_, _\] selects 2 places; nth=2 is out of range"):
        reschedule(gram()).stage("A[_, _]", at="j", nth=2)
    with pytest.raises(DoesNotApply, match="selects 1 place; nth=1 is out of range"):
        reschedule(matmul()).lbind("A[_, _]", "a", nth=1)
    with pytest.raises(DoesNotApply, match="has no effect for the let buf, whose reads are staged together"):
        reschedule(pipeline()).tile("⊞[_ < _] _ + _", 8).stage("buf", at="io", nth=0)
    for wrong in (-1, True, "first"):
        with pytest.raises(InvalidArgument, match="nth="):
            reschedule(gram()).stage("A[_, _]", at="j", nth=wrong)  # type: ignore[arg-type]


def test_fully_read_dimension_is_computed_unchanged() -> None:
    """Element by element, the layer would read the weights by columns."""
    n, m, k = atl.sizes("n m k")
    a, b = atl.tensor("a", n, k), atl.tensor("b", k, m)
    rows = atl.gen(n, lambda i: atl.sum(k, lambda p: a[i, p] * b[p]))
    s = reschedule(
        atl.program("layers", [a, b], atl.let(rows, lambda row: atl.gen(n, lambda i: 2 * row[i]), name="row"))
    )
    s.tile("⊞[i < n] ⊞[_ < m] 2 * _", 8).stage("row", at="io")
    assert "Σ[p < k] ⊞[i1 < m]" in str(s)
    shifted = atl.let(rows, lambda row: atl.gen(n, m, lambda i, j: atl.guard(j >= 1, row[i, j - 1])), name="row")
    s = reschedule(atl.program("shifted", [a, b], shifted)).tile("⊞[i < n] ⊞[j < m] [_] · _", 8).stage("row", at="io")
    assert "Σ[p < k] a[8*io + i, p] * b[p, " in str(s)


def staircase(element: str) -> Session:
    return reschedule(atl.parse(f"f (x : float32[8*n]) : float32[n] := gen[io < n] sum[jo < io] sum[ji < 8] {element}"))


def test_triangle_invariant_is_kept_for_the_whole_range() -> None:
    s = staircase("x[8*jo + ji]").stage("Σ[ji < 8] _", name="block")
    assert body(s) == ("let block := ⊞[jo < max(0, n - 1)] Σ[ji < 8] x[8*jo + ji] in ⊞[io < n] Σ[jo < io] block[jo]")
    assert s.check()
    assert_agrees(s)


def test_ragged_buffer_is_refused_with_a_working_call() -> None:
    s = staircase("x[8*jo + ji] * x[io]")
    with pytest.raises(DoesNotApply) as caught:
        s.stage("Σ[ji < 8] _", name="block")
    output = str(caught.value)
    assert "the range of the loop jo depends on io" in output
    assert "⊞[io < n] Σ[jo < io] Σ[ji < 8] x[8*jo + ji] * x[io]" in output
    assert "try: stage it in each iteration of io: at='io', in s.stage or s.pack" in output
    assert_agrees(s.stage("Σ[ji < 8] _", at="io", name="block"))
