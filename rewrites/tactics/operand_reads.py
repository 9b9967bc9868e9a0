"""Reads of an operand, and moving guard conditions inward from a product to the operand."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import assert_never

from atl.core import terms
from atl.core.dtypes import STORED
from atl.core.predicate import Predicate, conjunction, conjuncts, substitute
from atl.core.substitution import free_positions
from atl.core.traversal import Path
from atl.text.printing import place_of
from rewrites.cursors.cursor import Cursor
from rewrites.cursors.targets import Target, chosen, nothing_chosen
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply
from rewrites.named_operators import operation_name
from rewrites.tactics.nests.guards import used_positions
from rewrites.tactics.storage.binding import binders_between
from rewrites.tactics.storage.staging import loops_between, raised

# -- reads ------------------------------------------------------------------------------------------------------------


def reads_of(work: Derivation, what: Target, below: Path, *, converted: bool = True) -> list[Cursor]:
    """Return the elements of the operand that are read below a place, except those that only fill a buffer.

    With `converted`, an element of a type that is only stored is returned with the conversion around it, if any.
    """
    meant = list(chosen(work.goal, what, top_down=True))
    if not meant:
        raise nothing_chosen(work.goal, what, operand=True)
    operands = [
        use
        for cursor in meant
        for use in (_uses(work, cursor) if isinstance(cursor.term, terms.Let | terms.Rec) else (cursor,))
    ]
    elements = [_element(cursor, converted=converted) for cursor in operands]
    inside = [cursor for cursor in elements if cursor.path[: len(below)] == below]
    scalars = [cursor for cursor in inside if not cursor.term.type.rank and not _copied(cursor)]
    if not scalars:
        raise DoesNotApply(
            f"no element of {what} is read there" + (", except to copy it" if inside else ""),
            place=place_of(work.goal, (inside or elements or meant)[0].path),
            required="an input, a let, or a pattern of an element, read inside loops",
        )
    return scalars


def _uses(work: Derivation, binder: Cursor) -> Iterator[Cursor]:
    """Yield the uses of the tensor of a let, or of a recurrence."""
    body = (*binder.path, 1)
    for cursor in work.cursors(body, top_down=True):
        if isinstance(cursor.term, terms.Local):
            _, tensors = binders_between(work.term(body), cursor.path[len(body) :])
            if cursor.term.position == tensors:
                yield cursor


def _element(cursor: Cursor, *, converted: bool) -> Cursor:
    """Return the access that reads an element of a tensor, or the conversion around it."""
    while cursor.above is not None and isinstance(cursor.above.term, terms.Access) and cursor.path[-1] == 0:
        cursor = cursor.above
    is_stored = converted and not cursor.term.type.rank and cursor.term.type.dtype in STORED
    if is_stored and cursor.above is not None and isinstance(cursor.above.term, terms.Cast):
        return cursor.above
    return cursor


def _copied(cursor: Cursor) -> bool:
    """Return True if the element is the whole value of a let's element, so that the let is a copy."""
    while cursor.above is not None and isinstance(cursor.above.term, terms.Gen | terms.Guard):
        cursor = cursor.above
    return cursor.above is not None and isinstance(cursor.above.term, terms.Let) and cursor.path[-1] == 0


def operand_name(read: Cursor) -> str:
    """Return the name of the operand of which an element is read."""
    term = read.term
    while isinstance(term, terms.Access | terms.Cast):
        term = term.tensor if isinstance(term, terms.Access) else term.operand
    match term:
        case terms.Input(array):
            return array.name
        case terms.Local(position):
            return read.names.of_tensor(position)
        case _:
            return "operand"


# -- moving guards inward ---------------------------------------------------------------------------------------------


