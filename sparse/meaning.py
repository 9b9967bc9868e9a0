"""What the arrays of a format mean: decompression is a definition (§7.5.2)."""

from __future__ import annotations

from collections.abc import Sequence

import atl
from sparse.levels import Level, Metadata
from sparse.levels.level import Condition, Number
from sparse.views import Same, View


def decompression(
    levels: Sequence[Level],
    view: View,
    extents: tuple[Number, ...],
    metadata: Sequence[Metadata],
    values: atl.Tensor,
) -> atl.Tensor:
    """The tensor that arrays in a format mean: every entry, placed at its coordinates; entries with equal ones add up.

    D(levels)(parent) = Σ[p in pos_bounds(parent)] [valid] · place _ pos_crd(p) D(rest)(pos_pos(p)). In a view other
    than the tensor itself entries are placed where they belong in the tensor, as far as it has a place for them.
    """
    plain = isinstance(view, Same)

    def below(number: int, parent: Number, coordinates: tuple[Number, ...]) -> atl.Tensor:
        if number == len(levels):
            element = values[parent]
            if plain:
                return element
            inside = view.inside(extents, coordinates)
            placed = _placed(extents, view.back(extents, coordinates), element)
            return _guarded(inside, placed)
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
