"""An interpreter of loop nests (Fig. 5.4): what C does with them, on a heap of partial maps.

An array is a partial map from flat addresses to values, so that what C would do silently is a `Trap` here: an access
outside of a buffer or of one of its dimensions, a read of a cell that holds nothing, a second assignment to a cell, a
buffer that is used after it was freed, or is never freed, a quotient that would be rounded the wrong way.

Where the mark of a loop says that its iterations run at once, they run one by one in an order by chance, and it is a
trap when two of them meet: one changes a cell or a variable that the other one touches. No proof has a part in that.
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
from atl.core.predicate import All, NonNegative, NonZero, Predicate, Zero, negation
from atl.core.predicate import Any as AnyOf
from atl.core.terms import BinaryOp, UnaryOp
from atl.errors import TooLarge
from atl.meaning.scalars import Machine
from lowering.nest.at_once import How, Watch
from lowering.nest.loopnest import (
    Accumulate,
    Allocate,
    Apply,
    Assign,
    Block,
    Buffer,
    Cell,
    Choose,
    Clear,
    Conditions,
    Convert,
    Declare,
    For,
    Free,
    FromIndex,
    If,
    Load,
    LoopNest,
    Number,
    Scalar,
    ScalarExpr,
    Statement,
    key,
    numerators,
    under,
)
from lowering.nest.tiles import Lanes, cells_of, over_lanes, tiles_of
from lowering.nest.traps import Trap
from lowering.nest.walks.merges import Merge, NoMerge
from lowering.nest.walks.running import meetings, runs_in, streamed_in, walk_at
from lowering.nest.walks.runs import NoRuns, Runs
from lowering.nest.walks.streams import Stream

AnyArray: TypeAlias = npt.NDArray[Any]


@dataclass(slots=True)
class Memory:
    """A flat array: the cells that hold a value. The others read as zero below `zeroed`; beyond they hold nothing."""

    capacity: int
    zeroed: int
    made: int = 0  # so many loops around whose iterations run at once: no other iterations of them see it
    cells: dict[int, Any] = field(default_factory=dict)
    held: dict[int, tuple[int, bool]] = field(default_factory=dict)  # of a ring: by place the row, and if it is zeroed
    owners: dict[int, int] = field(default_factory=dict)  # the buffer whose value is in a cell


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run leaves in the output: `cells` are the values stored, by flat address. The rest is padding.

    `divisions_by_zero` and `undefined` count the operations to which C and the interpreters may give different values.
    """

    shape: tuple[int, ...]
    dtype: str
    cells: Mapping[int, Any]
    divisions_by_zero: int
    undefined: int

    def to_numpy(self) -> AnyArray:
        """The output, padding as zero."""
        flat = np.zeros(prod(self.shape), dtype=self.dtype)
        for address, value in self.cells.items():
            flat[address] = value
        return flat.reshape(self.shape)


def run(nest: LoopNest, sizes: Mapping[str, int], arrays: Mapping[str, AnyArray]) -> AnyArray:
    """The output of a loop nest for sizes and arrays that meet its declarations (`atl.meaning.arguments.bind`).

    Raises `Trap` where the nest does what no lowered program may do.

    >>> import atl, numpy as np
    >>> from lowering.lower import lower
    >>> from lowering.nest.machine import run
    >>> n = atl.sizes("n")
    >>> x = atl.tensor("x", n)
    >>> run(lower(atl.program("padded", [x], atl.padr(1, x))), {"n": 2}, {"x": np.ones(2, np.float32)})
    array([1., 1., 0.], dtype=float32)
    """
    return execute(nest, sizes, arrays).to_numpy()


def execute(
    nest: LoopNest,
    sizes: Mapping[str, int],
    arrays: Mapping[str, AnyArray],
    *,
    steps: int | None = None,
    order: int | None = 0,
) -> Outcome:
    """A run of a loop nest, with the set of output cells that it stores.

    The number `order` chooses the order of iterations that are marked to run at once. Without one, with None, marks are
    ignored: all loops run from their low end to their high one, and no meeting is looked for.

    Raises `Trap`, and `TooLarge` when it takes more than this many `steps`: statements carried out.
    """
    try:
        return Run(nest, sizes, arrays, steps, order).outcome()
    except ZeroDivisionError as error:
        raise Trap("divisor", f"an index is divided by {error.args[0]}") from None


