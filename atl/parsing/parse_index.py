"""The parser for index expressions and conditions, with the scopes and errors of the whole parser.

condition  ::= comparisons joined by and (∧, &), or (∨, |), not (¬, ~); chains as in 0 <= i < n
index      ::= + - * // % with their usual precedence, ⌈a / b⌉ or ceildiv(a, b), ⌊a / b⌋, min(…), max(…), idx[i]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Literal, TypeAlias, TypeVar, overload

from atl.core import dtypes
from atl.core.index import Array, Index, bound, ceildiv, exclusive_or, extremum, floordiv, index, read, size
from atl.core.marks import AnyLoopMark, LetMark, LoopMark, Mark, MarkKind, marks, read_mark
from atl.core.node import MAX_DEPTH
from atl.core.predicate import FALSE, TRUE, Predicate, at_most, conjunction, disjunction, equal, less, negation, truth
from atl.core.program import is_bool_array
from atl.core.terms import Type
from atl.errors import ATLError, Location, ParseError, TooLarge
from atl.text.index_notation import INFIX_LEVELS, OPERATIONS_BY_TOKEN, RESERVED, Level

# -- tokens -----------------------------------------------------------------------------------------------------------


TokenKind: TypeAlias = Literal["name", "word", "number", "symbol", "end"]

_SYNONYMS: Final = {
    "⊞": "gen", "Σ": "sum", "∑": "sum", "Π": "prod", "∏": "prod", "∧": "and", "&": "and", "∨": "or", "¬": "not",
    "~": "not", "∞": "inf", "≤": "<=", "≥": ">=", "≠": "!=", "==": "=", "·": ".", "⊕": "+", "∘": "++", "−": "-",
    "×": "*",
}  # fmt: skip

_TOKEN: Final = re.compile(
    r"""(?P<blank>\s+|\#[^\n]*)
      | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | `(?P<quoted>(?:[^`\\\n]|\\.)+)`
      | (?P<elided>…)
      | (?P<symbol>\.\.\.|:=|//|\+\+|<<|>>|<=|>=|!=|==|[-+*/%<>=()\[\],.:|&~^⊞Σ∑Π∏∧∨¬∞≤≥≠·⊕∘−×⌈⌉⌊⌋])
    """,
    re.VERBOSE | re.ASCII,
)
MAX_DIGITS: Final = 400
_ESCAPE: Final = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class Token:
    """A token with its place in the text. A word is a reserved name."""

    kind: TokenKind
    text: str
    start: int
    stop: int

    def __str__(self) -> str:
        return "the end of the text" if self.kind == "end" else f"'{self.text}'"


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a text; the last one has kind "end". Raise `ParseError`."""
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise _unknown(text, at)
        start, at = at, found.end()
        match found.lastgroup:
            case "blank":
                continue
            case "elided":
                raise ParseError(
                    "this text was abridged and is incomplete",
                    place=Location(text, start, at),
                    required="the complete text, as printed by str(program)",
                )
            case "quoted":
                name = _ESCAPE.sub(lambda escape: "\n" if escape[1] == "n" else escape[1], found["quoted"])
                yield Token("name", name, start, at)
            case "number":
                if at - start > MAX_DIGITS:
                    raise ParseError(
                        f"a number of {at - start} digits",
                        place=Location(text, start, at),
                        required=f"at most {MAX_DIGITS} digits",
                    )
                yield Token("number", found.group(), start, at)
            case _:
                symbol = _SYNONYMS.get(found.group(), found.group())
                plain: TokenKind = "name" if symbol[0].isalpha() or symbol[0] == "_" else "symbol"
                yield Token("word" if symbol in RESERVED else plain, symbol, start, at)
    yield Token("end", "", len(text), len(text))


def _unknown(text: str, at: int) -> ParseError:
    unclosed = text[at] == "`"
    return ParseError(
        f"the quoted name that starts with {text[at]} is not closed on its line"
        if unclosed
        else f"unexpected character {text[at]!r}",
        place=Location(text, at, at + 1),
        required=f"a closing {text[at]}" if unclosed else "names, numbers and the operators of the language",
        suggestions=() if unclosed else ("write names in ASCII letters, or between back quotes: `α`",),
    )


