"""C text: expressions with the precedence of their outermost operator, and wrapping of long lines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain
from typing import Final

from lowering.origins.anchors import strip_anchors

TERNARY, OR, AND, EQUALITY, COMPARISON, SUM, PRODUCT, UNARY, PRIMARY = range(1, 10)
"""Operator precedence; Python has the same order for the operators that both have."""

WIDTH: Final = 110
INDENT: Final = "    "


@dataclass(frozen=True, slots=True)
class Text:
    """An expression as text.

    `level` is the precedence of its outermost operator. `narrow` is set if C evaluates it as an `int`.
    """

    text: str
    level: int = PRIMARY
    narrow: bool = False

    def at(self, level: int) -> str:
        """Return the text as an operand of at least this precedence, in parentheses if necessary."""
        return self.text if self.level >= level else f"({self.text})"

    def widened(self) -> Text:
        """Return the same value as an int64_t."""
        return Text(f"(int64_t){self.at(UNARY)}", UNARY) if self.narrow else self


def indented(lines: list[str]) -> list[str]:
    """Indent lines by one level."""
    return [INDENT + line if line else line for line in lines]


_CLASSES: Final[tuple[tuple[str, ...], ...]] = (
    ("; ",),
    (", ",),
    (" ? ", " : "),
    (" || ", " or "),
    (" && ", " and "),
    (" + ", " - "),
    (" * ", " / "),
)
"""Points where a line may be broken, after punctuation or before an operator, weakest binding first."""
_ASSIGNMENTS: Final = (" = ", " += ", " -= ", " *= ", " /= ")


def wrapped(line: str, width: int = WIDTH) -> list[str]:
    """Wrap a long line: it is broken where the fewest brackets are open, at the weakest operator there.

    Each case of a conditional expression is a separate line.
    """
    plain, opening, closing = strip_anchors(line)
    text = plain.lstrip()
    # A directive must stay on one line.
    lines = [plain] if text.startswith("#") else _break(len(plain) - len(text), text, width)
    if opening or closing:
        lines[0] = opening + lines[0]
        lines[-1] = closing + lines[-1]
    return lines


def _break(margin: int, text: str, width: int, after: int = 2 * len(INDENT)) -> list[str]:
    """Break a text into lines; lines after the first are indented by `after` more."""
    whole = " " * margin + text
    places = _places(text)
    if len(whole) <= width or not places:
        return [whole]
    further = margin + 2 * len(INDENT)
    assigned = next((at for at, depth, kind in places if depth == 0 and kind in _ASSIGNMENTS), None)
    right = [place for place in places if place[2] not in _ASSIGNMENTS]
    if assigned is None and not right:
        # The start of a `for` statement, `for (int64_t i = 0;`, is not broken at its assignment.
        return [whole]
    outermost = min((depth for _, depth, _ in right), default=0)
    value = None if assigned is None else text[assigned + 1 :]
    if value is not None and (not right or (outermost and further + len(value) <= width)):
        return [whole[: margin + (assigned or 0)], " " * further + value]
    inside = [(at, kind) for at, depth, kind in right if depth == outermost]
    kinds = next(kinds for kinds in _CLASSES if any(kind in kinds for _, kind in inside))
    pieces = _pieces(text, [at for at, kind in inside if kind in kinds])
    if value is not None and margin + len(pieces[0]) > width and not outermost:
        return [whole[: margin + (assigned or 0)], *_break(further, value, width, 0)]
    if kinds == (" ? ", " : "):
        cases = _pieces(text, [at for at, kind in inside if kind == " : "])
        margins = [margin, *(margin + after for _ in cases[1:])]
        fit = all(at + len(case) <= width for at, case in zip(margins, cases, strict=True))
        return _one_each(margin, cases if fit else pieces, width, after)
    return _filled(margin, pieces, width, after)


def _one_each(margin: int, pieces: list[str], width: int, after: int) -> list[str]:
    lines = _break(margin, pieces[0], width)
    for piece in pieces[1:]:
        lines += _break(margin + after, piece, width)
    return lines


def _filled(margin: int, pieces: list[str], width: int, after: int) -> list[str]:
    """Fill lines with pieces."""
    lines: list[str] = []
    line = ""
    for piece in pieces:
        start = margin + after if lines else margin
        if line and start + len(line) + 1 + len(piece) <= width:
            line += f" {piece}"
            continue
        if line:
            lines += _break(start, line, width)
        line = piece
    return [*lines, *_break(margin + after if lines else margin, line, width)]


def _pieces(text: str, at: list[int]) -> list[str]:
    """Cut the text at these blanks."""
    ends = [*at, len(text)]
    starts = [0, *(place + 1 for place in at)]
    return [text[start:end] for start, end in zip(starts, ends, strict=True)]


def _places(text: str) -> list[tuple[int, int, str]]:
    """Return the blanks where a text may be broken, with the number of open brackets and the kind of break."""
    found: list[tuple[int, int, str]] = []
    depth = 0
    for met in _BRACKET_OR_BLANK.finditer(text):
        character, at = met[0], met.start()
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        else:
            found.append((at, depth, f" {met['rest']}" if met["rest"] else f"{text[at - 1]} "))
    return found


_BRACKET_OR_BLANK: Final = re.compile(
    r"[()\[\]{}]| (?:(?<=[,;] )|(?=(?P<rest>"
    + "|".join(re.escape(known[1:]) for known in (*_ASSIGNMENTS, *chain.from_iterable(_CLASSES[2:])))
    + ")))"
)
"""A bracket, or a blank after punctuation or before an operator."""
