"""Loops in C: directives, ranges over segments, streams, co-iteration, and compiler flags."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from functools import reduce
from itertools import combinations, pairwise
from typing import Final, TypeAlias, assert_never

import numpy as np

from atl.core.dtypes import FLOATS
from atl.core.index import Index, Leaf, Quotient, Read, Var, atoms, factor_of, imin, index, map_leaves
from atl.core.marks import CallMark, LoopMark
from atl.core.operations import INFIX
from atl.core.predicate import Predicate, expressions, substitute
from lowering.c.helpers import IVDEP
from lowering.c.index import address_text, index_text, predicate_text
from lowering.c.scalars import C_TYPES, folded_name, folds_of, only_folds, storage_text
from lowering.c.text import COMPARISON, Names, indented
from lowering.c_compiler import Compiler
from lowering.nest import loopnest as ln
from lowering.nest.index_expressions import Computed, IndexUse, index_expressions
from lowering.nest.marked_loops import Finger, Line, Merge, Runs, Stream, begins, merge_at, row_of, runs_at
from lowering.nest.text import TextScope
from lowering.nest.tiles import Tiles, cells, over_lanes, sources, step, tiles_of

# -- directives -------------------------------------------------------------------------------------------------------
# `parallel` becomes OpenMP's loop over threads, in blocks; OpenMP (OMP_NUM_THREADS) chooses the number of threads.
# `vector` becomes its loop over the lanes of vector instructions, unless the loop only folds. Both directives list the
# variables that iterations fold into: each thread or lane has a copy, and the copies are folded at the end. Other data
# races were excluded by proof. `unroll` asks the compiler to unroll the loop fully. A loop without a mark is declared
# free of dependences between iterations where compilers do not detect this (`needs_ivdep`).


PARALLEL: Final = "#pragma omp parallel for schedule(static)"
VECTOR: Final = "#pragma omp simd"


def directives(scope: TextScope, loop: ln.For, *more: str) -> list[str]:
    """Return the directives before a loop; `more` are further clauses."""
    match loop.mark:
        case LoopMark.NONE:
            return [IVDEP] if needs_ivdep(loop) else [UNROLLED] if _stores_entries(scope, loop) else []
        case LoopMark.MERGE | LoopMark.RUNS | LoopMark.STREAM | CallMark():
            # A merge of one position, or a stream of less than a line, is a plain loop. Others are printed elsewhere.
            return []
        case LoopMark.PARALLEL:
            return [" ".join([PARALLEL, *_reductions(scope, loop), *more])]
        case LoopMark.VECTOR:
            return [] if only_folds(loop) else [" ".join([VECTOR, *_reductions(scope, loop), *more])]
        case LoopMark.UNROLL:
            count = (loop.high - loop.low).constant or 0
            return [f"#pragma GCC unroll {count}"] if count > 1 else []
        case LoopMark.DEVICE_X | LoopMark.DEVICE_Y | LoopMark.DEVICE_Z:
            raise AssertionError(f"C does not support loops marked {loop.mark.value}")
        case LoopMark.BLOCK_X | LoopMark.BLOCK_Y | LoopMark.BLOCK_Z:
            raise AssertionError(f"C does not support loops marked {loop.mark.value}")
        case LoopMark.THREAD_X | LoopMark.THREAD_Y | LoopMark.THREAD_Z:
            raise AssertionError(f"C does not support loops marked {loop.mark.value}")
    assert_never(loop.mark)


UNROLLED: Final = "#pragma GCC unroll 4"
"""Directive for a loop whose iterations count or store an entry of a row each.

