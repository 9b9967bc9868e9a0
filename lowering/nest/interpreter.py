"""An interpreter of loop nests (Fig. 5.4) with the semantics of the printed C, on a heap of partial maps.

An array is a partial map from flat addresses to values. Errors that C would not report raise `Trap` here: out-of-bounds
accesses, reads of cells without a value, second assignments to a cell, uses after free, leaks, and quotients that
would round the wrong way.

Iterations of loops whose mark makes them concurrent run one by one in random order, and a data race between two of
them is a trap. This check does not use the prover.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from math import prod
from random import Random
from typing import Any, TypeAlias, assert_never, cast

import numpy as np
import numpy.typing as npt

from atl.core.index import Array, Index, Leaf, Size, Var, value_of
from atl.core.marks import CONCURRENT
from atl.core.node import Identity
from atl.core.operations import BinaryOp, UnaryOp
from atl.core.predicate import All, NonNegative, NonZero, Predicate, Zero, negation
from atl.core.predicate import Any as AnyOf
from atl.errors import TooLarge
from atl.meaning.scalars import Machine
from lowering.nest import loopnest as ln
from lowering.nest.assembly import AssembledRows
from lowering.nest.execution import (
    AccessKind,
    RaceDetector,
    Trap,
    co_iterations,
    marked_loop_at,
    run_positions,
    stream_blocks,
)
from lowering.nest.marked_loops import Merge, NoMerge, NoRuns, Runs, Stream
from lowering.nest.tiles import Lanes, cells_of, over_lanes, tiles_of

AnyArray: TypeAlias = npt.NDArray[Any]


@dataclass(slots=True)
class Memory:
    """A flat array with the values of its cells. Cells without a value read as zero below `zeroed`, and trap beyond."""

    capacity: int
    zeroed: int
    made: int = 0  # number of concurrent loops around the allocation; it is private to their current iterations
    cells: dict[int, Any] = field(default_factory=dict)
    held: dict[int, tuple[int, bool]] = field(default_factory=dict)  # circular buffer: place -> its row, and if zeroed
    owners: dict[int, int] = field(default_factory=dict)  # address -> the buffer whose value is in the cell
    stored_in: dict[int, int] = field(default_factory=dict)  # buffer in place: address -> the row of the last store


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run: `cells` are the stored values of the output, by flat address. All others are padding.

    `divisions_by_zero` and `undefined` count operations for which C and the interpreters may compute different values.
    """

    shape: tuple[int, ...]
    dtype: str
    cells: Mapping[int, Any]
    divisions_by_zero: int
    undefined: int

    def to_numpy(self) -> AnyArray:
        """Return the output as an array, with zeros for padding."""
        flat = np.zeros(prod(self.shape), dtype=self.dtype)
        for address, value in self.cells.items():
            flat[address] = value
        return flat.reshape(self.shape)


def run(nest: ln.LoopNest, sizes: Mapping[str, int], arrays: Mapping[str, AnyArray]) -> AnyArray:
    """Run a loop nest and return its output. Sizes and arrays must be valid (`atl.meaning.arguments.bind`).

    Raises `Trap` for errors that a correctly lowered program cannot have.

    >>> import atl, numpy as np
    >>> from lowering.pipeline import lower
    >>> from lowering.nest.interpreter import run
    >>> n = atl.sizes("n")
    >>> x = atl.tensor("x", n)
    >>> run(lower(atl.program("padded", [x], atl.padr(1, x))), {"n": 2}, {"x": np.ones(2, np.float32)})
    array([1., 1., 0.], dtype=float32)
    """
    return execute(nest, sizes, arrays).to_numpy()


def execute(
    nest: ln.LoopNest,
    sizes: Mapping[str, int],
    arrays: Mapping[str, AnyArray],
    *,
    steps: int | None = None,
    order: int | None = 0,
) -> Outcome:
    """Run a loop nest and return its outcome, with the set of stored output cells.

    `order` is the seed of the order of concurrent iterations. With None, marks are ignored: all loops run in order, and
    data races are not detected.

    Raises `Trap`, and `TooLarge` if more than `steps` statements are executed.
    """
    try:
        return Interpreter(nest, sizes, arrays, steps, order).outcome()
    except ZeroDivisionError as error:
        raise Trap("divisor", f"an index is divided by {error.args[0]}") from None


