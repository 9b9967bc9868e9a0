"""User-defined tactics: functions that take a session and further arguments and make public calls of the session."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Final, TypeVar

from atl.errors import InvalidArgument, InvalidName, brief
from rewrites.tactics import TACTICS
from rewrites.tactics.tactic import check_documented

F = TypeVar("F", bound=Callable[..., object])

_KNOWN: Final[dict[str, Callable[..., object]]] = {}
"""The tactics declared in this process, by name. A later declaration replaces an earlier one, as in a notebook."""


def tactic(function: F) -> F:
    """Declare a function as a tactic, to be called as `s.apply(function, …)` or by its name.

    The function makes the same calls of the session that a user makes by hand. They are recorded and undone as one
    call; if one of them is refused, the session stays unchanged. Every call goes through the kernel, so a tactic cannot
    prove anything false. Its docstring contains before → after; `atl tactics --user FILE` lists it.

    Raises `InvalidArgument`, and `InvalidName` for the name of a built-in tactic.

    >>> import atl
    >>> from rewrites import reschedule
    >>> from rewrites.user_rules import tactic
    >>> @tactic
    ... def tile_rows(s, name, by):
    ...     \"\"\"Tile a loop and name its blocks: ⊞[i < n] e → ⊞[block < _] ⊞[row < by] e.\"\"\"
    ...     s.tile(name, by).rename(f"{name}o", "block")
    >>> x = atl.tensor("x", 64)
    >>> s = reschedule(atl.program("double", [x], atl.gen(64, lambda i: 2 * x[i])))
    >>> _ = s.apply(tile_rows, "i", 8)
    >>> [call.text for call in s.steps]
    ["tile_rows('i', 8)"]
    """
    if not isinstance(function, FunctionType):
        raise InvalidArgument(
            f"{brief(function)} is not a function", required="@tactic on a function that takes a session"
        )
    name = function.__name__
    if name in TACTICS or name.startswith("_") or name == "<lambda>":
        raise InvalidName(f"a tactic cannot be called {name}", required="a name that no method of sessions has")
    if not inspect.signature(function).parameters:
        raise InvalidArgument(f"the tactic {name} has no parameter for the session", required=f"def {name}(s, …)")
    check_documented(function)
    _KNOWN[name] = function
    return function


def tactics() -> dict[str, Callable[..., object]]:
    """Return the user-defined tactics declared in this process, by name."""
    return dict(_KNOWN)
