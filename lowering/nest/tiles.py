"""Tiles in registers: buffers of constant size, with one variable for each vector of their rows.

In the nest, a tile remains a buffer (`Allocate` with `vectors`) whose cells have constant indices, or indices in loops
over the lanes of one vector (`over_lanes`). Printers emit such a loop as one vector operation. The interpreter runs it
lane by lane, which is equivalent, since no lane reads an element that another one stores.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, product
from typing import Final, TypeAlias, assert_never

import numpy as np

from atl.core.dtypes import DTYPES
from atl.core.index import Index, Var, constant, factor_of
from atl.core.operations import ARITHMETIC, UNARY
from atl.core.predicate import expressions
from lowering.nest import loopnest as ln
from lowering.nest.loopnest import at_iteration

LEAST_VECTOR: Final = 16
"""Minimum number of bytes of a vector. Remaining elements are scalar variables."""

MOST_CHOSEN_OF: Final = 2
"""Maximum number of vectors from which one instruction can select lanes."""

LANE_BY_LANE: Final = frozenset(ARITHMETIC)
"""Binary operations with vector instructions."""

OF_EACH_LANE: Final = frozenset(UNARY) - {"invert"}
"""Unary operations with vector instructions."""

Tiles: TypeAlias = Mapping[int, tuple[int, ...]]
"""Tiles in registers: `uid` of the buffer -> lengths of the vectors of each row."""


def vectors_of_row(length: int, dtype: str, vector_bytes: int) -> tuple[int, ...]:
    """Return the lengths of the vectors of a row, the longest first. A remaining or Boolean element has length 1.

    >>> vectors_of_row(44, "float32", 64)
    (16, 16, 8, 4)
    >>> vectors_of_row(5, "float64", 32)
    (4, 1)
    """
    if dtype not in DTYPES:
        return (1,) * length
    size = np.dtype(dtype).itemsize
    out: list[int] = []
    while length:
        longest = min(1 << (length.bit_length() - 1), vector_bytes // size)
        out.append(longest if longest * size >= LEAST_VECTOR else 1)
        length -= out[-1]
    return tuple(out)


@dataclass(frozen=True, slots=True)
class Vector:
    """A vector variable of a tile: constant indices of its row, its number in the row, and its columns."""

    row: tuple[int, ...]
    number: int
    first: int
    length: int


def shape_of(buffer: ln.Buffer) -> tuple[int, ...]:
    """Return the constant extents of a tile."""
    found = [extent.constant for extent in buffer.extents]
    extents = tuple(extent for extent in found if extent is not None)
    if len(extents) < len(found):
        raise AssertionError(f"the size of the tile {buffer.name} is not constant")
    return extents


def vectors(buffer: ln.Buffer, lengths: tuple[int, ...]) -> Iterator[Vector]:
    """Yield the variables of a tile in the order of its elements."""
    *rows, _ = shape_of(buffer)
    for row in product(*map(range, rows)):
        for number, (last, length) in enumerate(zip(accumulate(lengths), lengths, strict=True)):
            yield Vector(row, number, last - length, length)


def element(cell: ln.Cell, lengths: tuple[int, ...]) -> tuple[Vector, int]:
    """Return the variable of a tile that contains an element at constant indices, and its lane."""
    found = [position.constant for position, _ in cell.pairs]
    at = [position for position in found if position is not None]
    if len(at) < len(found):
        raise AssertionError(f"the indices of an element of the tile {cell.buffer.name} are not constant")
    *row, column = at
    for number, (last, length) in enumerate(zip(accumulate(lengths), lengths, strict=True)):
        if column < last:
            return Vector(tuple(row), number, last - length, length), column - last + length
    raise AssertionError(f"an element beyond the row of the tile {cell.buffer.name}")


def vectors_read(block: ln.Block, buffer: ln.Buffer, lengths: tuple[int, ...]) -> frozenset[Vector]:
    """Return the variables of a tile that statements read."""
    found: set[Vector] = set()
    for statement in block:
        match statement:
            case ln.For(variable, low, high, body):
                own = [cell for cell, _ in cells_of(body) if cell.buffer == buffer and occurs(cell, variable)]
                chosen = any(are_chosen(cell, variable) for cell in own)
                for lane in iterations(low, high) if chosen else (low,):
                    found |= vectors_read(at_iteration(statement, lane) if own else body, buffer, lengths)
            case ln.If(_, body):
                found |= vectors_read(body, buffer, lengths)
            case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
                read = (cell for cell, stored in cells_of((statement,)) if not stored and cell.buffer == buffer)
                found.update(element(cell, lengths)[0] for cell in read)
            case _:
                assert_never(statement)
    return frozenset(found)


# -- loops over lanes -------------------------------------------------------------------------------------------------


def iterations(low: Index, high: Index) -> Iterator[Index]:
    """Return the values of the variable of a loop with constant bounds."""
    start, stop = low.constant, high.constant
    if start is None or stop is None:
        raise AssertionError("the bounds of a loop over lanes are not constant")
    return map(constant, range(start, stop))


def are_chosen(cell: ln.Cell, variable: Var) -> bool:
    """Return whether a loop over lanes selects elements of several vectors of a tile, not one vector."""
    return occurs(cell, variable) and step(cell.address, variable) != 1


def step(e: Index, variable: Var) -> int | None:
    """Return the constant coefficient of the variable in the expression, or None if it is not linear in it.

    >>> from atl.core.index import index, size
    >>> i = Var(1, "i")
    >>> step(size("n") * 2 + index(i), i), step(size("n"), i), step(size("n") * index(i), i)
    (1, 0, None)
    """
    factor = factor_of(e, variable)
    return None if factor is None else factor.constant


def varies(e: ln.ScalarExpr, variable: Var) -> bool:
    """Return whether the variable occurs in the expression."""
    match e:
        case ln.Number() | ln.Load(ln.Scalar()):
            return False
        case ln.Load(ln.Cell() as cell):
            return occurs(cell, variable)
        case ln.FromIndex(of):
            return variable.uid in of.free
        case ln.Apply(_, arguments):
            return any(varies(argument, variable) for argument in arguments)
        case ln.Choose(predicate, left, right):
            return (
                any(variable.uid in part.free for part in expressions(predicate))
                or varies(left, variable)
                or varies(right, variable)
            )
        case ln.Convert(argument):
            return varies(argument, variable)
        case ln.Load():
            raise AssertionError("a load is from a cell or a scalar")
    assert_never(e)


def occurs(cell: ln.Cell, variable: Var) -> bool:
    """Return whether the variable occurs in the indices or extents of a cell."""
    return any(variable.uid in part.free for pair in cell.pairs for part in pair)


def has_lanes(statement: ln.Statement, variable: Var) -> bool:
    """Return whether the iterations of a loop over the statement can be the lanes of vectors.

    The statement must store to consecutive cells, and read consecutive or loop-invariant values. No iteration may read
    a cell that another one stores.
    """
    if not isinstance(statement, ln.Assign | ln.Accumulate) or not isinstance(statement.target, ln.Cell):
        return False
    if isinstance(statement, ln.Accumulate) and statement.op not in LANE_BY_LANE:
        return False
    return step(statement.target.address, variable) == 1 and _has_lanes(statement.value, variable, statement.target)


def _has_lanes(e: ln.ScalarExpr, variable: Var, target: ln.Cell) -> bool:
    if any(cell.buffer == target.buffer and cell.pairs != target.pairs for cell in cells(e)):
        return False
    if not varies(e, variable):
        return True
    match e:
        case ln.Load(ln.Cell() as cell):
            return step(cell.address, variable) == 1
        case ln.Apply(op, arguments) if op in LANE_BY_LANE | OF_EACH_LANE:
            return all(_has_lanes(argument, variable, target) for argument in arguments)
        case ln.Number() | ln.Load() | ln.FromIndex() | ln.Apply() | ln.Choose() | ln.Convert():
            return False
    assert_never(e)


def cells(e: ln.ScalarExpr) -> Iterator[ln.Cell]:
    """Return the cells that an expression reads."""
    return (source for source in sources(e) if isinstance(source, ln.Cell))


def sources(e: ln.ScalarExpr) -> Iterator[ln.Cell | ln.Scalar]:
    """Yield the cells and scalar variables that an expression reads."""
    return (part.source for part in ln.parts_of(e) if isinstance(part, ln.Load))


def cells_of(block: ln.Block) -> Iterator[tuple[ln.Cell, bool]]:
    """Yield the cells that statements read and store at any depth, each with whether it is stored."""
    for statement in ln.statements(block):
        match statement:
            case ln.Assign(target, value) | ln.Accumulate(target, _, value):
                if isinstance(target, ln.Cell):
                    yield target, True
                for cell in cells(value):
                    yield cell, False
            case ln.Declare(_, initial):
                for cell in cells(initial):
                    yield cell, False
            case ln.For() | ln.If() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
                pass
            case _:
                assert_never(statement)


def stores_to(statement: ln.Statement, buffer: ln.Buffer) -> bool:
    """Return whether a statement stores to cells of a buffer, at any depth."""
    return any(cell.buffer == buffer and stored for cell, stored in cells_of((statement,)))


def loads_from(statement: ln.Statement, buffer: ln.Buffer) -> bool:
    """Return whether a statement reads cells of a buffer, at any depth."""
    return any(cell.buffer == buffer and not stored for cell, stored in cells_of((statement,)))


def over_lanes(loop: ln.For, tiles: Collection[int]) -> bool:
    """Return whether the loop is over lanes: its variable is an index of a tile in registers."""
    return any(cell.buffer.uid in tiles and occurs(cell, loop.variable) for cell, _ in cells_of(loop.body))


def tiles_of(nest: ln.LoopNest) -> dict[int, tuple[int, ...]]:
    """Return the tiles of a nest that are in registers."""
    return {
        statement.buffer.uid: statement.vectors
        for statement in ln.statements(nest.body)
        if isinstance(statement, ln.Allocate) and statement.storage == "registers"
    }


@dataclass(slots=True)
class Lanes:
    """The state of a running loop over `count` lanes: the first address of each cell, and the vectors selected from."""

    tiles: Tiles
    variable: Var
    count: int
    _first: dict[ln.Cell, int] = field(default_factory=dict)
    _chosen_of: dict[ln.Cell, set[int]] = field(default_factory=dict)

    def fault_of(self, cell: ln.Cell, lane: int, address: int, *, stored: bool) -> str | None:
        """Return the reason why the cell at an address cannot be this lane of a vector operation, if any.

        Lanes must be consecutive cells, and those of a tile must form one vector. A read may also be the same in all
        lanes, or select from at most `MOST_CHOSEN_OF` vectors of a tile.
        """
        name, first = cell.buffer.name, self._first.setdefault(cell, address)
        lengths = self.tiles.get(cell.buffer.uid)
        if lengths is not None and not stored and are_chosen(cell, self.variable):
            start, length = _vector_around(address, lengths)
            chosen_of = self._chosen_of.setdefault(cell, set())
            chosen_of.add(start)
            if length != self.count or len(chosen_of) > MOST_CHOSEN_OF:
                return (
                    f"{self.count} lanes, one at {address}, cannot be selected from {MOST_CHOSEN_OF} vectors of {name}"
                )
        elif address != first + lane and (stored or address != first):
            return f"{name} at {address} is not lane {lane} of the vector at {first}"
        elif (
            lengths is not None
            and occurs(cell, self.variable)
            and _vector_around(first, lengths) != (first, self.count)
        ):
            return f"{self.count} elements of {name} at {first} are not one vector of it"
        return None


def _vector_around(address: int, lengths: tuple[int, ...]) -> tuple[int, int]:
    """Return the address and length of the vector of a tile that contains an element."""
    row, column = divmod(address, sum(lengths))
    last, length = next((last, n) for last, n in zip(accumulate(lengths), lengths, strict=True) if column < last)
    return row * sum(lengths) + last - length, length
