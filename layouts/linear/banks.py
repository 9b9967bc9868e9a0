"""Bank conflicts of shared memory: counted for any layout, excluded by proof for linear ones, avoided by swizzles.

Shared memory consists of banks of words; one round serves one word of each bank. An access is a layout from lanes to
indices of a tile, a storage one from indices to locations. The lanes of a warp are served together, or in groups if a
lane takes more than one word, such that a group can fill all banks once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from atl.errors import ArgumentError
from atl.prove import Answer, Model, Proved, Refuted
from layouts.errors import NoLayout
from layouts.foundation.function import Chain, Function, need_function, swizzle
from layouts.foundation.variables import witness_variables
from layouts.linear import bits
from layouts.linear.conversion import as_linear
from layouts.linear.layout import LinearLayout
from layouts.linear.names import power
from layouts.pictures.grid import Picture


@dataclass(frozen=True, slots=True)
class Banks:
    """Shared memory: `banks` banks of `word` bytes, accessed in elements of `element` bytes."""

    element: int = 4
    banks: int = 32
    word: int = 4

    def __post_init__(self) -> None:
        for name, value in (("element", self.element), ("banks", self.banks), ("word", self.word)):
            power(value, name)
        if self.element > self.banks * self.word:
            raise ArgumentError(f"elements of {self.element} bytes", required=f"at most {self.banks * self.word}")

    @property
    def together(self) -> int:
        """The number of lanes that are served together."""
        return self.banks * self.word // max(self.element, self.word)

    @property
    def within(self) -> int:
        """The number of low bits of a location that address an element within a word."""
        return max((self.word // self.element).bit_length() - 1, 0)


@dataclass(frozen=True, slots=True)
class BankConflicts:
    """The number of `rounds` of an access, and the `least` possible. `words` has, for each group of lanes that is
    served together, the number of distinct words requested from each bank.
    """

    rounds: int
    least: int
    words: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        counted = isinstance(self.words, tuple) and all(isinstance(group, tuple) for group in self.words)
        if not counted or type(self.rounds) is not int or type(self.least) is not int:
            raise ArgumentError("BankConflicts is not made by users", required="the result of bank_conflicts(...)")

    @property
    def ways(self) -> int:
        """The largest number of words requested from one bank at once; 1 without a conflict."""
        return max((max(group) for group in self.words), default=0)

    def picture(self) -> Picture:
        """Return the words requested from each bank, with a row for each group of lanes; conflicts are coloured."""
        cells = tuple(tuple(str(count) if count else "" for count in group) for group in self.words)
        colours = tuple(tuple(-1 if count <= 1 else 2 + count.bit_length() for count in group) for group in self.words)
        return Picture(f"{self}", cells, colours, "words requested from each bank; one row for each group of lanes")

    def __str__(self) -> str:
        rounds = "1 round" if self.rounds == 1 else f"{self.rounds} rounds"
        return f"{rounds}, at least {self.least}; up to {self.ways} words of one bank"

    __repr__ = __str__


def bank_conflicts(
    storage: Function, access: Function, *, element: int = 4, banks: int = 32, word: int = 4
) -> BankConflicts:
    """Return the number of rounds for lanes that read the elements `access` of a tile that is stored by `storage`.

    Indices of the tile are colexicographic, as in CuTe, for storage of any family. `element` and `word` are in bytes.
    Lanes that request the same word are served together.

    >>> from layouts import Layout, Swizzle, composition, row_major
    >>> column = Layout(32, 1)                               # each lane takes a row's element of column 0
    >>> bank_conflicts(row_major((32, 32)), column).ways, bank_conflicts(Layout((32, 32), (33, 1)), column).ways
    (32, 1)
    """
    need_function(storage)
    need_function(access)
    memory = Banks(element, banks, word)
    locations = np.asarray(Chain(storage.with_colexicographic_indices(), access).table(), dtype=np.int64) * element
    if locations.ndim != 1 or (locations < 0).any():
        raise NoLayout(f"the values of {storage} are not addresses", required="integers that are not negative")
    groups = [locations[at : at + memory.together] for at in range(0, len(locations), memory.together)]
    counted = []
    for group in groups:
        first = group[:, None] // word
        words = np.unique(first + np.arange(max(element // word, 1))[None, :])
        counted.append(tuple(np.bincount(words % banks, minlength=banks).tolist()))
    return BankConflicts(sum(max(group) for group in counted), len(groups), tuple(counted))


def conflict_free(storage: Function, access: Function, *, element: int = 4, banks: int = 32, word: int = 4) -> Answer:
    """Decide whether no two lanes served together request different words of one bank. Both layouts must be linear.

    It is proved by comparing ranks: as many bits of the lanes determine the bank as determine the word. `Refuted` holds
    two lanes that conflict. Raises `NoLayout` if one of the two is not linear.

    >>> from layouts import Layout, Swizzle, composition, row_major
    >>> swizzled = composition(Swizzle(5, 0, 5), row_major((32, 32)))
    >>> conflict_free(swizzled, Layout(32, 1)), conflict_free(row_major((32, 32)), Layout(32, 1)).model.numbers
    (Proved(layer='structure', vacuous=False), {'i': 1, 'j': 0})
    """
    memory = Banks(element, banks, word)
    columns = _locations_of_lanes(as_linear(storage).columns, as_linear(access), memory)
    return _free(columns, memory)


def _locations_of_lanes(storage: tuple[int, ...], access: LinearLayout, memory: Banks) -> list[int]:
    """Return the images of the bits of those lanes that are served together."""
    if len(storage) < max((column.bit_length() for column in access.columns), default=0):
        raise NoLayout(f"{access} leaves the tile", required=f"indices below {1 << len(storage)}")
    lanes = access.columns[: memory.together.bit_length() - 1]
    return [bits.product(storage, column) for column in lanes]


def _free(columns: list[int], memory: Banks) -> Answer:
    words = [column >> memory.within for column in columns]
    slots = [column & (memory.together - 1) for column in words]
    # Lanes with the same bank differ by a sum of columns whose bank bits are zero; they must not differ in the word.
    for dependence in bits.dependences(slots):
        if bits.product(words, dependence):
            (lane,), (first,) = witness_variables(1, "i"), witness_variables(1, "j")
            return Refuted(Model(((lane, dependence), (first, 0))))
    return Proved("structure")


@dataclass(frozen=True, slots=True)
class ChosenSwizzle:
    """A `storage` without conflicts for two accesses, counted in `first` and `second` and proved in `proofs`.

    If `swizzle` is set, it is CuTe's Swizzle<b, m, s> after the compact order. `plain` are the counts without it.
    """

    storage: LinearLayout
    swizzle: tuple[int, int, int] | None
    first: BankConflicts
    second: BankConflicts
    plain: tuple[BankConflicts, BankConflicts]
    proofs: tuple[Answer, Answer]


def swizzle_for(
    size: int, first: Function, second: Function, *, element: int = 4, banks: int = 32, word: int = 4
) -> ChosenSwizzle:
    """Return a storage of a tile of `size` elements in which neither of two linear accesses has a bank conflict.

    CuTe's swizzles are tried first, those with fewest bits first. If none works, the locations of one bank are a common
    complement of both accesses, which exists for any two spaces of the same dimension over any field. The elements of
    a word stay together. Raises `NoLayout` if an access is not linear or leaves the tile.

    >>> from layouts import Layout, row_major
    >>> chosen = swizzle_for(1024, Layout(32, 1), Layout(32, 32))
    >>> chosen.swizzle, chosen.plain[1].ways, chosen.first.ways, chosen.second.ways, chosen.proofs[1]
    ((5, 0, 5), 32, 1, 1, Proved(layer='structure', vacuous=False))
    """
    memory = Banks(element, banks, word)
    width = power(size, "the size of a tile")
    accesses = [as_linear(first), as_linear(second)]
    plain = [1 << bit for bit in range(width)]
    for triple, columns in (((0, 0, 0), plain), *_swizzles(width)):
        if all(isinstance(_free(_locations_of_lanes(tuple(columns), a, memory), memory), Proved) for a in accesses):
            return _chosen(columns, triple, first, second, memory)
    return _chosen(_complementary(width, accesses, memory), None, first, second, memory)


def _swizzles(width: int) -> Iterator[tuple[tuple[int, int, int], list[int]]]:
    """Return the swizzles of locations with `width` bits, fewest bits first."""
    for number in range(1, width // 2 + 1):
        for base in range(width - 2 * number + 1):
            for shift in range(number, width - base - number + 1):
                function = swizzle(number, base, shift, 1 << width)
                yield (number, base, shift), [int(function.at([1 << bit])) for bit in range(width)]


def _complementary(width: int, accesses: list[LinearLayout], memory: Banks) -> list[int]:
    """Return a storage in which both accesses fill all banks: the inverse of bases of an access and a complement."""
    inside, slots = memory.within, memory.together.bit_length() - 1
    words = width - inside
    spaces = []
    for access in accesses:
        lanes = [column >> inside for column in access.columns[:slots]]
        basis = bits.basis_of(lanes)
        spaces.append(_filled([lanes[k] for k in range(len(lanes)) if not basis.free >> k & 1], min(slots, words)))
    across = bits.complement(spaces[0], spaces[1], words)
    whole = bits.basis_of([*spaces[0], *across])
    inner = [1 << bit for bit in range(inside)]
    return inner + [(whole.solve(1 << bit) or 0) << inside for bit in range(words)]


def _filled(space: list[int], rank: int) -> list[int]:
    """Return independent vectors, extended by unit vectors to `rank` vectors."""
    unit = 0
    while len(space) < rank:
        if bits.rank([*space, 1 << unit]) > len(space):
            space = [*space, 1 << unit]
        unit += 1
    return space


def _chosen(
    columns: list[int], triple: tuple[int, int, int] | None, first: Function, second: Function, memory: Banks
) -> ChosenSwizzle:
    size = 1 << len(columns)
    storage = LinearLayout({"index": columns}, {"place": size})
    plain = LinearLayout.identity_1d(size, "index", "place")
    sizes = {"element": memory.element, "banks": memory.banks, "word": memory.word}
    counts = [bank_conflicts(layout, access, **sizes) for layout in (storage, plain) for access in (first, second)]
    proofs = (conflict_free(storage, first, **sizes), conflict_free(storage, second, **sizes))
    return ChosenSwizzle(storage, triple, counts[0], counts[1], (counts[2], counts[3]), proofs)
