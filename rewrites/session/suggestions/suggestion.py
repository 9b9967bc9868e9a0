"""Suggestions: calls that have been tried, with their results."""

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
class Suggestion:
    """A session call that applies: a tactic, or `rw` with a rule. `before` and `after` show the part that changes.

    `missing` names the parameters that the caller must choose. If there are any, `after` is None.
    `s.take(suggestion)` makes the call.
    """

    name: str
    kind: Literal["tactic", "rule"]
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]
    law: str
    path: Path
    before: str
    after: str
    missing: tuple[str, ...] = ()

    @property
    def method(self) -> str:
        """The session method to call."""
        return "rw" if self.kind == "rule" else self.name

    @property
    def call(self) -> str:
        """The call as Python source."""
        return self.called({})

    def called(self, given: Mapping[str, Any]) -> str:
        """Return the call with these additional parameters."""
        parts = [written(value) for value in self.arguments]
        parts += [f"{name}={written(value)}" for name, value in {**self.options, **given}.items()]
        parts += [f"{name}=…" for name in self.missing if name not in given]
        return f"s.{self.method}({', '.join(parts)})"

    @property
    def data(self) -> dict[str, Any]:
        """The suggestion as JSON data."""
        return {
            "call": self.call,
            "kind": self.kind,
            "name": self.name,
            "law": self.law,
            "path": list(self.path),
            "before": self.before,
            "after": self.after or None,
            "missing": list(self.missing),
        }

    @property
    def change(self) -> str:
        """The part that changes, before → after."""
        if self.missing:
            return f"{self.before} → … (needs {', '.join(self.missing)})"
        return f"{self.before} → {self.after}"

    @property
    def short(self) -> str:
        """The change on one line; `before` is shortened first, since the goal shows it."""
        if len(self.change) <= WIDTH or self.missing:
            return one_line(self.change, WIDTH)
        return one_line(f"{one_line(self.before, max(WIDTH // 3, WIDTH - 3 - len(self.after)))} → {self.after}", WIDTH)

    def __repr__(self) -> str:
        return f"{self.call}\n    {self.change}"


@dataclass(frozen=True, slots=True)
class Suggestions(Sequence[Suggestion]):
    """The calls that apply at a place, tactics first; prints as a numbered list. `s.take(suggestions[3])` makes a call.

    `untried` are the names that were not tried within the time limit: `s.applicable(seconds=10)` raises it.
    """

    where: str
    items: tuple[Suggestion, ...]
    seconds: float
    untried: tuple[str, ...] = field(default=(), repr=False)

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> Suggestion: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Suggestion]: ...
    def __getitem__(self, index: int | slice) -> Suggestion | Sequence[Suggestion]:
        return self.items[index]

    def __iter__(self) -> Iterator[Suggestion]:
        return iter(self.items)

    @property
    def data(self) -> dict[str, Any]:
        """The suggestions as JSON data."""
        return {
            "where": self.where,
            "suggestions": [suggestion.data for suggestion in self.items],
            "not_tried": list(self.untried),
        }

    @property
    def stopped_early(self) -> str:
        """A note on the time limit, if the search reached it."""
        if not self.untried:
            return ""
        names = shorten(", ".join(self.untried), 60)
        return f"stopped after {self.seconds:g} s; {len(self.untried)} left to try: {names}"

    def __repr__(self) -> str:
        lines = []
        for number, each in enumerate(self.items):
            law = one_line(each.law, WIDTH - 12 - len(each.call))
            lines += [f"{number:3}  {each.call}  -- {law}".rstrip(" -"), f"       {each.short}"]
        lines += [] if self.items else [f"nothing applies {self.where}"]
        return "\n".join([*lines, *([f"({self.stopped_early})"] if self.untried else [])])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{number}</td><td><code>{html.escape(suggestion.call)}</code></td><td>{html.escape(suggestion.law)}</td>"
            f"<td><code>{html.escape(suggestion.before)}</code></td>"
            f"<td><code>{html.escape(suggestion.after or '…')}</code></td></tr>"
            for number, suggestion in enumerate(self.items)
        )
        head = "<tr><th></th><th>call</th><th>what it does</th><th>before</th><th>after</th></tr>"
        caption = f"<caption>what applies {html.escape(self.where)}</caption>"
        left = f"<p>{html.escape(self.stopped_early)}</p>" if self.untried else ""
        return f"<table>{caption}{head}{rows}</table>{left}"


def one_line(text: str, most: int) -> str:
    """Return a text on one line of at most `most` characters, shortened if necessary."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: max(most - 1, 0)]}…" if most > 20 else ""
