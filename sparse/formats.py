"""Formats: compositions of level formats and a view of the tensor, and the named formats of Fig. 7.6."""

from __future__ import annotations

import html
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any, Final

import atl
from atl.core.index import ONE, Array
from atl.core.node import is_position
from atl.core.program import SparseOperand
from atl.core.terms import Input
from atl.errors import InvalidArgument, brief
from rewrites import Operand
from sparse.decompression import decompression
from sparse.levels import Bitmask, Compressed, Declarer, Dense, Hashed, Level, Metadata
from sparse.levels.level import Number
from sparse.packing import OperandConverter
from sparse.storage import Storage
from sparse.views import Blocked, Diagonals, Identity, Permuted


@dataclass(frozen=True, repr=False)
class Format(Storage):
    """A sparse tensor format: `levels`, outermost first, and the `view` of the tensor that they store.

    `levels` may also be a function of the rank. Index arrays have the dtype `index_dtype`. Formats with parameters are
    callable: `BCSR` has blocks of 4 × 4, `BCSR(2, 8)` has blocks of 2 × 8.

    >>> from sparse import CSR, Compressed, Dense, Format
    >>> CSR == Format("CSR", (Dense(), Compressed()))
    True
    """

    make: Callable[..., Format] | None = field(default=None, compare=False)

    def __call__(self, *parameters: Any) -> Format:
        if self.make is None:
            raise InvalidArgument(
                f"the format {self.name} takes no parameters", required="a format with parameters, such as BCSR"
            )
        try:
            return self.make(*parameters)
        except TypeError:
            raise InvalidArgument(
                f"invalid parameters for {self.name}: {brief(parameters)}", required="its parameters, as in BCSR(2, 8)"
            ) from None

    def __repr__(self) -> str:
        name = f"{self.name}.sorted()" if self.ordered else self.name
        return name if self.index_dtype == "int32" else f"{name}.with_index_dtype({self.index_dtype!r})"

    def _repr_html_(self) -> str | None:
        """Show a table of the levels, outermost first; None (the plain `repr`) if the levels cannot be computed."""
        try:
            levels = tuple(self.levels(2)) if callable(self.levels) else self.levels
        except Exception:  # noqa: BLE001 (user code)
            return None
        rank = " for a matrix" if callable(self.levels) else ""
        view = "" if isinstance(self.view, Identity) else f", view {self.view!r}"
        head = f"<tr><th></th><th>{html.escape(f'{self!r}: levels{rank}{view}')}</th></tr>"
        rows = (f"<tr><td>{k}</td><td>{html.escape(repr(level))}</td></tr>" for k, level in enumerate(levels, 1))
        return f'<table class="atl-format">{head}{"".join(rows)}</table>'

    def with_index_dtype(self, dtype: str) -> Format:
        """Return this format with another index dtype, int32 or int64."""
        return replace(self, index_dtype=dtype)

    def sorted(self) -> Format:
        """Return this format with the entries of each parent declared sorted; `pack` sorts them.

        Co-iteration (`s.mark(p, "merge")`) requires it, and each call checks it.

        >>> from sparse import VECTOR, meaning
        >>> meaning(VECTOR.sorted(), 1)
        meaning (A_crd : int32[A_nnz] in [0, n0) strict, A_val : float32[A_nnz]) : float32[n0] :=
          Σ[p < A_nnz] place n0 A_crd[p] A_val[p]
        """
        return replace(self, ordered=True)

    # -- programs -----------------------------------------------------------------------------------------------------

    def operand(self, array: Array, taken: Collection[str], *, distinct: bool = False) -> Operand:
        """Declare the arrays that store a tensor in this format, and the tensor that they represent.

        `s.sparsify("A", format)` calls this. If `distinct` is true, the arrays are declared such that no two entries
        share a position, and each call checks it.
        """
        extents = tuple(atl.IndexExpr(extent) for extent in array.shape)
        found = self.levels_of(extents)
        names = _ArrayNames(array.name, taken, found)
        parents: Number = atl.IndexExpr(ONE)
        metadata: list[Metadata] = []
        for number, (level, held) in enumerate(found):
            declarer = Declarer(names.tensor_of(number), names.size_of(number), self.index_dtype, distinct=distinct)
            metadata.append(level.declare(held, parents, declarer, root=not number))
            parents = metadata[-1].count
        values = atl.tensor(names.fresh("val"), parents, dtype=array.dtype)
        inputs = [tensor for each in metadata for tensor in each.arrays.values()]
        meaning = decompression([level for level, _ in found], self.view, extents, metadata, values)
        arrays = tuple(_declared(tensor) for tensor in (*inputs, values))
        unpacker = OperandConverter(self, array.name, array.dtype, len(array.shape))
        names_of = tuple(each.name for each in arrays)
        functions = (unpacker, unpacker.validation_cache, unpacker.rebuild)
        packed = SparseOperand(array.name, array.shape, names_of, repr(self), *functions, meaning=meaning.node)
        return Operand(arrays, meaning.node, packed)


