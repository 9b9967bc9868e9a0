"""Loop nests: what programs are lowered to (Fig. 5.4), between tensor expressions and C.

A statement stores scalars into cells of buffers or into scalar variables. The index of a cell is the list of
(index, extent) pairs that the reindexers produced; Horner's rule gives its flat address. Index expressions and
predicates contain sizes and opened loop variables (`Var`). The id of each variable is unique in the nest.

Quotients round down, as in Python. Those of C and other targets round towards zero. A pass proves which quotients may
use the target's division, and records them in `LoopNest.nonnegative_numerators`; printers do not call the prover.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from math import inf
from operator import is_
from typing import Final, Literal, TypeAlias, TypeVar, assert_never

from atl.core import dtypes
from atl.core import index as ix
from atl.core.dtypes import range_of
from atl.core.index import index
from atl.core.marks import AnyLoopMark, LetMark, LoopMark
from atl.core.operations import Arithmetic, BinaryOp, UnaryOp
from atl.core.predicate import TRUE, Predicate, negation, substitute, within
from atl.core.program import Assembly
from atl.core.reshape_definitions import Pairs
from atl.core.terms import Monoid
from atl.core.traversal import Path
from atl.errors import InvalidArgument, brief
from lowering.targets.capabilities import MarkedBinder, Storage


@dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer, which stores a tensor. `uid` identifies it; the name is only a hint, except for inputs and the output.

    With `rows`, the buffer is circular (storage folding). It holds that many consecutive rows, which are the elements
    along its first dimension; row r is at r mod `rows`. `Clear` starts a row and replaces the one at that place.
    A row that is computed `in_place` starts with the elements of the row that it replaces. Elements that are not stored
    remain those of the previous row. A buffer of one row needs no `Clear`. An output that is `in_place` is one row too;
    it has no dimension for the rows.

    With `strides`, neighbours along each dimension are at these distances, in elements; else it is row-major.

    With a `home`, the buffer aliases that other buffer, which has the same shape. An element is valid until another
    tensor in that storage overwrites it.
    """

    uid: int
    name: str = field(hash=False)
    dtype: str = field(hash=False)
    extents: tuple[ix.Index, ...] = field(hash=False)
    role: Literal["input", "output", "local"] = field(default="local", hash=False)
    rows: int = field(default=0, hash=False)
    in_place: bool = field(default=False, hash=False)
    home: Buffer | None = field(default=None, hash=False)
    strides: tuple[ix.Index, ...] | None = field(default=None, hash=False)

    @property
    def allocated_extents(self) -> tuple[ix.Index, ...]:
        """The extents of the allocated storage: those of the tensor, or those of the rows of a circular buffer."""
        return (ix.constant(self.rows), *self.extents[1:]) if self.rows else self.extents

    @property
    def storage(self) -> Buffer:
        """The buffer that owns the storage: the `home`, or this buffer."""
        return self if self.home is None else self.home


@dataclass(frozen=True, slots=True)
class Cell:
    """An element of a buffer."""

    buffer: Buffer
    pairs: Pairs
    _address: ix.Index | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def memory_pairs(self) -> Pairs:
        """The pairs of the cell's place in memory. In a circular buffer, the row is taken modulo the number of rows."""
        rows = self.buffer.rows
        if not rows:
            return self.pairs
        (row, _), *rest = self.pairs
        return ((row - ix.floordiv(row, ix.constant(rows)) * rows, ix.constant(rows)), *rest)

    @property
    def address(self) -> ix.Index:
        """The flat address, cached: row-major (`flatten_index` of §4.4.2), or by the strides of the buffer."""
        known = self._address
        if known is None:
            strides = self.buffer.storage.strides
            known = flat(self.memory_pairs) if strides is None else _at_distances(self.memory_pairs, strides)
            object.__setattr__(self, "_address", known)
        return known


def flat(pairs: Pairs) -> ix.Index:
    """Return the row-major address of the indices in `pairs`, by Horner's rule."""
    if not pairs:
        return ix.ZERO
    address, _ = pairs[0]
    for position, extent in pairs[1:]:
        address = address * extent + position
    return address


