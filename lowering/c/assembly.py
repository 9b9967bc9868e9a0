"""C of assembled outputs: entries are stored row by row, or counted first, in arrays that the caller allocates.

The caller passes arrays for the bounds of the rows (`pos`, which starts with 0), the columns (`crd`) and the values of
the entries, an empty workspace if one is needed, and `space`: the row to begin with, and the number of entries that
the arrays can store. If the entries of a row may not fit, the function returns `OUT_OF_SPACE`, with that row and the
number of entries needed to continue in `space`. It is then called again with larger arrays that begin with the same
entries. Workspaces are empty between rows.

- A sorted row is gathered in a dense workspace with one bit for each column, and one for each word of 64 bits. Going
  through the bits gives the columns in order, and empties the workspace. Rows without stores are skipped. If there are
  many columns, words of zeros are skipped eight at a time.
- For unsorted rows, the workspace has the position of the last entry of each column. A position before the first entry
  of the row is outdated.
- An element is assigned at most once, before anything is added to it. The loop-nest interpreter traps other stores.
- Counted rows are stored by two runs of the loops, one that counts the stores to each row, and one that stores them.
  Between the two, `space` requests arrays of exactly this size. A row with fewer stores than the square root of
  columns / 4096 is sorted by insertion: going through its bits would take longer.
- Stores to rows in random order wait for memory. If the rows are the elements of an array, entries of later stores are
  prefetched, unless the array is short, or a sample of it shows that rows are near each other.
- Counts do not depend on values: two compiled copies of the same arithmetic may round differently. So parallel rows are
  counted and stored with their zeros, which are dropped from all rows at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias, assert_never

from atl.core.dtypes import BOOL, FLOATS
from atl.core.index import ONE, ZERO, Array, Index, Read, Var
from atl.core.index import read as read_element
from lowering.c.helpers import AHEAD
from lowering.c.index import address_text, count_text, index_text
from lowering.c.loops import UNROLLED, loop_bounds, segments
from lowering.c.scalars import C_TYPES, applied, conversion, scalar_text
from lowering.c.text import COMPARISON, SUM, UNARY, Text, indented
from lowering.nest import loopnest as ln
from lowering.nest.assembly import assembly_of, column_pairs, number_of_rows, row_of, stores
from lowering.nest.text import AssembledText, TextScope

Lines: TypeAlias = list[str]

WORD: Final = "uint64_t"
WORKSPACE: Final = ("work", "bits", "words")
"""Roles of the arrays of a workspace with bits."""


def parameter_types(nest: ln.LoopNest) -> list[tuple[str, str]]:
    """Return the role and the C type of each array of an assembled output, except its values."""
    return [
        (role, f"{WORD if dtype == 'uint64' else C_TYPES[dtype]} *") for role, dtype in AssembledText.of(nest).arrays
    ]


def _name(scope: TextScope, role: str) -> str:
    """Return the name of an array or variable; in parallel rows, that of the thread's part of a workspace."""
    own = _assembled(scope).parallel and role in WORKSPACE
    return scope.name(("assembly", f"own {role}" if own else role))


def _assembled(scope: TextScope) -> AssembledText:
    assert scope.assembled is not None
    return scope.assembled


# -- functions --------------------------------------------------------------------------------------------------------


def print_function(scope: TextScope, nest: ln.LoopNest, printed: Callable[[TextScope], Lines]) -> Lines:
    """Print the statements of a nest between the beginning and the end of a function that assembles its output."""
    for role in ("end", "done", "stop", "first", "total", "stored"):
        _, scope = scope.bind(("assembly", role), role)
    if _assembled(scope).kind == "counted":
        return _counted(scope, nest, printed)
    if _assembled(scope).parallel:
        return _parallel(scope, nest, printed)
    pos, space = _name(scope, "pos"), _name(scope, "space")
    end, done, stop = (_name(scope, role) for role in ("end", "done", "stop"))
    rows = index_text(scope, number_of_rows(nest)).text
    is_vector = len(_assembled(scope).assembly.order) == 1
    first = _begin_row(scope) if is_vector else []
    return [
        f"int64_t {done} = {space}[0], {end} = {pos}[{done}], {stop} = -1;",
        *first,
        *printed(scope),
        f"if ({stop} >= 0) {{",
        *indented([f"{space}[0] = {stop};", f"{space}[1] = {end} + {_columns(scope)};", "return OUT_OF_SPACE;"]),
        "}",
        *_rows_without_entries(scope, rows),
    ]


