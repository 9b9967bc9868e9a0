"""HTML by construction: a text becomes part of a page only escaped, or as the content of an element.

Names, laws and notes come from whoever wrote the program. There is one way from a text to HTML, `escaped`, and every
child of an element that is a `str` takes it; so does the value of every attribute.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
"""Characters that have no sign, or that change the order of those after them: they are shown by their numbers."""
_EMPTY: Final = frozenset({"meta", "input", "br"})
_NAME: Final = re.compile("[a-zA-Z][a-zA-Z0-9-]*")


@dataclass(frozen=True, slots=True)
class Html:
    """A piece of a page."""

    text: str


Child: TypeAlias = "Html | str | Iterable[Child] | None"
"""What an element contains; nothing for None."""
Value: TypeAlias = str | int | float | bool | None


def seen(text: str) -> str:
    """The text with a sign for every character that has none."""
    return _UNSEEN.sub(lambda met: f"⟨U+{ord(met[0]):04X}⟩", text)


def escaped(text: str) -> Html:
    """A text as part of a page."""
    return Html(html.escape(seen(text), quote=True))


def joined(children: Child) -> Html:
    """Children one after the other."""
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
    """An element. An attribute is written with `_` for `-`, and `class_` for `class`; one that is None is left out."""
    written = [tag]
    for name, value in attributes.items():
        name = name.rstrip("_").replace("_", "-")  # noqa: PLW2901
        assert _NAME.fullmatch(name)
        if value is True:
            written.append(name)
        elif value is not None and value is not False:
            written.append(f'{name}="{escaped(str(value)).text}"')
    head = f"<{' '.join(written)}>"
    return Html(head) if tag in _EMPTY else Html(f"{head}{joined(children).text}</{tag}>")
