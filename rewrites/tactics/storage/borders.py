"""Borders: copying an operand with zeros around it, to replace guards on its reads."""

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
from rewrites.tactics import arg
from rewrites.tactics.loops import first_possible
from rewrites.tactics.nests.guards import lift_guards
from rewrites.tactics.operand_reads import GuardMover, operand_name, reads_of
from rewrites.tactics.storage.binding import check_name
from rewrites.tactics.storage.filled_borders import fill_borders
from rewrites.tactics.storage.staging import repeat_in_folds, stage_below
from rewrites.tactics.tactic import tactic

DroppedCondition: TypeAlias = tuple[int, Predicate]
"""A condition to drop, with the number of the read that it guards."""


@tactic
def pad(work: Derivation, what: arg.Operand, *, at: arg.Around | None = None, name: arg.NewName | None = None) -> None:
    """Copy an operand with a border of zeros, and drop the guards that keep its reads in range (halo padding).

    ⊞[p < n] Σ[r < 3] [p + r < n] · x[p + r] * w[r]  →
    let xp := ⊞[i < n + 2] [i < n] · x[i] in ⊞[p < n] Σ[r < 3] xp[p + r] * w[r]

    The operand is an input or a let, or a pattern of its reads. With `at`, each iteration of that loop copies the part
    it reads; otherwise all of it is copied. A condition is dropped if it only states that the element is in range, and
    if the goal compiles without it, so that no truncation cuts computed values. Around a sum of reads, the condition
    must hold for every addend: it is dropped from [i < n] · (x[i] * a + x[i] * b), but not from a guard around x[i] +
    x[i + 1].

    A border of other values is copied too: of a value selected beyond the ends, such as the neutral element of a
    maximum, or of the element at the end, for clamped indices. In a maximum, minimum or product inside guards, reads
    are clamped first, since the zeros of a border would enter it.

    ⊞[p < n] max[r < 3] select(p + r < n, x[p + r], -1)  →
    let xp := ⊞[i < n + 2] select(i < n, x[i], -1) in ⊞[p < n] max[r < 3] xp[p + r]

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
    called = name or f"{operand_name(reads[0])}p"
    before, blocking = work.checkpoint, diagnostics(work.goal)
    # If there are additions, move conditions through them first, so that the conditions around them are dropped too.
    for addends in (True, False) if any(_around_additions(work, read.path, above) for read in reads) else (False,):
        if _Border(work, what, above, called, addends).made():
            return
        work.rollback(before)
    for read in reads:
        repeat_in_folds(work, read.path, above)
    filled = fill_borders(work, reads_of(work, what, above), above, called)
    made = new_diagnostics(blocking, diagnostics(work.goal)) if filled else []
    if filled and not made:
        return
    work.rollback(before)
    if made:
        raise DoesNotApply(
            f"with a border around {operand_name(reads[0])} the goal would not compile: {made[0].summary}",
            place=place_of(work.goal, reads[0].path),
            required="elements at the border, so that the operand is not empty",
            suggestions=("assume that it has elements: atl.sizes(…, min=1), or reschedule(…, given=[…])",),
        )
    raise DoesNotApply(
        f"no guard around a read of {operand_name(reads[0])} only states that the element is in range",
        place=place_of(work.goal, reads[0].path),
        required="a guard by the range of the operand, around a product with the read or a sum of such products, "
        "that no truncation needs; or, at all reads, the same clamps or the same selection of a value beyond the ends",
        suggestions=("s.stage(…) copies the operand with its guards, s.pack(…) in the order of the loops",),
    )


@dataclass(frozen=True, slots=True)
class _Border:
    """An operand to be copied with a border of zeros; conditions move through additions if `addends` is true."""

    work: Derivation
    what: Target
    above: Path
    called: str
    addends: bool

    def made(self) -> bool:
        """Drop all conditions that can be dropped, and copy the operand; return whether any was dropped."""
        work = self.work
        before, blocking, guards = work.checkpoint, diagnostics(work.goal), _guards(work)

        def without(dropped: Sequence[DroppedCondition]) -> bool:
            work.rollback(before)
            try:
                for number in range(len(reads)):
                    conditions = [condition for at, condition in dropped if at == number]
                    if conditions:
                        # An earlier drop may have moved this read.
                        self._drop(self._reads()[number].path, conditions)
                if self.addends:
                    lift_guards(work, self.above)
                    # Dropping a condition from some addends only does not help.
                    if _guards(work) > guards:
                        return False
                stage_below(work, self.what, self.above, self.called)
            except ATLError:
                return False
            return not new_diagnostics(blocking, diagnostics(work.goal))

        reads = self._reads()
        found = [(number, part) for number, read in enumerate(reads) for part in self._droppable(read.path)]
        if found and without(found):
            return True
        dropped: list[DroppedCondition] = []
        for each in found:
            if without([*dropped, each]):
                dropped.append(each)
        return bool(dropped) and without(dropped)

    def _reads(self) -> list[Cursor]:
        return reads_of(self.work, self.what, self.above)

    def _droppable(self, read: Path) -> list[Predicate]:
        """Return the conditions around a product that hold wherever the element is in range."""
        work = self.work
        before, found = work.checkpoint, []
        for condition in GuardMover(work, read, self.above, (), addends=self.addends).operand_conditions():
            try:
                self._drop(read, [condition])
            except ATLError:
                pass
            else:
                found.append(condition)
            work.rollback(before)
        return found

    def _drop(self, read: Path, dropped: Sequence[Predicate]) -> None:
        """Rewrite [q] · a * x[k] → a * x[k], where q holds for all k in the range of x; elsewhere x[k] is zero."""
        work = self.work
        at = GuardMover(work, read, self.above, dropped, addends=self.addends).move()
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
    """Return True if conditions on a read are around an addition that contains it."""
    within, through = (
        GuardMover(work, read, above, (), addends=addends).operand_conditions() for addends in (False, True)
    )
    return within != through


def _guards(work: Derivation) -> int:
    """Return the number of conditions in guards of the goal."""
    return sum(len(conjuncts(cursor.term.predicate)) for cursor in work.cursors() if isinstance(cursor.term, Guard))


def _guarded_by_range(work: Derivation, path: Path) -> None:
    """Rewrite x[i, j] → [0 <= i < n ∧ 0 <= j < m] · x[i, j], where n and m are the extents of x."""
    work.rewrite("access_guard", path)
    if isinstance(work.term((*path, 0, 0)), Access):
        _guarded_by_range(work, (*path, 0, 0))
        work.rewrite("guard_access", (*path, 0))
        work.rewrite("guard_guard", path)
