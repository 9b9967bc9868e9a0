"""Shardings: layouts whose leading dimensions are the axes of a mesh of ranks.

>>> import atl
>>> P, nb = atl.sizes("P nb", min=1)
>>> rows = atl.shards(x=(0, P, nb))
>>> made, axes = rows.sharded((P * nb).node, (P * nb).node)
>>> made.places, [axis.value for axis in axes]
((P, nb, P*nb), ['device.x', '', ''])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from atl.core.index import Index
from atl.core.marks import DEVICE_LETTERS, DEVICES, LoopMark
from atl.errors import InvalidArgument, brief
from atl.surface.reindexing import Reindexing
from atl.surface.values import as_index
from layouts.axe.layout import Axe
from layouts.errors import NoLayout

Order: TypeAlias = Literal["blocks", "cyclic"]
"""How elements are dealt: a block of consecutive ones to each rank, or one after the other in turn."""

AXES: Final[Mapping[str, LoopMark]] = {letter: axis for axis, letter in DEVICE_LETTERS.items()}
"""The device axes by letter."""


@dataclass(frozen=True, slots=True)
class Part:
    """One sharded dimension: `parts` shards of `length` elements along an axis."""

    axis: LoopMark
    dimension: int
    parts: Index
    length: Index


@dataclass(frozen=True, slots=True, repr=False)
class Shards:
    """A sharding of a tensor: places are the coordinates of the rank, then the position in its shard.

    The shards of a dimension need not be full: n <= parts * length suffices. Places without an element are padding.
    """

    parts: tuple[Part, ...]
    order: Order

    def __repr__(self) -> str:
        letters = DEVICE_LETTERS
        order = "" if self.order == "blocks" else f"{self.order!r}, "
        parts = (f"{letters[part.axis]}=({part.dimension}, {part.parts}, {part.length})" for part in self.parts)
        return f"shards({order}{', '.join(parts)})"

    def sharded(self, *shape: Index) -> tuple[Reindexing, tuple[LoopMark, ...]]:
        """Return the layout of a tensor of this shape, and the axis of each of its places."""
        by_dimension = {part.dimension: part for part in self.parts}
        beyond = next((part for part in self.parts if part.dimension >= len(shape)), None)
        if beyond is not None:
            raise NoLayout(
                f"dimension {beyond.dimension} is sharded, and the tensor has {len(shape)}",
                required=f"a dimension from 0 to {len(shape) - 1}",
            )
        inner = tuple(by_dimension[at].length if at in by_dimension else extent for at, extent in enumerate(shape))

        def to(*at: Any) -> tuple[Any, ...]:
            cyclic = self.order == "cyclic"
            owner = (
                at[part.dimension] % part.parts if cyclic else at[part.dimension] // part.length for part in self.parts
            )
            rest = [
                x if each is None else x // each.parts if cyclic else x % each.length
                for x, each in ((x, by_dimension.get(position)) for position, x in enumerate(at))
            ]
            return (*owner, *rest)

        def inverse(*at: Any) -> tuple[Any, ...]:
            owner = dict(zip((part.dimension for part in self.parts), at, strict=False))
            found = []
            for position, x in enumerate(at[len(self.parts) :]):
                each = by_dimension.get(position)
                if each is None:
                    found.append(x)
                elif self.order == "cyclic":
                    found.append(x * each.parts + owner[position])
                else:
                    found.append(owner[position] * each.length + x)
            return tuple(found)

        places = (*(part.parts for part in self.parts), *inner)
        axes = (*(part.axis for part in self.parts), *(LoopMark.NONE for _ in inner))
        return Reindexing(shape, places, to, inverse), axes


def shards(order: Order = "blocks", **axes: tuple[int, Any, Any]) -> Shards:
    """Return a sharding: for each axis x, y or z a dimension, the number of its shards, and their length.

    With order="cyclic", rank d has the elements d, d + parts, d + 2 * parts, …; `length` is the number of them.

    Raises `InvalidArgument`.

    >>> import atl
    >>> P, Q, nb, mb = atl.sizes("P Q nb mb", min=1)
    >>> atl.shards(x=(0, P, nb), y=(1, Q, mb)), atl.shards("cyclic", x=(0, P, nb))
    (shards(x=(0, P, nb), y=(1, Q, mb)), shards('cyclic', x=(0, P, nb)))
    """
    if order not in get_args(Order):
        raise InvalidArgument(f"order={brief(order)}", required='order="blocks" or order="cyclic"')
    found: list[Part] = []
    for name, given in axes.items():
        if name not in AXES:
            raise InvalidArgument(f"unknown axis {name}", required=f"axes among {', '.join(AXES)}")
        if not isinstance(given, tuple | list) or len(given) != 3 or type(given[0]) is not int or given[0] < 0:
            raise InvalidArgument(
                f"{name}={brief(given)}",
                required="the number of a dimension, the number of shards and their length: x=(0, P, nb)",
            )
        found.append(Part(AXES[name], given[0], as_index(given[1]), as_index(given[2])))
    if not found:
        raise InvalidArgument("no dimension is sharded", required="a dimension for an axis: x=(0, P, nb)")
    if len({part.dimension for part in found}) < len(found):
        raise InvalidArgument("one dimension is sharded along two axes", required="a dimension for each axis")
    return Shards(tuple(sorted(found, key=lambda part: DEVICES.index(part.axis))), order)


def sharding_of(layout: object, *shape: Index) -> tuple[Reindexing, tuple[LoopMark, ...]]:
    """Return the layout of a tensor of this shape and the axis of each place: those of `Shards`, or of an Axe layout.

    The axes x, y and z of an Axe layout are those of a mesh. Each has one digit; they become the leading places.

    Raises `NoLayout`, `InvalidArgument`.

    >>> import atl
    >>> from layouts.axe import S, axis
    >>> P, nb, k = atl.sizes("P nb k", min=1)
    >>> made, axes = sharding_of(S[(P, nb, k):(1 @ axis("x"), k, 1)], (P * nb).node, k.node)
    >>> made.places, [axis.value for axis in axes]
    ((P, nb, k), ['device.x', '', ''])
    """
    if isinstance(layout, Shards):
        return layout.sharded(*shape)
    if not isinstance(layout, Axe):
        raise InvalidArgument(
            f"{brief(layout)} is not a sharding",
            required="atl.shards(x=(0, P, nb)), or an Axe layout with axes x, y or z",
        )
    made = layout.stored(shape)
    moving = [each for each in layout.sharded if each.extent != 1]
    if len(moving) != len(made.places):
        raise NoLayout(f"{layout} leaves gaps between locations", required="strides without gaps along each axis")
    # Places are grouped by axis, in the order of the layout's axes.
    names = [at.name for at in layout.axes for each in moving if each.axis == at]
    axes = [AXES.get(name, LoopMark.NONE) for name in names]
    for name, mark in AXES.items():
        if axes.count(mark) > 1:
            raise NoLayout(f"the axis {name} has several digits in {layout}", required="one digit for each device axis")
    if not any(axis in DEVICES for axis in axes):
        raise NoLayout(f"{layout} has no device axis", required='an axis called x, y or z: 1 @ axis("x")')
    order = sorted(range(len(axes)), key=lambda at: DEVICES.index(axes[at]) if axes[at] in DEVICES else len(DEVICES))

    def to(*at: Any) -> tuple[Any, ...]:
        place = made.to(*at)
        return tuple(place[position] for position in order)

    def inverse(*at: Any) -> tuple[Any, ...]:
        assert made.inverse is not None
        back: list[Any] = [None] * len(at)
        for position, digit in zip(order, at, strict=True):
            back[position] = digit
        return tuple(made.inverse(*back))

    places = tuple(made.places[position] for position in order)
    return Reindexing(made.shape, places, to, inverse), tuple(axes[position] for position in order)