def _rows_without_entries(scope: TextScope, last: str) -> Lines:
    done, end = _name(scope, "done"), _name(scope, "end")
    return [f"for (; {done} < {last}; {done}++) {{", f"    {_bound(scope, f'{done} + 1', end)}", "}"]


def _columns(scope: TextScope) -> str:
    columns, extents = _assembled(scope).columns, _assembled(scope).column_extents
    return count_text(scope, columns, extents).at(SUM + 1)


def _bound(scope: TextScope, row: str, end: str) -> str:
    kind = C_TYPES[_assembled(scope).assembly.index_dtype]
    return f"{_name(scope, 'pos')}[{row}] = ({kind}){end};"


# -- rows -------------------------------------------------------------------------------------------------------------


def row_loop(scope: TextScope, loop: ln.For, first: str, last: str) -> tuple[Lines, str, Callable[[TextScope], Lines]]:
    """Return declarations before a loop over rows, its first iteration, and the lines that begin a row.

    Rows that an earlier call has stored are skipped.
    """
    gather = loop.body[-1] if loop.body else None
    if scope.assembled is None or not isinstance(gather, ln.Gather) or gather.row is None:
        return [], first, lambda _: []
    if scope.assembled.parallel:
        return [], first, partial(_begin_parallel_row, gather.row)
    row, space = gather.row, _name(scope, "space")
    begin, inside = scope.bind(loop.variable, f"{loop.variable.name}_begin")
    skipped = f"{index_text(inside, row).text} < {space}[0]"

    def begins(scope: TextScope) -> Lines:
        stop, end = _name(scope, "stop"), _name(scope, "end")
        at = index_text(scope, row).text
        return [
            # Needed even if space ends here: the next call begins at the bound of the rows before this one.
            *_rows_without_entries(scope, at),
            f"if ({stop} >= 0 || {space}[1] - {end} < {_columns(scope)}) {{",
            *indented([f"{stop} = {stop} < 0 ? {at} : {stop};", "break;"]),
            "}",
            *_begin_row(scope),
        ]

    return (
        [
            f"int64_t {begin} = {first};",
            f"while ({begin} < {last} && {skipped}) {{",
            f"    {begin}++;",
            "}",
        ],
        begin,
        begins,
    )


def _begin_row(scope: TextScope) -> Lines:
    """Declare the position of the row's first entry for a workspace with places, or a flag for one with bits."""
    assembled = _assembled(scope)
    lines = [f"const int64_t {_name(scope, 'first')} = {_name(scope, 'end')};"] if assembled.has_places else []
    return [*lines, f"int {_name(scope, 'stored')} = 0;"] if assembled.has_bits else lines


def gather(scope: TextScope, statement: ln.Gather) -> Lines:
    """End a row: store its entries from the workspace, if there is one, and the bound of the row."""
    if statement.row is None:
        return []  # `_counted` ends all rows
    row = index_text(scope, statement.row)
    if _assembled(scope).parallel:
        return _end_parallel_row(scope, statement, Text(row.text, SUM).at(SUM))
    done, end = _name(scope, "done"), _name(scope, "end")
    lines: Lines = []
    if statement.kind == "gathered":
        lines += _dropped(scope, end) if _assembled(scope).has_places else _from_row(scope, end)
    return [*lines, f"{done} = {Text(row.text, SUM).at(SUM)} + 1;", _bound(scope, done, end)]


def _from_row(scope: TextScope, end: str) -> Lines:
    return [f"if ({_name(scope, 'stored')}) {{", *indented(_from_bits(scope, end)), "}"]


