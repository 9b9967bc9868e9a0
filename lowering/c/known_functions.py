"""Functions of generated C, and the operations of programs that they compute."""

from __future__ import annotations

from typing import Final

from atl.core.operations import FLOAT_ONLY, UNARY
from lowering.c.functions.halves import FROM_FLOAT, ROUNDED_TO_ODD, TO_FLOAT
from lowering.c.functions.lanes import EACH_LANE
from lowering.validation.interface import Known

_DTYPES: Final = {"float": "float32", "double": "float64"}

KNOWN: Final = {
    **{
        function: Known(op, dtype)
        for c_type, dtype in _DTYPES.items()
        for op, function in EACH_LANE[c_type].items()
        if op in FLOAT_ONLY and op in UNARY
    },
    **{function: Known("cast", "float32", dtype) for dtype, function in TO_FLOAT.items()},
    **{function: Known("cast", dtype, "float32") for dtype, function in FROM_FLOAT.items()},
    ROUNDED_TO_ODD: Known("same", "float32"),
    **{f"{op}_int{bits}": Known(op, f"int{bits}") for op in ("floordiv", "mod", "shl", "shr") for bits in (32, 64)},
}
"""The operations by the names of the functions. `proofs_tests/validation` compares them with the functions."""
