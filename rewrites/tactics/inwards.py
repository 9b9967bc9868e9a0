"""What is read of an operand, and conditions on their way from the guards around a product to it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import assert_never

from atl.core.predicate import Predicate, conjunction, conjuncts, substitute
from atl.core.substitution import free_positions
from atl.core.terms import (
    Access,
    Binary,
    Cast,
    Concat,
    Constant,
    Expr,
    Gen,
    Guard,
    Input,
    Let,
    Local,
    Metavariable,
    Padding,
    Place,
    Reduce,
    Reshape,
    Select,
    TensorVar,
    Unary,
    Value,
)
from atl.core.traversal import Path
from atl.text.printing import place_of
from rewrites.cursors.cursor import Cursor
from rewrites.cursors.targets import Target, chosen, nothing_chosen
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply
from rewrites.tactics.nests.guards import used_positions
from rewrites.tactics.storage.binding import binders_between
from rewrites.tactics.storage.staging import loops_between, raised

# -- what is read -----------------------------------------------------------------------------------------------------


def reads_of(work: Derivation, what: Target, below: Path) -> list[Cursor]:
    """The elements of the operand that are read below a place, but those that are copied to a buffer already."""
    meant = list(chosen(work.goal, what, top_down=True))
    if not meant:
        raise nothing_chosen(work.goal, what, operand=True)
    operands = [use for cursor in meant for use in (_uses(work, cursor) if isinstance(cursor.term, Let) else (cursor,))]
    elements = [_element(cursor) for cursor in operands]
    inside = [cursor for cursor in elements if cursor.path[: len(below)] == below]
    scalars = [cursor for cursor in inside if not cursor.term.type.rank and not _copied(cursor)]
    if not scalars:
        raise DoesNotApply(
            f"{what} is not read there, one element at a time" + (", but for copying it" if inside else ""),
            place=place_of(work.goal, (inside or elements or meant)[0].path),
            required="an input, a let, or a pattern of an element of one, read inside of loops",
        )
    return scalars


def _uses(work: Derivation, let: Cursor) -> Iterator[Cursor]:
    """Where the tensor of a let is used."""
    body = (*let.path, 1)
    for cursor in work.cursors(body, top_down=True):
        if isinstance(cursor.term, Local):
            _, tensors = binders_between(work.term(body), cursor.path[len(body) :])
            if cursor.term.position == tensors:
                yield cursor


def _element(cursor: Cursor) -> Cursor:
    """The access by which an element of a tensor is read, or what of it is read."""
    while cursor.above is not None and isinstance(cursor.above.term, Access) and cursor.path[-1] == 0:
        cursor = cursor.above
    return cursor


def _copied(cursor: Cursor) -> bool:
    """Whether a value is all that an element of a let is."""
    while cursor.above is not None and isinstance(cursor.above.term, Gen | Guard):
        cursor = cursor.above
    return cursor.above is not None and isinstance(cursor.above.term, Let) and cursor.path[-1] == 0


def operand_called(read: Cursor) -> str:
    """The name of the operand of which an element is read."""
    term = read.term
    while isinstance(term, Access):
        term = term.tensor
    match term:
        case Input(array):
            return array.name
        case Local(position):
            return read.names.of_tensor(position)
        case _:
            return "operand"


# -- conditions on their way inwards ----------------------------------------------------------------------------------


class Inwards:
    """Conditions on their way from the guards around a product to the operand; `gone` are to leave those guards.

    Conditions are told apart by how they are written where the operand stands. Through additions they go only if
    `addends` says so, for the other addend has them too then.
    """

    def __init__(
        self, work: Derivation, read: Path, above: Path, gone: Collection[Predicate], *, addends: bool = False
    ) -> None:
        self.work = work
        self.read = read
        self.above = above
        self.gone = gone
        self.addends = addends
        self.between = {position for position, _, _ in loops_between(work, read, above)}
        self.inside = free_positions(work.term(read))[0]
        self.below = [binders_between(work.term(read[:length]), read[length:])[0] for length in range(len(read) + 1)]

    def own(self) -> list[Predicate]:
        """The conditions around the product that speak of loops of the operand only."""
        found: list[Predicate] = []
        for length in range(len(self._top()), len(self.read)):
            term = self.work.term(self.read[:length])
            if isinstance(term, Guard):
                found += [
                    at for part in conjuncts(term.predicate) if self._is_own(at := self._at_operand(part, length))
                ]
        return list(dict.fromkeys(found))

    def moved(self) -> Path:
        """Moves them. The place of the guard in which they then stand, or of the operand if there are none."""
        at, rest, carried = self._top(), self.read[len(self._top()) :], False
        while rest:
            around = (*at, 0) if carried else at
            term = self.work.term(around)
            if isinstance(term, Guard):
                at, carried = self._divided(at, len(self.read) - len(rest), carried=carried)
            else:
                at = self._through(at, term, rest[0]) if carried else (*at, rest[0])
            rest = rest[1:]
        return at

    def _top(self) -> Path:
        """The highest place from which conditions may move to the operand."""
        path = self.read
        while len(path) > len(self.above) and self._lets_through(path[:-1], path[-1]):
            path = path[:-1]
        return path

    def _at_operand(self, part: Predicate, length: int) -> Predicate:
        """A condition of the guard at this length of the operand's path, as it is written at the operand."""
        return substitute(part, partial(raised, self.below[length]))

    def _is_own(self, part: Predicate) -> bool:
        used = used_positions(part) & self.between
        return bool(used) and used <= self.inside

    def _divided(self, at: Path, length: int, *, carried: bool) -> tuple[Path, bool]:
        """[p ∧ q] · e → [p] · [q] · e; what was carried to this guard goes on. Where the inner one stands, if any."""
        brought: tuple[Predicate, ...] = ()
        if carried:
            outer = self.work.term(at)
            assert isinstance(outer, Guard)
            brought = conjuncts(outer.predicate)
            self.work.rewrite("guard_guard", at)
        guard = self.work.term(at)
        assert isinstance(guard, Guard)
        parts = [part for part in conjuncts(guard.predicate) if part not in brought]
        stay = [part for part in parts if self._at_operand(part, length) not in self.gone]
        go = [*brought, *(part for part in parts if self._is_own(self._at_operand(part, length)))]
        if not go:
            return (*at, 0), False
        together = conjunction((*stay, *go))
        if together != guard.predicate:
            self.work.rewrite("guard_equivalent", at, q=together)
        if not stay:
            return at, True
        self.work.rewrite("guard_guard", at, reverse=True, p=conjunction(stay), q=conjunction(go))
        return (*at, 0), True

    def _through(self, at: Path, term: Expr, side: int) -> Path:
        """Moves the guard at a place into what stands there, towards one side. Where it stands then."""
        way = _way_in(term, side, addends=self.addends)
        assert way is not None
        self.work.rewrite(way.rule, at, reverse=way.reverse)
        return (*at, side)

    def _lets_through(self, around: Path, side: int) -> bool:
        """Whether a guard around a term may stand around this part of it instead, or joins it there."""
        term = self.work.term(around)
        return isinstance(term, Guard) or _way_in(term, side, addends=self.addends) is not None


@dataclass(frozen=True, slots=True)
class _Way:
    """The rule by which a guard goes from around a term to around a part of it."""

    rule: str
    reverse: bool = False


def _way_in(around: Expr, side: int, *, addends: bool) -> _Way | None:
    """How a guard around a term comes to stand around this part of it instead, if it may."""
    match around:
        case Gen():
            return _Way("guard_gen")
        case Reduce("sum"):
            return _Way("sum_guard")
        case Let() if side == 1:
            return _Way("ll_guard")
        case Binary("mul"):
            return _Way("guard_mul_left" if side == 0 else "guard_mul_right", reverse=True)
        case Binary("div") if side == 0:
            return _Way("guard_div_left", reverse=True)
        case Binary("add" | "sub" as op) if addends:
            return _Way(f"guard_{op}")
        case Unary("neg"):
            return _Way("guard_neg")
        case Reduce() | Let() | Binary() | Unary() | Guard():
            return None
        case Access() | Cast() | Concat() | Place() | Reshape() | Select():
            return None
        case Constant() | Input() | Local() | Metavariable() | Padding() | TensorVar() | Value():
            return None
        case _:
            assert_never(around)
