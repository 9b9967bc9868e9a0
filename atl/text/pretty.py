"""Laying out text on lines of a given width: documents with places where a line may break, after Wadler and Oppen.

A group stands on one line if it fits there; otherwise its own lines break, and each group within decides anew. Widths
are summed when a document is made, so that laying out takes time proportional to the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, assert_never

WIDTH: Final = 100
"""Lines break at about this column."""
MAX_INDENT: Final = 60
"""Lines are indented no further, so that a deep term does not consist of blanks."""
UNBROKEN: Final = 1 << 30
"""At this width no line breaks that need not."""
_NEVER: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class Line:
    """A blank, or a new line where the group around does not fit. A hard one always breaks; a soft one has no blank."""

    flat: str = " "
    hard: bool = False


@dataclass(frozen=True, slots=True)
class Edge:
    """Where the part of the text that is asked for starts, where its head ends, or where it stops; it takes no room.

    Where several heads are asked for, `of` tells which one it is.
    """

    kind: Literal["start", "head", "stop"]
    of: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Seq:
    """Documents one after the other: how wide they are on one line, and up to the first line within."""

    parts: tuple[Doc, ...]
    width: int
    lead: int
    breaks: bool


@dataclass(frozen=True, slots=True)
class Nest:
    """A document whose new lines are indented further."""

    by: int
    doc: Doc


@dataclass(frozen=True, slots=True)
class Group:
    """A document that stands on one line if it fits there and is no wider than `limit`."""

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
    """Documents one after the other."""
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
    """Documents with a separator between every two."""
    out: list[Doc] = []
    for part in parts:
        if out:
            out.append(separator)
        out.append(part)
    return seq(*out)


def call(name: str, arguments: list[Doc]) -> Doc:
    """name(argument, …), with the arguments on lines of their own where they do not fit."""
    return Group(seq(f"{name}(", Nest(2, seq(SOFT, separated(arguments, seq(",", LINE)))), ")"))


def width_of(doc: Doc) -> int:
    """The width on one line."""
    return _measures(doc)[0]


def _measures(doc: Doc) -> tuple[int, int, bool]:
    """The width on one line, the width before the first line, and whether there is one."""
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
    """A text, and where the part between `START` and `STOP` is in it; and where the head of it ends, if it has one.

    `heads` are where several heads start and end.
    """

    text: str
    start: int = 0
    stop: int = 0
    head: int = 0
    heads: Mapping[tuple[int, ...], tuple[int, int]] = field(default_factory=dict)


def lay_out(doc: Doc, width: int = WIDTH) -> TextLayout:
    """The text of a document."""
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


def _trailing(stack: list[tuple[int, bool, Doc]], room: int) -> int:
    """The width of what follows on the same line; looked at no further than there is room."""
    total = 0
    for _, flat, doc in reversed(stack):
        if total > room:
            break
        width, lead, breaks = _measures(doc)
        if breaks and not flat:
            return total + lead
        total += width
    return total
