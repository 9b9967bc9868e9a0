"""Removes stores of zeros that are never read, such as those to the padding of rows.

Lowering stores padding as zeros where that saves clearing the buffer. In shared memory, rows are padded to move their
columns to different banks, and the padding is never read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from atl.core.predicate import FALSE
from atl.prove import Facts, proves
from lowering.nest.accesses import Access, accesses_of
from lowering.nest.aliasing import same_cell_facts
from lowering.nest.loopnest import (
    Accumulate,
    Allocate,
    Assign,
    Block,
    Cell,
    Clear,
    Declare,
    For,
    Free,
    If,
    Number,
    Statement,
    accessed,
    key,
    statements,
    with_body,
)
from lowering.nest.text_scope import TextScope


def drop_unread_zeros(block: Block, facts: Facts, scope: TextScope) -> Block:
    """Remove stores of zeros to cells of the block's buffers that are proved to be never read."""
    made = {key(s.buffer) for s in statements(block) if isinstance(s, Allocate)}
    accesses = [access for statement in block for access in accesses_of(statement, facts, scope)]
    unread = [access.statement for access in accesses if _is_of_zero(access, made) and not _is_read(access, accesses)]
    return _Removal(unread).block(block) if unread else block


def _is_of_zero(access: Access, made: set[object]) -> bool:
    store = access.statement
    if not isinstance(store, Assign) or not isinstance(store.value, Number):
        return False
    return store.value.value == 0 and accessed(store.target) in made


def _is_read(store: Access, accesses: list[Access]) -> bool:
    """Return whether a cell may be accessed by anything but assignments, unless the prover excludes it."""
    cell = store.storage
    assert isinstance(cell, Cell)
    for access in accesses:
        other = access.storage
        if accessed(other) != accessed(cell) or (isinstance(access.statement, Assign) and access.how == "write"):
            continue
        assert isinstance(other, Cell)
        if not proves(same_cell_facts(cell.pairs, store.facts, other.pairs, access.facts, access.loops), FALSE):
            return True
    return False


@dataclass(frozen=True, slots=True)
class _Removal:
    """Removal of statements, and of the loops and branches that become empty."""

    removed: list[Statement]

    def block(self, block: Block) -> Block:
        return tuple(self._kept(block))

    def _kept(self, block: Block) -> Iterator[Statement]:
        for statement in block:
            match statement:
                case For(body=body) | If(body=body):
                    inner = self.block(body)
                    if inner or not body:
                        yield with_body(statement, inner)
                case Assign():
                    if not any(statement is each for each in self.removed):
                        yield statement
                case Accumulate() | Declare() | Allocate() | Clear() | Free():
                    yield statement
                case _:
                    assert_never(statement)
