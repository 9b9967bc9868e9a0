"""How far a result may be from the right one by rounding: one answer for whoever compares what kernels compute."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from atl.errors import WrongArgument, brief


def tolerance(dtype: npt.DTypeLike, terms: int) -> float:
    """How far an element of floats that adds up so many terms may be off, relative to its size and that of the others.

    Rounding grows with the number of terms. It is the unit of `dtype` for each of them, and for eight more operations.

    >>> tolerance("float32", 1000) == float(np.finfo("float32").eps) * 1008
    True
    """
    if type(terms) is not int or terms < 0:
        raise WrongArgument(f"terms={brief(terms)}", required="how many terms an element adds up")
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = np.dtype(bool)
    if dtype is None or not np.issubdtype(kind, np.floating):
        raise WrongArgument(f"dtype={brief(dtype)}", required="a type of floats: float32 or float64")
    return float(np.finfo(kind).eps) * (8 + terms)
