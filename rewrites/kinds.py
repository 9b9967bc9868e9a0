"""What the metavariables of a rule range over: the annotations of its parameters.

While a rule is stated, an `Index` is an index expression of the surface language, a `Cond` a condition, and all others
are tensors, or Python functions to one of these; to a type checker they are just that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, TypeVarTuple, get_args

from atl.errors import InvalidArgument
from atl.surface.values import Condition, IndexExpr, Tensor

Sort: TypeAlias = Literal["index", "condition", "tensor"]
DEFAULT_GROUP: Final = "s"
MOST_DIMENSIONS: Final = 8
"""The most dimensions that a tensor metavariable may have besides those of its elements."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What a metavariable ranges over.

    A tensor has `rank` dimensions and then those of its element, whose number is the same for all metavariables of one
    `group`; group "" is for tensors of exactly this rank. A function has `parameters`, indices or tensors.
    """

    sort: Sort
    rank: int = 0
    group: str = DEFAULT_GROUP
    parameters: tuple[Kind, ...] = ()

    def __getitem__(self, parameters: Kind | tuple[Kind, ...]) -> Kind:
        """A function: `Body[Index]`, `Cond[Index]`."""
        many = parameters if isinstance(parameters, tuple) else (parameters,)
        if self.sort == "index":
            raise InvalidArgument(
                "a rule has no metavariable for functions to indices", required="Index, Body[Index], …"
            )
        return Kind(self.sort, self.rank, self.group, many)

    def of(self, group: str) -> Kind:
        """The same, with elements of a rank of their own."""
        return Kind(self.sort, self.rank, group, self.parameters)


def is_kind(value: object, *, nested: bool = False) -> bool:
    """Return whether this is a kind that rules have metavariables of, made of plain values alone."""
    if type(value) is not Kind or type(value.rank) is not int or type(value.parameters) is not tuple:
        return False
    plain = type(value.sort) is str and type(value.group) is str
    takes: tuple[Sort, ...] = () if value.sort == "index" or nested else ("index", "tensor")
    takes = takes[:1] if value.sort == "condition" else takes
    return (
        plain
        and value.sort in get_args(Sort)
        and 0 <= value.rank <= MOST_DIMENSIONS
        and all(is_kind(each, nested=True) and each.sort in takes for each in value.parameters)
    )


if TYPE_CHECKING:
    _P = TypeVarTuple("_P")

    Index: TypeAlias = IndexExpr

    class Cond(Condition, Generic[*_P]):
        """A condition, or with parameters a function to conditions."""

        def __call__(self, *at: Any) -> Condition: ...

    class Elem(Tensor, Generic[*_P]):
        """A tensor, or with parameters a function to tensors."""

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
    Cond = Kind("condition")
    """A predicate; `Cond[Index]` is one of an index."""
    Elem = Kind("tensor")
    """A tensor of any rank: an element of another one."""
    Scalar = Kind("tensor", group="")
    """A tensor of rank 0."""
    Vector = Kind("tensor", rank=1)
    """A tensor of rank 1 or more."""
    Matrix = Kind("tensor", rank=2)
    """A tensor of rank 2 or more."""
    Cube = Kind("tensor", rank=3)
    """A tensor of rank 3 or more."""
    Body = Elem
    """With parameters: a function to tensors of any rank, `Body[Index]`, `Body[ElemT]`."""
    # The same, with elements of ranks of their own.
    ElemT, VectorT, MatrixT, BodyT = (kind.of("t") for kind in (Elem, Vector, Matrix, Body))
    ElemU, BodyU = (kind.of("u") for kind in (Elem, Body))