def _from_bits(scope: TextScope, end: str) -> Lines:
    """Store the columns of the workspace and their values, in order, or count them, and empty the workspace."""
    crd, values, work = _name(scope, "crd"), _values(scope), _name(scope, "work")
    bits, words = _name(scope, "bits"), _name(scope, "words")
    (group, groups, rest, word, held, column), inside = _local(
        scope, "group", "groups", "rest", "word", "held", "column"
    )
    eight = " | ".join(f"{words}[{group} + {number}]" for number in range(8))
    stored = [f"{crd}[{end}] = {_as_column(inside, column)};", f"{values}[{end}++] = {work}[{column}];"]
    if _assembled(scope).counts:
        stored = [f"{end}++;"]
    if _drops(scope):
        stored = [f"if ({_nonzero(scope, f'{work}[{column}]')}) {{", *indented(stored), "}"]
    # A word whose bit is set has bits, so the inner loop runs at least once.
    in_word = [
        "do {",
        f"    const int64_t {column} = 64 * {word} + __builtin_ctzll({held});",
        *indented([*stored, f"{work}[{column}] = 0;"]),
        f"    {held} &= {held} - 1;",
        f"}} while ({held} != 0);",
    ]
    if _only_counts(scope):
        in_word = [f"{end} += __builtin_popcountll({held});"]
    return [
        f"const int64_t {groups} = ({_columns(scope)} + 4095) / 4096;",
        f"for (int64_t {group} = 0; {group} < {groups}; {group}++) {{",
        f"    {WORD} {rest} = {words}[{group}];",
        f"    if ({rest} == 0 && {groups} > 64) {{",
        f"        while ({group} + 8 < {groups} && !({eight})) {{",
        f"            {group} += 8;",
        "        }",
        f"        {rest} = {words}[{group}];",
        "    }",
        f"    {words}[{group}] = 0;",
        f"    for (; {rest} != 0; {rest} &= {rest} - 1) {{",
        f"        const int64_t {word} = 64 * {group} + __builtin_ctzll({rest});",
        f"        {WORD} {held} = {bits}[{word}];",
        f"        {bits}[{word}] = 0;",
        *indented(indented(in_word)),
        "    }",
        "}",
    ]


def _only_counts(scope: TextScope) -> bool:
    """Return whether entries of parallel rows are counted, without their values."""
    return _assembled(scope).parallel and _assembled(scope).counts


def _drops(scope: TextScope) -> bool:
    """Return whether zeros are dropped before they are stored; those of parallel rows are dropped at the end."""
    return not _assembled(scope).assembly.zeros and not _assembled(scope).parallel


def _dropped(scope: TextScope, end: str) -> Lines:
    """Drop the entries of a row whose value is zero, if zeros are not stored."""
    if _assembled(scope).assembly.zeros:
        return []
    crd, values, first = _name(scope, "crd"), _values(scope), _name(scope, "first")
    (kept, at), _ = _local(scope, "kept", "at")
    # The next row begins at or before the positions of dropped entries, so these must be reset to be outdated.
    outdated = [f"{_name(scope, 'place')}[{crd}[{at}]] = -1;"] if _assembled(scope).has_places else []
    return [
        f"int64_t {kept} = {first};",
        f"for (int64_t {at} = {first}; {at} < {end}; {at}++) {{",
        *indented(
            [
                *outdated,
                f"if ({_nonzero(scope, f'{values}[{at}]')}) {{",
                f"    {crd}[{kept}] = {crd}[{at}];",
                f"    {values}[{kept}++] = {values}[{at}];",
                "}",
            ]
        ),
        "}",
        f"{end} = {kept};",
    ]


def _local(scope: TextScope, *hints: str) -> tuple[list[str], TextScope]:
    names = []
    for hint in hints:
        name, scope = scope.bind(("assembly", "local", hint), hint)
        names.append(name)
    return names, scope


def _values(scope: TextScope) -> str:
    return scope.name(_assembled(scope).output)


def _nonzero(scope: TextScope, value: str) -> str:
    """Return the condition that a value is not zero. A 16-bit negative zero has bits other than zero."""
    return conversion(Text(value), _assembled(scope).dtype, BOOL).text


def _as_column(scope: TextScope, column: str) -> str:
    return f"({C_TYPES[_assembled(scope).assembly.column_dtype]}){column}"


# -- parallel rows ----------------------------------------------------------------------------------------------------


