"""Pad-sets: which elements of a tensor are padding, and whether every truncation cuts only padding (§5.5)."""

from padtypes.check import check
from padtypes.padset import Case, PadSet, Witness, infer, pad_set
from padtypes.picture import Picture, draw, picture_of
from padtypes.truncations import Truncation, truncation_at, truncations

__all__ = [
    "Case", "PadSet", "Picture", "Truncation", "Witness", "check", "draw", "infer", "pad_set", "picture_of",
    "truncation_at", "truncations",
]  # fmt: skip
