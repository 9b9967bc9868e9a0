"""Declaration, allocation and release of a function's buffers, with sizes that cannot wrap to a small number.

If an allocation fails, the buffers allocated so far are freed. A few are freed in place. Otherwise each has an exit at
the end of the function that falls through to the exit of the buffer before it, so that each `free` is written once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby
from math import gcd, prod
from operator import and_
from typing import Final, TypeAlias, assert_never

from atl.core.index import ONE, ZERO, AnyAtom, Index, Monomial, constant, index, polynomial
from atl.core.marks import LoopMark
from atl.core.predicate import equal, less
from lowering.c.index import address_text, index_text, predicate_text
from lowering.c.loops import has_heap_buffers
from lowering.c.scalars import C_TYPES
from lowering.c.text import PRODUCT, SUM, Text, indented
from lowering.nest import loopnest as ln
from lowering.nest import tiles
from lowering.nest.text import TextScope

MAX_INLINE_FREES: Final = 2
"""Largest number of buffers that are freed in place after a failed allocation."""

MAX_UNCHECKED: Final = 2**40
"""Largest constant number of elements that is multiplied by their size without an overflow check."""
MAX_COEFFICIENTS: Final = 64
"""Linear expressions with this sum of coefficients cannot overflow, since sizes are at most 2^56."""

Live: TypeAlias = tuple[ln.Buffer, ...]
"""The allocated buffers on the heap, oldest first."""


@dataclass(frozen=True, slots=True)
class Heap:
    """The buffers on the heap at a place, and the labels of the function's error exits.

    The exit at the label of some buffers frees them, the last one first. Buffers in `declared` are freed at an exit, so
    they are declared at the beginning of the function. In an iteration of a parallel loop, which cannot leave the
    function, `failed` is the variable that records a failed allocation.
    """

    labels: Mapping[Live, str]
    declared: frozenset[ln.Buffer]
    live: Live = ()
    failed: str = ""

    def __contains__(self, buffer: ln.Buffer) -> bool:
        return buffer in self.live

    def with_buffers(self, *buffers: ln.Buffer) -> Heap:
        return replace(self, live=(*self.live, *buffers))

    def without(self, buffer: ln.Buffer) -> Heap:
        return replace(self, live=_without(self.live, buffer))


def is_on_heap(statement: object) -> bool:
    """Check for an allocation on the heap."""
    return isinstance(statement, ln.Allocate) and statement.storage == "heap"


def _at_allocations(block: ln.Block, live: Live) -> Iterator[Live]:
    """Yield the live buffers at each allocation; consecutive allocations count as one."""
    for is_group, group in groupby(block, is_on_heap):
        if is_group:
            yield live
            live += tuple(statement.buffer for statement in group if isinstance(statement, ln.Allocate))
            continue
        for statement in group:
            match statement:
                case ln.Free(buffer):
                    live = _without(live, buffer)
                case ln.For(mark=LoopMark.PARALLEL) if has_heap_buffers(statement):
                    yield live  # the exit is after the loop
                case ln.For(body=body) | ln.If(body=body):
                    yield from _at_allocations(body, live)
                case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Gather():
                    pass
                case _:
                    assert_never(statement)


def _without(live: Live, buffer: ln.Buffer) -> Live:
    return tuple(other for other in live if other != buffer)


# -- text -------------------------------------------------------------------------------------------------------------


def initial_heap(scope: TextScope, nest: ln.LoopNest) -> tuple[TextScope, Heap, list[str]]:
    """Return the heap at the beginning of a nest's function, and declarations of buffers freed at its end."""
    names: dict[str, list[str]] = {}
    declared: set[ln.Buffer] = set()
    taken: Counter[str] = Counter()
    labels: dict[Live, str] = {}
    for live in _at_allocations(nest.body, ()):
        if len(live) <= MAX_INLINE_FREES or live in labels:
            continue
        for buffer in live:
            if buffer not in declared:
                declared.add(buffer)
                name, scope = scope.bind(ln.key(buffer), buffer.name)
                names.setdefault(C_TYPES[buffer.dtype], []).append(f"*restrict {name}")
        name = f"free_{scope.name(ln.key(live[-1]))}"
        taken[name] += 1
        labels[live] = f"{name}_{taken[name]}_" if taken[name] > 1 else name
    return scope, Heap(labels, frozenset(declared)), [f"{kind} {', '.join(of)};" for kind, of in names.items()]


def error_exits(scope: TextScope, heap: Heap) -> list[str]:
    """Return the labelled error exits after the function's return, which free buffers after a failed allocation."""
    lines: list[str] = []
    written: set[Live] = set()
    for start in sorted(heap.labels, key=len, reverse=True):
        if start in written:
            continue
        live = start
        while live and live not in written:
            label = [f"{heap.labels[live]}:"] if live in heap.labels else []
            lines += [*label, *indented([f"free({scope.name(ln.key(live[-1]))});"])]
            written |= {live} & heap.labels.keys()
            live = live[:-1]
        lines += indented([f"goto {heap.labels[live]};" if live else "return OUT_OF_MEMORY;"])
    return lines


