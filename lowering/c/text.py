"""Pieces of C: expressions with the strength of their outermost operator, and lines of readable length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

TERNARY, OR, AND, EQUALITY, COMPARISON, SUM, PRODUCT, UNARY, PRIMARY = range(1, 10)
"""How tightly operators bind; Python has the same order among those that both have."""

WIDTH: Final = 110
INDENT: Final = "    "


@dataclass(frozen=True, slots=True)
class Text:
    """An expression as text.

    `level` is that of its outermost operator. `narrow` says that C computes it in an `int`, whatever it is meant for.
    """

    text: str
    level: int = PRIMARY
    narrow: bool = False

    def at(self, level: int) -> str:
        """The text where an operand of at least this level is needed."""
        return self.text if self.level >= level else f"({self.text})"

    def widened(self) -> Text:
        """The same value as an int64_t."""
        return Text(f"(int64_t){self.at(UNARY)}", UNARY) if self.narrow else self


def indented(lines: list[str]) -> list[str]:
    return [INDENT + line if line else line for line in lines]


_OPERATORS: Final = (" || ", " && ", " ? ", " : ", " += ", " -= ", " = ", " + ", " - ", " * ", " / ", " or ", " and ")


def wrapped(line: str, width: int = WIDTH) -> list[str]:
    """A long line as several ones: broken before an operator or after a comma, where the fewest brackets are open."""
    lines: list[str] = []
    while len(line) > width:
        start = len(line) - len(line.lstrip())
        breaks = [(depth, -at) for at, depth in _breaks(line) if start + 8 < at <= width]
        if not breaks:
            break
        at = -min(breaks)[1]
        lines.append(line[:at].rstrip())
        margin = start if lines[1:] else start + 2 * len(INDENT)
        line = " " * margin + line[at:].lstrip()
    return [*lines, line]


def _breaks(line: str) -> list[tuple[int, int]]:
    """Where a line may be broken, and how many brackets are open there."""
    found: list[tuple[int, int]] = []
    depth = 0
    for at, character in enumerate(line):
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == " " and (line[at - 1] == "," or line.startswith(_OPERATORS, at)):
            found.append((at, depth))
    return found
