"""Small tables of numbers as tensors: a choice between constants, by the index."""

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

MOST: Final = 256
"""A larger table is an input: what is chosen of so many by comparisons would be slow to run, and long to read."""


def constant(numbers: Any, *, dtype: str | None = None) -> Tensor:
    """The tensor of these numbers, at most 256: an array of NumPy's, or nested lists; `dtype` is another element type.

    It is a generation that chooses between constants by its indices, half by half, so that nothing new has a meaning:
    programs, theorems and certificates hold the numbers themselves. Where the index is a number, as in a loop that is
    written out, the choice is gone. Shape: the array's. Raises `InvalidArgument`.

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
        raise InvalidArgument(f"{brief(numbers)} is no array: {error}", required="an array of numbers") from None
    kind = str(held.dtype) if dtype is None else dtypes.checked_dtype(dtype)
    if kind not in dtypes.DTYPES or held.dtype.kind not in "iuf":
        raise InvalidArgument(
            f"a constant of elements of {held.dtype}",
            required=f"numbers of {', '.join(dtypes.DTYPES)}, or dtype= with one of these",
        )
    if not 1 <= held.size <= MOST:
        raise InvalidArgument(
            f"a constant of {held.size} numbers",
            required=f"1 to {MOST} of them",
            suggestions=('declare an input, A = atl.tensor("A", n), and pass the array to the call',),
        )
    with np.errstate(all="ignore"):
        fits = held.astype(kind)
    whole = not dtypes.is_integer(kind) or np.array_equal(fits.astype(held.dtype), held)
    if not whole or not np.isfinite(fits.astype(float)).all():
        raise InvalidArgument(
            f"the numbers of a constant are none of {kind}",
            required=f"finite numbers that {kind} holds; floats may be rounded",
            suggestions=('dtype="float64" holds more of them',),
        )
    exact = fits if dtypes.is_integer(kind) else held
    return Tensor(located(over(tuple(map(number, exact.shape)), lambda at: _chosen(exact, list(at), kind))))


def _chosen(held: Any, at: list[Index], kind: str) -> Expr:
    """The element at some indices: of the first half, if the first index is in it, or of the second."""
    if not at:
        value = held.item()
        return Constant(value if dtypes.is_integer(kind) else float(value), kind)
    if len(held) == 1 or (held == held[0]).all():
        return _chosen(held[0], at[1:], kind)
    half = len(held) // 2
    first = _chosen(held[:half], at, kind)
    second = _chosen(held[half:], [at[0] - number(half), *at[1:]], kind)
    return Select(less(at[0], number(half)), first, second)
