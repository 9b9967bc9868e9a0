"""Analysis of tensors that share storage: reads of one that may follow a store to the other."""

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
from lowering.nest.aliasing import other_run, same_cell_facts
from lowering.nest.loopnest import Block, Buffer, Cell, For, accessed, key, statements


@dataclass(frozen=True, slots=True)
class OverwrittenRead:
    """A read of a cell that may follow a store to it. `model` is a counterexample, if one is known.

    `at_once` is the concurrent loop, if the store precedes the read only because iterations may run in any order.
    """

    read: Access
    store: Access
    model: Model | None
    at_once: For | None


def find_overwritten_read(done: Sequence[Access], read: Buffer, stored: Buffer, block: Block) -> OverwrittenRead | None:
    """Return a read of buffer `read` that may follow a store to buffer `stored` at the same indices, if any.

    `done` are the accesses of a loop in the order of its text, and `block` is its body. The buffers have one shape.
    """
    at_once = {s.variable.uid: s for s in statements(block) if isinstance(s, For) and s.mark in CONCURRENT}
    unknown: OverwrittenRead | None = None
    for at, reading in enumerate(done):
        if reading.how != "read" or not _is_of(reading, read):
            continue
        for before, storing in enumerate(done):
            if storing.how == "read" or accessed(storing.storage) != key(stored):
                continue
            for facts, loop in _earlier(storing, reading, at_once, textually=before < at):
                answer = prove(facts, FALSE)
                if isinstance(answer, Refuted):
                    return OverwrittenRead(reading, storing, answer.model, loop)
                if not isinstance(answer, Proved):
                    unknown = unknown or OverwrittenRead(reading, storing, None, loop)
    return unknown


def _earlier(
    storing: Access, reading: Access, at_once: Mapping[int, For], *, textually: bool
) -> Iterator[tuple[Facts, For | None]]:
    """Yield the facts of each case in which both accesses are to one cell and the store precedes the read.

    The store is in an earlier iteration of a common loop, or in the same iteration and earlier in the text. For a
    concurrent loop, which is then returned with the facts, it may also be in a later iteration.
    """
    facts = same_cell_facts(_pairs(storing), storing.facts, _pairs(reading), reading.facts, reading.loops)
    for one, another in zip(storing.loops, reading.loops, strict=False):
        if one != another:
            break
        here, there = index(one), other_run(one)
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
