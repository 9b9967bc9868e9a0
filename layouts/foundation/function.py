"""Layouts in the general sense: functions from the digits of a box to locations. The protocol of all layout classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from operator import xor
from typing import Any, ClassVar, Final

import numpy as np

from atl.core.index import AnyAtom, Bound, Extremum, Index, Leaf, Quotient, Read, Size, Var, Xor, atoms, index, value_of
from atl.core.predicate import TRUE, Predicate
from atl.errors import InvalidArgument, brief
from atl.surface.reindexing import Reindexing
from atl.surface.values import IndexExpr
from layouts.errors import CannotTabulate, NoLayout
from layouts.foundation import tuples
from layouts.foundation.box import Box
from layouts.foundation.facts import Known, positive
from layouts.foundation.segments import Segments
from layouts.foundation.semimodule import F2, MACHINE, Array, Coordinate
from layouts.foundation.storing import columns_of, stored_by_bits, stored_in_segments
from layouts.foundation.variables import digit_variable

MOST_ELEMENTS: Final = 2**20
"""Largest size for which a table of all values is computed; larger and symbolic functions rely on proofs."""


class Function(ABC):
    """A function on a box of digits. It takes an index, a coordinate, arrays of indices, or index expressions.

    `shape` is the domain, `at` evaluates the function at digits, and `known` holds facts about its sizes. A function
    that is given by a shape and strides is a `Layout`.
    """

    __slots__ = ()

    is_layout: ClassVar[bool] = False
    """True if the function is given by a shape and strides."""
    known_injective: bool = False
    """True if injectivity was proved at construction."""
    known_bijective: bool = False
    """True if it was proved at construction that the values are 0 .. size - 1, each once."""
    shape: tuples.Shape
    known: Known

    @abstractmethod
    def at(self, digits: Sequence[Any]) -> Any:
        """Return the value at these digits: integers, NumPy arrays of them, or index expressions."""

    def partial(self, digits: Sequence[Any]) -> tuple[Predicate, Any]:
        """Return the condition under which these digits have a location, and the location."""
        return TRUE, self.at(digits)

    def _repr_svg_(self) -> str | None:
        """Return the picture of a small layout in a notebook: the location of each coordinate."""
        from layouts.pictures.grid import svg_of

        return svg_of(self)

    @property
    def box(self) -> Box:
        """The domain."""
        return Box(self.shape)

    @property
    def size(self) -> tuples.Extent:
        """The number of elements of the domain."""
        return tuples.product(self.shape)

    @property
    def table_size(self) -> int | None:
        """The number of elements, if it is a number and small enough for a table; else None."""
        size = self.size
        return size if isinstance(size, int) and size <= MOST_ELEMENTS else None

    def __call__(self, *coordinate: Any) -> Any:
        """Return the value at an index, or at a coordinate with one part for each mode."""
        given = coordinate[0] if len(coordinate) == 1 else coordinate
        digits = self.box.coordinate_digits(plain_coordinate(given))
        return _outward(self.at(digits), given)

    def table(self) -> Array:
        """Return the value at each index of the domain, in order. Values that are coordinates are rows."""
        size = self.table_size
        if size is None:
            raise CannotTabulate(
                f"{self} has {self.size} elements",
                required=f"a size known as a number, up to {MOST_ELEMENTS}",
                suggestions=("give numbers for the sizes: layout.where(n=8)",),
            )
        if not self.is_numeric:
            raise CannotTabulate(f"the values of {self} depend on symbolic sizes", required="numbers for all sizes")
        try:
            values = np.asarray(self._all(size))
        except TypeError as error:
            raise CannotTabulate(
                f"{self} cannot be evaluated on arrays: {error}", required="numbers for all sizes"
            ) from error
        return values if values.ndim else np.full(size, values)

    @property
    def is_numeric(self) -> bool:
        """True if the values at numeric digits are numbers, so that no symbolic size occurs in them."""
        return True

    @property
    def has_table(self) -> bool:
        """True if a table can be computed: the size is a small number and the values are numbers."""
        return self.table_size is not None and self.is_numeric

    def colexicographic(self) -> Array:
        """Return the table with the first mode moving fastest, whatever the order of this function's indices."""
        values = self.table()
        if not self.box.row_major:
            return values
        extents = [extent for extent in self.box.extents if isinstance(extent, int)]
        order = np.arange(len(values)).reshape(extents).T.reshape(-1)
        ordered: Array = values[order]
        return ordered

    def with_colexicographic_indices(self) -> Function:
        """Return the same function of coordinates, with colexicographic indices as in CuTe."""
        return self if not self.box.row_major else IndexFunction(self.shape, lambda *digits: self.at(digits))

    def _all(self, size: int) -> Any:
        """Return the values at all indices; `size` is their number."""
        return self.at(self.box.digits(np.arange(size)))

    @abstractmethod
    def where(self, **sizes: int) -> Function:
        """Return this function with numbers substituted for sizes."""

    def stored(self, shape: tuple[Index, ...], *, copies: bool = False) -> Reindexing:
        """Return the reindexing that stores a tensor of this shape, with its inverse; used by `s.store(name, layout)`.

        With `copies` elements may share a location and no inverse is needed; used by `s.view(name, layout)`. Functions
        on powers of two that are linear over F2 are stored bit by bit; swizzled layouts are of this kind.
        """
        made = self._stored_by_bits(shape, copies=copies)
        if made is None:
            raise NoLayout(
                f"{self} has no known inverse",
                required="a layout, a function of powers of two that is linear over F2, "
                "or an IndexFunction with inverse= and onto=",
            )
        return made

    def _stored_by_bits(self, shape: tuple[Index, ...], *, copies: bool) -> Reindexing | None:
        """Return the reindexing by bits of indices, or None if the function is not linear over F2."""
        modes = tuples.modes_of(self.shape)
        sizes = [size for mode in modes if isinstance(size := tuples.product(mode), int) and size & -size == size]
        nested = any(isinstance(mode, tuple) for mode in modes)
        if not self.has_table or len(sizes) < len(modes) or (nested and self.box.row_major):
            return None
        counts = [size.bit_length() - 1 for size in sizes]
        found = columns_of(self.colexicographic(), counts)
        return None if found is None else stored_by_bits(shape, *found, name=str(self), copies=copies)


