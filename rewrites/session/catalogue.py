"""What a session can do: every method with its call and its law, made from the docstrings.

`atl tactics` prints it, and `docs/tactics.md` is it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from rewrites import tactics
from rewrites.session.applying import Applies
from rewrites.session.display import law_of
from rewrites.session.session import Session
from rewrites.user_rules.tactics import parameters_of, text_of

_HEAD: Final = """\
# What a session can do

This page is made of the docstrings, by `atl tactics --markdown`. [Scheduling](scheduling.md) shows the calls at work,
on one program after another; `atl rules` lists the rules that `rw` takes. In what follows `s` is a session, made by
`reschedule`; `⊞` generates a tensor, and what an arrow leads to equals what it comes from.

Loops, lets and other parts are chosen by a name, by a pattern in the printed notation (`_` is anything), by a path, or
by a handle of `s.find`. Bounds and tile sizes are numbers, sizes, index expressions, or texts.

```python
>>> import atl
>>> from rewrites import reschedule

```
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """A method of sessions: its name, how it is called, and what its docstring says."""

    name: str
    call: str
    text: str

    @property
    def law(self) -> str:
        """The first sentence or two: what it does, before → after."""
        return law_of(self.text)


def tactics_of_sessions() -> Iterator[Entry]:
    """The tactics, in alphabetical order; each says before → after."""
    for name in sorted(tactics.__all__):
        if hasattr(Session, name):
            yield _entry(name, getattr(tactics, name))


def other_methods() -> Iterator[Entry]:
    """Everything else: the state, places, rewriting with a rule."""
    for name, method in {**vars(Applies), **vars(Session)}.items():
        if not name.startswith("_") and name not in tactics.__all__:
            yield _entry(name, method)


def entries() -> Iterator[Entry]:
    """All methods: the tactics, then everything else."""
    yield from tactics_of_sessions()
    yield from other_methods()


def own_tactics(known: Mapping[str, Callable[..., object]]) -> Iterator[Entry]:
    """Tactics of a user's own, in alphabetical order, as `rewrites.user_rules.tactics` gives them."""
    for name in sorted(known):
        yield Entry(name, *text_of(known[name]))


def described(entry: Entry) -> str:
    """An entry in full, for a terminal."""
    return f"{entry.call}\n\n{entry.text}"


def markdown() -> str:
    """The page of all that a session can do."""
    parts = [_HEAD, "\n## Tactics\n"]
    parts += [_section(entry) for entry in tactics_of_sessions()]
    parts += ["\n## The session itself\n"]
    parts += [_section(entry) for entry in other_methods()]
    return "".join(parts)


def _section(entry: Entry) -> str:
    text, _, example = entry.text.partition("\n>>> ")
    code = f"\n```python\n>>> {example.rstrip()}\n\n```\n" if example else ""
    return f"\n### {entry.name}\n\n`{entry.call}`\n\n{_plain(text.rstrip())}\n{code}"


def _plain(text: str) -> str:
    """Prose in which the signs of formulae mean nothing to Markdown, except in back quotes."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([*_])", r"\\\1", part) for part in parts)


def _entry(name: str, documented: object) -> Entry:
    method = getattr(Session, name)
    text = inspect.getdoc(documented)
    assert text is not None, name
    call = f"s.{name}" if isinstance(method, property) else f"s.{name}{parameters_of(method)}"
    return Entry(name, call, text)
