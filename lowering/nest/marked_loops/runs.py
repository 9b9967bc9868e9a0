"""Runs: a loop marked so adds to elements at keys, and what consecutive equal keys add is stored once.

In a nest it stays a loop that adds to a cell, so that every pass and every obligation sees what is computed. `runs_at`
is how it is run: what a run of equal keys adds is added up in a variable, and to the cell at its end. That is right
whatever the order of the keys is; the fewer runs there are, the faster it is.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from typing import assert_never

from atl.core.index import Index
from atl.core.marks import LoopMark
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
    Load,
    Scalar,
    Statement,
    accessed,
    key,
    statements,
    with_body,
)
from lowering.nest.tiles import sources


@dataclass(frozen=True, slots=True)
class Runs:
    """The body adds to `total`, which is zero where a run begins; at its end `last` adds that to the cell.

    A run is as long as the `keys` stay what they are: the indices of the cell that the position is in.
    """

    loop: For
    keys: tuple[Index, ...]
    total: Scalar
    body: Block
    last: Accumulate

    @property
    def cell(self) -> Cell:
        """The cell that a run is added to, with the position of one of its iterations."""
        assert isinstance(self.last.target, Cell)
        return self.last.target


@dataclass(frozen=True, slots=True)
class NoRuns:
    """Why a loop has no runs, and what would have to be so."""

    summary: str
    required: str


ONE_ELEMENT = "a sum of terms each of which is added to one element of a tensor: Σ[p < z] place n row[p] e(p)"


def runs_at(loop: For) -> Runs | NoRuns:
    """The runs of a loop that is marked so."""
    assert loop.mark is LoopMark.RUNS
    own = {
        key(made.buffer if isinstance(made, Allocate) else made.variable)
        for made in statements(loop.body)
        if isinstance(made, Allocate | Declare)
    }
    changed = [s for s in _changes(loop.body) if _changed(s) not in own]
    adding = changed[0] if len(changed) == 1 else None
    if not isinstance(adding, Accumulate) or not isinstance(adding.target, Cell) or adding.op not in ("add", "sub"):
        what = "more than one statement changes" if len(changed) > 1 else "nothing is added to"
        return NoRuns(f"{what} elements of tensors in it", ONE_ELEMENT)
    inner = {s.variable.uid for s in statements(loop.body) if isinstance(s, For)}
    indices = [position for position, _ in adding.target.pairs]
    if any(position.free & inner for position in indices):
        return NoRuns(f"each of its terms is added to several elements of {adding.target.buffer.name}", ONE_ELEMENT)
    if accessed(adding.target) in {read for s in statements(loop.body) for read in _read(s)}:
        return NoRuns(f"it reads {adding.target.buffer.name}, to which it adds", "terms that do not depend on the sums")
    # The position's id is one that no other variable has.
    total = Scalar(loop.variable.uid, "total", adding.value.dtype)
    keys = tuple(dict.fromkeys(position for position in indices if loop.variable.uid in position.free))
    body = _adding_to(loop.body, adding, total)
    return Runs(loop, keys, total, body, Accumulate(adding.target, "add", Load(total)))


def _changes(block: Block) -> Iterator[Assign | Accumulate | Clear]:
    """The statements that change what is stored."""
    return (statement for statement in statements(block) if isinstance(statement, Assign | Accumulate | Clear))


def _changed(statement: Assign | Accumulate | Clear) -> Hashable:
    return key(statement.buffer) if isinstance(statement, Clear) else accessed(statement.target)


def _read(statement: Statement) -> Iterator[Hashable]:
    match statement:
        case Assign(_, value) | Accumulate(_, _, value):
            yield from map(accessed, sources(value))
        case Declare(_, initial):
            yield from map(accessed, sources(initial))
        case For() | If() | Allocate() | Clear() | Free():
            return
        case _:
            assert_never(statement)


def _adding_to(block: Block, adding: Accumulate, total: Scalar) -> Block:
    """The statements with the addition made to the variable."""
    out: list[Statement] = []
    for statement in block:
        match statement:
            case For(body=body) | If(body=body):
                out.append(with_body(statement, _adding_to(body, adding, total)))
            case Accumulate() if statement is adding:
                out.append(replace(adding, target=total))
            case Accumulate() | Assign() | Declare() | Allocate() | Clear() | Free():
                out.append(statement)
            case _:
                assert_never(statement)
    return tuple(out)
