"""Arguments of a rule: index expressions, predicates, terms, and functions that return one of these.

All arguments belong to one place of a program, that of the rewritten subterm: their free de Bruijn positions refer to
the binders around that place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, TypeGuard, assert_never, get_args, overload

from atl.core import predicate as predicates
from atl.core.index import Bound, Index, Leaf, Var, bound, index, map_leaves, shift
from atl.core.predicate import Predicate, is_predicate
from atl.core.substitution import close, close_tensor, fresh_uid, map_type, shift_term, transform, unbound
from atl.core.terms import Expr, Local, TensorVar, Term, Type
from atl.errors import InvalidArgument
from atl.surface.values import Condition, IndexExpr, Tensor, as_index, as_predicate, as_tensor

Parameter: TypeAlias = Literal["index"] | Type
"""A parameter of a function: an index, or a tensor of this type, an expression under the indices of the function."""


_TERMS: Final = get_args(Expr)


@dataclass(frozen=True, slots=True)
class Function:
    """A term or predicate with parameters: `Bound(0)` and `Local(0)` are the last parameters of each sort."""

    parameters: tuple[Parameter, ...]
    body: Expr | Predicate

    @property
    def indices(self) -> int:
        return sum(parameter == "index" for parameter in self.parameters)

    @property
    def tensors(self) -> int:
        return len(self.parameters) - self.indices


def of_indices(count: int) -> tuple[Parameter, ...]:
    """Return the parameters of a function of `count` indices."""
    one: Parameter = "index"
    return (one,) * count


def is_term(value: object) -> TypeGuard[Expr]:
    """Return whether this is a tensor expression."""
    return isinstance(value, _TERMS)


def sort_of(argument: Argument) -> str:
    """Return the sort of an argument, "index", "condition" or "tensor"; of a function, the sort of its result."""
    body = argument.body if isinstance(argument, Function) else argument
    if isinstance(body, Index):
        return "index"
    return "condition" if is_predicate(body) else "tensor"


Argument: TypeAlias = Index | Predicate | Expr | Function
Arguments: TypeAlias = Mapping[str, Argument]


@overload
def substituted(body: Expr, indices: tuple[Index, ...], tensors: tuple[Expr, ...]) -> Expr: ...
@overload
def substituted(body: Predicate, indices: tuple[Index, ...], tensors: tuple[Expr, ...]) -> Predicate: ...
def substituted(body: Expr | Predicate, indices: tuple[Index, ...], tensors: tuple[Expr, ...]) -> Expr | Predicate:
    """Substitute all parameters of a function's body at once; the last value replaces position 0."""
    count, tensor_count = len(indices), len(tensors)

    def on_leaf(leaf: Leaf, depth: int) -> Index:
        if not isinstance(leaf, Bound) or leaf.position < depth:
            return index(leaf)
        parameter = leaf.position - depth
        return shift(indices[-1 - parameter], depth) if parameter < count else bound(leaf.position - count)

    def on_tensor(at: Local | TensorVar, depth: int, tensor_depth: int) -> Expr | None:
        if not isinstance(at, Local) or at.position < tensor_depth:
            return None
        parameter = at.position - tensor_depth
        if parameter < tensor_count:
            return shift_term(tensors[-1 - parameter], depth, tensor_depth)
        return Local(
            at.position - tensor_count, map_type(at.of, lambda e: map_leaves(e, lambda leaf: on_leaf(leaf, depth)))
        )

    if isinstance(body, Term):
        return transform(body, on_leaf, on_tensor, untouched=unbound())
    return predicates.substitute(body, lambda leaf: on_leaf(leaf, 0))


def as_surface(argument: Argument) -> object:
    """Return an argument in the form that `s.rw` accepts: a surface value, or a Python function of surface values."""
    match argument:
        case Index():
            return IndexExpr(argument)
        case Function():
            return applied(argument)
        case predicates.NonNegative() | predicates.Zero() | predicates.NonZero() | predicates.All() | predicates.Any():
            return Condition(argument)
        case Term():
            return Tensor(argument)
        case _:
            assert_never(argument)


def applied(function: Function) -> Callable[..., Tensor | Condition]:
    """Return the function as a Python function of surface values."""

    def call(*given: object) -> Tensor | Condition:
        if len(given) != len(function.parameters):
            raise InvalidArgument(
                f"a function of {len(function.parameters)} parameters was called with {len(given)} arguments"
            )
        indices: list[Index] = []
        tensors: list[Expr] = []
        for parameter, value in zip(function.parameters, given, strict=True):
            if parameter == "index":
                indices.append(as_index(value))
            else:
                tensors.append(as_tensor(value).node)
        made = substituted(function.body, tuple(indices), tuple(tensors))
        return Tensor(made) if isinstance(made, Term) else Condition(made)

    return call


def abstracted(parameters: tuple[Parameter, ...], function: Callable[..., object]) -> Function:
    """Convert a Python function of surface values to a `Function`, by calling it once with variables."""
    indices = [Var(next(fresh_uid), f"i{at}") for at, parameter in enumerate(parameters) if parameter == "index"]
    left = iter(indices)
    variables = [
        next(left) if parameter == "index" else TensorVar(next(fresh_uid), f"x{at}", _opened(parameter, indices))
        for at, parameter in enumerate(parameters)
    ]
    result = function(*(IndexExpr(index(v)) if isinstance(v, Var) else Tensor(v) for v in variables))
    body: Expr | Predicate
    if isinstance(result, Condition | bool):
        predicate = as_predicate(result)
        for variable in indices:
            predicate = _close_predicate(predicate, variable)
        return Function(parameters, predicate)
    body = as_tensor(result).node
    # The first parameters are the outermost: closing in order makes them the highest positions.
    for tensor in variables:
        body = close_tensor(body, tensor) if isinstance(tensor, TensorVar) else body
    for variable in indices:
        body = close(body, variable)
    return Function(parameters, body)


def _opened(of: Type, indices: list[Var]) -> Type:
    """Return the type of a parameter with variables for the indices of the function."""
    count = len(indices)

    def leaf(at: Leaf) -> Index:
        if isinstance(at, Bound):
            return index(indices[-1 - at.position]) if at.position < count else bound(at.position - count)
        return index(at)

    return map_type(of, lambda e: map_leaves(e, leaf))


def _close_predicate(predicate: Predicate, variable: Var) -> Predicate:
    def on_leaf(leaf: Leaf) -> Index:
        if isinstance(leaf, Bound):
            return bound(leaf.position + 1)
        return bound(0) if leaf == variable else index(leaf)

    return predicates.substitute(predicate, on_leaf)