def allocate(scope: TextScope, heap: Heap, group: list[ln.Allocate]) -> tuple[TextScope, Heap, list[str]]:
    """Allocate buffers on the heap, and leave the function if that fails."""
    scope, inside, lines, failed = allocate_checked(scope, heap, group)
    return scope, inside, [*lines, *failed]


def allocate_checked(
    scope: TextScope, heap: Heap, group: list[ln.Allocate]
) -> tuple[TextScope, Heap, list[str], list[str]]:
    """Allocate buffers on the heap; return the lines that allocate, and those that handle a failure."""
    before = scope
    lines: list[str] = []
    made: list[str] = []
    for statement in group:
        buffer = statement.buffer
        if buffer in heap.declared:
            name, inside, kind = scope.name(ln.key(buffer)), scope, ""
        else:
            name, inside = scope.bind(ln.key(buffer), buffer.name)
            kind = f"{C_TYPES[buffer.dtype]} *restrict "
        lines.append(f"{kind}{name} = {allocation(scope, statement, f'sizeof *{name}')};")
        scope = inside
        made.append(name)
    allocated = [f"free({name});" for name in reversed(made)] if len(made) > 1 else []
    failed = [f"if ({' || '.join(f'{name} == NULL' for name in made)}) {{"]
    failed += indented([*allocated, *failure(before, heap)])
    return scope, heap.with_buffers(*(statement.buffer for statement in group)), lines, [*failed, "}"]


def failure(scope: TextScope, heap: Heap) -> list[str]:
    """Return the lines that handle a failed allocation: they free the live buffers and leave the function.

    In an iteration of a parallel loop, the failure is recorded, and the rest of the iteration is skipped.
    """
    if heap.failed:
        return [f"{heap.failed} = 1;"]
    if heap.live in heap.labels:
        return [f"goto {heap.labels[heap.live]};"]
    return [*(f"free({scope.name(ln.key(buffer))});" for buffer in reversed(heap.live)), "return OUT_OF_MEMORY;"]


def pointers_to_rows(scope: TextScope, start: ln.Clear, rest: ln.Block) -> tuple[TextScope, list[str]]:
    """Declare pointers to the rows of a circular buffer that the statements after the start of a row access.

    Different pointers access different rows, so that a compiler need not test whether they overlap. There are none
    unless it is known which of the rows in the buffer each access is to.
    """
    buffer, row = start.buffer, start.row
    lines: list[str] = []
    external = _external(scope, buffer)
    if row is None or buffer.rows < 2 or len(buffer.extents) < 2 or not (row.free or external):
        return scope, lines
    accessed = [(cell, stored) for cell, stored in tiles.cells_of(rest) if cell.buffer == buffer]
    if not row.free:
        accessed = [(cell, stored) for cell, stored in accessed if cell.pairs[0][0] == row]
    distances = {(row - cell.pairs[0][0]).constant for cell, _ in accessed}
    if not accessed or any(distance not in range(buffer.rows) for distance in distances):
        return scope, lines
    stored = {cell.pairs[0][0] for cell, is_stored in accessed if is_stored}
    whole = scope.name(ln.key(buffer))
    for at in sorted((cell.pairs[0][0] for cell, _ in accessed), key=lambda at: (row - at).constant or 0):
        if ln.row_key(buffer, at) in scope.names.of:
            continue
        zeros = tuple((ZERO, extent) for extent in buffer.extents[1:])
        first = address_text(scope, ln.Cell(buffer, ((at, buffer.extents[0]), *zeros)).memory_pairs)
        begins = f"&{whole}[{first.text}]"
        if external is not None:
            begins = _external_row(scope, external, at, stored=at in stored)
        name, scope = scope.bind(ln.row_key(buffer, at), f"{whole}_row")
        constant = "" if at in stored else "const "
        # The pointer to a first row is in scope where other pointers access that row.
        restrict = "restrict " if row.free else ""
        lines.append(f"{constant}{C_TYPES[buffer.dtype]} *{restrict}{name} = {begins};")
    return scope, lines


# -- rows in the arrays of a call -------------------------------------------------------------------------------------


def without_external_copies(nest: ln.LoopNest) -> ln.LoopNest:
    """Return the statements that C runs if rows of a circular buffer are in the arrays of a call.

    The buffer has one row less. Nothing is copied, unless the last row is row 0 and that is an input.
    """
    rows = nest.external_rows
    if rows is None:
        return nest
    less_by_one = replace(rows.buffer, rows=rows.buffer.rows - 1)
    body: list[ln.Statement] = []
    for statement in nest.body:
        if isinstance(statement, ln.Allocate) and statement.buffer == rows.buffer:
            capacity = ln.elements(less_by_one.allocated_extents)
            body.append(replace(statement, buffer=less_by_one, capacity=capacity))
        elif isinstance(statement, ln.Free) and statement.buffer == rows.buffer:
            body.append(ln.Free(less_by_one))
        elif statement == rows.copy_out:
            body += [] if rows.first is None else [ln.If(less(rows.last, ONE), (statement,))]
        elif statement != rows.copy_in:
            body.append(statement)
    return replace(nest, body=tuple(body))