Counting took 0.5 to 0.85 of the time on an AMD EPYC (gcc 12), and a transposition 0.87 to 1 of it.
"""


def _stores_entries(scope: TextScope, loop: ln.For) -> bool:
    """Return whether all iterations of a loop only store an entry to counted rows."""
    only, assembled = loop.body[0], scope.assembled
    if assembled is None or assembled.kind != "counted" or len(loop.body) > 1:
        return False
    if not isinstance(only, ln.Assign | ln.Accumulate) or not isinstance(only.target, ln.Cell):
        return False
    return ln.key(only.target.buffer) == assembled.output


def needs_ivdep(loop: ln.For) -> bool:
    """Return whether the loop has no dependences between iterations, but gcc would not detect that.

    It stores consecutive elements and reads other arrays. If elements are read under a condition, gcc ignores
    `restrict`, and generates two versions of the loop with a run-time test.
    """
    if len(loop.body) != 1:
        return False
    (statement,) = loop.body
    if not isinstance(statement, ln.Assign) or not isinstance(statement.target, ln.Cell):
        return False
    stored = ln.accessed(statement.target)
    return (
        _reads_under_conditions(statement.value)
        and all(ln.accessed(source) != stored for source in sources(statement.value))
        and step(statement.target.address, loop.variable) == 1
    )


def _reads_under_conditions(e: ln.ScalarExpr) -> bool:
    match e:
        case ln.Choose(_, left, right):
            return any(True for side in (left, right) for _ in cells(side))
        case ln.Apply(_, arguments):
            return any(map(_reads_under_conditions, arguments))
        case ln.Convert(argument):
            return _reads_under_conditions(argument)
        case ln.Number() | ln.Load() | ln.FromIndex():
            return False
    assert_never(e)


NOT_VECTORISED: Final = "not_vectorised();"
MOST_UNROLLED: Final = 16
"""Maximum number of iterations of an inner loop that gcc unrolls completely before it vectorises the outer one."""


def vectorisation_barrier(loop: ln.For, tiles: Tiles) -> list[str]:
    """Return a statement that keeps gcc before version 14 from vectorising a loop, if it might do so wrongly.

    If a group of neighbours is read under a condition or in a `where`, gcc may exchange the elements (PR 114375), or
    test the condition of another iteration. A group is several elements of an array in one iteration, with a stride of
    two or more. Inner loops are included if gcc unrolls them. Reads outside of the branches count: gcc may move them
    there. gcc does not vectorise a loop that contains vectors already.
    """
    inner = [each for each in ln.statements(loop.body) if isinstance(each, ln.For)]
    unrolled = frozenset(each.variable.uid for each in inner)
    conditions = (condition for each in ln.statements(loop.body) for condition in _conditions(each))
    if not all(map(_is_unrolled, inner)) or any(over_lanes(each, tiles) for each in inner):
        return []
    if all(_is_decided(condition, unrolled) for condition in conditions):
        return []
    groups: dict[Hashable, set[Index]] = {}
    for array, address in (read for each in ln.statements(loop.body) for read in _reads(each)):
        stride = factor_of(address, loop.variable)
        if stride is not None and stride.constant not in (-1, 0, 1):
            groups.setdefault(array, set()).add(address)
    several = any(len(group) > 1 or any(unrolled & each.free for each in group) for group in groups.values())
    return [NOT_VECTORISED] if several else []


def _is_unrolled(loop: ln.For) -> bool:
    count = (loop.high - loop.low).constant
    return count is not None and (count <= MOST_UNROLLED or loop.mark is LoopMark.UNROLL)


def _is_decided(condition: Predicate | None, unrolled: frozenset[int]) -> bool:
    """Return whether a condition is constant once the loops with these variables are unrolled."""
    if condition is None:
        return False
    leaves = (atom for each in expressions(condition) for atom in atoms(each) if not isinstance(atom, Quotient))
    return all(isinstance(leaf, Var) and leaf.uid in unrolled for leaf in leaves)


def _conditions(statement: ln.Statement) -> Iterator[Predicate | None]:
    """Yield the conditions of a statement and of its values, without those of the statements in it.

    The test of elements of a `where` is None.
    """
    if isinstance(statement, ln.If):
        yield statement.predicate
    for value in _values(statement):
        yield from _choices(value)


def _choices(e: ln.ScalarExpr) -> Iterator[Predicate | None]:
    match e:
        case ln.Choose(predicate, left, right):
            yield predicate
            yield from _choices(left)
            yield from _choices(right)
        case ln.Apply(op, arguments):
            if op == "where":
                yield None
            for argument in arguments:
                yield from _choices(argument)
        case ln.Convert(argument):
            yield from _choices(argument)
        case ln.Number() | ln.Load() | ln.FromIndex():
            return
        case _:
            assert_never(e)


def _values(statement: ln.Statement) -> tuple[ln.ScalarExpr, ...]:
    """Return the scalar expressions of a statement, without those of the statements in it."""
    match statement:
        case ln.Assign(_, value) | ln.Accumulate(_, _, value) | ln.Declare(_, value):
            return (value,)
        case ln.For() | ln.If() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
            return ()
    assert_never(statement)


def _reads(statement: ln.Statement) -> Iterator[tuple[Hashable, Index]]:
    """Yield the arrays that a statement reads, without the statements in it, each with a flat address."""
    for condition in _conditions(statement):
        if condition is not None:
            yield from _index_reads(*expressions(condition))
    for value in _values(statement):
        yield from _reads_of(value)


def _reads_of(e: ln.ScalarExpr) -> Iterator[tuple[Hashable, Index]]:
    for part in ln.parts_of(e):
        if isinstance(part, ln.Load) and isinstance(part.source, ln.Cell):
            yield ln.key(part.source.buffer), part.source.address
            yield from _index_reads(part.source.address)
        elif isinstance(part, ln.FromIndex):
            yield from _index_reads(part.index)


def _index_reads(*of: Index) -> Iterator[tuple[Hashable, Index]]:
    for atom in (atom for each in of for atom in atoms(each)):
        if isinstance(atom, Read):
            yield atom.array.name, ln.flat(tuple(zip(atom.indices, atom.array.shape, strict=True)))


def _reductions(scope: TextScope, loop: ln.For) -> Iterator[str]:
    """Yield the reduction clauses for the variables, or their keys, that the iterations of a loop fold into."""
    into: dict[str, list[str]] = {}
    for target, fold in folds_of(loop).items():
        # Each thread or lane adds up what is subtracted.
        operation = "+" if fold.op == "sub" else INFIX.get(fold.op, fold.op)
        into.setdefault(operation, []).append(folded_name(scope, target))
    for operation, names in into.items():
        yield f"reduction({operation}: {', '.join(names)})"


def has_heap_buffers(loop: ln.For) -> bool:
    """Return whether an iteration of the loop allocates on the heap."""
    return any(isinstance(inside, ln.Allocate) and inside.storage == "heap" for inside in ln.statements(loop.body))


# -- segments ---------------------------------------------------------------------------------------------------------
# for (int64_t i = 0, p_end = i < n ? A_pos[i] : 0; i < n; i++) {
#     const int64_t p_first = p_end;
#     p_end = A_pos[i + 1];
#     for (int64_t p = p_first; p < p_end; p++) {…}
# }
#
# So the processor knows where a row begins before it has read anything of the row. After a mispredicted row length, it
# continues that much earlier.


_PLAIN: Final = (LoopMark.NONE, LoopMark.VECTOR)
"""Marks of loops that may begin at a kept end; the bounds of others are split, counted, or printed elsewhere."""


def with_segment_ends(scope: TextScope, loop: ln.For, last: str) -> tuple[TextScope, str]:
    """Bind variables for the kept ends in a loop up to `last`; return the scope and the declarations.

    The declarations continue that of the loop's variable. The first segment's beginning is read only if there is one.
    """
    declared = ""
    name = scope.name(loop.variable)
    for inner in segments(loop, scope.tiles):
        first = index_text(scope, inner.low).text
        called, _ = scope.bind(inner.variable, inner.variable.name)
        end, scope = scope.bind(("end", inner.variable), f"{called}_end")
        _, scope = scope.bind(("first", inner.variable), f"{called}_first")
        declared += f", {end} = {name} < {last} ? {first} : 0"
    return scope, declared


def loop_bounds(scope: TextScope, loop: ln.For) -> tuple[list[str], str, str]:
    """Return declarations before a loop, and the loop's lower and upper bound."""
    low, high = index_text(scope, loop.low).text, index_text(scope, loop.high).text
    end = scope.names.of.get(("end", loop.variable))
    if end is None:
        return [], low, high
    first = scope.name(("first", loop.variable))
    return [f"const int64_t {first} = {end};", f"{end} = {high};"], first, end


