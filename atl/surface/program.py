"""Declaration of inputs and programs, by calls or by decorated functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, TypeAlias, overload

from atl.checks.wellformed import make_program
from atl.core import dtypes
from atl.core.index import Array, Index, Monotonicity, Size, index, missing_for_after
from atl.core.predicate import Predicate
from atl.core.program import Program, bool_array
from atl.core.terms import Input
from atl.errors import ATLError, InvalidArgument, brief
from atl.surface.declarations import TensorSpec, checked_name, parse_extent
from atl.surface.results import Results, ResultsLike, results_in
from atl.surface.values import Condition, IndexExpr, Tensor, as_index, as_predicate, as_tensor


def tensor(
    name: str,
    *shape: IndexExpr | Index | int | EllipsisType,
    dtype: str = dtypes.DEFAULT,
    range: tuple[Any, Any] | None = None,  # noqa: A002 (the public API name)
    monotonic: str | tuple[str, Tensor] | tuple[str, str, Tensor] | None = None,
) -> Tensor:
    """Declare an input tensor with a name, a shape and an element type. Without extents, it is a scalar.

    Three facts can be declared for an integer array. The prover uses them, and each call checks them:

    - `range=(lo, hi)`: lo <= element < hi.
    - `monotonic="nondecreasing"` or `"increasing"`: the elements are in this order along the last dimension.
    - `monotonic=("increasing", pos)`: each segment from pos[r] to pos[r + 1] - 1 of a one-dimensional array is in this
      order. `pos` is another one-dimensional integer input.
    - `monotonic=("increasing", "after", row)`: the pairs (row[p], element[p]) are in lexicographic order. `row` is
      another ordered input of the same one-dimensional shape and type. It may be ordered after a third one.

    The elements of an input of `dtype="bool"` are read in conditions only.

    With `...` after the extents, the elements may be tensors of any rank. The program treats them as numbers. A call
    passes arrays with further dimensions, which the result has too (`Program.at_rank`).

    >>> import atl
    >>> n, m = atl.sizes("n m")
    >>> A = atl.tensor("A", n, m, dtype="float64")
    >>> A[0].shape
    (m,)
    >>> pos = atl.tensor("pos", n + 1, dtype="int32", range=(0, m + 1), monotonic="nondecreasing")
    >>> atl.tensor("crd", m, dtype="int32", monotonic=("increasing", pos)).shape
    (m,)
    >>> row = atl.tensor("row", m, dtype="int32", monotonic="nondecreasing")
    >>> atl.tensor("column", m, dtype="int32", monotonic=("increasing", "after", row)).shape
    (m,)
    """
    trailing = bool(shape) and shape[-1] is ...
    extents = tuple(as_index(extent) for extent in (shape[:-1] if trailing else shape))
    return Tensor(Input(_array(name, extents, dtype, range, monotonic, trailing=trailing)))


def _array(
    name: str,
    shape: tuple[Index, ...],
    dtype: str,
    bounds: tuple[Any, Any] | None,
    declared: object,
    *,
    trailing: bool,
) -> Array:
    checked_name(name, "an input")
    kind = dtypes.checked_dtype(dtype)
    if (bounds is not None or declared is not None) and kind not in dtypes.INTEGERS:
        raise InvalidArgument(
            f"range= and monotonic= are for integers, but the elements of {name} are {kind}",
            required="an array of int32 or int64",
            suggestions=('declare it with dtype="int32" or "int64"',),
        )
    monotonic, between, after = _monotonicity(name, kind, shape, declared)
    if bounds is not None and (not isinstance(bounds, tuple) or len(bounds) != 2):
        raise InvalidArgument(f"range={brief(bounds)}", required="a pair (lo, hi), meaning lo <= element < hi")
    for extent in shape:
        value = extent.constant
        if value is not None and value < 0:
            raise InvalidArgument(f"an extent of {name} is {value}", required="a non-negative size")
    if trailing and (kind == dtypes.BOOL or declared is not None):
        raise InvalidArgument(
            f"{name} has trailing dimensions, and {'truth values' if kind == dtypes.BOOL else 'an order'}",
            required="`...` after the extents of an input of numbers without monotonic=",
        )
    if kind == dtypes.BOOL:
        return bool_array(name, shape)
    low, high = (as_index(bounds[0]), as_index(bounds[1])) if bounds is not None else (None, None)
    return Array(name, shape, kind, low, high, monotonic, between, trailing, after)


def _monotonicity(
    name: str, dtype: str, shape: tuple[Index, ...], declared: object
) -> tuple[Monotonicity, Array | None, Array | None]:
    """Return the declared order, and the array with the bounds of its segments or the array that it follows, if any."""
    rank = len(shape)
    match declared:
        case None:
            return "", None, None
        case ("nondecreasing" | "increasing") as monotonic:
            return monotonic, None, None
        case (("nondecreasing" | "increasing") as monotonic, "after", Tensor(node=Input(after))):
            if (missing := missing_for_after(shape, dtype, after)) is not None:
                raise InvalidArgument(f"{name} cannot be ordered after {after.name}", required=missing)
            return monotonic, None, after
        case (("nondecreasing" | "increasing") as monotonic, Tensor(node=Input(between))) if (
            rank == len(between.shape) == 1
            and between.dtype in dtypes.INTEGERS
            and not (between.between or between.after)
        ):
            return monotonic, between, None
        case _:
            raise InvalidArgument(
                f"invalid monotonic={brief(declared)} for {name}, which has {rank} dimension{'' if rank == 1 else 's'}",
                required='None, "nondecreasing" or "increasing"; for a one-dimensional array also ("increasing", pos), '
                "where pos is another one-dimensional input of integers that is not itself ordered in segments, or "
                '("increasing", "after", row), where row is an ordered input of the same shape and type',
            )


Body: TypeAlias = Tensor | Results | ResultsLike
"""Body of a program: a tensor, or several results."""


@dataclass(frozen=True, slots=True)
class SizeAnnotation:
    """Annotation `k: atl.Size` for a parameter of an `@atl.program` that is a size."""


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
    """Make a program: `atl.program("matmul", [A, B], body)`, or decorate a function whose annotations declare inputs.

    `given` are conditions on sizes, which proofs assume and every call checks. The program is checked for
    well-formedness: equal shapes where required, ranges that do not run backwards, positive divisors and tile sizes.
    A body with several results is a tuple or a dictionary of tensors, or a value of `results`.

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
        raise InvalidArgument("missing inputs or body of a program", required='atl.program("name", [A, B], body)')
    declared: list[Array] = []
    if not isinstance(inputs, list | tuple):
        raise InvalidArgument(
            f"inputs must be a list of tensors, got {brief(inputs)}",
            required='tensors declared by atl.tensor(…): atl.program("name", [A, B], body)',
        )
    for item in inputs:
        node = item.node if isinstance(item, Tensor) else None
        if not isinstance(node, Input):
            raise InvalidArgument(f"{brief(item)} is not an input", required="tensors declared by atl.tensor(…)")
        declared.append(node.array)
    return _checked_program(checked_name(name, "a program"), tuple(declared), body, given)


