"""Operators for writing programs. Each docstring gives the law and the shape of the result."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from itertools import pairwise
from types import FunctionType
from typing import Any, overload
from typing import cast as cast_to

from atl.core import dtypes, terms
from atl.core.index import Index, Size, Var, index
from atl.core.index import ceildiv as ceiling
from atl.core.index import imax as greatest
from atl.core.index import imin as least
from atl.core.marks import LoopMark
from atl.core.node import refuse_runaway_recursion
from atl.core.operations import UnaryOp
from atl.core.predicate import conjunction, equal
from atl.core.substitution import agree, close, close_tensor, fresh_uid, strengthen
from atl.errors import InvalidArgument, InvalidName, RankError, ShapeError, Source, brief
from atl.surface import numpy_forms
from atl.surface.declarations import checked_name
from atl.surface.results import Results, ResultsLike, joined, results_in
from atl.surface.values import (
    Binder,
    Condition,
    IndexExpr,
    IndexLike,
    Tensor,
    TensorLike,
    arithmetic,
    as_index,
    as_predicate,
    as_tensor,
    choice,
    located,
)

Range = IndexLike | tuple[IndexLike, IndexLike]


def sizes(names: str, *, min: int = 0) -> Any:  # noqa: A002 (the public API name)
    """Declare symbolic sizes of at least `min`. Returns one `IndexExpr` for one name, or a tuple for several names.

    The name identifies a size: every `atl.sizes("n")` denotes the same size. `min` becomes an assumption of the
    programs that use this size, and each call of a kernel checks it.

    >>> import atl
    >>> n, m = atl.sizes("n m")
    >>> k = atl.sizes("k", min=1)
    """
    if not isinstance(names, str) or not names.split():
        raise InvalidArgument(
            f"{brief(names)} does not name sizes", required='names separated by spaces: atl.sizes("n m")'
        )
    if isinstance(min, bool) or not isinstance(min, int) or min < 0:
        raise InvalidArgument(f"min={brief(min)}", required="a non-negative integer")
    if "," in names:
        spaced = " ".join(names.replace(",", " ").split())
        raise InvalidName(
            f"{brief(names)} contains commas",
            required="names separated by spaces",
            suggestions=(f'write atl.sizes("{spaced}")',),
        )
    made = tuple(IndexExpr(index(Size(checked_name(name, "a size"), min))) for name in names.split())
    return made[0] if len(made) == 1 else made


# -- binders ----------------------------------------------------------------------------------------------------------


def gen(*arguments: Range | Binder) -> Tensor:
    """Return the tensor with element body(i) at i: `gen(n, body)`, `gen((lo, hi), body)`, `gen(n, m, body)`.

    Shape: the extents, then the body's shape. For a range (lo, hi), the element at position p is body(lo + p), and
    lo <= hi must be provable. Source: Fig. 3.2.

    >>> import atl
    >>> n = atl.sizes("n")
    >>> atl.gen(n, lambda i: 2.0).shape
    (n,)
    """
    return _bind(terms.Gen, "gen", arguments)


def sum(*arguments: Range | Binder, accumulate: str | None = None) -> Tensor:  # noqa: A001 (the public API name)
    """Return the sum of body(i): `sum(n, body)`, `sum((lo, hi), body)`, `sum(n, m, body)`.

    For an empty range the result is padding. Shape: the body's. Source: Fig. 3.2, Fig. 5.3.

    With `accumulate`, a float type with more digits, the operands of additions and multiplications in a term are
    converted to it, terms are computed and added in it, and the sum is rounded once to the type of the terms. In real
    numbers it is the same sum. Raises `InvalidArgument` for another type.

    >>> import atl
    >>> n = atl.sizes("n")
    >>> x, y = atl.tensor("x", n), atl.tensor("y", n)
    >>> atl.program("dot", [x, y], atl.sum(n, lambda i: x[i] * y[i], accumulate="float64"))
    dot (x : float32[n], y : float32[n]) : float32 :=
      cast(float32, Σ[i < n] cast(float64, x[i]) * cast(float64, y[i]))
    """
    if accumulate is None:
        return _bind(_reducer("sum"), "sum", arguments)
    wide, found = dtypes.checked_dtype(accumulate), list[str]()
    if wide not in dtypes.FLOATS:
        raise _no_more_digits(wide, None)

    def converted(body: Binder) -> Binder:
        def term(*at: IndexExpr) -> Tensor:
            e = as_tensor(body(*at))
            made = e if e.dtype is not None else Tensor(strengthen(e.node, dtypes.DEFAULT))
            assert made.dtype is not None
            found.append(made.dtype)
            return Tensor(_computed_in(wide, made.node))

        term.__signature__ = inspect.signature(body)  # type: ignore[attr-defined]
        return cast_to(Binder, term)

    last = arguments[-1] if arguments else None
    total = _bind(_reducer("sum"), "sum", (*arguments[:-1], converted(last)) if callable(last) else arguments)
    narrow = found[0]
    if not dtypes.is_float(narrow) or dtypes.TYPES[wide].epsilon >= dtypes.TYPES[narrow].epsilon:
        raise _no_more_digits(wide, narrow)
    return cast(narrow, total)


def _no_more_digits(wide: str, narrow: str | None) -> InvalidArgument:
    return InvalidArgument(
        f"accumulate={wide}" + (f" for a sum of {narrow}" if narrow else ""),
        required="a float type with more digits than that of the terms: float64 for float32",
    )


def _computed_in(dtype: str, e: terms.Expr) -> terms.Expr:
    """Return the term with its additions and multiplications in this element type."""
    if isinstance(e, terms.Binary) and e.op in ("add", "sub", "mul"):
        return located(terms.Binary(e.op, _computed_in(dtype, e.left), _computed_in(dtype, e.right)))
    if isinstance(e, terms.Unary) and e.op == "neg":
        return located(terms.Unary("neg", _computed_in(dtype, e.operand)))
    if isinstance(e, terms.Constant):
        return terms.Constant(e.value, dtype)
    return strengthen(e, dtype) if e.type.dtype is None else located(terms.Cast(dtype, e))


def reduce(monoid: terms.Monoid, *arguments: Range | Binder) -> Tensor:
    """Reduce body(i) by a commutative monoid: "sum", "product", "max" or "min". The arguments are those of `sum`.

    The reduction starts at the neutral element. For an empty range the result is padding, which reads as zero.
    """
    if not isinstance(monoid, str) or monoid not in terms.MONOIDS:
        raise InvalidArgument(f"unknown monoid {brief(monoid)}", required=f"one of {', '.join(terms.MONOIDS)}")
    return _bind(_reducer(monoid), "reduce", arguments)


Make = Callable[[Index, Index, terms.Expr, str], terms.Expr]


def _reducer(monoid: terms.Monoid) -> Make:
    return lambda low, high, body, name: terms.Reduce(monoid, low, high, body, name)


@refuse_runaway_recursion
def _bind(make: Make, what: str, arguments: tuple[Range | Binder, ...]) -> Tensor:
    if len(arguments) < 2 or not callable(arguments[-1]):
        raise InvalidArgument(
            f"{what} needs one or more extents, then a function of as many indices",
            required=f"for example atl.{what}(n, lambda i: …)",
        )
    *ranges, function = arguments
    body = cast_to(Binder, function)
    bounds = [_bounds(what, range_) for range_ in ranges]
    names = parameter_names(body, len(bounds), what)
    variables = [Var(next(fresh_uid), name) for name in names]
    result = as_tensor(body(*(IndexExpr(index(variable)) for variable in variables)))
    node = result.node
    source = Source.caller()
    for (low, high), variable, name in reversed(list(zip(bounds, variables, names, strict=True))):
        node = make(low, high, close(node, variable), name)
        object.__setattr__(node, "source", source)
    return Tensor(node)


def _bounds(what: str, range_: object) -> tuple[Index, Index]:
    if isinstance(range_, tuple):
        if len(range_) != 2:
            raise InvalidArgument(f"{what} over {brief(range_)}", required="an extent n, or a pair (lo, hi)")
        return as_index(range_[0]), as_index(range_[1])
    return index(0), as_index(range_)


def parameter_names(function: Binder, wanted: int, what: str, spare_names: str = "ijklpqrstuvw") -> list[str]:
    """Return the names of a function's index parameters; for variadic parameters the names are i, j, k, …"""
    plain, required, _, _ = parameters(function)
    if not takes(function, wanted):
        raise InvalidArgument(
            f"{what} over {wanted} range{'s' if wanted > 1 else ''} got a function of {required} "
            f"parameter{'' if required == 1 else 's'}",
            required=f"a function of {wanted} parameter{'s' if wanted > 1 else ''}, one for each range",
        )
    spare = (name for name in spare_names if name not in plain)
    names = plain[:wanted]
    while len(names) < wanted:
        names.append(next(spare, "i"))
    return [name if name.isascii() and name.strip("_") else "i" for name in names]


