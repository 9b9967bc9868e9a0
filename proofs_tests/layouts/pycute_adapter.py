"""The names that pycute's tests use, over our layouts: what `from pycute import *` would give them.

Functions on nested tuples of integers are pycute's own vocabulary, so they are written here, from what they mean.
"""

from __future__ import annotations

from abc import ABCMeta
from typing import Any

import layouts
from layouts.foundation.layout import compact
from layouts.foundation.tuples import leaves, like, product

__all__ = [
    "Integer", "Layout", "coalesce", "complement", "composition", "inner_product", "left_inverse", "prefix_product",
    "product", "right_inverse", "shape_div", "size",
]  # fmt: skip

coalesce, composition = layouts.coalesce, layouts.composition
complement, left_inverse, right_inverse = layouts.complement, layouts.left_inverse, layouts.right_inverse
Layout = layouts.Layout
"""The same functions under the same names."""


class _IntegerMeta(ABCMeta):
    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, int) and subclass is not bool

    def __instancecheck__(cls, instance: object) -> bool:
        return cls.__subclasscheck__(type(instance))


class Integer(metaclass=_IntegerMeta):
    """Of this class are integers, and Booleans are not."""


def size(value: Any) -> Any:
    """The number of places of a layout, or of a shape."""
    return value.size if isinstance(value, Layout) else product(value)


def inner_product(a: Any, b: Any) -> int:
    """The sum of the products of leaves that stand in one place."""
    return sum(map(inner_product, a, b)) if isinstance(a, tuple) else int(a * b)


def prefix_product(shape: Any) -> Any:
    """For each leaf the product of all before it: the strides of a compact layout."""
    return compact(shape)


def shape_div(shape: Any, by: int) -> Any:
    """What is left of each extent when groups of so many places become one, from the first extent on."""
    left: list[int] = []
    for extent in leaves(shape):
        left.append(-(-extent // by))
        by = -(-by // extent)
    return like(shape, iter(left))
