"""Cost models: what a program would cost at given sizes, told bottom-up from its nodes and the loops around them.

Three ship. `Traffic` counts operations, and lines that move between the levels of a memory hierarchy; `Lines` the lines
that each level of loops touches; `CodeSize` nodes. An access that its context does not prove safe, and one into what is
stored nowhere, is infinitely dear in all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias, assert_never

import numpy as np

from atl.core.index import ZERO, Index, Var, floordiv, index
from atl.core.predicate import within
from atl.core.terms import (
    Access,
    Binary,
    Cast,
    Concat,
    Constant,
    Expr,
    Flatten,
    Gen,
    Guard,
    Input,
    Let,
    Local,
    Metavariable,
    Padding,
    PadLeft,
    PadRight,
    Place,
    Reduce,
    Reshape,
    ReshapeOp,
    Select,
    Split,
    TensorVar,
    Transpose,
    TruncateLeft,
    TruncateRight,
    Type,
    Unary,
    Value,
)
from atl.core.traversal import children
from rewrites.egraph.contexts import Context, Range
from rewrites.egraph.pricing.extents import Extents, Nest
from rewrites.egraph.pricing.extraction import Costs

LEAST: Final = 1e-3
"""What every node costs at least: a whole costs more than its parts."""
OPERATION: Final = 0.1
LINE: Final = 16
"""Elements of a line of a cache."""
LEVELS: Final = ((8_192, 2.0), (131_072, 20.0))
"""The levels of a memory hierarchy: how many elements fit, and what a line costs that does not."""


@dataclass(frozen=True, slots=True)
class Touched:
    """Elements that are read or stored in a nest of loops: of which array, and where in terms of the loops' indices.

    Reads that differ by constants only are one: they share their lines.
    """

    loops: tuple[Range, ...]
    array: object
    shape: tuple[Index, ...]
    at: tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class View:
    """A tensor in memory of which some elements were chosen."""

    array: object
    shape: tuple[Index, ...]
    at: tuple[Index, ...] = ()


Stored: TypeAlias = tuple[tuple[Range, ...], tuple[Index, ...]]
"""Where the elements of a result go: the loops in which they are computed, and a position in terms of these."""


@dataclass(frozen=True, slots=True, eq=False)
class Priced:
    """What a node costs, and what is to be known of it further out."""

    costs: Costs
    work: Costs
    reads: frozenset[Touched] = frozenset()
    stores: tuple[Stored, ...] = ()
    view: View | None = None


@dataclass(eq=False)
class Traffic:
    """Operations, and lines that miss each level of the memory, at given sizes.

    `sizes` has for each size a number, or an array of numbers: one for each candidate.
    """

    sizes: Mapping[str, Costs | float]
    levels: Sequence[tuple[int, float]] = LEVELS
    operation: float = OPERATION
    _extents: Extents = field(init=False, repr=False)
    _prices: dict[Touched, Costs] = field(default_factory=dict, init=False, repr=False)
    _safe: dict[tuple[int, Index, Index], bool] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self._extents = Extents(self.sizes)

    @property
    def candidates(self) -> int:
        """How many assignments of sizes are priced at once."""
        return self._extents.candidates

    # -- what differs between models ----------------------------------------------------------------------------------

    def _moved(self, nest: Nest, lines: Sequence[Costs]) -> Costs:
        """What it costs that the loops from each level on touch so many lines."""
        total = self._none
        for capacity, price in self.levels:
            missed = lines[0]
            fits = lines[0] * LINE <= capacity / 3
            for level in range(1, len(lines)):
                outside = np.prod(nest.trips[:level], axis=0)
                missed = np.where(fits, missed, outside * lines[level])
                fits = fits | (lines[level] * LINE <= capacity / 3)
            total = total + price * missed
        return total

    def _done(self, nest: Nest, times: Costs | float = 1.0) -> Costs:
        """What so many operations in a nest of loops cost."""
        return self.operation * nest.total * times

    def _streamed(self, nest: Nest, elements: Costs) -> Costs:
        """What it costs to go through so many elements in order, in a nest of loops."""
        return nest.total * elements / LINE * sum(price for _, price in self.levels)

    # -- pricing ------------------------------------------------------------------------------------------------------

    @property
    def _none(self) -> Costs:
        return np.zeros(self.candidates)

    def result(self, at: Context, term: Expr, parts: Sequence[Priced]) -> Priced:
        """The result of a node in a context."""
        if at.dead:
            never_run = self._none + LEAST
            return Priced(never_run, never_run, stores=() if term.type.rank else ((at.loops, ()),))
        made = self._result(at, term, list(parts))
        if made is None:
            never = np.full(self.candidates, np.inf)
            return Priced(never, never)
        work = made.work + LEAST
        costs = work
        for read in made.reads:
            costs = costs + self._price(read)
        if term.type.rank and made.view is None:
            shape = at.scope.shape(term.type)
            for loops, position in made.stores:
                costs = costs + self._price(Touched(loops, None, shape, position))
        for part in parts:
            costs = np.maximum(costs, part.costs + LEAST)
        return replace(made, work=work, costs=costs)

    def _price(self, touched: Touched) -> Costs:
        found = self._prices.get(touched)
        if found is None:
            nest = self._extents.nest(touched.loops)
            lines = [self._lines(nest, touched, level) for level in range(len(nest.trips) + 1)]
            found = self._prices[touched] = self._moved(nest, lines)
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
                count = np.minimum(count, np.ceil(reach / LINE))
            lines = lines * np.maximum(count, 1)
        return lines

    def _result(self, at: Context, term: Expr, parts: list[Priced]) -> Priced | None:
        """What a node does and touches; None for one that must not be chosen."""
        nest = self._extents.nest(at.loops)
        if not isinstance(term, Access):
            below = zip(parts, children(term), strict=True)
            parts = [self._landed(at, part, child.expr.type) for part, child in below]
        work = sum((part.work for part in parts), self._none)
        reads = frozenset[Touched]().union(*(part.reads for part in parts))
        stores = tuple(store for part in parts for store in part.stores)
        made = Priced(self._none, work, reads, stores)
        if isinstance(term, Input | Local) and not term.type.rank:
            return replace(made, work=self._done(nest), stores=((at.loops, ()),))
        match term:
            case Input(array):
                return replace(made, view=View(array, array.shape))
            case Local(position, of):
                return replace(made, view=View(len(at.tensors) - 1 - position, at.scope.shape(of)))
            case Constant() | Value() | Padding():
                return replace(made, stores=((at.loops, ()),) if not term.type.rank else ())
            case Access():
                return self._access(at, term, parts[0], made)
            case Gen(low, high):
                trips = self._count(at, high - low)
                own = index(Var(len(at.loops))) - at.scope.index(low)
                moved = tuple((loops, (own, *position)) for loops, position in stores)
                return replace(made, work=work + self._done(nest, trips), stores=moved)
            case Reduce(_, low, high):
                return replace(made, work=work + self._done(nest, self._count(at, high - low)))
            case Guard():
                return replace(made, work=work + self._done(nest))
            case Let(value):
                return replace(
                    made,
                    work=parts[1].work + parts[0].costs + self._done(nest, self._elements(at, value.type)),
                    reads=parts[1].reads,
                    stores=parts[1].stores,
                )
            case Unary() | Binary() | Select() | Cast():
                done = self._done(nest, self._elements(at, term.type))
                return replace(made, work=work + done, stores=stores if term.type.rank else ((at.loops, ()),))
            case Concat(left, _):
                by = at.scope.index(left.type.shape[0])
                moved = tuple((loops, (position[0] + by, *position[1:])) for loops, position in parts[1].stores)
                return replace(made, work=work + self._done(nest), stores=(*parts[0].stores, *moved))
            case Reshape(op, operand):
                moved = tuple((loops, _reshaped(op, position, operand.type, at)) for loops, position in stores)
                return replace(made, work=work + self._done(nest), stores=moved)
            case TensorVar() | Metavariable():
                return None
            case _:
                assert_never(term)

    def _landed(self, at: Context, part: Priced, of: Type) -> Priced:
        """A part that is a whole array, or a row of one, is copied where it goes."""
        if part.view is None:
            return part
        elements = self._elements(at, of)
        nest = self._extents.nest(at.loops)
        work = part.work + self._done(nest, 2 * elements) + self._streamed(nest, elements)
        return replace(part, work=work, view=None, stores=())

    def _access(self, at: Context, term: Access, tensor: Priced, made: Priced) -> Priced | None:
        if tensor.view is None or not self._is_safe(at, term):
            return None
        view = replace(tensor.view, at=(*tensor.view.at, at.scope.index(term.index)))
        if len(view.at) < len(view.shape):
            return replace(made, view=view)
        near = tuple(position - position.offset for position in view.at)
        read = Touched(at.loops, view.array, view.shape, near)
        work = made.work + self._done(self._extents.nest(at.loops))
        return replace(made, work=work, reads=made.reads | {read}, stores=((at.loops, ()),))

    def _is_safe(self, at: Context, term: Access) -> bool:
        key = (at.number, term.tensor.type.shape[0], term.index)
        found = self._safe.get(key)
        if found is None:
            found = self._safe[key] = at.knows(within(ZERO, term.index, term.tensor.type.shape[0]))
        return found

    def _count(self, at: Context, extent: Index) -> Costs:
        return np.maximum(self._extents.interval(at.scope.index(extent), self._extents.nest(at.loops).ranges)[1], 0.0)

    def _elements(self, at: Context, of: Type) -> Costs:
        elements = self._none + 1
        for extent in of.shape:
            elements = elements * np.maximum(self._count(at, extent), 1.0)
        return elements


def _reshaped(op: ReshapeOp, position: tuple[Index, ...], of: Type, at: Context) -> tuple[Index, ...]:
    """Where an element goes that stood at a position of the operand (Fig. 4.3)."""
    match op:
        case Transpose():
            return (position[1], position[0], *position[2:])
        case Flatten():
            return (position[0] * at.scope.index(of.shape[1]) + position[1], *position[2:])
        case Split(by):
            rows = floordiv(position[0], at.scope.index(by))
            return (rows, position[0] - rows * at.scope.index(by), *position[1:])
        case PadLeft(by):
            return (position[0] + at.scope.index(by), *position[1:])
        case TruncateLeft(by):
            return (position[0] - at.scope.index(by), *position[1:])
        case PadRight() | TruncateRight():
            return position
        case Place(_, where):
            return (at.scope.index(where), *position)
        case _:
            assert_never(op)


class Lines(Traffic):
    """The lines that each level of loops touches, each time that it runs: whatever the memory is."""

    def _moved(self, nest: Nest, lines: Sequence[Costs]) -> Costs:
        total = self._none
        for level, touched in enumerate(lines):
            total = total + np.prod(nest.trips[:level], axis=0) * touched
        return total


class CodeSize(Traffic):
    """How many nodes a program has, whatever its sizes."""

    def _moved(self, _: Nest, __: Sequence[Costs]) -> Costs:
        return self._none

    def _done(self, _: Nest, __: Costs | float = 1.0) -> Costs:
        return self._none + 1.0

    def _streamed(self, _: Nest, __: Costs) -> Costs:
        return self._none
