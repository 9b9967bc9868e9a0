"""What strides may be made of (§6.6): integers, coordinates, and integers that add without carries.

A layout needs of its strides that they can be added and multiplied by a digit, no more. So integers are strides, tuples
of integers are (a value is then a coordinate), and polynomials over F2, written as integers: their addition is
exclusive or, their multiplication the one without carries.

The laws of Fig. 6.3 are stated over a semiring of coordinates (erratum E35: polynomials over F2 are no module over the
*integers*; two times a stride is not the stride added to itself). It is Z for the first two, F2[x] for the third, which
reads the digit 5 as x² + 1. `layouts.foundation.laws` tries every law on samples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from atl.core.index import Index
from atl.errors import WrongArgument, brief
from atl.surface.values import IndexExpr
from layouts.foundation.tuples import Extent, extent_of

Array: TypeAlias = NDArray[Any]
MACHINE: Final = 2**62
"""Up to here values are machine integers in tables; beyond, Python's."""


@dataclass(frozen=True, slots=True, init=False)
class Coordinate:
    """A tuple of integers that adds and scales place by place; trailing zeros say nothing. A size stands on the right:
    `E(1) * n`.

    >>> 3 * E(0) + 2 * E(2)
    (3,0,2)
    >>> tuple(E(1)), (4 * E(0))[0], E(1) + 0 == E(1)
    ((0, 1), 4, True)
    """

    parts: tuple[Extent, ...]

    def __init__(self, parts: tuple[Extent, ...]) -> None:
        if not isinstance(parts, tuple | list):
            raise WrongArgument(f"Coordinate({brief(parts)})", required="a tuple of integers, one for each axis")
        parts = tuple(part if type(part) is int else extent_of(part) for part in parts)
        kept = len(parts)
        while kept and parts[kept - 1] == 0:
            kept -= 1
        object.__setattr__(self, "parts", parts[:kept])

    def __add__(self, other: Coordinate | int) -> Coordinate:
        if isinstance(other, int) and other == 0:
            return self
        if not isinstance(other, Coordinate):
            return NotImplemented
        return Coordinate(tuple(self[k] + other[k] for k in range(max(len(self.parts), len(other.parts)))))

    __radd__ = __add__

    def __mul__(self, other: Extent | IndexExpr) -> Coordinate:
        if not isinstance(other, int | Index | IndexExpr):
            return NotImplemented
        factor = extent_of(other)
        return Coordinate(tuple(part * factor for part in self.parts))

    __rmul__ = __mul__

    def __iter__(self) -> Iterator[Extent]:
        return iter(self.parts)

    def __getitem__(self, place: int) -> Extent:
        return self.parts[place] if place < len(self.parts) else 0

    def __repr__(self) -> str:
        if sum(part != 0 for part in self.parts) == 1:
            value = self.parts[-1]
            unit = f"E({len(self.parts) - 1})"
            if isinstance(value, int):
                return unit if value == 1 else f"{value}*{unit}"
            return f"{unit}*{value}" if value.atom is not None else f"{unit}*({value})"
        return f"({','.join(map(str, self.parts))})" if self.parts else "0*E(0)"


@dataclass(frozen=True, slots=True)
class F2:
    """A polynomial over F2, written as the integer of its bits; it adds by exclusive or.

    >>> F2(9) + F2(1), 3 * F2(5), int(F2(6))
    (F2(8), F2(15), 6)
    """

    bits: int

    def __post_init__(self) -> None:
        if type(self.bits) is not int or self.bits < 0:
            raise WrongArgument(f"F2({brief(self.bits)})", required="an integer >= 0, whose bits are the coefficients")

    def __add__(self, other: F2 | int) -> F2:
        if isinstance(other, int) and other == 0:
            return self
        return F2(self.bits ^ other.bits) if isinstance(other, F2) else NotImplemented

    __radd__ = __add__

    def __mul__(self, other: int) -> F2:
        if not isinstance(other, int):
            raise WrongArgument(f"{brief(other)} times {self}", required="numbers: digits over F2 are not symbolic")
        return F2(carryless(other, self.bits))

    __rmul__ = __mul__

    def __int__(self) -> int:
        return self.bits

    __index__ = __int__

    def __repr__(self) -> str:
        return f"F2({self.bits})"


