"""Tensor expressions: the closed union `Expr`, and the type (element type and shape) of each.

Binders are nameless inside: an index bound by a generation or a reduction is `Bound(k)`, a let-bound tensor `Local(k)`,
each counted from the innermost binder of its own kind. A name given by the user is a hint, kept for printing and left
out of equality; so are marks and source lines.

Types are computed when a node is made. Ranks and element types are checked here; that two shapes are equal can need
facts, and is checked for a whole program (`atl.checks.wellformed`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

from atl.core import dtypes
from atl.core.index import Array, Bound, Index, atoms, ceildiv, shift
from atl.core.node import Node
from atl.core.predicate import Predicate
from atl.errors import DtypeError, RaggedShape, RankError, Source

Monoid: TypeAlias = Literal["sum", "product", "max", "min"]
UnaryOp: TypeAlias = Literal["neg", "abs", "sqrt", "exp", "log", "tanh"]
BinaryOp: TypeAlias = Literal["add", "sub", "mul", "div", "min", "max"]

MONOIDS: Final[tuple[Monoid, ...]] = get_args(Monoid)
UNARY: Final[tuple[UnaryOp, ...]] = get_args(UnaryOp)
BINARY: Final[tuple[BinaryOp, ...]] = get_args(BinaryOp)
FLOAT_ONLY: Final[frozenset[str]] = frozenset({"div", "sqrt", "exp", "log", "tanh"})
"""Operations that leave the integers."""
OF_MONOID: Final[dict[Monoid, BinaryOp]] = {"sum": "add", "product": "mul", "max": "max", "min": "min"}
"""The operation that a monoid folds."""


@dataclass(frozen=True, slots=True)
class Type:
    """What is known of a tensor before it is computed. A `dtype` of None belongs to literals that met no tensor yet."""

    dtype: str | None
    shape: tuple[Index, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype or 'a literal'} ({', '.join(map(str, self.shape))})"


class Term(Node):
    """The base of tensor expressions."""

    __slots__ = ("below", "source", "type")  # `below` is kept by `atl.core.substitution.children`

    type: Type
    source: Source | None

    def _seal_term(
        self,
        key: tuple[object, ...],
        parts: tuple[Node, ...],
        type_: Type,
        *,
        binds: int = 0,
        binds_tensor: int = 0,
        loose_tensors: int = 0,
        free: frozenset[int] = frozenset(),
    ) -> None:
        """Seals a node whose last part stands under `binds` index binders and `binds_tensor` tensor binders."""
        loose = 0
        for place, part in enumerate(parts):
            under, under_tensor = (binds, binds_tensor) if place == len(parts) - 1 else (0, 0)
            loose = max(loose, part.loose - under)
            loose_tensors = max(loose_tensors, part.loose_tensors - under_tensor)
        object.__setattr__(self, "type", type_)
        object.__setattr__(self, "source", None)
        self._seal(key, parts, loose=loose, loose_tensors=loose_tensors, free=free)


@dataclass(frozen=True, slots=True, eq=False)
class Input(Term):
    """An input tensor."""

    array: Array

    def __post_init__(self) -> None:
        self._seal_term((self.array,), (self.array,), Type(self.array.dtype, self.array.shape))


@dataclass(frozen=True, slots=True, eq=False)
class Local(Term):
    """The tensor bound by the `position`-th let around; `of` is its type, seen from here."""

    position: int
    of: Type

    def __post_init__(self) -> None:
        # The type is part of what the term is: whoever keeps something by term may rely on its shape.
        key = (self.position, self.of.dtype, *self.of.shape)
        self._seal_term(key, self.of.shape, self.of, loose_tensors=self.position + 1)


@dataclass(frozen=True, slots=True, eq=False)
class TensorVar(Term):
    """A let-bound tensor while the body of its let is being written or looked at."""

    uid: int
    name: str
    of: Type

    def __post_init__(self) -> None:
        self._seal_term((self.uid,), self.of.shape, self.of, free=frozenset((self.uid,)))


@dataclass(frozen=True, slots=True, eq=False)
class Constant(Term):
    """A literal scalar. It is stored, zero too: never padding."""

    value: int | float
    dtype: str | None

    def __post_init__(self) -> None:
        if self.dtype is not None and not dtypes.holds_literal(self.dtype, self.value):
            raise DtypeError(
                f"the literal {self.value} is no {self.dtype}",
                required=f"a whole number in the range of {self.dtype}",
                suggestions=(f'cast the other operand: atl.cast("{dtypes.FLOATS[0]}", …)',),
            )
        self._seal_term((self.value, self.dtype), (), Type(self.dtype, ()))


@dataclass(frozen=True, slots=True, eq=False)
class Value(Term):
    """An index expression as a scalar."""

    index: Index
    dtype: str | None

    def __post_init__(self) -> None:
        self._seal_term((self.index, self.dtype), (self.index,), Type(self.dtype, ()))


@dataclass(frozen=True, slots=True, eq=False)
class Gen(Term):
    """The tensor whose element at position p is the body at index low + p (Fig. 3.2); its extent is high - low."""

    low: Index
    high: Index
    body: Expr
    name: str = field(default="i")
    mark: str = field(default="")

    def __post_init__(self) -> None:
        inner = _outside(self.body.type, self.name)
        self._seal_term(
            (self.low, self.high, self.body),
            (self.low, self.high, self.body),
            Type(inner.dtype, (self.high - self.low, *inner.shape)),
            binds=1,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Reduce(Term):
    """The body at every index from low to high, folded by a commutative monoid; over an empty range, padding."""

    monoid: Monoid
    low: Index
    high: Index
    body: Expr
    name: str = field(default="k")
    mark: str = field(default="")

    def __post_init__(self) -> None:
        self._seal_term(
            (self.monoid, self.low, self.high, self.body),
            (self.low, self.high, self.body),
            _outside(self.body.type, self.name),
            binds=1,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Guard(Term):
    """[p] . e: the body where the predicate holds, else padding of its shape; the body is looked at only there."""

    predicate: Predicate
    body: Expr

    def __post_init__(self) -> None:
        self._seal_term((self.predicate, self.body), (self.predicate, self.body), self.body.type)


@dataclass(frozen=True, slots=True, eq=False)
class Let(Term):
    """let x := value in body. As an equation it is substitution; lowering gives the value a buffer of its own."""

    value: Expr
    body: Expr
    name: str = field(default="x")
    mark: str = field(default="")

    def __post_init__(self) -> None:
        self._seal_term((self.value, self.body), (self.value, self.body), self.body.type, binds_tensor=1)


@dataclass(frozen=True, slots=True, eq=False)
class Access(Term):
    """e[i]: the i-th element along the first dimension; zero where there is none."""

    tensor: Expr
    index: Index

    def __post_init__(self) -> None:
        of = self.tensor.type
        if not of.shape:
            raise RankError(
                "a scalar has no elements to access",
                required="a tensor of rank 1 or more",
                suggestions=("drop the last index",),
            )
        self._seal_term((self.tensor, self.index), (self.tensor, self.index), Type(of.dtype, of.shape[1:]))


@dataclass(frozen=True, slots=True, eq=False)
class Unary(Term):
    """A scalar function, element by element."""

    op: UnaryOp
    operand: Expr

    def __post_init__(self) -> None:
        _check_arithmetic(self.op, self.operand.type.dtype)
        self._seal_term((self.op, self.operand), (self.operand,), self.operand.type)


@dataclass(frozen=True, slots=True, eq=False)
class Binary(Term):
    """A scalar operation, element by element over two tensors of one shape; "add" is the ⊕ of Fig. 3.1."""

    op: BinaryOp
    left: Expr
    right: Expr

    def __post_init__(self) -> None:
        _check_arithmetic(self.op, _alike(f"'{self.op}'", self.left, self.right))
        self._seal_term((self.op, self.left, self.right), (self.left, self.right), self.left.type)


@dataclass(frozen=True, slots=True, eq=False)
class Select(Term):
    """The left operand where the predicate holds, the right one elsewhere; only the chosen one is looked at."""

    predicate: Predicate
    left: Expr
    right: Expr

    def __post_init__(self) -> None:
        _alike("select", self.left, self.right)
        parts = (self.predicate, self.left, self.right)
        self._seal_term(parts, parts, self.left.type)


@dataclass(frozen=True, slots=True, eq=False)
class Cast(Term):
    """The operand with its elements converted, as C converts them."""

    dtype: str
    operand: Expr

    def __post_init__(self) -> None:
        self._seal_term((self.dtype, self.operand), (self.operand,), Type(self.dtype, self.operand.type.shape))


@dataclass(frozen=True, slots=True, eq=False)
class Concat(Term):
    """The elements of the left operand, then those of the right one, along the first dimension."""

    left: Expr
    right: Expr

    def __post_init__(self) -> None:
        dtype = _alike("concat", self.left, self.right)
        _need_rank("concat", self.left.type, 1)
        extent = self.left.type.shape[0] + self.right.type.shape[0]
        type_ = Type(dtype, (extent, *self.left.type.shape[1:]))
        self._seal_term((self.left, self.right), (self.left, self.right), type_)


@dataclass(frozen=True, slots=True, eq=False)
class Padding(Term):
    """A tensor of this type that is nothing but padding: the node that stores nothing."""

    of: Type

    def __post_init__(self) -> None:
        self._seal_term((self.of.dtype, *self.of.shape), self.of.shape, self.of)


# -- reshape operators ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Transpose(Node):
    """The first two dimensions exchanged."""

    def __post_init__(self) -> None:
        self._seal((), ())


@dataclass(frozen=True, slots=True, eq=False)
class Flatten(Node):
    """The first two dimensions made one, row-major."""

    def __post_init__(self) -> None:
        self._seal((), ())


class _By(Node):
    """The reshape operators with an amount."""

    __slots__ = ()

    def _seal_amount(self, by: Index) -> None:
        self._seal(by, (by,), loose=by.loose)


@dataclass(frozen=True, slots=True, eq=False)
class Split(_By):
    """Rows of `by` elements, as many as are needed; the tail of the last one is padding. `by` > 0."""

    by: Index

    def __post_init__(self) -> None:
        self._seal_amount(self.by)


@dataclass(frozen=True, slots=True, eq=False)
class PadLeft(_By):
    """`by` >= 0 elements of padding before the first."""

    by: Index

    def __post_init__(self) -> None:
        self._seal_amount(self.by)


@dataclass(frozen=True, slots=True, eq=False)
class PadRight(_By):
    """`by` >= 0 elements of padding after the last."""

    by: Index

    def __post_init__(self) -> None:
        self._seal_amount(self.by)


@dataclass(frozen=True, slots=True, eq=False)
class TruncateLeft(_By):
    """The first `by` elements dropped, 0 <= `by` <= extent (drop, not keep: erratum E3)."""

    by: Index

    def __post_init__(self) -> None:
        self._seal_amount(self.by)


@dataclass(frozen=True, slots=True, eq=False)
class TruncateRight(_By):
    """The last `by` elements dropped, 0 <= `by` <= extent."""

    by: Index

    def __post_init__(self) -> None:
        self._seal_amount(self.by)


ReshapeOp: TypeAlias = Transpose | Flatten | Split | PadLeft | PadRight | TruncateLeft | TruncateRight


@dataclass(frozen=True, slots=True, eq=False)
class Reshape(Term):
    """A reshape operator (Figs. 4.2 and 4.3) applied to a tensor."""

    op: ReshapeOp
    operand: Expr

    def __post_init__(self) -> None:
        type_ = reshaped(self.op, self.operand.type)
        self._seal_term((self.op, self.operand), (self.op, self.operand), type_)


def reshaped(op: ReshapeOp, of: Type) -> Type:
    """The type of a reshape operator's result."""
    match op:
        case Transpose():
            _need_rank("transpose", of, 2)
            return Type(of.dtype, (of.shape[1], of.shape[0], *of.shape[2:]))
        case Flatten():
            _need_rank("flatten", of, 2)
            return Type(of.dtype, (of.shape[0] * of.shape[1], *of.shape[2:]))
        case Split(by):
            _need_rank("split", of, 1)
            return Type(of.dtype, (ceildiv(of.shape[0], by, positive=True), by, *of.shape[1:]))
        case PadLeft(by) | PadRight(by):
            _need_rank("a pad", of, 1)
            return Type(of.dtype, (of.shape[0] + by, *of.shape[1:]))
        case TruncateLeft(by) | TruncateRight(by):
            _need_rank("a truncation", of, 1)
            return Type(of.dtype, (of.shape[0] - by, *of.shape[1:]))


