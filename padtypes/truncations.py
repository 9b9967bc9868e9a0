"""The truncations of a program, and what has to hold for each to cut only padding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from atl.checks.scope import Scope, outermost, parts_in_scope
from atl.core.index import index
from atl.core.predicate import FALSE, Predicate, conjunction, negation
from atl.core.program import Program, checked_program
from atl.core.reshape_definitions import kept
from atl.core.substitution import map_op
from atl.core.terms import (
    Expr,
    Flatten,
    PadLeft,
    PadRight,
    Place,
    Reshape,
    Split,
    Transpose,
    TruncateLeft,
    TruncateRight,
)
from atl.core.traversal import Path
from atl.prove import Answer, Facts, prove
from padtypes.padset import Case, PadSet, pad_set


@dataclass(frozen=True, slots=True)
class Truncation:
    """A truncation of a program: its path, how many elements of how many it drops, and its operand's pad-set."""

    path: Path
    op: TruncateLeft | TruncateRight
    operand: PadSet

    @property
    def cut(self) -> Predicate:
        """Of an element of the operand, that it is cut."""
        keeps = kept(self.op, self.operand.shape[0], index(self.operand.elements[0]))
        return conjunction((self.operand.within_shape, negation(keeps)))

    def facts(self, case: Case) -> Facts:
        """What is known of an element that is cut and that this case computes; safe, if that is contradictory."""
        return self.operand.scope.facts.assume(self.cut, case.given())

    def decide(self, case: Case) -> Answer:
        return prove(self.facts(case), FALSE)


def truncations(program: Program) -> Iterator[Truncation]:
    """Every truncation of a program, from the outside in."""
    checked_program(program)
    for path, at, scope in parts_in_scope(program.body, outermost(program)):
        found = truncation_at(at, scope, path)
        if found is not None:
            yield found


def truncation_at(e: Expr, scope: Scope, path: Path = ()) -> Truncation | None:
    """The truncation that stands at this place, if one does."""
    if not isinstance(e, Reshape):
        return None
    op = map_op(e.op, scope.index)
    match op:
        case TruncateLeft() | TruncateRight():
            return Truncation(path, op, pad_set(e.operand, scope))
        case Transpose() | Flatten() | Split() | PadLeft() | PadRight() | Place():
            return None  # no element is cut
        case _:
            assert_never(op)
