"""Expressions of elements of a text as terms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from pycparser import c_ast

import atl
from lowering.validation.types import DOUBLE, FLOAT, INT, LONG, CType, Number, common, promoted
from rewrites.raising.context import Symbols
from rewrites.raising.indices import Indices, arithmetic
from rewrites.raising.state import Cells, Scalar, State, Value, refused

COMPUTED: Final = (INT, LONG, FLOAT, DOUBLE)
"""Types of which expressions of elements are read."""
KEYS: Final = {size: Number(f"key of {8 * size} bits", size, f"int{8 * size}") for size in (4, 8)}
"""Types of integers that have the order of floats. A key is read as its float, so keys have no arithmetic."""


class Elements:
    """The expressions of elements of a text, with their types."""

    def __init__(self, indices: Indices) -> None:
        self.indices = indices
        self.functions, self.context = indices.functions, indices.context

    def element(self, node: Any, state: State, of: Number) -> Value:
        """Return the value of an expression, converted to a type."""
        source, value = self.typed(node, state, of.dtype)
        self.check_conversion(node, source, of)
        return value

    def typed(self, node: Any, state: State, dtype: str) -> tuple[Number, Value]:
        """Return the type and the value of an expression whose result has this element type."""
        match node:  # type: ignore[exhaustive-match]
            case c_ast.Constant():
                made = self.functions.literals.constant(node)
                if made.of not in COMPUTED or not isinstance(made.of, Number):
                    raise refused(node, "an unsigned integer")
                number = self._number(node, made.of, made.run([]), dtype)
                return made.of, lambda _: number
            case c_ast.ID(name="INFINITY"):
                return FLOAT, lambda _: float("inf")
            case c_ast.UnaryOp(op="-", expr=c_ast.ID(name="INFINITY")):
                return FLOAT, lambda _: float("-inf")
            case c_ast.ID(name=name) if (scalar := state.scalar(name)) is not None:
                if scalar.value is None:
                    raise refused(node, f"{name} has no value")
                return scalar.of, scalar.value
            case c_ast.ArrayRef() | c_ast.UnaryOp(op="*"):
                name, position = self.indices.place(node, state)
                array = state.cells(name)
                read = None if array is None else array.read
                if array is None or read is None:
                    raise refused(node, f"{name} has no values")
                return array.of, lambda env: read([each(env) for each in position])
            case c_ast.BinaryOp(op="+" | "-" | "*" | "/" as op, left=left, right=right):
                (one, x), (other, y) = self.typed(left, state, dtype), self.typed(right, state, dtype)
                of = common(one, other)
                if one not in COMPUTED or other not in COMPUTED or (op == "/" and not of.is_float):
                    raise refused(node, f"{op} of {one.name} and {other.name}")
                self.check_conversion(left, one, of)
                self.check_conversion(right, other, of)
                return of, lambda env: arithmetic(op, x(env), y(env))
            case c_ast.UnaryOp(op="-", expr=inner):
                of, value = self.typed(inner, state, dtype)
                self.check_arithmetic(node, of)
                return promoted(of), lambda env: -value(env)
            case c_ast.TernaryOp(cond=cond, iftrue=yes, iffalse=no):
                test = self.indices.condition(cond, state)
                here = test(Symbols(self.context))
                one, x = self.context.under_known((here,), lambda: self.typed(yes, state, dtype))
                other, y = self.context.under_known((~here,), lambda: self.typed(no, state, dtype))
                of = one if one == other else common(one, other)
                self.check_conversion(yes, one, of)
                self.check_conversion(no, other, of)
                return of, lambda env: selected(test(env), x(env), y(env))
            case c_ast.FuncCall(name=c_ast.ID(), args=c_ast.ExprList(exprs=operands)):
                return self._call(node, operands, state, dtype)
            case c_ast.Cast(to_type=to, expr=inner):
                target = self.functions.machine.type_of(to)
                if isinstance(target, Number) and target in COMPUTED and self.indices.is_index(inner, state):
                    place, of = self.indices.index(inner, state), target
                    return (
                        of,
                        lambda env: (
                            atl.cast(of.dtype, atl.value(place(env))) if of.dtype != dtype else atl.value(place(env))
                        ),
                    )
                if not any(isinstance(state.names.get(name), Scalar | Cells) for name in self.functions.reads(inner)):
                    self.indices.index(inner, state)  # raises an error that says why it is not an index
                raise refused(node, "a cast of elements")
        raise refused(node, "an expression of elements")

    def _number(self, node: Any, of: Number, raw: Any, dtype: str) -> int | float:
        """Return a literal in an expression of elements of a type. For float32, it has as few digits as possible."""
        if isinstance(raw, int):
            return raw
        if dtype != "float32":
            return _literal(float(raw))
        if float(np.float32(raw)) != float(raw):
            raise refused(node, f"a number of type {of.name} that is not one of type float")
        return _literal(float(str(np.float32(raw))))

    def _call(self, node: Any, operands: Sequence[Any], state: State, dtype: str) -> tuple[Number, Value]:
        name = self.functions.function_name(node)
        helper = self.functions.helper(name)
        op, known = None if helper is None else helper[0], self.functions.of.known.get(name)
        if known is not None and known.op not in ("cast", "same") and self.functions.machine.defines(name):
            op = known.op
        functions: dict[str | None, Callable[..., Any]] = {
            "max": atl.maximum, "min": atl.minimum, "abs": atl.abs, "sqrt": atl.sqrt, "exp": atl.exp, "log": atl.log,
            "tanh": atl.tanh, "key": lambda x: x, "float": lambda x: x,
        }  # fmt: skip
        if op not in functions:
            raise refused(node, f"a call of {name}")
        if helper is None:
            called = self.functions.machine.function(name)
            helper = str(op), tuple(of for _, of in called.parameters), called.result
        _, kinds, result = helper
        typed = [self.typed(each, state, dtype) for each in operands]
        if len(kinds) != len(typed) or not isinstance(result, Number):
            raise refused(node, f"a call of {name}")
        keys = [of for of, _ in typed if of in KEYS.values()]
        if keys and (op not in ("max", "min", "float") or len(keys) != len(typed)):
            raise refused(node, f"a call of {name} with the key of a float")
        if op == "float" and not keys:
            raise refused(node, f"a call of {name} without the key of a float")
        for each, (of, _), kind in zip(operands, typed, kinds, strict=True):
            self.check_argument(each, of, kind)
            if op == "key" and of != kind:
                raise refused(each, "the key of a float of another type")
        if op == "key" or (keys and op != "float"):
            result = KEYS[result.size]
        function, values = functions[op], [value for _, value in typed]
        return result, lambda env: function(*(value(env) for value in values))

    # -- types --------------------------------------------------------------------------------------------------------

    def check_conversion(self, node: Any, source: Number, of: Number) -> None:
        """Refuse a conversion that may change a value, except for the rounding of floats."""
        if source in KEYS.values() and source != of:
            raise refused(node, f"a conversion from {source.name} to {of.name}")
        self.check_argument(node, source, of)

    def check_argument(self, node: Any, source: Number, of: CType) -> None:
        """Refuse an argument for a parameter of this type, unless it keeps its value. A key may be an integer there."""
        constant = _is_constant(node)
        if isinstance(of, Number):
            if source == of and (of in COMPUTED or of in KEYS.values()):
                return
            if source in KEYS.values() and of in (INT, LONG) and source.size == of.size:
                return
            if source.is_float and of.is_float:
                return
            if constant and source is INT and (of is LONG or of.is_float):
                return
        raise refused(node, f"a conversion from {source.name} to {getattr(of, 'name', 'another type')}")

    def check_arithmetic(self, node: Any, of: Number) -> None:
        if of not in COMPUTED:
            raise refused(node, f"arithmetic of type {of.name}")


def _is_constant(node: Any) -> bool:
    return isinstance(node, c_ast.Constant) or (
        isinstance(node, c_ast.UnaryOp) and node.op == "-" and isinstance(node.expr, c_ast.Constant)
    )


def _literal(value: float) -> int | float:
    return int(value) if value.is_integer() else value


def is_zero(value: Any) -> bool:
    """Return whether a value is the literal 0."""
    return isinstance(value, int | float) and value == 0


def selected(test: Any, x: Any, y: Any) -> Any:
    """Return a selection, or a guard where the other element is 0."""
    if is_zero(y):
        return atl.guard(test, x)
    return atl.select(test, x, y)
