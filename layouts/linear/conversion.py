"""Conversion of linear functions on boxes to matrices over F2."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from layouts.errors import CannotTabulate, NoLayout
from layouts.foundation.function import Function, need_function
from layouts.foundation.layout import Layout
from layouts.foundation.semimodule import COORDINATES
from layouts.foundation.tuples import modes_of, product, shown
from layouts.linear.layout import LinearLayout


def as_linear(
    function: Function, ins: Sequence[str] | None = None, out_dims: Sequence[str] | None = None
) -> LinearLayout:
    """Convert to a matrix. Its inputs are the modes, named by `ins`, and its outputs the components of the function.

    The default names are `mode0`, `mode1`, … and `place`, or `place0`, `place1`, …. Raises `NoLayout` if an extent is
    not a power of two, or if the function is not linear: at some index, which the error gives, its value is not the
    exclusive or of the values at the bits of the index.

    >>> from layouts import Layout, Swizzle, composition
    >>> as_linear(Layout((4, 8), (8, 1)), ["row", "column"], ["at"])
    row: 8,16; column: 1,2,4 in at: 32
    >>> as_linear(Swizzle(2, 0, 2)).bases
    {'mode0': [[1], [2], [5], [10]]}
    """
    need_function(function)
    if isinstance(function, LinearLayout) and ins is None and out_dims is None:
        return function
    widths = []
    for mode in modes_of(function.shape):
        extent = product(mode)
        if not isinstance(extent, int) or extent & (extent - 1):
            raise NoLayout(
                f"the mode {shown(mode)} of {function} has extent {extent}", required="extents that are powers of two"
            )
        widths.append(extent.bit_length() - 1)
    if function.table_size is None:
        raise CannotTabulate(
            f"{function} has {function.size} elements", required="up to a million, which are tabulated"
        )
    values = _locations(function)
    columns = [[int(part) for part in values[1 << bit]] for bit in range(sum(widths))]
    ins = _names(ins, "mode", len(widths), always=True)
    out_dims = _names(out_dims, "place", values.shape[1], always=False)
    _need_linear(function, values, columns)
    given = iter(columns)
    bases = [(name, [next(given) for _ in range(width)]) for name, width in zip(ins, widths, strict=True)]
    return LinearLayout.from_bases(bases, list(out_dims))


def _locations(function: Function) -> np.ndarray:
    values = function.colexicographic()
    rows = values.reshape((len(values), -1)).astype(np.int64)
    if (rows < 0).any():
        raise NoLayout(f"{function} has the location {rows.min()}", required="locations that are not negative")
    if isinstance(function, Layout) and function.semimodule is COORDINATES:
        return rows[:, : function.width]
    return rows


def _need_linear(function: Function, values: np.ndarray, columns: Sequence[Sequence[int]]) -> None:
    made = np.zeros_like(values[:1])
    for column in columns:
        made = np.concatenate([made, made ^ np.asarray(column, dtype=np.int64)])
    wrong = np.flatnonzero((made != values).any(axis=1))
    if len(wrong):
        at = int(wrong[0])
        raise NoLayout(
            f"{function} is not linear over F2: at {at} it is {values[at].tolist()}, but the values at its bits give "
            f"{made[at].tolist()}",
            required="at every index, the exclusive or of the values at its bits",
        )


def _names(given: Sequence[str] | None, word: str, count: int, *, always: bool) -> Sequence[str]:
    if given is None:
        return [f"{word}{k}" for k in range(count)] if always or count > 1 else [word]
    if len(given) != count:
        raise NoLayout(f"{len(given)} names for {count} dimensions", required="a name for each")
    return given
