"""Streams: loops with non-temporal stores, which write whole cache lines to memory and bypass the caches.

An ordinary store reads the line from memory before it changes a part of it; a non-temporal store of a whole line does
not. In a nest, a loop marked `stream` remains a plain loop, so passes and obligations need not know about it.
`lines_of` returns how it runs: single iterations up to the first line boundary, then the iterations of one line at a
time, gathered in buffers, then the remaining iterations. Line boundaries depend on the address of the caller's array.
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
from lowering.nest import loopnest as ln
from lowering.nest.substitution import cell_at
from lowering.nest.tiles import sources, step

MOST_LINES: Final = 64
"""Maximum number of lines gathered at a time: a page of memory, which stays in the L1 cache."""
WITHIN: Final = (LoopMark.NONE, LoopMark.VECTOR, LoopMark.UNROLL)
"""Marks of loops that may be between a streamed loop and its stores."""


Around: TypeAlias = tuple[ln.For | ln.If, ...]
"""The loops and branches around a statement, the outermost first."""


@dataclass(frozen=True, slots=True)
class Line:
    """A store of a streamed loop, the loops and branches around it in the body, and the buffer that gathers a line."""

    store: ln.Assign
    around: Around
    buffer: ln.Buffer


@dataclass(frozen=True, slots=True)
class Stream:
    """A streamed loop as it runs: `body` gathers the iterations of a line, and then the lines are stored."""

    loop: ln.For
    first: Var
    width: int
    lines: tuple[Line, ...]
    body: ln.Block


def stream_at(loop: ln.For) -> Stream | None:
    """Return the stream of a loop that stores whole lines."""
    if not isinstance(loop.lines, ln.CacheLines):
        return None
    first, buffers = loop.lines.first, iter(loop.lines.buffers)
    lines: list[Line] = []

    def gathered(block: ln.Block, around: Around) -> ln.Block:
        out: list[ln.Statement] = []
        for statement in block:
            match statement:
                case ln.For(body=body) | ln.If(body=body):
                    out.append(ln.with_body(statement, gathered(body, (*around, statement))))
                case ln.Assign(ln.Cell() as cell) if is_stored(cell.buffer):
                    line = Line(statement, around, next(buffers))
                    lines.append(line)
                    out.append(replace(statement, target=gathered_in(line, loop.variable, first)))
                case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free():
                    out.append(statement)
                case _:
                    assert_never(statement)
        return tuple(out)

    body = gathered(loop.body, ())
    return Stream(loop, first, loop.lines.width, tuple(lines), body)


def is_stored(buffer: ln.Buffer) -> bool:
    """Return whether a buffer is the output, to which streamed loops store."""
    return buffer.role == "output"


class _NoLinesError(Exception):
    """The exception for a loop that does not store whole lines."""

    def __init__(self, summary: str, required: str, *suggestions: str) -> None:
        super().__init__(summary)
        self.found: Final = ln.NoLines(summary, required, suggestions)


def lines_of(loop: ln.For, facts: Facts, ids: Iterator[int]) -> ln.CacheLines | ln.NoLines | None:
    """Return the cache lines of a loop marked `stream`, or the reason why it stores none.

    The result is None if the loop is proved to have fewer iterations than a line has elements. `ids` numbers new
    variables and buffers; `facts` hold around the loop.
    """
    try:
        lines = _lines_of(loop, facts, ids)
        return None if holds(facts, less(loop.high - loop.low, constant(lines.width))) else lines
    except _NoLinesError as error:
        return error.found


def _lines_of(loop: ln.For, facts: Facts, ids: Iterator[int]) -> ln.CacheLines:
    stored = _stored(loop)
    width = ln.LINE_BYTES // (bytes_of(1, stored.dtype) or ln.LINE_BYTES)
    first = Var(next(ids), "first")
    shapes = [_shape(loop, at) for at in _stores(loop.body, (), facts.assume(loop.range))]
    if sum(map(prod, shapes)) > MOST_LINES:
        raise _NoLinesError(
            f"each of its iterations stores more than {MOST_LINES} elements of {stored.name}",
            f"at most {MOST_LINES} elements in an iteration, the number of lines that are gathered at a time",
            f"tile a loop in {loop.variable.name} by s.tile(…), and move the tile loop outside by s.interchange",
        )
    return ln.CacheLines(
        first,
        width,
        tuple(ln.Buffer(next(ids), "line", stored.dtype, tuple(map(constant, (*shape, width)))) for shape in shapes),
    )


@dataclass(frozen=True, slots=True)
class _StoreSite:
    """A store: the loops and branches around it, and the facts there."""

    around: Around
    facts: Facts


def _stores(block: ln.Block, around: Around, facts: Facts) -> Iterator[_StoreSite]:
    for statement in block:
        match statement:
            case ln.For(body=body):
                yield from _stores(body, (*around, statement), facts.assume(statement.range))
            case ln.If(predicate, body):
                yield from _stores(body, (*around, statement), facts.assume(predicate))
            case ln.Assign(ln.Cell() as cell) if is_stored(cell.buffer):
                yield _StoreSite(around, facts)
            case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free():
                pass
            case _:
                assert_never(statement)


def _shape(loop: ln.For, at: _StoreSite) -> tuple[int, ...]:
    """Return the maximum trip count of each loop around a store."""
    for statement in at.around:
        _check(loop, statement)
    return tuple(_most(statement, at.facts) for statement in at.around if isinstance(statement, ln.For))


def _stored(loop: ln.For) -> ln.Buffer:
    """Return the buffer that the loop stores to, which must be the output."""
    own = {
        ln.key(made.buffer if isinstance(made, ln.Allocate) else made.variable)
        for made in ln.statements(loop.body)
        if isinstance(made, ln.Allocate | ln.Declare)
    }
    found: ln.Buffer | None = None
    for statement in ln.statements(loop.body):
        match statement:
            case ln.Assign(target) | ln.Accumulate(target):
                if ln.accessed(target) in own:
                    continue
                buffer = _target(loop, statement)
                if buffer != (found or buffer):
                    names = f"{(found or buffer).name} and {buffer.name}"
                    raise _NoLinesError(f"it stores to two tensors, {names}", ONE_TENSOR)
                found = buffer
            case ln.Clear(buffer) if ln.key(buffer) not in own:
                raise _NoLinesError(f"each of its iterations clears the buffer {buffer.name}", ONE_TENSOR)
            case ln.For() | ln.If() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free():
                pass
            case _:
                assert_never(statement)
    if found is None:
        raise _NoLinesError("it stores nothing", ONE_TENSOR)
    for statement in ln.statements(loop.body):
        if any(isinstance(read, ln.Cell) and read.buffer == found for read in _read(statement)):
            raise _NoLinesError(f"it reads elements of {found.name}, to which it stores", ONE_TENSOR)
    return found


ONE_TENSOR: Final = "a loop that stores elements of the result, each once, and does not read them"


def _target(loop: ln.For, statement: ln.Assign | ln.Accumulate) -> ln.Buffer:
    """Return the buffer that a statement stores to in consecutive iterations."""
    name, cell = loop.variable.name, statement.target
    if isinstance(cell, ln.Scalar):
        raise _NoLinesError(
            f"its iterations reduce to one scalar, {cell.name}", ONE_TENSOR, f's.mark("{name}", "vector")'
        )
    if isinstance(statement, ln.Accumulate):
        raise _NoLinesError(f"it adds to elements of {cell.buffer.name}, which requires reading them", ONE_TENSOR)
    if not is_stored(cell.buffer):
        raise _NoLinesError(
            f"it stores to {cell.buffer.name}, which is read later and should stay in the cache",
            ONE_TENSOR,
            f's.mark("{name}", "vector")',
        )
    by = step(cell.address, loop.variable)
    if by != 1:
        raise _NoLinesError(
            f"its iterations store to {cell.buffer.name} "
            + ("without a constant stride" if by is None else f"with a stride of {by} elements"),
            "iterations that store consecutive elements",
            "mark the loop over the last dimension of the result",
        )
    return cell.buffer


def _read(statement: ln.Statement) -> Iterator[ln.Cell | ln.Scalar]:
    match statement:
        case ln.Assign(_, value) | ln.Accumulate(_, _, value):
            yield from sources(value)
        case ln.Declare(_, initial):
            yield from sources(initial)
        case ln.For() | ln.If() | ln.Allocate() | ln.Clear() | ln.Free():
            return
        case _:
            assert_never(statement)


def _check(loop: ln.For, statement: ln.For | ln.If) -> None:
    """Raise an error if a loop or condition around a store differs between lanes."""
    name, own = loop.variable.name, loop.variable.uid
    parts = (statement.low, statement.high) if isinstance(statement, ln.For) else expressions(statement.predicate)
    if any(own in part.free for part in parts):
        inner = f"the loop {statement.variable.name}" if isinstance(statement, ln.For) else "a condition"
        raise _NoLinesError(
            f"it stores in {inner} that differs between its iterations",
            "stores that are the same in all iterations",
            f's.tails("{name}") splits the loop if the condition tests for a border',
        )
    if isinstance(statement, ln.For) and statement.mark not in WITHIN:
        raise _NoLinesError(
            f"the loop {statement.variable.name} in it is marked {statement.mark.value}",
            "inner loops that are unmarked, or marked vector or unroll",
            f's.mark("{statement.variable.name}", None) removes that mark',
        )


def _most(inner: ln.For, facts: Facts) -> int:
    """Return the maximum trip count of a loop around a store."""
    extent = inner.high - inner.low
    if extent.constant is not None:
        return max(extent.constant, 0)
    least, most = 0, MOST_LINES
    if not holds(facts, at_most(extent, constant(most))):
        raise _NoLinesError(
            f"it stores in the loop {inner.variable.name}, which is not proved to have at most {most} iterations",
            f"at most {most} elements in an iteration, the number of lines that are gathered at a time",
            f's.tile("{inner.variable.name}", 8), and move the tile loop outside by s.interchange',
        )
    while least + 1 < most:
        middle = (least + most) // 2
        least, most = (least, middle) if holds(facts, at_most(extent, constant(middle))) else (middle, most)
    return most


def row_of(line: Line) -> ln.Cell:
    """Return the first cell of the line that gathers the elements of an iteration of the loops around its store."""
    loops = [statement for statement in line.around if isinstance(statement, ln.For)]
    rows: Pairs = tuple(
        (index(inner.variable) - inner.low, extent) for inner, extent in zip(loops, line.buffer.extents, strict=False)
    )
    return ln.Cell(line.buffer, (*rows, (ZERO, line.buffer.extents[-1])))


def gathered_in(line: Line, lane: Var, first: Var) -> ln.Cell:
    """Return the cell of a line that gathers an iteration `lane`, if the line starts at iteration `first`."""
    *rows, (_, width) = row_of(line).pairs
    return ln.Cell(line.buffer, (*rows, (index(lane) - index(first), width)))


def begins(stream: Stream) -> ln.Cell:
    """Return the first element that an iteration stores, whose address determines the line boundaries."""
    line = stream.lines[0]
    cell = line.store.target
    assert isinstance(cell, ln.Cell)
    for inner in reversed(line.around):
        if isinstance(inner, ln.For):
            cell = cell_at(cell, inner.variable, inner.low)
    return cell


def of_lines(stream: Stream) -> ln.Block:
    """Return the statements that gather the iterations of a line and then store it."""
    low, high = index(stream.first), index(stream.first) + stream.width
    together = replace(stream.loop, low=low, high=high, mark=LoopMark.VECTOR, lines=None)
    buffers = [line.buffer for line in stream.lines]
    return (
        *(ln.Allocate(buffer, ln.elements(buffer.extents), "stack", zeroed=False) for buffer in buffers),
        replace(together, body=stream.body),
        *(_stored_from(line, together, stream.first) for line in stream.lines),
        *map(ln.Free, reversed(buffers)),
    )


def _stored_from(line: Line, together: ln.For, first: Var) -> ln.Statement:
    source = ln.Load(gathered_in(line, together.variable, first))
    out: ln.Statement = replace(together, body=(replace(line.store, value=source),))
    for around in reversed(line.around):
        match around:
            case ln.For():
                out = replace(around, body=(out,), mark=LoopMark.NONE)
            case ln.If():
                out = replace(around, body=(out,))
            case _:
                assert_never(around)
    return out