Stride: TypeAlias = int | Index | Coordinate | F2
X = TypeVar("X", bound=Stride)


MOST_AXES: Final = 256
"""A coordinate holds a number for each axis, up to so many."""


def E(axis: int) -> Coordinate:  # noqa: N802 (CuTe's name)
    """The stride that moves by one along an axis, all others standing still.

    >>> from layouts import Layout
    >>> Layout((4, 8), (E(0), E(1)))(2, 5)
    (2,5)
    """
    if type(axis) is not int or not 0 <= axis < MOST_AXES:
        raise WrongArgument(f"E({brief(axis)})", required=f"the number of an axis, from 0 and below {MOST_AXES}")
    return Coordinate((0,) * axis + (1,))


def carryless(a: int, b: int) -> int:
    """The product of two polynomials over F2, as integers: long multiplication without carries.

    >>> carryless(3, 3), carryless(5, 6)
    (5, 30)
    """
    if a < 0:
        raise WrongArgument(f"a digit of {a} with a stride over F2", required="digits >= 0")
    total, shift = 0, 0
    while a:
        if a & 1:
            total ^= b << shift
        a >>= 1
        shift += 1
    return total


def stride_of(value: object) -> Stride:
    """The stride that a person means."""
    return value if isinstance(value, Coordinate | F2) else extent_of(value)


def times(digit: Any, stride: Any) -> Any:
    """A digit times a stride, both of which may be symbolic."""
    return stride * digit if isinstance(stride, Coordinate) else digit * stride


class Semimodule(ABC, Generic[X]):
    """What can be the strides of a layout: the interface of Fig. 6.1.

    `plus` and `times` are those of the semiring of coordinates, over which the laws hold.
    """

    zero: X

    @abstractmethod
    def add(self, a: X, b: X) -> X:
        """a ⊕ b: the sum of two strides."""

    @abstractmethod
    def scale(self, n: int, a: X) -> X:
        """n ⊗ a: a stride, times a digit."""

    @abstractmethod
    def at_most(self, a: X, b: X) -> bool:
        """a ≤ b: an order in which strides may be sorted."""

    @abstractmethod
    def divmod(self, n: int, a: X) -> tuple[X, X]:
        """The q and r for which r ⊕ (n ⊗ q) = a, with r as small as it can be."""

    @abstractmethod
    def congruent(self, a: X, b: X) -> bool:
        """a ≅ b: whether the two are strides of one kind, such as coordinates of one nesting."""

    @abstractmethod
    def plus(self, x: int, y: int) -> int:
        """The sum of two digits, as coordinates of the semiring."""

    @abstractmethod
    def times(self, x: int, y: int) -> int:
        """The product of two digits, as coordinates of the semiring."""

    @abstractmethod
    def multiples(self, digits: Array, a: X, width: int) -> Array:
        """Each digit times the stride; of coordinates, a row of `width` for each."""

    @abstractmethod
    def sums(self, a: Array, b: Array) -> Array:
        """The sums of two arrays of values, place by place."""


class _OfIntegers:
    """The semiring of coordinates is that of the integers."""

    def plus(self, x: int, y: int) -> int:
        return x + y

    def times(self, x: int, y: int) -> int:
        return x * y

    def sums(self, a: Array, b: Array) -> Array:
        total: Array = a + b
        return total


class Integers(_OfIntegers, Semimodule[int]):
    """The integers over themselves."""

    zero = 0

    def add(self, a: int, b: int) -> int:
        return a + b

    def scale(self, n: int, a: int) -> int:
        return n * a

    def at_most(self, a: int, b: int) -> bool:
        return a <= b

    def divmod(self, n: int, a: int) -> tuple[int, int]:
        return divmod(a, n)

    def congruent(self, a: int, b: int) -> bool:
        return isinstance(a, int) and isinstance(b, int)

    def multiples(self, digits: Array, a: int, width: int) -> Array:  # noqa: ARG002
        return digits * a


