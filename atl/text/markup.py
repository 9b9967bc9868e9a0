"""Construction of HTML and SVG: text is always escaped, so names and notes from users cannot inject markup.

`escaped` is the only conversion of text to HTML. It is applied to each `str` child of an element and to each attribute.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
"""Invisible characters and bidirectional controls, which are shown by their code points."""
_EMPTY: Final = {"meta": ">", "input": ">", "br": ">", "rect": "/>", "path": "/>"}
"""Elements without content, and the end of their tag in HTML or SVG."""
_NAME: Final = re.compile("[a-zA-Z][a-zA-Z0-9-]*")


@dataclass(frozen=True, slots=True)
class Html:
    """A fragment of HTML or SVG."""

    text: str


Child: TypeAlias = "Html | str | Iterable[Child] | None"
"""The content of an element; None is empty."""
Value: TypeAlias = str | int | float | bool | None


def visible(text: str) -> str:
    """Replace invisible characters by their code points."""
    return _INVISIBLE.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", text)


def escaped(text: str) -> Html:
    """Escape a text."""
    return Html(html.escape(visible(text), quote=True))


def joined(children: Child) -> Html:
    """Concatenate children."""
    match children:
        case None:
            return Html("")
        case Html():
            return children
        case str():
            return escaped(children)
        case _:
            return Html("".join(joined(child).text for child in children))


def element(tag: str, *children: Child, **attributes: Value) -> Html:
    """Return an element. In attribute names, `_` means `-`, and `class_` means `class`; None omits an attribute."""
    written = [tag]
    for name, value in attributes.items():
        name = name.rstrip("_").replace("_", "-")  # noqa: PLW2901
        assert _NAME.fullmatch(name)
        if value is True:
            written.append(name)
        elif value is not None and value is not False:
            written.append(f'{name}="{escaped(str(value)).text}"')
    head = f"<{' '.join(written)}"
    return Html(head + _EMPTY[tag] if tag in _EMPTY else f"{head}>{joined(children).text}</{tag}>")


def svg(width: int, height: int, *children: Child, **attributes: Value) -> str:
    """Return an SVG document."""
    attributes = {"xmlns": "http://www.w3.org/2000/svg", "width": width, "height": height, **attributes}
    return element("svg", children, **attributes).text + "\n"


def lines(children: Iterable[Child]) -> Child:
    """Return each child on its own line."""
    return ["\n", *((child, "\n") for child in children)]
