"""Parallel, vector and unrolled loops, and unroll-and-jam."""

from __future__ import annotations

from typing import Any

from atl.core.marks import LoopMark
from atl.core.terms import Gen, Guard, Place, Reduce, Reshape
from atl.core.traversal import Path
from atl.text.printing import place_of
from rewrites.cursors.cursor import Cursor
from rewrites.cursors.targets import restrict
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply
from rewrites.tactics import arg
from rewrites.tactics.indices import simplify_indices
from rewrites.tactics.loops import as_bound, first_possible, unroll_fully
from rewrites.tactics.nests.interchange import interchange_at
from rewrites.tactics.nests.tails import Strategy, checked_strategy, extent_of, tails_below
from rewrites.tactics.nests.tiling import nested_loops, tile_loop
from rewrites.tactics.simplification import simplify_guards
from rewrites.tactics.storage.staging import stage_below
from rewrites.tactics.tactic import tactic

# -- loop marks -------------------------------------------------------------------------------------------------------


@tactic
def parallelize(work: Derivation, name: arg.Loop, by: arg.Factor = None, *, in_: arg.Inside = None) -> None:
    """Run the iterations of a loop in parallel, one by one or in chunks of `by`.

    ⊞[i < n] e(i)  →  truncr _ flatten ⊞[io < ⌈n/k⌉ | parallel] ⊞[ii < k] [io*k + ii < n] · e(io*k + ii)

    Lowering proves the absence of data races. The tactic fails for a sum of tensors, whose iterations all add to the
    same cells, and inside or around another parallel loop. With `by`, the marks `vector` and `unroll` move to the loop
    within a tile; without, a loop with another mark is refused.

    >>> s = reschedule(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i]"))
    >>> s.parallelize("i", 1024)
    f (x : float32[n]) : float32[n] :=
      truncr (1024*⌈n / 1024⌉ - n) flatten ⊞[io < ⌈n / 1024⌉ | parallel] ⊞[ii < 1024] [1024*io + ii < n] ·
      2 * x[1024*io + ii]
    """
    name = restrict(name, in_)

    def shared(cursor: Cursor) -> None:
        _check_not_tensor_sum(work, cursor, "parallel")
        _check_not_nested(work, cursor)
        if by is None:
            _check_mark(work, cursor, LoopMark.PARALLEL)
        outer = cursor.path if by is None else _tiled(work, cursor, by)[:-1]
        work.mark(outer, LoopMark.PARALLEL)

    first_possible(work, name, shared)


@tactic
def vectorize(
    work: Derivation, name: arg.Loop, by: arg.Factor = None, *, tails: Strategy | None = None, in_: arg.Inside = None
) -> None:
    """Run the iterations of a loop as vector lanes (SIMD): all of them, or `by` at a time in the loop within a tile.

    ⊞[i < n] e(i)  →  truncr _ flatten ⊞[io < ⌈n/k⌉] ⊞[ii < k | vector] [io*k + ii < n] · e(io*k + ii)

    The last tile has a guard unless `tails` is set: "min" bounds the loop within a tile, "split" peels the last tile,
    so that full tiles have a constant extent.

    Lowering proves the absence of data races. The tactic fails for a sum of tensors, whose iterations all add to the
    same cells. With `by`, the mark `parallel` moves to the loop over tiles; without, a loop with another mark is
    refused.

    >>> s = reschedule(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i]"))
    >>> s.vectorize("i", 8, tails="split")
    f (x : float32[n]) : float32[n] :=
      truncr (8*⌈n / 8⌉ - n) flatten
        ((⊞[io < n // 8] ⊞[ii < 8 | vector] 2 * x[8*io + ii])
         ++ ⊞[n // 8 <= io < ⌈n / 8⌉] padr (8*io - n + 8) ⊞[ii < n - 8*io | vector] 2 * x[8*io + ii])
    """
    name = restrict(name, in_)
    strategy = None if tails is None else checked_strategy("tails", tails)

    def in_lanes(cursor: Cursor) -> None:
        _check_not_tensor_sum(work, cursor, "vectorized")
        if by is None:
            _check_mark(work, cursor, LoopMark.VECTOR)
        work.mark(cursor.path if by is None else _tiled(work, cursor, by), LoopMark.VECTOR)
        if strategy is not None:
            tails_below(work, cursor.path, strategy)

    first_possible(work, name, in_lanes)