def takes(function: Binder, count: int) -> bool:
    """Return whether a function can be called with this number of positional arguments."""
    plain, required, by_name, is_variadic = parameters(function)
    return not by_name and required <= count and (len(plain) >= count or is_variadic)


def parameters(function: Binder) -> tuple[list[str], int, bool, bool]:
    """Return a function's positional parameters and the number of required ones among them.

    Two flags follow: the function requires keyword arguments, and the function has variadic positional parameters.
    """
    if type(function) is FunctionType and not function.__dict__:
        # Fast path: the same as `inspect.signature` at a tenth of the cost, because rules call this very often.
        code, count = function.__code__, function.__code__.co_argcount
        named = code.co_varnames[count : count + code.co_kwonlyargcount]
        by_name = any(name not in (function.__kwdefaults__ or {}) for name in named)
        required = count - len(function.__defaults__ or ())
        return list(code.co_varnames[:count]), required, by_name, bool(code.co_flags & inspect.CO_VARARGS)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return [], 0, False, True  # a builtin without a signature
    plain = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return (
        [p.name for p in plain],
        len([p for p in plain if p.default is p.empty]),
        any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters),
        any(p.kind is p.VAR_POSITIONAL for p in parameters),
    )


def guard(condition: Condition | Tensor | bool, e: TensorLike) -> Tensor:
    """Return [p] . e: e where the condition holds, else padding of e's shape, which reads as zero.

    e is not evaluated where the condition is false, so that a guard makes an access safe. Source: Fig. 3.2, Fig. 5.3.
    """
    return Tensor(located(terms.Guard(as_predicate(condition), as_tensor(e).node)))


