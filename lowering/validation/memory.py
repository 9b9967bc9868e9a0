"""Memory of the C machine: blocks of cells, and pointers into them."""

from __future__ import annotations

from typing import Any, Final

from atl.errors import NotInSubset
from lowering.validation.errors import TextTrap
from lowering.validation.types import Number


class Mark:
    """A cell without an element: `UNSET`, or `ZERO`, whose bytes are zero."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


UNSET: Final = Mark("unset")
ZERO: Final = Mark("zero")


class Block:
    """Memory that was allocated at once. `of` is the type of its cells, or None until they are accessed.

    `dtype` is the element type of the cells of an array that is passed to the function.
    """

    __slots__ = ("address", "bytes", "cells", "dtype", "fill", "freed", "name", "of", "on_heap", "read_only", "zeroed")

    def __init__(self, name: str, size: int, address: int, of: Number | None = None, *, on_heap: bool = False) -> None:
        self.name = name
        self.bytes = size
        self.address = address
        self.of = of
        self.dtype = "" if of is None else of.dtype
        self.on_heap = on_heap
        self.read_only = False
        self.freed = False
        self.fill: Mark = UNSET
        self.zeroed = 0
        """Bytes at the beginning that are zero, before the cells have a type."""
        self.cells: list[Any] = [] if of is None else [UNSET] * (size // of.size)

    def typed(self, of: Number) -> None:
        """Give the cells their type at the first access."""
        self.of = of
        self.dtype = of.dtype
        zeros, cells = self.zeroed // of.size, self.bytes // of.size
        self.cells = [ZERO] * zeros + [self.fill] * (cells - zeros)

    def index(self, offset: int, of: Number, lanes: int, alignment: int, line: int, *, writes: bool) -> int:
        """Return the number of the first of some cells. Raises `TextTrap` unless all can be accessed."""
        if self.freed:
            end = "it is freed" if self.on_heap else "its block ends"
            raise TextTrap("freed", f"{self.name} is accessed after {end}", line)
        if self.of is not of:
            if self.of is None:
                self.typed(of)
            elif self.of.size != of.size or self.of.is_float != of.is_float:
                raise TextTrap("type", f"{self.name}, of {self.of.name}, is accessed as {of.name}", line)
        at, rest = divmod(offset, of.size)
        if rest or (self.address + offset) % alignment:
            raise TextTrap("alignment", f"{self.name} at byte {offset}, which {alignment} does not divide", line)
        if not 0 <= at <= len(self.cells) - lanes:
            doing = "written" if writes else "read"
            elements = f"element {at}" if lanes == 1 else f"elements {at} to {at + lanes - 1}"
            raise TextTrap("out of bounds", f"{elements} of {self.name} {doing}, which has {len(self.cells)}", line)
        if writes and self.read_only:
            raise TextTrap("read-only", f"element {at} of the input {self.name} is written", line)
        return at


class Address:
    """A pointer: a block and an offset in bytes."""

    __slots__ = ("block", "offset")

    def __init__(self, block: Block, offset: int = 0) -> None:
        self.block = block
        self.offset = offset

    def __add__(self, count: int) -> Address:
        return Address(self.block, self.offset + count)


class Heap:
    """Allocations of one run. The allocation with the number `fails` returns a null pointer.

    The other blocks then contain zeros at first: after a failure in an iteration of a parallel loop, results of the
    iterations do not matter.
    """

    def __init__(self, fails: int | None = None) -> None:
        self._fails = fails
        self._next = 1 << 20
        self.count = 0
        self.blocks: list[Block] = []

    def place(self, size: int, alignment: int = 64, beyond: int = 0) -> int:
        """Return the address of a new block, `beyond` a multiple of the alignment."""
        address = -(-self._next // alignment) * alignment + beyond
        self._next = address + size + 4096
        return address

    def allocate(self, size: int, alignment: int, line: int) -> Address | None:
        """Return new memory, or None if this allocation is to fail."""
        self.count += 1
        if self.count == self._fails:
            return None
        if size > 1 << 33:
            raise NotInSubset(f"an allocation of {size} bytes", required="smaller sizes")
        block = Block(f"the block allocated in line {line}", size, self.place(size, alignment), on_heap=True)
        block.fill = UNSET if self._fails is None else ZERO
        self.blocks.append(block)
        return Address(block)

    def free(self, at: Address | None, line: int) -> None:
        """Free a block; a null pointer is allowed."""
        if at is None:
            return
        if not at.block.on_heap or at.offset:
            raise TextTrap("double free", f"{at.block.name} is not the result of an allocation", line)
        if at.block.freed:
            raise TextTrap("double free", f"{at.block.name} is freed twice", line)
        at.block.freed = True

    def check_leaks(self) -> None:
        """Raise `TextTrap` if a block is not freed."""
        for block in self.blocks:
            if not block.freed:
                raise TextTrap("leak", f"{block.name} is not freed")
