"""Passes over the steps of GPU kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Final, assert_never

from atl.core import index as ix
from atl.core import predicate as pred
from atl.core.dtypes import bytes_of
from atl.core.marks import LetMark, LoopMark
from atl.prove import Facts, proves, upper_bound
from lowering.gpu.kernels import (
    COPY_BYTES,
    Barrier,
    Branch,
    Commit,
    Copy,
    Memory,
    Repeat,
    Run,
    Step,
    Steps,
    Wait,
    Wide,
    WideLoad,
)
from lowering.nest import loopnest as ln
from lowering.nest.accesses import Access, accesses_of, other_run, same_cell_facts, with_inner_block
from lowering.nest.text import TextScope
from lowering.nest.tiles import cells_of

# -- constant sizes ---------------------------------------------------------------------------------------------------


def with_static_capacities(facts: Facts, block: ln.Block) -> ln.Block:
    """Replace each capacity by a constant that is proved to be an upper bound."""
    return tuple(_statement(statement, facts) for statement in block)


def _statement(statement: ln.Statement, facts: Facts) -> ln.Statement:
    if not isinstance(statement, ln.Allocate):
        return with_inner_block(facts, statement, with_static_capacities)
    bound = _least_constants(statement.capacity)
    is_bound = bound.constant is not None and proves(facts, pred.at_most(statement.capacity, bound))
    return replace(statement, capacity=bound) if is_bound else statement


def _least_constants(e: ix.Index) -> ix.Index:
    """Replace each minimum by its least constant operand, if it has one."""
    total = ix.constant(0)
    for monomial, coefficient in e.terms:
        product = ix.constant(coefficient)
        for atom in monomial:
            product = product * _of_atom(atom)
        total = total + product
    return total


def _of_atom(atom: ix.AnyAtom) -> ix.Index:
    match atom:
        case ix.Extremum("min", choices):
            constants = [choice.constant for choice in choices if choice.constant is not None]
            return ix.constant(min(constants)) if constants else ix.index(atom)
        case ix.Extremum() | ix.Xor() | ix.Size() | ix.Var() | ix.Bound() | ix.Quotient() | ix.Read():
            return ix.index(atom)
    assert_never(atom)


# -- stores that are never read ---------------------------------------------------------------------------------------
# Lowering stores padding as zeros where that saves clearing the buffer. In shared memory, rows are padded to move their
# columns to different banks, and the padding is never read.


def drop_unread_zeros(block: ln.Block, facts: Facts, scope: TextScope) -> ln.Block:
    """Remove stores of zeros to cells of the block's buffers that are proved to be never read."""
    made = {ln.key(s.buffer) for s in ln.statements(block) if isinstance(s, ln.Allocate)}
    accesses = [access for statement in block for access in accesses_of(scope, facts, statement)]
    unread = [access.statement for access in accesses if _is_of_zero(access, made) and not _is_read(access, accesses)]
    return _Removal(unread).block(block) if unread else block


def _is_of_zero(access: Access, made: set[object]) -> bool:
    store = access.statement
    if not isinstance(store, ln.Assign) or not isinstance(store.value, ln.Number):
        return False
    return store.value.value == 0 and ln.accessed(store.target) in made


def _is_read(store: Access, accesses: list[Access]) -> bool:
    """Return whether a cell may be accessed by anything but assignments, unless the prover excludes it."""
    cell = store.storage
    assert isinstance(cell, ln.Cell)
    for access in accesses:
        other = access.storage
        if ln.accessed(other) != ln.accessed(cell) or (
            isinstance(access.statement, ln.Assign) and access.how == "write"
        ):
            continue
        assert isinstance(other, ln.Cell)
        if not proves(same_cell_facts(cell.pairs, store.facts, other.pairs, access.facts, access.loops), pred.FALSE):
            return True
    return False


