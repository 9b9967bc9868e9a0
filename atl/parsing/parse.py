"""The parser for programs: the inverse of `atl.text.printing`, in both spellings.

    program    ::= name (declarations) [: type | : (result : type, …)] [given conditions] := expression
    declaration::= A : float32[n, 2*k] | idx : int32[n] in [0, m) strict | crd : int32[n] rising between pos | k : size
                 | col : int32[n] strict after row
    expression ::= gen[lo <= i < hi] e (⊞) | sum[…] e (Σ) | prod[…] e (Π) | max[…] e | min[…] e
                 | let x := e in e | rec[lo <= p < hi] y from e in e | [condition] . e (·)
                 | e ++ e | e + e (⊕) | e - e | e * e | e / e | -e | e[i, j] | (e)
                 | transpose e | flatten e | split k e | padl k e | padr k e | truncl k e | truncr k e
                 | select(condition, e, e) | cast(dtype, e) | value(i) | padding(type)
                 | abs(e) | sqrt(e) | exp(e) | log(e) | tanh(e) | erf(e) | sin(e) | cos(e) | min(e, e) | max(e, e)
                 | A | 2.5 | 2:int32

A loop's mark is written in the range, gen[i < n | parallel] e, and a let's mark after its name, let x | stack := e in e
(see `atl.core.marks`). A sharded dimension has the mark of a device axis, A : float32[P | device.x, n]. An element
mask[i] of an input mask : bool[n] is a condition. The body of a binder or let extends as far right as possible; a guard
extends over products, not over sums. A size is declared by an input type that mentions it, or by itself. A literal has
the element type of the other operand, as in Python programs, or the type written after it. Reserved words and other
strings are used as names between back quotes. Comments extend from # to the end of the line. If a program has several
results, its body is one-dimensional and contains their elements in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from atl.checks.scope import outermost
from atl.checks.wellformed import make_program
from atl.core import dtypes, terms
from atl.core.index import Array, Index, Monotonicity, bound, index, missing_for_after, shift
from atl.core.marks import DEVICES, AnyLoopMark, LetMark, LoopMark
from atl.core.operations import UNARY, BinaryOp, UnaryOp
from atl.core.predicate import Predicate, equal
from atl.core.program import MONOTONIC_NOTATION, Program, Result, Sharding, bool_array, total
from atl.core.substitution import agree, arithmetic, choice, map_type, strengthen
from atl.errors import DtypeError, InvalidArgument, Location, ShapeError, brief
from atl.parsing.parse_index import IndexReader, Token, infix_level
from atl.prove import Proved, prove
from atl.text.index_notation import BINDERS, OPERATIONS_BY_TOKEN, PREFIX, RESERVED, Level

T = TypeVar("T")

_OPERATIONS: Final[dict[str, BinaryOp]] = {"max": "max", "min": "min", **OPERATIONS_BY_TOKEN}
_UNARY: Final[dict[str, UnaryOp]] = {op: op for op in UNARY if op not in PREFIX}
_FUNCTIONS: Final = ("select", "where", "cast", "value", "padding", *_UNARY)


def parse(text: str) -> Program:
    """Parse a program: `parse(str(p)) == p`, with names and marks preserved.

    Raise `ParseError`, or the error of building the program; both show the place in the text.

    >>> print(parse("twice (x : float64[n]) := gen[i < n] 2 * x[i]"))
    twice (x : float64[n]) : float64[n] :=
      ⊞[i < n] 2 * x[i]
    """
    if not isinstance(text, str):
        decoded = isinstance(text, bytes | bytearray)
        raise InvalidArgument(
            f"{brief(text, kind=True)} is not a string",
            required="the text of a program, as printed by str(program)",
            suggestions=('decode it first: text.decode("utf-8")',) if decoded else (),
        )
    return _whole(_Reader(text), _Reader.program)


def parse_expr(text: str, *, inputs: Iterable[Array] = (), sizes: Iterable[str] | None = None) -> terms.Expr:
    """Parse a tensor expression. Without `sizes`, every unknown name is a size."""
    return _whole(_Reader(text, inputs, None if sizes is None else set(sizes)), _Reader.expression)


def parse_index(text: str, *, inputs: Iterable[Array] = ()) -> Index:
    """Parse an index expression, whose names are sizes or inputs."""
    return _whole(_Reader(text, inputs), _Reader.index)


def parse_predicate(text: str, *, inputs: Iterable[Array] = ()) -> Predicate:
    """Parse a condition, whose names are sizes or inputs."""
    return _whole(_Reader(text, inputs), _Reader.condition)


def _whole(reader: _Reader, read: Callable[[_Reader], T]) -> T:
    return reader.whole(
        lambda: read(reader),
        "an operator or the end of the text",
        "the body of a binder extends as far right as possible: put a shorter body in parentheses",
    )


@dataclass(frozen=True, slots=True)
class _Order:
    """An order within segments, `between` positions, or in a lexicographic order, `after` another input."""

    word: str
    token: Token


@dataclass(frozen=True, slots=True)
class _Header:
    """The declared type of the body and the declared results, with the place of the declaration."""

    type: terms.Type
    results: tuple[Result, ...]
    start: Token
    stop: int
    trailing: bool = False

    def place(self, text: str) -> Location:
        """Return the place of the declaration in the text."""
        return Location(text, self.start.start, self.stop)


def _of_shape(name: str, found: terms.Type) -> str:
    return f"the body of {name} has the shape ({', '.join(map(str, found.shape))})"


class _Reader(IndexReader):
    """Parses programs and tensor expressions."""

    # -- programs -----------------------------------------------------------------------------------------------------

    def program(self) -> Program:
        name = self.name("the program")
        declared: list[Array] = []
        sizes: dict[str, None] = {}
        orders: dict[str, _Order] = {}
        sharded: list[Sharding] = []
        if self.accept("(") and not self.accept(")"):
            self.list_of(lambda: self._declaration(declared, sizes, orders, sharded), ")", "declarations")
        # Names that occur in the type of an input are sizes, except inputs whose elements are read.
        self.sizes = {*sizes, *self.mentioned}
        self._set_orders(declared, orders)
        self.arrays = {array.name: array for array in declared}
        header = self._header() if self.accept(":") else None
        given = self._given()
        self.expect(":=", "before the body of the program")
        start = self.next
        body = self.expression()
        with self.placed(start.start):
            body = strengthen(body, (header.type.dtype if header else None) or dtypes.DEFAULT)
        if self.next.kind != "end":
            return Program(name, tuple(declared), body)  # the caller reports the superfluous text
        if header is not None and header.results and body.type.rank != 1:
            required = "one dimension, which contains the elements of all results"
            raise ShapeError(_of_shape(name, body.type), place=header.place(self.text), required=required)
        if header is not None and any(each.dtype for each in header.results):
            self._check_dtype(name, body.type.dtype, header)
        made = make_program(name, tuple(declared), body, given, header.results if header else ())
        if header is not None:
            self._check_type(made, header)
        return replace(made, sharded=tuple(sharded))

    def _declaration(
        self, declared: list[Array], sizes: dict[str, None], orders: dict[str, _Order], sharded: list[Sharding]
    ) -> None:
        token = self.next
        name = self.name("an input or a size")
        if name in sizes or any(array.name == name for array in declared):
            raise self.error(f"{name} is declared twice", token, required="different names for all inputs and sizes")
        self.expect(":", "and a type")
        if self.next.kind == "name" and self.next.text == "size":
            self.advance()
            sizes[name] = None
            return
        start = self.next
        of, axes, trailing = self._sharded_type()
        if any(axis is not LoopMark.NONE for axis in axes):
            with self.placed(start.start):
                sharded.append(Sharding(name, axes))
        low = high = None
        if of.dtype == dtypes.BOOL and not trailing:
            declared.append(bool_array(name, of.shape))
            return
        bounded = self.sees("in")
        if self.accept("in"):
            low, high = self._bounds()
        monotonic = self._monotonicity()
        if (bounded or monotonic) and of.dtype not in dtypes.INTEGERS:
            raise self.error(
                f"{name} has a range or an order, and elements of type {of.dtype}",
                token,
                required="an integer array",
            )
        word = self.next.text
        if self.next.kind == "name" and word in ("between", "after"):
            self.advance()
            orders[name] = _Order(word, self.next)
            self.name("the positions" if word == "between" else "an ordered input")
            if not monotonic:
                raise self.error(f"{name} has no order", token, required=f"rising or strict before {word}")
        with self.placed(start.start):
            declared.append(Array(name, of.shape, of.dtype or dtypes.DEFAULT, low, high, monotonic, trailing=trailing))

    def _monotonicity(self) -> Monotonicity:
        """Parse an order, if one is declared."""
        for monotonic, word in MONOTONIC_NOTATION.items():
            if (self.next.kind, self.next.text) == ("name", word):
                self.advance()
                return monotonic
        return ""

    def _set_orders(self, declared: list[Array], orders: dict[str, _Order]) -> None:
        """Set the positions between which inputs are ordered, and the inputs after which they are ordered.

        These may be declared later.
        """
        for at, array in enumerate(declared):
            if array.name in orders and orders[array.name].word == "between":
                declared[at] = self._between(array, declared, orders)
        for name in [name for name, order in orders.items() if order.word == "after"]:
            self._after(name, declared, orders, ())

    def _after(self, name: str, declared: list[Array], orders: dict[str, _Order], pending: tuple[str, ...]) -> None:
        """Set the input after which an input is ordered; before that, the one after which that input is ordered."""
        token = orders[name].token
        other = orders.get(token.text)
        if other is not None and other.word == "after" and token.text not in (*pending, name):
            self._after(token.text, declared, orders, (*pending, name))
        at = next(at for at, each in enumerate(declared) if each.name == name)
        array, first = declared[at], next((each for each in declared if each.name == token.text), None)
        if first is None:
            missing: str | None = "the name of another input"
        elif token.text in (*pending, name):
            missing = "two inputs of which only one is ordered after the other"
        else:
            missing = missing_for_after(array.shape, array.dtype, first)
        if first is None or missing is not None:
            raise self.error(f"{name} cannot be ordered after {token.text}", token, required=missing)
        if array.after is None:
            declared[at] = replace(array, after=first)

    def _between(self, array: Array, declared: list[Array], orders: dict[str, _Order]) -> Array:
        token = orders[array.name].token
        positions = next((each for each in declared if each.name == token.text), None)
        row = positions is not None and len(positions.shape) == len(array.shape) == 1
        if positions is None or not row or positions.dtype not in dtypes.INTEGERS or positions.name in orders:
            raise self.error(
                f"{array.name} cannot be ordered between {token.text}",
                token,
                required="a one-dimensional input, ordered between positions in another one-dimensional "
                "integer input that is not itself ordered between or after others",
            )
        return replace(array, between=positions)

    def _bounds(self) -> tuple[Index | None, Index | None]:
        """Parse the range [lo, hi); missing bounds are infinities in parentheses."""
        low = None
        if self.accept("("):
            self.expect("-", "before the infinity")
            self.expect("inf", "where a lower bound is missing")
        else:
            self.expect("[", "before the lower bound")
            low = self.index()
        self.expect(",", "between the bounds")
        high = None if self.accept("inf") else self.index()
        self.expect(")", "after the upper bound, which is not included")
        return low, high

    def _type(self, checked: Callable[[object], str] = dtypes.checked_dtype) -> terms.Type:
        dtype = None if self.sees("[") else self._dtype(checked)
        shape = tuple(self.list_of(self.index, "]", "extents")) if self.accept("[") else ()
        return terms.Type(dtype, shape)

    def _sharded_type(self) -> tuple[terms.Type, tuple[LoopMark, ...], bool]:
        """Parse the type of an input, whose extents may have the marks of device axes and trailing dimensions."""
        dtype = None if self.sees("[") else self._dtype()
        found, trailing = self._extents(lambda: (self.index(), self._axis()))
        return terms.Type(dtype, tuple(extent for extent, _ in found)), tuple(axis for _, axis in found), trailing

    def _extents(self, read_one: Callable[[], T]) -> tuple[list[T], bool]:
        """Parse extents in brackets, if any; return whether they end with trailing dimensions, `...`."""
        found: list[T] = []
        if not self.accept("["):
            return found, False
        while not self.accept("..."):
            found.append(read_one())
            if not self.accept(","):
                self.expect("]", "after the extents")
                return found, False
        self.expect("]", "after the trailing dimensions")
        return found, True

    def _axis(self) -> LoopMark:
        start = self.next
        mark = self.mark(LoopMark)
        if not isinstance(mark, LoopMark) or mark not in (LoopMark.NONE, *DEVICES):
            words = ", ".join(axis.value for axis in DEVICES)
            raise self.error(f"{mark.value} is not an axis of a mesh", start, required=f"a device axis: {words}")
        return mark

    def _dtype(self, checked: Callable[[object], str] = dtypes.checked_dtype) -> str:
        token = self.next
        if token.kind != "name":
            raise self.error(
                f"expected an element type, found {token}", required=f"one of {', '.join(dtypes.ELEMENTS)}"
            )
        self.advance()
        with self.placed(token.start):
            return checked(token.text)

    def _header(self) -> _Header:
        """Parse the type of the result, or the names and types of several results in parentheses."""
        start = self.next
        found: list[tuple[str, terms.Type]] = []
        if not self.accept("("):
            dtype = None if self.sees("[") else self._dtype()
            shape, trailing = self._extents(self.index)
            return _Header(terms.Type(dtype, tuple(shape)), (), start, self.last.stop, trailing)

        def one() -> None:
            token = self.next
            name = self.name("a result")
            if any(other == name for other, _ in found):
                raise self.error(f"the result {name} is named twice", token, required="different names")
            self.expect(":", "and the type of the result")
            of = self._type()
            found.append((name, of))

        self.list_of(one, ")", "results")
        kinds = {of.dtype: None for _, of in found}
        common = next(iter(kinds)) if len(kinds) == 1 else dtypes.results_dtype(str(each) for each in kinds)
        results = tuple(Result(name, of.shape, of.dtype if len(kinds) > 1 else None) for name, of in found)
        return _Header(terms.Type(common, (total(results),)), results, start, self.last.stop)

    def _given(self) -> list[Predicate]:
        if self.next.kind != "name" or self.next.text != "given":
            return []
        self.advance()
        out = [self.condition()]
        while self.accept(","):
            out.append(self.condition())
        return out

    def _check_dtype(self, name: str, computed: str | None, header: _Header) -> None:
        if header.type.dtype != computed:
            raise DtypeError(
                f"the body of {name} has elements of type {computed}, not {header.type.dtype}",
                place=header.place(self.text), required="the type of the body",
            )  # fmt: skip

    def _check_type(self, made: Program, header: _Header) -> None:
        """Check the declared type of the result against the body."""
        computed, declared_type = terms.Type(made.dtype, made.type.shape), header.type
        self._check_dtype(made.name, computed.dtype, header)
        facts = outermost(made).facts
        alike = declared_type.rank == computed.rank and all(
            a == b or isinstance(prove(facts, equal(a, b)), Proved)
            for a, b in zip(declared_type.shape, computed.shape, strict=True)
        )
        if not alike:
            summary, place = _of_shape(made.name, computed), header.place(self.text)
            raise ShapeError(summary, place=place, required="the shape of the body")
        if header.trailing != bool(made.trailing):
            raise ShapeError(
                f"the result of {made.name} has {'no ' if header.trailing else ''}trailing dimensions",
                place=header.place(self.text),
                required="`...` as the last extent of the result if an input has it, and only then",
            )

    # -- expressions --------------------------------------------------------------------------------------------------

    def expression(self, at_least: int = Level.BINDER) -> terms.Expr:
        """Parse a tensor expression with operators of at least this precedence."""
        start = self.next.start
        left = self._prefix()
        while True:
            token = self.next
            if token.kind == "symbol" and token.text == "[":
                left = self._access(left, start)
                continue
            binds = infix_level(token)
            if binds < at_least:
                return left
            self.advance()
            right = self.expression(binds + 1)
            with self.placed(start):
                left = _binary(token.text, left, right)

    def _access(self, tensor: terms.Expr, start: int) -> terms.Expr:
        self.advance()
        for position in self.list_of(self.index, "]", "indices"):
            with self.placed(start):
                tensor = terms.Access(tensor, position)
        return tensor

    def _prefix(self) -> terms.Expr:
        token = self.next
        match token.kind, token.text:
            case "number", _:
                return self._literal()
            case "word", "inf":
                raise self.error("an infinity cannot be used as a literal", required="a finite number")
            case "word", "max" | "min" if self.after_next.text == "(":
                return self._extreme()
            case "word", ("gen" | "sum" | "prod" | "max" | "min"):
                return self._binder()
            case "word", "let":
                return self._let()
            case "word", "rec":
                return self._rec()
            case "word", word if word in terms.OPERATORS_BY_WORD:
                return self._reshape()
            case "symbol", "-":
                return self._minus()
            case "word", "not":
                self.advance()
                return terms.Unary("invert", self.expression(Level.POSTFIX))
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

    def _literal(self, *, negative: bool = False) -> terms.Expr:
        token = self.advance()
        value: int | float = int(token.text) if token.text.isdigit() else float(token.text)
        with self.placed(token.start):
            return terms.Constant(-value if negative else value, self._suffix())

    def _suffix(self) -> str | None:
        return self._dtype() if self.accept(":") else None

    def _minus(self) -> terms.Expr:
        sign = self.advance()
        if self.next.start == sign.stop and self.next.kind == "number":
            return self._literal(negative=True)
        operand = self.expression(Level.POSTFIX)
        return terms.Unary("neg", operand)

    def _extreme(self) -> terms.Expr:
        token = self.advance()
        self.advance()
        left = self.expression()
        self.expect(",", "between the operands")
        right = self.expression()
        self.expect(")", "after the operands")
        with self.placed(token.start):
            return _binary(token.text, left, right)

    def _binder(self) -> terms.Expr:
        start = self.advance()
        monoid = BINDERS[start.text]
        low, high, name, mark = self._range()
        self.indices.append(name)
        body = self.expression()
        self.indices.pop()
        with self.placed(start.start):
            if monoid is None:
                return terms.Gen(low, high, body, name, mark)
            return terms.Reduce(monoid, low, high, body, name, mark)

    def _range(self) -> tuple[Index, Index, str, AnyLoopMark]:
        """Parse the range of a binder in brackets: its bounds, its name and its mark."""
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
        return low, high, name, mark

    def _rec(self) -> terms.Expr:
        start = self.advance()
        low, high, name, mark = self._range()
        rows = self.name("a tensor")
        if (self.next.kind, self.next.text) != ("name", "from"):
            raise self.error(
                f"expected 'from' before the first rows, found {self.next}", required="rec[…] y from x in e"
            )
        self.advance()
        begin = self.next.start
        init = self.expression()
        with self.placed(begin):
            init = strengthen(init, dtypes.DEFAULT)
            of = terms.rows_before(init.type, bound(0), 1)
        self.expect("in", "before the later rows")
        self.indices.append(name)
        self.tensors.append((rows, of, len(self.indices)))
        body = self.expression()
        self.tensors.pop()
        self.indices.pop()
        with self.placed(start.start):
            body = strengthen(body, init.type.dtype or dtypes.DEFAULT)
            return terms.Rec(low, high, init, body, name, rows, mark)

    def _let(self) -> terms.Expr:
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
        return terms.Let(value, body, name, mark)

    def _guard(self) -> terms.Expr:
        self.advance()
        condition = self.condition()
        self.expect("]", "after the condition of a guard")
        if not self.accept("."):
            raise self.error(
                f"expected '·' or '.' after the condition of a guard, found {self.next}", required="[p] . e"
            )
        return terms.Guard(condition, self.expression(Level.GUARD))

    def _reshape(self) -> terms.Expr:
        """Parse a reshape operator with its amounts, in prefix form or as a call, split(k, e)."""
        token = self.advance()
        of = terms.OPERATORS_BY_WORD[token.text]
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
            return terms.Reshape(of(*amounts), operand)

    def _function(self) -> terms.Expr:
        token = self.advance()
        self.advance()
        made: terms.Expr
        with self.placed(token.start):
            match token.text:
                case "select":
                    condition = self.condition()
                    self.expect(",", "after the condition")
                    left = self.expression()
                    self.expect(",", "between the operands")
                    first, second = agree(left, self.expression())
                    made = terms.Select(condition, first, second)
                case "where":
                    test = self.expression()
                    self.expect(",", "after the test")
                    left = self.expression()
                    self.expect(",", "between the operands")
                    made = choice(test, left, self.expression())
                case "cast":
                    dtype = self._dtype()
                    self.expect(",", "after the element type")
                    operand = self.expression()
                    made = strengthen(operand, dtype) if operand.type.dtype is None else terms.Cast(dtype, operand)
                case "value":
                    position = self.index()
                    self.expect(")", "after the index")
                    return terms.Value(position, self._suffix())
                case "padding":
                    made = terms.Padding(terms.Type(None, ()) if self.sees(")") else self._type())
                case _:
                    made = terms.Unary(_UNARY[token.text], self.expression())
            self.expect(")", "after the operands")
        return made

    def _tensor_name(self) -> terms.Expr:
        token = self.advance()
        name = token.text
        for position, (known, of, depth) in enumerate(reversed(self.tensors)):
            if known == name:
                return terms.Local(position, _shifted(of, len(self.indices) - depth))
        if name in self.arrays:
            return terms.Input(self.arrays[name])
        if self.sees("(") and name not in self.indices:
            raise self.unknown(token, "function", (*_FUNCTIONS, *RESERVED))
        scalar = (f"write value({name}) to compute with the value of an index",)
        is_index = name in self.indices or name in (self.sizes or ())
        tensors = (*(known for known, _, _ in reversed(self.tensors)), *self.arrays)
        raise self.unknown(token, "tensor", tensors, *(scalar if is_index else ()))


def _shifted(of: terms.Type, binders: int) -> terms.Type:
    """Return a type as seen under `binders` more index binders."""
    return map_type(of, lambda extent: shift(extent, binders))


def _binary(sign: str, left: terms.Expr, right: terms.Expr) -> terms.Expr:
    if sign == "++":
        return terms.Concat(*agree(left, right))
    if sign == "!=":
        return terms.Unary("invert", arithmetic("eq", left, right))
    return arithmetic(_OPERATIONS[sign], left, right)
