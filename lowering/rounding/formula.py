"""The number of roundings of a kernel as an index expression: its bound nest, run on upper bounds of the counts.

Each buffer and variable with a count has one bound for all its elements, a maximum of index expressions. A loop is run
once on unknown counts. A count that grows by c in one iteration grows by c times the number of iterations, unless each
iteration stores to other elements.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from functools import reduce
from itertools import count
from typing import Final, TypeAlias, assert_never

from atl.checks.scope import initial_facts
from atl.core import index as ix
from atl.core.predicate import at_most
from atl.errors import NoErrorBound
from atl.prove import Facts, proves, upper_bound
from lowering.nest import loopnest as ln
from lowering.nest.tiles import cells_of

Counts: TypeAlias = frozenset[ix.Index]
"""A maximum of index expressions."""

MOST: Final = 16
"""Largest number of expressions in a maximum."""
NONE: Final[Counts] = frozenset((ix.ZERO,))
_Range: TypeAlias = tuple[ix.Var, ix.Index, ix.Index]


def roundings(bounds: ln.LoopNest, counts: frozenset[Hashable], results: tuple[tuple[Hashable, ...], ...]) -> ix.Index:
    """Return a bound on the sum of the counts of each result at the end of a nest of bounds.

    `counts` are the storage of counts. Raises `NoErrorBound` if the number of roundings has no formula in the sizes.
    """
    run = _Counting(bounds, counts)
    run.block(bounds.body, ())
    total = run.most(*[reduce(run.sum, [run.known.get(key, NONE) for key in each], NONE) for each in results])
    return ix.imax(*total) if len(total) > 1 else next(iter(total))


class _Counting:
    def __init__(self, nest: ln.LoopNest, counts: frozenset[Hashable]) -> None:
        self._name = nest.name.removesuffix("_error_bound")
        self._facts: Facts = initial_facts(nest.assumptions, nest.inputs)
        self._counts = counts
        self._ids: Iterator[int] = count(next(ln.unused_ids(nest)) + 1_000_000)
        self.known: dict[Hashable, Counts] = {}

    def _refused(self, why: str) -> NoErrorBound:
        return NoErrorBound(
            f"the number of roundings of {self._name} has no formula: {why}",
            required="loops whose lengths are formulas of the sizes, and counts that grow steadily",
            suggestions=("pass arrays to get a number for each element: kernel.error_bound(…)",),
        )

    # -- maxima -------------------------------------------------------------------------------------------------------

    def most(self, *parts: Counts) -> Counts:
        found: list[ix.Index] = []
        for each in sorted(frozenset().union(*parts), key=lambda e: e.order):
            if any(proves(self._facts, at_most(each, other)) for other in found):
                continue
            found = [other for other in found if not proves(self._facts, at_most(other, each))]
            found.append(each)
        if len(found) > MOST:
            raise self._refused("it is a maximum of many cases")
        return frozenset(found)

    def sum(self, x: Counts, y: Counts) -> Counts:
        return self.most(frozenset(a + b for a in x for b in y))

    # -- statements ---------------------------------------------------------------------------------------------------

    def block(self, block: ln.Block, ranges: tuple[_Range, ...]) -> None:
        for statement in block:
            self._statement(statement, ranges)

    def _statement(self, statement: ln.Statement, ranges: tuple[_Range, ...]) -> None:
        match statement:
            case ln.Declare(variable, initial):
                if (value := self._value(initial)) is not None:
                    self.known[ln.key(variable)] = value
            case ln.Assign(target, value):
                key = ln.accessed(target)
                if key in self._counts:
                    new = self._needed(value)
                    self.known[key] = new if isinstance(target, ln.Scalar) else self.most(self._now(key), new)
            case ln.Accumulate(target, _, value):
                key = ln.accessed(target)
                if key in self._counts:
                    self.known[key] = self._accumulated(target, key, value)
            case ln.If(_, body):
                before = dict(self.known)
                self.block(body, ranges)
                for key, value in before.items():
                    self.known[key] = self.most(value, self.known[key])
            case ln.For():
                self._loop(statement, ranges)
            case ln.Allocate(buffer) | ln.Clear(buffer, row=None, cell=None):
                self.known[ln.key(buffer)] = NONE
            case ln.Clear() | ln.Free() | ln.Gather():
                pass
            case _:
                assert_never(statement)

    def _now(self, key: Hashable) -> Counts:
        return self.known.get(key, NONE)

    def _accumulated(self, target: ln.Cell | ln.Scalar, key: Hashable, value: ln.ScalarExpr) -> Counts:
        now = self._now(key)
        own = ln.Load(target)
        if isinstance(value, ln.Apply) and value.op == "sub" and value.arguments[1] == own:
            greatest = value.arguments[0]
            if isinstance(greatest, ln.Apply) and greatest.op == "max" and greatest.arguments[0] == own:
                return self.most(now, self._needed(greatest.arguments[1]))
        return self.sum(now, self._needed(value))

    def _needed(self, e: ln.ScalarExpr) -> Counts:
        value = self._value(e)
        if value is None:
            raise self._refused("a count depends on elements")
        return value

    def _value(self, e: ln.ScalarExpr) -> Counts | None:
        """Return the bound of a count; None for another expression."""
        match e:
            case ln.Number(value) if value >= 0 and float(value).is_integer():
                return frozenset((ix.constant(int(value)),))
            case ln.Load(source):
                return self.known.get(ln.accessed(source))
            case ln.Apply("add" | "max" as op, (left, right)):
                x, y = self._value(left), self._value(right)
                if x is None or y is None:
                    return None
                return self.sum(x, y) if op == "add" else self.most(x, y)
            case ln.Number() | ln.FromIndex() | ln.Apply() | ln.Choose() | ln.Convert():
                return None
        assert_never(e)

    # -- loops --------------------------------------------------------------------------------------------------------

    def _loop(self, loop: ln.For, ranges: tuple[_Range, ...]) -> None:
        inside: tuple[_Range, ...] = (*ranges, (loop.variable, loop.low, loop.high))
        stored = [
            ln.accessed(s.target)
            for s in ln.statements(loop.body)
            if isinstance(s, ln.Assign | ln.Accumulate) and ln.accessed(s.target) in self._counts
        ]
        changed = [key for key in dict.fromkeys(stored) if key in self.known]
        before = {key: self.known[key] for key in changed}
        own = {key: ix.Var(next(self._ids), "count") for key in changed}
        for key in changed:
            self.known[key] = frozenset((ix.index(own[key]),))
        self.block(loop.body, inside)
        after = {key: self.known[key] for key in changed}
        length = loop.high - loop.low
        if not proves(self._facts, at_most(ix.ZERO, length)):
            length = ix.imax(ix.ZERO, length)
        done: dict[Hashable, Counts] = {}
        waiting = list(changed)
        while waiting:
            ready = [key for key in waiting if not self._others(after[key], own, key, waiting)]
            if not ready:
                raise self._refused("the counts of several recurrences depend on each other")
            for key in ready:
                waiting.remove(key)
                done[key] = self._after(loop, key, before[key], after[key], own, done, length)
        self.known.update(done)

    def _others(self, value: Counts, own: Mapping[Hashable, ix.Var], key: Hashable, waiting: list[Hashable]) -> bool:
        free = frozenset().union(*(each.free for each in value))
        return any(other != key and own[other].uid in free for other in waiting)

    def _after(
        self,
        loop: ln.For,
        key: Hashable,
        before: Counts,
        value: Counts,
        own: Mapping[Hashable, ix.Var],
        done: Mapping[Hashable, Counts],
        length: ix.Index,
    ) -> Counts:
        """Return the bound of a count after a loop, one iteration of which makes it `value`."""
        start, growth = [before], NONE
        once = _stores_apart(loop, key)
        for each in value:
            rest, here = each, NONE
            for other in [other for other in own if own[other].uid in each.free]:
                factor = ix.factor_of(each, own[other])
                if factor is None:
                    raise self._refused("a count is multiplied by others")
                rest = rest - factor * ix.index(own[other])
                if other != key or once:
                    # An iteration whose elements no other one stores finds them as they were before the loop.
                    by, found = self._above(loop, factor), before if other == key else done[other]
                    here = self.sum(here, frozenset(by * part for part in found))
                elif factor != ix.ONE:
                    raise self._refused("a count grows faster than linearly in a recurrence")
            here = self.sum(here, frozenset((self._above(loop, rest),)))
            if own[key].uid in each.free and not once:
                growth = self.most(growth, here)
            else:
                start.append(here)
        if growth == NONE:
            return self.most(*start)
        return self.sum(self.most(*start), frozenset(each * length for each in growth))

    def _above(self, loop: ln.For, e: ix.Index) -> ix.Index:
        """Return an upper bound of a count without the loop's variable."""
        if any(isinstance(atom, ix.Read) for atom in ix.atoms(e)):
            raise self._refused("the length of a loop depends on elements")
        if loop.variable.uid not in e.free:
            return e
        found = upper_bound(self._facts, e, [(loop.variable, loop.low, loop.high)])
        if found is None:
            raise self._refused("the length of a loop depends on another loop")
        return found