@tactic
def unroll(work: Derivation, name: arg.Loop, by: arg.Factor = None, *, in_: arg.Inside = None) -> None:
    """Unroll a loop: Σ[i < 2] e(i) → e(0) + e(1); ⊞[i < 2] e(i) → (⊞[i < 1] e(0)) ++ ⊞[i < 1] e(1).

    With `by`, the goal stays short: the loop is tiled, and the loop within a tile is marked to be unrolled in the
    generated code; `s.mark(name, "unroll")` marks a loop without tiling.

    Σ[p < k] e(p)  →  Σ[po < ⌈k/4⌉] Σ[pi < 4 | unroll] [4*po + pi < k] · e(4*po + pi)

    For a maximum, minimum or product, `by` must divide the extent, since their last tile would be shorter.

    >>> s = reschedule(atl.parse("f (x : float32[n, 3]) : float32[n] := ⊞[i < n] Σ[p < 3] x[i, p]"))
    >>> s.branch().unroll("p")
    f (x : float32[n, 3]) : float32[n] :=
      ⊞[i < n] x[i, 0] + x[i, 1] + x[i, 2]
    >>> s.unroll("i", 4)
    f (x : float32[n, 3]) : float32[n] :=
      truncr (4*⌈n / 4⌉ - n) flatten ⊞[io < ⌈n / 4⌉] ⊞[ii < 4 | unroll] [4*io + ii < n] · Σ[p < 3] x[4*io + ii, p]
    """
    name = restrict(name, in_)

    def unrolled(cursor: Cursor) -> None:
        if by is None:
            unroll_fully(work, cursor, name)
        else:
            inner = _tiled(work, cursor, by)
            if extent_of(work, inner) is None:
                simplify_indices(work, inner)
            _check_constant(work, inner, cursor)
            work.mark(inner, LoopMark.UNROLL)

    first_possible(work, name, unrolled)


def _tiled(work: Derivation, cursor: Cursor, by: Any) -> Path:
    """Tile a loop; return the path of the loop within a tile."""
    inner = tile_loop(work, cursor.path, as_bound(by, cursor))
    simplify_guards(work, cursor.path)
    return inner


def _check_constant(work: Derivation, inner: Path, cursor: Cursor) -> None:
    """Raise `DoesNotApply` if the loop within a tile has no constant extent, and so cannot be unrolled."""
    if extent_of(work, inner) is None:
        raise DoesNotApply(
            f"the last tile of {cursor.called[0]} would be shorter, and could not be unrolled",
            place=place_of(cursor.program, cursor.path),
            required="full tiles; or a sum or a generation, whose last tile has a guard",
            suggestions=("a number that divides the extent", "s.tile(…) tiles the loop without unrolling"),
        )


def _check_not_tensor_sum(work: Derivation, cursor: Cursor, how: str) -> None:
    """Raise `DoesNotApply` for a sum of tensors, whose iterations all add to the same cells, unless it is a scatter."""
    below = cursor
    while isinstance(below.term, Reduce | Guard):
        below = below.child(0)
    is_scatter = isinstance(below.term, Reshape) and isinstance(below.term.op, Place)
    # Lowering decides whether the iterations of a scatter have distinct positions.
    if isinstance(cursor.term, Reduce) and cursor.term.type.rank and not is_scatter:
        name = cursor.called[0]
        raise DoesNotApply(
            f"the sum {name} of tensors cannot be {how}: all of its iterations add to the same cells",
            place=place_of(work.goal, cursor.path),
            required="a generation, or a sum of scalars",
            suggestions=(f"s.interchange({name!r}) moves a generation outside, if the sum is one of generations",),
        )


