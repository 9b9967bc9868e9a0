"""The check of truncations at each store, until pad-sets decide it for a whole program."""

from __future__ import annotations

from atl.errors import UnsafeTruncation
from atl.predicate import Predicate
from atl.printing import show_predicate
from atl.program import Program
from atl.prove import Proved, Refuted, prove
from atl.scope import Scope


def check_kept(program: Program, condition: Predicate, scope: Scope) -> None:
    """Proves that an element stored under truncations is one that they keep, or raises `UnsafeTruncation`."""
    answer = prove(scope.facts, condition)
    if isinstance(answer, Proved):
        return
    known = ", ".join(show_predicate(fact) for fact in scope.facts.predicates)
    raise UnsafeTruncation(
        f"a truncation in {program.name} would cut a computed element"
        if isinstance(answer, Refuted)
        else f"it cannot be proved that every truncation in {program.name} cuts only padding",
        required=f"{show_predicate(condition)}, where {known or 'nothing is known'}",
        numbers=answer.model.numbers if isinstance(answer, Refuted) else None,
        suggestions=("guard the elements that are cut: atl.guard(i < n, e), so that they are padding",),
    )
