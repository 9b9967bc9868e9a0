"""Loops whose mark changes how they run: merges, segmented reductions (`runs`) and non-temporal stores (`stream`)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final, TypeAlias, assert_never

from atl.core.dtypes import bytes_of
from atl.core.index import ZERO, Index, Monomial, Read, Var, atoms, constant, index, polynomial
from atl.core.marks import LoopMark
from atl.core.predicate import TRUE, Predicate, Zero, at_most, conjunction, conjuncts, expressions, less
from atl.core.reshape_definitions import Pairs
from atl.prove import Facts, holds
from lowering.nest import loopnest as ln
from lowering.nest.loopnest import Block, For, If, cell_at
from lowering.nest.tiles import cells_of, sources, step

# -- merges (Fig. 7.2) ------------------------------------------------------------------------------------------------
# In a nest, a merge remains nested loops with conditions, so passes and obligations need not know about it. `merge_at`
# returns how it runs. The positions, called *fingers*, advance through their ranges together; a finger with a smaller
# key than another one advances. This visits every combination of positions with equal keys exactly once if the keys
# are sorted: strictly increasing, except that those of one finger may repeat. A key has several parts, compared in
# lexicographic order, if further conditions equate arrays that are declared in such an order (`Array.after`).
#
# A nested marked loop whose range depends on a position starts a separate, inner merge: the outer one matches rows, for
# example, and the inner one their entries.


@dataclass(frozen=True, slots=True)
class Finger:
    """A loop of a merge, with the parts of the key at its position."""

    loop: For
    key: tuple[Index, ...]

    @property
    def variable(self) -> Var:
        """The position variable."""
        return self.loop.variable


@dataclass(frozen=True, slots=True)
class Merge:
    """A merge. Its body runs where all keys are equal and the conditions, tested in order, hold.

    `within` are the conditions at the body in the nest: all ranges and tests.
    """

    fingers: tuple[Finger, ...]
    conditions: tuple[Predicate, ...]
    within: tuple[Predicate, ...]
    body: Block

    @property
    def ranges(self) -> tuple[Predicate, ...]:
        """The ranges of the positions, which hold where keys are read."""
        return tuple(finger.loop.range for finger in self.fingers)


@dataclass(frozen=True, slots=True)
class NoMerge:
    """The reason why loops are not a merge, and the requirement that they violate."""

    summary: str
    required: str


ADJACENT: Final = "perfectly nested sums, apart from conditions"


def is_merge(loop: For) -> bool:
    """Return whether the loop is the outermost one of a merge of at least two positions."""
    return loop.mark is LoopMark.MERGE and len(_loops(loop)[0]) > 1


def fingers_in(loop: For) -> tuple[For, ...]:
    """Return the loops of a merge, from this one inwards; none if the loop is not marked `merge`."""
    return tuple(_loops(loop)[0]) if loop.mark is LoopMark.MERGE else ()


def merge_at(loop: For) -> Merge | NoMerge:
    """Return the merge of a marked loop and the marked loops in it."""
    loops, tests, body = _loops(loop)
    variables = {each.variable.uid for each in loops}
    for each in loops:
        moved = (each.low.free | each.high.free) & variables
        if moved:
            other = next(around.variable.name for around in loops if around.variable.uid in moved)
            return NoMerge(
                f"the range of {each.variable.name} depends on {other}", "ranges that are the same at all positions"
            )
    equations = [part for test in tests for part in conjuncts(test) if isinstance(part, Zero)]
    equations.sort(key=lambda each: max((len(read.array.leading) for read in _reads_in(each.expression)), default=0))
    keys, used = _keys([each.variable for each in loops], equations)
    left = next((each.variable.name for each in loops[1:] if each.variable not in keys), None)
    parts = [keys]
    while left is None and (further := _further_part(parts[-1], [each for each in equations if each not in used])):
        part, more = further
        parts.append(part)
        used |= more
    if left is not None:
        return NoMerge(
            f"no condition equates a key of {left} with a key of another loop",
            f"a condition [c[p] = d[q]] directly within the marked sums; {ADJACENT}",
        )
    conditions = (conjunction(part for part in conjuncts(test) if part not in used) for test in tests)
    return Merge(
        tuple(Finger(each, tuple(part[each.variable] for part in parts)) for each in loops),
        tuple(condition for condition in conditions if condition != TRUE),
        (*(each.range for each in loops), *tests),
        body,
    )


def _loops(loop: For) -> tuple[list[For], list[Predicate], Block]:
    """Return the loops of a merge and the conditions between them, from the outside inwards, and the innermost body."""
    loops, tests = [loop], []
    while True:
        block = loops[-1].body
        while len(block) == 1 and isinstance(block[0], If) and block[0].predicate != TRUE:
            tests.append(block[0].predicate)
            block = block[0].body
        inner = block[0] if len(block) == 1 else None
        if not isinstance(inner, For) or inner.mark is not LoopMark.MERGE or _begins(inner, loops):
            return loops, tests, block
        loops.append(inner)


def _begins(inner: For, around: Sequence[For]) -> bool:
    """Return whether a marked loop starts an inner merge: its range depends on a position of the outer merge."""
    return len(around) > 1 and bool((inner.low.free | inner.high.free) & {each.variable.uid for each in around})


# -- keys -------------------------------------------------------------------------------------------------------------


def _keys(variables: Sequence[Var], equations: Sequence[Zero]) -> tuple[dict[Var, Index], set[Predicate]]:
    """Return the key of each position that equations link to the first one, and the equations used."""
    keys: dict[Var, Index] = {}
    used: set[Predicate] = set()
    grown = True
    while grown and len(keys) < len(variables):
        grown = False
        for equation in equations:
            for one, another in _linking(equation.expression, variables):
                linked = equation not in used and another not in keys and (one in keys or one == variables[0])
                key = _linked(equation.expression, one, another, keys.get(one)) if linked else None
                if key is not None:
                    keys[one], keys[another] = key
                    used.add(equation)
                    grown = True
    return keys, used


def _further_part(
    before: Mapping[Var, Index], equations: Sequence[Zero]
) -> tuple[dict[Var, Index], set[Predicate]] | None:
    """Return the part of the keys that follows another one, and the equations used.

    The key of some position must be an element of an array that is declared to follow that of the part before.
    """
    leading = {variable: {read.array for read in _reads_in(key)} for variable, key in before.items()}

    def follows(variable: Var, key: Index) -> bool:
        return any(read.array.after in leading[variable] for read in _reads_in(key))

    first = [each for each in equations if any(follows(variable, each.expression) for variable in before)]
    keys, used = _keys([*before], [*first, *(each for each in equations if each not in first)])
    follow = any(follows(variable, key) for variable, key in keys.items())
    return (keys, used) if follow and len(keys) == len(before) else None


def _reads_in(expression: Index) -> list[Read]:
    return [atom for atom in atoms(expression) if isinstance(atom, Read)]


def _linking(expression: Index, variables: Sequence[Var]) -> Iterator[tuple[Var, Var]]:
    """Yield the two positions in an expression, in both orders; nothing if it contains more or fewer."""
    of = [variable for variable in variables if variable.uid in expression.free]
    if len(of) == 2:
        yield of[0], of[1]
        yield of[1], of[0]


def _linked(expression: Index, one: Var, another: Var, known: Index | None) -> tuple[Index, Index] | None:
    """Return keys of two positions that are equal where the expression is zero; that of the first may be known."""
    parts = _split(expression, one, another)
    if parts is None:
        return None
    own, other, rest = parts
    if known is None:
        # Choose the sign such that the first key increases with the element that it reads.
        known = own if own.terms[0][1] > 0 else -own
    for sign in (1, -1):
        offset = own * sign - known
        if one.uid not in offset.free:
            # own = sign * (known + offset), and own + other + rest = 0.
            return known, -(other + rest) * sign - offset
    return None


def _split(expression: Index, one: Var, another: Var) -> tuple[Index, Index, Index] | None:
    """Split the terms by the position that they contain: the first, the second, or none. None if a term has both."""
    own: dict[Monomial, int] = {}
    other: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, coefficient in expression.terms:
        free = {uid for atom in monomial for uid in atom.free}
        if one.uid in free and another.uid in free:
            return None
        into = own if one.uid in free else other if another.uid in free else rest
        into[monomial] = coefficient
    return (polynomial(own), polynomial(other), polynomial(rest) if rest else ZERO)


# -- runs -------------------------------------------------------------------------------------------------------------
# In a nest, a loop marked `runs` remains a loop that adds to a cell, so passes and obligations need not know about it.
# `runs_at` returns how it runs: the terms of a run are summed in a variable, which is added to the cell at its end.
# This is correct for any order of the keys, and faster with fewer runs.


@dataclass(frozen=True, slots=True)
class Runs:
    """A segmented reduction. The body adds to `total`, which starts at zero in each run; `last` adds it to the cell.

    A run continues while the `keys`, the indices of the cell that depend on the position, do not change. If loops
    `within` the body determine the cell, there is a total for each of their iterations, whose number is constant.
    """

    loop: ln.For
    keys: tuple[Index, ...]
    total: ln.Scalar | ln.Buffer
    body: ln.Block
    last: ln.Accumulate | ln.For
    within: tuple[ln.For, ...] = ()

    @property
    def cell(self) -> ln.Cell:
        """The cell that a run is added to, in terms of the position of one of its iterations."""
        (cell,) = (cell for cell, stored in cells_of((self.last,)) if stored)
        return cell

    @property
    def allocated(self) -> ln.Allocate:
        """The allocation of several totals."""
        assert isinstance(self.total, ln.Buffer)
        return ln.Allocate(self.total, ln.elements(self.total.extents), "stack")


@dataclass(frozen=True, slots=True)
class NoRuns:
    """The reason why a loop is not a segmented reduction, and the requirement that it violates."""

    summary: str
    required: str


MOST_TOTALS: Final = 256
"""Maximum number of elements to which a run is added: their totals are on the stack."""
ONE_ELEMENT = "a sum of terms each of which is added to one element of a tensor: Σ[p < z] place n row[p] e(p)"


def runs_at(loop: ln.For) -> Runs | NoRuns:
    """Return the segmented reduction of a loop marked `runs`."""
    assert loop.mark is LoopMark.RUNS
    own = {
        ln.key(made.buffer if isinstance(made, ln.Allocate) else made.variable)
        for made in ln.statements(loop.body)
        if isinstance(made, ln.Allocate | ln.Declare)
    }
    changed = [s for s in _changes(loop.body) if _changed(s) not in own]
    adding = changed[0] if len(changed) == 1 else None
    if (
        not isinstance(adding, ln.Accumulate)
        or not isinstance(adding.target, ln.Cell)
        or adding.op not in ("add", "sub")
    ):
        several = len(changed) > 1
        summary = "several of its statements change tensors" if several else "it does not add to an element of a tensor"
        return NoRuns(summary, ONE_ELEMENT)
    indices = [position for position, _ in adding.target.pairs]
    inner = [
        s
        for s in ln.statements(loop.body)
        if isinstance(s, ln.For) and any(s.variable.uid in position.free for position in indices)
    ]
    extents = [(each.high - each.low).constant for each in inner]
    if any(extent is None or extent < 1 for extent in extents) or prod(filter(None, extents)) > MOST_TOTALS:
        name = adding.target.buffer.name
        return NoRuns(
            f"each of its terms is added to several elements of {name}",
            f"{ONE_ELEMENT}; or to a row of at most {MOST_TOTALS} elements, whose length is constant",
        )
    if ln.accessed(adding.target) in {read for s in ln.statements(loop.body) for read in _reads(s)}:
        return NoRuns(f"it reads {adding.target.buffer.name}, to which it adds", "terms that do not depend on the sums")
    keys = tuple(dict.fromkeys(position for position in indices if loop.variable.uid in position.free))
    if not inner:
        # Loop variables and scalars share ids, so that of the position is unique.
        one = ln.Scalar(loop.variable.uid, "total", adding.value.dtype)
        last = ln.Accumulate(adding.target, "add", ln.Load(one))
        return Runs(loop, keys, one, _adding_to(loop.body, adding, one), last)
    pairs = tuple((index(each.variable) - each.low, each.high - each.low) for each in inner)
    # Other buffers have ids that are not negative.
    total = ln.Buffer(-1 - loop.variable.uid, "total", adding.value.dtype, tuple(extent for _, extent in pairs))
    cell = ln.Cell(total, pairs)
    after: ln.Accumulate | ln.For = ln.Accumulate(adding.target, "add", ln.Load(cell))
    for each in reversed(inner):
        after = ln.For(each.variable, each.low, each.high, (after,))
    return Runs(loop, keys, total, _adding_to(loop.body, adding, cell), after, tuple(inner))


def _changes(block: ln.Block) -> Iterator[ln.Assign | ln.Accumulate | ln.Clear]:
    """Return the statements that change storage."""
    return (
        statement for statement in ln.statements(block) if isinstance(statement, ln.Assign | ln.Accumulate | ln.Clear)
    )


def _changed(statement: ln.Assign | ln.Accumulate | ln.Clear) -> Hashable:
    return ln.key(statement.buffer) if isinstance(statement, ln.Clear) else ln.accessed(statement.target)


def _reads(statement: ln.Statement) -> Iterator[Hashable]:
    match statement:
        case ln.Assign(_, value) | ln.Accumulate(_, _, value):
            yield from map(ln.accessed, sources(value))
        case ln.Declare(_, initial):
            yield from map(ln.accessed, sources(initial))
        case ln.For() | ln.If() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
            return
        case _:
            assert_never(statement)


def _adding_to(block: ln.Block, adding: ln.Accumulate, total: ln.Scalar | ln.Cell) -> ln.Block:
    """Redirect the addition to the total."""
    out: list[ln.Statement] = []
    for statement in block:
        match statement:
            case ln.For(body=body) | ln.If(body=body):
                out.append(ln.with_body(statement, _adding_to(body, adding, total)))
            case ln.Accumulate() if statement is adding:
                out.append(replace(adding, target=total))
            case ln.Accumulate() | ln.Assign() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
                out.append(statement)
            case _:
                assert_never(statement)
    return tuple(out)


# -- streams ----------------------------------------------------------------------------------------------------------
# An ordinary store reads the line from memory before it changes a part of it; a non-temporal store of a whole line does
# not. In a nest, a loop marked `stream` remains a plain loop, so passes and obligations need not know about it.
# `lines_of` returns how it runs: single iterations up to the first line boundary, then the iterations of one line at a
# time, gathered in buffers, then the remaining iterations. Line boundaries depend on the address of the caller's array.


MOST_LINES: Final = 64
"""Maximum number of lines gathered at a time: a page of memory, which stays in the L1 cache."""
WITHIN: Final = (LoopMark.NONE, LoopMark.VECTOR, LoopMark.UNROLL)
"""Marks of loops that may be between a streamed loop and its stores."""


Around: TypeAlias = tuple[ln.For | ln.If, ...]
"""The loops and branches around a statement, the outermost first."""


@dataclass(frozen=True, slots=True)
class Line:
    """A store of a streamed loop, the loops and branches around it in the body, and the buffer that gathers a line."""

    store: ln.Assign
    around: Around
    buffer: ln.Buffer


@dataclass(frozen=True, slots=True)
class Stream:
    """A streamed loop as it runs: `body` gathers the iterations of a line, and then the lines are stored."""

    loop: ln.For
    first: Var
    width: int
    lines: tuple[Line, ...]
    body: ln.Block


def stream_at(loop: ln.For) -> Stream | None:
    """Return the stream of a loop that stores whole lines."""
    if not isinstance(loop.lines, ln.CacheLines):
        return None
    first, buffers = loop.lines.first, iter(loop.lines.buffers)
    lines: list[Line] = []

    def gathered(block: ln.Block, around: Around) -> ln.Block:
        out: list[ln.Statement] = []
        for statement in block:
            match statement:
                case ln.For(body=body) | ln.If(body=body):
                    out.append(ln.with_body(statement, gathered(body, (*around, statement))))
                case ln.Assign(ln.Cell() as cell) if is_stored(cell.buffer):
                    line = Line(statement, around, next(buffers))
                    lines.append(line)
                    out.append(replace(statement, target=gathered_in(line, loop.variable, first)))
                case (
                    ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather()
                ):
                    out.append(statement)
                case _:
                    assert_never(statement)
        return tuple(out)

    body = gathered(loop.body, ())
    return Stream(loop, first, loop.lines.width, tuple(lines), body)


def is_stored(buffer: ln.Buffer) -> bool:
    """Return whether a buffer is the output, to which streamed loops store."""
    return buffer.role == "output"


class _NoLinesError(Exception):
    """The exception for a loop that does not store whole lines."""

    def __init__(self, summary: str, required: str, *suggestions: str) -> None:
        super().__init__(summary)
        self.found: Final = ln.NoLines(summary, required, suggestions)


def lines_of(loop: ln.For, facts: Facts, ids: Iterator[int]) -> ln.CacheLines | ln.NoLines | None:
    """Return the cache lines of a loop marked `stream`, or the reason why it stores none.

    The result is None if the loop is proved to have fewer iterations than a line has elements. `ids` numbers new
    variables and buffers; `facts` hold around the loop.
    """
    try:
        lines = _lines_of(loop, facts, ids)
        return None if holds(facts, less(loop.high - loop.low, constant(lines.width))) else lines
    except _NoLinesError as error:
        return error.found


def _lines_of(loop: ln.For, facts: Facts, ids: Iterator[int]) -> ln.CacheLines:
    stored = _stored(loop)
    width = ln.LINE_BYTES // (bytes_of(1, stored.dtype) or ln.LINE_BYTES)
    first = Var(next(ids), "first")
    shapes = [_shape(loop, at) for at in _stores(loop.body, (), facts.assume(loop.range))]
    if sum(map(prod, shapes)) > MOST_LINES:
        raise _NoLinesError(
            f"each of its iterations stores more than {MOST_LINES} elements of {stored.name}",
            f"at most {MOST_LINES} elements in an iteration, the number of lines that are gathered at a time",
            f"tile a loop in {loop.variable.name} by s.tile(…), and move the tile loop outside by s.interchange",
        )
    return ln.CacheLines(
        first,
        width,
        tuple(ln.Buffer(next(ids), "line", stored.dtype, tuple(map(constant, (*shape, width)))) for shape in shapes),
    )


@dataclass(frozen=True, slots=True)
class _StoreSite:
    """A store: the loops and branches around it, and the facts there."""

    around: Around
    facts: Facts


def _stores(block: ln.Block, around: Around, facts: Facts) -> Iterator[_StoreSite]:
    for statement in block:
        match statement:
            case ln.For(body=body):
                yield from _stores(body, (*around, statement), facts.assume(statement.range))
            case ln.If(predicate, body):
                yield from _stores(body, (*around, statement), facts.assume(predicate))
            case ln.Assign(ln.Cell() as cell) if is_stored(cell.buffer):
                yield _StoreSite(around, facts)
            case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
                pass
            case _:
                assert_never(statement)


def _shape(loop: ln.For, at: _StoreSite) -> tuple[int, ...]:
    """Return the maximum trip count of each loop around a store."""
    for statement in at.around:
        _check(loop, statement)
    return tuple(_most(statement, at.facts) for statement in at.around if isinstance(statement, ln.For))


def _stored(loop: ln.For) -> ln.Buffer:
    """Return the buffer that the loop stores to, which must be the output."""
    own = {
        ln.key(made.buffer if isinstance(made, ln.Allocate) else made.variable)
        for made in ln.statements(loop.body)
        if isinstance(made, ln.Allocate | ln.Declare)
    }
    found: ln.Buffer | None = None
    for statement in ln.statements(loop.body):
        match statement:
            case ln.Assign(target) | ln.Accumulate(target):
                if ln.accessed(target) in own:
                    continue
                buffer = _target(loop, statement)
                if buffer != (found or buffer):
                    names = f"{(found or buffer).name} and {buffer.name}"
                    raise _NoLinesError(f"it stores to two tensors, {names}", ONE_TENSOR)
                found = buffer
            case ln.Clear(buffer) if ln.key(buffer) not in own:
                raise _NoLinesError(f"each of its iterations clears the buffer {buffer.name}", ONE_TENSOR)
            case ln.For() | ln.If() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
                pass
            case _:
                assert_never(statement)
    if found is None:
        raise _NoLinesError("it stores nothing", ONE_TENSOR)
    for statement in ln.statements(loop.body):
        if any(isinstance(read, ln.Cell) and read.buffer == found for read in _read(statement)):
            raise _NoLinesError(f"it reads elements of {found.name}, to which it stores", ONE_TENSOR)
    return found


ONE_TENSOR: Final = "a loop that stores elements of the result, each once, and does not read them"


def _target(loop: ln.For, statement: ln.Assign | ln.Accumulate) -> ln.Buffer:
    """Return the buffer that a statement stores to in consecutive iterations."""
    name, cell = loop.variable.name, statement.target
    if isinstance(cell, ln.Scalar):
        raise _NoLinesError(
            f"its iterations reduce to one scalar, {cell.name}", ONE_TENSOR, f's.mark("{name}", "vector")'
        )
    if isinstance(statement, ln.Accumulate):
        raise _NoLinesError(f"it adds to elements of {cell.buffer.name}, which requires reading them", ONE_TENSOR)
    if not is_stored(cell.buffer):
        raise _NoLinesError(
            f"it stores to {cell.buffer.name}, which is read later and should stay in the cache",
            ONE_TENSOR,
            f's.mark("{name}", "vector")',
        )
    by = step(cell.address, loop.variable)
    if by != 1:
        raise _NoLinesError(
            f"its iterations store to {cell.buffer.name} "
            + ("without a constant stride" if by is None else f"with a stride of {by} elements"),
            "iterations that store consecutive elements",
            "mark the loop over the last dimension of the result",
        )
    return cell.buffer


def _read(statement: ln.Statement) -> Iterator[ln.Cell | ln.Scalar]:
    match statement:
        case ln.Assign(_, value) | ln.Accumulate(_, _, value):
            yield from sources(value)
        case ln.Declare(_, initial):
            yield from sources(initial)
        case ln.For() | ln.If() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
            return
        case _:
            assert_never(statement)


def _check(loop: ln.For, statement: ln.For | ln.If) -> None:
    """Raise an error if a loop or condition around a store differs between lanes."""
    name, own = loop.variable.name, loop.variable.uid
    parts = (statement.low, statement.high) if isinstance(statement, ln.For) else expressions(statement.predicate)
    if any(own in part.free for part in parts):
        inner = f"the loop {statement.variable.name}" if isinstance(statement, ln.For) else "a condition"
        raise _NoLinesError(
            f"it stores in {inner} that differs between its iterations",
            "stores that are the same in all iterations",
            f's.tails("{name}") splits the loop if the condition tests for a border',
        )
    if isinstance(statement, ln.For) and statement.mark not in WITHIN:
        raise _NoLinesError(
            f"the loop {statement.variable.name} in it is marked {statement.mark.value}",
            "inner loops that are unmarked, or marked vector or unroll",
            f's.mark("{statement.variable.name}", None) removes that mark',
        )


def _most(inner: ln.For, facts: Facts) -> int:
    """Return the maximum trip count of a loop around a store."""
    extent = inner.high - inner.low
    if extent.constant is not None:
        return max(extent.constant, 0)
    least, most = 0, MOST_LINES
    if not holds(facts, at_most(extent, constant(most))):
        raise _NoLinesError(
            f"it stores in the loop {inner.variable.name}, which is not proved to have at most {most} iterations",
            f"at most {most} elements in an iteration, the number of lines that are gathered at a time",
            f's.tile("{inner.variable.name}", 8), and move the tile loop outside by s.interchange',
        )
    while least + 1 < most:
        middle = (least + most) // 2
        least, most = (least, middle) if holds(facts, at_most(extent, constant(middle))) else (middle, most)
    return most


def row_of(line: Line) -> ln.Cell:
    """Return the first cell of the line that gathers the elements of an iteration of the loops around its store."""
    loops = [statement for statement in line.around if isinstance(statement, ln.For)]
    rows: Pairs = tuple(
        (index(inner.variable) - inner.low, extent) for inner, extent in zip(loops, line.buffer.extents, strict=False)
    )
    return ln.Cell(line.buffer, (*rows, (ZERO, line.buffer.extents[-1])))


def gathered_in(line: Line, lane: Var, first: Var) -> ln.Cell:
    """Return the cell of a line that gathers an iteration `lane`, if the line starts at iteration `first`."""
    *rows, (_, width) = row_of(line).pairs
    return ln.Cell(line.buffer, (*rows, (index(lane) - index(first), width)))


def begins(stream: Stream) -> ln.Cell:
    """Return the first element that an iteration stores, whose address determines the line boundaries."""
    line = stream.lines[0]
    cell = line.store.target
    assert isinstance(cell, ln.Cell)
    for inner in reversed(line.around):
        if isinstance(inner, ln.For):
            cell = cell_at(cell, inner.variable, inner.low)
    return cell


def of_lines(stream: Stream) -> ln.Block:
    """Return the statements that gather the iterations of a line and then store it."""
    low, high = index(stream.first), index(stream.first) + stream.width
    together = replace(stream.loop, low=low, high=high, mark=LoopMark.VECTOR, lines=None)
    buffers = [line.buffer for line in stream.lines]
    return (
        *(ln.Allocate(buffer, ln.elements(buffer.extents), "stack", zeroed=False) for buffer in buffers),
        replace(together, body=stream.body),
        *(_stored_from(line, together, stream.first) for line in stream.lines),
        *map(ln.Free, reversed(buffers)),
    )


def _stored_from(line: Line, together: ln.For, first: Var) -> ln.Statement:
    source = ln.Load(gathered_in(line, together.variable, first))
    out: ln.Statement = replace(together, body=(replace(line.store, value=source),))
    for around in reversed(line.around):
        match around:
            case ln.For():
                out = replace(around, body=(out,), mark=LoopMark.NONE)
            case ln.If():
                out = replace(around, body=(out,))
            case _:
                assert_never(around)
    return out
