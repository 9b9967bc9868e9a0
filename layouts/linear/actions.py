"""Permutations of the bits of a digit, which registers are renamed by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from atl.errors import WrongArgument, brief
from layouts.linear.layout import LinearLayout

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class ColumnAction:
    """Bit k of the digit is what bit `order[k]` was, out of so many `bits`; those that are not named are dropped.

    >>> ColumnAction((2, 0, 1), "reg", 3).of_values([1, 2, 3, 4, 5, 6, 7, 8])
    [1, 5, 2, 6, 3, 7, 4, 8]
    """

    order: tuple[int, ...]
    digit: str
    bits: int

    def __post_init__(self) -> None:
        if not isinstance(self.order, tuple | list) or type(self.bits) is not int or not isinstance(self.digit, str):
            raise WrongArgument(
                f"ColumnAction({brief(self.order)}, {brief(self.digit)}, {brief(self.bits)})",
                required="an order of bits, the name of a digit, and how many bits it has",
            )
        object.__setattr__(self, "order", tuple(self.order))
        if len(set(self.order)) < len(self.order) or not all(bit in range(self.bits) for bit in self.order):
            raise WrongArgument(f"the order {brief(self.order)}", required=f"bits from 0 to {self.bits - 1}, each once")

    def apply(self, layout: LinearLayout) -> LinearLayout:
        """The layout of the digits as they are now."""
        bases = layout.bases
        if len(bases.get(self.digit, ())) != self.bits:
            raise WrongArgument(f"{layout} has no digit {self.digit!r} of {self.bits} bits", required="one")
        bases[self.digit] = [bases[self.digit][bit] for bit in self.order]
        return LinearLayout.from_bases(list(bases.items()), list(layout.out_dims.items()))

    def of_values(self, values: Sequence[Value]) -> list[Value]:
        """The values at each of the digits as they are now."""
        if len(values) != 1 << self.bits:
            raise WrongArgument(f"{len(values)} values", required=f"{1 << self.bits}, one for each digit")
        whence = [1 << bit for bit in self.order]
        return [values[sum(unit for bit, unit in enumerate(whence) if at >> bit & 1)] for at in range(1 << len(whence))]
