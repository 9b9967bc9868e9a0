"""Layouts as relations between integers: what isl decides for every size, where it is installed.

A relation is kept between the digits of a function and its places. isl knows sums of sizes and digits with numbers for
coefficients, so extents may be symbolic, and strides and the extents that flat indices are split by are numbers. It is
asked last, under a bound on its operations: beyond it, and where it is not installed, what is asked stays unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Final

from atl.errors import WrongArgument, brief
from atl.prove import Answer, Proved, Unknown
from layouts.errors import NoLayout
from layouts.foundation.function import Function, need_function
from layouts.foundation.known import EMPTY, Known
from layouts.proofs.relation_text import written

MOST_OPERATIONS: Final = 400_000
"""So many operations isl may take for a question: some tenths of a second."""


class Relation:
    """The pairs of digits and places of a function, as isl's map `map`; digits may have any number of places.

    A digit for each leaf of the shape, a place that is an integer, or a coordinate along each axis. With `bits=True`,
    of functions that are linear over F2, a bit for each digit, lowest first. Relations are the value where no layout
    exists: unions, complements, replicas that overlap. Each operation is bounded.

    Raises `WrongArgument` where islpy is not installed, `NoLayout` where isl cannot write the function (products of two
    sizes are beyond it), or does not finish within its bound.

    >>> from layouts import Layout
    >>> rows, columns = Relation(Layout((4, 3), (3, 1))), Relation(Layout((4, 3), (1, 4)))
    >>> rows.count(), rows.intersect(columns).count(), rows.subtract(columns).witness()
    (12, 2, ({}, (0, 2), (2,)))
    >>> rows.reverse().compose(columns).places(5)
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
        """The relation that isl reads from a text: `[n] -> { [i, j] -> [i + j] : 0 <= i < n and 0 <= j < 4 }`."""
        _need_isl()
        return cls._made(_bounded(lambda isl: isl.Map(text)))

    @classmethod
    def _made(cls, pairs: Any) -> Relation:
        made = object.__new__(cls)
        made.function, made.known, made.map = None, EMPTY, pairs
        return made

    # -- operations ---------------------------------------------------------------------------------------------------

    def reverse(self) -> Relation:
        """The pairs the other way round."""
        return self._made(_bounded(lambda _: self.map.reverse()))

    def compose(self, outer: Relation) -> Relation:
        """outer ∘ this: from the digits of this one to the places of `outer`, whose digits are this one's places."""
        (_, outs), (ins, _) = _counts(self.map), _counts(_map(outer))
        if outs != ins:
            raise WrongArgument(
                f"a relation with places of {outs} numbers is composed with one of {ins} digits",
                required="as many digits as numbers in a place",
                suggestions=("Relation(composition(outer, inner)), of functions",),
            )
        return self._made(_bounded(lambda _: self.map.apply_range(_map(outer))))

    def union(self, other: Relation) -> Relation:
        """The pairs of either."""
        return self._made(_bounded(lambda _: self.map.union(self._like(other))))

    def intersect(self, other: Relation) -> Relation:
        """The pairs of both."""
        return self._made(_bounded(lambda _: self.map.intersect(self._like(other))))

    def subtract(self, other: Relation) -> Relation:
        """The pairs of this one that the other does not have."""
        return self._made(_bounded(lambda _: self.map.subtract(self._like(other))))

    def _like(self, other: Relation) -> Any:
        """The pairs of another relation, of as many digits, and numbers in a place."""
        (ins, outs), others = _counts(self.map), _counts(_map(other))
        if (ins, outs) != others:
            raise WrongArgument(
                f"a relation of {ins} digits, with places of {outs} numbers, beside one of {others[0]} and {others[1]}",
                required="as many of both",
            )
        return _map(other)

    def complement(self, below: int) -> Relation:
        """From each integer below this one that is no place, to itself: what the places leave out."""
        if type(below) is not int:
            raise WrongArgument(f"complement({brief(below)})", required="a number of places")

        def left(isl: Any) -> Any:
            return isl.Set(f"{{ [p] : 0 <= p < {below} }}").subtract(self.map.range()).identity()

        return self._made(_bounded(left))

    def section(self) -> Relation:
        """From each place to the least of its digits: a way back, where there is no inverse."""
        return self._made(_bounded(lambda _: self.map.reverse().lexmin()))

    # -- questions ----------------------------------------------------------------------------------------------------

    def is_injective(self) -> bool:
        """Whether no place belongs to two coordinates, for any sizes."""
        return bool(_bounded(lambda _: self.map.is_injective()))

    def is_single_valued(self) -> bool:
        """Whether no coordinate has two places, for any sizes."""
        return bool(_bounded(lambda _: self.map.is_single_valued()))

    def is_empty(self) -> bool:
        """Whether there are no pairs, for any sizes."""
        return bool(_bounded(lambda _: self.map.is_empty()))

    def is_equal(self, other: Relation) -> bool:
        """Whether both are the same pairs of digits and places; of functions on boxes of the same digits."""
        return bool(_bounded(lambda _: self.map.is_equal(_map(other))))

    def count(self) -> int:
        """How many pairs there are. Raises `NoLayout` where sizes have no numbers, or there is no end."""

        def number(isl: Any) -> Any:
            pairs = self.map.wrap()
            return None if self.map.dim(isl.dim_type.param) or not pairs.is_bounded() else pairs.count_val()

        found = _bounded(number)
        if found is None:
            raise NoLayout(f"{self.map} has no number of pairs", required="numbers for all sizes, and an end")
        return int(found.to_python())

    def witness(self) -> tuple[dict[str, int], tuple[int, ...], tuple[int, ...]] | None:
        """Numbers for sizes, digits, and a place of theirs; None where there are no pairs."""

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

    def places(self, *digits: int) -> list[tuple[int, ...]]:
        """All places of these digits, in order. Raises `NoLayout` where there are too many, or sizes."""
        if not all(type(digit) is int for digit in digits):
            raise WrongArgument(f"the digits {brief(digits)}", required="integers")

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
            raise NoLayout(f"the places of {digits} in {self.map}", required="digits of it, and numbers for all sizes")
        return made  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return str(self.map)


