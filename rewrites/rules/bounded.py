"""Rules of the catalogue that are not proved for all sizes, and rules that hold over the real numbers only.

Every rule holds in random samples (tested) and, for all element values, at every size and index of a small window
(bounded). All rules but those in `BOUNDED_ONLY` are proved for all sizes as well. Tests compare both lists with what is
proved.
"""

from __future__ import annotations

from typing import Final

_OTHER_FOLDS: Final = "a fold other than a sum has no neutral element from which an induction could start"
BOUNDED_ONLY: Final[dict[str, str]] = {
    **{f"{monoid}_pairs": _OTHER_FOLDS for monoid in ("product", "max", "min")},
    **{f"split_{monoid}": _OTHER_FOLDS for monoid in ("product", "max", "min")},
    **{f"{monoid}_repeat": _OTHER_FOLDS for monoid in ("max", "min")},
    "adjoint_of_split": "the sums have different lengths, so that no induction on one of them succeeds",
    "tile_sum": "the number of blocks grows once in k steps, so that no induction on n or on k succeeds",
    "rec_blocks": "a row of a block is compared with the rows of the blocks before, which needs a second induction",
    "rec_strips": "a row of a block is compared with the rows of the blocks before, as for rec_blocks",
    "sum_restrict": "an induction on b needs the delta rule within its step",
}  # fmt: skip
"""The rules that are bounded but not proved, and the reason."""

OVER_REALS: Final = frozenset({"exp_add", "exp_rescale", "sum_exp_rescale", "weighted_sum_exp_rescale"})
"""The rules whose proofs assume exp(0) = 1 and exp(a + b) = exp(a) * exp(b), which hold over the real numbers."""


def status_name(name: str) -> str:
    """Return the proof status of a rule of the catalogue: "proved" or "bounded"."""
    return "bounded" if name in BOUNDED_ONLY else "proved"
