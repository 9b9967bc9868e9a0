"""The tokenizer. Both spellings give the same tokens: `⊞` becomes the word `gen`, `≤` the symbol `<=`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from atl.errors import Location, ParseError
from atl.text.index_notation import RESERVED

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
      | (?P<elided>…|\.\.\.)
      | (?P<symbol>:=|//|\+\+|<=|>=|!=|==|[-+*/%<>=()\[\],.:|&~⊞Σ∑Π∏∧∨¬∞≤≥≠·⊕∘−×⌈⌉⌊⌋])
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
