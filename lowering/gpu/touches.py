"""What the threads of a block touch that other threads see, and whether two of them meet in a cell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from atl.core.index import ZERO, Index, Leaf, Var, constant, index, map_leaves
from atl.core.predicate import Predicate, equal, within
from atl.prove import Facts, Proved, Refuted, prove
from atl.prove.answer import Model
from lowering.gpu.kernels import AXES, Extents, Where, axis_of, is_own
from lowering.nest.accesses import Access, accesses_of
from lowering.nest.aliasing import other_run, same_cell_facts
from lowering.nest.loopnest import (
    Accumulate,
    Assign,
    Cell,
    For,
    Statement,
    accessed,
    statements,
)
from lowering.nest.text_scope import TextScope

_ANY: Final = (1 << 28) + (1 << 27)
"""The first id of the variables that stand for any thread of an axis."""


@dataclass(frozen=True, slots=True)
class Touch:
    """An access by a thread: the thread along each axis, and the variables of which each has values of its own."""

    access: Access
    cell: Cell
    facts: Facts
    threads: tuple[Index, ...]
    own: tuple[Var, ...]

    @property
    def changes(self) -> bool:
        return self.access.how != "read"

    def repeated(self, variable: Var) -> Touch:
        """The same, of some iteration of a loop around."""
        return replace(self, own=(*self.own, variable))


@dataclass(frozen=True, slots=True)
class Met:
    """Two accesses of which it is not proved that only one thread makes both; `model` is where, if that is known."""

    one: Touch
    another: Touch
    model: Model | None


def touches(
    statement: Statement, facts: Facts, scope: TextScope, extents: Extents, places: Mapping[int, Where]
) -> Iterator[Touch]:
    """What the threads of a block do in a statement to the output, and to buffers that are global or shared."""
    threads = _threads_of(statement)
    for access in accesses_of(statement, facts, scope):
        cell = access.storage
        if not isinstance(cell, Cell) or cell.buffer.role == "input":
            continue
        if places.get(cell.buffer.uid, "global") not in ("global", "shared"):
            continue
        yield _touch(access, cell, threads, extents, places)


def _threads_of(statement: Statement) -> dict[int, tuple[int, Index]]:
    """The axis and the lowest value of the variables of the loops of threads in a statement."""
    found: dict[int, tuple[int, Index]] = {}
    for loop in statements((statement,)):
        if isinstance(loop, For) and (axis := axis_of(loop.mark)) is not None:
            found[loop.variable.uid] = axis, loop.low
    return found


def _touch(
    access: Access, cell: Cell, threads: Mapping[int, tuple[int, Index]], extents: Extents, places: Mapping[int, Where]
) -> Touch:
    at: dict[int, Index] = {}
    for variable in access.loops:
        if variable.uid in threads:
            axis, low = threads[variable.uid]
            at[axis] = index(variable) - low
    facts, own = access.facts, access.loops
    for axis, extent in enumerate(extents):
        if axis in at:
            continue
        at[axis] = ZERO
        if extent > 1 and not _by_the_first(access.statement, places):
            anyone = Var(_ANY + axis, f"thread.{AXES[axis]}")
            at[axis] = index(anyone)
            facts = facts.assume(within(ZERO, index(anyone), constant(extent)))
            own = (*own, anyone)
    return Touch(access, cell, facts, tuple(at[axis] for axis in range(len(AXES))), own)


def _by_the_first(statement: Statement, places: Mapping[int, Where]) -> bool:
    """Whether only the first thread of an axis carries the statement out, where it stands in no loop of the axis."""
    return isinstance(statement, Assign | Accumulate) and not is_own(statement.target, places)


# -- meetings ---------------------------------------------------------------------------------------------------------


def met(
    before: Iterable[Touch], after: Iterable[Touch], extents: Extents, also: tuple[Var, Predicate] | None = None
) -> Met | None:
    """Two accesses to one cell, of which one changes it and which are not proved to be of one thread, if there are any.

    The law that is proved is `same cell ⊢ same thread`, for each axis. With `also` the second ones are made in another
    iteration of a loop, of which this is known.
    """
    later = list(after)
    for one in before:
        for another in later:
            if accessed(one.cell) != accessed(another.cell) or not (one.changes or another.changes):
                continue
            if also is None:
                found = _apart(one, another, extents, ())
            else:
                found = _apart(one, another.repeated(also[0]), extents, (also[1],))
            if found is not None:
                return found
    return None


def _apart(one: Touch, another: Touch, extents: Extents, known: tuple[Predicate, ...]) -> Met | None:
    own = {variable.uid for variable in another.own}

    def renamed(leaf: Leaf) -> Index:
        return other_run(leaf) if isinstance(leaf, Var) and leaf.uid in own else index(leaf)

    facts = same_cell_facts(one.cell.pairs, one.facts, another.cell.pairs, another.facts, another.own).assume(*known)
    for axis, extent in enumerate(extents):
        if extent == 1:
            continue
        answer = prove(facts, equal(one.threads[axis], map_leaves(another.threads[axis], renamed)))
        if not isinstance(answer, Proved):
            return Met(one, another, answer.model if isinstance(answer, Refuted) else None)
    return None