def _need_isl() -> None:
    if find_spec("islpy") is None:
        raise WrongArgument(
            "a relation needs isl, which is not installed",
            required="the package islpy",
            suggestions=("pip install 'atl-tensor[isl]'",),
        )


def _counts(pairs: Any) -> tuple[int, int]:
    """How many digits there are, and numbers in a place."""
    return _bounded(lambda isl: (pairs.dim(isl.dim_type.in_), pairs.dim(isl.dim_type.out)))  # type: ignore[no-any-return]


def _map(other: object) -> Any:
    if not isinstance(other, Relation):
        raise WrongArgument(f"{brief(other)} is no relation", required="a Relation")
    return other.map


def _bounded(operation: Callable[[Any], Any]) -> Any:
    """What isl answers within its bound, or its refusal as one of ours."""
    import islpy

    try:
        with bounded():
            return operation(islpy)
    except islpy.Error as error:
        reason = str(error).splitlines()[0] if str(error) else "no reason"
        raise NoLayout(
            f"isl does not answer: {reason}", required=f"what isl writes, within {MOST_OPERATIONS} operations"
        ) from error


@contextmanager
def bounded() -> Iterator[None]:
    """Within it isl takes so many operations and no more: it raises its own error beyond them."""
    import islpy

    context = islpy.DEFAULT_CONTEXT
    before = context.get_max_operations()
    context.reset_operations()
    context.set_max_operations(MOST_OPERATIONS)
    try:
        yield
    finally:
        context.set_max_operations(before)
        context.reset_operations()


def by_relation(question: Callable[[], bool], otherwise: Unknown) -> Answer:
    """Proved, where isl answers so; what was known before, where it does not, or is not installed."""
    if find_spec("islpy") is None:
        return otherwise
    try:
        return Proved("isl") if question() else otherwise
    except NoLayout:
        return otherwise