@dataclass(frozen=True, slots=True)
class _Removal:
    """Removal of statements, and of the loops and branches that become empty."""

    removed: list[ln.Statement]

    def block(self, block: ln.Block) -> ln.Block:
        return tuple(self._kept(block))

    def _kept(self, block: ln.Block) -> Iterator[ln.Statement]:
        for statement in block:
            match statement:
                case ln.For(body=body) | ln.If(body=body):
                    inner = self.block(body)
                    if inner or not body:
                        yield ln.with_body(statement, inner)
                case ln.Assign():
                    if not any(statement is each for each in self.removed):
                        yield statement
                case ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
                    yield statement
                case _:
                    assert_never(statement)


# -- vector accesses: loops marked `vector`, all of whose iterations a thread loads or stores at once (8 or 16 bytes) -
# The elements must be consecutive, the first address a multiple of their number, and each condition true for all of
# them or for none. The prover decides, for instance from a declared assumption that rows are a multiple of four long
# (`given k % 4 == 0`). Accesses without a proof are made element by element.


WIDTHS: Final = (8, 16)
"""Sizes in bytes of vector accesses."""
WIDEST: Final = max(WIDTHS)
"""Alignment in bytes that suffices for every vector access."""


def vectorize(
    steps: Steps,
    facts: Facts,
    memories: Mapping[int, Memory],
    staged: Collection[int],
    shuffles: Collection[ln.Cell],
) -> tuple[Steps, Mapping[int, Wide], Mapping[int, Copy]]:
    """Make conditions in vectorised loops independent of the iteration.

    Returns the steps, the loops with vector accesses by `uid`, and those that are asynchronous copies to the buffers
    in `staged`. A loop that reads a cell in `shuffles` has no vector accesses.
    """
    found = _Vectorization(memories, staged, shuffles)
    return found.steps(steps, facts), found.loops, found.copies


@dataclass(slots=True)
class _Vectorization:
    memories: Mapping[int, Memory]
    staged: Collection[int]
    shuffles: Collection[ln.Cell]
    loops: dict[int, Wide] = field(default_factory=dict)
    copies: dict[int, Copy] = field(default_factory=dict)

    def steps(self, steps: Steps, facts: Facts) -> Steps:
        out: list[Step] = []
        for step in steps:
            match step:
                case Run(ln.For() as loop):
                    (made,) = self._block(facts, (loop,))
                    assert isinstance(made, ln.For)
                    out.append(replace(step, statement=made))
                case Repeat(body=body):
                    out.append(replace(step, body=self.steps(body, facts.assume(step.range))))
                case Branch(predicate, body):
                    out.append(replace(step, body=self.steps(body, facts.assume(predicate))))
                case (
                    Run() | Barrier() | Commit() | Wait() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free()
                    | ln.Gather()
                ):  # fmt: skip
                    out.append(step)
                case _:
                    assert_never(step)
        return tuple(out)

    def _block(self, facts: Facts, block: ln.Block) -> ln.Block:
        return tuple(self._statement(statement, facts) for statement in block)

    def _statement(self, statement: ln.Statement, facts: Facts) -> ln.Statement:
        if isinstance(statement, ln.For) and statement.mark is LoopMark.VECTOR:
            return self._vector(statement, facts.assume(statement.range))
        return with_inner_block(facts, statement, self._block)

    def _vector(self, loop: ln.For, facts: Facts) -> ln.For:
        lanes = (loop.high - loop.low).constant
        if lanes is None or len(loop.body) != 1 or any(cell in self.shuffles for cell, _ in cells_of(loop.body)):
            return loop
        copied = _Copying(loop, lanes, self.memories, staged=self.staged).copy(loop.body[0], facts)
        if copied is not None:
            self.copies[loop.variable.uid], assign = copied
            return ln.with_body(loop, (assign,))
        made = _Loop(loop, lanes, self.memories)
        statement = made.statement(loop.body[0], facts)
        if statement is None or not (made.loads_of_one_condition() or made.stores):
            return loop
        self.loops[loop.variable.uid] = Wide(lanes, made.loads_of_one_condition(), stores=made.stores)
        return ln.with_body(loop, (statement,))


