"""Layouts in the wide sense: functions from the digits of a box to places. The one protocol of all classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from operator import xor
from typing import Any, ClassVar, Final

import numpy as np

from atl.core.index import AnyAtom, Bound, Extremum, Index, Leaf, Quotient, Read, Size, Var, Xor, atoms, index, value_of
from atl.core.predicate import TRUE, Predicate
from atl.errors import WrongArgument, brief
from atl.surface.reindexing import Reindexing
from atl.surface.values import IndexExpr
from layouts.errors import NoLayout, NotByTable
from layouts.foundation.box import Box
from layouts.foundation.known import Known, positive
from layouts.foundation.segments import Segments
from layouts.foundation.semimodule import F2, MACHINE, Array, Coordinate
from layouts.foundation.storing.bits import columns_of, stored_by_bits
from layouts.foundation.storing.segments import stored_in_segments
from layouts.foundation.tuples import (
    Extent,
    Shape,
    as_nested,
    extent_of,
    leaves,
    mapped,
    modes_of,
    plain_index,
    product,
    shown,
)
from layouts.foundation.variables import digit_variable

MOST_PLACES: Final = 2**20
"""So many places are computed one by one, in NumPy; of larger functions, and of symbolic ones, only what is proved."""


class Function(ABC):
    """A function on a box of digits. Called with an index, a coordinate, arrays of indices, or index expressions.

    `shape` is its domain, `at` its value at digits, `known` what holds of its sizes. It is a `Layout` where shape and
    strides say all.
    """

    __slots__ = ()

    is_layout: ClassVar[bool] = False
    """Whether this is a shape with strides, and not another function."""
    one_to_one: bool = False
    """Whether it was seen when it was made that different digits have different places."""
    fills: bool = False
    """Whether it was seen when it was made that its places are the numbers below its size, each once."""
    shape: Shape
    known: Known

    @abstractmethod
    def at(self, digits: Sequence[Any]) -> Any:
        """The value at these digits: integers, NumPy arrays of them, or index expressions."""

    def partial(self, digits: Sequence[Any]) -> tuple[Predicate, Any]:
        """Under which condition there is a place for these digits, and the place."""
        return TRUE, self.at(digits)

    def _repr_svg_(self) -> str | None:
        """What a notebook shows of a small layout: where each coordinate goes."""
        from layouts.pictures.grid import svg_of

        return svg_of(self)

    @property
    def box(self) -> Box:
        """The domain."""
        return Box(self.shape)

    @property
    def size(self) -> Extent:
        """The number of places of the domain."""
        return product(self.shape)

    @property
    def places(self) -> int | None:
        """The size, if it is a number and small enough for a table."""
        size = self.size
        return size if isinstance(size, int) and size <= MOST_PLACES else None

    def __call__(self, *coordinate: Any) -> Any:
        """The value at an index, or at a coordinate, with one part for each mode."""
        given = coordinate[0] if len(coordinate) == 1 else coordinate
        digits = self.box.coordinate_digits(plain_coordinate(given))
        return _outward(self.at(digits), given)

    def table(self) -> Array:
        """The value at each index of the domain, in order; coordinates are rows."""
        places = self.places
        if places is None:
            raise NotByTable(
                f"{self} has {self.size} places",
                required=f"a size known as a number, up to {MOST_PLACES}",
                suggestions=("put numbers for the sizes: layout.where(n=8)",),
            )
        if not self.is_numeric:
            raise NotByTable(f"the places of {self} are made of sizes", required="numbers for all sizes")
        try:
            values = np.asarray(self._all(places))
        except TypeError as error:
            raise NotByTable(
                f"{self} is not a function of arrays: {error}", required="numbers for all sizes"
            ) from error
        return values if values.ndim else np.full(places, values)

    @property
    def is_numeric(self) -> bool:
        """Whether the values at digits that are numbers are numbers too: they are made of no sizes."""
        return True

    @property
    def has_table(self) -> bool:
        """Whether there is a table: not too many places, and numbers as values."""
        return self.places is not None and self.is_numeric

    def colexicographic(self) -> Array:
        """The value at each coordinate, those of the first mode moving fastest, whatever way indices count."""
        values = self.table()
        if not self.box.row_major:
            return values
        extents = [extent for extent in self.box.extents if isinstance(extent, int)]
        order = np.arange(len(values)).reshape(extents).T.reshape(-1)
        ordered: Array = values[order]
        return ordered

    def counted_from_the_first(self) -> Function:
        """The same place at each coordinate, indices counted as CuTe does: the first digit moves fastest."""
        return self if not self.box.row_major else IndexFunction(self.shape, lambda *digits: self.at(digits))

    def _all(self, places: int) -> Any:
        """The values at all indices, which are so many."""
        return self.at(self.box.digits(np.arange(places)))

    @abstractmethod
    def where(self, **sizes: int) -> Function:
        """This function with numbers for sizes."""

    def stored(self, shape: tuple[Index, ...], *, copies: bool = False) -> Reindexing:
        """Where the elements of a tensor of this shape are stored, with the way back: for `s.store(name, layout)`.

        With `copies` elements may share a place, and no way back is needed: for `s.view(name, layout)`. Functions of
        powers of two are stored bit by bit, where they are linear over F2: compositions with swizzles are.
        """
        made = self._stored_by_bits(shape, copies=copies)
        if made is None:
            raise NoLayout(
                f"{self} has no way back",
                required="a layout, a function of powers of two that is linear over F2, "
                "or an IndexFunction with back= and onto=",
            )
        return made

    def _stored_by_bits(self, shape: tuple[Index, ...], *, copies: bool) -> Reindexing | None:
        """Where elements go by the bits of their indices, if bits say where."""
        modes = modes_of(self.shape)
        sizes = [size for mode in modes if isinstance(size := product(mode), int) and size & -size == size]
        nested = any(isinstance(mode, tuple) for mode in modes)
        if not self.has_table or len(sizes) < len(modes) or (nested and self.box.row_major):
            return None
        counts = [size.bit_length() - 1 for size in sizes]
        found = columns_of(self.colexicographic(), counts)
        return None if found is None else stored_by_bits(shape, *found, name=str(self), copies=copies)


def need_function(value: object) -> None:
    """Refuses what is neither a layout nor another function on a box."""
    if not isinstance(value, Function):
        raise WrongArgument(f"{brief(value)} is not a layout", required="a Layout, or another function on a box")


def plain_coordinate(coordinate: object) -> Any:
    """A coordinate without what a person writes it with; arrays stay."""
    if isinstance(coordinate, tuple | list):
        return tuple(plain_coordinate(part) for part in coordinate)
    if isinstance(coordinate, np.ndarray):
        return coordinate
    return extent_of(coordinate)


def _outward(value: Any, given: object) -> Any:
    if isinstance(value, Index) and any(isinstance(part, IndexExpr) for part in _parts(given)):
        return IndexExpr(value)
    return value


def _parts(coordinate: object) -> list[object]:
    if isinstance(coordinate, tuple | list):
        return [leaf for part in coordinate for leaf in _parts(part)]
    return [coordinate]


class IndexFunction(Function):
    """A function on a box that is written as a formula `to`, with its way back where there is one.

    `to` takes a digit for each leaf of the shape and gives a place; with `onto`, the digits of a place in that box,
    which are joined on exit. `back` takes what `to` gives and gives the digits. Both are given integers, arrays and
    index expressions, so they use `+ - * // %` only. A way back is best written on digits, where nothing is divided.
    With `onto=Segments(…)` the digits are a key and a position, in segments as the rows of a triangle are.

    Sizes may be symbolic, with facts in `given=`; extents are assumed to be at least 1.

    >>> pitch = IndexFunction((4, 8), lambda i, j: 9 * i + j, name="padded")
    >>> pitch(2, 3), pitch
    (21, padded(4,8))
    >>> import atl
    >>> n, m = atl.sizes("n m")
    >>> skewed = IndexFunction(
    ...     (n, m), lambda i, j: (i, (i + j) % m), lambda i, j: (i, (j - i) % m), onto=Box((n, m), row_major=True)
    ... )
    >>> skewed.where(n=4, m=8)(2, 7)
    17
    """

    __slots__ = ("back", "known", "name", "onto", "shape", "to")

    def __init__(
        self,
        shape: object,
        to: Callable[..., Any],
        back: Callable[..., Sequence[Any]] | None = None,
        *,
        onto: Box | Segments | None = None,
        name: str = "function",
        given: Iterable[object] = (),
    ) -> None:
        if not callable(to):
            raise WrongArgument(f"{brief(to)} is not a function of digits", required="a function")
        self.shape = as_nested(shape, extent_of)
        self.to = to
        self.back = back
        self.onto = onto
        self.name = name
        self.known = positive(leaves(self.shape)).given(given)

    def digits_of_place(self, digits: Sequence[Any]) -> tuple[Any, ...]:
        """What `to` gives: the digits of a place in `onto`, or a lone place."""
        place = self.to(*digits)
        parts = tuple(place) if self.onto is not None else (place,)
        return tuple(map(plain_index, parts))

    def at(self, digits: Sequence[Any]) -> Any:
        place = self.digits_of_place(digits)
        return place[0] if self.onto is None else self.onto.join(place)

    def stored(self, shape: tuple[Index, ...], *, copies: bool = False) -> Reindexing:
        own = tuple(map(index, leaves(self.shape)))
        if isinstance(self.onto, Segments) and len(own) == len(shape) and (copies or self.back is not None):
            way_back = None if copies else self.back
            return stored_in_segments(own, self.onto, self.to, way_back, self.known)
        boxed = isinstance(self.onto, Box) and self.onto.row_major
        unled = (self.back is None and not copies) or not boxed
        if unled and (by_bits := self._stored_by_bits(shape, copies=copies)) is not None:
            return by_bits
        if not isinstance(self.onto, Box) or not boxed:
            raise NoLayout(
                f"{self} does not say where elements are stored",
                required="back=, the way back, for places in segments"
                if isinstance(self.onto, Segments)
                else "back=, the way back, and onto=Box(…, row_major=True), the box of the places",
            )
        if len(own) != len(shape):
            raise NoLayout(
                f"{self} is a function of {len(own)} digits", required=f"one for each dimension: {len(shape)}"
            )
        return Reindexing(own, tuple(map(index, self.onto.extents)), self.to, self.back)

    def formula(self) -> tuple[tuple[Var, ...], tuple[Index, ...]] | None:
        """The digits, and what `to` gives at them, in segments the place; None for a function of numbers only."""
        variables = tuple(digit_variable(k, f"i{k}") for k, _ in enumerate(leaves(self.shape)))
        try:
            digits = [index(variable) for variable in variables]
            place = (self.at(digits),) if isinstance(self.onto, Segments) else self.digits_of_place(digits)
            return variables, tuple(map(index, place))
        except (TypeError, ValueError, LookupError, AttributeError):  # what functions of numbers make of an expression
            return None

    def sizes(self) -> set[Size]:
        """The sizes that the formula speaks of."""
        found = self.formula()
        return {atom for part in found[1] for atom in atoms(part) if isinstance(atom, Size)} if found else set()

    @property
    def is_numeric(self) -> bool:
        return not self.sizes()

    def where(self, **sizes: int) -> Function:
        """This function with numbers for sizes: its formula is that over index expressions, evaluated."""
        found = self.formula()
        if found is None or (not self.sizes() and all(isinstance(extent, int) for extent in leaves(self.shape))):
            return self
        variables, formulae = found
        shape = mapped(lambda extent: _placed(index(extent), sizes), self.shape)
        onto = None
        if self.onto is not None and not isinstance(self.onto, Segments):
            onto = Box(mapped(lambda extent: _placed(index(extent), sizes), self.onto.shape), self.onto.row_major)

        def to(*digits: Any) -> Any:
            values: dict[Leaf, Any] = dict(zip(variables, digits, strict=True))

            def leaf(atom: Leaf) -> Any:
                return values[atom] if atom in values else _placed(index(atom), sizes)

            if any(isinstance(digit, np.ndarray) for digit in digits):
                place = tuple(_of_arrays(formula, leaf) for formula in formulae)
            else:
                place = tuple(value_of(formula, leaf, _no_element) for formula in formulae)
            return place if onto is not None else place[0]

        return IndexFunction(shape, to, onto=onto, name=self.name)

    def __repr__(self) -> str:
        return f"{self.name}{shown(self.shape) if isinstance(self.shape, tuple) else f'({self.shape})'}"


def _no_element(_array: object, _at: object) -> int:
    raise NotByTable("a formula reads an array", required="a formula over sizes and digits")


def _placed(expression: Index, sizes: Mapping[str, int]) -> int:
    """The value of an expression over sizes. Raises `NotByTable` where one of them is not given."""

    def leaf(atom: Leaf) -> int:
        if isinstance(atom, Size) and atom.name in sizes:
            return sizes[atom.name]
        raise NotByTable(f"{expression} is not known", required="a number for each size")

    return value_of(expression, leaf, _no_element)


def _of_arrays(expression: Index, leaf: Callable[[Leaf], Any]) -> Any:
    """The values of an expression, place by place, where leaves are arrays."""
    total: Any = 0
    for monomial, coefficient in expression.terms:
        term: Any = coefficient
        for atom in monomial:
            term = term * _of_atom(atom, leaf)
        total = total + term
    return total


def _of_atom(atom: AnyAtom, leaf: Callable[[Leaf], Any]) -> Any:
    match atom:
        case Size() | Bound() | Var():
            return leaf(atom)
        case Quotient(numerator, denominator):
            divisor = _of_arrays(denominator, leaf)
            if np.any(divisor <= 0):
                raise ZeroDivisionError(divisor)
            return _of_arrays(numerator, leaf) // divisor
        case Extremum(kind, choices):
            return reduce(np.minimum if kind == "min" else np.maximum, (_of_arrays(each, leaf) for each in choices))
        case Xor(parts):
            return reduce(xor, (_of_arrays(part, leaf) for part in parts))
        case Read():
            return _no_element(None, None)


class Chain(Function):
    """One function after another: outer ∘ inner, which no shape with strides expresses, or is not known to be.

    `reason` says why. It is a function like any other: it is called, compared and drawn.
    """

    __slots__ = ("inner", "known", "outer", "reason", "shape")

    def __init__(self, outer: Function, inner: Function, reason: str = "") -> None:
        for each in (outer, inner):
            need_function(each)
        self.outer = outer
        self.inner = inner
        self.shape = inner.shape
        self.known = outer.known.joined(inner.known)
        self.reason = reason

    def at(self, digits: Sequence[Any]) -> Any:
        return self._after(self.inner.at(digits))

    def _after(self, value: Any) -> Any:
        place = _place_of(value, len(modes_of(self.outer.shape)))
        return self.outer.at(self.outer.box.coordinate_digits(place))

    def _all(self, places: int) -> Any:  # noqa: ARG002
        return self._after(self.inner.table())

    def stored(self, shape: tuple[Index, ...], *, copies: bool = False) -> Reindexing:
        """Bit by bit; or else at one flat place, that which the outer function makes of the inner one's."""
        outer = self.outer
        by_bits = self._stored_by_bits(shape, copies=copies)
        if by_bits is not None or not isinstance(outer, IndexFunction) or isinstance(outer.shape, tuple):
            return by_bits or super().stored(shape, copies=copies)
        if outer.onto is not None or outer.back is None:
            return super().stored(shape, copies=copies)
        inner = self.inner.stored(shape, copies=copies)
        box = Box(tuple(map(extent_of, inner.places)), row_major=True)
        there, back = outer.to, outer.back

        def to(*at: Any) -> tuple[Any, ...]:
            return (there(box.join([plain_coordinate(part) for part in inner.to(*at)])),)

        def origin(p: Any) -> Any:
            (flat,) = back(plain_coordinate(p))
            return () if inner.back is None else inner.back(*box.digits(plain_coordinate(flat)))

        return Reindexing(shape, (index(product(box.shape)),), to, None if inner.back is None else origin)

    @property
    def is_numeric(self) -> bool:
        digits = [isinstance(extent, int) for extent in leaves(self.outer.shape)]
        return self.inner.is_numeric and self.outer.is_numeric and all(digits[:-1])

    def where(self, **sizes: int) -> Function:
        return Chain(self.outer.where(**sizes), self.inner.where(**sizes), self.reason)

    def __repr__(self) -> str:
        return f"{self.outer} o {self.inner}"