def _check_mark(work: Derivation, cursor: Cursor, wanted: LoopMark) -> None:
    """Raise `DoesNotApply` if a loop has another mark, which would be replaced silently."""
    has = cursor.term.mark if isinstance(cursor.term, Gen | Reduce) else LoopMark.NONE
    if has in (LoopMark.NONE, wanted):
        return
    name = cursor.called[0]
    raise DoesNotApply(
        f"the loop {name} is already marked {has.value}, and a loop has only one mark",
        place=place_of(work.goal, cursor.path),
        required="a loop without a mark; or by=…, since the two loops of a tiling have a mark each",
        suggestions=(f's.mark("{name}", "{wanted.value}") replaces the mark',),
    )


def _check_not_nested(work: Derivation, cursor: Cursor) -> None:
    """Raise `DoesNotApply` if a loop around or inside this one is parallel."""
    around = [at for at in cursor.spine()[:-1] if _is_parallel(at)]
    inside = [at for at in work.cursors((*cursor.path, 0)) if _is_parallel(at)]
    for other in (*around, *inside):
        where = "around" if other in around else "inside"
        raise DoesNotApply(
            f"the loop {other.called[0]}, {where} the loop {cursor.called[0]}, is already parallel",
            place=place_of(work.goal, other.path),
            required="parallel loops that are not nested",
            suggestions=(f's.mark("{other.called[0]}", None) removes that mark',),
        )


def _is_parallel(cursor: Cursor) -> bool:
    return isinstance(cursor.term, Gen | Reduce) and cursor.term.mark is LoopMark.PARALLEL


# -- unroll-and-jam ---------------------------------------------------------------------------------------------------


@tactic
def unroll_and_jam(
    work: Derivation, name: arg.Loop, by: arg.Factor, *, share: arg.Term | None = None, in_: arg.Inside = None
) -> None:
    """Unroll a loop by `by` and jam the copies into the loop inside it; optionally stage the values they `share`.

    ⊞[y < n] ⊞[x < m] e(y, x)  →  truncr _ flatten ⊞[yo < ⌈n/k⌉] transpose ⊞[x < m] ⊞[yi < k] [_] · e(k*yo + yi, x)

    The inner loop may be a sum. `share` selects a let around the loop, an input, or a subterm; the part read in each
    iteration of the inner loop is staged in a small buffer, like `stage`.

    >>> s = reschedule(atl.parse(
    ...     "f (v : float32[n + 2, m]) : float32[n, m] := let half := ⊞[y < n + 2] ⊞[x < m] v[y, x] / 2.0 in "
    ...     "⊞[y < n] ⊞[x < m] half[y, x] + half[y + 2, x]"))
    >>> s.unroll_and_jam("⊞[y < n] _", 4, share="half")
    f (v : float32[n + 2, m]) : float32[n, m] :=
      truncr (4*⌈n / 4⌉ - n) flatten ⊞[yo < ⌈n / 4⌉] transpose ⊞[x < m]
        let half := ⊞[y < 6] ⊞[i < 1] [4*yo + y <= n + 1] · v[4*yo + y, x] / 2.0 in
        ⊞[yi < 4] [4*yo + yi < n] · (half[yi, 0] + half[yi + 2, 0])
    """
    name = restrict(name, in_)

    def jammed(cursor: Cursor) -> None:
        inner = tile_loop(work, cursor.path, as_bound(by, cursor))
        simplify_guards(work, cursor.path)
        interchange_at(work, inner)
        _, around, _ = nested_loops(work, cursor.path, 3)
        if share is not None:
            stage_below(work, share, (*around, 0), None)

    first_possible(work, name, jammed)
