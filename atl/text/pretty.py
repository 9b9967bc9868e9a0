"""Pretty printer after Wadler and Oppen: documents with possible line breaks, laid out for a given width.

A group is printed on one line if it fits. Otherwise its direct line breaks are used, and each nested group is decided
separately. Widths are computed when a document is built, so that the layout takes time linear in the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, assert_never

WIDTH: Final = 100
"""Target width of lines."""
MAX_INDENT: Final = 60
"""Maximum indentation, which keeps deeply nested terms readable."""
UNBROKEN: Final = 1 << 30
"""Width at which only hard line breaks are used."""
_NEVER: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class Line:
    """A possible line break: the text `flat` if the enclosing group fits on one line. A hard one always breaks."""

    flat: str = " "
    hard: bool = False


@dataclass(frozen=True, slots=True)
class Edge:
    """A zero-width marker for the start or end of a requested part of the text, or for the end of its head.

    If several heads are requested, `of` is the path of the part.
    """

    kind: Literal["start", "head", "stop"]
    of: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Seq:
    """A sequence of documents, with its width on one line and its width up to the first possible line break."""

    parts: tuple[Doc, ...]
    width: int
    lead: int
    breaks: bool


@dataclass(frozen=True, slots=True)
class Nest:
    """A document with more indentation after line breaks."""

    by: int
    doc: Doc


@dataclass(frozen=True, slots=True)
class Group:
    """A document that is printed on one line if it fits and is at most `limit` wide."""

    doc: Doc
    limit: int = _NEVER - 1


Doc: TypeAlias = str | Line | Edge | Seq | Nest | Group

LINE: Final = Line()
SOFT: Final = Line("")
HARD: Final = Line(hard=True)
START: Final = Edge("start")
HEAD: Final = Edge("head")
STOP: Final = Edge("stop")


def seq(*parts: Doc) -> Doc:
    """Concatenate documents."""
    width = lead = 0
    breaks = False
    for part in parts:
        part_width, part_lead, part_breaks = _measures(part)
        width += part_width
        if not breaks:
            lead += part_lead
            breaks = part_breaks
    return Seq(parts, width, lead, breaks)


def separated(parts: list[Doc], separator: Doc) -> Doc:
    """Join documents with a separator."""
    out: list[Doc] = []
    for part in parts:
        if out:
            out.append(separator)
        out.append(part)
    return seq(*out)


def call(name: str, arguments: list[Doc]) -> Doc:
    """Return a call name(argument, …), with one argument per line if it does not fit."""
    return Group(seq(f"{name}(", Nest(2, seq(SOFT, separated(arguments, seq(",", LINE)))), ")"))


def width_of(doc: Doc) -> int:
    """Return the width on one line."""
    return _measures(doc)[0]


def _measures(doc: Doc) -> tuple[int, int, bool]:
    """Return the width on one line, the width up to the first line break, and whether there is a line break."""
    match doc:
        case str():
            return len(doc), len(doc), False
        case Line(flat, hard):
            return (_NEVER if hard else len(flat)), 0, True
        case Edge():
            return 0, 0, False
        case Seq(_, width, lead, breaks):
            return width, lead, breaks
        case Nest(_, inner) | Group(inner):
            return _measures(inner)
        case _:
            assert_never(doc)


@dataclass(frozen=True, slots=True)
class TextLayout:
    """A printed text, with the offsets of `START`, `STOP` and `HEAD` in it.

    `heads` contains the start and end of each requested head.
    """

    text: str
    start: int = 0
    stop: int = 0
    head: int = 0
    heads: Mapping[tuple[int, ...], tuple[int, int]] = field(default_factory=dict)


def lay_out(doc: Doc, width: int = WIDTH) -> TextLayout:
    """Print a document."""
    out: list[str] = []
    column = length = 0
    edges = {"start": 0, "head": 0, "stop": 0}
    heads: dict[tuple[int, ...], tuple[int, int]] = {}
    stack: list[tuple[int, bool, Doc]] = [(0, False, doc)]
    while stack:
        indent, flat, at = stack.pop()
        text = ""
        match at:
            case str():
                text = at
            case Line(blank, hard):
                text = blank if flat and not hard else "\n" + " " * min(indent, MAX_INDENT)
            case Seq(parts):
                stack.extend((indent, flat, part) for part in reversed(parts))
            case Nest(by, inner):
                stack.append((indent + by, flat, inner))
            case Group(inner, limit):
                wide = _measures(inner)[0]
                fits = flat or (wide <= limit and wide + _trailing(stack, width - column - wide) <= width - column)
                stack.append((indent, fits, inner))
            case Edge(kind, of):
                if of is None:
                    edges[kind] = length
                else:
                    heads[of] = (length, length) if kind == "start" else (heads[of][0], length)
            case _:
                assert_never(at)
        if text:
            out.append(text)
            length += len(text)
            column = len(text) - 1 if text[0] == "\n" else column + len(text)
    return TextLayout("".join(out), **edges, heads=heads)


def _trailing(stack: list[tuple[int, bool, Doc]], limit: int) -> int:
    """Return the width of the following text on the same line; stop when it exceeds `limit`."""
    total = 0
    for _, flat, doc in reversed(stack):
        if total > limit:
            break
        width, lead, breaks = _measures(doc)
        if breaks and not flat:
            return total + lead
        total += width
    return total
