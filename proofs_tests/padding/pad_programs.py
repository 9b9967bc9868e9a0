"""Random programs with padding: nested truncations, pads, concatenations, transposes, splits and flattenings.

Sizes and tile sizes are symbolic. The generator tracks the padding at both ends of the first dimension, so that most
truncations, but not all, cut only padding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import atl
from atl import IndexExpr, Program, Tensor
from proofs_tests.programs.choices import Choices, chance, choose, weighted

Amount = IndexExpr | int


@dataclass(frozen=True, slots=True)
class Padded:
    """A tensor, with the known padding at both ends of its first dimension."""

    tensor: Tensor
    left: Amount = 0
    right: Amount = 0

    @property
    def rank(self) -> int:
        return self.tensor.rank


class Maker:
    """Generates one program; `used` counts its operators."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.used: Counter[str] = Counter()
        self.nontrivial = 0
        self.n, self.m = atl.sizes("n m")
        self.k, self.t = atl.sizes("k t", min=1)
        self.inputs = [atl.tensor("x", self.n), atl.tensor("X", self.n, self.m)]

    def extent(self) -> IndexExpr:
        one = self.n * 0 + 1
        chosen: IndexExpr = weighted(
            self.choices,
            [(4, self.n), (4, self.m), (2, self.k), (1, one * 3), (1, self.n + 1), (1, self.k + self.t), (1, one)],
        )
        return chosen

    def fresh(self, shape: tuple[IndexExpr, ...]) -> Padded:
        """Generate a tensor of this shape whose elements may be guarded, sums, or literals."""
        guarded = choose(self.choices, ["no", "no", "tail", "head", "triangle", "sum", "sum of guards"])
        drop = choose(self.choices, [self.k * 0 + 1, self.k, self.t])

        def element(*at: IndexExpr) -> Tensor:
            value = self._scalar(at)
            match guarded:
                case "tail":
                    return atl.guard(at[0] + drop < shape[0], value)
                case "head":
                    return atl.guard(at[0] >= drop, value)
                case "triangle":
                    return atl.guard(at[0] <= at[-1], value)
                case "sum":
                    return atl.sum(self.m, lambda _: value)
                case "sum of guards":
                    return atl.sum(self.m, lambda q: atl.guard(q + at[0] + drop < shape[0], value))
                case _:
                    return value

        self.used["gen"] += 1
        self.used[f"guarded: {guarded}"] += 1
        made = atl.gen(*shape, element) if shape else element(self.n * 0)
        match guarded:
            case "tail" | "sum of guards":
                return Padded(made, right=atl.imin(drop, shape[0]))
            case "head":
                return Padded(made, left=atl.imin(drop, shape[0]))
            case _:
                return Padded(made)

    def _scalar(self, at: tuple[IndexExpr, ...]) -> Tensor:
        match choose(self.choices, ["literal", "read", "matrix"]):
            case "read":
                return atl.guard(at[0] < self.n, self.inputs[0][at[0]]) + 1.0
            case "matrix" if len(at) > 1:
                inside = (at[0] < self.n) & (at[1] < self.m)
                return atl.select(inside, self.inputs[1][at[0], at[1]], 1.0)
            case _:
                return atl.gen(1, lambda i: 2.0)[0] + 0.5

    def term(self, depth: int, rank: int) -> Padded:
        if depth == 0:
            return self.fresh(tuple(self.extent() for _ in range(rank)))
        options: list[tuple[int, Callable[[], Padded]]] = [
            (4, lambda: self.padded(depth, rank)),
            (8, lambda: self.truncated(depth, rank)),
            (2, lambda: self.concatenated(depth, rank)),
            (2, lambda: self.bound(depth, rank)),
            (2, lambda: self.generated(depth, rank)),
            (1, lambda: self.summed(depth, rank)),
            (1, lambda: self.guarded(depth, rank)),
            (2, lambda: self.placed(depth, rank)),
            (1, lambda: self.continued(depth, rank)),
        ]
        if rank >= 2:
            options += [(3, lambda: self.transposed(depth, rank)), (2, lambda: self.split(depth, rank))]
        else:
            options += [(4, lambda: self.tiled(depth, rank))]
        if rank < 3:
            options += [(2, lambda: self.flattened(depth, rank))]
        return weighted(self.choices, options)()

    def padded(self, depth: int, rank: int) -> Padded:
        inner = self.term(depth - 1, rank)
        amount = choose(self.choices, [self.k, self.n * 0 + 1, self.n * 0 + 2, self.t, self.n])
        if chance(self.choices, 50):
            self.used["padr"] += 1
            return Padded(atl.padr(amount, inner.tensor), inner.left, amount + inner.right)
        self.used["padl"] += 1
        return Padded(atl.padl(amount, inner.tensor), amount + inner.left, inner.right)

    def truncated(self, depth: int, rank: int) -> Padded:
        """Generate a truncation, usually of known padding, sometimes by one element more or at the wrong end."""
        inner = self.padded(depth, rank) if chance(self.choices, 50) else self.term(depth - 1, rank)
        left = chance(self.choices, 50)
        there = inner.left if left else inner.right
        if chance(self.choices, 6):
            left = not left
        if isinstance(there, int):
            there = inner.tensor.shape[0] * 0 + there
        amount = weighted(
            self.choices, [(12, there), (1, there + 1), (2, there - atl.imin(there, 1)), (1, atl.imin(there, self.k))]
        )
        if chance(self.choices, 4):
            amount = atl.imin(inner.tensor.shape[0], self.t)
        if str(amount) != "0":
            self.nontrivial += 1
        self.used["truncl" if left else "truncr"] += 1
        made = (atl.truncl if left else atl.truncr)(amount, inner.tensor)
        return Padded(made, 0 if left else inner.left, inner.right if left else 0)

    def tiled(self, depth: int, rank: int) -> Padded:
        """Generate flatten(split(…)), whose tail is padding."""
        inner = self.term(depth - 1, rank)
        by, extent = choose(self.choices, [self.k, self.t, self.n * 0 + 3]), inner.tensor.shape[0]
        self.used["split"] += 1
        self.used["flatten"] += 1
        made = atl.flatten(atl.split(by, inner.tensor))
        tail = atl.ceildiv(extent, by) * by - extent
        return Padded(made, inner.left, tail + inner.right)

    def split(self, depth: int, rank: int) -> Padded:
        inner = self.term(depth - 1, rank - 1)
        self.used["split"] += 1
        return Padded(atl.split(choose(self.choices, [self.k, self.t, self.n * 0 + 2]), inner.tensor))

    def placed(self, depth: int, rank: int) -> Padded:
        """Place one row, or a sum of rows, in a larger tensor, and track the padding around it."""
        inner = Padded(self._scalar((self.n * 0,))) if rank == 1 else self.term(depth - 1, rank - 1)
        self.used["place"] += 1
        before, after = (
            choose(self.choices, [self.n, self.k, self.t, self.n * 0]),
            choose(self.choices, [self.m, self.t]),
        )
        if chance(self.choices, 50):
            return Padded(atl.place(before + 1 + after, before, inner.tensor), before, after)
        rows = choose(self.choices, [self.m, self.k])
        self.used["sum"] += 1
        placed = atl.sum(rows, lambda p: atl.place(before + rows + after, before + p, inner.tensor))
        return Padded(placed, before, after)

    def flattened(self, depth: int, rank: int) -> Padded:
        inner = self.term(depth - 1, rank + 1)
        self.used["flatten"] += 1
        width = inner.tensor.shape[1]
        return Padded(atl.flatten(inner.tensor), inner.left * width, inner.right * width)

    def transposed(self, depth: int, rank: int) -> Padded:
        inner = self.term(depth - 1, rank)
        self.used["transpose"] += 1
        if chance(self.choices, 50):
            return Padded(atl.transpose(inner.tensor))
        self.used["transpose"] += 1
        return Padded(atl.transpose(atl.transpose(inner.tensor)), inner.left, inner.right)

    def concatenated(self, depth: int, rank: int) -> Padded:
        first = self.term(depth - 1, rank)
        second = self.fresh((self.extent(), *first.tensor.shape[1:]))
        self.used["concat"] += 1
        if chance(self.choices, 50):
            first, second = second, first
        return Padded(atl.concat(first.tensor, second.tensor), first.left, second.right)

    def continued(self, depth: int, rank: int) -> Padded:
        """Generate a recurrence: further rows are computed from the one before, or are padding."""
        inner = self.term(depth - 1, rank)
        self.used["rec"] += 1
        begun, more = inner.tensor.shape[0], choose(self.choices, [self.k, self.t, self.n * 0 + 1])
        if chance(self.choices, 50):
            return Padded(atl.rec(inner.tensor, begun + more, lambda p, y: atl.guard(p >= 1, y[p - 1])), inner.left)
        rows = atl.rec(inner.tensor, begun + more, lambda p, y: atl.guard((p < begun) & (p >= 1), y[p - 1]))
        return Padded(rows, inner.left, inner.right + more)

    def bound(self, depth: int, rank: int) -> Padded:
        """Generate a let; its body may read the whole bound tensor, which makes the elements computed."""
        inner = self.term(depth - 1, rank)
        self.used["let"] += 1
        if chance(self.choices, 40):
            return Padded(atl.let(inner.tensor, lambda y: y))
        shape, left = inner.tensor.shape, inner.left

        def reread(y: Tensor) -> Tensor:
            return atl.gen(*shape, lambda *at: atl.guard(at[0] >= left, y[at]))

        return Padded(atl.let(inner.tensor, reread), inner.left)

    def generated(self, depth: int, rank: int) -> Padded:
        """Generate a tensor whose rows are all the same term."""
        if rank == 1:
            return self.fresh((self.extent(),))
        inner = self.term(depth - 1, rank - 1)
        self.used["gen"] += 1
        return Padded(atl.gen(self.extent(), lambda i: inner.tensor))

    def summed(self, depth: int, rank: int) -> Padded:
        inner = self.term(depth - 1, rank)
        self.used["sum"] += 1
        return Padded(atl.sum(self.m, lambda _: inner.tensor), inner.left, inner.right)

    def guarded(self, depth: int, rank: int) -> Padded:
        inner = self.term(depth - 1, rank)
        self.used["guard"] += 1
        return Padded(atl.guard(self.n >= 2, inner.tensor), inner.left, inner.right)

    def program(self) -> Program:
        rank = self.choices.integer(1, 2)
        depth = self.choices.integer(2, 5)
        return atl.program("pads", self.inputs, self.truncated(depth, rank).tensor)