@dataclass(slots=True)
class _Loop:
    """A loop that may be vectorised: its vector loads, and whether its store is a vector store."""

    loop: ln.For
    lanes: int
    memories: Mapping[int, Memory]
    loads: list[WideLoad] = field(default_factory=list)
    stores: bool = False
    widths: ClassVar[tuple[int, ...]] = WIDTHS
    smallest: ClassVar[int] = 4
    """Elements of a vector have 4 bytes or more: CUDA has vector types of them."""

    def statement(self, statement: ln.Statement, facts: Facts) -> ln.Statement | None:
        """Return the statement with conditions that do not depend on the iteration; None if it has other conditions."""
        match statement:
            case ln.If(predicate, (inner,)):
                same = self._same(predicate, facts)
                made = None if same is None else self.statement(inner, facts.assume(same))
                return None if same is None or made is None else ln.If(same, (made,))
            case ln.Assign(target, value):
                new = self._scalar(value, facts, ())
                self.stores = isinstance(target, ln.Cell) and self._is_wide(target, facts)
                return None if new is None else ln.Assign(target, new)
            case ln.Accumulate(target, op, value):
                new = self._scalar(value, facts, ())
                return None if new is None else ln.Accumulate(target, op, new)
            case ln.For() | ln.If() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
                return None
        assert_never(statement)

    def _scalar(self, e: ln.ScalarExpr, facts: Facts, under: tuple[pred.Predicate, ...]) -> ln.ScalarExpr | None:
        match e:
            case ln.Load(source):
                if isinstance(source, ln.Cell) and self._is_wide(source, facts):
                    self.loads.append(WideLoad(source, under))
                return e
            case ln.Number() | ln.FromIndex():
                return e
            case ln.Apply(_, arguments):
                new = [self._scalar(argument, facts, under) for argument in arguments]
                made = tuple(argument for argument in new if argument is not None)
                return replace(e, arguments=made) if len(made) == len(new) else None
            case ln.Choose(predicate, left, right):
                same = self._same(predicate, facts)
                if same is None:
                    return None
                first = self._scalar(left, facts.assume(same), (*under, same))
                no = pred.negation(same)
                second = self._scalar(right, facts.assume(no), (*under, no))
                return None if first is None or second is None else replace(e, predicate=same, left=first, right=second)
            case ln.Convert(argument):
                inner = self._scalar(argument, facts, under)
                return None if inner is None else replace(e, argument=inner)
        assert_never(e)

    def loads_of_one_condition(self) -> tuple[WideLoad, ...]:
        """Return the vector loads, except cells that are read under several different conditions."""
        loads = dict.fromkeys(self.loads)
        count = Counter(load.cell for load in loads)
        return tuple(load for load in loads if count[load.cell] == 1)

    def _first(self, leaf: ix.Leaf) -> ix.Index:
        return self.loop.low if leaf == self.loop.variable else ix.index(leaf)

    def _same(self, predicate: pred.Predicate, facts: Facts) -> pred.Predicate | None:
        """Return the condition of the first iteration if it is proved equivalent to that of all iterations."""
        first = pred.substitute(predicate, self._first)
        if first == predicate:
            return predicate
        holds = proves(facts.assume(first), predicate) and proves(facts.assume(predicate), first)
        return first if holds else None

    def _is_wide(self, cell: ln.Cell, facts: Facts) -> bool:
        """Return whether the cells of all iterations are consecutive and aligned to their number."""
        if self.memories.get(cell.buffer.uid, "global") not in ("global", "shared"):
            return False
        size = bytes_of(1, cell.buffer.dtype) or 0
        if self.lanes * size not in self.widths or size < self.smallest or self.lanes == 1:
            return False
        if ix.factor_of(cell.address, self.loop.variable) != ix.ONE:
            return False
        return is_multiple(ix.map_leaves(cell.address, self._first), self.lanes, facts)


