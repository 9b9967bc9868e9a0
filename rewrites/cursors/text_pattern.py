"""Text patterns that choose places of a program.

A pattern is written as programs are printed, in Unicode or ASCII, with `_` for anything: "⊞[_ < n] _", "buf[_]",
"sum[k < _] _ * _", "[_] · _". In an index expression, `_` stands for the remaining summands: "buf[i + _]". A mark must
match only if the pattern contains one: "⊞[_ < _ | parallel] _".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from atl.core import terms
from atl.core.index import Bound, Extremum, Index, Leaf, Quotient, Size, Xor, index, map_leaves
from atl.core.marks import AnyLoopMark, LetMark, LoopMark, Mark
from atl.core.operations import UNARY
from atl.core.predicate import Predicate, conjuncts, expressions, substitute
from atl.core.traversal import Path, children, conditions_in, names_bound, names_given, own_indices, static
from atl.errors import ATLError, ParseError, brief
from atl.parsing.parse_index import IndexReader, Token, infix_level
from atl.text.index_notation import BINDERS, OPERATIONS_BY_TOKEN, PREFIX, Level
from rewrites.cursors.cursor import Cursor

_HOLE: Final = re.compile(r"(?<!\w)_(?!\w)")
_NAMED_HOLE: Final = re.compile(r"_[0-9]+_")
_UNARY: Final[frozenset[str]] = frozenset(UNARY) - {*PREFIX}


def is_name(text: str) -> bool:
    """Return whether a text is the name of a binder; any other text is a pattern."""
    return text.isidentifier() and text != "_"


# -- patterns ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pattern:
    """A parsed pattern: the constructor of a node, its attributes, indices and parts, and its mark.

    Without a constructor it matches anything; without a mark, any mark. `span` is its range in the text.
    """

    of: type[terms.Expr] | None = None
    static: tuple[object, ...] = ()
    name: str | None = None
    indices: tuple[Index, ...] | None = ()
    condition: Predicate | None = None
    parts: tuple[Pattern, ...] = ()
    mark: Mark | None = None
    span: tuple[int, int] = field(default=(0, 0), compare=False)

    @property
    def size(self) -> int:
        """Number of requirements in the pattern."""
        total, left = 0, [self]
        while left:
            at = left.pop()
            if at.of is not None:
                optional = (at.name, at.condition, at.mark)
                total += 1 + len(at.indices or ()) + sum(each is not None for each in optional)
                left += at.parts
        return total


ANYTHING: Final = Pattern()


def pattern(text: str) -> Pattern:
    """Parse a pattern. Raises `ParseError` with the place in the text."""
    reader = _PatternReader(with_numbered_holes(text))
    try:
        return reader.whole(reader.expression, "the end of the pattern")
    except ATLError as error:
        raise ParseError(
            f"{brief(text)} is neither the name of a binder nor a pattern: {without_numbers(error.summary)}",
            required="a pattern as programs are printed, with _ for anything",
            suggestions=(
                *(without_numbers(hint) for hint in error.suggestions),
                'for instance "⊞[_ < n] _", "Σ[k < _] _", "buf[_]", "[_] · _" or "_ * _"',
            ),
        ) from None


def with_numbered_holes(text: str) -> str:
    """Return the text with a unique name for each hole. Spans refer to this text."""
    count = iter(range(1_000_000))
    return _HOLE.sub(lambda _: f"_{next(count)}_", text)


def without_numbers(text: str) -> str:
    """Replace the unique names of holes by `_`."""
    return _NAMED_HOLE.sub("_", text)


class _PatternReader(IndexReader):
    """Parser of patterns: the grammar of `atl.parse`, without types and with holes."""

    def expression(self, at_least: int = Level.BINDER) -> Pattern:
        start = self.next.start
        left = self._prefix()
        while True:
            if left.of is not None:
                left = replace(left, span=(start, self.last.stop))
            token = self.next
            if self.accept("["):
                for position in self.list_of(self.index, "]", "indices"):
                    left = Pattern(terms.Access, indices=(position,), parts=(left,), span=(start, self.last.stop))
                continue
            binds = infix_level(token)
            if binds < at_least:
                return left
            self.advance()
            left = _joined(token.text, left, self.expression(binds + 1))

    def _prefix(self) -> Pattern:
        token = self.next
        match token.kind, token.text:
            case "number", text:
                self.advance()
                return Pattern(terms.Constant, static=(float(text),))
            case "word", "max" | "min" if self.after_next.text == "(":
                self.advance()
                return Pattern(terms.Binary, static=(token.text,), parts=self._arguments(2))
            case "word", ("gen" | "sum" | "prod" | "max" | "min"):
                return self._binder(self.advance())
            case "word", "let":
                return self._let()
            case "word", "rec":
                return self._rec()
            case "word", word if word in terms.OPERATORS_BY_WORD:
                return self._reshape(self.advance())
            case "symbol", "-":
                self.advance()
                return Pattern(terms.Unary, static=("neg",), parts=(self.expression(Level.POSTFIX),))
            case "word", "not":
                self.advance()
                return Pattern(terms.Unary, static=("invert",), parts=(self.expression(Level.POSTFIX),))
            case "symbol", "[":
                return self._guard()
            case "symbol", "(":
                self.advance()
                inside = self.expression()
                self.expect(")", "to close the parenthesis")
                return inside
            case "name", _:
                return self._named(self.advance())
            case _:
                raise self.error(f"expected a tensor expression, found {token}", required="an expression")

    def _arguments(self, count: int) -> tuple[Pattern, ...]:
        self.expect("(", "before the operands")
        return self._operands(count)

    def _operands(self, count: int) -> tuple[Pattern, ...]:
        start = self.next
        found = tuple(self.list_of(self.expression, ")", "operands"))
        if len(found) != count:
            raise self.error(f"{len(found)} operands", start, required=f"{count} of them")
        return found

    def _binder(self, start: Token) -> Pattern:
        monoid = BINDERS[start.text]
        name, bounds, mark = self._range()
        of: type[terms.Expr] = terms.Gen if monoid is None else terms.Reduce
        static = () if monoid is None else (monoid,)
        return Pattern(of, static, name, bounds, parts=(self.expression(),), mark=mark)

    def _rec(self) -> Pattern:
        self.advance()
        name, bounds, mark = self._range()
        rows = self.name("a tensor")
        self.name("from")
        init = self.expression()
        self.expect("in", "before the later rows")
        return Pattern(terms.Rec, (), name or _unless_hole(rows), bounds, parts=(init, self.expression()), mark=mark)

    def _range(self) -> tuple[str | None, tuple[Index, Index], AnyLoopMark | None]:
        """Parse the range of a binder in brackets: its name (None for a hole), its bounds and its mark, if any."""
        self.expect("[", "before the range")
        low = index(0)
        if self.after_next.text != "<":
            low = self.index()
            self.expect("<=", "after the lower bound")
        name = _unless_hole(self.name("an index"))
        self.expect("<", "and the upper bound")
        high = self.index()
        mark = self.mark(LoopMark) if self.sees("|") else None
        self.expect("]", "after the range")
        return name, (low, high), mark

    def _let(self) -> Pattern:
        self.advance()
        name = _unless_hole(self.name("a tensor"))
        mark = self.mark(LetMark) if self.sees("|") else None
        self.expect(":=", "before the value of the let")
        value = self.expression()
        self.expect("in", "before the body of the let")
        return Pattern(terms.Let, name=name, parts=(value, self.expression()), mark=mark)

    def _guard(self) -> Pattern:
        self.advance()
        condition = self._guarded()
        self.expect("]", "after the condition of a guard")
        if not self.accept("."):
            raise self.error("expected '·' or '.' after the condition of a guard", required="[_] · _")
        return Pattern(terms.Guard, condition=condition, parts=(self.expression(Level.GUARD),))

    def _guarded(self) -> Predicate | None:
        if _NAMED_HOLE.fullmatch(self.next.text) and self.after_next.text in ("]", ","):
            self.advance()
            return None
        return self.condition()

    def _reshape(self, token: Token) -> Pattern:
        of = terms.OPERATORS_BY_WORD[token.text]
        amounts = tuple(self.index_operand() for _ in of.form.indices)
        return Pattern(terms.Reshape, static=(of,), indices=amounts, parts=(self.expression(Level.RESHAPE),))

    def _named(self, token: Token) -> Pattern:
        if not self.sees("("):
            return ANYTHING if _NAMED_HOLE.fullmatch(token.text) else Pattern(terms.Input, name=token.text)
        match token.text:
            case "value":
                self.advance()
                position = self.index()
                self.expect(")", "after the index")
                return Pattern(terms.Value, indices=(position,))
            case "select":
                self.advance()
                condition = self._guarded()
                self.expect(",", "after the condition")
                return Pattern(terms.Select, condition=condition, parts=self._operands(2))
            case "where":
                return Pattern(terms.Where, parts=self._arguments(3))
            case "cast":
                self.advance()
                dtype = self.name("an element type")
                self.expect(",", "after the element type")
                return Pattern(terms.Cast, (dtype,), parts=self._operands(1))
            case "padding":
                self.advance()
                while not self.accept(")") and self.next.kind != "end":
                    self.advance()
                return Pattern(terms.Padding, indices=None)
            case name if name in _UNARY:
                return Pattern(terms.Unary, static=(name,), parts=self._arguments(1))
            case _:
                raise self.error(f"unknown function {token}", token, required=f"one of {', '.join(_UNARY)}")


def _joined(sign: str, left: Pattern, right: Pattern) -> Pattern:
    if sign == "++":
        return Pattern(terms.Concat, parts=(left, right))
    if sign == "!=":
        return Pattern(terms.Unary, static=("invert",), parts=(_joined("=", left, right),))
    return Pattern(terms.Binary, static=(OPERATIONS_BY_TOKEN[sign],), parts=(left, right))


def _unless_hole(name: str) -> str | None:
    return None if _NAMED_HOLE.fullmatch(name) else name


# -- matching patterns ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _NamesInScope:
    """The names in scope of a subterm, innermost last."""

    indices: tuple[str, ...]
    tensors: tuple[tuple[str, ...], ...]

    def index(self, expression: Index) -> Index:
        return map_leaves(expression, self._leaf) if expression.loose else expression

    def predicate(self, condition: Predicate) -> Predicate:
        return substitute(condition, self._leaf)

    def _leaf(self, leaf: Leaf) -> Index:
        return index(Size(self.indices[-1 - leaf.position])) if isinstance(leaf, Bound) else index(leaf)


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between a part of a pattern and the subterm at a path below the compared one."""

    wanted: Pattern
    path: Path
    what: Literal["part", "operator", "name", "mark", "index", "condition"] = "part"
    pair: tuple[Any, Any] = ("", "")
    """The differing attribute in the pattern and in the subterm, unless the whole part differs."""
    weight: int = 1
    """Number of requirements of the pattern that fail or are not compared because of this difference."""