def with_external_names(scope: TextScope) -> TextScope:
    """Return the scope in which the last row has the name of the input where it is row 0."""
    rows = scope.external_rows
    if rows is None or rows.first is None:
        return scope
    of = {ln.row_key(rows.buffer, rows.last): scope.name(ln.key(rows.first))}
    return replace(scope, names=replace(scope.names, of={**scope.names.of, **of}))


def _external(scope: TextScope, buffer: ln.Buffer) -> ln.ExternalRows | None:
    rows = scope.external_rows
    return rows if rows is not None and rows.buffer.uid == buffer.uid else None


def _external_row(scope: TextScope, rows: ln.ExternalRows, at: Index, *, stored: bool) -> str:
    """Return the pointer to a row: to the input, the output, or the buffer."""
    place = (rows.last - at) % rows.buffer.rows
    own = scope.name(ln.key(rows.buffer))
    if rows.buffer.rows > 2:
        own = f"&{own}[{index_text(scope, (place - 1) * ln.elements(rows.buffer.extents[1:])).text}]"
    output = scope.name(ln.key(rows.output))
    begins = f"{predicate_text(scope, equal(place, ZERO)).text} ? {output} : {own}"
    if rows.first is None or stored:
        return begins
    return f"{predicate_text(scope, less(at, ONE)).text} ? {scope.name(ln.key(rows.first))} : {begins}"


def declare_on_stack(scope: TextScope, statement: ln.Allocate) -> tuple[TextScope, list[str]]:
    """Declare a buffer as an array of the block."""
    buffer = statement.buffer
    count = statement.capacity.constant
    if count is None:
        raise AssertionError(f"the stack buffer {buffer.name} has no constant capacity")
    name, scope = scope.bind(ln.key(buffer), buffer.name)
    # C does not allow arrays of length 0.
    text = f"{C_TYPES[buffer.dtype]} {name}[{max(count, 1)}]{' = {0}' if statement.zeroed else ''};"
    return scope, [text]


# -- sizes of allocations ---------------------------------------------------------------------------------------------


def allocation(scope: TextScope, statement: ln.Allocate, size: str) -> str:
    """Return the call that allocates an aligned buffer; it requests too much, and fails, if the capacity overflows.

    `size` is the size of an element. The capacity is written as the product of the extents if it is equal to it.
    """
    texts, number = _capacity(scope, statement)
    total = f"{number} * {size}" if number != 1 else size
    if texts:
        total = f"saturating_product({_nested('saturating_product', texts).text}, {total})"
    return f"aligned_{'zeros' if statement.zeroed else 'storage'}({total})"


def _capacity(scope: TextScope, statement: ln.Allocate) -> tuple[list[Text], int]:
    """Return the factors of the capacity that depend on sizes, and the product of the constant ones."""
    factors = list(statement.buffer.allocated_extents)
    if ln.elements(statement.buffer.allocated_extents) != statement.capacity:
        factors = _factors(statement.capacity)
    number = prod(factor.constant for factor in factors if factor.constant is not None)
    texts = [_saturating(scope, factor) for factor in factors if factor.constant is None]
    if number > MAX_UNCHECKED and texts:
        return [*texts, Text(str(number))], 1
    return texts, number


def _factors(e: Index) -> list[Index]:
    """Factor out what all terms have in common: 4 * n * m - 4 * n gives n, m - 1 and 4."""
    if not e.terms:
        return [e]
    common: Counter[AnyAtom] = reduce(and_, (Counter(monomial) for monomial, _ in e.terms))
    number = gcd(*(value for _, value in e.terms))
    rest: dict[Monomial, int] = {}
    for monomial, value in e.terms:
        rest[tuple((Counter(monomial) - common).elements())] = value // number
    return [*map(index, common.elements()), polynomial(rest), constant(number)]


def _saturating(scope: TextScope, e: Index) -> Text:
    """Print a nonnegative expression that becomes very large if its terms overflow."""
    linear = all(len(monomial) <= 1 for monomial, _ in e.terms)
    if linear and sum(abs(value) for monomial, value in e.terms if monomial) <= MAX_COEFFICIENTS:
        return index_text(scope, e)
    added: list[Text] = []
    for monomial, value in e.terms:
        if value > 0:
            factors = [index_text(scope, index(atom)) for atom in monomial]
            if value > 1 or not factors:
                factors.append(Text(str(value)))
            added.append(_nested("saturating_product", factors))
    total = _nested("saturating_sum", added or [Text("0")])
    taken = polynomial({monomial: -value for monomial, value in e.terms if value < 0})
    return Text(f"{total.text} - {index_text(scope, taken).at(PRODUCT)}", SUM) if taken.terms else total


def _nested(function: str, texts: list[Text]) -> Text:
    return reduce(lambda inner, text: Text(f"{function}({inner.text}, {text.text})"), texts)
