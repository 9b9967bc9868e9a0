"""Layouts: a shape and strides (§6.2), and their values at coordinates (§6.3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, Final

import numpy as np

from atl.core.index import Index, map_leaves
from atl.errors import InvalidArgument, brief
from atl.surface.reindexing import Reindexing
from layouts.errors import CannotTabulate, LayoutError, NoLayout, NoMode
from layouts.foundation import tuples
from layouts.foundation.box import Box, nested_digits, split
from layouts.foundation.facts import EMPTY, Known, number_for, positive
from layouts.foundation.function import Function, fits_machine, plain_coordinate
from layouts.foundation.semimodule import (
    BITS,
    F2,
    MACHINE,
    Array,
    Coordinate,
    Semimodule,
    Stride,
    Vectorised,
    semimodule_of,
    stride_of,
)
from layouts.foundation.storing import stored_by_strides

Mode = tuple[tuples.Extent, Stride]
"""An extent and its stride: x ↦ x · stride for 0 ≤ x < extent."""


READ: Final = 'use layouts.read_layout("(4,8):(8,1)") to parse a printed layout'
"""Suggestion for a layout given as a string."""


class Layout(Function):
    """A shape with a stride for each extent: the value at digits is their inner product with the strides.

    Extents and strides are integers or index expressions. Strides may also be multiples of `E(k)`, whose values are
    coordinates, `F2(s)`, which add by exclusive or, or strides of a user's `Semimodule`. Without strides the layout is
    compact, first mode fastest. Indices are colexicographic; an index beyond the domain continues in the last mode.
    Extents must be at least 1 (assumed for symbolic ones). `given=` states more facts about sizes.

    Raises `LayoutError` if the shape is invalid or the strides are nested differently.

    >>> import atl
    >>> L = Layout((4, 8), (8, 1))
    >>> L, L(2, 3), L(14), L(None, 3)
    ((4,8):(8,1), 19, 19, 4:8+3)
    >>> n = atl.sizes("n")
    >>> i = atl.sizes("i")
    >>> tall = Layout((4, n))
    >>> tall, tall(3, i)
    ((4,n):(1,4), 4*i + 3)
    """

    __slots__ = ("_semimodule", "known", "modes", "offset", "shape", "stride")

    is_layout: ClassVar[bool] = True
    modes: tuple[Mode, ...]
    stride: tuples.Nested[Stride]
    offset: Stride
    _semimodule: Semimodule[Any] | None

    def __init__(
        self, shape: object, stride: object = None, *, offset: object = 0, given: Iterable[object] = ()
    ) -> None:
        if isinstance(shape, str):
            raise InvalidArgument(
                f"{brief(shape)} is a string", required="a shape: extents, nested or not", suggestions=(READ,)
            )
        self.shape = tuples.as_nested(shape, _positive_extent)
        if stride is None:
            self.stride = compact(self.shape)
        else:
            self.stride = tuples.as_nested(stride, stride_of)
            tuples.need_congruent(self.shape, self.stride, "a shape and its strides")
        self.modes = tuple(zip(tuples.leaves(self.shape), tuples.leaves(self.stride), strict=True))
        self.offset = stride_of(offset)
        self.known = positive(extent for extent, _ in self.modes).given(given)
        self._semimodule = semimodule_of((self.offset, *(stride for _, stride in self.modes)))
        if not self.is_vectorised and not all(isinstance(extent, int) for extent, _ in self.modes):
            raise LayoutError(
                f"{tuples.shown(self.shape)} with strides of a user's semimodule", required="extents that are numbers"
            )

    @staticmethod
    def made(
        shape: tuples.Shape,
        stride: tuples.Nested[Stride],
        modes: tuple[Mode, ...],
        *,
        offset: Stride = 0,
        known: Known = EMPTY,
    ) -> Layout:
        """Make a layout of parts that are already known to fit."""
        made = object.__new__(Layout)
        made.shape = shape
        made.stride = stride
        made.modes = modes
        made.offset = offset
        made.known = known
        made._semimodule = None
        return made

    @staticmethod
    def of_modes(modes: Sequence[Mode], *, offset: Stride = 0, known: Known = EMPTY) -> Layout:
        """Return the flat layout of these modes: a leaf for one mode, 1:0 for none."""
        if len(modes) == 1:
            return Layout.made(modes[0][0], modes[0][1], (modes[0],), offset=offset, known=known)
        if not modes:
            return Layout.made(1, 0, ((1, 0),), offset=offset, known=known)
        shape, stride = zip(*modes, strict=True)
        return Layout.made(shape, stride, tuple(modes), offset=offset, known=known)

    @property
    def semimodule(self) -> Semimodule[Any]:
        """The semimodule of the strides."""
        if self._semimodule is None:
            self._semimodule = semimodule_of((self.offset, *(stride for _, stride in self.modes)))
        return self._semimodule

    @property
    def is_vectorised(self) -> bool:
        """True unless the strides are of a user's semimodule, whose operations are on single values."""
        return isinstance(self.semimodule, Vectorised)

    # -- parts --------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(tuples.modes_of(self.shape))

    def __getitem__(self, mode: int) -> Layout:
        """Return a top-level mode, as a layout with offset zero."""
        shapes, strides = tuples.modes_of(self.shape), tuples.modes_of(self.stride)
        if type(mode) is not int or not -len(shapes) <= mode < len(shapes):
            raise NoMode(f"{self} has no mode {brief(mode)}", required=f"a mode number from 0 to {len(shapes) - 1}")
        return part_of(shapes[mode], strides[mode], self.known)

    def __iter__(self) -> Iterator[Layout]:
        return (self[mode] for mode in range(len(self)))

    @property
    def is_constant(self) -> bool:
        """True if all extents and strides are numbers."""
        return all(type(n) is int and not _symbolic(d) for n, d in self.modes) and not _symbolic(self.offset)

    @property
    def is_numeric(self) -> bool:
        return not _symbolic(self.offset) and not any(_symbolic(stride) for _, stride in self.modes)

    @property
    def reason(self) -> str:
        """Always empty; a `Chain` gives the reason why it is not a layout."""
        return ""

    # -- meaning ------------------------------------------------------------------------------------------------------

    def at(self, digits: Sequence[Any]) -> Any:
        if any(isinstance(digit, np.ndarray) for digit in digits):
            return self._at_arrays(digits)
        total: Any = self.offset
        for digit, (_, stride) in zip(digits, self.modes, strict=True):
            total = total + digit * stride
        return total

    def _at_arrays(self, digits: Sequence[Any]) -> Array:
        module, width = self.semimodule, self.width
        if not isinstance(module, Vectorised):
            each: Array = np.frompyfunc(lambda *at: self.at(at), len(digits), 1)(*digits)
            return each
        together = np.broadcast_arrays(*(np.asarray(digit) for digit in digits))
        total = module.multiples(np.ones_like(together[0]), _element(module, self.offset), width)
        for digit, (_, stride) in zip(together, self.modes, strict=True):
            total = module.sums(total, module.multiples(digit, _element(module, stride), width))
        return total

    def __call__(self, *coordinate: Any) -> Any:
        """Return the value at an index or a coordinate. With None for a part, the layout over that part (a slice)."""
        given = coordinate[0] if len(coordinate) == 1 else coordinate
        if type(given) is int:
            digits = split(given, [extent for extent, _ in self.modes])
            return self.at(digits)
        if _has_none(given):
            return self._sliced(given)
        return super().__call__(given)

    @property
    def width(self) -> int:
        """The number of components of a value that is a coordinate."""
        strides = (self.offset, *(stride for _, stride in self.modes))
        return max((len(stride.parts) for stride in strides if isinstance(stride, Coordinate)), default=1)

    def table(self) -> Array:
        """Return the value at each index of the domain, in order. Values that are coordinates are rows."""
        if self.table_size is None or not self.is_constant:
            return super().table() if self.table_size is None else self._no_table()
        module, width = self.semimodule, self.width
        if not isinstance(module, Vectorised):
            return super().table()
        exact = module is BITS or fits_machine(
            [n * m for n, d in self.modes if isinstance(n, int) for m in _magnitudes(d)]
        )
        kind: Any = np.int64 if exact and all(m < MACHINE for m in _magnitudes(self.offset)) else object
        values = module.multiples(np.ones(1, dtype=kind), _element(module, self.offset), width)
        for extent, stride in self.modes:
            if extent != 1 and isinstance(extent, int):
                steps = module.multiples(np.arange(extent).astype(kind), _element(module, stride), width)
                values = module.sums(values[None], steps[:, None]).reshape((-1, *values.shape[1:]))
        return values

    def _no_table(self) -> Array:
        raise CannotTabulate(f"the strides of {self} are not numbers", required="numbers for all sizes")

    def stored(self, shape: tuple[Index, ...], *, copies: bool = False) -> Reindexing:
        """Return the reindexing that stores a tensor of this shape; the digits of a location are ordered by stride.

        >>> from atl.core.index import size
        >>> n, m = size("n"), size("m")
        >>> stored = Layout((n, m), (1, n)).stored((n, m))
        >>> stored.places, stored.place((size("i"), size("j")))
        ((m, n), (j, i))
        """
        if not self.is_vectorised:
            raise NoLayout(f"{self} stores nothing: its values are not integers", required="integer strides")
        by_bits = self._stored_by_bits(shape, copies=copies) if self.semimodule is BITS else None
        return by_bits or stored_by_strides(
            shape, self.shape, list(tuples.leaves(self.stride)), self.offset, self.known, copies=copies
        )

    def where(self, **sizes: int) -> Layout:
        """Return this layout with numbers for sizes. Raises `LayoutError` for numbers that contradict known facts.

        >>> import atl
        >>> Layout((4, atl.sizes("n"))).where(n=3)
        (4,3):(1,4)
        """

        def placed(value: Stride) -> Any:
            if isinstance(value, Index):
                return tuples.extent_of(map_leaves(value, partial(number_for, sizes)))
            if isinstance(value, Coordinate):
                return Coordinate(tuple(placed(part) for part in value))
            return value

        made = Layout(tuples.mapped(placed, self.shape), tuples.mapped(placed, self.stride), offset=placed(self.offset))
        made.known = made.known.joined(self.known.where(sizes))
        return made

    def with_facts(self, known: Known) -> Layout:
        """Return this layout with additional facts about its sizes."""
        joined = self.known.joined(known)
        if joined is self.known:
            return self
        return Layout.made(self.shape, self.stride, self.modes, offset=self.offset, known=joined)

    def _sliced(self, coordinate: object) -> Layout:
        """Return the layout over the parts that are None; fixed parts go into the offset."""
        kept_shape: list[tuples.Shape] = []
        kept_stride: list[tuples.Nested[Stride]] = []
        offset: Any = self.offset

        def walk(shape: tuples.Shape, stride: tuples.Nested[Stride], at: object, top: bool) -> tuple[Any, Any] | None:
            nonlocal offset
            if at is None or (isinstance(at, slice) and at == slice(None)):
                return shape, stride
            if not _has_none(at):
                digits = Box(shape).coordinate_digits(plain_coordinate(at))
                for digit, unit in zip(digits, tuples.leaves(stride), strict=True):
                    offset = offset + digit * unit
                return None
            if not isinstance(shape, tuple) or not isinstance(at, tuple | list) or len(at) != len(shape):
                raise LayoutError(
                    f"{at} does not slice {tuples.shown(shape)}", required="a coordinate, or None, for each mode"
                )
            parts = [
                found
                for s, d, a in zip(shape, tuples.modes_of(stride), at, strict=True)
                if (found := walk(s, d, a, False))
            ]
            if top:
                kept_shape.extend(part for part, _ in parts)
                kept_stride.extend(part for _, part in parts)
                return None
            if len(parts) == 1:
                return parts[0]
            return tuple(part for part, _ in parts), tuple(part for _, part in parts)

        whole = walk(self.shape, self.stride, coordinate, True)
        if whole is not None:
            kept_shape.append(whole[0])
            kept_stride.append(whole[1])
        shape = kept_shape[0] if len(kept_shape) == 1 else tuple(kept_shape)
        strides = kept_stride[0] if len(kept_stride) == 1 else tuple(kept_stride)
        made = part_of(shape, strides, self.known)
        made.offset = offset
        return made

    # -- as an object -------------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        """Return whether shape, strides and offset are the same. Use `equal` to compare functions."""
        if not isinstance(other, Layout):
            return NotImplemented
        return self.shape == other.shape and self.stride == other.stride and self.offset == other.offset

    def __hash__(self) -> int:
        return hash((self.shape, self.stride, self.offset))

    def __repr__(self) -> str:
        offset = "" if self.offset == 0 else f"+{self.offset}"
        return f"{tuples.shown(self.shape)}:{tuples.shown(self.stride)}{offset}"

    def coordinate(self, at: int) -> Any:
        """Return the coordinate of an index, for reading witnesses.

        >>> Layout((4, (2, 3))).coordinate(13)
        (1, (1, 1))
        """
        return nested_digits(self.shape, iter(self.box.digits(plain_coordinate(at))))


