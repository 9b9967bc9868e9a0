"""Relations between digits, flat indices and bits, of which the relation of a layout is composed.

The terms are those of the paper on integer set relations: the *natural* coordinate has a component for each digit, the
*integral* coordinate is the flat index, and the *binary* coordinate has a component for each bit of the flat index.
Indices are colexicographic and bits are lowest first, for all families of layouts.
"""

from __future__ import annotations

from atl.errors import InvalidArgument, brief
from layouts.errors import CannotTabulate, NoLayout
from layouts.foundation.function import Function, need_function
from layouts.foundation.layout import column_major
from layouts.foundation.tuples import Shape
from layouts.linear.conversion import as_linear
from layouts.linear.layout import MOST_BITS
from layouts.proofs.relation import Relation


def natural_to_integral(shape: Shape) -> Relation:
    """Return the relation from the digits of a shape to their flat index; the first digit moves fastest.

    Only the last extent may be symbolic, since isl requires strides that are numbers.

    >>> natural_to_integral((4, (2, 3)))
    { [i0, i1, i2] -> [p = i0 + 4i1 + 8i2] : 0 <= i0 <= 3 and 0 <= i1 <= 1 and 0 <= i2 <= 2 }
    >>> natural_to_integral((4, 3)).reverse().locations(7)
    [(3, 1)]
    """
    return Relation(column_major(shape))


def integral_to_binary(bits: int) -> Relation:
    """Return the relation from the indices below 2**bits to their bits, lowest first.

    >>> integral_to_binary(3).locations(6)
    [(0, 1, 1)]
    """
    if type(bits) is not int or not 0 <= bits <= MOST_BITS:
        raise InvalidArgument(f"integral_to_binary({brief(bits)})", required=f"a number of bits from 0 to {MOST_BITS}")
    names = [f"y{bit}" for bit in range(bits)]
    index = " + ".join(f"{1 << bit} {name}" for bit, name in enumerate(names)) or "0"
    holds = " and ".join([f"i = {index}", *(f"0 <= {name} <= 1" for name in names)])
    return Relation.of(f"{{ [i] -> [{', '.join(names)}] : {holds} }}")


def coordinate_maps(function: Function) -> dict[str, Relation]:
    """Return the relations of which the relation of a layout is composed, by name and in this order.

    A function that is linear over F2 goes from bits to bits: `natural_to_integral`, `integral_to_binary`, `binary`,
    `binary_to_integral`, and `integral_to_natural` where there are several coordinates. (A `LinearLayout` itself joins
    its coordinates to one integer, so its relation ends before the last step.) Any other function goes from the flat
    index to its location: `natural_to_integral`, `layout`. Raises `NoLayout` if isl cannot express one of them.

    >>> from layouts import Layout, Swizzle
    >>> coordinate_maps(Layout((3, 2), (2, 6)))["layout"]
    { [p] -> [p' = 2p] : 0 <= p <= 5 }
    >>> coordinate_maps(Swizzle(1, 0, 1))["binary"].locations(1, 1)
    [(0, 1)]
    """
    need_function(function)
    maps = {"natural_to_integral": natural_to_integral(function.box.extents)}
    try:
        linear = as_linear(function)
    except (NoLayout, CannotTabulate):
        return {**maps, "layout": maps["natural_to_integral"].reverse().compose(Relation(function))}
    outs = tuple(linear.out_dims.values())
    maps["integral_to_binary"] = integral_to_binary(len(linear.columns))
    maps["binary"] = Relation(linear, bits=True)
    maps["binary_to_integral"] = integral_to_binary(sum(size.bit_length() - 1 for size in outs)).reverse()
    if len(outs) > 1:
        maps["integral_to_natural"] = natural_to_integral(outs).reverse()
    return maps
