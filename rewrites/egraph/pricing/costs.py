"""Cost models: the cost of a program at given sizes, computed bottom-up from its nodes and the loops around them.

There are three. `traffic` counts operations and cache lines that move between memory levels. `lines` counts operations
and the cache lines that each level of loops touches. `code_size` counts nodes. Each is a metric passed to one model.
An access that is not proved safe in its context, or that reads a tensor not stored in memory, has infinite cost.

Operations are counted per element, except in a *smooth* innermost loop, which C compilers vectorize: it reads and
stores adjacent elements, or the same element in all iterations. Reshape operators above a tensor decide where its
elements are stored. So the cost of a term inside others is a lower bound, and `final_cost` is its cost at the top.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

import numpy as np

from atl.checks.safety import accesses
from atl.core import terms
from atl.core.dtypes import DEFAULT, bits
from atl.core.index import Bound, Extremum, Index, Quotient, Read, Var, Xor, atoms, factor_of, index
from atl.core.predicate import Predicate, expressions
from atl.core.reshape_definitions import destination
from atl.core.substitution import map_op
from atl.core.traversal import children
from rewrites.egraph.contexts import Context, Range
from rewrites.egraph.pricing.extents import Extents, Nest
from rewrites.egraph.pricing.extraction import Costs
from rewrites.egraph.pricing.metrics import LEVELS, LINE, VECTOR, Lines, Metric, Nodes, Traffic

LEAST: Final = 1e-3
"""Minimum cost of a node, so that a term costs more than its parts."""
SMALL: Final = 1e-3
"""Weight of the logarithm of the second cost, so that the sum is less than one node."""


@dataclass(frozen=True, slots=True)
class Touched:
    """Elements read or stored in a loop nest: the array, and the position in terms of the loops' indices.

    Reads that differ by constants are the same: they share cache lines.
    """

    loops: tuple[Range, ...]
    array: object
    shape: tuple[Index, ...]
    at: tuple[Index, ...]
    width: int
    """Bytes of an element."""


@dataclass(frozen=True, slots=True)
class View:
    """A tensor in memory with some leading indices applied."""

    array: object
    shape: tuple[Index, ...]
    width: int
    at: tuple[Index, ...] = ()


@dataclass(frozen=True, slots=True)
class Stored:
    """The destination of a result's elements: the loops that compute them, and the position in terms of those loops.

    The operations of an innermost loop are counted once the destination of its stores is known.
    """

    loops: tuple[Range, ...]
    at: tuple[Index, ...] = ()
    operations: Costs | None = None
    smooth: bool = True

    def moved(self, at: tuple[Index, ...]) -> Stored:
        return replace(self, at=at)


@dataclass(frozen=True, slots=True, eq=False)
class Priced:
    """The cost of a node, and the facts about it that enclosing nodes need."""

    costs: Costs
    work: Costs
    """Cost counted so far."""
    body: Costs
    """Operations per iteration of the enclosing loop, outside of inner loops."""
    has_loop: bool = False
    is_rough: bool = False
    """True if the body depends on the enclosing loop's index in a way that cannot be vectorized."""
    reads: Mapping[Touched, int] = field(default_factory=dict)
    """Reads with the number of loop nests that perform them: within one nest a line is read once."""
    stores: tuple[Stored, ...] = ()
    view: View | None = None


