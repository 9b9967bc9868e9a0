"""Removal of guards from loops: guards become loop bounds, and loops are split where a condition changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Literal, TypeAlias

from atl.core.index import Extremum, Index, Var, atoms, imax, imin, index
from atl.core.marks import LoopMark
from atl.core.predicate import All, Any, NonNegative, Predicate, at_most, expressions
from atl.core.terms import Access, Gen, Guard, Reduce, Select
from atl.core.traversal import Path
from atl.errors import ATLError, InvalidArgument, brief
from atl.prove import lower_bound, proves, simplify
from rewrites.cursors.cursor import Cursor, positions, walk
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply
from rewrites.tactics import arg
from rewrites.tactics.indices import closed, remove_clamps
from rewrites.tactics.loops import find_loops, split_at
from rewrites.tactics.nests.guards import LoopBound, guard_to_bound, lift_guards, solve, split_extrema
from rewrites.tactics.simplification import simplify_guards
from rewrites.tactics.storage.padding import cuts_only_padding
from rewrites.tactics.tactic import tactic

Strategy: TypeAlias = Literal["min", "split"]

STRIP_GAP: Final = 16
"""Split indices at most this far apart are merged: the strip between them keeps its conditions."""


@tactic
def tails(work: Derivation, name: arg.Loop | None = None, *, strategy: Strategy | None = None) -> None:
    """Remove guards and clamps from a loop nest or the whole goal (tail strategies), by "min" or by "split".

    ⊞[io < ⌈n/k⌉] ⊞[ii < k] [io*k + ii < n] · e  →  ⊞[io < ⌈n/k⌉] padr (k - m) ⊞[ii < m] e, where m is min(k, n - io*k)

    Guards are lifted out of loops on whose indices they do not depend. A guard that is a loop's whole body becomes a
    bound. Otherwise the loop is split where a condition inside it changes, such as one of an addend (index-set
    splitting). If several conditions change within a few iterations, as in a window of seven taps, these iterations
    become one strip, which keeps its conditions. With "split", loops over tiles are first peeled into full tiles,
    ⊞[io < n//k] ⊞[ii < k] e, which need no bound, and the last tile. Full tiles keep the mark `unroll`; the last tile
    loses it, since its extent is not constant.

    A loop is also split where an index that is clamped, such as max(0, i - 1), reaches its limits. The part between the
    limits reads x[i - 1]; the first and the last part keep the minima and maxima that are not constant there. This
    concerns last dimensions only, along which vectors run. Clamps of the other ones are computed once for a row. In the
    same way, a loop is split where a selection inside inner loops, such as of a border, is decided for all of them.

    >>> s = reschedule(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i]")).tile("i", 8)
    >>> s.tails()
    f (x : float32[n]) : float32[n] :=
      truncr (8*⌈n / 8⌉ - n) flatten ⊞[io < ⌈n / 8⌉] padr (8 - min(n - 8*io, 8))
      ⊞[ii < min(n - 8*io, 8)] 2 * x[8*io + ii]
    """
    chosen = "min" if strategy is None else checked_strategy("strategy", strategy)
    before = work.taken
    tails_below(work, () if name is None else find_loops(work, name)[0].path, chosen)
    if work.taken == before:
        raise DoesNotApply(
            f"no guard {'in the goal' if name is None else f'in the loop {name}'} can become a bound of a loop",
            required="a guard inside a loop, with conditions that are linear in the loop's index, or a clamped index",
        )


def checked_strategy(name: str, strategy: object) -> Strategy:
    """Return a tail strategy passed by the user. Raises `InvalidArgument`."""
    # Compare strings only, since `==` on arrays is element-wise.
    if isinstance(strategy, str) and strategy == "min":
        return "min"
    if isinstance(strategy, str) and strategy == "split":
        return "split"
    raise InvalidArgument(
        f"{name}={brief(strategy)}",
        required='"min", which bounds the loops of each tile, or "split", which peels the last tile',
    )


def tails_below(work: Derivation, path: Path, strategy: Strategy) -> None:
    """Turn the guards and clamps below a place into bounds, as far as possible."""
    simplify_guards(work, path)
    lift_guards(work, path)
    _Tails(work, strategy, splits=strategy == "split").visit(path)


def extent_of(work: Derivation, path: Path) -> int | None:
    """Return the trip count of a loop, if it is constant."""
    loop = work.term(path)
    assert isinstance(loop, Gen | Reduce)
    return (loop.high - loop.low).constant


# -- bounds and splits ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Tails:
    """Visits the loops of a goal from the outside in. `tried` are indices at which the nearest loop was already split.

    A split index is recorded both before and after clamping to the loop's range, since the range changes with each
    split.

    `splits` is true if the user chose "split"; within a peeled tail the strategy is "min". Loops are split at clamps if
    `clamps` is true, that is outside of the parts where indices reach the limits of a clamp.
    """

    work: Derivation
    strategy: Strategy
    splits: bool
    clamps: bool = True
    tried: frozenset[Index] = frozenset()

    def visit(self, path: Path) -> None:
        """Bound and split the loops below a place."""
        term = self.work.term(path)
        if not isinstance(term, Gen | Reduce):
            for position in positions(term):
                self.visit((*path, position))
            return
        path = guard_to_bound(self.work, path)
        if self.splits and term.mark is LoopMark.UNROLL and extent_of(self.work, path) is None:
            self.work.mark(path, LoopMark.NONE)
        remove_clamps(self.work, path)
        limits = self._limits(path)
        for limit in limits:
            if limit.strip != "around" and self._cut(path, limit, limits):
                return
        replace(self, tried=frozenset()).visit((*path, 0))

    def _cut(self, path: Path, limit: LoopBound, limits: Sequence[LoopBound]) -> bool:
        """Split a loop at one of its limits, where a condition changes, and visit both parts."""
        work, term = self.work, self.work.term(path)
        assert isinstance(term, Gen | Reduce)
        where = _within(work.cursor(path), limit.at)
        if where is None or self.tried & {where, limit.at}:
            return False
        before = work.checkpoint
        try:
            parts = split_at(work, path, [where])
        except ATLError:
            return False  # a fold with a part that may be empty
        if isinstance(term, Reduce) and not cuts_only_padding(work, path):
            # Unlike the sum, the addition of its parts is never padding, so an outer truncation may cut values.
            work.rollback(before)
            if cuts_only_padding(work, path):
                return False
            parts = split_at(work, path, [where])
        if limit.strip != "none":
            self._note_strip(term.name, limit)
        for part in parts:
            work.rename(part, term.name)
            work.mark(part, term.mark)
        for position, (part, side) in enumerate(zip(parts, ("before", "after"), strict=True)):
            full = limit.own or position != limit.ends
            kept = {each.at for each in limits if each.strip == "around" or limit.strip == side}
            rest = replace(
                self,
                strategy=self.strategy if full else "min",
                clamps=self.clamps and (full or not limit.clamped),
                tried=self.tried | {where, limit.at} | kept,
            )
            simplify_guards(work, part)
            work.sweep(["nothing_add", "add_nothing"], part)
            lift_guards(work, part)
            rest.visit(part)
        return True

    def _note_strip(self, name: str, limit: LoopBound) -> None:
        """Note, once for a loop, that iterations keep their conditions since splitting them off makes many loops."""
        side = "first" if limit.strip == "before" else "last"
        note = f"the {side} iterations of {name} keep their conditions, of which several change within a few iterations"
        if note not in self.work.notes:
            self.work.notes.append(note)

    def _limits(self, path: Path) -> list[LoopBound]:
        """Return the indices where conditions inside a loop change, first those that delimit full tiles."""
        outer = self.work.cursor(path)
        found, clamps = list[LoopBound](), list[tuple[Predicate, Cursor]]()
        for cursor in walk(outer.child(0), top_down=True):
            match cursor.term:
                case Guard(predicate) | Select(predicate):
                    for part in _parts(cursor.scope.predicate(predicate)):
                        found += self._limits_of(part, outer, cursor)
                    if isinstance(cursor.term, Select) and self.clamps and _loops_between(outer, cursor):
                        clamps += _parts_at(cursor, _parts(cursor.scope.predicate(predicate)))
                case Access(_, position) if self.clamps and not cursor.term.type.rank:
                    clamps += _parts_at(cursor, _clamps(cursor.scope.index(position)))
                case _:
                    pass
        limits = [limit for part, cursor in clamps for limit in _limits_of_clamp(part, outer, cursor)]
        found, clamped = found + limits, bool(limits)
        starts = [limit.at for limit in found if not limit.own and not limit.ends]
        ends = [limit.at for limit in found if not limit.own and limit.ends]
        full = [LoopBound(imin(*ends), ends=True, own=False, clamped=clamped)] if ends else []
        full += [LoopBound(imax(*starts), ends=False, own=False, clamped=clamped)] if starts else []
        return full + list(_in_strips(outer, [limit for limit in found if limit.own]))

    def _limits_of(self, part: Predicate, outer: Cursor, cursor: Cursor) -> Iterator[LoopBound]:
        """Yield the indices of the loop `outer` where a condition at a place inside it changes."""
        inner, between = outer.child(0), _loops_between(outer, cursor)
        variable = inner.scope.indices[-1]
        ranges = [at.loop for at in between]
        if not _mentions(part, variable):
            return
        if not any(_mentions(part, index(each)) for each, _, _ in ranges):
            if not _contains_loops(between[-1] if between else outer):
                yield from solve(inner.scope.facts, part, variable)
        elif self.strategy == "split" and isinstance(part, NonNegative):
            worst = lower_bound(inner.scope.facts, part.expression, ranges)
            if worst is not None:
                for limit in solve(inner.scope.facts, NonNegative(worst), variable, steep=True):
                    yield replace(limit, own=False)


def _parts_at(cursor: Cursor, parts: Iterator[Predicate]) -> list[tuple[Predicate, Cursor]]:
    return [(part, cursor) for part in parts]


def _loops_between(outer: Cursor, cursor: Cursor) -> list[Cursor]:
    """Return the loops inside the loop `outer` and around a place."""
    spine = cursor.spine()[len(outer.spine()) : -1]
    return [at for at in spine if isinstance(at.term, Gen | Reduce)]


def _clamps(expression: Index) -> Iterator[Predicate]:
    """Yield the conditions under which each minimum and maximum in an index is its first choice with variables."""
    for atom in atoms(expression):
        if isinstance(atom, Extremum):
            inside = next((choice for choice in atom.choices if choice.free), atom.choices[0])
            for other in atom.choices:
                if other is not inside:
                    yield from split_extrema(at_most(*((inside, other) if atom.kind == "min" else (other, inside))))


def _limits_of_clamp(part: Predicate, outer: Cursor, cursor: Cursor) -> Iterator[LoopBound]:
    """Yield the indices of the loop `outer` where a condition of a clamp or a selection changes, for all iterations of
    inner loops.

    In 8*io + ii - 1, the loop over tiles is split, and the loop of constant extent inside it is not. Instead of a loop
    around one of another extent, the inner loop is split.
    """
    if not isinstance(part, NonNegative):
        return
    inner = outer.child(0)
    variable, facts = inner.scope.indices[-1], inner.scope.facts
    ranges = [at.loop for at in _loops_between(outer, cursor)]
    depends = [_is_constant(each) for each in ranges if _mentions(part, index(each[0]))]
    around = any(_mentions(part, each) for each in outer.scope.indices)
    if not _mentions(part, variable) or not all(depends) or (around and _is_constant(outer.loop)):
        return
    worst = lower_bound(facts, part.expression, ranges)
    if worst is not None:
        for limit in solve(facts, NonNegative(worst), variable):
            yield replace(limit, own=False)


def _is_constant(loop: tuple[Var, Index, Index]) -> bool:
    """Return True if a loop has a constant extent."""
    _, low, high = loop
    return (high - low).constant is not None


def _in_strips(loop: Cursor, limits: Sequence[LoopBound]) -> Iterator[LoopBound]:
    """Yield the limits with their strips: limits and ends of the loop at small constant distances form a strip.

    In a loop of constant extent, the largest distance is not inside a strip.
    """
    assert isinstance(loop.term, Gen | Reduce)
    ends = loop.scope.index(loop.term.low), loop.scope.index(loop.term.high)
    for limit in limits:
        first, last, *others = ((at - limit.at).constant for at in (*ends, *(each.at for each in limits)))
        offsets = sorted({each for each in (first, last, *others) if each is not None})
        gap = STRIP_GAP
        if first is not None and last is not None:
            gap = min(gap, max(b - a for a, b in pairwise((*offsets, *offsets[-1:]))) - 1)
        near = next(run for run in _runs(offsets, gap) if 0 in run)
        before, after = near.index(0), len(near) - near.index(0) - 1
        if before and after:
            yield replace(limit, strip="around")
        elif before > 1 and first in near:
            yield replace(limit, strip="before")
        elif after > 1 and last in near:
            yield replace(limit, strip="after")
        else:
            yield limit


def _runs(numbers: Sequence[int], gap: int) -> Iterator[Sequence[int]]:
    """Yield the longest runs of ascending numbers in which neighbours are at most `gap` apart."""
    breaks = [at for at in range(1, len(numbers)) if numbers[at] - numbers[at - 1] > gap]
    return (numbers[a:b] for a, b in pairwise((0, *breaks, len(numbers))))


def _within(cursor: Cursor, at: Index) -> Index | None:
    """Clamp a split index to the loop's range; None if it is known to be at or beyond an end."""
    assert isinstance(cursor.term, Gen | Reduce)
    facts = cursor.scope.facts
    low, high = cursor.scope.index(cursor.term.low), cursor.scope.index(cursor.term.high)
    if proves(facts, at_most(at, low)) or proves(facts, at_most(high, at)):
        return None
    at = at if proves(facts, at_most(low, at)) else imax(low, at)
    at = at if proves(facts, at_most(at, high)) else imin(at, high)
    return closed(simplify(facts, at), cursor.scope)


def _parts(predicate: Predicate) -> Iterator[Predicate]:
    """Yield the conditions on single expressions in a condition."""
    if isinstance(predicate, All | Any):
        for part in predicate.parts:
            yield from _parts(part)
    else:
        yield from split_extrema(predicate)


def _mentions(part: Predicate, variable: Index) -> bool:
    return any(variable.atom == atom for expression in expressions(part) for atom in atoms(expression))


def _contains_loops(loop: Cursor) -> bool:
    """Return True if there are loops inside a loop."""
    return any(isinstance(cursor.term, Gen | Reduce) for cursor in walk(loop.child(0)))