@overload
def let(e: TensorLike, body: Callable[[Tensor], TensorLike], *, name: str | None = ...) -> Tensor: ...
@overload
def let(e: TensorLike, body: Callable[[Tensor], Results | ResultsLike], *, name: str | None = ...) -> Results: ...
@refuse_runaway_recursion
def let(
    e: TensorLike, body: Callable[[Tensor], TensorLike | Results | ResultsLike], *, name: str | None = None
) -> Tensor | Results:
    """Return let name := e in body(name). The meaning is body(e); a kernel computes e once and stores it in a buffer.

    The default name is that of the function's parameter. If the body has several results, in a form that `results`
    accepts, so has the let. Source: Fig. 3.2.
    """
    if not callable(body):
        raise InvalidArgument("let needs a function of the bound tensor", required="atl.let(e, lambda x: …)")
    (called,) = parameter_names(body, 1, "let")
    chosen = called if name is None else checked_name(name, "a let")
    value = as_tensor(e)
    node = value.node if value.dtype is not None else strengthen(value.node, dtypes.DEFAULT)
    variable = terms.TensorVar(next(fresh_uid), chosen, node.type)

    def bound(inside: Tensor) -> Tensor:
        return Tensor(located(terms.Let(node, close_tensor(inside.node, variable), chosen)))

    made = body(Tensor(variable))
    several = results_in(made)
    return bound(as_tensor(made)) if several is None else several.within(bound)


# -- reshape operators (Fig. 4.3) -------------------------------------------------------------------------------------


def concat(first: TensorLike, *others: TensorLike) -> Tensor:
    """Concatenate the operands along the first dimension. Shape: (n + m + …, rest). Source: Fig. 4.3."""
    return joined([as_tensor(part).node for part in (first, *others)])


