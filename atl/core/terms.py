"""Tensor expressions: the closed union `Expr` and its types (element type and shape).

Binders are nameless (de Bruijn). An index bound by a generation or a reduction is `Bound(k)`, a let-bound tensor is
`Local(k)`; k counts from the innermost binder of the same kind. Names of binders are hints for printing. Equality
ignores hints, marks and source lines.

The type of a node is computed when the node is created. Ranks and element types are checked here. Equality of shapes
may depend on facts and is checked for whole programs (`atl.checks.wellformed`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from sys import float_info
from typing import ClassVar, Final, Literal, TypeAlias, get_args

from atl.core import dtypes
from atl.core.forms import Form, Formed, IndexBinder, Marked, Part, TensorBinder
from atl.core.index import Array, Bound, Index, atoms, ceildiv, shift
from atl.core.marks import AnyLoopMark, LetMark, LoopMark
from atl.core.operations import BINARY, OPERATIONS, UNARY, Arithmetic, BinaryOp, UnaryOp, accepts, result_type
from atl.core.predicate import Predicate
from atl.errors import DtypeError, InvalidArgument, RaggedShape, RankError, Source, brief

Monoid: TypeAlias = Literal["sum", "product", "max", "min"]
MONOIDS: Final[tuple[Monoid, ...]] = get_args(Monoid)
OF_MONOID: Final[dict[Monoid, Arithmetic]] = {"sum": "add", "product": "mul", "max": "max", "min": "min"}
"""Binary operation of each monoid."""


@dataclass(frozen=True, slots=True)
class Type:
    """Element type and shape of a tensor. The `dtype` is None for literals whose type is not determined yet."""

    dtype: str | None
    shape: tuple[Index, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype or 'a literal'} ({', '.join(map(str, self.shape))})"


class Term(Formed):
    """Base class of tensor expressions."""

    __slots__ = ("below", "source", "type")  # `below` caches `atl.core.traversal.children`

    type: Type
    source: Source | None

    def __post_init__(self) -> None:
        Formed.__post_init__(self)
        object.__setattr__(self, "type", self._typed())
        object.__setattr__(self, "source", None)

    def _typed(self) -> Type:
        """Compute the type of the term. Raises the errors that can be found without facts."""
        raise NotImplementedError


class Named(Term):
    """Base class of tensors that are given by a name: inputs, let-bound tensors and metavariables."""

    __slots__ = ()


class Number(Term):
    """Base class of scalars that are known without reading a tensor."""

    __slots__ = ()


class Elementwise(Term):
    """Base class of terms that compute each element from the same elements of their operands."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False)
