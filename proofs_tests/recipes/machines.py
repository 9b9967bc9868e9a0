"""Planted machines for tests of recipes."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lowering import Machine
from lowering.targets.machine import KIB

AVX2: Final = Machine(
    vector_bytes=32, vector_registers=16, fma=True, cores=4, l1=32 * KIB, l2=256 * KIB, l3=8192 * KIB, line=64
)
AVX512: Final = replace(AVX2, vector_bytes=64, vector_registers=32, l1=48 * KIB, l2=2048 * KIB, l3=32768 * KIB)
SSE: Final = replace(AVX2, vector_bytes=16, fma=False)
NEON: Final = replace(AVX2, vector_bytes=16, vector_registers=32)
TINY: Final = Machine(vector_bytes=8, vector_registers=8, fma=False, cores=2, l1=256, l2=512, l3=0, line=16)
"""A machine with tiles of 2 x 4 numbers, so that small arrays have several tiles, and caches smaller than they are."""
