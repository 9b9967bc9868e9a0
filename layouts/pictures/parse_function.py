"""Parser for layouts of all families as they are printed: LEGO chains, Axe iters, matrices, swizzles.

The text is parsed, never evaluated. It may contain the functions listed here, numbers, names of sizes and axes, and
arithmetic.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

import atl
from atl.errors import ATLError, InvalidArgument, ParseError, brief
from layouts.algebra.composition import composition
from layouts.axe import Axe, Location, R, S, axis
from layouts.foundation.function import Chain, Function, swizzle
from layouts.foundation.layout import Layout, column_major, row_major
from layouts.lego import Col, CoverBy, ExpandBy, GroupBy, OrderBy, RegP, Row, TileBy, TileInto
from layouts.linear.layout import LinearLayout
from layouts.pictures.parse_layout import expression_of, read_condition, read_layout
from layouts.storages import formats

WORDS: Final[Mapping[str, Callable[..., Any]]] = {
    "GroupBy": GroupBy, "TileBy": TileBy, "TileInto": TileInto, "CoverBy": CoverBy, "ExpandBy": ExpandBy,
    "OrderBy": OrderBy, "RegP": RegP, "Row": Row, "Col": Col,
    "Swizzle": swizzle, "row_major": row_major, "column_major": column_major,
    "antidiagonal": formats.antidiagonal, "backwards": formats.backwards, "blocked": formats.blocked,
    "compact_antidiagonal": formats.compact_antidiagonal, "morton": formats.morton, "padded": formats.padded,
    "sheared": formats.sheared, "skewed": formats.skewed, "swizzled": formats.swizzled,
}  # fmt: skip
"""Functions that may be called by name."""

METHODS: Final[Mapping[tuple[str, str], Callable[..., Any]]] = {
    ("LinearLayout", "from_bases"): LinearLayout.from_bases,
    ("LinearLayout", "identity_1d"): LinearLayout.identity_1d,
    ("LinearLayout", "strided_1d"): LinearLayout.strided_1d,
    ("LinearLayout", "zeros_1d"): LinearLayout.zeros_1d,
}
"""Functions that may be called as an attribute of a name."""

LINKS: Final = ("OrderBy", "TileOrderBy")
"""Methods of LEGO chains that may be called."""

FORMS: Final = (
    "(4,8):(8,1), TileBy([3,2],[4,5]).OrderBy(Row(12,10)), S[(8,4):(4@lane,1@lane)] + R[2:4@warp], Swizzle(3,0,3), "
    'LinearLayout.from_bases([("lane",[1,2,4])],["i"]), and two of them with o between'
)


def read_function(text: str, *, given: Iterable[object] = ()) -> Function:
    """Parse a layout of any family, as it is printed or called; `a o b` is a after b.

    Facts in `given` apply to each part. Raises `ParseError` if the text is invalid, and the errors of its functions.

    >>> read_function("TileBy([3,2],[4,5]).OrderBy(Row(12,10))")(2, 1, 3, 4)
    119
    >>> read_function("S[(8,4):(4@lane,1@lane)] + R[2:4@warp] + 5@warp")
    S[(8,4):(4@lane,1@lane)] + R[2:4@warp] + 5@warp
    >>> read_function("reg: 1,2; lane: 4,8 in i: 16"), read_function("Swizzle(2,0,2) o (4,4):(4,1)")
    (reg: 1,2; lane: 4,8 in i: 16, Swizzle<2,0,2>(16) o (4,4):(4,1))
    """
    if not isinstance(text, str):
        raise InvalidArgument(f"{brief(text)} is not a string", required=f"a layout as it is printed: {FORMS}")
    facts = list(given)
    parts = [_one(part.strip(), text, facts) for part in re.split(r"\s+(?:o|∘)\s+", text)]
    made = parts[-1]
    for outer in reversed(parts[:-1]):
        both = isinstance(outer, Layout) and isinstance(made, Layout)
        made = composition(outer, made) if both else Chain(outer, made, "it is written as a chain")
    return made


def read_tiler(text: str, *, given: Iterable[object] = ()) -> Function | tuple[Any, ...]:
    """Parse a tiler: a layout, or a parenthesised tuple of tilers without strides, which applies mode by mode.

    >>> read_tiler("(4,3)"), read_tiler("(2:4,(2,8))"), read_tiler("(4,3):(1,4)"), read_tiler("4")
    ((4, 3), (2:4, (2, 8)), (4,3):(1,4), 4:1)
    """
    facts = list(given)
    parts = _between_commas(text.strip()) if isinstance(text, str) else []
    if len(parts) < 2:
        return read_function(text, given=facts)
    tilers = [read_tiler(part, given=facts) for part in parts]
    return tuple(each.shape if isinstance(each, Layout) and each == Layout(each.shape) else each for each in tilers)


def _between_commas(text: str) -> list[str]:
    """Return the parts between the commas of a parenthesised text; empty if the text is not of that form."""
    parts, level = [""], 0
    for at, sign in enumerate(text):
        level += (sign in "([") - (sign in ")]")
        if level < 1 and at < len(text) - 1:
            return []
        if sign == "," and level == 1:
            parts.append("")
        elif 0 < at < len(text) - 1:
            parts[-1] += sign
    return parts if text.endswith(")") else []


def _one(text: str, whole: str, given: list[object]) -> Function:
    if printed := re.fullmatch(r"((?:\w+: [^;:]+;? ?)+) in (\w+: \d+(?:, \w+: \d+)*)", text):
        return _matrix(printed[1], printed[2], whole)
    text = re.sub(r"Swizzle<([^<>]*)>\((\d+)\)", r"Swizzle(\1,\2)", text)
    text = re.sub(r"Swizzle<([^<>]*)>", r"Swizzle(\1)", text)
    if not re.search(rf"\b[SR]\s*\[|\b({'|'.join(WORDS)}|GenP|LinearLayout)\s*[(.]", text):
        return read_layout(text, given=given)
    try:
        made = _Reader(whole, given).value(expression_of(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, ATLError):
            raise
        why = "GenP contains functions, which cannot be parsed" if "GenP" in text else "it is not an expression"
        raise _unread(whole, why) from error
    if callable(made) and not isinstance(made, Function):
        raise _unread(whole, f"{text} is a function of the shape of a tensor", _applied(text, made))
    if not isinstance(made, Function):
        raise _unread(whole, f"{brief(made)} is not a layout")
    if isinstance(made, Axe) and given:
        return made.given(*given)
    return made


def _matrix(digits: str, places: str, whole: str) -> LinearLayout:
    """Parse a printed linear layout."""
    outs = [(name, int(size)) for name, size in re.findall(r"(\w+): (\d+)", places)]
    bases: list[tuple[str, list[list[int]]]] = []
    for part in digits.split(";"):
        name, _, listed = part.strip().partition(": ")
        found = re.fullmatch(r"-|(\d+|\([\d,]+\))(,(\d+|\([\d,]+\)))*", listed)
        if not found:
            raise _unread(whole, f"{brief(listed)} are not bases")
        texts = [] if listed == "-" else re.findall(r"\d+(?![^(]*\))|\([\d,]+\)", listed)
        bases.append((name, [[int(each) for each in re.findall(r"\d+", basis)] for basis in texts]))
    return LinearLayout.from_bases(bases, outs)


class _Reader:
    """The evaluator of one parsed expression."""

    def __init__(self, text: str, given: list[object]) -> None:
        self.text = text
        self.given = given

    def value(self, node: ast.expr) -> Any:
        """Return the value of an expression."""
        match node:
            case ast.Constant(value=int() | str() as value) if not isinstance(value, bool):
                return value
            case ast.Name(id="S"):
                return S
            case ast.Name(id="R"):
                return R
            case ast.Name(id=name) if name not in WORDS:
                return atl.sizes(name)
            case ast.Tuple(elts=parts):
                return tuple(self.value(part) for part in parts)
            case ast.List(elts=parts):
                return [self.value(part) for part in parts]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._computed(lambda: -self.value(operand))
            case ast.BinOp(left=left, op=ast.MatMult(), right=ast.Name(id=name)):
                return self._computed(lambda: self.value(left) @ axis(name))
            case ast.BinOp(left=left, op=op, right=right):
                return self._operation(op, self.value(left), self.value(right))
            case ast.Compare():
                return read_condition(ast.unparse(node))
            case ast.Subscript(value=ast.Name(id="S" | "R" as word), slice=ast.Slice(lower=low, upper=high, step=None)):
                if low is None or high is None:
                    raise _unread(self.text, f"{word} without extents or strides")
                return (S if word == "S" else R)[self.value(low) : self.value(high)]
            case ast.Call():
                return self._called(node)
            case _:
                raise _unread(self.text, f"{brief(ast.unparse(node))} is unknown here")

    def _called(self, node: ast.Call) -> Any:
        function = self._function(node.func)
        if any(isinstance(part, ast.Starred) for part in node.args):
            raise _unread(self.text, "a * argument is not allowed")
        values = [self.value(part) for part in node.args]
        named = {str(word.arg): self.value(word.value) for word in node.keywords}
        if self.given and function in (GroupBy, TileBy, TileInto, CoverBy, ExpandBy):
            named["given"] = [*named.get("given", ()), *self.given]
        return self._computed(lambda: function(*values, **named))

    def _function(self, node: ast.expr) -> Callable[..., Any]:
        match node:
            case ast.Name(id="GenP"):
                raise _unread(self.text, "GenP contains functions, which cannot be parsed")
            case ast.Name(id=name) if name in WORDS:
                return WORDS[name]
            case ast.Attribute(value=ast.Name(id=word), attr=name) if (word, name) in METHODS:
                return METHODS[word, name]
            case ast.Attribute(value=inner, attr=name) if name in LINKS:
                made = self.value(inner)
                if isinstance(made, GroupBy):
                    return made.OrderBy if name == "OrderBy" else made.TileOrderBy
                raise _unread(self.text, f"{brief(made)} has no method {name}")
            case ast.Call(func=ast.Name(id="blocked" | "padded" | "swizzled" | "morton")):
                storage: Callable[..., Any] = self._called(node)
                return storage
            case _:
                raise _unread(self.text, f"{brief(ast.unparse(node))} is unknown here")

    def _operation(self, op: ast.operator, a: Any, b: Any) -> Any:
        if isinstance(a, str | list | tuple) or isinstance(b, str | list | tuple):
            raise _unread(self.text, "arithmetic on names and lists is not defined")  # Python would repeat them
        layouts = isinstance(a, Axe | Location | LinearLayout) or isinstance(b, Axe | Location | LinearLayout)
        match op:
            case ast.Add():
                return self._computed(lambda: a + b)
            case ast.Mult():
                return self._computed(lambda: a * b)
            case ast.Sub() if not layouts:
                return self._computed(lambda: a - b)
            case ast.FloorDiv() if not layouts:
                return self._computed(lambda: a // b)
            case ast.Mod() if not layouts:
                return self._computed(lambda: a % b)
            case _:
                raise _unread(self.text, f"{type(op).__name__} of these is not a layout")

    def _computed(self, made: Callable[[], Any]) -> Any:
        try:
            return made()
        except ATLError:
            raise
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
            raise _unread(self.text, str(error)) from error


def _applied(text: str, storage: Callable[..., Any]) -> tuple[str, ...]:
    """Suggest a shape for which a storage is a layout."""
    for shape in ((64, 64), (64,), (64, 64, 64)):
        with suppress(ATLError):
            storage(shape)
            return (f"{text}({brief(shape)})",)
    return ()


def _unread(text: str, why: str, suggestions: tuple[str, ...] = ()) -> ParseError:
    return ParseError(f"cannot parse {brief(text)}: {why}", required=FORMS, suggestions=suggestions)
