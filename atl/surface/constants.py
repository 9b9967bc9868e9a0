"""Small constant tensors, represented as selections between literals by the index."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from atl.core import dtypes
from atl.core.index import Index
from atl.core.index import constant as number
from atl.core.predicate import less
from atl.core.terms import Constant, Expr, Select
from atl.errors import InvalidArgument, brief
from atl.surface.numpy_forms import over
from atl.surface.values import Tensor, located

_NUMBERS: Final = (*dtypes.DTYPES, *dtypes.STORED)
MAX_ELEMENTS: Final = 256
"""Maximum number of elements. A selection between more literals would be slow and long; larger tables are inputs."""


def constant(numbers: Any, *, dtype: str | None = None) -> Tensor:
    """Return a constant tensor from at most 256 numbers: a NumPy array or nested lists, converted to `dtype` if given.

    The constant is a generation that selects between literals by binary search over the indices. Programs, theorems and
    certificates contain the numbers. For a constant index, as in an unrolled loop, the selection is simplified away.
    Shape: the array's. Raises `InvalidArgument`.

    >>> import atl, numpy as np
    >>> n = atl.sizes("n", min=4)
    >>> x, w = atl.tensor("x", n), atl.constant([1, 4, 6, 4, 1], dtype="float32")
    >>> smooth = atl.program("smooth", [x], atl.gen(n - 4, lambda i: atl.sum(5, lambda k: w[k] * x[i + k])))
    >>> atl.evaluate(smooth, np.array([0, 0, 1, 0, 0, 0], "float32"))
    array([6., 4.], dtype=float32)
    """
    try:
        held = np.asarray(numbers)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"{brief(numbers)} is not an array: {error}", required="an array of numbers") from None
    kind = str(held.dtype) if dtype is None else dtypes.checked_dtype(dtype)
    if kind not in _NUMBERS or held.dtype.kind not in "iufV":
        raise InvalidArgument(
            f"a constant with elements of type {held.dtype}",
            required=f"numbers of type {', '.join(_NUMBERS)}, or dtype= with one of these",
        )
    if not 1 <= held.size <= MAX_ELEMENTS:
        raise InvalidArgument(
            f"a constant of {held.size} numbers",
            required=f"1 to {MAX_ELEMENTS} numbers",
            suggestions=('declare an input, A = atl.tensor("A", n), and pass the array to the call',),
        )
    with np.errstate(all="ignore"):
        fits = held.astype(kind)
    whole = not dtypes.is_integer(kind) or np.array_equal(fits.astype(held.dtype), held)
    if not whole or not np.isfinite(fits.astype(float)).all():
        raise InvalidArgument(
            f"the numbers of a constant do not fit into {kind}",
            required=f"finite numbers in the range of {kind}; floats may be rounded",
            suggestions=('use a wider type: dtype="float64"',),
        )
    exact = fits if dtypes.is_integer(kind) else held
    return Tensor(located(over(tuple(map(number, exact.shape)), lambda at: _chosen(exact, list(at), kind))))


def _chosen(held: Any, at: list[Index], kind: str) -> Expr:
    """Return the element at some indices, by binary search over the first index."""
    if not at:
        value = held.item()
        return Constant(value if dtypes.is_integer(kind) else float(value), kind)
    if len(held) == 1 or (held == held[0]).all():
        return _chosen(held[0], at[1:], kind)
    half = len(held) // 2
    first = _chosen(held[:half], at, kind)
    second = _chosen(held[half:], [at[0] - number(half), *at[1:]], kind)
    return Select(less(at[0], number(half)), first, second)
