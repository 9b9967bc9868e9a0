"""How loops run: shared out among threads, as vectors, written out; in tiles where a number of iterations is given."""

from __future__ import annotations

from typing import Any

from atl.core.marks import LoopMark
from atl.core.terms import Gen, Reduce
from atl.core.traversal import Path
from atl.text.printing import place_of
from rewrites.cursors.cursor import Cursor
from rewrites.cursors.targets import Target
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply
from rewrites.tactics.indices import simplify_indices
from rewrites.tactics.loops import as_bound, first_possible, written_out
from rewrites.tactics.nests.tails import Strategy, checked_strategy, extent_of, tails_below
from rewrites.tactics.nests.tiling import one_tile
from rewrites.tactics.simplification import simplify_guards


def parallelize(work: Derivation, name: Target, by: Any = None) -> None:
    """Shares the iterations of a loop out among threads, one by one or `by` of them together.

    ⊞[i < n] e(i)  →  truncr _ flatten ⊞[io < ⌈n/k⌉ | parallel] ⊞[ii < k] [io*k + ii < n] · e(io*k + ii)

    Whether no iteration touches what another one changes is proved when the goal is lowered. It is refused for a sum of
    tensors, all of whose iterations add to the same cells, and within or around a loop that is shared out already. With
    `by`, a mark of vectors or of writing out goes to the loop within a tile; without, a loop that has one is refused.

    >>> s = reschedule(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i]"))
    >>> s.parallelize("i", 1024)
    f (x : float32[n]) : float32[n] :=
      truncr (1024*⌈n / 1024⌉ - n) flatten ⊞[io < ⌈n / 1024⌉ | parallel] ⊞[ii < 1024] [1024*io + ii < n] ·
      2 * x[1024*io + ii]
    """

    def shared(cursor: Cursor) -> None:
        _check_cells(work, cursor, "shared out among threads")
        _check_alone(work, cursor)
        if by is None:
            _check_mark(work, cursor, LoopMark.PARALLEL)
        outer = cursor.path if by is None else _tiled(work, cursor, by)[:-1]
        work.mark(outer, LoopMark.PARALLEL)

    first_possible(work, name, shared)


def vectorize(work: Derivation, name: Target, by: Any = None, *, tails: Strategy | None = None) -> None:
    """Runs the iterations of a loop as the lanes of vectors: all of them, or `by` at a time, in the loop within a tile.

    ⊞[i < n] e(i)  →  truncr _ flatten ⊞[io < ⌈n/k⌉] ⊞[ii < k | vector] [io*k + ii < n] · e(io*k + ii)

    The last tile is tested for, or `tails` says what becomes of that: by "min" the loop within a tile is bounded, by
    "split" full tiles come first, whose loops run a constant number of times.

    Whether no iteration touches what another one changes is proved when the goal is lowered. It is refused for a sum of
    tensors, all of whose iterations add to the same cells. With `by`, `parallel` goes to the loop over tiles;
    without, a loop that has another mark is refused.

    >>> s = reschedule(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i]"))
    >>> s.vectorize("i", 8, tails="split")
    f (x : float32[n]) : float32[n] :=
      truncr (8*⌈n / 8⌉ - n) flatten
        ((⊞[io < n // 8] ⊞[ii < 8 | vector] 2 * x[8*io + ii])
         ++ ⊞[n // 8 <= io < ⌈n / 8⌉] padr (8*io - n + 8) ⊞[ii < n - 8*io | vector] 2 * x[8*io + ii])
    """
    strategy = None if tails is None else checked_strategy("tails", tails)

    def in_lanes(cursor: Cursor) -> None:
        _check_cells(work, cursor, "run as vectors")
        if by is None:
            _check_mark(work, cursor, LoopMark.VECTOR)
        work.mark(cursor.path if by is None else _tiled(work, cursor, by), LoopMark.VECTOR)
        if strategy is not None:
            tails_below(work, cursor.path, strategy)

    first_possible(work, name, in_lanes)