def _checked_program(name: str, inputs: tuple[Array, ...], body: Any, given: Sequence[Any]) -> Program:
    several = results_in(body)
    if several is None:
        return make_program(name, inputs, as_tensor(body).node, as_predicates(given))
    return make_program(name, inputs, several.tensor.node, as_predicates(given), several.each)


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
            required="a Python function with annotations that can be evaluated",
        ) from None
    arguments: list[Tensor | IndexExpr] = []
    for parameter, declared_as in parameters.items():
        if declared_as.kind in (declared_as.VAR_POSITIONAL, declared_as.VAR_KEYWORD):
            raise InvalidArgument(
                f"{function.__name__} has the variadic parameter *{parameter}",
                required="one parameter for each input",
            )
        match annotations.get(parameter):
            case TensorSpec() as spec:
                last = len(spec.extents) - 1
                shape = (
                    ... if text == "..." and at == last else IndexExpr(parse_extent(text))
                    for at, text in enumerate(spec.extents)
                )
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
    return _checked_program(function.__name__, inputs, body, given)


def as_predicates(given: Sequence[Any]) -> list[Predicate]:
    """Return the conditions of `given=` as predicates. Raises `InvalidArgument`."""
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
            # A condition that is True is harmless: it may come from `rows >= 1` where rows is a number.
            raise InvalidArgument(
                "given=[False] holds for no sizes: Python has evaluated a condition to False",
                required="comparisons of sizes: given=[n > 0]",
            )
    return [as_predicate(condition) for condition in found]
