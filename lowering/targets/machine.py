"""A model of the machine that kernels run on: registers, vectors, caches and cores, and the tile sizes that fit them.

The model answers from the compiler's predefined macros for its flags and from the caches that the operating system
reports, never from the name of the processor. Each number can be overridden.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from atl.core import dtypes
from atl.errors import InvalidArgument, brief
from lowering.c_compiler import find_compiler

VARIABLE: Final = "ATL_MACHINE"
"""Environment variable with numbers that override those found: ATL_MACHINE="l1=32768,cores=4"."""
SPARE_REGISTERS: Final = 4
"""Vector registers that a register tile leaves for operands and temporaries."""
MAX_ROWS: Final = 8
"""Rows of a register tile: L1 caches have 8 ways or more, and rows whose length is a power of two share a set."""
VECTORS_WIDE: Final = 2
"""Vectors in a row of a register tile: with one, each broadcast operand would serve one multiply-add only."""
SHARE: Final = 4
"""An array stays in the last cache up to the size of that cache divided by this: the others share it."""
BLOCK_LINES: Final = 8
"""Cache lines in a row of a block: its first and last ones are shared with other blocks."""
CACHES: Final = Path("/sys/devices/system/cpu/cpu0/cache")
KIB: Final = 1 << 10
VECTOR_SIZES: Final = (8, 16, 32, 64, 128, 256)
MAX_REGISTERS: Final = 1024


@dataclass(frozen=True, slots=True)
class Machine:
    """The numbers of a machine. Sizes are in bytes. The size of a missing cache is 0.

    Raises `InvalidArgument` for numbers that no machine has. Methods raise `DtypeError` for an unknown element type.

    The register tile and the blocks follow the analytical model of Low et al. (Analytical Modeling Is Enough for
    High-Performance BLIS, 2016) and of Goto and van de Geijn (Anatomy of High-Performance Matrix Multiplication, 2008).

    >>> avx2 = Machine(
    ...     vector_bytes=32, vector_registers=16, fma=True, cores=4, l1=32768, l2=262144, l3=8388608, line=64)
    >>> avx2.register_tile("float32"), avx2.register_tile("float64"), avx2.panel_depth("float32")
    ((6, 16), (6, 8), 256)
    """

    vector_bytes: int
    vector_registers: int
    fma: bool
    cores: int
    l1: int
    l2: int
    l3: int
    line: int

    def __post_init__(self) -> None:
        for field in fields(self):
            value, least = getattr(self, field.name), 0 if field.name in ("l2", "l3", "fma") else 1
            if isinstance(value, bool) != (field.name == "fma") or not isinstance(value, int) or value < least:
                raise InvalidArgument(
                    f"a machine with {field.name}={brief(value)}",
                    required="True or False" if field.name == "fma" else f"a whole number, at least {least}",
                )
        if self.vector_bytes not in VECTOR_SIZES or self.vector_registers > MAX_REGISTERS:
            raise InvalidArgument(
                f"a machine with {self.vector_registers} vector registers of {self.vector_bytes} bytes",
                required=f"at most {MAX_REGISTERS} registers, each of {', '.join(map(str, VECTOR_SIZES))} bytes",
            )

    @property
    def last_cache(self) -> int:
        """The size of the largest cache."""
        return self.l3 or self.l2 or self.l1

    @property
    def resident(self) -> int:
        """The size up to which an array is expected to stay in the last cache: a quarter of that."""
        return self.last_cache // SHARE

    def lanes(self, dtype: str = "float32") -> int:
        """Return the number of elements in a vector."""
        return max(1, self.vector_bytes // itemsize(dtype))

    def register_tile(self, dtype: str = "float32") -> tuple[int, int]:
        """Return rows and columns of the tile of sums that stays in registers, two vectors wide and of at most 8 rows.

        rows · (columns / lanes) <= vector registers − 4, with at least one row. More than three rows are an even
        number. Rows of the left operand are read where they are; more than 8 would compete for the same lines of L1.
        """
        return self.register_tiles(dtype)[0]

    def register_tiles(self, dtype: str = "float32") -> list[tuple[int, int]]:
        """Return tiles of sums that stay in registers, the preferred one first, then wider ones and narrower ones."""
        found: list[tuple[int, int]] = []
        for vectors in (VECTORS_WIDE, 3, 4, 1):
            rows = min(MAX_ROWS, max(1, (self.vector_registers - SPARE_REGISTERS) // vectors))
            found.append((rows - rows % 2 if rows > 3 else rows, vectors * self.lanes(dtype)))
        return found

    def panel_depth(self, dtype: str = "float32") -> int:
        """Return the number of terms in a block of the sum, a power of two.

        A panel with a row for each term, as wide as the register tile, takes at most two thirds of L1.
        """
        _, columns = self.register_tile(dtype)
        return power_of_two(self.l1 * 2 // 3 // (columns * itemsize(dtype)))

    def strip_rows(self, row_bytes: int) -> int:
        """Return the number of image rows, of `row_bytes` bytes each, that fit in half of L2: a power of two."""
        if type(row_bytes) is not int or row_bytes < 1:
            raise InvalidArgument(f"row_bytes={brief(row_bytes)}", required="a positive number of bytes")
        return power_of_two((self.l2 or self.l1) // 2 // row_bytes)

    def panel_elements(self, dtype: str = "float32") -> int:
        """Return the number of elements of a vector that take a quarter of L1: a power of two."""
        return power_of_two(self.l1 // 4 // itemsize(dtype))

    def window_block(self, dtype: str = "float32") -> tuple[int, int]:
        """Return rows and columns of a block whose elements are read through windows of three rows.

        A row has the columns of eight cache lines. The rows, with two for the border, take at most half of L1.
        """
        columns = max(self.lanes(dtype), BLOCK_LINES * self.line // itemsize(dtype))
        return power_of_two(max(1, self.l1 // 2 // (columns * itemsize(dtype)) - 2)), columns

    def __str__(self) -> str:
        (rows, columns), (_, doubles) = self.register_tile(), self.register_tile("float64")
        caches = ", ".join(f"L{n} {size // KIB} KiB" for n, size in ((1, self.l1), (2, self.l2), (3, self.l3)) if size)
        fused = ", fused multiply-add" if self.fma else ""
        return "\n".join((
            f"vectors         {self.vector_registers} registers of {self.vector_bytes} bytes{fused}",
            f"caches          {caches}, lines of {self.line} bytes",
            f"cores           {self.cores}",
            f"register tile   {rows} x {columns} of float32, {rows} x {doubles} of float64",
            f"panel depth     {self.panel_depth()} terms of float32",
        ))  # fmt: skip


def machine() -> Machine:
    """Return the model of this machine, for the C compiler that `compile` uses and its flags.

    ATL_MACHINE overrides numbers of it. Raises `InvalidArgument` if that is malformed, and what `find_compiler` raises.
    """
    compiler = find_compiler()
    l1, l2, l3, line = caches()
    found = Machine(
        vector_bytes=compiler.vector_bytes, vector_registers=compiler.vector_registers, fma=compiler.fma,
        cores=cores(), l1=l1, l2=l2, l3=l3, line=line,
    )  # fmt: skip
    text = os.environ.get(VARIABLE, "")
    try:
        return replace(found, **_overrides(text))
    except InvalidArgument as error:
        error.suggestions += (f"correct {VARIABLE}={text!r}",)
        raise


def cores() -> int:
    """Return the number of processors on which this process may run."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def caches(folder: Path = CACHES) -> tuple[int, int, int, int]:
    """Return the sizes of L1 for data, L2 and L3, and the size of a line; usual ones where nothing is reported.

    An L2 or L3 that is not reported has the size 0 if another cache is.
    """
    sizes, line = dict[int, int](), 64
    for index in sorted(folder.glob("index*")):
        try:
            level, kind, size, width = (
                (index / name).read_text(encoding="ascii").strip()
                for name in ("level", "type", "size", "coherency_line_size")
            )
            if kind != "Instruction":
                sizes[int(level)], line = int(size.removesuffix("K")) * KIB, int(width)
        except (OSError, ValueError):
            continue
    return sizes.get(1, 32 * KIB), sizes.get(2, 0 if sizes else 256 * KIB), sizes.get(3, 0), line


def _overrides(text: str) -> dict[str, Any]:
    names = [field.name for field in fields(Machine)]
    found: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("=")
        value = value.strip()
        if name not in names or not value.isdecimal() or (name == "fma" and value not in ("0", "1")):
            raise InvalidArgument(
                f"{VARIABLE}={text!r}: {part!r} is not understood",
                required=f"name=number, separated by commas; the names are {', '.join(names)}, and fma is 0 or 1",
                suggestions=(f'{VARIABLE}="vector_registers=16,l1=32768"',),
            )
        found[name] = value == "1" if name == "fma" else int(value)
    return found


def itemsize(dtype: str) -> int:
    """Return the size of an element in bytes. Raises `DtypeError`."""
    return dtypes.bits(dtypes.checked_dtype(dtype)) // 8


def power_of_two(number: int) -> int:
    """Return the largest power of two that is not larger than a number, and 1 for 0."""
    return 1 << max(0, number.bit_length() - 1)


__all__ = ["Machine", "machine"]
