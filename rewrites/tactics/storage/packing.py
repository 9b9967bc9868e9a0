"""Packing: an operand copied in the order in which loops read it, padded where their last tiles stick out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from atl.core.predicate import Predicate
from atl.core.substitution import free_positions
from atl.core.terms import (
    Gen,
    Reduce,
)
from atl.core.traversal import Path
from atl.errors import ATLError, InvalidArgument, brief
from atl.text.printing import place_of
from rewrites.cursors.cursor import Cursor
from rewrites.cursors.targets import Target
from rewrites.derivation import Derivation
from rewrites.diagnostics import diagnostics, new_diagnostics
from rewrites.errors import DoesNotApply
from rewrites.tactics.inwards import Inwards, operand_called, reads_of
from rewrites.tactics.loops import first_possible, loops
from rewrites.tactics.storage.binding import check_name, check_nth, nth_of
from rewrites.tactics.storage.staging import below_lets, loops_between, stage_at


def pack(
    work: Derivation,
    what: Target,
    *,
    at: Target | None = None,
    name: str | None = None,
    order: Sequence[Target] | None = None,
    nth: int | None = None,
) -> None:
    """Copies what is read of an operand in the order of the loops that read it: within the loop `at`, or before all.

    ⊞jo ⊞i Σ[p < k] ⊞[ji < 8] [8*jo + ji < m] · a(i, p) * B[p, 8*jo + ji]  →
    let Bp := ⊞jo ⊞[p < k] ⊞[ji < 8] [8*jo + ji < m] · B[p, 8*jo + ji] in ⊞jo ⊞i Σp ⊞[ji < 8] a(i, p) * Bp[jo, p, ji]

    The operand is an input or a let, or a pattern of what is read; of several reads it is the first one that computes
    something, or the one with the number `nth`. `order` names the loops in another order, from the outside in.

    Conditions of the guards between that speak of loops of the operand only become padding of the blocks. They go from
    the product where the goal compiles without them: where other operands are read safely, and no truncation cuts it.

    >>> s = reschedule(atl.parse(
    ...     "f (A : float32[n, m], x : float32[m]) : float32[n] "
    ...     ":= ⊞[i < n] Σ[j < m] A[i, j] * x[j]")).tile("i", 8).interchange("ii")
    >>> s.pack("A")
    f (A : float32[n, m], x : float32[m]) : float32[n] :=
      let Ap := ⊞[io < ⌈n / 8⌉] ⊞[j < m] ⊞[ii < 8] [8*io + ii < n] · A[8*io + ii, j] in
      truncr (8*⌈n / 8⌉ - n) flatten ⊞[io < ⌈n / 8⌉] Σ[j < m] ⊞[ii < 8] [8*io + ii < n] ·
        Ap[io, j, ii] * x[j]
    -- Ap holds ⌈n / 8⌉ x m x 8 elements: it grows with m and n
    """
    check_name(name)
    check_nth(nth)
    if order is not None and not isinstance(order, list | tuple):
        raise InvalidArgument(f"order={brief(order)}", required='a list of loops: order=["ko", "ii"]')
    if at is None:
        _pack_below(work, what, (), name, order, nth)
    else:
        first_possible(work, at, lambda cursor: _pack_below(work, what, (*cursor.path, 0), name, order, nth))


def _pack_below(
    work: Derivation, what: Target, above: Path, name: str | None, order: Sequence[Target] | None, nth: int | None
) -> None:
    reads = nth_of(reads_of(work, what, above), nth, what)

    def packed(read: Cursor) -> None:
        place = below_lets(work, read.path, above)
        positions = None if order is None else _positions(work, read.path, place, order)

        def staged(at: Path) -> None:
            use = stage_at(work, at, place, name or f"{operand_called(read)}p", order=positions)
            work.sweep(["guard_guard"], (*use[: len(place)], 0))

        _padded(work, read.path, place, staged)

    work.try_each(reads, packed)


# -- the order of the loops ------------------------------------------------------------------------------------------


def _positions(work: Derivation, read: Path, above: Path, order: Sequence[Target]) -> list[int]:
    """The de Bruijn positions of the loops of the operand, in the order that is wanted."""
    used = free_positions(work.term(read))[0]
    around = [cursor for cursor in work.cursor(read).spine()[:-1] if isinstance(cursor.term, Gen | Reduce)][::-1]
    between = [position for position, _, _ in loops_between(work, read, above) if position in used]
    found: list[int] = []
    for each in order:
        paths = {cursor.path for cursor in loops(work, each)}
        found += [position for position in between if around[position].path in paths][:1]
    if len(found) != len(order) or sorted(found) != sorted(between):
        names = ", ".join(around[position].called[0] for position in reversed(between))
        raise DoesNotApply(
            f"order={brief(list(order))} does not name each loop of the operand once",
            place=place_of(work.goal, read),
            required=f"the loops {names}, in some order" if names else "no order: the operand depends on no loop there",
        )
    return found


# -- padding ----------------------------------------------------------------------------------------------------------


def _padded(work: Derivation, read: Path, above: Path, staged: Callable[[Path], None]) -> None:
    """[p ∧ q] · a * b → [p] · a * ([q] · b), where q speaks of loops of b only; then [q] · b is staged.

    Conditions stay around the product, too, where it would not compile without them.
    """
    before, in_the_way = work.checkpoint, diagnostics(work.goal)

    def without(gone: Collection[Predicate]) -> bool:
        work.rollback(before)
        try:
            staged(Inwards(work, read, above, gone).moved())
        except ATLError:
            return False
        return not new_diagnostics(in_the_way, diagnostics(work.goal))

    candidates = Inwards(work, read, above, ()).own()
    if without(candidates):
        return
    gone: list[Predicate] = []
    for candidate in candidates:
        if without([*gone, candidate]):
            gone.append(candidate)
    if not gone or not without(gone):
        # The guards stay as they are: `stage_at` pads the buffer with what of them matters.
        work.rollback(before)
        staged(read)