def segments(loop: ln.For, tiles: Tiles) -> list[ln.For]:
    """Return the loops in a body that begin where the same loop of the previous iteration ended.

    Only bounds that are read count, since others cost nothing. A loop with several copies in the body, as left by
    unrolling around a tile in registers, is excluded: all copies run over the same segment.
    """
    if loop.mark is not LoopMark.NONE:  # iterations may run in any order, on threads or lanes
        return []
    copies = Counter(inner.variable for inner in ln.statements(loop.body) if isinstance(inner, ln.For))
    return [
        inner
        for inner in loop.body
        if isinstance(inner, ln.For)
        and inner.mark in _PLAIN
        and copies[inner.variable] == 1
        and not over_lanes(inner, tiles)
        and any(isinstance(atom, Read) for atom in atoms(inner.low))
        and ln.index_at(inner.low, loop.variable, index(loop.variable) + 1) == inner.high
    ]


# -- streams ----------------------------------------------------------------------------------------------------------


Text: TypeAlias = list[str]
PrintedBody: TypeAlias = Callable[[TextScope, ln.Block], Text]
"""A function that prints a block of statements in a scope."""

FENCE: Final = "stream_fence();"


def has_streams(block: ln.Block) -> bool:
    """Return whether a block contains non-temporal stores."""
    return any(isinstance(each, ln.For) and isinstance(each.lines, ln.CacheLines) for each in ln.statements(block))


