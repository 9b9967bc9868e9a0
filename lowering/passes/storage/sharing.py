"""Loop nests in which a tensor that is read for the last time makes room for the one that is computed from it.

A let on the heap that one loop reads, which stores a tensor of the same shape meanwhile, stands in the storage of
that tensor if it is proved that no element is read after its place was stored to. What then only copies an element onto
itself is gone, and so is a let that is a copy of an input. A let that is computed for each row of the output anew, and
read by the loop that stores that row, stands in the row. Marked lets stand where their marks say.
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
from lowering.nest.accesses import accesses, after
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
    Load,
    LoopNest,
    Statement,
    statements,
    with_body,
)
from lowering.nest.overtaking import overtaken
from lowering.nest.substitution import in_other_buffers, in_rows
from lowering.nest.text_scope import TextScope, outermost
from lowering.nest.tiles import cells_of, stores_to


def with_storage_shared(nest: LoopNest) -> LoopNest:
    """The loop nest in which tensors share storage where none of them is read after another one took its place."""
    if not any(_is_free_to_move(statement) for statement in statements(nest.body)):
        return nest
    facts = initial_facts(nest.assumptions, nest.inputs)
    output = nest.output if nest.complete else None
    body = _without_copies(nest.body, output)
    return replace(nest, body=_block(facts, outermost(nest), body, output))


def _is_free_to_move(statement: Statement) -> bool:
    """Whether it allocates a buffer that may as well stand elsewhere: one of which every element is stored first."""
    return isinstance(statement, Allocate) and statement.mark is LetMark.NONE and not statement.zeroed


# -- copies -----------------------------------------------------------------------------------------------------------


def _without_copies(block: Block, output: Buffer | None) -> Block:
    """The statements without what only copies: an input to a let, or a let to the output or to another let."""
    out = tuple(with_body(s, _without_copies(s.body, None)) if isinstance(s, For | If) else s for s in block)
    if not any(map(_is_free_to_move, out)):
        return out  # most blocks allocate nothing
    cleared = _cleared(out)
    places = _places(out)
    for statement in out:
        if isinstance(statement, Allocate) and _is_free_to_move(statement) and statement.buffer not in cleared:
            left = _without_copy_to(statement.buffer, out, places)
            if left is not out:
                out, places = left, _places(left)
    for statement in out:
        if isinstance(statement, Allocate) and _is_free_to_move(statement) and statement.buffer not in cleared:
            left = _without_copy_of(statement, out, places, cleared, output)
            if left is not out:
                out, places = left, _places(left)
    return out


def _without_copy_to(buffer: Buffer, block: Block, places: _Places) -> Block:
    """The statements in which an input is read in place of its copy."""
    stores = [block[at] for at in places.stores.get(buffer, [])]
    source = _copied(stores[0], buffer) if len(stores) == 1 else None
    if source is None or source.role != "input":
        return block
    return in_other_buffers(tuple(s for s in block if s is not stores[0] and not _is_of(s, buffer)), {buffer: source})


def _without_copy_of(
    allocate: Allocate, block: Block, places: _Places, cleared: Set[Buffer], output: Buffer | None
) -> Block:
    """The statements in which a tensor is computed where it would be copied to."""
    buffer = allocate.buffer
    at = places.loads.get(buffer, [])
    if len(at) != 1:
        return block
    reading = block[at[0]]
    into = [s for s in block if isinstance(s, Allocate) and _is_free_to_move(s) and s.buffer not in cleared]
    targets: list[tuple[Buffer, Block]] = [(to.buffer, (to,)) for to in into]
    targets += [(output, ())] if output is not None else []
    for target, place in targets:
        if places.stores.get(target, []) == at and _copied(reading, target) == buffer:
            # Storage for what it is copied to is had where that for it would be.
            left = tuple(
                one
                for s in block
                if s is not reading and s != Free(buffer) and s not in place
                for one in (place if s == allocate else (s,))
            )
            return in_other_buffers(left, {buffer: target})
    return block


@dataclass(frozen=True, slots=True)
class _Places:
    """Which statements of a block read each buffer, and which store to it, at any depth."""

    loads: Mapping[Buffer, list[int]]
    stores: Mapping[Buffer, list[int]]


def _places(block: Block) -> _Places:
    """One look at all statements serves all buffers: with one for each, a block of many lets took cubic time."""
    loads: dict[Buffer, list[int]] = {}
    stores: dict[Buffer, list[int]] = {}
    for at, statement in enumerate(block):
        for buffer, stored in dict.fromkeys((cell.buffer, stored) for cell, stored in cells_of((statement,))):
            (stores if stored else loads).setdefault(buffer, []).append(at)
    return _Places(loads, stores)


def _cleared(block: Block) -> frozenset[Buffer]:
    """The buffers that are cleared, at any depth."""
    return frozenset(s.buffer for s in statements(block) if isinstance(s, Clear))


def _is_of(statement: Statement, buffer: Buffer) -> bool:
    """Whether the statement gets storage for the buffer, or gives it back."""
    return isinstance(statement, Allocate | Free) and statement.buffer == buffer


def _copied(statement: Statement, to: Buffer) -> Buffer | None:
    """The buffer of which a statement copies each element to its own place in another one, and does nothing else."""
    while isinstance(statement, For) and len(statement.body) == 1:
        (statement,) = statement.body
    match statement:
        case Assign(Cell(target, pairs), Load(Cell(source, read))):
            same = target == to and pairs == read and target.extents == source.extents and target.dtype == source.dtype
            return source if same and not source.rows else None
        case For() | If() | Assign() | Accumulate() | Declare() | Allocate() | Clear() | Free():
            return None
    assert_never(statement)


# -- storage ----------------------------------------------------------------------------------------------------------


def _block(facts: Facts, scope: TextScope, block: Block, output: Buffer | None) -> Block:
    """The statements of a block with storage shared; `output` is what is known to be stored in full, at the top."""
    out: list[Statement] = []
    scopes: list[TextScope] = []
    for statement in block:
        scopes.append(scope)
        scope = after(scope, statement)
        match statement:
            case For(variable, body=body):
                inside = scope.bind(variable, variable.name)[1]
                out.append(with_body(statement, _block(facts.assume(statement.range), inside, body, None)))
            case If(predicate, body):
                out.append(with_body(statement, _block(facts.assume(predicate), scope, body, None)))
            case Assign() | Accumulate() | Declare() | Allocate() | Clear() | Free():
                out.append(statement)
            case _:
                assert_never(statement)
    return _shared(tuple(out), _makes_room(facts, scopes, tuple(out), output), output)


def _makes_room(facts: Facts, scopes: list[TextScope], block: Block, output: Buffer | None) -> Mapping[Buffer, Buffer]:
    """The buffers of a block that make room for another one, each with that one."""
    free = [s.buffer for s in block if isinstance(s, Allocate) and _is_free_to_move(s) and s.storage == "heap"]
    if not free:
        return {}
    cleared, places = _cleared(block), _places(block)
    free = [buffer for buffer in free if buffer not in cleared]
    found: dict[Buffer, Buffer] = {}
    for buffer in free:
        reading = places.loads.get(buffer, [])
        loop = block[reading[0]] if len(reading) == 1 else None
        if not isinstance(loop, For):
            continue
        for other in (*free, *([output] if output is not None else [])):
            if places.stores.get(other, []) != reading or other == buffer or other in found.values():
                continue
            if not _are_alike(buffer, other):
                continue
            done = list(accesses(loop, facts, scopes[reading[0]]))
            if overtaken(done, buffer, other, (loop,)) is None:
                found[buffer] = other
                break
    return found


def _are_alike(one: Buffer, another: Buffer) -> bool:
    return bool(one.extents) and one.extents == another.extents and one.dtype == another.dtype


def _shared(block: Block, following: Mapping[Buffer, Buffer], output: Buffer | None) -> Block:
    """The statements with these buffers in the storage of others: the output, or the one that is allocated first.

    Storage is given back where the last of its tensors was: a let may end within another one that it makes room for.
    """
    allocated = [s.buffer for s in block if isinstance(s, Allocate)]
    homes: dict[Buffer, Buffer] = {}
    for chain in _chains(following):
        home = output if output is not None and output in chain else min(chain, key=allocated.index)
        homes |= dict.fromkeys(chain, home)
    if not homes:
        return block
    moved = {buffer: replace(buffer, home=home) for buffer, home in homes.items() if buffer != home}
    last = {homes[s.buffer]: s for s in block if isinstance(s, Free) and s.buffer in homes}
    left: list[Statement] = []
    for statement in block:
        if isinstance(statement, Free) and statement.buffer in homes:
            home = homes[statement.buffer]
            left += [Free(home)] if home != output and last[home] == statement else []
        elif not (isinstance(statement, Allocate) and statement.buffer in moved):
            left.append(statement)
    return in_other_buffers(tuple(left), moved)


def _chains(following: Mapping[Buffer, Buffer]) -> Iterator[list[Buffer]]:
    """Each list of buffers of which one makes room for the next."""
    for first in following:
        if first not in following.values():
            chain = [first]
            while chain[-1] in following:
                chain.append(following[chain[-1]])
            yield chain


# -- rows of the output -----------------------------------------------------------------------------------------------


def with_lets_in_rows(nest: LoopNest) -> LoopNest:
    """The loop nest in which a let of one row's elements stands in the row of the output that is computed from it.

    It is computed in full wherever it is read, and the loop that reads it last stores every element of the row: nothing
    of it is left there.
    """
    if sum(cell.buffer.storage == nest.output for cell, _ in cells_of(nest.body)) != 1:
        return nest
    facts = initial_facts(nest.assumptions, nest.inputs)
    for allocate in statements(nest.body):
        if not isinstance(allocate, Allocate) or not _is_free_to_move(allocate) or allocate.storage != "heap":
            continue
        body = _in_row(facts, outermost(nest), nest.body, allocate.buffer, nest.output)
        if body is not None:
            return replace(nest, body=_without_storage(body, allocate.buffer))
    return nest


def _in_row(facts: Facts, scope: TextScope, block: Block, buffer: Buffer, output: Buffer) -> Block | None:
    """The statements with a let in a row of the output, if it may stand there in the block that computes it."""
    using = [at for at, s in enumerate(block) if any(cell.buffer == buffer for cell, _ in cells_of((s,)))]
    if not using:
        return None
    for statement in block[: using[-1]]:
        scope = after(scope, statement)
    if len(using) > 1:
        return _in_row_of_block(facts, scope, block, using, buffer, output)
    statement = block[using[0]]
    match statement:
        case For(variable, body=body):
            inside = scope.bind(variable, variable.name)[1]
            within = _in_row(facts.assume(statement.range), inside, body, buffer, output)
        case If(predicate, body):
            within = _in_row(facts.assume(predicate), scope, body, buffer, output)
        case Assign() | Accumulate() | Declare() | Allocate() | Clear() | Free():
            return None
        case _:
            assert_never(statement)
    if within is None:
        return None
    return tuple(with_body(statement, within) if s is statement else s for s in block)


def _in_row_of_block(
    facts: Facts, scope: TextScope, block: Block, using: list[int], buffer: Buffer, output: Buffer
) -> Block | None:
    """The same for the block with these statements that use the let; `facts` and `scope` are those of the last one."""
    first, last = block[using[0]], block[using[-1]]
    row = _row_stored_in_full(last, buffer, output)
    if row is None or stores_to(last, buffer) or not _is_stored_in_full(first, buffer) or _is_zeroed(block, buffer):
        return None
    there = replace(buffer, extents=output.extents, home=output)
    if not _leaves_inputs(in_rows((first,), buffer, there, row), block[using[0] + 1 :], there):
        return None
    reading = in_rows((last,), buffer, there, row)
    for loop in reading:
        if not isinstance(loop, For) or overtaken(list(accesses(loop, facts, scope)), there, output, reading):
            return None
    return in_rows(_without_storage(block, buffer), buffer, there, row)


def _leaves_inputs(computing: Block, following: Block, there: Buffer) -> bool:
    """Whether an input of the output's form, which a call may give as `out`, is read no later than it would be else."""
    stored = {cell.pairs for cell, stores in cells_of(computing) if stores and cell.buffer == there}
    alike = [cell for cell, _ in cells_of(computing) if _is_input_like(cell.buffer, there)]
    return all(stored == {cell.pairs} for cell in alike) and not any(
        _is_input_like(cell.buffer, there) for cell, _ in cells_of(following)
    )