Expr: TypeAlias = (
    Input
    | Local
    | TensorVar
    | Constant
    | Value
    | Gen
    | Reduce
    | Guard
    | Let
    | Access
    | Unary
    | Binary
    | Select
    | Cast
    | Concat
    | Padding
    | Reshape
)


# -- checks that need no facts ----------------------------------------------------------------------------------------


def _outside(of: Type, name: str) -> Type:
    """The type of a binder's body, seen from outside of the binder; ragged shapes are refused (erratum E5)."""
    for dimension, extent in enumerate(of.shape):
        if any(isinstance(atom, Bound) and atom.position == 0 for atom in atoms(extent)):
            raise RaggedShape(
                f"the elements have different shapes: dimension {dimension} of the body of '{name}' has an extent "
                f"that depends on {name}",
                required=f"an extent without {name}",
                suggestions=("generate the largest extent and guard the elements beyond the shorter ones",),
            )
    return Type(of.dtype, tuple(shift(extent, -1, 1) for extent in of.shape))


def _need_rank(what: str, of: Type, rank: int) -> None:
    if of.rank < rank:
        raise RankError(
            f"{what} needs {rank} dimension{'s' if rank > 1 else ''}, this tensor has {of.rank}",
            required=f"a tensor of rank {rank} or more",
        )


def _alike(what: str, left: Expr, right: Expr) -> str | None:
    if left.type.rank != right.type.rank:
        raise RankError(
            f"{what} meets tensors of rank {left.type.rank} and {right.type.rank}",
            required="operands of one rank",
            suggestions=("access the larger one, or generate the missing dimension",),
        )
    if left.type.dtype != right.type.dtype:
        raise DtypeError(
            f"{what} meets {left.type.dtype} and {right.type.dtype}",
            required="operands of one element type",
            suggestions=(f'cast one of them: atl.cast("{left.type.dtype}", …)',),
        )
    return left.type.dtype


def _check_arithmetic(op: str, dtype: str | None) -> None:
    if op in FLOAT_ONLY and dtypes.is_integer(dtype):
        raise DtypeError(
            f"'{op}' of {dtype} elements has no meaning",
            required="floating-point operands",
            suggestions=('cast first: atl.cast("float64", …)',),
        )
