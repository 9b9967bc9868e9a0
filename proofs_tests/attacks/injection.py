"""Injection of faults: a function is replaced by one with a changed piece of text, for one test."""

from __future__ import annotations

import inspect
from textwrap import dedent
from typing import Any

import pytest


def inject(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, old: str, new: str) -> None:
    """Replace `owner.name`, a function of a module or a method of a class, by one with changed text."""
    function = inspect.unwrap(getattr(owner, name))
    text = dedent(inspect.getsource(function))
    assert text.count(old) == 1, f"{name} says {old!r} {text.count(old)} times"
    made: dict[str, Any] = {}
    exec(compile(text.replace(old, new), f"<{name} with a fault>", "exec"), function.__globals__, made)
    monkeypatch.setattr(owner, name, made[name])