def _place_of(value: Any, rank: int) -> Any:
    """A value as an index of another function, or as a coordinate of so many modes."""
    if isinstance(value, F2):
        return int(value)
    if isinstance(value, Coordinate):
        return tuple(value[axis] for axis in range(rank)) if rank > 1 else value[0]
    if isinstance(value, np.ndarray) and value.ndim > 1:
        columns = [
            value[:, axis] if axis < value.shape[1] else np.zeros(len(value), value.dtype) for axis in range(rank)
        ]
        return tuple(columns) if rank > 1 else columns[0]
    return value


MOST_BITS: Final = 62
"""Places are machine integers."""


def swizzle(bits: int, base: int, shift: int, size: int | None = None) -> IndexFunction:
    """CuTe's Swizzle<bits, base, shift>: bits from base + shift on are added, without carries, to those from base on.

    It is its own way back. Its domain is as large as the bits that it reads, or `size`.

    >>> swizzle(2, 0, 3).table()[8:12]
    array([ 9,  8, 11, 10])
    """
    for name, value in (("bits", bits), ("base", base)):
        if type(value) is not int or value < 0:
            raise WrongArgument(f"{name}={brief(value)}", required="a number of bits, 0 or more")
    if type(shift) is not int or abs(shift) < bits:
        raise WrongArgument(f"shift={brief(shift)}", required=f"a distance of at least {brief(bits)} bits, up or down")
    if base + bits + abs(shift) > MOST_BITS:
        raise WrongArgument(
            f"a swizzle that reads {brief(base + bits + abs(shift))} bits", required=f"at most {MOST_BITS}"
        )
    lowest = base + max(shift, 0)
    read = ((1 << bits) - 1) << lowest

    def to(at: Any) -> Any:
        if isinstance(at, Index | IndexExpr):  # these have no `&`
            bit: Any = at // (1 << lowest) % (1 << bits)
            return at ^ bit * (1 << (lowest - shift))
        taken = at & read
        return at ^ (taken >> shift if shift >= 0 else taken << -shift)

    whole = 1 << (base + bits + abs(shift)) if size is None else size
    return IndexFunction(whole, to, lambda place: (to(place),), name=f"Swizzle<{bits},{base},{shift}>")


def fits_machine(values: Sequence[int]) -> bool:
    """Whether sums of so large values are machine integers."""
    return sum(map(abs, values)) < MACHINE
