"""Layouts read from text, as they are printed: `(4,8):(8,1)`, with names for symbolic sizes."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable
from typing import Any

import atl
from atl.errors import ParseError, WrongArgument, brief
from layouts.foundation.layout import Layout
from layouts.foundation.semimodule import F2, Coordinate, E


def read_layout(text: str, *, given: Iterable[object] = ()) -> Layout:
    """The layout that is written so: a shape, and strides after a colon; then, after `+`, where it starts.

    Names are sizes, `E(k)` and `F2(s)` strides; `+ - * // %` are what they are elsewhere. Raises `ParseError`.

    >>> read_layout("(4,(2,N)):(2*N,(1,2))"), read_layout("8"), read_layout("(2,2):(E(0),3*E(1))"), read_layout("4:8+3")
    ((4,(2,N)):(2*N,(1,2)), 8:1, (2,2):(E(0),3*E(1)), 4:8+3)
    """
    if not isinstance(text, str):
        raise WrongArgument(f"{brief(text)} is not a text", required='a layout as it is printed: "(4,8):(8,1)"')
    shape, colon, rest = text.partition(":")
    stride, plus, offset = _at_the_end(rest)
    if not shape.strip() or (colon and not stride.strip()):
        raise _no_layout(text, "something is missing")
    made: Any = _value(_parsed(shape, text), text)
    steps: Any = _value(_parsed(stride, text), text) if colon else None
    start: Any = _value(_parsed(offset, text), text) if plus else 0
    return Layout(made, steps, offset=start, given=given)


def read_condition(text: str) -> atl.Condition:
    """A condition on sizes: `N % 4 == 0`, `N >= 1`.

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
    raise _no_layout(text, "it is no comparison of sizes")


def _condition(value: object, text: str) -> atl.Condition:
    if not isinstance(value, atl.Condition):
        raise _no_layout(text, "it speaks of no size")
    return value


def _at_the_end(text: str) -> tuple[str, str, str]:
    """The strides, and what follows a plus that stands in no parentheses."""
    level = 0
    for at, sign in enumerate(text):
        level += (sign == "(") - (sign == ")")
        if sign == "+" and level == 0 and at:
            return text[:at], "+", text[at + 1 :]
    return text, "", ""


def _parsed(text: str, whole: str) -> ast.expr:
    if not isinstance(text, str):
        raise _no_layout(whole, "it is no text")
    try:
        return expression_of(text.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _no_layout(whole, "it is no expression") from error


def expression_of(text: str) -> ast.expr:
    """The expression, parsed by Python and never evaluated; a quotient that is rounded up is read as it is printed."""
    for _ in range(text.count("⌈")):  # the inner ones first
        text = re.sub(r"⌈([^⌈⌉]+) / ([^⌈⌉/]+)⌉", r"((\1 + (\2) - 1) // (\2))", text)
    # Python warns of `4and` and the like, which tells nobody anything.
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
            raise _no_layout(text, f"{brief(ast.unparse(node))} is no extent or stride")


def _combined(op: ast.operator, a: Any, b: Any, text: str) -> Any:
    if isinstance(a, tuple) or isinstance(b, tuple):
        raise _no_layout(text, "tuples are not computed with")
    if isinstance(b, Coordinate) and isinstance(op, ast.Mult):
        a, b = b, a  # sizes stand on the right of coordinates
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
        f"{brief(text)} is not read: {why}",
        required="a shape, a colon and strides of the same nesting, as in (4,8):(8,1), (4,N):(N,1), (2,2):(E(0),F2(3))",
    )
