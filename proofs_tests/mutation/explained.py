"""Mutants that no test can find, or that nobody needs to: each with the reason."""

from __future__ import annotations

from typing import Final

EXPLAINED: Final[dict[str, str]] = {
    "rewrites/kernel.py::reflexivity::(made,) if is_predicate(made) else (): always::0": (
        "equivalent: what is admitted as a condition is a predicate; the question is for the type checker"
    ),
}
"""By the key of the mutant."""
