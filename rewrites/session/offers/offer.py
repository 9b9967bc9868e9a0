"""What is offered at a place: a call that has been tried, with what it makes of what stands there."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import shorten
from typing import Any, Final, Literal, overload

from atl.core.traversal import Path
from rewrites.session.display import written

WIDTH: Final = 100


@dataclass(frozen=True, slots=True)
class Offer:
    """A call of a session that applies: a tactic, or `rw` with a rule; `before` and `after` are what it changes.

    `asks` are parameters that have to be given first: a rule matches, and what it gives depends on them, so that there
    is no `after`. `s.take(offer)` makes the call.
    """

    name: str
    kind: Literal["tactic", "rule"]
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]
    law: str
    path: Path
    before: str
    after: str
    asks: tuple[str, ...] = ()

    @property
    def method(self) -> str:
        """The method of a session that the call is made by."""
        return "rw" if self.kind == "rule" else self.name

    @property
    def call(self) -> str:
        """The call as Python."""
        return self.called({})

    def called(self, given: Mapping[str, Any]) -> str:
        """The call with these parameters as well."""
        parts = [written(value) for value in self.arguments]
        parts += [f"{name}={written(value)}" for name, value in {**self.options, **given}.items()]
        parts += [f"{name}=…" for name in self.asks if name not in given]
        return f"s.{self.method}({', '.join(parts)})"

    @property
    def data(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        return {
            "call": self.call,
            "kind": self.kind,
            "name": self.name,
            "law": self.law,
            "path": list(self.path),
            "before": self.before,
            "after": self.after or None,
            "asks": list(self.asks),
        }

    @property
    def change(self) -> str:
        """What it changes, before → after."""
        if self.asks:
            return f"{self.before} → … ({', '.join(self.asks)} to be given)"
        return f"{self.before} → {self.after}"

    @property
    def short(self) -> str:
        """The change on one line: more of what it leads to, since what it comes from is seen in the goal."""
        if len(self.change) <= WIDTH or self.asks:
            return one_line(self.change, WIDTH)
        return one_line(f"{one_line(self.before, max(WIDTH // 3, WIDTH - 3 - len(self.after)))} → {self.after}", WIDTH)

    def __repr__(self) -> str:
        return f"{self.call}\n    {self.change}"


@dataclass(frozen=True, slots=True)
class Offers(Sequence[Offer]):
    """What applies at a place, tactics first; it prints as a numbered list. `s.take(offers[3])` makes a call.

    `left` are the names that were not tried when the time was over: `s.applicable(seconds=10)` takes longer.
    """

    where: str
    offers: tuple[Offer, ...]
    seconds: float
    left: tuple[str, ...] = field(default=(), repr=False)

    def __len__(self) -> int:
        return len(self.offers)

    @overload
    def __getitem__(self, index: int) -> Offer: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Offer]: ...
    def __getitem__(self, index: int | slice) -> Offer | Sequence[Offer]:
        return self.offers[index]

    def __iter__(self) -> Iterator[Offer]:
        return iter(self.offers)

    @property
    def data(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        return {"where": self.where, "offers": [offer.data for offer in self.offers], "not_tried": list(self.left)}

    @property
    def ending(self) -> str:
        """Where the search stopped, if it did not come to its end."""
        if not self.left:
            return ""
        return f"after {self.seconds:g} s there were {len(self.left)} left to try: {shorten(', '.join(self.left), 60)}"

    def __repr__(self) -> str:
        lines = []
        for number, offer in enumerate(self.offers):
            lines += [f"{number:3}  {offer.call}  -- {one_line(offer.law, WIDTH - 12 - len(offer.call))}".rstrip(" -")]
            lines += [f"       {offer.short}"]
        lines += [] if self.offers else [f"nothing applies {self.where}"]
        return "\n".join([*lines, *([f"({self.ending})"] if self.left else [])])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{number}</td><td><code>{html.escape(offer.call)}</code></td><td>{html.escape(offer.law)}</td>"
            f"<td><code>{html.escape(offer.before)}</code></td>"
            f"<td><code>{html.escape(offer.after or '…')}</code></td></tr>"
            for number, offer in enumerate(self.offers)
        )
        head = "<tr><th></th><th>call</th><th>what it does</th><th>before</th><th>after</th></tr>"
        said = f"<caption>what applies {html.escape(self.where)}</caption>"
        left = f"<p>{html.escape(self.ending)}</p>" if self.left else ""
        return f"<table>{said}{head}{rows}</table>{left}"


def one_line(text: str, most: int) -> str:
    """A text on one line of so many characters, the rest left out."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: max(most - 1, 0)]}…" if most > 20 else ""