def _parallel(scope: TextScope, nest: ln.LoopNest, printed: Callable[[TextScope], Lines]) -> Lines:
    """Print the loops twice: to count the entries of each row, and to store them where they begin.

    Between the two, `space` requests arrays of exactly this size. Each thread has a part of the workspace.
    """
    for role in WORKSPACE:
        _, scope = scope.bind(("assembly", f"own {role}"), f"own_{role}")
    pos, space, total = _name(scope, "pos"), _name(scope, "space"), _name(scope, "total")
    rows = index_text(scope, number_of_rows(nest)).at(SUM)
    (row,), inside = _local(scope, "row")
    count = [
        f"int64_t {total} = 0;",
        f"memset({pos}, 0, ({rows} + 1) * sizeof *{pos});",
        *printed(scope.counting()),
        f"for (int64_t {row} = 0; {row} < {rows}; {row}++) {{",
        *indented([f"{total} += {pos}[{row} + 1];", _bound(inside, f"{row} + 1", total)]),
        "}",
        f"if ({total} > {space}[1]) {{",
        *indented([f"{space}[0] = 1;", f"{space}[1] = {total};", "return OUT_OF_SPACE;"]),
        "}",
    ]
    return [f"if ({space}[0] == 0) {{", *indented(count), "}", *printed(scope), *_combined(scope, rows)]


def _begin_parallel_row(row: Index, scope: TextScope) -> Lines:
    """Declare the position of the row's first entry (0 while entries are counted), and the thread's workspace."""
    assembled, end = _assembled(scope), _name(scope, "end")
    first = "0" if assembled.counts else f"{_name(scope, 'pos')}[{index_text(scope, row).text}]"
    lines = [f"int64_t {end} = {first};", *([f"int {_name(scope, 'stored')} = 0;"] if assembled.has_bits else [])]
    if assembled.has_bits:
        words = f"({_columns(scope)} + 63) / 64"
        lengths = {"work": _columns(scope), "bits": words, "words": f"({words} + 63) / 64"}
        kinds = {"work": C_TYPES[assembled.dtype], "bits": WORD, "words": WORD}
        lines += [
            f"{kinds[role]} *const {_name(scope, role)} = {scope.name(('assembly', role))}"
            f" + omp_get_thread_num() * ({lengths[role]});"
            for role in WORKSPACE
        ]
    return lines


def _end_parallel_row(scope: TextScope, statement: ln.Gather, row: str) -> Lines:
    """Store the entries of a row from the workspace, if there is one, or the number of entries."""
    end = _name(scope, "end")
    lines = _from_row(scope, end) if statement.kind == "gathered" else []
    return [*lines, _bound(scope, f"{row} + 1", end)] if _assembled(scope).counts else lines


# -- stores -----------------------------------------------------------------------------------------------------------


def store(scope: TextScope, statement: ln.Assign | ln.Accumulate) -> Lines | None:
    """Print a store to an assembled output; None for a store elsewhere."""
    assembled, target = scope.assembled, statement.target
    if assembled is None or not isinstance(target, ln.Cell) or ln.key(target.buffer) != assembled.output:
        return None
    # Folds by other operators have a buffer.
    assert isinstance(statement, ln.Assign) or statement.op in ("add", "sub")
    if assembled.kind == "counted" and assembled.counts:
        return _count(scope, target)
    (column,), inside = _local(scope, "column")
    at, value = _column_text(scope, target), _signed(scope, statement)
    match assembled.kind:
        case "counted":
            return _store_in_any_order(scope, target, at, value)
        case "appended" | "union":
            return _appended(scope, Text(at, SUM), value)
        case "gathered":
            pass
    declared = f"const int64_t {column} = {at};"
    if assembled.has_places:
        lines = _placed(inside, column, value.text)
    else:
        lines = _marked(inside, column, "=" if isinstance(statement, ln.Assign) else "+=", value.text)
        lines.append(f"{_name(scope, 'stored')} = 1;")
    return ["{", *indented([declared, *lines]), "}"]


def _column_text(scope: TextScope, cell: ln.Cell) -> str:
    return address_text(scope, column_pairs(cell.pairs, _assembled(scope).assembly)).text


def _signed(scope: TextScope, statement: ln.Assign | ln.Accumulate) -> Text:
    """Return the value that a store adds or assigns. In strict code, an entry to which -0 is added first is 0."""
    dtype = statement.value.dtype
    if scope.in_order and isinstance(statement, ln.Accumulate) and dtype in FLOATS:
        return scalar_text(scope, ln.Apply(statement.op, (ln.Number(0, dtype), statement.value), dtype))
    value = scalar_text(scope, statement.value)
    subtracted = isinstance(statement, ln.Accumulate) and statement.op == "sub"
    return applied("neg", [value], dtype) if subtracted else value