def fits(wanted: Pattern, cursor: Cursor) -> bool:
    """Return whether a pattern matches the subterm at a cursor."""
    if wanted.of not in (None, terms.Input, type(cursor.term)):
        return False  # skips computing the names in scope
    return next(differences(wanted, cursor), None) is None


def differences(wanted: Pattern, cursor: Cursor) -> Iterator[Difference]:
    """Yield the differences between a pattern and the subterm at a cursor."""
    names = cursor.names
    return _differences(
        wanted, cursor.term, _NamesInScope(tuple(names.indices), tuple((name,) for name in names.tensors)), ()
    )


def _differences(wanted: Pattern, found: terms.Expr, names: _NamesInScope, path: Path) -> Iterator[Difference]:
    if wanted.of is None:
        return
    if wanted.of is terms.Input:
        match found:
            case terms.Input(array):
                same = array.name == wanted.name
            case terms.Local(position):
                same = wanted.name in names.tensors[-1 - position]
            case _:
                same = False
        if not same:
            yield Difference(wanted, path, weight=wanted.size)
        return
    if type(found) is not wanted.of:
        yield Difference(wanted, path, weight=wanted.size)
        return
    if wanted.static != static(found):
        operation = isinstance(found, terms.Binary | terms.Unary | terms.Reduce)
        if not operation:
            yield Difference(wanted, path, weight=wanted.size)
            return
        yield Difference(wanted, path, "operator", (wanted.static[0], static(found)[0]))
    if wanted.name not in (None, *names_given(found)):
        yield Difference(wanted, path, "name", (wanted.name, names_given(found)[0]))
    if wanted.mark is not None and found.form.mark and getattr(found, found.form.mark.field) != wanted.mark:
        yield Difference(wanted, path, "mark", (wanted.mark.value, getattr(found, found.form.mark.field).value))
    if wanted.indices is not None:
        for want, have in zip(wanted.indices, own_indices(found), strict=True):
            if not fits_index(want, named := names.index(have)):
                yield Difference(wanted, path, "index", (want, named))
    for condition in conditions_in(found):
        if wanted.condition is not None and not _fits_condition(wanted.condition, names.predicate(condition)):
            yield Difference(wanted, path, "condition", (wanted.condition, names.predicate(condition)))
    for position, (part, child) in enumerate(zip(wanted.parts, children(found), strict=True)):
        yield from _differences(part, child.expr, _inside(wanted, found, position, names), (*path, position))


