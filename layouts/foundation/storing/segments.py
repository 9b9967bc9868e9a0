"""Segments as a way to store a tensor: a key and a position in a box that is large enough, packed run after run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from atl.core.index import ZERO, Index, imax, index
from atl.core.predicate import at_most, within
from atl.prove import Facts, proves, upper_bound
from atl.surface.reindexing import Packing, Reindexing
from atl.surface.values import IndexExpr
from layouts.foundation.known import Known
from layouts.foundation.segments import Segments, plain_index
from layouts.foundation.variables import digit_variable


def stored_in_segments(
    shape: tuple[Index, ...],
    segments: Segments,
    to: Callable[..., Sequence[Any]],
    back: Callable[..., Sequence[Any]] | None,
    known: Known,
) -> Reindexing:
    """Where the elements of a tensor of this shape go; without a way back at flat places, where it is read only."""
    total = index(segments.places)
    if back is None:
        return Reindexing(shape, (total,), lambda *at: (IndexExpr(index(segments.join(_placed(to, at)))),), None)
    count = index(segments.count)
    keys = count if proves(Facts(), at_most(ZERO, count)) else imax(ZERO, count)  # a tensor may have no elements
    packing = Packing(segments.start, segments.length, total)
    return Reindexing(shape, (keys, _longest(shape, segments, to, known.facts) or total), to, back, packing)


def _placed(to: Callable[..., Sequence[Any]], at: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(map(plain_index, to(*at)))


def _longest(
    shape: tuple[Index, ...], segments: Segments, to: Callable[..., Sequence[Any]], facts: Facts
) -> Index | None:
    """As many positions as all segments have at most, if a bound is found: of their lengths, or of what `to` gives."""
    key = digit_variable(0, "k")
    count = index(segments.count)
    length = index(plain_index(segments.length(IndexExpr(index(key)))))
    own = facts.assume(within(ZERO, index(key), count))
    found = upper_bound(own, length, [(key, ZERO, count)])
    if found is not None:
        return imax(ZERO, found)
    digits = [digit_variable(k, f"i{k}") for k in range(len(shape))]
    _, position = _placed(to, [IndexExpr(index(digit)) for digit in digits])
    found = upper_bound(facts, index(position), [(x, ZERO, n) for x, n in zip(digits, shape, strict=True)])
    return None if found is None else imax(ZERO, found + 1)
