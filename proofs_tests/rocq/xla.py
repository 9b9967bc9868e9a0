"""The rules of XLA in `examples/xla_rules.py`, proved in Rocq by the common proof of `Lemmas.v`.

A statement is that of the lowest rank at which both sides differ, with any further dimensions of the elements.
"""

from __future__ import annotations

from collections.abc import Sequence

from examples.xla_rules import LAWS
from proofs_tests.rocq.rules import Report, prove_lemmas
from rewrites.rocq.statements import lemma
from rewrites.user_rules import rule


def prove_all(names: Sequence[str] = ()) -> Report:
    """Prove the rules with these names, or all."""
    chosen = [law for law in LAWS if not names or law.__name__ in names]
    return prove_lemmas({law.__name__: lemma(rule(law)) for law in chosen})
