"""Semimodules of strides (§6.6): integers, coordinates, polynomials over F2, and those that a user defines.

Strides only need addition and multiplication by a digit. So integers can be strides, and tuples of integers (values are
then coordinates), and polynomials over F2 written as integers, with exclusive or and carry-less multiplication. A user
implements `Semimodule` for other values.

The laws of Fig. 6.3 are stated over a semiring of coordinates (erratum E35: polynomials over F2 are not a module over
the *integers*, as twice a stride is not the sum of the stride with itself). The semiring is Z for the first two, and
F2[x] for the third, where the digit 5 means x² + 1. `broken_laws` tests every law on samples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from atl.core.index import Index
from atl.errors import InvalidArgument, brief
from atl.surface.values import IndexExpr
from layouts.errors import NoLayout
from layouts.foundation.tuples import Extent, extent_of

Array: TypeAlias = NDArray[Any]
MACHINE: Final = 2**62
"""Tables hold machine integers up to this magnitude, and Python integers beyond."""


@dataclass(frozen=True, slots=True, init=False)
class Coordinate:
    """A tuple of integers with componentwise addition and scaling. Trailing zeros are dropped. Write a symbolic factor
    on the right: `E(1) * n`.

    >>> 3 * E(0) + 2 * E(2)
    (3,0,2)
    >>> tuple(E(1)), (4 * E(0))[0], E(1) + 0 == E(1)
    ((0, 1), 4, True)
    """

    parts: tuple[Extent, ...]

    def __init__(self, parts: tuple[Extent, ...]) -> None:
        if not isinstance(parts, tuple | list):
            raise InvalidArgument(f"Coordinate({brief(parts)})", required="a tuple of integers, one for each axis")
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

    def __getitem__(self, position: int) -> Extent:
        return self.parts[position] if position < len(self.parts) else 0

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
    """A polynomial over F2, as the integer of its bits; addition is exclusive or.

    >>> F2(9) + F2(1), 3 * F2(5), int(F2(6))
    (F2(8), F2(15), 6)
    """

    bits: int

    def __post_init__(self) -> None:
        if type(self.bits) is not int or self.bits < 0:
            raise InvalidArgument(
                f"F2({brief(self.bits)})", required="an integer >= 0, whose bits are the coefficients"
            )

    def __add__(self, other: F2 | int) -> F2:
        if isinstance(other, int) and other == 0:
            return self
        return F2(self.bits ^ other.bits) if isinstance(other, F2) else NotImplemented

    __radd__ = __add__

    def __mul__(self, other: int) -> F2:
        if not isinstance(other, int):
            raise InvalidArgument(
                f"{brief(other)} times {self}", required="an integer: digits over F2 cannot be symbolic"
            )
        return F2(carryless(other, self.bits))

    __rmul__ = __mul__

    def __int__(self) -> int:
        return self.bits

    __index__ = __int__

    def __repr__(self) -> str:
        return f"F2({self.bits})"


X = TypeVar("X")
MOST_AXES: Final = 256
"""Largest number of axes of a coordinate."""


def E(axis: int) -> Coordinate:  # noqa: N802 (CuTe's name)
    """Return the unit stride along one axis, 0 along all others.

    >>> from layouts import Layout
    >>> Layout((4, 8), (E(0), E(1)))(2, 5)
    (2,5)
    """
    if type(axis) is not int or not 0 <= axis < MOST_AXES:
        raise InvalidArgument(f"E({brief(axis)})", required=f"an axis number from 0 to {MOST_AXES - 1}")
    return Coordinate((0,) * axis + (1,))


def carryless(a: int, b: int) -> int:
    """Return the product of two polynomials over F2, as integers: multiplication without carries.

    >>> carryless(3, 3), carryless(5, 6)
    (5, 30)
    """
    if a < 0:
        raise InvalidArgument(f"a digit of {a} with a stride over F2", required="digits >= 0")
    total, shift = 0, 0
    while a:
        if a & 1:
            total ^= b << shift
        a >>= 1
        shift += 1
    return total


def stride_of(value: object) -> Stride:
    """Return the stride that a user's value denotes."""
    return value if isinstance(value, Coordinate | F2 | Element) else extent_of(value)


def times(digit: Any, stride: Any) -> Any:
    """Return digit * stride, either of which may be symbolic."""
    return stride * digit if isinstance(stride, Coordinate | Element) else digit * stride


class Semimodule(ABC, Generic[X]):
    """A set from which strides can be taken: the interface of Fig. 6.1. A user defines a subclass of it.

    Values are immutable and hashable. `stride(value)` makes a stride of a layout. The operators of layouts check their
    results on all elements, so a law that fails leads to a refusal; `broken_laws` finds it by samples.

    >>> class Hours(Semimodule[int]):
    ...     zero = 0
    ...
    ...     def add(self, a, b):
    ...         return (a + b) % 12
    ...
    ...     def scale(self, n, a):
    ...         return n * a % 12
    ...
    ...     def at_most(self, a, b):
    ...         return a <= b
    >>> from layouts import Layout, coalesce, composition
    >>> hours = Hours()
    >>> clock = Layout((4, 6), (hours.stride(5), hours.stride(8)))
    >>> clock(3, 2), coalesce(clock), composition(clock, Layout(6, 2))
    (Hours(7), 24:Hours(5), 6:Hours(10))
    """

    zero: X

    @abstractmethod
    def add(self, a: X, b: X) -> X:
        """a ⊕ b: the sum of two strides."""

    @abstractmethod
    def scale(self, n: int, a: X) -> X:
        """n ⊗ a: a stride times a digit."""

    @abstractmethod
    def at_most(self, a: X, b: X) -> bool:
        """a ≤ b: an order for sorting strides."""

    def divmod(self, n: int, a: X) -> tuple[X, X]:  # noqa: ARG002
        """Return q and r with r ⊕ (n ⊗ q) = a and r as small as possible; by default q is zero."""
        return self.zero, a

    def congruent(self, a: X, b: X) -> bool:
        """a ≅ b: whether both are strides of one kind, such as coordinates of the same nesting."""
        return type(a) is type(b)

    def plus(self, x: int, y: int) -> int:
        """Return the sum of two digits in the semiring of coordinates."""
        return x + y

    def times(self, x: int, y: int) -> int:
        """Return the product of two digits in the semiring of coordinates."""
        return x * y

    def stride(self, value: X) -> Element[X]:
        """Return a value as a stride of a layout."""
        return Element(self, value)


