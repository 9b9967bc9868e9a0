"""Formats: level formats put together, of a view of the tensor; those of Fig. 7.6 by name."""

from __future__ import annotations

import html
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any, Final

import atl
from atl.core.index import ONE, Array
from atl.core.node import is_position
from atl.core.program import Packed
from atl.core.terms import Input
from atl.errors import WrongArgument, brief
from rewrites import Operand
from sparse.apart import Apart
from sparse.levels import Bitmask, Compressed, Declaring, Dense, Hashed, Level, Metadata
from sparse.levels.level import Number
from sparse.meaning import decompression
from sparse.storage import Storage
from sparse.views import Blocked, Diagonals, Permuted, Same


@dataclass(frozen=True, repr=False)
class Format(Storage):
    """How a tensor is stored: `levels` from the outside in, below which stand the values, of a `view` of the tensor.

    `levels` may also be a function of the number of dimensions. The arrays of coordinates are of the type `index`. A
    name with parameters is called for others: `BCSR` has blocks of 4 × 4, `BCSR(2, 8)` others.

    >>> from sparse import CSR, Compressed, Dense, Format
    >>> CSR == Format("CSR", (Dense(), Compressed()))
    True
    """

    make: Callable[..., Format] | None = field(default=None, compare=False)

    def __call__(self, *parameters: Any) -> Format:
        if self.make is None:
            raise WrongArgument(f"the format {self.name} is called", required="a format with parameters, such as BCSR")
        try:
            return self.make(*parameters)
        except TypeError:
            raise WrongArgument(
                f"{self.name} is called with {brief(parameters)}", required="its parameters, such as BCSR(2, 8)"
            ) from None

    def __repr__(self) -> str:
        name = f"{self.name}.in_order()" if self.ordered else self.name
        return name if self.index == "int32" else f"{name}.with_index({self.index!r})"

    def _repr_html_(self) -> str | None:
        """What a notebook shows: the levels, from the outside in; the name, where they are not for a matrix."""
        try:
            levels = tuple(self.levels(2)) if callable(self.levels) else self.levels
        except Exception:  # noqa: BLE001 (another's function of the number of dimensions)
            return None
        of = " of a matrix" if callable(self.levels) else ""
        seen = "" if isinstance(self.view, Same) else f", of the view {self.view!r}"
        head = f"<tr><th></th><th>{html.escape(f'{self!r}: the levels{of}{seen}')}</th></tr>"
        rows = (f"<tr><td>{k}</td><td>{html.escape(repr(level))}</td></tr>" for k, level in enumerate(levels, 1))
        return f'<table class="atl-format">{head}{"".join(rows)}</table>'

    def with_index(self, index: str) -> Format:
        """The same format with indices of another type."""
        return replace(self, index=index)

    def in_order(self) -> Format:
        """The same format, whose entries are declared to be sorted below each parent, as `pack` sorts them.

        That is what merges need (`s.mark(p, "merge")`), and each call checks it.

        >>> from sparse import VECTOR, meaning
        >>> meaning(VECTOR.in_order(), 1)
        meaning (A_crd : int32[A_nnz] in [0, n0) strict, A_val : float32[A_nnz]) : float32[n0] :=
          Σ[p < A_nnz] place n0 A_crd[p] A_val[p]
        """
        return replace(self, ordered=True)

    # -- programs -----------------------------------------------------------------------------------------------------

    def operand(self, array: Array, taken: Collection[str], *, apart: bool = False) -> Operand:
        """The inputs that hold a tensor in this format, and what they mean: for `s.sparsify("A", format)`.

        With `apart` they are declared, and checked by each call, so that no two entries have one position.
        """
        extents = tuple(atl.IndexExpr(extent) for extent in array.shape)
        found = self.levels_of(extents)
        names = _Names(array.name, taken, found)
        parents: Number = atl.IndexExpr(ONE)
        metadata: list[Metadata] = []
        for number, (level, held) in enumerate(found):
            declaring = Declaring(names.tensor_of(number), names.size_of(number), self.index, apart=apart)
            metadata.append(level.declare(held, parents, declaring, root=not number))
            parents = metadata[-1].count
        values = atl.tensor(names.fresh("val"), parents, dtype=array.dtype)
        inputs = [tensor for each in metadata for tensor in each.arrays.values()]
        meaning = decompression([level for level, _ in found], self.view, extents, metadata, values)
        arrays = tuple(_declared(tensor) for tensor in (*inputs, values))
        taken_apart = Apart(self, array.name, array.dtype, len(array.shape))
        names_of = tuple(each.name for each in arrays)
        ways = (taken_apart, taken_apart.known, taken_apart.together)
        packed = Packed(array.name, array.shape, names_of, repr(self), *ways, meaning=meaning.node)
        return Operand(arrays, meaning.node, packed)


