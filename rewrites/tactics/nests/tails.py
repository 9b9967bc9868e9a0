"""Loops without tests: guards become bounds of loops, and loops are cut where a condition begins or ceases to hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from atl.core.index import Index, atoms, imax, imin, index
from atl.core.marks import LoopMark
from atl.core.predicate import All, Any, NonNegative, Predicate, at_most, expressions
from atl.core.terms import Gen, Guard, Reduce, Select
from atl.core.traversal import Path
from atl.errors import ATLError, InvalidArgument, brief
from atl.prove import lower_bound, proves, simplify
from rewrites.cursors.cursor import Cursor, positions, walk
from rewrites.cursors.targets import Target
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply
from rewrites.tactics.indices import closed
from rewrites.tactics.loops import loops, pieces
from rewrites.tactics.nests.bounds import Limit, bounded, solved, spread
from rewrites.tactics.nests.guards import lift_guards
from rewrites.tactics.simplification import simplify_guards
from rewrites.tactics.storage.padding import cuts_only_padding

Strategy: TypeAlias = Literal["min", "split"]


def tails(work: Derivation, name: Target | None = None, *, strategy: Strategy | None = None) -> None:
    """Takes the tests out of a nest of loops, or of the whole goal: guards become bounds, by "min" or by "split".

    ⊞[io < ⌈n/k⌉] ⊞[ii < k] [io*k + ii < n] · e  →  ⊞[io < ⌈n/k⌉] padr (k - m) ⊞[ii < m] e, where m is min(k, n - io*k)

    Guards leave the loops on whose indices they do not depend. One that is all of a loop's body bounds the loop; a loop
    is cut where a condition within it, say of one addend, begins or ceases to hold. By "split", loops over tiles are
    first cut into full tiles and the last one: ⊞[io < n//k] ⊞[ii < k] e, without a bound to compute, and a tail. Loops
    of full tiles that are to be written out stay so marked, those of the tail have no constant extent and lose it.

    >>> s = reschedule(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i]")).tile("i", 8)
    >>> s.tails()
    f (x : float32[n]) : float32[n] :=
      truncr (8*⌈n / 8⌉ - n) flatten ⊞[io < ⌈n / 8⌉] padr (8 - min(n - 8*io, 8))
      ⊞[ii < min(n - 8*io, 8)] 2 * x[8*io + ii]
    """
    chosen = "min" if strategy is None else checked_strategy("strategy", strategy)
    before = work.taken
    tails_below(work, () if name is None else loops(work, name)[0].path, chosen)
    if work.taken == before:
        raise DoesNotApply(
            f"no guard {'in the goal' if name is None else f'in the loop {name}'} can become a bound of a loop",
            required="a guard within a loop, by conditions in which the loop's index is a multiple and a rest",
        )


def checked_strategy(name: str, strategy: object) -> Strategy:
    """What becomes of tails, as a person says it. Raises `InvalidArgument`."""
    # Arrays answer `==` for each element: only a text is compared.
    if isinstance(strategy, str) and strategy == "min":
        return "min"
    if isinstance(strategy, str) and strategy == "split":
        return "split"
    raise InvalidArgument(
        f"{name}={brief(strategy)}",
        required='"min", which bounds the loops of each tile, or "split", which cuts off the last tile',
    )


def tails_below(work: Derivation, path: Path, strategy: Strategy) -> None:
    """Makes bounds of the guards below a place, as far as they can be."""
    simplify_guards(work, path)
    lift_guards(work, path)
    _Tails(work, strategy, splits=strategy == "split").visit(path)


def extent_of(work: Derivation, path: Path) -> int | None:
    """How many iterations a loop has, where that is constant."""
    loop = work.term(path)
    assert isinstance(loop, Gen | Reduce)
    return (loop.high - loop.low).constant


# -- bounds and cuts --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Tails:
    """Visits the loops of a goal from the outside in. `tried` are indices at which the nearest loop has been cut.

    Where a cut is brought within a range it is written with that range, otherwise for each piece: what it was before
    tells that it has been made.

    `splits` is what was asked for; the strategy for a tail that has been cut off is "min".
    """

    work: Derivation
    strategy: Strategy
    splits: bool
    tried: frozenset[Index] = frozenset()

    def visit(self, path: Path) -> None:
        """Bounds and cuts the loops below a place."""
        term = self.work.term(path)
        if not isinstance(term, Gen | Reduce):
            for position in positions(term):
                self.visit((*path, position))
            return
        path = bounded(self.work, path)
        if self.splits and term.mark is LoopMark.UNROLL and extent_of(self.work, path) is None:
            self.work.mark(path, LoopMark.NONE)
        for limit in self._limits(path):
            if self._cut(path, limit):
                return
        replace(self, tried=frozenset()).visit((*path, 0))

    def _cut(self, path: Path, limit: Limit) -> bool:
        """Cuts a loop in two where a condition begins or ceases to hold, and goes on with both parts."""
        work, term = self.work, self.work.term(path)
        assert isinstance(term, Gen | Reduce)
        where = _within(work.cursor(path), limit.at)
        if where is None or self.tried & {where, limit.at}:
            return False
        before = work.checkpoint
        try:
            parts = pieces(work, path, [where])
        except ATLError:
            return False  # a fold of which one part may be empty
        if isinstance(term, Reduce) and not cuts_only_padding(work, path):
            # An addition is stored in full, also where the sum was padding, which something around it cuts.
            work.rollback(before)
            if cuts_only_padding(work, path):
                return False
            parts = pieces(work, path, [where])
        for part in parts:
            work.rename(part, term.name)
            work.mark(part, term.mark)
        for position, part in enumerate(parts):
            full = limit.own or position != limit.ends
            rest = replace(self, strategy=self.strategy if full else "min", tried=self.tried | {where, limit.at})
            simplify_guards(work, part)
            work.sweep(["nothing_add", "add_nothing"], part)
            lift_guards(work, part)
            rest.visit(part)
        return True

    def _limits(self, path: Path) -> list[Limit]:
        """Where conditions within a loop begin or cease to hold: first those between which all tiles are full."""
        outer = self.work.cursor(path)
        found = [
            limit
            for cursor in walk(outer.child(0), top_down=True)
            if isinstance(cursor.term, Guard | Select)
            for part in _parts(cursor.scope.predicate(cursor.term.predicate))
            for limit in self._limits_of(part, outer, cursor)
        ]
        starts = [limit.at for limit in found if not limit.own and not limit.ends]
        ends = [limit.at for limit in found if not limit.own and limit.ends]
        full = [Limit(imin(*ends), ends=True, own=False)] if ends else []
        full += [Limit(imax(*starts), ends=False, own=False)] if starts else []
        return full + [limit for limit in found if limit.own]

    def _limits_of(self, part: Predicate, outer: Cursor, cursor: Cursor) -> Iterator[Limit]:
        """The indices of the loop `outer` that matter for a condition at a place inside of it."""
        inner = outer.child(0)
        variable = inner.scope.indices[-1]
        between = [at for at in cursor.spine()[len(inner.spine()) - 1 : -1] if isinstance(at.term, Gen | Reduce)]
        ranges = [at.loop for at in between]
        if not _mentions(part, variable):
            return
        if not any(_mentions(part, index(each)) for each, _, _ in ranges):
            if not _holds_loops(between[-1] if between else outer):
                yield from solved(inner.scope.facts, part, variable)
        elif self.strategy == "split" and isinstance(part, NonNegative):
            worst = lower_bound(inner.scope.facts, part.expression, ranges)
            if worst is not None:
                for limit in solved(inner.scope.facts, NonNegative(worst), variable, steep=True):
                    yield replace(limit, own=False)


def _within(cursor: Cursor, at: Index) -> Index | None:
    """An index at which a loop can be cut: within its range, and not known to be at one of its ends."""
    assert isinstance(cursor.term, Gen | Reduce)
    facts = cursor.scope.facts
    low, high = cursor.scope.index(cursor.term.low), cursor.scope.index(cursor.term.high)
    if proves(facts, at_most(at, low)) or proves(facts, at_most(high, at)):
        return None
    at = at if proves(facts, at_most(low, at)) else imax(low, at)
    at = at if proves(facts, at_most(at, high)) else imin(at, high)
    return closed(simplify(facts, at), cursor.scope)


def _parts(predicate: Predicate) -> Iterator[Predicate]:
    """The conditions on single expressions that a condition is made of."""
    if isinstance(predicate, All | Any):
        for part in predicate.parts:
            yield from _parts(part)
    else:
        yield from spread(predicate)


def _mentions(part: Predicate, variable: Index) -> bool:
    return any(variable.atom == atom for expression in expressions(part) for atom in atoms(expression))


def _holds_loops(loop: Cursor) -> bool:
    """Whether other loops stand inside of a loop."""
    return any(isinstance(cursor.term, Gen | Reduce) for cursor in walk(loop.child(0)))
