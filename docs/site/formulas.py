"""Conversion of the LaTeX of `atl.text.latex` to MathML, which browsers show without scripts and without a network.

Only the commands of the notation are supported. Others raise an error, which fails the strict build of the site.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from typing import Final

_TOKEN: Final = re.compile(r"\\[a-zA-Z]+|\\.|[{}_^&]|:=|\s+|\d+(?:\.\d+)?|.", re.DOTALL)
_SIGNS: Final = {
    "boxplus": "⊞", "sum": "∑", "prod": "∏", "cdot": "·", "le": "≤", "ne": "≠", "land": "∧", "lor": "∨", "lnot": "¬",
    "oplus": "⊕", "veebar": "⊻", "bmod": "mod", "ll": "≪", "gg": "≫",
    "lfloor": "⌊", "rfloor": "⌋", "lceil": "⌈", "rceil": "⌉",
}  # fmt: skip
_WORDS: Final = ("max", "min", "exp", "log", "tanh", "sin", "cos")
_FONTS: Final = {"mathit": "italic", "mathsf": "normal", "mathbf": "bold", "text": "normal", "operatorname": "normal"}
_SPACES: Final = {",": 0.17, " ": 0.33, "quad": 1.0, "!": -0.17}
_LETTERS: Final = {"_": "_", "&": "&", "%": "%", "$": "$", "#": "#", "{": "{", "}": "}", "backslash": "\\", "sim": "~"}
_ENDS_OF_A_CELL: Final = ("&", r"\\", r"\end")
_BLOCK: Final = ' display="block"'
_FIXED: Final = ' stretchy="false"'
_UNDER: Final = frozenset("⊞∑∏") | {"max", "min"}
"""Operators with their range below them."""


class NoFormula(ValueError):
    """A text is not LaTeX of the supported kind."""


def mathml(latex: str) -> str:
    r"""Return the MathML of a formula between dollar signs; two dollar signs make a displayed formula.

    >>> mathml(r"$n \le 8$")
    '<math><mrow><mi>n</mi><mo>≤</mo><mn>8</mn></mrow></math>'
    """
    displayed = latex.startswith("$$")
    inside = latex.strip().strip("$")
    reader = _Reader(inside)
    row = reader.row(lambda token: False)
    if reader.at < len(reader.tokens):
        raise NoFormula(f"{reader.tokens[reader.at]!r} in {latex!r}")
    return f"<math{_BLOCK if displayed else ''}>{row}</math>"


def _kept(text: str) -> str:
    """Escape a word, with non-breaking spaces. Browsers drop ordinary spaces at the ends of text."""
    return escape(text).replace(" ", "\u00a0")


class _Reader:
    """A reader of a sequence of tokens."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = _TOKEN.findall(text)
        self.at = 0

    def next(self) -> str:
        if self.at >= len(self.tokens):
            raise NoFormula(f"the formula ends too soon: {''.join(self.tokens)!r}")
        self.at += 1
        return self.tokens[self.at - 1]

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def row(self, ends: Callable[[str], bool]) -> str:
        """Read up to a token for which `ends` is true, and do not consume it."""
        parts: list[str] = []
        while self.at < len(self.tokens) and not ends(self.peek()):
            if self.peek().isspace():
                self.at += 1
            elif self.peek() in ("_", "^"):
                self._script(parts)
            else:
                parts.append(self.one())
        return f"<mrow>{''.join(parts)}</mrow>"

    def _script(self, parts: list[str]) -> None:
        """Read a range below an operator, or a subscript or superscript of the part before."""
        sign = self.next()
        if not parts:
            raise NoFormula(f"nothing before {sign}")
        base, script = parts.pop(), self.one()
        below = any(f">{operator}<" in base for operator in _UNDER) and base.startswith("<mo")
        kind = ("munder" if below else "msub") if sign == "_" else ("mover" if below else "msup")
        parts.append(f"<{kind}>{base}{script}</{kind}>")

    def one(self) -> str:
        """Read one group, command, number or letter."""
        token = self.next()
        if token == "{":
            inside = self.row(lambda t: t == "}")
            self.next()
            return inside
        if token.startswith("\\"):
            return self._command(token[1:])
        if token[0].isdigit():
            return f"<mn>{token}</mn>"
        if token.isalpha():
            return f"<mi>{token}</mi>"
        if token in "}&":
            raise NoFormula(f"unexpected {token}")
        if token == "-":
            return "<mo>−</mo>"
        return f"<mo{_FIXED if token in '()[]|' else ''}>{escape(token)}</mo>"

    def _command(self, name: str) -> str:
        match name:
            case "displaystyle" | "limits":
                return ""
            case "mathop" | "mathbin":
                return self._operator()
            case "left":
                return self._fenced()
            case "begin":
                return self._table()
            case "frac":
                return f"<mfrac>{self.one()}{self.one()}</mfrac>"
            case "sqrt":
                return f"<msqrt>{self.one()}</msqrt>"
            case _ if name in _FONTS:
                return f'<mtext class="atl-{name}">{_kept(self._letters())}</mtext>'
            case _ if name in _SPACES:
                return f'<mspace width="{_SPACES[name]}em"/>'
            case _ if name in _SIGNS:
                return f"<mo>{_SIGNS[name]}</mo>"
            case _ if name in _WORDS:
                return f"<mo>{name}</mo>"
            case _ if name in _LETTERS:
                return f"<mi>{escape(_LETTERS[name])}</mi>"
            case _:
                raise NoFormula(f"unknown command \\{name}")

    def _operator(self) -> str:
        r"""Read the argument of \mathop{\boxplus}\limits or \mathbin{+\!\!+} as one operator."""
        inside = re.sub(r"<mspace[^>]*/>|</?m(?:row|o)[^>]*>", "", self.one())
        if self.peek() == r"\limits":
            self.at += 1
        return f"<mo>{inside}</mo>"

    def _letters(self) -> str:
        """Read the letters of a word in braces."""
        if self.next() != "{":
            raise NoFormula("a word without braces")
        out: list[str] = []
        while (token := self.next()) != "}":
            name = token[1:] if token.startswith("\\") else None
            if name in ("backslash", "sim", "hat"):  # these take an empty group
                self.one()
            out.append(token if name is None else "^" if name == "hat" else _LETTERS[name])
        return "".join(out)

    def _fenced(self) -> str:
        opens = self._fence()
        inside = self.row(lambda token: token == r"\right")
        self.next()
        return f"<mrow>{opens}{inside}{self._fence()}</mrow>"

    def _fence(self) -> str:
        token = self.next()
        return f"<mo>{escape(_SIGNS.get(token[1:], token))}</mo>"

    def _table(self) -> str:
        r"""Read lines and columns, up to \end."""
        of = self._letters()
        rows: list[str] = []
        while True:
            cells: list[str] = []
            while True:
                cells.append(f"<mtd>{self.row(lambda token: token in _ENDS_OF_A_CELL)}</mtd>")
                end = self.next()
                if end != "&":
                    break
            rows.append(f"<mtr>{''.join(cells)}</mtr>")
            if end == r"\end":
                break
        self._letters()
        table = f'<mtable columnalign="left" class="atl-{of}" displaystyle="true">{"".join(rows)}</mtable>'
        return f"<mrow><mo>{{</mo>{table}</mrow>" if of == "cases" else table
