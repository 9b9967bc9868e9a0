"""Buffer reuse: a tensor shares the storage of the tensor that is computed from it.

If a single loop reads a let on the heap and stores a tensor of the same shape, the two share storage. This requires a
proof that no element is read after it was overwritten. Copies of an element to itself are removed, and so are lets that
copy an input. A let that is computed for each row of the output, and read by the loop that stores that row, is stored
in the row. Marked lets are not affected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from typing import assert_never

from atl.checks.scope import initial_facts
from atl.core.index import ONE, ZERO, index
from atl.core.marks import LetMark
from atl.core.reshape_definitions import Pairs
from atl.prove import Facts
from lowering.nest import loopnest as ln
from lowering.nest.accesses import accesses, after
from lowering.nest.overwrites import find_overwritten_read
from lowering.nest.substitution import in_other_buffers, in_rows
from lowering.nest.text_scope import TextScope, outermost
from lowering.nest.tiles import cells_of, stores_to


def with_reused_buffers(nest: ln.LoopNest) -> ln.LoopNest:
    """Let tensors share storage where no element is read after another tensor has overwritten it."""
    if not any(_is_free_to_move(statement) for statement in ln.statements(nest.body)):
        return nest
    facts = initial_facts(nest.assumptions, nest.inputs)
    output = nest.output if nest.complete else None
    body = _without_copies(nest.body, output)
    return replace(nest, body=_block(facts, outermost(nest), body, output))


def _is_free_to_move(statement: ln.Statement) -> bool:
    """Return whether a statement allocates an unmarked buffer of which every element is stored before it is read."""
    return isinstance(statement, ln.Allocate) and statement.mark is LetMark.NONE and not statement.zeroed


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
    source = _copied(stores[0], buffer) if len(stores) == 1 else None
    if source is None or source.role != "input":
        return block
    return in_other_buffers(tuple(s for s in block if s is not stores[0] and not _is_of(s, buffer)), {buffer: source})


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
    while isinstance(statement, ln.For) and len(statement.body) == 1:
        (statement,) = statement.body
    match statement:
        case ln.Assign(ln.Cell(target, pairs), ln.Load(ln.Cell(source, read))):
            same = target == to and pairs == read and target.extents == source.extents and target.dtype == source.dtype
            return source if same and not source.rows else None
        case ln.For() | ln.If() | ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free():
            return None
    assert_never(statement)


# -- storage ----------------------------------------------------------------------------------------------------------


def _block(facts: Facts, scope: TextScope, block: ln.Block, output: ln.Buffer | None) -> ln.Block:
    """Share storage in a block. `output` is the output buffer at the top level, if all its elements are stored."""
    out: list[ln.Statement] = []
    scopes: list[TextScope] = []
    for statement in block:
        scopes.append(scope)
        scope = after(scope, statement)
        match statement:
            case ln.For(variable, body=body):
                inside = scope.bind(variable, variable.name)[1]
                out.append(ln.with_body(statement, _block(facts.assume(statement.range), inside, body, None)))
            case ln.If(predicate, body):
                out.append(ln.with_body(statement, _block(facts.assume(predicate), scope, body, None)))
            case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free():
                out.append(statement)
            case _:
                assert_never(statement)
    return _shared(tuple(out), _reusing(facts, scopes, tuple(out), output), output)


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
            done = list(accesses(loop, facts, scopes[reading[0]]))
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
    if sum(cell.buffer.storage == nest.output for cell, _ in cells_of(nest.body)) != 1:
        return nest
    facts = initial_facts(nest.assumptions, nest.inputs)
    for allocate in ln.statements(nest.body):
        if not isinstance(allocate, ln.Allocate) or not _is_free_to_move(allocate) or allocate.storage != "heap":
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
        case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free():
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
            list(accesses(loop, facts, scope)), there, output, reading
        ):
            return None
    return in_rows(_without_storage(block, buffer), buffer, there, row)


def _leaves_inputs(computing: ln.Block, following: ln.Block, there: ln.Buffer) -> bool:
    """Return whether an input that a call may also pass as `out` is not read later than without this change."""
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
        case ln.If() | ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free():
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