@dataclass(slots=True)
class _Copying(_Loop):
    """A loop that may be an asynchronous copy to one of the buffers in `staged`."""

    staged: Collection[int] = ()
    widths: ClassVar[tuple[int, ...]] = (COPY_BYTES,)
    smallest: ClassVar[int] = 1

    def copy(self, statement: ln.Statement, facts: Facts) -> tuple[Copy, ln.Assign] | None:
        """Return the copy and the statement with a condition that does not depend on the iteration."""
        if not isinstance(statement, ln.Assign) or not isinstance(statement.target, ln.Cell):
            return None
        if statement.target.buffer.uid not in self.staged:
            return None
        made = self.statement(statement, facts)
        if not isinstance(made, ln.Assign) or not self.stores or len(self.loads) != 1:
            return None
        value, (load,) = made.value, self.loads
        if isinstance(value, ln.Choose) and isinstance(value.right, ln.Number) and value.right.value == 0:
            value = value.left
        is_global = self.memories.get(load.cell.buffer.uid, "global") == "global"
        return (Copy(self.lanes, load), made) if is_global and value == ln.Load(load.cell) else None


def is_multiple(e: ix.Index, of: int, facts: Facts) -> bool:
    """Return whether an index is proved to be a multiple of a number: each of its terms, or their remaining sum."""
    rest = {}
    known: dict[ix.AnyAtom, bool] = {}
    for atoms, coefficient in e.terms:
        if coefficient % of == 0:
            continue
        for atom in atoms:
            if atom not in known:
                known[atom] = _is_zero(ix.index(atom) % of, facts)
        if not any(known[atom] for atom in atoms):
            rest[atoms] = coefficient
    return not rest or _is_zero(ix.polynomial(rest) % of, facts)


def _is_zero(e: ix.Index, facts: Facts) -> bool:
    return e == ix.ZERO or proves(facts, pred.equal(e, ix.ZERO))


def lanes_of(loop: ln.For) -> Iterator[ix.Index]:
    """Yield the values of a loop's variable, one for each lane."""
    for lane in range((loop.high - loop.low).constant or 0):
        yield loop.low + ix.constant(lane)


# -- stores of zeros --------------------------------------------------------------------------------------------------
# Shared memory is uninitialised. A buffer that needs zeros is cleared by all threads, with a barrier before its first
# store. Suppose that one statement runs once for each cell of the buffer. Then the statement stores a zero where its
# conditions do not hold, and the buffer need not be cleared. Cells that are never read, such as the padding of rows,
# need not be stored.


def store_zeros(block: ln.Block, facts: Facts, scope: TextScope) -> ln.Block:
    """Replace clearing by stores of zeros in each buffer for which they are proved to reach each cell."""
    for allocate in [s for s in ln.statements(block) if isinstance(s, ln.Allocate)]:
        if allocate.zeroed and allocate.mark is not LetMark.REGISTERS:
            block = _replace(allocate, scope, facts, block)
    return block


@dataclass(frozen=True, slots=True)
class _Store:
    """A statement that stores to a buffer, and the loops around it inside of the buffer's scope."""

    statement: ln.Assign
    loops: tuple[ln.For, ...]


def _replace(allocate: ln.Allocate, scope: TextScope, facts: Facts, block: ln.Block) -> ln.Block:
    out: list[ln.Statement] = []
    for at, statement in enumerate(block):
        if isinstance(statement, ln.Allocate) and statement.buffer == allocate.buffer:
            rest = block[at + 1 :]
            stores = list(_stores(rest, allocate, ()))
            kept = _remaining(stores[0], rest, facts, scope) if len(stores) == 1 and stores[0] is not None else None
            if kept is not None and stores[0] is not None:
                stored = (_with_zeros(s, stores[0].statement, kept, ()) for s in rest)
                return (*out, replace(statement, zeroed=False), *stored)
            return block
        out.append(with_inner_block(facts, statement, partial(_replace, allocate, scope)))
    return tuple(out)