def _appended(scope: TextScope, column: Text, value: Text) -> Lines:
    crd, values, end = _name(scope, "crd"), _values(scope), _name(scope, "end")
    cast = _as_column(scope, column.at(UNARY))
    counts = _assembled(scope).counts
    if not _drops(scope):
        return [f"{end}++;"] if counts else [f"{crd}[{end}] = {cast};", f"{values}[{end}++] = {value.text};"]
    (new,), _ = _local(scope, "value")
    kind = C_TYPES[_assembled(scope).dtype]
    stored = [f"{crd}[{end}] = {cast};", f"{values}[{end}++] = {new};"]
    lines = [f"const {kind} {new} = {value.text};", f"if ({_nonzero(scope, new)}) {{", *indented(stored), "}"]
    return ["{", *indented(lines), "}"]


def _marked(scope: TextScope, column: str, operator: str, value: str) -> Lines:
    """Store to the workspace of a sorted row, which is zero between rows, and set the bits of the column.

    A test whether the bit is set already would be mispredicted often.
    """
    work, bits, words = (_name(scope, role) for role in WORKSPACE)
    stored = [] if _only_counts(scope) else [f"{work}[{column}] {operator} {value};"]
    return [
        *stored,
        f"{bits}[{column} >> 6] |= UINT64_C(1) << ({column} & 63);",
        f"{words}[{column} >> 12] |= UINT64_C(1) << ({column} >> 6 & 63);",
    ]


def _placed(scope: TextScope, column: str, value: str) -> Lines:
    """Store to the entry of a column in an unsorted row, which is new if its position is before the row.

    It is not new if a value is added to it.
    """
    place, first, end = (_name(scope, role) for role in ("place", "first", "end"))
    kind = C_TYPES[_assembled(scope).assembly.index_dtype]
    return [
        f"if ({place}[{column}] < {first}) {{",
        f"    {place}[{column}] = ({kind}){end};",
        *indented([f"{_name(scope, 'crd')}[{end}] = {_as_column(scope, column)};"]),
        f"    {_values(scope)}[{end}++] = {value};",
        "} else {",
        f"    {_values(scope)}[{place}[{column}]] += {value};",
        "}",
    ]


# -- unions -----------------------------------------------------------------------------------------------------------


def merged_loops(scope: TextScope, block: ln.Block) -> tuple[ln.For, ln.For] | None:
    """Return the first two loops of a block if they store the entries of a row that is their union."""
    assembled = scope.assembled
    if assembled is None or assembled.kind != "union" or len(block) < 2:
        return None
    one, other = block[:2]
    if not isinstance(one, ln.For) or not isinstance(other, ln.For):
        return None
    stored = all(
        len(loop.body) == 1
        and isinstance(store := loop.body[0], ln.Assign | ln.Accumulate)
        and isinstance(store.target, ln.Cell)
        and ln.key(store.target.buffer) == assembled.output
        for loop in (one, other)
    )
    return (one, other) if stored else None


