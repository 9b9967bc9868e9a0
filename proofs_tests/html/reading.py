"""HTML pages as trees of elements, read by Python's own parser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

EMPTY = frozenset({"meta", "input", "br"})


@dataclass
class Node:
    """An element with its contents in order."""

    tag: str
    attributes: dict[str, str | None]
    inside: list[Node | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(each if isinstance(each, str) else each.text for each in self.inside)

    def all(self, tag: str = "", **wanted: str) -> Iterator[Node]:
        """Yield the elements below with this tag and these attributes."""
        for each in self.inside:
            if isinstance(each, Node):
                named = {name.rstrip("_").replace("_", "-"): value for name, value in wanted.items()}
                has = all(each.attributes.get(name) == value for name, value in named.items())
                if (not tag or each.tag == tag) and has:
                    yield each
                yield from each.all(tag, **wanted)

    def one(self, tag: str = "", **wanted: str) -> Node:
        (found,) = self.all(tag, **wanted)
        return found


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = [Node("", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"an attribute of {tag} is repeated"
        node = Node(tag, dict(attrs))
        self.open[-1].inside.append(node)
        if tag not in EMPTY:
            self.open.append(node)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"{tag} ends where {self.open[-1].tag} is open"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].inside.append(data)


def read(text: str) -> Node:
    """Read the page as a tree; all elements must be closed in order."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert len(reader.open) == 1, f"{reader.open[-1].tag} is never closed"
    return reader.open[0]
