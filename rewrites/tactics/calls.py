"""Calls of instructions in place of loops: a chosen one, or the one that covers most operations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from atl.core.index import Var, atoms
from atl.core.marks import CallMark, LoopMark
from atl.core.terms import Expr, Gen, Reduce
from atl.core.traversal import children
from atl.errors import IllegalMark
from lowering.instructions import instruction_named
from lowering.instructions.dispatch import CANDIDATE, Place, before_calls, places_in
from lowering.pipeline import lower
from rewrites.cursors.cursor import Cursor
from rewrites.cursors.targets import every
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply
from rewrites.tactics import arg
from rewrites.tactics.tactic import tactic

SMALL_COPY: Final = 256
"""Least constant number of elements of a copy that `dispatch` marks without being asked for this loop."""


@tactic
def call(work: Derivation, instruction: arg.InstructionName, *, at: arg.Loop | None = None) -> None:
    """Compute loops by an instruction: ⊞[i < n] ⊞[j < m] Σ[p < k] … → ⊞[i < n] ⊞[j < m] Σ[p < k | call sgemm] …

    `at` selects the sum, or the innermost loop of a copy; without it, every loop that the instruction computes is
    marked. The mark does not change the meaning, so this is not a proof step. Raises `DoesNotApply` if the loops are
    not those of the instruction, with the index, stride or size that differs.

    >>> s = reschedule(atl.parse(
    ...     "f (A : float32[2*n, k], B : float32[k, m]) : float32[n, m] "
    ...     ":= ⊞[i < n] ⊞[j < m] Σ[p < k] A[2*i, p] * B[p, j]"))
    >>> s.call("sgemm", at="p")
    f (A : float32[2*n, k], B : float32[k, m]) : float32[n, m] :=
      ⊞[i < n] ⊞[j < m] Σ[p < k | call sgemm] A[2*i, p] * B[p, j]
    -- p: sgemm computes the loops i, j, p
    """
    name = instruction_named(instruction).name
    places = _places(work, at)
    fitting = {place.binder: name for place in places if any(fit.name == name for fit in place.fits)}
    _mark(work, places, fitting)
    if not fitting:
        raise DoesNotApply(
            f"{name} does not compute {'any loop' if at is None else at}",
            required="; ".join(
                dict.fromkeys(f"{p.name}: {p.refused[name].reason}" for p in places if name in p.refused)
            )
            or f"an instruction of CPUs: {name} is for {instruction_named(name).target}",
            suggestions=tuple(
                dict.fromkeys(each for p in places if name in p.refused for each in p.refused[name].suggestions)
            ),
        )


@tactic
def dispatch(work: Derivation, at: arg.Loop | None = None) -> None:
    """Compute loops by the instruction that covers most operations: Σ[p < k] … → Σ[p < k | call sgemm] …

    All declared instructions of CPUs are tried: for the selected loop, or for every sum, and every copy of rows that
    are not the small rows of a tile. Notes name the instruction of each loop, or the closest refusal with the index,
    stride or size that differs; these loops remain. The mark does not change the meaning, so this is not a proof step.
    Raises `DoesNotApply` if no instruction fits; for a selected loop, it lists all refusals.

    >>> s = reschedule(atl.parse(
    ...     "f (A : float64[n, k], x : float64[k]) : float64[n] := ⊞[i < n] Σ[p < k] A[i, p] * x[p]"))
    >>> s.dispatch()
    f (A : float64[n, k], x : float64[k]) : float64[n] :=
      ⊞[i < n] Σ[p < k | call dgemv] A[i, p] * x[p]
    -- p: dgemv computes the loops i, p
    """
    places = _places(work, at, small=at is not None)
    chosen = {place.binder: place.fits[0].name for place in places if place.fits}
    _mark(work, places, chosen)
    for place in places:
        if place.binder not in chosen:
            work.notes.append(f"{place.name}: no instruction fits. {place.closest_refusal}")
    if not chosen:
        if at is None:
            required = "\n".join(dict.fromkeys(f"{place.name}: {place.closest_refusal}" for place in places))
        else:
            required = "\n".join(f"{place.name}: one of these\n{place.refusals}" for place in places)
        raise DoesNotApply(
            f"no instruction computes {'a loop of this program' if at is None else at}",
            required=required or f"a sum, or a loop that copies {SMALL_COPY} elements or more",
            suggestions=tuple(dict.fromkeys(each for place in places for each in place.closest.suggestions)),
        )


def _places(work: Derivation, at: arg.Loop | None, *, small: bool = True) -> list[Place]:
    """Match all instructions with the selected loops, or with all sums and copies that have no mark.

    Copies of tiles are left out unless `small`.
    """
    selected = list(work.cursors() if at is None else every(work.goal, at))
    candidates = [cursor for cursor in selected if _is_candidate(cursor) and (small or not _is_small(cursor))]
    if at is not None and not candidates:
        raise DoesNotApply(
            f"{at} is not a sum, nor the innermost loop of a copy, without a mark",
            required="a sum, or a loop directly around an element",
        )
    before = work.checkpoint
    for cursor in candidates:
        work.mark(cursor.path, CANDIDATE)
    nest = before_calls(work.goal)
    work.rollback(before)
    return list(places_in(nest))


def _is_candidate(cursor: Cursor) -> bool:
    match cursor.term:
        case Reduce("sum", mark=mark) if not cursor.term.type.shape:
            return mark is LoopMark.NONE or isinstance(mark, CallMark)
        case Gen(body=body, mark=mark) if not body.type.shape:
            return (mark is LoopMark.NONE or isinstance(mark, CallMark)) and not any(_has_loop(body))
        case _:
            return False


def _is_small(cursor: Cursor) -> bool:
    """Return whether a loop computes the elements of a tile: a small constant number, or one that varies by tile."""
    _, low, high = cursor.loop
    count = (high - low).constant
    in_tile = any(isinstance(atom, Var) for atom in atoms(high - low))
    return isinstance(cursor.term, Gen) and (in_tile or (count is not None and count < SMALL_COPY))


def _has_loop(term: Expr) -> Iterator[bool]:
    yield isinstance(term, Gen | Reduce)
    for child in children(term):
        yield from _has_loop(child.expr)


def _mark(work: Derivation, places: list[Place], chosen: dict[tuple[int, ...], str]) -> None:
    """Mark the chosen loops, and remove from `chosen` those that are refused when the whole program is lowered."""
    before = work.checkpoint
    for path, name in chosen.items():
        work.mark(path, CallMark(name))
    if not chosen or _is_legal(work):
        pass
    else:
        work.rollback(before)
        for path, name in list(chosen.items()):
            saved = work.checkpoint
            work.mark(path, CallMark(name))
            if not _is_legal(work):
                work.rollback(saved)
                del chosen[path]
    for place in places:
        if place.binder in chosen:
            fit = next(fit for fit in place.fits if fit.name == chosen[place.binder])
            loops = f"loop{'s' * (len(fit.loops) > 1)} {', '.join(fit.loops)}"
            work.notes.append(f"{place.name}: {fit.name} computes the {loops}")


def _is_legal(work: Derivation) -> bool:
    try:
        lower(work.goal)
    except IllegalMark:
        return False
    return True
