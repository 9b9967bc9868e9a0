"""Scalar expressions and cells in C."""

from __future__ import annotations

import math
from typing import Final, assert_never

import numpy as np

from atl.core.dtypes import is_integer, range_of
from atl.core.predicate import negation
from atl.core.terms import BinaryOp, UnaryOp
from atl.text.names import INFIX
from lowering.c.text import OR, PRIMARY, PRODUCT, SUM, TERNARY, UNARY, Text
from lowering.c.values.index import address_text, index_text, predicate_text
from lowering.nest.loopnest import Apply, Cell, Choose, Convert, FromIndex, Load, Number, Scalar, ScalarExpr, key
from lowering.nest.text_scope import TextScope
from lowering.nest.tiles import element

C_TYPES: Final = {"float32": "float", "float64": "double", "int32": "int32_t", "int64": "int64_t", "bool": "uint8_t"}

_LEVELS: Final[dict[BinaryOp, int]] = {"add": SUM, "sub": SUM, "mul": PRODUCT, "div": PRODUCT}


def helper(operation: str, dtype: str) -> str:
    """Return the function for a minimum, maximum or integral absolute value: `max_float`, `min_int32`."""
    return f"{operation}_{C_TYPES[dtype].removesuffix('_t')}"


# -- cells ------------------------------------------------------------------------------------------------------------


def storage_text(scope: TextScope, target: Cell | Scalar) -> Text:
    """Print a cell or variable. Inputs of rank 0 are passed by value, and outputs of rank 0 by address."""
    match target:
        case Scalar():
            return Text(scope.name(key(target)))
        case Cell(buffer):
            if buffer.uid in scope.tiles:
                name, lane, length = variable_of(scope, target)
                return Text(f"{name}[{lane}]" if length > 1 else name)
            name = scope.name(key(buffer))
            if buffer.role == "input" and not buffer.extents:
                return Text(name)
            if buffer.role == "output" and not buffer.extents:
                return Text(f"*{name}", UNARY)
            return Text(f"{name}[{address_text(scope, target.memory_pairs).text}]")
    assert_never(target)


def variable_of(scope: TextScope, cell: Cell) -> tuple[str, int, int]:
    """Return the variable that contains an element of a tile, the element's lane, and the number of lanes."""
    vector, lane = element(cell, scope.tiles[cell.buffer.uid])
    return scope.name((key(cell.buffer), vector)), lane, vector.length


# -- expressions ------------------------------------------------------------------------------------------------------


def scalar_text(scope: TextScope, e: ScalarExpr, *, wide: bool = False) -> Text:
    """Print a scalar expression with the fewest parentheses.

    Integer literals are ints in C. With `wide`, literals of int64 are int64_t, and so are operations on them.
    """
    match e:
        case Number(value, dtype):
            return literal(value, dtype, wide=wide)
        case Load(source):
            return storage_text(scope, source)
        case FromIndex():
            return _from_index(scope, e, wide=wide)
        case Apply(op, arguments, dtype):
            among_literals = wide or (dtype == "int64" and all(_narrow(argument) for argument in arguments))
            return applied(op, [scalar_text(scope, argument, wide=among_literals) for argument in arguments], dtype)
        case Choose():
            return _choice(scope, e, wide=wide)
        case Convert(argument, dtype):
            inner = scalar_text(scope, argument)
            if argument.dtype == dtype and not _narrow(argument):
                return inner
            return Text(f"({C_TYPES[dtype]}){inner.at(UNARY)}", UNARY)
    assert_never(e)


def _narrow(e: ScalarExpr) -> bool:
    """Return whether C would evaluate an expression of int64 as an int."""
    match e:
        case Number():
            return True
        case FromIndex(index):
            return index.constant is not None
        case Apply(_, arguments):
            return all(_narrow(argument) for argument in arguments)
        case Choose(_, left, right):
            return _narrow(left) and _narrow(right)
        case Load() | Convert():
            return False
    assert_never(e)


def _from_index(scope: TextScope, e: FromIndex, *, wide: bool) -> Text:
    if e.index.constant is not None:
        return literal(e.index.constant, e.dtype, wide=wide)
    text = index_text(scope, e.index)
    if e.dtype == "int64":
        return text.widened()
    if e.dtype == "int32" and text.narrow:
        return text
    return Text(f"({C_TYPES[e.dtype]}){text.at(UNARY)}", UNARY)


def _choice(scope: TextScope, e: Choose, *, wide: bool) -> Text:
    condition = predicate_text(scope, e.predicate)
    left = scalar_text(scope.under(e.predicate), e.left, wide=wide)
    right = scalar_text(scope.under(negation(e.predicate)), e.right, wide=wide)
    return Text(f"{condition.at(OR)} ? {left.at(OR)} : {right.at(TERNARY)}", TERNARY)


def applied(op: UnaryOp | BinaryOp, texts: list[Text], dtype: str) -> Text:
    """Print an operation on scalars; on vectors too, if it has an operator."""
    match op:
        case "neg":
            inner = texts[0].at(UNARY)
            return Text(f"-({inner})" if inner.startswith("-") else f"-{inner}", UNARY)
        case "abs" if is_integer(dtype):
            return Text(f"{helper('abs', dtype)}({texts[0].text})")
        case "erf" | "sin" | "cos" if dtype == "float64":
            return Text(f"{op}({texts[0].text})")
        case "exp" | "log" | "tanh" | "erf" | "sin" | "cos":
            return Text(f"{helper(op, dtype)}({texts[0].text})")
        case "abs" | "sqrt":
            function = "fabs" if op == "abs" else op
            return Text(f"{function}{'f' if dtype == 'float32' else ''}({texts[0].text})")
        case "min" | "max":
            return Text(f"{helper(op, dtype)}({texts[0].text}, {texts[1].text})")
        case "add" | "sub" | "mul" | "div":
            level = _LEVELS[op]
            return Text(f"{texts[0].at(level)} {INFIX[op]} {texts[1].at(level + 1)}", level)
    assert_never(op)


# -- literals ---------------------------------------------------------------------------------------------------------


def literal(value: float, dtype: str, *, wide: bool = False) -> Text:
    """Print a literal that C reads as exactly NumPy's value of this element type."""
    if is_integer(dtype):
        return _integer(int(value), dtype, wide=wide)
    with np.errstate(over="ignore"):
        held = np.float32(value) if dtype == "float32" else np.float64(value)
    suffix = "f" if dtype == "float32" else ""
    if math.isnan(held):
        return Text("NAN")
    if math.isinf(held):
        return Text("INFINITY") if held > 0 else Text("-INFINITY", UNARY)
    # NumPy prints the fewest digits that are read back as the same number of this type.
    text = str(held)
    if "e" in text:
        digits, exponent = text.split("e")
        text = f"{digits}e{int(exponent)}"
    elif "." not in text:
        text += ".0"
    return Text(text + suffix, UNARY if text.startswith("-") else PRIMARY)


def _integer(value: int, dtype: str, *, wide: bool) -> Text:
    bits = 64 if dtype == "int64" else 32
    least, greatest = range_of(dtype)
    if value == least:
        return Text(f"INT{bits}_MIN")
    if value == greatest:
        return Text(f"INT{bits}_MAX")
    if wide and bits == 64:
        return Text(f"INT64_C({value})")
    return Text(str(value), UNARY if value < 0 else PRIMARY)
