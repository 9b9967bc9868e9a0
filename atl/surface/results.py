"""Programs with several results: `atl.results`, and tuples or dictionaries in its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from atl.core.dtypes import results_dtype
from atl.core.index import ONE, ZERO
from atl.core.program import Result
from atl.core.substitution import agree, strengthen
from atl.core.terms import Cast, Concat, Expr, Flatten, Gen, Reshape
from atl.errors import InvalidArgument
from atl.surface.declarations import checked_name
from atl.surface.values import Tensor, TensorLike, as_tensor, located
from atl.text.latex import formula

ResultsLike: TypeAlias = tuple[TensorLike, ...] | Mapping[str, TensorLike]


@dataclass(frozen=True, slots=True)
class Results:
    """Several results: their names and shapes, and the tensor of all their elements."""

    each: tuple[Result, ...]
    tensor: Tensor

    def within(self, around: Callable[[Tensor], Tensor]) -> Results:
        """Wrap the tensor of all elements, for example in a let."""
        return Results(self.each, around(self.tensor))

    def _repr_latex_(self) -> str | None:
        return formula(self.tensor.node)

    def __repr__(self) -> str:
        return f"({', '.join(f'{each.name} : {list(each.shape)}' for each in self.each)}) of {self.tensor!r}"


def results(*tensors: TensorLike, **named: TensorLike) -> Results:
    """Return several results for one program, by position or by name: `atl.results(mean=m, centred=x - m)`.

    The body of the program has one dimension: the elements of the first result in row-major order, then those of the
    next. Rewriting and compiling treat it like any other body. Evaluation and calls return the results under their
    names, as views of one array. The names of positional results are r0, r1, …. An `atl.let` around the results
    computes a common subterm once. A tuple or a dictionary may replace `atl.results`.

    If their element types differ, the body has a type that holds all of their values exactly, except for int64 together
    with floats. Then the body has float64, `atl.evaluate` refuses numbers that it would round, and a kernel computes
    each result in its own type. Each result has its own type. Raises `InvalidArgument` and `InvalidName`.

    >>> import atl, numpy as np
    >>> n = atl.sizes("n", min=1)
    >>> x = atl.tensor("x", n, dtype="float64")
    >>> mean = atl.sum(n, lambda i: x[i]) / atl.value(n)
    >>> p = atl.program("centre", [x], atl.let(mean, lambda m: atl.results(mean=m, centred=x - m)))
    >>> p
    centre (x : float64[n]) : (mean : float64, centred : float64[n])
        given 1 <= n :=
      let m := (Σ[i < n] x[i]) / value(n) in
      (⊞[i < 1] m) ++ ⊞[i < n] x[i] - m
    >>> atl.evaluate(p, np.array([1.0, 2.0, 6.0]))
    Results(mean=array(3.), centred=array([-2., -1.,  3.]))
    """
    given = {**{f"r{at}": each for at, each in enumerate(tensors)}, **named}
    if len(given) < len(tensors) + len(named):
        raise InvalidArgument(
            f"two results are named {next(name for name in named if name in given)}",
            required="distinct names, different from r0, r1, … of positional results",
        )
    return _of(given)


def results_in(body: object) -> Results | None:
    """Return the results for a body that is a tuple, a dictionary or `Results`; None for any other body."""
    match body:
        case Results():
            return body
        case tuple() if body:
            names = getattr(body, "_fields", None)
            return results(*body) if names is None else _of(dict(zip(names, body, strict=True)))
        case dict() if body:
            return _of(body)
        case _:
            return None


def joined(parts: Sequence[Expr]) -> Tensor:
    """Concatenate the parts along the first dimension."""
    out, *rest = agree(*parts)
    for part in rest:
        out = located(Concat(out, part))
    return Tensor(out)


def _of(given: Mapping[str, TensorLike]) -> Results:
    if not given:
        raise InvalidArgument("a program has no results", required="at least one tensor: atl.results(a, b)")
    tensors = {checked_name(name, "a result"): as_tensor(value) for name, value in given.items()}
    kinds = {name: tensor.dtype for name, tensor in tensors.items() if tensor.dtype is not None}
    if len(set(kinds.values())) < 2:
        each = tuple(Result(name, tensor.node.type.shape) for name, tensor in tensors.items())
        return Results(each, joined([_row_of(tensor.node) for tensor in tensors.values()]))
    common = results_dtype(kinds.values())
    assert common is not None
    each = tuple(Result(name, tensor.node.type.shape, kinds.get(name, common)) for name, tensor in tensors.items())
    return Results(each, joined([_row_of(_in_type(tensor.node, common)) for tensor in tensors.values()]))


def _in_type(node: Expr, dtype: str) -> Expr:
    """Convert a tensor to an element type that holds its values."""
    if node.type.dtype is None:
        return strengthen(node, dtype)
    return node if node.type.dtype == dtype else located(Cast(dtype, node))


def _row_of(node: Expr) -> Expr:
    """Flatten a tensor to one dimension, in row-major order."""
    if not node.type.rank:
        return located(Gen(ZERO, ONE, node))
    while node.type.rank > 1:
        node = located(Reshape(Flatten(), node))
    return node
