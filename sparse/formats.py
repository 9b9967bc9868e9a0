"""Formats: compositions of level formats and a view of the tensor, and the named formats of Fig. 7.6."""

from __future__ import annotations

import ast
import html
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import atl
from atl.core.dtypes import DEFAULT, STORED, TYPES
from atl.core.index import ONE, Array
from atl.core.node import is_position
from atl.core.program import Assembly, Program, SparseOperand
from atl.core.terms import Input
from atl.errors import DtypeError, InvalidArgument, brief
from rewrites import Operand, Rule, Theorem
from rewrites.certificates.certificate import replay
from sparse.assembly import ResultMaker
from sparse.levels import Bitmask, Compressed, Condition, Declarer, Dense, Hashed, Level, Metadata, Number
from sparse.packing import OperandConverter, pack
from sparse.scipy_interop import compressed_scipy_format, has_scipy_dtype, scipy_view
from sparse.tensors import AnyArray, SparseTensor, check_sparse_tensor, entries, to_dense
from sparse.views import Blocked, Diagonals, Identity, Permuted, Storage, View

# -- decompression ----------------------------------------------------------------------------------------------------


def decompression(
    levels: Sequence[Level],
    view: View,
    extents: tuple[Number, ...],
    metadata: Sequence[Metadata],
    values: atl.Tensor,
) -> atl.Tensor:
    """Return the tensor that the arrays represent: each entry at its coordinates, duplicates summed.

    D(levels)(parent) = Σ[p in pos_bounds(parent)] [valid] · place _ pos_crd(p) D(rest)(pos_pos(p)). If the format has
    a view, entries are placed at their coordinates in the tensor, and padding of the view is skipped.
    """
    plain = isinstance(view, Identity)

    def below(number: int, parent: Number, coordinates: tuple[Number, ...]) -> atl.Tensor:
        if number == len(levels):
            element = values[parent]
            if plain:
                return element
            in_bounds = view.in_bounds(extents, coordinates)
            placed = _placed(extents, view.inverse(extents, coordinates), element)
            return _guarded(in_bounds, placed)
        level, m = levels[number], metadata[number]

        def entry(p: atl.IndexExpr) -> atl.Tensor:
            own = level.pos_crd(m, parent, p)
            rest = below(number + 1, level.pos_pos(m, parent, p), (*coordinates, *own))
            if plain:
                rest = _placed(m.extents, own, rest)
            return _guarded(level.valid(m, parent, p), rest)

        return atl.sum(level.pos_bounds(m, parent), entry)

    return below(0, 0, ())


def _placed(extents: Sequence[Number], coordinates: Sequence[Number], element: atl.Tensor) -> atl.Tensor:
    for n, at in reversed(list(zip(extents, coordinates, strict=True))):
        element = atl.place(n, at, element)
    return element


def _guarded(condition: Condition, element: atl.Tensor) -> atl.Tensor:
    return element if condition is True else atl.guard(condition, element)