class Run:
    """The state of a run: loop variables (v in Fig. 5.4), scalars (st) and buffers (h)."""

    def __init__(
        self,
        nest: LoopNest,
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
        self._stack: dict[Scalar, Any] = {}
        self._heap: dict[int, Memory] = {}
        self._freed: set[int] = set()
        self._conditions: Conditions = frozenset()  # that the run stands under
        self._fixed: dict[Identity, int] = {}  # by expressions in which there is no loop variable
        self._numerators: dict[Index, tuple[Index, ...]] = {}
        self._scalars = Machine()
        self._tiles = tiles_of(nest)
        self._lane: Var | None = None
        self._chance = None if order is None else Random(order)
        self._watch = Watch()
        self._made: dict[Scalar, int] = {}  # as `Memory.made`

    def outcome(self) -> Outcome:
        output = self._nest.output
        shape = tuple(self._index(extent) for extent in output.extents)
        count = prod(shape)
        memory = self._heap[output.uid] = Memory(count, zeroed=0 if self._nest.complete else count)
        for buffer in self._nest.in_place:
            for address, element in enumerate(self._arrays[buffer.name].reshape(-1)):
                memory.cells[address] = self._scalars.element(element, buffer.dtype)
                memory.owners[address] = buffer.uid
        self._whole()
        stored = {at: value for at, value in memory.cells.items() if memory.owners[at] == output.uid}
        if self._nest.complete and len(stored) < count:
            missing = next(address for address in range(count) if address not in stored)
            raise Trap("incomplete", f"nothing is stored at {missing} of the output, which is said to be complete")
        if (left := next((address for address in memory.cells if address not in stored), None)) is not None:
            raise Trap("taken", f"{output.name} at {left}, where another tensor in its storage is left")
        return Outcome(shape, output.dtype, stored, self._scalars.divisions_by_zero, self._scalars.undefined)

    def _whole(self) -> None:
        """Runs the body of the nest."""
        self._block(self._nest.body)

    # -- statements ---------------------------------------------------------------------------------------------------

    def _block(self, block: Block) -> None:
        """The statements in order. What the block declares and allocates goes with it."""
        if self._steps is not None:
            self._steps -= len(block)
            if self._steps < 0:
                raise TooLarge(f"{self._nest.name} takes more steps than allowed", required="a smaller call")
        declared: list[Scalar] = []
        allocated: dict[int, Buffer] = {}
        for statement in block:
            match statement:
                case Declare(variable):
                    self._statement(statement)
                    declared.append(variable)
                case Allocate(buffer):
                    self._statement(statement)
                    allocated[buffer.uid] = buffer
                case Free(buffer):
                    self._free(buffer)
                    if allocated.pop(buffer.uid, None) is None:
                        raise Trap("double free", f"{buffer.name} is freed in a block that did not allocate it")
                case For() | If() | Assign() | Accumulate() | Clear():
                    self._statement(statement)
                case _:
                    assert_never(statement)
        for buffer in allocated.values():
            raise Trap("leak", f"{buffer.name} is not freed at the end of its block")
        for variable in declared:
            del self._stack[variable]

    def _statement(self, statement: Statement) -> None:
        match statement:
            case For(variable, low, high, body):
                if variable in self._variables:
                    raise Trap("redeclared", f"the loop variable {variable.name} is in use")
                if self._chance is not None and (walk := walk_at(statement)) is not None:
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
            case If(predicate, body):
                if self._holds(predicate):
                    outside = self._enter(predicate)
                    self._block(body)
                    self._conditions = outside
            case Assign(target, value):
                self._assign(target, self._value(value))
            case Accumulate(target, op, value):
                self._accumulate(target, op, self._value(value))
            case Declare(variable, initial):
                if variable in self._stack:
                    raise Trap("redeclared", f"the scalar {variable.name} is in use")
                self._stack[variable] = self._value(initial)
                self._made[variable] = self._watch.depth
            case Allocate(buffer, capacity, _, zeroed):
                self._allocate(buffer, self._index(capacity), zeroed=zeroed)
            case Clear(buffer, count, zeroed, row):
                if row is None:
                    self._clear(buffer, self._index(count), zeroed=zeroed)
                else:
                    self._begin(statement, self._index(row))
            case Free(buffer):
                self._free(buffer)
            case _:
                assert_never(statement)

    def _walk(self, walk: Merge | NoMerge | Runs | NoRuns | Stream) -> None:
        """Runs a merge, a loop in runs or a streamed loop as it is printed."""
        outside = self._conditions
        match walk:
            case Merge(_, conditions, within, body):
                for _ in meetings(walk, self._index, self._variables, self._nest.strict):
                    self._conditions = reduce(under, within, outside)
                    if all(self._holds(condition) for condition in conditions):
                        self._block(body)
            case Runs(loop, _, total, body, last):
                self._made[total] = self._watch.depth
                for begins, ends in runs_in(walk, self._index, self._variables):
                    self._conditions = under(outside, loop.range)
                    if begins:
                        self._stack[total] = self._scalars.constant(0, total.dtype)
                    self._block(body)
                    if ends:
                        self._statement(last)
                        del self._stack[total]
            case Stream(loop):
                self._conditions = under(outside, loop.range)
                self._watch.begin(loop.variable.name, loop.mark)
                for position, block in streamed_in(walk, self._index, self._variables, cast(Random, self._chance)):
                    self._watch.iterate(position)
                    self._block(block)
                self._watch.end()
            case NoMerge(summary) | NoRuns(summary):
                raise Trap("walk", summary)
            case _:
                assert_never(walk)
        self._conditions = outside

    def _lanes(self, loop: For, values: range) -> None:
        """A loop over the lanes of a vector: all are read before any is stored, into consecutive cells."""
        (statement,) = loop.body
        self._lane = loop.variable
        if not isinstance(statement, Assign | Accumulate) or not isinstance(statement.target, Cell):
            raise Trap("register", f"{type(statement).__name__} is no operation on vectors")
        lanes = Lanes(self._tiles, loop.variable, len(values))
        found: list[Any] = []
        for lane, value in enumerate(values):
            self._variables[loop.variable] = value
            for cell, stored in cells_of(loop.body):
                if (said := lanes.fault_of(cell, lane, self._index(cell.address), stored=stored)) is not None:
                    raise Trap("register", said)
            found.append(self._value(statement.value))
        for value, result in zip(values, found, strict=True):
            self._variables[loop.variable] = value
            if isinstance(statement, Assign):
                self._assign(statement.target, result)
            else:
                self._accumulate(statement.target, statement.op, result)
        self._lane = None

    def _ordered(self, loop: For, values: range) -> Iterator[int]:
        """The iterations of a loop as they are to run; those that run at once are watched."""
        if self._chance is None or loop.mark not in CONCURRENT:
            yield from values
            return
        self._watch.begin(loop.variable.name, loop.mark)
        for value in self._chance.sample(values, len(values)):
            self._watch.iterate(value)
            yield value
        self._watch.end()

    def _touch(self, storage: Buffer | Scalar, at: int, made: int, how: How) -> None:
        """Looks on while something is done to a cell at an address, or to a scalar."""
        met = self._watch.touch((key(storage), at), made, how) if self._watch.depth > made else None
        if met is not None:
            where = storage.name if isinstance(storage, Scalar) else f"{storage.name} at {at}"
            first, second = met.iterations
            raise Trap(
                "meeting",
                f"{where}: {met.done[0]} in iteration {first} of the {met.mark.value} loop {met.loop}, "
                f"{met.done[1]} in iteration {second}",
            )

    def _assign(self, target: Cell | Scalar, value: Any) -> None:
        match target:
            case Scalar(_, name):
                if target not in self._stack:
                    raise Trap("undeclared", f"the scalar {name} is assigned")
                self._touch(target, 0, self._made[target], "write")
                self._stack[target] = value
            case Cell(buffer):
                memory, address = self._place(target)
                self._touch(buffer, address, memory.made, "write")
                if address in memory.cells and memory.owners[address] == buffer.uid:
                    raise Trap("overwritten", f"{buffer.name} holds a value at {address} when another is assigned")
                memory.cells[address], memory.owners[address] = value, buffer.uid

    def _accumulate(self, target: Cell | Scalar, op: BinaryOp, value: Any) -> None:
        match target:
            case Scalar(_, name, dtype):
                if target not in self._stack:
                    raise Trap("undeclared", f"the scalar {name} is added to")
                self._touch(target, 0, self._made[target], op)
                self._stack[target] = self._scalars.binary(op, dtype, self._stack[target], value)
            case Cell(buffer):
                memory, address = self._place(target)
                self._touch(buffer, address, memory.made, "write")
                if address not in memory.cells and (op not in ("add", "sub") or not self._is_zero(target)):
                    raise Trap("uninitialised", f"{op} to {buffer.name} at {address}, which holds nothing")
                self._check_owner(buffer, memory, address)
                old = memory.cells.get(address, self._scalars.constant(0, buffer.dtype))
                memory.cells[address] = self._scalars.binary(op, buffer.dtype, old, value)
                memory.owners[address] = buffer.uid

    def _check_owner(self, buffer: Buffer, memory: Memory, address: int) -> None:
        if memory.owners.get(address, buffer.uid) != buffer.uid and address in memory.cells:
            raise Trap("taken", f"{buffer.name} at {address}, where another tensor in its storage stands")

    # -- buffers ------------------------------------------------------------------------------------------------------

    def _allocate(self, buffer: Buffer, capacity: int, *, zeroed: bool) -> None:
        if buffer.uid in self._heap:
            raise Trap("leak", f"{buffer.name} is allocated once more before it is freed")
        if capacity < 0:
            raise Trap("capacity", f"{buffer.name} is given room for {capacity} elements")
        self._freed.discard(buffer.uid)
        self._heap[buffer.uid] = Memory(capacity, zeroed=capacity if zeroed else 0, made=self._watch.depth)

    def _clear(self, buffer: Buffer, count: int, *, zeroed: bool) -> None:
        memory = self._memory(buffer)
        if not 0 <= count <= memory.capacity:
            raise Trap("capacity", f"{count} elements of {buffer.name} are cleared; it has {memory.capacity}")
        for address in range(count):
            self._touch(buffer, address, memory.made, "write")
        memory.zeroed = max(memory.zeroed, count) if zeroed else 0
        for address in [address for address in memory.cells if address < count]:
            del memory.cells[address]
        memory.held.clear()

    def _begin(self, cleared: Clear, row: int) -> None:
        """A row of a ring takes its place, and the row that was there is there no more."""
        buffer, memory = cleared.buffer, self._memory(cleared.buffer)
        length = prod(self._index(extent) for extent in buffer.extents[1:])
        if not 0 <= row < self._index(buffer.extents[0]):
            raise Trap("out of bounds", f"row {row} of the ring {buffer.name}")
        if self._index(cleared.count) != length or length * buffer.rows > memory.capacity:
            raise Trap("capacity", f"{buffer.rows} rows of {length} elements in {buffer.name}")
        place = row % buffer.rows
        memory.held[place] = (row, cleared.zeroed)
        for address in range(place * length, (place + 1) * length):
            self._touch(buffer, address, memory.made, "write")
            memory.cells.pop(address, None)

    def _is_zero(self, cell: Cell) -> bool:
        """Whether a cell that holds nothing reads as zero."""
        memory = self._memory(cell.buffer)
        if cell.buffer.rows:
            return memory.held[self._index(cell.pairs[0][0]) % cell.buffer.rows][1]
        return self._index(cell.address) < memory.zeroed

    def _free(self, buffer: Buffer) -> None:
        if buffer.uid in self._freed:
            raise Trap("double free", f"{buffer.name} is freed, and was before")
        self._memory(buffer)
        del self._heap[buffer.uid]
        self._freed.add(buffer.uid)

    def _memory(self, buffer: Buffer) -> Memory:
        uid = buffer.storage.uid
        found = self._heap.get(uid)
        if found is None:
            raise Trap("no storage", f"{buffer.name} is {'freed' if uid in self._freed else 'not allocated'}")
        return found

    def _place(self, cell: Cell) -> tuple[Memory, int]:
        """The memory of the cell's buffer, which is no input, and the address there."""
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
            raise Trap("capacity", f"{cell.buffer.name} of shape {extents} has room for {memory.capacity} elements")
        address = 0
        for position, extent in zip(at, extents, strict=True):
            address = address * extent + position
        return memory, address

    def _turn(self, buffer: Buffer, at: tuple[int, ...], memory: Memory) -> tuple[int, ...]:
        """The position in a ring of an element, whose row must be the one in its place."""
        row, *rest = at
        held, _ = memory.held.get(row % buffer.rows, (None, False))
        if held != row:
            there = "no row" if held is None else f"row {held}"
            raise Trap("ring", f"row {row} of {buffer.name} is asked for, and {there} is in its place")
        return (row % buffer.rows, *rest)

    def _positions(self, cell: Cell) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The values of a cell's pairs, each index within its extent, and the extents those of the buffer."""
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

    def _value(self, e: ScalarExpr) -> Any:
        scalars = self._scalars
        match e:
            case Number(value, dtype):
                return scalars.constant(value, dtype)
            case Load(source):
                return self._read(source)
            case FromIndex(expression, dtype):
                return scalars.from_index(self._index(expression), dtype)
            case Apply(op, (x,), dtype):
                return scalars.unary(cast(UnaryOp, op), dtype, self._value(x))
            case Apply(op, (x, y), dtype):
                return scalars.binary(cast(BinaryOp, op), dtype, self._value(x), self._value(y))
            case Apply(op, arguments):
                raise AssertionError(f"{op} of {len(arguments)} arguments")
            case Choose(predicate, left, right):
                chosen, condition = (left, predicate) if self._holds(predicate) else (right, negation(predicate))
                outside = self._enter(condition)
                value = self._value(chosen)
                self._conditions = outside
                return value
            case Convert(argument, dtype):
                return scalars.cast(dtype, argument.dtype, self._value(argument))
            case _:
                assert_never(e)

    def _read(self, source: Cell | Scalar) -> Any:
        match source:
            case Scalar(_, name):
                if source not in self._stack:
                    raise Trap("undeclared", f"the scalar {name} is read")
                self._touch(source, 0, self._made[source], "read")
                return self._stack[source]
            case Cell(Buffer(role="input", home=None) as buffer):
                at, _ = self._positions(source)
                return self._scalars.element(self._arrays[buffer.name][at], buffer.dtype)
            case Cell(buffer):
                memory, address = self._place(source)
                self._touch(buffer, address, memory.made, "read")
                if address not in memory.cells and not self._is_zero(source):
                    raise Trap("uninitialised", f"a read of {buffer.name} at {address}, which holds nothing")
                self._check_owner(buffer, memory, address)
                return memory.cells.get(address, self._scalars.constant(0, buffer.dtype))

    # -- indices ------------------------------------------------------------------------------------------------------

    def _index(self, expression: Index) -> int:
        if self._nest.natural and expression.constant is None:
            self._look_at_numerators(expression)
        value = self._fixed.get(expression.identity)
        if value is None:
            value = value_of(expression, self._leaf, self._element)
            if not expression.free:
                self._fixed[expression.identity] = value
        return value

    def _holds(self, predicate: Predicate) -> bool:
        """Whether the predicate is true; its parts are tested from left to right, each under those before it."""
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

    def _enter(self, branch: Predicate | For) -> Conditions:
        """Goes into a branch or a loop; the conditions outside. Nobody asks for them where nothing is said of any."""
        outside = self._conditions
        if self._nest.natural:
            self._conditions = under(outside, branch.range if isinstance(branch, For) else branch)
        return outside

    def _look_at_numerators(self, expression: Index) -> None:
        """Raises a trap where the expression has a negative numerator that the nest says is none."""
        found = self._numerators.get(expression)
        if found is None:
            found = self._numerators[expression] = tuple(numerators(expression))
        for numerator in found:
            stated = (self._conditions, numerator) in self._nest.natural
            if stated and (value := value_of(numerator, self._leaf, self._element)) < 0:
                raise Trap("numerator", f"{value} is divided where the nest says that it is not negative")

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
