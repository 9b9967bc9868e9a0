"""The check, once per call, that the index arithmetic of a kernel does not overflow 64 bits."""

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
"""Exponent of the largest power of two for which all sums are checked in advance."""
USUAL_POWER: Final = 20
"""Exponent of usual sizes. Arrays whose element types allow an overflow at these sizes are scanned in every call."""


class IndexOverflowCheck:
    """The sums of a loop nest that may overflow 64 bits, and a bound on sizes and elements below which none does.

    For sizes up to `reach`, a call scans only the elements of the `scanned` arrays, which are none for most nests.
    For larger sizes, the check uses the actual ranges of the call.
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
        """Names of the arrays whose elements may cause an overflow even at usual sizes."""
        self.reach: Final = self._reach()
        """Largest size, and magnitude of scanned elements, for which all sums are known to fit."""

    def _failing(self, among: Iterable[Operand], limit: int) -> tuple[Operand, ...]:
        """Return the operands that may overflow with sizes up to the limit and any elements of their types."""
        ranges = Ranges(dict.fromkeys(self._sizes, (0, min(limit, LARGEST))), lambda array: range_of(array.dtype))
        return tuple(operand for operand in among if not fits(ranges.of(operand)))

    def _reach(self) -> int:
        """Return the greatest power of two up to which all sums fit, or -1."""
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
        """Check a call, and return whether its elements were scanned. If not, the result depends on its sizes alone.

        Raises `IndexOverflow` if a sum may overflow.
        """
        elements = _ElementRanges(arrays)
        if max(sizes.values(), default=0) <= self.reach and all(
            elements.within(name, self.reach) for name in self.scanned
        ):
            return elements.were_scanned
        ranges = Ranges({name: (size, size) for name, size in sizes.items()}, lambda array: elements.range(array.name))
        for operand in self._doubtful:
            found = ranges.of(operand)
            if found is not None and not fits(found):
                raise self._refused(operand, found, ranges)
        return elements.were_scanned

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
        low, high = found
        problem = "may not" if low != high else "does not"
        known = f"known range is {low} to {high}" if low != high else f"value is {low}"
        return IndexOverflow(
            f"{show_index(whole)}, which {self._name} computes, {problem} fit into 64 bits in this call",
            required=f"-2**63 <= {show_index(whole)} < 2**63; its {known}",
            numbers={
                show_index(index(atom)): _written(ranges.of(Operand(operand.inside, {(atom,): 1})))
                for atom in dict.fromkeys(atoms(whole))
                if isinstance(atom, Size | Var | Read)
            },
            suggestions=(advice,),
        )


class _ElementRanges:
    """The least and greatest element of each array of a call, computed on demand."""

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self._arrays = arrays
        self._found: dict[str, Range] = {}

    def range(self, name: str) -> Range:
        if name not in self._found:
            array = self._arrays[name]
            self._found[name] = (int(array.min()), int(array.max())) if array.size else (0, 0)
        return self._found[name]

    @property
    def were_scanned(self) -> bool:
        return bool(self._found)

    def within(self, name: str, limit: int) -> bool:
        low, high = self.range(name)
        return -limit <= low and high <= limit


def _arrays_read(operand: Operand) -> Iterator[Array]:
    """Yield the arrays whose elements occur in the sum or in a condition around it."""
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
