"""Linear layouts: maps from named digits to named coordinates, all of power-of-two size, given by a matrix over F2.

A layout is given by its bases: the image of each bit of each digit, lowest first. The image of any other digit is the
exclusive or of the images of its bits. Internally the coordinates of a location are concatenated, the first lowest, so
a column of the matrix is an integer. The operations have the same names as in Triton.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np

from atl.core.index import Index
from atl.errors import InvalidArgument, brief
from atl.surface.reindexing import Reindexing
from layouts.errors import LayoutError, NoLayout
from layouts.foundation.facts import EMPTY
from layouts.foundation.function import Function
from layouts.foundation.layout import Layout
from layouts.foundation.semimodule import F2
from layouts.foundation.storing import stored_by_bits
from layouts.foundation.tuples import Extent
from layouts.linear import bits
from layouts.linear.names import Dims, divided, joined, need_all, need_names, power, same_names, split_of

Bases = Mapping[str, tuple[int, ...]]
"""The columns of each digit, lowest bit first."""
MOST_BITS: Final = 62


class LinearLayout(Function):
    """A matrix over F2 from the bits of named digits to those of named coordinates.

    Make one by `from_bases`, or from simple ones by `*`. As a function of its digits, in order, its value is the
    location as one integer, with the coordinates concatenated, the first lowest; `apply` takes and returns names.

    >>> from layouts import LinearLayout
    >>> bases = [("reg", [[0, 1]]), ("lane", [[1, 0], [2, 0], [0, 2]])]
    >>> tile = LinearLayout.from_bases(bases, [("row", 4), ("col", 4)])
    >>> tile.apply(reg=1, lane=5), tile.rank, tile.is_injective, tile.is_surjective
    ({'row': 1, 'col': 3}, 4, True, True)
    >>> tile.invert().apply(row=1, col=3)
    {'reg': 1, 'lane': 5}
    """

    __slots__ = ("_columns", "_ins", "_outs", "known", "shape")

    def __init__(self, columns: Mapping[str, Sequence[int]], outs: Mapping[str, int]) -> None:
        if not isinstance(columns, Mapping) or not isinstance(outs, Mapping):
            raise InvalidArgument(f"columns={brief(columns)}, outs={brief(outs)}", required="dictionaries by names")
        need_names((*columns, *outs))
        self._ins = {name: tuple(each) for name, each in columns.items()}
        self._outs = Dims(outs)
        self._columns = tuple(column for each in self._ins.values() for column in each)
        if len(self._columns) > MOST_BITS or self._outs.bits > MOST_BITS:
            raise LayoutError("a linear layout with more bits than a machine integer", required=f"up to {MOST_BITS}")
        extents: tuple[Extent, ...] = tuple(1 << len(each) for each in self._ins.values())
        self.shape = extents[0] if len(extents) == 1 else extents or 1
        self.known = EMPTY

    # -- construction -------------------------------------------------------------------------------------------------

    @staticmethod
    def from_bases(
        bases: Iterable[tuple[str, Iterable[object]]], out_dims: Iterable[str | tuple[str, int]]
    ) -> LinearLayout:
        """Return the layout with these bases: pairs of a name and, for each bit, lowest first, the image of that bit.

        An image has a coordinate for each of `out_dims`, pairs of a name and a size. A size that is left out is the
        smallest that holds the bases. Raises `LayoutError` if a basis does not fit or a size is not a power of two.

        >>> LinearLayout.from_bases([("lane", [1, 2, 4])], ["i"]).out_dims
        {'i': 8}
        """
        given = {name: [_basis(each) for each in each_of] for name, each_of in _pairs(bases, "bases")}
        outs = _out_dims(list(out_dims), given)
        columns = {name: [outs.join(_fitting(name, each, outs)) for each in all_] for name, all_ in given.items()}
        return LinearLayout(columns, outs.sizes)

    @staticmethod
    def identity_1d(size: int, in_dim: str, out_dim: str) -> LinearLayout:
        """Return the identity on `size` values.

        >>> LinearLayout.identity_1d(8, "lane", "i").bases
        {'lane': [[1], [2], [4]]}
        """
        return LinearLayout.strided_1d(size, 1, in_dim, out_dim)

    @staticmethod
    def strided_1d(size: int, stride: int, in_dim: str, out_dim: str) -> LinearLayout:
        """Return the map x ↦ stride * x; the stride is a power of two."""
        count, step = power(size, f"the size of {in_dim!r}"), power(stride, "a stride")
        return LinearLayout({in_dim: [1 << (bit + step) for bit in range(count)]}, {out_dim: size * stride})

    @staticmethod
    def zeros_1d(size: int, in_dim: str, out_dim: str, out_size: int = 1) -> LinearLayout:
        """Return the zero map: the digit is broadcast."""
        power(out_size, f"the size of {out_dim!r}")
        return LinearLayout({in_dim: [0] * power(size, f"the size of {in_dim!r}")}, {out_dim: out_size})

    @staticmethod
    def empty() -> LinearLayout:
        """Return the layout without dimensions: the neutral element of `*`."""
        return LinearLayout({}, {})

    # -- parts --------------------------------------------------------------------------------------------------------

    @property
    def bases(self) -> dict[str, list[list[int]]]:
        """The image of each bit of each digit, by name, lowest bit first."""
        return {name: [list(self._outs.split(column)) for column in each] for name, each in self._ins.items()}

    @property
    def in_dims(self) -> dict[str, int]:
        """The size of each digit, by name."""
        return {name: 1 << len(each) for name, each in self._ins.items()}

    @property
    def out_dims(self) -> dict[str, int]:
        """The size of each coordinate, by name."""
        return dict(self._outs.sizes)

    @property
    def columns(self) -> tuple[int, ...]:
        """The matrix: the image of each bit of the digits, in order."""
        return self._columns

    def stored(self, shape: tuple[Index, ...], *, copies: bool = False) -> Reindexing:
        """Return the reindexing of a tensor whose indices are the digits in order; used by `s.store` and `s.view`.

        The location is the integer value of the layout: the last of `out_dims` is the outermost coordinate.

        >>> from atl.core.index import constant, size
        >>> swizzled = LinearLayout.from_bases([("i", [5, 10]), ("j", [1, 2])], ["bank"])
        >>> stored = swizzled.stored((constant(4), constant(4)))
        >>> stored.places, stored.place((size("i"), size("j")))
        ((4, 4), (i, xor(i, j)))
        """
        widths = list(self._outs.widths.values())[::-1]
        return stored_by_bits(shape, list(self._ins.values()), widths, repr(self), copies=copies)

    @property
    def rank(self) -> int:
        """The rank of the matrix: the number of bits of the digits that matter."""
        return bits.rank(self._columns)

    @property
    def is_injective(self) -> bool:
        """True if different digits have different locations."""
        return self.rank == len(self._columns)

    @property
    def is_surjective(self) -> bool:
        """True if every location is reached."""
        return self.rank == self._outs.bits

    @property
    def is_invertible(self) -> bool:
        """True if every location is reached exactly once."""
        return self.is_injective and self.is_surjective

    def strides(self) -> Layout:
        """Return the same function by strides over F2, on a shape of twos (§6.6).

        >>> LinearLayout.from_bases([("a", [1, 3]), ("b", [4])], ["i"]).strides()
        ((2,2),2):((F2(1),F2(3)),F2(4))
        """
        shape = [(2,) * len(each) if len(each) > 1 else 1 << len(each) for each in self._ins.values()]
        stride = [tuple(map(F2, each)) if len(each) > 1 else F2(each[0]) if each else 0 for each in self._ins.values()]
        if len(shape) == 1:
            return Layout(shape[0], stride[0])
        return Layout(tuple(shape), tuple(stride)) if shape else Layout(1, 0)

    # -- meaning ------------------------------------------------------------------------------------------------------

    def apply(self, by_name: Mapping[str, Any] | None = None, /, **named: Any) -> dict[str, Any]:
        """Return the coordinates at these digits, by name; digits are integers or arrays, one for each name.

        >>> held = LinearLayout.from_bases([("reg", [[0, 1]]), ("lane", [[1, 0], [0, 2]])], ["row", "col"])
        >>> held.apply(reg=1, lane=2)
        {'row': 0, 'col': 3}
        """
        digits = {**(by_name or {}), **named}
        same_names("the digits given", digits, self._ins)
        for name, value in digits.items():
            size = self.in_dims[name]
            if not isinstance(value, np.ndarray) and (type(value) is not int or not 0 <= value < size):
                raise LayoutError(f"{name} = {brief(value)}", required=f"an integer from 0 to {size - 1}")
        location = self.at([digits[name] for name in self._ins])
        return self._outs.named(location)

    def at(self, digits: Sequence[Any]) -> Any:
        total: Any = 0
        for digit, columns in zip(digits, self._ins.values(), strict=False):
            for bit, column in enumerate(columns):
                one = digit // (1 << bit) % 2 if isinstance(digit, Index) else (digit >> bit) & 1
                total = total ^ one * column
        return total

    def where(self, **sizes: int) -> LinearLayout:  # noqa: ARG002 (it has no symbolic sizes)
        return self

    # -- products and compositions ------------------------------------------------------------------------------------

    def __mul__(self, outer: LinearLayout) -> LinearLayout:
        """Return the product: both layouts side by side. In a shared dimension the bits of this one are the lower ones.

        Names are in an order that keeps both orders if there is one; otherwise in the order of this layout.

        >>> four = LinearLayout.identity_1d(4, "lane", "i")
        >>> (four * four).bases, (four * LinearLayout.identity_1d(2, "lane", "j")).bases
        ({'lane': [[1], [2], [4], [8]]}, {'lane': [[1, 0], [2, 0], [0, 1]]})
        """
        if not isinstance(outer, LinearLayout):
            return NotImplemented
        outs = Dims(joined(self._outs.sizes, outer._outs.sizes))
        columns = {
            name: [
                *(outs.renamed(self._outs, column) for column in self._of_or(name)),
                *(outs.shifted(outer._outs, column, self._outs.sizes) for column in outer._of_or(name)),
            ]
            for name in joined(self.in_dims, outer.in_dims)
        }
        return LinearLayout(columns, outs.sizes)

    def compose(self, outer: LinearLayout) -> LinearLayout:
        """Return the composition outer ∘ this: the locations of this layout are the digits of `outer`.

        Raises `LayoutError` if the names differ, or a coordinate of this layout is larger than the digit of `outer`.
        """
        need_linear(outer)
        same_names("the digits of the outer layout", outer._ins, self._outs.sizes)
        for name, size in self._outs.sizes.items():
            if size > outer.in_dims[name]:
                raise LayoutError(
                    f"{name!r} has size {size}, but {outer.in_dims[name]} in the outer layout",
                    required="an outer size at least as large",
                )

        def after(column: int) -> int:
            parts = self._outs.named(column)
            return int(outer.at([parts[name] for name in outer._ins]))

        return LinearLayout({name: map_of(after, each) for name, each in self._ins.items()}, outer._outs.sizes)

    def invert(self) -> LinearLayout:
        """Return the inverse, from locations to digits. Raises `NoLayout` if the layout is not a bijection."""
        if dependence := bits.dependence(self._columns):
            raise NoLayout(
                f"the digits {self._named(dependence)} and 0 have the same location", required="an injective layout"
            )
        return self.pseudoinvert()

    def pseudoinvert(self) -> LinearLayout:
        """Return a right inverse, with free bits 0. Raises `NoLayout` if the layout is not surjective."""
        identity = LinearLayout.empty()
        for name, size in self._outs.sizes.items():
            identity = identity * LinearLayout.identity_1d(size, name, name)
        return identity.invert_and_compose(self)

    def invert_and_compose(self, outer: LinearLayout) -> LinearLayout:
        """Return an X with outer ∘ X = this: it maps digits of this layout to digits of `outer` with the same location.

        If there are several, the free bits of `outer` are 0, except that a digit of both layouts that affects neither
        is kept. Raises `NoLayout` with digits of this layout whose location `outer` does not reach.

        >>> one = LinearLayout.from_bases([("lane", [2, 1, 4])], ["i"])
        >>> one.invert_and_compose(LinearLayout.from_bases([("at", [4, 1, 2])], ["i"])).bases
        {'lane': [[4], [2], [1]]}
        """
        need_linear(outer)
        same_names("the coordinates of the two layouts", outer._outs.sizes, self._outs.sizes)
        basis = bits.basis_of(outer._columns)
        into = Dims({name: 1 << len(each) for name, each in outer._ins.items()})
        kept = {name for name, each in self._ins.items() if each == outer._ins.get(name) and not any(each)}
        columns: dict[str, list[int]] = {}
        for name, each in self._ins.items():
            columns[name] = []
            for bit, column in enumerate(each):
                parts = self._outs.named(column)
                inside = all(part < outer._outs.sizes[out] for out, part in parts.items())
                found = basis.solve(outer._outs.of(parts)) if inside else None
                if found is None:
                    raise NoLayout(
                        f"{name} = {1 << bit} goes to {parts}, which the other layout does not reach",
                        required="locations that the other layout reaches",
                    )
                columns[name].append(into.of({name: 1 << bit}) if name in kept else found)
        return LinearLayout(columns, into.sizes)

    # -- changes of dimensions ----------------------------------------------------------------------------------------

    def reshape_ins(self, dims: Iterable[tuple[str, int]]) -> LinearLayout:
        """Return the same bits, distributed over other digits; the first takes the lowest bits."""
        new = Dims.of_pairs(dims)
        need_all("digits", len(self._columns), new)
        columns = iter(self._columns)
        return LinearLayout({name: [next(columns) for _ in range(n)] for name, n in new.widths.items()}, self.out_dims)

    def reshape_outs(self, dims: Iterable[tuple[str, int]]) -> LinearLayout:
        """Return the same locations, distributed over other coordinates; the first takes the lowest bits."""
        new = Dims.of_pairs(dims)
        need_all("coordinates", self._outs.bits, new)
        return LinearLayout(self._ins, new.sizes)

    def flatten_ins(self) -> LinearLayout:
        """Return all digits as a single digit, with the name of the first."""
        first = next(iter(self._ins), None)
        return self if first is None else self.reshape_ins([(first, 1 << len(self._columns))])

    def flatten_outs(self) -> LinearLayout:
        """Return all coordinates as a single coordinate, with the name of the first."""
        first = next(iter(self._outs.sizes), None)
        return self if first is None else self.reshape_outs([(first, 1 << self._outs.bits)])

    def transpose_ins(self, names: Sequence[str]) -> LinearLayout:
        """Return the digits in another order."""
        same_names("the order of digits", names, self._ins)
        return LinearLayout({name: self._ins[name] for name in names}, self.out_dims)

    def transpose_outs(self, names: Sequence[str]) -> LinearLayout:
        """Return the coordinates in another order."""
        same_names("the order of coordinates", names, self._outs.sizes)
        return self.sublayout(list(self._ins), names)

    def sublayout(self, ins: Sequence[str], outs: Sequence[str]) -> LinearLayout:
        """Return the restriction to some digits and some coordinates."""
        kept = Dims({name: self._outs.size(name) for name in outs})
        columns = {
            name: [kept.renamed(self._outs, column) for column in self._of(name)] for name in self._in_order(ins)
        }
        return LinearLayout(columns, kept.sizes)

    def sublayout_is_zero(self, ins: Sequence[str], outs: Sequence[str]) -> bool:
        """Return whether these digits do not affect these coordinates."""
        return not any(self.sublayout(ins, outs).columns)

    def quotient(self, names: Iterable[str]) -> LinearLayout:
        """Return the layout without dimensions that it maps identically to coordinates of the same name.

        Raises `NoLayout` if a dimension is not such, or interacts with others.

        >>> (LinearLayout.identity_1d(4, "block", "block") * LinearLayout.zeros_1d(2, "lane", "i")).quotient(["block"])
        lane: 0 in i: 1
        """
        names = list(names)
        for name in names:
            self._need_identity(name)
        ins = [name for name in self._ins if name not in names]
        return self.sublayout(ins, [name for name in self._outs.sizes if name not in names])

    def _need_identity(self, name: str) -> None:
        if name not in self._ins or name not in self._outs.sizes:
            raise NoLayout(f"{name!r} is not both a digit and a coordinate of {self}", required="a name of both")
        units = [self._outs.of({name: 1 << bit}) for bit in range(self._outs.widths[name])]
        if list(self._ins[name]) != units:
            raise NoLayout(f"{name!r} goes to {self.bases[name]}", required="a digit that is mapped identically")
        others = [other for other in self._ins if other != name]
        if not self.sublayout_is_zero(others, [name]):
            raise NoLayout(
                f"other digits affect {name!r}", required="a coordinate that only the digit of its name affects"
            )

    def divide_left(self, inner: LinearLayout) -> LinearLayout:
        """Return the C with inner * C = this. Raises `NoLayout` if there is none.

        >>> identity = LinearLayout.identity_1d
        >>> identity(8, "lane", "i").divide_left(identity(4, "lane", "i")).bases
        {'lane': [[1]]}
        """
        need_linear(inner)
        low = {name: each[: len(inner._of_or(name))] for name, each in self._ins.items()}
        high = {name: each[len(inner._of_or(name)) :] for name, each in self._ins.items()}
        rest = LinearLayout(self._divided(high, inner._outs.sizes), divided(self._outs.sizes, inner._outs.sizes))
        self._need_product(inner, rest, inner, low)
        return rest

    def divide_right(self, outer: LinearLayout) -> LinearLayout:
        """Return the C with C * outer = this. Raises `NoLayout` if there is none."""
        need_linear(outer)
        outs = Dims(divided(self._outs.sizes, outer._outs.sizes))
        low = {
            name: [outs.renamed(self._outs, column) for column in each[: max(len(each) - len(outer._of_or(name)), 0)]]
            for name, each in self._ins.items()
        }
        rest = LinearLayout(low, outs.sizes)
        self._need_product(rest, outer, outer, self._ins)
        return rest

    def _divided(self, columns: Bases, by: Mapping[str, int]) -> dict[str, list[int]]:
        outs = Dims(divided(self._outs.sizes, by))
        return {name: [outs.lowered(self._outs, column, by) for column in each] for name, each in columns.items()}

    def _need_product(self, low: LinearLayout, high: LinearLayout, factor: LinearLayout, held: Bases) -> None:
        product = low * high
        if set(factor._ins) - set(held) or product.transposed_like(self) != self:
            raise NoLayout(
                f"{factor} is not a factor of {self}", required="a layout of the lowest, or the highest, bits"
            )

    def transposed_like(self, other: LinearLayout) -> LinearLayout:
        """Return the same layout with its dimensions in the order of `other`, if they are the same."""
        if set(self._ins) != set(other._ins) or set(self._outs.sizes) != set(other._outs.sizes):
            return self
        return self.transpose_ins(list(other._ins)).transpose_outs(list(other._outs.sizes))

    # -- properties ---------------------------------------------------------------------------------------------------

    def free_variable_masks(self) -> dict[str, int]:
        """Return a mask, for each digit, of the bits that may be fixed without losing a location."""
        free = bits.basis_of(self._columns).free
        return self._named(free)

    def num_consecutive_in_out(self) -> int:
        """Return the largest n such that n consecutive digits, aligned to n, have consecutive locations.

        >>> LinearLayout.from_bases([("reg", [1, 2, 4, 10])], ["i"]).num_consecutive_in_out()
        2
        """
        first = next(iter(self._ins.values()), ())
        run = 0
        while run < len(first) and first[run] == 1 << run:
            run += 1
        rest = 0
        for column in self._columns[run:]:
            rest |= column
        return min(1 << run, rest & -rest) if rest else 1 << run

    def equal_ignoring_out_dim_sizes(self, other: LinearLayout) -> bool:
        """Return whether names and bases are the same; sizes of coordinates may differ."""
        return self.bases == other.bases and list(self._outs.sizes) == list(other._outs.sizes)

    def _of(self, name: str) -> tuple[int, ...]:
        if name not in self._ins:
            raise InvalidArgument(f"{self} has no digit {brief(name)}", required=f"one of {', '.join(self._ins)}")
        return self._ins[name]

    def _of_or(self, name: str) -> tuple[int, ...]:
        return self._ins.get(name, ())

    def _in_order(self, names: Sequence[str]) -> list[str]:
        for name in names:
            self._of(name)
        return list(names)

    def _named(self, vector: int) -> dict[str, int]:
        return dict(split_of(vector, {name: len(each) for name, each in self._ins.items()}))

    # -- as an object -------------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        """Return whether names (in order), sizes and bases are the same."""
        if not isinstance(other, LinearLayout):
            return NotImplemented
        return list(self._ins.items()) == list(other._ins.items()) and self._outs == other._outs

    def __hash__(self) -> int:
        return hash((tuple(self._ins.items()), self._outs))

    def __repr__(self) -> str:
        digits = "; ".join(f"{name}: {_shown(each)}" for name, each in self.bases.items())
        return f"{digits or 'nothing'} in {', '.join(f'{name}: {size}' for name, size in self._outs.sizes.items())}"


def need_linear(value: object) -> None:
    """Raise `InvalidArgument` if `value` is not a linear layout."""
    if not isinstance(value, LinearLayout):
        raise InvalidArgument(
            f"{brief(value)} is not a LinearLayout", required="a LinearLayout; as_linear converts other layouts"
        )


def map_of(function: Callable[[int], int], columns: Iterable[int]) -> list[int]:
    """Return the columns, each mapped by a linear function."""
    return [function(column) for column in columns]


def _shown(bases: Sequence[Sequence[int]]) -> str:
    texts = [str(each[0]) if len(each) == 1 else f"({','.join(map(str, each))})" for each in bases]
    return ",".join(texts) or "-"


def _pairs(given: Iterable[Any], what: str) -> list[tuple[str, list[Any]]]:
    out: list[tuple[str, list[Any]]] = []
    for pair in given.items() if isinstance(given, Mapping) else given:
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise InvalidArgument(f"{what}: {brief(pair)}", required='pairs of a name and its bases: ("lane", [1, 2])')
        if any(name == pair[0] for name, _ in out):
            raise InvalidArgument(f"{what}: {pair[0]!r} twice", required="a name for each")
        try:
            out.append((pair[0], list(pair[1])))
        except TypeError:
            raise InvalidArgument(f"{what}: {brief(pair[1])}", required="a list of bases") from None
    return out


def _basis(given: object) -> tuple[int, ...]:
    parts = tuple(given) if isinstance(given, tuple | list) else (given,)
    for part in parts:
        if type(part) is not int or part < 0:
            raise LayoutError(f"the basis {brief(given)}", required="a coordinate, or a tuple of them, all >= 0")
    return parts


def _fitting(name: str, basis: tuple[int, ...], outs: Dims) -> tuple[int, ...]:
    if len(basis) != len(outs.sizes):
        raise LayoutError(f"the basis {list(basis)} of {name!r}", required=f"{len(outs.sizes)} coordinates")
    for part, (out, size) in zip(basis, outs.sizes.items(), strict=True):
        if part >= size:
            raise LayoutError(f"the basis {list(basis)} of {name!r}", required=f"less than {size} in {out!r}")
    return basis


def _out_dims(given: list[str | tuple[str, int]], bases: Mapping[str, list[tuple[int, ...]]]) -> Dims:
    sizes: list[tuple[str, int]] = []
    for position, dim in enumerate(given):
        if isinstance(dim, str):
            most = max((each[position] for all_ in bases.values() for each in all_ if position < len(each)), default=0)
            sizes.append((dim, 1 << most.bit_length()))
        else:
            sizes.append(dim)
    return Dims.of_pairs(sizes)


# -- actions ----------------------------------------------------------------------------------------------------------


Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class ColumnAction:
    """A permutation of the bits of a digit: new bit k is old bit `order[k]`. Bits that are not listed are dropped.

    >>> ColumnAction((2, 0, 1), "reg", 3).of_values([1, 2, 3, 4, 5, 6, 7, 8])
    [1, 5, 2, 6, 3, 7, 4, 8]
    """

    order: tuple[int, ...]
    digit: str
    bits: int

    def __post_init__(self) -> None:
        if not isinstance(self.order, tuple | list) or type(self.bits) is not int or not isinstance(self.digit, str):
            raise InvalidArgument(
                f"ColumnAction({brief(self.order)}, {brief(self.digit)}, {brief(self.bits)})",
                required="an order of bits, the name of a digit, and its number of bits",
            )
        object.__setattr__(self, "order", tuple(self.order))
        if len(set(self.order)) < len(self.order) or not all(bit in range(self.bits) for bit in self.order):
            raise InvalidArgument(f"the order {brief(self.order)}", required=f"distinct bits from 0 to {self.bits - 1}")

    def apply(self, layout: LinearLayout) -> LinearLayout:
        """Return the layout with the bits of the digit permuted."""
        bases = layout.bases
        if len(bases.get(self.digit, ())) != self.bits:
            raise InvalidArgument(
                f"{layout} has no digit {self.digit!r} with {self.bits} bits", required="such a digit"
            )
        bases[self.digit] = [bases[self.digit][bit] for bit in self.order]
        return LinearLayout.from_bases(list(bases.items()), list(layout.out_dims.items()))

    def of_values(self, values: Sequence[Value]) -> list[Value]:
        """Return the values at the permuted digits."""
        if len(values) != 1 << self.bits:
            raise InvalidArgument(f"{len(values)} values", required=f"{1 << self.bits}, one for each digit")
        units = [1 << bit for bit in self.order]
        return [values[sum(unit for bit, unit in enumerate(units) if at >> bit & 1)] for at in range(1 << len(units))]