def _at_distances(pairs: Pairs, strides: tuple[ix.Index, ...]) -> ix.Index:
    address = ix.ZERO
    for (position, _), stride in zip(pairs, strides, strict=True):
        address = address + position * stride
    return address


def elements(extents: tuple[ix.Index, ...]) -> ix.Index:
    """Return the number of elements of a tensor of this shape."""
    product = ix.ONE
    for extent in extents:
        product = product * extent
    return product


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar variable."""

    uid: int
    name: str
    dtype: str


def key(storage: Buffer | Scalar) -> Hashable:
    """Return a key that identifies the storage of a buffer or scalar variable. The key of an input is its name."""
    if isinstance(storage, Scalar):
        return ("scalar", storage.uid)
    storage = storage.storage
    return storage.name if storage.role == "input" else ("buffer", storage.uid)


def row_key(buffer: Buffer, row: ix.Index) -> Hashable:
    """Return a key that identifies a row of a circular buffer, while that row is in it."""
    return ("row", buffer.uid, row)


def accessed(at: Cell | Scalar) -> Hashable:
    """Return the key of the buffer or scalar variable that a store or load accesses."""
    return key(at.buffer if isinstance(at, Cell) else at)


ScalarOp: TypeAlias = UnaryOp | BinaryOp | Literal["where"]
"""Operations of one, two and three operands."""


# -- scalar expressions -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Number:
    """A literal."""

    value: int | float
    dtype: str


@dataclass(frozen=True, slots=True)
class Load:
    """The value of a cell or scalar variable."""

    source: Cell | Scalar

    @property
    def dtype(self) -> str:
        return self.source.buffer.dtype if isinstance(self.source, Cell) else self.source.dtype


@dataclass(frozen=True, slots=True)
class FromIndex:
    """An index expression as a scalar."""

    index: ix.Index
    dtype: str


@dataclass(frozen=True, slots=True)
class Apply:
    """An operation. `dtype` is the type of the result, and of operands except in comparisons and choices."""

    op: ScalarOp
    arguments: tuple[ScalarExpr, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Choose:
    """The left expression if the predicate holds, else the right one. The other one is not evaluated."""

    predicate: Predicate
    left: ScalarExpr
    right: ScalarExpr

    @property
    def dtype(self) -> str:
        return self.left.dtype


@dataclass(frozen=True, slots=True)
class Convert:
    """A conversion to `dtype`, as C converts."""

    argument: ScalarExpr
    dtype: str


ScalarExpr: TypeAlias = Number | Load | FromIndex | Apply | Choose | Convert


# -- statements -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class For:
    """for (variable = low; variable < high; variable++) body.

    `binder` is the path of the binder in the program, for marked loops only. For a loop marked `stream`, a pass sets
    `lines` to the cache lines that it stores, or to the reason why it stores none. With a `call`, C may call an
    instruction instead, which computes the same. If it is `aligned`, iterations may run twice, so C runs those of the
    first `LINE_BYTES` bytes, and then all from the first whole cache line on.
    """

    variable: ix.Var
    low: ix.Index
    high: ix.Index
    body: Block
    mark: AnyLoopMark = LoopMark.NONE
    binder: Path | None = None
    lines: CacheLines | NoLines | None = None
    call: InstructionCall | None = None
    aligned: bool = False
    _range: Predicate | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def range(self) -> Predicate:
        """The range of the loop variable as a predicate, cached."""
        known = self._range
        if known is None:
            known = within(self.low, index(self.variable), self.high)
            object.__setattr__(self, "_range", known)
        return known

    def share_range(self, other: For) -> None:
        """Copy the cached range to a loop with the same bounds."""
        object.__setattr__(other, "_range", self._range)


@dataclass(frozen=True, slots=True)
class If:
    """A branch. The parts of its predicate are tested from left to right.

    With the predicate true, it is a block, which limits the scope of declarations.
    """

    predicate: Predicate
    body: Block


@dataclass(frozen=True, slots=True)
class Assign:
    """target = value. An assigned cell must not have a value yet (non-destructivity, §5.3.3)."""

    target: Cell | Scalar
    value: ScalarExpr


@dataclass(frozen=True, slots=True)
class Accumulate:
    """target = target op value. A cell without a value counts as zero; `op` must then be "add" or "sub"."""

    target: Cell | Scalar
    op: Arithmetic
    value: ScalarExpr


@dataclass(frozen=True, slots=True)
class Declare:
    """The declaration of a scalar variable with its initial value, visible to the end of the block."""

    variable: Scalar
    initial: ScalarExpr
    mark: LetMark = LetMark.NONE


@dataclass(frozen=True, slots=True)
class Allocate:
    """The allocation of `capacity` elements (a product of extents), which have no values and are zero if `zeroed`.

    A `Free` in the same block frees the buffer. `storage_of` derives `storage` from the mark and the size; passes may
    change it. The capacity of a buffer on the stack is constant. For a buffer in registers, `vectors` are the lengths
    of the vectors of each row. `let` is the path of the marked let in the program.
    """

    buffer: Buffer
    capacity: ix.Index
    storage: Storage = "heap"
    zeroed: bool = True
    mark: LetMark = LetMark.NONE
    let: Path | None = None
    vectors: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Clear:
    """A statement that clears the first `count` cells of a buffer: they have no values, and are zero if `zeroed`.

    A hoisted buffer is cleared at the place of its let. Without `zeroed`, every cell is stored before it is read, and C
    does nothing. With a `row`, the statement starts this row of a circular buffer and clears its cells. With a `cell`,
    it clears only this one.
    """

    buffer: Buffer
    count: ix.Index
    zeroed: bool = True
    row: ix.Index | None = None
    cell: Cell | None = None

    @property
    def row_start(self) -> Cell | None:
        """The first cell of the started row of a circular buffer."""
        if self.row is None:
            return None
        first, *rest = self.buffer.extents
        return Cell(self.buffer, ((self.row, first), *((ix.ZERO, extent) for extent in rest)))


@dataclass(frozen=True, slots=True)
class Free:
    """The end of an allocation."""

    buffer: Buffer


RowStorageKind: TypeAlias = Literal["appended", "union", "gathered", "counted"]
"""Ways to store the rows of an assembled output:

