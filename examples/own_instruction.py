"""A C function of your own as an instruction.

`atl check-instruction examples/own_instruction.py` compares the function with its program.
"""

from pathlib import Path
from typing import Final

import atl

WEIGHTED_SUMS: Final = atl.instruction(
    source=Path(__file__).with_name("weighted_sums.c"), strides={"a": "a1 = 1 ∧ a0 >= k"}, result="stored"
)(
    atl.parse(
        """weighted_sums (a : float32[n, k], w : float32[k]) : float32[n]
          given k <= 128 :=
        ⊞[i < n] Σ[p < k] a[i, p] * w[p]"""
    )
)

EVEN_ROWS: Final = atl.parse(
    "even_rows (x : float32[2*n, 100], w : float32[100]) : float32[n] := ⊞[i < n] Σ[p < 100] x[2*i, p] * w[p]"
)


def even_rows() -> atl.Session:
    """Return weighted sums of the rows with even numbers, by calls of the function."""
    return atl.reschedule(EVEN_ROWS).call("weighted_sums")
