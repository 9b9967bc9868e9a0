"""Streamed loops in C: scalar iterations up to a cache-line boundary, then whole lines by non-temporal stores."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Final, TypeAlias, assert_never

from lowering.c.loops import VECTOR
from lowering.c.names import Names
from lowering.c.text import COMPARISON, indented
from lowering.c.values.index import address_text, index_text, predicate_text
from lowering.c.values.scalars import C_TYPES, storage_text
from lowering.nest.loopnest import LINE_BYTES, Block, CacheLines, Cell, For, If, elements, key, statements
from lowering.nest.marked_loops.streams import Line, Stream, begins, row_of
from lowering.nest.text_scope import TextScope

Text: TypeAlias = list[str]
Printed: TypeAlias = Callable[[TextScope, Block], Text]
"""A function that prints a block of statements in a scope."""

FENCE: Final = "stream_fence();"


def has_streams(block: Block) -> bool:
    """Return whether a block contains non-temporal stores."""
    return any(isinstance(each, For) and isinstance(each.lines, CacheLines) for each in statements(block))


def print_stream(scope: TextScope, stream: Stream, printed: Printed) -> Text:
    """Print a streamed loop.

    for (int64_t x = 0; x < m; x++) {
        if (begins_line(out, y * m + x, sizeof *out)) {
            for (; x + 16 <= m; x += 16) {
                _Alignas(64) float line[16];
                #pragma omp simd
                for (int64_t lane = 0; lane < 16; lane++) {
                    const int64_t x_lane = x + lane;
                    line[x_lane - x] = a[y * m + x_lane] + b[y * m + x_lane];
                }
                stream_line(&out[y * m + x], &line[0]);
            }
            if (x >= m) {
                break;
            }
        }
        out[y * m + x] = a[y * m + x] + b[y * m + x];
    }
    """
    loop, width = stream.loop, stream.width
    low, high = index_text(scope, loop.low).text, index_text(scope, loop.high).at(COMPARISON + 1)
    name, inside = scope.bind(loop.variable, loop.variable.name)
    inside = inside.under(loop.range)
    alone = printed(inside, loop.body)
    begun = begins(stream)
    array = inside.name(key(begun.buffer))
    together = [
        f"for (; {name} + {width} <= {high}; {name} += {width}) {{",
        *indented(_whole_line(inside, stream, printed)),
        "}",
        f"if ({name} >= {high}) {{",
        *indented(["break;"]),
        "}",
    ]
    return [
        f"for (int64_t {name} = {low}; {name} < {high}; {name}++) {{",
        *indented(
            [
                f"if (begins_line({array}, {address_text(inside, begun.memory_pairs).text}, sizeof *{array})) {{",
                *indented(together),
                "}",
                *alone,
            ]
        ),
        "}",
    ]


def _whole_line(scope: TextScope, stream: Stream, printed: Printed) -> Text:
    """Print the iterations of one cache line: all are computed into buffers, which are then stored."""
    variable, lines = stream.loop.variable, stream.lines
    name = scope.name(variable)
    lane, inside = scope.bind(("lane", variable), "lane")
    there, inside = inside.bind(("there", variable), f"{name}_lane")
    made: Text = []
    for line in lines:
        buffer, inside = inside.bind(key(line.buffer), line.buffer.name)
        kind, count = C_TYPES[line.buffer.dtype], elements(line.buffer.extents).constant
        made.append(f"_Alignas({LINE_BYTES}) {kind} {buffer}[{max(count or 0, 1)}];")
    inside = _renamed(inside, stream.first, name)
    computed = printed(_renamed(inside, variable, there), stream.body)
    # A loop with a visibly constant number of iterations: with -fwrapv, a loop from x to x + 16 might be empty.
    head = f"for (int64_t {lane} = 0; {lane} < {stream.width}; {lane}++) {{"
    computed = [f"const int64_t {there} = {name} + {lane};", *computed]
    stored = [text for line in lines for text in _stores(inside, line)]
    return [*made, VECTOR, head, *indented(computed), "}", *stored]


def _renamed(scope: TextScope, what: Hashable, name: str) -> TextScope:
    return replace(scope, names=Names({**scope.names.of, what: name}, scope.names.taken))


def _stores(scope: TextScope, line: Line) -> Text:
    """Print the non-temporal stores of a line, with the loops and conditions around them."""
    heads: Text = []
    for around in line.around:
        match around:
            case For(variable, low, high):
                first, last = index_text(scope, low).text, index_text(scope, high).text
                name, scope = scope.bind(variable, variable.name)
                scope = scope.under(around.range)
                heads.append(f"for (int64_t {name} = {first}; {name} < {last}; {name}++)")
            case If(predicate):
                heads.append(f"if ({predicate_text(scope, predicate).text})")
                scope = scope.under(predicate)
            case _:
                assert_never(around)
    assert isinstance(line.store.target, Cell)
    to = storage_text(scope, line.store.target).text
    row = storage_text(scope, row_of(line)).text
    out = [f"stream_line(&{to}, &{row});"]
    for head in reversed(heads):
        out = [f"{head} {{", *indented(out), "}"]
    return out