class GuardMover:
    """Moves conditions from the guards around a product to an operand; `dropped` ones are removed from the outer
    guards.

    Conditions are compared as written at the operand. They move through additions only if `addends` is true, since then
    the other addend gets them too.
    """

    def __init__(
        self, work: Derivation, read: Path, above: Path, dropped: Collection[Predicate], *, addends: bool = False
    ) -> None:
        self.work = work
        self.read = read
        self.above = above
        self.dropped = dropped
        self.addends = addends
        self.between = {position for position, _, _ in loops_between(work, read, above)}
        self.inside = free_positions(work.term(read))[0]
        self.below = [binders_between(work.term(read[:length]), read[length:])[0] for length in range(len(read) + 1)]

    def operand_conditions(self) -> list[Predicate]:
        """Return the conditions around the product that depend only on loops of the operand."""
        found: list[Predicate] = []
        for length in range(len(self._top()), len(self.read)):
            term = self.work.term(self.read[:length])
            if isinstance(term, terms.Guard):
                found += [
                    at
                    for part in conjuncts(term.predicate)
                    if self._is_operand_condition(at := self._at_operand(part, length))
                ]
        return list(dict.fromkeys(found))

    def move(self) -> Path:
        """Move the conditions; return the path of the guard at the operand, or of the operand if there are none."""
        at, rest, carried = self._top(), self.read[len(self._top()) :], False
        while rest:
            around = (*at, 0) if carried else at
            term = self.work.term(around)
            if isinstance(term, terms.Guard):
                at, carried = self._divided(at, len(self.read) - len(rest), carried=carried)
            else:
                at = self._through(at, term, rest[0]) if carried else (*at, rest[0])
            rest = rest[1:]
        return at

    def _top(self) -> Path:
        """Return the highest place from which conditions can move to the operand."""
        path = self.read
        while len(path) > len(self.above) and self._may_pass(path[:-1], path[-1]):
            path = path[:-1]
        return path

    def _at_operand(self, part: Predicate, length: int) -> Predicate:
        """Return a condition of the guard at this depth as written at the operand."""
        return substitute(part, partial(raised, self.below[length]))

    def _is_operand_condition(self, part: Predicate) -> bool:
        used = used_positions(part) & self.between
        return bool(used) and used <= self.inside

    def _divided(self, at: Path, length: int, *, carried: bool) -> tuple[Path, bool]:
        """Split a guard, [p ∧ q] · e → [p] · [q] · e, and merge the conditions moved so far into q.

        Returns the path of the inner guard, if any, and whether there is one.
        """
        brought: tuple[Predicate, ...] = ()
        if carried:
            outer = self.work.term(at)
            assert isinstance(outer, terms.Guard)
            brought = conjuncts(outer.predicate)
            self.work.rewrite("guard_guard", at)
        guard = self.work.term(at)
        assert isinstance(guard, terms.Guard)
        parts = [part for part in conjuncts(guard.predicate) if part not in brought]
        stay = [part for part in parts if self._at_operand(part, length) not in self.dropped]
        go = [*brought, *(part for part in parts if self._is_operand_condition(self._at_operand(part, length)))]
        if not go:
            return (*at, 0), False
        together = conjunction((*stay, *go))
        if together != guard.predicate:
            self.work.rewrite("guard_equivalent", at, q=together)
        if not stay:
            return at, True
        self.work.rewrite("guard_guard", at, reverse=True, p=conjunction(stay), q=conjunction(go))
        return (*at, 0), True

    def _through(self, at: Path, term: terms.Expr, side: int) -> Path:
        """Move the guard at a path into one side of the node below it; return its new path."""
        way = _inward_rule(term, side, addends=self.addends)
        assert way is not None
        self.work.rewrite(way.rule, at, reverse=way.reverse)
        return (*at, side)

    def _may_pass(self, around: Path, side: int) -> bool:
        """Return True if a guard around a node can move to, or merge at, this child."""
        term = self.work.term(around)
        return isinstance(term, terms.Guard) or _inward_rule(term, side, addends=self.addends) is not None


@dataclass(frozen=True, slots=True)
class _InwardRule:
    """The rule that moves a guard from a node to one of its children."""

    rule: str
    reverse: bool = False


def _inward_rule(around: terms.Expr, side: int, *, addends: bool) -> _InwardRule | None:
    """Return the rule that moves a guard from a node to this child, if there is one."""
    match around:
        case terms.Gen():
            return _InwardRule("guard_gen")
        case terms.Reduce("sum"):
            return _InwardRule("sum_guard")
        case terms.Let() if side == 1:
            return _InwardRule("ll_guard")
        case terms.Binary("mul"):
            return _InwardRule("guard_mul_left" if side == 0 else "guard_mul_right", reverse=True)
        case terms.Binary("div") if side == 0:
            return _InwardRule("guard_div_left", reverse=True)
        case terms.Binary("add" | "sub" as op) if addends:
            return _InwardRule(f"guard_{op}")
        case terms.Unary("neg") | terms.Cast():
            return _InwardRule(f"guard_{operation_name(around)}")
        case terms.Reduce() | terms.Rec() | terms.Let() | terms.Binary() | terms.Unary() | terms.Guard():
            return None
        case terms.Access() | terms.Concat() | terms.Place() | terms.Reshape() | terms.Select() | terms.Where():
            return None
        case terms.Number() | terms.Named() | terms.Padding():
            return None
        case _:
            assert_never(around)
