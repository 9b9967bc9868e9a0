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
from lowering.nest import loopnest as ln
from lowering.nest.accesses import Access, accesses_of
from lowering.nest.aliasing import same_cell_facts
from lowering.nest.text_scope import TextScope


def drop_unread_zeros(block: ln.Block, facts: Facts, scope: TextScope) -> ln.Block:
    """Remove stores of zeros to cells of the block's buffers that are proved to be never read."""
    made = {ln.key(s.buffer) for s in ln.statements(block) if isinstance(s, ln.Allocate)}
    accesses = [access for statement in block for access in accesses_of(statement, facts, scope)]
    unread = [access.statement for access in accesses if _is_of_zero(access, made) and not _is_read(access, accesses)]
    return _Removal(unread).block(block) if unread else block


def _is_of_zero(access: Access, made: set[object]) -> bool:
    store = access.statement
    if not isinstance(store, ln.Assign) or not isinstance(store.value, ln.Number):
        return False
    return store.value.value == 0 and ln.accessed(store.target) in made


def _is_read(store: Access, accesses: list[Access]) -> bool:
    """Return whether a cell may be accessed by anything but assignments, unless the prover excludes it."""
    cell = store.storage
    assert isinstance(cell, ln.Cell)
    for access in accesses:
        other = access.storage
        if ln.accessed(other) != ln.accessed(cell) or (
            isinstance(access.statement, ln.Assign) and access.how == "write"
        ):
            continue
        assert isinstance(other, ln.Cell)
        if not proves(same_cell_facts(cell.pairs, store.facts, other.pairs, access.facts, access.loops), FALSE):
            return True
    return False


@dataclass(frozen=True, slots=True)
class _Removal:
    """Removal of statements, and of the loops and branches that become empty."""

    removed: list[ln.Statement]

    def block(self, block: ln.Block) -> ln.Block:
        return tuple(self._kept(block))

    def _kept(self, block: ln.Block) -> Iterator[ln.Statement]:
        for statement in block:
            match statement:
                case ln.For(body=body) | ln.If(body=body):
                    inner = self.block(body)
                    if inner or not body:
                        yield ln.with_body(statement, inner)
                case ln.Assign():
                    if not any(statement is each for each in self.removed):
                        yield statement
                case ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free():
                    yield statement
                case _:
                    assert_never(statement)
