"""An interpreter of kernels: the launches of a host, in the order of the loop nest, on a heap of partial maps.

It is the interpreter of loop nests, and knows besides who touched each cell last: which thread of which block, since
which barrier. Two threads at one cell without a barrier between them, or two blocks of one launch, one of which changes
it, is a trap; and so is a register of another thread. Barriers are all that orders threads, so on given inputs this
answers for every order in which a GPU may run them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final, TypeAlias, assert_never

import numpy.typing as npt

from atl.core.index import Index, index
from atl.core.marks import THREADS
from lowering.gpu.folds import waits_for_all
from lowering.gpu.kernels import (
    AXES,
    Barrier,
    Branch,
    Dealt,
    HostBlock,
    HostBranch,
    HostLoop,
    Kernels,
    Launch,
    Repeat,
    Run,
    Step,
    Steps,
    Where,
    in_registers,
    is_own,
    wide_cells,
)
from lowering.nest import interpreter
from lowering.nest.interpreter import Outcome
from lowering.nest.loopnest import (
    Accumulate,
    Allocate,
    Assign,
    Buffer,
    Cell,
    Clear,
    Declare,
    For,
    Free,
    Scalar,
    Statement,
)
from lowering.nest.races import AccessKind
from lowering.nest.traps import Trap

AnyArray: TypeAlias = npt.NDArray[Any]
Thread: TypeAlias = tuple[int | None, int | None, int | None]
"""A thread of a block by its number along each axis; None for all of them at once."""
Cells: TypeAlias = tuple[int, int]
"""The `uid` of a buffer, and an address in it."""


def run(kernels: Kernels, sizes: Mapping[str, int], arrays: Mapping[str, AnyArray]) -> AnyArray:
    """The output of kernels for sizes and arrays that meet the declarations of their nest. Raises `Trap`."""
    return execute(kernels, sizes, arrays).to_numpy()


def execute(
    kernels: Kernels,
    sizes: Mapping[str, int],
    arrays: Mapping[str, AnyArray],
    *,
    steps: int | None = None,
    order: int = 0,
) -> Outcome:
    """A run of kernels, with the set of output cells that it stores; `order` chooses that of the threads.

    Raises `Trap`, and `TooLarge` when it takes more than this many `steps`: statements carried out.
    """
    try:
        return _KernelRun(kernels, sizes, arrays, steps, order).outcome()
    except ZeroDivisionError as error:
        raise Trap("divisor", f"an index is divided by {error.args[0]}") from None


@dataclass(slots=True)
class _Seen:
    """Who has touched a cell in a launch: blocks, and the threads of the last of them since its last barrier."""

    writer: int | None = None
    readers: set[int] = field(default_factory=set)
    since: tuple[int, int] = (0, 0)
    writes: set[Thread] = field(default_factory=set)
    reads: set[Thread] = field(default_factory=set)


class _KernelRun(interpreter.Interpreter):
    """The state of a run: besides that of a loop nest, the block and the thread that are at work."""

    def __init__(
        self,
        kernels: Kernels,
        sizes: Mapping[str, int],
        arrays: Mapping[str, AnyArray],
        steps: int | None,
        order: int,
    ) -> None:
        super().__init__(kernels.nest, sizes, arrays, steps, order)
        self._kernels: Final = kernels
        self._launch: Launch | None = None
        self._wide: dict[Cell, tuple[For, int]] = {}
        self._number = 0  # of the block in its launch
        self._interval = 0  # of barriers, in the block
        self._thread: dict[int, int] = {}
        self._by_the_first = False  # what is done outside of the loops of an axis
        self._seen: dict[Cells, _Seen] = {}
        self._owners: dict[Cells, Thread] = {}
        self._private: dict[int, dict[int, int]] = {}  # the thread by which a buffer was allocated, as far as it is one
        self._slots: dict[tuple[int, Thread, int], int] = {}

    def _whole(self) -> None:
        self._host(self._kernels.body)

    # -- the host -----------------------------------------------------------------------------------------------------

    def _host(self, block: HostBlock) -> None:
        for step in block:
            match step:
                case Launch():
                    self._launched(step)
                case HostLoop(variable, low, high, body):
                    outside = self._conditions
                    for value in range(self._index(low), self._index(high)):
                        self._variables[variable] = value
                        self._conditions = outside | {step.range}
                        self._host(body)
                    self._variables.pop(variable, None)
                    self._conditions = outside
                case HostBranch(predicate, body):
                    if self._holds(predicate):
                        outside = self._enter(predicate)
                        self._host(body)
                        self._conditions = outside
                case Allocate() | Clear():
                    self._statement(step)
                case Free(buffer):
                    self._free(buffer)
                case _:
                    assert_never(step)

    def _launched(self, launch: Launch) -> None:
        self._launch = launch
        self._wide = {cell: (loop, lanes) for cell, loop, lanes in wide_cells(launch)}
        self._number = 0
        self._seen = {}
        self._blocks(launch, launch.grid)
        self._launch = None

    def _blocks(self, launch: Launch, grid: tuple[For, ...]) -> None:
        """The blocks of a grid, of which these loops are left."""
        if not grid:
            self._block_of(launch)
            return
        loop, *inner = grid
        outside = self._enter(loop)
        for value in range(self._index(loop.low), self._index(loop.high)):
            self._variables[loop.variable] = value
            self._blocks(launch, tuple(inner))
        self._variables.pop(loop.variable, None)
        self._conditions = outside

    def _block_of(self, launch: Launch) -> None:
        self._number += 1
        self._interval = 0
        self._seen = {cell: seen for cell, seen in self._seen.items() if launch.places.get(cell[0]) is None}
        self._owners, self._slots = {}, {}
        self._steps_of(launch.body)

    # -- a block ------------------------------------------------------------------------------------------------------

    def _steps_of(self, steps: Steps) -> None:
        declared: list[Scalar] = []
        for step in steps:
            self._step(step)
            if isinstance(step, Declare):
                declared.append(step.variable)
        for variable in declared:
            del self._stack[variable]

    def _step(self, step: Step) -> None:
        match step:
            case Run(statement, sums):
                self._statement(statement)
                if self._launch and any(waits_for_all(fold, self._launch.threads) for fold in sums):
                    self._interval += 1
            case Barrier():
                self._interval += 1
            case Repeat(variable, low, high, body):
                values = range(self._index(low), self._index(high))
                outside = self._conditions
                self._conditions = outside | {step.range}
                for value in values:
                    self._variables[variable] = value
                    self._steps_of(body)
                self._variables.pop(variable, None)
                self._conditions = outside
            case Branch(predicate, body):
                if self._holds(predicate):
                    outside = self._enter(predicate)
                    self._steps_of(body)
                    self._conditions = outside
            case Declare() | Allocate() | Clear():
                self._statement(step)
            case Free(buffer):
                self._free(buffer)
            case _:
                assert_never(step)

    def _statement(self, statement: Statement) -> None:
        outer = self._by_the_first
        if isinstance(statement, Assign | Accumulate):
            self._by_the_first = not is_own(statement.target, self._places)
        elif isinstance(statement, Declare):
            self._by_the_first = False
        super()._statement(statement)
        self._by_the_first = outer

    def _ordered(self, loop: For, values: range) -> Iterator[int]:
        if loop.mark not in THREADS:
            yield from super()._ordered(loop, values)
            return
        axis = THREADS.index(loop.mark)
        if self._launch is None or (values and len(values) > self._launch.threads[axis]):
            raise Trap("undeclared", f"{len(values)} threads along {AXES[axis]} are more than a block has")
        for value in super()._ordered(loop, values):
            self._thread[axis] = value - values.start
            yield value
            self._thread.pop(axis)

    # -- who touches what ---------------------------------------------------------------------------------------------

    @property
    def _places(self) -> Mapping[int, Where]:
        return {} if self._launch is None else self._launch.places

    def _at_work(self) -> Thread:
        """The thread that is at work; all along an axis of none of whose loops this is a part, but for the first."""
        extents = (1, 1, 1) if self._launch is None else self._launch.threads
        x, y, z = (
            self._thread.get(axis, 0 if self._by_the_first or extent == 1 else None)
            for axis, extent in enumerate(extents)
        )
        return x, y, z

    def _touch(self, storage: Buffer | Scalar, at: int, made: int, how: AccessKind) -> None:
        super()._touch(storage, at, made, how)
        if self._launch is None:
            return
        if isinstance(storage, Scalar):
            if how == "write" and self._watch.depth > made:
                raise Trap("data race", f"{storage.name}, of which each thread has a copy, is changed in one of them")
            return
        where = self._places.get(storage.uid, "global")
        if where in ("global", "shared"):
            self._seen_by_others(storage, at, how)
        elif where == "private" and self._private.get(storage.uid, self._thread) != self._thread:
            raise Trap("register", f"{storage.name} at {at}, of which each thread has one, is touched by several")

    def _seen_by_others(self, buffer: Buffer, at: int, how: AccessKind) -> None:
        seen = self._seen.setdefault((buffer.uid, at), _Seen())
        if seen.writer not in (None, self._number) or (how != "read" and seen.readers - {self._number}):
            raise Trap("data race", f"{buffer.name} at {at}: two blocks of a launch meet, and one of them changes it")
        if seen.since != (self._number, self._interval):
            seen.since, seen.writes, seen.reads = (self._number, self._interval), set(), set()
        thread = self._at_work()
        for another in seen.writes if how == "read" else seen.writes | seen.reads:
            if another != thread or None in another:
                raise Trap(
                    "data race", f"{buffer.name} at {at}: the threads {another} and {thread} meet, without a barrier"
                )
        if how == "read":
            seen.readers.add(self._number)
            seen.reads.add(thread)
        else:
            seen.writer = self._number
            seen.writes.add(thread)

    def _place(self, cell: Cell) -> tuple[interpreter.Memory, int]:
        memory, address = super()._place(cell)
        where = self._places.get(cell.buffer.uid)
        if isinstance(where, Dealt):
            self._look_at_register(cell, where, address)
        self._look_at_vector(cell)
        return memory, address

    def _read(self, source: Cell | Scalar) -> Any:
        if isinstance(source, Cell):
            self._look_at_vector(source)
        return super()._read(source)

    def _look_at_vector(self, cell: Cell) -> None:
        """Raises a trap where what is read or stored at once does not lie side by side from a multiple on."""
        if self._launch is None or cell not in self._wide:
            return
        loop, lanes = self._wide[cell]
        first = self._index(cell.address) - (self._variables[loop.variable] - self._index(loop.low))
        if first % lanes:
            raise Trap("alignment", f"{cell.buffer.name} from {first} on is not aligned to {lanes} elements")

    def _look_at_register(self, cell: Cell, where: Dealt, address: int) -> None:
        """Raises a trap where a register is of another thread, or keeps two elements."""
        threads = {axis: index(thread) for axis, thread in self._thread.items()}
        missing = [share.axis for share in where.shares if share is not None and share.axis not in threads]
        if missing:
            raise Trap("register", f"{cell.buffer.name} at {address}, in no loop along {AXES[missing[0]]}")
        thread = self._at_work()
        owner = self._owners.setdefault((cell.buffer.uid, address), thread)
        if owner != thread:
            raise Trap("register", f"{cell.buffer.name} at {address} is a register of {owner}, not of {thread}")
        at, _ = self._positions(in_registers(Cell(cell.buffer, self._as_numbers(cell)), where, threads))
        slot = 0
        for position, extent in zip(at, where.extents, strict=True):
            slot = slot * extent + position
        if self._slots.setdefault((cell.buffer.uid, thread, slot), address) != address:
            raise Trap("register", f"{cell.buffer.name} at {address} is in register {slot}, with another element")

    def _as_numbers(self, cell: Cell) -> tuple[tuple[Index, Index], ...]:
        return tuple((index(self._index(position)), extent) for position, extent in cell.pairs)

    def _allocate(self, buffer: Buffer, capacity: int, *, zeroed: bool) -> None:
        self._private[buffer.uid] = dict(self._thread)
        super()._allocate(buffer, capacity, zeroed=zeroed)

    def _clear(self, buffer: Buffer, count: int, *, zeroed: bool) -> None:
        """What is emptied; zeros are stored by all threads of a block, each to the cells of its number."""
        if self._launch is None or self._places.get(buffer.uid, "global") not in ("global", "shared"):
            super()._clear(buffer, count, zeroed=zeroed)
            return
        memory = self._memory(buffer)
        if not 0 <= count <= memory.capacity:
            raise Trap("capacity", f"{count} elements of {buffer.name} are cleared; it has {memory.capacity}")
        if zeroed:
            self._zeros_stored(buffer, count)
        memory.zeroed = max(memory.zeroed, count) if zeroed else 0
        for address in [address for address in memory.cells if address < count]:
            del memory.cells[address]

    def _zeros_stored(self, buffer: Buffer, count: int) -> None:
        x, y, z = self._launch.threads if self._launch else (1, 1, 1)
        threads = [(a, b, c) for c, b, a in product(range(z), range(y), range(x))]
        before = self._thread
        for address in range(count):
            self._thread = dict(enumerate(threads[address % len(threads)]))
            self._seen_by_others(buffer, address, "write")
        self._thread = before
