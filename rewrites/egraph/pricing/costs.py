"""Cost models: what a program would cost at given sizes, told bottom-up from its nodes and the loops around them.

Three ship. `traffic` counts operations, and lines that move between the levels of a memory; `lines` counts operations,
and the lines that each level of loops touches; `code_size` counts nodes. What each of them counts is a value, a tariff.
An access that its context does not prove safe, and one into what is stored nowhere, is infinitely dear in all of them.

Operations are of one element, but where an innermost loop is *smooth*: it reads and stores elements that lie side by
side, or the same ones in all iterations. C compilers make vector instructions of such a loop. Where the elements of a
tensor are stored is told by the reshape operators above it; so what a term costs within others is the least that it may
cost there, and `settled` says what it costs as it stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

import numpy as np

from atl.checks.safety import accesses
from atl.core.dtypes import DEFAULT, bits
from atl.core.index import Bound, Extremum, Index, Quotient, Read, Var, Xor, atoms, factor_of, index
from atl.core.predicate import Predicate, expressions
from atl.core.reshape_definitions import destination
from atl.core.substitution import map_op
from atl.core.terms import (
    Access,
    Binary,
    Cast,
    Concat,
    Constant,
    Expr,
    Gen,
    Guard,
    Input,
    Let,
    Local,
    Metavariable,
    Padding,
    Reduce,
    Reshape,
    ReshapeOp,
    Select,
    TensorVar,
    Type,
    Unary,
    Value,
)
from atl.core.traversal import children
from rewrites.egraph.contexts import Context, Range
from rewrites.egraph.pricing.extents import Extents, Nest
from rewrites.egraph.pricing.extraction import Costs
from rewrites.egraph.pricing.tariffs import LEVELS, LINE, VECTOR, Lines, Nodes, Tariff, Traffic

LEAST: Final = 1e-3
"""What every node costs at least: a whole costs more than its parts."""
SMALL: Final = 1e-3
"""What the logarithm of a cost is multiplied with, so that it is less than one node."""


@dataclass(frozen=True, slots=True)
class Touched:
    """Elements that are read or stored in a nest of loops: of which array, and where in terms of the loops' indices.

    Reads that differ by constants only are one: they share their lines.
    """

    loops: tuple[Range, ...]
    array: object
    shape: tuple[Index, ...]
    at: tuple[Index, ...]
    width: int
    """Bytes of an element."""


@dataclass(frozen=True, slots=True)
class View:
    """A tensor in memory of which some elements were chosen."""

    array: object
    shape: tuple[Index, ...]
    width: int
    at: tuple[Index, ...] = ()


@dataclass(frozen=True, slots=True)
class Stored:
    """Where the elements of a result go: the loops in which they are computed, and a position in terms of these.

    The operations of an iteration of an innermost loop are counted where it is known where that loop stores.
    """

    loops: tuple[Range, ...]
    at: tuple[Index, ...] = ()
    operations: Costs | None = None
    smooth: bool = True

    def moved(self, at: tuple[Index, ...]) -> Stored:
        return replace(self, at=at)


@dataclass(frozen=True, slots=True, eq=False)
class Priced:
    """What a node costs, and what is to be known of it further out."""

    costs: Costs
    work: Costs
    """What is counted already."""
    body: Costs
    """The operations of each iteration of the loop around, as far as no loop stands in it."""
    has_loop: bool = False
    is_rough: bool = False
    """Something in the body depends on the index of the loop around in a way that vector instructions do not have."""
    reads: Mapping[Touched, int] = field(default_factory=dict)
    """What is read, and by how many nests of loops: within one nest lines are read once."""
    stores: tuple[Stored, ...] = ()
    view: View | None = None


@dataclass(eq=False)
class NodeByNode:
    """The cost model that prices each node from its parts, by a tariff, at given sizes.

    `sizes` has for each size a number, or an array of numbers: one for each candidate.
    """

    sizes: Mapping[str, Costs | float]
    tariff: Tariff
    _extents: Extents = field(init=False, repr=False)
    _prices: dict[Touched, Costs] = field(default_factory=dict, init=False, repr=False)
    _safe: dict[tuple[int, Predicate], bool] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self._extents = Extents(self.sizes)

    @property
    def candidates(self) -> int:
        """How many assignments of sizes are priced at once."""
        return self._extents.candidates

    @property
    def _none(self) -> Costs:
        return np.zeros(self.candidates)

    def result(self, at: Context, term: Expr, parts: Sequence[Priced]) -> Priced:
        """The result of a node in a context."""
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

    def settled(self, at: Context, term: Expr, made: Priced) -> Costs:
        """What a term costs as it stands, without reshape operators around it."""
        stores = (self._stored(at, stored, term.type, range(term.type.rank)) for stored in made.stores)
        total = self._total(at, term.type, made, stores)
        return np.maximum(total, made.costs)

    def _done(self, nest: Nest, operations: Costs, of: Type, *, smooth: bool) -> Costs:
        return self.tariff.done(nest, operations, lanes=VECTOR // _width(of) if smooth else 1)

    def _streamed(self, at: Context, of: Type) -> Costs:
        """What it costs to go through all elements in order."""
        return self.tariff.streamed(self._extents.nest(at.loops), self._elements(at, of), width=_width(of))

    def _total(self, at: Context, of: Type, made: Priced, stores: Iterable[Costs]) -> Costs:
        total = made.work + self._done(self._extents.nest(at.loops), made.body, of, smooth=True)
        for read, times in made.reads.items():
            total = total + times * self._price(read)
        return sum(stores, total)

    def _least(self, at: Context, stored: Stored, of: Type) -> Costs:
        """The least that elements cost to store: transposed so that the innermost loop stores them side by side."""
        inner = len(stored.loops) - 1
        last = [place for place, position in enumerate(stored.at) if inner in position.free][-1:]
        order = [*(place for place in range(of.rank) if place not in last), *last]
        return self._stored(at, stored, of, order)

    def _stored(self, at: Context, stored: Stored, of: Type, order: Sequence[int]) -> Costs:
        """What the elements of a result cost to store, with its dimensions in this order."""
        if not of.rank:
            return self._none
        shape = at.scope.shape(of)
        where = tuple(stored.at[place] for place in order)
        cost = self._price(Touched(stored.loops, None, tuple(shape[place] for place in order), where, _width(of)))
        if stored.operations is not None:
            smooth = stored.smooth and _is_smooth(where, len(stored.loops) - 1)
            cost = cost + self._done(self._extents.nest(stored.loops), stored.operations, of, smooth=smooth)
        return cost

    def _price(self, touched: Touched) -> Costs:
        found = self._prices.get(touched)
        if found is None:
            nest = self._extents.nest(touched.loops)
            lines = [self._lines(nest, touched, level) for level in range(len(nest.trips) + 1)]
            found = self._prices[touched] = self.tariff.moved(nest, lines)
        return found

    def _lines(self, nest: Nest, touched: Touched, first: int) -> Costs:
        """How many lines the loops from a level on touch, with the indices of those outside held."""
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

    def _result(self, at: Context, term: Expr, parts: list[Priced]) -> Priced | None:
        """What a node does and touches; None for one that must not be chosen."""
        if not isinstance(term, Access):
            below = zip(parts, children(term), strict=True)
            parts = [self._landed(at, part, child.expr.type) for part, child in below]
        made = Priced(
            self._none,
            sum((part.work for part in parts), self._none),
            sum((part.body for part in parts), self._none),
            any(part.has_loop for part in parts),
            any(part.is_rough for part in parts),
            _together(at, [part.reads for part in parts]),
            tuple(store for part in parts for store in part.stores),
        )
        here = () if term.type.rank else (Stored(at.loops),)
        match term:
            case Input() | Local() if not term.type.rank:
                return replace(made, body=made.body + 1, stores=here)
            case Input(array):
                return replace(made, view=View(array, array.shape, _width(term.type)))
            case Local(position, of):
                return replace(made, view=View(len(at.tensors) - 1 - position, at.scope.shape(of), _width(of)))
            case Constant() | Padding():
                return replace(made, stores=here)
            case Value(value):
                rough = not _is_even(value)
                return replace(made, body=made.body + 1, is_rough=rough, stores=here)
            case Access():
                return self._access(at, term, parts[0], made)
            case Gen() | Reduce():
                return self._loop(at, term, made)
            case Guard(predicate):
                rough = made.is_rough or not all(map(_is_even, expressions(predicate)))
                return replace(made, body=made.body + 1, is_rough=rough)
            case Select(predicate):
                rough = made.is_rough or not all(map(_is_even, expressions(predicate)))
                return self._element_wise(at, term, replace(made, is_rough=rough))
            case Let(value):
                return self._let(at, value, parts, made)
            case Unary() | Binary() | Cast():
                return self._element_wise(at, term, made)
            case Concat(left, _):
                by = at.scope.index(left.type.shape[0])
                moved = tuple(stored.moved((stored.at[0] + by, *stored.at[1:])) for stored in parts[1].stores)
                return replace(made, body=made.body + 1, stores=(*parts[0].stores, *moved))
            case Reshape(op, operand):
                moved = tuple(stored.moved(_reshaped(op, stored.at, operand.type, at)) for stored in made.stores)
                return replace(made, body=made.body + 1, stores=moved)
            case TensorVar() | Metavariable():
                return None
            case _:
                assert_never(term)

    def _loop(self, at: Context, term: Gen | Reduce, made: Priced) -> Priced:
        """A loop around a body that is priced."""
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
            and extent.constant <= self.tariff.written_out
        ):
            return replace(made, body=extent.constant * operations, is_rough=False, stores=(Stored(at.loops),))
        work, stores = made.work + self.tariff.begun(nest), made.stores
        if made.has_loop:
            work = made.work + self._done(inside, operations, term.type, smooth=False)
        elif is_scalar:
            work = work + self._done(inside, operations, term.type, smooth=smooth)
        else:
            stores = tuple(replace(stored, operations=operations, smooth=smooth) for stored in stores)
        if isinstance(term, Gen):
            own = index(Var(level)) - at.scope.index(term.low)
            stores = tuple(stored.moved((own, *stored.at)) for stored in stores)
        elif is_scalar:
            stores = (Stored(at.loops),)
        return replace(made, work=work, body=self._none, has_loop=True, is_rough=False, stores=stores)

    def _let(self, at: Context, value: Expr, parts: Sequence[Priced], made: Priced) -> Priced:
        """A scalar is computed in the loop around; a tensor is computed, as it stands, before what reads it."""
        rest = parts[1]
        if not value.type.rank:
            return replace(made, body=made.body + 1, stores=rest.stores)
        work = rest.work + self.settled(at, value, parts[0]) + self.tariff.begun(self._extents.nest(at.loops))
        return replace(rest, work=work, body=rest.body + 1, has_loop=True)

    def _element_wise(self, at: Context, term: Expr, made: Priced) -> Priced:
        """An operation on scalars, in the loop around; or on tensors, in loops of its own."""
        if not term.type.rank:
            return replace(made, body=made.body + 1, stores=(Stored(at.loops),))
        done = self._streamed(at, term.type)
        return replace(made, work=made.work + done, body=made.body + 1, has_loop=True)

    def _landed(self, at: Context, part: Priced, of: Type) -> Priced:
        """A part that is a whole array, or a row of one, is copied where it goes."""
        if part.view is None:
            return part
        copied = self._streamed(at, of)
        return replace(part, work=part.work + copied, body=part.body + 1, has_loop=True, view=None, stores=())

    def _access(self, at: Context, term: Access, tensor: Priced, made: Priced) -> Priced | None:
        if tensor.view is None:
            return None
        view = replace(tensor.view, at=(*tensor.view.at, at.scope.index(term.index)))
        if len(view.at) < len(view.shape):
            return replace(made, view=view)
        near = tuple(position - position.offset for position in view.at)
        read = Touched(at.loops, view.array, view.shape, near, view.width)
        return replace(made, body=made.body + 1, reads={**made.reads, read: 1}, stores=(Stored(at.loops),))

    def _is_safe(self, at: Context, term: Expr) -> bool:
        """Whether the accesses of a node, and the reads in its indices and conditions, are proved to be in bounds."""
        return all(self._holds(at, needed.goal) for needed in accesses(term, at.scope))

    def _holds(self, at: Context, goal: Predicate) -> bool:
        found = self._safe.get((at.number, goal))
        if found is None:
            found = self._safe[at.number, goal] = at.knows(goal)
        return found

    def _count(self, at: Context, extent: Index) -> Costs:
        return np.maximum(self._extents.interval(at.scope.index(extent), self._extents.nest(at.loops).ranges)[1], 0.0)

    def _elements(self, at: Context, of: Type) -> Costs:
        elements = self._none + 1
        for extent in of.shape:
            elements = elements * np.maximum(self._count(at, extent), 1.0)
        return elements


def _together(at: Context, parts: Sequence[Mapping[Touched, int]]) -> dict[Touched, int]:
    """The reads of all parts: in one iteration here those that are alike are one, those of loops within are apart."""
    found: dict[Touched, int] = {}
    for reads in parts:
        for read, times in reads.items():
            before = found.get(read, 0)
            found[read] = max(before, times) if len(read.loops) == len(at.loops) else before + times
    return found


def _reshaped(op: ReshapeOp, position: tuple[Index, ...], of: Type, at: Context) -> tuple[Index, ...]:
    """Where an element goes that stood at a position of the operand."""
    opened = map_op(op, at.scope.index)
    pairs = destination(opened, tuple(zip(position, at.scope.shape(of), strict=True)))
    return tuple(moved for moved, _ in pairs)


def _is_smooth(at: tuple[Index, ...], level: int) -> bool:
    """Whether elements at these positions lie side by side in iterations of a loop, or are the same ones in all."""
    for place, position in enumerate(at):
        factor = factor_of(position, Var(level))
        if factor is None or factor.constant not in ((0, 1) if place == len(at) - 1 else (0,)):
            return False
    return True


def _is_even(e: Index) -> bool:
    """Whether no quotient, extremum or element in an expression depends on the index of the loop around."""
    return not any(
        Bound(0) in atoms(index(atom)) for atom in atoms(e) if isinstance(atom, Quotient | Extremum | Xor | Read)
    )


def _width(of: Type) -> int:
    """Bytes of an element; a literal that meets no tensor is one of the default type."""
    return bits(of.dtype or DEFAULT) // 8


# -- the models that ship ---------------------------------------------------------------------------------------------


def traffic(sizes: Mapping[str, Costs | float], levels: Sequence[tuple[int, float]] = LEVELS) -> NodeByNode:
    """Operations, and lines that miss a level of memory: the bytes that fit, and what a line costs that does not."""
    return NodeByNode(sizes, Traffic(levels))


def lines(sizes: Mapping[str, Costs | float]) -> NodeByNode:
    """Operations, and the lines that each level of loops touches, each time that it runs, whatever the memory is."""
    return NodeByNode(sizes, Lines())


def code_size(sizes: Mapping[str, Costs | float]) -> FirstThen:
    """Nodes of the program; of programs of as many nodes, the one with less traffic."""
    return FirstThen(NodeByNode(sizes, Nodes()), NodeByNode(sizes, Traffic()))


@dataclass(frozen=True, slots=True, eq=False)
class Both:
    """The results of two models, and the costs of the first with a little of the second."""

    costs: Costs
    first: Priced
    then: Priced


@dataclass(eq=False)
class FirstThen:
    """The cost model that counts whole things by one model, and decides by another one between what costs the same."""

    first: NodeByNode
    then: NodeByNode

    @property
    def candidates(self) -> int:
        """How many assignments of sizes are priced at once."""
        return self.first.candidates

    def result(self, at: Context, term: Expr, parts: Sequence[Both]) -> Both:
        """The results of both for a node in a context."""
        first = self.first.result(at, term, [part.first for part in parts])
        then = self.then.result(at, term, [part.then for part in parts])
        return Both(first.costs + SMALL * np.log1p(then.costs), first, then)

    def settled(self, at: Context, term: Expr, made: Both) -> Costs:
        """What a term costs as it stands, without reshape operators around it."""
        then = self.then.settled(at, term, made.then)
        return self.first.settled(at, term, made.first) + SMALL * np.log1p(then)
