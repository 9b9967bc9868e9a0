"""An interpreter of kernels: executes the launches of a host in the order of the loop nest, with checked memory.

It extends the interpreter of loop nests by recording who accessed each cell last: the thread, the block, and the
interval between barriers. It traps if two threads access a cell without a barrier between them, or two blocks of one
launch do, and one of them writes. It also traps on an access to another thread's register, except by a shuffle in
which all lanes of the warp take part. Threads are ordered by barriers only, so the result for given inputs covers every
order in which a GPU may run the threads.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final, TypeAlias, assert_never

import numpy.typing as npt

from atl.core.index import Index, Var, index
from atl.core.marks import THREADS
from lowering.gpu import kernels as kn
from lowering.gpu.folds import needs_barrier
from lowering.nest import interpreter
from lowering.nest import loopnest as ln
from lowering.nest.execution import AccessKind, Trap
from lowering.nest.interpreter import Outcome

AnyArray: TypeAlias = npt.NDArray[Any]
Thread: TypeAlias = tuple[int | None, int | None, int | None]
"""A thread of a block, by its number along each axis; None for all threads along an axis."""
Cells: TypeAlias = tuple[int, int]
"""The `uid` of a buffer, and an address in it."""


def run(kernels: kn.Kernels, sizes: Mapping[str, int], arrays: Mapping[str, AnyArray]) -> AnyArray:
    """Run kernels on sizes and arrays that satisfy the declarations of their nest; return the output. Raises `Trap`."""
    return execute(kernels, sizes, arrays).to_numpy()


def execute(
    kernels: kn.Kernels,
    sizes: Mapping[str, int],
    arrays: Mapping[str, AnyArray],
    *,
    steps: int | None = None,
    order: int = 0,
) -> Outcome:
    """Run kernels; return the result with the set of output cells that are stored. `order` seeds the order of threads.

    Raises `Trap`; `TooLarge` after `steps` executed statements.
    """
    try:
        return _KernelRun(kernels, sizes, arrays, steps, order).outcome()
    except ZeroDivisionError as error:
        raise Trap("divisor", f"an index is divided by {error.args[0]}") from None


@dataclass(slots=True)
class _Seen:
    """The accesses to a cell in a launch: by blocks, and by the threads of the last block since its last barrier."""

    writer: int | None = None
    readers: set[int] = field(default_factory=set)
    since: tuple[int, int] = (0, 0)
    writes: set[Thread] = field(default_factory=set)
    reads: set[Thread] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Pending:
    """An asynchronous copy that has not arrived: its group, thread, place and value."""

    group: int
    thread: Thread
    buffer: ln.Buffer
    row: int
    address: int
    value: Any


@dataclass(slots=True)
class _Warp:
    """The lanes of a warp that took part in a shuffle so far, of the number wanted, and the register that they pass."""

    shuffle: kn.Shuffle
    slot: int
    lanes: set[int] = field(default_factory=set)


class _KernelRun(interpreter.Interpreter):
    """The state of a run: that of a loop nest, with the current block and thread."""

    def __init__(
        self,
        kernels: kn.Kernels,
        sizes: Mapping[str, int],
        arrays: Mapping[str, AnyArray],
        steps: int | None,
        order: int,
    ) -> None:
        super().__init__(kernels.nest, sizes, arrays, steps, order)
        self._kernels: Final = kernels
        self._launch: kn.Launch | None = None
        self._wide: dict[ln.Cell, tuple[ln.For, int]] = {}
        self._number = 0  # of the block in its launch
        self._interval = 0  # number of barriers passed in the block
        self._thread: dict[int, int] = {}
        self._copied = 0  # number of loops around that are asynchronous copies
        self._committed = 0  # number of groups of copies of the block
        self._pending: list[_Pending] = []
        self._called = 0  # number of loops around that are calls of instructions
        self._by_first_thread = False  # whether only first threads execute statements outside of the loops of an axis
        self._seen: dict[Cells, _Seen] = {}
        self._owners: dict[Cells, Thread] = {}
        self._private: dict[int, dict[int, int]] = {}  # the thread that allocated each private buffer
        self._slots: dict[tuple[int, Thread, int], int] = {}
        self._lane_variables: set[Var] = set()
        self._warps: dict[Hashable, _Warp] = {}  # those in the shuffles of a statement

    def _whole(self) -> None:
        self._host(self._kernels.body)

    # -- the host -----------------------------------------------------------------------------------------------------

    def _host(self, block: kn.HostBlock) -> None:
        for step in block:
            match step:
                case kn.Launch():
                    self._launched(step)
                case kn.HostLoop(variable, low, high, body):
                    outside = self._conditions
                    for value in range(self._index(low), self._index(high)):
                        self._variables[variable] = value
                        self._conditions = outside | {step.range}
                        self._host(body)
                    self._variables.pop(variable, None)
                    self._conditions = outside
                case kn.HostBranch(predicate, body):
                    if self._holds(predicate):
                        outside = self._enter(predicate)
                        self._host(body)
                        self._conditions = outside
                case ln.Allocate() | ln.Clear():
                    self._statement(step)
                case ln.Free(buffer):
                    self._free(buffer)
                case _:
                    assert_never(step)

    def _launched(self, launch: kn.Launch) -> None:
        self._launch = launch
        self._wide = {cell: (loop, lanes) for cell, loop, lanes in kn.wide_cells(launch)}
        self._number = 0
        self._seen = {}
        self._blocks(launch, launch.grid)
        self._launch = None

    def _blocks(self, launch: kn.Launch, grid: tuple[ln.For, ...]) -> None:
        """Run the blocks of a grid, of which these loops remain."""
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

    def _block_of(self, launch: kn.Launch) -> None:
        self._number += 1
        self._interval = 0
        self._seen = {cell: seen for cell, seen in self._seen.items() if launch.memories.get(cell[0]) is None}
        self._owners, self._slots = {}, {}
        self._committed = 0
        self._steps_of(launch.body)
        if self._pending:
            raise Trap("copy", "a block ends before copies to its shared memory have arrived")

    # -- a block ------------------------------------------------------------------------------------------------------

    def _steps_of(self, steps: kn.Steps) -> None:
        declared: list[ln.Scalar] = []
        for step in steps:
            self._step(step)
            if isinstance(step, ln.Declare):
                declared.append(step.variable)
        for variable in declared:
            del self._stack[variable]

    def _step(self, step: kn.Step) -> None:
        match step:
            case kn.Run(statement, folds):
                self._statement(statement)
                self._check_warps()
                if self._launch and any(needs_barrier(fold, self._launch.threads) for fold in folds):
                    self._interval += 1
            case kn.Barrier():
                self._interval += 1
            case kn.Commit():
                self._committed += 1
            case kn.Wait(groups):
                self._arrive(self._committed - groups)
            case kn.Repeat(variable, low, high, body):
                values = range(self._index(low), self._index(high))
                outside = self._conditions
                self._conditions = outside | {step.range}
                for value in values:
                    self._variables[variable] = value
                    self._steps_of(body)
                self._variables.pop(variable, None)
                self._conditions = outside
            case kn.Branch(predicate, body):
                if self._holds(predicate):
                    outside = self._enter(predicate)
                    self._steps_of(body)
                    self._conditions = outside
            case ln.Declare() | ln.Allocate() | ln.Clear():
                self._statement(step)
            case ln.Free(buffer):
                self._free(buffer)
            case _:
                assert_never(step)

    def _statement(self, statement: ln.Statement) -> None:
        outer = self._by_first_thread
        if isinstance(statement, ln.Assign | ln.Accumulate):
            self._by_first_thread = not kn.is_private(statement.target, self._memories)
        elif isinstance(statement, ln.Declare):
            self._by_first_thread = False
        super()._statement(statement)
        self._by_first_thread = outer

    def _ordered(self, loop: ln.For, values: range) -> Iterator[int]:
        if loop.mark not in THREADS:
            is_call = self._launch is not None and loop.variable.uid in self._launch.calls
            is_copy = self._launch is not None and loop.variable.uid in self._launch.copies
            self._called += is_call
            self._copied += is_copy
            yield from super()._ordered(loop, values)
            self._called -= is_call
            self._copied -= is_copy
            return
        axis = THREADS.index(loop.mark)
        if self._launch is None or (values and len(values) > self._launch.threads[axis]):
            raise Trap("undeclared", f"{len(values)} threads along {kn.AXES[axis]} are more than the block has")
        for value in super()._ordered(loop, values):
            self._thread[axis] = value - values.start
            self._lane_variables.add(loop.variable)
            yield value
            self._thread.pop(axis)

    # -- checks of accesses -------------------------------------------------------------------------------------------

    @property
    def _memories(self) -> Mapping[int, kn.Memory]:
        return {} if self._launch is None else self._launch.memories

    def _current_thread(self) -> Thread:
        """Return the current thread; None along axes without an enclosing loop, unless only the first thread runs."""
        extents = (1, 1, 1) if self._launch is None else self._launch.threads
        x, y, z = (
            self._thread.get(axis, 0 if self._by_first_thread or extent == 1 else None)
            for axis, extent in enumerate(extents)
        )
        return x, y, z

    def _touch(self, storage: ln.Buffer | ln.Scalar, at: int, made: int, how: AccessKind) -> None:
        super()._touch(storage, at, made, how)
        if self._launch is None:
            return
        if isinstance(storage, ln.Scalar):
            if how == "write" and self._watch.depth > made:
                raise Trap("data race", f"{storage.name}, of which each thread has a copy, is changed in one thread")
            return
        where = self._memories.get(storage.uid, "global")
        if where in ("global", "shared"):
            self._check_race(storage, at, how)
        elif where == "private" and self._private.get(storage.uid, self._thread) != self._thread:
            raise Trap("register", f"{storage.name} at {at}, which is private to a thread, is accessed by several")

    def _check_race(self, buffer: ln.Buffer, at: int, how: AccessKind) -> None:
        seen = self._seen.setdefault((buffer.uid, at), _Seen())
        if seen.writer not in (None, self._number) or (how != "read" and seen.readers - {self._number}):
            raise Trap("data race", f"{buffer.name} at {at}: data race between two blocks of a launch")
        if seen.since != (self._number, self._interval):
            seen.since, seen.writes, seen.reads = (self._number, self._interval), set(), set()
        thread = self._current_thread()
        for another in seen.writes if how == "read" else seen.writes | seen.reads:
            if another != thread or None in another:
                raise Trap(
                    "data race",
                    f"{buffer.name} at {at}: data race between threads {another} and {thread}, without a barrier",
                )
        if how == "read":
            seen.readers.add(self._number)
            seen.reads.add(thread)
        else:
            seen.writer = self._number
            seen.writes.add(thread)

    # -- asynchronous copies ------------------------------------------------------------------------------------------

    def _assign(self, target: ln.Cell | ln.Scalar, value: Any) -> None:
        """Assign a value. The target of a copy has none, and is being written, until the copy is waited for."""
        super()._assign(target, value)
        if self._copied and isinstance(target, ln.Cell):
            memory, address = self._place(target)
            del memory.cells[address]
            row, thread = self._index(target.pairs[0][0]), self._current_thread()
            self._pending.append(_Pending(self._committed, thread, target.buffer, row, address, value))

    def _arrive(self, groups: int) -> None:
        """Let the copies of the first groups arrive: as late as possible, and only now written by their threads."""
        before = self._thread
        for copy in self._pending:
            if copy.group < groups:
                self._thread = {axis: at for axis, at in enumerate(copy.thread) if at is not None}
                self._check_race(copy.buffer, copy.address, "write")
                memory = self._memory(copy.buffer)
                if memory.held[copy.row % copy.buffer.rows][0] != copy.row:
                    raise Trap("copy", f"row {copy.row} of {copy.buffer.name} arrives in the place of a later one")
                memory.cells[copy.address] = copy.value
        self._pending = [copy for copy in self._pending if copy.group >= groups]
        self._thread = before

    def _place(self, cell: ln.Cell) -> tuple[interpreter.Memory, int]:
        memory, address = super()._place(cell)
        where = self._memories.get(cell.buffer.uid)
        if isinstance(where, kn.Distributed):
            self._check_register(cell, where, address)
        self._check_vector(cell)
        return memory, address

    def _check_warps(self) -> None:
        """Raise a trap if a shuffle of the last statement was not executed by all lanes of a warp."""
        for warp in self._warps.values():
            if len(warp.lanes) < warp.shuffle.lanes:
                name = warp.shuffle.register.buffer.name
                raise Trap("register", f"{len(warp.lanes)} of {warp.shuffle.lanes} lanes execute a shuffle of {name}")
        self._warps = {}

    def _current_threads(self) -> Iterator[tuple[int, int, int]]:
        """Yield the current thread, or all of them along axes without an enclosing loop."""
        extents = (1, 1, 1) if self._launch is None else self._launch.threads
        every = zip(self._current_thread(), extents, strict=True)
        yield from product(*(range(extent) if at is None else (at,) for at, extent in every))

    def _check_shuffle(
        self,
        cell: ln.Cell,
        where: kn.Distributed,
        address: int,
        shuffle: kn.Shuffle,
        thread: tuple[int, int, int],
    ) -> None:
        """Raise a trap unless the lane and the register of a shuffle are those of the cell, for all lanes the same."""
        extents = self._launch.threads if self._launch else (1, 1, 1)
        x, y, z = thread
        number = x + extents[0] * (y + extents[1] * z)
        other = number // kn.WARP * kn.WARP + self._index(shuffle.lane) % kn.WARP
        at = (other % extents[0], other // extents[0] % extents[1], other // (extents[0] * extents[1]))
        source = self._of_shares(where, at)
        slot = self._slot(shuffle.register, where)
        if (uid := cell.buffer.uid, address) in self._owners:
            right = self._slots.get((uid, source, slot)) == address
        else:  # a zero that no thread has stored
            numbers = ln.Cell(cell.buffer, self._as_numbers(cell))
            right = all(
                share is None or self._index(kn.owner(position, share)) == at[share.axis]
                for (position, _), share in zip(numbers.pairs, where.shares, strict=True)
            ) and slot == self._slot(kn.in_registers(numbers, where, {a: index(i) for a, i in enumerate(at)}), where)
        if not right:
            raise Trap("register", f"{cell.buffer.name} at {address} is not in register {slot} of thread {source}")
        loops = {variable: value for variable, value in self._variables.items() if variable not in self._lane_variables}
        key = (cell, number // kn.WARP, frozenset(loops.items()))
        warp = self._warps.setdefault(key, _Warp(shuffle, slot))
        if warp.slot != slot:
            raise Trap("register", f"lanes of a warp pass the registers {warp.slot} and {slot} of {cell.buffer.name}")
        warp.lanes.add(number % kn.WARP)

    @staticmethod
    def _of_shares(where: kn.Distributed, thread: Thread) -> Thread:
        """Return a thread along the axes over which a buffer is distributed."""
        axes = {share.axis for share in where.shares if share is not None}
        x, y, z = (at if axis in axes else None for axis, at in enumerate(thread))
        return x, y, z

    def _slot(self, register: ln.Cell, where: kn.Distributed) -> int:
        """Return the number of a register of a thread."""
        at, _ = self._positions(register)
        slot = 0
        for position, extent in zip(at, where.extents, strict=True):
            slot = slot * extent + position
        return slot

    def _read(self, source: ln.Cell | ln.Scalar) -> Any:
        if isinstance(source, ln.Cell):
            self._check_vector(source)
        return super()._read(source)

    def _check_vector(self, cell: ln.Cell) -> None:
        """Raise a trap if a vector access is not aligned."""
        if self._launch is None or cell not in self._wide:
            return
        loop, lanes = self._wide[cell]
        first = self._index(cell.address) - (self._variables[loop.variable] - self._index(loop.low))
        if first % lanes:
            raise Trap("alignment", f"{cell.buffer.name} from {first} on is not aligned to {lanes} elements")

    def _check_register(self, cell: ln.Cell, where: kn.Distributed, address: int) -> None:
        """Raise a trap if a register belongs to another thread, or is used for two elements."""
        if self._launch is not None and cell in self._launch.shuffles:
            for each in self._current_threads():
                self._check_shuffle(cell, where, address, self._launch.shuffles[cell], each)
            return
        threads = {axis: index(at) for axis, at in enumerate(self._current_thread()) if at is not None}
        missing = [share.axis for share in where.shares if share is not None and share.axis not in threads]
        if missing:
            raise Trap(
                "register", f"{cell.buffer.name} at {address} is accessed outside of a loop along {kn.AXES[missing[0]]}"
            )
        thread = self._of_shares(where, self._current_thread())
        if self._called and (cell.buffer.uid, address) in self._owners:
            # An instruction reads registers of all lanes of its warp.
            other = self._owners[cell.buffer.uid, address]
            if other[2] != thread[2]:
                raise Trap("register", f"{cell.buffer.name} at {address} is a register of {other}, in another warp")
            return
        owner = self._owners.setdefault((cell.buffer.uid, address), thread)
        if owner != thread:
            raise Trap("register", f"{cell.buffer.name} at {address} is a register of {owner}, not of {thread}")
        slot = self._slot(kn.in_registers(ln.Cell(cell.buffer, self._as_numbers(cell)), where, threads), where)
        if self._slots.setdefault((cell.buffer.uid, thread, slot), address) != address:
            raise Trap("register", f"{cell.buffer.name} at {address} shares register {slot} with another element")

    def _as_numbers(self, cell: ln.Cell) -> tuple[tuple[Index, Index], ...]:
        return tuple((index(self._index(position)), extent) for position, extent in cell.pairs)

    def _allocate(self, buffer: ln.Buffer, capacity: int, *, zeroed: bool) -> None:
        self._private[buffer.uid] = dict(self._thread)
        super()._allocate(buffer, capacity, zeroed=zeroed)

    def _clear(self, buffer: ln.Buffer, count: int, *, zeroed: bool) -> None:
        """Clear a buffer. Zeros are stored by all threads of a block, each thread to the cells of its number."""
        if self._launch is None or self._memories.get(buffer.uid, "global") not in ("global", "shared"):
            super()._clear(buffer, count, zeroed=zeroed)
            return
        memory = self._memory(buffer)
        if not 0 <= count <= memory.capacity:
            raise Trap("capacity", f"{count} elements of {buffer.name} are cleared; it has {memory.capacity}")
        if zeroed:
            self._store_zeros(buffer, count)
        memory.zeroed = max(memory.zeroed, count) if zeroed else 0
        for address in [address for address in memory.cells if address < count]:
            del memory.cells[address]

    def _begin(self, cleared: ln.Clear, row: int) -> None:
        """Start a row of a circular buffer. No thread stores to it, since its cells are not filled with zeros."""
        launch, self._launch = self._launch, None
        super()._begin(cleared, row)
        self._launch = launch

    def _store_zeros(self, buffer: ln.Buffer, count: int) -> None:
        x, y, z = self._launch.threads if self._launch else (1, 1, 1)
        threads = [(a, b, c) for c, b, a in product(range(z), range(y), range(x))]
        before = self._thread
        for address in range(count):
            self._thread = dict(enumerate(threads[address % len(threads)]))
            self._check_race(buffer, address, "write")
        self._thread = before
