"""Proof forest: congruence closure over the ground terms of a search, with a reason for each equality.

egglog holds the same classes without reasons. An edge of the forest is either an instance, whose moves lead from one
term to the other, or congruence: equal heads, and parts that are equal by earlier edges. A path in the forest is a
chain of moves, which the kernel replays: nothing here is trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from atl.core.program import Program
from atl.core.terms import Expr
from atl.core.traversal import Path
from rewrites.derivation import Derivation
from rewrites.egraph.normal import Moves, RewriteStep, inverse_moves
from rewrites.egraph.terms import Terms


@dataclass(frozen=True, slots=True)
class Instance:
    """Two ground terms that are equal by moves from the left one to the right one."""

    left: int
    right: int
    moves: Moves


@dataclass(frozen=True, slots=True)
class _Edge:
    to: int
    by: Instance | None
    """None for congruence."""


class Forest:
    """The classes of ground terms (union-find) and the proof forest."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.classes = 0
        self._parent: list[int] = []
        self._weight: list[int] = []
        self._edge: list[_Edge | None] = []
        self._users: list[list[int]] = []
        self._signed: dict[tuple[int, ...], int] = {}
        self._work: list[tuple[int, int, Instance | None]] = []

    def add_new_terms(self) -> None:
        """Add the terms created since the last call."""
        for term in range(len(self._parent), len(self.terms)):
            self._parent.append(term)
            self._weight.append(1)
            self._edge.append(None)
            self._users.append([])
            self.classes += 1
            for part in set(self.terms.parts[term]):
                self._users[self.find(part)].append(term)
            self._sign(term)
        self._close()

    def find(self, term: int) -> int:
        """Return the representative of a term's class."""
        while self._parent[term] != term:
            self._parent[term] = self._parent[self._parent[term]]
            term = self._parent[term]
        return term

    def unite(self, instance: Instance) -> bool:
        """Add an instance; return True if its sides were not known to be equal."""
        self.add_new_terms()
        new = self.find(instance.left) != self.find(instance.right)
        if new:
            self._work.append((instance.left, instance.right, instance))
            self._close()
        return new

    def _signature(self, term: int) -> tuple[int, ...]:
        return (self.terms.head[term], *map(self.find, self.terms.parts[term]))

    def _sign(self, term: int) -> None:
        other = self._signed.setdefault(self._signature(term), term)
        if self.find(other) != self.find(term):
            self._work.append((term, other, None))

    def _close(self) -> None:
        while self._work:
            left, right, by = self._work.pop()
            a, b = self.find(left), self.find(right)
            if a == b:
                continue
            if self._weight[a] > self._weight[b]:
                left, right, a, b = right, left, b, a
            self._reroot(left, right, by)
            self._parent[a] = b
            self._weight[b] += self._weight[a]
            self.classes -= 1
            moved, self._users[a] = self._users[a], []
            self._users[b] += moved
            for term in moved:
                self._sign(term)

    def _reroot(self, term: int, below: int, by: Instance | None) -> None:
        """Make a term the root of its tree, and attach the tree below another term."""
        at: int | None = term
        up: _Edge | None = _Edge(below, by)
        while at is not None:
            old = self._edge[at]
            self._edge[at] = up
            up = None if old is None else _Edge(at, old.by)
            at = None if old is None else old.to

    # -- chains -------------------------------------------------------------------------------------------------------

    def chain(self, left: int, right: int) -> Moves:
        """Return the moves from one ground term to another one of its class."""
        self.add_new_terms()
        return tuple(self._chain(left, right, ()))

    def _chain(self, left: int, right: int, path: Path) -> Iterator[RewriteStep]:
        for start, end, by in self._steps(left, right):
            if by is None:
                for place, (a, b) in enumerate(zip(self.terms.parts[start], self.terms.parts[end], strict=True)):
                    if a != b:
                        yield from self._chain(a, b, (*path, place))
            else:
                forward = (start, end) == (by.left, by.right)
                yield from (move.below(path) for move in (by.moves if forward else inverse_moves(by.moves)))

    def _steps(self, left: int, right: int) -> list[tuple[int, int, Instance | None]]:
        above = {left: 0}
        up = [left]
        while (edge := self._edge[up[-1]]) is not None:
            above[edge.to] = len(up)
            up.append(edge.to)
        down = [right]
        while down[-1] not in above:
            edge = self._edge[down[-1]]
            assert edge is not None, "the terms are of one class"
            down.append(edge.to)
        steps = [(at, edge.to, edge.by) for at in up[: above[down[-1]]] if (edge := self._edge[at]) is not None]
        return steps + [(edge.to, at, edge.by) for at in reversed(down[:-1]) if (edge := self._edge[at]) is not None]


def replayed(begin: Callable[[], Derivation], moves: Sequence[RewriteStep]) -> Derivation:
    """Replay the moves as kernel steps, skipping cycles that return to an earlier program; names are kept."""
    work = _replayed(begin(), moves)
    kept = without_detours([theorem.rhs for theorem in work.theorems])
    return work if len(kept) == len(moves) else _replayed(begin(), [moves[place] for place in kept])


def _replayed(work: Derivation, moves: Sequence[RewriteStep]) -> Derivation:
    for move in moves:
        work.apply(move.rule, move.path, move.arguments, reverse=move.reverse)
    return work


def without_detours(programs: Sequence[Program]) -> list[int]:
    """Return the positions of the steps that remain when steps between two equal programs are cut out."""
    last: dict[Expr, int] = {program.body: place for place, program in enumerate(programs)}
    kept, place = [], last[programs[0].body]
    while place < len(programs) - 1:
        kept.append(place)
        place = last[programs[place + 1].body]
    return kept
