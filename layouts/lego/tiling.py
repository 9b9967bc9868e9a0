"""Arrays in tiles that divide them (TileInto), or that cover them with partial tiles at the edges (CoverBy)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from atl.core.index import ceildiv, index
from atl.core.predicate import equal
from atl.surface.values import Condition
from layouts.errors import LayoutError
from layouts.foundation.facts import positive
from layouts.foundation.tuples import Extent, extent_of, shown
from layouts.lego.expansion import ExpandBy
from layouts.lego.group_by import GroupBy, TileBy
from layouts.lego.permutations import Row, extents


def TileInto(  # noqa: N802 (as LEGO's other names)
    whole: Iterable[object], *tiles: Iterable[object], given: Iterable[object] = ()
) -> GroupBy:
    """Return the view of an array in tiles of these extents, larger tiles first; each level divides the one above it.

    It is TileBy with the numbers of tiles computed and divisibility as facts. `.OrderBy(…)` then gives a layout of the
    whole array.
    array follows by `.OrderBy(…)`.

    >>> import atl
    >>> from layouts.lego import Row
    >>> M, K, BM, BK, i, k = atl.sizes("M K BM BK i k")
    >>> TileInto([M, K], [BM, BK]).OrderBy(Row(M, K))[i, k, :, :]
    BM*K*i + j*K + BK*k + l over [j < BM] [l < BK]
    """
    levels = _levels(whole, tiles)
    known, facts = positive(n for level in levels for n in level).given(given), [*given]
    counts: list[list[Extent]] = []
    for above, below in pairwise(levels):
        counts.append([])
        for n, b in zip(above, below, strict=True):
            if isinstance(n, int) and isinstance(b, int):
                if n % b:
                    raise LayoutError(
                        f"{n} in tiles of {b}",
                        required="tiles that divide it",
                        suggestions=("CoverBy, for partial tiles",),
                    )
            elif known.quotient(n, b) is None:
                facts.append(Condition(equal(index(n) % index(b), index(0))))
                known = known.given(facts[-1:])
            exact = known.quotient(n, b)
            counts[-1].append(extent_of(index(n) // index(b)) if exact is None else exact)
    return TileBy(*counts, levels[-1], given=[*facts, *(Condition(fact) for fact in known.facts.predicates)])


def CoverBy(  # noqa: N802 (as LEGO's other names)
    whole: Iterable[object], tile: Iterable[object], *, given: Iterable[object] = ()
) -> ExpandBy:
    """Return the view of an array in tiles that cover it; positions of edge tiles outside the array have no location.

    The array is row-major. It is ExpandBy with the numbers of tiles and the expanded extents computed.

    >>> CoverBy([5], [3]).apply(1, 1), CoverBy([5], [3]).apply(1, 2)
    (4, -1)
    """
    levels = _levels(whole, [tile])
    counts = [extent_of(ceildiv(index(n), index(b), positive=True)) for n, b in zip(*levels, strict=True)]
    expanded = [count * b for count, b in zip(counts, levels[1], strict=True)]
    group = TileBy(counts, levels[1], given=[*given]).OrderBy(Row(expanded))
    return ExpandBy(levels[0], expanded, group)


def _levels(whole: Iterable[object], tiles: Sequence[Iterable[object]]) -> list[tuple[Extent, ...]]:
    levels = [extents(whole), *map(extents, tiles)]
    if len(levels) < 2 or len({len(level) for level in levels}) > 1:
        raise LayoutError(
            f"{shown(levels[0])} in tiles of {', '.join(map(shown, levels[1:])) or 'none'}",
            required="tiles with as many dimensions as the array",
        )
    return levels