def _reshape(op: terms.ReshapeOp, e: TensorLike) -> Tensor:
    return Tensor(located(terms.Reshape(op, as_tensor(e).node)))


def transpose(e: TensorLike) -> Tensor:
    """Exchange the first two dimensions: transpose(e)[i, j] = e[j, i].

    Shape: (m, n, rest) for (n, m, rest). Source: Fig. 4.3.
    """
    return _reshape(terms.Transpose(), e)


def flatten(e: TensorLike) -> Tensor:
    """Join the first two dimensions: flatten(e)[i*m + j] = e[i, j].

    Shape: (n*m, rest) for (n, m, rest). Source: Fig. 4.3.
    """
    return _reshape(terms.Flatten(), e)


def split(k: IndexLike, e: TensorLike) -> Tensor:
    """Split the first dimension into rows of k > 0 elements.

    split(k, e)[i, j] = e[i*k + j] if i*k + j < n, else padding.
    Shape: (⌈n/k⌉, k, rest). Source: Fig. 4.3.
    """
    return _reshape(terms.Split(as_index(k)), e)


def padl(k: IndexLike, e: TensorLike) -> Tensor:
    """Add k >= 0 elements of padding before the first element. Shape: (n + k, rest). Source: Fig. 4.3."""
    return _reshape(terms.PadLeft(as_index(k)), e)


def padr(k: IndexLike, e: TensorLike) -> Tensor:
    """Add k >= 0 elements of padding after the last element. Shape: (n + k, rest). Source: Fig. 4.3."""
    return _reshape(terms.PadRight(as_index(k)), e)


def truncl(k: IndexLike, e: TensorLike) -> Tensor:
    """Drop the first k elements, 0 <= k <= n. Shape: (n - k, rest). Source: Fig. 5.3 (drop, erratum E3)."""
    return _reshape(terms.TruncateLeft(as_index(k)), e)


def truncr(k: IndexLike, e: TensorLike) -> Tensor:
    """Drop the last k elements, 0 <= k <= n. Shape: (n - k, rest). Source: Fig. 5.3 (drop, erratum E3)."""
    return _reshape(terms.TruncateRight(as_index(k)), e)


def place(n: IndexLike, i: IndexLike, e: TensorLike) -> Tensor:
    """Place e at position i of a new dimension: place(n, i, e)[k] = e if k = i, else padding; 0 <= i < n.

    Placement is the adjoint of an access. A kernel stores e at i, and nothing elsewhere. The range of i must be
    provable (`ExtentError`), for example from a guard around the placement. Shape: (n, shape of e).
    Source: §7.2.1, E16.

    >>> import atl
    >>> n = atl.sizes("n", min=3)
    >>> atl.evaluate(atl.program("one_hot", [], atl.place(n, 2, 1)), n=4)
    array([0., 0., 1., 0.], dtype=float32)
    """
    return _reshape(terms.Place(as_index(n), as_index(i)), e)


# -- sparse placement (§7.2) ------------------------------------------------------------------------------------------


@refuse_runaway_recursion
def scatter(
    n: IndexLike, range_: Range, at: Callable[[IndexExpr], IndexLike], e: Callable[[IndexExpr], TensorLike]
) -> Tensor:
    """Return the sum over p of place(n, at(p), e(p)), which adds each e(p) at position at(p). Shape: (n, shape of e).

    Positions may repeat; positions without a term are padding. `range_` is an extent or a pair (lo, hi). Every position
    must be provably in range, as for `place`. A guard excludes terms: `sum(m, lambda p: guard(q, place(n, …)))`.
    Raises `InvalidArgument` if `at` or `e` is not a function of one index. Source: Fig. 7.3, E16.

    >>> import atl
    >>> n, k = atl.sizes("n k")
    >>> x = atl.tensor("x", n, dtype="int64", range=(0, k))
    >>> histogram = atl.program("histogram", [x], atl.scatter(k, n, lambda i: x[i], lambda i: atl.cast("int64", 1)))
    >>> histogram
    histogram (x : int64[n] in [0, k)) : int64[k] :=
      Σ[i < n] place k x[i] 1
    >>> atl.evaluate(histogram, [2, 0, 2], k=4)
    array([1, 0, 2, 0])
    """
    for function in (at, e):
        if not callable(function):
            raise InvalidArgument(
                "scatter needs an extent, a range, and two functions of an index that return a position and a tensor",
                required="atl.scatter(n, m, lambda p: …, lambda p: …)",
            )
    parameter_names(cast_to(Binder, at), 1, "scatter")
    name = parameter_names(cast_to(Binder, e), 1, "scatter")[0]
    low, high = _bounds("scatter", range_)
    variable = Var(next(fresh_uid), name)
    p = IndexExpr(index(variable))
    term = place(n, at(p), e(p)).node
    return Tensor(located(terms.Reduce("sum", low, high, close(term, variable), name)))


