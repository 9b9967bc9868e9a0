"""Linear algebra over F2. A vector is an integer, whose bits are the components; a matrix is its columns, in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Basis:
    """A basis of what the columns of a matrix span.

    `pivots` has, by its highest bit, each vector of the basis, and the columns that add up to it, as bits; no other
    vector of the basis has that bit. `free` has the columns that are sums of columns before them, as bits too.
    """

    pivots: dict[int, tuple[int, int]]
    free: int

    @property
    def rank(self) -> int:
        """The dimension of what is spanned."""
        return len(self.pivots)

    def reduced(self, vector: int) -> tuple[int, int]:
        """What is left of a vector less what is spanned, and the columns, as bits, that add up to the difference."""
        columns = 0
        for pivot, (other, whence) in self.pivots.items():
            if vector >> pivot & 1:
                vector, columns = vector ^ other, columns ^ whence
        return vector, columns

    def solve(self, vector: int) -> int | None:
        """The columns, as bits, that add up to a vector, none of them free; None where it is not spanned.

        >>> basis_of([2, 1, 3]).solve(3), basis_of([2, 6]).solve(1)
        (3, None)
        """
        left, columns = self.reduced(vector)
        return None if left else columns


def basis_of(columns: Iterable[int]) -> Basis:
    """A basis, each of whose vectors has a highest bit of its own, by elimination from the first column on.

    >>> basis_of([1, 2, 3, 4]).rank, bin(basis_of([1, 2, 3, 4]).free)
    (3, '0b100')
    """
    pivots: dict[int, tuple[int, int]] = {}
    basis = Basis(pivots, 0)
    free = 0
    for bit, column in enumerate(columns):
        vector, whence = basis.reduced(column)
        if not vector:
            free |= 1 << bit
            continue
        at = whence ^ (1 << bit)
        new = vector.bit_length() - 1
        for pivot, (other, before) in pivots.items():
            if other >> new & 1:
                pivots[pivot] = (other ^ vector, before ^ at)
        pivots[new] = (vector, at)
    return Basis(pivots, free)


def rank(columns: Iterable[int]) -> int:
    """The rank of a matrix."""
    return basis_of(columns).rank


def dependence(columns: Sequence[int]) -> int:
    """Columns, as bits, that add up to zero, and are not none; 0 where all are independent.

    >>> bin(dependence([1, 2, 3])), dependence([1, 2])
    ('0b111', 0)
    """
    return next(dependences(columns), 0)


def dependences(columns: Sequence[int]) -> Iterator[int]:
    """For each free column the columns, as bits, that add up to zero with it: a basis of all that add up to zero.

    >>> [bin(each) for each in dependences([1, 2, 3, 0])]
    ['0b111', '0b1000']
    """
    basis = basis_of(columns)
    for bit in bits_of(basis.free):
        yield basis.reduced(columns[bit])[1] | 1 << bit


def product(columns: Sequence[int], vector: int) -> int:
    """The matrix times a vector: the sum of the columns that the vector has.

    >>> product([1, 4, 7], 0b101)
    6
    """
    total = 0
    for bit in bits_of(vector):
        total ^= columns[bit]
    return total


def bits_of(vector: int) -> Iterator[int]:
    """The places of the bits that are set, from the lowest on."""
    while vector:
        lowest = vector & -vector
        yield lowest.bit_length() - 1
        vector ^= lowest


def complement(first: Sequence[int], second: Sequence[int], width: int) -> list[int]:
    """Vectors that, with the first space or with the second, make up all vectors of so many bits, in both cases once.

    Two spaces of one dimension have such a common complement over any field: what neither of them has is added to both
    while there is such, and then, while they differ, the sum of two that the other one lacks.

    >>> complement([1], [2], 2)
    [3]
    """
    out: list[int] = []
    one, other = basis_of(first), basis_of(second)
    while one.rank < width:
        new = _outside_of_both(one, other, width)
        out.append(new)
        one = basis_of([*(vector for vector, _ in one.pivots.values()), new])
        other = basis_of([*(vector for vector, _ in other.pivots.values()), new])
    return out


def _outside_of_both(one: Basis, other: Basis, width: int) -> int:
    units = [1 << bit for bit in range(width)]
    missing = [unit for unit in units if one.reduced(unit)[0]]
    lacking = [unit for unit in units if other.reduced(unit)[0]]
    for unit in missing:
        if unit in lacking:
            return unit
    return missing[0] ^ lacking[0]  # the first is spanned by the other space, and the second by this one