def print_stream(scope: TextScope, stream: Stream, printed: PrintedBody) -> Text:
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
    array = inside.name(ln.key(begun.buffer))
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


def _whole_line(scope: TextScope, stream: Stream, printed: PrintedBody) -> Text:
    """Print the iterations of one cache line: all are computed into buffers, which are then stored."""
    variable, lines = stream.loop.variable, stream.lines
    name = scope.name(variable)
    lane, inside = scope.bind(("lane", variable), "lane")
    there, inside = inside.bind(("there", variable), f"{name}_lane")
    made: Text = []
    for line in lines:
        buffer, inside = inside.bind(ln.key(line.buffer), line.buffer.name)
        kind, count = C_TYPES[line.buffer.dtype], ln.elements(line.buffer.extents).constant
        made.append(f"_Alignas({ln.LINE_BYTES}) {kind} {buffer}[{max(count or 0, 1)}];")
    inside = _renamed(inside, stream.first, name)
    computed = printed(_renamed(inside, variable, there), stream.body)
    # A loop with a visibly constant number of iterations: with -fwrapv, a loop from x to x + 16 might be empty.
    head = f"for (int64_t {lane} = 0; {lane} < {stream.width}; {lane}++) {{"
    computed = [
        *vectorisation_barrier(stream.loop, scope.tiles),
        f"const int64_t {there} = {name} + {lane};",
        *computed,
    ]
    stored = [text for line in lines for text in _stores(inside, line)]
    return [*made, VECTOR, head, *indented(computed), "}", *stored]


def _renamed(scope: TextScope, what: Hashable, name: str) -> TextScope:
    return replace(scope, names=Names({**scope.names.of, what: name}, scope.names.taken))


def _stores(scope: TextScope, line: Line) -> Text:
    """Print the non-temporal stores of a line, with the loops and conditions around them."""
    heads: Text = []
    for around in line.around:
        match around:
            case ln.For(variable, low, high):
                first, last = index_text(scope, low).text, index_text(scope, high).text
                name, scope = scope.bind(variable, variable.name)
                scope = scope.under(around.range)
                heads.append(f"for (int64_t {name} = {first}; {name} < {last}; {name}++)")
            case ln.If(predicate):
                heads.append(f"if ({predicate_text(scope, predicate).text})")
                scope = scope.under(predicate)
            case _:
                assert_never(around)
    assert isinstance(line.store.target, ln.Cell)
    to = storage_text(scope, line.store.target).text
    row = storage_text(scope, row_of(line)).text
    out = [f"stream_line(&{to}, &{row});"]
    for head in reversed(heads):
        out = [f"{head} {{", *indented(out), "}"]
    return out


# -- aligned stores ---------------------------------------------------------------------------------------------------


def with_aligned_stores(nest: ln.LoopNest) -> ln.LoopNest:
    """Mark innermost loops of stencils as `aligned`: rows computed from neighbours in other buffers.

    A vector that is not aligned may be in two cache lines. If the stored vectors are aligned, so are vectors in the
    same columns of other rows, where rows consist of whole lines.
    """
    if not nest.row_storage:  # without local recurrences, stencils may be in tiles, whose rows are short
        return nest
    return replace(nest, body=_with_aligned_stores(nest.body))