@refuse_runaway_recursion
def coiter(
    fingers: Sequence[tuple[TensorLike, IndexLike, IndexLike]],
    when: Callable[..., Condition | Tensor | bool],
    body: Callable[..., TensorLike],
) -> Tensor:
    """Co-iterate: sum body(p, q, …) over positions p, q, … with equal coordinates at which when(p, q, …) holds.

    Each finger (c, lo, hi) is an integer array c with coordinates at the positions lo <= p < hi. The result of
    coiter([(c, l, h), (d, m, n)], when, e) is Σ[l <= p < h] Σ[m <= q < n] [c[p] = d[q] and when(p, q)] · e(p, q), with
    the mark `merge` on the sums. A kernel merges all coordinate arrays in one pass. The arrays must be declared sorted
    (`monotonic=` of `tensor`), and all but one of them increasing. Shape: the body's.

    Raises `InvalidArgument` for fewer than two fingers, and for functions with another number of positions.
    Source: §7.2, RWCOIT, E17.

    >>> import atl
    >>> n, m = atl.sizes("n m")
    >>> c, d = (atl.tensor(name, size, dtype="int32", monotonic="increasing") for name, size in (("c", n), ("d", m)))
    >>> x, y = atl.tensor("x", n), atl.tensor("y", m)
    >>> dot = atl.coiter([(c, 0, n), (d, 0, m)], lambda p, q: True, lambda p, q: x[p] * y[q])
    >>> atl.program("dot", [c, x, d, y], dot)
    dot (c : int32[n] strict, x : float32[n], d : int32[m] strict, y : float32[m]) : float32 :=
      Σ[p < n | merge] Σ[q < m | merge] [c[p] = d[q]] · x[p] * y[q]
    """
    wanted = "atl.coiter([(c, lo, hi), (d, lo, hi)], lambda p, q: True, lambda p, q: x[p] * y[q])"
    if not isinstance(fingers, list | tuple) or len(fingers) < 2 or not callable(when) or not callable(body):
        raise InvalidArgument("coiter needs two or more fingers, a condition and a body", required=wanted)
    for finger in fingers:
        if not isinstance(finger, tuple) or len(finger) != 3:
            raise InvalidArgument(f"invalid finger {brief(finger)}", required=f"(coordinates, lo, hi): {wanted}")
    parameter_names(cast_to(Binder, when), len(fingers), "coiter")
    names = parameter_names(cast_to(Binder, body), len(fingers), "coiter")
    variables = [Var(next(fresh_uid), name) for name in names]
    at = [IndexExpr(index(variable)) for variable in variables]
    coordinates = [as_index(as_tensor(row)[position]) for (row, _, _), position in zip(fingers, at, strict=True)]
    together = conjunction((*(equal(a, b) for a, b in pairwise(coordinates)), as_predicate(when(*at))))
    node: terms.Expr = terms.Guard(together, as_tensor(body(*at)).node)
    for (_, low, high), variable, name in reversed(list(zip(fingers, variables, names, strict=True))):
        node = located(
            terms.Reduce("sum", as_index(low), as_index(high), close(node, variable), name, mark=LoopMark.MERGE)
        )
    return Tensor(node)