class Interpreter:
    """The state of a run: loop variables (v in Fig. 5.4), scalars (st) and buffers (h)."""

    def __init__(
        self,
        nest: ln.LoopNest,
        sizes: Mapping[str, int],
        arrays: Mapping[str, AnyArray],
        steps: int | None,
        order: int | None,
    ) -> None:
        self._nest = nest
        self._steps = steps
        self._sizes = sizes
        self._arrays = arrays
        self._variables: dict[Var, int] = {}
        self._stack: dict[ln.Scalar, Any] = {}
        self._heap: dict[int, Memory] = {}
        self._freed: set[int] = set()
        self._conditions: ln.Conditions = frozenset()  # of the current place
        self._fixed: dict[Identity, int] = {}  # values of expressions without loop variables
        self._numerators: dict[Index, tuple[Index, ...]] = {}
        self._scalars = Machine()
        self._tiles = tiles_of(nest)
        self._lane: Var | None = None
        self._chance = None if order is None else Random(order)
        self._watch = RaceDetector()
        self._made: dict[ln.Scalar, int] = {}  # like `Memory.made`
        self._rows = None if nest.assembly is None else AssembledRows(nest)

    def outcome(self) -> Outcome:
        output = self._nest.output
        shape = tuple(self._index(extent) for extent in output.extents)
        count = prod(shape)
        memory = self._heap[output.uid] = Memory(count, zeroed=0 if self._nest.complete else count)
        for buffer in self._nest.in_place:
            for address, element in enumerate(self._arrays[buffer.name].reshape(-1)):
                memory.cells[address] = self._scalars.element(element, buffer.dtype)
                memory.owners[address] = buffer.uid
        starts = self._allocate_results()
        self._whole()
        for buffer, start in starts:
            # Results of different types have separate buffers. Their elements are concatenated in the output.
            held = self._heap[buffer.uid]
            memory.cells |= {start + at: value for at, value in held.cells.items()}
            memory.owners |= {start + at: output.uid for at in held.cells}
        stored = {at: value for at, value in memory.cells.items() if memory.owners[at] == output.uid}
        if self._rows is not None:
            self._rows.end()
        if self._nest.complete and len(stored) < count:
            missing = next(address for address in range(count) if address not in stored)
            raise Trap("incomplete", f"nothing is stored at {missing} of the output, which is marked complete")
        if (left := next((address for address in memory.cells if address not in stored), None)) is not None:
            raise Trap("aliased", f"{output.name} at {left} still has a value of another tensor in its storage")
        return Outcome(shape, output.dtype, stored, self._scalars.divisions_by_zero, self._scalars.undefined)

    def _allocate_results(self) -> list[tuple[ln.Buffer, int]]:
        """Allocate the buffers of results of different types; return each with the start of its elements."""
        made: list[tuple[ln.Buffer, int]] = []
        start = 0
        for buffer in self._nest.results:
            count = prod(self._index(extent) for extent in buffer.extents)
            self._heap[buffer.uid] = Memory(count, zeroed=0 if self._nest.complete else count)
            made.append((buffer, start))
            start += count
        return made

    def _whole(self) -> None:
        """Run the body of the nest."""
        self._block(self._nest.body)

    # -- statements ---------------------------------------------------------------------------------------------------

    def _block(self, block: ln.Block) -> None:
        """Run the statements of a block in order, and end the lifetime of its variables and buffers."""
        if self._steps is not None:
            self._steps -= len(block)
            if self._steps < 0:
                raise TooLarge(f"{self._nest.name} takes more steps than allowed", required="a smaller call")
        declared: list[ln.Scalar] = []
        allocated: dict[int, ln.Buffer] = {}
        for statement in block:
            match statement:
                case ln.Declare(variable):
                    self._statement(statement)
                    declared.append(variable)
                case ln.Allocate(buffer):
                    self._statement(statement)
                    allocated[buffer.uid] = buffer
                case ln.Free(buffer):
                    self._free(buffer)
                    if allocated.pop(buffer.uid, None) is None:
                        raise Trap("double free", f"{buffer.name} is freed in a block that did not allocate it")
                case ln.For() | ln.If() | ln.Assign() | ln.Accumulate() | ln.Clear() | ln.Gather():
                    self._statement(statement)
                case _:
                    assert_never(statement)
        for buffer in allocated.values():
            raise Trap("leak", f"{buffer.name} is not freed at the end of its block")
        for variable in declared:
            del self._stack[variable]

    def _statement(self, statement: ln.Statement) -> None:
        match statement:
            case ln.For(variable, low, high, body):
                if variable in self._variables:
                    raise Trap("redeclared", f"the loop variable {variable.name} is in use")
                if self._chance is not None and (walk := marked_loop_at(statement)) is not None:
                    self._walk(walk)
                    return
                values = range(self._index(low), self._index(high))
                outside = self._enter(statement)
                if self._tiles and over_lanes(statement, self._tiles):
                    self._lanes(statement, values)
                    values = range(0)
                for value in self._ordered(statement, values):
                    self._variables[variable] = value
                    self._block(body)
                self._variables.pop(variable, None)
                self._conditions = outside
            case ln.If(predicate, body):
                if self._holds(predicate):
                    outside = self._enter(predicate)
                    self._block(body)
                    self._conditions = outside
            case ln.Assign(target, value):
                self._assign(target, self._value(value))
            case ln.Accumulate(target, op, value):
                self._accumulate(target, op, self._value(value))
            case ln.Declare(variable, initial):
                if variable in self._stack:
                    raise Trap("redeclared", f"the scalar {variable.name} is in use")
                self._stack[variable] = self._value(initial)
                self._made[variable] = self._watch.depth
            case ln.Allocate(buffer, capacity, _, zeroed):
                self._allocate(buffer, self._index(capacity), zeroed=zeroed)
            case ln.Clear(cell=ln.Cell() as cell):
                memory, address = self._place(cell)
                self._touch(cell.buffer, address, memory.made, "write")
                memory.cells.pop(address, None)
            case ln.Clear(buffer, count, zeroed, row):
                if row is None:
                    self._clear(buffer, self._index(count), zeroed=zeroed)
                else:
                    self._begin(statement, self._index(row))
            case ln.Free(buffer):
                self._free(buffer)
            case ln.Gather(_, row):
                assert self._rows is not None
                self._rows.gather(None if row is None else self._index(row))
            case _:
                assert_never(statement)

    def _walk(self, walk: Merge | NoMerge | Runs | NoRuns | Stream) -> None:
        """Run a loop marked `merge`, `runs` or `stream` in the way in which it is printed."""
        outside = self._conditions
        match walk:
            case Merge(_, conditions, within, body):
                for _ in co_iterations(walk, self._index, self._variables, self._nest.strict_keys):
                    self._conditions = reduce(ln.under, within, outside)
                    if all(self._holds(condition) for condition in conditions):
                        self._block(body)
            case Runs(loop, _, total, body, last):
                if isinstance(total, ln.Scalar):
                    self._made[total] = self._watch.depth
                for begins, ends in run_positions(walk, self._index, self._variables):
                    self._conditions = ln.under(outside, loop.range)
                    if begins and isinstance(total, ln.Scalar):
                        self._stack[total] = self._scalars.constant(0, total.dtype)
                    elif begins:
                        self._statement(walk.allocated)
                    self._block(body)
                    if ends:
                        self._statement(last)
                    if ends and isinstance(total, ln.Scalar):
                        del self._stack[total]
                    elif ends:
                        self._free(walk.allocated.buffer)
            case Stream(loop):
                self._conditions = ln.under(outside, loop.range)
                self._watch.begin(loop.variable.name, loop.mark)
                for position, block in stream_blocks(walk, self._index, self._variables, cast(Random, self._chance)):
                    self._watch.iterate(position)
                    self._block(block)
                self._watch.end()
            case NoMerge(summary) | NoRuns(summary):
                raise Trap("marked loop", summary)
            case _:
                assert_never(walk)
        self._conditions = outside

    def _lanes(self, loop: ln.For, values: range) -> None:
        """Run a loop over the lanes of a vector: read all lanes, then store them to consecutive cells."""
        (statement,) = loop.body
        self._lane = loop.variable
        if not isinstance(statement, ln.Assign | ln.Accumulate) or not isinstance(statement.target, ln.Cell):
            raise Trap("register", f"{type(statement).__name__} is not an operation on vectors")
        lanes = Lanes(self._tiles, loop.variable, len(values))
        found: list[Any] = []
        for lane, value in enumerate(values):
            self._variables[loop.variable] = value
            for cell, stored in cells_of(loop.body):
                if (fault := lanes.fault_of(cell, lane, self._index(cell.address), stored=stored)) is not None:
                    raise Trap("register", fault)
            found.append(self._value(statement.value))
        for value, result in zip(values, found, strict=True):
            self._variables[loop.variable] = value
            if isinstance(statement, ln.Assign):
                self._assign(statement.target, result)
            else:
                self._accumulate(statement.target, statement.op, result)
        self._lane = None

    def _ordered(self, loop: ln.For, values: range) -> Iterator[int]:
        """Yield the iterations of a loop in the order of the run, recording those of concurrent loops."""
        if self._chance is None or loop.mark not in CONCURRENT:
            yield from values
            return
        self._watch.begin(loop.variable.name, loop.mark)
        for value in self._chance.sample(values, len(values)):
            self._watch.iterate(value)
            yield value
        self._watch.end()

    def _touch(self, storage: ln.Buffer | ln.Scalar, at: int, made: int, how: AccessKind) -> None:
        """Record an access to a cell or scalar. Raises `Trap` for a data race."""
        met = self._watch.touch((ln.key(storage), at), made, how) if self._watch.depth > made else None
        if met is not None:
            where = storage.name if isinstance(storage, ln.Scalar) else f"{storage.name} at {at}"
            first, second = met.iterations
            raise Trap(
                "data race",
                f"{where}: {met.accesses[0]} in iteration {first} of the {met.mark.value} loop {met.loop}, "
                f"{met.accesses[1]} in iteration {second}",
            )

    def _assign(self, target: ln.Cell | ln.Scalar, value: Any) -> None:
        match target:
            case ln.Scalar(_, name):
                if target not in self._stack:
                    raise Trap("undeclared", f"an assignment to the scalar {name}")
                self._touch(target, 0, self._made[target], "write")
                self._stack[target] = value
            case ln.Cell(buffer):
                memory, address = self._place(target)
                self._touch(buffer, address, memory.made, "write")
                self._assemble(target)
                if buffer.in_place:
                    self._replace(target, memory, address)
                elif address in memory.cells and memory.owners[address] == buffer.uid:
                    raise Trap("overwritten", f"{buffer.name} at {address} is assigned, but has a value already")
                memory.cells[address], memory.owners[address] = value, buffer.uid

    def _accumulate(self, target: ln.Cell | ln.Scalar, op: BinaryOp, value: Any) -> None:
        match target:
            case ln.Scalar(_, name, dtype):
                if target not in self._stack:
                    raise Trap("undeclared", f"an addition to the scalar {name}")
                self._touch(target, 0, self._made[target], op)
                self._stack[target] = self._scalars.binary(op, dtype, self._stack[target], value)
            case ln.Cell(buffer):
                memory, address = self._place(target)
                self._touch(buffer, address, memory.made, "write")
                self._assemble(target)
                if address not in memory.cells and (op not in ("add", "sub") or not self._is_zero(target)):
                    raise Trap("uninitialised", f"{op} to {buffer.name} at {address}, which has no value")
                self._check_owner(buffer, memory, address)
                if buffer.in_place and buffer.rows:  # an assignment that copied the row before is dropped
                    memory.stored_in[address] = self._index(target.pairs[0][0])
                old = memory.cells.get(address, self._scalars.constant(0, buffer.dtype))
                memory.cells[address] = self._scalars.binary(op, buffer.dtype, old, value)
                memory.owners[address] = buffer.uid

    def _assemble(self, target: ln.Cell) -> None:
        """Record a store to an assembled output."""
        if self._rows is not None and target.buffer.role == "output":
            self._rows.store(tuple([self._index(position) for position, _ in target.pairs]))

    def _replace(self, target: ln.Cell, memory: Memory, address: int) -> None:
        """Record a store to an element of a buffer in place, which replaces that of an earlier row."""
        if not target.buffer.rows:
            return  # the output, whose cells have no row
        row, before = self._index(target.pairs[0][0]), memory.stored_in.get(address, -1)
        if before >= row:
            raise Trap("overwritten", f"{target.buffer.name} at {address}, of row {before}, is assigned in row {row}")
        memory.stored_in[address] = row

    def _check_owner(self, buffer: ln.Buffer, memory: Memory, address: int) -> None:
        if memory.owners.get(address, buffer.uid) != buffer.uid and address in memory.cells:
            raise Trap("aliased", f"{buffer.name} at {address} has a value of another tensor in its storage")

    # -- buffers ------------------------------------------------------------------------------------------------------

    def _allocate(self, buffer: ln.Buffer, capacity: int, *, zeroed: bool) -> None:
        if buffer.uid in self._heap:
            raise Trap("leak", f"{buffer.name} is allocated again before it is freed")
        if capacity < 0:
            raise Trap("capacity", f"{buffer.name} is allocated with {capacity} elements")
        self._freed.discard(buffer.uid)
        self._heap[buffer.uid] = Memory(capacity, zeroed=capacity if zeroed else 0, made=self._watch.depth)

    def _clear(self, buffer: ln.Buffer, count: int, *, zeroed: bool) -> None:
        memory = self._memory(buffer)
        if not 0 <= count <= memory.capacity:
            raise Trap("capacity", f"{count} elements of {buffer.name} are cleared, but it has {memory.capacity}")
        for address in range(count):
            self._touch(buffer, address, memory.made, "write")
        memory.zeroed = max(memory.zeroed, count) if zeroed else 0
        for address in [address for address in memory.cells if address < count]:
            del memory.cells[address]
        memory.held.clear()
        memory.stored_in.clear()

    def _begin(self, cleared: ln.Clear, row: int) -> None:
        """Start a row of a circular buffer, which replaces the row at its place."""
        buffer, memory = cleared.buffer, self._memory(cleared.buffer)
        length = prod(self._index(extent) for extent in buffer.extents[1:])
        if not 0 <= row < self._index(buffer.extents[0]):
            raise Trap("out of bounds", f"row {row} of the circular buffer {buffer.name}")
        if self._index(cleared.count) != length or length * buffer.rows > memory.capacity:
            raise Trap("capacity", f"{buffer.rows} rows of {length} elements in {buffer.name}")
        place = row % buffer.rows
        memory.held[place] = (row, cleared.zeroed)
        for address in range(place * length, (place + 1) * length):
            self._touch(buffer, address, memory.made, "write")
            if not buffer.in_place:
                memory.cells.pop(address, None)

    def _is_zero(self, cell: ln.Cell) -> bool:
        """Return whether a cell without a value reads as zero."""
        memory = self._memory(cell.buffer)
        if cell.buffer.in_place:
            return False
        if cell.buffer.rows:
            return memory.held[self._index(cell.pairs[0][0]) % cell.buffer.rows][1]
        return self._index(cell.address) < memory.zeroed

    def _free(self, buffer: ln.Buffer) -> None:
        if buffer.uid in self._freed:
            raise Trap("double free", f"{buffer.name} is freed twice")
        self._memory(buffer)
        del self._heap[buffer.uid]
        self._freed.add(buffer.uid)

    def _memory(self, buffer: ln.Buffer) -> Memory:
        uid = buffer.storage.uid
        found = self._heap.get(uid)
        if found is None:
            raise Trap("no storage", f"{buffer.name} is {'freed' if uid in self._freed else 'not allocated'}")
        return found

    def _place(self, cell: ln.Cell) -> tuple[Memory, int]:
        """Return the memory of the cell's buffer, which is not an input, and the address there."""
        if cell.buffer.storage.role == "input":
            raise Trap("read-only", f"a store to the input {cell.buffer.name}")
        memory = self._memory(cell.buffer)
        if cell.buffer.uid in self._tiles and any(
            position.constant is None and (self._lane is None or self._lane.uid not in position.free)
            for position, _ in cell.pairs
        ):
            raise Trap("register", f"{cell.buffer.name}, which is in registers, at an index that is not constant")
        at, extents = self._positions(cell)
        if rows := cell.buffer.rows:
            at, extents = self._turn(cell.buffer, at, memory), (rows, *extents[1:])
        if prod(extents) > memory.capacity:
            raise Trap("capacity", f"{cell.buffer.name} of shape {extents} has only {memory.capacity} elements")
        address = 0
        for position, extent in zip(at, extents, strict=True):
            address = address * extent + position
        return memory, address

    def _turn(self, buffer: ln.Buffer, at: tuple[int, ...], memory: Memory) -> tuple[int, ...]:
        """Return the position of an element in a circular buffer. Raises `Trap` if its row is not there."""
        row, *rest = at
        if buffer.in_place and buffer.rows == 1:
            return (0, *rest)
        held, _ = memory.held.get(row % buffer.rows, (None, False))
        if held != row:
            found = "no row" if held is None else f"row {held}"
            raise Trap("ring", f"row {row} of {buffer.name} is accessed, but {found} is at its place")
        return (row % buffer.rows, *rest)

    def _positions(self, cell: ln.Cell) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the values of a cell's pairs, checked against its extents and those of the buffer."""
        at = tuple([self._index(position) for position, _ in cell.pairs])
        extents = tuple([self._index(extent) for _, extent in cell.pairs])
        name = cell.buffer.name
        for position, extent in zip(at, extents, strict=True):
            if not 0 <= position < extent:
                raise Trap("out of bounds", f"{name}{list(at)}, of shape {extents}")
        declared = tuple([self._index(extent) for extent in cell.buffer.extents])
        if extents != declared:
            raise Trap("shape", f"{name} of shape {declared} is addressed as one of shape {extents}")
        return at, extents

    # -- scalars ------------------------------------------------------------------------------------------------------

    def _value(self, e: ln.ScalarExpr) -> Any:
        scalars = self._scalars
        match e:
            case ln.Number(value, dtype):
                return scalars.constant(value, dtype)
            case ln.Load(source):
                return self._read(source)
            case ln.FromIndex(expression, dtype):
                return scalars.from_index(self._index(expression), dtype)
            case ln.Apply(op, (x,), dtype):
                return scalars.unary(cast(UnaryOp, op), dtype, self._value(x))
            case ln.Apply(op, (x, y), dtype):
                return scalars.binary(cast(BinaryOp, op), dtype, self._value(x), self._value(y))
            case ln.Apply("where", (test, x, y)):
                return scalars.where(self._value(test), self._value(x), self._value(y))
            case ln.Apply(op, arguments):
                raise AssertionError(f"{op} of {len(arguments)} arguments")
            case ln.Choose(predicate, left, right):
                chosen, condition = (left, predicate) if self._holds(predicate) else (right, negation(predicate))
                outside = self._enter(condition)
                value = self._value(chosen)
                self._conditions = outside
                return value
            case ln.Convert(argument, dtype):
                return scalars.cast(dtype, argument.dtype, self._value(argument))
            case _:
                assert_never(e)

    def _read(self, source: ln.Cell | ln.Scalar) -> Any:
        match source:
            case ln.Scalar(_, name):
                if source not in self._stack:
                    raise Trap("undeclared", f"a read of the scalar {name}")
                self._touch(source, 0, self._made[source], "read")
                return self._stack[source]
            case ln.Cell(ln.Buffer(role="input", home=None) as buffer):
                at, _ = self._positions(source)
                return self._scalars.element(self._arrays[buffer.name][at], buffer.dtype)
            case ln.Cell(buffer):
                memory, address = self._place(source)
                self._touch(buffer, address, memory.made, "read")
                if address not in memory.cells and not self._is_zero(source):
                    raise Trap("uninitialised", f"a read of {buffer.name} at {address}, which has no value")
                self._check_owner(buffer, memory, address)
                if (
                    buffer.rows
                    and buffer.in_place
                    and (later := memory.stored_in[address]) > (row := self._index(source.pairs[0][0]))
                ):
                    raise Trap("ring", f"row {row} of {buffer.name} is read, but row {later} is at its place")
                return memory.cells.get(address, self._scalars.constant(0, buffer.dtype))

    # -- indices ------------------------------------------------------------------------------------------------------

    def _index(self, expression: Index) -> int:
        if self._nest.nonnegative_numerators and expression.constant is None:
            self._look_at_numerators(expression)
        value = self._fixed.get(expression.identity)
        if value is None:
            value = value_of(expression, self._leaf, self._element)
            if not expression.free:
                self._fixed[expression.identity] = value
        return value

    def _holds(self, predicate: Predicate) -> bool:
        """Evaluate a predicate. Its parts are tested from left to right, each under the conditions before it."""
        match predicate:
            case NonNegative(expression):
                return self._index(expression) >= 0
            case Zero(expression):
                return self._index(expression) == 0
            case NonZero(expression):
                return self._index(expression) != 0
            case All(parts):
                return self._all_are(True, parts)
            case AnyOf(parts):
                return not self._all_are(False, parts)
            case _:
                assert_never(predicate)

    def _all_are(self, truth: bool, parts: tuple[Predicate, ...]) -> bool:
        outside = self._conditions
        try:
            for part in parts:
                if self._holds(part) is not truth:
                    return False
                self._enter(part if truth else negation(part))
            return True
        finally:
            self._conditions = outside

    def _enter(self, branch: Predicate | ln.For) -> ln.Conditions:
        """Enter a branch or loop, and return the conditions outside. Nests without entries need no conditions."""
        outside = self._conditions
        if self._nest.nonnegative_numerators:
            self._conditions = ln.under(outside, branch.range if isinstance(branch, ln.For) else branch)
        return outside

    def _look_at_numerators(self, expression: Index) -> None:
        """Raise `Trap` if a numerator in the expression is negative although the nest lists it as non-negative."""
        found = self._numerators.get(expression)
        if found is None:
            found = self._numerators[expression] = tuple(ln.numerators(expression))
        for numerator in found:
            stated = (self._conditions, numerator) in self._nest.nonnegative_numerators
            if stated and (value := value_of(numerator, self._leaf, self._element)) < 0:
                raise Trap("numerator", f"{value} is divided, but the nest lists the numerator as non-negative")

    def _leaf(self, leaf: Leaf) -> int:
        if isinstance(leaf, Size):
            return self._sizes[leaf.name]
        if not isinstance(leaf, Var) or leaf not in self._variables:
            raise Trap("undeclared", f"the loop variable {leaf} is used outside of its loop")
        return self._variables[leaf]

    def _element(self, array: Array, at: tuple[int, ...]) -> int:
        held = self._arrays[array.name]
        if not all(0 <= position < extent for position, extent in zip(at, held.shape, strict=True)):
            raise Trap("out of bounds", f"{array.name}{list(at)} in an index, of shape {held.shape}")
        return int(held[at])
