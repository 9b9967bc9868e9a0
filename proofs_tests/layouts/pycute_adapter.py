"""The names that pycute's tests use, over our layouts; functions on nested tuples are defined here."""

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


class _IntegerMeta(ABCMeta):
    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, int) and subclass is not bool

    def __instancecheck__(cls, instance: object) -> bool:
        return cls.__subclasscheck__(type(instance))


class Integer(metaclass=_IntegerMeta):
    """The class of integers without Booleans."""


def size(value: Any) -> Any:
    """Return the number of elements of a layout or a shape."""
    return value.size if isinstance(value, Layout) else product(value)


def inner_product(a: Any, b: Any) -> int:
    """Return the sum of the products of corresponding leaves."""
    return sum(map(inner_product, a, b)) if isinstance(a, tuple) else int(a * b)


def prefix_product(shape: Any) -> Any:
    """Return for each leaf the product of all earlier ones: compact strides."""
    return compact(shape)


def shape_div(shape: Any, by: int) -> Any:
    """Divide the extents by `by`, first extent first, rounding up."""
    left: list[int] = []
    for extent in leaves(shape):
        left.append(-(-extent // by))
        by = -(-by // extent)
    return like(shape, iter(left))