def shear(e: TensorLike) -> Tensor:
    """Return the diagonals of a matrix as rows: row d contains the elements at [i, j] with j - i = d - (n - 1).

    shear(e)[d, r] = e[s(d) + r, s(d) + r + d - (n - 1)] if this column exists, else padding. The first row of
    diagonal d is s(d) = max(0, n - D - max(0, d - D + 1)), where D = min(n, m).
    Shape: (max(0, n + m - 1), min(n, m), rest) for (n, m, rest). Raises `RankError` for fewer than two dimensions.
    Source: §7.2.2, E6.

    >>> import atl, numpy as np
    >>> A = atl.tensor("A", *atl.sizes("n m"), dtype="float64")
    >>> atl.evaluate(atl.program("diagonals", [A], atl.shear(A)), np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[0., 3.],
           [1., 4.],
           [2., 0.]])
    """
    matrix = _with_two_dimensions("shear", e)
    n, m, *_ = matrix.shape

    def diagonal(d: IndexExpr, r: IndexExpr) -> Tensor:
        row = _first_row(n, m, d) + r
        column = row + d - (n - 1)
        return guard((column >= 0) & (column < m), matrix[row, column])

    return gen(imax(0, n + m - 1), imin(n, m), diagonal)


def unshear(n: IndexLike, m: IndexLike, e: TensorLike) -> Tensor:
    """Return the n × m matrix whose diagonals are the rows of e: unshear(n, m, shear(t)) = t.

    unshear(n, m, e)[i, j] = e[d, i - s(d)] with d = j - i + n - 1, and s as in `shear`.
    Shape: (n, m, rest) for (max(0, n + m - 1), min(n, m), rest). Raises `RankError` for fewer than two dimensions,
    and `ShapeError` for a shape that is wrong for all sizes. If the shape may be right for some sizes, `check_safe`
    refuses reads outside e. Source: §7.2.2, E6.

    >>> import atl, numpy as np
    >>> D = atl.tensor("D", 3, 2, dtype="float64")
    >>> diagonals = np.array([[0.0, 3.0], [1.0, 4.0], [2.0, 0.0]])
    >>> atl.evaluate(atl.program("matrix", [D], atl.unshear(2, 2, D)), diagonals)
    array([[1., 2.],
           [3., 4.]])
    """
    rows, columns, diagonals = IndexExpr(as_index(n)), IndexExpr(as_index(m)), _with_two_dimensions("unshear", e)
    needed = (imax(0, rows + columns - 1), imin(rows, columns))
    if any(_differ(found, wanted) for found, wanted in zip(diagonals.shape, needed, strict=False)):
        raise ShapeError(
            f"unshear to a matrix of shape ({rows}, {columns}) got a tensor of shape "
            f"({', '.join(map(str, diagonals.shape))})",
            required=f"the shape of its shear: ({', '.join(map(str, (*needed, *diagonals.shape[2:])))})",
        )

    def element(i: IndexExpr, j: IndexExpr) -> Tensor:
        d = j - i + rows - 1
        return diagonals[d, i - _first_row(rows, columns, d)]

    return gen(rows, columns, element)


def _with_two_dimensions(what: str, e: TensorLike) -> Tensor:
    matrix = as_tensor(e)
    if matrix.rank < 2:
        raise RankError(
            f"{what} needs 2 dimensions, but this tensor has {matrix.rank}", required="a tensor of rank 2 or more"
        )
    return matrix


def _differ(a: IndexExpr, b: IndexExpr) -> bool:
    """Return whether two extents differ for all sizes."""
    return (a - b).node.constant not in (0, None)


def _first_row(n: IndexExpr, m: IndexExpr, d: IndexExpr) -> IndexExpr:
    """Return the first row of diagonal d in an n × m matrix: the topmost one for which all D elements fit (E6)."""
    least = imin(n, m)
    return imax(0, n - least - imax(0, d - least + 1))


# -- scalars ----------------------------------------------------------------------------------------------------------


def select(condition: Condition | Tensor | bool, a: TensorLike, b: TensorLike) -> Tensor:
    """Return a where the condition holds, else b; only the chosen operand is evaluated. The shapes must be equal."""
    left, right = agree(as_tensor(a).node, as_tensor(b).node)
    return Tensor(located(terms.Select(as_predicate(condition), left, right)))