def need_function(value: object) -> None:
    """Raise `InvalidArgument` if `value` is not a function on a box."""
    if not isinstance(value, Function):
        raise InvalidArgument(f"{brief(value)} is not a layout", required="a Layout, or another function on a box")


def plain_coordinate(coordinate: object) -> Any:
    """Return the coordinate with surface expressions unwrapped; arrays are kept."""
    if isinstance(coordinate, tuple | list):
        return tuple(plain_coordinate(part) for part in coordinate)
    if isinstance(coordinate, np.ndarray):
        return coordinate
    return tuples.extent_of(coordinate)


def _outward(value: Any, given: object) -> Any:
    if isinstance(value, Index) and any(isinstance(part, IndexExpr) for part in _parts(given)):
        return IndexExpr(value)
    return value


def _parts(coordinate: object) -> list[object]:
    if isinstance(coordinate, tuple | list):
        return [leaf for part in coordinate for leaf in _parts(part)]
    return [coordinate]


class IndexFunction(Function):
    """A function on a box, written as a formula `to`, with its inverse if there is one.

    `to` takes one digit for each leaf of the shape and returns a location. With `onto` it returns the digits of a
    location in that box, which are joined to a flat location. `inverse` takes the result of `to` and returns digits.
    Both are called with integers, arrays and index expressions, so they may use only `+ - * // %`. An inverse is
    easiest to prove when it works on digits, without division. With `onto=Segments(…)` the digits are a key and a
    position, as for the rows of a packed triangle.

    Sizes may be symbolic, with facts in `given=`. Extents are assumed to be at least 1.

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

    __slots__ = ("inverse", "known", "name", "onto", "shape", "to")

    def __init__(
        self,
        shape: object,
        to: Callable[..., Any],
        inverse: Callable[..., Sequence[Any]] | None = None,
        *,
        onto: Box | Segments | None = None,
        name: str = "function",
        given: Iterable[object] = (),
    ) -> None:
        if not callable(to):
            raise InvalidArgument(f"{brief(to)} is not callable", required="a function of digits")
        self.shape = tuples.as_nested(shape, tuples.extent_of)
        self.to = to
        self.inverse = inverse
        self.onto = onto
        self.name = name
        self.known = positive(tuples.leaves(self.shape)).given(given)

    def location_digits(self, digits: Sequence[Any]) -> tuple[Any, ...]:
        """Return the result of `to`: the digits of a location in `onto`, or a tuple of one flat location."""
        location = self.to(*digits)
        parts = tuple(location) if self.onto is not None else (location,)
        return tuple(map(tuples.plain_index, parts))

    def at(self, digits: Sequence[Any]) -> Any:
        location = self.location_digits(digits)
        return location[0] if self.onto is None else self.onto.join(location)

    def stored(self, shape: tuple[Index, ...], *, copies: bool = False) -> Reindexing:
        own = tuple(map(index, tuples.leaves(self.shape)))
        if isinstance(self.onto, Segments) and len(own) == len(shape) and (copies or self.inverse is not None):
            inverse = None if copies else self.inverse
            return stored_in_segments(own, self.onto, self.to, inverse, self.known)
        boxed = isinstance(self.onto, Box) and self.onto.row_major
        no_box = (self.inverse is None and not copies) or not boxed
        if no_box and (by_bits := self._stored_by_bits(shape, copies=copies)) is not None:
            return by_bits
        if not isinstance(self.onto, Box) or not boxed:
            raise NoLayout(
                f"{self} does not determine how elements are stored",
                required="inverse=, for locations in segments"
                if isinstance(self.onto, Segments)
                else "inverse= and onto=Box(…, row_major=True), the box of the locations",
            )
        if len(own) != len(shape):
            raise NoLayout(
                f"{self} is a function of {len(own)} digits", required=f"one digit for each dimension: {len(shape)}"
            )
        return Reindexing(own, tuple(map(index, self.onto.extents)), self.to, self.inverse)

    def formula(self) -> tuple[tuple[Var, ...], tuple[Index, ...]] | None:
        """Return the digits and the result of `to` (for segments, the location), or None if it takes only numbers."""
        variables = tuple(digit_variable(k, f"i{k}") for k, _ in enumerate(tuples.leaves(self.shape)))
        try:
            digits = [index(variable) for variable in variables]
            location = (self.at(digits),) if isinstance(self.onto, Segments) else self.location_digits(digits)
            return variables, tuple(map(index, location))
        except (TypeError, ValueError, LookupError, AttributeError):  # raised by functions of numbers given expressions
            return None

    def sizes(self) -> set[Size]:
        """Return the sizes that occur in the formula."""
        found = self.formula()
        return {atom for part in found[1] for atom in atoms(part) if isinstance(atom, Size)} if found else set()

    @property
    def is_numeric(self) -> bool:
        return not self.sizes()

    def where(self, **sizes: int) -> Function:
        """Return this function with numbers for sizes: evaluates the formula over index expressions."""
        found = self.formula()
        if found is None or (not self.sizes() and all(isinstance(extent, int) for extent in tuples.leaves(self.shape))):
            return self
        variables, formulae = found
        shape = tuples.mapped(lambda extent: _placed(index(extent), sizes), self.shape)
        onto = None
        if self.onto is not None and not isinstance(self.onto, Segments):
            onto = Box(
                tuples.mapped(lambda extent: _placed(index(extent), sizes), self.onto.shape), self.onto.row_major
            )

        def to(*digits: Any) -> Any:
            values: dict[Leaf, Any] = dict(zip(variables, digits, strict=True))

            def leaf(atom: Leaf) -> Any:
                return values[atom] if atom in values else _placed(index(atom), sizes)

            if any(isinstance(digit, np.ndarray) for digit in digits):
                location = tuple(_of_arrays(formula, leaf) for formula in formulae)
            else:
                location = tuple(value_of(formula, leaf, _no_element) for formula in formulae)
            return location if onto is not None else location[0]

        return IndexFunction(shape, to, onto=onto, name=self.name)

    def __repr__(self) -> str:
        return f"{self.name}{tuples.shown(self.shape) if isinstance(self.shape, tuple) else f'({self.shape})'}"


def _no_element(_array: object, _at: object) -> int:
    raise CannotTabulate("a formula reads an array", required="a formula over sizes and digits")


def _placed(expression: Index, sizes: Mapping[str, int]) -> int:
    """Return the value of an expression over sizes. Raises `CannotTabulate` if a size is missing."""

    def leaf(atom: Leaf) -> int:
        if isinstance(atom, Size) and atom.name in sizes:
            return sizes[atom.name]
        raise CannotTabulate(f"the value of {expression} is unknown", required="a number for each size")

    return value_of(expression, leaf, _no_element)


def _of_arrays(expression: Index, leaf: Callable[[Leaf], Any]) -> Any:
    """Return the elementwise values of an expression whose leaves are arrays."""
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
    """The composition outer ∘ inner, where no shape with strides is known to express it.

    `reason` says why. A chain is a function like any other: it can be called, compared and drawn.
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
        location = _as_coordinate(value, len(tuples.modes_of(self.outer.shape)))
        return self.outer.at(self.outer.box.coordinate_digits(location))

    def _all(self, size: int) -> Any:  # noqa: ARG002
        return self._after(self.inner.table())

    def stored(self, shape: tuple[Index, ...], *, copies: bool = False) -> Reindexing:
        """Store by bits if the chain is linear over F2; else at one flat location, outer applied to inner's."""
        outer = self.outer
        by_bits = self._stored_by_bits(shape, copies=copies)
        if by_bits is not None or not isinstance(outer, IndexFunction) or isinstance(outer.shape, tuple):
            return by_bits or super().stored(shape, copies=copies)
        if outer.onto is not None or outer.inverse is None:
            return super().stored(shape, copies=copies)
        inner = self.inner.stored(shape, copies=copies)
        box = Box(tuple(map(tuples.extent_of, inner.places)), row_major=True)
        forward, inverse = outer.to, outer.inverse

        def to(*at: Any) -> tuple[Any, ...]:
            return (forward(box.join([plain_coordinate(part) for part in inner.to(*at)])),)

        def origin(p: Any) -> Any:
            (flat,) = inverse(plain_coordinate(p))
            return () if inner.inverse is None else inner.inverse(*box.digits(plain_coordinate(flat)))

        return Reindexing(shape, (index(tuples.product(box.shape)),), to, None if inner.inverse is None else origin)

    @property
    def is_numeric(self) -> bool:
        digits = [isinstance(extent, int) for extent in tuples.leaves(self.outer.shape)]
        return self.inner.is_numeric and self.outer.is_numeric and all(digits[:-1])

    def where(self, **sizes: int) -> Function:
        return Chain(self.outer.where(**sizes), self.inner.where(**sizes), self.reason)

    def __repr__(self) -> str:
        return f"{self.outer} o {self.inner}"


