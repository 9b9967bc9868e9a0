"""How a program is declared: its inputs, then its body, in a call or as a decorated function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, overload

from atl.checks.assembly import make_program
from atl.core import dtypes
from atl.core.declared import truths
from atl.core.index import Array, Index, Rises, Size, index
from atl.core.predicate import Predicate
from atl.core.program import Program
from atl.core.terms import Input
from atl.errors import ATLError, InvalidArgument, brief
from atl.surface.declarations import TensorSpec, checked_name, extent_written
from atl.surface.results import Results, SeveralLike, several_in
from atl.surface.values import Condition, IndexExpr, Tensor, as_index, as_predicate, as_tensor


def tensor(
    name: str,
    *shape: IndexExpr | Index | int,
    dtype: str = dtypes.DEFAULT,
    range: tuple[Any, Any] | None = None,  # noqa: A002 (the contract's name)
    order: str | tuple[str, Tensor] | None = None,
) -> Tensor:
    """An input tensor of this name, shape and element type; no extents declare a scalar.

    Of an integer array `range=(lo, hi)` states lo <= element < hi. `order="rising"` states that no element is below the
    one before it along the last dimension, `order="strict"` that each is above it. `order=("strict", pos)` states that
    of a row only from pos[r] up to before pos[r + 1], for each r: `pos` is another input, a row of integers. Each call
    checks all of it, and the prover uses it. The elements of an input of `dtype="bool"` are read in conditions only.

    >>> import atl
    >>> n, m = atl.sizes("n m")
    >>> A = atl.tensor("A", n, m, dtype="float64")
    >>> A[0].shape
    (m,)
    >>> pos = atl.tensor("pos", n + 1, dtype="int32", range=(0, m + 1), order="rising")
    >>> atl.tensor("crd", m, dtype="int32", order=("strict", pos)).shape
    (m,)
    """
    return Tensor(Input(_array(name, tuple(as_index(extent) for extent in shape), dtype, range, order)))


def _array(name: str, shape: tuple[Index, ...], dtype: str, bounds: tuple[Any, Any] | None, order: object) -> Array:
    checked_name(name, "an input")
    kind = dtypes.checked_input(dtype)
    if (bounds is not None or order is not None) and not dtypes.is_integer(kind):
        raise InvalidArgument(
            f"range= and order= of {name}, whose elements are {kind}",
            required="an integer array",
            suggestions=('declare it with dtype="int32" or "int64"',),
        )
    rises, between = _order(name, len(shape), order)
    if bounds is not None and (not isinstance(bounds, tuple) or len(bounds) != 2):
        raise InvalidArgument(f"range={brief(bounds)}", required="a pair (lo, hi), meaning lo <= element < hi")
    for extent in shape:
        value = extent.constant
        if value is not None and value < 0:
            raise InvalidArgument(f"an extent of {name} is {value}", required="a non-negative size")
    if kind == dtypes.TRUTH:
        return truths(name, shape)
    low, high = (as_index(bounds[0]), as_index(bounds[1])) if bounds is not None else (None, None)
    return Array(name, shape, kind, low, high, rises, between)


def _order(name: str, rank: int, order: object) -> tuple[Rises, Array | None]:
    """How the elements are declared to rise, and between which positions."""
    match order:
        case None:
            return "", None
        case ("rising" | "strict") as rises:
            return rises, None
        case (("rising" | "strict") as rises, Tensor(node=Input(between))) if (
            rank == len(between.shape) == 1 and dtypes.is_integer(between.dtype) and between.between is None
        ):
            return rises, between
        case _:
            raise InvalidArgument(
                f"order={brief(order)} of {name}, of {rank} dimension{'' if rank == 1 else 's'}",
                required='None, "rising" or "strict"; or of one dimension ("strict", pos), where pos is another input, '
                "of integers, of one dimension too, and not itself ordered between others",
            )


Body: TypeAlias = Tensor | Results | SeveralLike
"""What the body of a program is: a tensor, or several results."""


class SizeAnnotation:
    """In the signature of an `@atl.program`, a parameter that is a size of its own: `k: atl.Size`."""


@overload
def program(name: Callable[..., Body], /) -> Program: ...
@overload
def program(*, given: Sequence[Any] = ...) -> Callable[[Callable[..., Body]], Program]: ...
@overload
def program(name: str, inputs: Sequence[Tensor], body: Any, /, *, given: Sequence[Any] = ...) -> Program: ...
def program(
    name: str | Callable[..., Body] | None = None,
    inputs: Sequence[Tensor] | None = None,
    body: Any = None,
    /,
    *,
    given: Sequence[Any] = (),
) -> Program | Callable[[Callable[..., Body]], Program]:
    """A program: `atl.program("matmul", [A, B], body)`, or a decorator of a function whose annotations declare inputs.

    `given` are conditions on sizes, assumed by proofs and checked by each call. The program is checked for
    well-formedness here: equal shapes where they must be, ranges that do not run backwards, positive divisors and tile
    sizes. Several results are a tuple or a dictionary of tensors, or what `results` makes.

    Raises `ShapeError`, `ExtentError`, `EscapedIndex`, `ContradictoryAssumptions`, each with the place in the program.

    >>> import atl
    >>> @atl.program
    ... def double(x: atl.Tensor["n"]):
    ...     return 2 * x
    >>> double.sizes
    ('n',)
    """
    if name is None:
        return lambda function: _from_function(function, given)
    if callable(name):
        return _from_function(name, given)
    if inputs is None or body is None:
        raise InvalidArgument("a program lacks its inputs or its body", required='atl.program("name", [A, B], body)')
    declared: list[Array] = []
    if not isinstance(inputs, list | tuple):
        raise InvalidArgument(
            f"the inputs are {brief(inputs)}",
            required='a list of tensors declared by atl.tensor(…): atl.program("name", [A, B], body)',
        )
    for item in inputs:
        node = item.node if isinstance(item, Tensor) else None
        if not isinstance(node, Input):
            raise InvalidArgument(f"{brief(item)} is not an input", required="tensors declared by atl.tensor(…)")
        declared.append(node.array)
    return _made(checked_name(name, "a program"), tuple(declared), body, given)


def _made(name: str, inputs: tuple[Array, ...], body: Any, given: Sequence[Any]) -> Program:
    several = several_in(body)
    if several is None:
        return make_program(name, inputs, as_tensor(body).node, stated(given))
    return make_program(name, inputs, several.tensor.node, stated(given), several.each)


def _from_function(function: Callable[..., Body], given: Sequence[Any]) -> Program:
    try:
        annotations = inspect.get_annotations(function, eval_str=True)
        parameters = inspect.signature(function).parameters
        checked_name(getattr(function, "__name__", None), "a program")
    except (TypeError, ValueError, NameError) as error:
        if isinstance(error, ATLError):
            raise
        raise InvalidArgument(
            f"{brief(function)} cannot be read as a program: {error}",
            required="a function written in Python, whose annotations have a meaning where it stands",
        ) from None
    arguments: list[Tensor | IndexExpr] = []
    for parameter, declared_as in parameters.items():
        if declared_as.kind in (declared_as.VAR_POSITIONAL, declared_as.VAR_KEYWORD):
            raise InvalidArgument(
                f"{function.__name__} collects its arguments in *{parameter}",
                required="a parameter of its own for each input",
            )
        match annotations.get(parameter):
            case TensorSpec() as spec:
                shape = (IndexExpr(extent_written(text)) for text in spec.extents)
                arguments.append(tensor(parameter, *shape, dtype=spec.dtype))
            case annotation if annotation is SizeAnnotation:
                arguments.append(IndexExpr(index(Size(checked_name(parameter, "a size")))))
            case Tensor(node=Input()) as declared:
                arguments.append(declared)
            case annotation:
                raise InvalidArgument(
                    f"the parameter {parameter} of {function.__name__} has the annotation {brief(annotation)}",
                    required='atl.Tensor["n k", "float64"] for an input, atl.Size for a size',
                )
    body = function(*arguments)
    inputs = tuple(a.node.array for a in arguments if isinstance(a, Tensor) and isinstance(a.node, Input))
    return _made(function.__name__, inputs, body, given)


def stated(given: Sequence[Any]) -> list[Predicate]:
    """The conditions that a program is given, as predicates."""
    if isinstance(given, Condition):
        raise InvalidArgument(
            f"given={given!r}", required="a list of conditions", suggestions=(f"write given=[{given!r}]",)
        )
    try:
        conditions = iter(given)
    except (TypeError, ATLError):
        raise InvalidArgument(f"given={brief(given)}", required="a list of conditions: given=[n > 0]") from None
    found = list(conditions)
    for condition in found:
        if condition is False:
            # A true one says nothing, and may well come of `rows >= 1` where rows is a number.
            raise InvalidArgument(
                "given=[False] holds for no sizes: Python has decided this condition already",
                required="comparisons of sizes: given=[n > 0]",
            )
    return [as_predicate(condition) for condition in found]
