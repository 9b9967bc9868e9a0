"""Layouts as integer relations, decided for all sizes by isl (optional).

A relation is between the digits of a function and its locations. isl accepts sums of sizes and digits with constant
coefficients. So extents may be symbolic, but strides and the extents by which flat indices are split must be numbers.
isl is tried last, with a bound on its operations. Beyond the bound, or if isl is not installed, the answer is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Final

from atl.core.index import Index, constant, size
from atl.errors import InvalidArgument, brief
from atl.prove import Answer, Proved, Unknown
from layouts.errors import NoLayout
from layouts.foundation.facts import EMPTY, Known
from layouts.foundation.function import Function, need_function
from layouts.foundation.layout import Layout
from layouts.foundation.tuples import extent_of
from layouts.linear.layout import LinearLayout
from layouts.proofs.isl_notation import written
from layouts.proofs.layout_of_pairs import NoneExists, layout_of_pairs

MAX_PAIRS: Final = 1 << 16
"""Largest number of pairs of a relation for which a layout is found."""
MAX_OPERATIONS: Final = 400_000
"""Bound on isl's operations for one question, some tenths of a second."""


class Relation:
    """The relation between the digits and locations of a function, as the isl map `map`; it may be multivalued.

    There is a digit for each leaf of the shape. A location is an integer, or a coordinate along each axis. With
    `bits=True`, for functions that are linear over F2, each bit is a digit, lowest first. Relations can express values
    that are not layouts: unions, complements, overlapping replicas. Each operation is bounded.

    Raises `InvalidArgument` if islpy is not installed, and `NoLayout` if isl cannot express the function (for instance
    a product of two sizes) or exceeds its bound.

    >>> from layouts import Layout
    >>> rows, columns = Relation(Layout((4, 3), (3, 1))), Relation(Layout((4, 3), (1, 4)))
    >>> rows.count(), rows.intersect(columns).count(), rows.subtract(columns).witness()
    (12, 2, ({}, (0, 2), (2,)))
    >>> rows.reverse().compose(columns).locations(5)
    [(9,)]
    """

    __slots__ = ("function", "known", "map")

    def __init__(self, function: Function, *, known: Known | None = None, bits: bool = False) -> None:
        _need_isl()
        need_function(function)
        self.function: Function | None = function
        self.known = function.known if known is None else known
        self.map: Any = _bounded(lambda isl: isl.Map(written(function, self.known, bits=bits)))

    @classmethod
    def of(cls, text: str) -> Relation:
        """Parse a relation in isl's notation: `[n] -> { [i, j] -> [i + j] : 0 <= i < n and 0 <= j < 4 }`."""
        _need_isl()
        if not isinstance(text, str):
            raise InvalidArgument(f"{brief(text)} is not a string", required="a relation in isl's notation")
        return cls._made(_bounded(lambda isl: isl.Map(text)))

    @classmethod
    def _made(cls, pairs: Any) -> Relation:
        made = object.__new__(cls)
        made.function, made.known, made.map = None, EMPTY, pairs
        return made

    # -- operations ---------------------------------------------------------------------------------------------------

    def reverse(self) -> Relation:
        """Return the converse relation, from locations to digits."""
        return self._made(_bounded(lambda _: self.map.reverse()))

    def compose(self, outer: Relation) -> Relation:
        """Return the composition outer ∘ this; the locations of this relation are the digits of `outer`."""
        (_, outs), (ins, _) = _counts(self.map), _counts(_map(outer))
        if outs != ins:
            raise InvalidArgument(
                f"cannot compose: the inner locations have {outs} components, the outer digits {ins}",
                required="as many outer digits as components of an inner location",
                suggestions=("Relation(composition(outer, inner)), of functions",),
            )
        return self._made(_bounded(lambda _: self.map.apply_range(_map(outer))))

    def union(self, other: Relation) -> Relation:
        """Return the pairs of either relation."""
        return self._made(_bounded(lambda _: self.map.union(self._like(other))))

    def intersect(self, other: Relation) -> Relation:
        """Return the pairs of both relations."""
        return self._made(_bounded(lambda _: self.map.intersect(self._like(other))))

    def subtract(self, other: Relation) -> Relation:
        """Return the pairs of this relation that are not in the other."""
        return self._made(_bounded(lambda _: self.map.subtract(self._like(other))))

    def _like(self, other: Relation) -> Any:
        """Return the pairs of another relation, checked to have the same numbers of digits and of components."""
        (ins, outs), others = _counts(self.map), _counts(_map(other))
        if (ins, outs) != others:
            raise InvalidArgument(
                f"cannot combine: {ins} digits and {outs} location components, with {others[0]} and {others[1]}",
                required="the same numbers for both",
            )
        return _map(other)

    def complement(self, below: int) -> Relation:
        """Return the identity on the integers below `below` that are not locations."""
        if type(below) is not int:
            raise InvalidArgument(f"complement({brief(below)})", required="a number of locations")

        def left(isl: Any) -> Any:
            return isl.Set(f"{{ [p] : 0 <= p < {below} }}").subtract(self.map.range()).identity()

        return self._made(_bounded(left))

    def section(self) -> Relation:
        """Return the map from each location to the smallest of its digits, also if the function is not injective."""
        return self._made(_bounded(lambda _: self.map.reverse().lexmin()))

    # -- questions ----------------------------------------------------------------------------------------------------

    def is_injective(self) -> bool:
        """Return whether no location belongs to two tuples of digits, for all sizes."""
        return bool(_bounded(lambda _: self.map.is_injective()))

    def is_single_valued(self) -> bool:
        """Return whether no tuple of digits has two locations, for all sizes."""
        return bool(_bounded(lambda _: self.map.is_single_valued()))

    def is_empty(self) -> bool:
        """Return whether it is empty, for all sizes."""
        return bool(_bounded(lambda _: self.map.is_empty()))

    def is_equal(self, other: Relation) -> bool:
        """Return whether both relations have the same pairs.

        Functions are equal only if their boxes have the same digits.
        """
        return bool(_bounded(lambda _: self.map.is_equal(_map(other))))

    def count(self) -> int:
        """Return the number of pairs. Raises `NoLayout` if sizes are symbolic or the number is infinite."""

        def number(isl: Any) -> Any:
            pairs = self.map.wrap()
            return None if self.map.dim(isl.dim_type.param) or not pairs.is_bounded() else pairs.count_val()

        found = _bounded(number)
        if found is None:
            raise NoLayout(
                f"the number of pairs is symbolic or infinite: {self.map}",
                required="numbers for all sizes, and a bounded relation",
            )
        return int(found.to_python())

    def witness(self) -> tuple[dict[str, int], tuple[int, ...], tuple[int, ...]] | None:
        """Return numbers for sizes, digits, and a location of these digits; None if the relation is empty."""

        def one(isl: Any) -> Any:
            kinds = (isl.dim_type.param, isl.dim_type.in_, isl.dim_type.out)
            sizes, ins, outs = map(self.map.dim, kinds)
            point = self.map.wrap().sample_point()
            if point.is_void():
                return None
            names = [self.map.get_dim_name(isl.dim_type.param, k) for k in range(sizes)]
            held = [point.get_coordinate_val(isl.dim_type.param, k).to_python() for k in range(sizes)]
            rest = [point.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(ins + outs)]
            return dict(zip(names, held, strict=True)), tuple(rest[:ins]), tuple(rest[ins:])

        return _bounded(one)  # type: ignore[no-any-return]

    def locations(self, *digits: int) -> list[tuple[int, ...]]:
        """Return all locations of these digits, in order. Raises `NoLayout` if they are too many or symbolic."""
        if not all(type(digit) is int for digit in digits):
            raise InvalidArgument(f"the digits {brief(digits)}", required="integers")

        def found(isl: Any) -> Any:
            if self.map.dim(isl.dim_type.in_) != len(digits) or self.map.dim(isl.dim_type.param):
                return None
            at = isl.Set(f"{{ [{', '.join(map(str, digits))}] }}")
            points: list[tuple[int, ...]] = []
            image = at.apply(self.map)
            if image.is_bounded():
                width = image.dim(isl.dim_type.set)
                image.foreach_point(
                    lambda p: points.append(
                        tuple(p.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(width))
                    )
                )
                return sorted(points)
            return None

        made = _bounded(found)
        if made is None:
            raise NoLayout(
                f"too many or symbolic locations: those of {digits} in {self.map}",
                required="digits in its domain, numbers for all sizes",
            )
        return made  # type: ignore[no-any-return]

    # -- layouts ------------------------------------------------------------------------------------------------------

    def layout(self) -> Layout | LinearLayout | NoneExists:
        """Return a layout with the pairs of this relation: a mode or several for each digit, or a matrix over F2.

        `NoneExists` states the reason why neither exists: the relation is empty or not a function of a box of digits,
        or the location of some digits is not the sum of strides, and not the exclusive or of the images of their bits.
        All pairs are compared. With symbolic sizes only a layout with a stride for each digit is found, and is compared
        for all sizes that have pairs. Raises `NoLayout` if none is found for symbolic sizes, if locations are
        coordinates, and if there are more than `MAX_PAIRS` pairs.

        >>> from layouts import Layout, Swizzle
        >>> Relation(Layout(32, 1)).layout(), Relation(Layout((4, 3), (3, 1)), known=None).layout()
        (32:1, (4,3):(3,1))
        >>> swizzled = Relation(Layout(32, 1)).compose(Relation(Swizzle(2, 0, 3))).layout()
        >>> type(swizzled).__name__, swizzled(8)
        ('LinearLayout', 9)
        >>> print(Relation.of("{ [i] -> [i] : 1 <= i < 4 }").layout())
        none exists: 3 of the 4 tuples of digits below (4) have a location
        """
        symbolic = _bounded(lambda isl: self.map.dim(isl.dim_type.param))
        return self._layout_of_sizes() if symbolic else layout_of_pairs(self._pairs())

    def _layout_of_sizes(self) -> Layout:
        """Return the layout with a stride for each digit that has the same pairs, for all sizes that have pairs."""
        ins, outs = _counts(self.map)

        def largest(isl: Any) -> Any:
            zeros = [0] * ins
            points = [zeros, *([*zeros[:k], 1, *zeros[k + 1 :]] for k in range(ins))]
            free = self.map.gist_params(self.map.params())  # without the facts about sizes
            at, box = [isl.Set(f"{{ {point} }}").apply(free) for point in points], free.domain()
            extents = [_affine(isl, box.dim_max(k)) for k in range(ins)]
            return extents, [None if each.is_empty() else _affine(isl, each.dim_max(0)) for each in at]

        extents, places = _bounded(largest) if outs == 1 else ([None], [None])
        shape = [extent_of(extent + 1) for extent in extents if extent is not None]
        if places[0] is not None and len(shape) == ins:
            strides = [0 if each is None else extent_of(each - places[0]) for each in places[1:]]
            one = ins == 1
            made = Layout(
                shape[0] if one else tuple(shape), strides[0] if one else tuple(strides), offset=extent_of(places[0])
            )
            theirs = Relation(made).map
            if _bounded(lambda _: theirs.intersect_params(self.map.params()).is_equal(self.map)):
                return made
        raise NoLayout(
            f"no layout is found for {self} with symbolic sizes",
            required="a location with a stride for each digit, or numbers for all sizes",
        )

    def _pairs(self) -> list[tuple[tuple[int, ...], int]]:
        """Return all digits with their location."""
        (ins, outs), count = _counts(self.map), self.count()
        if outs != 1 or count > MAX_PAIRS:
            raise NoLayout(
                f"{count} pairs with {outs} components of a location",
                required=f"one component, and at most {MAX_PAIRS} pairs",
            )

        def pairs(isl: Any) -> Any:
            found: list[tuple[int, ...]] = []
            self.map.wrap().foreach_point(
                lambda p: found.append(
                    tuple(p.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(ins + outs))
                )
            )
            return found

        return [(at[:ins], at[ins]) for at in _bounded(pairs)]

    def __repr__(self) -> str:
        return str(self.map)


