"""The truncations of a program, each with its proof obligation: only padding is cut."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from atl.checks.scope import Scope, outermost, parts_in_scope
from atl.core import terms
from atl.core.index import index
from atl.core.predicate import FALSE, Predicate, conjunction, negation
from atl.core.program import Program, checked_program
from atl.core.reshape_definitions import kept
from atl.core.substitution import map_op
from atl.core.traversal import Path
from atl.prove import Answer, Facts, prove
from padtypes.padset import Case, PadSet, pad_set


@dataclass(frozen=True, slots=True)
class Truncation:
    """A truncation of a program: its path, its operator, and the pad-set of its operand."""

    path: Path
    op: terms.TruncateLeft | terms.TruncateRight
    operand: PadSet

    @property
    def cut(self) -> Predicate:
        """The condition that an element of the operand is cut."""
        keeps = kept(self.op, self.operand.shape[0], index(self.operand.elements[0]))
        return conjunction((self.operand.within_shape, negation(keeps)))

    def facts(self, case: Case) -> Facts:
        """Return the facts about a cut element of this case; if they are contradictory, no element is cut."""
        return self.operand.scope.facts.assume(self.cut, case.given())

    def decide(self, case: Case) -> Answer:
        """Decide whether no element of this case is cut."""
        return prove(self.facts(case), FALSE)


def truncations(program: Program) -> Iterator[Truncation]:
    """Yield every truncation of a program, outermost first."""
    checked_program(program)
    for path, at, scope in parts_in_scope(program.body, outermost(program)):
        found = truncation_at(at, scope, path)
        if found is not None:
            yield found


def truncation_at(e: terms.Expr, scope: Scope, path: Path = ()) -> Truncation | None:
    """Return the term as a truncation; None if it is not one."""
    if not isinstance(e, terms.Reshape):
        return None
    op = map_op(e.op, scope.index)
    match op:
        case terms.TruncateLeft() | terms.TruncateRight():
            return Truncation(path, op, pad_set(e.operand, scope))
        case terms.Transpose() | terms.Flatten() | terms.Split() | terms.PadLeft() | terms.PadRight() | terms.Place():
            return None  # no element is cut
        case _:
            assert_never(op)