def _declared(tensor: atl.Tensor) -> Array:
    assert isinstance(tensor.node, Input)
    return tensor.node.array


class _Names:
    """The names of the arrays of an operand: A_pos, A_crd, A_val; with the level's number where a role occurs twice."""

    def __init__(self, name: str, taken: Collection[str], levels: list[tuple[Level, tuple[Number, ...]]]) -> None:
        self._name = name
        self._taken = set(taken)
        self._kinds = [type(level) for level, _ in levels]

    def tensor_of(self, number: int) -> Callable[..., atl.Tensor]:
        return lambda role, *shape, **facts: atl.tensor(self._of_level(role, number), *shape, **facts)

    def size_of(self, number: int) -> Callable[[str], atl.IndexExpr]:
        return lambda role: atl.sizes(self._of_level(role, number))

    def _of_level(self, role: str, number: int) -> str:
        several = self._kinds.count(self._kinds[number]) > 1
        return self.fresh(f"{role}_{number + 1}" if several else role)

    def fresh(self, role: str) -> str:
        """A name that nothing else has."""
        found = f"{self._name}_{role}"
        while found in self._taken:
            found += "_"
        self._taken.add(found)
        return found


# -- the formats of Fig. 7.6 ------------------------------------------------------------------------------------------


def _all_compressed(rank: int) -> tuple[Level, ...]:
    return (Compressed(),) * rank


def _all_dense(rank: int) -> tuple[Level, ...]:
    return (Dense(),) * rank


def _last_bitmask(rank: int) -> tuple[Level, ...]:
    return (*_all_dense(rank - 1), Bitmask())


def _coordinates(rank: int) -> tuple[Level, ...]:
    return (Compressed(rank, is_unique=False),)


def _bcsr(rows: int = 4, columns: int = 4) -> Format:
    levels = (Dense(), Compressed(), Dense(), Dense())
    return Format(f"BCSR({rows}, {columns})", levels, Blocked((rows, columns)), make=_bcsr)


def _csb(rows: int = 4, columns: int = 4) -> Format:
    levels = (Dense(), Dense(), Compressed(), Compressed())
    return Format(f"CSB({rows}, {columns})", levels, Blocked((rows, columns)), make=_csb)


@dataclass(frozen=True)
class _LastHashed:
    """Dense levels, and a hash table below each of their positions."""

    table: Hashed

    def __call__(self, rank: int) -> tuple[Level, ...]:
        return (*_all_dense(rank - 1), self.table)


def _hash(width: int | None = None, function: Callable[[Any], Any] | None = None) -> Format:
    if not (width is None or (is_position(width) and width)) or not (function is None or callable(function)):
        raise WrongArgument(
            f"HASH of width {brief(width)}", required="a positive number, and a function of coordinates"
        )
    table = Hashed(width) if function is None else Hashed(width, function)
    return Format("HASH" if width is None else f"HASH({width})", _LastHashed(table), make=_hash)


VECTOR: Final = Format("VECTOR", (Compressed(),))
"""A vector by its entries: crd, val."""
CSR: Final = Format("CSR", (Dense(), Compressed()))
"""A matrix row by row, each by its entries: pos, crd, val."""
CSC: Final = Format("CSC", (Dense(), Compressed()), Permuted((1, 0)))
"""A matrix column by column, each by its entries."""
DCSR: Final = Format("DCSR", (Compressed(), Compressed()))
"""The rows that have entries, each by its entries."""
DCSC: Final = Format("DCSC", (Compressed(), Compressed()), Permuted((1, 0)))
"""The columns that have entries, each by its entries."""
CSF: Final = Format("CSF", _all_compressed)
"""A tensor by its entries, a level for each dimension: compressed sparse fibres."""
COO: Final = Format("COO", _coordinates)
"""Entries with all of their coordinates, in any order; those with equal ones add up."""
BCSR: Final = replace(_bcsr(), name="BCSR")
"""A matrix by rows of dense blocks, of 4 × 4 or BCSR(rows, columns)."""
CSB: Final = replace(_csb(), name="CSB")
"""A matrix by blocks, each with its entries by rows: compressed sparse blocks, of 4 × 4 or CSB(rows, columns)."""
DIA: Final = Format("DIA", (Compressed(), Dense()), Diagonals())
"""The diagonals that have entries, each dense, by columns."""
BITMASK: Final = Format("BITMASK", _last_bitmask)
"""All elements, and a mark for those that are entries."""
HASH: Final = _hash()
"""Below each row a table of its entries, twice as wide as the fullest row needs, or HASH(width, function)."""
MODE_GENERIC: Final = Format("MODE_GENERIC", (Compressed(2), Dense()), Permuted((0, 2, 1)))
"""A tensor of three dimensions: the fibres along the second one that have entries, each dense."""
