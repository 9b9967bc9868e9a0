"""Storage in segments: a key and a position in a box that is large enough, packed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from atl.core.index import ZERO, Index, imax, index
from atl.core.predicate import at_most, within
from atl.prove import Facts, proves, upper_bound
from atl.surface.reindexing import Packing, Reindexing
from atl.surface.values import IndexExpr
from layouts.foundation.facts import Known
from layouts.foundation.segments import Segments
from layouts.foundation.tuples import plain_index
from layouts.foundation.variables import digit_variable, key_variables


def stored_in_segments(
    shape: tuple[Index, ...],
    segments: Segments,
    to: Callable[..., Sequence[Any]],
    inverse: Callable[..., Sequence[Any]] | None,
    known: Known,
) -> Reindexing:
    """Return the reindexing of a tensor of this shape. Without an inverse it has flat locations and is read-only."""
    packing, count = segments.packing, index(segments.count)
    if inverse is None:
        return Reindexing(shape, (count, packing.places), to, None, packing).flat()
    keys = count if proves(Facts(), at_most(ZERO, count)) else imax(ZERO, count)  # a tensor may have no elements
    longest = _longest(shape, packing, count, to, known.facts)
    return Reindexing(shape, (keys, longest or packing.places), to, inverse, packing)


def _longest(
    shape: tuple[Index, ...], packing: Packing, count: Index, to: Callable[..., Sequence[Any]], facts: Facts
) -> Index | None:
    """Return an upper bound of the segment lengths, from `length` or from the range of `to`, if one is proved."""
    key, _ = key_variables()
    own = facts.assume(within(ZERO, index(key), count))
    found = upper_bound(own, packing.count(index(key)), [(key, ZERO, count)])
    if found is not None:
        return imax(ZERO, found)
    digits = [digit_variable(k, f"i{k}") for k in range(len(shape))]
    _, position = to(*(IndexExpr(index(digit)) for digit in digits))
    found = upper_bound(facts, index(plain_index(position)), [(x, ZERO, n) for x, n in zip(digits, shape, strict=True)])
    return None if found is None else imax(ZERO, found + 1)