def _with_aligned_stores(block: ln.Block) -> ln.Block:
    out: list[ln.Statement] = []
    for statement in block:
        if isinstance(statement, ln.For) and _is_stencil(statement):
            out.append(replace(statement, aligned=True))
        elif isinstance(statement, ln.For | ln.If):
            out.append(ln.with_body(statement, _with_aligned_stores(statement.body)))
        else:
            out.append(statement)
    return tuple(out)


def _is_stencil(loop: ln.For) -> bool:
    """Return whether a loop stores consecutive floats, computed from neighbours in storage that it does not change.

    A call may pass an input as the output. So it may not read inputs and store the output.
    """
    if loop.mark is not LoopMark.NONE or len(loop.body) != 1 or not isinstance(loop.body[0], ln.Assign):
        return False
    target, value = loop.body[0].target, loop.body[0].value
    if not isinstance(target, ln.Cell) or target.buffer.dtype not in FLOATS:
        return False
    read = list(sources(value))
    if any(not isinstance(cell, ln.Cell) or cell.buffer.storage == target.buffer.storage for cell in read):
        return False
    stored = target.buffer.storage.role
    reads = [cell for cell in read if isinstance(cell, ln.Cell) and step(cell.address, loop.variable) == 1]
    if step(target.address, loop.variable) != 1 or (stored != "local" and any(_is_input(cell) for cell in reads)):
        return False
    return any(one.buffer == other.buffer and _are_neighbours(one, other) for one, other in combinations(reads, 2))


def _is_input(cell: ln.Cell) -> bool:
    return cell.buffer.storage.role == "input"


def _are_neighbours(one: ln.Cell, other: ln.Cell) -> bool:
    return (one.address - other.address).constant not in (None, 0)


def print_aligned(scope: TextScope, loop: ln.For, name: str, printed: Callable[[str, str], Text]) -> Text:
    """Print a loop whose iterations may run twice, so that most vectors are stored to whole parts of cache lines.

    for (int part = 0; part < 2; part++) {
        const int64_t k_begin = part == 0 ? 1 : 1 + elements_to_line(&u1_row[j * n + 1], sizeof *u1_row);
        const int64_t k_end = part == 0 ? min_int64(n - 1, 9) : n - 1;
        for (int64_t k = k_begin; k < k_end; k++) {
            …

    The first part stores at least all elements before the line. `printed` prints the loop between two bounds.
    """
    (statement,) = loop.body
    assert isinstance(statement, ln.Assign)
    assert isinstance(statement.target, ln.Cell)
    first = storage_text(scope, ln.cell_at(statement.target, loop.variable, loop.low)).text
    dtype = statement.target.buffer.dtype
    count = ln.LINE_BYTES // np.dtype(dtype).itemsize
    low, high = index_text(scope, loop.low).text, index_text(scope, loop.high).text
    before = f"elements_to_line(&{first}, sizeof({C_TYPES[dtype]}))"
    head = index_text(scope, imin(loop.low + count, loop.high)).text
    part, scope = scope.bind(("part", loop.variable), "part")
    begin, scope = scope.bind(("begin", loop.variable), f"{name}_begin")
    end, _ = scope.bind(("last", loop.variable), f"{name}_end")
    return [
        f"for (int {part} = 0; {part} < 2; {part}++) {{",
        *indented(
            [
                f"const int64_t {begin} = {part} == 0 ? {low} : {low} + {before};",
                f"const int64_t {end} = {part} == 0 ? {head} : {high};",
                *printed(begin, end),
            ]
        ),
        "}",
    ]


def stencil_flags(nest: ln.LoopNest, compiler: Compiler) -> tuple[str, ...]:
    """Return flags for gcc on x86 if there are loops with aligned stores, else nothing."""
    x86 = platform.machine() in ("x86_64", "AMD64")
    return (
        HALF_LINES
        if x86 and compiler.kind == "gcc" and any(each.aligned for each in _loops(with_aligned_stores(nest)))
        else ()
    )


# -- co-iteration and segmented reduction -----------------------------------------------------------------------------


Lines: TypeAlias = list[str]
Printed: TypeAlias = Callable[[TextScope, ln.Block], Lines]
"""A function that prints a block of statements in a scope."""