def part_of(shape: tuples.Shape, stride: tuples.Nested[Stride], known: Known) -> Layout:
    """Return the layout of a part of another layout's shape and strides."""
    return Layout.made(shape, stride, tuple(zip(tuples.leaves(shape), tuples.leaves(stride), strict=True)), known=known)


def compact(shape: tuples.Shape) -> tuples.Nested[Stride]:
    """Return the compact strides of a shape, the first mode fastest."""
    steps: list[Stride] = []
    step: tuples.Extent = 1
    for extent in tuples.leaves(shape):
        steps.append(step)
        step = step * extent
    return tuples.like(shape, iter(steps))


def column_major(shape: object, *, given: Iterable[object] = ()) -> Layout:
    """Return the compact layout whose first mode moves fastest (CuTe's LayoutLeft)."""
    return Layout(shape, given=given)


def row_major(shape: object, *, given: Iterable[object] = ()) -> Layout:
    """Return the compact layout whose last mode moves fastest (CuTe's LayoutRight); the order of ATL and NumPy.

    >>> row_major((4, (2, 3)))
    (4,(2,3)):(6,(3,1))
    """
    nested = tuples.as_nested(shape, _positive_extent)
    steps: list[Stride] = []
    step: tuples.Extent = 1
    for extent in reversed(list(tuples.leaves(nested))):
        steps.append(step)
        step = step * extent
    return Layout(nested, tuples.like(nested, reversed(steps)), given=given)


