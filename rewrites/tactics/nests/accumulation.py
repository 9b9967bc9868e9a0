"""Sums of a tile, accumulated side by side in one buffer: the tile's loops go inside of the sums."""

from __future__ import annotations

from collections.abc import Iterator

from atl.core.terms import Binary, Cast, Gen, Guard, Reduce, Unary
from atl.core.traversal import Path
from atl.errors import ATLError
from atl.text.printing import place_of
from rewrites.cursors.cursor import Cursor
from rewrites.cursors.targets import Target
from rewrites.derivation import Derivation
from rewrites.diagnostics import diagnostics, new_diagnostics
from rewrites.errors import DoesNotApply
from rewrites.tactics.loops import first_possible, loops
from rewrites.tactics.nests.bounds import bounded
from rewrites.tactics.nests.guards import lift_guards
from rewrites.tactics.nests.order import interchanged
from rewrites.tactics.storage.binding import check_name
from rewrites.tactics.storage.padding import padding_kept
from rewrites.tactics.storage.staging import below_lets, stage_at


def accumulate(work: Derivation, what: Target, *, at: Target | None = None, name: str | None = None) -> None:
    """Adds up the sums of a tile side by side, in one buffer: the loops of the tile go inside of the sums.

    ⊞[ii < 8] ⊞[ji < 32] Σp e(ii, ji, p)  →  let acc := Σp ⊞[ii < 8] ⊞[ji < 32] e(ii, ji, p) in ⊞ii ⊞ji acc[ii, ji]

    The sum is chosen, and sums directly inside of it come along. The tile is made of the loops between it and the loop
    `at`, in each iteration of which it is computed, or else of the loops of constant extent directly around the sum.
    Lets of that loop that the sum reads, such as operands that were staged there, stay around the buffer.

    What sticks out of a whole tile is computed too, if it has a meaning; guards stay where the buffer is read, and
    where an operand is read beyond its end, until `pack` or `pad` have put zeros there. Of those inside, the ones that
    speak of no loop of the tile become bounds of the sums: a block of terms that the size does not fill is cut short.

    A buffer has no padding: of what is truncated it is read within conditions that hold where any term of the sums is
    computed. It is refused where none are found and the goal would not compile.

    >>> s = reschedule(atl.parse("sums (x : float32[8*n, m]) : float32[8*n] := ⊞[i < 8*n] Σ[j < m] x[i, j]"))
    >>> _ = s.tile("i", 8)
    >>> s.accumulate("j")
    sums (x : float32[8*n, m]) : float32[8*n] :=
      flatten ⊞[io < n] let acc := Σ[j < m] ⊞[ii < 8] x[8*io + ii, j] in ⊞[ii < 8] acc[ii]
    """
    check_name(name)
    places = None if at is None else [(*cursor.path, 0) for cursor in loops(work, at)]
    first_possible(work, what, lambda cursor: _accumulated(work, cursor, places, name or "acc"))


def _accumulated(work: Derivation, cursor: Cursor, places: list[Path] | None, name: str) -> None:
    if not isinstance(cursor.term, Reduce) or cursor.term.monoid != "sum":
        raise DoesNotApply(
            "what is to be accumulated is no sum", place=place_of(work.goal, cursor.path), required="the name of a sum"
        )
    above = _tile_around(work, cursor) if places is None else _nearest(work, cursor, places)
    before, in_the_way = work.checkpoint, diagnostics(work.goal)

    def summed(*, guarded: bool) -> None:
        kept = padding_kept(work, cursor.path)
        use = stage_at(work, (*cursor.path, 0) if kept else cursor.path, above, name, guarded=guarded)
        if kept:
            work.rewrite("unfold_let", use[:-1])
        _sums_outside(work, (*above, 0))

    try:
        summed(guarded=False)
    except ATLError:
        # What sticks out has no meaning: a quotient by something that is zero there, say.
        work.rollback(before)
        summed(guarded=True)
    made = new_diagnostics(in_the_way, diagnostics(work.goal))
    if made:
        work.rollback(before)
        # Elements of the tile were padding where no term of their sum was computed: a buffer has no padding.
        raise DoesNotApply(
            f"with the sum {cursor.called[0]} in a buffer the goal would not compile: {made[0].summary}",
            place=place_of(work.goal, cursor.path),
            required="a tile of which conditions tell what is padding, not the lengths of loops within the sum",
            suggestions=("s.accumulate(…) before s.tails(): while they are guards, the buffer is read within them",),
        )


def _tile_around(work: Derivation, cursor: Cursor) -> Path:
    """The path of the outermost of the generations of constant extent directly around a sum."""
    found = None
    for around in cursor.spine()[-2::-1]:
        match around.term:
            case Gen(low, high) if (high - low).constant is not None:
                found = around.path
            case Guard() | Binary() | Unary() | Cast():
                pass
            case _:
                break
    if found is None:
        raise DoesNotApply(
            f"no loop of constant extent stands directly around the sum {cursor.called[0]}",
            place=place_of(work.goal, cursor.path),
            required="a tile: generations of constant extent around it, with guards and arithmetic between at most",
            suggestions=("s.tile(…, 8) makes one", "at= names the loop in whose iterations the sums are computed"),
        )
    return found


def _nearest(work: Derivation, cursor: Cursor, places: list[Path]) -> Path:
    """The innermost of these places that stands around a sum, with a loop between."""
    around = [above for above in places if cursor.path[: len(above)] == above]
    if not around:
        raise DoesNotApply(
            f"that loop does not stand around the sum {cursor.called[0]}",
            place=place_of(work.goal, cursor.path),
            required="a loop around the sum",
        )
    above = below_lets(work, cursor.path, around[-1])
    if not any(isinstance(between.term, Gen | Reduce) for between in cursor.spine()[len(above) : -1]):
        raise DoesNotApply(
            f"no loop stands between that one and the sum {cursor.called[0]}",
            place=place_of(work.goal, cursor.path),
            required="a tile: loops between that one and the sum",
            suggestions=("s.interchange(…) brings a loop inside",),
        )
    return above


def _sums_outside(work: Derivation, tile: Path) -> None:
    """⊞ii ⊞ji Σp Σq e → Σp Σq ⊞ii ⊞ji e, with guards that speak of no loop of the tile as bounds of the sums."""
    place, sums = tile, list[Path]()
    while (nest := list(_generations(work, place))) and _is_sum(work, _below_guards(work, (*nest[-1], 0))):
        for path in reversed(nest):
            interchanged(work, path)
        sums.append(_below_guards(work, place))
        place = (*sums[-1], 0)
    lift_guards(work, tile)
    for path in reversed(list(_loops_below(work, tile, len(sums)))):
        bounded(work, path)


def _generations(work: Derivation, path: Path) -> Iterator[Path]:
    """The generations directly nested from a place on, from the outside in."""
    path = _below_guards(work, path)
    while isinstance(work.term(path), Gen):
        yield path
        path = _below_guards(work, (*path, 0))


def _loops_below(work: Derivation, path: Path, count: int) -> Iterator[Path]:
    """The first loops from a place on, so many."""
    for _ in range(count):
        path = _below_guards(work, path)
        yield path
        path = (*path, 0)


def _below_guards(work: Derivation, path: Path) -> Path:
    while isinstance(work.term(path), Guard):
        path = (*path, 0)
    return path


def _is_sum(work: Derivation, path: Path) -> bool:
    term = work.term(path)
    return isinstance(term, Reduce) and term.monoid == "sum"
