"""Index expressions and conditions of a text, and addresses as positions in a shape."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

from pycparser import c_ast

import atl
from atl.core.index import constant
from atl.errors import ATLError
from atl.surface.values import IndexExpr, as_index
from lowering.validation.types import INT, LONG, Number, common
from rewrites.errors import NotRaised
from rewrites.raising.context import Context, Symbols
from rewrites.raising.functions import Functions
from rewrites.raising.state import Cells, Env, Scalar, State, Value, refused

_COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


class Indices:
    """The integers of a text."""

    def __init__(self, functions: Functions, context: Context) -> None:
        self.functions = functions
        self.context = context

    def index(self, node: Any, state: State) -> Value:
        return self._index(node, state)[1]

    def _index(self, node: Any, state: State) -> tuple[Number, Value]:
        """Return an index of type int64_t, or of type int if it is a constant, an element of an input or a negation."""
        match node:  # type: ignore[exhaustive-match]
            case c_ast.Constant(type=kind) if "float" not in kind and "double" not in kind:
                made = self.functions.literals.constant(node)
                if made.of not in (INT, LONG):
                    raise refused(node, "an unsigned integer")
                whole = IndexExpr(constant(made.constant or 0))
                return (INT if made.of is INT else LONG), lambda _: whole
            case c_ast.ID(name=name):
                counter = state.counter(name)
                if counter is not None:
                    return LONG, counter.value
            case c_ast.BinaryOp(op="+" | "-" | "*" | "/" | "%" as op, left=left, right=right):
                (one, x), (other, y) = self._index(left, state), self._index(right, state)
                of = common(one, other)
                if of is not LONG and not self._fits(x, y, op):
                    raise refused(node, "arithmetic of type int in an index")
                if op in "/%" and not self._rounds_down(x, y):
                    raise refused(node, f"{op} of a number that may be negative, or by one that may not be positive")
                return of, lambda env: arithmetic(op, x(env), y(env))
            case c_ast.UnaryOp(op="-", expr=inner):
                of, value = self._index(inner, state)
                return of, lambda env: -value(env)
            case c_ast.Cast(to_type=to, expr=inner):
                if self.functions.machine.type_of(to) is not LONG:
                    raise refused(node, "a cast of an index to another type than int64_t")
                return LONG, self.index(inner, state)
            case c_ast.ArrayRef(name=c_ast.ID(name=name)):
                array = state.cells(name)
                if array is not None and array.is_input and array.of in (INT, LONG) and array.read is not None:
                    read, (_, position) = array.read, self.place(node, state)
                    return array.of, lambda env: IndexExpr(as_index(read([each(env) for each in position])))
            case c_ast.FuncCall(args=c_ast.ExprList(exprs=[left, right])):
                x, y = self.index(left, state), self.index(right, state)
                match self.functions.helper(self.functions.function_name(node)):  # type: ignore[exhaustive-match]
                    case ("min", kinds, result) if all(each is LONG for each in (*kinds, result)):
                        return LONG, lambda env: atl.imin(x(env), y(env))
                    case ("max", kinds, result) if all(each is LONG for each in (*kinds, result)):
                        return LONG, lambda env: atl.imax(x(env), y(env))
        raise refused(node, "an index that is not made of loop variables and sizes")

    def is_index(self, node: Any, state: State) -> bool:
        try:
            self.index(node, state)
        except NotRaised:
            return False
        return True

    def _rounds_down(self, x: Value, y: Value) -> bool:
        """Return whether a quotient, which C rounds towards 0, is proved to be rounded down."""
        env = Symbols(self.context)
        try:
            return self.context.holds(x(env) >= 0) and self.context.holds(y(env) > 0)
        except ATLError:
            return False

    def _fits(self, x: Value, y: Value, op: str) -> bool:
        """Return whether arithmetic on two constants of type int does not overflow."""
        try:
            made = arithmetic(op, x({}), y({})).node.constant
        except (KeyError, ATLError):
            return False
        return made is not None and INT.low <= made <= INT.high

    def condition(self, node: Any, state: State) -> Value:
        match node:  # type: ignore[exhaustive-match]
            case c_ast.BinaryOp(op="&&" | "||" as op, left=left, right=right):
                x, y = self.condition(left, state), self.condition(right, state)
                return (lambda env: x(env) & y(env)) if op == "&&" else (lambda env: x(env) | y(env))
            case c_ast.BinaryOp(op="<" | "<=" | ">" | ">=" | "==" | "!=" as op, left=left, right=right):
                for each in (left, right):
                    if not self.is_index(each, state) and any(
                        isinstance(state.names.get(name), Scalar | Cells) for name in self.functions.reads(each)
                    ):
                        raise refused(node, "a condition that depends on elements")
                x, y = self.index(left, state), self.index(right, state)
                return lambda env: _COMPARISONS[op](x(env), y(env))
            case c_ast.UnaryOp(op="!", expr=inner):
                value = self.condition(inner, state)
                return lambda env: ~value(env)
        raise refused(node, "a condition that depends on elements")

    # -- addresses ----------------------------------------------------------------------------------------------------

    def place(self, node: Any, state: State) -> tuple[str, tuple[Value, ...]]:
        match node:  # type: ignore[exhaustive-match]
            case c_ast.ID(name=name) if state.scalar(name) is not None:
                return name, ()
            case c_ast.UnaryOp(op="*", expr=c_ast.ID(name=name)):
                array = state.cells(name)
                if array is not None and array.extents == ():
                    return name, ()
            case c_ast.ArrayRef(name=c_ast.ID(name=name), subscript=subscript):
                array = state.cells(name)
                if array is not None and array.extents != ():
                    return name, self.positions(subscript, state, array)
        raise refused(node, "an access that is not to an element")

    def positions(self, node: Any, state: State, array: Cells) -> tuple[Value, ...]:
        """Split an address (i * m + j) * k + l into the positions i, j, l."""
        whole = self.index(node, state)
        extents = array.extents
        if extents is None:
            extents = array.extents = (None, *self._guessed(node, state))
        if len(extents) == 1:
            return (whole,)
        found = self._split([(1, node)], state, [IndexExpr(constant(0)) if each is None else each for each in extents])
        env = Symbols(self.context)
        address = IndexExpr(constant(0))
        for position, extent in zip(found, extents, strict=True):
            address = (address if extent is None else address * extent) + position(env)
        if (address - whole(env)).node != constant(0):
            raise refused(node, "an address that is not a position in the shape")
        return found

    def _guessed(self, node: Any, state: State) -> tuple[IndexExpr, ...]:
        """Return the extents that an address (i * m + j) * k + l shows: m and k."""
        for _, term in self._terms(node):
            match term:  # type: ignore[exhaustive-match]
                case c_ast.BinaryOp(op="*", left=left, right=right):
                    for one, other in ((right, left), (left, right)):
                        try:
                            extent = self.index(one, state)({})
                        except (KeyError, NotRaised):
                            continue
                        return (*self._guessed(other, state), extent)
        return ()

    def _split(self, parts: Sequence[tuple[int, Any]], state: State, extents: Sequence[IndexExpr]) -> tuple[Value, ...]:
        """Return the positions in a shape of a sum of terms. Multiples of the last extent belong to those before."""
        if len(extents) == 1:
            return (self._sum(parts, state),)
        own, outer = list[tuple[int, Any]](), list[tuple[int, Any]]()
        for sign, part in parts:
            for term in self._terms(part, sign):
                factor = self._factored(*term, state, extents[-1])
                if factor is None:
                    own.append(term)
                else:
                    outer.append(factor)
        return (*self._split(outer, state, extents[:-1]), self._sum(own, state))

    def _terms(self, node: Any, sign: int = 1) -> list[tuple[int, Any]]:
        match node:  # type: ignore[exhaustive-match]
            case c_ast.BinaryOp(op="+" | "-" as op, left=left, right=right):
                return [*self._terms(left, sign), *self._terms(right, sign if op == "+" else -sign)]
        return [(sign, node)]

    def _factored(self, sign: int, node: Any, state: State, extent: IndexExpr) -> tuple[int, Any] | None:
        """Return the other factor of a product with an extent."""
        match node:  # type: ignore[exhaustive-match]
            case c_ast.BinaryOp(op="*", left=left, right=right):
                for one, other in ((right, left), (left, right)):
                    try:
                        if (self.index(one, state)({}) - extent).node == constant(0):
                            return sign, other
                    except (KeyError, NotRaised):
                        pass
                # (a * b) * c: a factor further inside
                inner = self._factored(sign, left, state, extent)
                if inner is not None:
                    return sign, c_ast.BinaryOp("*", inner[1], right, node.coord)
            case c_ast.Constant() | c_ast.ID():
                try:
                    if (self.index(node, state)({}) - extent).node == constant(0):
                        return sign, c_ast.Constant("int", "1", node.coord)
                except (KeyError, NotRaised):
                    pass
        return None

    def _sum(self, parts: Sequence[tuple[int, Any]], state: State) -> Value:
        made = [(sign, self.index(node, state)) for sign, node in parts]

        def total(env: Env) -> IndexExpr:
            found = IndexExpr(constant(0))
            for sign, value in made:
                found = found + value(env) if sign > 0 else found - value(env)
            return found

        return total


def arithmetic(op: str, x: Any, y: Any) -> Any:
    """Return an operation of C on two indices or two elements."""
    match op:
        case "+":
            return x + y
        case "-":
            return x - y
        case "*":
            return x * y
        case "%":
            return x % y
        case "/":
            return x // y if isinstance(x, IndexExpr) else x / y
        case _:
            raise AssertionError(op)
