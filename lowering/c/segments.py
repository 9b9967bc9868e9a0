"""Loops over segments in C: the end of a row is kept in a variable, as the beginning of the next row.

for (int64_t i = 0, p_end = i < n ? A_pos[i] : 0; i < n; i++) {
    const int64_t p_first = p_end;
    p_end = A_pos[i + 1];
    for (int64_t p = p_first; p < p_end; p++) {…}
}

So the processor knows where a row begins before it has read anything of the row. After a mispredicted row length, it
continues that much earlier.
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
"""Marks of loops that may begin at a kept end; the bounds of others are split, counted, or printed elsewhere."""


def with_segment_ends(scope: TextScope, loop: For, last: str) -> tuple[TextScope, str]:
    """Bind variables for the kept ends in a loop up to `last`; return the scope and the declarations.

    The declarations continue that of the loop's variable. The first segment's beginning is read only if there is one.
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


def loop_bounds(scope: TextScope, loop: For) -> tuple[list[str], str, str]:
    """Return declarations before a loop, and the loop's lower and upper bound."""
    low, high = index_text(scope, loop.low).text, index_text(scope, loop.high).text
    end = scope.names.of.get(("end", loop.variable))
    if end is None:
        return [], low, high
    first = scope.name(("first", loop.variable))
    return [f"const int64_t {first} = {end};", f"{end} = {high};"], first, end


def _segments(loop: For, tiles: Tiles) -> list[For]:
    """Return the loops in a body that begin where the same loop of the previous iteration ended.

    Only bounds that are read count, since others cost nothing. A loop with several copies in the body, as left by
    unrolling around a tile in registers, is excluded: all copies run over the same segment.
    """
    if loop.mark is not LoopMark.NONE:  # iterations may run in any order, on threads or lanes
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
