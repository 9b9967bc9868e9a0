"""Sharing: what a gradient computes in several places or iterations is bound to a let, by rules.

Rules for pairings put the same operand into several contributions, and loops into which it moves do not change it. A
let is introduced only if it lowers the number of operations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from atl.checks.safety import unsafe_accesses
from atl.core import terms
from atl.core.program import Program
from atl.core.substitution import free_positions, shift_term
from atl.core.terms import Expr
from atl.core.traversal import Path, children, subterm
from atl.errors import ATLError
from gradients.pairings import is_read
from lowering.timing.operations import operations
from rewrites.derivation import Derivation
from rewrites.egraph.equality import replace_at
from rewrites.rule_statement import MAX_ELEMENT_RANK
from rewrites.tactics.storage.binding import bind, parts_of_let

SHARED: Final = "v"
"""The name of lets that are introduced."""
EXTENT: Final = 8
"""The value of each size for which operations are counted: the longest loop of which every iteration is counted."""
LEAST: Final = 1 / 16
"""The part of all operations that a let must save.

The memory traffic of a stored value is not counted, so a smaller saving may be a loss. This is an estimate.
"""
MOST: Final = 16
"""Maximum number of lets, which bounds the time of a derivation: all candidates are counted for each let."""


@dataclass(frozen=True)
class _Shared:
    """A subterm at a path, with a place around it where a let can bind it, and its value at that place."""

    place: Path
    inner: Path
    value: Expr


def share(work: Derivation, name: str = SHARED) -> None:
    """Bind subterms to lets, first the one that saves most, as long as each saves a part of all operations.

    >>> import atl
    >>> from rewrites import reschedule
    >>> work = reschedule(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] exp(x[i]) * exp(x[i])")).begin()
    >>> share(work)
    >>> work.goal
    f (x : float32[n]) : float32[n] :=
      ⊞[i < n] let v := exp(x[i]) in v * v
    """
    refused: set[tuple[Path, Expr]] = set()
    now = _count(work.goal)
    for _ in range(MOST):
        best: tuple[float, _Shared] | None = None
        for each in _candidates(work.goal.body, refused):
            after = _count(replace(work.goal, body=_bound(work.goal.body, each)))
            saving = 0.0 if isinstance(each.value, terms.Rec) else LEAST * now
            if after <= now - saving and (best is None or after < best[0]):
                best = after, each
        if best is None:
            return
        after, chosen = best
        if _introduced(work, chosen, name):
            now = after
        else:
            refused.add((chosen.place, chosen.value))


def _introduced(work: Derivation, chosen: _Shared, name: str) -> bool:
    """Introduce a let; return whether it could be introduced without making an access unsafe."""
    before, unsafe = work.checkpoint, _unsafe(work.goal)
    try:
        bind(work, chosen.place, chosen.inner, name)
    except ATLError:
        work.rollback(before)
        return False
    if _unsafe(work.goal) > unsafe:
        work.rollback(before)
        return False
    return True


def _unsafe(program: Program) -> int:
    return sum(1 for _ in unsafe_accesses(program))


def _count(program: Program) -> float:
    return operations(program, dict.fromkeys(program.sizes, EXTENT), {})


def _candidates(body: Expr, refused: set[tuple[Path, Expr]]) -> list[_Shared]:
    """Return subterms that compute something in several places or iterations, one for each place and value."""
    found: dict[tuple[Path, Expr], list[_Shared]] = {}
    for path, around in _with_ancestors(body, (), ()):
        term = around[-1]
        if _computes(term) and term.type.rank <= MAX_ELEMENT_RANK:
            each = _outermost_place(path, around)
            found.setdefault((each.place, each.value), []).append(each)
    repeated = [each for key, each in found.items() if key not in refused]
    return [each[0] for each in repeated if len(each) > 1 or _is_in_loop(body, each[0])]


def _computes(e: Expr) -> bool:
    return not is_read(e.operand if isinstance(e, terms.Unary) and e.op == "stop" else e)


def _with_ancestors(e: Expr, path: Path, above: tuple[Expr, ...]) -> Iterator[tuple[Path, tuple[Expr, ...]]]:
    """Yield the path of each subterm, with the terms around it and the subterm itself."""
    around = (*above, e)
    yield path, around
    for position, child in enumerate(children(e)):
        yield from _with_ancestors(child.expr, (*path, position), around)


def _outermost_place(path: Path, around: tuple[Expr, ...]) -> _Shared:
    """Return the outermost place around a subterm to which a let with its value can move.

    No binder between may bind what the value reads. The place of the let is inside of conditions, unless there are
    loops around them: then they are true in some iterations, as a rule, and the value is computed once for all.
    """
    value, place, shifted, conditional = around[-1], path, around[-1], False
    for length in range(len(path) - 1, -1, -1):
        above = around[length]
        child = children(above)[path[length]]
        indices, tensors = free_positions(shifted)
        if indices & set(range(child.indices)) or tensors & set(range(child.tensors)):
            break
        conditional = not child.indices and (conditional or isinstance(above, terms.Guard | terms.Select))
        shifted = shift_term(shifted, -child.indices, -child.tensors)
        if not conditional:
            value, place = shifted, path[:length]
    return _Shared(place, path[len(place) :], value)


def _is_in_loop(body: Expr, each: _Shared) -> bool:
    """Return whether a loop is between a subterm and its place."""
    e = body
    for position in each.place:
        e = children(e)[position].expr
    for position in each.inner:
        child = children(e)[position]
        if child.indices:
            return True
        e = child.expr
    return False


def _bound(body: Expr, each: _Shared) -> Expr:
    """Return a term with the let that binds a subterm."""
    value, inside = parts_of_let(subterm(body, each.place), each.inner)
    return replace_at(body, each.place, terms.Let(value, inside, SHARED))
