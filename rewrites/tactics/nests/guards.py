"""Guards in loop nests: splitting them, lifting them outwards, and solving them for a loop's index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from atl.core.index import ONE, ZERO, Bound, Extremum, Index, atoms, bound, ceildiv, floordiv, imax, imin, index, shift
from atl.core.predicate import NonNegative, NonZero, Predicate, Zero, at_most, conjunction, conjuncts, expressions, less
from atl.core.terms import Binary, Cast, Gen, Guard, Let, Reduce, Reshape, Unary
from atl.core.traversal import Path
from atl.prove import Facts, proves, simplify
from rewrites.cursors.cursor import Cursor, positions
from rewrites.derivation import Derivation
from rewrites.named_operators import FUNCTIONS_ZERO_AT_ZERO, operation_name
from rewrites.tactics.indices import closed
from rewrites.tactics.loops import WORD_OF
from rewrites.tactics.simplification import linear_in

# -- splitting and lifting --------------------------------------------------------------------------------------------


def conditions(work: Derivation, path: Path) -> tuple[Predicate, ...]:
    """Return the conjuncts of the guard at a path."""
    term = work.term(path)
    assert isinstance(term, Guard)
    return conjuncts(term.predicate)


def used_positions(part: Predicate) -> set[int]:
    """Return the de Bruijn positions of the indices used in a condition."""
    return {atom.position for e in expressions(part) for atom in atoms(e) if isinstance(atom, Bound)}


def split_guard(work: Derivation, path: Path, outside: list[Predicate]) -> bool:
    """Split a guard, [p ∧ q] · e → [p] · [q] · e, with these conjuncts outside; return whether there are any."""
    inside = [part for part in conditions(work, path) if part not in outside]
    if outside and inside:
        work.rewrite("guard_guard", path, reverse=True, p=conjunction(outside), q=conjunction(inside))
    return bool(outside)


def lift_guards(work: Derivation, path: Path) -> None:
    """Lift guards below a place outwards as far as possible: out of loops on whose indices they do not depend.

    ⊞[i < n] [p] · e → [p] · ⊞[i < n] e; a * [p] · b → [p] · a * b; transpose [p] · e → [p] · transpose e
    """
    for position in positions(work.term(path)):
        lift_guards(work, (*path, position))
    lift_guard(work, path)


def lift_guard(work: Derivation, path: Path) -> None:
    """Lift a guard out of the operator at a path, if possible."""
    match work.term(path):
        case Gen(body=Guard()) | Reduce("sum", body=Guard()) as loop:
            found = conditions(work, (*path, 0))
            if split_guard(work, (*path, 0), [part for part in found if 0 not in used_positions(part)]):
                work.attempt("guard_gen" if isinstance(loop, Gen) else "sum_guard", path, reverse=True)
        case Guard(body=Guard()):
            work.rewrite("guard_guard", path)
        case Reshape(op, Guard()):
            work.attempt(f"{WORD_OF[type(op)]}_of_guard", path)
        case Let(body=Guard()):
            work.attempt("ll_guard", path, reverse=True)
        case Unary(operand=Guard()) | Cast(operand=Guard()) as function:
            if (name := operation_name(function)) in FUNCTIONS_ZERO_AT_ZERO:
                work.attempt(f"guard_{name}", path, reverse=True)
        case Binary("mul"):
            if work.attempt("guard_mul_left", path):
                lift_guard(work, (*path, 0))
                lift_guard(work, path)
            else:
                work.attempt("guard_mul_right", path)
        case Binary("div", Guard()):
            work.attempt("guard_div_left", path)
        case Binary("add" | "sub" as op, Guard(), Guard()):
            common = [part for part in conditions(work, (*path, 0)) if part in conditions(work, (*path, 1))]
            if all(split_guard(work, (*path, position), common) for position in (0, 1)):
                work.attempt(f"guard_{op}", path, reverse=True)
        case _:
            pass  # no other operator commutes with a guard


# -- guards as bounds -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LoopBound:
    """A condition solved for a loop's index: it holds from `at` on or, if `ends`, before `at`.

    If not `own`, the condition depends on inner loops as well, and `at` is where it holds for all of their iterations.
    `strip` is where a strip of iterations that keeps its conditions is, relative to `at`. If `clamped`, a clamp of an
    index reaches its limit there.
    """

    at: Index
    ends: bool
    own: bool = True
    strip: Literal["none", "before", "after", "around"] = "none"
    clamped: bool = False


def guard_to_bound(work: Derivation, path: Path) -> Path:
    """Turn a guard that is a loop's body into bounds of the loop. Return the path of the loop.

    ⊞[i < n] [a <= i < b] · e → padl a (padr (n - b) ⊞[a <= i < b] e); Σ[i < n] [a <= i < b] · e → Σ[a <= i < b] e
    """
    cursor = work.cursor(path)
    term, inner = cursor.term, cursor.child(0)
    if not isinstance(inner.term, Guard) or not isinstance(term, Gen | Reduce):
        return path
    if isinstance(term, Reduce) and term.monoid != "sum":
        return path
    own, rest = list[LoopBound](), list[Predicate]()
    for part in split_extrema(inner.term.predicate):
        opened = inner.scope.predicate(part)
        variable = inner.scope.indices[-1]
        found = list(solve(inner.scope.facts, opened, variable)) if isinstance(part, NonNegative) else []
        own, rest = (own + found, rest) if found else (own, [*rest, part])
    if not own:
        return path
    low, high = _new_range(cursor, own)
    after = [] if low == term.low and isinstance(term, Gen) else [at_most(shift(low, 1), bound(0))]
    before = [] if high == term.high and isinstance(term, Gen) else [less(bound(0), shift(high, 1))]
    if not work.attempt("guard_equivalent", inner.path, q=conjunction([*before, *after, *rest])):
        return path
    if isinstance(term, Reduce):
        split_guard(work, inner.path, [*before, *after])
        work.rewrite("sum_restrict", path, lo=term.low, hi=term.high, a=low, b=high)
        return path
    if not (before or after or rest):
        # The condition holds for the whole range, so the guard can be removed.
        work.rewrite("guard_true", inner.path)
        return path
    if before:
        split_guard(work, inner.path, before)
        work.rewrite("padr_of_gen", path, reverse=True, k=term.high - high, lo=term.low, hi=high)
        path = (*path, 0)
    if after:
        split_guard(work, (*path, 0), after)
        work.rewrite("padl_of_gen", path, reverse=True, k=low - term.low, lo=low, hi=high)
        path = (*path, 0)
    return path


def split_extrema(condition: Predicate) -> list[Predicate]:
    """Return the conjuncts, with one on a minimum or maximum split by choice: j < min(n, m) → j < n, j < m."""
    out: list[Predicate] = []
    for part in conjuncts(condition):
        if not isinstance(part, NonNegative):
            out.append(part)
            continue
        for monomial, coefficient in part.expression.terms:
            (atom, *others) = monomial or (None,)
            if isinstance(atom, Extremum) and not others and (atom.kind == "min") == (coefficient > 0):
                without = part.expression - index(atom) * coefficient
                out += split_extrema(conjunction([at_most(ZERO, without + at * coefficient) for at in atom.choices]))
                break
        else:
            out.append(part)
    return out


def _new_range(cursor: Cursor, limits: Sequence[LoopBound]) -> tuple[Index, Index]:
    """Return the loop's range restricted to some bounds, in terms of the loop's scope."""
    assert isinstance(cursor.term, Gen | Reduce)
    facts = cursor.scope.facts
    first, last = cursor.scope.index(cursor.term.low), cursor.scope.index(cursor.term.high)
    low = simplify(facts, imax(first, *(limit.at for limit in limits if not limit.ends)))
    high = simplify(facts, imin(last, *(limit.at for limit in limits if limit.ends)))
    if isinstance(cursor.term, Gen):
        low = low if proves(facts, at_most(low, last)) else imin(low, last)
        high = high if proves(facts, at_most(low, high)) else imax(low, high)
    return closed(low, cursor.scope), closed(high, cursor.scope)


def solve(facts: Facts, part: Predicate, variable: Index, *, steep: bool = False) -> Iterator[LoopBound]:
    """Yield a condition as bounds of a variable; with `steep`, only if the variable's factor is more than one."""
    for factor, remainder in linear_in(part, variable):
        if not proves(facts, at_most(ONE, factor)) or (steep and factor == ONE):
            continue
        match part:
            case Zero() | NonZero() if factor == ONE:
                yield LoopBound(-remainder, ends=False)
                yield LoopBound(1 - remainder, ends=False)
                return
            case NonNegative(expression) if expression == factor * variable + remainder:
                yield LoopBound(simplify(facts, ceildiv(-remainder, factor, positive=True)), ends=False)
            case NonNegative():
                # The signs are negated: the condition is 0 <= -(factor * variable + remainder).
                yield LoopBound(simplify(facts, floordiv(-remainder, factor, positive=True) + 1), ends=True)
            case _:
                pass
