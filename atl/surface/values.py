"""Symbolic values with operators: index expressions, conditions and tensors.

They are thin wrappers around nodes. They have no truth value and no hash, because `i == j` builds a condition instead
of comparing Python objects. The nodes themselves compare structurally.
"""

from __future__ import annotations

import builtins
import numbers
from collections.abc import Callable
from fractions import Fraction
from math import isnan
from types import EllipsisType
from typing import Any, Final, NoReturn, TypeAlias, TypeVar, Union, overload

from atl.core import dtypes, predicate, substitution, terms
from atl.core.index import Index, exclusive_or, floordiv, index, read
from atl.core.node import malformed
from atl.core.operations import BinaryOp, Comparison, IntegerOp
from atl.core.predicate import Predicate
from atl.errors import DtypeError, InvalidArgument, RankError, Source, SymbolicValue, brief
from atl.surface import numpy_forms
from atl.surface.declarations import TensorSpec
from atl.surface.symbolic import Symbolic
from atl.text.latex import formula
from atl.text.printing import show, show_predicate

IndexLike: TypeAlias = Union["IndexExpr", Index, int, "Tensor"]
TensorLike: TypeAlias = Union["Tensor", int, float]
Position: TypeAlias = IndexLike | slice | EllipsisType | None
Axis: TypeAlias = int | tuple[int, ...] | None
T = TypeVar("T", bound=terms.Expr)


class IndexExpr(Symbolic):
    """An integer expression over sizes, bound indices and reads of integer arrays.

    `//` and `%` round down and need a provably positive divisor. `^` is exclusive or. Comparisons build conditions.

    >>> import atl
    >>> n, m = atl.sizes("n m")
    >>> (n + m) * 2 - m
    2*n + m
    """

    __slots__ = ("node",)
    _kind = "an index expression"
    __hash__ = Symbolic.__hash__  # `__eq__` below would take it away

    def __init__(self, node: Index) -> None:
        if not isinstance(node, Index):
            raise malformed("an index expression", node, "a node, as in the result of atl.sizes(…)")
        self.node = node

    def __add__(self, other: IndexLike) -> IndexExpr:
        if getattr(type(other), "takes_offset", False):
            return NotImplemented  # an offset of a layout, `n + S[...]`, which the layout implements
        return IndexExpr(self.node + as_index(other))

    def __radd__(self, other: int) -> IndexExpr:
        return IndexExpr(as_index(other) + self.node)

    def __sub__(self, other: IndexLike) -> IndexExpr:
        return IndexExpr(self.node - as_index(other))

    def __rsub__(self, other: int) -> IndexExpr:
        return IndexExpr(as_index(other) - self.node)

    def __mul__(self, other: IndexLike) -> IndexExpr:
        return IndexExpr(self.node * as_index(other))

    def __rmul__(self, other: int) -> IndexExpr:
        return IndexExpr(as_index(other) * self.node)

    def __neg__(self) -> IndexExpr:
        return IndexExpr(-self.node)

    def __pos__(self) -> IndexExpr:
        return self

    def __floordiv__(self, other: IndexLike) -> IndexExpr:
        return IndexExpr(floordiv(self.node, as_index(other)))

    def __rfloordiv__(self, other: int) -> IndexExpr:
        return IndexExpr(floordiv(as_index(other), self.node))

    def __mod__(self, other: IndexLike) -> IndexExpr:
        return IndexExpr(self.node % as_index(other))

    def __rmod__(self, other: int) -> IndexExpr:
        return IndexExpr(as_index(other) % self.node)

    def __xor__(self, other: IndexLike) -> IndexExpr:
        return IndexExpr(exclusive_or(self.node, as_index(other)))

    def __rxor__(self, other: int) -> IndexExpr:
        return IndexExpr(exclusive_or(self.node, as_index(other)))

    def __truediv__(self, other: object) -> NoReturn:
        raise InvalidArgument(
            "indices have no exact division",
            required="an integer",
            suggestions=("write a // b to round down, atl.ceildiv(a, b) to round up", "atl.value(i) / x for a scalar"),
        )

    __rtruediv__ = __truediv__

    def __lt__(self, other: IndexLike) -> Condition:
        return Condition(predicate.less(self.node, as_index(other)))

    def __le__(self, other: IndexLike) -> Condition:
        return Condition(predicate.at_most(self.node, as_index(other)))

    def __gt__(self, other: IndexLike) -> Condition:
        return Condition(predicate.less(as_index(other), self.node))

    def __ge__(self, other: IndexLike) -> Condition:
        return Condition(predicate.at_most(as_index(other), self.node))

    def __eq__(self, other: object) -> Condition:  # type: ignore[override]
        return Condition(predicate.equal(self.node, as_index(other)))

    def __ne__(self, other: object) -> Condition:  # type: ignore[override]
        return Condition(predicate.negation(predicate.equal(self.node, as_index(other))))

    def __repr__(self) -> str:
        return str(self.node)


