"""Recurrences: closed forms of their rows, proved by induction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from atl.core.substitution import free_positions
from atl.core.terms import MONOIDS, Expr, Gen, Rec, Reduce
from atl.errors import ATLError, InvalidArgument, brief
from rewrites import kernel
from rewrites.cursors.cursor import Cursor
from rewrites.cursors.targets import Target, every
from rewrites.derivation import Derivation, argument_of
from rewrites.errors import DoesNotApply, NotATheorem, NotFound
from rewrites.induction import ROWS, Goal, arguments_for
from rewrites.kernel import Theorem, reflexivity, symmetry, transitivity
from rewrites.rule_arguments import Argument, Function
from rewrites.tactics import arg
from rewrites.tactics.simplification import reduce_accesses, simplify_guards
from rewrites.tactics.tactic import tactic

ONE_TERM: Final = (
    "gen_one",
    "rec_empty",
    "rec_one",
    *(f"{monoid}_{of}" for monoid in MONOIDS for of in ("one", "empty")),
)
"""Rules for loops without iterations, and for those of one iteration."""
MOST_SWEEPS: Final = 10


@tactic
def induct(
    work: Derivation,
    rows: arg.Recurrence,
    formula: Callable[..., Any],
    *,
    base: Theorem | None = None,
    step: Theorem | None = None,
) -> None:
    """Replace a recurrence by a formula for its rows, proved by induction: rec[lo <= p < n] y … → ⊞[p < n] f(p).

    `rows` names the recurrence or its tensor, and `formula` is a function of an index. Two equations are proved. The
    first rows are those of the formula (`base`), and the body makes row p of the formula from its p rows before
    (`step`). Where the search finds no proof, pass a theorem with the two sides that `s.induction_goals` returns.

    Raises `NotFound` with the equation that was not proved, and with numbers if it is false.

    >>> s = reschedule(atl.parse(
    ...     "prefix (x : float32[n]) : float32[n] given 1 <= n "
    ...     ":= rec[1 <= p < n] y from ⊞[i < 1] x[i] in y[p - 1] + x[p]"))
    >>> x = atl.tensor("x", atl.sizes("n"))
    >>> s.induct("y", lambda p: atl.sum(p + 1, lambda k: x[k]))
    prefix (x : float32[n]) : float32[n]
        given 1 <= n :=
      ⊞[p < n] Σ[k < p + 1] x[k]
    """
    cursor, arguments = recurrence_with(work, rows, formula)
    goals = kernel.induction_goals(work.theorem, cursor.path, arguments)
    proved = [
        _proved(name, goal, work) if given is None else _checked(name, goal, given)
        for name, goal, given in zip(("base", "step"), goals, (base, step), strict=True)
    ]
    assert isinstance(cursor.term, Rec)
    name = cursor.term.name
    work.induction(cursor.path, arguments, *proved)
    work.rename(cursor.path, name)


def induction_goals(work: Derivation, rows: Target, formula: Callable[..., Any]) -> tuple[Goal, Goal]:
    """Return the two equations that `induct` needs: programs with the attributes `lhs` and `rhs`."""
    cursor, arguments = recurrence_with(work, rows, formula)
    return kernel.induction_goals(work.theorem, cursor.path, arguments)


def recurrence_with(work: Derivation, rows: Target, formula: Callable[..., Any]) -> tuple[Cursor, dict[str, Argument]]:
    """Return the place of a recurrence, and the arguments of an induction with this formula for its rows."""
    found = [cursor for cursor in every(work.goal, rows) if isinstance(cursor.term, Rec)]
    if not found:
        raise DoesNotApply(f"{brief(rows)} is not a recurrence", required="the name of a recurrence, or of its tensor")
    (cursor, *_) = found
    assert isinstance(cursor.term, Rec)
    function = argument_of("formula", ROWS.metavariables["f"], formula)
    assert isinstance(function, Function)
    return cursor, arguments_for(cursor.term, function)


def _checked(name: str, goal: Goal, given: Theorem) -> Theorem:
    if not isinstance(given, Theorem):
        raise InvalidArgument(f"{name}={brief(given)}", required="a theorem with the sides of this equation")
    if given.lhs != goal.lhs or given.rhs != goal.rhs:
        raise NotATheorem(
            f"the theorem {name}={given} does not state the equation that the induction needs",
            required=f"a theorem with the sides\n{goal.lhs}\nand\n{goal.rhs}",
        )
    return given


def _proved(name: str, goal: Goal, work: Derivation) -> Theorem:
    """Prove an equation. Raises `NotFound`."""
    from rewrites.egraph.equality import LIMIT, prove_equal

    left, right = (Derivation(reflexivity(side), work.rules) for side in (goal.lhs, goal.rhs))
    for side in (left, right):
        side.attempt("gen_empty", ())
        _simplify(side)
    _peel(right)
    _simplify(right)
    if left.goal.body != right.goal.body:
        try:
            prove_equal(left, right.goal, LIMIT)
        except ATLError as error:
            raise _open(name, goal, error) from error
    return transitivity(left.theorem, symmetry(right.theorem))


def _simplify(work: Derivation) -> None:
    """Compute elements of generations, and loops of one iteration."""
    for _ in range(MOST_SWEEPS):
        before = work.taken
        reduce_accesses(work)
        work.sweep(work.known(ONE_TERM), where=lambda path: not _is_constant(work.term(path)))
        simplify_guards(work)
        if work.taken == before:
            return


def _is_constant(term: Expr) -> bool:
    """Return whether this is a generation whose elements do not depend on its index."""
    return isinstance(term, Gen) and 0 not in free_positions(term.body)[0]


def _peel(work: Derivation) -> None:
    """Split the last term off each sum whose extent grows with the row."""
    for cursor in list(work.cursors()):
        term = cursor.term
        if isinstance(term, Reduce) and term.high.constant is None:
            work.attempt(f"split_{term.monoid}", cursor.path, k=term.high - 1)


def _open(name: str, goal: Goal, error: ATLError) -> NotFound:
    """Return the error for an equation that was not proved."""
    differ = bool(error.numbers)
    what = "the first rows" if name == "base" else "the next row"
    return NotFound(
        f"the formula differs from {what}" if differ else f"no proof was found for {what} of the formula ({name})",
        left=str(goal.lhs),
        right=str(goal.rhs),
        difference="",
        required=f"equal programs\n{goal.lhs}\nand\n{goal.rhs}",
        numbers=error.numbers or {},
        suggestions=() if differ else (f"prove it by hand, and pass the theorem as {name}=…",),
    )
