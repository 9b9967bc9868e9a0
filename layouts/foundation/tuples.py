"""Nested tuples (§6.2): a shape, a stride or a coordinate is a leaf or a tuple of nested tuples.

Two are *congruent* if they have the same nesting. A tuple is *compatible* with another if each of its leaves has as
many elements as the part of the other in its position. Then each of its coordinates is also a coordinate of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, TypeVar

from atl.core.index import Index
from atl.errors import InvalidArgument, brief
from atl.surface.values import IndexExpr, as_index

Extent: TypeAlias = int | Index
"""A number of elements: an integer, or an index expression over sizes."""

T = TypeVar("T")
U = TypeVar("U")
Nested: TypeAlias = T | tuple["Nested[T]", ...]
Shape: TypeAlias = Nested[Extent]


def extent_of(value: object) -> Extent:
    """Return the extent, stride or index that a user's value denotes; an integer if it is constant."""
    if type(value) is int:
        return value
    node = as_index(value)
    known = node.constant
    return node if known is None else known


def plain_index(value: Any) -> Any:
    """Return the result of a formula with surface expressions unwrapped; numbers and arrays are kept."""
    return value.node if isinstance(value, IndexExpr) else value


def leaves(tree: Any) -> Iterator[Any]:
    """Return the leaves, from left to right."""
    if isinstance(tree, tuple):
        for part in tree:
            yield from leaves(part)
    else:
        yield tree


def like(profile: Nested[T], values: Iterator[U]) -> Nested[U]:
    """Return the values, nested like the profile."""
    if isinstance(profile, tuple):
        return tuple(like(part, values) for part in profile)
    return next(values)


def mapped(function: Callable[[Any], U], tree: Any) -> Nested[U]:
    """Return the function applied to every leaf."""
    return tuple(mapped(function, part) for part in tree) if isinstance(tree, tuple) else function(tree)


def as_nested(value: object, leaf: Callable[[object], U]) -> Nested[U]:
    """Return the user's nested value with lists turned into tuples and every leaf checked."""
    if isinstance(value, tuple | list):
        try:
            return tuple(as_nested(part, leaf) for part in value)
        except RecursionError:
            raise InvalidArgument("the shape is nested too deeply", required="fewer levels") from None
    return leaf(value)


def modes_of(tree: Any) -> tuple[Any, ...]:
    """Return the top-level modes: the parts of a tuple, or the leaf itself."""
    return tree if isinstance(tree, tuple) else (tree,)


def rank(tree: Nested[T]) -> int:
    """Return the number of top-level modes."""
    return len(tree) if isinstance(tree, tuple) else 1


def depth(tree: Nested[T]) -> int:
    """Return the depth of nesting; 0 for a leaf."""
    return 1 + max((depth(part) for part in tree), default=0) if isinstance(tree, tuple) else 0


def product(tree: Shape) -> Extent:
    """Return the number of elements of a shape."""
    if not isinstance(tree, tuple):
        return tree
    total: Extent = 1
    for part in tree:
        total = total * product(part)
    return total


def congruent(a: Nested[T], b: Nested[U]) -> bool:
    """Return whether both have the same nesting."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(congruent(x, y) for x, y in zip(a, b, strict=True))
    return not isinstance(a, tuple) and not isinstance(b, tuple)


def weakly_congruent(a: Nested[T], b: Nested[U]) -> bool:
    """Return whether b is nested like a or deeper: a leaf of a matches anything."""
    if not isinstance(a, tuple):
        return True
    return isinstance(b, tuple) and len(a) == len(b) and all(map(weakly_congruent, a, b))


def compatible(a: Shape, b: Shape) -> bool:
    """Return whether each leaf of a has as many elements as the part of b in its position: b refines a.

    >>> compatible((6, 20), ((2, 3), 20)), compatible((2, 60), ((2, 3), 20))
    (True, False)
    """
    a, b = as_nested(a, extent_of), as_nested(b, extent_of)
    if not isinstance(a, tuple):
        return a == product(b)
    return isinstance(b, tuple) and len(a) == len(b) and all(map(compatible, a, b))


def weakly_compatible(a: Shape, b: Shape) -> bool:
    """Return whether each leaf of a divides the size of the part of b in its position."""
    a, b = as_nested(a, extent_of), as_nested(b, extent_of)
    if not isinstance(a, tuple):
        whole = product(b)
        return whole == a or (isinstance(whole, int) and isinstance(a, int) and whole % a == 0)
    return isinstance(b, tuple) and len(a) == len(b) and all(map(weakly_compatible, a, b))


def common_refinement(a: Shape, b: Shape) -> Shape | None:
    """Return the coarsest shape that refines both, or None if neither nesting refines the other.

    >>> common_refinement(((2, 3), 20), (6, (4, 5)))
    ((2, 3), (4, 5))
    >>> common_refinement((2, (3, 5)), ((3, 2), 5)) is None
    True
    """
    a, b = as_nested(a, extent_of), as_nested(b, extent_of)
    if not isinstance(a, tuple):
        return b if a == product(b) else None
    if not isinstance(b, tuple):
        return a if b == product(a) else None
    if len(a) != len(b):
        return None
    parts: list[Shape] = []
    for x, y in zip(a, b, strict=True):
        if (both := common_refinement(x, y)) is None:
            return None
        parts.append(both)
    return tuple(parts)


def common_coarsening(a: Shape, b: Shape) -> Shape | None:
    """Return the finest shape that both refine, or None if they have different sizes.

    >>> common_coarsening(((2, 3), 4), ((3, 2), 4)), common_coarsening((2, (3, 5)), ((3, 2), 5))
    ((6, 4), 30)
    """
    a, b = as_nested(a, extent_of), as_nested(b, extent_of)
    if product(a) != product(b):
        return None
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        parts = tuple(common_coarsening(x, y) for x, y in zip(a, b, strict=True))
        whole = tuple(part for part in parts if part is not None)
        if len(whole) == len(parts):
            return whole
    return product(a)


def shown(tree: object) -> str:
    """Return a nested tuple as CuTe prints it, without spaces."""
    return f"({','.join(map(shown, tree))})" if isinstance(tree, tuple) else str(tree)


def need_congruent(a: Nested[T], b: Nested[U], what: str) -> None:
    """Raise `LayoutError` if the two have different nesting."""
    if not congruent(a, b):
        raise InvalidArgument(
            f"{what}: {brief(shown(a))} and {brief(shown(b))} are nested differently",
            required="the same nesting",
        )
