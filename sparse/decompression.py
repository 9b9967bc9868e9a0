"""Decompression: the tensor represented by the arrays of a format, as a term (§7.5.2)."""

from __future__ import annotations

from collections.abc import Sequence

import atl
from sparse.levels import Level, Metadata
from sparse.levels.level import Condition, Number
from sparse.views import Identity, View


def decompression(
    levels: Sequence[Level],
    view: View,
    extents: tuple[Number, ...],
    metadata: Sequence[Metadata],
    values: atl.Tensor,
) -> atl.Tensor:
    """Return the tensor that the arrays represent: each entry at its coordinates, duplicates summed.

    D(levels)(parent) = Σ[p in pos_bounds(parent)] [valid] · place _ pos_crd(p) D(rest)(pos_pos(p)). If the format has
    a view, entries are placed at their coordinates in the tensor, and padding of the view is skipped.
    """
    plain = isinstance(view, Identity)

    def below(number: int, parent: Number, coordinates: tuple[Number, ...]) -> atl.Tensor:
        if number == len(levels):
            element = values[parent]
            if plain:
                return element
            in_bounds = view.in_bounds(extents, coordinates)
            placed = _placed(extents, view.inverse(extents, coordinates), element)
            return _guarded(in_bounds, placed)
        level, m = levels[number], metadata[number]

        def entry(p: atl.IndexExpr) -> atl.Tensor:
            own = level.pos_crd(m, parent, p)
            rest = below(number + 1, level.pos_pos(m, parent, p), (*coordinates, *own))
            if plain:
                rest = _placed(m.extents, own, rest)
            return _guarded(level.valid(m, parent, p), rest)

        return atl.sum(level.pos_bounds(m, parent), entry)

    return below(0, 0, ())


def _placed(extents: Sequence[Number], coordinates: Sequence[Number], element: atl.Tensor) -> atl.Tensor:
    for n, at in reversed(list(zip(extents, coordinates, strict=True))):
        element = atl.place(n, at, element)
    return element


def _guarded(condition: Condition, element: atl.Tensor) -> atl.Tensor:
    return element if condition is True else atl.guard(condition, element)
