"""Runs: segmented reductions in loops that add to elements at keys. Consecutive equal keys form a run.

In a nest, a loop marked `runs` remains a loop that adds to a cell, so passes and obligations need not know about it.
`runs_at` returns how it runs: the terms of a run are summed in a variable, which is added to the cell at its end. This
is correct for any order of the keys, and faster with fewer runs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from typing import assert_never

from atl.core.index import Index
from atl.core.marks import LoopMark
from lowering.nest import loopnest as ln
from lowering.nest.tiles import sources


@dataclass(frozen=True, slots=True)
class Runs:
    """A segmented reduction. The body adds to `total`, which starts at zero in each run; `last` adds it to the cell.

    A run continues while the `keys`, the indices of the cell that depend on the position, do not change.
    """

    loop: ln.For
    keys: tuple[Index, ...]
    total: ln.Scalar
    body: ln.Block
    last: ln.Accumulate

    @property
    def cell(self) -> ln.Cell:
        """The cell that a run is added to, in terms of the position of one of its iterations."""
        assert isinstance(self.last.target, ln.Cell)
        return self.last.target


@dataclass(frozen=True, slots=True)
class NoRuns:
    """The reason why a loop is not a segmented reduction, and the requirement that it violates."""

    summary: str
    required: str


ONE_ELEMENT = "a sum of terms each of which is added to one element of a tensor: Σ[p < z] place n row[p] e(p)"


def runs_at(loop: ln.For) -> Runs | NoRuns:
    """Return the segmented reduction of a loop marked `runs`."""
    assert loop.mark is LoopMark.RUNS
    own = {
        ln.key(made.buffer if isinstance(made, ln.Allocate) else made.variable)
        for made in ln.statements(loop.body)
        if isinstance(made, ln.Allocate | ln.Declare)
    }
    changed = [s for s in _changes(loop.body) if _changed(s) not in own]
    adding = changed[0] if len(changed) == 1 else None
    if (
        not isinstance(adding, ln.Accumulate)
        or not isinstance(adding.target, ln.Cell)
        or adding.op not in ("add", "sub")
    ):
        several = len(changed) > 1
        summary = "several of its statements change tensors" if several else "it does not add to an element of a tensor"
        return NoRuns(summary, ONE_ELEMENT)
    inner = {s.variable.uid for s in ln.statements(loop.body) if isinstance(s, ln.For)}
    indices = [position for position, _ in adding.target.pairs]
    if any(position.free & inner for position in indices):
        return NoRuns(f"each of its terms is added to several elements of {adding.target.buffer.name}", ONE_ELEMENT)
    if ln.accessed(adding.target) in {read for s in ln.statements(loop.body) for read in _read(s)}:
        return NoRuns(f"it reads {adding.target.buffer.name}, to which it adds", "terms that do not depend on the sums")
    # Loop variables and scalars share ids, so that of the position is unique.
    total = ln.Scalar(loop.variable.uid, "total", adding.value.dtype)
    keys = tuple(dict.fromkeys(position for position in indices if loop.variable.uid in position.free))
    body = _adding_to(loop.body, adding, total)
    return Runs(loop, keys, total, body, ln.Accumulate(adding.target, "add", ln.Load(total)))


def _changes(block: ln.Block) -> Iterator[ln.Assign | ln.Accumulate | ln.Clear]:
    """Return the statements that change storage."""
    return (
        statement for statement in ln.statements(block) if isinstance(statement, ln.Assign | ln.Accumulate | ln.Clear)
    )


def _changed(statement: ln.Assign | ln.Accumulate | ln.Clear) -> Hashable:
    return ln.key(statement.buffer) if isinstance(statement, ln.Clear) else ln.accessed(statement.target)


def _read(statement: ln.Statement) -> Iterator[Hashable]:
    match statement:
        case ln.Assign(_, value) | ln.Accumulate(_, _, value):
            yield from map(ln.accessed, sources(value))
        case ln.Declare(_, initial):
            yield from map(ln.accessed, sources(initial))
        case ln.For() | ln.If() | ln.Allocate() | ln.Clear() | ln.Free():
            return
        case _:
            assert_never(statement)


def _adding_to(block: ln.Block, adding: ln.Accumulate, total: ln.Scalar) -> ln.Block:
    """Redirect the addition to the variable."""
    out: list[ln.Statement] = []
    for statement in block:
        match statement:
            case ln.For(body=body) | ln.If(body=body):
                out.append(ln.with_body(statement, _adding_to(body, adding, total)))
            case ln.Accumulate() if statement is adding:
                out.append(replace(adding, target=total))
            case ln.Accumulate() | ln.Assign() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free():
                out.append(statement)
            case _:
                assert_never(statement)
    return tuple(out)