def _inside(wanted: Pattern, found: terms.Expr, position: int, names: _NamesInScope) -> _NamesInScope:
    indices, tensors = names_bound(found, position)
    called = (wanted.name or name for name in indices)
    return _NamesInScope((*names.indices, *called), (*names.tensors, *((name,) for name in tensors)))


def _fits_condition(wanted: Predicate, found: Predicate) -> bool:
    """Match conjuncts in any order."""
    parts = list(conjuncts(found))
    for want in conjuncts(wanted):
        found_at = next((k for k, have in enumerate(parts) if _fits_literal(want, have)), None)
        if found_at is None:
            return False
        del parts[found_at]
    return not parts


def _fits_literal(wanted: Predicate, found: Predicate) -> bool:
    if type(wanted) is not type(found):
        return False
    pairs = list(zip(expressions(wanted), expressions(found), strict=False))
    return all(fits_index(a, b, zero=True) or fits_index(-a, b, zero=True) for a, b in pairs)


def _is_hole(expression: Index) -> bool:
    atom = expression.atom
    return isinstance(atom, Size) and _NAMED_HOLE.fullmatch(atom.name) is not None


def _has_hole(expression: Index) -> bool:
    return any(_atom_has_hole(atom) for monomial, _ in expression.terms for atom in monomial)


