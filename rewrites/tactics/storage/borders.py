"""Borders: an operand copied with zeros around it, in the place of guards that keep reads within it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from atl.core.predicate import Predicate, conjuncts
from atl.core.terms import Access, Guard, Let
from atl.core.traversal import Path
from atl.errors import ATLError
from atl.text.printing import place_of
from rewrites.cursors.cursor import Cursor
from rewrites.cursors.targets import Target, chosen
from rewrites.derivation import Derivation
from rewrites.diagnostics import diagnostics, new_diagnostics
from rewrites.errors import DoesNotApply
from rewrites.tactics.inwards import Inwards, operand_called, reads_of
from rewrites.tactics.loops import first_possible
from rewrites.tactics.nests.guards import lift_guards
from rewrites.tactics.storage.binding import check_name
from rewrites.tactics.storage.staging import stage_below

Dropped: TypeAlias = tuple[int, Predicate]
"""A condition that is to go, and the number of the read around which it stands."""


def pad(work: Derivation, what: Target, *, at: Target | None = None, name: str | None = None) -> None:
    """Copies what is read of an operand with zeros around it, so that guards that keep reads within it go.

    ⊞[p < n] Σ[r < 3] [p + r < n] · x[p + r] * w[r]  →
    let xp := ⊞[i < n + 2] [i < n] · x[i] in ⊞[p < n] Σ[r < 3] xp[p + r] * w[r]

    The operand is an input or a let, or a pattern of what is read. Within each iteration of the loop `at` the part that
    is read there is copied, else all of it, with as much around it as is read. A condition goes if it says no more than
    that the element is there, and if the goal compiles without it: no truncation cuts what is computed then. Around a
    sum of what is read, it goes if it says so of every addend: [i < n] · (x[i] * a + x[i] * b), not of x[i] + x[i + 1].

    >>> s = reschedule(atl.parse(
    ...     "f (x : float32[n]) : float32[n] given 2 <= n "
    ...     ":= ⊞[i < n] ([1 <= i] · x[i - 1]) + x[i] + ([i + 1 < n] · x[i + 1])"))
    >>> s.pad("x")
    f (x : float32[n]) : float32[n]
        given 2 <= n :=
      let xp := ⊞[i < n + 2] [1 <= i <= n] · x[i - 1] in
      ⊞[i < n] xp[i] + xp[i + 1] + xp[i + 2]
    -- xp holds n + 2 elements: it grows with n
    """
    check_name(name)
    if at is None:
        lets = [cursor for cursor in chosen(work.goal, what, top_down=True) if isinstance(cursor.term, Let)]
        _pad_below(work, what, (*lets[0].path, 1) if lets else (), name)
    else:
        first_possible(work, at, lambda cursor: _pad_below(work, what, (*cursor.path, 0), name))


def _pad_below(work: Derivation, what: Target, above: Path, name: str | None) -> None:
    reads = reads_of(work, what, above)
    called = name or f"{operand_called(reads[0])}p"
    before = work.checkpoint
    # Through additions first, if any stand on the way: then the conditions around them go as well.
    for addends in (True, False) if any(_around_additions(work, read.path, above) for read in reads) else (False,):
        if _Border(work, what, above, called, addends).made():
            return
        work.rollback(before)
    raise DoesNotApply(
        f"no guard around a read of {operand_called(reads[0])} says only that the element is there",
        place=place_of(work.goal, reads[0].path),
        required="a guard by the range of the operand, around a product of what is read, or a sum of such products, "
        "that no truncation needs",
        suggestions=("s.stage(…) copies what is read as it is guarded, s.pack(…) in the order of the loops",),
    )


@dataclass(frozen=True, slots=True)
class _Border:
    """An operand that is to be copied with zeros around it; conditions go through additions if `addends` says so."""

    work: Derivation
    what: Target
    above: Path
    called: str
    addends: bool

    def made(self) -> bool:
        """Drops all the conditions that can go, and copies; says whether there are any."""
        work = self.work
        before, in_the_way, guards = work.checkpoint, diagnostics(work.goal), _guards(work)

        def without(gone: Sequence[Dropped]) -> bool:
            work.rollback(before)
            try:
                for number in range(len(reads)):
                    conditions = [condition for at, condition in gone if at == number]
                    if conditions:
                        # What was dropped before may have moved this one.
                        self._drop(self._reads()[number].path, conditions)
                if self.addends:
                    lift_guards(work, self.above)
                    # Some addends without a condition are worth nothing while others have it still.
                    if _guards(work) > guards:
                        return False
                stage_below(work, self.what, self.above, self.called)
            except ATLError:
                return False
            return not new_diagnostics(in_the_way, diagnostics(work.goal))

        reads = self._reads()
        found = [(number, part) for number, read in enumerate(reads) for part in self._droppable(read.path)]
        if found and without(found):
            return True
        gone: list[Dropped] = []
        for each in found:
            if without([*gone, each]):
                gone.append(each)
        return bool(gone) and without(gone)

    def _reads(self) -> list[Cursor]:
        return reads_of(self.work, self.what, self.above)

    def _droppable(self, read: Path) -> list[Predicate]:
        """The conditions around a product each of which holds wherever the element that is read is there."""
        work = self.work
        before, found = work.checkpoint, []
        for condition in Inwards(work, read, self.above, (), addends=self.addends).own():
            try:
                self._drop(read, [condition])
            except ATLError:
                pass
            else:
                found.append(condition)
            work.rollback(before)
        return found

    def _drop(self, read: Path, gone: Sequence[Predicate]) -> None:
        """[q] · a * x[k] → a * x[k], where q holds for all k of the range of x: elsewhere x[k] is zero."""
        work = self.work
        at = Inwards(work, read, self.above, gone, addends=self.addends).moved()
        element, start = (*at, 0), work.taken
        _guarded_by_range(work, element)
        there = [theorem.steps[-1] for theorem in work.theorems[start + 1 :]]
        within = work.term(element)
        assert isinstance(within, Guard)
        work.rewrite("guard_guard", at)
        work.rewrite("guard_equivalent", at, q=within.predicate)
        for step in reversed(there):
            below = (*at, *step.path[len(element) :])
            work.apply(step.rule, below, step.arguments, reverse=not step.reverse)


def _around_additions(work: Derivation, read: Path, above: Path) -> bool:
    """Whether conditions that speak of a read stand around an addition of which it is an addend."""
    within, through = (Inwards(work, read, above, (), addends=addends).own() for addends in (False, True))
    return within != through


def _guards(work: Derivation) -> int:
    """How many conditions stand in guards of the goal."""
    return sum(len(conjuncts(cursor.term.predicate)) for cursor in work.cursors() if isinstance(cursor.term, Guard))


def _guarded_by_range(work: Derivation, path: Path) -> None:
    """x[i, j] → [0 <= i < n ∧ 0 <= j < m] · x[i, j], where the extents of x are n and m."""
    work.rewrite("access_guard", path)
    if isinstance(work.term((*path, 0, 0)), Access):
        _guarded_by_range(work, (*path, 0, 0))
        work.rewrite("guard_access", (*path, 0))
        work.rewrite("guard_guard", path)
