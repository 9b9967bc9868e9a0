"""Bounds of symbolic extents and indices at given sizes, for many candidates at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import prod
from typing import Final, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt

from atl.core.index import AnyAtom, Bound, Extremum, Index, Quotient, Read, Size, Var, Xor, atoms
from rewrites.egraph.contexts import Range

Numbers: TypeAlias = npt.NDArray[np.float64]
Interval: TypeAlias = tuple[Numbers, Numbers]
Ranges: TypeAlias = Mapping[int, Interval]
"""Bounds of the index of each level of loops."""

UNKNOWN: Final = 1_000.0
"""Assumed value of sizes and elements that are not specified."""


@dataclass(frozen=True, slots=True, eq=False)
class Nest:
    """A loop nest at given sizes: the range and the trip count of each level, outermost first."""

    ranges: Ranges
    trips: Sequence[Numbers]
    total: Numbers
    _held: dict[int, Ranges] = field(default_factory=dict, repr=False)

    def held_below(self, first: int) -> Ranges:
        """Return the ranges with the indices of levels before `first` fixed at the middle of their range."""
        found = self._held.get(first)
        if found is None:
            found = self._held[first] = {
                level: (((low + high) // 2,) * 2 if level < first else (low, high))
                for level, (low, high) in self.ranges.items()
            }
        return found

    def iterations(self, position: Index, first: int) -> Numbers:
        """Return the total number of iterations of the loops from a level on that a position depends on."""
        levels = {atom.uid for atom in atoms(position) if isinstance(atom, Var)}
        return prod((self.trips[level] for level in levels if first <= level < len(self.trips)), start=np.ones(1))


class Extents:
    """Bounds of index expressions at given sizes, each a number or one number per candidate."""

    def __init__(self, sizes: Mapping[str, Numbers | float]) -> None:
        self._sizes = {name: np.atleast_1d(np.asarray(value, dtype=np.float64)) for name, value in sizes.items()}
        self.candidates = max((len(values) for values in self._sizes.values()), default=1)
        self._nests: dict[tuple[Range, ...], Nest] = {}

    def nest(self, loops: tuple[Range, ...]) -> Nest:
        """Return the loops around a place."""
        found = self._nests.get(loops)
        if found is None:
            ranges: dict[int, Interval] = {}
            trips: list[Numbers] = []
            for level, (low, high) in enumerate(loops):
                first, last = self.interval(low, ranges)[0], self.interval(high, ranges)[1]
                trips.append(np.maximum(last - first, 0.0) + np.zeros(self.candidates))
                ranges[level] = (first, np.maximum(first, last - 1))
            total = prod(trips, start=np.ones(self.candidates))
            found = self._nests[loops] = Nest(ranges, trips, total)
        return found

    def interval(self, expression: Index, ranges: Ranges) -> Interval:
        """Return bounds of an expression from the bounds of its atoms."""
        low = high = np.zeros(1)
        for monomial, coefficient in expression.terms:
            least, most = np.ones(1), np.ones(1)
            for atom in monomial:
                a, b = self._atom(atom, ranges)
                corners = (least * a, least * b, most * a, most * b)
                least, most = _least(corners), _most(corners)
            if coefficient < 0:
                least, most = most, least
            low, high = low + coefficient * least, high + coefficient * most
        return low, high

    def _atom(self, atom: AnyAtom, ranges: Ranges) -> Interval:
        match atom:
            case Size(name):
                value = self._sizes.get(name)
                return (value, value) if value is not None else (np.full(1, UNKNOWN),) * 2
            case Var(uid):
                return ranges[uid]
            case Quotient(numerator, denominator):
                low, high = self.interval(numerator, ranges)
                divisor = np.maximum(self.interval(denominator, ranges)[0], 1.0)
                return low // divisor, high // divisor
            case Extremum(kind, choices):
                both = [self.interval(choice, ranges) for choice in choices]
                pick = np.minimum if kind == "min" else np.maximum
                lows, highs = both[0]
                for low, high in both[1:]:
                    lows, highs = pick(lows, low), pick(highs, high)
                return lows, highs
            case Xor(parts):
                most = _most([self.interval(part, ranges)[1] for part in parts])
                return np.zeros(1), np.exp2(np.ceil(np.log2(np.maximum(most, 0.0) + 1.0))) - 1.0
            case Read() | Bound():
                return np.zeros(1), np.full(1, UNKNOWN)
            case _:
                assert_never(atom)


def _least(values: Sequence[Numbers]) -> Numbers:
    return reduce(np.minimum, values)


def _most(values: Sequence[Numbers]) -> Numbers:
    return reduce(np.maximum, values)
