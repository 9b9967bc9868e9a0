"""Storage folding: a let marked `ring` is computed in the loop that reads it, in a circular buffer.

All rows that iteration y of that loop reads are in a sliding window s y + a .. s y + a + w. So iteration y computes the
last s rows of the window, each of which replaces the row w before it. The loop starts some iterations earlier, to
compute the rows of the first window. A row is computed by the statements that compute the let, restricted to the row.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import assert_never

from atl.checks.safety import has_meaning
from atl.checks.scope import initial_facts
from atl.core.dtypes import bytes_of
from atl.core.index import ZERO, Extremum, Index, Var, constant, imax, index
from atl.core.marks import LetMark, LoopMark
from atl.core.predicate import FALSE, at_most, equal, within
from atl.prove import Facts, Proved, Refuted, holds, lower_bound, prove, proves, simplify, upper_bound
from lowering.nest import loopnest as ln
from lowering.nest.accesses import Access, accesses, accesses_of, after, same_cell_facts, with_inner_blocks
from lowering.nest.loopnest import at_iteration, in_other_buffers
from lowering.nest.text import TextScope, outermost, show_index
from lowering.nest.tiles import cells_of, loads_from, step, stores_to
from lowering.passes.simplification import in_a_block
from lowering.passes.stores import loaded
from lowering.targets.capabilities import storage_of


def with_folded_storage(nest: ln.LoopNest) -> ln.LoopNest:
    """Fold every buffer marked `ring` to the rows of a window.

    A buffer that cannot be folded is kept, and `refused` of the nest has the reason.
    """
    marked = [s for s in ln.statements(nest.body) if _is_marked(s)]
    if not marked:
        return nest
    folding = _Folding(ln.unused_ids(nest), [])
    body = folding.block(outermost(nest), initial_facts(nest.assumptions, nest.inputs), nest.body)
    notes = (*nest.storage_notes, *folding.notes)
    return replace(nest, body=body, refused=(*nest.refused, *folding.refused), storage_notes=notes)


def _is_marked(statement: ln.Statement) -> bool:
    return isinstance(statement, ln.Allocate) and statement.mark is LetMark.RING and not statement.buffer.rows


class _CannotFold(Exception):
    """The exception for a let that cannot be folded."""

    def __init__(self, summary: str, required: str, numbers: dict[str, int] | None = None) -> None:
        super().__init__(summary)
        self.summary, self.required, self.numbers = summary, required, numbers


@dataclass(frozen=True, slots=True)
class _Window:
    """The rows that a loop reads in iteration y: `rows` rows from step * y + first on."""

    step: int
    first: Index
    rows: int

    def at(self, y: Index) -> Index:
        return self.step * y + self.first

    @property
    def new(self) -> int:
        """The number of rows that no earlier iteration reads."""
        return min(self.step, self.rows)

    @property
    def earlier(self) -> int:
        """The number of extra iterations before the first one, which compute the first window."""
        return -(-(self.rows - self.new) // self.step)


@dataclass(frozen=True, slots=True)
class _Folding:
    """One run of the pass, with fresh ids, the marks that it cannot implement, and the windows of the others."""

    ids: Iterator[int]
    refused: list[ln.FailedMark]
    notes: list[ln.StorageNote] = field(default_factory=list)

    def block(self, scope: TextScope, facts: Facts, block: ln.Block) -> ln.Block:
        """Fold all marked buffers in the statements, inner lets first."""
        made, scopes = with_inner_blocks(scope, facts, block, self.block)
        for at in reversed(range(len(made))):
            found = made[at]
            if isinstance(found, ln.Allocate) and _is_marked(found):
                try:
                    made = (*made[:at], *self._folded(facts, scopes[at], found, made[at + 1 :]))
                except _CannotFold as error:
                    reason = (error.summary, error.required, (), error.numbers)
                    self.refused.append(ln.FailedMark(found.buffer.name, found.mark, found.let, *reason))
        return made

    def _folded(self, facts: Facts, scope: TextScope, allocate: ln.Allocate, rest: ln.Block) -> ln.Block:
        """Fold the buffer of a marked let, whose block continues with `rest`."""
        buffer = allocate.buffer
        at, loop = _reader(rest, buffer)
        names = scope
        for statement in rest[:at]:
            names = after(names, statement)
        window = _window(facts, names, buffer, loop)
        moved = tuple(statement for statement in rest[:at] if stores_to(statement, buffer))
        staying = [statement for statement in rest[:at] if not stores_to(statement, buffer)]
        freed = [s for s in staying if isinstance(s, ln.Free) and ln.key(s.buffer) in _touched(moved)]
        kept = tuple(statement for statement in staying if statement not in freed)
        _check_order(facts, scope, buffer, moved, (*kept, loop))
        extents = buffer.extents[1:]
        if not all(has_meaning(extent, partial(holds, facts)) for extent in buffer.extents):
            raise _CannotFold("its size is not defined where it is allocated", "extents that are defined there")
        row_extents = tuple(simplify(facts, imax(ZERO, e)) for e in extents)
        made = replace(buffer, rows=window.rows)
        self.notes.append(ln.StorageNote(buffer.name, _reason(names, window, loop)))
        capacity = ln.elements((constant(window.rows), *row_extents))
        storage = storage_of(LetMark.RING, bytes_of(capacity.constant, buffer.dtype))
        new = self._loop(allocate, loop, window, moved, ln.elements(row_extents))
        body = in_other_buffers((*kept, new, *freed, *rest[at + 1 :]), {buffer: made})
        return (replace(allocate, buffer=made, capacity=capacity, storage=storage, zeroed=False), *body)

    def _loop(self, allocate: ln.Allocate, loop: ln.For, window: _Window, moved: ln.Block, length: Index) -> ln.For:
        """Return the loop that also computes the rows; `moved` are the statements that compute all rows."""
        y = index(loop.variable)
        end = window.at(y) + window.rows
        if window.new == 1:
            computed = _row(allocate, end - 1, moved, length)
        else:
            row = Var(next(self.ids), "row")
            within_window = _row(allocate, index(row), moved, length)
            computed = (ln.For(row, end - window.new, end, within_window),)
        if not window.earlier:
            return ln.with_body(loop, (*computed, *in_a_block(loop.body)))
        started = ln.If(at_most(loop.low, y), loop.body)
        return replace(loop, low=loop.low - window.earlier, body=(*computed, started))


# -- the loop that reads ----------------------------------------------------------------------------------------------


def _reader(rest: ln.Block, buffer: ln.Buffer) -> tuple[int, ln.For]:
    """Return the only statement that reads the buffer, which must be a sequential loop, and its position."""
    reading = [at for at, s in enumerate(rest) if loads_from(s, buffer)]
    found = rest[reading[0]] if len(reading) == 1 else None
    if not isinstance(found, ln.For) or any(stores_to(s, buffer) for s in rest[reading[0] :]):
        raise _CannotFold(
            f"{len(reading)} statements read it" if len(reading) != 1 else "its only reader is not a loop",
            f"one loop after {buffer.name} with all of its reads",
        )
    if found.mark not in (LoopMark.NONE, LoopMark.UNROLL):
        raise _CannotFold(
            f"the loop {found.variable.name}, which reads it, is marked {found.mark.value}",
            "a sequential loop, since each iteration reads rows that earlier ones have computed; to keep this mark, "
            "tile the loop, mark the loop over tiles, and put the let inside of it",
        )
    return reading[0], found


def _window(facts: Facts, scope: TextScope, buffer: ln.Buffer, loop: ln.For) -> _Window:
    """Return the window of the rows that a loop reads, found by its linear reads and proved for all reads."""
    reads = [access for access in accesses(scope, facts, loop) if _is_read(access, buffer)]
    name, y = loop.variable.name, index(loop.variable)
    required = (
        f"in iteration {name} all reads in a window of rows from s*{name} + a to s*{name} + a + w, with constants "
        "s > 0 and w, and a loop-invariant a"
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
        raise _CannotFold(f"{_shown(reads[0])} is not in a window that moves with the loop {name}", required)
    by, first, last = ends[0]
    for _, low, high in ends[1:]:
        first = low if ((low - first).constant or 0) < 0 else first
        last = high if ((high - last).constant or 0) > 0 else last
    rows = (last - first + 1).constant
    if rows is None:
        length = show_index(scope, last - first + 1)
        raise _CannotFold(f"the loop {name} needs {length} of its rows at a time, which is not constant", required)
    window = _Window(by, first, rows)
    for read in reads:
        answer = prove(read.facts, within(window.at(y), _row_of(read), window.at(y) + rows))
        if not isinstance(answer, Proved):
            model = answer.model if isinstance(answer, Refuted) else None
            here = f"{show_index(scope.bind(loop.variable, name)[1], window.at(y))}"
            leaves = "" if model is None else f"; row {model.value(_row_of(read))} in iteration {model.value(y)}"
            raise _CannotFold(
                f"{_shown(read)} is not in the window of {rows} rows from {here} on{leaves}",
                required,
                None if model is None else dict(model.numbers),
            )
    return window


def _reason(scope: TextScope, window: _Window, loop: ln.For) -> str:
    """Return the number of rows that are kept in a ring, and the rows that an iteration reads."""
    _, inside = scope.bind(loop.variable, loop.variable.name)
    first, last = (show_index(inside, window.at(index(loop.variable)) + k) for k in (0, window.rows - 1))
    read = f"row {first}" if window.rows == 1 else f"rows {first} to {last}"
    kept = "one row is" if window.rows == 1 else f"{window.rows} rows are"
    return f"{kept} kept in a circular buffer; iteration {loop.variable.name} of the loop that reads it needs {read}"


def _candidates(row: Index) -> list[Index]:
    """Return the row, or the operands if it is a minimum or maximum."""
    if isinstance(row.atom, Extremum):
        return list(row.atom.choices)
    return [row]


def _ranges(loop: ln.For, read: Access) -> list[tuple[Var, Index, Index]]:
    """Return the variables and bounds of the loops between the loop and a read, the outermost first."""
    inner = {s.variable.uid: s for s in ln.statements(loop.body) if isinstance(s, ln.For)}
    loops = [inner[variable.uid] for variable in read.loops[1:]]
    return [(s.variable, s.low, s.high) for s in loops]


def _is_read(access: Access, buffer: ln.Buffer) -> bool:
    return access.how == "read" and isinstance(access.storage, ln.Cell) and access.storage.buffer == buffer


def _row_of(access: Access) -> Index:
    if not isinstance(access.storage, ln.Cell):
        raise AssertionError("a row is of a buffer")
    return access.storage.pairs[0][0]


def _shown(read: Access) -> str:
    return f"row {show_index(read.scope, _row_of(read))} in `{read.text}`"


# -- the statements that compute --------------------------------------------------------------------------------------


def _row(allocate: ln.Allocate, row: Index, moved: ln.Block, length: Index) -> ln.Block:
    """Return the statements that start one row and compute it."""
    buffer = allocate.buffer
    computed = tuple(s for statement in moved for s in _of_row(statement, buffer, row, frozenset()))
    begun = ln.Clear(buffer, length, allocate.zeroed, row)
    return (ln.If(within(ZERO, row, buffer.extents[0]), (begun, *computed)),)


def _of_row(statement: ln.Statement, buffer: ln.Buffer, row: Index, around: frozenset[int]) -> ln.Block:
    """Restrict a statement to one row; `around` are the variables of the loops around it in the same computation."""
    if not stores_to(statement, buffer):
        return (statement,)
    stored = {cell.pairs[0][0] for cell, is_stored in cells_of((statement,)) if is_stored and cell.buffer == buffer}
    match statement:
        case ln.If(predicate, body):
            return (ln.If(predicate, tuple(s for one in body for s in _of_row(one, buffer, row, around))),)
        case ln.For(variable, low, high, body) if not any(variable.uid in to.free for to in stored):
            inside = around | {variable.uid}
            return (ln.with_body(statement, tuple(s for one in body for s in _of_row(one, buffer, row, inside))),)
        case ln.For(variable, low, high, body):
            (first, *others) = stored
            inner = {s.variable.uid for s in ln.statements(body) if isinstance(s, ln.For)} | around
            offset = first - index(variable)
            if others or step(first, variable) != 1 or inner & offset.free or statement.mark is not LoopMark.NONE:
                raise _CannotFold(
                    f"its rows are computed by the loop {variable.name}"
                    + (f", which is marked {statement.mark.value}" if statement.mark is not LoopMark.NONE else ""),
                    f"an unmarked loop that computes row i + c in iteration i, for one c, so that {buffer.name} can be "
                    "computed row by row",
                )
            return (ln.If(within(low, row - offset, high), at_iteration(statement, row - offset)),)
        case ln.Assign() | ln.Accumulate():
            (to,) = stored
            if around & to.free:
                raise _CannotFold(f"its rows are not computed by a separate loop: row {to}", "a loop over its rows")
            return (ln.If(equal(to, row), (statement,)),)
        case ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
            return (statement,)
    assert_never(statement)


def _check_order(facts: Facts, scope: TextScope, buffer: ln.Buffer, moved: ln.Block, staying: ln.Block) -> None:
    """Raise `_CannotFold` if the computation of the rows conflicts with a statement that it is moved behind.

    Both may access one buffer if no store of either is to a cell that the other accesses. So may a step of a
    recurrence, which stores row p and reads row p - 1.
    """
    changed, used = (of(moved) - {ln.key(buffer)} for of in (_changed, _touched))
    for statement in staying:
        common = (changed & _touched((statement,))) | (_changed((statement,)) & used)
        if isinstance(statement, ln.Allocate) or not common:
            continue
        if isinstance(statement, ln.Free) or not _are_disjoint(facts, scope, common, moved, statement):
            raise _CannotFold(
                "a statement before or in the loop that reads it changes the operands of its rows",
                f"a loop that reads {buffer.name} and does not change its operands",
            )


def _are_disjoint(
    facts: Facts, scope: TextScope, storage: AbstractSet[Hashable], moved: ln.Block, staying: ln.Statement
) -> bool:
    """Return whether no cell of some storage is proved to be accessed by both statements and stored by one of them."""
    for one, another in product(_accesses(facts, scope, storage, moved), _accesses(facts, scope, storage, (staying,))):
        if ln.accessed(one.storage) != ln.accessed(another.storage) or one.how == another.how == "read":
            continue
        if not isinstance(one.storage, ln.Cell) or not isinstance(another.storage, ln.Cell):
            return False
        both = same_cell_facts(one.storage.pairs, one.facts, another.storage.pairs, another.facts, another.loops)
        if not proves(both, FALSE):
            return False
    return True


def _accesses(facts: Facts, scope: TextScope, storage: AbstractSet[Hashable], block: ln.Block) -> list[Access]:
    found = (access for statement in block for access in accesses_of(scope, facts, statement))
    return [access for access in found if ln.accessed(access.storage) in storage]


def _changed(block: ln.Block) -> frozenset[Hashable]:
    """Return the storage that statements change, except storage that they allocate."""
    changed: set[Hashable] = set()
    for statement in ln.statements(block):
        match statement:
            case ln.Assign(target) | ln.Accumulate(target):
                changed.add(ln.accessed(target))
            case ln.Clear(buffer) | ln.Free(buffer) | ln.Gather(buffer):
                changed.add(ln.key(buffer))
            case ln.For() | ln.If() | ln.Declare() | ln.Allocate():
                pass
            case _:
                assert_never(statement)
    return frozenset(changed) - _made(block)


def _touched(block: ln.Block) -> frozenset[Hashable]:
    """Return the storage that statements change or read, except storage that they allocate."""
    read: set[Hashable] = set()
    for statement in ln.statements(block):
        match statement:
            case ln.Assign(_, value) | ln.Accumulate(_, _, value) | ln.Declare(_, value):
                read |= set(loaded(value))
            case ln.For() | ln.If() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
                pass
            case _:
                assert_never(statement)
    return _changed(block) | (frozenset(read) - _made(block))


def _made(block: ln.Block) -> frozenset[Hashable]:
    return frozenset(
        ln.key(s.buffer if isinstance(s, ln.Allocate) else s.variable)
        for s in ln.statements(block)
        if isinstance(s, ln.Allocate | ln.Declare)
    )