def union(scope: TextScope, one: ln.For, other: ln.For) -> Lines:
    """Print two loops with increasing columns as a merge: an entry that both of them store is their sum."""
    heads: Lines = []
    positions: list[str] = []
    lasts: list[str] = []
    scopes: list[TextScope] = []
    for loop in (one, other):
        ends, first, last = loop_bounds(scope, loop)
        name, inside = scope.bind(loop.variable, loop.variable.name)
        while name in positions:
            name, inside = inside.bind(loop.variable, f"{name}_")
        heads += [*ends, f"int64_t {name} = {first};"]
        positions.append(name)
        lasts.append(last)
        scopes.append(inside.under(loop.range))
    stores = [loop.body[0] for loop in (one, other)]
    columns, values = [], []
    for inside, each in zip(scopes, stores, strict=True):
        assert isinstance(each, ln.Assign | ln.Accumulate)
        assert isinstance(each.target, ln.Cell)
        columns.append(_column_text(inside, each.target))
        values.append(_signed(inside, each))
    (left, right), inner = _local(scope, f"{positions[0]}_column", f"{positions[1]}_column")
    (p, q), (p_end, q_end) = positions, lasts
    total = applied("add", values, _assembled(scope).dtype)
    # Most rows have runs of columns of one operand. Branches are then faster than conditional moves.
    both = [
        f"const int64_t {left} = {columns[0]}, {right} = {columns[1]};",
        f"if ({left} < {right}) {{",
        *indented([*_appended(inner, Text(left), values[0]), f"{p}++;"]),
        f"}} else if ({right} < {left}) {{",
        *indented([*_appended(inner, Text(right), values[1]), f"{q}++;"]),
        "} else {",
        *indented([*_appended(inner, Text(left), total), f"{p}++;", f"{q}++;"]),
        "}",
    ]
    lines = [*heads, f"while ({p} < {p_end} && {q} < {q_end}) {{", *indented(both), "}"]
    for name, last, at, new in zip(positions, lasts, columns, values, strict=True):
        lines += [f"for (; {name} < {last}; {name}++) {{", *indented(_appended(inner, Text(at, SUM), new)), "}"]
    return ["{", *indented(lines), "}"]


# -- counted rows -----------------------------------------------------------------------------------------------------


def _counted(scope: TextScope, nest: ln.LoopNest, printed: Callable[[TextScope], Lines]) -> Lines:
    """Print the loops twice: to count the stores to each row, and to store the entries."""
    assembled = _assembled(scope)
    pos, space, total = _name(scope, "pos"), _name(scope, "space"), _name(scope, "total")
    rows = index_text(scope, number_of_rows(nest)).at(SUM)
    (row, ends, summed), inside = _local(scope, "row", "row_ends", "summed")
    kind = C_TYPES[assembled.assembly.index_dtype]
    count = [
        f"int64_t {total} = 0;",
        f"memset({pos}, 0, ({rows} + 2) * sizeof *{pos});",
        *printed(scope.counting()),
        f"if ({total} > {space}[1]) {{",
        *indented([f"{space}[0] = 1;", f"{space}[1] = {total};", "return OUT_OF_SPACE;"]),
        "}",
    ]
    sums = [
        f"{kind} {summed} = {ends}[0];",
        f"for (int64_t {row} = 0; {row} < {rows}; {row}++) {{",
        f"    {ends}[{row} + 1] = {summed} += {ends}[{row} + 1];",
        "}",
    ]
    array = _array_of_rows(nest)
    scattered: Lines = []
    if array is not None:
        ahead, inside = inside.bind(("assembly", "ahead", array), "ahead")
        called = f"is_scattered_{array.dtype}({scope.name(array.name)}, {index_text(scope, array.shape[0]).text})"
        scattered = [f"const int {ahead} = {called};"]
    return [
        f"{kind} *const {ends} = {pos} + 1;",
        f"if ({space}[0] == 0) {{",
        *indented(count),
        "}",
        *sums,
        *scattered,
        *printed(inside),
        *_combined(inside, rows),
    ]


def _array_of_rows(nest: ln.LoopNest) -> Array | None:
    """Return the array whose elements are the rows of some store, if all its elements are numbers of rows."""
    assembly, rows = assembly_of(nest), number_of_rows(nest)
    found = (_row_read(row_of(cell.pairs, assembly)) for cell in stores(nest.body, nest.output))
    arrays = (read.array for read in found if read is not None)
    return next((array for array in arrays if (array.low, array.high) == (ZERO, rows)), None)


def _row_read(row: Index) -> Read | None:
    """Return a row that is an element of an array, at the position of a loop."""
    read = row.atom
    return read if isinstance(read, Read) and len(read.indices) == 1 and isinstance(read.indices[0].atom, Var) else None


def _prefetched(scope: TextScope, row: Index) -> Lines:
    """Prefetch the entries that a later iteration stores if its row is far from this one."""
    read = _row_read(row)
    if read is None or ("assembly", "ahead", read.array) not in scope.names.of:
        return []
    assembled = _assembled(scope)
    (at,), inside = _local(scope, "next")
    later = read_element(read.array, (read.indices[0] + AHEAD,))
    ahead, last = scope.name(("assembly", "ahead", read.array)), index_text(scope, read.array.shape[0]).at(COMPARISON)
    ends = f"{_name(scope, 'pos')}[{index_text(scope, later).at(SUM)} + 1]"
    return [
        f"if ({ahead} && {index_text(scope, read.indices[0] + AHEAD).at(COMPARISON)} < {last}) {{",
        f"    const {C_TYPES[assembled.assembly.index_dtype]} {at} = {ends};",
        f"    __builtin_prefetch({_name(inside, 'crd')} + {at}, 1);",
        f"    __builtin_prefetch({_values(inside)} + {at}, 1);",
        "}",
    ]


