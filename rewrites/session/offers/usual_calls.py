"""The calls of tactics that are tried at a place: each where something stands that it is about, with usual sizes.

They are only tried: what a tactic refuses is not offered, so that nothing here has to know more than where to look.
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
TOGETHER: Final = 4
MOST_WRITTEN_OUT: Final = 16
MOST_STAGED: Final = 12


@dataclass(frozen=True, slots=True)
class UsualCall:
    """A tactic with the arguments with which it is tried."""

    tactic: str
    arguments: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)


def usual_calls(goal: Program, within: list[Cursor], *, everywhere: bool) -> Iterator[UsualCall]:
    """The calls to try at these places of a goal, those first that are made most often."""
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
        yield UsualCall("inline", (word,))


def _tiled(goal: Program, loops: list[Cursor]) -> Iterator[UsualCall]:
    """Nested generations together, then each loop by itself."""
    for cursor in loops:
        chain = [cursor]
        while isinstance(chain[-1].term, Gen) and isinstance(_below(chain[-1]), Gen):
            chain.append(chain[-1].child(0))
        inner = cursor.above is not None and isinstance(cursor.above.term, Gen)
        large = [extent for extent in map(_extent, chain) if extent is None or extent > TILE]
        if isinstance(cursor.term, Gen) and len(chain) > 1 and large and not inner:
            yield UsualCall("tile", ([_chosen(goal, each) for each in chain], [TILE] * len(chain)))
    for cursor in loops:
        extent = _extent(cursor)
        if extent is None or extent > TILE:
            yield UsualCall("tile", (_chosen(goal, cursor), TILE))


def _of_loop(goal: Program, cursor: Cursor) -> Iterator[UsualCall]:
    loop = _chosen(goal, cursor)
    inside = _inside(cursor)
    extent = _extent(cursor)
    if isinstance(inside, Gen | Reduce):
        yield UsualCall("interchange", (loop,))
    if isinstance(cursor.term, Reduce):
        yield UsualCall("accumulate", (loop,))
    if any(isinstance(below.term, Guard) for below in _parts(cursor)):
        yield UsualCall("tails", (loop,))
        yield UsualCall("split_loop", (loop, 1))
    if isinstance(cursor.term, Gen) and isinstance(_below(cursor), Gen):
        yield UsualCall("flatten_loops", (loop,))
    if isinstance(cursor.term, Gen) and isinstance(inside, Gen):
        yield UsualCall("unroll_and_jam", (loop, TOGETHER))
    if extent is not None and 0 < extent <= MOST_WRITTEN_OUT:
        yield UsualCall("unroll", (loop,))
    if not any(isinstance(above.term, Gen | Reduce) for above in cursor.spine()[:-1]):
        yield UsualCall("parallelize", (loop,))
    if not any(isinstance(below.term, Gen | Reduce) for below in _parts(cursor)):
        yield UsualCall("vectorize", (loop, TILE))
    if isinstance(cursor.term, Reduce) and isinstance(cursor.term.body, Binary) and cursor.term.body.op == "mul":
        for position in (0, 1):
            yield UsualCall("factor_out", (cursor.child(0).child(position).path,))


def _of_lets(goal: Program, lets: list[Cursor]) -> Iterator[UsualCall]:
    for cursor in lets:
        name = _chosen(goal, cursor)
        yield UsualCall("inline", (name,))
        yield UsualCall("fuse", (name,))
        if any(isinstance(above.term, Gen | Reduce) for above in cursor.spine()[:-1]):
            yield UsualCall("hoist", (name,))


def _staged(goal: Program, within: list[Cursor]) -> Iterator[UsualCall]:
    """What is read within loops, kept in a buffer at one of these."""
    paths = {cursor.path for cursor in within}
    found: dict[tuple[str, Target], UsualCall] = {}
    padded: dict[str, UsualCall] = {}
    for cursor in within:
        read = _read(cursor)
        if read is None:
            continue
        around = [above for above in cursor.spine()[:-1] if isinstance(above.term, Gen | Reduce)]
        for loop in (each for each in around[:-1] if each.path in paths):
            at = _chosen(goal, loop)
            key = (read, at if not isinstance(at, list) else tuple(at))
            found.setdefault(key, UsualCall("stage", (read,), {"at": at}))
        if any(isinstance(above.term, Guard) for above in cursor.spine()[:-1]):
            padded.setdefault(read, UsualCall("pad", (read,)))
        elif len(around) > 1:
            padded.setdefault(read, UsualCall("pack", (read,)))
    yield from list(found.values())[:MOST_STAGED]
    yield from padded.values()


def _of_the_whole(within: list[Cursor]) -> Iterator[UsualCall]:
    if any(isinstance(cursor.term, Guard) for cursor in within):
        yield UsualCall("simpl_guard")
        yield UsualCall("solve_for_index")
    yield UsualCall("simpl_index")
    yield UsualCall("normalize")


def _read(cursor: Cursor) -> str | None:
    """The name of the tensor of which an element is read here."""
    at = cursor.term
    while isinstance(at, Access):
        at = at.tensor
    if not isinstance(cursor.term, Access) or (cursor.above is not None and isinstance(cursor.above.term, Access)):
        return None
    if isinstance(at, Input):
        return at.array.name
    return cursor.names.of_tensor(at.position) if isinstance(at, Local) else None


def _chosen(goal: Program, cursor: Cursor) -> Target:
    """How a person writes this place: the name of what is bound there, if that is the first one so called; its path."""
    name = cursor.called[0]
    first = next(named(goal, name, top_down=True), None)
    return name if first is not None and first.path == cursor.path else cursor.path


def _below(cursor: Cursor) -> Term:
    return cursor.child(0).term


def _inside(cursor: Cursor) -> Term:
    """What stands directly in a loop, below guards."""
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