def make_layout(*parts: Layout) -> Layout:
    """Return the layout with these modes (§6.4.1); its value is the sum of theirs.

    >>> make_layout(Layout(4, 1), Layout((2, 3), (12, 4)))
    (4,(2,3)):(1,(12,4))
    """
    known = EMPTY
    offset: Any = 0
    for part in parts:
        if not isinstance(part, Layout):
            raise InvalidArgument(f"{brief(part)} is not a layout", required="layouts, one for each mode")
        known = known.joined(part.known)
        offset = offset + part.offset
    modes = tuple(mode for part in parts for mode in part.modes)
    made = Layout.made(
        tuple(part.shape for part in parts), tuple(part.stride for part in parts), modes, offset=offset, known=known
    )
    _ = made.semimodule
    return made


def coordinates(shape: object) -> Layout:
    """Return the identity on coordinates: mode k has the stride `E(k)`. Its tiles are CuTe's predicate tensors.

    >>> coordinates((4, 8))(2, 5)
    (2,5)
    """
    nested = tuples.as_nested(shape, _positive_extent)
    axes = iter(Coordinate((0,) * axis + (1,)) for axis in range(sum(1 for _ in tuples.leaves(nested))))
    return Layout(nested, tuples.like(nested, axes))


def _element(module: Vectorised[Any], stride: Stride) -> Any:
    """Return the stride as an element of the semimodule; the integer 0 becomes the semimodule's zero."""
    return module.zero if isinstance(stride, int) and stride == 0 else stride


def _positive_extent(value: object) -> tuples.Extent:
    extent = tuples.extent_of(value)
    if isinstance(extent, int) and extent < 1:
        raise LayoutError(f"an extent of {extent} in a shape", required="extents of at least 1")
    return extent


def _has_none(coordinate: object) -> bool:
    if isinstance(coordinate, tuple | list):
        return any(map(_has_none, coordinate))
    return coordinate is None or isinstance(coordinate, slice)


def _symbolic(stride: Stride) -> bool:
    if isinstance(stride, Coordinate):
        return any(isinstance(part, Index) for part in stride)
    return isinstance(stride, Index)


def _magnitudes(stride: Stride) -> list[int]:
    if isinstance(stride, Coordinate):
        return [abs(part) for part in stride if isinstance(part, int)]
    if isinstance(stride, F2):
        return [stride.bits]
    return [abs(stride)] if isinstance(stride, int) else []