def coalesced_count(scope: TextScope, loop: ln.For, nested: Lines) -> Lines:
    """Print the counts of the stores in all segments of a loop as one loop, if that is possible.

    Rows must not depend on the segment. A test during the call finds whether each segment begins where the one before
    it ends: then their lengths, without negative ones, add up to the length of the whole. Otherwise the `nested` loops
    run. They take twice as long if segments are short.

    if (0 < n) {
        int64_t lengths = 0;
        for (int64_t i = 0; i < n; i++) {
            lengths += max_int64(0, A_pos[i + 1] - A_pos[i]);
        }
        if (lengths == A_pos[n] - A_pos[0]) {
            #pragma GCC unroll 4
            for (int64_t p = A_pos[0]; p < A_pos[n]; p++) {…}
        } else {…}
    }
    """
    found = _segment_store(scope, loop)
    if found is None:
        return nested
    segment, cell = found
    (lengths,), local = _local(scope, "lengths")
    name, inside = local.bind(loop.variable, loop.variable.name)
    inside = inside.under(loop.range)
    first, last = index_text(local, loop.low).text, index_text(local, loop.high).text
    length = index_text(inside, segment.high - segment.low).text
    begin = ln.index_at(segment.low, loop.variable, loop.low)
    end = ln.index_at(segment.high, loop.variable, loop.high - ONE)
    position, within = local.bind(segment.variable, segment.variable.name)
    bounds = index_text(local, begin).text, index_text(local, end).text
    return [
        f"if ({first} < {last}) {{",
        *indented(
            [
                f"int64_t {lengths} = 0;",
                f"for (int64_t {name} = {first}; {name} < {last}; {name}++) {{",
                f"    {lengths} += max_int64(0, {length});",
                "}",
                f"if ({lengths} == {index_text(local, end - begin).text}) {{",
                *indented(
                    [
                        UNROLLED,
                        f"for (int64_t {position} = {bounds[0]}; {position} < {bounds[1]}; {position}++) {{",
                        *indented(_count(within.under(segment.range), cell)),
                        "}",
                    ]
                ),
                "} else {",
                *indented(nested),
                "}",
            ]
        ),
        "}",
    ]


def _segment_store(scope: TextScope, loop: ln.For) -> tuple[ln.For, ln.Cell] | None:
    """Return the loop over segments that is the body of a loop, and the cell that it stores.

    None if no loop has this form, or if the row of the cell depends on the outer loop.
    """
    assembled = scope.assembled
    if assembled is None or not assembled.counts:
        return None
    match loop.body:
        case (ln.For(body=(ln.Assign(ln.Cell() as cell) | ln.Accumulate(ln.Cell() as cell),)) as segment,) if (
            segment in segments(loop, scope.tiles)
            and ln.key(cell.buffer) == assembled.output
            and loop.variable.uid not in row_of(cell.pairs, assembled.assembly).free
        ):
            return segment, cell
    return None


def _count(scope: TextScope, cell: ln.Cell) -> Lines:
    row = index_text(scope, row_of(cell.pairs, _assembled(scope).assembly)).at(SUM)
    return [f"{_name(scope, 'pos')}[{row} + 2]++;", f"{_name(scope, 'total')}++;"]


def _store_in_any_order(scope: TextScope, cell: ln.Cell, column: str, value: Text) -> Lines:
    assembled = _assembled(scope)
    found = row_of(cell.pairs, assembled.assembly)
    row = index_text(scope, found)
    (at,), inside = _local(scope, "at")
    kind = C_TYPES[assembled.assembly.index_dtype]
    ends = _name(scope, "pos")
    lines = [
        *_prefetched(scope, found),
        f"const {kind} {at} = {ends}[{Text(row.text, SUM).at(SUM)} + 1]++;",
        f"{_name(scope, 'crd')}[{at}] = {_as_column(inside, Text(column, SUM).at(UNARY))};",
        f"{_values(scope)}[{at}] = {value.text};",
    ]
    return ["{", *indented(lines), "}"]


