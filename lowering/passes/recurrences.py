"""Storage of recurrences: only the rows that are still to be read are kept.

A loop that stores row p in iteration p, and reads only the w rows before it, needs a circular buffer of w + 1 rows. If
each element of row p - 1 is read before the element of row p at the same place is stored, one row is enough, and the
loop works in place. Then storing an element of row p - 1 to its own place in row p has no effect and is dropped.

    for s in 1..T + 1:                                    for s in 1..T + 1:
        for i in 0..n:                                →       for i in 0..n:
            y[s, i] = (y[s - 1, i] if i < s else 0)               if not i < s: y[s, i] = 0      (one row)

In a circular buffer, elements that every row copies from the row before are stored only until all kept rows have them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, assert_never

from atl.checks.scope import initial_facts
from atl.core.dtypes import bytes_of
from atl.core.index import ONE, ZERO, Index, Var, constant, index
from atl.core.marks import LetMark, LoopMark
from atl.core.predicate import FALSE, Predicate, at_most, equal, less, negation
from atl.prove import Facts, proves
from lowering.nest import loopnest as ln
from lowering.nest.accesses import Access, OverwrittenRead, accesses, find_overwritten_read, with_inner_blocks
from lowering.nest.text import TextScope, outermost, show_index
from lowering.nest.tiles import loads_from, stores_to
from lowering.passes.control_flow import tests_in
from lowering.targets.capabilities import storage_of

MOST_ROWS: Final = 8
"""Maximum number of rows of a circular buffer."""
ONCE: Final = "once"
"""Name of the variable of a loop of one iteration, around the statements that are analysed."""
LOCAL_BYTES: Final = 1024
"""Maximum size of rows that are moved to the stack."""


def with_kept_rows_on_gpu(nest: ln.LoopNest) -> ln.LoopNest:
    """Store only those rows that are read later. The threads of a block cannot fill one row with zeros."""
    return with_kept_rows(nest, zeroed=False)


def with_kept_rows(nest: ln.LoopNest, *, zeroed: bool = True) -> ln.LoopNest:
    """Store only those rows of each recurrence in a local buffer that are read later.

    Unless `zeroed` is set, a buffer that is filled with zeros for its padding keeps all rows.
    """
    cleared = [s.buffer for s in ln.statements(nest.body) if isinstance(s, ln.Clear)]
    folding = _Folding(next(ln.unused_ids(nest)), frozenset(cleared), nest.recurrences, zeroed)
    body = folding.block(outermost(nest), initial_facts(nest.assumptions, nest.inputs), nest.body)
    storage = tuple(sorted({*nest.row_storage, *folding.storage.values()}, key=lambda of: (of.name, of.reason)))
    if not storage:
        return nest
    notes = (*nest.storage_notes, *folding.notes)
    return replace(nest, body=_reallocated(body, folding.found), row_storage=storage, storage_notes=notes)


@dataclass(frozen=True, slots=True)
class _Kept:
    """A buffer with the rows that are kept, and their number of elements."""

    buffer: ln.Buffer
    capacity: Index


@dataclass(slots=True)
class _Folding:
    """One run of the pass: an unused id, the cleared buffers, the loops over rows, and the buffers with fewer rows.

    Buffers that are filled with zeros are folded only if `folds_zeroed` is set.
    """

    unused: int
    cleared: frozenset[ln.Buffer]
    recurrences: frozenset[Var]
    folds_zeroed: bool
    found: dict[ln.Buffer, _Kept] = field(default_factory=dict)
    storage: dict[ln.Buffer, ln.RowStorage] = field(default_factory=dict)
    notes: list[ln.StorageNote] = field(default_factory=list)

    def block(self, scope: TextScope, facts: Facts, block: ln.Block) -> ln.Block:
        """Fold the recurrences of a block, inner ones first."""
        made, scopes = with_inner_blocks(scope, facts, block, self.block)
        for at in reversed(range(len(made))):
            begun = made[at]
            match begun:
                case ln.Allocate(buffer, zeroed=zeroed, mark=LetMark.NONE) if buffer not in self.cleared:
                    following = self._folded(buffer, facts, scopes[at], made[at + 1 :], zeroed=zeroed)
                    made = made if following is None else (*made[: at + 1], *following)
                case ln.Clear(buffer, zeroed=zeroed, row=None):
                    following = self._folded(buffer, facts, scopes[at], made[at + 1 :], zeroed=zeroed)
                    if following is not None:
                        kept = self.found[buffer]
                        started = ln.Clear(kept.buffer, kept.capacity, zeroed=False)
                        made = (*made[:at], *((started,) if kept.buffer.in_place else ()), *following)
                case (
                    ln.For() | ln.If() | ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear()
                    | ln.Free() | ln.Gather()
                ):  # fmt: skip
                    pass
                case _:
                    assert_never(begun)
        return made

    def _folded(
        self, buffer: ln.Buffer, facts: Facts, scope: TextScope, region: ln.Block, *, zeroed: bool
    ) -> ln.Block | None:
        """Return the statements of `region`, which compute and read all rows of the buffer, with fewer rows stored."""
        if buffer.role != "local" or buffer.rows or buffer in self.found or not buffer.extents:
            return None
        at = _computing(region, buffer)
        loop = None if at is None else _loop_over_rows(region[at])
        if at is None or loop is None or loop.variable not in self.recurrences or loop.mark is not LoopMark.NONE:
            return None
        if zeroed and not self.folds_zeroed:
            self.storage[buffer] = ln.RowStorage(buffer.name, 0, "a GPU kernel does not fill single rows with zeros")
            return None
        found = _Recurrence(buffer, loop, region, facts, scope, Var(self.unused, ONCE), zeroed, buffer in self.cleared)
        rows = found.rows()
        if isinstance(rows, str):
            self.storage[buffer] = ln.RowStorage(buffer.name, 0, rows)
            return None
        row = buffer.extents[1:]
        body = found.in_place() if rows > 1 else f"only row {loop.variable.name} is read in it"
        if not isinstance(body, str):
            made = replace(buffer, rows=1, in_place=True)
            region = tuple(_with_aliases_merged(statement, buffer) for statement in body)
            reason = f"each element of row {loop.variable.name} - 1 is read before it is replaced"
            self.storage[buffer] = ln.RowStorage(buffer.name, 1, reason)
            if any(_copies(statement, buffer, loop.variable) for statement in found.region):
                copied = f"elements that a step copies from row {loop.variable.name} - 1 are not stored again"
                self.notes.append(
                    ln.StorageNote(buffer.name, f"{copied}; row {loop.variable.name} has the same storage")
                )
        else:
            self.storage[buffer] = ln.RowStorage(buffer.name, rows, body)
            fewer = found.with_first_copies(rows)
            if fewer is not None:
                copied = "elements that each step copies are stored in the first rows, until all kept rows have them"
                self.notes.append(
                    ln.StorageNote(buffer.name, f"{copied}; each later row replaces one with the same values")
                )
            region, made = fewer or region, replace(buffer, rows=rows, in_place=fewer is not None)
            loop = _loop_over_rows(region[at]) or loop
            length = ln.elements(row)
            first = tuple(ln.Clear(buffer, length, zeroed, constant(k)) for k in range(loop.low.constant or 0))
            started = ln.Clear(buffer, length, zeroed, index(loop.variable))
            region = (*first, *_with_start(region, loop, started))
        self.found[buffer] = _Kept(made, ln.elements((constant(made.rows), *row)))
        return ln.in_other_buffers(region, {buffer: made})


def _computing(region: ln.Block, buffer: ln.Buffer) -> int | None:
    """Return the position of the statement that stores the later rows: the last one that stores to the buffer.

    No statement before it may read the buffer.
    """
    storing = [at for at, statement in enumerate(region) if stores_to(statement, buffer)]
    if not storing or any(loads_from(statement, buffer) for statement in region[: storing[-1]]):
        return None
    return storing[-1]


def _loop_over_rows(statement: ln.Statement) -> ln.For | None:
    """Return the loop of a statement that consists of it and of conditions."""
    while isinstance(statement, ln.If) and len(statement.body) == 1:
        (statement,) = statement.body
    return statement if isinstance(statement, ln.For) else None


@dataclass(frozen=True, slots=True)
class _Recurrence:
    """A loop that stores the rows of a buffer, in the statements `region` that access it."""

    buffer: ln.Buffer
    loop: ln.For
    region: ln.Block
    facts: Facts
    scope: TextScope
    once: Var
    zeroed: bool
    hoisted: bool

    def rows(self) -> int | str:
        """Return the number of rows to keep, or the reason why all rows are kept."""
        p, begun = self.loop.variable, self.loop.low.constant
        mine = self._accesses(self.region)
        if self.hoisted and any(extent.free for extent in self.buffer.extents[1:]):
            return "the extents of a row change in the loops around it"
        if begun is None or begun > MOST_ROWS:
            return f"it begins with {show_index(self.scope, self.loop.low)} rows"
        if (other := next((access for access in mine if not _is_stored_row(access, p, begun)), None)) is not None:
            return f"`{other.text}` stores another row than row {p.name}"
        rows = max(begun, 1)
        for access in (access for access in mine if access.how == "read"):
            inside = p in access.loops
            end = index(p) if inside else self.loop.high
            before = next(
                (k for k in range(MOST_ROWS) if proves(access.facts, at_most(end - k, _row_of(access)))), None
            )
            if before is None:
                row = show_index(access.scope, _row_of(access))
                return f"`{access.text}` reads row {row}" + ("" if inside else " after the last row was computed")
            rows = max(rows, before + inside)
        return rows

    def in_place(self) -> ln.Block | str:
        """Return the region without copies of elements to their own place, or the reason why one row is not enough."""
        p, begun = self.loop.variable, self.loop.low.constant
        if self.zeroed:
            return "a row has padding, which the row before may not have"
        region = _with_copies_if(FALSE, self.region, self.buffer, p)
        mine = self._accesses(region)
        for access in (access for access in mine if access.how == "read"):
            last = index(p) - 1 if p in access.loops else self.loop.high - 1
            if not proves(access.facts, at_most(last, _row_of(access))):
                row = show_index(access.scope, _row_of(access))
                return f"`{access.text}` reads row {row}"
        if begun is None or begun > 1:
            return f"it begins with {begun} rows"
        # The row before and row p as two buffers of the same shape, in one iteration of p.
        old, new = replace(self.buffer, uid=-1), replace(self.buffer, uid=-2)
        done: list[Access] = []
        for access in mine:
            if p not in access.loops:
                continue
            of = old if access.how == "read" and proves(access.facts, less(_row_of(access), index(p))) else new
            if access.how == "read" and of is new and not proves(access.facts, equal(_row_of(access), index(p))):
                return f"`{access.text}` may read row {p.name} or the row before"
            inner = access.loops[access.loops.index(p) + 1 :]
            done.append(replace(access, storage=ln.Cell(of, _pairs_of(access)[1:]), loops=inner))
        found = find_overwritten_read(done, old, new, self.loop.body)
        return region if found is None else _overwritten(found, p)

    def with_first_copies(self, rows: int) -> ln.Block | None:
        """Return the region with elements copied from row to row only until all stored rows have them, or None.

        Every row must copy elements at the same places. Each later row replaces one that has their values already.
        """
        p, begun = self.loop.variable, self.loop.low.constant
        if self.zeroed or not begun or not _copies_same_elements(self.loop.body, self.buffer, p):
            return None
        return _with_copies_if(less(index(p), constant(begun + rows - 1)), self.region, self.buffer, p)

    def _accesses(self, region: ln.Block) -> list[Access]:
        found = accesses(self.scope, self.facts, ln.For(self.once, ZERO, ONE, region))
        return [access for access in found if _of(access) == self.buffer]


def _of(access: Access) -> ln.Buffer | None:
    return access.storage.buffer if isinstance(access.storage, ln.Cell) else None


def _pairs_of(access: Access) -> tuple[tuple[Index, Index], ...]:
    return access.storage.pairs if isinstance(access.storage, ln.Cell) else ()


def _row_of(access: Access) -> Index:
    return _pairs_of(access)[0][0]


def _is_stored_row(access: Access, p: Var, begun: int) -> bool:
    """Return whether an access is a read, or a store to row p in iteration p, or before the loop to a first row."""
    if access.how == "read":
        return True
    row = _row_of(access)
    return row == index(p) if p in access.loops else proves(access.facts, less(row, constant(begun)))


def _overwritten(found: OverwrittenRead, p: Var) -> str:
    """Return the reason why a recurrence is not computed in place."""
    read, store = found.read.text, found.store.text
    when = "in an earlier iteration" if read == store else f"by `{store}`"
    if found.at_once is not None:
        when = f"in another iteration of the {found.at_once.mark.value} loop {found.at_once.variable.name}"
    if found.model is None:
        return f"`{read}` is not proved to read row {p.name} - 1 before it is replaced {when}"
    numbers = ", ".join(f"{name} = {value}" for name, value in found.model.numbers.items() if name != ONCE)
    return f"`{read}` reads an element of row {p.name} - 1 that would be replaced before, {when} ({numbers})"


# -- copies -----------------------------------------------------------------------------------------------------------


def _copies_same_elements(block: ln.Block, buffer: ln.Buffer, p: Var) -> bool:
    """Return whether each step copies elements at the same places from row p - 1 to row p."""
    copying = [s for s in block if _copies(s, buffer, p)]
    added = any(isinstance(s, ln.Accumulate) and _is_in(s.target, buffer) for s in ln.statements(block))
    return bool(copying) and not added and not any(_depends(s, buffer, p) for s in copying)


def _copies(statement: ln.Statement, buffer: ln.Buffer, p: Var) -> bool:
    match statement:
        case ln.For(body=body) | ln.If(body=body):
            return any(_copies(inside, buffer, p) for inside in body)
        case ln.Assign(ln.Cell() as target, value):
            return _is_in(target, buffer) and _has_copy(value, target, p)
        case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
            return False
    assert_never(statement)


def _depends(statement: ln.Statement, buffer: ln.Buffer, p: Var) -> bool:
    """Return whether the elements that a statement copies depend on the row."""
    match statement:
        case ln.For(_, low, high, body):
            inner = [s for s in body if _copies(s, buffer, p)]
            return p.uid in low.free | high.free or any(_depends(s, buffer, p) for s in inner)
        case ln.If(predicate, body):
            inner = [s for s in body if _copies(s, buffer, p)]
            return p.uid in predicate.free or any(_depends(s, buffer, p) for s in inner)
        case ln.Assign(ln.Cell(pairs=(_, *place)), value):
            return any(p.uid in of.free for of in (*(position for position, _ in place), *tests_in(value)))
        case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
            return False
    assert_never(statement)


def _is_in(target: ln.Cell | ln.Scalar, buffer: ln.Buffer) -> bool:
    return isinstance(target, ln.Cell) and target.buffer == buffer


def _with_copies_if(condition: Predicate, block: ln.Block, buffer: ln.Buffer, p: Var) -> ln.Block:
    """Copy elements of row p - 1 to row p only under a condition. A choice with a copy becomes branches."""
    out: list[ln.Statement] = []
    for statement in block:
        match statement:
            case ln.Assign(ln.Cell(of, ((row, _), *_)) as target, value) if of == buffer and row == index(p):
                out += _stores(condition, target, value, p)
            case ln.For(body=body) | ln.If(body=body):
                if inner := _with_copies_if(condition, body, buffer, p):
                    out.append(ln.with_body(statement, inner))
            case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
                out.append(statement)
            case _:
                assert_never(statement)
    return tuple(out)


def _stores(condition: Predicate, target: ln.Cell, value: ln.ScalarExpr, p: Var) -> ln.Block:
    """Return the statements that store a value to a cell of row p, copies under a condition."""
    if is_copy(value, target, p):
        return () if condition == FALSE else (ln.If(condition, (ln.Assign(target, value),)),)
    match value:
        case ln.Choose(predicate, left, right) if _has_copy(value, target, p):
            branches = (
                (predicate, _stores(condition, target, left, p)),
                (negation(predicate), _stores(condition, target, right, p)),
            )
            return tuple(ln.If(outcome, stores) for outcome, stores in branches if stores)
        case ln.Choose() | ln.Number() | ln.Load() | ln.FromIndex() | ln.Apply() | ln.Convert():
            return (ln.Assign(target, value),)
    assert_never(value)


def is_copy(value: ln.ScalarExpr, target: ln.Cell, p: Var) -> bool:
    """Return whether a value is the element of row p - 1 at the place of the target."""
    if not isinstance(value, ln.Load) or not isinstance(value.source, ln.Cell) or value.source.buffer != target.buffer:
        return False
    (row, _), *rest = value.source.pairs
    return row == index(p) - 1 and tuple(rest) == target.pairs[1:]


def _has_copy(value: ln.ScalarExpr, target: ln.Cell, p: Var) -> bool:
    """Return whether a value, or a branch of it, is the element of row p - 1 at the place of the target."""
    if isinstance(value, ln.Choose):
        return _has_copy(value.left, target, p) or _has_copy(value.right, target, p)
    return is_copy(value, target, p)


# -- aliases ----------------------------------------------------------------------------------------------------------


def _with_aliases_merged(statement: ln.Statement, buffer: ln.Buffer) -> ln.Statement:
    """Replace each choice between two rows of one element by the later row: in place, both have the same storage."""
    match statement:
        case ln.For(body=body) | ln.If(body=body):
            return ln.with_body(statement, tuple(_with_aliases_merged(inside, buffer) for inside in body))
        case ln.Assign(_, value) | ln.Accumulate(_, _, value):
            return replace(statement, value=_merged(value, buffer))
        case ln.Declare(_, initial):
            return replace(statement, initial=_merged(initial, buffer))
        case ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
            return statement
    assert_never(statement)


def _merged(e: ln.ScalarExpr, buffer: ln.Buffer) -> ln.ScalarExpr:
    match e:
        case ln.Choose(predicate, left, right):
            left, right = _merged(left, buffer), _merged(right, buffer)
            return _later_of(left, right, buffer) or ln.Choose(predicate, left, right)
        case ln.Apply(_, arguments):
            return replace(e, arguments=tuple(_merged(argument, buffer) for argument in arguments))
        case ln.Convert(argument):
            return replace(e, argument=_merged(argument, buffer))
        case ln.Number() | ln.Load() | ln.FromIndex():
            return e
    assert_never(e)


def _later_of(left: ln.ScalarExpr, right: ln.ScalarExpr, buffer: ln.Buffer) -> ln.Load | None:
    """Return the read of the later of two rows, if both expressions read one element of the buffer."""
    match left, right:
        case ln.Load(ln.Cell(one, (first, *at))), ln.Load(ln.Cell(other, (second, *there))) if (
            one == other == buffer and at == there
        ):
            distance = (first[0] - second[0]).constant
            if distance is not None:
                return left if distance >= 0 else right
    return None


# -- statements -------------------------------------------------------------------------------------------------------


def _with_start(block: ln.Block, loop: ln.For, started: ln.Clear) -> ln.Block:
    """Start a row at the beginning of each iteration of the loop."""
    out: list[ln.Statement] = []
    for statement in block:
        if statement is loop:
            out.append(ln.with_body(loop, (started, *loop.body)))
        elif isinstance(statement, ln.If):
            out.append(ln.with_body(statement, _with_start(statement.body, loop, started)))
        else:
            out.append(statement)
    return tuple(out)


def _reallocated(block: ln.Block, found: dict[ln.Buffer, _Kept]) -> ln.Block:
    """Allocate and free the buffers with fewer rows."""
    out: list[ln.Statement] = []
    for statement in block:
        match statement:
            case ln.Allocate(buffer) if buffer in found:
                kept = found[buffer]
                size = bytes_of(kept.capacity.constant, buffer.dtype)
                small = size is not None and size <= LOCAL_BYTES
                storage = storage_of(statement.mark, size) if small else "heap"
                out.append(
                    replace(statement, buffer=kept.buffer, capacity=kept.capacity, storage=storage, zeroed=False)
                )
            case ln.Free(buffer) if buffer in found:
                out.append(ln.Free(found[buffer].buffer))
            case ln.For(body=body) | ln.If(body=body):
                out.append(ln.with_body(statement, _reallocated(body, found)))
            case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
                out.append(statement)
            case _:
                assert_never(statement)
    return tuple(out)
