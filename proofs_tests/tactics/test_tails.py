"""`tails`: innermost loops without conditions, and the same values."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import atl
from atl import IndexExpr, Program, Tensor
from lowering import compile as compiled
from lowering import lower, print_c
from lowering.c_compiler import find_compiler
from lowering.lower import lower_unchecked
from proofs_tests.compilers import has_vectorised_loop
from proofs_tests.sessions.session_programs import assert_agrees, matmul
from rewrites import Session, reschedule
from rewrites.tactics.nests.tails import Strategy

n, m, k = atl.sizes("n m k")
C = atl.sizes("C", min=1)
f = atl.tensor("f", n)
z = atl.tensor("z", n, m)
cube = atl.tensor("cube", n, m, k)
square = atl.tensor("square", n, n)
taps = atl.tensor("taps", 5)
SIZES = [
    {"n": a, "m": b, "k": c, "C": 3}
    for a, b, c in ((0, 0, 0), (0, 3, 2), (1, 1, 1), (2, 3, 5), (5, 1, 2), (7, 11, 4), (8, 8, 8))
]


def elementwise() -> Program:
    return atl.program("doubled", [z], atl.gen(n, m, lambda i, j: 2 * z[i, j]))


def five_points() -> Program:
    def five(i: IndexExpr, j: IndexExpr) -> Tensor:
        rows = atl.guard(i >= 1, z[i - 1, j]) + atl.guard(i + 1 < n, z[i + 1, j])
        return rows + atl.guard(j >= 1, z[i, j - 1]) + atl.guard(j + 1 < m, z[i, j + 1]) + z[i, j]

    return atl.program("five", [z], atl.gen(n, m, five))


def differences() -> Program:
    """Return a three-dimensional stencil with a border on one side."""

    def element(i: IndexExpr, j: IndexExpr, p: IndexExpr) -> Tensor:
        before = atl.guard(i >= 1, cube[i - 1, j, p]) - atl.guard(j >= 1, cube[i, j - 1, p])
        return cube[i, j, p] - before + atl.guard(p + 1 < k, cube[i, j, p + 1])

    return atl.program("differences", [cube], atl.gen(n, m, k, element))


def gaussian() -> Program:
    """Return a separable five-tap filter with zero borders, rows first."""

    def along_rows(i: IndexExpr, j: IndexExpr) -> Tensor:
        return atl.sum(5, lambda d: atl.guard((j + d >= 2) & (j + d - 2 < m), taps[d] * z[i, j + d - 2]))

    def along_columns(rows: Tensor) -> Tensor:
        return atl.gen(n, m, lambda i, j: atl.sum(
            5, lambda d: atl.guard((i + d >= 2) & (i + d - 2 < n), taps[d] * rows[i + d - 2, j])))  # fmt: skip

    return atl.program("gaussian", [taps, z], atl.let(atl.gen(n, m, along_rows), along_columns, name="rows"))


def triangular() -> Program:
    """Return the square of a lower triangular matrix."""
    return atl.program("triangular", [square], atl.gen(n, n, lambda i, j: atl.sum(
        n, lambda p: atl.guard((p <= i) & (j <= p), square[i, p] * square[p, j]))))  # fmt: skip


def selected() -> Program:
    """Return a stencil with a selection at the border."""
    return atl.program("selected", [f], atl.gen(n, lambda i: atl.select(i == 0, f[i], f[i - 1])))


def packed(s: Session) -> Session:
    s.tile(["i", "j", "p"], [2, 3, 4]).stage("Σ[po < _] _", at="jo", name="acc")
    return s.stage("A", at="po", name="At").stage("B", at="po", name="Bt")


NESTS: dict[str, tuple[Callable[[], Program], Callable[[Session], Session]]] = {
    "element by element": (elementwise, lambda s: s.tile(["i", "j"], [3, 4])),
    "a tile of a size": (elementwise, lambda s: s.tile(["i", "j"], C)),
    "a product": (matmul, lambda s: s.tile(["i", "j", "p"], [2, 3, 4])),
    "a product, packed": (matmul, packed),
    "a product, tiles within outside": (matmul, lambda s: s.tile("p", 4).interchange("po").interchange("j")),
    "a stencil": (five_points, lambda s: s),
    "a stencil in tiles": (five_points, lambda s: s.tile(["i", "j"], [3, 4])),
    "three dimensions": (differences, lambda s: s.tile("i", 2)),
    "two stages, by strips": (gaussian, lambda s: s.tile("⊞[i < n] ⊞[j < m] Σ[d < _] [_] · _ * rows[_, _]", 4).stage(
        "rows", at="io")),
    "two stages, both in full": (gaussian, lambda s: s.tile("j", 4)),
    "a triangle": (triangular, lambda s: s.tile(["i", "j"], 3)),
    "a triangle in three": (triangular, lambda s: s.tile(["i", "j", "p"], [2, 3, 4])),
    "a selection": (selected, lambda s: s.tile("i", 3)),
}  # fmt: skip


def conditions_within(source: str) -> list[str]:
    """Return the lines with a condition in innermost loops."""
    lines = source.split("\n")
    depth = [len(line) - len(line.lstrip()) for line in lines]
    found = []
    for start, line in enumerate(lines):
        if line.lstrip().startswith("for ("):
            end = next(at for at in range(start + 1, len(lines)) if lines[at].strip() and depth[at] <= depth[start])
            body = lines[start + 1 : end]
            if not any("for (" in inner for inner in body):
                found += [inner for inner in body if "if (" in inner or "?" in inner]
    return found


@pytest.mark.long
@pytest.mark.thinned(13)
@pytest.mark.parametrize("strategy", ["min", "split"])
@pytest.mark.parametrize("name", NESTS)
def test_innermost_loops_have_no_conditions(name: str, strategy: Strategy) -> None:
    make, scheduled = NESTS[name]
    program = make()
    session = scheduled(reschedule(program, given=[C >= 1] if name == "a tile of a size" else []))
    assert conditions_within(print_c(lower_unchecked(session.goal)))
    session.tails(strategy=strategy)
    assert conditions_within(print_c(lower(session.goal))) == []
    assert_agrees(session, SIZES)


@pytest.mark.long
def test_full_tiles_run_a_constant_number_of_times() -> None:
    source = compiled(reschedule(matmul()).tile(["i", "j", "p"], [2, 3, 4]).tails(strategy="split").goal).source
    first = source[source.index("for (") :].split("}")[0]
    assert [line.split("; ")[1] for line in first.split("\n") if "for (" in line] == [
        "io < n / 2", "jo < m / 3", "po < k / 4", "ii < 2", "ji < 3", "pi < 4",
    ]  # fmt: skip


def cross(reach: int) -> Program:
    """Return a window of 2 * reach + 1 taps in both directions, with zero borders, written out."""

    def element(i: IndexExpr, j: IndexExpr) -> Tensor:
        total = z[i, j]
        for d in (*range(-reach, 0), *range(1, reach + 1)):
            total = total + atl.guard((i + d >= 0) & (i + d < n), z[i + d, j])
            total = total + atl.guard((j + d >= 0) & (j + d < m), z[i, j + d])
        return total

    return atl.program("cross", [z], atl.gen(n, m, element))


@pytest.mark.long
@pytest.mark.parametrize("reach", [2, 3])
def test_wide_windows_make_three_pieces_of_a_loop(reach: int) -> None:
    s = reschedule(cross(reach)).tails()
    for side in ("first", "last"):
        assert f"-- the {side} iterations of i keep their conditions" in str(s)
    assert str(s.goal).count("⊞[j <") + str(s.goal).count("<= j <") == 9
    interior = str(s.goal).split("⊞[min(n, ")[1].split("⊞[min(m, ")[1].split("++")[0]
    assert interior.count("z[") == 4 * reach + 1
    assert "·" not in interior
    assert_agrees(s, SIZES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # The conditions of three parts at unknown distances are all removed.
        ("⊞[i < n] ([i < m] · c[i]) + ([m <= i ∧ i < k] · c[i] * 2) + ([k <= i] · c[i] * 3)", 3),
        # Four conditions at a place inside the loop: a strip of three iterations.
        ("⊞[i < n] ([i < m] · c[i]) + ([i < m + 1] · c[i]) + ([i < m + 2] · c[i]) + ([i < m + 3] · c[i])", 3),
        # A loop of constant extent is split at the largest distance.
        ("⊞[i < 12] ([1 <= i] · c[0]) + ([2 <= i] · c[1]) + ([3 <= i] · c[2]) + ([i < 10] · c[3])", 3),
    ],
)
def test_near_conditions_form_strips(text: str, expected: int) -> None:
    extent = text.split("< ")[1].split("]", maxsplit=1)[0]
    program = atl.parse(
        f"parts (c : float32[n], m : size, k : size) : float32[{extent}] given m <= k ∧ k <= n ∧ 4 <= n := {text}"
    )
    s = reschedule(program).tails()
    assert str(s.goal).count("⊞[") == expected
    for at, (total, first, second) in enumerate([(4, 0, 4), (5, 2, 3), (12, 4, 9), (40, 7, 31)]):
        values = np.random.default_rng(at).integers(-9, 9, total).astype("float32")
        given: dict[str, Any] = {"c": values, "m": first, "k": second}
        np.testing.assert_array_equal(compiled(s.goal)(**given), atl.evaluate(program, **given))


# -- clamped borders --------------------------------------------------------------------------------------------------


def clamped(i: IndexExpr, extent: IndexExpr) -> IndexExpr:
    return atl.imin(atl.imax(i, 0), extent - 1)


def box() -> Program:
    """Return a box filter of 3 x 3 taps with clamped borders."""
    return atl.program("box", [z], atl.gen(n, m, lambda i, j: atl.sum(3, 3, lambda a, b: z[
        clamped(i + a - 1, n), clamped(j + b - 1, m)])))  # fmt: skip


def box_written_out() -> Program:
    def element(i: IndexExpr, j: IndexExpr) -> Tensor:
        first, *others = (z[clamped(i + a, n), clamped(j + b, m)] for a in (-1, 0, 1) for b in (-1, 0, 1))
        for other in others:
            first = first + other
        return first

    return atl.program("box", [z], atl.gen(n, m, element))


CLAMPED: dict[str, tuple[Callable[[], Program], Callable[[Session], Session], str]] = {
    "a window": (box, lambda s: s.tails(), "Σ[b < 3] z[min(n - 1, max(0, i + a - 1)), j + b - 1]"),
    "written out": (box_written_out, lambda s: s.tails(), "z[i, j - 1] + z[i, j] + z[i, j + 1]"),
    "split": (box_written_out, lambda s: s.tails(strategy="split"), "z[i, j - 1] + z[i, j] + z[i, j + 1]"),
    "in tiles": (
        box, lambda s: s.tile(["i", "j"], [4, 8]).tails(),
        "Σ[a < 3] Σ[b < 3] z[min(n - 1, max(0, 4*io + ii + a - 1)), 8*jo + ji + b - 1]",
    ),
    "in tiles, split": (
        box, lambda s: s.tile(["i", "j"], [4, 8]).tails(strategy="split"),
        "⊞[ji < 8] Σ[a < 3] Σ[b < 3] z[min(n - 1, max(0, 4*io + ii + a - 1)), 8*jo + ji + b - 1]",
    ),
    "columns only, as vectors": (
        box, lambda s: s.vectorize("j", 8, tails="split"), "z[min(n - 1, max(0, i + a - 1)), 8*jo + ji + b - 1]",
    ),
    "a window of any length": (
        lambda: atl.program("mean", [f, z], atl.gen(n, lambda i: atl.sum(m, lambda d: f[clamped(i + d - 2, n)]))),
        lambda s: s.tails(), "f[i + d - 2]",
    ),
    "a limit inside": (
        lambda: atl.program("low", [f], atl.gen(n, lambda i: f[atl.imin(i, k)] * 2), given=[k < n]),
        lambda s: s.tails(), "(⊞[i < k + 1] f[i] * 2) ++ ⊞[k + 1 <= i < n] f[k] * 2",
    ),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("name", CLAMPED)
def test_interior_reads_columns_without_clamps(name: str) -> None:
    make, scheduled, expected = CLAMPED[name]
    s = scheduled(reschedule(make()))
    assert expected in " ".join(str(s.goal).split())
    assert_agrees(s, [each for each in SIZES if name != "a limit inside" or each["k"] < each["n"]])


@pytest.mark.usefixtures("each_compiler")
def test_interior_of_clamped_filter_is_vectorised() -> None:
    source = compiled(reschedule(box_written_out()).tails().goal).source
    bodies = [loop.partition("{")[2].partition("}")[0] for loop in source.split("for (")[1:]]
    (interior,) = (body for body in bodies if "z[i * m + j - 1]" in body and "z[i * m + j + 1]" in body)
    assert interior.count("z[") == 9
    assert not re.search(r"(min|max)_int64\([^()]*\bj\b", interior)
    assert has_vectorised_loop(source, find_compiler())


def test_rows_are_not_split_at_clamps() -> None:
    assert str(reschedule(box_written_out()).tails().goal).count("⊞[i <") == 1


@pytest.mark.long
@pytest.mark.sampled
def test_last_rows_read_interior_columns_without_clamps() -> None:
    """The last tile of rows has another number of rows, and the same columns without clamps."""
    s = reschedule(box_written_out()).tile("i", 4).tails(strategy="split")
    full, last = str(s.goal).split(" ++ ⊞[n // 4 <= io")
    assert full.count(" j - 1]") == last.count(" j - 1]") == 3
    assert_agrees(s, SIZES)


def test_guards_leave_independent_loops() -> None:
    rows = atl.program("rows", [z], atl.gen(n, m, lambda i, j: z[i, j] * atl.guard(i < 4, 2.0)))
    assert str(reschedule(rows).tails().goal).endswith("padr (n - min(n, 4)) ⊞[i < min(n, 4)] ⊞[j < m] z[i, j] * 2.0")


def test_tails_apply_to_the_named_loop() -> None:
    s = reschedule(matmul()).tile("i", 4).tile("p", 4).tails("po")
    assert "Σ[pi < min(k - 4*po, 4)]" in str(s.goal)
    assert "⊞[ii < 4]" in str(s.goal)
    assert_agrees(s, SIZES)


def test_peeled_loops_keep_names_and_marks() -> None:
    s = reschedule(matmul()).tile(["i", "j"], 4).mark("io", "parallel").mark("ji", "vector").tails(strategy="split")
    assert str(s.goal).count("| parallel]") == 2
    assert str(s.goal).count("| vector]") == 3
    assert "io1" not in str(s.goal)


def test_guarded_terms_of_a_maximum_are_kept() -> None:
    """A guarded term counts as zero in a maximum, so its guard does not bound the loop."""
    top = atl.program("top", [z], atl.gen(n, lambda i: atl.reduce("max", m, lambda j: z[i, j] + atl.guard(
        j >= 1, z[i, j - 1]))))  # fmt: skip
    s = reschedule(top, given=[m >= 3]).tails()
    values = -1 - np.arange(12, dtype="float32").reshape(4, 3)
    np.testing.assert_array_equal(compiled(s.goal)(z=values), atl.evaluate(top, z=values))


def test_clamped_cut_is_made_once() -> None:
    """Written with the ends of each piece, the same cut looked new, and was repeated forever."""
    shift = atl.parse(
        "shift (c : float32[m], n : size) : float32[n] := "
        "⊞[i < n] Σ[j < m] min(([i = j + 2] · 1.0) * c[j], ([i = j + 2] · 1.0) * c[j])"
    )
    s = reschedule(shift).tails("j", strategy="min")
    assert str(s.goal).count("Σ[") == 3
    values = np.arange(1, 6, dtype="float32")
    for count in (0, 1, 3, 7, 9):
        np.testing.assert_array_equal(atl.evaluate(s.goal, c=values, n=count), atl.evaluate(shift, c=values, n=count))