def where(test: Tensor | bool, a: TensorLike, b: TensorLike) -> Tensor:
    """Return a where the Boolean tensor is true, else b, element by element, with broadcasting as in NumPy.

    All three operands are evaluated, so that the accesses in both a and b must be safe. `select` chooses by a
    condition on indices, and evaluates only the chosen operand.

    >>> import atl
    >>> n = atl.sizes("n")
    >>> x = atl.tensor("x", n)
    >>> atl.program("relu", [x], atl.gen(n, lambda i: atl.where(x[i] > 0, x[i], 0)))
    relu (x : float32[n]) : float32[n] :=
      ⊞[i < n] where(0 < x[i], x[i], 0)
    """
    return choice(test, a, b)


def minimum(a: TensorLike, b: TensorLike) -> Tensor:
    """Return the elementwise minimum."""
    return arithmetic("min", a, b)


def maximum(a: TensorLike, b: TensorLike) -> Tensor:
    """Return the elementwise maximum."""
    return arithmetic("max", a, b)


def _unary(op: UnaryOp, e: TensorLike) -> Tensor:
    return Tensor(located(terms.Unary(op, as_tensor(e).node)))


def abs(e: TensorLike) -> Tensor:  # noqa: A001 (the public API name)
    """Return the elementwise absolute value."""
    return _unary("abs", e)


def sqrt(e: TensorLike) -> Tensor:
    """Return the elementwise square root; floating-point only."""
    return _unary("sqrt", e)


def exp(e: TensorLike) -> Tensor:
    """Return the elementwise exponential; floating-point only."""
    return _unary("exp", e)


def log(e: TensorLike) -> Tensor:
    """Return the elementwise natural logarithm; floating-point only."""
    return _unary("log", e)


def tanh(e: TensorLike) -> Tensor:
    """Return the elementwise hyperbolic tangent; floating-point only."""
    return _unary("tanh", e)


def erf(e: TensorLike) -> Tensor:
    """Return the elementwise error function, 2/√π ∫ exp(-t²) dt from 0 to e; floating-point only.

    >>> import atl
    >>> n = atl.sizes("n")
    >>> x = atl.tensor("x", n)
    >>> atl.program("gelu", [x], atl.gen(n, lambda i: 0.5 * x[i] * (1 + atl.erf(x[i] * 0.5**0.5))))
    gelu (x : float32[n]) : float32[n] :=
      ⊞[i < n] 0.5 * x[i] * (1 + erf(x[i] * 0.7071067811865476))
    """
    return _unary("erf", e)


def sin(e: TensorLike) -> Tensor:
    """Return the elementwise sine of an angle in radians; floating-point only."""
    return _unary("sin", e)


def cos(e: TensorLike) -> Tensor:
    """Return the elementwise cosine of an angle in radians; floating-point only."""
    return _unary("cos", e)


def log1p(e: TensorLike) -> Tensor:
    """Return the elementwise log(1 + e), which is exact near zero; floating-point only."""
    return _unary("log1p", e)


def expm1(e: TensorLike) -> Tensor:
    """Return the elementwise exp(e) - 1, which is exact near zero; floating-point only."""
    return _unary("expm1", e)


def floor(e: TensorLike) -> Tensor:
    """Return the elements rounded down; floating-point only."""
    return _unary("floor", e)


def stop(e: TensorLike) -> Tensor:
    """Return e, with derivative zero: `atl.tangent` and `atl.gradient` treat it as a constant.

    >>> import atl
    >>> n = atl.sizes("n", min=1)
    >>> x = atl.tensor("x", n)
    >>> shifted = atl.program("shifted", [x], x - atl.stop(atl.reduce("max", n, lambda i: x[i])))
    >>> atl.tangent(shifted, "x")
    shifted_tangent (x : float32[n], dx : float32[n]) : float32[n]
        given 1 <= n :=
      ⊞[i < n] dx[i]
    """
    return _unary("stop", e)


def ceil(e: TensorLike) -> Tensor:
    """Return the elements rounded up, -floor(-e); floating-point only."""
    return Tensor(located(numpy_forms.ceiling(as_tensor(e).node)))


def round(e: TensorLike) -> Tensor:  # noqa: A001 (the public API name)
    """Return the elements rounded to the nearest integer, halves to even ones as in NumPy; floating-point only."""
    return _unary("round", e)


