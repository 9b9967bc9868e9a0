"""Extraction: the k best terms of a class by a cost model, for all candidate tile sizes in one pass.

A model computes a result for each node, from its context and the results of its parts. A result has a cost for each
candidate, strictly larger than the costs of its parts, so that a best term never contains its own class. It may hold
further data that the model needs for enclosing nodes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from atl.core.substitution import with_children
from atl.core.terms import Expr
from atl.errors import InvalidArgument, brief
from rewrites.egraph.contexts import Context
from rewrites.egraph.terms import Head

Costs: TypeAlias = npt.NDArray[np.float64]
"""Cost for each candidate; infinity for a term that must not be chosen."""
Node: TypeAlias = tuple[int, tuple[int, ...]]
"""A head and the classes of its parts."""
Nodes: TypeAlias = Mapping[int, Sequence[Node]]
"""The nodes of each class."""

MAX_PASSES: Final = 400
"""Maximum number of passes over one class; costs converge long before."""


class Result(Protocol):
    """A model's result for a term: its costs, and data for enclosing nodes."""

    @property
    def costs(self) -> Costs: ...


class Model(Protocol):
    """A cost model. `candidates` is the number of assignments of sizes that it prices at once."""

    @property
    def candidates(self) -> int: ...

    def result(self, at: Context, term: Expr, parts: Sequence[Any]) -> Any:
        """Return the result of a node from those of its parts; only the node itself is used of `term`.

        Its costs are larger than those of each part.
        """
        ...

    def final_cost(self, at: Context, term: Expr, made: Any) -> Costs:
        """Return the cost of a term with this result at the top of a program; at least the costs of the result."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class _Pick:
    """A node with, for each of its parts, the rank of the part's term in its class."""

    result: Any
    head: int
    parts: tuple[int, ...]
    ranks: tuple[int, ...]
    picks: tuple[_Pick, ...]
    within: frozenset[int]
    """The classes that occur in the term."""

    @property
    def key(self) -> tuple[object, ...]:
        return (float(self.result.costs.min()), self.head, self.parts, self.ranks)


@dataclass(frozen=True, slots=True, eq=False)
class Extracted:
    """A term of a class, the candidate for which it is cheapest, and its cost there."""

    cost: float
    candidate: int
    _pick: _Pick
    _heads: Sequence[Head]

    def nodes_from(self, root: int) -> dict[int, Node]:
        """Return the classes that occur in the term below `root`, each with the chosen node."""
        found: dict[int, Node] = {}
        waiting = [(root, self._pick)]
        while waiting:
            name, pick = waiting.pop()
            if name not in found:
                found[name] = pick.head, pick.parts
                waiting += zip(pick.parts, pick.picks, strict=True)
        return found

    @property
    def term(self) -> Expr:
        """The term."""
        return _term(self._pick, self._heads)


def _term(pick: _Pick, heads: Sequence[Head]) -> Expr:
    sample = heads[pick.head].sample
    return with_children(sample, tuple(_term(part, heads) for part in pick.picks)) if pick.picks else sample


