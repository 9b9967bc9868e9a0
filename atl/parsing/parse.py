"""Programs read from text: the inverse of `atl.text.printing`, in both spellings.

    program    ::= name (declarations) [: type | : (result : type, …)] [given conditions] := expression
    declaration::= A : float32[n, 2*k] | idx : int32[n] in [0, m) strict | crd : int32[n] rising between pos | k : size
    expression ::= gen[lo <= i < hi] e (⊞) | sum[…] e (Σ) | prod[…] e (Π) | max[…] e | min[…] e
                 | let x := e in e | [condition] . e (·)
                 | e ++ e | e + e (⊕) | e - e | e * e | e / e | -e | e[i, j] | (e)
                 | transpose e | flatten e | split k e | padl k e | padr k e | truncl k e | truncr k e
                 | select(condition, e, e) | cast(dtype, e) | value(i) | padding(type)
                 | abs(e) | sqrt(e) | exp(e) | log(e) | tanh(e) | min(e, e) | max(e, e)
                 | A | 2.5 | 2:int32

A mark of a loop stands in the range, gen[i < n | parallel] e, that of a let after its name, let x | stack := e in e:
one of those in `atl.core.marks`. An element mask[i] of an input mask : bool[n] is a condition. The body of a binder or
a let reaches as far to the right as it can; a guard reaches over products, not over sums. A size is declared by the
type of an input that mentions it, or by itself. A literal has the element type of what it meets, like on the surface,
or the one that it tells. Names that are reserved, or are no words, stand between back quotes. From # to the end of its
line is a comment. Of several results the body has the elements, one result after the other, in one dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, TypeVar, get_args

from atl.checks.assembly import make_program
from atl.checks.scope import outermost
from atl.core import dtypes
from atl.core.declared import MONOTONIC_NOTATION, bool_array
from atl.core.index import Array, Index, Monotonicity, index, shift
from atl.core.literals import agree, arithmetic, strengthen
from atl.core.marks import LetMark, LoopMark
from atl.core.predicate import Predicate, equal
from atl.core.program import Program
from atl.core.results import Result, total
from atl.core.substitution import map_type
from atl.core.terms import (
    OPERATORS_BY_WORD,
    Access,
    BinaryOp,
    Cast,
    Concat,
    Constant,
    Expr,
    Gen,
    Guard,
    Input,
    Let,
    Local,
    Padding,
    Reduce,
    Reshape,
    Select,
    Type,
    Unary,
    UnaryOp,
    Value,
)
from atl.errors import DtypeError, InvalidArgument, Location, ShapeError, brief
from atl.parsing.parse_index import IndexReader
from atl.parsing.tokens import Token
from atl.prove import Proved, prove
from atl.text.names import BINDERS, INFIX, RESERVED, Level

T = TypeVar("T")

_BINDS: Final = {"++": Level.CONCAT, "+": Level.ADD, "-": Level.ADD, "*": Level.MULTIPLY, "/": Level.MULTIPLY}
_OPERATIONS: Final[dict[str, BinaryOp]] = {"max": "max", "min": "min", **{sign: op for op, sign in INFIX.items()}}
_UNARY: Final[dict[str, UnaryOp]] = {op: op for op in get_args(UnaryOp) if op != "neg"}
_FUNCTIONS: Final = ("select", "cast", "value", "padding", *_UNARY)


def parse(text: str) -> Program:
    """The program that a text means: `parse(str(p)) == p`, and names and marks are kept.

    Raises `ParseError`, or what is wrong with the program that is written, each with the place in the text.

    >>> print(parse("twice (x : float64[n]) := gen[i < n] 2 * x[i]"))
    twice (x : float64[n]) : float64[n] :=
      ⊞[i < n] 2 * x[i]
    """
    if not isinstance(text, str):
        decoded = isinstance(text, bytes | bytearray)
        raise InvalidArgument(
            f"{brief(text, kind=True)} is no text",
            required="the text of a program, as str(program) gives it",
            suggestions=('decode it first: text.decode("utf-8")',) if decoded else (),
        )
    return _whole(_Reader(text), _Reader.program)


def parse_expr(text: str, *, inputs: Iterable[Array] = (), sizes: Iterable[str] | None = None) -> Expr:
    """The tensor expression that a text means. Without `sizes`, any other name is a size."""
    return _whole(_Reader(text, inputs, None if sizes is None else set(sizes)), _Reader.expression)


def parse_index(text: str, *, inputs: Iterable[Array] = ()) -> Index:
    """The index expression that a text means; its names are sizes, or inputs that are read."""
    return _whole(_Reader(text, inputs), _Reader.index)


def parse_predicate(text: str, *, inputs: Iterable[Array] = ()) -> Predicate:
    """The condition that a text means; its names are sizes, or inputs that are read."""
    return _whole(_Reader(text, inputs), _Reader.condition)


def _whole(reader: _Reader, read: Callable[[_Reader], T]) -> T:
    return reader.whole(
        lambda: read(reader),
        "an operator or the end of the text",
        "binders reach to the right as far as they can: put a shorter body in parentheses",
    )


@dataclass(frozen=True, slots=True)
class _Announced:
    """What the first line says of the body: its type, and its results if they are several; from where to where."""

    type: Type
    results: tuple[Result, ...]
    start: Token
    stop: int

    def place(self, text: str) -> Location:
        """Where it stands in the text."""
        return Location(text, self.start.start, self.stop)


def _of_shape(name: str, found: Type) -> str:
    return f"the body of {name} has the shape ({', '.join(map(str, found.shape))})"


class _Reader(IndexReader):
    """Reads programs and tensor expressions."""

    # -- programs -----------------------------------------------------------------------------------------------------

    def program(self) -> Program:
        name = self.name("the program")
        declared: list[Array] = []
        sizes: dict[str, None] = {}
        between: dict[str, Token] = {}
        if self.accept("(") and not self.accept(")"):
            self.list_of(lambda: self._declaration(declared, sizes, between), ")", "declarations")
        # A size is known if the type of an input mentions it; an element of an input is none.
        self.sizes = {*sizes, *self.mentioned}
        self._order_between(declared, between)
        self.arrays = {array.name: array for array in declared}
        announced = self._announced() if self.accept(":") else None
        given = self._given()
        self.expect(":=", "before the body of the program")
        start = self.next
        body = self.expression()
        with self.placed(start.start):
            body = strengthen(body, (announced.type.dtype if announced else None) or dtypes.DEFAULT)
        if self.next.kind != "end":
            return Program(name, tuple(declared), body)  # refused by the caller, which tells what is too much
        if announced is not None and announced.results and body.type.rank != 1:
            required = "one dimension: that of all their elements"
            raise ShapeError(_of_shape(name, body.type), place=announced.place(self.text), required=required)
        made = make_program(name, tuple(declared), body, given, announced.results if announced else ())
        if announced is not None:
            self._check_type(made, announced)
        return made

    def _declaration(self, declared: list[Array], sizes: dict[str, None], between: dict[str, Token]) -> None:
        token = self.next
        name = self.name("an input or a size")
        if name in sizes or any(array.name == name for array in declared):
            raise self.error(f"{name} is declared twice", token, required="a name of its own for every input and size")
        self.expect(":", "and the type of what is declared")
        if self.next.kind == "name" and self.next.text == "size":
            self.advance()
            sizes[name] = None
            return
        of = self._type(dtypes.checked_input)
        low = high = None
        if of.dtype == dtypes.BOOL:
            declared.append(bool_array(name, of.shape))
            return
        bounded = self.sees("in")
        if self.accept("in"):
            low, high = self._bounds()
        monotonic = self._monotonicity()
        if (bounded or monotonic) and not dtypes.is_integer(of.dtype):
            raise self.error(
                f"the elements of {name}, of type {of.dtype}, are given a range or an order",
                token,
                required="an integer array",
            )
        if self.next.kind == "name" and self.next.text == "between":
            self.advance()
            between[name] = self.next
            self.name("the positions between which it rises")
            if not monotonic:
                raise self.error(f"{name} has no order", token, required="rising or strict before between")
        declared.append(Array(name, of.shape, of.dtype or dtypes.DEFAULT, low, high, monotonic))

    def _monotonicity(self) -> Monotonicity:
        """An order, if one is declared."""
        for monotonic, word in MONOTONIC_NOTATION.items():
            if (self.next.kind, self.next.text) == ("name", word):
                self.advance()
                return monotonic
        return ""

    def _order_between(self, declared: list[Array], between: dict[str, Token]) -> None:
        """Gives the inputs that are ordered between positions these positions, which may be declared after them."""
        for at, array in enumerate(declared):
            token = between.get(array.name)
            if token is None:
                continue
            positions = next((each for each in declared if each.name == token.text), None)
            row = positions is not None and len(positions.shape) == len(array.shape) == 1
            if positions is None or not row or not dtypes.is_integer(positions.dtype) or positions.name in between:
                raise self.error(
                    f"{array.name} is ordered between {token.text}",
                    token,
                    required="a row that is ordered between positions in it, and another input, a row of integers that "
                    "is not itself ordered between others, for the positions",
                )
            declared[at] = replace(array, between=positions)

    def _bounds(self) -> tuple[Index | None, Index | None]:
        """[lo, hi), or with an infinity in parentheses where there is no bound."""
        low = None
        if self.accept("("):
            self.expect("-", "before the infinity")
            self.expect("inf", "where there is no lower bound")
        else:
            self.expect("[", "before the lower bound")
            low = self.index()
        self.expect(",", "between the bounds")
        high = None if self.accept("inf") else self.index()
        self.expect(")", "after the upper bound, which is not included")
        return low, high

    def _type(self, checked: Callable[[object], str] = dtypes.checked_dtype) -> Type:
        dtype = None if self.sees("[") else self._dtype(checked)
        shape = tuple(self.list_of(self.index, "]", "extents")) if self.accept("[") else ()
        return Type(dtype, shape)

    def _dtype(self, checked: Callable[[object], str] = dtypes.checked_dtype) -> str:
        token = self.next
        if token.kind != "name":
            raise self.error(f"expected an element type, found {token}", required=f"one of {', '.join(dtypes.DTYPES)}")
        self.advance()
        with self.placed(token.start):
            return checked(token.text)

    def _announced(self) -> _Announced:
        """The type of the result; or in parentheses the names and types of several."""
        start = self.next
        found: list[tuple[Result, Type]] = []
        if not self.accept("("):
            return _Announced(self._type(), (), start, self.last.stop)

        def one() -> None:
            token = self.next
            name = self.name("a result")
            if any(each.name == name for each, _ in found):
                raise self.error(f"the result {name} is named twice", token, required="a name of its own for each")
            self.expect(":", "and the type of the result")
            of = self._type()
            if found and of.dtype != found[0][1].dtype:
                raise self.error(
                    f"the result {name} has elements of type {of.dtype}, {found[0][0].name} of {found[0][1].dtype}",
                    token,
                    required="one element type for all results",
                )
            found.append((Result(name, of.shape), of))

        self.list_of(one, ")", "results")
        results = tuple(each for each, _ in found)
        return _Announced(Type(found[0][1].dtype, (total(results),)), results, start, self.last.stop)

    def _given(self) -> list[Predicate]:
        if self.next.kind != "name" or self.next.text != "given":
            return []
        self.advance()
        out = [self.condition()]
        while self.accept(","):
            out.append(self.condition())
        return out

    def _check_type(self, made: Program, announced: _Announced) -> None:
        """The type in the first line must be that of the body."""
        computed, told = Type(made.dtype, made.type.shape), announced.type
        if told.dtype != computed.dtype:
            raise DtypeError(
                f"the body of {made.name} has elements of type {computed.dtype}, not {told.dtype}",
                place=announced.place(self.text), required="the type of the body",
            )  # fmt: skip
        facts = outermost(made).facts
        alike = told.rank == computed.rank and all(
            a == b or isinstance(prove(facts, equal(a, b)), Proved)
            for a, b in zip(told.shape, computed.shape, strict=True)
        )
        if not alike:
            said, place = _of_shape(made.name, computed), announced.place(self.text)
            raise ShapeError(said, place=place, required="the shape of the body")

    # -- expressions --------------------------------------------------------------------------------------------------

    def expression(self, at_least: int = Level.BINDER) -> Expr:
        """As much as can be a tensor expression whose operators bind at least so tightly."""
        start = self.next.start
        left = self._prefix()
        while True:
            token = self.next
            if token.kind == "symbol" and token.text == "[":
                left = self._access(left, start)
                continue
            binds = _BINDS.get(token.text, -1) if token.kind == "symbol" else -1
            if binds < at_least:
                return left
            self.advance()
            right = self.expression(binds + 1)
            with self.placed(start):
                left = _joined(token.text, left, right)

    def _access(self, tensor: Expr, start: int) -> Expr:
        self.advance()
        for position in self.list_of(self.index, "]", "indices"):
            with self.placed(start):
                tensor = Access(tensor, position)
        return tensor

    def _prefix(self) -> Expr:
        token = self.next
        match token.kind, token.text:
            case "number", _:
                return self._literal()
            case "word", "inf":
                raise self.error("an infinity stands where a number does", required="a finite number")
            case "word", "max" | "min" if self.after_next.text == "(":
                return self._extreme()
            case "word", ("gen" | "sum" | "prod" | "max" | "min"):
                return self._binder()
            case "word", "let":
                return self._let()
            case "word", word if word in OPERATORS_BY_WORD:
                return self._reshape()
            case "symbol", "-":
                return self._minus()
            case "symbol", "[":
                return self._guard()
            case "symbol", "(":
                self.advance()
                inside = self.expression()
                self.expect(")", "to close the parenthesis")
                return inside
            case "name", name if self.after_next.text == "(" and name in _FUNCTIONS:
                return self._function()
            case "name", _:
                return self._tensor_name()
            case _:
                raise self.error(f"expected a tensor expression, found {token}", required="an expression")

    def _literal(self, *, negative: bool = False) -> Expr:
        token = self.advance()
        value: int | float = int(token.text) if token.text.isdigit() else float(token.text)
        with self.placed(token.start):
            return Constant(-value if negative else value, self._suffix())

    def _suffix(self) -> str | None:
        return self._dtype() if self.accept(":") else None

    def _minus(self) -> Expr:
        sign = self.advance()
        if self.next.start == sign.stop and self.next.kind == "number":
            return self._literal(negative=True)
        operand = self.expression(Level.POSTFIX)
        return Unary("neg", operand)

    def _extreme(self) -> Expr:
        token = self.advance()
        self.advance()
        left = self.expression()
        self.expect(",", "between the operands")
        right = self.expression()
        self.expect(")", "after the operands")
        with self.placed(token.start):
            return _joined(token.text, left, right)

    def _binder(self) -> Expr:
        start = self.advance()
        monoid = BINDERS[start.text]
        self.expect("[", "before the range")
        if self.next.kind in ("name", "word") and self.after_next.text == "<":
            low = index(0)
        else:
            low = self.index()
            self.expect("<=", "after the lower bound")
        name = self.name("an index")
        self.expect("<", "and the upper bound")
        high = self.index()
        mark = self.mark(LoopMark)
        self.expect("]", "after the range")
        self.indices.append(name)
        body = self.expression()
        self.indices.pop()
        with self.placed(start.start):
            if monoid is None:
                return Gen(low, high, body, name, mark)
            return Reduce(monoid, low, high, body, name, mark)

    def _let(self) -> Expr:
        self.advance()
        name = self.name("a tensor")
        mark = self.mark(LetMark)
        self.expect(":=", "before the value of the let")
        start = self.next.start
        value = self.expression()
        with self.placed(start):
            value = strengthen(value, dtypes.DEFAULT)
        self.expect("in", "before the body of the let")
        self.tensors.append((name, value.type, len(self.indices)))
        body = self.expression()
        self.tensors.pop()
        return Let(value, body, name, mark)

    def _guard(self) -> Expr:
        self.advance()
        condition = self.condition()
        self.expect("]", "after the condition of a guard")
        if not self.accept("."):
            raise self.error(
                f"expected '·' or '.' after the condition of a guard, found {self.next}", required="[p] . e"
            )
        return Guard(condition, self.expression(Level.GUARD))

    def _reshape(self) -> Expr:
        """An operator before its operand, with its amounts between them; also as a call, split(k, e)."""
        token = self.advance()
        of = OPERATORS_BY_WORD[token.text]
        wanted = len(of.form.indices)
        amounts: list[Index] = []
        called = False
        while len(amounts) < wanted and not called:
            if not self.accept("("):
                amounts.append(self.index_operand())
                continue
            amounts.append(self.index())
            called = len(amounts) == 1 and bool(self.accept(","))
            if not called:
                self.expect(")", "after the amount")
        while len(amounts) < wanted:
            amounts.append(self.index())
            self.expect(",", "after the amount")
        operand = self.expression(Level.BINDER if called else Level.RESHAPE)
        if called:
            self.expect(")", "after the operand")
        with self.placed(token.start):
            return Reshape(of(*amounts), operand)

    def _function(self) -> Expr:
        token = self.advance()
        self.advance()
        made: Expr
        with self.placed(token.start):
            match token.text:
                case "select":
                    condition = self.condition()
                    self.expect(",", "after the condition")
                    left = self.expression()
                    self.expect(",", "between the operands")
                    first, second = agree(left, self.expression())
                    made = Select(condition, first, second)
                case "cast":
                    dtype = self._dtype()
                    self.expect(",", "after the element type")
                    operand = self.expression()
                    made = strengthen(operand, dtype) if operand.type.dtype is None else Cast(dtype, operand)
                case "value":
                    position = self.index()
                    self.expect(")", "after the index")
                    return Value(position, self._suffix())
                case "padding":
                    made = Padding(Type(None, ()) if self.sees(")") else self._type())
                case _:
                    made = Unary(_UNARY[token.text], self.expression())
            self.expect(")", "after the operands")
        return made

    def _tensor_name(self) -> Expr:
        token = self.advance()
        name = token.text
        for position, (known, of, depth) in enumerate(reversed(self.tensors)):
            if known == name:
                return Local(position, _moved(of, len(self.indices) - depth))
        if name in self.arrays:
            return Input(self.arrays[name])
        if self.sees("(") and name not in self.indices:
            raise self.unknown(token, "function", (*_FUNCTIONS, *RESERVED))
        scalar = (f"write value({name}) to compute with the value of an index",)
        is_index = name in self.indices or name in (self.sizes or ())
        tensors = (*(known for known, _, _ in reversed(self.tensors)), *self.arrays)
        raise self.unknown(token, "tensor", tensors, *(scalar if is_index else ()))


def _moved(of: Type, binders: int) -> Type:
    """A type, seen from under so many more index binders."""
    return map_type(of, lambda extent: shift(extent, binders))


def _joined(sign: str, left: Expr, right: Expr) -> Expr:
    if sign == "++":
        return Concat(*agree(left, right))
    return arithmetic(_OPERATIONS[sign], left, right)