def _atom_has_hole(atom: object) -> bool:
    match atom:
        case Size(name):
            return _NAMED_HOLE.fullmatch(name) is not None
        case Quotient(above, below):
            return _has_hole(above) or _has_hole(below)
        case Extremum(_, parts) | Xor(parts):
            return any(_has_hole(part) for part in parts)
        case _:
            return False


def fits_index(wanted: Index, found: Index, *, zero: bool = False) -> bool:
    """Return whether an index expression matches. `_` in a sum matches nothing (0) only with `zero`."""
    if not _has_hole(wanted):
        return wanted == found
    if _is_hole(wanted):
        return True
    left = list(found.terms)
    rest = False
    for monomial, coefficient in wanted.terms:
        if len(monomial) == 1 and _is_hole(index(monomial[0])):
            rest = True
            continue
        found_at = next(
            (k for k, (other, value) in enumerate(left) if (value == coefficient) and _fits_monomial(monomial, other)),
            None,
        )
        if found_at is None:
            return False
        del left[found_at]
    return (zero or bool(left)) if rest else not left


def _fits_monomial(wanted: tuple[object, ...], found: tuple[object, ...]) -> bool:
    holes = [atom for atom in wanted if isinstance(atom, Size) and _NAMED_HOLE.fullmatch(atom.name)]
    others = [atom for atom in wanted if atom not in holes]
    left = list(found)
    for atom in others:
        found_at = next((k for k, have in enumerate(left) if _fits_atom(atom, have)), None)
        if found_at is None:
            return False
        del left[found_at]
    return bool(left) if holes else not left


def _fits_atom(wanted: object, found: object) -> bool:
    match wanted, found:
        case Quotient(above, below), Quotient(other_above, other_below):
            return fits_index(above, other_above) and fits_index(below, other_below)
        case (Extremum(kind, parts), Extremum(other, others)) if kind == other and len(parts) == len(others):
            return all(fits_index(a, b) for a, b in zip(parts, others, strict=True))
        case Xor(parts), Xor(others) if len(parts) == len(others):
            return all(fits_index(a, b) for a, b in zip(parts, others, strict=True))
        case _:
            return wanted == found
