"""Printing of programs in a notation close to that of the papers, which `atl.parse` can read.

    matmul (A : float32[n, k], B : float32[k, m]) : float32[n, m] :=
      ⊞[i < n] ⊞[j < m] Σ[l < k] A[i, l] * B[l, j]

The body of a binder or a let extends as far to the right as possible. A guard [p] · e extends over products, but not
over sums. A reshape operator and a minus sign apply to the next operand. `ascii=True` selects an ASCII notation. A
binder prints with the user's name, made unique if it would shadow another name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

from atl.core import dtypes
from atl.core import terms as tm
from atl.core.index import Array, Index
from atl.core.marks import AnyLoopMark, LoopMark, Mark
from atl.core.operations import COMPARISONS, INFIX
from atl.core.predicate import Predicate, expressions
from atl.core.program import MONOTONIC_NOTATION, Program, is_bool_array
from atl.core.traversal import Path, amounts, children
from atl.errors import Location
from atl.text.index_notation import (
    ASCII,
    INFIX_LEVELS,
    PREFIX,
    UNICODE,
    BooleanAtom,
    BooleanOp,
    Comparison,
    Condition,
    Division,
    Element,
    Extreme,
    IndexSyntax,
    Level,
    Name,
    Names,
    Number,
    Product,
    Spelling,
    Sum,
    Truth,
    names_in,
    names_of_index,
    quoted_name,
    sizes_of,
    write_condition,
    write_index,
)
from atl.text.pretty import (
    HARD,
    HEAD,
    LINE,
    SOFT,
    START,
    STOP,
    UNBROKEN,
    WIDTH,
    Doc,
    Edge,
    Group,
    Nest,
    TextLayout,
    call,
    lay_out,
    separated,
    seq,
    width_of,
)

LONGEST_PART: Final = 300
"""Maximum number of characters of a program part in a message."""
WHOLE: Final = 600
"""Maximum number of nodes of a term that is printed in full in messages and in `repr`."""
NEAR: Final = 5
"""Number of levels around the subject of a message that are printed."""
SMALL: Final = 30
"""Maximum number of nodes of a part that is never abridged."""
SHORT_LET: Final = 60
"""Maximum width of a let on one line."""


def show_index(expression: Index, *, ascii: bool = False) -> str:  # noqa: A002 (the public name)
    """Return an index expression in readable notation.

    >>> from atl.core.index import ceildiv, size
    >>> n, k = size("n"), size("k")
    >>> show_index((n - 1) % k), show_index(ceildiv(n, k) * k - n)
    ('(n - 1) % k', '⌈n / k⌉*k - n')
    """
    names = names_of_index((expression,) if expression.free else ())
    return index_text(write_index(expression, names.of_leaf), ASCII if ascii else UNICODE)


def show_predicate(predicate: Predicate, *, ascii: bool = False) -> str:  # noqa: A002
    """Return a condition in readable notation.

    >>> from atl.core.index import index, size
    >>> from atl.core.predicate import within
    >>> show_predicate(within(index(1), size("i"), size("n")))
    '1 <= i < n'
    """
    names = names_of_index(expressions(predicate))
    return condition_text(write_condition(predicate, names.of_leaf), ASCII if ascii else UNICODE)


def written(what: Index | Program) -> str:
    """Return `str` of an index expression or a program."""
    return show_program(what) if isinstance(what, Program) else show_index(what)


def show(expr: tm.Expr, *, ascii: bool = False, abridge: bool = True) -> str:  # noqa: A002
    """Return a tensor expression as text; parts of a large one are elided unless `abridge` is false."""
    return _laid(expr, _Where(None), ascii=ascii, abridge=abridge and expr.size > WHOLE).text


def show_program(program: Program, *, ascii: bool = False, abridge: bool = False) -> str:  # noqa: A002
    """Return a program as text, which `atl.parse` can read unless `abridge` elides parts of a large program."""
    return _laid(program, _Where(None), ascii=ascii, abridge=abridge and program.body.size > WHOLE).text


def place_of(program: Program | tm.Expr, path: Path, *, note: str = "", ascii: bool = False) -> Location:  # noqa: A002
    """Return the location of the part at a path, for an error message with carets below its first line.

    The line of user code is that of the innermost enclosing part that has one. A note is appended to the first line.
    """
    at = body = program.body if isinstance(program, Program) else program
    source = at.source
    for position in path:
        below = children(at)
        if position >= len(below):
            break
        at = below[position].expr
        source = at.source or source
    laid = _laid(program, _Where(path), ascii=ascii, abridge=body.size > WHOLE)
    end = laid.text.find("\n", laid.start)
    line_end = len(laid.text) if end < 0 else end
    text = f"{laid.text[:line_end]}   -- {note}{laid.text[line_end:]}" if note else laid.text
    return Location(text, laid.start, min(laid.stop, line_end), source)


def text_at(root: Program | tm.Expr, path: Path) -> str:
    """Return the text of the part at a path on one line, with the names in scope there."""
    laid = _laid(root, _Where(path), ascii=False, abridge=False, width=UNBROKEN)
    text = " ".join(laid.text[laid.start : laid.stop].split())
    return text if len(text) <= LONGEST_PART else f"{text[: LONGEST_PART - 2]} …"


def layout_at(root: Program | tm.Expr, path: Path, *, width: int = WIDTH) -> TextLayout:
    """Return the whole text with the offsets of the part at a path and of its head.

    The head of a binder is the text before its body: `⊞[i < n]`.
    """
    return _laid(root, _Where(path), ascii=False, abridge=False, width=width)


def layout_with_heads(program: Program, *, width: int = WIDTH) -> TextLayout:
    """Return the text of a program with the offsets of the heads of binders, guards and reshape operators, by path."""
    return _laid(program, _Where(None, at=()), ascii=False, abridge=False, width=width)


def show_part(part: tm.Expr, names: Names, *, width: int = WIDTH) -> str:
    """Return the text of a part of a program, with the names in scope there."""
    printer = _Printer(names, UNICODE, abridge=False)
    return lay_out(printer.piece(part, _Where(None), known=part.type.dtype == dtypes.DEFAULT).doc, width).text


def _laid(
    what: Program | tm.Expr,
    where: _Where,
    *,
    ascii: bool,  # noqa: A002
    abridge: bool,
    width: int = WIDTH,
) -> TextLayout:
    spelling = ASCII if ascii else UNICODE
    if not isinstance(what, Program):
        return lay_out(_Printer(names_in(what), spelling, abridge=abridge).piece(what, where, known=False).doc, width)
    printer = _Printer(Names((*what.sizes, *(array.name for array in what.inputs))), spelling, abridge=abridge)
    body = printer.piece(what.body, where, known=True).doc
    return lay_out(seq(Group(_header(what, printer)), Nest(2, seq(HARD, body))), width)


def _header(program: Program, printer: _Printer) -> Doc:
    """Return the document `name (inputs and sizes) : type given assumptions :=`."""
    declared = [printer.declaration(array, program.axes_of(array.name)) for array in program.inputs]
    given = dict.fromkeys(sizes_of(program.inputs))
    declared.extend(f"{quoted_name(name)} : size" for name in program.sizes if name not in given)
    result = printer.result_types(program)
    arguments = Group(seq(" (", Nest(4, seq(SOFT, separated(list(declared), seq(",", LINE)))), ")")) if declared else ""
    head = seq(quoted_name(program.name), arguments, " : ", result)
    if not program.assumptions:
        return seq(head, " :=")
    facts: list[Doc] = [printer.condition(assumption) for assumption in program.assumptions]
    return seq(head, Nest(4, seq(HARD, "given ", Group(separated(facts, seq(",", LINE))), " :=")))


# -- index expressions and conditions ---------------------------------------------------------------------------------

_SUM, _PRODUCT, _OPERAND = range(3)


def index_text(written: IndexSyntax, spelling: Spelling, at_least: int = _SUM) -> str:
    """Return the notation as text, in parentheses if its precedence is below `at_least`."""
    text, binds = _index_text(written, spelling)
    return text if binds >= at_least else f"({text})"


def _index_text(written: IndexSyntax, spelling: Spelling) -> tuple[str, int]:
    match written:
        case Number(value):
            return str(value), _OPERAND if value >= 0 else _SUM
        case Name(name):
            return quoted_name(name) if not name.startswith("#") else name, _OPERAND
        case Sum(terms):
            return _sum_text(terms, spelling), _SUM
        case Product(factors):
            return "*".join(index_text(factor, spelling, _OPERAND) for factor in factors), _PRODUCT
        case Division("ceiling", left, right):
            if spelling.ascii:
                return f"ceildiv({index_text(left, spelling)}, {index_text(right, spelling)})", _OPERAND
            above = index_text(left, spelling, _OPERAND if isinstance(left, Division) else _PRODUCT)
            return f"⌈{above} / {index_text(right, spelling, _OPERAND)}⌉", _OPERAND
        case Division(kind, left, right):
            above = index_text(left, spelling, _OPERAND if isinstance(left, Division) else _PRODUCT)
            return f"{above} {'//' if kind == 'floor' else '%'} {index_text(right, spelling, _OPERAND)}", _PRODUCT
        case Extreme(kind, choices):
            return f"{kind}({', '.join(index_text(choice, spelling) for choice in choices)})", _OPERAND
        case Element(array, indices):
            inside = ", ".join(index_text(position, spelling) for position in indices)
            return f"{quoted_name(array)}[{inside}]" if indices else quoted_name(array), _OPERAND
        case _:
            assert_never(written)


def _sum_text(terms: tuple[tuple[bool, IndexSyntax], ...], spelling: Spelling) -> str:
    out: list[str] = []
    for position, (subtracted, term) in enumerate(terms):
        if position:
            out.append(" - " if subtracted else " + ")
        elif subtracted:
            out.append("-")
        # A leading minus applies to the first factor only.
        first = subtracted and not position and isinstance(term, Division)
        out.append(index_text(term, spelling, _OPERAND if first else _PRODUCT))
    return "".join(out)


def _applied(name: str, arguments: list[str]) -> str:
    """Return the application of a metavariable."""
    return f"{quoted_name(name)}({', '.join(arguments)})" if arguments else quoted_name(name)


def condition_text(condition: Condition, spelling: Spelling, *, inner: bool = False) -> str:
    """Return the notation of a condition as text, in parentheses if it is `inner` and has several parts."""
    match condition:
        case Truth(value):
            return "true" if value else "false"
        case Comparison(operands, relations):
            out = [index_text(operands[0], spelling)]
            for relation, operand in zip(relations, operands[1:], strict=True):
                sign = spelling.unequal if relation == "!=" else relation
                out.append(f" {sign} {index_text(operand, spelling)}")
            return "".join(out)
        case BooleanAtom(name, indices, negated, is_element):
            written = [index_text(at, spelling) for at in indices]
            text = _applied(name, written)
            if is_element:
                text = f"{quoted_name(name)}[{', '.join(written)}]" if written else quoted_name(name)
            return f"not {text}" if negated else text
        case BooleanOp(every, parts):
            word = spelling.conjunction if every else spelling.disjunction
            text = f" {word} ".join(condition_text(part, spelling, inner=True) for part in parts)
            return f"({text})" if inner else text
        case _:
            assert_never(condition)


# -- tensor expressions -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Where:
    """Position relative to the subject of a message: the remaining path, or None and the distance `far` in levels.

    If all heads are requested, `at` is the path of the current part.
    """

    path: Path | None
    far: int = 0
    at: Path | None = None

    def below(self, position: int) -> _Where:
        if self.path and self.path[0] == position:
            return _Where(self.path[1:])
        at = None if self.at is None else (*self.at, position)
        return _Where(None, self.far + (NEAR // 2 if self.path else 1), at)

    @property
    def head(self) -> tuple[Doc, Doc]:
        """The documents before and after the head of a part."""
        if self.at is not None:
            return Edge("start", self.at), Edge("head", self.at)
        return (START, HEAD) if self.path == () else ("", "")


_Prefixed: TypeAlias = tm.Gen | tm.Reduce | tm.Guard | tm.Reshape


@dataclass(frozen=True, slots=True)
class _Piece:
    """A printed term with its precedence; an `open` term extends as far to the right as possible."""

    doc: Doc
    level: int = Level.ATOM
    open: bool = False


class _Printer:
    """Converter of terms to documents, with the names in scope at the current place.

    `known` means that the context determines the element type of literals; otherwise one literal prints its type.
    """

    def __init__(self, names: Names, spelling: Spelling, *, abridge: bool) -> None:
        self._names = names
        self._spelling = spelling
        self._abridge = abridge
        self._typed: dict[int, bool] = {}
        self._closed: dict[Index, str] = {}

    # -- parts --------------------------------------------------------------------------------------------------------

    def index(self, expression: Index) -> str:
        if expression.loose:
            return index_text(write_index(expression, self._names.of_leaf), self._spelling)
        if expression not in self._closed:
            self._closed[expression] = index_text(write_index(expression, self._names.of_leaf), self._spelling)
        return self._closed[expression]

    def amount(self, expression: Index) -> str:
        return index_text(write_index(expression, self._names.of_leaf), self._spelling, _OPERAND)

    def condition(self, predicate: Predicate) -> str:
        return condition_text(write_condition(predicate, self._names.of_leaf), self._spelling)

    def type(self, of: tm.Type, axes: tuple[LoopMark, ...] = (), *, trailing: bool = False) -> str:
        """Return a type; `axes` are the device axes of the dimensions of a sharded input."""
        marks = [f" | {axis.value}" if axis.value else "" for axis in axes] or [""] * of.rank
        extents = [f"{self.index(extent)}{mark}" for extent, mark in zip(of.shape, marks, strict=True)]
        extents += ["..."] if trailing else []
        return f"{dtypes.show_dtype(of.dtype)}[{', '.join(extents)}]" if extents else dtypes.show_dtype(of.dtype)

    def result_types(self, program: Program) -> Doc:
        """Return the type of the result, or the names and types of several results."""
        if not program.results:
            return self.type(tm.Type(program.dtype, program.type.shape), trailing=bool(program.trailing))
        each: list[Doc] = [f"{quoted_name(r.name)} : {self.type(r.type_in(program))}" for r in program.results]
        return Group(seq("(", Nest(4, seq(SOFT, separated(each, seq(",", LINE)))), ")"))

    def declaration(self, array: Array, axes: tuple[LoopMark, ...] = ()) -> str:
        of = self.type(tm.Type(array.dtype, array.shape), axes, trailing=array.trailing)
        text = f"{quoted_name(array.name)} : {of}"
        if not is_bool_array(array) and (array.low is not None or array.high is not None):
            low = f"[{self.index(array.low)}" if array.low is not None else f"(-{self._spelling.infinity}"
            high = self.index(array.high) if array.high is not None else self._spelling.infinity
            text += f" in {low}, {high})"
        text += f" {MONOTONIC_NOTATION[array.monotonic]}" if array.monotonic else ""
        text += f" between {quoted_name(array.between.name)}" if array.between is not None else ""
        return f"{text} after {quoted_name(array.after.name)}" if array.after is not None else text

    def _typed_by_itself(self, expr: tm.Expr) -> bool:
        """Return whether a part of the term determines its element type."""
        key = id(expr)
        if key not in self._typed:
            self._typed[key] = self._determines_type(expr)
        return self._typed[key]

    def _determines_type(self, expr: tm.Expr) -> bool:
        match expr:
            case tm.Named() | tm.Cast() | tm.Rec():
                return True
            case tm.Padding(of):
                return bool(dtypes.show_dtype(of.dtype))
            case tm.Number():
                return False
            case tm.Gen(body=body) | tm.Reduce(body=body) | tm.Guard(_, body) | tm.Let(_, body):
                return self._typed_by_itself(body)
            case tm.Access(operand, _) | tm.Unary(_, operand) | tm.Reshape(_, operand):
                return self._typed_by_itself(operand)
            case tm.Binary(op) if op in COMPARISONS:
                return True
            case (
                tm.Binary(_, left, right) | tm.Concat(left, right) | tm.Select(_, left, right)
                | tm.Where(_, left, right)
            ):  # fmt: skip
                return self._typed_by_itself(left) or self._typed_by_itself(right)
            case _:
                assert_never(expr)

    # -- terms --------------------------------------------------------------------------------------------------------

    def piece(self, expr: tm.Expr, where: _Where, *, known: bool) -> _Piece:
        """Return the term as a document, with edges if it is the subject of a message."""
        if self._elides(expr, where):
            return _Piece(self._spelling.elided)
        match expr:
            case tm.Gen() | tm.Reduce() | tm.Guard() | tm.Reshape():
                return self._chain(expr, where, known)
            case tm.Access():
                return self._access(expr, where, known)
            case _:
                made = self._piece(expr, where, known)
                return _Piece(seq(START, made.doc, STOP), made.level, made.open) if where.path == () else made

    def _elides(self, expr: tm.Expr, where: _Where) -> bool:
        return self._abridge and where.path is None and where.far > NEAR and expr.size > SMALL

    def _piece(self, expr: tm.Expr, where: _Where, known: bool) -> _Piece:
        match expr:
            case tm.Input(array):
                return _Piece(quoted_name(array.name))
            case tm.Local(position, _):
                name = self._names.of_tensor(position)
                return _Piece(name if name.startswith("#") else quoted_name(name))
            case tm.TensorVar():
                return _Piece(quoted_name(self._names.of_variable(expr)))
            case tm.Metavariable(name=name, indices=indices, tensors=tensors):
                parts = (self.piece(at, where.below(position), known=True) for position, at in enumerate(tensors))
                arguments = [*map(self.index, indices), *(part.doc for part in parts)]
                return _Piece(call(quoted_name(name), arguments) if arguments else quoted_name(name))
            case tm.Constant(value, dtype):
                text = repr(value)
                return _Piece(text + self._suffix(dtype, known), Level.MINUS if text.startswith("-") else Level.ATOM)
            case tm.Value(position, dtype):
                return _Piece(f"value({self.index(position)}){self._suffix(dtype, known)}")
            case tm.Padding(of):
                return _Piece(f"padding({self.type(of)})")
            case tm.Let():
                return self._let(expr, where, known)
            case tm.Rec():
                return self._rec(expr, where)
            case tm.Unary("neg" | "invert" as op, operand):
                # A minus sign before a number would be parsed as a negative literal.
                made = self._operand(
                    operand, where.below(0), Level.POSTFIX, known, enclosed=isinstance(operand, tm.Constant)
                )
                return _Piece(seq(PREFIX[op], made.doc), Level.MINUS, made.open)
            case tm.Unary(op, operand):
                return _Piece(call(op, [self.piece(operand, where.below(0), known=known).doc]))
            case tm.Cast(dtype, operand):
                return _Piece(call("cast", [dtype, self.piece(operand, where.below(0), known=False).doc]))
            case tm.Select(predicate, left, right):
                return _Piece(call("select", [self.condition(predicate), *self._pair(left, right, where, known)]))
            case tm.Where(test, left, right):
                first = self.piece(test, where.below(0), known=False)
                return _Piece(call("where", [first.doc, *self._pair(left, right, where, known, first=1)]))
            case tm.Binary("min" | "max" as op, left, right):
                return _Piece(call(op, self._pair(left, right, where, known)))
            case tm.Binary() | tm.Concat():
                made = self._spine(expr, where, known)
                return _Piece(Group(made.doc), made.level, made.open)
            case tm.Gen() | tm.Reduce() | tm.Guard() | tm.Reshape() | tm.Access():
                return self.piece(expr, where, known=known)
            case _:
                assert_never(expr)

    def _suffix(self, dtype: str | None, known: bool) -> str:
        return "" if known or not (shown := dtypes.show_dtype(dtype)) else f":{shown}"

    def _pair(self, left: tm.Expr, right: tm.Expr, where: _Where, known: bool, *, first: int = 0) -> list[Doc]:
        """Return two operands of equal type, which are the parts from number `first` on."""
        known_left, known_right = self._known_in(left, right, known)
        return [
            self.piece(left, where.below(first), known=known_left).doc,
            self.piece(right, where.below(first + 1), known=known_right).doc,
        ]

    def _known_in(self, left: tm.Expr, right: tm.Expr, known: bool) -> tuple[bool, bool]:
        """Return whether the element type of literals is known in each of two operands of equal type."""
        known = known or self._typed_by_itself(left) or self._typed_by_itself(right)
        return known, True

    def _operand(
        self, expr: tm.Expr, where: _Where, at_least: int, known: bool, *, last: bool = True, enclosed: bool = False
    ) -> _Piece:
        """Return a term as an operand, in parentheses if it binds too weakly or would absorb the following text."""
        made = self.piece(expr, where, known=known)
        fits = made.level >= at_least or (made.level == Level.BINDER and made.open)
        if fits and not enclosed and (last or not made.open):
            return made
        return _Piece(Group(seq("(", Nest(1, made.doc), ")")))

    def _spine(self, expr: tm.Binary | tm.Concat, where: _Where, known: bool, *, last: bool = True) -> _Piece:
        """Return a left-associative chain of infix operators of equal precedence, with line breaks before operators."""
        sign, level = self._infix(expr)
        known = known and not (isinstance(expr, tm.Binary) and expr.op in COMPARISONS)
        first, second = self._known_in(expr.left, expr.right, known)
        left = self._spine_start(expr.left, where.below(0), level, first)
        right = self._operand(expr.right, where.below(1), level + 1, second, last=last)
        return _Piece(seq(left.doc, LINE, f"{sign} ", Nest(2, right.doc)), level, right.open)

    def _spine_start(self, expr: tm.Expr, where: _Where, level: int, known: bool) -> _Piece:
        match expr:
            case tm.Binary() | tm.Concat() if self._is_infix(expr) and self._infix(expr)[1] == level:
                made = self._spine(expr, where, known, last=False)
                return _Piece(seq(START, made.doc, STOP), made.level) if where.path == () else made
            case _:
                return self._operand(expr, where, level, known, last=False)

    def _infix(self, expr: tm.Binary | tm.Concat) -> tuple[str, int]:
        match expr:
            case tm.Concat():
                return "++", Level.CONCAT
            case tm.Binary("add", left, _) if left.type.rank:
                return self._spelling.add_tensors, Level.ADD
            case tm.Binary(op, _, _):
                return INFIX[op], INFIX_LEVELS[op]

    @staticmethod
    def _is_infix(expr: tm.Binary | tm.Concat) -> bool:
        return isinstance(expr, tm.Concat) or expr.op in INFIX

    def _access(self, expr: tm.Access, where: _Where, known: bool) -> _Piece:
        """Return tensor[i, j], which merges nested accesses."""
        indices: list[Doc] = []
        base: tm.Expr = expr
        starts: Doc = ""
        while isinstance(base, tm.Access):
            if where.path == ():
                starts = START
                indices.append(STOP)
            indices.append(self.index(base.index))
            base, where = base.tensor, where.below(0)
        made = self._operand(base, where, Level.POSTFIX, known, last=False)
        inside: list[Doc] = []
        for part in reversed(indices):
            if inside and part is not STOP:
                inside.append(", ")
            inside.append(part)
        closed = [*inside[:-1], "]", STOP] if inside[-1] is STOP else [*inside, "]"]
        return _Piece(seq(starts, made.doc, "[", *closed), Level.POSTFIX)

    def _chain(self, expr: _Prefixed, where: _Where, known: bool) -> _Piece:
        """Return a chain of binders, guards and reshape operators, filled into lines, followed by the indented body."""
        parts: list[Doc] = []
        at: tm.Expr = expr
        at_least: int = Level.BINDER
        binders, ends = 0, False
        while isinstance(at, tm.Gen | tm.Reduce | tm.Guard | tm.Reshape) and (
            not parts or self._continues(at, where, at_least)
        ):
            edge, after = where.head
            ends = ends or where.path == ()
            binders += isinstance(at, tm.Gen | tm.Reduce)
            head, at_least = self._head(at)
            parts.append(Group(seq(LINE, edge, head, after)) if parts else seq(edge, head, after))
            at, where = children(at)[0].expr, where.below(0)
        body = self._operand(at, where, at_least, known)
        for _ in range(binders):
            self._names.unbind_index()
        doc = seq(*parts, Nest(2, Group(seq(LINE, body.doc))), STOP if ends else "")
        level = (
            Level.GUARD
            if isinstance(expr, tm.Guard)
            else Level.RESHAPE
            if isinstance(expr, tm.Reshape)
            else Level.BINDER
        )
        return _Piece(Group(doc), level, bool(binders) or body.open)

    def _continues(self, at: _Prefixed, where: _Where, at_least: int) -> bool:
        if self._elides(at, where):
            return False
        return not isinstance(at, tm.Guard) or at_least <= Level.GUARD

    def _head(self, at: _Prefixed) -> tuple[str, int]:
        """Return the text before the body and the precedence that the body needs, and bind the index of a binder."""
        match at:
            case tm.Gen(low, high, _, name, mark):
                return f"{self._spelling.gen}[{self._range(low, high, name, mark)}]", Level.BINDER
            case tm.Reduce(monoid, low, high, _, name, mark):
                return f"{self._spelling.reduction(monoid)}[{self._range(low, high, name, mark)}]", Level.BINDER
            case tm.Guard(predicate, _):
                return f"[{self.condition(predicate)}] {self._spelling.dot}", Level.GUARD
            case tm.Reshape(op, _):
                return self._reshape(op), Level.RESHAPE
            case _:
                assert_never(at)

    def _range(self, low: Index, high: Index, hint: str, mark: AnyLoopMark) -> str:
        start = "" if low.constant == 0 else f"{self.index(low)} <= "
        stop = self.index(high)
        return f"{start}{quoted_name(self._names.bind_index(hint))} < {stop}{_mark(mark)}"

    def _reshape(self, op: tm.ReshapeOp) -> str:
        return " ".join((op.form.word, *map(self.amount, amounts(op))))

    def _let(self, expr: tm.Let, where: _Where, known: bool) -> _Piece:
        inner = isinstance(expr.value, tm.Let | tm.Rec)
        value = self._operand(
            expr.value, where.below(0), Level.BINDER, expr.value.type.dtype == dtypes.DEFAULT, enclosed=inner
        )
        name = self._names.bind_tensor(expr.name)
        body = self.piece(expr.body, where.below(1), known=known)
        self._names.unbind_tensor()
        first = Group(seq(f"let {quoted_name(name)}{_mark(expr.mark)} :=", Nest(2, seq(LINE, value.doc)), LINE, "in"))
        short = width_of(first) + width_of(body.doc) < SHORT_LET
        return _Piece(Group(seq(first, LINE if short else HARD, body.doc)), Level.BINDER, open=True)

    def _rec(self, expr: tm.Rec, where: _Where) -> _Piece:
        """Return `rec[low <= p < high] y from init in body`; the first rows determine the element type of the body."""
        inner = isinstance(expr.init, tm.Let | tm.Rec)
        of_init = expr.init.type.dtype == dtypes.DEFAULT
        init = self._operand(expr.init, where.below(0), Level.BINDER, of_init, enclosed=inner)
        head = f"rec[{self._range(expr.low, expr.high, expr.name, expr.mark)}]"
        rows = self._names.bind_tensor(expr.rows)
        body = self.piece(expr.body, where.below(1), known=True)
        self._names.unbind_tensor()
        self._names.unbind_index()
        first = Group(seq(f"{head} {quoted_name(rows)} from", Nest(2, seq(LINE, init.doc)), LINE, "in"))
        return _Piece(Group(seq(first, Nest(2, seq(LINE, body.doc)))), Level.BINDER, open=True)


def _mark(mark: Mark) -> str:
    return f" | {mark.value}" if mark.value else ""
