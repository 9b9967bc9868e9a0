"""Elimination of loops whose index is determined by an equation: Σ[j < m] Σp [j = crd[p]] · e(j) → Σp e(crd[p])."""

from __future__ import annotations

from collections.abc import Iterator

from atl.core import predicate as pred
from atl.core.index import ONE, Bound, Index, Leaf, Read, atoms, bound, index, shift
from atl.core.predicate import Predicate, Zero, conjuncts
from atl.core.terms import Expr, Gen, Guard, Place, Reduce, Reshape
from atl.core.traversal import Path
from atl.prove import proves
from rewrites.derivation import Derivation
from rewrites.tactics.nests.guards import conditions, split_guard, used_positions
from rewrites.tactics.simplification import linear_in, reads_by, simplify_guards


class CannotEliminate(Exception):
    """The reason why a loop cannot be eliminated."""


def eliminate_loop(work: Derivation, path: Path, *, within: bool) -> None:
    """Move the loop at a path to the equation that determines its index, and eliminate it.

    Σ[j < m] Σp [j = crd[p]] · e(j) → Σp e(crd[p]), and ⊞[i < n] Σp [i = row[p]] · e → Σp place n row[p] e. With
    `within`, only if the index is proved to be within the loop's range. Raises `CannotEliminate`; the caller must then
    roll back the goal.
    """
    loop = work.term(path)
    assert isinstance(loop, Gen | Reduce)
    swap = "sum_gen_swap" if isinstance(loop, Gen) else "sum_swap"
    for _ in range(_lift_sums(work, (*path, 0), 0)):
        _swapped(work, swap, path)
        path = (*path, 0)
    guard = work.term((*path, 0))
    assert isinstance(guard, Guard)
    why = "the value of its index may be out of its range"
    for value in solutions(guard.predicate, 0):
        point = work.checkpoint
        if _remove_loop(work, path, shift(value, -1, 1), within=within):
            return
        work.rollback(point)
    raise CannotEliminate(why)


def solutions(predicate: pred.Predicate, position: int) -> Iterator[Index]:
    """Yield each v for which a condition has the conjunct i = v, where i is the index at a position."""
    found = [
        -rest
        for part in pred.conjuncts(predicate)
        if isinstance(part, pred.Zero)
        for factor, rest in linear_in(part, bound(position))
        if factor == ONE
    ]
    # Simplest first, such as another loop's index.
    yield from sorted(found, key=lambda value: len(value.terms))


def fixed_below(term: Expr, position: int = 0) -> bool:
    """Return True if a condition below sums, generations, guards and places determines the index at a position."""
    match term:
        case Guard(predicate, body):
            return any(True for _ in solutions(predicate, position)) or fixed_below(body, position)
        case Reduce("sum", body=body) | Gen(body=body):
            return fixed_below(body, position + 1)
        case Reshape(Place(), operand):
            return fixed_below(operand, position)
        case _:
            return False


def depends_on(position: int, *stated: Index) -> bool:
    """Return True if one of the expressions depends on the index at a position."""
    return any(atom == Bound(position) for e in stated for atom in atoms(e))


# -- moving the equation up to the loop -------------------------------------------------------------------------------


def _lift_sums(work: Derivation, path: Path, position: int) -> int:
    """Rewrite a term to Σ … Σ [index = a ∧ …] · e for the index at a position; return the number of sums."""
    term = work.term(path)
    match term:
        case Guard(predicate) if any(True for _ in solutions(predicate, position)):
            return 0
        case Guard(body=body):
            if isinstance(body, Reshape):
                _lift_sums(work, (*path, 0), position)
            for name in ("guard_guard", "sum_guard", "guard_gen"):
                if work.attempt(name, path):
                    return _lift_sums(work, path, position)
            raise CannotEliminate("a guard is between it and the condition that determines its index")
        case Reduce("sum", low, high):
            sums = _lift_sums(work, (*path, 0), position + 1)
            if not sums and _guard_out(work, path, position):
                return 0
            if depends_on(position, low, high):
                return _lift_past(work, path, position, sums)
            return sums + 1
        case Gen():
            sums = _lift_sums(work, (*path, 0), position + 1)
            return _out_of_generation(work, path, position, sums)
        case Reshape(Place()):
            sums = _lift_sums(work, (*path, 0), position)
            for _ in range(sums):
                work.rewrite("place_of_sum", path)
                path = (*path, 0)
            work.rewrite("place_of_guard", path)
            return sums
        case _:
            raise CannotEliminate("no condition below it determines its index")


