"""Permutations of the bits of a digit, for renaming registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from atl.errors import InvalidArgument, brief
from layouts.linear.layout import LinearLayout

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class ColumnAction:
    """A permutation of the bits of a digit: new bit k is old bit `order[k]`. Bits that are not listed are dropped.

    >>> ColumnAction((2, 0, 1), "reg", 3).of_values([1, 2, 3, 4, 5, 6, 7, 8])
    [1, 5, 2, 6, 3, 7, 4, 8]
    """

    order: tuple[int, ...]
    digit: str
    bits: int

    def __post_init__(self) -> None:
        if not isinstance(self.order, tuple | list) or type(self.bits) is not int or not isinstance(self.digit, str):
            raise InvalidArgument(
                f"ColumnAction({brief(self.order)}, {brief(self.digit)}, {brief(self.bits)})",
                required="an order of bits, the name of a digit, and its number of bits",
            )
        object.__setattr__(self, "order", tuple(self.order))
        if len(set(self.order)) < len(self.order) or not all(bit in range(self.bits) for bit in self.order):
            raise InvalidArgument(f"the order {brief(self.order)}", required=f"distinct bits from 0 to {self.bits - 1}")

    def apply(self, layout: LinearLayout) -> LinearLayout:
        """Return the layout with the bits of the digit permuted."""
        bases = layout.bases
        if len(bases.get(self.digit, ())) != self.bits:
            raise InvalidArgument(
                f"{layout} has no digit {self.digit!r} with {self.bits} bits", required="such a digit"
            )
        bases[self.digit] = [bases[self.digit][bit] for bit in self.order]
        return LinearLayout.from_bases(list(bases.items()), list(layout.out_dims.items()))

    def of_values(self, values: Sequence[Value]) -> list[Value]:
        """Return the values at the permuted digits."""
        if len(values) != 1 << self.bits:
            raise InvalidArgument(f"{len(values)} values", required=f"{1 << self.bits}, one for each digit")
        units = [1 << bit for bit in self.order]
        return [values[sum(unit for bit, unit in enumerate(units) if at >> bit & 1)] for at in range(1 << len(units))]
