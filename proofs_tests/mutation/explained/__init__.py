"""Mutants that no test can find, or that nobody needs to: each with the reason."""

from __future__ import annotations

from typing import Final

from proofs_tests.mutation.explained import bits_and_bounds, checks, facts, questions, rules, trusted

EXPLAINED: Final[dict[str, str]] = {
    **trusted.EXPLAINED,
    **checks.EXPLAINED,
    **rules.EXPLAINED,
    **bits_and_bounds.EXPLAINED,
    **facts.EXPLAINED,
    **questions.EXPLAINED,
}
"""By the key of the mutant."""