def print_merge(scope: TextScope, loop: ln.For, printed: Printed) -> Lines:
    """Print a merge: while all fingers are in range, those whose key is less than another's advance.

    while (p < p_end && q < q_end) {
        const int64_t p_key = A_crd[p], q_key = x_crd[q];
        if (p + 4 <= p_end && A_crd[p + 3] < q_key) {
            p += 4;
            continue;
        }
        …
        if (p_key == q_key) {…}
        p += p_key <= q_key;
        q += q_key <= p_key;
    }
    """
    merge = merge_at(loop)
    assert isinstance(merge, Merge), "an illegal merge is refused before it is printed"
    return ["{", *indented(_declarations(scope, merge, merge.fingers, (), printed)), "}"]


def _declarations(
    scope: TextScope, merge: Merge, left: tuple[Finger, ...], names: tuple[tuple[str, str], ...], printed: Printed
) -> Lines:
    """Declare the remaining fingers, then print the loop. After an empty range, no further range is evaluated."""
    if not left:
        return _merge_loop(scope, merge, names, printed)
    loop, *rest = (finger.loop for finger in left)
    first, last = index_text(scope, loop.low).text, index_text(scope, loop.high).text
    name, scope = scope.bind(loop.variable, loop.variable.name)
    end, scope = scope.bind(("end", loop.variable), f"{name}_end")
    inner = _declarations(scope, merge, left[1:], (*names, (name, end)), printed)
    if any(_may_fail(bound) for each in rest for bound in (each.low, each.high)):
        inner = [f"if ({name} < {end}) {{", *indented(inner), "}"]
    return [f"int64_t {name} = {first};", f"const int64_t {end} = {last};", *inner]


def _may_fail(bound: Index) -> bool:
    """Return whether an expression may be undefined without further conditions."""
    return any(isinstance(atom, Read | Quotient) for atom in atoms(bound))


def _merge_loop(scope: TextScope, merge: Merge, names: tuple[tuple[str, str], ...], printed: Printed) -> Lines:
    read = reduce(TextScope.under, merge.ranges, scope)
    inside = reduce(TextScope.under, merge.within, scope)
    keys: list[_Key] = []
    lines: Lines = []
    for finger, (name, _) in zip(merge.fingers, names, strict=True):
        parts: list[str] = []
        for number, key in enumerate(finger.key):
            hint = f"{name}_key" if len(finger.key) == 1 else f"{name}_key{number}"
            bound, inside = inside.bind(("key", finger.variable, number), hint)
            parts.append(bound)
            lines.append(f"const int64_t {bound} = {index_text(read, key).text};")
        keys.append(tuple(parts))
    body = printed(inside, merge.body)
    for condition in reversed(merge.conditions):
        body = _conditional(predicate_text(inside, condition).text, body)
    repeats = [finger.variable not in scope.strict_keys for finger in merge.fingers]
    positions = [name for name, _ in names]
    if len(keys) == 2:
        first, second = keys
        for finger, (name, end), other in zip(merge.fingers, names, (second, first), strict=True):
            lines += _skip(scope, finger, name, end, other)
        lines += [*_conditional(_equal(first, second), body), *_two_steps(positions, keys, repeats)]
    else:
        lines += _steps(inside, positions, keys, repeats, body)
    running = " && ".join(f"{name} < {end}" for name, end in names)
    return [f"while ({running}) {{", *indented(lines), "}"]


_Key: TypeAlias = tuple[str, ...]
"""The names of the variables that contain the parts of a key."""


def _equal(one: _Key, other: _Key) -> str:
    return " && ".join(f"{a} == {b}" for a, b in zip(one, other, strict=True))


def _less(one: _Key, other: _Key, *, or_equal: bool = False) -> str:
    """Return the comparison of two keys in lexicographic order."""
    *leading, (last, its) = zip(one, other, strict=True)
    text = f"{last} {'<=' if or_equal else '<'} {its}"
    for a, b in reversed(leading):
        text = f"{a} < {b} || ({a} == {b} && {f'({text})' if '||' in text else text})"
    return text


SKIPPED: Final = 4
"""Number of positions that a finger skips at once if all their keys are less than the key of the other finger.

Elementwise products of five kinds of matrices took 0.43 of the time without skips on an AMD EPYC (gcc 12). 2, 3 and 8
were slower.
"""


