"""Reindexings: where each element of a tensor goes in another one, with the way back that proves that no two meet.

No question is about a flat place: places have digits, each with an extent, and that flat addresses differ where these
do is one lemma. `back(to(x)) = x` is then an equation for each dimension, where two copies of the indices are a search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, signature
from typing import Any, Protocol

from atl.core.index import ZERO, Index
from atl.core.predicate import Predicate, at_most, conjunction, equal, within
from atl.errors import InvalidArgument, brief
from atl.surface.values import IndexExpr, as_index


class Arrangement(Protocol):
    """Where the elements of a tensor of a given shape are to be stored, as a function of that shape."""

    def stored(self, shape: tuple[Index, ...], *, copies: bool = False) -> Reindexing:
        """The places, and the way back from them; with `copies`, elements may share a place, and none is needed."""


@dataclass(frozen=True, slots=True)
class Packing:
    """Places (key, position) in segments, packed: at start(key) + position, for position < length(key).

    There are `places` of them in all. Both functions are formulas over a key.
    """

    start: Callable[[Any], Any]
    length: Callable[[Any], Any]
    places: Index

    def at(self, key: Index, position: Index) -> Index:
        """Where the element at this position of a segment is."""
        return as_index(self.start(IndexExpr(key))) + position

    def inside(self, key: Index, position: Index) -> Predicate:
        """That the segment has this position."""
        return within(ZERO, position, self.count(key))

    def apart(self, one: Index, other: Index) -> Predicate:
        """That the one segment ends where the other begins, or before."""
        return at_most(self.at(one, self.count(one)), self.at(other, ZERO))

    def count(self, key: Index) -> Index:
        """How many elements a segment has."""
        return as_index(self.length(IndexExpr(key)))


@dataclass(frozen=True, slots=True)
class Reindexing:
    """The element at x of a tensor of `shape` is at `to(x)` in one of the extents `places`; `back(to(x)) = x`.

    `to` takes an index for each dimension of the shape and gives one for each of the places; `back` the other way.
    Both are formulas over index expressions. Where a tensor is only read, elements may share a place, without a `back`.
    With a `packing` the places have two digits, a key and a position, and are kept in segments one after the other.
    """

    shape: tuple[Index, ...]
    places: tuple[Index, ...]
    to: Callable[..., Sequence[Any]]
    back: Callable[..., Sequence[Any]] | None
    packing: Packing | None = None

    def __post_init__(self) -> None:
        for extents in (self.shape, self.places):
            if not isinstance(extents, tuple) or any(not isinstance(extent, Index) for extent in extents):
                raise InvalidArgument(f"{brief(extents)} are no extents", required="a tuple of index expressions")
        if not callable(self.to) or not (self.back is None or callable(self.back)):
            raise InvalidArgument(
                f"{brief(self.back if callable(self.to) else self.to)} is no function",
                required="formulas: functions of indices that give indices",
            )
        if self.packing is not None and (not isinstance(self.packing, Packing) or len(self.places) != 2):
            raise InvalidArgument(
                f"{len(self.places)} digits of a place in {brief(self.packing)}",
                required="a Packing, and two digits: a key and a position",
            )

    def flat(self) -> Reindexing:
        """The same as it lies in memory: of segments, at start(key) + position, to which no way back is known."""
        packing = self.packing
        if packing is None:
            return self

        @wraps(self.to)
        def to(*at: IndexExpr) -> tuple[Index]:
            key, position = self.place([x.node for x in at])
            return (packing.at(key, position),)

        return Reindexing(self.shape, (packing.places,), to, None)

    def place(self, at: Sequence[Index]) -> tuple[Index, ...]:
        """Where the element at these indices goes."""
        return _applied(self.to, "to", at, len(self.places))

    def origin(self, at: Sequence[Index]) -> tuple[Index, ...]:
        """Which element is at this place, where one is."""
        if self.back is None:
            raise InvalidArgument(
                "a layout without a way back", required="back=, which leads from a place to its element"
            )
        return _applied(self.back, "back", at, len(self.shape))

    def hit(self, at: Sequence[Index]) -> Predicate:
        """Whether an element is at this place: that which the way back names is within the tensor, and goes there."""
        origin = self.origin(at)
        inside = [within(ZERO, x, extent) for x, extent in zip(origin, self.shape, strict=True)]
        there = [equal(p, q) for p, q in zip(at, self.place(origin), strict=True)]
        return conjunction([*inside, *there])

    @property
    def names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What `to` calls the indices of the tensor, and `back` those of the places."""
        return _names(self.to, "i", len(self.shape)), _names(self.back, "p", len(self.places))


def _applied(function: Callable[..., Sequence[Any]], name: str, at: Sequence[Index], count: int) -> tuple[Index, ...]:
    try:
        found = function(*map(IndexExpr, at))
    except TypeError as error:
        raise InvalidArgument(
            f"{name} cannot be called with {len(at)} index expressions: {error}",
            required=f"a function of {len(at)} indices, a formula over them",
        ) from error
    if not isinstance(found, tuple | list) or len(found) != count:
        raise InvalidArgument(f"{name} gives {brief(found)}", required=f"a tuple of {count} indices")
    return tuple(as_index(part) for part in found)


def _names(function: Callable[..., object] | None, letter: str, count: int) -> tuple[str, ...]:
    try:
        parameters = [] if function is None else list(signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    plain = [
        each.name for each in parameters if each.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    ]
    return tuple(plain) if len(plain) == count else tuple(f"{letter}{k}" for k in range(count))