# -- formats ----------------------------------------------------------------------------------------------------------


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
        """Return this format with the entries of each parent declared sorted and distinct, as `pack` makes them.

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
        # Entries of a type that is only stored, such as float16, are added in the type in which it is computed with.
        stored = array.dtype in STORED
        added = atl.cast(TYPES[array.dtype].computed_as, values) if stored else values
        meaning = decompression([level for level, _ in found], self.view, extents, metadata, added)
        meaning = atl.cast(array.dtype, meaning) if stored else meaning
        arrays = tuple(_declared(tensor) for tensor in (*inputs, values))
        unpacker = OperandConverter(self, array.name, array.dtype, len(array.shape))
        names_of = tuple(each.name for each in arrays)
        functions = (unpacker, unpacker.validation_cache, unpacker.rebuild)
        packed = SparseOperand(array.name, array.shape, names_of, repr(self), *functions, meaning=meaning.node)
        return Operand(arrays, meaning.node, packed)

    def assembly(self, rank: int, *, zeros: bool = True) -> Assembly:
        """Return how a kernel stores a result of this rank in the format. `s.assemble(format)` calls this.

        The rows of compressed formats are assembled in the order of the format, with unsorted columns unless the format
        is `sorted()`. Other formats are encoded from sorted coordinates.

        >>> CSC.assembly(2).order, DIA.assembly(2).ordered
        ((1, 0), True)
        """
        if not isinstance(rank, int) or not isinstance(zeros, bool):
            raise InvalidArgument(
                f"assembly({brief(rank)}, zeros={brief(zeros)})", required="a rank, and True or False"
            )
        self.levels_of(tuple(map(atl.IndexExpr, (ONE,) * rank)))  # refuses ranks that the format does not support
        order = self.view.order if isinstance(self.view, Permuted) else tuple(range(rank))
        ordered = self.ordered or not compressed_scipy_format(self)
        return Assembly(repr(self), order, self.index_dtype, ResultMaker(self, order), ordered, zeros)


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


# -- formats by name --------------------------------------------------------------------------------------------------


NAMED_FORMATS: Final[dict[str, Format]] = {
    form.name: form for form in [*globals().values()] if isinstance(form, Format)
}
"""The built-in formats."""


def format_named(text: str, custom: Mapping[str, Format] | None = None) -> Format | None:
    """Return the format whose `repr` is `text`, or None. `custom` maps further names to formats.

    >>> format_named("BCSR(2, 8)"), format_named("CSR.with_index_dtype('int64')"), format_named("ELL")
    (BCSR(2, 8), CSR.with_index_dtype('int64'), None)
    """
    if not isinstance(text, str) or not isinstance(custom, Mapping | None):
        raise InvalidArgument(
            f"invalid format name {brief(text)}", required="a string, and a dictionary of custom formats"
        )
    known = {**NAMED_FORMATS, **(custom or {})}
    if text in known:
        return known[text]
    try:
        found = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    match found:
        case ast.Call(ast.Attribute(inner, "with_index_dtype"), [ast.Constant(str(dtype))], []):
            form = format_named(ast.unparse(inner), custom)
            return None if form is None or dtype not in ("int32", "int64") else form.with_index_dtype(dtype)
        case ast.Call(ast.Attribute(inner, "sorted"), [], []):
            form = format_named(ast.unparse(inner), custom)
            return None if form is None else form.sorted()
        case ast.Call(ast.Name(name), [*arguments], []) if name in known and known[name].make is not None:
            values = [argument.value for argument in arguments if isinstance(argument, ast.Constant)]
            whole = all(type(value) is int for value in values) and len(values) == len(arguments)
            return known[name](*values) if whole else None
        case _:
            return None


def load(
    path: str | os.PathLike[str],
    *,
    rules: Mapping[str, Rule] | None = None,
    custom: Mapping[str, Format] | None = None,
    smt: bool = True,
) -> Theorem:
    """Load a theorem from a certificate by replaying it in the kernel. `rules` are the allowed rules; by default, all.

    User-defined rules are stored in the file as equations, and are checked again. Those that are not proved for all
    sizes are listed in the theorem's `unproved`. `custom` maps names to user-defined formats of sparse operands. With
    `smt=False` z3 is not used, and a certificate with a premise that only z3 proves is refused.

    Raises `CertificateError` with the first step that differs.
    """
    return replay(path, rules=rules, smt=smt, formats=lambda text: format_named(text, custom))


# -- conversion -------------------------------------------------------------------------------------------------------


def compress(form: Format, tensor: object) -> SparseTensor:
    """Convert a tensor to a format; the same as `pack(tensor, form)`.

    >>> import numpy as np
    >>> from sparse import CSC, compress, decompress
    >>> decompress(compress(CSC, np.array([[0, 7], [5, 0]])))
    array([[0, 7],
           [5, 0]])
    """
    return pack(tensor, form)


def decompress(tensor: SparseTensor) -> AnyArray:
    """Return the tensor as a dense array; entries with equal coordinates are summed.

    Law: decompress(compress(form, t)) = t if the format can store t (DECOMPRESSCOMPRESS, §7.5.3).
    """
    return to_dense(tensor)


def to_scipy(tensor: SparseTensor) -> Any:
    """Convert to a scipy.sparse array: without a copy if scipy supports the format, otherwise as coordinates.

    scipy supports CSR, CSC, COO, DIA, and BCSR if the block sizes divide the extents.

    >>> import numpy as np
    >>> from sparse import CSR, pack, to_scipy
    >>> to_scipy(pack(np.eye(2), CSR)).indices
    array([0, 1], dtype=int32)
    """
    import scipy.sparse

    check_sparse_tensor(tensor)
    if not has_scipy_dtype(tensor.values):
        dtype = tensor.values.dtype.name
        raise DtypeError(
            f"scipy.sparse has no matrices of {dtype}",
            required="elements of a type that scipy has, such as float32",
            suggestions=('pack a converted array: pack(decompress(…).astype("float32"), …)',),
        )
    made = scipy_view(tensor.format, tensor.shape, tensor.arrays)
    if made is not None:
        return made
    coordinates, values = entries(tensor)
    return scipy.sparse.coo_array((values, tuple(coordinates)), shape=tensor.shape)


def meaning(form: Format, rank: int, *, dtype: str = DEFAULT) -> Program:
    """Return a program from the arrays of a format to the tensor that they represent, as used in theorems.

    >>> from sparse import COO
    >>> meaning(COO, 1)
    meaning (A_crd : int32[A_nnz] in [0, n0), A_val : float32[A_nnz]) : float32[n0] :=
      Σ[p < A_nnz] place n0 A_crd[p] A_val[p]
    """
    if not isinstance(form, Format) or not is_position(rank):
        raise InvalidArgument(f"meaning({brief(form)}, {brief(rank)})", required="a format, such as CSR, and a rank")
    whole = atl.tensor("A", *(atl.sizes(f"n{k}") for k in range(rank)), dtype=dtype).node
    assert isinstance(whole, Input)
    operand = form.operand(whole.array, ())
    inputs = [atl.Tensor(Input(array)) for array in operand.inputs]
    return replace(atl.program("meaning", inputs, atl.Tensor(operand.meaning)), packed=(operand.packed,))