def _affine(isl: Any, value: Any) -> Index | None:
    """Return the sum of sizes that a piecewise function of sizes is, or None if it is not one."""
    pieces = value.coalesce().get_pieces()
    if len(pieces) != 1 or not pieces[0][1].get_denominator_val().is_one() or pieces[0][1].dim(isl.dim_type.div):
        return None
    form = pieces[0][1]
    total = constant(form.get_constant_val().to_python())
    for k in range(form.dim(isl.dim_type.param)):
        factor = form.get_coefficient_val(isl.dim_type.param, k).to_python()
        total = total + factor * size(form.get_dim_name(isl.dim_type.param, k))
    return total


def _need_isl() -> None:
    if find_spec("islpy") is None:
        raise InvalidArgument(
            "a relation needs isl, which is not installed",
            required="the package islpy",
            suggestions=("pip install 'atl-tensor[isl]'",),
        )


def _counts(pairs: Any) -> tuple[int, int]:
    """Return the number of digits, and of components of a location."""
    return _bounded(lambda isl: (pairs.dim(isl.dim_type.in_), pairs.dim(isl.dim_type.out)))  # type: ignore[no-any-return]


def _map(other: object) -> Any:
    if not isinstance(other, Relation):
        raise InvalidArgument(f"{brief(other)} is not a relation", required="a Relation")
    return other.map


def _bounded(operation: Callable[[Any], Any]) -> Any:
    """Return the result of an isl operation within the bound; errors of isl become `NoLayout`."""
    import islpy

    try:
        with bounded():
            return operation(islpy)
    except islpy.Error as error:
        reason = str(error).splitlines()[0] if str(error) else "unknown reason"
        raise NoLayout(
            f"isl failed: {reason}", required=f"a relation that isl can express, within {MAX_OPERATIONS} operations"
        ) from error


@contextmanager
def bounded() -> Iterator[None]:
    """Return a context in which isl raises its own error after `MAX_OPERATIONS` operations."""
    import islpy

    context = islpy.DEFAULT_CONTEXT
    before = context.get_max_operations()
    context.reset_operations()
    context.set_max_operations(MAX_OPERATIONS)
    try:
        yield
    finally:
        context.set_max_operations(before)
        context.reset_operations()


def by_relation(question: Callable[[], bool], otherwise: Unknown) -> Answer:
    """Return `Proved` if isl answers yes; otherwise, or if isl is not installed, return the given answer."""
    if find_spec("islpy") is None:
        return otherwise
    try:
        return Proved("isl") if question() else otherwise
    except NoLayout:
        return otherwise
