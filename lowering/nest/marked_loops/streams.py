"""Streams: a loop marked so stores to its tensor line by line of the cache, past the caches, where lines begin in it.

Memory is read before an ordinary store changes a part of a line; a whole line that goes past the caches is not. In a
nest the loop stays what it is, so that every pass and every obligation sees what is computed. `lines_of` is how it is
run: the iterations up to the first line one by one, then those of a line at a time, which are gathered in buffers, then
those that are left over. Where a line begins is up to the array that a caller hands over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Final, TypeAlias, assert_never

from atl.core.dtypes import bytes_of
from atl.core.index import ZERO, Var, constant, index
from atl.core.marks import LoopMark
from atl.core.predicate import at_most, expressions, less
from atl.core.reshape_definitions import Pairs
from atl.prove import Facts, holds
from lowering.nest.loopnest import (
    LINE_BYTES,
    Accumulate,
    Allocate,
    Assign,
    Block,
    Buffer,
    CacheLines,
    Cell,
    Clear,
    Declare,
    For,
    Free,
    If,
    Load,
    NoLines,
    Scalar,
    Statement,
    accessed,
    elements,
    key,
    statements,
    with_body,
)
from lowering.nest.substitution import cell_at
from lowering.nest.tiles import sources, step

MOST_LINES: Final = 64
"""So many lines are gathered at a time at most: a page of memory. They stay in the nearest cache."""
WITHIN: Final = (LoopMark.NONE, LoopMark.VECTOR, LoopMark.UNROLL)
"""The marks of loops that may stand between a streamed loop and its stores."""


Around: TypeAlias = tuple[For | If, ...]
"""The loops and tests that a statement stands in, the outermost first."""


@dataclass(frozen=True, slots=True)
class Line:
    """A store of a streamed loop, in these loops and tests of its body, and the buffer that gathers its lanes."""

    store: Assign
    around: Around
    buffer: Buffer


@dataclass(frozen=True, slots=True)
class Stream:
    """A streamed loop as it is run: `body` gathers the iterations of a line, and then the lines are stored."""

    loop: For
    first: Var
    width: int
    lines: tuple[Line, ...]
    body: Block


def stream_at(loop: For) -> Stream | None:
    """The stream of a loop that stores whole lines."""
    if not isinstance(loop.lines, CacheLines):
        return None
    first, buffers = loop.lines.first, iter(loop.lines.buffers)
    lines: list[Line] = []

    def gathered(block: Block, around: Around) -> Block:
        out: list[Statement] = []
        for statement in block:
            match statement:
                case For(body=body) | If(body=body):
                    out.append(with_body(statement, gathered(body, (*around, statement))))
                case Assign(Cell() as cell) if is_stored(cell.buffer):
                    line = Line(statement, around, next(buffers))
                    lines.append(line)
                    out.append(replace(statement, target=gathered_in(line, loop.variable, first)))
                case Assign() | Accumulate() | Declare() | Allocate() | Clear() | Free():
                    out.append(statement)
                case _:
                    assert_never(statement)
        return tuple(out)

    body = gathered(loop.body, ())
    return Stream(loop, first, loop.lines.width, tuple(lines), body)


def is_stored(buffer: Buffer) -> bool:
    """Whether a buffer is the result, which is what streamed loops store to."""
    return buffer.role == "output"


class _None(Exception):
    """There are no lines, as this says."""

    def __init__(self, summary: str, required: str, *suggestions: str) -> None:
        super().__init__(summary)
        self.found: Final = NoLines(summary, required, suggestions)


def lines_of(loop: For, facts: Facts, ids: Iterator[int]) -> CacheLines | NoLines | None:
    """How a loop that is marked `stream` stores whole lines, with new variables and buffers by these ids.

    None, where it is proved to have fewer iterations than a line has elements. `facts` are what is known around it.
    """
    try:
        lines = _lines_of(loop, facts, ids)
        return None if holds(facts, less(loop.high - loop.low, constant(lines.width))) else lines
    except _None as none:
        return none.found


def _lines_of(loop: For, facts: Facts, ids: Iterator[int]) -> CacheLines:
    stored = _stored(loop)
    width = LINE_BYTES // (bytes_of(1, stored.dtype) or LINE_BYTES)
    first = Var(next(ids), "first")
    shapes = [_shape(loop, at) for at in _stores(loop.body, (), facts.assume(loop.range))]
    if sum(map(prod, shapes)) > MOST_LINES:
        raise _None(
            f"each of its iterations stores more than {MOST_LINES} elements of {stored.name}",
            f"at most {MOST_LINES} elements in an iteration: so many lines are gathered at a time",
            f"s.tile(…) of a loop in {loop.variable.name}, brought outside of it by s.interchange",
        )
    return CacheLines(
        first,
        width,
        tuple(Buffer(next(ids), "line", stored.dtype, tuple(map(constant, (*shape, width)))) for shape in shapes),
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a store stands, and what is known there."""

    around: Around
    facts: Facts


