"""Loop nests in which a tensor that is read for the last time makes room for the one that is computed from it.

A let on the heap that one loop reads, which stores a tensor of the same shape meanwhile, stands in the storage of
that tensor if it is proved that no element is read after its place was stored to. What then only copies an element onto
itself is gone, and so is a let that is a copy of an input. Marked lets stand where their marks say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import assert_never

from atl.checks.scope import known_at_the_start
from atl.core.marks import LetMark
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
)
from lowering.nest.overtaking import overtaken
from lowering.nest.substitution import in_other_buffers
from lowering.nest.text_scope import TextScope, outermost
from lowering.nest.tiles import loads_from, stores_to


def with_storage_shared(nest: LoopNest) -> LoopNest:
    """The loop nest in which tensors share storage where none of them is read after another one took its place."""
    if not any(_is_free_to_move(statement) for statement in statements(nest.body)):
        return nest
    facts = known_at_the_start(nest.assumptions, nest.inputs)
    output = nest.output if nest.complete else None
    body = _without_copies(nest.body, output)
    return replace(nest, body=_block(facts, outermost(nest), body, output))


def _is_free_to_move(statement: Statement) -> bool:
    """Whether it allocates a buffer that may as well stand elsewhere: one of which every element is stored first."""
    return isinstance(statement, Allocate) and statement.mark is LetMark.NONE and not statement.zeroed


# -- copies -----------------------------------------------------------------------------------------------------------


def _without_copies(block: Block, output: Buffer | None) -> Block:
    """The statements without what only copies: an input to a let, or a let to the output or to another let."""
    out = tuple(replace(s, body=_without_copies(s.body, None)) if isinstance(s, For | If) else s for s in block)
    for statement in out:
        if isinstance(statement, Allocate) and _is_free_to_move(statement):
            out = _without_copy_to(statement.buffer, out)
    for statement in out:
        if isinstance(statement, Allocate) and _is_free_to_move(statement):
            out = _without_copy_of(statement, out, output)
    return out


def _without_copy_to(buffer: Buffer, block: Block) -> Block:
    """The statements in which an input is read in place of its copy."""
    stores = [s for s in block if stores_to(s, buffer)]
    source = _copied(stores[0], buffer) if len(stores) == 1 else None
    if source is None or source.role != "input" or _is_cleared(block, buffer):
        return block
    return in_other_buffers(tuple(s for s in block if s is not stores[0] and not _is_of(s, buffer)), {buffer: source})


def _without_copy_of(allocate: Allocate, block: Block, output: Buffer | None) -> Block:
    """The statements in which a tensor is computed where it would be copied to."""
    buffer = allocate.buffer
    reading = [s for s in block if loads_from(s, buffer)]
    if len(reading) != 1 or _is_cleared(block, buffer):
        return block
    into = [s for s in block if isinstance(s, Allocate) and _is_free_to_move(s) and not _is_cleared(block, s.buffer)]
    targets: list[tuple[Buffer, Block]] = [(to.buffer, (to,)) for to in into]
    targets += [(output, ())] if output is not None else []
    for target, place in targets:
        if _copied(reading[0], target) == buffer and [s for s in block if stores_to(s, target)] == reading:
            # Storage for what it is copied to is had where that for it would be.
            left = tuple(
                one
                for s in block
                if s is not reading[0] and s != Free(buffer) and s not in place
                for one in (place if s == allocate else (s,))
            )
            return in_other_buffers(left, {buffer: target})
    return block


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


def _is_cleared(block: Block, buffer: Buffer) -> bool:
    return any(isinstance(s, Clear) and s.buffer == buffer for s in statements(block))


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
                out.append(replace(statement, body=_block(facts.assume(statement.range), inside, body, None)))
            case If(predicate, body):
                out.append(replace(statement, body=_block(facts.assume(predicate), scope, body, None)))
            case Assign() | Accumulate() | Declare() | Allocate() | Clear() | Free():
                out.append(statement)
            case _:
                assert_never(statement)
    return _shared(tuple(out), _makes_room(facts, scopes, tuple(out), output), output)


def _makes_room(facts: Facts, scopes: list[TextScope], block: Block, output: Buffer | None) -> Mapping[Buffer, Buffer]:
    """The buffers of a block that make room for another one, each with that one."""
    free = [s.buffer for s in block if isinstance(s, Allocate) and _is_free_to_move(s) and s.storage == "heap"]
    free = [buffer for buffer in free if not _is_cleared(block, buffer)]
    found: dict[Buffer, Buffer] = {}
    for buffer in free:
        reading = [at for at, s in enumerate(block) if loads_from(s, buffer)]
        loop = block[reading[0]] if len(reading) == 1 else None
        if not isinstance(loop, For):
            continue
        for other in (*free, *([output] if output is not None else [])):
            stores = [at for at, s in enumerate(block) if stores_to(s, other)]
            if other == buffer or other in found.values() or not _are_alike(buffer, other) or stores != reading:
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
