"""Parser for printed layouts such as `(4,8):(8,1)`, with names for symbolic sizes."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable
from typing import Any

import atl
from atl.errors import InvalidArgument, ParseError, brief
from layouts.foundation.layout import Layout
from layouts.foundation.semimodule import F2, Coordinate, E


def read_layout(text: str, *, given: Iterable[object] = ()) -> Layout:
    """Parse a layout: a shape, a colon and strides, and optionally `+` and an offset.

    Names are sizes, `E(k)` and `F2(s)` are strides; `+ - * // %` have their usual meaning. Raises `ParseError`.

    >>> read_layout("(4,(2,N)):(2*N,(1,2))"), read_layout("8"), read_layout("(2,2):(E(0),3*E(1))"), read_layout("4:8+3")
    ((4,(2,N)):(2*N,(1,2)), 8:1, (2,2):(E(0),3*E(1)), 4:8+3)
    """
    if not isinstance(text, str):
        raise InvalidArgument(f"{brief(text)} is not a string", required='a layout as it is printed: "(4,8):(8,1)"')
    shape, colon, rest = text.partition(":")
    stride, plus, offset = _at_the_end(rest)
    if not shape.strip() or (colon and not stride.strip()):
        raise _no_layout(text, "something is missing")
    made: Any = _value(_parsed(shape, text), text)
    steps: Any = _value(_parsed(stride, text), text) if colon else None
    start: Any = _value(_parsed(offset, text), text) if plus else 0
    return Layout(made, steps, offset=start, given=given)


def read_condition(text: str) -> atl.Condition:
    """Parse a condition on sizes: `N % 4 == 0`, `N >= 1`.

    >>> read_condition("N % 4 == 0")
    N % 4 = 0
    """
    match _parsed(text, text):
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            a, b = _value(left, text), _value(right, text)
            match op:
                case ast.Eq():
                    return _condition(a == b, text)
                case ast.NotEq():
                    return _condition(a != b, text)
                case ast.Lt():
                    return _condition(a < b, text)
                case ast.LtE():
                    return _condition(a <= b, text)
                case ast.Gt():
                    return _condition(a > b, text)
                case ast.GtE():
                    return _condition(a >= b, text)
                case _:
                    pass
        case _:
            pass
    raise _no_layout(text, "it is not a comparison of sizes")


def _condition(value: object, text: str) -> atl.Condition:
    if not isinstance(value, atl.Condition):
        raise _no_layout(text, "it mentions no size")
    return value


def _at_the_end(text: str) -> tuple[str, str, str]:
    """Return the strides, and the text after a plus outside parentheses."""
    level = 0
    for at, sign in enumerate(text):
        level += (sign == "(") - (sign == ")")
        if sign == "+" and level == 0 and at:
            return text[:at], "+", text[at + 1 :]
    return text, "", ""


def _parsed(text: str, whole: str) -> ast.expr:
    if not isinstance(text, str):
        raise _no_layout(whole, "it is empty or not valid text")
    try:
        return expression_of(text.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _no_layout(whole, "it is not an expression") from error


def expression_of(text: str) -> ast.expr:
    """Parse an expression with Python's parser, without evaluating it; `⌈a / b⌉` is accepted as printed."""
    for _ in range(text.count("⌈")):  # innermost first
        text = re.sub(r"⌈([^⌈⌉]+) / ([^⌈⌉/]+)⌉", r"((\1 + (\2) - 1) // (\2))", text)
    # Suppress Python's warnings about input such as `4and`, which would confuse users.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text, mode="eval").body


def _value(node: ast.expr, text: str) -> Any:
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            return value
        case ast.Name(id=name):
            return atl.sizes(name)
        case ast.Tuple(elts=parts):
            return tuple(_value(part, text) for part in parts)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _combined(ast.Sub(), 0, _value(operand, text), text)
        case ast.BinOp(
            left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv() | ast.Mod() as op, right=right
        ):
            return _combined(op, _value(left, text), _value(right, text), text)
        case ast.Call(func=ast.Name(id="E" | "F2" as word), args=[ast.Constant(value=int() as value)]):
            return E(value) if word == "E" else F2(value)
        case _:
            raise _no_layout(text, f"{brief(ast.unparse(node))} is not an extent or stride")


def _combined(op: ast.operator, a: Any, b: Any, text: str) -> Any:
    if isinstance(a, tuple) or isinstance(b, tuple):
        raise _no_layout(text, "arithmetic on tuples is not defined")
    if isinstance(b, Coordinate) and isinstance(op, ast.Mult):
        a, b = b, a  # symbolic factors of coordinates go on the right
    try:
        match op:
            case ast.Add():
                return a + b
            case ast.Sub():
                return a - b
            case ast.Mult():
                return a * b
            case ast.FloorDiv():
                return a // b
            case _:
                return a % b
    except (TypeError, ZeroDivisionError) as error:
        raise _no_layout(text, str(error)) from error


def _no_layout(text: str, why: str) -> ParseError:
    return ParseError(
        f"cannot parse {brief(text)}: {why}",
        required="a shape, a colon and strides of the same nesting, as in (4,8):(8,1), (4,N):(N,1), (2,2):(E(0),F2(3))",
    )
