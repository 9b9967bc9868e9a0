"""Mutants that no test can find, or that nobody needs to: each with the reason."""

from __future__ import annotations

from typing import Final

from proofs_tests.mutation.explained import facts, questions, single, trusted

EXPLAINED: Final[dict[str, str]] = {
    **trusted.EXPLAINED,
    **single.EXPLAINED,
    **facts.EXPLAINED,
    **questions.EXPLAINED,
}
"""By the key of the mutant."""