def _declared(tensor: atl.Tensor) -> Array:
    assert isinstance(tensor.node, Input)
    return tensor.node.array


class _ArrayNames:
    """The names of an operand's arrays: A_pos, A_crd, A_val, numbered by level if several levels have the same type."""

    def __init__(self, name: str, taken: Collection[str], levels: list[tuple[Level, tuple[Number, ...]]]) -> None:
        self._name = name
        self._taken = set(taken)
        self._types = [type(level) for level, _ in levels]

    def tensor_of(self, number: int) -> Callable[..., atl.Tensor]:
        return lambda role, *shape, **facts: atl.tensor(self._of_level(role, number), *shape, **facts)

    def size_of(self, number: int) -> Callable[[str], atl.IndexExpr]:
        return lambda role: atl.sizes(self._of_level(role, number))

    def _of_level(self, role: str, number: int) -> str:
        ambiguous = self._types.count(self._types[number]) > 1
        return self.fresh(f"{role}_{number + 1}" if ambiguous else role)

    def fresh(self, role: str) -> str:
        """Return an unused name."""
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
    """Dense levels, followed by one hash table for each of their positions."""

    table: Hashed

    def __call__(self, rank: int) -> tuple[Level, ...]:
        return (*_all_dense(rank - 1), self.table)


def _hash(width: int | None = None, function: Callable[[Any], Any] | None = None) -> Format:
    if not (width is None or (is_position(width) and width)) or not (function is None or callable(function)):
        raise InvalidArgument(
            f"invalid parameters for HASH: width {brief(width)}",
            required="a positive integer, and a function of coordinates",
        )
    table = Hashed(width) if function is None else Hashed(width, function)
    return Format("HASH" if width is None else f"HASH({width})", _LastHashed(table), make=_hash)


VECTOR: Final = Format("VECTOR", (Compressed(),))
"""A sparse vector: crd, val."""
CSR: Final = Format("CSR", (Dense(), Compressed()))
"""Compressed sparse rows: pos, crd, val."""
CSC: Final = Format("CSC", (Dense(), Compressed()), Permuted((1, 0)))
"""Compressed sparse columns."""
DCSR: Final = Format("DCSR", (Compressed(), Compressed()))
"""Doubly compressed sparse rows: only the nonempty rows are stored."""
DCSC: Final = Format("DCSC", (Compressed(), Compressed()), Permuted((1, 0)))
"""Doubly compressed sparse columns: only the nonempty columns are stored."""
CSF: Final = Format("CSF", _all_compressed)
"""Compressed sparse fibres: one compressed level for each dimension."""
COO: Final = Format("COO", _coordinates)
"""Coordinate format: entries with all of their coordinates, in any order; duplicates are summed."""
BCSR: Final = replace(_bcsr(), name="BCSR")
"""Block compressed sparse rows: dense blocks of 4 × 4, or BCSR(rows, columns)."""
CSB: Final = replace(_csb(), name="CSB")
"""Compressed sparse blocks: sparse blocks of 4 × 4, or CSB(rows, columns)."""
DIA: Final = Format("DIA", (Compressed(), Dense()), Diagonals())
"""Diagonal format: the nonempty diagonals, each dense and indexed by column."""
BITMASK: Final = Format("BITMASK", _last_bitmask)
"""All elements, and a mask of those that are entries."""
HASH: Final = _hash()
"""One hash table for each row, twice as wide as the fullest row requires, or HASH(width, function)."""
MODE_GENERIC: Final = Format("MODE_GENERIC", (Compressed(2), Dense()), Permuted((0, 2, 1)))
"""A tensor of rank 3, stored as its nonempty fibres along the second dimension, each dense."""
