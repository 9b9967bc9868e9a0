"""Pad-sets: which elements of a tensor are padding, and whether every truncation cuts only padding (§5.5)."""

from padtypes.check import Truncation, check, truncations
from padtypes.padset import Case, PadSet, Witness, infer, pad_set

__all__ = ["Case", "PadSet", "Truncation", "Witness", "check", "infer", "pad_set", "truncations"]
