"""Pad-sets: inference of the padding of each tensor, and the check that truncations cut only padding (§5.5)."""

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