class Extraction:
    """The best terms of every class reachable from the root: `k` of them, and the best one for each candidate.

    Once `is_late` returns True, each remaining class is visited once, with only the best term of each of its parts.
    """

    def __init__(
        self,
        heads: Sequence[Head],
        nodes: Nodes,
        model: Model,
        root: int,
        k: int = 1,
        is_late: Callable[[], bool] = lambda: False,
    ) -> None:
        self.heads, self.nodes, self.model, self.k = heads, nodes, model, k
        self._is_late = is_late
        self.out_of_time = False
        self.calls = 0
        self._best: dict[int, tuple[_Pick, ...]] = {}
        self._results: dict[tuple[int, tuple[int, ...]], Any] = {}
        self._root = root
        self._settle(root)

    def best(self) -> list[Extracted]:
        """Return the best terms of the root's class, cheapest first, each for its best candidate."""
        found = []
        for pick in self._best.get(self._root, ()):
            at = self.heads[pick.head]
            costs = self.model.final_cost(at.context, at.sample, pick.result)
            candidate = int(costs.argmin())
            found.append(Extracted(float(costs[candidate]), candidate, pick, self.heads))
        return sorted(found, key=lambda at: at.cost)

    def _settle(self, root: int) -> None:
        order = _parts_first(self.nodes, root)
        users: defaultdict[int, list[int]] = defaultdict(list)
        for name in order:
            for part in {part for _, parts in self.nodes[name] for part in parts}:
                users[part].append(name)
        place = {name: position for position, name in enumerate(order)}
        passes: defaultdict[int, int] = defaultdict(int)
        waiting = set(order)
        while waiting:
            for name in sorted(waiting, key=place.__getitem__):
                waiting.discard(name)
                self.out_of_time = self.out_of_time or self._is_late()
                if self.out_of_time and passes[name]:
                    continue
                passes[name] += 1
                made = self._picked(name)
                old = self._best.get(name, ())
                if [at.key for at in made] != [at.key for at in old] and passes[name] < MAX_PASSES:
                    self._best[name] = made
                    waiting.update(users[name])

    def _picked(self, name: int) -> tuple[_Pick, ...]:
        found = []
        for head, parts in self.nodes[name]:
            lists = [self._best.get(part, ()) for part in parts]
            for ranks in self._ranks([len(each) for each in lists]):
                picks = tuple(each[rank] for each, rank in zip(lists, ranks, strict=True))
                within = frozenset((name,)).union(*(pick.within for pick in picks))
                if any(name in pick.within for pick in picks):
                    continue
                result = self._result(head, picks)
                if np.isfinite(result.costs).any():
                    found.append(_Pick(result, head, parts, ranks, picks, within))
        found.sort(key=lambda at: at.key)
        return self._kept(found)

    def _ranks(self, counts: Sequence[int]) -> Iterator[tuple[int, ...]]:
        if not counts:
            yield ()
        elif self.out_of_time or (self.k == 1 and self.model.candidates == 1):
            yield from ((0,) * len(counts) for _ in range(all(counts)))
        else:
            most = max(self.k, *counts)
            yield from (ranks for ranks in product(*map(range, counts)) if sum(ranks) < most)

    def _result(self, head: int, picks: tuple[_Pick, ...]) -> Any:
        key = (head, tuple(id(pick.result) for pick in picks))
        found = self._results.get(key)
        if found is None:
            self.calls += 1
            at = self.heads[head]
            made = self.model.result(at.context, at.sample, [pick.result for pick in picks])
            _check_costs(getattr(made, "costs", None), self.model.candidates)
            # Keep the parts alive, since they are keyed by their id.
            found = self._results[key] = (made, picks)
        return found[0]

    def _kept(self, found: list[_Pick]) -> tuple[_Pick, ...]:
        """Return the k cheapest, and the cheapest for each candidate."""
        if len(found) <= self.k:
            return tuple(found)
        kept = set(range(self.k))
        if self.model.candidates > 1:
            table = np.stack([pick.result.costs for pick in found])
            kept.update(int(row) for row in table.argmin(axis=0))
        return tuple(found[row] for row in sorted(kept))


def _check_costs(costs: object, candidates: int) -> None:
    """Check the costs that a user-defined model returns. Raises `InvalidArgument`."""
    if not isinstance(costs, np.ndarray) or costs.shape != (candidates,) or costs.dtype.kind != "f":
        raise InvalidArgument(
            f"a cost model returned the costs {brief(costs)}",
            required=f"a result with costs: an array of {candidates} floats, one for each choice of tile sizes",
        )


def _parts_first(nodes: Nodes, root: int) -> list[int]:
    """Return the classes reachable from the root, parts first except in cycles."""
    order: list[int] = []
    seen: set[int] = set()
    stack = [(root, False)]
    while stack:
        name, ready = stack.pop()
        if ready:
            order.append(name)
        elif name not in seen:
            seen.add(name)
            stack.append((name, True))
            stack.extend((part, False) for _, parts in nodes.get(name, ()) for part in parts)
    return order