class Coordinates(_OfIntegers, Semimodule[Coordinate]):
    """Tuples of integers over the integers."""

    zero = Coordinate(())

    def add(self, a: Coordinate, b: Coordinate) -> Coordinate:
        return a + b

    def scale(self, n: int, a: Coordinate) -> Coordinate:
        return n * a

    def at_most(self, a: Coordinate, b: Coordinate) -> bool:
        wide = max(len(a.parts), len(b.parts))
        return [a[k] for k in reversed(range(wide))] <= [b[k] for k in reversed(range(wide))]

    def divmod(self, n: int, a: Coordinate) -> tuple[Coordinate, Coordinate]:
        return Coordinate(tuple(part // n for part in a)), Coordinate(tuple(part % n for part in a))

    def congruent(self, a: Coordinate, b: Coordinate) -> bool:
        return isinstance(a, Coordinate) and isinstance(b, Coordinate)

    def multiples(self, digits: Array, a: Coordinate, width: int) -> Array:
        parts = [a[k] for k in range(width)]
        most = int(np.abs(digits).max(initial=1)) * max(
            (abs(part) for part in parts if isinstance(part, int)), default=1
        )
        # So far below the machine's limit that many of them are added up without one that is passed.
        steps = np.array(parts, dtype=digits.dtype if most < MACHINE >> 6 else object)
        rows: Array = digits[..., None] * steps
        return rows


class Bits(Semimodule[F2]):
    """Polynomials over F2, over themselves: digits are such polynomials too."""

    zero = F2(0)

    def add(self, a: F2, b: F2) -> F2:
        return a + b

    def scale(self, n: int, a: F2) -> F2:
        return n * a

    def at_most(self, a: F2, b: F2) -> bool:
        return a.bits <= b.bits

    def divmod(self, n: int, a: F2) -> tuple[F2, F2]:
        quotient, rest = 0, a.bits
        while rest.bit_length() >= n.bit_length():
            shift = rest.bit_length() - n.bit_length()
            quotient |= 1 << shift
            rest ^= n << shift
        return F2(quotient), F2(rest)

    def congruent(self, a: F2, b: F2) -> bool:
        return isinstance(a, F2) and isinstance(b, F2)

    def plus(self, x: int, y: int) -> int:
        return x ^ y

    def times(self, x: int, y: int) -> int:
        return carryless(x, y)

    def multiples(self, digits: Array, a: F2, width: int) -> Array:  # noqa: ARG002
        if len(digits) and digits.min() < 0:
            raise WrongArgument(f"a digit of {digits.min()} with a stride over F2", required="digits >= 0")
        out = np.zeros_like(digits)
        for shift in range(int(digits.max(initial=0)).bit_length()):
            out ^= ((digits >> shift) & 1) * (a.bits << shift)
        return out

    def sums(self, a: Array, b: Array) -> Array:
        total: Array = a ^ b
        return total


INTEGERS: Final = Integers()
COORDINATES: Final = Coordinates()
BITS: Final = Bits()
SEMIMODULES: Final[tuple[Semimodule[Any], ...]] = (INTEGERS, COORDINATES, BITS)


def semimodule_of(strides: Iterator[Stride] | tuple[Stride, ...]) -> Semimodule[Any]:
    """What these strides are elements of; a stride of 0 is one of each. Those that do not add are refused."""
    found: Semimodule[Any] | None = None
    for stride in strides:
        if isinstance(stride, int) and stride == 0:
            continue
        own: Semimodule[Any] = (
            COORDINATES if isinstance(stride, Coordinate) else BITS if isinstance(stride, F2) else INTEGERS
        )
        if found is not None and own is not found:
            raise WrongArgument(
                "strides of two kinds stand in one layout", required="integers, multiples of E(k), or F2(…) throughout"
            )
        found = own
    return INTEGERS if found is None else found
