"""Reference of the session methods: each with its signature and its law, generated from the docstrings.

`atl tactics` prints it; `docs/tactics.md` is generated from it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from rewrites.session.base import SessionBase
from rewrites.session.display import law_of
from rewrites.session.session import Session
from rewrites.tactics import TACTICS
from rewrites.tactics.tactic import parameters_of, text_of

_HEAD: Final = """\
# Session methods

This page is generated from the docstrings by `atl tactics --markdown`. [Scheduling](scheduling.md) shows the methods on
examples; `atl rules` lists the rules that `rw` accepts. Below, `s` is a session created by `reschedule`, and `⊞`
generates a tensor. In `before → after` both sides are equal.

Loops, lets and other terms are selected by name, by a pattern in the printed notation (`_` matches anything), by path,
or by a handle from `s.find`. Bounds and tile sizes are numbers, sizes, index expressions, or strings.

```python
>>> import atl
>>> from atl import reschedule

```
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """A method of sessions: its name, its call and its docstring."""

    name: str
    call: str
    text: str

    @property
    def law(self) -> str:
        """The first paragraph: a summary, or before → after."""
        return law_of(self.text)


def tactics_of_sessions() -> Iterator[Entry]:
    """Yield the tactics in alphabetical order; each documents before → after."""
    return _entries(TACTICS)


def other_methods() -> Iterator[Entry]:
    """Yield the other methods: the state, cursors, rewriting with a rule."""
    for name, method in {**vars(SessionBase), **vars(Session)}.items():
        if not name.startswith("_"):
            text = inspect.getdoc(method)
            assert text is not None, name
            call = f"s.{name}" if isinstance(method, property) else f"s.{name}{parameters_of(method)}"
            yield Entry(name, call, text)


def entries() -> Iterator[Entry]:
    """Yield all methods: the tactics, then the others."""
    yield from tactics_of_sessions()
    yield from other_methods()


def user_tactics(known: Mapping[str, Callable[..., object]]) -> Iterator[Entry]:
    """Yield the user-defined tactics in alphabetical order, as `rewrites.user_rules.tactics` returns them."""
    return _entries(known)


def _entries(known: Mapping[str, Callable[..., object]]) -> Iterator[Entry]:
    for name in sorted(known):
        yield Entry(name, *text_of(known[name]))


def described(entry: Entry) -> str:
    """Return an entry in full, for a terminal."""
    return f"{entry.call}\n\n{entry.text}"


def markdown() -> str:
    """Return the reference page of all session methods."""
    parts = [_HEAD, "\n## Tactics\n"]
    parts += [_section(entry) for entry in tactics_of_sessions()]
    parts += ["\n## Other methods\n"]
    parts += [_section(entry) for entry in other_methods()]
    return "".join(parts)


def _section(entry: Entry) -> str:
    text, _, example = entry.text.partition("\n>>> ")
    code = f"\n```python\n>>> {example.rstrip()}\n\n```\n" if example else ""
    return f"\n### {entry.name}\n\n`{entry.call}`\n\n{_plain(text.rstrip())}\n{code}"


def _plain(text: str) -> str:
    """Escape characters that Markdown would interpret, except in back quotes."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([*_])", r"\\\1", part) for part in parts)
