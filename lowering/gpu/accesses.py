"""Accesses of a block's threads to memory that other threads see, and the search for data races between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from atl.core.index import ZERO, Index, Leaf, Var, constant, index, map_leaves
from atl.core.marks import CallMark
from atl.core.predicate import Predicate, equal, within
from atl.prove import Facts, Proved, Refuted, prove
from atl.prove.facts import Model
from lowering.gpu.kernels import AXES, Extents, Memory, Shuffle, axis_of, is_private
from lowering.instructions.registry import instruction_named
from lowering.nest import loopnest as ln
from lowering.nest.accesses import Access, accesses_of, other_run, pairs_in_memory, same_cell_facts
from lowering.nest.text import TextScope

_ANY: Final = (1 << 28) + (1 << 27)
"""First `uid` of the variables that represent an arbitrary thread along an axis."""


@dataclass(frozen=True, slots=True)
class ThreadAccess:
    """An access by a thread: the thread along each axis, and the variables that are private to the thread."""

    access: Access
    cell: ln.Cell
    facts: Facts
    threads: tuple[Index, ...]
    private: tuple[Var, ...]

    @property
    def writes(self) -> bool:
        return self.access.how != "read"

    def repeated(self, variable: Var) -> ThreadAccess:
        """Return the same access in an arbitrary iteration of an enclosing loop."""
        return replace(self, private=(*self.private, variable))


@dataclass(frozen=True, slots=True)
class Race:
    """Two accesses that are not proved to be made by one thread; `model` has the numbers of a data race, if known."""

    one: ThreadAccess
    another: ThreadAccess
    model: Model | None


def thread_accesses(
    statement: ln.Statement, facts: Facts, scope: TextScope, extents: Extents, memories: Mapping[int, Memory]
) -> Iterator[ThreadAccess]:
    """Yield the accesses in a statement to the output, and to buffers in global or shared memory.

    An instruction reads memory by any lanes of the warp. The loops that it computes say only what each lane gets.
    """
    threads = _threads_of(statement)
    lanes = _lanes_of(statement)
    for access in accesses_of(scope, facts, statement):
        cell = access.storage
        if not isinstance(cell, ln.Cell) or cell.buffer.role == "input":
            continue
        if memories.get(cell.buffer.uid, "global") not in ("global", "shared"):
            continue
        known = threads
        for variable in access.loops if access.how == "read" else ():
            known = {uid: (axis, low) for uid, (axis, low) in known.items() if axis not in lanes.get(variable.uid, ())}
        yield _thread_access(access, replace(cell, pairs=pairs_in_memory(cell)), known, extents, memories)


def exchanged_in(
    statement: ln.Statement, facts: Facts, scope: TextScope, extents: Extents, shuffles: Mapping[ln.Cell, Shuffle]
) -> Iterator[ThreadAccess]:
    """Yield the accesses to buffers in registers that other threads read by shuffles.

    Each lane passes what it has stored before. So only accesses in one loop of threads may race.
    """
    exchanged: dict[int, Memory] = {cell.buffer.uid: "shared" for cell in shuffles}
    for access in thread_accesses(statement, facts, scope, extents, exchanged) if exchanged else ():
        if access.cell.buffer.uid in exchanged:
            yield access


def _threads_of(statement: ln.Statement) -> dict[int, tuple[int, Index]]:
    """Map the variable of each loop of threads in a statement to its axis and lowest value."""
    found: dict[int, tuple[int, Index]] = {}
    for loop in ln.statements((statement,)):
        if isinstance(loop, ln.For) and (axis := axis_of(loop.mark)) is not None:
            found[loop.variable.uid] = axis, loop.low
    return found


def _lanes_of(statement: ln.Statement) -> dict[int, range]:
    """Map the variable of each loop marked with an instruction to the axes of the instruction's lanes."""
    return {
        loop.variable.uid: range(len(instruction_named(loop.mark.name).lanes))
        for loop in ln.statements((statement,))
        if isinstance(loop, ln.For) and isinstance(loop.mark, CallMark)
    }


def _thread_access(
    access: Access,
    cell: ln.Cell,
    threads: Mapping[int, tuple[int, Index]],
    extents: Extents,
    memories: Mapping[int, Memory],
) -> ThreadAccess:
    at: dict[int, Index] = {}
    for variable in access.loops:
        if variable.uid in threads:
            axis, low = threads[variable.uid]
            at[axis] = index(variable) - low
    facts, private = access.facts, access.loops
    for axis, extent in enumerate(extents):
        if axis in at:
            continue
        at[axis] = ZERO
        if extent > 1 and not by_first_thread(access.statement, memories):
            anyone = any_thread(axis)
            at[axis] = index(anyone)
            facts = facts.assume(within(ZERO, index(anyone), constant(extent)))
            private = (*private, anyone)
    return ThreadAccess(access, cell, facts, tuple(at[axis] for axis in range(len(AXES))), private)


def any_thread(axis: int) -> Var:
    """Return the variable that represents an arbitrary thread along an axis."""
    return Var(_ANY + axis, f"thread.{AXES[axis]}")


def by_first_thread(statement: ln.Statement, memories: Mapping[int, Memory]) -> bool:
    """Return whether, outside of loops of an axis, only the first thread of the axis executes the statement."""
    return isinstance(statement, ln.Assign | ln.Accumulate) and not is_private(statement.target, memories)


# -- data races -------------------------------------------------------------------------------------------------------


def find_race(
    before: Iterable[ThreadAccess],
    after: Iterable[ThreadAccess],
    extents: Extents,
    also: tuple[Var, Predicate] | None = None,
) -> Race | None:
    """Return two accesses to one cell, of which one writes, that are not proved to be made by one thread, or None.

    The law to be proved is `same cell ⊢ same thread`, for each axis. With `also`, the accesses in `after` are made in
    another iteration of that variable's loop, for which the predicate holds.
    """
    later = list(after)
    for one in before:
        for another in later:
            if ln.accessed(one.cell) != ln.accessed(another.cell) or not (one.writes or another.writes):
                continue
            if also is None:
                found = _race(one, another, extents, ())
            else:
                found = _race(one, another.repeated(also[0]), extents, (also[1],))
            if found is not None:
                return found
    return None


def _race(one: ThreadAccess, another: ThreadAccess, extents: Extents, known: tuple[Predicate, ...]) -> Race | None:
    private = {variable.uid for variable in another.private}

    def renamed(leaf: Leaf) -> Index:
        return other_run(leaf) if isinstance(leaf, Var) and leaf.uid in private else index(leaf)

    facts = same_cell_facts(one.cell.pairs, one.facts, another.cell.pairs, another.facts, another.private).assume(
        *known
    )
    for axis, extent in enumerate(extents):
        if extent == 1:
            continue
        answer = prove(facts, equal(one.threads[axis], map_leaves(another.threads[axis], renamed)))
        if not isinstance(answer, Proved):
            return Race(one, another, answer.model if isinstance(answer, Refuted) else None)
    return None
