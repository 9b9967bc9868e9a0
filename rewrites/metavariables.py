"""Kinds of metavariables: the annotations of a rule's parameters.

When the function of a rule is called, an `Index` is an index expression of the surface language, a `Cond` a condition,
and every other kind a tensor. Kinds with parameters are Python functions that return one of these. Type checkers see
exactly these types.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, TypeVarTuple, get_args

from atl.errors import InvalidArgument
from atl.surface.values import Condition, IndexExpr, Tensor

Sort: TypeAlias = Literal["index", "condition", "tensor"]
DEFAULT_GROUP: Final = "s"
MOST_DIMENSIONS: Final = 8
"""Maximum number of dimensions of a tensor metavariable, not counting those of its elements."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The kind of a metavariable.

    A tensor has `rank` dimensions followed by those of its elements. The elements of all metavariables in one `group`
    have the same rank; in group "" they are scalars. A function has `parameters`, which are indices or tensors. An
    index may be one of `Indices`, or an axis number of a `Perm`, which `permutes`: `of_axis` is its name and its axis.
    """

    sort: Sort
    rank: int = 0
    group: str = DEFAULT_GROUP
    parameters: tuple[Kind, ...] = ()
    of_axis: tuple[str, int] | None = field(default=None, compare=False)
    permutes: bool = False

    def __getitem__(self, parameters: Kind | tuple[Kind, ...]) -> Kind:
        """Return the kind of a function: `Body[Index]`, `Cond[Index]`."""
        many = parameters if isinstance(parameters, tuple) else (parameters,)
        if self.sort == "index":
            raise InvalidArgument(
                "a metavariable cannot be a function that returns an index", required="Index, Body[Index], …"
            )
        return Kind(self.sort, self.rank, self.group, many)

    def of(self, group: str) -> Kind:
        """Return the same kind in another group, whose elements have an independent rank."""
        return Kind(self.sort, self.rank, group, self.parameters)


@dataclass(frozen=True, slots=True)
class PerAxis:
    """The kind of `Indices`, an index for each axis of a group, and of `Perm`, a permutation of these axes."""

    group: str = DEFAULT_GROUP
    permutes: bool = False

    def kinds(self, name: str, most: int) -> dict[str, Kind]:
        """Return the kinds of the indices, up to `most`. A statement uses the first ones, as many as its rank."""
        kind = Kind("index", group=self.group, permutes=self.permutes)
        return {f"{name}_{axis}": replace(kind, of_axis=(name, axis)) for axis in range(most)}


def is_kind(value: object, *, nested: bool = False) -> bool:
    """Return whether this is a valid kind, made of plain Python values."""
    if type(value) is not Kind or type(value.rank) is not int or type(value.parameters) is not tuple:
        return False
    plain = type(value.sort) is str and type(value.group) is str
    takes: tuple[Sort, ...] = () if value.sort == "index" or nested else ("index", "tensor")
    takes = takes[:1] if value.sort == "condition" else takes
    return (
        plain
        and value.sort in get_args(Sort)
        and type(value.permutes) is bool
        and 0 <= value.rank <= MOST_DIMENSIONS
        and all(is_kind(each, nested=True) and each.sort in takes for each in value.parameters)
    )


if TYPE_CHECKING:
    _P = TypeVarTuple("_P")

    Index: TypeAlias = IndexExpr
    Indices: TypeAlias = tuple[IndexExpr, ...]
    IndicesT = Indices
    IndicesU = Indices
    Perm: TypeAlias = tuple[int, ...]
    PermT = Perm

    class Cond(Condition, Generic[*_P]):
        """A condition, or with parameters a function that returns one."""

        def __call__(self, *at: Any) -> Condition: ...

    class Elem(Tensor, Generic[*_P]):
        """A tensor, or with parameters a function that returns one."""

        def __call__(self, *at: Any) -> Tensor: ...

    Body = Elem
    BodyT = Elem
    BodyU = Elem
    ElemT = Elem
    ElemU = Elem
    Scalar = Elem
    Vector = Elem
    VectorT = Elem
    Matrix = Elem
    MatrixT = Elem
    Cube = Elem
else:
    Index = Kind("index")
    """An index expression."""
    Indices, IndicesT, IndicesU = (PerAxis(group) for group in (DEFAULT_GROUP, "t", "u"))
    """A tuple of indices, one for each axis of an element."""
    Perm, PermT = (PerAxis(group, permutes=True) for group in (DEFAULT_GROUP, "t"))
    """A permutation of the axes of an element: a tuple of the numbers of all axes, in any order."""
    Cond = Kind("condition")
    """A predicate; `Cond[Index]` depends on an index."""
    Elem = Kind("tensor")
    """A tensor of any rank: an element of another tensor."""
    Scalar = Kind("tensor", group="")
    """A tensor of rank 0."""
    Vector = Kind("tensor", rank=1)
    """A tensor of rank 1 or more."""
    Matrix = Kind("tensor", rank=2)
    """A tensor of rank 2 or more."""
    Cube = Kind("tensor", rank=3)
    """A tensor of rank 3 or more."""
    Body = Elem
    """With parameters: a function that returns tensors of any rank, `Body[Index]`, `Body[ElemT]`."""
    # The same kinds, with elements of independent ranks.
    ElemT, VectorT, MatrixT, BodyT = (kind.of("t") for kind in (Elem, Vector, Matrix, Body))
    ElemU, BodyU = (kind.of("u") for kind in (Elem, Body))
