"""The normal form before lowering (§4.3.2, E32): scalar arithmetic in loops, reduced accesses, lifted lets."""

from __future__ import annotations

from typing import Final

from atl.core.operations import BINARY
from atl.core.terms import Binary, Cast, Expr, Guard, Let, Reduce, Unary
from atl.core.traversal import Path, children
from rewrites.derivation import Derivation
from rewrites.named_operators import FUNCTIONS
from rewrites.tactics.simplification import OF_ACCESSES, simplify_guards
from rewrites.tactics.storage.binding import bind, first_path
from rewrites.tactics.tactic import tactic

POINTWISE: Final = (*(f"pointwise_{op}" for op in (*BINARY, *FUNCTIONS)), "pointwise_select", "pointwise_where")
MAX_LETS: Final = 200


@tactic
def normalize(work: Derivation) -> None:
    """Normalize the goal to the form of loop nests: a + b → ⊞[i < n] a[i] + b[i] for tensors.

    (⊞[i < n] e)[k] → e[k]; [p] · [q] · e → [p ∧ q] · e. A let inside arithmetic is lifted out of it. A guarded scalar
    or sum that is multiplied is bound: ([p] · a) * b → let x := [p] · a in x * b.

    >>> s = reschedule(atl.parse(
    ...     "f (x : float32[n], y : float32[n]) : float32[n] "
    ...     ":= (⊞[i < n] 2 * x[i]) + (⊞[i < n] y[i])"))
    >>> s.normalize()
    f (x : float32[n], y : float32[n]) : float32[n] :=
      ⊞[i < n] 2 * x[i] + y[i]
    """
    work.repeat(work.known((*POINTWISE, *OF_ACCESSES, "guard_guard", "let_let")))
    simplify_guards(work)
    for _ in range(MAX_LETS):
        found = _in_arithmetic(work.goal.body, (), None)
        if found is None:
            break
        statement, path = found
        if isinstance(work.term(path), Let):
            _lift(work, statement, path)
        else:
            bind(work, statement, path[len(statement) :], "x")


def _in_arithmetic(term: Expr, path: Path, statement: Path | None) -> tuple[Path, Path] | None:
    """Return a let inside arithmetic, or a guard or reduction below a product or function: the paths of both."""
    if statement is not None and not term.type.rank:
        if isinstance(term, Let):
            return statement, path
        if isinstance(term, Guard | Reduce):
            return (statement, path) if _folded(path, statement) else None
    arithmetic = isinstance(term, Binary | Unary | Cast) and not term.type.rank
    for position, child in enumerate(children(term)):
        below = (*path, position)
        start = (path if statement is None else statement) if arithmetic else None
        if (
            arithmetic
            and isinstance(term, Binary)
            and term.op in ("add", "sub")
            and isinstance(child.expr, Guard | Reduce)
        ):
            start = None
        found = _in_arithmetic(child.expr, below, start)
        if found is not None:
            return found
    return None


def _folded(path: Path, statement: Path) -> bool:
    return len(path) > len(statement)


def _lift(work: Derivation, statement: Path, path: Path) -> None:
    """Lift a let out of arithmetic."""
    at = work.term(path)
    assert isinstance(at, Let)
    name, value, mark = at.name, at.value, at.mark
    work.rewrite("unfold_let", path)
    use = first_path(work.term(path), value, path)
    if use is not None:
        bind(work, statement, use[len(statement) :], name, mark)