def _is_input_like(buffer: Buffer, there: Buffer) -> bool:
    return buffer.role == "input" and _are_alike(buffer, there)


def _row_stored_in_full(statement: Statement, buffer: Buffer, output: Buffer) -> Pairs | None:
    """The first pairs of a row of the output, of the form of a buffer, of which a loop stores every element."""
    extents = tuple(extent for extent in buffer.extents if extent != ONE)
    first = len(output.extents) - len(extents)
    if not extents or first <= 0 or output.extents[first:] != extents or output.dtype != buffer.dtype:
        return None
    for cell, loops in _stored(statement, output, ()):
        row = cell.pairs[:first]
        if _go_over(loops, cell.pairs[first:]) and not any(e.free & {s.variable.uid for s in loops} for e, _ in row):
            return row
    return None


def _is_stored_in_full(statement: Statement, buffer: Buffer) -> bool:
    cells = _stored(statement, buffer, ())
    return any(_go_over(loops, tuple(pair for pair in cell.pairs if pair[1] != ONE)) for cell, loops in cells)


def _stored(statement: Statement, buffer: Buffer, loops: tuple[For, ...]) -> Iterator[tuple[Cell, tuple[For, ...]]]:
    """The cells of a buffer that are stored whatever is the case, each with the loops around it in the statement."""
    match statement:
        case For(body=body):
            for inner in body:
                yield from _stored(inner, buffer, (*loops, statement))
        case Assign(Cell(target) as cell) if target == buffer:
            yield cell, loops
        case If() | Assign() | Accumulate() | Declare() | Allocate() | Clear() | Free():
            return
        case _:
            assert_never(statement)


def _go_over(loops: tuple[For, ...], pairs: Pairs) -> bool:
    """Whether each of the loops is that over all positions of one of the pairs."""
    found = {index(loop.variable): loop.high for loop in loops if loop.low == ZERO}
    return dict(pairs) == found and len(loops) == len(pairs) == len(found)


def _is_zeroed(block: Block, buffer: Buffer) -> bool:
    return any(isinstance(s, Clear) and s.buffer == buffer and s.zeroed for s in statements(block))


def _without_storage(block: Block, buffer: Buffer) -> Block:
    """The statements without those that get, empty or give back the storage of a buffer."""
    return tuple(
        with_body(s, _without_storage(s.body, buffer)) if isinstance(s, For | If) else s
        for s in block
        if not (isinstance(s, Allocate | Clear | Free) and s.buffer == buffer)
    )