class Input(Named):
    """An input tensor."""

    form: ClassVar = Form("input", "the input", arrays=("array",))
    array: Array

    def _typed(self) -> Type:
        return Type(self.array.dtype, self.array.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Local(Named):
    """The tensor bound by the `position`-th enclosing let; `of` is its type, relative to this node.

    The type is significant in equality, so that equal terms have the same shape.
    """

    form: ClassVar = Form("local", "the let-bound", bound="position", known_type="of")
    position: int
    of: Type

    def _typed(self) -> Type:
        return self.of


@dataclass(frozen=True, slots=True, eq=False)
class TensorVar(Named):
    """An opened let-bound tensor, while the body of its let is built or processed."""

    form: ClassVar = Form("variable", "the let-bound", opened="uid", known_type="of", hints=("name",))
    uid: int
    name: str
    of: Type

    def _typed(self) -> Type:
        return self.of


@dataclass(frozen=True, slots=True, eq=False)
class Metavariable(Named):
    """A tensor metavariable of a rule, applied to indices and tensors. It occurs only in patterns, not in programs.

    `of` is the type of the application; patterns have no element types.
    """

    form: ClassVar = Form(
        "metavariable",
        opened="uid",
        known_type="of",
        index_lists=("indices",),
        part_lists=("tensors",),
        hints=("name",),
    )
    uid: int
    name: str
    of: Type
    indices: tuple[Index, ...] = ()
    tensors: tuple[Expr, ...] = ()

    def _typed(self) -> Type:
        return self.of


LARGEST_LITERAL: Final = float_info.max
"""Largest absolute value of a literal: larger ones would be infinite in float64."""


@dataclass(frozen=True, slots=True, eq=False)
class Constant(Number):
    """A literal scalar. Literals are stored values, never padding, even if they are zero."""

    form: ClassVar = Form("constant", "the literal", literals=("value",), dtypes=("dtype",))
    value: int | float
    dtype: str | None

    def _typed(self) -> Type:
        if type(self.value) is bool or not abs(self.value) <= LARGEST_LITERAL:
            raise not_finite(self.value)
        if self.dtype is not None and not dtypes.holds_literal(self.dtype, self.value):
            raise DtypeError(
                f"the literal {self.value} is not an {self.dtype}",
                required=f"a whole number in the range of {self.dtype}",
                suggestions=(f'cast the other operand: atl.cast("{dtypes.FLOATS[0]}", …)',),
            )
        return Type(self.dtype, ())


@dataclass(frozen=True, slots=True, eq=False)
class Value(Number):
    """An index expression as a scalar."""

    form: ClassVar = Form("value", "the value", indices=("index",), dtypes=("dtype",))
    index: Index
    dtype: str | None

    def _typed(self) -> Type:
        if self.dtype == dtypes.BOOL:
            raise DtypeError(
                "an index is used as a truth value",
                required="a comparison",
                suggestions=("write atl.value(i) != 0 to test for other indices than zero",),
            )
        if self.dtype in dtypes.STORED:
            raise DtypeError(
                f"an index is used with {self.dtype} elements, which are only stored",
                required=f"operands of a type that is computed with: {', '.join(dtypes.DTYPES)}",
                suggestions=(
                    f'cast the other operand: atl.cast("{dtypes.TYPES[self.dtype].computed_as}", …)',
                    f'to store indices, cast them: atl.cast("{self.dtype}", atl.value(i))',
                ),
            )
        return Type(self.dtype, ())


@dataclass(frozen=True, slots=True, eq=False)
class Gen(Term):
    """Generation (Fig. 3.2): element p is the body at index low + p; the extent is high - low."""

    form: ClassVar = Form(
        "gen",
        "a generation",
        indices=("low", "high"),
        parts=(Part("body", indices=(IndexBinder("low", "high", "name"),)),),
        hints=("name",),
        mark=Marked("mark", LoopMark),
    )
    low: Index
    high: Index
    body: Expr
    name: str = field(default="i")
    mark: AnyLoopMark = field(default=LoopMark.NONE)

    def _typed(self) -> Type:
        inner = _outside(self.body.type, self.name)
        return Type(inner.dtype, (self.high - self.low, *inner.shape))


@dataclass(frozen=True, slots=True, eq=False)
class Reduce(Term):
    """Reduction of the body over low <= index < high by a commutative monoid; padding for an empty range."""

    form: ClassVar = Form(
        "reduce",
        "a reduction",
        static=("monoid",),
        indices=("low", "high"),
        parts=(Part("body", indices=(IndexBinder("low", "high", "name"),)),),
        hints=("name",),
        mark=Marked("mark", LoopMark),
    )
    monoid: Monoid
    low: Index
    high: Index
    body: Expr
    name: str = field(default="k")
    mark: AnyLoopMark = field(default=LoopMark.NONE)

    def _typed(self) -> Type:
        _need_one_of("monoid", self.monoid, MONOIDS)
        _check_operands(OF_MONOID[self.monoid], self.body.type.dtype)
        return _outside(self.body.type, self.name)


@dataclass(frozen=True, slots=True, eq=False)
class Rec(Term):
    """Recurrence: the rows of `init`, then the body for low <= p < high, where low is the extent of `init`.

    In the body, the bound tensor contains the p rows before row p. Its extent is p, so safe accesses read earlier rows.
    """

    form: ClassVar = Form(
        "rec",
        "a recurrence",
        indices=("low", "high"),
        parts=(
            Part("init"),
            Part(
                "body",
                indices=(IndexBinder("low", "high", "name"),),
                tensors=(TensorBinder("init", "rows", grows=True),),
            ),
        ),
        hints=("name", "rows"),
        mark=Marked("mark", LoopMark),
    )
    low: Index
    high: Index
    init: Expr
    body: Expr
    name: str = field(default="p")
    rows: str = field(default="y")
    mark: AnyLoopMark = field(default=LoopMark.NONE)

    def _typed(self) -> Type:
        _need_rank("rec", self.init.type, 1)
        first, later = self.init.type, _outside(self.body.type, self.name)
        if later.rank != first.rank - 1:
            raise RankError(
                f"rec begins with rows of rank {first.rank - 1} and continues with rows of rank {later.rank}",
                required="rows of equal rank",
                suggestions=(
                    "begin with a tensor of one dimension more than a row",
                    "state of=(…), the shape of a row",
                ),
            )
        if first.dtype != later.dtype and dtypes.ANY_DTYPE not in (first.dtype, later.dtype):
            raise DtypeError(
                f"rec begins with rows of type {first.dtype} and continues with rows of type {later.dtype}",
                required="rows of the same element type",
                suggestions=(f'cast the later rows: atl.cast("{first.dtype}", …)',),
            )
        return Type(later.dtype if first.dtype == dtypes.ANY_DTYPE else first.dtype, (self.high, *first.shape[1:]))


def rows_before(of: Type, p: Index, binders: int = 0) -> Type:
    """Return the type of the p rows before row p of a tensor, seen under `binders` more binders. Raises `RankError`."""
    _need_rank("rec", of, 1)
    return Type(of.dtype, (p, *(shift(extent, binders) for extent in of.shape[1:])))


@dataclass(frozen=True, slots=True, eq=False)
class Guard(Term):
    """[p] . e: the body where the predicate holds, else padding of its shape. Elsewhere the body is not evaluated."""

    form: ClassVar = Form("guard", "a guard", predicates=("predicate",), parts=(Part("body", assumes="predicate"),))
    predicate: Predicate
    body: Expr

    def _typed(self) -> Type:
        return self.body.type


@dataclass(frozen=True, slots=True, eq=False)
class Let(Term):
    """let x := value in body. The meaning is substitution; lowering stores the value in a buffer."""

    form: ClassVar = Form(
        "let",
        "a let,",
        parts=(Part("value"), Part("body", tensors=(TensorBinder("value", "name"),))),
        hints=("name",),
        mark=Marked("mark", LetMark),
    )
    value: Expr
    body: Expr
    name: str = field(default="x")
    mark: LetMark = field(default=LetMark.NONE)

    def _typed(self) -> Type:
        return self.body.type


@dataclass(frozen=True, slots=True, eq=False)
class Access(Term):
    """e[i]: the i-th element along the first dimension; zero if i is out of range."""

    form: ClassVar = Form("access", "an access", indices=("index",), parts=(Part("tensor", at="index"),))
    tensor: Expr
    index: Index

    def _typed(self) -> Type:
        of = self.tensor.type
        if not of.shape:
            raise RankError(
                "a scalar has no elements to access",
                required="a tensor of rank 1 or more",
                suggestions=("drop the last index",),
            )
        return Type(of.dtype, of.shape[1:])


@dataclass(frozen=True, slots=True, eq=False)
class Unary(Elementwise):
    """A scalar function, element by element."""

    form: ClassVar = Form("unary", "a function,", static=("op",), parts=(Part("operand"),))
    op: UnaryOp
    operand: Expr

    def _typed(self) -> Type:
        _need_one_of("function", self.op, UNARY)
        _check_operands(self.op, self.operand.type.dtype)
        return self.operand.type


@dataclass(frozen=True, slots=True, eq=False)
class Binary(Elementwise):
    """A scalar operation, element by element on two tensors of equal shape; "add" is the ⊕ of Fig. 3.1."""

    form: ClassVar = Form("binary", "arithmetic,", static=("op",), parts=(Part("left"), Part("right")))
    op: BinaryOp
    left: Expr
    right: Expr

    def _typed(self) -> Type:
        _need_one_of("operation", self.op, BINARY)
        dtype = _alike(f"'{self.op}'", self.left, self.right)
        _check_operands(self.op, dtype)
        return Type(result_type(self.op, dtype), self.left.type.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Select(Term):
    """The left operand where the predicate holds, the right one elsewhere. Only the chosen operand is evaluated."""

    form: ClassVar = Form(
        "select",
        "a select,",
        predicates=("predicate",),
        parts=(Part("left", assumes="predicate"), Part("right", assumes="predicate", negated=True)),
    )
    predicate: Predicate
    left: Expr
    right: Expr

    def _typed(self) -> Type:
        _alike("select", self.left, self.right)
        return self.left.type


@dataclass(frozen=True, slots=True, eq=False)
class Where(Elementwise):
    """The left operand where the test, a Boolean tensor, is true, the right one elsewhere; all three are evaluated."""

    form: ClassVar = Form("where", "a choice,", parts=(Part("test"), Part("left"), Part("right")))
    test: Expr
    left: Expr
    right: Expr

    def _typed(self) -> Type:
        dtype = _alike("where", self.left, self.right)
        _need_equal_ranks("where", self.test, self.left)
        if self.test.type.dtype not in (dtypes.BOOL, dtypes.ANY_DTYPE):
            raise DtypeError(
                f"the test of where has elements of type {self.test.type.dtype}",
                required="a Boolean tensor: comparisons of elements, joined by & | ~",
                suggestions=("write where(x != 0, a, b) to test for elements other than zero",),
            )
        return Type(dtype, self.left.type.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Cast(Elementwise):
    """The operand with its elements converted as in C."""

    form: ClassVar = Form("cast", "a cast,", static=("dtype",), parts=(Part("operand"),))
    dtype: str
    operand: Expr

    def _typed(self) -> Type:
        return Type(dtypes.named_dtype(self.dtype), self.operand.type.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Concat(Term):
    """Concatenation of two operands along the first dimension."""

    form: ClassVar = Form("concat", "a concatenation", parts=(Part("left"), Part("right")))
    left: Expr
    right: Expr

    def _typed(self) -> Type:
        dtype = _alike("concat", self.left, self.right)
        _need_rank("concat", self.left.type, 1)
        extent = self.left.type.shape[0] + self.right.type.shape[0]
        return Type(dtype, (extent, *self.left.type.shape[1:]))


@dataclass(frozen=True, slots=True, eq=False)
class Padding(Term):
    """A tensor of this type that consists of padding, so that nothing is stored."""

    form: ClassVar = Form("padding", "padding,", types=("of",))
    of: Type

    def _typed(self) -> Type:
        return self.of


# -- reshape operators ------------------------------------------------------------------------------------------------


class Operator(Formed):
    """Base class of reshape operators, whose results contain elements of the operand and padding."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False)
class Transpose(Operator):
    """Exchange of the first two dimensions."""

    form: ClassVar = Form("transpose")


@dataclass(frozen=True, slots=True, eq=False)
class Flatten(Operator):
    """The first two dimensions joined, in row-major order."""

    form: ClassVar = Form("flatten")


@dataclass(frozen=True, slots=True, eq=False)
class Split(Operator):
    """Rows of `by` > 0 elements. The end of the last row may be padding."""

    form: ClassVar = Form("split", indices=("by",))
    by: Index


@dataclass(frozen=True, slots=True, eq=False)
class PadLeft(Operator):
    """`by` >= 0 elements of padding before the first element."""

    form: ClassVar = Form("padl", indices=("by",))
    by: Index


@dataclass(frozen=True, slots=True, eq=False)
class PadRight(Operator):
    """`by` >= 0 elements of padding after the last element."""

    form: ClassVar = Form("padr", indices=("by",))
    by: Index


@dataclass(frozen=True, slots=True, eq=False)
class TruncateLeft(Operator):
    """Removal of the first `by` elements, 0 <= `by` <= extent (drop, not keep: erratum E3)."""

    form: ClassVar = Form("truncl", indices=("by",))
    by: Index


@dataclass(frozen=True, slots=True, eq=False)
class TruncateRight(Operator):
    """Removal of the last `by` elements, 0 <= `by` <= extent."""

    form: ClassVar = Form("truncr", indices=("by",))
    by: Index


@dataclass(frozen=True, slots=True, eq=False)
class Place(Operator):
    """A new first dimension of `extent` elements: the operand at `at`, 0 <= `at` < `extent`, and padding elsewhere.

    Placement is the adjoint of an access. A sum of placed terms is a scatter (§7.2.1, E16).
    """

    form: ClassVar = Form("place", indices=("extent", "at"))
    extent: Index
    at: Index


ReshapeOp: TypeAlias = Transpose | Flatten | Split | PadLeft | PadRight | TruncateLeft | TruncateRight | Place

OPERATORS: Final[tuple[type[ReshapeOp], ...]] = (
    Transpose, Flatten, Split, PadLeft, PadRight, TruncateLeft, TruncateRight, Place,
)  # fmt: skip
"""All reshape operators: the members of `ReshapeOp`."""
OPERATORS_BY_WORD: Final[dict[str, type[ReshapeOp]]] = {of.form.word: of for of in OPERATORS}
"""Reshape operators by the `word` of their forms."""


@dataclass(frozen=True, slots=True, eq=False)
class Reshape(Term):
    """A reshape operator (Figs. 4.2 and 4.3) applied to a tensor."""

    form: ClassVar = Form("reshape", "a reshape,", operators=("op",), parts=(Part("operand"),))
    op: ReshapeOp
    operand: Expr

    def _typed(self) -> Type:
        return reshaped(self.op, self.operand.type)


def reshaped(op: ReshapeOp, of: Type) -> Type:
    """Return the type of the result of a reshape operator."""
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
        case Place(extent):
            return Type(of.dtype, (extent, *of.shape))


Expr: TypeAlias = (
    Input
    | Local
    | TensorVar
    | Metavariable
    | Constant
    | Value
    | Gen
    | Reduce
    | Rec
    | Guard
    | Let
    | Access
    | Unary
    | Binary
    | Select
    | Where
    | Cast
    | Concat
    | Padding
    | Reshape
)

CONSTRUCTORS: Final[tuple[type[Expr], ...]] = (
    Input, Local, TensorVar, Metavariable, Constant, Value, Gen, Reduce, Rec, Guard, Let, Access, Unary, Binary,
    Select, Where, Cast, Concat, Padding, Reshape,
)  # fmt: skip
"""Constructors of tensor expressions: the members of `Expr`."""
CONSTRUCTORS_BY_WORD: Final[dict[str, type[Expr]]] = {of.form.word: of for of in CONSTRUCTORS}
"""Constructors by the `word` of their forms."""


# -- checks that need no facts ----------------------------------------------------------------------------------------


def not_finite(value: object) -> InvalidArgument:
    """Return the error for a literal that is not finite: the equations hold in rings, where x - x = 0 for all x."""
    large = type(value) is int and abs(value) > LARGEST_LITERAL
    return InvalidArgument(
        f"the literal {brief(value)} is larger than any float64"
        if large
        else f"the literal {value!r} is not a finite number",
        required="a finite number, because inf - inf + x = x is false",
        suggestions=("declare a scalar input, and pass the infinity as an argument of the call",),
    )


def _outside(of: Type, name: str) -> Type:
    """Return the type of a binder's body outside the binder. Raises `RaggedShape` (erratum E5)."""
    for dimension, extent in enumerate(of.shape):
        if any(isinstance(atom, Bound) and atom.position == 0 for atom in atoms(extent)):
            raise RaggedShape(
                f"the elements have different shapes: dimension {dimension} of the body of '{name}' has an extent "
                f"that depends on {name}",
                required=f"an extent without {name}",
                suggestions=("generate the largest extent and guard the elements beyond the shorter ones",),
            )
    return Type(of.dtype, tuple(shift(extent, -1, 1) for extent in of.shape))


def _need_one_of(what: str, chosen: object, known: tuple[str, ...]) -> None:
    if chosen not in known:
        raise InvalidArgument(f"unknown {what} {brief(chosen)}", required=f"one of {', '.join(known)}")


def _need_rank(what: str, of: Type, rank: int) -> None:
    if of.rank < rank:
        raise RankError(
            f"{what} needs {rank} dimension{'s' if rank > 1 else ''}, but this tensor has {of.rank}",
            required=f"a tensor of rank {rank} or more",
        )


def _need_equal_ranks(what: str, left: Expr, right: Expr) -> None:
    if left.type.rank != right.type.rank:
        raise RankError(
            f"{what} has operands of rank {left.type.rank} and {right.type.rank}",
            required="operands of equal rank",
            suggestions=("access the larger one, or generate the missing dimension",),
        )


def _alike(what: str, left: Expr, right: Expr) -> str | None:
    _need_equal_ranks(what, left, right)
    one, other = left.type.dtype, right.type.dtype
    if one != other and dtypes.ANY_DTYPE not in (one, other):
        raise DtypeError(
            f"{what} has operands of type {one} and {other}",
            required="operands of the same element type",
            suggestions=(f'cast one of them: atl.cast("{one}", …)',),
        )
    return other if one == dtypes.ANY_DTYPE else one


_OPERANDS: Final[dict[dtypes.Kind, str]] = {"float": "floating-point", "integer": "integer", "bool": "Boolean"}


def _check_operands(op: UnaryOp | BinaryOp, dtype: str | None) -> None:
    if accepts(op, dtype):
        return
    if dtype in dtypes.STORED:
        wide = dtypes.TYPES[dtype].computed_as
        raise DtypeError(
            f"'{op}' of {dtype} elements, which are only stored",
            required=f"operands of a type that is computed with: {', '.join(dtypes.DTYPES)}",
            suggestions=(f'cast first: atl.cast("{wide}", …)',),
        )
    kinds = OPERATIONS[op].kinds
    suggestions = {
        "float": ('cast first: atl.cast("float64", …)',),
        "integer": ('cast first: atl.cast("int64", …)',),
        "bool": ("compare first: x != 0",),
    }
    raise DtypeError(
        f"'{op}' is not defined on {dtype} elements",
        required=f"{' or '.join(_OPERANDS[kind] for kind in kinds)} operands",
        suggestions=suggestions[kinds[0]],
    )
