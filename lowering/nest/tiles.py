"""Tiles in registers: a buffer of constant size as one variable for each vector of its rows.

The nest keeps a tile as a buffer (`Allocate` with its `vectors`), and all that is done with it as loops and cells with
constant indices. A loop over the lanes of one vector (`over_lanes`) is what printers make one operation of. The
interpreter runs it lane by lane, which is the same: no lane reads what another one stores.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, product
from typing import Final, TypeAlias, assert_never

import numpy as np

from atl.core.index import Index, Var, constant, factor_of
from atl.core.predicate import expressions
from atl.text.names import INFIX
from lowering.nest.loopnest import (
    Accumulate,
    Allocate,
    Apply,
    Assign,
    Block,
    Buffer,
    Cell,
    Choose,
    Clear,
    Convert,
    Declare,
    For,
    Free,
    FromIndex,
    If,
    Load,
    LoopNest,
    Number,
    Scalar,
    ScalarExpr,
    Statement,
    statements,
)
from lowering.nest.substitution import at_iteration

LEAST_VECTOR: Final = 16
"""Fewer bytes make no vector: such elements are scalar variables."""

MOST_CHOSEN_OF: Final = 2
"""So many vectors the lanes of one are chosen of at most, by one instruction."""

LANE_BY_LANE: Final = frozenset((*INFIX, "min", "max"))
"""The operations of two operands that are done to all lanes at once."""

OF_EACH_LANE: Final = frozenset(("neg", "abs", "sqrt", "exp", "log", "tanh"))
"""The operations of one operand that are."""

Tiles: TypeAlias = Mapping[int, tuple[int, ...]]
"""The tiles in registers by the `uid` of their buffer: the lengths of the vectors that each row is made of."""


def vectors_of_row(length: int, dtype: str, vector_bytes: int) -> tuple[int, ...]:
    """The lengths of the vectors that a row is made of, the longest first; an element that is left over is one of 1.

    >>> vectors_of_row(44, "float32", 64)
    (16, 16, 8, 4)
    >>> vectors_of_row(5, "float64", 32)
    (4, 1)
    """
    size = np.dtype(dtype).itemsize
    out: list[int] = []
    while length:
        longest = min(1 << (length.bit_length() - 1), vector_bytes // size)
        out.append(longest if longest * size >= LEAST_VECTOR else 1)
        length -= out[-1]
    return tuple(out)


@dataclass(frozen=True, slots=True)
class Vector:
    """A variable of a tile: the row by its constant indices, the number of the vector in the row, and its columns."""

    row: tuple[int, ...]
    number: int
    first: int
    length: int


def shape_of(buffer: Buffer) -> tuple[int, ...]:
    """The extents of a tile, which are constant."""
    found = [extent.constant for extent in buffer.extents]
    extents = tuple(extent for extent in found if extent is not None)
    if len(extents) < len(found):
        raise AssertionError(f"the tile {buffer.name} is of no constant size")
    return extents


def vectors(buffer: Buffer, lengths: tuple[int, ...]) -> Iterator[Vector]:
    """The variables of a tile in the order of its elements."""
    *rows, _ = shape_of(buffer)
    for row in product(*map(range, rows)):
        for number, (last, length) in enumerate(zip(accumulate(lengths), lengths, strict=True)):
            yield Vector(row, number, last - length, length)


def element(cell: Cell, lengths: tuple[int, ...]) -> tuple[Vector, int]:
    """The variable of a tile that an element is in, and its lane. Its indices are constant."""
    found = [position.constant for position, _ in cell.pairs]
    at = [position for position in found if position is not None]
    if len(at) < len(found):
        raise AssertionError(f"an element of the tile {cell.buffer.name} is not at constant indices")
    *row, column = at
    for number, (last, length) in enumerate(zip(accumulate(lengths), lengths, strict=True)):
        if column < last:
            return Vector(tuple(row), number, last - length, length), column - last + length
    raise AssertionError(f"an element beyond the row of the tile {cell.buffer.name}")


def vectors_read(block: Block, buffer: Buffer, lengths: tuple[int, ...]) -> frozenset[Vector]:
    """The variables of a tile that statements read."""
    found: set[Vector] = set()
    for statement in block:
        match statement:
            case For(variable, low, high, body):
                own = [cell for cell, _ in cells_of(body) if cell.buffer == buffer and occurs(cell, variable)]
                chosen = any(are_chosen(cell, variable) for cell in own)
                for lane in iterations(low, high) if chosen else (low,):
                    found |= vectors_read(at_iteration(statement, lane) if own else body, buffer, lengths)
            case If(_, body):
                found |= vectors_read(body, buffer, lengths)
            case Assign() | Accumulate() | Declare() | Allocate() | Clear() | Free():
                read = (cell for cell, stored in cells_of((statement,)) if not stored and cell.buffer == buffer)
                found.update(element(cell, lengths)[0] for cell in read)
            case _:
                assert_never(statement)
    return frozenset(found)


# -- loops over lanes -------------------------------------------------------------------------------------------------


def iterations(low: Index, high: Index) -> Iterator[Index]:
    """The values of the variable of a loop between constants."""
    start, stop = low.constant, high.constant
    if start is None or stop is None:
        raise AssertionError("a loop over lanes is not between constants")
    return map(constant, range(start, stop))


def are_chosen(cell: Cell, variable: Var) -> bool:
    """Whether a loop over lanes reads no vector of a tile there, but elements that are chosen of some, lane by lane."""
    return occurs(cell, variable) and step(cell.address, variable) != 1


def step(e: Index, variable: Var) -> int | None:
    """By how much the expression grows with the variable, if it always grows by the same constant.

    >>> from atl.core.index import index, size
    >>> i = Var(1, "i")
    >>> step(size("n") * 2 + index(i), i), step(size("n"), i), step(size("n") * index(i), i)
    (1, 0, None)
    """
    factor = factor_of(e, variable)
    return None if factor is None else factor.constant


def varies(e: ScalarExpr, variable: Var) -> bool:
    """Whether the variable occurs in the expression."""
    match e:
        case Number() | Load(Scalar()):
            return False
        case Load(Cell() as cell):
            return occurs(cell, variable)
        case FromIndex(of):
            return variable.uid in of.free
        case Apply(_, arguments):
            return any(varies(argument, variable) for argument in arguments)
        case Choose(predicate, left, right):
            return (
                any(variable.uid in part.free for part in expressions(predicate))
                or varies(left, variable)
                or varies(right, variable)
            )
        case Convert(argument):
            return varies(argument, variable)
        case Load():
            raise AssertionError("a load is from a cell or a scalar")
    assert_never(e)


def occurs(cell: Cell, variable: Var) -> bool:
    """Whether the variable occurs in the indices of a cell, or in its extents."""
    return any(variable.uid in part.free for pair in cell.pairs for part in pair)


def has_lanes(statement: Statement, variable: Var) -> bool:
    """Whether the iterations of a loop over the statement can be the lanes of vectors.

    It stores to consecutive cells, and what it reads lies at consecutive cells too, or is the same in all iterations.
    No iteration reads what another one stores.
    """
    if not isinstance(statement, Assign | Accumulate) or not isinstance(statement.target, Cell):
        return False
    if isinstance(statement, Accumulate) and statement.op not in LANE_BY_LANE:
        return False
    return step(statement.target.address, variable) == 1 and _has_lanes(statement.value, variable, statement.target)


def _has_lanes(e: ScalarExpr, variable: Var, target: Cell) -> bool:
    if any(cell.buffer == target.buffer and cell.pairs != target.pairs for cell in cells(e)):
        return False
    if not varies(e, variable):
        return True
    match e:
        case Load(Cell() as cell):
            return step(cell.address, variable) == 1
        case Apply(op, arguments) if op in LANE_BY_LANE | OF_EACH_LANE:
            return all(_has_lanes(argument, variable, target) for argument in arguments)
        case Number() | Load() | FromIndex() | Apply() | Choose() | Convert():
            return False
    assert_never(e)


def cells(e: ScalarExpr) -> Iterator[Cell]:
    """The cells that an expression reads."""
    return (source for source in sources(e) if isinstance(source, Cell))


def sources(e: ScalarExpr) -> Iterator[Cell | Scalar]:
    """The cells and scalar variables that an expression reads."""
    match e:
        case Load(source):
            yield source
        case Number() | FromIndex():
            return
        case Apply(_, arguments):
            for argument in arguments:
                yield from sources(argument)
        case Choose(_, left, right):
            yield from sources(left)
            yield from sources(right)
        case Convert(argument):
            yield from sources(argument)
        case _:
            assert_never(e)


def cells_of(block: Block) -> Iterator[tuple[Cell, bool]]:
    """The cells that statements read and store at any depth, and of each whether it is stored."""
    for statement in statements(block):
        match statement:
            case Assign(target, value) | Accumulate(target, _, value):
                if isinstance(target, Cell):
                    yield target, True
                for cell in cells(value):
                    yield cell, False
            case Declare(_, initial):
                for cell in cells(initial):
                    yield cell, False
            case For() | If() | Allocate() | Clear() | Free():
                pass
            case _:
                assert_never(statement)


def stores_to(statement: Statement, buffer: Buffer) -> bool:
    """Whether a statement stores to cells of a buffer, at any depth."""
    return any(cell.buffer == buffer and stored for cell, stored in cells_of((statement,)))


def loads_from(statement: Statement, buffer: Buffer) -> bool:
    """Whether a statement reads cells of a buffer, at any depth."""
    return any(cell.buffer == buffer and not stored for cell, stored in cells_of((statement,)))


def over_lanes(loop: For, tiles: Collection[int]) -> bool:
    """Whether the loop is over the lanes of a vector of a tile: its variable is an index of one."""
    return any(cell.buffer.uid in tiles and occurs(cell, loop.variable) for cell, _ in cells_of(loop.body))


def tiles_of(nest: LoopNest) -> dict[int, tuple[int, ...]]:
    """The tiles of a nest that are in registers."""
    return {
        statement.buffer.uid: statement.vectors
        for statement in statements(nest.body)
        if isinstance(statement, Allocate) and statement.storage == "registers"
    }


@dataclass(slots=True)
class Lanes:
    """A loop over so many lanes while it runs: where it began at each cell, and what it chose its lanes of."""

    tiles: Tiles
    variable: Var
    count: int
    _first: dict[Cell, int] = field(default_factory=dict)
    _chosen_of: dict[Cell, set[int]] = field(default_factory=dict)

    def fault_of(self, cell: Cell, lane: int, address: int, *, stored: bool) -> str | None:
        """Why the cell at an address cannot be this lane of an operation on vectors, if so.

        Lanes are at consecutive cells, of a tile at those of one vector. One that is read may also be the same in all,
        or chosen, lane by lane, of `MOST_CHOSEN_OF` vectors of a tile.
        """
        name, first = cell.buffer.name, self._first.setdefault(cell, address)
        lengths = self.tiles.get(cell.buffer.uid)
        if lengths is not None and not stored and are_chosen(cell, self.variable):
            start, length = _vector_around(address, lengths)
            chosen_of = self._chosen_of.setdefault(cell, set())
            chosen_of.add(start)
            if length != self.count or len(chosen_of) > MOST_CHOSEN_OF:
                return f"{self.count} elements of {name}, one of them at {address}, are not of {MOST_CHOSEN_OF} vectors"
        elif address != first + lane and (stored or address != first):
            return f"{name} at {address}, as lane {lane} of a vector at {first}"
        elif (
            lengths is not None
            and occurs(cell, self.variable)
            and _vector_around(first, lengths) != (first, self.count)
        ):
            return f"{self.count} elements of {name} at {first} are not one vector of it"
        return None


def _vector_around(address: int, lengths: tuple[int, ...]) -> tuple[int, int]:
    """Where the vector of a tile begins that an element is in, and how many it has."""
    row, column = divmod(address, sum(lengths))
    last, length = next((last, n) for last, n in zip(accumulate(lengths), lengths, strict=True) if column < last)
    return row * sum(lengths) + last - length, length
