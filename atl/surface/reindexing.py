"""Reindexings: maps from elements of a tensor to storage positions, with inverses that prove the maps injective.

A position is a tuple of digits, each with an extent; one lemma shows that different digits have different flat
addresses. `inverse(to(x)) = x` is an equation for each dimension, which is easier to prove than injectivity, a
statement about two elements.
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
    """A storage layout: a function from the shape of a tensor to its reindexing."""

    def stored(self, shape: tuple[Index, ...], *, copies: bool = False) -> Reindexing:
        """Return the reindexing for a shape. With `copies`, elements may share a position, and no inverse is needed."""


@dataclass(frozen=True, slots=True)
class Packing:
    """Storage of segments one after the other: (key, position) is at start(key) + position, position < length(key).

    `places` is the total number of positions. Both functions are formulas over a key.
    """

    start: Callable[[Any], Any]
    length: Callable[[Any], Any]
    places: Index

    def at(self, key: Index, position: Index) -> Index:
        """Return the address of a position of a segment."""
        return as_index(self.start(IndexExpr(key))) + position

    def contains(self, key: Index, position: Index) -> Predicate:
        """Return the condition that the segment contains this position."""
        return within(ZERO, position, self.count(key))

    def disjoint(self, one: Index, other: Index) -> Predicate:
        """Return the condition that segment `one` ends before segment `other` starts."""
        return at_most(self.at(one, self.count(one)), self.at(other, ZERO))

    def count(self, key: Index) -> Index:
        """Return the length of a segment."""
        return as_index(self.length(IndexExpr(key)))


@dataclass(frozen=True, slots=True)
class Reindexing:
    """A map `to` from the indices of a tensor of `shape` to positions with extents `places`; `inverse(to(x)) = x`.

    `to` takes one index for each dimension of the shape and returns one for each of `places`; `inverse` does the
    opposite. Both are formulas over index expressions. A tensor that is only read needs no `inverse`, and its elements
    may share positions. With a `packing`, positions have two digits, a key and a position in the key's segment.
    """

    shape: tuple[Index, ...]
    places: tuple[Index, ...]
    to: Callable[..., Sequence[Any]]
    inverse: Callable[..., Sequence[Any]] | None
    packing: Packing | None = None

    def __post_init__(self) -> None:
        for extents in (self.shape, self.places):
            if not isinstance(extents, tuple) or any(not isinstance(extent, Index) for extent in extents):
                raise InvalidArgument(f"{brief(extents)} are not extents", required="a tuple of index expressions")
        if not callable(self.to) or not (self.inverse is None or callable(self.inverse)):
            raise InvalidArgument(
                f"{brief(self.inverse if callable(self.to) else self.to)} is not a function",
                required="formulas: functions of indices that give indices",
            )
        if self.packing is not None and (not isinstance(self.packing, Packing) or len(self.places) != 2):
            raise InvalidArgument(
                f"{len(self.places)} digits of a position in {brief(self.packing)}",
                required="a Packing, and two digits: a key and a position",
            )

    def flat(self) -> Reindexing:
        """Return the reindexing to flat addresses. For segments it has no inverse."""
        packing = self.packing
        if packing is None:
            return self

        @wraps(self.to)
        def to(*at: IndexExpr) -> tuple[Index]:
            key, position = self.place([x.node for x in at])
            return (packing.at(key, position),)

        return Reindexing(self.shape, (packing.places,), to, None)

    def place(self, at: Sequence[Index]) -> tuple[Index, ...]:
        """Return the position of the element at these indices."""
        return _applied(self.to, "to", at, len(self.places))

    def origin(self, at: Sequence[Index]) -> tuple[Index, ...]:
        """Return the indices of the element at this position, if there is one."""
        if self.inverse is None:
            raise InvalidArgument("a layout without an inverse", required="inverse=, which maps a place to its element")
        return _applied(self.inverse, "inverse", at, len(self.shape))

    def hit(self, at: Sequence[Index]) -> Predicate:
        """Return the condition that an element is at this position: the inverse is in range, and `to` inverts it."""
        origin = self.origin(at)
        inside = [within(ZERO, x, extent) for x, extent in zip(origin, self.shape, strict=True)]
        there = [equal(p, q) for p, q in zip(at, self.place(origin), strict=True)]
        return conjunction([*inside, *there])

    @property
    def names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names that `to` uses for indices of the tensor, and `inverse` for digits of positions."""
        return _names(self.to, "i", len(self.shape)), _names(self.inverse, "p", len(self.places))


def _applied(function: Callable[..., Sequence[Any]], name: str, at: Sequence[Index], count: int) -> tuple[Index, ...]:
    try:
        found = function(*map(IndexExpr, at))
    except TypeError as error:
        raise InvalidArgument(
            f"{name} cannot be called with {len(at)} index expressions: {error}",
            required=f"a formula: a function of {len(at)} indices",
        ) from error
    if not isinstance(found, tuple | list) or len(found) != count:
        raise InvalidArgument(f"{name} returns {brief(found)}", required=f"a tuple of {count} indices")
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
