"""Pad-sets: inference of the padding of each tensor, and the check that truncations cut only padding (§5.5)."""

from atl.parameters import check_calls as _check_calls
from padtypes.padset import (
    Case,
    PadSet,
    PadSetDrawing,
    Truncation,
    Witness,
    check,
    draw,
    draw_pad_set,
    infer,
    pad_set,
    truncation_at,
    truncations,
    unsafe_truncations,
)

__all__ = [
    "Case",
    "PadSet",
    "PadSetDrawing",
    "Truncation",
    "Witness",
    "check",
    "draw",
    "draw_pad_set",
    "infer",
    "pad_set",
    "truncation_at",
    "truncations",
    "unsafe_truncations",
]  # fmt: skip

_check_calls(globals())
