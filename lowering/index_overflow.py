"""Whether the integers that a kernel computes for its indices fit into 64 bits: asked by each call, once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import Any, Final

from atl.core.dtypes import range_of
from atl.core.index import ONE, Array, Index, Read, Size, Var, atoms, index, linear
from atl.core.predicate import expressions
from atl.errors import IndexOverflow
from atl.meaning.specialise import LARGEST
from atl.text.printing import show_index
from lowering.c.values.index import Factor, Remainder, Terms, is_limited
from lowering.c.values.operands import Operand, operands
from lowering.c.values.ranges import Range, Ranges, fits
from lowering.nest.loopnest import LoopNest

MOST_POWER: Final = 62
"""Sizes and elements are asked about up to 2^62 at once; beyond, about those of the call."""
USUAL_POWER: Final = 20
"""Elements of which more must be known than their type even with sizes up to 2^20 are looked at in every call."""


class IndexOverflowCheck:
    """The sums of a loop nest that may leave 64 bits, and up to which sizes and elements none of them does.

    While sizes are within `reach`, a call looks at the elements of the `scanned` arrays and at nothing else: of most
    nests, at none. Beyond, the ranges of the very call decide.
    """

    def __init__(self, nest: LoopNest) -> None:
        self._name: Final = nest.name
        self._sizes: Final = nest.sizes
        self._arrays: Final = {array.name: array for array in nest.inputs}
        found = {(operand.inside, tuple(operand.terms.items())): operand for operand in operands(nest)}
        self._doubtful: Final = self._failing(found.values(), LARGEST)
        usual = self._failing(self._doubtful, 2**USUAL_POWER)
        names = {array.name for operand in usual for array in _arrays_read(operand) if not is_limited(array)}
        self.scanned: Final = tuple(sorted(names))
        """The arrays whose elements decide, whatever the sizes are."""
        self.reach: Final = self._reach()
        """Sizes up to this one, with elements up to it in the scanned arrays, make all sums fit."""

    def _failing(self, among: Iterable[Operand], limit: int) -> tuple[Operand, ...]:
        """The operands that may not fit with sizes up to the limit and any elements of their types."""
        ranges = Ranges(dict.fromkeys(self._sizes, (0, min(limit, LARGEST))), lambda array: range_of(array.dtype))
        return tuple(operand for operand in among if not fits(ranges.of(operand)))

    def _reach(self) -> int:
        """The greatest power of two that will do; -1, when none does."""
        enough, too_far = -1, MOST_POWER + 1
        while too_far - enough > 1:
            middle = (enough + too_far) // 2
            if self._all_fit(2**middle):
                enough = middle
            else:
                too_far = middle
        return 2**enough if enough >= 0 else -1

    def _all_fit(self, limit: int) -> bool:
        def elements(array: Array) -> Range:
            return (-limit, limit) if array.name in self.scanned else range_of(array.dtype)

        ranges = Ranges(dict.fromkeys(self._sizes, (0, min(limit, LARGEST))), elements)
        return all(fits(ranges.of(operand)) for operand in self._doubtful)

    # -- calls --------------------------------------------------------------------------------------------------------

    def check(self, sizes: Mapping[str, int], arrays: Mapping[str, Any]) -> bool:
        """Whether elements of the arrays had to be looked at to see that all sums fit in a call; else sizes decide.

        Raises `IndexOverflow` when a sum may not fit.
        """
        held = _Held(arrays)
        if max(sizes.values(), default=0) <= self.reach and all(held.within(name, self.reach) for name in self.scanned):
            return held.asked
        ranges = Ranges({name: (size, size) for name, size in sizes.items()}, lambda array: held.range(array.name))
        for operand in self._doubtful:
            found = ranges.of(operand)
            if found is not None and not fits(found):
                raise self._refused(operand, found, ranges)
        return held.asked

    def _refused(self, operand: Operand, found: Range, ranges: Ranges) -> IndexOverflow:
        whole = _as_index(operand.terms)
        read = next((atom for atom in atoms(whole) if isinstance(atom, Read) and not is_limited(atom.array)), None)
        if read is None:
            advice = "call it with smaller sizes"
        else:
            element = show_index(index(read))
            advice = (
                f"declare range=(low, high) of {read.array.name}, or guard with bounds of {element} before all else"
            )
        return IndexOverflow(
            f"{show_index(whole)}, which {self._name} computes, may not fit into 64 bits in this call",
            required=f"-2**63 <= {show_index(whole)} < 2**63; it is from {found[0]} to {found[1]}, as far as is known",
            numbers={
                show_index(index(atom)): _written(ranges.of(Operand(operand.inside, {(atom,): 1})))
                for atom in dict.fromkeys(atoms(whole))
                if isinstance(atom, Size | Var | Read)
            },
            suggestions=(advice,),
        )


class _Held:
    """The least and the greatest element of each array of a call, looked for when they are asked for."""

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self._arrays = arrays
        self._found: dict[str, Range] = {}

    def range(self, name: str) -> Range:
        if name not in self._found:
            array = self._arrays[name]
            self._found[name] = (int(array.min()), int(array.max())) if array.size else (0, 0)
        return self._found[name]

    @property
    def asked(self) -> bool:
        return bool(self._found)

    def within(self, name: str, limit: int) -> bool:
        low, high = self.range(name)
        return -limit <= low and high <= limit


def _arrays_read(operand: Operand) -> Iterator[Array]:
    """The arrays of which an element is in the sum, or in a condition that it stands under."""
    stated = [_as_index(operand.terms)]
    inside = operand.inside
    while inside.outside is not None and inside.predicate is not None:
        stated.extend(expressions(inside.predicate))
        inside = inside.outside
    for expression in stated:
        for atom in atoms(expression):
            if isinstance(atom, Read):
                yield atom.array


def _as_index(terms: Terms) -> Index:
    return linear((value, prod(map(_factor_as_index, factors), start=ONE)) for factors, value in terms.items())


def _factor_as_index(factor: Factor) -> Index:
    return factor.numerator % factor.denominator if isinstance(factor, Remainder) else index(factor)


def _written(found: Range | None) -> str:
    low, high = found or (0, 0)
    return str(low) if low == high else f"{low} … {high}"
