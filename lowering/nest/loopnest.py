"""Loop nests: what programs are lowered to (Fig. 5.4), between tensor expressions and C.

A statement stores scalars into cells of buffers or into scalar variables. A cell keeps its index as the list of
(index, extent) pairs that the reindexers produced; its flat address is theirs by Horner's rule. All index expressions
and predicates are over sizes and opened loop variables (`Var`), each variable with an id of its own in the nest.

Quotients round down, as Python's do. C's rounds towards zero, and so do other targets'; which of them may be printed as
the target's own is proved once and written into the nest (`LoopNest.natural`), so that printers ask no prover.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from operator import is_
from typing import Final, Literal, TypeAlias, TypeVar, assert_never

from atl.core import dtypes
from atl.core.index import (
    ONE,
    ZERO,
    AnyAtom,
    Array,
    Bound,
    Extremum,
    Index,
    Quotient,
    Read,
    Size,
    Var,
    Xor,
    constant,
    floordiv,
    index,
)
from atl.core.marks import LetMark, LoopMark
from atl.core.predicate import Predicate, negation, within
from atl.core.reshape_definitions import Pairs
from atl.core.terms import BinaryOp, UnaryOp
from atl.core.traversal import Path
from atl.errors import InvalidArgument, brief
from lowering.targets.capabilities import MarkedBinder
from lowering.targets.stack import Storage


@dataclass(frozen=True, slots=True)
class Buffer:
    """Storage for a tensor. `uid` tells buffers apart; the name is a hint for all but inputs and the output.

    With `rows` it is a ring: of the elements along its first dimension, its rows, it holds so many, and row r stands in
    the place r mod `rows`, where the row before it in that place was. A row is there from the `Clear` of it on.

    With a `home` it stands in the storage of that other buffer, of the same shape: an element is there until one of the
    other tensors in that storage is stored in its place.
    """

    uid: int
    name: str = field(hash=False)
    dtype: str = field(hash=False)
    extents: tuple[Index, ...] = field(hash=False)
    role: Literal["input", "output", "local"] = field(default="local", hash=False)
    rows: int = field(default=0, hash=False)
    home: Buffer | None = field(default=None, hash=False)

    @property
    def room(self) -> tuple[Index, ...]:
        """The extents of what it holds: those of the tensor, or of a ring those of its rows."""
        return (constant(self.rows), *self.extents[1:]) if self.rows else self.extents

    @property
    def storage(self) -> Buffer:
        """The buffer in whose storage it stands: itself, if it has no other home."""
        return self if self.home is None else self.home


@dataclass(frozen=True, slots=True)
class Cell:
    """An element of a buffer."""

    buffer: Buffer
    pairs: Pairs
    _address: Index | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def placed(self) -> Pairs:
        """The pairs of its place in memory: in a ring, those of the place that its row takes its turn in."""
        rows = self.buffer.rows
        if not rows:
            return self.pairs
        (row, _), *rest = self.pairs
        return ((row - floordiv(row, constant(rows)) * rows, constant(rows)), *rest)

    @property
    def address(self) -> Index:
        """The flat, row-major address (`flatten_index` of §4.4.2). Each cell remembers its own."""
        known = self._address
        if known is None:
            known = flat(self.placed)
            object.__setattr__(self, "_address", known)
        return known


def flat(pairs: Pairs) -> Index:
    if not pairs:
        return ZERO
    address, _ = pairs[0]
    for position, extent in pairs[1:]:
        address = address * extent + position
    return address


def elements(extents: tuple[Index, ...]) -> Index:
    """How many elements a tensor of this shape has."""
    product = ONE
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
    """What a buffer or scalar variable is known by in a nest, by its home if it has one; an input, by its own name."""
    if isinstance(storage, Scalar):
        return ("scalar", storage.uid)
    storage = storage.storage
    return storage.name if storage.role == "input" else ("buffer", storage.uid)


def accessed(at: Cell | Scalar) -> Hashable:
    """What a statement stores to, or a load reads: the buffer of a cell, or a scalar variable, by its key."""
    return key(at.buffer if isinstance(at, Cell) else at)


# -- scalar expressions -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Number:
    value: int | float
    dtype: str


@dataclass(frozen=True, slots=True)
class Load:
    source: Cell | Scalar

    @property
    def dtype(self) -> str:
        return self.source.buffer.dtype if isinstance(self.source, Cell) else self.source.dtype


@dataclass(frozen=True, slots=True)
class FromIndex:
    """An index expression as a scalar."""

    index: Index
    dtype: str


@dataclass(frozen=True, slots=True)
class Apply:
    """An operation on scalars of one element type, the result's too."""

    op: UnaryOp | BinaryOp
    arguments: tuple[ScalarExpr, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Choose:
    """The left expression where the predicate holds, else the right one; the other is not evaluated."""

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

    `binder` is the path of the marked binder in the program; a loop without a mark has none. `lines` is how a loop that
    is marked `stream` stores whole lines, or why it does not; nothing, before the pass that looks at that.
    """

    variable: Var
    low: Index
    high: Index
    body: Block
    mark: LoopMark = LoopMark.NONE
    binder: Path | None = None
    lines: CacheLines | NoLines | None = None
    _range: Predicate | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def range(self) -> Predicate:
        """What the loop says of its variable. Each loop remembers its own."""
        known = self._range
        if known is None:
            known = within(self.low, index(self.variable), self.high)
            object.__setattr__(self, "_range", known)
        return known

    def tell_range(self, other: For) -> None:
        """Tells a loop with the same ends what this one remembers."""
        object.__setattr__(other, "_range", self._range)


@dataclass(frozen=True, slots=True)
class If:
    """The body, where the predicate holds; its parts are tested from left to right.

    With a predicate that is true it is a block: what is declared in it ends with it.
    """

    predicate: Predicate
    body: Block


@dataclass(frozen=True, slots=True)
class Assign:
    """target = value. A cell that is assigned must hold no value yet (non-destructivity, §5.3.3)."""

    target: Cell | Scalar
    value: ScalarExpr


@dataclass(frozen=True, slots=True)
class Accumulate:
    """target = target op value; a cell that holds no value counts as zero (`op` is then "add" or "sub")."""

    target: Cell | Scalar
    op: BinaryOp
    value: ScalarExpr


@dataclass(frozen=True, slots=True)
class Declare:
    """A scalar variable, visible to the end of the block, with its first value."""

    variable: Scalar
    initial: ScalarExpr
    mark: LetMark = LetMark.NONE


@dataclass(frozen=True, slots=True)
class Allocate:
    """Storage for `capacity` elements (a product of extents), all zero and holding no value.

    On the stack where `storage` says so (the capacity is then a constant); each is freed by a `Free` in the same block.
    `storage` follows from the mark and the size by `storage_of`, until a pass makes room on the stack for others, or
    puts the buffer in registers: `vectors` are then the lengths of the vectors of each of its rows. `let` is the path
    of the marked let in the program.
    """

    buffer: Buffer
    capacity: Index
    storage: Storage = "heap"
    zeroed: bool = True
    mark: LetMark = LetMark.NONE
    let: Path | None = None
    vectors: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Clear:
    """The first `count` cells of a buffer emptied: they hold no value again, and are zero if `zeroed`.

    A hoisted buffer is emptied where its let stands. Without `zeroed` every cell is stored before it is read, and C has
    nothing to do. With a `row`, of a ring, the cells are those of the place of that row, which is the row there now.
    """

    buffer: Buffer
    count: Index
    zeroed: bool = True
    row: Index | None = None

    @property
    def begun(self) -> Cell | None:
        """The first cell of the row of a ring that is emptied."""
        if self.row is None:
            return None
        first, *rest = self.buffer.extents
        return Cell(self.buffer, ((self.row, first), *((ZERO, extent) for extent in rest)))


@dataclass(frozen=True, slots=True)
class Free:
    buffer: Buffer


Statement: TypeAlias = For | If | Assign | Accumulate | Declare | Allocate | Clear | Free
Block: TypeAlias = tuple[Statement, ...]


# -- loops that store whole lines -------------------------------------------------------------------------------------

LINE_BYTES: Final = 64
"""The size of a line of the cache: of x86 processors, and of most others."""


@dataclass(frozen=True, slots=True)
class CacheLines:
    """That a streamed loop stores a line of the cache for each of its stores: `width` iterations from `first` on.

    There is a buffer for each store in the order of the text. Its dimensions are how often that runs in an iteration of
    each loop around it, at most, and the width.
    """

    first: Var
    width: int
    buffers: tuple[Buffer, ...]


@dataclass(frozen=True, slots=True)
class NoLines:
    """Why a loop stores no whole lines, and what would have to be so."""

    summary: str
    required: str
    suggestions: tuple[str, ...] = ()


# -- nests ------------------------------------------------------------------------------------------------------------

VECTOR_BYTES: Final = 64
"""The size of a vector register, where nobody has said which machine a nest is for: that of AVX-512."""

Conditions: TypeAlias = frozenset[Predicate]
"""What a place of a nest stands under: the range of each loop around it, and the predicate of each branch.

The branches are the body of an `If`, the two sides of a `Choose`, and within a predicate each part: it is tested only
where those to the left of it hold, or in a disjunction where they do not. The outermost place stands under nothing.
"""


def under(conditions: Conditions, predicate: Predicate) -> Conditions:
    """The conditions of a place one loop or branch further in."""
    return conditions | {predicate}


@dataclass(frozen=True, slots=True)
class Refused:
    """A mark that a pass could not carry out: of the let at this path, and why not."""

    name: str
    mark: LetMark
    let: Path | None
    summary: str
    required: str
    suggestions: tuple[str, ...] = ()
    numbers: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True)
class LoopNest:
    """A lowered program. `assumptions` hold of the sizes of every call; `sizes` are the parameters, in order.

    `complete` says that every element of the output is proved to be stored, so that it need not be cleared first.

    `natural` says of numerators of quotients under which conditions they are proved not to be negative: there, rounding
    down and rounding towards zero are the same. An entry is a statement by itself, which holds wherever the conditions
    do, for the variables of loops are told apart in the whole nest; so to move or to drop a statement makes none of
    them false. What is not in there is not known. The loop-nest interpreter traps an entry that a run contradicts.

    `marks` are those of the program that the nest was lowered from, also of what lowering has read away: whoever prints
    the nest refuses what its target does not carry out. `refused` are the marks of which a pass has found that nothing
    can carry them out; what they mark is lowered as if it had none.

    `vector_bytes` is the size of a vector register of the machine that the nest is made for.

    `in_place` are the inputs, none of `inputs`, whose elements stand in the output when the nest begins to run.

    `strict` are the positions of merges (`lowering.nest.walks`) whose keys are proved to rise strictly: of the other
    ones no two are in one merge, and their keys never fall. The loop-nest interpreter traps what a run contradicts.

    `origins` are the paths in the program of the binders that loops came from, by the variables of the loops, where
    `lower` was asked for them. They say nothing of what the nest does, and no two nests differ by them.
    """

    name: str
    sizes: tuple[str, ...]
    inputs: tuple[Array, ...]
    output: Buffer
    body: Block
    assumptions: tuple[Predicate, ...] = field(default=())
    complete: bool = False
    natural: frozenset[tuple[Conditions, Index]] = frozenset()
    marks: tuple[MarkedBinder, ...] = ()
    refused: tuple[Refused, ...] = ()
    vector_bytes: int = VECTOR_BYTES
    in_place: tuple[Buffer, ...] = ()
    strict: frozenset[Var] = frozenset()
    origins: Mapping[Var, Path] = field(default_factory=dict, compare=False, repr=False)


def checked_nest(value: object) -> LoopNest:
    """The value, if it is a loop nest; else `InvalidArgument` with how to come to one."""
    if isinstance(value, LoopNest):
        return value
    raise InvalidArgument(
        f"{brief(value)} is no loop nest",
        required="a loop nest",
        suggestions=("make one of a program: lower(program)",),
    )


def statements(block: Block) -> Iterator[Statement]:
    """Every statement of a block, outer ones first."""
    for statement in block:
        yield statement
        if isinstance(statement, For | If):
            yield from statements(statement.body)


Around = TypeVar("Around", bound=For | If)


def with_body(statement: Around, body: Block) -> Around:
    """The loop or the branch with another body; itself, where that is of the very same statements."""
    if len(body) == len(statement.body) and all(map(is_, body, statement.body)):
        return statement
    made = replace(statement, body=body)
    if isinstance(made, For) and isinstance(statement, For):
        statement.tell_range(made)
    return made


def unused_ids(nest: LoopNest) -> Iterator[int]:
    """Ids that nothing in the nest has."""
    used = [nest.output.uid]
    for statement in statements(nest.body):
        match statement:
            case For(variable=variable):
                used.append(variable.uid)
            case Allocate(buffer):
                used.append(buffer.uid)
            case Declare(scalar):
                used.append(scalar.uid)
            case If() | Assign() | Accumulate() | Clear() | Free():
                pass
            case _:
                assert_never(statement)
    return count(max(used) + 1)


def bytes_of(statement: Allocate) -> int | None:
    """How many bytes are allocated, where that is a constant."""
    return dtypes.bytes_of(statement.capacity.constant, statement.buffer.dtype)


def stack_in_use(block: Block) -> int:
    """The most bytes that buffers on the stack take at one time in a block.

    They are there to the end of the block that allocates them, as in C, also where they are freed before.
    """
    held = most = 0
    for statement in block:
        match statement:
            case Allocate(storage="stack"):
                held += bytes_of(statement) or 0
                most = max(most, held)
            case For(body=body) | If(body=body):
                most = max(most, held + stack_in_use(body))
            case Allocate() | Assign() | Accumulate() | Declare() | Clear() | Free():
                pass
            case _:
                assert_never(statement)
    return most


def opposite(statement: Statement, following: Statement) -> bool:
    """Whether the two are the branches of one test: each stands under the negation of the other's condition."""
    return (
        isinstance(statement, If) and isinstance(following, If) and following.predicate == negation(statement.predicate)
    )


def numerators(expression: Index) -> Iterator[Index]:
    """The numerators of all quotients that are computed with the expression, inner ones first.

    An element of an array of indices is read at a flat address, so that its array's extents are computed too.
    """
    for monomial, _ in expression.terms:
        for atom in monomial:
            yield from _numerators_in(atom)


def _numerators_in(atom: AnyAtom) -> Iterator[Index]:
    match atom:
        case Size() | Var() | Bound():
            return
        case Quotient(numerator, denominator):
            yield from numerators(numerator)
            yield from numerators(denominator)
            yield numerator
        case Extremum(_, parts) | Xor(parts):
            for part in parts:
                yield from numerators(part)
        case Read(array, indices):
            for part in (*indices, *array.shape):
                yield from numerators(part)
        case _:
            assert_never(atom)
