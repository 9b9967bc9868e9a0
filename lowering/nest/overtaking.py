"""Whether one tensor may be stored in the place of another: no cell is read after it was stored to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from atl.core.index import index
from atl.core.marks import CONCURRENT
from atl.core.predicate import FALSE, equal, less
from atl.core.reshape_definitions import Pairs
from atl.prove import Facts, Proved, Refuted, prove
from atl.prove.answer import Model
from lowering.nest.accesses import Access
from lowering.nest.loopnest import Block, Buffer, Cell, For, accessed, key, statements
from lowering.nest.meeting import meeting, other


@dataclass(frozen=True, slots=True)
class Overtaken:
    """A read of a cell for which it is not proved that nothing is stored there before; `model` is where, if known.

    Where the store comes first only because the iterations of a loop run at once, `at_once` is that loop.
    """

    read: Access
    store: Access
    model: Model | None
    at_once: For | None


def overtaken(done: Sequence[Access], read: Buffer, stored: Buffer, block: Block) -> Overtaken | None:
    """A read of one buffer that may come after a store to the other one at the same indices, if there is any.

    `done` are the accesses of a loop in the order of its text, `block` its body. The two have the same shape.
    """
    at_once = {s.variable.uid: s for s in statements(block) if isinstance(s, For) and s.mark in CONCURRENT}
    unknown: Overtaken | None = None
    for at, reading in enumerate(done):
        if reading.how != "read" or not _is_of(reading, read):
            continue
        for before, storing in enumerate(done):
            if storing.how == "read" or accessed(storing.storage) != key(stored):
                continue
            for facts, loop in _earlier(storing, reading, at_once, textually=before < at):
                answer = prove(facts, FALSE)
                if isinstance(answer, Refuted):
                    return Overtaken(reading, storing, answer.model, loop)
                if not isinstance(answer, Proved):
                    unknown = unknown or Overtaken(reading, storing, None, loop)
    return unknown


def _earlier(
    storing: Access, reading: Access, at_once: Mapping[int, For], *, textually: bool
) -> Iterator[tuple[Facts, For | None]]:
    """What holds where both are to one cell and the store comes first: in an earlier iteration of a loop around both.

    Or in the same iterations of all of them, where its text is the earlier one. Of a loop whose iterations run at once
    a later one may be the earlier, too; with it comes that loop.
    """
    facts = meeting(_pairs(storing), storing.facts, _pairs(reading), reading.facts, reading.loops)
    for one, another in zip(storing.loops, reading.loops, strict=False):
        if one != another:
            break
        here, there = index(one), other(one)
        yield facts.assume(less(here, there)), None
        if one.uid in at_once:
            yield facts.assume(less(there, here)), at_once[one.uid]
        facts = facts.assume(equal(here, there))
    if textually:
        yield facts, None


def _is_of(access: Access, buffer: Buffer) -> bool:
    return isinstance(access.storage, Cell) and access.storage.buffer == buffer


def _pairs(access: Access) -> Pairs:
    return access.storage.pairs if isinstance(access.storage, Cell) else ()
