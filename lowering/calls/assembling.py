"""Calls of kernels that assemble a sparse result: arrays for its entries, which grow until they suffice."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
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
KEPT_WORKSPACES: Final = 4
"""Number of workspaces that a kernel keeps for later calls."""


class Assembler:
    """Calls of a C function that assembles its result. `sparse` are the inputs that are arrays of sparse operands.

    A workspace is empty after a call, and is used again by later calls with the same number of columns.
    """

    def __init__(self, nest: LoopNest, ffi: Any, from_buffer: Callable[..., Any], *, sparse: Container[str]) -> None:
        self._name: Final = nest.name
        self._text: Final = AssembledText.of(nest)
        self._assembly: Final = self._text.assembly
        self._from_buffer = from_buffer
        self._sparse: Final = [at for at, array in enumerate(nest.inputs) if array.name in sparse]
        self._kinds: Final = {role: ffi.typeof(kind.replace(" *", "[]")) for role, kind in parameter_types(nest)}
        self._values: Final = ffi.typeof(f"{C_TYPES[nest.output.dtype]}[]")
        self._new_space: Callable[[tuple[int, int]], Any] = lambda first: ffi.new("int64_t[2]", first)
        self._most = range_of(self._assembly.index_dtype)[1]
        self._kept: list[tuple[int, list[AnyArray]]] = []

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
        """Call the function and return its result; None if there is no memory for a buffer.

        Raises `IndexOverflow` if the index dtype cannot count the entries, and `OutOfMemory`.
        """
        order = self._assembly.order
        rows = shape[order[0]] if len(order) > 1 else 1
        columns = prod(shape[k] for k in order[len(order) > 1 :])
        if columns - 1 > range_of(self._assembly.column_dtype)[1]:
            raise self._overflow(f"the columns of the result are numbered up to {columns - 1}")
        made = self._filled(function, (*pointers, *sizes), rows, columns, self._guess(passed))
        return None if made is None else self._assembly.make(made, shape, in_scipy=in_scipy)

    @contextmanager
    def _allocating(self, rows: int, columns: int, entries: int) -> Iterator[None]:
        """Raise `OutOfMemory` if NumPy cannot allocate an array. A `ValueError` of NumPy means too many bytes."""
        try:
            yield
        except (MemoryError, ValueError):
            raise OutOfMemory(
                f"there is not enough memory for the entries of the result of {self._name}",
                required="memory for the entries, and for a workspace of one row",
                numbers={"rows": rows, "columns": columns, "entries": entries},
            ) from None

    def _filled(
        self, function: Callable[..., int], given: tuple[Any, ...], rows: int, columns: int, guess: int
    ) -> list[AnyArray] | None:
        counted = self._text.kind == "counted"
        # A row may have as many entries as columns. Positions of entries that are kept in the workspace must fit, too.
        slack = 0 if counted else columns
        limit = self._most + (0 if self._text.has_places else slack)
        capacity = 0 if counted else min(guess + slack, limit)
        with self._allocating(rows, columns, capacity):
            pos = np.empty(rows + 2, self._assembly.index_dtype)
            crd, values = np.empty(capacity, self._assembly.column_dtype), np.empty(capacity, self._text.dtype)
            workspace = self._workspace(columns)
        pos[0] = 0
        space = self._new_space((0, capacity))
        pointer, kinds = self._from_buffer, iter(self._kinds.values())
        first, last = pointer(next(kinds), pos), next(kinds)
        others = [pointer(kind, array) for kind, array in zip(kinds, workspace, strict=False)]
        while (
            status := function(*given, pointer(self._values, values), first, pointer(last, crd), *others, space)
        ) == OUT_OF_SPACE:
            stored = 0 if counted else int(space[1]) - columns
            needed = int(space[1])
            if needed > limit:
                raise self._overflow(
                    f"the result of {self._name} has {stored or needed} entries"
                    + (f" in its first {space[0]} rows, and a row may have {columns}" if not counted else "")
                )
            capacity = needed if counted else min(max(needed, GROWTH * capacity), limit)
            with self._allocating(rows, columns, capacity):
                crd, values = _longer(crd, stored, capacity), _longer(values, stored, capacity)
            space[1] = capacity
        if status == OUT_OF_MEMORY:
            return None
        if len(self._kept) < KEPT_WORKSPACES and workspace:
            self._kept.append((columns, workspace))
        end = int(pos[rows])
        if not 0 <= end <= self._most:
            raise self._overflow(f"the result of {self._name} has too many entries")
        return [pos[: rows + 1], _fitted(crd, end), _fitted(values, end)]

    def _workspace(self, columns: int) -> list[AnyArray]:
        """Return an empty workspace for rows with this number of columns."""
        if self._text.has_places:
            return [np.full(columns, -1, self._assembly.index_dtype)]
        if not self._text.has_bits:
            return []
        try:
            known, workspace = self._kept.pop()
        except IndexError:
            known, workspace = -1, []
        if known == columns:
            return workspace
        words = -(-columns // 64)
        counts = ((columns, self._text.dtype), (words, "uint64"), (-(-words // 64), "uint64"))
        return [np.zeros(count, dtype) for count, dtype in counts]

    def _guess(self, passed: Sequence[Any]) -> int:
        """Return a number of entries for which there is space at first, by the longest array of a sparse operand.

        Dense operands do not count: their product may be sampled at few entries.
        """
        times = {"appended": 1, "union": 2}.get(self._text.kind, GROWTH)
        return times * max((passed[at].size for at in self._sparse), default=0)

    def _overflow(self, what: str) -> IndexOverflow:
        index = self._assembly.index_dtype
        hints = (f'store it in a format with 64-bit indices: s.assemble(….with_index_dtype("int64")), not {index}',)
        return IndexOverflow(
            what,
            required=f"positions and columns of at most {self._most}, which {index} can store",
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