def _skip(scope: TextScope, finger: Finger, name: str, end: str, other: _Key) -> Lines:
    """Skip several keys if the last of them is less than another key; earlier ones are not greater."""
    last = index(finger.variable) + (SKIPPED - 1)

    def moved(leaf: Leaf) -> Index:
        return last if leaf == finger.variable else index(leaf)

    there = scope.under(substitute(finger.loop.range, moved))
    key = tuple(index_text(there, map_leaves(part, moved)).at(COMPARISON) for part in finger.key)
    less = _less(key, other)
    running = f"{name} + {SKIPPED} <= {end} && {f'({less})' if '||' in less else less}"
    return _conditional(running, [f"{name} += {SKIPPED};", "continue;"])


def _two_steps(positions: list[str], keys: list[_Key], repeats: list[bool]) -> Lines:
    """Advance two fingers. At equal keys, a finger stays if the other one's keys may repeat."""
    (p, q), (a, b), (p_repeats, q_repeats) = positions, keys, repeats
    return [f"{p} += {_less(a, b, or_equal=not q_repeats)};", f"{q} += {_less(b, a, or_equal=not p_repeats)};"]


def _conditional(condition: str, body: Lines) -> Lines:
    return [f"if ({condition}) {{", *indented(body), "}"]


def _steps(scope: TextScope, positions: list[str], keys: list[_Key], repeats: list[bool], body: Lines) -> Lines:
    """Advance several fingers. At equal keys, the finger whose keys may repeat advances; if there is none, all do."""
    equal, _ = scope.bind("equal", "equal")
    same = " && ".join(_equal(one, another) for one, another in pairwise(keys))
    lines = [f"const int64_t {equal} = {same};", *_conditional(equal, body)]
    for position, there, may_repeat in zip(positions, keys, repeats, strict=True):
        stays = any(repeats) and not may_repeat
        behind = " || ".join(_less(there, other) for other in keys if other != there)
        lines.append(f"{position} += {behind}{'' if stays else f' || {equal}'};")
    return lines


def print_runs(scope: TextScope, loop: ln.For, printed: Printed) -> Lines:
    """Print a segmented reduction: each run of equal keys is summed in a variable, or several, then added to its cell.

    for (int64_t p = 0; p < A_nnz;) {
        const int64_t p_first = p;
        double total = 0;
        do {
            total += A_val[p] * x[A_col[p]];
            p++;
        } while (p < A_nnz && A_row[p] == A_row[p_first]);
        out[A_row[p_first]] += total;
    }
    """
    runs = runs_at(loop)
    assert isinstance(runs, Runs), "an illegal mark is refused before the loop is printed"
    low, high = index_text(scope, loop.low).text, index_text(scope, loop.high).text
    name, inside = scope.bind(loop.variable, loop.variable.name)
    first, inside = inside.bind(("first", loop.variable), f"{name}_first")
    total, inside = inside.bind(ln.key(runs.total), runs.total.name)
    number = f"[{runs.allocated.capacity.constant}] = {{0}}" if isinstance(runs.total, ln.Buffer) else " = 0"
    inside = inside.under(loop.range)
    at_first = replace(inside, names=Names({**inside.names.of, loop.variable: first}, inside.names.taken))
    body = printed(inside, runs.body)
    same = [f"{index_text(inside, each).text} == {index_text(at_first, each).text}" for each in runs.keys]
    kept = [f"const int64_t {first} = {name};"] if same else []
    return [
        f"for (int64_t {name} = {low}; {name} < {high};) {{",
        *indented(
            [
                *kept,
                f"{C_TYPES[runs.total.dtype]} {total}{number};",
                "do {",
                *indented([*body, f"{name}++;"]),
                f"}} while ({' && '.join([f'{name} < {high}', *same])});",
                *printed(at_first, (runs.last,)),
            ]
        ),
        "}",
    ]


# -- compiler flags for gathers ---------------------------------------------------------------------------------------


