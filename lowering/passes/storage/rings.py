"""Loop nests with sliding windows: a let that is marked `ring` is computed as the loop goes that reads it.

In an iteration y of that loop all rows that are read lie in a window s y + a .. s y + a + w. So the last s rows of the
window are computed there, each where the row w before it was; the loop begins some iterations earlier, for the rows of
the first window. What a row is made of is what the statements that compute the let do for it, and no more.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import assert_never

from atl.checks.safety import has_meaning
from atl.checks.scope import initial_facts
from atl.core.dtypes import bytes_of
from atl.core.index import ZERO, Extremum, Index, Var, constant, imax, index
from atl.core.marks import LetMark, LoopMark
from atl.core.predicate import at_most, equal, within
from atl.prove import Facts, Proved, Refuted, holds, lower_bound, prove, simplify, upper_bound
from lowering.nest.accesses import Access, accesses, after
from lowering.nest.loopnest import (
    Accumulate,
    Allocate,
    Assign,
    Block,
    Buffer,
    Cell,
    Clear,
    Declare,
    For,
    Free,
    If,
    LoopNest,
    Refused,
    Statement,
    accessed,
    elements,
    key,
    statements,
    unused_ids,
    with_body,
)
from lowering.nest.substitution import at_iteration, in_other_buffers
from lowering.nest.text_scope import TextScope, outermost, show_index
from lowering.nest.tiles import cells_of, loads_from, step, stores_to
from lowering.passes.dead_stores import loaded
from lowering.passes.simplification import in_a_block
from lowering.targets.stack import storage_of


def with_rings(nest: LoopNest) -> LoopNest:
    """The loop nest in which every buffer marked `ring` holds the rows of a window only.

    One that cannot stays what it is, and the nest's `refused` say why.
    """
    marked = [s for s in statements(nest.body) if _is_asked_for(s)]
    if not marked:
        return nest
    turning = _Turning(unused_ids(nest), [])
    body = turning.block(initial_facts(nest.assumptions, nest.inputs), outermost(nest), nest.body)
    return replace(nest, body=body, refused=(*nest.refused, *turning.refused))


def _is_asked_for(statement: Statement) -> bool:
    return isinstance(statement, Allocate) and statement.mark is LetMark.RING and not statement.buffer.rows


class _NoRing(Exception):
    """A let can be no ring, as this says."""

    def __init__(self, summary: str, required: str, numbers: dict[str, int] | None = None) -> None:
        super().__init__(summary)
        self.summary, self.required, self.numbers = summary, required, numbers


@dataclass(frozen=True, slots=True)
class _Window:
    """The rows that a loop reads in iteration y: from step * y + first on, so many."""

    step: int
    first: Index
    rows: int

    def at(self, y: Index) -> Index:
        return self.step * y + self.first

    @property
    def new(self) -> int:
        """How many of the rows are read in no iteration before."""
        return min(self.step, self.rows)

    @property
    def earlier(self) -> int:
        """So many iterations earlier begins what computes the last rows of each window, to have all of the first."""
        return -(-(self.rows - self.new) // self.step)


@dataclass(frozen=True, slots=True)
class _Turning:
    """One run of the pass: it numbers the loops that it makes, and collects what it refuses."""

    ids: Iterator[int]
    refused: list[Refused]

    def block(self, facts: Facts, scope: TextScope, block: Block) -> Block:
        """The statements with all rings in them; of lets within each other the inner one comes first."""
        scopes: list[TextScope] = []
        out: list[Statement] = []
        for statement in block:
            scope = after(scope, statement)
            scopes.append(scope)
            match statement:
                case For(variable, body=body):
                    inside = scope.bind(variable, variable.name)[1]
                    out.append(with_body(statement, self.block(facts.assume(statement.range), inside, body)))
                case If(predicate, body):
                    out.append(with_body(statement, self.block(facts.assume(predicate), scope, body)))
                case Assign() | Accumulate() | Declare() | Allocate() | Clear() | Free():
                    out.append(statement)
                case _:
                    assert_never(statement)
        made = tuple(out)
        for at in reversed(range(len(made))):
            found = made[at]
            if isinstance(found, Allocate) and _is_asked_for(found):
                try:
                    made = (*made[:at], *self._turned(facts, scopes[at], found, made[at + 1 :]))
                except _NoRing as error:
                    said = (error.summary, error.required, (), error.numbers)
                    self.refused.append(Refused(found.buffer.name, found.mark, found.let, *said))
        return made

    def _turned(self, facts: Facts, scope: TextScope, allocate: Allocate, rest: Block) -> Block:
        """A let that is marked and what follows it in its block, as a ring."""
        buffer = allocate.buffer
        at, loop = _reader(rest, buffer)
        names = scope
        for statement in rest[:at]:
            names = after(names, statement)
        window = _window(facts, names, buffer, loop)
        moved = tuple(statement for statement in rest[:at] if stores_to(statement, buffer))
        staying = [statement for statement in rest[:at] if not stores_to(statement, buffer)]
        freed = [s for s in staying if isinstance(s, Free) and key(s.buffer) in _touched(moved)]
        kept = tuple(statement for statement in staying if statement not in freed)
        _check_order(buffer, moved, (*kept, loop))
        extents = buffer.extents[1:]
        if not all(has_meaning(extent, partial(holds, facts)) for extent in buffer.extents):
            raise _NoRing("its size is not known where it stands", "extents that mean something there")
        room = tuple(simplify(facts, imax(ZERO, e)) for e in extents)
        made = replace(buffer, rows=window.rows)
        capacity = elements((constant(window.rows), *room))
        storage = storage_of(LetMark.RING, bytes_of(capacity.constant, buffer.dtype))
        new = self._loop(allocate, loop, window, moved, elements(room))
        body = in_other_buffers((*kept, new, *freed, *rest[at + 1 :]), {buffer: made})
        return (replace(allocate, buffer=made, capacity=capacity, storage=storage, zeroed=False), *body)

    def _loop(self, allocate: Allocate, loop: For, window: _Window, moved: Block, length: Index) -> For:
        """The loop that computes the rows as it goes; `moved` are the statements that compute all rows."""
        y = index(loop.variable)
        end = window.at(y) + window.rows
        if window.new == 1:
            computed = _row(allocate, end - 1, moved, length)
        else:
            row = Var(next(self.ids), "row")
            within_window = _row(allocate, index(row), moved, length)
            computed = (For(row, end - window.new, end, within_window),)
        if not window.earlier:
            return with_body(loop, (*computed, *in_a_block(loop.body)))
        started = If(at_most(loop.low, y), loop.body)
        return replace(loop, low=loop.low - window.earlier, body=(*computed, started))


# -- the loop that reads ----------------------------------------------------------------------------------------------


def _reader(rest: Block, buffer: Buffer) -> tuple[int, For]:
    """The one statement that reads the buffer: a loop whose iterations run one after the other."""
    reading = [at for at, s in enumerate(rest) if loads_from(s, buffer)]
    found = rest[reading[0]] if len(reading) == 1 else None
    if not isinstance(found, For) or any(stores_to(s, buffer) for s in rest[reading[0] :]):
        raise _NoRing(
            f"{len(reading)} statements read it" if len(reading) != 1 else "what reads it is no loop",
            f"one loop after {buffer.name}, in which all of its reads are",
        )
    if found.mark not in (LoopMark.NONE, LoopMark.UNROLL):
        raise _NoRing(
            f"the loop {found.variable.name}, which reads it, is marked {found.mark.value}",
            "a loop whose iterations run one after the other, since each finds rows there that earlier ones have "
            "computed; of a loop of blocks that is marked so, each block may have a ring of its own: "
            "a let within that loop",
        )
    return reading[0], found


def _window(facts: Facts, scope: TextScope, buffer: Buffer, loop: For) -> _Window:
    """The window of the rows that a loop reads, by its linear reads; all of them are proved to lie in it."""
    reads = [access for access in accesses(loop, facts, scope) if _is_read(access, buffer)]
    name, y = loop.variable.name, index(loop.variable)
    required = (
        f"in iteration {name} all rows that are read in a window from s*{name} + a to s*{name} + a + w, of constants "
        "s > 0 and w, and an a that is the same in all iterations"
    )
    known = facts.assume(loop.range)
    ends: list[tuple[int, Index, Index]] = []
    for read in reads:
        for row in _candidates(_row_of(read)):
            by = step(row, loop.variable) or 0
            ranges = _ranges(loop, read)
            low, high = lower_bound(known, row - by * y, ranges), upper_bound(known, row - by * y, ranges)
            if by > 0 and low is not None and high is not None and loop.variable.uid not in low.free | high.free:
                ends.append((by, low, high))
    if not ends or len({by for by, _, _ in ends}) > 1:
        raise _NoRing(f"{_said(reads[0])} is in no window that moves with the loop {name}", required)
    by, first, last = ends[0]
    for _, low, high in ends[1:]:
        first = low if ((low - first).constant or 0) < 0 else first
        last = high if ((high - last).constant or 0) > 0 else last
    rows = (last - first + 1).constant
    if rows is None:
        length = show_index(scope, last - first + 1)
        raise _NoRing(f"of its rows the loop {name} needs {length} at a time, which is no constant", required)
    window = _Window(by, first, rows)
    for read in reads:
        answer = prove(read.facts, within(window.at(y), _row_of(read), window.at(y) + rows))
        if not isinstance(answer, Proved):
            model = answer.model if isinstance(answer, Refuted) else None
            here = f"{show_index(scope.bind(loop.variable, name)[1], window.at(y))}"
            leaves = "" if model is None else f"; row {model.value(_row_of(read))} in iteration {model.value(y)}"
            raise _NoRing(
                f"{_said(read)} is not in the window of {rows} rows from {here} on{leaves}",
                required,
                None if model is None else dict(model.numbers),
            )
    return window


def _candidates(row: Index) -> list[Index]:
    """The row itself, or those that it is the least or the largest of."""
    if isinstance(row.atom, Extremum):
        return list(row.atom.choices)
    return [row]


def _ranges(loop: For, read: Access) -> list[tuple[Var, Index, Index]]:
    """The loops around a read that are within the loop, the outermost first."""
    inner = {s.variable.uid: s for s in statements(loop.body) if isinstance(s, For)}
    loops = [inner[variable.uid] for variable in read.loops[1:]]
    return [(s.variable, s.low, s.high) for s in loops]


def _is_read(access: Access, buffer: Buffer) -> bool:
    return access.how == "read" and isinstance(access.storage, Cell) and access.storage.buffer == buffer


def _row_of(access: Access) -> Index:
    if not isinstance(access.storage, Cell):
        raise AssertionError("a row is of a buffer")
    return access.storage.pairs[0][0]


def _said(read: Access) -> str:
    return f"row {show_index(read.scope, _row_of(read))} in `{read.text}`"


# -- the statements that compute --------------------------------------------------------------------------------------


def _row(allocate: Allocate, row: Index, moved: Block, length: Index) -> Block:
    """The computing of one row: it takes its place, and gets what the statements store to it."""
    buffer = allocate.buffer
    computed = tuple(s for statement in moved for s in _of_row(statement, buffer, row, frozenset()))
    begun = Clear(buffer, length, allocate.zeroed, row)
    return (If(within(ZERO, row, buffer.extents[0]), (begun, *computed)),)


def _of_row(statement: Statement, buffer: Buffer, row: Index, around: frozenset[int]) -> Block:
    """What the statement does for one row; `around` are the loops around it that go on to compute it."""
    if not stores_to(statement, buffer):
        return (statement,)
    stored = {cell.pairs[0][0] for cell, is_stored in cells_of((statement,)) if is_stored and cell.buffer == buffer}
    match statement:
        case If(predicate, body):
            return (If(predicate, tuple(s for one in body for s in _of_row(one, buffer, row, around))),)
        case For(variable, low, high, body) if not any(variable.uid in to.free for to in stored):
            inside = around | {variable.uid}
            return (with_body(statement, tuple(s for one in body for s in _of_row(one, buffer, row, inside))),)
        case For(variable, low, high, body):
            (first, *others) = stored
            inner = {s.variable.uid for s in statements(body) if isinstance(s, For)} | around
            offset = first - index(variable)
            if others or step(first, variable) != 1 or inner & offset.free or statement.mark is not LoopMark.NONE:
                raise _NoRing(
                    f"its rows are computed by the loop {variable.name}"
                    + (f", which is marked {statement.mark.value}" if statement.mark is not LoopMark.NONE else ""),
                    f"a loop without a mark that computes row i + c in iteration i, for one c, so that {buffer.name} "
                    "can be computed row by row",
                )
            return (If(within(low, row - offset, high), at_iteration(statement, row - offset)),)
        case Assign() | Accumulate():
            (to,) = stored
            if around & to.free:
                raise _NoRing(f"its rows are computed by no loop of their own: row {to}", "a loop over its rows")
            return (If(equal(to, row), (statement,)),)
        case Declare() | Allocate() | Clear() | Free():
            return (statement,)
    assert_never(statement)


def _check_order(buffer: Buffer, moved: Block, staying: Block) -> None:
    """Raises `_NoRing` where what computes the rows and the statements that it is moved behind change what both use."""
    changed = _changed(moved) - {key(buffer)}
    for statement in staying:
        if isinstance(statement, Allocate):
            continue
        if changed & _touched((statement,)) or _changed((statement,)) & (_touched(moved) - {key(buffer)}):
            raise _NoRing(
                "what is computed between it and the loop that reads it changes what its rows are computed from",
                f"a loop that reads {buffer.name}, and changes nothing that it is computed from",
            )


def _changed(block: Block) -> frozenset[Hashable]:
    """The storage that statements change, and that is not made in them."""
    changed: set[Hashable] = set()
    for statement in statements(block):
        match statement:
            case Assign(target) | Accumulate(target):
                changed.add(accessed(target))
            case Clear(buffer) | Free(buffer):
                changed.add(key(buffer))
            case For() | If() | Declare() | Allocate():
                pass
            case _:
                assert_never(statement)
    return frozenset(changed) - _made(block)


def _touched(block: Block) -> frozenset[Hashable]:
    """The storage that statements change or read, and that is not made in them."""
    read: set[Hashable] = set()
    for statement in statements(block):
        match statement:
            case Assign(_, value) | Accumulate(_, _, value) | Declare(_, value):
                read |= set(loaded(value))
            case For() | If() | Allocate() | Clear() | Free():
                pass
            case _:
                assert_never(statement)
    return _changed(block) | (frozenset(read) - _made(block))


def _made(block: Block) -> frozenset[Hashable]:
    return frozenset(
        key(s.buffer if isinstance(s, Allocate) else s.variable)
        for s in statements(block)
        if isinstance(s, Allocate | Declare)
    )
