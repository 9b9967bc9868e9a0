"""The index expressions that a loop nest computes: each with where it stands, and what it is computed for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias, assert_never

from atl.core.index import Index
from atl.core.marks import LoopMark
from atl.core.predicate import All, Any, NonNegative, NonZero, Predicate, Zero, negation
from lowering.nest.loopnest import (
    Accumulate,
    Allocate,
    Apply,
    Assign,
    Block,
    Cell,
    Choose,
    Clear,
    Convert,
    Declare,
    For,
    Free,
    FromIndex,
    If,
    Load,
    LoopNest,
    Number,
    Scalar,
    ScalarExpr,
    Statement,
    elements,
)
from lowering.nest.marked_loops.merges import Merge, NoMerge, is_merge, merge_at
from lowering.nest.marked_loops.runs import NoRuns, Runs, runs_at

Comparison: TypeAlias = NonNegative | Zero | NonZero
"""A condition that is not made of others."""


@dataclass(frozen=True, slots=True, eq=False)
class Inside:
    """The inside of a loop or a branch: `predicate` holds there, by its range or its test; `outside` is around it."""

    outside: Inside | None = None
    predicate: Predicate | None = None

    def under(self, predicate: Predicate) -> Inside:
        return Inside(self, predicate)


class IndexUse(Enum):
    """What an index expression is computed for."""

    COUNT = auto()
    """The end of a loop, or how much a buffer holds."""
    ADDRESS = auto()
    """A part of the address of a cell: an index, or the extent that it lies in."""
    SCALAR = auto()
    """A value to compute with."""


@dataclass(frozen=True, slots=True)
class Computed:
    """An expression that is computed at a place."""

    inside: Inside
    use: IndexUse
    expression: Index


@dataclass(frozen=True, slots=True)
class Compared:
    """A condition that is tested at a place, by comparing."""

    inside: Inside
    condition: Comparison


Occurrences: TypeAlias = Iterator[Computed | Compared]


def index_expressions(nest: LoopNest) -> Occurrences:
    """All of them, in the order of the text."""
    outermost = Inside()
    for extent in nest.output.extents:
        yield Computed(outermost, IndexUse.ADDRESS, extent)
    yield from _in_block(outermost, nest.body)


def _in_block(inside: Inside, block: Block) -> Occurrences:
    for statement in block:
        yield from _in_statement(inside, statement)


def _in_statement(inside: Inside, statement: Statement) -> Occurrences:
    match statement:
        case For(_, low, high, body):
            yield Computed(inside, IndexUse.COUNT, low)
            yield Computed(inside, IndexUse.COUNT, high)
            yield from _keys(inside, statement)
            yield from _in_block(inside.under(statement.range), body)
        case If(predicate, body):
            yield from _in_predicate(inside, predicate)
            yield from _in_block(inside.under(predicate), body)
        case Assign(target, value) | Accumulate(target, _, value):
            yield from _in_storage(inside, target)
            yield from _in_scalar(inside, value)
        case Declare(_, initial):
            yield from _in_scalar(inside, initial)
        case Clear(row=row) if row is not None:
            yield from _in_storage(inside, statement.row_start)
            yield Computed(inside, IndexUse.COUNT, statement.count)
        case Allocate(buffer, count) | Clear(buffer, count):
            # The extents of a buffer that is allocated outside of a loop may speak of the loop's variable.
            for part in buffer.allocated_extents if count == elements(buffer.allocated_extents) else (count,):
                yield Computed(inside, IndexUse.COUNT, part)
        case Free():
            return
        case _:
            assert_never(statement)


def _keys(inside: Inside, loop: For) -> Occurrences:
    """What is compared where a loop walks through keys."""
    walk = merge_at(loop) if is_merge(loop) else runs_at(loop) if loop.mark is LoopMark.RUNS else None
    match walk:
        case Merge(fingers):
            for each in walk.ranges:
                inside = inside.under(each)
            for finger in fingers:
                yield Computed(inside, IndexUse.COUNT, finger.key)
        case Runs(keys=keys):
            for key in keys:
                yield Computed(inside.under(loop.range), IndexUse.COUNT, key)
        case NoMerge() | NoRuns() | None:
            return
        case _:
            assert_never(walk)


def _in_storage(inside: Inside, at: Cell | Scalar | None) -> Occurrences:
    if isinstance(at, Cell):
        for pair in at.memory_pairs:
            for part in pair:
                yield Computed(inside, IndexUse.ADDRESS, part)


def _in_scalar(inside: Inside, e: ScalarExpr) -> Occurrences:
    match e:
        case Number():
            return
        case Load(source):
            yield from _in_storage(inside, source)
        case FromIndex(index):
            yield Computed(inside, IndexUse.SCALAR, index)
        case Apply(_, arguments):
            for argument in arguments:
                yield from _in_scalar(inside, argument)
        case Choose(predicate, left, right):
            yield from _in_predicate(inside, predicate)
            yield from _in_scalar(inside.under(predicate), left)
            yield from _in_scalar(inside.under(negation(predicate)), right)
        case Convert(argument):
            yield from _in_scalar(inside, argument)
        case _:
            assert_never(e)


def _in_predicate(inside: Inside, predicate: Predicate) -> Occurrences:
    """A part is tested only where those to the left of it hold, or in a disjunction where they do not."""
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