class Shape(tuple[IndexExpr, ...]):
    """Tuple of the extents of a tensor, outermost first, which notebooks show as a formula."""

    __slots__ = ()

    def _repr_latex_(self) -> str | None:
        return formula(tuple(extent.node for extent in self))


class Condition(Symbolic):
    """A condition on indices: comparisons joined by `&`, `|` and `~`."""

    __slots__ = ("node",)
    _kind = "a condition"
    __hash__ = Symbolic.__hash__  # `__eq__` below would take it away

    def __init__(self, node: Predicate) -> None:
        if not predicate.is_predicate(node):
            raise malformed("a condition", node, "a node, as in the result of a comparison")
        self.node = node

    def __and__(self, other: Condition | Tensor | bool) -> Condition:
        return Condition(predicate.conjunction((self.node, as_predicate(other))))

    def __rand__(self, other: bool) -> Condition:
        return Condition(predicate.conjunction((as_predicate(other), self.node)))

    def __or__(self, other: Condition | Tensor | bool) -> Condition:
        return Condition(predicate.disjunction((self.node, as_predicate(other))))

    def __ror__(self, other: bool) -> Condition:
        return Condition(predicate.disjunction((as_predicate(other), self.node)))

    def __invert__(self) -> Condition:
        return Condition(predicate.negation(self.node))

    def __eq__(self, other: object) -> NoReturn:
        raise SymbolicValue(
            "conditions cannot be compared",
            suggestions=("write p & q | ~p & ~q for equivalence",),
        )

    __ne__ = __eq__

    def __repr__(self) -> str:
        return show_predicate(self.node)


