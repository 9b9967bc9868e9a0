"""Calls of kernels that assemble a sparse result: arrays for its entries, which grow until they suffice."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from functools import partial
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from atl.core.dtypes import range_of
from atl.errors import IndexOverflow, OutOfMemory
from lowering.c.assembly import parameter_types
from lowering.c.helpers import OUT_OF_MEMORY, OUT_OF_SPACE
from lowering.c.scalars import C_TYPES
from lowering.nest.loopnest import LoopNest
from lowering.nest.text import AssembledText

AnyArray: TypeAlias = npt.NDArray[Any]

GROWTH: Final = 4
"""Factor by which arrays grow."""
LEAST: Final = 4096
"""Number of entries for which there is space at first: allocating more takes longer."""
KEPT_WORKSPACES: Final = 4
"""Number of workspaces that a kernel keeps for later calls."""


class Assembler:
    """Calls of a C function that assembles its result. `sparse` are the inputs that are arrays of sparse operands.

    `dtype` is the element type of the result. Entries are computed in a wider type if it is only stored, as float16.

    A workspace is empty after a call, and is used again by later calls with the same number of columns.
    """

    def __init__(
        self,
        nest: LoopNest,
        ffi: Any,
        from_buffer: Callable[..., Any],
        *,
        dtype: str,
        sparse: Container[str],
        threads: Callable[[], int] | None,
    ) -> None:
        self._name: Final = nest.name
        self._text: Final = AssembledText.of(nest)
        self._assembly: Final = self._text.assembly
        self._from_buffer = from_buffer
        self._counted: Final = self._text.kind == "counted" or self._text.parallel
        self._threads: Final = threads if self._text.parallel and threads is not None else lambda: 1
        self._has_places: Final = self._text.has_places
        self._has_bits: Final = self._text.has_bits
        self._sparse: Final = [at for at, array in enumerate(nest.inputs) if array.name in sparse]
        typed = ((role, ffi.typeof(kind.replace(" *", "[]"))) for role, kind in parameter_types(nest))
        (_, self._pos), (_, self._crd), *workspaces = typed
        self._workspaces: Final = tuple(kind for _, kind in workspaces)
        self._values: Final = ffi.typeof(f"{C_TYPES[nest.output.dtype]}[]")
        self._dtypes: Final = tuple(
            map(np.dtype, (self._text.dtype, self._assembly.index_dtype, self._assembly.column_dtype))
        )
        self._new_space: Callable[[tuple[int, int]], Any] = partial(ffi.new, ffi.typeof("int64_t[2]"))
        self._dtype: Final = np.dtype(dtype)
        self._most: Final = range_of(self._assembly.index_dtype)[1]
        self._most_columns: Final = range_of(self._assembly.column_dtype)[1]
        self._times: Final = {"appended": 1, "union": 2, "counted": 1}.get(self._text.kind, GROWTH)
        self._kept: list[tuple[tuple[int, int], list[Any], list[AnyArray]]] = []

    def make(
        self,
        function: Callable[..., int],
        pointers: Sequence[Any],
        sizes: Sequence[int],
        shape: tuple[int, ...],
        passed: Sequence[Any],
        *,
        in_scipy: bool,
    ) -> object:
        """Call the function and return its result; None if memory for a buffer is lacking.

        Raises `IndexOverflow` if the index dtype cannot count the entries, and `OutOfMemory`.
        """
        order = self._assembly.order
        rows = shape[order[0]] if len(order) > 1 else 1
        columns = prod(shape[k] for k in order[len(order) > 1 :])
        if columns - 1 > self._most_columns:
            named = ("rows", "columns")[order[1]] if len(order) == 2 else "elements of a row"
            raise self._overflow(f"the {named} of the result are numbered up to {columns - 1}")
        made = self._filled(function, (*pointers, *sizes), rows, columns, self._guess(passed))
        if made is None:
            return None
        if self._dtype != self._dtypes[0]:
            made = self._converted(*made)
        return self._assembly.make(made, shape, in_scipy=in_scipy)

    def _converted(self, pos: AnyArray, crd: AnyArray, values: AnyArray) -> list[AnyArray]:
        """Convert values to the type of the result. If zeros are dropped, so are values that are rounded to zero."""
        values = values.astype(self._dtype)
        if self._assembly.zeros or values.all():
            return [pos, crd, values]
        kept = values != 0
        before = np.zeros(len(kept) + 1, pos.dtype)
        np.cumsum(kept, out=before[1:])
        return [before[pos], crd[kept], values[kept]]

    def _filled(
        self, function: Callable[..., int], given: tuple[Any, ...], rows: int, columns: int, guess: int
    ) -> list[AnyArray] | None:
        counted, most = self._counted, self._most
        # A row may have as many entries as columns. Positions of entries that are kept in the workspace must fit, too.
        slack = 0 if counted else columns
        limit = most + (0 if self._has_places else slack)
        capacity = min(max(guess, LEAST) + slack, limit)
        of_values, of_positions, of_columns = self._dtypes
        extent = (columns, self._threads())
        try:
            pos = np.empty(rows + 2, of_positions)
            crd, values = np.empty(capacity, of_columns), np.empty(capacity, of_values)
            work, workspace = self._workspace(extent)
        except (MemoryError, ValueError):
            raise self._no_memory(rows, columns, capacity) from None
        pos[0] = 0
        space = self._new_space((0, capacity))
        pointer = self._from_buffer
        bounds = pointer(self._pos, pos)
        workspace = workspace or list(map(pointer, self._workspaces, work))
        while (
            status := function(
                *given, pointer(self._values, values), bounds, pointer(self._crd, crd), *workspace, space
            )
        ) == OUT_OF_SPACE:
            needed = int(space[1])
            stored = 0 if counted else needed - columns
            if needed > limit:
                raise self._overflow(
                    f"the result of {self._name} has {stored or needed} entries"
                    + (f" in its first {space[0]} rows, and a row may have {columns}" if not counted else "")
                )
            capacity = needed if counted else min(max(needed, GROWTH * capacity), limit)
            try:
                crd, values = _longer(crd, stored, capacity), _longer(values, stored, capacity)
            except (MemoryError, ValueError):
                raise self._no_memory(rows, columns, capacity) from None
            space[1] = capacity
        if status == OUT_OF_MEMORY:
            return None
        if work and self._has_bits and len(self._kept) < KEPT_WORKSPACES:
            self._kept.append((extent, workspace, work))
        end = int(pos[rows])
        if not 0 <= end <= most:
            raise self._overflow(f"the result of {self._name} has too many entries")
        return [pos[: rows + 1], _fitted(crd, end), _fitted(values, end)]

    def _workspace(self, extent: tuple[int, int]) -> tuple[list[AnyArray], list[Any]]:
        """Return an empty workspace for rows with this number of columns, and known pointers to its arrays."""
        columns, _ = extent
        if self._has_places:
            place = np.empty(columns, self._dtypes[1])
            place.fill(-1)
            arrays = [place]
        elif not self._has_bits:
            return [], []
        else:
            try:
                known, workspace, arrays = self._kept.pop()
            except IndexError:
                pass
            else:
                if known == extent:
                    return arrays, workspace
            words = -(-columns // 64)
            counts = ((columns, self._dtypes[0]), (words, "uint64"), (-(-words // 64), "uint64"))
            arrays = [np.zeros(extent[1] * count, dtype) for count, dtype in counts]
        return arrays, []

    def _guess(self, passed: Sequence[Any]) -> int:
        """Return a number of entries for which there is space at first, by the longest array of a sparse operand.

        Dense operands do not count: their product may be sampled at few entries.
        """
        return self._times * max([passed[at].size for at in self._sparse], default=0)

    def _no_memory(self, rows: int, columns: int, entries: int) -> OutOfMemory:
        """Return the error of NumPy's `MemoryError`, or of its `ValueError`, which means too many bytes."""
        return OutOfMemory(
            f"there is not enough memory for the entries of the result of {self._name}",
            required="memory for the entries, and for a workspace of one row",
            numbers={"rows": rows, "columns": columns, "entries": entries},
        )

    def _overflow(self, what: str) -> IndexOverflow:
        index = self._assembly.index_dtype
        hints = (f'store it in a format with 64-bit indices: s.assemble(….with_index_dtype("int64")), not {index}',)
        return IndexOverflow(
            what,
            required=f"positions and coordinates of at most {self._most}, which {index} can store",
            suggestions=hints if index != "int64" else (),
        )


def _longer(array: AnyArray, stored: int, capacity: int) -> AnyArray:
    """Return a longer array that begins with the stored elements."""
    made = np.empty(capacity, array.dtype)
    made[:stored] = array[:stored]
    return made


def _fitted(array: AnyArray, end: int) -> AnyArray:
    """Return the array after giving back the memory behind its first elements. No other object refers to it."""
    array.resize(end, refcheck=False)
    return array
