"""Linear algebra over F2. A vector is an integer whose bits are the components; a matrix is the list of its columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Basis:
    """A basis of the span of the columns of a matrix.

    `pivots` maps the highest bit of each basis vector to the vector and to the set of columns whose sum it is, as bits.
    No other basis vector has that bit. `free` lists the columns that depend on columns before them, as bits.
    """

    pivots: dict[int, tuple[int, int]]
    free: int

    @property
    def rank(self) -> int:
        """The dimension of the span."""
        return len(self.pivots)

    def reduced(self, vector: int) -> tuple[int, int]:
        """Return a vector reduced modulo the span, and the columns, as bits, whose sum is the difference."""
        columns = 0
        for pivot, (other, combination) in self.pivots.items():
            if vector >> pivot & 1:
                vector, columns = vector ^ other, columns ^ combination
        return vector, columns

    def solve(self, vector: int) -> int | None:
        """Return the columns, as bits, whose sum is the vector, using no free column; None if it is not in the span.

        >>> basis_of([2, 1, 3]).solve(3), basis_of([2, 6]).solve(1)
        (3, None)
        """
        left, columns = self.reduced(vector)
        return None if left else columns


def basis_of(columns: Iterable[int]) -> Basis:
    """Return a basis in which the highest bits of all vectors differ, by elimination from the first column.

    >>> basis_of([1, 2, 3, 4]).rank, bin(basis_of([1, 2, 3, 4]).free)
    (3, '0b100')
    """
    pivots: dict[int, tuple[int, int]] = {}
    basis = Basis(pivots, 0)
    free = 0
    for bit, column in enumerate(columns):
        vector, combination = basis.reduced(column)
        if not vector:
            free |= 1 << bit
            continue
        at = combination ^ (1 << bit)
        new = vector.bit_length() - 1
        for pivot, (other, before) in pivots.items():
            if other >> new & 1:
                pivots[pivot] = (other ^ vector, before ^ at)
        pivots[new] = (vector, at)
    return Basis(pivots, free)


def rank(columns: Iterable[int]) -> int:
    """Return the rank of a matrix."""
    return basis_of(columns).rank


def dependence(columns: Sequence[int]) -> int:
    """Return a nonempty set of columns, as bits, whose sum is zero; 0 if all columns are independent.

    >>> bin(dependence([1, 2, 3])), dependence([1, 2])
    ('0b111', 0)
    """
    return next(dependences(columns), 0)


def dependences(columns: Sequence[int]) -> Iterator[int]:
    """Return a basis of all sets of columns with sum zero, as bits: one for each free column.

    >>> [bin(each) for each in dependences([1, 2, 3, 0])]
    ['0b111', '0b1000']
    """
    basis = basis_of(columns)
    for bit in bits_of(basis.free):
        yield basis.reduced(columns[bit])[1] | 1 << bit


def product(columns: Sequence[int], vector: int) -> int:
    """Return the matrix times a vector: the sum of the columns selected by its bits.

    >>> product([1, 4, 7], 0b101)
    6
    """
    total = 0
    for bit in bits_of(vector):
        total ^= columns[bit]
    return total


def bits_of(vector: int) -> Iterator[int]:
    """Return the positions of the set bits, lowest first."""
    while vector:
        lowest = vector & -vector
        yield lowest.bit_length() - 1
        vector ^= lowest


def complement(first: Sequence[int], second: Sequence[int], width: int) -> list[int]:
    """Return a basis of a common complement of two spaces of the same dimension, in vectors of `width` bits.

    Such a complement exists over any field. While some vector is outside both spaces, it is added to both. After that,
    while they differ, the sum of two vectors is added of which each is in only one of the spaces.

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
    return missing[0] ^ lacking[0]  # the first is in the span of the other space only, the second of this one only
