"""Permutations of a tile: of its dimensions (RegP), or of its elements by user functions (GenP)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from atl.core.index import ZERO, Index, index
from atl.core.predicate import within
from atl.errors import InvalidArgument, brief
from atl.prove import Proved, Refuted
from atl.surface.values import IndexExpr
from layouts.errors import CannotTabulate, LayoutError
from layouts.foundation.box import Box
from layouts.foundation.facts import Known, positive
from layouts.foundation.function import MOST_ELEMENTS, IndexFunction
from layouts.foundation.semimodule import Array
from layouts.foundation.sizes import placed
from layouts.foundation.tuples import Extent, extent_of, plain_index, product, shown
from layouts.foundation.variables import any_digits
from layouts.proofs.injectivity import injective, prove_inverse
from layouts.proofs.location_cases import location_cases


class Permutation(ABC):
    """A permutation of a tile of extents `dims`, between digits and flat locations."""

    dims: tuple[Extent, ...]
    known: Known
    known_injective: bool = True
    """True if it is injective, which may fail only for a GenP without inverse."""
    known_bijective: bool = True
    """True if it is surjective, which may fail only for a GenP without inverse."""

    @property
    def size(self) -> Extent:
        """The number of elements."""
        return product(self.dims)

    @property
    @abstractmethod
    def location_extents(self) -> tuple[Extent, ...]:
        """The extents of the digits of a location, slowest first."""

    @abstractmethod
    def location(self, digits: Sequence[Any]) -> tuple[Any, ...]:
        """Return the location of the element at these digits, as digits."""

    @abstractmethod
    def element(self, location: Sequence[Any]) -> tuple[Any, ...]:
        """Return the digits of the element at a location."""

    def apply(self, digits: Sequence[Any]) -> Any:
        """Return the flat location of the element at these digits."""
        return Box(self.location_extents, row_major=True).join(self.location(digits))

    def inv(self, location: Any) -> tuple[Any, ...]:
        """Return the digits of the element at a flat location."""
        return self.element(Box(self.location_extents, row_major=True).digits(location))

    @abstractmethod
    def where(self, sizes: Mapping[str, int]) -> Permutation:
        """Return the same permutation with numbers for sizes."""


class RegP(Permutation):
    """The dimensions of a tile in another order: `sigma[k]` is the dimension that moves to position k.

    Dimensions are numbered from 1, as in the paper; from 0 if `sigma` contains a 0.

    >>> RegP([2, 3], [2, 1]).apply((1, 2)), RegP([2, 3], [2, 1]).inv(5)
    (5, (1, 2))
    """

    def __init__(self, dims: Iterable[object], sigma: Iterable[int]) -> None:
        self.dims = extents(dims)
        order = [*sigma]
        first = 0 if 0 in order else 1
        if sorted(order) != list(range(first, first + len(self.dims))):
            raise LayoutError(
                f"RegP({shown(self.dims)}, {brief(order)})",
                required=f"each of the dimensions 1 to {len(self.dims)} once",
            )
        self.order = tuple(dim - first for dim in order)
        self.known = positive(self.dims)

    @property
    def location_extents(self) -> tuple[Extent, ...]:
        return tuple(self.dims[dim] for dim in self.order)

    def location(self, digits: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(digits[dim] for dim in self.order)

    def element(self, location: Sequence[Any]) -> tuple[Any, ...]:
        found: list[Any] = [None] * len(self.order)
        for at, digit in zip(self.order, location, strict=True):
            found[at] = digit
        return tuple(found)

    def strides(self) -> list[Extent]:
        """Return the distance in memory between neighbours in each dimension."""
        out: list[Extent] = [1] * len(self.dims)
        step: Extent = 1
        for dim in reversed(self.order):
            out[dim] = step
            step = step * self.dims[dim]
        return out

    def where(self, sizes: Mapping[str, int]) -> RegP:
        return RegP([placed(extent, sizes) for extent in self.dims], [*self.order])

    def __repr__(self) -> str:
        return f"RegP([{','.join(map(str, self.dims))}], [{','.join(str(dim + 1) for dim in self.order)}])"


def Row(*dims: object) -> RegP:  # noqa: N802 (LEGO's name)
    """Make the row-major order: Row([2, 3]), or Row(2, 3)."""
    sizes = _listed(dims)
    return RegP(sizes, range(1, len(sizes) + 1))


def Col(*dims: object) -> RegP:  # noqa: N802 (LEGO's name)
    """Make the column-major order. (In the paper's text the extents are also reversed, but not in its code.)"""
    sizes = _listed(dims)
    return RegP(sizes, range(len(sizes), 0, -1))


class GenP(Permutation):
    """The elements of a tile in the order of a function from digits to flat locations, with its `inverse`.

    The functions take integers, or index expressions too. A function that takes only integers is tabulated, and the
    extents must be numbers. The inverse is checked at every element for numeric extents, and proved otherwise. Without
    an inverse a GenP must still be injective, and has no `inv`.

    Raises `LayoutError` with the digits if the function or its inverse is wrong, or if this is not proved.

    >>> turned = GenP([3, 2], lambda i, j: (2 - i) * 2 + 1 - j, lambda x: ((5 - x) // 2, (5 - x) % 2))
    >>> turned.apply((2, 1)), turned.inv(0)
    (0, (2, 1))
    """

    def __init__(
        self,
        dims: Iterable[object],
        function: Callable[..., Any],
        inverse: Callable[[Any], Any] | None = None,
        *,
        given: Iterable[object] = (),
    ) -> None:
        if not callable(function) or not (inverse is None or callable(inverse)):
            raise InvalidArgument(
                "the arguments of GenP are not callable", required="a function of digits, and its inverse"
            )
        self.dims = extents(dims)
        self.function = function
        self.inverse = inverse
        self._given = tuple(given)
        self.known = positive(self.dims).given(self._given)
        self.known_injective = True
        self.known_bijective = inverse is not None
        self._table: Array | None = None
        self._digits: Array | None = None
        if all(isinstance(extent, int) for extent in self.dims):
            self._tabulate()
        else:
            self._prove()

    # -- checked ------------------------------------------------------------------------------------------------------

    def _tabulate(self) -> None:
        size = product(self.dims)
        if not isinstance(size, int) or size > MOST_ELEMENTS:
            raise CannotTabulate(f"a GenP of {size} elements", required=f"up to {MOST_ELEMENTS}, which are tabulated")
        box = Box(self.dims, row_major=True)
        digits = list(zip(*(part.tolist() for part in box.digits(np.arange(size))), strict=True))
        places = [_number(self.function(*each), each) for each in digits]
        self._table = np.asarray(places, dtype=np.int64)
        seen: dict[int, tuple[int, ...]] = {}
        for each, location in zip(digits, places, strict=True):
            if location < 0 or (location >= size and self.inverse is not None):
                raise LayoutError(f"GenP maps {each} to {location}", required=f"a location from 0 to {size - 1}")
            if location in seen and self.inverse is not None:
                raise LayoutError(f"GenP maps {seen[location]} and {each} to {location}", required="distinct locations")
            self.known_injective &= location not in seen
            seen[location] = each
            if self.inverse is not None and _digits_of(self.inverse(location), len(self.dims)) != each:
                raise LayoutError(
                    f"GenP maps {each} to {location}, and back to {self.inverse(location)}", required="the inverse"
                )
        self._digits = np.asarray([seen.get(location, (-1,) * len(self.dims)) for location in range(size)]).reshape(
            size, -1
        )

    def _prove(self) -> None:
        inverse = self.inverse
        if inverse is None:
            self.known_injective = False
            return

        def to_digits(location: Any) -> tuple[Any, ...]:
            return _tuple(inverse(IndexExpr(index(location)) if isinstance(location, Index) else location))

        made = IndexFunction(self.dims, self._formula, to_digits, name="GenP", given=self._given)
        # Injectivity may be known without the inverse, and then says nothing about it.
        inverse_proof = prove_inverse(made, made.known)
        if isinstance(inverse_proof, Proved) and self._within():
            return
        answer = injective(made)
        found = (
            answer.model.numbers if isinstance(answer, Refuted) else getattr(inverse_proof, "reason", "its locations")
        )
        raise LayoutError(
            f"GenP of the symbolic extents {shown(self.dims)} is not proved to be bijective: {found}",
            required="an inverse that is proved to be one, and locations within the tile",
            suggestions=("state facts about the sizes: given=[...]", "give numbers for the extents"),
        )

    def _within(self) -> bool:
        """Return whether every location is proved to be within the tile."""
        digits, known = any_digits(self.dims, self.known)
        location = index(self._formula(*digits))
        if known.holds(within(ZERO, location, index(self.size))):
            return True
        cases = list(location_cases(digits, [location], known))
        return bool(cases) and all(
            case.known.holds(within(ZERO, case.location[0], case.simple(index(self.size)))) for case in cases
        )

    def _formula(self, *digits: Any) -> Any:
        found = self.function(*(IndexExpr(digit) if isinstance(digit, Index) else digit for digit in digits))
        return plain_index(found)

    # -- meaning ------------------------------------------------------------------------------------------------------

    @property
    def location_extents(self) -> tuple[Extent, ...]:
        return (self.size,)

    def location(self, digits: Sequence[Any]) -> tuple[Any, ...]:
        return (self._flat(digits),)

    def _flat(self, digits: Sequence[Any]) -> Any:
        if self._table is not None and not any(isinstance(digit, Index) for digit in digits):
            found = self._table[
                self._inside(Box(self.dims, row_major=True).join([np.asarray(each) for each in digits]))
            ]
            return found if found.ndim else int(found)
        try:
            return self._formula(*digits)
        except (TypeError, ValueError) as error:
            raise _only_a_table(error) from error

    def _inside(self, places: Any) -> Any:
        """Return the locations, if all are in the tile."""
        size = product(self.dims)
        outside = places[(places < 0) | (places >= size)] if isinstance(size, int) else places[:0]
        if outside.size:
            raise LayoutError(f"element {outside.flat[0]} of {self}", required=f"one of its {size}")
        return places

    def element(self, location: Sequence[Any]) -> tuple[Any, ...]:
        (flat,) = location
        return self._inverse(flat)

    def _inverse(self, location: Any) -> tuple[Any, ...]:
        if self.inverse is None:
            raise LayoutError("a GenP without an inverse has no inv", required="its inverse, as the third argument")
        if self._digits is not None and not isinstance(location, Index):
            rows = self._digits[self._inside(np.asarray(location))]
            return tuple(rows.T) if rows.ndim > 1 else tuple(rows.tolist())
        try:
            parts = _tuple(self.inverse(IndexExpr(location)))
        except (TypeError, ValueError) as error:
            raise _only_a_table(error) from error
        return tuple(map(plain_index, parts))

    def where(self, sizes: Mapping[str, int]) -> GenP:
        if self._table is not None:
            return self
        dims = [extent for each in self.dims if isinstance(extent := placed(each, sizes), int)]
        if len(dims) < len(self.dims):
            raise CannotTabulate(f"{self} with numbers for {', '.join(sizes)}", required="a number for each size")
        made = IndexFunction(self.dims, self._formula).where(**sizes)
        table = {tuple(digits): int(made.at(digits)) for digits in np.ndindex(*dims)}
        inverse = {location: digits for digits, location in table.items()}
        return GenP(dims, lambda *digits: table[digits], inverse.__getitem__ if self.inverse is not None else None)

    def __repr__(self) -> str:
        return f"GenP([{','.join(map(str, self.dims))}], {getattr(self.function, '__name__', 'function')})"


def _only_a_table(error: Exception) -> CannotTabulate:
    return CannotTabulate(
        f"a GenP of functions of integers is tabulated: {error}",
        required="numbers, or functions that take index expressions (they use + - * // % only)",
    )


def _number(value: object, digits: tuple[int, ...]) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise LayoutError(f"GenP maps {digits} to {brief(value)}", required="a flat location, an integer")
    return int(value)


def _tuple(value: object) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def _digits_of(value: object, count: int) -> tuple[Any, ...]:
    parts = _tuple(value)
    if len(parts) != count:
        raise LayoutError(f"the inverse of a GenP returns {brief(value)}", required=f"{count} digits")
    return parts


def extents(dims: object) -> tuple[Extent, ...]:
    """Return the extents that a user's list denotes. Raises `LayoutError` if one is not positive."""
    if not isinstance(dims, Iterable) or isinstance(dims, str | bytes):
        raise LayoutError(f"the extents {brief(dims)}", required="a list of sizes")
    found = tuple(extent_of(extent) for extent in dims)
    for extent in found:
        if isinstance(extent, int) and extent < 1:
            raise LayoutError(f"an extent of {extent}", required="extents of at least 1")
    return found


def _listed(dims: tuple[object, ...]) -> tuple[Extent, ...]:
    return extents(dims[0] if len(dims) == 1 and isinstance(dims[0], list | tuple) else dims)
