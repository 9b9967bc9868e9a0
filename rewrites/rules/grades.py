"""How far each rule is known to be true; the tests see to it that what is said here is so.

Every rule holds for what Hypothesis draws (grade 1) and at every size and index of a window, for all element values
(grade 2). All but those named here are proved for all sizes as well (grade 3).
"""

from __future__ import annotations

from typing import Final

_OTHER_FOLDS: Final = "a fold that is no sum has no neutral element that an induction could start from"
EXHAUSTED_ONLY: Final[dict[str, str]] = {
    **{f"{monoid}_pairs": _OTHER_FOLDS for monoid in ("product", "max", "min")},
    **{f"split_{monoid}": _OTHER_FOLDS for monoid in ("product", "max", "min")},
    **{f"{monoid}_repeat": _OTHER_FOLDS for monoid in ("max", "min")},
    "tile_sum": "the number of blocks grows once in k steps, so that no induction on n or on k goes through",
    "sum_restrict": "an induction on b needs the delta rule within its step",
}  # fmt: skip
"""The rules that are not proved for all sizes, and what stands in the way."""


def grade(name: str) -> int:
    """The grade of a rule."""
    return 2 if name in EXHAUSTED_ONLY else 3
