"""Files with user-defined rules and tactics, for the command line."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from atl.files.atomic import as_path
from atl.files.programs import load_module
from rewrites.rule import Rule
from rewrites.rule_checking.registry import status_of
from rewrites.user_rules import tactics


@dataclass(frozen=True, slots=True)
class UserDefinitions:
    """The rules and tactics that a module declares, by name."""

    rules: dict[str, Rule] = field(default_factory=dict)
    tactics: dict[str, Callable[..., object]] = field(default_factory=dict)


def read(path: str | os.PathLike[str]) -> UserDefinitions:
    """Run a Python file and return the rules and tactics that it declares. Each rule is checked when it is declared.

    Raises the errors of the file, and `InvalidArgument` for a file that cannot be run.
    """
    file = as_path(path, like="rules.py")
    values = list(vars(load_module(str(file))).values())
    known = tactics.tactics()
    stated = {value.name: value for value in values if isinstance(value, Rule) and status_of(value) is not None}
    found = {name: made for name, made in known.items() if any(made is value for value in values)}
    return UserDefinitions(stated, found)