def _as_coordinate(value: Any, rank: int) -> Any:
    """Return a value as an index of another function, or as a coordinate with `rank` modes."""
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
"""Locations are machine integers."""


def swizzle(bits: int, base: int, shift: int, size: int | None = None) -> IndexFunction:
    """CuTe's Swizzle<bits, base, shift>: xors `bits` bits starting at base + shift into those starting at base.

    A swizzle is its own inverse. Its domain is as large as the bits that it reads, or `size`.

    >>> swizzle(2, 0, 3).table()[8:12]
    array([ 9,  8, 11, 10])
    """
    for name, value in (("bits", bits), ("base", base)):
        if type(value) is not int or value < 0:
            raise InvalidArgument(f"{name}={brief(value)}", required="a number of bits, 0 or more")
    if type(shift) is not int or abs(shift) < bits:
        raise InvalidArgument(
            f"shift={brief(shift)}", required=f"a distance of at least {brief(bits)} bits, in either direction"
        )
    if base + bits + abs(shift) > MOST_BITS:
        raise InvalidArgument(
            f"a swizzle that reads {brief(base + bits + abs(shift))} bits", required=f"at most {MOST_BITS} bits"
        )
    lowest = base + max(shift, 0)
    read = ((1 << bits) - 1) << lowest

    def to(at: Any) -> Any:
        if isinstance(at, Index | IndexExpr):  # index expressions have no `&`
            bit: Any = at // (1 << lowest) % (1 << bits)
            return at ^ bit * (1 << (lowest - shift))
        taken = at & read
        return at ^ (taken >> shift if shift >= 0 else taken << -shift)

    whole = 1 << (base + bits + abs(shift)) if size is None else size
    return IndexFunction(whole, to, lambda location: (to(location),), name=f"Swizzle<{bits},{base},{shift}>")


def fits_machine(values: Sequence[int]) -> bool:
    """Return whether sums of values of this magnitude fit into machine integers."""
    return sum(map(abs, values)) < MACHINE