@dataclass(frozen=True, slots=True)
class Element(Generic[X]):
    """A value of a user's semimodule, as a stride of a layout or as a value of one; `value` is that of the user."""

    semimodule: Semimodule[X]
    value: X

    def __post_init__(self) -> None:
        if not isinstance(self.semimodule, Semimodule) or isinstance(self.semimodule, Vectorised):
            raise InvalidArgument(
                f"strides of {brief(self.semimodule)}",
                required="an object of a subclass of Semimodule",
                suggestions=("integers, E(k) and F2(…) are strides themselves",),
            )
        try:
            hash(self.value)
        except TypeError as error:
            raise InvalidArgument(f"the stride {brief(self.value)}", required="a hashable value") from error

    def __add__(self, other: Element[X] | int) -> Element[X]:
        if type(other) is int and other == 0:
            return self
        return Element(self.semimodule, self.semimodule.add(self.value, self._like(other)))

    def __radd__(self, other: int) -> Element[X]:
        return self + other

    def __mul__(self, digit: int) -> Element[X]:
        if not isinstance(digit, int | np.integer):
            raise InvalidArgument(f"{brief(digit)} times {self}", required="an integer: such digits are not symbolic")
        return Element(self.semimodule, self.semimodule.scale(int(digit), self.value))

    __rmul__ = __mul__

    def __lt__(self, other: Element[X]) -> bool:
        return self <= other and self != other

    def __le__(self, other: Element[X]) -> bool:
        return self.semimodule.at_most(self.value, self._like(other))

    def __ge__(self, other: Element[X]) -> bool:
        return self.semimodule.at_most(self._like(other), self.value)

    def _like(self, other: Any) -> X:
        """Return the value of another element of the same semimodule."""
        if not isinstance(other, Element) or other.semimodule != self.semimodule:
            raise NoLayout(f"{self} with {brief(other)}", required="two values of the same semimodule")
        value: X = other.value
        return value

    def _refused(self, *_: object) -> Any:
        raise NoLayout(f"{self} is not an integer", required="integer strides")

    __int__ = __index__ = __abs__ = __neg__ = __sub__ = __rsub__ = _refused
    __floordiv__ = __mod__ = __rshift__ = __and__ = __xor__ = __rxor__ = _refused

    def __repr__(self) -> str:
        return f"{type(self.semimodule).__name__}({self.value})"


Stride: TypeAlias = int | Index | Coordinate | F2 | Element[Any]


class Vectorised(Semimodule[X]):
    """A semimodule whose operations are also defined on arrays."""

    @abstractmethod
    def multiples(self, digits: Array, a: X, width: int) -> Array:
        """Return each digit times the stride; for coordinates, a row of `width` components for each digit."""

    def sums(self, a: Array, b: Array) -> Array:
        """Return the elementwise sums of two arrays of values."""
        total: Array = a + b
        return total


class Integers(Vectorised[int]):
    """The integers over the integers."""

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


class Coordinates(Vectorised[Coordinate]):
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
        # The margin of 64 lets many products be added without overflow.
        steps = np.array(parts, dtype=digits.dtype if most < MACHINE >> 6 else object)
        rows: Array = digits[..., None] * steps
        return rows


class Bits(Vectorised[F2]):
    """Polynomials over F2, over themselves: digits are polynomials too."""

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
            raise InvalidArgument(f"a digit of {digits.min()} with a stride over F2", required="digits >= 0")
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


def semimodule_of(strides: Iterator[Stride] | tuple[Stride, ...]) -> Semimodule[Any]:
    """Return the semimodule of these strides; 0 belongs to each. Raises `InvalidArgument` if their kinds differ."""
    found: Semimodule[Any] | None = None
    kind: Element[Any] | None = None
    for stride in strides:
        if isinstance(stride, int) and stride == 0:
            continue
        if isinstance(stride, Element):
            own: Semimodule[Any] = stride.semimodule
            differs = kind is not None and own == found and not own.congruent(kind.value, stride.value)
            kind = stride
        else:
            own = COORDINATES if isinstance(stride, Coordinate) else BITS if isinstance(stride, F2) else INTEGERS
            differs = False
        if found is not None and (own != found or differs):
            raise InvalidArgument(
                "strides of different kinds in one layout",
                required="only integers, only multiples of E(k), only F2(…), or only strides of one Semimodule",
            )
        found = own
    return INTEGERS if found is None else found