class Tensor(Symbolic):
    """A tensor expression; a scalar has rank 0. In an annotation, `atl.Tensor["n m", "float64"]` declares one.

    `A[i, j]` accesses one dimension per index. `+ - * /` and negation work element by element on tensors of equal
    shape, and on a tensor and a scalar. `A.shape` is a tuple of index expressions.

    >>> import atl
    >>> n = atl.sizes("n")
    >>> x = atl.tensor("x", n)
    >>> (2 * x[0] + 1).shape
    ()
    """

    __slots__ = ("node",)
    _kind = "a tensor"
    __hash__ = Symbolic.__hash__  # `__eq__` below would take it away

    def __init__(self, node: terms.Expr) -> None:
        if not isinstance(node, terms.Term):
            raise malformed("a tensor", node, "a node, as in the result of atl.tensor(…)")
        self.node = node

    def __class_getitem__(cls, item: str | tuple[str, ...]) -> TensorSpec:
        return TensorSpec.parse(item)

    @property
    def shape(self) -> Shape:
        """The extents, outermost first."""
        return Shape(IndexExpr(extent) for extent in self.node.type.shape)

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return self.node.type.rank

    @property
    def dtype(self) -> str | None:
        """The element type; None for a literal whose type is not determined yet."""
        return self.node.type.dtype

    def __getitem__(self, position: Position | tuple[Position, ...]) -> Tensor:
        """Access elements, slices, or both: `A[i, j]`, `A[1:, j]`, `A[::-1]`, `A[:, None]`."""
        positions = position if isinstance(position, tuple) else (position,)
        if any(at is None or isinstance(at, slice | EllipsisType) for at in positions):
            return Tensor(located(numpy_forms.sliced(self.node, self._cuts(positions))))
        if len(positions) > self.rank:
            raise RankError(
                f"{len(positions)} indices into a tensor of rank {self.rank}",
                required=f"at most {self.rank} {'index' if self.rank == 1 else 'indices'}",
            )
        node = self.node
        for at in positions:
            node = located(terms.Access(node, as_index(at)))
        return Tensor(node)

    def _cuts(self, positions: tuple[Position, ...]) -> list[Index | numpy_forms.Cut | None]:
        """Return indices and slices, with full slices in place of the ellipsis."""
        named = builtins.sum(at is not None and at is not ... for at in positions)
        dots = [at for at, position in enumerate(positions) if position is ...]
        if len(dots) > 1 or named > self.rank:
            raise RankError(
                f"{named} indices and slices, and {'... ' * len(dots)}of a tensor of rank {self.rank}",
                required=f"at most {self.rank} of them, and ... once",
            )
        if dots:
            whole = (slice(None),) * (self.rank - named)
            positions = (*positions[: dots[0]], *whole, *positions[dots[0] + 1 :])
        return [_as_cut(at) if isinstance(at, slice) else None if at is None else as_index(at) for at in positions]

    @overload
    def __and__(self, other: TensorLike) -> Tensor: ...
    @overload
    def __and__(self, other: Condition) -> Condition: ...
    def __and__(self, other: TensorLike | Condition) -> Tensor | Condition:
        """Return the conjunction of truth values, or the bits of integers that are set in both; so for `| ^ ~`.

        With a condition on indices, an element of an input is converted to a condition.
        """
        if isinstance(other, Condition):
            return Condition(as_predicate(self)) & other
        return _bitwise("and", self, other)

    def __rand__(self, other: TensorLike) -> Tensor:
        return _bitwise("and", other, self)

    @overload
    def __or__(self, other: TensorLike) -> Tensor: ...
    @overload
    def __or__(self, other: Condition) -> Condition: ...
    def __or__(self, other: TensorLike | Condition) -> Tensor | Condition:
        if isinstance(other, Condition):
            return Condition(as_predicate(self)) | other
        return _bitwise("or", self, other)

    def __ror__(self, other: TensorLike) -> Tensor:
        return _bitwise("or", other, self)

    @overload
    def __xor__(self, other: TensorLike) -> Tensor: ...
    @overload
    def __xor__(self, other: IndexExpr) -> IndexExpr: ...
    def __xor__(self, other: TensorLike | IndexExpr) -> Tensor | IndexExpr:
        if isinstance(other, IndexExpr) and self._is_index():
            return IndexExpr(as_index(self)) ^ other
        return _bitwise("xor", self, other)

    def __rxor__(self, other: TensorLike) -> Tensor:
        return _bitwise("xor", other, self)

    def __invert__(self) -> Tensor:
        return Tensor(located(terms.Unary("invert", self.node)))

    def __lshift__(self, other: TensorLike) -> Tensor:
        return arithmetic("shl", self, other)

    def __rlshift__(self, other: TensorLike) -> Tensor:
        return arithmetic("shl", other, self)

    def __rshift__(self, other: TensorLike) -> Tensor:
        return arithmetic("shr", self, other)

    def __rrshift__(self, other: TensorLike) -> Tensor:
        return arithmetic("shr", other, self)

    @overload
    def __add__(self, other: TensorLike) -> Tensor: ...
    @overload
    def __add__(self, other: IndexExpr) -> IndexExpr: ...
    def __add__(self, other: TensorLike | IndexExpr) -> Tensor | IndexExpr:
        if isinstance(other, IndexExpr) and self._is_index():
            return IndexExpr(as_index(self)) + other
        return arithmetic("add", self, other)

    def __radd__(self, other: TensorLike) -> Tensor:
        return arithmetic("add", other, self)

    @overload
    def __sub__(self, other: TensorLike) -> Tensor: ...
    @overload
    def __sub__(self, other: IndexExpr) -> IndexExpr: ...
    def __sub__(self, other: TensorLike | IndexExpr) -> Tensor | IndexExpr:
        if isinstance(other, IndexExpr) and self._is_index():
            return IndexExpr(as_index(self)) - other
        return arithmetic("sub", self, other)

    def __rsub__(self, other: TensorLike) -> Tensor:
        return arithmetic("sub", other, self)

    @overload
    def __mul__(self, other: TensorLike) -> Tensor: ...
    @overload
    def __mul__(self, other: IndexExpr) -> IndexExpr: ...
    def __mul__(self, other: TensorLike | IndexExpr) -> Tensor | IndexExpr:
        if isinstance(other, IndexExpr) and self._is_index():
            return IndexExpr(as_index(self)) * other
        return arithmetic("mul", self, other)

    def __rmul__(self, other: TensorLike) -> Tensor:
        return arithmetic("mul", other, self)

    def __truediv__(self, other: TensorLike) -> Tensor:
        return arithmetic("div", self, other)

    def __rtruediv__(self, other: TensorLike) -> Tensor:
        return arithmetic("div", other, self)

    def __pow__(self, other: TensorLike) -> Tensor:  # type: ignore[override]
        return Tensor(located(numpy_forms.power(self.node, as_tensor(other).node)))

    def __rpow__(self, other: TensorLike) -> Tensor:  # type: ignore[override]
        return as_tensor(other) ** self

    def __matmul__(self, other: Any) -> Any:
        if not isinstance(other, Tensor):
            return super().__matmul__(other)
        return Tensor(located(numpy_forms.matmul(self.node, other.node)))

    @property
    def T(self) -> Tensor:  # noqa: N802 (NumPy's name)
        """The tensor with its dimensions in reverse order."""
        return Tensor(located(numpy_forms.transposed(self.node)))

    def sum(self, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        """Return the sum along one axis, several, or all, as in NumPy. An empty axis yields padding, read as zero."""
        return self._folded("sum", axis, keepdims)

    def prod(self, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        """Return the product along one axis, several, or all, as in NumPy."""
        return self._folded("product", axis, keepdims)

    def max(self, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        """Return the maximum along one axis, several, or all. An empty axis yields padding."""
        return self._folded("max", axis, keepdims)

    def min(self, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        """Return the minimum along one axis, several, or all. An empty axis yields padding."""
        return self._folded("min", axis, keepdims)

    def mean(self, axis: Axis = None, *, keepdims: bool = False) -> Tensor:
        """Return the mean along one axis, several, or all."""
        return Tensor(located(numpy_forms.folded("sum", self.node, axis, keepdims, mean=True)))

    def _folded(self, monoid: terms.Monoid, axis: Axis, keepdims: bool) -> Tensor:
        return Tensor(located(numpy_forms.folded(monoid, self.node, axis, keepdims)))

    def __array_ufunc__(self, ufunc: Any, method: str, *operands: Any, **options: Any) -> Any:
        """Convert an elementwise NumPy function to a term. Raises `SymbolicValue` for unsupported functions."""
        plain = [operand.item() if getattr(operand, "ndim", None) == 0 else operand for operand in operands]
        if method == "__call__" and not options and all(type(each) in (Tensor, int, float) for each in plain):
            meant = numpy_forms.elementwise(ufunc.__name__, [as_tensor(each).node for each in plain])
            if meant is not None:
                return Tensor(located(meant))
        return super().__array_ufunc__(ufunc, method, *operands, **options)

    def __array_function__(self, function: Any, _: Any, arguments: Any, options: Any) -> Any:
        """Convert a NumPy reduction or `np.transpose` to a term. Raises `SymbolicValue` for other functions."""
        name = function.__name__
        method = numpy_forms.METHODS.get(name)
        plain = options.keys() <= {"axis", "keepdims"} and len(arguments) < 3 and type(arguments[0]) is Tensor
        if method is not None and plain:
            return getattr(arguments[0], method)(*arguments[1:], **options)
        if name == "transpose" and len(arguments) == 1 and not options:
            return self.T
        if name == "where" and len(arguments) == 3 and not options:
            return choice(*arguments)
        return self._not_numpys(name)

    def _is_index(self) -> bool:
        """Return whether this is an element of an integer array, which is an index in arithmetic with indices."""
        return not self.rank and dtypes.is_integer(self.dtype)

    def __neg__(self) -> Tensor:
        return Tensor(located(terms.Unary("neg", self.node)))

    def __abs__(self) -> Tensor:
        return Tensor(located(terms.Unary("abs", self.node)))

    def __pos__(self) -> Tensor:
        return self

    @overload
    def __floordiv__(self, other: TensorLike) -> Tensor: ...
    @overload
    def __floordiv__(self, other: IndexExpr) -> IndexExpr: ...
    def __floordiv__(self, other: TensorLike | IndexExpr) -> Tensor | IndexExpr:
        if isinstance(other, IndexExpr) and self._is_index():
            return IndexExpr(as_index(self)) // other
        return arithmetic("floordiv", self, other)

    def __rfloordiv__(self, other: TensorLike) -> Tensor:
        return arithmetic("floordiv", other, self)

    @overload
    def __mod__(self, other: TensorLike) -> Tensor: ...
    @overload
    def __mod__(self, other: IndexExpr) -> IndexExpr: ...
    def __mod__(self, other: TensorLike | IndexExpr) -> Tensor | IndexExpr:
        if isinstance(other, IndexExpr) and self._is_index():
            return IndexExpr(as_index(self)) % other
        return arithmetic("mod", self, other)

    def __rmod__(self, other: TensorLike) -> Tensor:
        return arithmetic("mod", other, self)

    @overload
    def __lt__(self, other: TensorLike) -> Tensor: ...
    @overload
    def __lt__(self, other: IndexExpr) -> Condition: ...
    def __lt__(self, other: TensorLike | IndexExpr) -> Tensor | Condition:
        """Compare elements: a Boolean tensor. An element of an integer input and an index yield a condition."""
        return IndexExpr(as_index(self)) < other if isinstance(other, IndexExpr) else arithmetic("lt", self, other)

    @overload
    def __le__(self, other: TensorLike) -> Tensor: ...
    @overload
    def __le__(self, other: IndexExpr) -> Condition: ...
    def __le__(self, other: TensorLike | IndexExpr) -> Tensor | Condition:
        return IndexExpr(as_index(self)) <= other if isinstance(other, IndexExpr) else arithmetic("le", self, other)

    @overload
    def __gt__(self, other: TensorLike) -> Tensor: ...
    @overload
    def __gt__(self, other: IndexExpr) -> Condition: ...
    def __gt__(self, other: TensorLike | IndexExpr) -> Tensor | Condition:
        return IndexExpr(as_index(self)) > other if isinstance(other, IndexExpr) else arithmetic("lt", other, self)

    @overload
    def __ge__(self, other: TensorLike) -> Tensor: ...
    @overload
    def __ge__(self, other: IndexExpr) -> Condition: ...
    def __ge__(self, other: TensorLike | IndexExpr) -> Tensor | Condition:
        return IndexExpr(as_index(self)) >= other if isinstance(other, IndexExpr) else arithmetic("le", other, self)

    def __eq__(self, other: object) -> Any:
        return IndexExpr(as_index(self)) == other if isinstance(other, IndexExpr) else arithmetic("eq", self, other)

    def __ne__(self, other: object) -> Any:
        return IndexExpr(as_index(self)) != other if isinstance(other, IndexExpr) else ~arithmetic("eq", self, other)

    def __repr__(self) -> str:
        return show(self.node)


# -- conversion of arguments ------------------------------------------------------------------------------------------


def located(node: T) -> T:
    """Record the line of user code that created a node."""
    object.__setattr__(node, "source", Source.caller())
    return node


def as_index(value: object) -> Index:
    """Convert to an index expression: an integer, an index, a size, or an element of an integer array."""
    match value:
        case IndexExpr():
            return value.node
        case Index():
            return value  # an extent of a program
        case bool():
            pass
        case int() | numbers.Integral():
            return index(int(value))
        case Tensor():
            return _index_of_element(value.node)
        case _:
            pass
    raise InvalidArgument(
        f"{brief(value)} is not an index",
        required="an integer, a size, a bound index, or an element of an integer input",
        suggestions=_alternatives_to_index(value),
    )


def _alternatives_to_index(value: object) -> tuple[str, ...]:
    match value:
        case slice():
            return ("write A[a:n - b] as atl.truncl(a, atl.truncr(b, A)), where n is the extent",)
        case str() if value.isidentifier():
            return (f'declare the size first: {value} = atl.sizes("{value}")',)
        case float() if value.is_integer():
            return (f"write {int(value)}",)
        case range():
            return ("write a range as a pair (lo, hi)",)
        case tuple() | list():
            return ('pass extents and indices as separate arguments: atl.tensor("A", n, m), A[i, j]',)
        case None | EllipsisType():
            return ("omit trailing indices, and write `...` only as the last extent of an input",)
        case _:
            return ()


def _index_of_element(node: terms.Expr) -> Index:
    """Convert an element of an integer array, or sums and products of such elements, to an index."""
    match node:
        case terms.Constant(int() as value, _):
            return index(value)
        case terms.Value(position, _):
            return position
        case terms.Binary("add", left, right):
            return _index_of_element(left) + _index_of_element(right)
        case terms.Binary("sub", left, right):
            return _index_of_element(left) - _index_of_element(right)
        case terms.Binary("mul", left, right):
            return _index_of_element(left) * _index_of_element(right)
        case terms.Binary("floordiv", left, right):
            return floordiv(_index_of_element(left), _index_of_element(right))
        case terms.Binary("mod", left, right):
            return _index_of_element(left) % _index_of_element(right)
        case terms.Binary("xor", left, right):
            return exclusive_or(_index_of_element(left), _index_of_element(right))
        case terms.Unary("neg", operand):
            return -_index_of_element(operand)
        case terms.Input() | terms.Access():
            return _index_read(node)
        case _:
            raise _no_index()


def _index_read(node: terms.Expr, of: dtypes.Kind = "integer") -> Index:
    """Convert an element of an input with elements of this kind to an index."""
    positions: list[Index] = []
    at: terms.Expr = node
    while isinstance(at, terms.Access):
        positions.append(at.index)
        at = at.tensor
    if isinstance(at, terms.Input) and not node.type.shape:
        if at.array.trailing:
            raise DtypeError(
                f"an element of {at.array.name}, which may be a tensor, is used as an index or compared",
                required="an input without `...` after its extents",
                suggestions=("choose by values with atl.where(x[i] < y[i], a, b)",),
            )
        if dtypes.kind_of(at.array.dtype) == of:
            return read(at.array, tuple(reversed(positions)))
        raise DtypeError(
            f"an element of {at.array.name}, of type {at.array.dtype}, is used as an index or compared",
            required="an integer array",
            suggestions=(
                "write atl.value(i) * x[i] or atl.value(i) < x[i] to compute with the value of an index",
                "choose by values with atl.where(x[i] < y[i], a, b); conditions of guard and select depend on indices",
                f'if its elements are indices, declare integers: atl.tensor("{at.array.name}", …, dtype="int32")',
            ),
        )
    raise _no_index()


def _no_index() -> InvalidArgument:
    return InvalidArgument(
        "this tensor expression is used as an index: in an access, in a comparison, or with // or %",
        required="an element of an integer input, as in idx[i]",
        suggestions=("pass the computed indices as another input",),
    )


def as_predicate(value: object) -> Predicate:
    """Convert a condition, truth value, or test of elements of integer and Boolean inputs to a predicate.

    Raises `InvalidArgument` for other values.
    """
    match value:
        case Condition():
            return value.node
        case bool():
            return predicate.TRUE if value else predicate.FALSE
        case Tensor() if value.dtype == dtypes.BOOL and not value.rank:
            return _predicate_of_element(value.node)
        case _:
            raise InvalidArgument(
                f"{brief(value)} is not a condition",
                required="a comparison of indices, or comparisons joined by & | ~",
                suggestions=_BY_VALUES if isinstance(value, Tensor) else (),
            )


_BY_VALUES: Final = (
    "choose by values with atl.where(test, a, b)",
    "write atl.where(test, a, 0) to compute zero where the test is false",
)


def _predicate_of_element(node: terms.Expr) -> Predicate:
    """Convert a test of elements of inputs, which indices can read, to a predicate."""
    match node:
        case terms.Constant(literal):
            return predicate.TRUE if literal else predicate.FALSE
        case terms.Input() | terms.Access():
            return predicate.truth(_index_read(node, "bool"))
        case terms.Unary("invert", operand):
            return predicate.negation(_predicate_of_element(operand))
        case terms.Binary("and", left, right):
            return predicate.conjunction((_predicate_of_element(left), _predicate_of_element(right)))
        case terms.Binary("or", left, right):
            return predicate.disjunction((_predicate_of_element(left), _predicate_of_element(right)))
        case terms.Binary("lt" | "le" | "eq" as op, left, right) if dtypes.is_integer(left.type.dtype):
            return _COMPARED[op](_index_of_element(left), _index_of_element(right))
        case _:
            raise InvalidArgument(
                f"the test {show(node)} compares values, and is used as a condition on indices",
                required="a comparison of indices, or of elements of integer inputs",
                suggestions=_BY_VALUES,
            )


_COMPARED: Final[dict[Comparison, Callable[[Index, Index], Predicate]]] = {
    "lt": predicate.less,
    "le": predicate.at_most,
    "eq": predicate.equal,
}


def as_tensor(value: object) -> Tensor:
    """Convert to a tensor; a number becomes an untyped literal."""
    match value:
        case Tensor():
            return value
        case bool():
            pass
        case int() | numbers.Integral():
            return Tensor(terms.Constant(int(value), None))
        case float() | numbers.Real() if not isnan(value) and not isinstance(value, Fraction):
            return Tensor(terms.Constant(float(value), None))
        case IndexExpr():
            raise InvalidArgument(
                f"the index {value!r} is used as a scalar",
                required="a tensor or a number",
                suggestions=("write atl.value(…) to compute with the value of an index",),
            )
        case Condition():
            raise InvalidArgument(
                f"the condition {value!r} on indices is used as a value",
                required="a tensor or a number",
                suggestions=(
                    "write atl.guard(p, 1) for 1 where p holds and 0 elsewhere",
                    "choose by indices with atl.select(p, a, b)",
                ),
            )
        case _:
            pass
    raise InvalidArgument(
        f"{brief(value)} is neither a tensor expression nor a supported number",
        required="a tensor or a number",
        suggestions=_alternatives_to_tensor(value),
    )


def _alternatives_to_tensor(value: object) -> tuple[str, ...]:
    match value:
        case None:
            return ("return the tensor from the function: a def needs `return`",)
        case bool():
            return (f"write {int(value)}",)
        case list() | tuple() if any(isinstance(each, Tensor) for each in value):
            return ("a tuple or atl.results(a, b) is allowed only as the whole body of a program",)
        case list() | tuple():
            return ("write atl.constant(…) for a few numbers, or pass them as an input",)
        case _ if hasattr(value, "__array__"):
            return ('declare an input, A = atl.tensor("A", n), and pass the array to the call',)
        case _ if callable(value):
            return ("call the function to get its tensor",)
        case _:
            return ()


def arithmetic(op: BinaryOp, left: object, right: object) -> Tensor:
    """Return a scalar operation on two values with broadcasting."""
    first, second = numpy_forms.broadcast(as_tensor(left).node, as_tensor(right).node)
    return Tensor(located(substitution.arithmetic(op, first, second)))


def _bitwise(op: IntegerOp, left: object, right: object) -> Tensor:
    """Return an operation on bits, where Python's truth values are Boolean literals."""
    return arithmetic(op, _truth(left), _truth(right))


def _truth(value: object) -> object:
    """Return a Boolean literal for a truth value of Python."""
    return Tensor(terms.Constant(int(value), dtypes.BOOL)) if isinstance(value, bool) else value


def choice(test: object, left: object, right: object) -> Tensor:
    """Return where(test, left, right) with broadcasting."""
    if isinstance(test, Condition):
        raise InvalidArgument(
            f"the condition {test!r} on indices is used as the test of where",
            required="a Boolean tensor: comparisons of elements, joined by & | ~",
            suggestions=("choose by indices with atl.select(p, a, b)",),
        )
    tested = as_tensor(_truth(test)).node
    return Tensor(located(numpy_forms.choice(tested, as_tensor(left).node, as_tensor(right).node)))


def _as_cut(given: slice) -> numpy_forms.Cut:
    """Return the bounds and the step of a slice."""
    step = 1 if given.step is None else given.step
    if isinstance(step, bool) or not isinstance(step, int):
        raise InvalidArgument(f"a slice with the step {brief(step)}", required="an integer")
    return (*(None if bound is None else as_index(bound) for bound in (given.start, given.stop)), step)  # type: ignore[return-value]


Binder: TypeAlias = Callable[..., object]