def unroll(work: Derivation, name: Target, by: Any = None) -> None:
    """Writes out a loop: Σ[i < 2] e(i) → e(0) + e(1); ⊞[i < 2] e(i) → (⊞[i < 1] e(0)) ++ ⊞[i < 1] e(1).

    With `by` the goal stays short: the loop runs in tiles of so many iterations, which are marked to be written out in
    the code that is printed; `s.mark(name, "unroll")` says so of a loop as it is.

    Σ[p < k] e(p)  →  Σ[po < ⌈k/4⌉] Σ[pi < 4 | unroll] [4*po + pi < k] · e(4*po + pi)

    A maximum, minimum or product has a last tile that is cut short, and is refused unless `by` divides its extent.

    >>> s = reschedule(atl.parse("f (x : float32[n, 3]) : float32[n] := ⊞[i < n] Σ[p < 3] x[i, p]"))
    >>> s.branch().unroll("p")
    f (x : float32[n, 3]) : float32[n] :=
      ⊞[i < n] x[i, 0] + x[i, 1] + x[i, 2]
    >>> s.unroll("i", 4)
    f (x : float32[n, 3]) : float32[n] :=
      truncr (4*⌈n / 4⌉ - n) flatten ⊞[io < ⌈n / 4⌉] ⊞[ii < 4 | unroll] [4*io + ii < n] · Σ[p < 3] x[4*io + ii, p]
    """

    def unrolled(cursor: Cursor) -> None:
        if by is None:
            written_out(work, cursor, name)
        else:
            inner = _tiled(work, cursor, by)
            if extent_of(work, inner) is None:
                simplify_indices(work, inner)
            _check_constant(work, inner, cursor)
            work.mark(inner, LoopMark.UNROLL)

    first_possible(work, name, unrolled)


def _tiled(work: Derivation, cursor: Cursor, by: Any) -> Path:
    """Runs a loop in tiles. The path of the loop within a tile, or of its only one where `by` is all of it."""
    inner = one_tile(work, cursor.path, as_bound(by, cursor))
    simplify_guards(work, cursor.path)
    return inner


def _check_constant(work: Derivation, inner: Path, cursor: Cursor) -> None:
    """Raises `DoesNotApply` where the loop within a tile has no constant extent, and so cannot be written out."""
    if extent_of(work, inner) is None:
        raise DoesNotApply(
            f"the last tile of {cursor.called[0]} would be cut short, and could not be written out",
            place=place_of(cursor.program, cursor.path),
            required="tiles that are full, or of which a condition tells what is left out: of a sum or a generation",
            suggestions=("a number that divides the extent", "s.tile(…) runs it in tiles that are not written out"),
        )


def _check_cells(work: Derivation, cursor: Cursor, how: str) -> None:
    """Raises `DoesNotApply` for a sum of tensors: a loop in which all iterations add to the same cells."""
    if isinstance(cursor.term, Reduce) and cursor.term.type.rank:
        name = cursor.called[0]
        raise DoesNotApply(
            f"the sum {name} of tensors cannot be {how}: all of its iterations add to the same cells",
            place=place_of(work.goal, cursor.path),
            required="a generation, or a sum of scalars",
            suggestions=(f"s.interchange({name!r}) brings a generation outside, where that is what it adds up",),
        )


def _check_mark(work: Derivation, cursor: Cursor, wanted: LoopMark) -> None:
    """Raises `DoesNotApply` where a loop has another mark already: it would be replaced without a word."""
    has = cursor.term.mark if isinstance(cursor.term, Gen | Reduce) else LoopMark.NONE
    if has in (LoopMark.NONE, wanted):
        return
    name = cursor.called[0]
    raise DoesNotApply(
        f"the loop {name} is marked {has.value} already, and has one mark",
        place=place_of(work.goal, cursor.path),
        required="a loop without a mark; or tiles: the loop over them and the one within them have a mark each",
        suggestions=(f's.mark("{name}", "{wanted.value}") puts this mark in the place of that one',),
    )


def _check_alone(work: Derivation, cursor: Cursor) -> None:
    """Raises `DoesNotApply` where a loop around this one or inside of it is shared out among threads."""
    around = [at for at in cursor.spine()[:-1] if _is_shared(at)]
    inside = [at for at in work.cursors((*cursor.path, 0)) if _is_shared(at)]
    for other in (*around, *inside):
        where = "around" if other in around else "inside of"
        raise DoesNotApply(
            f"the loop {other.called[0]}, {where} the loop {cursor.called[0]}, is shared out among threads already",
            place=place_of(work.goal, other.path),
            required="one loop that is, with no other one around it or inside of it",
            suggestions=(f's.mark("{other.called[0]}", None) takes that mark away',),
        )


def _is_shared(cursor: Cursor) -> bool:
    return isinstance(cursor.term, Gen | Reduce) and cursor.term.mark is LoopMark.PARALLEL
