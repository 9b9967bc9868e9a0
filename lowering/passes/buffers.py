"""Passes that place buffers: reuse, the stack, and early frees."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, assert_never

from atl.checks.scope import initial_facts
from atl.core.index import ONE, ZERO, Var, constant, index
from atl.core.marks import CONCURRENT, LetMark
from atl.core.predicate import less
from atl.core.reshape_definitions import Pairs
from atl.prove import Facts
from lowering.nest import loopnest as ln
from lowering.nest.accesses import accesses, after, find_overwritten_read, with_inner_blocks
from lowering.nest.loopnest import in_other_buffers, in_rows
from lowering.nest.text import TextScope, outermost
from lowering.nest.tiles import cells_of, stores_to
from lowering.passes.recurrences import is_copy
from lowering.passes.stores import loaded
from lowering.targets.capabilities import STACK_BUDGET

# -- buffer reuse -----------------------------------------------------------------------------------------------------
# If a single loop reads a let on the heap and stores a tensor of the same shape, the two share storage. This requires
# a proof that no element is read after it was overwritten. Copies of an element to itself are removed, and so are lets
# that copy an input. A let that is computed for each row of the output, and read by the loop that stores that row, is
# stored in the row. Marked lets are not affected.


def with_reused_buffers(nest: ln.LoopNest) -> ln.LoopNest:
    """Let tensors share storage where no element is read after another tensor has overwritten it."""
    if not any(_is_free_to_move(statement) for statement in ln.statements(nest.body)):
        return nest
    facts = initial_facts(nest.assumptions, nest.inputs)
    output = nest.output if nest.complete else None
    body = _without_copies(nest.body, output)
    return replace(nest, body=_block(outermost(nest), facts, body, output=output))


def _is_free_to_move(statement: ln.Statement) -> bool:
    """Return whether a statement allocates an unmarked buffer of which every element is stored before it is read.

    Circular buffers are not included.
    """
    return (
        isinstance(statement, ln.Allocate)
        and statement.mark is LetMark.NONE
        and not (statement.zeroed or statement.buffer.rows)
    )


# -- copies -----------------------------------------------------------------------------------------------------------


def _without_copies(block: ln.Block, output: ln.Buffer | None) -> ln.Block:
    """Remove copies of an input to a let, and of a let to the output or to another let."""
    out = tuple(ln.with_body(s, _without_copies(s.body, None)) if isinstance(s, ln.For | ln.If) else s for s in block)
    if not any(map(_is_free_to_move, out)):
        return out  # most blocks allocate nothing
    cleared = _cleared(out)
    places = _places(out)
    for statement in out:
        if isinstance(statement, ln.Allocate) and _is_free_to_move(statement) and statement.buffer not in cleared:
            left = _without_copy_to(statement.buffer, out, places)
            if left is not out:
                out, places = left, _places(left)
    for statement in out:
        if isinstance(statement, ln.Allocate) and _is_free_to_move(statement) and statement.buffer not in cleared:
            left = _without_copy_of(statement, out, places, cleared, output)
            if left is not out:
                out, places = left, _places(left)
    return out


def _without_copy_to(buffer: ln.Buffer, block: ln.Block, places: _AccessingStatements) -> ln.Block:
    """Let the statements read an input instead of its copy in the buffer."""
    stores = [block[at] for at in places.stores.get(buffer, [])]
    if len(stores) != 1:
        return block
    if (row := _row_copied(stores[0], buffer)) is not None:
        return _without_copy_of_row(row, buffer, block, places)
    source = _copied(stores[0], buffer)
    if source is None or source.role != "input":
        return block
    return in_other_buffers(tuple(s for s in block if s is not stores[0] and not _is_of(s, buffer)), {buffer: source})


def _without_copy_of_row(row: ln.Cell, buffer: ln.Buffer, block: ln.Block, places: _AccessingStatements) -> ln.Block:
    """Let the statements read a row of a circular buffer, such as the last one, instead of its copy.

    The circular buffer is freed with the copy. No statement may store to it after the copy.
    """
    (at,) = places.stores[buffer]
    ring = row.buffer
    if max(places.stores.get(ring, [0])) > at or not {ln.Free(ring), ln.Free(buffer)} <= set(block[at:]):
        return block
    kept = [s for s in block if s is not block[at] and s != ln.Free(ring)]
    left = [s for s in kept if not (isinstance(s, ln.Allocate) and s.buffer == buffer)]
    return in_rows(tuple(left), buffer, ring, row.pairs[:1])


def _without_copy_of(
    allocate: ln.Allocate,
    block: ln.Block,
    places: _AccessingStatements,
    cleared: Set[ln.Buffer],
    output: ln.Buffer | None,
) -> ln.Block:
    """Compute a tensor in the buffer that it would be copied to."""
    buffer = allocate.buffer
    at = places.loads.get(buffer, [])
    if len(at) != 1:
        return block
    reading = block[at[0]]
    into = [s for s in block if isinstance(s, ln.Allocate) and _is_free_to_move(s) and s.buffer not in cleared]
    targets: list[tuple[ln.Buffer, ln.Block]] = [(to.buffer, (to,)) for to in into]
    targets += [(output, ())] if output is not None else []
    for target, place in targets:
        if places.stores.get(target, []) == at and _copied(reading, target) == buffer:
            # Allocate the target of the copy at the place of the removed buffer.
            left = tuple(
                one
                for s in block
                if s is not reading and s != ln.Free(buffer) and s not in place
                for one in (place if s == allocate else (s,))
            )
            return in_other_buffers(left, {buffer: target})
    return block


@dataclass(frozen=True, slots=True)
class _AccessingStatements:
    """The statements of a block that read each buffer, and those that store to it, at any depth."""

    loads: Mapping[ln.Buffer, list[int]]
    stores: Mapping[ln.Buffer, list[int]]


def _places(block: ln.Block) -> _AccessingStatements:
    """Find the accesses to all buffers in one traversal. A traversal for each buffer would take cubic time."""
    loads: dict[ln.Buffer, list[int]] = {}
    stores: dict[ln.Buffer, list[int]] = {}
    for at, statement in enumerate(block):
        for buffer, stored in dict.fromkeys((cell.buffer, stored) for cell, stored in cells_of((statement,))):
            (stores if stored else loads).setdefault(buffer, []).append(at)
    return _AccessingStatements(loads, stores)


def _cleared(block: ln.Block) -> frozenset[ln.Buffer]:
    """Return the buffers that are cleared, at any depth."""
    return frozenset(s.buffer for s in ln.statements(block) if isinstance(s, ln.Clear))


def _is_of(statement: ln.Statement, buffer: ln.Buffer) -> bool:
    """Return whether the statement allocates or frees the buffer."""
    return isinstance(statement, ln.Allocate | ln.Free) and statement.buffer == buffer


def _copied(statement: ln.Statement, to: ln.Buffer) -> ln.Buffer | None:
    """Return the buffer that a statement copies to `to`, element by element, if it does nothing else."""
    pairs, source, _ = _copy(statement, to)
    same = source is not None and pairs == source.pairs and to.extents == source.buffer.extents
    return source.buffer if source is not None and same and not source.buffer.rows else None


def _row_copied(statement: ln.Statement, to: ln.Buffer) -> ln.Cell | None:
    """Return an element of the row of a circular buffer that a statement copies to `to`, if it does only that."""
    pairs, source, loops = _copy(statement, to)
    if source is None or not source.buffer.rows:
        return None
    (row, _), *read = source.pairs
    alike = pairs == tuple(read) and to.extents == source.buffer.extents[1:] and ONE not in to.extents
    return source if alike and not row.free & loops else None


def _copy(statement: ln.Statement, to: ln.Buffer) -> tuple[Pairs, ln.Cell | None, frozenset[int]]:
    """Return the position stored in `to` and the cell loaded, if a statement only copies; and the loops around it."""
    loops: set[int] = set()
    while isinstance(statement, ln.For) and len(statement.body) == 1:
        loops.add(statement.variable.uid)
        (statement,) = statement.body
    match statement:
        case ln.Assign(ln.Cell(target, pairs), ln.Load(ln.Cell(source) as cell)):
            if target == to and target.dtype == source.dtype:
                return pairs, cell, frozenset(loops)
        case (
            ln.For() | ln.If() | ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free()
            | ln.Gather()
        ):  # fmt: skip
            pass
        case _:
            assert_never(statement)
    return (), None, frozenset(loops)


# -- storage ----------------------------------------------------------------------------------------------------------


def _block(scope: TextScope, facts: Facts, block: ln.Block, *, output: ln.Buffer | None) -> ln.Block:
    """Share storage in a block. `output` is the output buffer at the top level, if all its elements are stored."""
    made, scopes = with_inner_blocks(scope, facts, block, partial(_block, output=None))
    return _shared(made, _reusing(facts, [scope, *scopes], made, output), output)


def _reusing(
    facts: Facts, scopes: list[TextScope], block: ln.Block, output: ln.Buffer | None
) -> Mapping[ln.Buffer, ln.Buffer]:
    """Return the buffers of a block whose storage another buffer can reuse, each with that buffer."""
    free = [s.buffer for s in block if isinstance(s, ln.Allocate) and _is_free_to_move(s) and s.storage == "heap"]
    if not free:
        return {}
    cleared, places = _cleared(block), _places(block)
    free = [buffer for buffer in free if buffer not in cleared]
    found: dict[ln.Buffer, ln.Buffer] = {}
    for buffer in free:
        reading = places.loads.get(buffer, [])
        loop = block[reading[0]] if len(reading) == 1 else None
        if not isinstance(loop, ln.For):
            continue
        for other in (*free, *([output] if output is not None else [])):
            if places.stores.get(other, []) != reading or other == buffer or other in found.values():
                continue
            if not _are_alike(buffer, other):
                continue
            done = list(accesses(scopes[reading[0]], facts, loop))
            if find_overwritten_read(done, buffer, other, (loop,)) is None:
                found[buffer] = other
                break
    return found


def _are_alike(one: ln.Buffer, another: ln.Buffer) -> bool:
    return bool(one.extents) and one.extents == another.extents and one.dtype == another.dtype


def _shared(block: ln.Block, following: Mapping[ln.Buffer, ln.Buffer], output: ln.Buffer | None) -> ln.Block:
    """Merge the storage of buffers that reuse each other's: into the output, or into the buffer allocated first.

    The shared storage is freed where its last tensor was freed.
    """
    allocated = [s.buffer for s in block if isinstance(s, ln.Allocate)]
    homes: dict[ln.Buffer, ln.Buffer] = {}
    for chain in _chains(following):
        home = output if output is not None and output in chain else min(chain, key=allocated.index)
        homes |= dict.fromkeys(chain, home)
    if not homes:
        return block
    moved = {buffer: replace(buffer, home=home) for buffer, home in homes.items() if buffer != home}
    last = {homes[s.buffer]: s for s in block if isinstance(s, ln.Free) and s.buffer in homes}
    left: list[ln.Statement] = []
    for statement in block:
        if isinstance(statement, ln.Free) and statement.buffer in homes:
            home = homes[statement.buffer]
            left += [ln.Free(home)] if home != output and last[home] == statement else []
        elif not (isinstance(statement, ln.Allocate) and statement.buffer in moved):
            left.append(statement)
    return in_other_buffers(tuple(left), moved)


def _chains(following: Mapping[ln.Buffer, ln.Buffer]) -> Iterator[list[ln.Buffer]]:
    """Yield each maximal chain of buffers in which each buffer reuses the storage of the previous one."""
    for first in following:
        if first not in following.values():
            chain = [first]
            while chain[-1] in following:
                chain.append(following[chain[-1]])
            yield chain


# -- rows of the output -----------------------------------------------------------------------------------------------


def with_lets_in_output_rows(nest: ln.LoopNest) -> ln.LoopNest:
    """Store a let with the elements of one row in the row of the output that is computed from it.

    The let must be completely stored before it is read. The last loop that reads it must store every element of the
    row, so that all its elements are overwritten.
    """
    if nest.assembly is not None or sum(cell.buffer.storage == nest.output for cell, _ in cells_of(nest.body)) != 1:
        return nest
    facts = initial_facts(nest.assumptions, nest.inputs)
    shared = {cell.buffer.storage for cell, _ in cells_of(nest.body) if cell.buffer != cell.buffer.storage}
    # A let can be stored in a row of the output only if the statement that stores this row accesses the let.
    of_statements = [{cell.buffer for cell, _ in cells_of((statement,))} for statement in nest.body]
    used = {buffer for of in of_statements if nest.output in {each.storage for each in of} for buffer in of}
    for allocate in ln.statements(nest.body):
        if not isinstance(allocate, ln.Allocate) or not _is_free_to_move(allocate) or allocate.storage != "heap":
            continue
        if allocate.buffer in shared or allocate.buffer not in used:
            continue
        body = _in_row(facts, outermost(nest), nest.body, allocate.buffer, nest.output)
        if body is not None:
            return replace(nest, body=_without_storage(body, allocate.buffer))
    return nest


def _in_row(facts: Facts, scope: TextScope, block: ln.Block, buffer: ln.Buffer, output: ln.Buffer) -> ln.Block | None:
    """Store a let in a row of the output, if allowed; else return None."""
    using = [at for at, s in enumerate(block) if any(cell.buffer == buffer for cell, _ in cells_of((s,)))]
    if not using:
        return None
    for statement in block[: using[-1]]:
        scope = after(scope, statement)
    if len(using) > 1:
        return _in_row_of_block(facts, scope, block, using, buffer, output)
    statement = block[using[0]]
    match statement:
        case ln.For(variable, body=body):
            inside = scope.bind(variable, variable.name)[1]
            within = _in_row(facts.assume(statement.range), inside, body, buffer, output)
        case ln.If(predicate, body):
            within = _in_row(facts.assume(predicate), scope, body, buffer, output)
        case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
            return None
        case _:
            assert_never(statement)
    if within is None:
        return None
    return tuple(ln.with_body(statement, within) if s is statement else s for s in block)


def _in_row_of_block(
    facts: Facts, scope: TextScope, block: ln.Block, using: list[int], buffer: ln.Buffer, output: ln.Buffer
) -> ln.Block | None:
    """Store a let in a row, in a block with several statements that access it (`using`).

    `facts` and `scope` are those of the last one.
    """
    first, last = block[using[0]], block[using[-1]]
    row = _row_stored_in_full(last, buffer, output)
    if row is None or stores_to(last, buffer) or not _is_stored_in_full(first, buffer) or _is_zeroed(block, buffer):
        return None
    there = replace(buffer, extents=output.extents, home=output)
    if not _leaves_inputs(in_rows((first,), buffer, there, row), block[using[0] + 1 :], there):
        return None
    reading = in_rows((last,), buffer, there, row)
    for loop in reading:
        if not isinstance(loop, ln.For) or find_overwritten_read(
            list(accesses(scope, facts, loop)), there, output, reading
        ):
            return None
    return in_rows(_without_storage(block, buffer), buffer, there, row)


def _leaves_inputs(computing: ln.Block, following: ln.Block, there: ln.Buffer) -> bool:
    """Return whether an input that a call may also pass as `out` is read no later than before this change."""
    stored = {cell.pairs for cell, stores in cells_of(computing) if stores and cell.buffer == there}
    alike = [cell for cell, _ in cells_of(computing) if _is_input_like(cell.buffer, there)]
    return all(stored == {cell.pairs} for cell in alike) and not any(
        _is_input_like(cell.buffer, there) for cell, _ in cells_of(following)
    )


def _is_input_like(buffer: ln.Buffer, there: ln.Buffer) -> bool:
    return buffer.role == "input" and _are_alike(buffer, there)


def _row_stored_in_full(statement: ln.Statement, buffer: ln.Buffer, output: ln.Buffer) -> Pairs | None:
    """Return the leading pairs of a row of the output that has the shape of a buffer and that a loop stores fully."""
    extents = tuple(extent for extent in buffer.extents if extent != ONE)
    first = len(output.extents) - len(extents)
    if not extents or first <= 0 or output.extents[first:] != extents or output.dtype != buffer.dtype:
        return None
    for cell, loops in _stored(statement, output, ()):
        row = cell.pairs[:first]
        if _go_over(loops, cell.pairs[first:]) and not any(e.free & {s.variable.uid for s in loops} for e, _ in row):
            return row
    return None


def _is_stored_in_full(statement: ln.Statement, buffer: ln.Buffer) -> bool:
    cells = _stored(statement, buffer, ())
    return any(_go_over(loops, tuple(pair for pair in cell.pairs if pair[1] != ONE)) for cell, loops in cells)


def _stored(
    statement: ln.Statement, buffer: ln.Buffer, loops: tuple[ln.For, ...]
) -> Iterator[tuple[ln.Cell, tuple[ln.For, ...]]]:
    """Yield the cells of a buffer that are stored unconditionally, each with the loops around it in the statement."""
    match statement:
        case ln.For(body=body):
            for inner in body:
                yield from _stored(inner, buffer, (*loops, statement))
        case ln.Assign(ln.Cell(target) as cell) if target == buffer:
            yield cell, loops
        case (
            ln.If() | ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free()
            | ln.Gather()
        ):  # fmt: skip
            return
        case _:
            assert_never(statement)


def _go_over(loops: tuple[ln.For, ...], pairs: Pairs) -> bool:
    """Return whether the loops run over all positions of the pairs."""
    found = {index(loop.variable): loop.high for loop in loops if loop.low == ZERO}
    return dict(pairs) == found and len(loops) == len(pairs) == len(found)


def _is_zeroed(block: ln.Block, buffer: ln.Buffer) -> bool:
    return any(isinstance(s, ln.Clear) and s.buffer == buffer and s.zeroed for s in ln.statements(block))


def _without_storage(block: ln.Block, buffer: ln.Buffer) -> ln.Block:
    """Remove the statements that allocate, clear or free a buffer."""
    return tuple(
        ln.with_body(s, _without_storage(s.body, buffer)) if isinstance(s, ln.For | ln.If) else s
        for s in block
        if not (isinstance(s, ln.Allocate | ln.Clear | ln.Free) and s.buffer == buffer)
    )


# -- the output as the row of a recurrence ----------------------------------------------------------------------------


def with_row_in_output(nest: ln.LoopNest) -> ln.LoopNest:
    """Compute a recurrence of one row in the output, if its last row is the whole output.

    The copy of the last row is removed, and so is the buffer. A call may pass an input of the shape of the output as
    `out`. So such an input must not be read after the first row is stored.
    """
    if not nest.complete or nest.assembly is not None:
        return nest
    for copying in nest.body:
        last = _row_copied(copying, nest.output)
        if last is None or not _is_computed_only_for(nest.output, copying, last.buffer, nest.body):
            continue
        rows, output = last.buffer, replace(nest.output, in_place=True)
        body = _without_storage(tuple(s for s in nest.body if s is not copying), rows)
        storage = tuple(
            replace(one, in_result=True) if (one.name, one.rows) == (rows.name, 1) else one for one in nest.row_storage
        )
        return replace(nest, output=output, body=ln.in_one_row(body, rows, output), row_storage=storage)
    return nest


def with_external_rows(nest: ln.LoopNest) -> ln.LoopNest:
    """Store rows of a circular buffer in the arrays of a call, if its last row is the whole output.

    In C, the steps then store to the output in turn with the buffer, and read the first row from the input that it
    copies. Nothing else may access the output. The loop nest keeps its copies of whole rows.

    If row 0 is read from an input, no stored row has its elements. So elements that all rows share are copied in one
    more step.
    """
    if not nest.complete or nest.assembly is not None or nest.external_rows is not None:
        return nest
    for copy_out in nest.body:
        last = _row_copied(copy_out, nest.output)
        if last is None or not _is_started(nest, copy_out, last.buffer):
            continue
        ring = last.buffer
        found = ln.ExternalRows(ring, last.pairs[0][0], nest.output, copy_out)
        begun = [s for s in nest.body if stores_to(s, ring) and not _starts_row_of_loop(s, ring)]
        source = _input_copied(begun[0], ring) if len(begun) == 1 else None
        body = None if source is None else _with_another_copy(nest.body, ring)
        if source is not None and body is not None:
            nest, found = replace(nest, body=body), replace(found, first=source, copy_in=begun[0])
        storage = tuple(
            replace(one, in_result=True, first=None if found.first is None else found.first.name)
            if (one.name, one.rows) == (ring.name, ring.rows)
            else one
            for one in nest.row_storage
        )
        return replace(nest, external_rows=found, row_storage=storage)
    return nest


def _is_started(nest: ln.LoopNest, copy_out: ln.Statement, ring: ln.Buffer) -> bool:
    """Return whether C has a pointer to each row that a nest accesses before it copies the last row to the output."""
    places, at = _places(nest.body), nest.body.index(copy_out)
    allocated = [s for s in nest.body if isinstance(s, ln.Allocate) and s.buffer == ring]
    if not allocated or allocated[0].storage != "heap" or allocated[0].mark is not LetMark.NONE or ring.rows < 2:
        return False
    if len(ring.extents) < 2 or nest.output in places.loads or places.stores[nest.output] != [at]:
        return False
    using = {*places.loads[ring], *places.stores.get(ring, [])} - {at}
    return max(using, default=at) < at and all(
        _starts_row_of_loop(nest.body[place], ring) or _stores_first_row(nest.body[place], ring) for place in using
    )


def _with_another_copy(body: ln.Block, ring: ln.Buffer) -> ln.Block | None:
    """Return the statements with one more copy of the elements that all rows share.

    None if the copies are not all made by one loop over rows, under the condition of `with_kept_rows`.
    """
    if not ring.in_place:
        return body
    found = [at for at, statement in enumerate(body) if _starts_row_of_loop(statement, ring)]
    loops = [s for at in found for s in ln.statements((body[at],)) if isinstance(s, ln.For)]
    if len(found) != 1:
        return None
    (at,), p = found, loops[0].variable
    made = _with_copies_until(ring.rows, ring.rows + 1, (body[at],), ring, p)
    return None if made is None or made == (body[at],) else (*body[:at], *made, *body[at + 1 :])


def _with_copies_until(old: int, new: int, block: ln.Block, ring: ln.Buffer, p: Var) -> ln.Block | None:
    """Copy elements of row p - 1 to row p while p < new instead of p < old. None for a copy without this condition."""
    out: list[ln.Statement] = []
    for statement in block:
        match statement:
            case ln.If(predicate, body) if predicate == less(index(p), constant(old)) and _only_copies(body, ring, p):
                out.append(ln.If(less(index(p), constant(new)), body))
            case ln.For(body=body) | ln.If(body=body):
                inner = _with_copies_until(old, new, body, ring, p)
                if inner is None:
                    return None
                out.append(ln.with_body(statement, inner))
            case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
                if _only_copies((statement,), ring, p):
                    return None
                out.append(statement)
            case _:
                assert_never(statement)
    return tuple(out)


def _only_copies(block: ln.Block, ring: ln.Buffer, p: Var) -> bool:
    """Return whether all statements copy elements of row p - 1 of a circular buffer to their own place in row p."""
    return all(
        (isinstance(s, ln.For) and _only_copies(s.body, ring, p))
        or (
            isinstance(s, ln.Assign)
            and isinstance(s.target, ln.Cell)
            and s.target.buffer == ring
            and is_copy(s.value, s.target, p)
        )
        for s in block
    )


def _stores_first_row(statement: ln.Statement, ring: ln.Buffer) -> bool:
    """Return whether a statement only starts row 0 of a circular buffer, or only stores to that row."""
    if isinstance(statement, ln.Clear):
        return statement.row == ZERO and not statement.zeroed
    cells = [(cell, stored) for cell, stored in cells_of((statement,)) if cell.buffer == ring]
    return all(stored and cell.pairs[0][0] == ZERO for cell, stored in cells)


def _starts_row_of_loop(statement: ln.Statement, ring: ln.Buffer) -> bool:
    """Return whether a statement is a loop that starts a row, and accesses only this row and the rows before it."""
    while isinstance(statement, ln.If) and len(statement.body) == 1:
        (statement,) = statement.body
    if not isinstance(statement, ln.For) or not statement.body:
        return False
    begun, row = statement.body[0], index(statement.variable)
    cells = [cell for cell, _ in cells_of(statement.body[1:]) if cell.buffer == ring]
    return (
        isinstance(begun, ln.Clear)
        and (begun.buffer, begun.row, begun.zeroed) == (ring, row, False)
        and not any(isinstance(s, ln.Clear) and s.buffer == ring for s in ln.statements(statement.body[1:]))
        and all((row - cell.pairs[0][0]).constant in range(ring.rows) for cell in cells)
    )


def _input_copied(statement: ln.Statement, ring: ln.Buffer) -> ln.Buffer | None:
    """Return the input that a statement copies to row 0 of a circular buffer, if it does nothing else."""
    pairs, source, _ = _copy(statement, ring)
    if source is None or source.buffer.role != "input" or pairs[1:] != source.pairs:
        return None
    return source.buffer if source.buffer.extents == ring.extents[1:] else None


def _is_computed_only_for(output: ln.Buffer, copying: ln.Statement, rows: ln.Buffer, body: ln.Block) -> bool:
    """Return whether the output may be the only row of a recurrence in place, which a statement copies to the output.

    No other statement may access the output, and none may access the row after the copy.
    """
    places = _places(body)
    at, storing = body.index(copying), places.stores.get(rows, [])
    if rows.rows != 1 or not rows.in_place or rows in _cleared(body) or not storing:
        return False
    if not any(isinstance(s, ln.Allocate) and s.buffer == rows and s.mark is LetMark.NONE for s in body):
        return False
    if places.loads.get(output, []) or places.stores[output] != [at] or max(storing + places.loads[rows]) > at:
        return False
    alike = [buffer for buffer in places.loads if _is_input_like(buffer, output)]
    return all(max(places.loads[buffer]) <= storing[0] for buffer in alike) and _leaves_inputs(
        ln.in_one_row((body[storing[0]],), rows, output), (), output
    )


# -- the stack budget -------------------------------------------------------------------------------------------------


FIRST: Final = (LetMark.STACK, LetMark.REGISTERS)
"""Marks of buffers that are placed on the stack first. Those marked `registers` may leave it in a later pass."""


def with_stack_budget(nest: ln.LoopNest) -> ln.LoopNest:
    """Limit the buffers on the stack to `STACK_BUDGET` bytes at any place.

    Buffers marked for the stack have priority, then those in the deepest loops. Buffers that do not fit move to the
    heap. Their allocations are hoisted out of loops, and they are cleared at their original place. They are not hoisted
    out of concurrent loops, whose iterations have private buffers.
    """
    if ln.stack_in_use(nest.body) <= STACK_BUDGET:
        return nest
    stack = _StackBuffers()
    stack.collect(nest.body, 0)
    order = sorted(range(len(stack.buffers)), key=lambda at: (stack.buffers[at].mark not in FIRST, -stack.loops[at]))
    kept = {stack.buffers[at].buffer for at in order if stack.reserve(at)}
    return replace(nest, body=_outside(nest.body, kept))


@dataclass(slots=True)
class _StackBuffers:
    """The buffers on the stack in the order of the text, with the number of loops around each.

    Buffer i is live at the allocations i to until[i] - 1. `in_use` has the reserved bytes at each allocation.
    """

    buffers: list[ln.Allocate] = field(default_factory=list)
    loops: list[int] = field(default_factory=list)
    until: list[int] = field(default_factory=list)
    in_use: list[int] = field(default_factory=list)

    def collect(self, block: ln.Block, loops: int) -> None:
        here: list[int] = []
        for statement in block:
            match statement:
                case ln.Allocate(storage="stack"):
                    here.append(len(self.buffers))
                    self.buffers.append(statement)
                    self.loops.append(loops)
                    self.until.append(0)
                    self.in_use.append(0)
                case ln.For(body=body):
                    self.collect(body, loops + 1)
                case ln.If(body=body):
                    self.collect(body, loops)
                case (
                    ln.Allocate() | ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Clear() | ln.Free() | ln.Gather()
                ):
                    pass
                case _:
                    assert_never(statement)
        for at in here:
            self.until[at] = len(self.buffers)

    def reserve(self, at: int) -> bool:
        """Reserve stack space for a buffer, and return whether it fits."""
        span, size = range(at, self.until[at]), ln.bytes_of(self.buffers[at]) or 0
        if max(self.in_use[other] for other in span) + size > STACK_BUDGET:
            return False
        for other in span:
            self.in_use[other] += size
        return True


def _outside(block: ln.Block, kept: Collection[ln.Buffer]) -> ln.Block:
    """Move buffers to the heap in a block outside of all loops, or directly in a concurrent loop."""
    out: list[ln.Statement] = []
    for statement in block:
        match statement:
            case ln.Allocate(buffer, storage="stack") if buffer not in kept:
                out.append(replace(statement, storage="heap"))
            case ln.For(body=body, mark=mark) if mark in CONCURRENT:
                out.append(ln.with_body(statement, _outside(body, kept)))
            case ln.For(body=body):
                moved: list[ln.Allocate] = []
                loop = ln.with_body(statement, _in_loop(body, kept, moved))
                out += [*moved, loop, *(ln.Free(allocate.buffer) for allocate in reversed(moved))]
            case ln.If(predicate, body):
                out.append(ln.If(predicate, _outside(body, kept)))
            case ln.Allocate() | ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Clear() | ln.Free() | ln.Gather():
                out.append(statement)
            case _:
                assert_never(statement)
    return tuple(out)


def _in_loop(block: ln.Block, kept: Collection[ln.Buffer], moved: list[ln.Allocate]) -> ln.Block:
    """Move buffers to the heap in a block within a loop, and add their allocations to `moved`."""
    out: list[ln.Statement] = []
    here: set[ln.Buffer] = set()
    for statement in block:
        match statement:
            case ln.Allocate(buffer, capacity, storage="stack", zeroed=zeroed) if buffer not in kept:
                here.add(buffer)
                moved.append(replace(statement, storage="heap", zeroed=False))
                out.append(ln.Clear(buffer, capacity, zeroed))
            case ln.Free(buffer) if buffer in here:
                pass
            case ln.For(body=body, mark=mark) if mark in CONCURRENT:
                out.append(ln.with_body(statement, _outside(body, kept)))
            case ln.For(body=body) | ln.If(body=body):
                out.append(ln.with_body(statement, _in_loop(body, kept, moved)))
            case ln.Allocate() | ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Clear() | ln.Free() | ln.Gather():
                out.append(statement)
            case _:
                assert_never(statement)
    return tuple(out)


# -- early frees ------------------------------------------------------------------------------------------------------


def with_early_frees(nest: ln.LoopNest) -> ln.LoopNest:
    """Move each free to the last statement of its block that accesses the buffer.

    If that access is in a loop, the free follows the loop. The two branches of one test remain adjacent.
    """
    return replace(nest, body=_block_with_frees(nest.body))


def _block_with_frees(block: ln.Block) -> ln.Block:
    if not any(isinstance(statement, ln.Free) for statement in block):
        return tuple(_inside(statement) for statement in block)
    after: dict[int, list[ln.Statement]] = {}
    kept: list[ln.Statement] = []
    last: dict[Hashable, int] = {}
    for statement in block:
        if isinstance(statement, ln.Free):
            after.setdefault(last[ln.key(statement.buffer)], []).append(statement)
            continue
        for mentioned in _mentioned(statement):
            last[mentioned] = len(kept)
        kept.append(_inside(statement))
    out: list[ln.Statement] = []
    waiting: list[ln.Statement] = []
    for at, statement in enumerate(kept):
        out.append(statement)
        waiting += after.get(at, [])
        if not (waiting and at + 1 < len(kept) and ln.opposite(statement, kept[at + 1])):
            out += waiting
            waiting = []
    return tuple(out)


def _inside(statement: ln.Statement) -> ln.Statement:
    return (
        ln.with_body(statement, _block_with_frees(statement.body))
        if isinstance(statement, ln.For | ln.If)
        else statement
    )


def _mentioned(statement: ln.Statement) -> Iterator[Hashable]:
    """Yield the storage that a statement allocates, stores to or reads, at any depth."""
    match statement:
        case ln.For(body=body) | ln.If(body=body):
            for inside in body:
                yield from _mentioned(inside)
        case ln.Assign(target, value) | ln.Accumulate(target, _, value):
            yield ln.accessed(target)
            yield from loaded(value)
        case ln.Declare(variable, initial):
            yield ln.key(variable)
            yield from loaded(initial)
        case ln.Allocate(buffer) | ln.Clear(buffer) | ln.Free(buffer) | ln.Gather(buffer):
            yield ln.key(buffer)
        case _:
            assert_never(statement)