def infix_level(token: Token) -> int:
    """Return the precedence of an infix operator of terms; -1 for other tokens."""
    if token.kind not in ("symbol", "word"):
        return -1
    if token.text == "++":
        return Level.CONCAT
    op = OPERATIONS_BY_TOKEN.get("=" if token.text == "!=" else token.text)
    return -1 if op is None else INFIX_LEVELS[op]


# -- index expressions and conditions ---------------------------------------------------------------------------------


T = TypeVar("T")

MAX_NAMES: Final = 20
"""Number of names from which a message does not list them."""

_RELATIONS: Final[dict[str, Callable[[Index, Index], Predicate]]] = {
    "<": less,
    "<=": at_most,
    ">": lambda a, b: less(b, a),
    ">=": lambda a, b: at_most(b, a),
    "=": equal,
    "!=": lambda a, b: negation(equal(a, b)),
}


MAX_SUGGESTION: Final = 40
"""Maximum length of a text that is repeated in a suggestion."""


@contextmanager
def _refuse_deep_text() -> Iterator[None]:
    """Raise an `ATLError` instead of RecursionError for deeply nested text."""
    try:
        yield
    except RecursionError:
        raise TooLarge(
            "this text is nested too deeply",
            required=f"an expression of at most {MAX_DEPTH} levels",
            suggestions=("name parts of it with let",),
        ) from None