- appended: each cell is stored once, and the columns of a row increase, so the stores are the entries in order;
- union: two loops in a row, each with increasing columns, are merged;
- gathered: cells are accumulated in a workspace of one row;
- counted: rows are stored in any order, so the stores to each row are counted first.
"""


@dataclass(frozen=True, slots=True)
class Gather:
    """The end of a row of an assembled output: the cells stored since the row before become its entries.

    With a `row`, all of these cells are in it, and rows are stored one after another. Without a `row`, the cells are in
    any rows, and the nest has only this one `Gather`. `repeats` tells which cells of a counted output may be stored
    several times: none, only by stores that are adjacent in the order of their row, or any.
    """

    buffer: Buffer
    row: ix.Index | None
    kind: RowStorageKind
    repeats: Literal["none", "adjacent", "any"] = "any"


Statement: TypeAlias = For | If | Assign | Accumulate | Declare | Allocate | Clear | Free | Gather
Block: TypeAlias = tuple[Statement, ...]


# -- loops that store whole lines -------------------------------------------------------------------------------------

LINE_BYTES: Final = 64
"""Size of a cache line of x86 and of most other processors."""


@dataclass(frozen=True, slots=True)
class CacheLines:
    """The cache lines of a loop marked `stream`: each store fills a line in `width` iterations from `first` on.

    Each store has a buffer, in the order of the text. Its dimensions are the maximum trip counts of the loops around
    the store within the streamed loop, and the width.
    """

    first: ix.Var
    width: int
    buffers: tuple[Buffer, ...]


@dataclass(frozen=True, slots=True)
class NoLines:
    """The reason why a loop does not store whole cache lines, and the requirement that it violates."""

    summary: str
    required: str
    suggestions: tuple[str, ...] = ()


# -- calls of instructions ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CallOperand:
    """An operand of a call: the storage from this address on. For a buffer in registers, it is local to the thread.

    The function gets its `strides` too: the distances of its rows, or of its elements along each dimension. With
    `aligned`, the call is made only if the pointer is a multiple of this number of bytes.
    """

    buffer: Buffer
    address: ix.Index
    strides: tuple[ix.Index, ...] = ()
    aligned: int = 1


@dataclass(frozen=True, slots=True)
class InstructionCall:
    """The call by which a printer may replace a loop; its operands are the result, then the inputs.

    The loop computes the same, up to the order of additions, and remains in the nest. `definition` is the text of the
    called function. The call is possible where the compiler has all that it `requires` and the `libraries` are linked.
    It is made if the `condition` holds; elsewhere the loop runs. The function gets the `values` after the operands, and
    then whether it `adds` to the result, unless that is None.
    """

    function: str
    definition: str
    operands: tuple[CallOperand, ...]
    requires: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    condition: Predicate = TRUE
    values: tuple[ix.Index, ...] = ()
    adds: bool | None = None


# -- nests ------------------------------------------------------------------------------------------------------------

VECTOR_BYTES: Final = 64
"""Default size of a vector register: that of AVX-512."""

Conditions: TypeAlias = frozenset[Predicate]
"""The conditions that hold at a place of a nest: the ranges of the loops around it, and the predicates of the branches.