@dataclass(eq=False)
class BottomUpModel:
    """A cost model that prices each node from its parts, by a metric, at given sizes.

    `sizes` maps each size to a number, or to an array with one number per candidate.
    """

    sizes: Mapping[str, Costs | float]
    metric: Metric
    _extents: Extents = field(init=False, repr=False)
    _prices: dict[Touched, Costs] = field(default_factory=dict, init=False, repr=False)
    _safe: dict[tuple[int, Predicate], bool] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self._extents = Extents(self.sizes)

    @property
    def candidates(self) -> int:
        """Number of assignments of sizes that are priced at once."""
        return self._extents.candidates

    @property
    def _none(self) -> Costs:
        return np.zeros(self.candidates)

    def result(self, at: Context, term: terms.Expr, parts: Sequence[Priced]) -> Priced:
        """Return the result of a node in a context."""
        if at.dead:
            never_run = self._none + LEAST
            stores = () if term.type.rank else (Stored(at.loops),)
            return Priced(never_run, never_run, self._none, stores=stores)
        made = self._result(at, term, list(parts)) if self._is_safe(at, term) else None
        if made is None:
            never = np.full(self.candidates, np.inf)
            return Priced(never, never, self._none)
        made = replace(made, work=made.work + LEAST)
        costs = self._total(at, term.type, made, (self._least(at, stored, term.type) for stored in made.stores))
        for part in parts:
            costs = np.maximum(costs, part.costs + LEAST)
        return replace(made, costs=costs)

    def final_cost(self, at: Context, term: terms.Expr, made: Priced) -> Costs:
        """Return the cost of a term at the top, with no reshape operators around it."""
        stores = (self._stored(at, stored, term.type, range(term.type.rank)) for stored in made.stores)
        total = self._total(at, term.type, made, stores)
        return np.maximum(total, made.costs)

    def _arithmetic(self, nest: Nest, operations: Costs, of: terms.Type, *, smooth: bool) -> Costs:
        return self.metric.arithmetic(nest, operations, lanes=VECTOR // _width(of) if smooth else 1)

    def _copy_cost(self, at: Context, of: terms.Type) -> Costs:
        """Return the cost of copying all elements in order."""
        return self.metric.copy(self._extents.nest(at.loops), self._elements(at, of), width=_width(of))

    def _total(self, at: Context, of: terms.Type, made: Priced, stores: Iterable[Costs]) -> Costs:
        total = made.work + self._arithmetic(self._extents.nest(at.loops), made.body, of, smooth=True)
        for read, times in made.reads.items():
            total = total + times * self._price(read)
        return sum(stores, total)

    def _least(self, at: Context, stored: Stored, of: terms.Type) -> Costs:
        """Return the least cost of storing the elements: transposed so that the innermost loop stores adjacent
        elements.
        """
        inner = len(stored.loops) - 1
        last = [place for place, position in enumerate(stored.at) if inner in position.free][-1:]
        order = [*(place for place in range(of.rank) if place not in last), *last]
        return self._stored(at, stored, of, order)

    def _stored(self, at: Context, stored: Stored, of: terms.Type, order: Sequence[int]) -> Costs:
        """Return the cost of storing a result's elements with its dimensions in this order."""
        if not of.rank:
            return self._none
        shape = at.scope.shape(of)
        where = tuple(stored.at[place] for place in order)
        cost = self._price(Touched(stored.loops, None, tuple(shape[place] for place in order), where, _width(of)))
        if stored.operations is not None:
            smooth = stored.smooth and _is_smooth(where, len(stored.loops) - 1)
            cost = cost + self._arithmetic(self._extents.nest(stored.loops), stored.operations, of, smooth=smooth)
        return cost

    def _price(self, touched: Touched) -> Costs:
        found = self._prices.get(touched)
        if found is None:
            nest = self._extents.nest(touched.loops)
            lines = [self._lines(nest, touched, level) for level in range(len(nest.trips) + 1)]
            found = self._prices[touched] = self.metric.memory(nest, lines)
        return found

    def _lines(self, nest: Nest, touched: Touched, first: int) -> Costs:
        """Return the number of cache lines that the loops from a level on touch, with the outer indices fixed."""
        held = nest.held_below(first)
        lines = self._none + 1
        last = len(touched.at) - 1
        for dimension, (position, extent) in enumerate(zip(touched.at, touched.shape, strict=True)):
            low, high = self._extents.interval(position, held)
            reach = np.minimum(high - low + 1, np.maximum(self._extents.interval(extent, held)[1], 1))
            count = np.minimum(reach, nest.iterations(position, first))
            if dimension == last:
                count = np.minimum(count, np.ceil(reach * touched.width / LINE))
            lines = lines * np.maximum(count, 1)
        return lines

    def _result(self, at: Context, term: terms.Expr, parts: list[Priced]) -> Priced | None:
        """Return the operations and memory accesses of a node; None for one that must not be chosen."""
        if not isinstance(term, terms.Access):
            below = zip(parts, children(term), strict=True)
            parts = [self._copied(at, part, child.expr.type) for part, child in below]
        made = Priced(
            self._none,
            sum((part.work for part in parts), self._none),
            sum((part.body for part in parts), self._none),
            any(part.has_loop for part in parts),
            any(part.is_rough for part in parts),
            _merged_reads(at, [part.reads for part in parts]),
            tuple(store for part in parts for store in part.stores),
        )
        here = () if term.type.rank else (Stored(at.loops),)
        match term:
            case terms.Input() | terms.Local() if not term.type.rank:
                return replace(made, body=made.body + 1, stores=here)
            case terms.Input(array):
                return replace(made, view=View(array, array.shape, _width(term.type)))
            case terms.Local(position, of):
                return replace(made, view=View(len(at.tensors) - 1 - position, at.scope.shape(of), _width(of)))
            case terms.Constant() | terms.Padding():
                return replace(made, stores=here)
            case terms.Value(value):
                rough = not _is_affine(value)
                return replace(made, body=made.body + 1, is_rough=rough, stores=here)
            case terms.Access():
                return self._access(at, term, parts[0], made)
            case terms.Gen() | terms.Reduce():
                return self._loop(at, term, made)
            case terms.Guard(predicate):
                rough = made.is_rough or not all(map(_is_affine, expressions(predicate)))
                return replace(made, body=made.body + 1, is_rough=rough)
            case terms.Select(predicate):
                rough = made.is_rough or not all(map(_is_affine, expressions(predicate)))
                return self._element_wise(at, term, replace(made, is_rough=rough))
            case terms.Let(value):
                return self._let(at, value, parts, made)
            case terms.Elementwise():
                return self._element_wise(at, term, made)
            case terms.Concat(left, _):
                by = at.scope.index(left.type.shape[0])
                moved = tuple(stored.moved((stored.at[0] + by, *stored.at[1:])) for stored in parts[1].stores)
                return replace(made, body=made.body + 1, stores=(*parts[0].stores, *moved))
            case terms.Reshape(op, operand):
                moved = tuple(stored.moved(_reshaped(op, stored.at, operand.type, at)) for stored in made.stores)
                return replace(made, body=made.body + 1, stores=moved)
            case terms.Rec():
                return self._recurrence(at, term, parts, made)
            case terms.TensorVar() | terms.Metavariable():
                return None
            case _:
                assert_never(term)

    def _loop(self, at: Context, term: terms.Gen | terms.Reduce, made: Priced) -> Priced:
        """Price a loop around a priced body."""
        level = len(at.loops)
        extent = term.high - term.low
        loops = (*at.loops, (at.scope.index(term.low), at.scope.index(term.high)))
        inside, nest = self._extents.nest(loops), self._extents.nest(at.loops)
        operations = made.body + 1
        is_scalar = not term.type.rank
        smooth = not made.is_rough and all(_is_smooth(read.at, level) for read in made.reads)
        if (
            is_scalar
            and not made.has_loop
            and extent.constant is not None
            and extent.constant <= self.metric.max_unrolled
        ):
            return replace(made, body=extent.constant * operations, is_rough=False, stores=(Stored(at.loops),))
        work, stores = made.work + self.metric.loop_start(nest), made.stores
        if made.has_loop:
            work = made.work + self._arithmetic(inside, operations, term.type, smooth=False)
        elif is_scalar:
            work = work + self._arithmetic(inside, operations, term.type, smooth=smooth)
        else:
            stores = tuple(replace(stored, operations=operations, smooth=smooth) for stored in stores)
        if isinstance(term, terms.Gen):
            own = index(Var(level)) - at.scope.index(term.low)
            stores = tuple(stored.moved((own, *stored.at)) for stored in stores)
        elif is_scalar:
            stores = (Stored(at.loops),)
        return replace(made, work=work, body=self._none, has_loop=True, is_rough=False, stores=stores)

    def _recurrence(self, at: Context, term: terms.Rec, parts: Sequence[Priced], made: Priced) -> Priced:
        """Price a recurrence like the concatenation of its first rows and a loop over the others."""
        first, row = parts
        later = terms.Gen(term.low, term.high, term.body)
        rows = self._loop(at, later, replace(row, reads=_merged_reads(at, [row.reads])))
        low = at.scope.index(term.low)
        stores = (stored.moved((stored.at[0] + low, *stored.at[1:])) for stored in rows.stores)
        return replace(
            made,
            work=first.work + rows.work,
            body=first.body + rows.body + 1,
            has_loop=True,
            is_rough=first.is_rough,
            stores=(*first.stores, *stores),
        )

    def _let(self, at: Context, value: terms.Expr, parts: Sequence[Priced], made: Priced) -> Priced:
        """Price a let: a scalar is computed in the enclosing loop, a tensor before the loops that read it."""
        rest = parts[1]
        if not value.type.rank:
            return replace(made, body=made.body + 1, stores=rest.stores)
        work = rest.work + self.final_cost(at, value, parts[0]) + self.metric.loop_start(self._extents.nest(at.loops))
        return replace(rest, work=work, body=rest.body + 1, has_loop=True)

    def _element_wise(self, at: Context, term: terms.Expr, made: Priced) -> Priced:
        """Price an operation on scalars in the enclosing loop, or on tensors in separate loops."""
        if not term.type.rank:
            return replace(made, body=made.body + 1, stores=(Stored(at.loops),))
        done = self._copy_cost(at, term.type)
        return replace(made, work=made.work + done, body=made.body + 1, has_loop=True)

    def _copied(self, at: Context, part: Priced, of: terms.Type) -> Priced:
        """Price a part that is a whole array or row, which is copied to its destination."""
        if part.view is None:
            return part
        copied = self._copy_cost(at, of)
        return replace(part, work=part.work + copied, body=part.body + 1, has_loop=True, view=None, stores=())

    def _access(self, at: Context, term: terms.Access, tensor: Priced, made: Priced) -> Priced | None:
        if tensor.view is None:
            return None
        view = replace(tensor.view, at=(*tensor.view.at, at.scope.index(term.index)))
        if len(view.at) < len(view.shape):
            return replace(made, view=view)
        near = tuple(position - position.offset for position in view.at)
        read = Touched(at.loops, view.array, view.shape, near, view.width)
        return replace(made, body=made.body + 1, reads={**made.reads, read: 1}, stores=(Stored(at.loops),))

    def _is_safe(self, at: Context, term: terms.Expr) -> bool:
        """Return True if all accesses of a node, also in its indices and conditions, are proved in bounds."""
        return all(self._holds(at, needed.goal) for needed in accesses(term, at.scope))

    def _holds(self, at: Context, goal: Predicate) -> bool:
        found = self._safe.get((at.number, goal))
        if found is None:
            found = self._safe[at.number, goal] = at.knows(goal)
        return found

    def _count(self, at: Context, extent: Index) -> Costs:
        return np.maximum(self._extents.interval(at.scope.index(extent), self._extents.nest(at.loops).ranges)[1], 0.0)

    def _elements(self, at: Context, of: terms.Type) -> Costs:
        elements = self._none + 1
        for extent in of.shape:
            elements = elements * np.maximum(self._count(at, extent), 1.0)
        return elements


def _merged_reads(at: Context, parts: Sequence[Mapping[Touched, int]]) -> dict[Touched, int]:
    """Merge the reads of all parts: equal reads in the same iteration count once, those of inner loops separately."""
    found: dict[Touched, int] = {}
    for reads in parts:
        for read, times in reads.items():
            before = found.get(read, 0)
            found[read] = max(before, times) if len(read.loops) == len(at.loops) else before + times
    return found


def _reshaped(op: terms.ReshapeOp, position: tuple[Index, ...], of: terms.Type, at: Context) -> tuple[Index, ...]:
    """Return the new position of the operand's element at a position."""
    opened = map_op(op, at.scope.index)
    pairs = destination(opened, tuple(zip(position, at.scope.shape(of), strict=True)))
    return tuple(moved for moved, _ in pairs)


def _is_smooth(at: tuple[Index, ...], level: int) -> bool:
    """Return True if a loop accesses adjacent elements at these positions, or the same element in all iterations."""
    for place, position in enumerate(at):
        factor = factor_of(position, Var(level))
        if factor is None or factor.constant not in ((0, 1) if place == len(at) - 1 else (0,)):
            return False
    return True


def _is_affine(e: Index) -> bool:
    """Return True if no quotient, extremum or array element in the expression depends on the enclosing loop's index."""
    return not any(
        Bound(0) in atoms(index(atom)) for atom in atoms(e) if isinstance(atom, Quotient | Extremum | Xor | Read)
    )


def _width(of: terms.Type) -> int:
    """Return the bytes of an element; a literal without a tensor has the default type."""
    return bits(of.dtype or DEFAULT) // 8


# -- built-in models --------------------------------------------------------------------------------------------------


def traffic(sizes: Mapping[str, Costs | float], levels: Sequence[tuple[int, float]] = LEVELS) -> BottomUpModel:
    """Price operations and cache misses; a level is its capacity in bytes and the cost of a missed line."""
    return BottomUpModel(sizes, Traffic(levels))


def lines(sizes: Mapping[str, Costs | float]) -> BottomUpModel:
    """Price operations and the cache lines that each level of loops touches each time it runs, for any cache."""
    return BottomUpModel(sizes, Lines())


def code_size(sizes: Mapping[str, Costs | float]) -> Lexicographic:
    """Price the number of nodes; programs of equal size are ordered by traffic."""
    return Lexicographic(BottomUpModel(sizes, Nodes()), BottomUpModel(sizes, Traffic()))


@dataclass(frozen=True, slots=True, eq=False)
class ResultPair:
    """The results of two models, and the costs of the first plus a small part of the second."""

    costs: Costs
    first: Priced
    then: Priced


@dataclass(eq=False)
class Lexicographic:
    """A cost model that orders by a first model, and breaks ties by a second."""

    first: BottomUpModel
    then: BottomUpModel

    @property
    def candidates(self) -> int:
        """Number of assignments of sizes that are priced at once."""
        return self.first.candidates

    def result(self, at: Context, term: terms.Expr, parts: Sequence[ResultPair]) -> ResultPair:
        """Return both models' results for a node in a context."""
        first = self.first.result(at, term, [part.first for part in parts])
        then = self.then.result(at, term, [part.then for part in parts])
        return ResultPair(first.costs + SMALL * np.log1p(then.costs), first, then)

    def final_cost(self, at: Context, term: terms.Expr, made: ResultPair) -> Costs:
        """Return the cost of a term at the top, with no reshape operators around it."""
        then = self.then.final_cost(at, term, made.then)
        return self.first.final_cost(at, term, made.first) + SMALL * np.log1p(then)