class IndexReader:
    """A text with the current position and the names in scope.

    `sizes` are the allowed sizes; if None, every unknown name is a size.
    """

    def __init__(self, text: str, arrays: Iterable[Array] = (), sizes: set[str] | None = None) -> None:
        self.text = text
        self.arrays = {array.name: array for array in arrays}
        self.sizes = sizes
        self.mentioned: dict[str, None] = {}
        self.indices: list[str] = []
        self.tensors: list[tuple[str, Type, int]] = []
        self._tokens = list(tokens(text))
        self._at = 0

    # -- tokens -------------------------------------------------------------------------------------------------------

    @property
    def next(self) -> Token:
        return self._tokens[self._at]

    @property
    def after_next(self) -> Token:
        return self._tokens[min(self._at + 1, len(self._tokens) - 1)]

    @property
    def last(self) -> Token:
        return self._tokens[max(self._at - 1, 0)]

    def sees(self, *texts: str) -> bool:
        """Return True if the next token is one of these words or symbols."""
        return self.next.kind in ("word", "symbol") and self.next.text in texts

    def advance(self) -> Token:
        token = self.next
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def accept(self, *texts: str) -> Token | None:
        return self.advance() if self.sees(*texts) else None

    def expect(self, text: str, purpose: str) -> Token:
        """Consume this word or symbol; `purpose` is part of the error message."""
        if not self.sees(text):
            raise self.error(f"expected '{text}' {purpose}, found {self.next}", required=f"'{text}'")
        return self.advance()

    def name(self, what: str) -> str:
        """Consume a name."""
        token = self.next
        if token.kind == "word":
            raise self.error(
                f"'{token.text}' cannot name {what}: it is a reserved word",
                required="a name",
                suggestions=(f"write it between back quotes: `{token.text}`", "choose another name"),
            )
        if token.kind != "name":
            raise self.error(f"expected the name of {what}, found {token}", required="a name")
        return self.advance().text

    def whole(self, read: Callable[[], T], expected: str = "the end of the text", *suggestions: str) -> T:
        """Parse the whole text. Raise `ParseError` for superfluous text, `TooLarge` for deep nesting."""
        with _refuse_deep_text():
            made = read()
            if self.next.kind != "end":
                raise self.error(
                    f"expected {expected}, found {self.next}", required="nothing more", suggestions=suggestions
                )
            return made

    # -- errors -------------------------------------------------------------------------------------------------------

    def error(
        self, summary: str, at: Token | None = None, *, required: str | None = None, suggestions: tuple[str, ...] = ()
    ) -> ParseError:
        """Return an error at the next token, or at `at`."""
        token = at or self.next
        place = Location(self.text, token.start, max(token.stop, token.start + 1))
        if token.kind == "end":
            # Place the caret under the last character.
            written = self.text.rstrip()
            place = Location(written, max(len(written) - 1, 0), len(written))
        if token.text == "/" and not suggestions:
            # Quotients of tensors are parsed elsewhere, so a remaining "/" is between indices.
            whole = f"{self.text[: token.start]}//{self.text[token.stop :]}"
            shown = whole if len(whole) <= MAX_SUGGESTION else "a // b"
            suggestions = (f"indices have no exact division: write {shown} to round down, ceildiv(a, b) to round up",)
        return ParseError(summary, place=place, required=required, suggestions=suggestions)

    def unknown(self, token: Token, what: str, known: Iterable[str], *advice: str) -> ParseError:
        """Return an error for an unknown name, with similar names as suggestions."""
        names = list(dict.fromkeys(known))
        close = tuple(f"write {name}" for name in get_close_matches(token.text, names, n=2))
        return self.error(
            f"no {what} is called {token} here",
            token,
            required=f"one of {', '.join(names)}" if 0 < len(names) < MAX_NAMES else f"the name of a {what} in scope",
            suggestions=(*close, *advice),
        )

    @contextmanager
    def placed(self, start: int) -> Iterator[None]:
        """Give errors inside a `with` block the place from `start` to the last token."""
        try:
            yield
        except ATLError as error:
            if error.place is None:
                error.place = Location(self.text, start, self.last.stop)
            raise

    def list_of(self, read_one: Callable[[], T], close: str, what: str) -> list[T]:
        """Parse a list separated by commas, up to the closing symbol."""
        out = [read_one()]
        while self.accept(","):
            out.append(read_one())
        self.expect(close, f"after the {what}")
        return out

    @overload
    def mark(self, of: type[LoopMark]) -> AnyLoopMark: ...
    @overload
    def mark(self, of: type[LetMark]) -> LetMark: ...
    def mark(self, of: MarkKind) -> Mark:
        """Parse `|` and a mark, if present: words and numbers, with dots between them."""
        if not self.accept("|"):
            return of("")
        first = self.next
        while self.next.kind in ("name", "word", "number") or self.sees("."):
            self.advance()
        if self.last.stop <= first.start:
            raise self.error("expected a mark", required=f"one of {', '.join(marks(of))}")
        with self.placed(first.start):
            return read_mark(of, self.text[first.start : self.last.stop])

    # -- conditions and index expressions -----------------------------------------------------------------------------

    def index(self) -> Index:
        """Parse an index expression."""
        start = self.next
        return self._as_index(self._sum(), start)

    def index_operand(self) -> Index:
        """Parse a name, a number or a parenthesised index."""
        start = self.next
        return self._as_index(self._primary(), start)

    def condition(self) -> Predicate:
        start = self.next
        return self._as_condition(self._disjunction(), start)

    def _as_index(self, value: Index | Predicate, start: Token) -> Index:
        if isinstance(value, Index):
            return value
        raise self.error("expected an index, found a condition", start, required="an index expression")

    def _as_condition(self, value: Index | Predicate, start: Token) -> Predicate:
        if not isinstance(value, Index):
            return value
        raise self.error(
            "expected a condition, found an index expression",
            start,
            required="a comparison, such as i < n",
        )

    def _disjunction(self) -> Index | Predicate:
        start = self.next
        first = self._conjunction()
        if not self.sees("or", "|"):
            return first
        parts = [self._as_condition(first, start)]
        while self.accept("or", "|"):
            start = self.next
            parts.append(self._as_condition(self._conjunction(), start))
        return disjunction(parts)

    def _conjunction(self) -> Index | Predicate:
        start = self.next
        first = self._negation()
        if not self.sees("and"):
            return first
        parts = [self._as_condition(first, start)]
        while self.accept("and"):
            start = self.next
            parts.append(self._as_condition(self._negation(), start))
        return conjunction(parts)

    def _negation(self) -> Index | Predicate:
        if self.accept("not"):
            start = self.next
            return negation(self._as_condition(self._negation(), start))
        return self._comparison()

    def _comparison(self) -> Index | Predicate:
        start = self.next
        first = self._sum()
        if not self.sees(*_RELATIONS):
            return first
        left = self._as_index(first, start)
        parts: list[Predicate] = []
        while relation := self.accept(*_RELATIONS):
            right = self.index()
            parts.append(_RELATIONS[relation.text](left, right))
            left = right
        return conjunction(parts)

    def _sum(self) -> Index | Predicate:
        start = self.next
        value = self._product()
        while sign := self.accept("+", "-"):
            left, start_right = self._as_index(value, start), self.next
            right = self._as_index(self._product(), start_right)
            value = left + right if sign.text == "+" else left - right
        return value

    def _product(self) -> Index | Predicate:
        start = self.next
        value = self._signed()
        while sign := self.accept("*", "//", "%"):
            left, start_right = self._as_index(value, start), self.next
            right = self._as_index(self._signed(), start_right)
            with self.placed(start.start):
                value = left * right if sign.text == "*" else left // right if sign.text == "//" else left % right
        return value

    def _signed(self) -> Index | Predicate:
        if self.accept("-"):
            start = self.next
            return -self._as_index(self._signed(), start)
        return self._primary()

    def _primary(self) -> Index | Predicate:
        token = self.next
        match token.kind, token.text:
            case "number", text:
                if not text.isdigit():
                    compared = self.after_next.text in ("<", "<=", ">", ">=", "==", "!=")
                    by_values = (
                        "conditions can only contain indices: to select by element values, use min(…) and max(…)"
                    )
                    raise self.error(
                        f"the index {text} is not an integer",
                        required="an integer",
                        suggestions=(by_values,) if compared else (),
                    )
                self.advance()
                with self.placed(token.start):
                    return index(int(text))
            case "name", "imin" | "imax" if self.after_next.text == "(":
                # As in Python programs: atl.imin and atl.imax.
                self.advance()
                return self._extremum("min" if token.text == "imin" else "max")
            case "name", "xor" if self.after_next.text == "(":
                self.advance()
                self.expect("(", "before the parts")
                return exclusive_or(*self.list_of(self.index, ")", "parts"))
            case "name", _:
                return self._index_name()
            case "word", "true" | "false":
                return TRUE if self.advance().text == "true" else FALSE
            case "word", "min" | "max":
                self.advance()
                return self._extremum("min" if token.text == "min" else "max")
            case "word", "ceildiv":
                return self._ceildiv()
            case "symbol", "(":
                self.advance()
                value = self._disjunction()
                self.expect(")", "to close the parenthesis")
                return value
            case "symbol", "⌈" | "⌊":
                return self._between_bars()
            case _:
                raise self.error(f"expected an index or a condition, found {token}", required="a name, a number or '('")

    def _extremum(self, kind: Literal["min", "max"]) -> Index:
        self.expect("(", "before the choices")
        return extremum(kind, *self.list_of(self.index, ")", "choices"))

    def _ceildiv(self) -> Index:
        start = self.advance()
        self.expect("(", "before the operands")
        left = self.index()
        self.expect(",", "between the operands")
        right = self.index()
        self.expect(")", "after the operands")
        with self.placed(start.start):
            return ceildiv(left, right)

    def _between_bars(self) -> Index:
        """Parse ⌈a / b⌉ or ⌊a / b⌋."""
        start = self.advance()
        up = start.text == "⌈"
        left = self._as_index(self._product(), start)
        if self.sees("+", "-"):
            raise self.error("the dividend is a sum without parentheses", required="⌈(a + b) / c⌉")
        self.expect("/", "between dividend and divisor")
        right = self._as_index(self._product(), start)
        self.expect("⌉" if up else "⌋", "after the divisor")
        with self.placed(start.start):
            return ceildiv(left, right) if up else floordiv(left, right)

    def _index_name(self) -> Index | Predicate:
        token = self.advance()
        name = token.text
        for depth, known in enumerate(reversed(self.indices)):
            if known == name:
                return bound(depth)
        if name in self.arrays:
            return self._element(self.arrays[name], token)
        if self.sizes is None or name in self.sizes:
            self.mentioned[name] = None
            return size(name)
        if any(known == name for known, _, _ in self.tensors):
            raise self.error(
                f"the tensor {name} cannot be used as an index",
                token,
                required="an index, a size, or an element of an integer input",
            )
        raise self.unknown(
            token,
            "index or size",
            (*reversed(self.indices), *self.sizes),
            f"declare a size that no input mentions: {name} : size",
        )

    def _element(self, array: Array, token: Token) -> Index | Predicate:
        if not dtypes.is_integer(array.dtype) and not is_bool_array(array):
            raise self.error(
                f"an element of {array.name}, of type {array.dtype}, cannot be used as an index",
                token,
                required="an integer array",
                suggestions=("compare values with min(…) and max(…)",),
            )
        indices = self.list_of(self.index, "]", "indices") if array.shape and self.accept("[") else []
        if len(indices) != len(array.shape):
            raise self.error(
                f"{array.name} has {len(array.shape)} dimensions, but {len(indices)} indices",
                token,
                required="one index for each dimension",
            )
        element = read(array, tuple(indices))
        return truth(element) if is_bool_array(array) else element
