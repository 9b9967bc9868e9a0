"""Accumulation of the sums of a tile in one buffer, by moving the tile's loops inside the sums."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from atl.core.index import constant
from atl.core.predicate import at_most
from atl.core.terms import Binary, Cast, Gen, Guard, Monoid, Reduce, Unary
from atl.core.traversal import Path
from atl.errors import ATLError
from atl.prove import proves
from atl.text.printing import place_of
from rewrites.cursors.cursor import Cursor
from rewrites.derivation import Derivation
from rewrites.diagnostics import diagnostics, new_diagnostics
from rewrites.errors import DoesNotApply
from rewrites.tactics import arg
from rewrites.tactics.loops import find_loops, first_possible
from rewrites.tactics.nests.guards import guard_to_bound, lift_guards
from rewrites.tactics.nests.interchange import interchange_at
from rewrites.tactics.storage.binding import check_name
from rewrites.tactics.storage.padding import keep_padding
from rewrites.tactics.storage.staging import below_lets, repeat_borders, stage_at
from rewrites.tactics.tactic import tactic

MOST_VARIABLE: Final = 255
"""Maximum extent of a loop of a tile whose extent is not constant."""


@tactic
def accumulate(
    work: Derivation, what: arg.Sum, *, at: arg.Around | None = None, name: arg.NewName | None = None
) -> None:
    """Accumulate the sums of a tile in one buffer (cache_write, register tiling): the tile's loops move inside the
    sums.

    ⊞[ii < 8] ⊞[ji < 32] Σp e(ii, ji, p)  →  let acc := Σp ⊞[ii < 8] ⊞[ji < 32] e(ii, ji, p) in ⊞ii ⊞ji acc[ii, ji]

    A maximum, minimum or product can be accumulated too. A guard around a term would put a zero into it. So a read that
    would be out of bounds beyond the last tile repeats the element at the border: x[min(i, n - 1)].

    The selected sum is moved together with sums directly inside it. The tile consists of the loops between the sum and
    the loop `at`; by default, of the loops of constant extent directly around the sum. The innermost one may have
    an extent that is proved to be at most 255, as after whole tiles. Lets inside `at` that the sum reads, such as
    staged operands, stay outside the new buffer.

    The out-of-range part of the last tile is computed too, if it is well-defined, and discarded. Guards stay where the
    buffer is read, and where an operand would be read out of bounds. `pack` or `pad` can replace the guards on
    operands. Inner guards that do not depend on the tile's loops become bounds of the sums.

    A buffer has no padding. If the buffer is truncated, reads of it are guarded by conditions under which the sum has a
    term. The tactic fails if there are no such conditions and the goal would not compile.

    >>> s = reschedule(atl.parse("sums (x : float32[8*n, m]) : float32[8*n] := ⊞[i < 8*n] Σ[j < m] x[i, j]"))
    >>> _ = s.tile("i", 8)
    >>> s.accumulate("j")
    sums (x : float32[8*n, m]) : float32[8*n] :=
      flatten ⊞[io < n] let acc := Σ[j < m] ⊞[ii < 8] x[8*io + ii, j] in ⊞[ii < 8] acc[ii]
    """
    check_name(name)
    places = None if at is None else [(*cursor.path, 0) for cursor in find_loops(work, at)]
    first_possible(work, what, lambda cursor: _accumulate_at(work, cursor, places, name or "acc"))


def _accumulate_at(work: Derivation, cursor: Cursor, places: list[Path] | None, name: str) -> None:
    if not isinstance(cursor.term, Reduce):
        raise DoesNotApply(
            f"{cursor.called[0]} is not a reduction",
            place=place_of(work.goal, cursor.path),
            required="the name of a sum, product, maximum or minimum",
        )
    monoid = cursor.term.monoid
    above = _tile_around(work, cursor) if places is None else _nearest(work, cursor, places)
    before, blocking = work.checkpoint, diagnostics(work.goal)

    def summed(*, guarded: bool) -> None:
        if monoid != "sum" and not guarded:
            repeat_borders(work, cursor.path, above)
        kept = keep_padding(work, cursor.path)
        use = stage_at(work, (*cursor.path, 0) if kept else cursor.path, above, name, guarded=guarded)
        if kept:
            work.rewrite("unfold_let", use[:-1])
        _sums_outside(work, (*above, 0), monoid)

    try:
        summed(guarded=False)
    except ATLError:
        # The out-of-range part is not well-defined, such as a quotient whose divisor is zero there.
        work.rollback(before)
        summed(guarded=True)
    made = new_diagnostics(blocking, diagnostics(work.goal))
    if made:
        work.rollback(before)
        # Elements whose sum had no terms were padding, which a buffer does not have.
        raise DoesNotApply(
            f"with the sum {cursor.called[0]} in a buffer the goal would not compile: {made[0].summary}",
            place=place_of(work.goal, cursor.path),
            required="a tile whose padding is given by guards, not by the bounds of loops inside the sum",
            suggestions=("s.accumulate(…) before s.tails(), while the buffer can be read under guards",),
        )


def _tile_around(work: Derivation, cursor: Cursor) -> Path:
    """Return the path of the outermost of the generations directly around a sum that make its tile."""
    found = None
    for around in cursor.spine()[-2::-1]:
        match around.term:
            case Gen() if _has_constant_extent(around) or (found is None and _is_short(around)):
                found = around.path
            case Guard() | Binary() | Unary() | Cast():
                pass
            case _:
                break
    if found is None:
        raise DoesNotApply(
            f"no loop of constant extent is directly around the sum {cursor.called[0]}",
            place=place_of(work.goal, cursor.path),
            required="a tile: generations of constant extent around it, with only guards and arithmetic between",
            suggestions=("s.tile(…, 8) makes one", "at= selects the loop in which the sums are computed"),
        )
    return found


def _has_constant_extent(loop: Cursor) -> bool:
    _, low, high = loop.loop
    return (high - low).constant is not None


def _is_short(loop: Cursor) -> bool:
    """Return whether the extent of a generation is proved to be small, as that of the rest after whole tiles."""
    _, low, high = loop.loop
    return proves(loop.scope.facts, at_most(high - low, constant(MOST_VARIABLE)))


def _nearest(work: Derivation, cursor: Cursor, places: list[Path]) -> Path:
    """Return the innermost of these places around a sum, with a loop between."""
    around = [above for above in places if cursor.path[: len(above)] == above]
    if not around:
        raise DoesNotApply(
            f"that loop is not around the sum {cursor.called[0]}",
            place=place_of(work.goal, cursor.path),
            required="a loop around the sum",
        )
    above = below_lets(work, cursor.path, around[-1])
    if not any(isinstance(between.term, Gen | Reduce) for between in cursor.spine()[len(above) : -1]):
        raise DoesNotApply(
            f"no loop is between that loop and the sum {cursor.called[0]}",
            place=place_of(work.goal, cursor.path),
            required="a tile: loops between that loop and the sum",
            suggestions=("s.interchange(…) moves a loop inside",),
        )
    return above


def _sums_outside(work: Derivation, tile: Path, monoid: Monoid) -> None:
    """Move sums, or other reductions, out of the tile's loops. Guards independent of the tile become their bounds.

    ⊞ii ⊞ji Σp Σq e → Σp Σq ⊞ii ⊞ji e
    """
    place, sums = tile, list[Path]()
    while (nest := list(_generations(work, place))) and _reduces(work, _below_guards(work, (*nest[-1], 0)), monoid):
        for path in reversed(nest):
            interchange_at(work, path)
        sums.append(_below_guards(work, place))
        place = (*sums[-1], 0)
    lift_guards(work, tile)
    for path in reversed(list(_first_loops(work, tile, len(sums)))):
        guard_to_bound(work, path)


def _generations(work: Derivation, path: Path) -> Iterator[Path]:
    """Yield the directly nested generations from a place on, from the outside in."""
    path = _below_guards(work, path)
    while isinstance(work.term(path), Gen):
        yield path
        path = _below_guards(work, (*path, 0))


def _first_loops(work: Derivation, path: Path, count: int) -> Iterator[Path]:
    """Yield the first `count` loops from a place on."""
    for _ in range(count):
        path = _below_guards(work, path)
        yield path
        path = (*path, 0)


def _below_guards(work: Derivation, path: Path) -> Path:
    while isinstance(work.term(path), Guard):
        path = (*path, 0)
    return path


def _reduces(work: Derivation, path: Path, monoid: Monoid) -> bool:
    term = work.term(path)
    return isinstance(term, Reduce) and term.monoid == monoid
