"""Enumeration of the index expressions that a loop nest computes, with their surroundings and uses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias, assert_never

from atl.core.index import Index
from atl.core.marks import LoopMark
from atl.core.predicate import All, Any, NonNegative, NonZero, Predicate, Zero, negation
from lowering.nest import loopnest as ln
from lowering.nest.marked_loops import Merge, NoMerge, NoRuns, Runs, is_merge, merge_at, runs_at

Comparison: TypeAlias = NonNegative | Zero | NonZero
"""An atomic condition."""


@dataclass(frozen=True, slots=True, eq=False)
class Inside:
    """The inside of a loop or branch, where `predicate` holds (its range or test); `outside` encloses it."""

    outside: Inside | None = None
    predicate: Predicate | None = None

    def under(self, predicate: Predicate) -> Inside:
        return Inside(self, predicate)


class IndexUse(Enum):
    """The use of an index expression."""

    COUNT = auto()
    """A bound of a loop, or the size of a buffer."""
    ADDRESS = auto()
    """A part of the address of a cell: an index or an extent."""
    SCALAR = auto()
    """An operand of scalar arithmetic."""


@dataclass(frozen=True, slots=True)
class Computed:
    """An occurrence of a computed expression."""

    inside: Inside
    use: IndexUse
    expression: Index


@dataclass(frozen=True, slots=True)
class Compared:
    """An occurrence of a comparison."""

    inside: Inside
    condition: Comparison


Occurrences: TypeAlias = Iterator[Computed | Compared]


def index_expressions(nest: ln.LoopNest) -> Occurrences:
    """Yield all index expressions and comparisons of a nest, in the order of its text."""
    outermost = Inside()
    for extent in nest.output.extents:
        yield Computed(outermost, IndexUse.ADDRESS, extent)
    yield from _in_block(outermost, nest.body)


def _in_block(inside: Inside, block: ln.Block) -> Occurrences:
    for statement in block:
        yield from _in_statement(inside, statement)


def _in_statement(inside: Inside, statement: ln.Statement) -> Occurrences:
    match statement:
        case ln.For(_, low, high, body):
            yield Computed(inside, IndexUse.COUNT, low)
            yield Computed(inside, IndexUse.COUNT, high)
            yield from _keys(inside, statement)
            if statement.call is not None:
                yield from _in_call(inside, statement.call)
            yield from _in_block(inside.under(statement.range), body)
        case ln.If(predicate, body):
            yield from _in_predicate(inside, predicate)
            yield from _in_block(inside.under(predicate), body)
        case ln.Assign(target, value) | ln.Accumulate(target, _, value):
            yield from _in_storage(inside, target)
            yield from _in_scalar(inside, value)
        case ln.Declare(_, initial):
            yield from _in_scalar(inside, initial)
        case ln.Clear(cell=ln.Cell() as cell):
            yield from _in_storage(inside, cell)
        case ln.Clear(row=row) if row is not None:
            yield from _in_storage(inside, statement.row_start)
            yield Computed(inside, IndexUse.COUNT, statement.count)
        case ln.Allocate(buffer, count) | ln.Clear(buffer, count):
            # The extents of a hoisted buffer may contain the variable of a loop that its allocation is outside of.
            for part in buffer.allocated_extents if count == ln.elements(buffer.allocated_extents) else (count,):
                yield Computed(inside, IndexUse.COUNT, part)
        case ln.Free() | ln.Gather():
            return
        case _:
            assert_never(statement)


def _in_call(inside: Inside, call: ln.InstructionCall) -> Occurrences:
    yield from _in_predicate(inside, call.condition)
    for operand in call.operands:
        yield Computed(inside, IndexUse.ADDRESS, operand.address)
        for stride in operand.strides:
            yield Computed(inside, IndexUse.ADDRESS, stride)
    for value in call.values:
        yield Computed(inside, IndexUse.COUNT, value)


def _keys(inside: Inside, loop: ln.For) -> Occurrences:
    """Yield the keys that a merge or a loop marked `runs` compares."""
    walk = merge_at(loop) if is_merge(loop) else runs_at(loop) if loop.mark is LoopMark.RUNS else None
    match walk:
        case Merge(fingers):
            for each in walk.ranges:
                inside = inside.under(each)
            for finger in fingers:
                yield from (Computed(inside, IndexUse.COUNT, key) for key in finger.key)
        case Runs(keys=keys):
            for key in keys:
                yield Computed(inside.under(loop.range), IndexUse.COUNT, key)
        case NoMerge() | NoRuns() | None:
            return
        case _:
            assert_never(walk)


def _in_storage(inside: Inside, at: ln.Cell | ln.Scalar | None) -> Occurrences:
    if isinstance(at, ln.Cell):
        for pair in at.memory_pairs:
            for part in pair:
                yield Computed(inside, IndexUse.ADDRESS, part)


def _in_scalar(inside: Inside, e: ln.ScalarExpr) -> Occurrences:
    match e:
        case ln.Number():
            return
        case ln.Load(source):
            yield from _in_storage(inside, source)
        case ln.FromIndex(index):
            yield Computed(inside, IndexUse.SCALAR, index)
        case ln.Apply(_, arguments):
            for argument in arguments:
                yield from _in_scalar(inside, argument)
        case ln.Choose(predicate, left, right):
            yield from _in_predicate(inside, predicate)
            yield from _in_scalar(inside.under(predicate), left)
            yield from _in_scalar(inside.under(negation(predicate)), right)
        case ln.Convert(argument):
            yield from _in_scalar(inside, argument)
        case _:
            assert_never(e)


def _in_predicate(inside: Inside, predicate: Predicate) -> Occurrences:
    """Yield the comparisons of a predicate. Parts are evaluated from left to right, with short-circuiting."""
    match predicate:
        case NonNegative() | Zero() | NonZero():
            yield Compared(inside, predicate)
        case All(parts):
            for part in parts:
                yield from _in_predicate(inside, part)
                inside = inside.under(part)
        case Any(parts):
            for part in parts:
                yield from _in_predicate(inside, part)
                inside = inside.under(negation(part))
        case _:
            assert_never(predicate)
