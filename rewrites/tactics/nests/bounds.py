"""Guard-to-bound conversion: solving the conditions of a guard for a loop's index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from atl.core.index import ONE, ZERO, Extremum, Index, bound, ceildiv, floordiv, imax, imin, index, shift
from atl.core.predicate import NonNegative, NonZero, Predicate, Zero, at_most, conjunction, conjuncts, less
from atl.core.terms import Gen, Guard, Reduce
from atl.core.traversal import Path
from atl.prove import Facts, proves, simplify
from rewrites.cursors.cursor import Cursor
from rewrites.derivation import Derivation
from rewrites.tactics.indices import closed
from rewrites.tactics.nests.guards import split_guard
from rewrites.tactics.simplification import linear_in


@dataclass(frozen=True, slots=True)
class LoopBound:
    """A condition solved for a loop's index: it holds from `at` on or, if `ends`, before `at`.

    If not `own`, the condition depends on inner loops as well, and `at` is where it holds for all of their iterations.
    `strip` is where a strip of iterations that keeps its conditions is, relative to `at`.
    """

    at: Index
    ends: bool
    own: bool = True
    strip: Literal["none", "before", "after", "around"] = "none"


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
