"""Mutants that no test can find, or that nobody needs to: each with the reason."""

from __future__ import annotations

from typing import Final

_CHECKED_AGAIN: Final = (
    "equivalent: a term whose part has the type that it had is looked at once more, and passes again"
)

EXPLAINED: Final[dict[str, str]] = {
    "rewrites/kernel.py::reflexivity::(made,) if is_predicate(made) else (): always::0": (
        "equivalent: what is admitted as a condition is a predicate; the question is for the type checker"
    ),
    "rewrites/kernel.py::_ascend::if after.type != before.type: always::0": _CHECKED_AGAIN,
    "rewrites/kernel.py::_ascend::if after.type != before.type or looks_below(rebuilt): always::0": _CHECKED_AGAIN,
}
"""By the key of the mutant."""