def _out_of_generation(work: Derivation, path: Path, position: int, sums: int) -> int:
    """Move the equation out of a generation: ⊞r Σp [index = a] · e → Σp [index = a] · ⊞r e.

    If the sums or the equation depend on r, scatter instead: → Σr Σp [index = a] · place _ r e.
    """
    point, start = work.checkpoint, path
    for _ in range(sums):
        if not work.attempt("sum_gen_swap", path):
            break
        path = (*path, 0)
    else:
        if _guard_out(work, path, position + sums):
            return sums
    work.rollback(point)
    work.attempt("gen_rebase", start)
    work.rewrite("gen_scatter", start)
    path = (*start, 0)
    for _ in range(sums):
        work.rewrite("place_of_sum", path)
        path = (*path, 0)
    work.rewrite("place_of_guard", path)
    return sums + 1


def _lift_past(work: Derivation, path: Path, position: int, sums: int) -> int:
    """Move inner sums and the equation out of a sum with a dependent range.

    Σ[p in r(index)] Σq [index = a] · e → Σq [index = a] · Σ[p in r(index)] e
    """
    for number in range(sums):
        _swapped(work, "sum_swap", (*path, *(0,) * number))
    term = work.term((*path, *(0,) * sums))
    if not _guard_out(work, (*path, *(0,) * sums), position + sums):
        raise CannotEliminate(f"the range of the sum {getattr(term, 'name', '')} within it depends on its index")
    return sums


def _swapped(work: Derivation, name: str, path: Path) -> None:
    if not work.attempt(name, path):
        raise CannotEliminate(
            f"the range of the sum {getattr(work.term((*path, 0)), 'name', '')} within it depends on its index"
        )


def _guard_out(work: Derivation, path: Path, position: int) -> bool:
    """Rewrite ⊞r [p ∧ q(r)] · e → [p] · ⊞r [q(r)] · e, likewise for a sum, if p determines the index at a position."""
    parts = conditions(work, (*path, 0))
    out = [part for part in parts if not depends_on(0, *pred.expressions(part))]
    if not any(True for _ in solutions(pred.conjunction(out), position + 1)):
        return False
    split_guard(work, (*path, 0), out)
    work.rewrite("guard_gen" if isinstance(work.term(path), Gen) else "sum_guard", path, reverse=True)
    return True


# -- removing the loop ------------------------------------------------------------------------------------------------


def _remove_loop(work: Derivation, path: Path, value: Index, *, within: bool) -> bool:
    """Eliminate the loop at a path, whose body is a guard that determines its index as `value`, in the outer scope."""
    loop = work.term(path)
    assert isinstance(loop, Gen | Reduce)
    parts = conditions(work, (*path, 0))
    fixing = pred.equal(bound(0), shift(value, 1))
    substituted = [_at(part, value) for part in parts if part != fixing]
    others = pred.conjunction(substituted)
    in_range = pred.conjunction([pred.at_most(loop.low, value), pred.less(value, loop.high)])
    scope = work.cursor(path).scope
    known = pred.conjunction(part for part in substituted if not reads_by(part, in_range))
    inside = proves(scope.assume(scope.predicate(known)).facts, scope.predicate(in_range))
    if within and not inside:
        return False
    if isinstance(loop, Gen):
        _placed(work, path, fixing, value, others if inside else pred.conjunction([in_range, others]))
    else:
        rules = ("sum_delta_within", "sum_delta_only") if len(parts) == 1 else ("sum_delta",)
        if not any(work.attempt(name, path, a=value) for name in rules):
            return False
    simplify_guards(work, path)
    return True