NARROW: Final = ("-mprefer-vector-width=128",)
"""Gather instructions, and wide vectors assembled element by element, are slower than short vectors. Sums of rows of 11
to 18 entries took 1.1 to 1.3 times as long with the vector width that gcc chooses for this processor."""
HALF_LINES: Final = ("-mprefer-vector-width=256",)
"""A vector of a whole cache line that is not aligned is in two lines. Of two adjacent vectors of half a line, one is in
two lines. Steps of stencils took 1.05 times as long with vectors of 64 bytes."""
SERIAL: Final = ("-fno-tree-vectorize",)
"""Loops below entries, such as the fibres of a tensor, are short and vary in length. Sums of fibres of 1 to 30 entries
took 1.05 to 1.2 times as long with vectors of any width."""

WITHIN_LINES: Final = ("-falign-loops=64", "-falign-jumps=64")
"""The loop over one row in a segmented reduction is some 40 bytes of code. It took 1.2 to 1.4 times as long when it
happened to cross a cache line."""


def gathering_flags(nest: ln.LoopNest, compiler: Compiler) -> tuple[str, ...]:
    """Return flags for gcc on x86 if each innermost loop gathers, else nothing."""
    x86 = platform.machine() in ("x86_64", "AMD64")
    if not (x86 and compiler.kind == "gcc" and gathers(nest)):
        return ()
    in_runs = any(each.mark is LoopMark.RUNS for each in _loops(nest))
    return (*(SERIAL if has_fibres(nest) else NARROW), *(WITHIN_LINES if in_runs else ()))


RELOADED: Final = ("-fno-predictive-commoning",)
"""Loading one element into all lanes takes as long as any vector load. gcc would instead keep the elements of a window
in registers for the next iteration and repeat them from there, which takes longer."""


def window_flags(nest: ln.LoopNest, compiler: Compiler) -> tuple[str, ...]:
    """Return flags for gcc if tiles in registers are computed from windows, else nothing."""
    return RELOADED if compiler.kind == "gcc" and has_windows_in_tiles(nest) else ()


def has_windows_in_tiles(nest: ln.LoopNest) -> bool:
    """Return whether a loop computes tiles in registers, and reads elements that it reads again in later iterations."""
    tiles = tiles_of(nest)
    for terms in _loops(nest) if tiles else ():
        lanes = [each for each in ln.statements(terms.body) if isinstance(each, ln.For)]
        if lanes and not over_lanes(terms, tiles) and all(over_lanes(each, tiles) for each in lanes):
            read: dict[Hashable, set[Index]] = {}
            for array, address in (found for each in ln.statements(terms.body) for found in _reads(each)):
                read.setdefault(array, set()).add(address)
            if any(
                _read_same_address(terms, one, other)
                for group in read.values()
                for one, other in combinations(group, 2)
            ):
                return True
    return False


def _read_same_address(loop: ln.For, one: Index, other: Index) -> bool:
    """Return whether two addresses have the same value in different iterations of a loop, a constant number apart."""
    step, difference = factor_of(one, loop.variable), (one - other).constant
    if step is None or not step.constant or not difference:
        return False
    return difference % step.constant == 0


def gathers(nest: ln.LoopNest) -> bool:
    """Return whether there are innermost loops, and each reads elements at indices that are themselves read."""
    innermost = {each.variable for each in _innermost(nest)}
    found = {
        variable
        for each in index_expressions(nest)
        if isinstance(each, Computed) and each.use is IndexUse.ADDRESS
        for variable in _read_at(each.expression)
    }
    return bool(innermost) and innermost <= found


def has_fibres(nest: ln.LoopNest) -> bool:
    """Return whether each innermost loop runs over the entries below an entry of an enclosing sparse loop."""
    ranges = {each.variable: _read_at(each.low) | _read_at(each.high) for each in _loops(nest)}
    return all(any(ranges.get(at) for at in ranges[each.variable]) for each in _innermost(nest))


def _loops(nest: ln.LoopNest) -> list[ln.For]:
    return [each for each in ln.statements(nest.body) if isinstance(each, ln.For)]


def _innermost(nest: ln.LoopNest) -> list[ln.For]:
    return [each for each in _loops(nest) if not any(isinstance(inner, ln.For) for inner in ln.statements(each.body))]


def _read_at(address: Index) -> set[Var]:
    """Return the variables that determine which elements an expression reads."""
    reads = [atom for atom in atoms(address) if isinstance(atom, Read)]
    return {atom for read in reads for at in read.indices for atom in atoms(at) if isinstance(atom, Var)}
