"""Programs read from text."""

from __future__ import annotations

from atl.program import Program


def parse(text: str) -> Program:
    """The program that a text means."""
    raise NotImplementedError(text)