def sign(e: TensorLike) -> Tensor:
    """Return -1, 0 or 1 by the signs of the elements; NaN for NaN."""
    return Tensor(located(numpy_forms.sign(as_tensor(e).node)))


def clip(e: TensorLike, low: TensorLike, high: TensorLike) -> Tensor:
    """Return the elements limited to low and high: minimum(maximum(e, low), high)."""
    return minimum(maximum(e, low), high)


def isfinite(e: TensorLike) -> Tensor:
    """Return the test that an element is neither infinite nor NaN; floating-point only."""
    return Tensor(located(numpy_forms.is_finite(as_tensor(e).node)))


def argmax(e: TensorLike, axis: int = -1) -> Tensor:
    """Return the first position of the maximum along an axis, as int64. The extent must be positive.

    It is the least position at which the element equals the maximum, so the elements are read twice. If an element is
    NaN, it is the position of the first NaN, as in NumPy.

    >>> import atl, numpy as np
    >>> x = atl.tensor("x", atl.sizes("n", min=1))
    >>> atl.evaluate(atl.program("first", [x], atl.argmax(x)), np.array([1, 3, 3], "float32"))
    array(1)
    """
    return Tensor(located(numpy_forms.position_of("max", as_tensor(e).node, axis)))


def argmin(e: TensorLike, axis: int = -1) -> Tensor:
    """Return the first position of the minimum along an axis, as int64, like `argmax`."""
    return Tensor(located(numpy_forms.position_of("min", as_tensor(e).node, axis)))


def pow(a: TensorLike, b: TensorLike) -> Tensor:  # noqa: A001 (the public API name)
    """Return the elementwise power a ** b.

    For a literal integer b it is a product of up to 16 factors, or 1 divided by one, and for b = 0.5 the square root.
    Otherwise it is exp(b * log(a)), for positive floating-point a; the relative error grows with b * log(a).

    >>> import atl
    >>> n = atl.sizes("n")
    >>> x = atl.tensor("x", n)
    >>> atl.program("powers", [x], atl.gen(n, lambda i: x[i] ** 3 + x[i] ** 2.2))
    powers (x : float32[n]) : float32[n] :=
      ⊞[i < n] x[i] * x[i] * x[i] + exp(2.2 * log(x[i]))
    """
    return as_tensor(a) ** b


def cast(dtype: str, e: TensorLike) -> Tensor:
    """Convert the elements to another type, as C does (floats to integers towards zero).

    Shape: that of e. Literals get the type; other expressions without a type are computed in it, or in the type of
    arithmetic on it if it is only stored. Raises `DtypeError` for an unknown type.

    >>> import atl
    >>> n = atl.sizes("n")
    >>> atl.program("steps", [], atl.gen(n, lambda i: atl.cast("uint8", atl.value(i) * 3)))
    steps (n : size) : uint8[n] :=
      ⊞[i < n] cast(uint8, value(i):int32 * 3)
    """
    operand = as_tensor(e)
    name = dtypes.checked_dtype(dtype)
    if operand.dtype is None:
        wide = dtypes.TYPES[name].computed_as
        if name == wide or isinstance(operand.node, terms.Constant):
            return Tensor(strengthen(operand.node, name))
        operand = Tensor(strengthen(operand.node, wide))
    return Tensor(located(terms.Cast(name, operand.node)))


def value(i: IndexLike) -> Tensor:
    """Return an index as a scalar, whose element type is that of the other operands."""
    return Tensor(located(terms.Value(as_index(i), None)))


# -- indices ----------------------------------------------------------------------------------------------------------


def ceildiv(a: IndexLike, b: IndexLike) -> IndexExpr:
    """Return a / b rounded up; b must be provably positive."""
    return IndexExpr(ceiling(as_index(a), as_index(b)))


def imin(a: IndexLike, *others: IndexLike) -> IndexExpr:
    """Return the minimum of several index expressions."""
    return IndexExpr(least(as_index(a), *(as_index(other) for other in others)))


def imax(a: IndexLike, *others: IndexLike) -> IndexExpr:
    """Return the maximum of several index expressions."""
    return IndexExpr(greatest(as_index(a), *(as_index(other) for other in others)))
