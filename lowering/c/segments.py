"""Loops over segments in C: the entries of a row begin where those of the row before have ended.

for (int64_t i = 0, p_end = i < n ? A_pos[i] : 0; i < n; i++) {
    const int64_t p_first = p_end;
    p_end = A_pos[i + 1];
    for (int64_t p = p_first; p < p_end; p++) {…}
}

So a processor knows where a row begins before it has read anything of it, and goes on by so much earlier where it has
taken the row before to be longer, or shorter, than it is.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from atl.core.index import Read, atoms, index
from atl.core.marks import LoopMark
from lowering.c.values.index import index_text
from lowering.nest.loopnest import For, statements
from lowering.nest.substitution import index_at
from lowering.nest.text_scope import TextScope
from lowering.nest.tiles import Tiles, over_lanes

_PLAIN: Final = (LoopMark.NONE, LoopMark.VECTOR)
"""Marks of loops that may begin at an end which is kept: the bounds of others are split, counted, or printed apart."""


def with_ends(scope: TextScope, loop: For, last: str) -> tuple[TextScope, str]:
    """The place in a loop, up to `last`, where the end of each segment is kept, and how these ends are declared.

    The declaration goes on from that of the loop's variable. What begins the first segment is read where there is one.
    """
    declared = ""
    name = scope.name(loop.variable)
    for inner in _segments(loop, scope.tiles):
        first = index_text(scope, inner.low).text
        called, _ = scope.bind(inner.variable, inner.variable.name)
        end, scope = scope.bind(("end", inner.variable), f"{called}_end")
        _, scope = scope.bind(("first", inner.variable), f"{called}_first")
        declared += f", {end} = {name} < {last} ? {first} : 0"
    return scope, declared


def bounds(scope: TextScope, loop: For) -> tuple[list[str], str, str]:
    """Where a loop begins and where it ends, and the lines before it that the two need."""
    low, high = index_text(scope, loop.low).text, index_text(scope, loop.high).text
    end = scope.names.of.get(("end", loop.variable))
    if end is None:
        return [], low, high
    first = scope.name(("first", loop.variable))
    return [f"const int64_t {first} = {end};", f"{end} = {high};"], first, end


def _segments(loop: For, tiles: Tiles) -> list[For]:
    """The loops of a body each of which begins where the one of the iteration before has ended.

    Only where that is read: else it costs nothing to work it out. And only where the loop stands once in the body: each
    copy of one, as a tile in registers leaves them of a loop that is written out, goes over the same segment.
    """
    if loop.mark is not LoopMark.NONE:  # its iterations need not follow each other: threads, lanes
        return []
    copies = Counter(inner.variable for inner in statements(loop.body) if isinstance(inner, For))
    return [
        inner
        for inner in loop.body
        if isinstance(inner, For)
        and inner.mark in _PLAIN
        and copies[inner.variable] == 1
        and not over_lanes(inner, tiles)
        and any(isinstance(atom, Read) for atom in atoms(inner.low))
        and index_at(inner.low, loop.variable, index(loop.variable) + 1) == inner.high
    ]
