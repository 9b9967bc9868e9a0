"""Mutants that no test can find, or that nobody needs to: each with the reason."""

from __future__ import annotations

from typing import Final

EXPLAINED: Final[dict[str, str]] = {}
"""By the key of the mutant."""