def _stores(block: ln.Block, allocate: ln.Allocate, loops: tuple[ln.For, ...]) -> Iterator[_Store | None]:
    """Yield the stores to a buffer, None for a store that is not a simple assignment."""
    for statement in block:
        match statement:
            case ln.For(body=body):
                yield from _stores(body, allocate, (*loops, statement))
            case ln.If(body=body):
                inside = list(_stores(body, allocate, loops))
                yield from inside if len(body) == 1 else [None] * len(inside)
            case ln.Assign(target) if ln.accessed(target) == ln.key(allocate.buffer):
                yield _Store(statement, loops)
            case ln.Accumulate(target) if ln.accessed(target) == ln.key(allocate.buffer):
                yield None
            case ln.Clear(buffer) if buffer == allocate.buffer:
                yield None
            case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
                pass
            case _:
                assert_never(statement)


def _remaining(store: _Store, rest: ln.Block, facts: Facts, scope: TextScope) -> pred.Predicate | None:
    """Return the conditions to keep if the store reaches each cell that `rest` reads exactly once, else None.

    The store reaches as many cells as a box has, all within the box, and no cell twice. Along each dimension the box
    spans all reads or the whole buffer. Where the loops exceed the buffer, a condition excludes the excess.
    """
    target = store.statement.target
    times = 1
    inside = facts
    for loop in store.loops:
        times *= (loop.high - loop.low).constant or 0 if loop.low.constant is not None else 0
        inside = inside.assume(loop.range)
    if not isinstance(target, ln.Cell) or times == 0:
        return None
    variables = tuple(loop.variable for loop in store.loops)
    ranges = [(loop.variable, loop.low, loop.high) for loop in store.loops]
    box = [upper_bound(inside, position + 1, ranges) or extent for position, extent in target.pairs]
    if ln.elements(tuple(box)).constant != times or not _is_within(target, inside, box):
        return None
    twice = same_cell_facts(target.pairs, inside, target.pairs, inside, variables)
    if not all(proves(twice, pred.equal(ix.index(variable), other_run(variable))) for variable in variables):
        return None
    read = (access for s in rest for access in accesses_of(scope, facts, s) if access.how == "read")
    cells = [(access.storage, access.facts) for access in read if ln.accessed(access.storage) == ln.accessed(target)]
    if not all(isinstance(cell, ln.Cell) and _is_within(cell, known, box) for cell, known in cells):
        return None
    out = [(at, extent, most) for (at, extent), most in zip(target.pairs, box, strict=True) if most != extent]
    beyond = [pred.less(at, extent) for at, extent, most in out if not proves(facts, pred.at_most(most, extent))]
    return pred.conjunction(beyond)


def _is_within(cell: ln.Cell, facts: Facts, box: Sequence[ix.Index]) -> bool:
    pairs = zip(cell.pairs, box, strict=True)
    return all(proves(facts, pred.within(ix.ZERO, position, extent)) for (position, _), extent in pairs)


def _with_zeros(
    statement: ln.Statement, store: ln.Assign, kept: pred.Predicate, conditions: tuple[pred.Predicate, ...]
) -> ln.Statement:
    """Return the statement with the store made unconditional, of a zero where a condition fails; `kept` is kept."""
    if statement is store:
        left = [
            part for condition in conditions for part in pred.conjuncts(condition) if part not in pred.conjuncts(kept)
        ]
        value = ln.Choose(pred.conjunction(left), store.value, ln.Number(0, store.value.dtype)) if left else store.value
        stored = replace(store, value=value)
        return stored if kept == pred.TRUE else ln.If(kept, (stored,))
    match statement:
        case ln.For(body=body) if _contains(statement, store):
            return ln.with_body(statement, tuple(_with_zeros(s, store, kept, conditions) for s in body))
        case ln.If(predicate, (inner,)) if _contains(statement, store):
            return _with_zeros(inner, store, kept, (*conditions, predicate))
        case (
            ln.For() | ln.If() | ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free()
            | ln.Gather()
        ):  # fmt: skip
            return statement
    assert_never(statement)


def _contains(statement: ln.Statement, store: ln.Assign) -> bool:
    return any(inner is store for inner in ln.statements((statement,)))
