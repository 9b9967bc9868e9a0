"""Programs of neural networks, each with a NumPy reference: a dense layer with GELU."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

import atl
from atl import Program, Tensor

Array: TypeAlias = npt.NDArray[Any]

# -- a dense layer ----------------------------------------------------------------------------------------------------

N, D, H = atl.sizes("N D H")
samples, weights, bias = atl.tensor("samples", N, D), atl.tensor("weights", D, H), atl.tensor("bias", H)
ROOT: Final = 0.7978845608
"""√(2/π), in the tanh form of GELU."""
CUBIC: Final = 0.044715


def _gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1.0 + atl.tanh(ROOT * (x + CUBIC * x * x * x)))


def dense_gelu() -> Program:
    """Return a dense layer, gelu(samples weights + bias), with a row for each sample."""
    sums = atl.gen(N, H, lambda s, h: atl.sum(D, lambda d: samples[s, d] * weights[d, h]) + bias[h])
    body = atl.let(sums, lambda unit: atl.gen(N, H, lambda s, h: _gelu(unit[s, h])), name="unit")
    return atl.program("dense_gelu", [samples, weights, bias], body)


def numpy_dense_gelu(samples: Array, weights: Array, bias: Array) -> Array:
    """Compute `dense_gelu` by NumPy."""
    x = samples @ weights + bias
    out: Array = 0.5 * x * (1 + np.tanh(ROOT * (x + CUBIC * x * x * x)))
    return out
