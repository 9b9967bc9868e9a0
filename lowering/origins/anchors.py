"""Anchors: signs in a text that is being printed, around the lines of a loop. A finished text has none.

Lines are indented, joined and broken after they are made, so that no number of a line is known before the end. An
anchor goes along with its line. A printer makes one only for a loop whose origin is in the nest (`LoopNest.origins`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, TypeAlias

from atl.core.index import Var

Located: TypeAlias = tuple[tuple[int, int, int], ...]
"""Of each loop of a text the uid of its variable, its first line and its last, from 1 on; outer loops come first."""

_OPENS, _CLOSES, _END = "\x02", "\x03", "\x04"
_ANCHOR: Final = re.compile(f"([{_OPENS}{_CLOSES}])([0-9]+){_END}")


def anchored_lines(anchored: frozenset[int], variable: Var, lines: list[str]) -> list[str]:
    """The lines of a loop with anchors on the first and the last one, where such are wanted for it."""
    if variable.uid not in anchored or not lines:
        return lines
    opened = [f"{_OPENS}{variable.uid}{_END}{lines[0]}", *lines[1:]]
    return [*opened[:-1], f"{_CLOSES}{variable.uid}{_END}{opened[-1]}"]


def strip_anchors(line: str) -> tuple[str, str, str]:
    """The line without anchors, those that open, and those that close: for a line that becomes several ones."""
    if _END not in line:
        return line, "", ""
    found = [(met[1], met[0]) for met in _ANCHOR.finditer(line)]
    opening, closing = ("".join(sign for kind, sign in found if kind == which) for which in (_OPENS, _CLOSES))
    return _ANCHOR.sub("", line), opening, closing


def locate_loops(text: str) -> tuple[str, Located]:
    """The text without its anchors, and where the loops are that had some."""
    if _END not in text:
        return text, ()
    lines: list[str] = []
    opened: dict[int, list[int]] = {}
    found: list[tuple[int, int, int]] = []
    for number, line in enumerate(text.split("\n"), 1):
        for kind, uid in sorted(_ANCHOR.findall(line), key=lambda each: each[0] == _CLOSES):
            if kind == _OPENS:
                opened.setdefault(int(uid), []).append(number)
            else:
                found.append((int(uid), opened[int(uid)].pop(), number))
        lines.append(_ANCHOR.sub("", line))
    return "\n".join(lines), tuple(sorted(found, key=lambda each: (each[1], -each[2])))


def ids_of(uids: Iterable[Var]) -> frozenset[int]:
    """The uids of these variables."""
    return frozenset(variable.uid for variable in uids)
