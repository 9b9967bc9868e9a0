"""The rules of XLA in `examples/xla_rules.py`, proved in Rocq by the common proof of `Lemmas.v`.

A statement is that of the lowest rank at which both sides differ, with any further dimensions of the elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from examples.xla_rules import LAWS
from proofs_tests.rocq.rules import Report, prove_lemmas
from rewrites.rocq.statements import lemma
from rewrites.user_rules import rule

_LAWS: Final = "the common proof has no law for the order of elements, truth values, these quotients or absolute values"
_FOLDS: Final = "the common proof does not reindex these folds, or does not move an operation into these cases"
UNPROVED: Final[dict[str, str]] = {
    **dict.fromkeys(("clamp_01", "clamp_02", "clamp_03", "max_01", "max_02", "select_03", "mul_09"), _LAWS),
    **{f"compare_{number}": _LAWS for number in ("01", "02", "03")},
    **{f"divmod_{number}": _LAWS for number in ("01", "03", "04", "05")},
    **{f"logical_{number}": _LAWS for number in ("03", "04", "07", "08", "09", "10", "11")},
    **dict.fromkeys(("dot_01", "dot_03", "reduce_01", "reduce_02", "conv_01", "conv_03", "dyupslice_01"), _FOLDS),
}
"""Rules that the common proof does not prove, and why."""


def prove_all(names: Sequence[str] = ()) -> Report:
    """Prove the rules with these names, or all."""
    chosen = [law for law in LAWS if not names or law.__name__ in names]
    return prove_lemmas({law.__name__: lemma(rule(law)) for law in chosen}, UNPROVED)
