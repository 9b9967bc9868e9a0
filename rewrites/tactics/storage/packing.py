"""Packing: copying an operand in the order in which loops read it, with zero padding for partial tiles."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from atl.core.predicate import Predicate
from atl.core.substitution import free_positions
from atl.core.traversal import Path
from atl.errors import ATLError, InvalidArgument, brief
from atl.text.printing import place_of
from rewrites.cursors.cursor import Cursor
from rewrites.cursors.targets import Target
from rewrites.derivation import Derivation
from rewrites.diagnostics import diagnostics, new_diagnostics
from rewrites.errors import DoesNotApply
from rewrites.tactics import arg
from rewrites.tactics.loops import find_loops, first_possible
from rewrites.tactics.operand_reads import GuardMover, operand_name, reads_of
from rewrites.tactics.storage.binding import check_name, check_nth, nth_of
from rewrites.tactics.storage.staging import below_lets, loops_around, loops_between, stage_at
from rewrites.tactics.tactic import tactic


@tactic
def pack(
    work: Derivation,
    what: arg.Operand,
    *,
    at: arg.Around | None = None,
    name: arg.NewName | None = None,
    order: Sequence[arg.Around] | None = None,
    nth: arg.Number | None = None,
) -> None:
    """Copy an operand in the order of the loops that read it (packing), inside the loop `at` or before everything.

    ⊞jo ⊞i Σ[p < k] ⊞[ji < 8] [8*jo + ji < m] · a(i, p) * B[p, 8*jo + ji]  →
    let Bp := ⊞jo ⊞[p < k] ⊞[ji < 8] [8*jo + ji < m] · B[p, 8*jo + ji] in ⊞jo ⊞i Σp ⊞[ji < 8] a(i, p) * Bp[jo, p, ji]

    The operand is an input or a let, or a pattern of a read. Of several reads, the first one used in a computation is
    packed, or number `nth`. `order` lists the loops in another order, outermost first. Elements of a type that is only
    stored are converted when they are copied.

    Guards on the operand's loops become zero padding of the blocks. They are removed from the product if the goal
    compiles without them: other operands must be read safely, and no truncation may cut computed values. For terms of
    a maximum, minimum or product, blocks are filled with the element at the border instead of zeros.

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
    pack_operand(work, what, at, name=name, order=order, nth=nth)


def pack_operand(
    work: Derivation,
    what: Target,
    at: Target | None,
    *,
    name: str | None,
    order: Sequence[Target] | None = None,
    nth: int | None = None,
    converted: bool = True,
) -> None:
    """Copy an operand like `pack`; without `converted`, elements of a type that is only stored are not converted."""

    def packed(above: Path) -> None:
        reads = nth_of(reads_of(work, what, above, converted=converted), nth, what)
        _pack_below(work, reads, above, name, order)

    if at is None:
        packed(())
    else:
        first_possible(work, at, lambda cursor: packed((*cursor.path, 0)))


def _pack_below(
    work: Derivation, reads: Sequence[Cursor], above: Path, name: str | None, order: Sequence[Target] | None
) -> None:
    def packed(read: Cursor) -> None:
        place = below_lets(work, read.path, above)
        positions = None if order is None else _positions(work, read.path, place, order)

        def staged(at: Path) -> None:
            use = stage_at(work, at, place, name or f"{operand_name(read)}p", order=positions)
            work.sweep(["guard_guard"], (*use[: len(place)], 0))

        _padded(work, read.path, place, staged)

    work.try_each(reads, packed)


# -- loop order -------------------------------------------------------------------------------------------------------


def _positions(work: Derivation, read: Path, above: Path, order: Sequence[Target]) -> list[int]:
    """Return the de Bruijn positions of the operand's loops in the requested order."""
    used = free_positions(work.term(read))[0]
    around = loops_around(work.cursor(read))[::-1]
    between = [position for position, _, _ in loops_between(work, read, above) if position in used]
    found: list[int] = []
    for each in order:
        paths = {cursor.path for cursor in find_loops(work, each)}
        found += [position for position in between if around[position].path in paths][:1]
    if len(found) != len(order) or sorted(found) != sorted(between):
        names = ", ".join(around[position].called[0] for position in reversed(between))
        raise DoesNotApply(
            f"order={brief(list(order))} does not name each loop of the operand once",
            place=place_of(work.goal, read),
            required=f"the loops {names}, in some order"
            if names
            else "no order=, since the operand does not depend on a loop there",
        )
    return found


# -- padding ----------------------------------------------------------------------------------------------------------


def _padded(work: Derivation, read: Path, above: Path, staged: Callable[[Path], None]) -> None:
    """Rewrite [p ∧ q] · a * b → [p] · a * ([q] · b), where q depends only on loops of b, and stage [q] · b.

    Conditions are also kept around the product if the goal would not compile without them.
    """
    before, blocking = work.checkpoint, diagnostics(work.goal)

    def without(dropped: Collection[Predicate]) -> bool:
        work.rollback(before)
        try:
            staged(GuardMover(work, read, above, dropped).move())
        except ATLError:
            return False
        return not new_diagnostics(blocking, diagnostics(work.goal))

    candidates = GuardMover(work, read, above, ()).operand_conditions()
    if without(candidates):
        return
    dropped: list[Predicate] = []
    for candidate in candidates:
        if without([*dropped, candidate]):
            dropped.append(candidate)
    if not dropped or not without(dropped):
        # Keep the guards; `stage_at` pads the buffer by the relevant ones.
        work.rollback(before)
        staged(read)