def _stores(block: Block, around: Around, facts: Facts) -> Iterator[_Place]:
    for statement in block:
        match statement:
            case For(body=body):
                yield from _stores(body, (*around, statement), facts.assume(statement.range))
            case If(predicate, body):
                yield from _stores(body, (*around, statement), facts.assume(predicate))
            case Assign(Cell() as cell) if is_stored(cell.buffer):
                yield _Place(around, facts)
            case Assign() | Accumulate() | Declare() | Allocate() | Clear() | Free():
                pass
            case _:
                assert_never(statement)


def _shape(loop: For, at: _Place) -> tuple[int, ...]:
    """How many iterations each of the loops around a store has at most."""
    for statement in at.around:
        _check(loop, statement)
    return tuple(_most(statement, at.facts) for statement in at.around if isinstance(statement, For))


def _stored(loop: For) -> Buffer:
    """The tensor that the loop stores to, which is the result."""
    own = {
        key(made.buffer if isinstance(made, Allocate) else made.variable)
        for made in statements(loop.body)
        if isinstance(made, Allocate | Declare)
    }
    found: Buffer | None = None
    for statement in statements(loop.body):
        match statement:
            case Assign(target) | Accumulate(target):
                if accessed(target) in own:
                    continue
                buffer = _target(loop, statement)
                if buffer != (found or buffer):
                    raise _None(f"it stores to two tensors, {(found or buffer).name} and {buffer.name}", ONE_TENSOR)
                found = buffer
            case Clear(buffer) if key(buffer) not in own:
                raise _None(f"the buffer {buffer.name} is emptied in each of its iterations", ONE_TENSOR)
            case For() | If() | Declare() | Allocate() | Clear() | Free():
                pass
            case _:
                assert_never(statement)
    if found is None:
        raise _None("it stores nothing", ONE_TENSOR)
    for statement in statements(loop.body):
        if any(isinstance(read, Cell) and read.buffer == found for read in _read(statement)):
            raise _None(f"it reads elements of {found.name}, which is what it stores to", ONE_TENSOR)
    return found


ONE_TENSOR: Final = "a loop that stores elements of the result, each once, and reads none of them"


def _target(loop: For, statement: Assign | Accumulate) -> Buffer:
    """The tensor that a statement stores to, one element after the other."""
    name, cell = loop.variable.name, statement.target
    if isinstance(cell, Scalar):
        raise _None(f"its iterations fold into one number, {cell.name}", ONE_TENSOR, f's.mark("{name}", "vector")')
    if isinstance(statement, Accumulate):
        raise _None(f"it adds to elements of {cell.buffer.name}, which are read for that", ONE_TENSOR)
    if not is_stored(cell.buffer):
        raise _None(
            f"it stores to {cell.buffer.name}, which is read again: past the caches it would have to come back",
            ONE_TENSOR,
            f's.mark("{name}", "vector")',
        )
    by = step(cell.address, loop.variable)
    if by != 1:
        raise _None(
            f"its iterations store to {cell.buffer.name} "
            + ("at no constant distance" if by is None else f"{by} elements apart"),
            "iterations that store one element after the other",
            "mark the loop over the last dimension of the result",
        )
    return cell.buffer