def _stores_apart(loop: ln.For, key: Hashable) -> bool:
    """Return whether each iteration of a loop accesses different elements: an index is the variable plus others.

    The others are constant in the loop, or variables of loops within it of at most as many iterations as its factor.
    """
    cells = [(cell, stored) for cell, stored in cells_of(loop.body) if ln.key(cell.buffer) == key]
    inner = {s.variable.uid: s for s in ln.statements(loop.body) if isinstance(s, ln.For)}
    within = frozenset((loop.variable.uid, *inner))
    into = {cell.pairs: cell for cell, stored in cells if stored}
    if len(into) != 1:
        return False
    (target,) = into.values()
    return _is_apart(loop, target, inner) and all(
        cell.pairs == target.pairs or _are_in_other_rows(cell, target, within) for cell, stored in cells if not stored
    )


def _are_in_other_rows(cell: ln.Cell, other: ln.Cell, within: frozenset[int]) -> bool:
    """Return whether two cells differ in an index that is constant in a loop with these variables."""
    return any(
        not x.free & within and not y.free & within and (x - y).constant not in (None, 0)
        for (x, _), (y, _) in zip(cell.pairs, other.pairs, strict=True)
    )


def _is_apart(loop: ln.For, cell: ln.Cell, inner: Mapping[int, ln.For]) -> bool:
    for position, _ in cell.pairs:
        if loop.variable.uid not in position.free:
            continue
        symbolic = ix.factor_of(position, loop.variable)
        factor = None if symbolic is None else symbolic.constant
        if not factor:
            continue
        rest = position - ix.index(loop.variable) * factor
        reach = 0
        for uid in rest.free & inner.keys():
            each = inner[uid]
            length, found = (each.high - each.low).constant, ix.factor_of(rest, each.variable)
            by = None if found is None else found.constant
            if length is None or by is None:
                break
            reach += abs(by) * max(length - 1, 0)
        else:
            if reach < abs(factor):
                return True
    return False
