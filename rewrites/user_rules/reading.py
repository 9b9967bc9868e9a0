"""A file of rules and tactics of one's own, as the command line is given it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from atl.files.atomic import as_path
from atl.files.programs import load_module
from rewrites.rule import Rule
from rewrites.rule_checking.graded import standing_of
from rewrites.user_rules import tactics


@dataclass(frozen=True, slots=True)
class Own:
    """The rules and tactics that a module has declared, by name."""

    rules: dict[str, Rule] = field(default_factory=dict)
    tactics: dict[str, Callable[..., object]] = field(default_factory=dict)


def read(path: str | os.PathLike[str]) -> Own:
    """Runs a Python file, and gives the rules and tactics that it declares; each rule is judged as it is declared.

    Raises what the file raises of ours, and `InvalidArgument` for what is no file that can be run.
    """
    file = as_path(path, like="rules.py")
    values = list(vars(load_module(str(file))).values())
    known = tactics.tactics()
    stated = {value.name: value for value in values if isinstance(value, Rule) and standing_of(value) is not None}
    found = {name: made for name, made in known.items() if any(made is value for value in values)}
    return Own(stated, found)
