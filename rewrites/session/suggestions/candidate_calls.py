"""Candidate tactic calls for a place, chosen by the nodes there, with common sizes.

They are only tried: a call that fails is not suggested, so the selection here may be coarse.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from atl.core.program import Program
from atl.core.terms import OPERATORS_BY_WORD, Access, Binary, Gen, Guard, Input, Let, Local, Reduce, Reshape, Term
from rewrites.cursors.cursor import Cursor, walk
from rewrites.cursors.targets import Target, named

TILE: Final = 8
JAMMED: Final = 4
MAX_UNROLLED: Final = 16
MAX_STAGED: Final = 12


@dataclass(frozen=True, slots=True)
class CandidateCall:
    """A tactic with the arguments to try."""

    tactic: str
    arguments: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)


def candidate_calls(goal: Program, within: list[Cursor], *, everywhere: bool) -> Iterator[CandidateCall]:
    """Yield the calls to try at these places of a goal, the most common ones first."""
    loops = [cursor for cursor in within if isinstance(cursor.term, Gen | Reduce)]
    lets = [cursor for cursor in within if isinstance(cursor.term, Let)]
    yield from _of_lets(goal, lets)
    yield from _tiled(goal, loops)
    yield from _staged(goal, within)
    for cursor in loops:
        yield from _of_loop(goal, cursor)
    if everywhere:
        yield from _of_the_whole(within)
    for word in dict.fromkeys(_word(cursor) for cursor in within if isinstance(cursor.term, Reshape)):
        yield CandidateCall("inline", (word,))


def _tiled(goal: Program, loops: list[Cursor]) -> Iterator[CandidateCall]:
    """Yield tilings of nested generations together, then of each loop separately."""
    for cursor in loops:
        chain = [cursor]
        while isinstance(chain[-1].term, Gen) and isinstance(_below(chain[-1]), Gen):
            chain.append(chain[-1].child(0))
        inner = cursor.above is not None and isinstance(cursor.above.term, Gen)
        large = [extent for extent in map(_extent, chain) if extent is None or extent > TILE]
        if isinstance(cursor.term, Gen) and len(chain) > 1 and large and not inner:
            yield CandidateCall("tile", ([_chosen(goal, each) for each in chain], [TILE] * len(chain)))
    for cursor in loops:
        extent = _extent(cursor)
        if extent is None or extent > TILE:
            yield CandidateCall("tile", (_chosen(goal, cursor), TILE))


def _of_loop(goal: Program, cursor: Cursor) -> Iterator[CandidateCall]:
    loop = _chosen(goal, cursor)
    inside = _inside(cursor)
    extent = _extent(cursor)
    if isinstance(inside, Gen | Reduce):
        yield CandidateCall("interchange", (loop,))
    if isinstance(cursor.term, Reduce):
        yield CandidateCall("accumulate", (loop,))
    if any(isinstance(below.term, Guard) for below in _parts(cursor)):
        yield CandidateCall("tails", (loop,))
        yield CandidateCall("split_loop", (loop, 1))
    if isinstance(cursor.term, Gen) and isinstance(_below(cursor), Gen):
        yield CandidateCall("flatten_loops", (loop,))
    if isinstance(cursor.term, Gen) and isinstance(inside, Gen):
        yield CandidateCall("unroll_and_jam", (loop, JAMMED))
    if extent is not None and 0 < extent <= MAX_UNROLLED:
        yield CandidateCall("unroll", (loop,))
    if not any(isinstance(above.term, Gen | Reduce) for above in cursor.spine()[:-1]):
        yield CandidateCall("parallelize", (loop,))
    if not any(isinstance(below.term, Gen | Reduce) for below in _parts(cursor)):
        yield CandidateCall("vectorize", (loop, TILE))
    if isinstance(cursor.term, Reduce) and isinstance(cursor.term.body, Binary) and cursor.term.body.op == "mul":
        for position in (0, 1):
            yield CandidateCall("factor_out", (cursor.child(0).child(position).path,))


def _of_lets(goal: Program, lets: list[Cursor]) -> Iterator[CandidateCall]:
    for cursor in lets:
        name = _chosen(goal, cursor)
        yield CandidateCall("inline", (name,))
        yield CandidateCall("fuse", (name,))
        if any(isinstance(above.term, Gen | Reduce) for above in cursor.spine()[:-1]):
            yield CandidateCall("hoist", (name,))


def _staged(goal: Program, within: list[Cursor]) -> Iterator[CandidateCall]:
    """Yield stagings of operands read inside loops, in a buffer at one of those loops."""
    paths = {cursor.path for cursor in within}
    found: dict[tuple[str, Target], CandidateCall] = {}
    padded: dict[str, CandidateCall] = {}
    for cursor in within:
        read = _read(cursor)
        if read is None:
            continue
        around = [above for above in cursor.spine()[:-1] if isinstance(above.term, Gen | Reduce)]
        for loop in (each for each in around[:-1] if each.path in paths):
            at = _chosen(goal, loop)
            key = (read, at if not isinstance(at, list) else tuple(at))
            found.setdefault(key, CandidateCall("stage", (read,), {"at": at}))
        if any(isinstance(above.term, Guard) for above in cursor.spine()[:-1]):
            padded.setdefault(read, CandidateCall("pad", (read,)))
        elif len(around) > 1:
            padded.setdefault(read, CandidateCall("pack", (read,)))
    yield from list(found.values())[:MAX_STAGED]
    yield from padded.values()


def _of_the_whole(within: list[Cursor]) -> Iterator[CandidateCall]:
    if any(isinstance(cursor.term, Guard) for cursor in within):
        yield CandidateCall("simpl_guard")
        yield CandidateCall("solve_for_index")
    yield CandidateCall("simpl_index")
    yield CandidateCall("normalize")


def _read(cursor: Cursor) -> str | None:
    """Return the name of the tensor of which an element is read here."""
    at = cursor.term
    while isinstance(at, Access):
        at = at.tensor
    if not isinstance(cursor.term, Access) or (cursor.above is not None and isinstance(cursor.above.term, Access)):
        return None
    if isinstance(at, Input):
        return at.array.name
    return cursor.names.of_tensor(at.position) if isinstance(at, Local) else None


def _chosen(goal: Program, cursor: Cursor) -> Target:
    """Return the selector a user would write for a place: its name if unambiguous, otherwise its path."""
    name = cursor.called[0]
    first = next(named(goal, name, top_down=True), None)
    return name if first is not None and first.path == cursor.path else cursor.path


def _below(cursor: Cursor) -> Term:
    return cursor.child(0).term


def _inside(cursor: Cursor) -> Term:
    """Return the node directly inside a loop, below guards."""
    at = cursor.child(0)
    while isinstance(at.term, Guard):
        at = at.child(0)
    return at.term


def _parts(cursor: Cursor) -> Iterator[Cursor]:
    return (below for below in walk(cursor) if below.path != cursor.path)


def _extent(cursor: Cursor) -> int | None:
    assert isinstance(cursor.term, Gen | Reduce)
    return (cursor.term.high - cursor.term.low).constant


_WORDS: Final = {op: word for word, op in OPERATORS_BY_WORD.items()}


def _word(cursor: Cursor) -> str:
    assert isinstance(cursor.term, Reshape)
    return _WORDS[type(cursor.term.op)]
