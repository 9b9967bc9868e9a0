"""A tactic of a user's own: a function of a session and further arguments, which makes the session's public calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Final, TypeVar

from atl.errors import InvalidArgument, InvalidName, brief
from rewrites import tactics as ours

F = TypeVar("F", bound=Callable[..., object])

_KNOWN: Final[dict[str, Callable[..., object]]] = {}
"""The tactics that this process has been given, by name; the last of a name counts, as in a notebook."""


def tactic(function: F) -> F:
    """Makes a function of a session one call of sessions: `s.apply(function, …)`, or by its name.

    The function makes the calls that one makes by hand. It is recorded as one call, undone as one, and refused as a
    whole: where one of its calls is refused the session stays as it was. As every call asks the kernel, it cannot be
    wrong. Its docstring says before → after; `atl tactics --own FILE` lists it.

    Raises `InvalidArgument`, and `InvalidName` for the name of a call that sessions have.

    >>> import atl
    >>> from rewrites import reschedule
    >>> from rewrites.user_rules import tactic
    >>> @tactic
    ... def tile_rows(s, name, by):
    ...     \"\"\"Tiles a loop and names its blocks: ⊞[i < n] e → ⊞[block < _] ⊞[row < by] e.\"\"\"
    ...     s.tile(name, by).rename(f"{name}o", "block")
    >>> x = atl.tensor("x", 64)
    >>> s = reschedule(atl.program("double", [x], atl.gen(64, lambda i: 2 * x[i])))
    >>> _ = s.apply(tile_rows, "i", 8)
    >>> [call.text for call in s.steps]
    ["tile_rows('i', 8)"]
    """
    if not isinstance(function, FunctionType):
        raise InvalidArgument(f"{brief(function)} is no tactic", required="@tactic on a function of a session")
    name = function.__name__
    if hasattr(ours, name) or name.startswith("_") or name == "<lambda>":
        raise InvalidName(f"a tactic called {name}", required="a name of its own, which no call of sessions has")
    if not inspect.signature(function).parameters:
        raise InvalidArgument(f"{name} takes no session", required=f"def {name}(s, …)")
    if "→" not in (inspect.getdoc(function) or ""):
        raise InvalidArgument(
            f"the tactic {name} does not say what it does",
            required="a docstring with before → after",
            suggestions=('"""Runs a loop in blocks: ⊞[i < n] e → ⊞[io < n / k] ⊞[ii < k] e."""',),
        )
    _KNOWN[name] = function
    return function


def tactics() -> dict[str, Callable[..., object]]:
    """The tactics of one's own that are known here, by name."""
    return dict(_KNOWN)


def text_of(function: Callable[..., object]) -> tuple[str, str]:
    """How a tactic is called, and what its docstring says."""
    return f"s.{name_of(function)}{parameters_of(function)}", inspect.getdoc(function) or ""


def name_of(function: object) -> str:
    """What a tactic is called in the record of a session; a callable object has the name of its class."""
    return str(getattr(function, "__name__", type(function).__name__))


def parameters_of(function: Callable[..., object]) -> str:
    """The parameters without their annotations, and without the session."""
    whole = inspect.signature(function)
    shown = [each.replace(annotation=inspect.Parameter.empty) for each in list(whole.parameters.values())[1:]]
    return str(whole.replace(parameters=shown, return_annotation=inspect.Signature.empty))
