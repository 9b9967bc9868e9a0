"""Faults put back: a function with a piece of its text changed, in this process and for one test."""

from __future__ import annotations

import inspect
from textwrap import dedent
from typing import Any

import pytest


def plant(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, old: str, new: str) -> None:
    """In the place of `owner.name`, a function of a module or a method of a class, the same with other text in it."""
    function = inspect.unwrap(getattr(owner, name))
    text = dedent(inspect.getsource(function))
    assert text.count(old) == 1, f"{name} says {old!r} {text.count(old)} times"
    made: dict[str, Any] = {}
    exec(compile(text.replace(old, new), f"<{name} with a fault>", "exec"), function.__globals__, made)
    monkeypatch.setattr(owner, name, made[name])
