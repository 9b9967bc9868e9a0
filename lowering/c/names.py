"""Names in C: as the user wrote them, changed only where C or another name in sight forbids it."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from lowering.c.reserved import reserved


def identifier(hint: str, *, of_function: bool = False) -> str:
    """The C identifier nearest to a hint, and one that C has no meaning for: `int` becomes `int_`."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", hint)
    if not plain.strip("_"):
        plain = "v"
    if plain[0].isdigit():
        plain = f"v{plain}"
    if plain.startswith("_"):
        plain = plain.lstrip("_") + "_"
        plain = f"v{plain}" if plain[0].isdigit() else plain
    return f"{plain}_" if reserved(plain, of_function=of_function) else plain


@dataclass(frozen=True, slots=True)
class Names:
    """The names in sight at a place of the code, by what they stand for."""

    of: dict[Hashable, str] = field(default_factory=dict)
    taken: frozenset[str] = frozenset()

    def bind(self, key: Hashable, hint: str, *, of_function: bool = False) -> tuple[str, Names]:
        """A name for a new thing, unlike all names in sight: `i`, or if that is taken `i2`, `i3`, …"""
        wanted = name = identifier(hint, of_function=of_function)
        number = 2
        while name in self.taken:
            # Each number gives another name that is not reserved, so that one of them is free.
            numbered = f"{wanted}_{number}" if wanted[-1].isdigit() else f"{wanted}{number}"
            name = identifier(numbered, of_function=of_function)
            number += 1
        return name, Names({**self.of, key: name}, self.taken | {name})

    def bind_all(self, hints: Iterable[tuple[Hashable, str]]) -> Names:
        names = self
        for key, hint in hints:
            _, names = names.bind(key, hint)
        return names