def _read(statement: Statement) -> Iterator[Cell | Scalar]:
    match statement:
        case Assign(_, value) | Accumulate(_, _, value):
            yield from sources(value)
        case Declare(_, initial):
            yield from sources(initial)
        case For() | If() | Allocate() | Clear() | Free():
            return
        case _:
            assert_never(statement)


def _check(loop: For, statement: For | If) -> None:
    """Raises where a loop or a test around a store is not the same in all lanes."""
    name, own = loop.variable.name, loop.variable.uid
    parts = (statement.low, statement.high) if isinstance(statement, For) else expressions(statement.predicate)
    if any(own in part.free for part in parts):
        what = f"the loop {statement.variable.name}" if isinstance(statement, For) else "a test"
        raise _None(
            f"it stores in {what} that is not the same in all of its iterations",
            "iterations that all store alike",
            f's.tails("{name}") splits the loop where it is a border that is tested for',
        )
    if isinstance(statement, For) and statement.mark not in WITHIN:
        raise _None(
            f"the loop {statement.variable.name} in it is marked {statement.mark.value}",
            "loops in it that are not marked, or marked vector or unroll",
            f's.mark("{statement.variable.name}", None) takes that mark away',
        )


def _most(inner: For, facts: Facts) -> int:
    """How many iterations a loop around a store has at most."""
    extent = inner.high - inner.low
    if extent.constant is not None:
        return max(extent.constant, 0)
    least, most = 0, MOST_LINES
    if not holds(facts, at_most(extent, constant(most))):
        raise _None(
            f"the loop {inner.variable.name} in it, in which it stores, is not proved to have at most "
            f"{most} iterations",
            f"at most {most} elements in an iteration: so many lines are gathered at a time",
            f's.tile("{inner.variable.name}", 8), and the loop over tiles brought outside by s.interchange',
        )
    while least + 1 < most:
        middle = (least + most) // 2
        least, most = (least, middle) if holds(facts, at_most(extent, constant(middle))) else (middle, most)
    return most


def row_of(line: Line) -> Cell:
    """The first cell of a line, where all is gathered that an iteration of the loops around its store stores."""
    loops = [statement for statement in line.around if isinstance(statement, For)]
    rows: Pairs = tuple(
        (index(inner.variable) - inner.low, extent) for inner, extent in zip(loops, line.buffer.extents, strict=False)
    )
    return Cell(line.buffer, (*rows, (ZERO, line.buffer.extents[-1])))


def gathered_in(line: Line, lane: Var, first: Var) -> Cell:
    """The cell of a line in which an iteration is gathered, of those from `first` on."""
    *rows, (_, width) = row_of(line).pairs
    return Cell(line.buffer, (*rows, (index(lane) - index(first), width)))


def begins(stream: Stream) -> Cell:
    """The element of an iteration that tells where lines begin: the first that it stores."""
    line = stream.lines[0]
    cell = line.store.target
    assert isinstance(cell, Cell)
    for inner in reversed(line.around):
        if isinstance(inner, For):
            cell = cell_at(cell, inner.variable, inner.low)
    return cell


def of_lines(stream: Stream) -> Block:
    """The iterations of a line as statements, from the first on: all of them gathered, and then stored."""
    low, high = index(stream.first), index(stream.first) + stream.width
    together = replace(stream.loop, low=low, high=high, mark=LoopMark.VECTOR, lines=None)
    buffers = [line.buffer for line in stream.lines]
    return (
        *(Allocate(buffer, elements(buffer.extents), "stack", zeroed=False) for buffer in buffers),
        replace(together, body=stream.body),
        *(_stored_from(line, together, stream.first) for line in stream.lines),
        *map(Free, reversed(buffers)),
    )


def _stored_from(line: Line, together: For, first: Var) -> Statement:
    source = Load(gathered_in(line, together.variable, first))
    out: Statement = replace(together, body=(replace(line.store, value=source),))
    for around in reversed(line.around):
        match around:
            case For():
                out = replace(around, body=(out,), mark=LoopMark.NONE)
            case If():
                out = replace(around, body=(out,))
            case _:
                assert_never(around)
    return out