def _placed(work: Derivation, path: Path, fixing: pred.Predicate, value: Index, outside: pred.Predicate) -> None:
    """Rewrite ⊞i [i = a ∧ p(i)] · e(i) → [p(a)] · place _ a e(a), where `outside` is p(a)."""
    if outside != pred.TRUE:
        inner = (*path, 0)
        out = _under_loop(outside)
        work.attempt("guard_equivalent", inner, q=pred.conjunction([out, fixing]))
        work.rewrite("guard_guard", inner, reverse=True, p=out, q=fixing)
        work.rewrite("guard_gen", path, reverse=True)
        path = inner
    work.rewrite("gen_as_place", path, a=value)


def _at(part: pred.Predicate, value: Index) -> pred.Predicate:
    """Substitute a value for a loop's index in a condition inside the loop."""
    return pred.substitute(part, lambda leaf: _outside(leaf, value))


def _outside(leaf: Leaf, value: Index) -> Index:
    if not isinstance(leaf, Bound):
        return index(leaf)
    return bound(leaf.position - 1) if leaf.position else value


def _under_loop(predicate: pred.Predicate) -> pred.Predicate:
    """Shift a condition for use inside one more loop."""
    return pred.substitute(predicate, lambda leaf: bound(leaf.position + 1) if isinstance(leaf, Bound) else index(leaf))


# -- hoisting of matched sums -----------------------------------------------------------------------------------------


def hoist_matching_sums(work: Derivation) -> None:
    """Hoist inner sums, with their matching condition, out of sums on which they do not depend.

    Σp place m a[p] Σq [c = d[q]] · e → Σq [c = d[q]] · Σp place m a[p] e, where neither c, d nor the range contains p.

    So rows of two operands are matched before their entries. Each pair of sums becomes adjacent, as needed for one
    co-iteration per level (Fig. 7.2).
    """
    while any(
        _out(work, cursor.path) for cursor in list(work.cursors(top_down=True)) if _has_matching_sum(cursor.term)
    ):
        pass


def _has_matching_sum(term: Expr) -> bool:
    """Return True for a sum of scattered sums, the inner of which compares its own coordinates with others."""
    if not (isinstance(term, Reduce) and term.monoid == "sum"):
        return False
    inner = term.body
    while isinstance(inner, Reshape) and isinstance(inner.op, Place):
        inner = inner.operand
    return (
        isinstance(inner, Reduce)
        and inner.monoid == "sum"
        and not depends_on(0, inner.low, inner.high)
        and isinstance(inner.body, Guard)
        and any(_compares(part) for part in conjuncts(inner.body.predicate))
    )


def _compares(part: Predicate) -> bool:
    """Return True for an equation about a coordinate that is read at index 0, unless it depends on index 1.

    Index 0 is that of the inner sum, index 1 that of the outer one.
    """
    if not isinstance(part, Zero) or 1 in used_positions(part):
        return False
    return any(isinstance(atom, Read) and depends_on(0, *atom.indices) for atom in atoms(part.expression))


def _out(work: Derivation, path: Path) -> bool:
    """Hoist the inner sum, with the conditions that do not depend on the outer index, out of the outer one."""
    point = work.checkpoint
    while isinstance(work.term((*path, 0)), Reshape):
        at = (*path, 0)
        while isinstance(work.term((*at, 0)), Reshape):
            at = (*at, 0)
        if not (work.attempt("place_of_sum", at) and work.attempt("place_of_guard", (*at, 0))):
            work.rollback(point)
            return False
    if not work.attempt("sum_swap", path):
        work.rollback(point)
        return False
    guard = (*path, 0, 0)
    out = [part for part in conditions(work, guard) if 0 not in used_positions(part)]
    split_guard(work, guard, out)
    return work.attempt("sum_guard", (*path, 0), reverse=True)
