r"""LaTeX output for notebooks (MathJax, KaTeX), in the notation of `atl.text.printing`.

Precedences, names, remainders and conditions are the same as in text. A range is set below its operator, a quotient is
a fraction, and every let starts a new line.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias, assert_never

from atl.core import terms as tm
from atl.core.dtypes import show_dtype
from atl.core.index import Index
from atl.core.marks import Mark
from atl.core.operations import INFIX, OPERATIONS, BinaryOp, UnaryOp
from atl.core.predicate import Predicate, expressions
from atl.core.program import Program
from atl.core.traversal import amounts, children
from atl.text import index_notation as notation
from atl.text.printing import WHOLE

_BIG: Final = {"sum": r"\sum", "product": r"\prod", "max": r"\max", "min": r"\min"}
_GEN: Final = r"\mathop{\boxplus}\limits"
_RELATIONS: Final = {"<": "<", "<=": r"\le", "=": "=", "!=": r"\ne"}
WIDTH: Final = 70
"""Approximate maximum width of a line, in characters."""
_COMMAND: Final = re.compile(r"\\(?:left|right|mathop|limits|math[a-z]+|quad|[, ])|[{}]|(?<=\\)[a-z]+")
_SPECIAL: Final = str.maketrans(
    {c: "\\" + c for c in "_&%$#{}"} | {"\\": r"\backslash{}", "~": r"\sim{}", "^": r"\hat{}"}
)

_Piece: TypeAlias = tuple[str, notation.Level, bool]
"""LaTeX of a term, its precedence, and whether it extends as far to the right as possible."""


def latex(what: Program | tm.Expr) -> str:
    r"""Return LaTeX for a program or a term, with dollar signs.

    >>> from atl.core.index import size
    >>> from atl.core.terms import Constant, Gen
    >>> print(latex(Gen(size("n") * 0, size("n"), Constant(1, None))))
    $\displaystyle \mathop{\boxplus}\limits_{i < n}\, 1$
    """
    if not isinstance(what, Program):
        body = _Writer(notation.names_in(what)).lines(what)
        return f"$\\displaystyle {body[0]}$" if len(body) == 1 else _aligned(body)
    writer = _Writer(notation.Names((*what.sizes, *(array.name for array in what.inputs))))
    declared = [
        f"{_name(array.name)} : {writer.type(tm.Type(array.dtype, array.shape), trailing=array.trailing)}"
        for array in what.inputs
    ]
    mentioned = set(notation.sizes_of(what.inputs))
    declared.extend(f"{_name(name)} : \\mathsf{{size}}" for name in what.sizes if name not in mentioned)
    results = [f"{_name(each.name)} : {writer.type(each.type_in(what))}" for each in what.results]
    result_types = (
        f"({', '.join(results)})"
        if results
        else writer.type(tm.Type(what.dtype, what.type.shape), trailing=bool(what.trailing))
    )
    head = f"{_name(what.name)}({', '.join(declared)}) : {result_types} :="
    given = [r"\quad \text{given } " + ", ".join(map(writer.condition, what.assumptions))] if what.assumptions else []
    return _aligned([head, *given, *(f"\\quad {line}" for line in writer.lines(what.body))])


def formula(what: Program | tm.Expr | Index | Predicate | tuple[Index, ...]) -> str | None:
    r"""Return LaTeX for a value, with dollar signs; None for a large value.

    >>> from atl.core.index import ceildiv, index, size
    >>> formula((size("n"), ceildiv(size("m"), index(8))))
    '$\\left(n, \\left\\lceil \\frac{m}{8} \\right\\rceil\\right)$'
    """
    match what:
        case Program():
            return None if what.body.size > WHOLE else latex(what)
        case Index():
            return None if what.size > WHOLE else f"${_standalone(what)}$"
        case tuple():
            extents = ", ".join(map(_standalone, what))
            return f"$\\left({extents}{',' if len(what) == 1 else ''}\\right)$"
        case tm.Term():
            return None if what.size > WHOLE else latex(what)
        case _:
            names = notation.names_of_index(expressions(what))
            return f"${_condition(notation.write_condition(what, names.of_leaf))}$"


def _standalone(expression: Index) -> str:
    names = notation.names_of_index((expression,) if expression.free else ())
    return _index(notation.write_index(expression, names.of_leaf))


def _aligned(lines: list[str]) -> str:
    rows = " \\\\\n".join(f"& {line}" for line in lines)
    return f"$$\\begin{{aligned}}\n{rows}\n\\end{{aligned}}$$"


def _name(name: str) -> str:
    """Return LaTeX for a name: single letters as variables, words in italics, trailing digits as a subscript."""
    stem = name.rstrip("0123456789")
    digits = name[len(stem) :]
    if digits and len(stem) > 1:
        stem = stem.removesuffix("_")
    shown = stem.translate(_SPECIAL)
    base = shown if len(stem) == 1 and stem.isalpha() else f"\\mathit{{{shown}}}"
    return f"{base}_{{{digits}}}" if digits else base


# -- index expressions and conditions ---------------------------------------------------------------------------------


def _index(written: notation.IndexSyntax, *, tight: bool = False) -> str:
    """Return LaTeX for an index expression; with `tight`, sums and remainders are in parentheses."""
    match written:
        case notation.Number(value):
            return f"({value})" if tight and value < 0 else str(value)
        case notation.Name(name):
            return _name(name)
        case notation.Sum(terms):
            signs = [
                ("-" if subtracted else "") if not at else ("- " if subtracted else "+ ")
                for at, (subtracted, _) in enumerate(terms)
            ]
            text = " ".join(
                sign + _index(term, tight=sign.strip() == "-" and isinstance(term, notation.Division))
                for sign, (_, term) in zip(signs, terms, strict=True)
            )
            return f"({text})" if tight else text
        case notation.Product(factors):
            return r" \, ".join(_index(factor, tight=True) for factor in factors)
        case notation.Division("remainder", left, right):
            text = f"{_index(left, tight=True)} \\bmod {_index(right, tight=True)}"
            return f"({text})" if tight else text
        case notation.Division(kind, left, right):
            side = "floor" if kind == "floor" else "ceil"
            return f"\\left\\l{side} \\frac{{{_index(left)}}}{{{_index(right)}}} \\right\\r{side}"
        case notation.Extreme(kind, choices):
            function = r"\operatorname{xor}" if kind == "xor" else f"\\{kind}"
            return f"{function}({', '.join(map(_index, choices))})"
        case notation.Element(array, indices):
            return f"{_name(array)}[{', '.join(map(_index, indices))}]" if indices else _name(array)
        case _:
            assert_never(written)


def _condition(condition: notation.Condition, *, inner: bool = False) -> str:
    match condition:
        case notation.Truth(value):
            return r"\mathsf{true}" if value else r"\mathsf{false}"
        case notation.Comparison(operands, relations):
            rest = (
                f" {_RELATIONS[sign]} {_index(operand)}" for sign, operand in zip(relations, operands[1:], strict=True)
            )
            return _index(operands[0]) + "".join(rest)
        case notation.BooleanAtom(name, indices, negated, is_element):
            begin, end = "[]" if is_element else "()"
            stated = _name(name) + (f"{begin}{', '.join(map(_index, indices))}{end}" if indices else "")
            return f"\\lnot {stated}" if negated else stated
        case notation.BooleanOp(every, parts):
            text = (r" \land " if every else r" \lor ").join(_condition(part, inner=True) for part in parts)
            return f"({text})" if inner else text
        case _:
            assert_never(condition)


# -- tensor expressions -----------------------------------------------------------------------------------------------


class _Writer:
    """Converter of terms to LaTeX, with the names in scope at the current place."""

    def __init__(self, names: notation.Names) -> None:
        self._names = names

    def index(self, expression: Index) -> str:
        return _index(notation.write_index(expression, self._names.of_leaf))

    def condition(self, predicate: Predicate) -> str:
        return _condition(notation.write_condition(predicate, self._names.of_leaf))

    def type(self, of: tm.Type, *, trailing: bool = False) -> str:
        extents = [*map(self.index, of.shape), *([r"\ldots"] if trailing else [])]
        shape = f"[{', '.join(extents)}]" if extents else ""
        return f"\\mathsf{{{show_dtype(of.dtype)}}}{shape}"

    def lines(self, expr: tm.Expr) -> list[str]:
        """Return the lines of a term, with a line break after each let and in long chains of operators."""
        out: list[str] = []
        line, at_least, lets, indices = "", int(notation.Level.BINDER), 0, 0
        while isinstance(expr, tm.Let | tm.Gen | tm.Reduce | tm.Guard | tm.Reshape):
            if isinstance(expr, tm.Let):
                value = self.lines(expr.value)
                first, *rest = self._around(value) if isinstance(expr.value, tm.Let) else value
                out += filter(None, [line, f"{self._let_head(expr)} {first}", *(f"\\quad {each}" for each in rest)])
                out[-1] += r" \ \mathbf{in}"
                line, at_least, lets = "", int(notation.Level.BINDER), lets + 1
            elif isinstance(expr, tm.Guard) and at_least > notation.Level.GUARD:
                break
            else:
                head, at_least = self._head(expr)
                out, line = _filled(out, line, head)
                indices += isinstance(expr, tm.Gen | tm.Reduce)
            expr = children(expr)[-1].expr
        out, line = _filled(out, line, self._last_operand(expr, at_least)[0])
        for _ in range(indices):
            self._names.unbind_index()
        for _ in range(lets):
            self._names.unbind_tensor()
        return [*out, line]

    def _head(self, expr: tm.Gen | tm.Reduce | tm.Guard | tm.Reshape) -> tuple[str, int]:
        """Return the text before the body, and the precedence that the body needs."""
        match expr:
            case tm.Gen() | tm.Reduce():
                return f"{self._range(expr)}\\, ", notation.Level.BINDER
            case tm.Guard(predicate):
                return f"[{self.condition(predicate)}] \\cdot ", notation.Level.GUARD
            case tm.Reshape(op):
                return f"{self._reshape(op)}\\ ", notation.Level.RESHAPE
            case _:
                assert_never(expr)

    @staticmethod
    def _around(lines: list[str]) -> list[str]:
        """Enclose lines in parentheses of fixed size, because \\left and \\right cannot span lines."""
        return [f"({lines[0]}", *lines[1:-1], f"{lines[-1]})"]

    def _let_head(self, expr: tm.Let) -> str:
        """Return `let x :=` and bind x."""
        return f"\\mathbf{{let}}\\ {_name(self._names.bind_tensor(expr.name))}{_mark(expr.mark)} :="

    def _operand(self, expr: tm.Expr, at_least: int, *, last: bool = True) -> str:
        text, level, is_open = self.piece(expr)
        fits = level >= at_least or (level == notation.Level.BINDER and is_open)
        return text if fits and (last or not is_open) else f"\\left({text}\\right)"

    def piece(self, expr: tm.Expr) -> _Piece:
        match expr:
            case tm.Input(array):
                return _name(array.name), notation.Level.ATOM, False
            case tm.Local(position, _):
                return _name(self._names.of_tensor(position)), notation.Level.ATOM, False
            case tm.TensorVar():
                return _name(self._names.of_variable(expr)), notation.Level.ATOM, False
            case tm.Metavariable(name=name, indices=indices, tensors=tensors):
                arguments = [*map(self.index, indices), *(self.piece(at)[0] for at in tensors)]
                return _name(name) + (f"({', '.join(arguments)})" if arguments else ""), notation.Level.ATOM, False
            case tm.Constant(value, _):
                return (
                    _literal(value),
                    notation.Level.MINUS if repr(value).startswith("-") else notation.Level.ATOM,
                    False,
                )
            case tm.Value(position, _):
                return self.index(position), notation.Level.ADD, False
            case tm.Padding(of):
                return _called("padding", self.type(of)), notation.Level.ATOM, False
            case tm.Gen() | tm.Reduce():
                return f"{self._range(expr)}\\, {self._body(expr)}", notation.Level.BINDER, True
            case tm.Guard(predicate, body):
                text, is_open = self._last_operand(body, notation.Level.GUARD)
                return f"[{self.condition(predicate)}] \\cdot {text}", notation.Level.GUARD, is_open
            case tm.Let(value, body):
                bound = self._operand(value, notation.Level.BINDER, last=not isinstance(value, tm.Let))
                text = f"{self._let_head(expr)} {bound} \\ \\mathbf{{in}}\\ {self.piece(body)[0]}"
                self._names.unbind_tensor()
                return text, notation.Level.BINDER, True
            case tm.Rec(init=init, body=body):
                begun = self._operand(init, notation.Level.BINDER, last=not isinstance(init, tm.Let | tm.Rec))
                head = f"\\mathbf{{rec}}_{{{self._bounds(expr)}}}\\ {_name(self._names.bind_tensor(expr.rows))}"
                text = f"{head}\\ \\mathbf{{from}}\\ {begun} \\ \\mathbf{{in}}\\ {self.piece(body)[0]}"
                self._names.unbind_tensor()
                self._names.unbind_index()
                return text, notation.Level.BINDER, True
            case tm.Access():
                return self._access(expr), notation.Level.POSTFIX, False
            case tm.Reshape(op, operand):
                text, is_open = self._last_operand(operand, notation.Level.RESHAPE)
                return f"{self._reshape(op)}\\ {text}", notation.Level.RESHAPE, is_open
            case tm.Select(predicate, left, right):
                where, otherwise = self.piece(left)[0], self.piece(right)[0]
                cases = f"{where} & {self.condition(predicate)} \\\\ {otherwise} & \\text{{otherwise}}"
                return f"\\left(\\begin{{cases}} {cases} \\end{{cases}}\\right)", notation.Level.ATOM, False
            case tm.Elementwise() | tm.Concat():
                return self._arithmetic(expr)
            case _:
                assert_never(expr)

    def _arithmetic(self, expr: tm.Unary | tm.Binary | tm.Where | tm.Cast | tm.Concat) -> _Piece:
        match expr:
            case tm.Unary("neg" | "invert" as op, operand):
                text, is_open = self._last_operand(operand, notation.Level.POSTFIX)
                return OPERATIONS[op].latex.format(text), notation.Level.MINUS, is_open
            case tm.Unary(op, operand):
                return _applied(op, self.piece(operand)[0]), notation.Level.ATOM, False
            case tm.Cast(dtype, operand):
                return _called(dtype, self.piece(operand)[0]), notation.Level.ATOM, False
            case tm.Where(test, left, right):
                return (
                    _called("where", ", ".join(self.piece(part)[0] for part in (test, left, right))),
                    notation.Level.ATOM,
                    False,
                )
            case tm.Binary("div" as op, left, right):
                return (
                    OPERATIONS[op].latex.format(self.piece(left)[0], self.piece(right)[0]),
                    notation.Level.RESHAPE,
                    False,
                )
            case tm.Binary(op, left, right) if op not in INFIX:
                return _applied(op, f"{self.piece(left)[0]}, {self.piece(right)[0]}"), notation.Level.ATOM, False
            case tm.Binary(op, left, right):
                sign = r"\oplus" if op == "add" and left.type.rank else OPERATIONS[op].latex
                return self._infix(left, sign, right, notation.INFIX_LEVELS[op])
            case tm.Concat(left, right):
                return self._infix(left, r"\mathbin{+\!\!+}", right, notation.Level.CONCAT)
            case _:
                assert_never(expr)

    def _infix(self, left: tm.Expr, sign: str, right: tm.Expr, level: notation.Level) -> _Piece:
        first = self._operand(left, level, last=False)
        second, is_open = self._last_operand(right, level + 1)
        return f"{first} {sign} {second}", level, is_open

    def _last_operand(self, expr: tm.Expr, at_least: int) -> tuple[str, bool]:
        """Return a term as the last operand, and whether it extends as far to the right as possible."""
        text, level, is_open = self.piece(expr)
        if level >= at_least or (level == notation.Level.BINDER and is_open):
            return text, is_open
        return f"\\left({text}\\right)", False

    def _range(self, expr: tm.Gen | tm.Reduce) -> str:
        """Return the operator with its range, and bind the index."""
        operator = _GEN if isinstance(expr, tm.Gen) else _BIG[expr.monoid]
        return f"{operator}_{{{self._bounds(expr)}}}"

    def _bounds(self, expr: tm.Gen | tm.Reduce | tm.Rec) -> str:
        """Return the range of a binder, and bind the index."""
        low = "" if expr.low.constant == 0 else f"{self.index(expr.low)} \\le "
        high = self.index(expr.high)
        return f"{low}{_name(self._names.bind_index(expr.name))} < {high}{_mark(expr.mark)}"

    def _body(self, expr: tm.Gen | tm.Reduce) -> str:
        text = self.piece(expr.body)[0]
        self._names.unbind_index()
        return text

    def _access(self, expr: tm.Access) -> str:
        indices: list[str] = []
        base: tm.Expr = expr
        while isinstance(base, tm.Access):
            indices.append(self.index(base.index))
            base = base.tensor
        return f"{self._operand(base, notation.Level.POSTFIX, last=False)}[{', '.join(reversed(indices))}]"

    def _reshape(self, op: tm.ReshapeOp) -> str:
        by = ", ".join(map(self.index, amounts(op)))
        return f"\\mathsf{{{op.form.word}}}_{{{by}}}" if by else f"\\mathsf{{{op.form.word}}}"


def _filled(lines: list[str], line: str, part: str) -> tuple[list[str], str]:
    """Append a part to the last line, or to a new line if it does not fit."""
    if line and _width(line) + _width(part) > WIDTH:
        return [*lines, line], f"\\quad {part}"
    return lines, line + part


def _width(text: str) -> int:
    """Return the approximate width of a formula in characters."""
    return len(_COMMAND.sub("", text).replace(" ", ""))


def _applied(op: UnaryOp | BinaryOp, arguments: str) -> str:
    """Return an operation around its arguments, or a call of it."""
    latex = OPERATIONS[op].latex
    return latex.format(arguments) if "{}" in latex else f"{latex}\\left({arguments}\\right)"


def _called(name: str, argument: str) -> str:
    return f"\\mathsf{{{name}}}\\left({argument}\\right)"


def _literal(value: float) -> str:
    """Return LaTeX for a literal, with a power of ten for an exponent."""
    text = repr(value)
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa} \\cdot 10^{{{int(exponent)}}}" if exponent else text


def _mark(mark: Mark) -> str:
    return f"\\ \\text{{[{mark.value}]}}" if mark.value else ""
