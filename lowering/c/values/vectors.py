"""Tiles in registers in C: variables of gcc's and clang's vector types, and operations on them."""

from __future__ import annotations

from itertools import groupby
from typing import assert_never

from atl.text.names import INFIX
from lowering.c.functions.lanes import CHOOSE
from lowering.c.helpers import vector_type
from lowering.c.text import SUM, UNARY, Text
from lowering.c.values.scalars import C_TYPES, applied, literal, scalar_text, storage_text, variable_of
from lowering.nest import loopnest as ln
from lowering.nest.substitution import cell_at
from lowering.nest.text_scope import TextScope
from lowering.nest.tiles import MOST_CHOSEN_OF, Vector, are_chosen, iterations, varies, vectors, vectors_read


def declare_tile(scope: TextScope, statement: ln.Allocate, rest: ln.Block) -> tuple[TextScope, list[str]]:
    """Declare the variables of a tile, initialised to zero, with one line for consecutive vectors of one type.

    `rest` is the remainder of the block.
    """
    buffer, lines = statement.buffer, list[str]()
    _, scope = scope.bind(ln.key(buffer), buffer.name)
    scope = scope.with_tile(buffer.uid, statement.vectors)
    alone = len(statement.vectors) == 1
    together = groupby(vectors(buffer, statement.vectors), lambda v: (() if alone else v.row, v.length))
    for (_, length), group in together:
        names: list[str] = []
        for vector in group:
            name, scope = scope.bind((ln.key(buffer), vector), _hint(buffer.name, vector, statement.vectors))
            names.append(name)
        kind, zero = (vector_type(buffer.dtype, length), "{0}")
        if length == 1:
            kind, zero = C_TYPES[buffer.dtype], literal(0, buffer.dtype).text
        lines.append(f"{kind} {', '.join(f'{name} = {zero}' for name in names)};")
    read = vectors_read(rest, buffer, statement.vectors)
    unread = (vector for vector in vectors(buffer, statement.vectors) if vector not in read)
    return scope, [*lines, *(f"(void){scope.name((ln.key(buffer), vector))};" for vector in unread)]


def _hint(name: str, vector: Vector, lengths: tuple[int, ...]) -> str:
    numbers = (*vector.row, vector.number) if len(lengths) > 1 or not vector.row else vector.row
    return "_".join((name, *map(str, numbers)))


# -- operations -------------------------------------------------------------------------------------------------------


def vector_statement(scope: TextScope, loop: ln.For) -> str:
    """Print a loop over the lanes of a vector as one operation."""
    (statement,) = loop.body
    length = (loop.high - loop.low).constant
    if (
        not isinstance(statement, ln.Assign | ln.Accumulate)
        or not isinstance(statement.target, ln.Cell)
        or length is None
    ):
        raise AssertionError(f"the loop {loop.variable.name} over a tile in registers is not over lanes of one vector")
    lanes = _Lanes(scope.under(loop.range), loop, length)
    into, by = lanes.target(statement.target), lanes.value(statement.value)
    if isinstance(statement, ln.Accumulate):
        if statement.op in INFIX:
            return f"{into} {INFIX[statement.op]}= {by.text};"
        called = f"{statement.op}_{vector_type(statement.value.dtype, length)}"
        return f"{into} = {called}({into}, {lanes.vector(statement.value).text});"
    return f"{into} = {lanes.vector(statement.value).text};"


class _Lanes:
    """The expressions in a loop over the lanes of a vector."""

    def __init__(self, scope: TextScope, loop: ln.For, length: int) -> None:
        self._scope = scope
        self._loop = loop
        self._length = length

    def target(self, cell: ln.Cell) -> str:
        return self._vector(cell, const="")

    def vector(self, e: ln.ScalarExpr) -> Text:
        """Return a vector, also if all lanes are equal."""
        text = self.value(e)
        if varies(e, self._loop.variable):
            return text
        # A scalar cannot be assigned to a vector. Subtracting zero changes no value, not even negative zero.
        return Text(f"{text.at(SUM)} - ({vector_type(e.dtype, self._length)}){{0}}", SUM)

    def value(self, e: ln.ScalarExpr) -> Text:
        """Return a vector, or a scalar if all lanes are equal."""
        if not varies(e, self._loop.variable):
            return scalar_text(self._scope, e)
        match e:
            case ln.Load(ln.Cell() as cell):
                text = self._vector(cell, const="const ")
                return Text(text, UNARY) if text.startswith("*") else Text(text)
            case ln.Apply("min" | "max" as op, arguments, dtype):
                operands = ", ".join(self.vector(argument).text for argument in arguments)
                return Text(f"{op}_{vector_type(dtype, self._length)}({operands})")
            case ln.Apply("abs" | "sqrt" | "exp" | "log" | "tanh" | "erf" | "sin" | "cos" as op, (argument,), dtype):
                return Text(f"{op}_{vector_type(dtype, self._length)}({self.vector(argument).text})")
            case ln.Apply(op, arguments, dtype):
                return applied(op, [self.value(argument) for argument in arguments], dtype)
            case ln.Number() | ln.Load() | ln.FromIndex() | ln.Choose() | ln.Convert():
                raise AssertionError("an expression that is not a vector operation")
        assert_never(e)

    def _shuffle(self, cell: ln.Cell) -> str:
        """Return a shuffle of one or two vectors of a tile; lane numbers of the second follow those of the first."""
        lanes = [
            variable_of(self._scope, cell_at(cell, self._loop.variable, value))
            for value in iterations(self._loop.low, self._loop.high)
        ]
        names = list(dict.fromkeys(name for name, _, _ in lanes))
        if len(names) > MOST_CHOSEN_OF or {length for _, _, length in lanes} != {self._length}:
            raise AssertionError(f"the loop {self._loop.variable.name} chooses lanes of {', '.join(names)}")
        numbers = ", ".join(str(names.index(name) * self._length + lane) for name, lane, _ in lanes)
        kind = vector_type(cell.buffer.dtype, self._length)
        return f"{CHOOSE}_{kind}({names[0]}, {names[-1]}, {numbers})"

    def _vector(self, cell: ln.Cell, *, const: str) -> str:
        if cell.buffer.uid in self._scope.tiles and are_chosen(cell, self._loop.variable):
            return self._shuffle(cell)
        first = cell_at(cell, self._loop.variable, self._loop.low)
        if cell.buffer.uid in self._scope.tiles:
            name, lane, length = variable_of(self._scope, first)
            if lane or length != self._length:
                raise AssertionError(f"the loop {self._loop.variable.name} is not over one vector of {name}")
            return name
        kind = vector_type(cell.buffer.dtype, self._length)
        return f"*({const}{kind} *)&{storage_text(self._scope, first).text}"