Branches are the body of an `If`, the two sides of a `Choose`, and each part of a predicate. A part of a conjunction is
evaluated only where the parts to its left hold, and a part of a disjunction only where they do not.
"""


def under(conditions: Conditions, predicate: Predicate) -> Conditions:
    """Return the conditions within one more loop or branch."""
    return conditions | {predicate}


@dataclass(frozen=True, slots=True)
class FailedMark:
    """A mark of the let at this path that a pass could not implement, with the reason."""

    name: str
    mark: LetMark
    let: Path | None
    summary: str
    required: str
    suggestions: tuple[str, ...] = ()
    numbers: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class RowStorage:
    """The storage of a recurrence in a local buffer, and the reason why it is not smaller.

    `rows` is the number of rows that are kept, 0 for all. One row is computed in place. With `in_result`, one of the
    rows is in the output. `first` is the input that is read as row 0, if any.
    """

    name: str
    rows: int
    reason: str
    in_result: bool = False
    first: str | None = None

    def __str__(self) -> str:
        kept = {0: "all rows are kept", 1: "one row is kept"}.get(self.rows, f"{self.rows} rows are kept")
        result = "" if not self.in_result else ", in the result" if self.rows == 1 else ", one of them in the result"
        first = "" if self.first is None else f", and row 0 is {self.first}"
        return f"{self.name}: {kept}{result}{first}; {self.reason}"


@dataclass(frozen=True, slots=True)
class StorageNote:
    """A further decision on the storage of a local buffer, with its reason: stores that are omitted, rows of a ring."""

    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


@dataclass(frozen=True, slots=True)
class ExternalRows:
    """Rows of a circular buffer that C stores in the arrays of a call, so that it need not copy them.

    Row `last`, and those at multiples of `buffer.rows` before it, are in the output. `copy_out` copies row `last`
    there. If row 0 is an input, `first` is that input, and `copy_in` copies it.
    """

    buffer: Buffer
    last: ix.Index
    output: Buffer
    copy_out: Statement
    first: Buffer | None = None
    copy_in: Statement | None = None


@dataclass(frozen=True, slots=True)
class LoopNest:
    """A lowered program. `sizes` are the parameters, in order. `assumptions` hold for the sizes of every call.

    - `complete`: every element of the output is proved to be stored, so the output need not be cleared first.
    - `nonnegative_numerators`: numerators of quotients with the conditions under which they are proved non-negative.
      There, rounding down and rounding towards zero agree. Loop variables are unique, so each entry remains true when
      statements are moved or dropped. The loop-nest interpreter traps an entry that a run contradicts.
    - `marks`: the marks of the program, including those of subterms that lowering has eliminated. A printer rejects
      marks that its target does not support.
    - `refused`: the marks that a pass could not implement. The nest is lowered as if they were absent.
    - `vector_bytes`: the size of a vector register of the target machine.
    - `in_place`: inputs, not in `inputs`, whose elements are in the output when the nest starts.
    - `strict_keys`: the positions of merges whose keys are proved to increase strictly. Keys of other positions never
      decrease, and each merge has at most one such position. The loop-nest interpreter traps violations.
    - `recurrences`: the loops that compute the rows of recurrences in order, until a pass has split them.
    - `row_storage`: the storage of recurrences in local buffers.
    - `storage_notes`: further decisions on the storage of local buffers.
    - `external_rows`: rows of a circular buffer that C stores in the arrays of a call.
    - `assembly`: the storage of an assembled output, of which only the entries are stored. The last pass on loops adds
      `Gather` statements, all of the same kind.
    - `in_order`: operations on floats are those of the program in its order, and are not reordered.
    - `strides`: the strides of the inputs and of the output that are parameters, after the sizes.
    - `results`: the buffers of results of different element types, in order. They replace the output, which would have
      the elements of the first result, then those of the next, and so on.
    - `origins`: the paths in the program of the binders that loops came from, by loop variable, if `lower` was called
      with `origins`. They are ignored by equality.
    """

    name: str
    sizes: tuple[str, ...]
    inputs: tuple[ix.Array, ...]
    output: Buffer
    body: Block
    assumptions: tuple[Predicate, ...] = field(default=())
    complete: bool = False
    nonnegative_numerators: frozenset[tuple[Conditions, ix.Index]] = frozenset()
    marks: tuple[MarkedBinder, ...] = ()
    refused: tuple[FailedMark, ...] = ()
    vector_bytes: int = VECTOR_BYTES
    in_place: tuple[Buffer, ...] = ()
    strict_keys: frozenset[ix.Var] = frozenset()
    recurrences: frozenset[ix.Var] = frozenset()
    row_storage: tuple[RowStorage, ...] = ()
    storage_notes: tuple[StorageNote, ...] = ()
    external_rows: ExternalRows | None = None
    assembly: Assembly | None = None
    in_order: bool = False
    strides: tuple[ix.Var, ...] = ()
    results: tuple[Buffer, ...] = ()
    origins: Mapping[ix.Var, Path] = field(default_factory=dict, compare=False, repr=False)

    @property
    def outputs(self) -> tuple[Buffer, ...]:
        """The buffers that are filled: those of results of different element types, or the output."""
        return self.results or (self.output,)

    @property
    def storage_reasons(self) -> tuple[RowStorage | StorageNote, ...]:
        """Each decision on the storage of a local buffer, with its reason, once."""
        every: list[RowStorage | StorageNote] = [*self.row_storage, *self.storage_notes]
        return tuple(dict.fromkeys(every))


def checked_nest(value: object) -> LoopNest:
    """Return the value if it is a loop nest. Raises `InvalidArgument`."""
    if isinstance(value, LoopNest):
        return value
    raise InvalidArgument(
        f"{brief(value)} is not a loop nest",
        required="a loop nest",
        suggestions=("lower(program) makes the loop nest of a program",),
    )


def statements(block: Block) -> Iterator[Statement]:
    """Yield every statement of a block, outer ones first."""
    for statement in block:
        yield statement
        if isinstance(statement, For | If):
            yield from statements(statement.body)


def parts_of(e: ScalarExpr) -> Iterator[ScalarExpr]:
    """Yield an expression and all its parts, outer ones first."""
    yield e
    match e:
        case Number() | Load() | FromIndex():
            pass
        case Apply(_, arguments):
            for argument in arguments:
                yield from parts_of(argument)
        case Choose(_, left, right):
            yield from parts_of(left)
            yield from parts_of(right)
        case Convert(argument):
            yield from parts_of(argument)
        case _:
            assert_never(e)


Around = TypeVar("Around", bound=For | If)


def with_body(statement: Around, body: Block) -> Around:
    """Return the loop or branch with another body, or the same object if the body consists of the same objects."""
    if len(body) == len(statement.body) and all(map(is_, body, statement.body)):
        return statement
    made = replace(statement, body=body)
    if isinstance(made, For) and isinstance(statement, For):
        statement.share_range(made)
    return made


def unused_ids(nest: LoopNest) -> Iterator[int]:
    """Return an iterator of ids that do not occur in the nest."""
    used = [nest.output.uid, *(buffer.uid for buffer in nest.results)]
    for statement in statements(nest.body):
        match statement:
            case For(variable=variable):
                used.append(variable.uid)
            case Allocate(buffer):
                used.append(buffer.uid)
            case Declare(scalar):
                used.append(scalar.uid)
            case If() | Assign() | Accumulate() | Clear() | Free() | Gather():
                pass
            case _:
                assert_never(statement)
    return count(max(used) + 1)


def bytes_of(statement: Allocate) -> int | None:
    """Return the number of allocated bytes if it is constant."""
    return dtypes.bytes_of(statement.capacity.constant, statement.buffer.dtype)


def stack_in_use(block: Block) -> int:
    """Return the peak number of bytes that the buffers on the stack of a block occupy.

    As in C, a buffer occupies the stack until the end of the block that allocates it, even if it is freed earlier.
    """
    current = most = 0
    for statement in block:
        match statement:
            case Allocate(storage="stack"):
                current += bytes_of(statement) or 0
                most = max(most, current)
            case For(body=body) | If(body=body):
                most = max(most, current + stack_in_use(body))
            case Allocate() | Assign() | Accumulate() | Declare() | Clear() | Free() | Gather():
                pass
            case _:
                assert_never(statement)
    return most


def opposite(statement: Statement, following: Statement) -> bool:
    """Return whether the two statements are branches with opposite conditions."""
    return (
        isinstance(statement, If) and isinstance(following, If) and following.predicate == negation(statement.predicate)
    )


def numerators(expression: ix.Index) -> Iterator[ix.Index]:
    """Yield the numerators of all quotients in the expression, inner ones first.

    A read of an index array computes a flat address, so the extents of the array are included.
    """
    for monomial, _ in expression.terms:
        for atom in monomial:
            yield from _numerators_in(atom)


def _numerators_in(atom: ix.AnyAtom) -> Iterator[ix.Index]:
    match atom:
        case ix.Size() | ix.Var() | ix.Bound():
            return
        case ix.Quotient(numerator, denominator):
            yield from numerators(numerator)
            yield from numerators(denominator)
            yield numerator
        case ix.Extremum(_, parts) | ix.Xor(parts):
            for part in parts:
                yield from numerators(part)
        case ix.Read(array, indices):
            for part in (*indices, *array.shape):
                yield from numerators(part)
        case _:
            assert_never(atom)


# -- substitution -----------------------------------------------------------------------------------------------------


def at_iteration(loop: For, value: ix.Index) -> Block:
    """Return the body of a loop with `value` substituted for the loop variable.

    A buffer that is allocated outside of the loop keeps its extents, even if they contain the variable.
    """
    made = frozenset(s.buffer.uid for s in statements(loop.body) if isinstance(s, Allocate))
    return _Replacement(loop.variable, value, made).block(loop.body)


def in_other_buffers(block: Block, others: Mapping[Buffer, Buffer]) -> Block:
    """Replace buffers in the statements."""
    return _Replacement(None, ix.ZERO, frozenset(), others).block(block)


def in_rows(block: Block, buffer: Buffer, other: Buffer, row: Pairs) -> Block:
    """Move the elements of a buffer to a row of another buffer, along its last dimensions.

    `row` are the first pairs of each cell of the row. Dimensions of extent 1 are dropped.
    """
    return _Replacement(None, ix.ZERO, frozenset(), {buffer: other}, row).block(block)


def in_one_row(block: Block, rows: Buffer, other: Buffer) -> Block:
    """Move the elements of all rows of a buffer to another buffer, which has the shape of one row."""
    return _Replacement(None, ix.ZERO, frozenset(), {rows: other}, in_one_row=True).block(block)


def index_at(expression: ix.Index, variable: ix.Var, value: ix.Index) -> ix.Index:
    """Substitute a value for a variable in an index expression."""
    if variable.uid not in expression.free:
        return expression
    return ix.map_leaves(expression, lambda leaf: value if leaf == variable else index(leaf))


def cell_at(cell: Cell, variable: ix.Var, value: ix.Index) -> Cell:
    """Substitute a value for a loop variable in a cell of a buffer allocated outside of the loop."""
    found = _Replacement(variable, value, frozenset())
    return Cell(cell.buffer, found.pairs(cell.pairs))


@dataclass(frozen=True, slots=True)
class _Replacement:
    """A substitution of an index for a variable, if any, and of buffers.

    `made` are the ids of the buffers in whose extents the variable is replaced. `row` are the first pairs of the cells
    of other buffers. If these buffers are `in_one_row`, the first pair of each cell is dropped instead.
    """

    variable: ix.Var | None
    value: ix.Index
    made: frozenset[int]
    others: Mapping[Buffer, Buffer] = field(default_factory=dict)
    row: Pairs = ()
    in_one_row: bool = False

    def block(self, block: Block) -> Block:
        return tuple(map(self._statement, block))

    def _leaf(self, leaf: ix.Leaf) -> ix.Index:
        return self.value if leaf == self.variable else index(leaf)

    def _index(self, e: ix.Index) -> ix.Index:
        return e if self.variable is None else index_at(e, self.variable, self.value)

    def _predicate(self, predicate: Predicate) -> Predicate:
        return predicate if self.variable is None else substitute(predicate, self._leaf)

    def _buffer(self, buffer: Buffer) -> Buffer:
        buffer = self.others.get(buffer, buffer)
        return replace(buffer, extents=tuple(map(self._index, buffer.extents))) if buffer.uid in self.made else buffer

    def _storage(self, at: Cell | Scalar) -> Cell | Scalar:
        return at if isinstance(at, Scalar) else self._cell(at)

    def _cell(self, at: Cell) -> Cell:
        pairs = self.pairs(at.pairs)
        if self.row and at.buffer in self.others:
            pairs = (*self.row, *(pair for pair in pairs if pair[1] != ix.ONE))
        if self.in_one_row and at.buffer in self.others:
            pairs = pairs[1:]
        return Cell(self._buffer(at.buffer), pairs)

    def pairs(self, pairs: Pairs) -> Pairs:
        return tuple((self._index(position), self._index(extent)) for position, extent in pairs)

    def _statement(self, statement: Statement) -> Statement:
        match statement:
            case For(_, low, high, body):
                return replace(statement, low=self._index(low), high=self._index(high), body=self.block(body))
            case If(predicate, body):
                return If(self._predicate(predicate), self.block(body))
            case Assign(target, value):
                return Assign(self._storage(target), self._scalar(value))
            case Accumulate(target, op, value):
                return Accumulate(self._storage(target), op, self._scalar(value))
            case Declare(_, initial):
                return replace(statement, initial=self._scalar(initial))
            case Allocate(buffer, capacity):
                return replace(statement, buffer=self._buffer(buffer), capacity=self._index(capacity))
            case Clear(buffer, count, _, row, cell):
                row = None if row is None else self._index(row)
                cell = None if cell is None else self._cell(cell)
                return replace(statement, buffer=self._buffer(buffer), count=self._index(count), row=row, cell=cell)
            case Free(buffer):
                return Free(self._buffer(buffer))
            case Gather(buffer, row):
                row = None if row is None else self._index(row)
                return replace(statement, buffer=self._buffer(buffer), row=row)
        assert_never(statement)

    def _scalar(self, e: ScalarExpr) -> ScalarExpr:
        match e:
            case Number():
                return e
            case Load(source):
                return Load(self._storage(source))
            case FromIndex(of, dtype):
                return FromIndex(self._index(of), dtype)
            case Apply(op, arguments, dtype):
                return Apply(op, tuple(map(self._scalar, arguments)), dtype)
            case Choose(predicate, left, right):
                return Choose(self._predicate(predicate), self._scalar(left), self._scalar(right))
            case Convert(argument, dtype):
                return Convert(self._scalar(argument), dtype)
        assert_never(e)


# -- reductions -------------------------------------------------------------------------------------------------------


RESULT_NAMES: Final[dict[Monoid, str]] = {"sum": "total", "product": "product", "max": "greatest", "min": "least"}


def neutral(monoid: Monoid, dtype: str) -> Number:
    """Return the initial value of a reduction."""
    match monoid:
        case "sum":
            return Number(0, dtype)
        case "product":
            return Number(1, dtype)
        case "max":
            return Number(-inf if dtype in dtypes.FLOATS else range_of(dtype)[0], dtype)
        case "min":
            return Number(inf if dtype in dtypes.FLOATS else range_of(dtype)[1], dtype)