def _inserted(scope: TextScope, begin: str, last: str) -> Lines:
    """Sort the entries of a short row by insertion, and sum those of one column in the order of the stores.

    The lines end with the beginning of the alternative for longer rows.
    """
    crd, values, end, first = _name(scope, "crd"), _values(scope), _name(scope, "end"), _name(scope, "first")
    (count, at, column, value, slot, moved), inside = _local(scope, "count", "at", "column", "value", "slot", "moved")
    of_column, of_value = C_TYPES[_assembled(scope).assembly.column_dtype], C_TYPES[_assembled(scope).dtype]
    return [
        f"const int64_t {count} = {last} - {begin};",
        f"if ({count} * {count} < ({_columns(scope)} + 4095) / 4096) {{",
        f"    const int64_t {first} = {end};",
        f"    for (int64_t {at} = {begin}; {at} < {last}; {at}++) {{",
        f"        const {of_column} {column} = {crd}[{at}];",
        f"        const {of_value} {value} = {values}[{at}];",
        f"        int64_t {slot} = {end};",
        f"        while ({slot} > {first} && {crd}[{slot} - 1] > {column}) {slot}--;",
        f"        if ({slot} > {first} && {crd}[{slot} - 1] == {column}) {{",
        f"            {values}[{slot} - 1] += {value};",
        "            continue;",
        "        }",
        f"        for (int64_t {moved} = {end}++; {moved} > {slot}; {moved}--) {{",
        f"            {crd}[{moved}] = {crd}[{moved} - 1];",
        f"            {values}[{moved}] = {values}[{moved} - 1];",
        "        }",
        f"        {crd}[{slot}] = {column};",
        f"        {values}[{slot}] = {value};",
        "    }",
        *indented(_dropped(inside, end)),
        "} else {",
    ]


def _combined(scope: TextScope, rows: str) -> Lines:
    """Sum the stores to each element of counted rows, sort them if necessary, and drop zeros if required.

    Parallel rows have one store to each element, in order.
    """
    assembled = _assembled(scope)
    repeats = "none" if assembled.parallel else assembled.repeats
    if repeats == "none" and assembled.assembly.zeros:
        return []
    pos, crd, values = _name(scope, "pos"), _name(scope, "crd"), _values(scope)
    end, first = _name(scope, "end"), _name(scope, "first")
    (row, begin, last, at), inside = _local(scope, "row", "begin", "last", "at")
    moved = [f"{crd}[{end}] = {crd}[{at}];", f"{values}[{end}++] = {values}[{at}];"]
    after: Lines = []
    before: Lines = []
    match repeats:
        case "any":
            (column,), local = _local(inside, "column")
            stored = [
                f"const int64_t {column} = {crd}[{at}];",
                *_marked(local, column, "+=", f"{values}[{at}]"),
            ]
            before, after = _inserted(inside, begin, last), _from_bits(inside, end)
        case "none":
            stored = [f"if ({_nonzero(scope, f'{values}[{at}]')}) {{", *indented(moved), "}"]
        case "adjacent":
            stored = [
                f"if ({end} > {first} && {crd}[{end} - 1] == {crd}[{at}]) {{",
                f"    {values}[{end} - 1] += {values}[{at}];",
                "} else {",
                *indented(moved),
                "}",
            ]
            after = _dropped(inside, end)
        case _:
            assert_never(repeats)
    summed = [f"for (int64_t {at} = {begin}; {at} < {last}; {at}++) {{", *indented(stored), "}", *after]
    body = [
        f"const int64_t {last} = {pos}[{row} + 1];",
        *([f"const int64_t {first} = {end};"] if repeats == "adjacent" else []),
        *([*before, *indented(summed), "}"] if before else summed),
        _bound(scope, f"{row} + 1", end),
        f"{begin} = {last};",
    ]
    return [
        f"int64_t {end} = 0, {begin} = 0;",
        f"for (int64_t {row} = 0; {row} < {rows}; {row}++) {{",
        *indented(body),
        "}",
    ]
