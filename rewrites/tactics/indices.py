"""Simplification of indices."""

from __future__ import annotations

from collections.abc import Set
from functools import partial

from atl.checks.scope import Scope
from atl.core.index import Extremum, Index, Leaf, Quotient, Var, atoms, bound, index, map_leaves
from atl.core.predicate import Predicate, map_indices
from atl.core.terms import Access, Expr, Gen, Guard, Reduce, Reshape, Value
from atl.core.traversal import Path, indices_in
from atl.prove import simplify
from rewrites.cursors.cursor import walk
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply
from rewrites.matching.match import function_of
from rewrites.rule_arguments import Argument, Function
from rewrites.tactics.tactic import tactic


@tactic
def simpl_index(work: Derivation) -> None:
    """Simplify indices and bounds by the facts known at their place: (i // c) // k → i // (c*k), i // n → 0.

    >>> s = reschedule(atl.parse("f (x : float32[n]) : float32[3*n] := ⊞[i < 3*n] x[(i // 3) % n]"))
    >>> s.simpl_index()
    f (x : float32[n]) : float32[3*n] :=
      ⊞[i < 3*n] x[i // 3]
    """
    if not simplify_indices(work):
        raise DoesNotApply(
            "no index in the goal can be simplified", required="an index that the facts in scope simplify"
        )


def simplify_indices(work: Derivation, below: Path = ()) -> int:
    """Simplify like `simpl_index` below a place, without failing. Return the number of steps.

    An index that the kernel cannot prove equal to its simplified form in one step is left unchanged.
    """
    before = work.taken
    left: set[tuple[Path, Index]] = set()
    while (found := _next(work, below, left)) is not None:
        path, old, new = found
        body = function_of(work.term(path), (old,))
        given: dict[str, Argument] = {"a": old, "b": new, "e": Function(("index",), body)}
        if not work.attempted(work.rule("equal_index"), path, given, reverse=False):
            left.add((path, old))
    return work.taken - before


def remove_clamps(work: Derivation, loop: Path) -> None:
    """Simplify the indices with minima or maxima of a loop's index, where the known facts decide them.

    x[max(0, i - 1)]  →  x[i - 1] where 1 <= i. All equal indices are replaced in one step.
    """
    body = work.cursor((*loop, 0))
    variable = body.scope.indices[-1].atom
    done: set[Index] = set()
    for cursor in walk(body, top_down=True):
        if not isinstance(cursor.term, Access):
            continue
        opened = cursor.scope.index(cursor.term.index)
        inner = {at.atom for at in cursor.scope.indices[len(body.scope.indices) :]}
        found = set(atoms(opened))
        if (
            opened in done
            or variable not in found
            or inner & found
            or not any(isinstance(at, Extremum) for at in found)
        ):
            continue
        done.add(opened)
        simpler = simplify(body.scope.facts, opened)
        if simpler != opened:
            path, old = body.path, closed(opened, body.scope)
            new = Function(("index",), function_of(work.term(path), (old,)))
            given: dict[str, Argument] = {"a": old, "b": closed(simpler, body.scope), "e": new}
            work.attempted(work.rule("equal_index"), path, given, reverse=False)


def simplify_conditions(work: Derivation, below: Path) -> None:
    """Simplify the indices in guard conditions below a place."""
    for cursor in list(work.cursors(below)):
        if not isinstance(cursor.term, Guard):
            continue
        shorter = simpler_condition(cursor.term.predicate, cursor.scope)
        if shorter != cursor.term.predicate:
            work.attempt("guard_equivalent", cursor.path, q=shorter)


def _next(work: Derivation, below: Path, left: Set[tuple[Path, Index]]) -> tuple[Path, Index, Index] | None:
    """Return the first index, from the inside out, that can be simplified and is not in `left`."""
    for cursor in work.cursors(below):
        for old, new in simpler_indices(cursor.term, cursor.scope):
            if (cursor.path, old) not in left:
                return cursor.path, old, new
    return None


def simpler_indices(term: Expr, scope: Scope) -> list[tuple[Index, Index]]:
    """Return the indices and bounds of a node that can be simplified, each with the simpler one."""
    if not isinstance(term, Access | Gen | Reduce | Value | Reshape):
        return []
    found = []
    for expression in indices_in(term):
        opened = scope.index(expression)
        simpler = simplify(scope.facts, opened)
        if simpler != opened and _has_meaning(simpler) and len(str(simpler)) < len(str(opened)):
            found.append((expression, closed(simpler, scope)))
    return found


def simpler_condition(predicate: Predicate, scope: Scope) -> Predicate:
    """Return the condition with its indices simplified by the known facts."""
    return map_indices(predicate, partial(_simplified, scope))


def _simplified(scope: Scope, expression: Index) -> Index:
    return closed(simplify(scope.facts, scope.index(expression)), scope)


def _has_meaning(expression: Index) -> bool:
    """Return False if a divisor was simplified to zero, which can happen under contradictory facts."""
    divisors = (atom.denominator.constant for atom in atoms(expression) if isinstance(atom, Quotient))
    return all(divisor is None or divisor >= 1 for divisor in divisors)


def closed(expression: Index, scope: Scope) -> Index:
    """Replace the variables of a scope by bound indices."""
    places = {at.atom: position for position, at in enumerate(reversed(scope.indices))}

    def leaf(at: Leaf) -> Index:
        return bound(places[at]) if isinstance(at, Var) and at in places else index(at)

    return map_leaves(expression, leaf)
