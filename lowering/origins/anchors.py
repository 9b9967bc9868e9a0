"""Anchors: control characters around the lines of a loop in a text that is being printed.

Lines are indented, joined and wrapped after they are made, so line numbers are known only at the end, when anchors are
removed. Printers add anchors only for loops whose origin is in the nest (`LoopNest.origins`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, TypeAlias

from atl.core.index import Var

Located: TypeAlias = tuple[tuple[int, int, int], ...]
"""The uid of the variable, the first line and the last line (from 1) of each loop of a text, outer loops first."""

_OPENS, _CLOSES, _END = "\x02", "\x03", "\x04"
_ANCHOR: Final = re.compile(f"([{_OPENS}{_CLOSES}])([0-9]+){_END}")


def anchored_lines(anchored: frozenset[int], variable: Var, lines: list[str]) -> list[str]:
    """Add anchors to the first and last line of a loop, if its variable is in `anchored`."""
    if variable.uid not in anchored or not lines:
        return lines
    opened = [f"{_OPENS}{variable.uid}{_END}{lines[0]}", *lines[1:]]
    return [*opened[:-1], f"{_CLOSES}{variable.uid}{_END}{opened[-1]}"]


def strip_anchors(line: str) -> tuple[str, str, str]:
    """Split a line into its text, opening anchors and closing anchors, for lines that are wrapped."""
    if _END not in line:
        return line, "", ""
    found = [(met[1], met[0]) for met in _ANCHOR.finditer(line)]
    opening, closing = ("".join(sign for kind, sign in found if kind == which) for which in (_OPENS, _CLOSES))
    return _ANCHOR.sub("", line), opening, closing


def locate_loops(text: str) -> tuple[str, Located]:
    """Remove the anchors from a text, and return it with the lines of the anchored loops."""
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
    """Return the uids of variables."""
    return frozenset(variable.uid for variable in uids)
