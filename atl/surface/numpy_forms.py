"""NumPy operations on terms: broadcasting, matrix products, reductions along axes, slices, and elementwise functions.

They are converted to generations, reductions and accesses. NumPy clips slices to the array at run time. Here slices
must be provably in range; the checks of the program refuse other slices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeAlias

import numpy as np

from atl.core import dtypes, substitution, terms
from atl.core.dtypes import BOOL
from atl.core.index import ONE, ZERO, Index, Var, ceildiv, constant, index
from atl.core.marks import LoopMark
from atl.core.operations import BINARY, OPERATIONS, UNARY
from atl.core.substitution import agree, arithmetic, bind, close, close_tensor, fresh_uid, instantiate, strengthen
from atl.errors import DtypeError, InvalidArgument, RankError, ShapeError, brief

Shape: TypeAlias = tuple[Index, ...]
Cut: TypeAlias = tuple[Index | None, Index | None, int]
"""Bounds and step of a slice; negative constant bounds count from the end."""

_NAMES = "ijlpqrstuvwabcdefgh"


def over(
    shape: Shape, body: Callable[[Sequence[Index]], terms.Expr], make: Callable[..., terms.Expr] | None = None
) -> terms.Expr:
    """Return the generation of body(indices) over a shape; `make` builds another binder instead."""
    variables = [Var(next(fresh_uid), _NAMES[at % len(_NAMES)]) for at in range(len(shape))]
    node = body([index(variable) for variable in variables])
    for variable, extent in zip(reversed(variables), reversed(shape), strict=True):
        inside = close(node, variable)
        node = (
            terms.Gen(ZERO, extent, inside, variable.name)
            if make is None
            else make(ZERO, extent, inside, variable.name)
        )
    return node


def element(e: terms.Expr, at: Sequence[Index]) -> terms.Expr:
    """Return the access of a tensor at some indices."""
    for position in at:
        e = terms.Access(e, position)
    return e


def within(e: terms.Expr, at: Sequence[Index]) -> terms.Expr:
    """Return the access at indices that are in range: for a generation, its instantiated body (`get_gen`)."""
    for position in at:
        plain = isinstance(e, terms.Gen) and e.low == ZERO and e.mark is LoopMark.NONE
        e = instantiate(e.body, position) if plain and isinstance(e, terms.Gen) else terms.Access(e, position)
    return e


# -- broadcasting -----------------------------------------------------------------------------------------------------


_BROADCASTING_DISABLED: Final = ContextVar("_BROADCASTING_DISABLED", default=False)


@contextmanager
def without_broadcasting() -> Iterator[None]:
    """Disable broadcasting, because the statement of a rule must be the same for all extents, including 1."""
    before = _BROADCASTING_DISABLED.set(True)
    try:
        yield
    finally:
        _BROADCASTING_DISABLED.reset(before)


def broadcast(left: terms.Expr, right: terms.Expr) -> tuple[terms.Expr, terms.Expr]:
    """Broadcast two tensors as NumPy does: add leading dimensions, and repeat along extents of 1.

    If neither is needed, the tensors are returned unchanged, and the program must prove that their extents are equal.
    """
    if _BROADCASTING_DISABLED.get():
        return left, right
    a, b = left.type.shape, right.type.shape
    if not a or not b or (len(a) == len(b) and not any(_spreads(x, y) for x, y in zip(a, b, strict=True))):
        return left, right
    shape = _common(a, b)
    if shape is None:
        raise ShapeError(
            f"tensors of shapes ({_listed(a)}) and ({_listed(b)}) cannot be broadcast together",
            required="extents that are equal or 1, compared from the last dimension",
            suggestions=("add a dimension with A[:, None]",),
        )
    return _spread(left, shape), _spread(right, shape)


def choice(test: terms.Expr, left: terms.Expr, right: terms.Expr) -> terms.Expr:
    """Return where(test, left, right), with all three broadcast to a common shape."""
    parts = (test, left, right)
    shape: Shape = ()
    for part in parts:
        common = _common(shape, part.type.shape)
        if common is None and len(shape) == part.type.rank:
            common = shape  # the program must prove that the extents are equal
        if common is None:
            raise ShapeError(
                "tensors of shapes " + " and ".join(f"({_listed(each.type.shape)})" for each in parts)
                + " cannot be broadcast together",
                required="extents that are equal or 1, compared from the last dimension",
                suggestions=("add a dimension with A[:, None]",),
            )  # fmt: skip
        shape = common
    plain = all(part.type.rank == len(shape) for part in parts)
    plain = plain and not any(_spreads(x, y) for part in parts for x, y in zip(part.type.shape, shape, strict=True))
    if plain or _BROADCASTING_DISABLED.get():
        return substitution.choice(test, left, right)
    first, *others = (strengthen(test, BOOL), *agree(left, right))
    return over(
        shape,
        lambda at: terms.Where(*(within(each, _read_at(each.type.shape, shape, at)) for each in (first, *others))),
    )


def _common(a: Shape, b: Shape) -> Shape | None:
    """Return the shape to which two shapes are broadcast; None if they are incompatible."""
    rank = max(len(a), len(b))
    pairs = list(zip(*((ONE,) * (rank - len(shape)) + shape for shape in (a, b)), strict=True))
    if any(x != y and ONE not in (x, y) for x, y in pairs):
        return None
    return tuple(y if x == ONE else x for x, y in pairs)


def _read_at(own: Shape, shape: Shape, at: Sequence[Index]) -> list[Index]:
    """Return the indices at which a tensor of shape `own` is read, for indices in the broadcast shape."""
    missing = len(shape) - len(own)
    return [ZERO if x == ONE != y else i for i, x, y in zip(at[missing:], own, shape[missing:], strict=True)]


def _spreads(a: Index, b: Index) -> bool:
    return a != b and ONE in (a, b)


def _spread(e: terms.Expr, shape: Shape) -> terms.Expr:
    own = e.type.shape
    return e if own == shape else over(shape, lambda at: within(e, _read_at(own, shape, at)))


def _listed(shape: Shape) -> str:
    return ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")


# -- products ---------------------------------------------------------------------------------------------------------


def matmul(left: terms.Expr, right: terms.Expr) -> terms.Expr:
    """Return `A @ B` as in NumPy: for vectors, matrices, and stacks of matrices, which are broadcast."""
    a, b = left.type.shape, right.type.shape
    if not a or not b:
        raise RankError(
            "a scalar is an operand of @", required="tensors of rank 1 or more", suggestions=("write a * b",)
        )
    inner, other = a[-1], b[-2] if len(b) > 1 else b[0]
    if inner != other:
        raise ShapeError(
            f"the inner extents of @ differ: {inner} on the left, {other} on the right",
            required="equal extents; use one name for sizes that are always equal",
        )
    outer = _common(a[:-2], b[:-2])
    if outer is None:
        raise ShapeError(
            f"the stacks of matrices in @ have shapes ({_listed(a[:-2])}) and ({_listed(b[:-2])})",
            required="extents that are equal or 1, compared from the last dimension",
        )
    rank = len(outer)
    rows, columns = a[-2:-1], b[-1:] if len(b) > 1 else ()

    def entry(at: Sequence[Index]) -> terms.Expr:
        stack, i, j = at[:rank], at[rank : rank + len(rows)], at[rank + len(rows) :]
        first, second = _read_at(a[:-2], outer, stack), _read_at(b[:-2], outer, stack)
        return over(
            (inner,),
            lambda p: terms.Binary("mul", *agree(within(left, [*first, *i, *p]), within(right, [*second, *p, *j]))),
            lambda low, high, body, _: terms.Reduce("sum", low, high, body, "k"),
        )

    return over((*outer, *rows, *columns), entry)


# -- reductions -------------------------------------------------------------------------------------------------------


def folded(monoid: terms.Monoid, e: terms.Expr, axis: object, keepdims: object, *, mean: bool = False) -> terms.Expr:
    """Return a reduction such as `A.sum(axis=…)` along one axis, several, or all; `keepdims` keeps them with extent 1.

    With `mean`, the result is divided by the number of elements.
    """
    shape = e.type.shape
    axes = _axes(axis, len(shape))
    if not isinstance(keepdims, bool):
        raise InvalidArgument(f"keepdims={brief(keepdims)}", required="keepdims=True or keepdims=False")
    kept = tuple(extent for at, extent in enumerate(shape) if at not in axes)

    def result(at: Sequence[Index]) -> terms.Expr:
        outer = list(at)

        def term(inner: Sequence[Index]) -> terms.Expr:
            left, summed = iter(outer), iter(inner)
            return within(e, [next(summed) if dimension in axes else next(left) for dimension in range(len(shape))])

        total = over(
            tuple(shape[a] for a in axes), term, lambda lo, hi, body, _: terms.Reduce(monoid, lo, hi, body, "k")
        )
        return terms.Binary("div", *agree(total, _counted(e, axes))) if mean else total

    made = over(kept, result)
    if not keepdims:
        return made
    whole = tuple(ONE if at in axes else extent for at, extent in enumerate(shape))
    return over(whole, lambda at: within(made, [i for d, i in enumerate(at) if d not in axes]))


def _counted(e: terms.Expr, axes: Sequence[int]) -> terms.Expr:
    """Return the number of reduced elements as a scalar."""
    count = ONE
    for at in axes:
        count = count * e.type.shape[at]
    return terms.Value(count, e.type.dtype)


def _axes(axis: object, rank: int) -> list[int]:
    given = range(rank) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    found: list[int] = []
    for each in given:
        if isinstance(each, bool) or not isinstance(each, int) or not -rank <= each < rank or each % rank in found:
            raise InvalidArgument(
                f"axis={brief(axis)} of a tensor with {rank} dimensions",
                required="an axis, a tuple of distinct axes, or None for all",
            )
        found.append(each % rank)
    return sorted(found)


def position_of(monoid: terms.Monoid, e: terms.Expr, axis: object) -> terms.Expr:
    """Return the least position along an axis at which the element is the maximum or minimum, as int64."""
    axes = _axes(axis, e.type.rank)
    if len(axes) != 1:
        raise InvalidArgument("argmax and argmin along several axes", required="one axis: axis=-1")
    (along,) = axes
    extent, kept = e.type.shape[along], (*e.type.shape[:along], *e.type.shape[along + 1 :])

    is_stored = isinstance(e, terms.Input | terms.TensorVar)

    def position(at: Sequence[Index]) -> terms.Expr:
        row = over((extent,), lambda k: within(e, (*at[:along], *k, *at[along:])))
        if is_stored:
            return best_of(row)
        variable = terms.TensorVar(next(fresh_uid), "row", row.type)  # the elements are read twice
        return bind(row, close_tensor(best_of(variable), variable), variable.name)

    def best_of(row: terms.Expr) -> terms.Expr:
        def first(best: terms.Expr) -> terms.Expr:
            k = Var(next(fresh_uid), "k")
            value = within(row, [index(k)])
            found = arithmetic("eq", value, best)
            if e.type.dtype is None or e.type.dtype in dtypes.FLOATS:
                found = terms.Binary("or", found, terms.Unary("invert", arithmetic("eq", value, value)))  # NaN
            here, none = (terms.Value(place, "int64") for place in (index(k), extent))
            return terms.Reduce("min", ZERO, extent, close(terms.Where(found, here, none), k), k.name)

        k = Var(next(fresh_uid), "k")
        best = terms.Reduce(monoid, ZERO, extent, close(within(row, [index(k)]), k), k.name)
        variable = terms.TensorVar(next(fresh_uid), "best", best.type)
        return bind(best, close_tensor(first(variable), variable), variable.name)

    return over(kept, position)


def transposed(e: terms.Expr) -> terms.Expr:
    """Return `A.T`: the dimensions in reverse order."""
    match e.type.rank:
        case 0 | 1:
            return e
        case 2:
            return terms.Reshape(terms.Transpose(), e)
        case _:
            return over(tuple(reversed(e.type.shape)), lambda at: element(e, list(reversed(at))))


# -- slices -----------------------------------------------------------------------------------------------------------


def sliced(e: terms.Expr, positions: Sequence[Index | Cut | None]) -> terms.Expr:
    """Return `A[1:, j, None]`: slices keep a dimension, indices remove one, and None adds one of extent 1."""
    shape: list[Index] = []
    reads: list[Callable[[Sequence[Index]], Index]] = []
    for position in positions:
        if position is None:
            shape.append(ONE)
            continue
        if isinstance(position, Index):
            reads.append(lambda _, at=position: at)  # type: ignore[misc]
            continue
        start, count, step = _cut(position, e.type.shape[len(reads)])
        dimension = len(shape)
        reads.append(lambda at, k=dimension, a=start, s=step: a + at[k] * s)  # type: ignore[misc]
        shape.append(count)
    return over(tuple(shape), lambda at: element(e, [read(at) for read in reads]))


def _cut(cut: Cut, extent: Index) -> tuple[Index, Index, int]:
    """Return the start of a slice, its number of elements, and its step."""
    start, stop, step = cut
    if step == -1 and start is None and stop is None:
        return extent - ONE, extent, -1
    if step < 1:
        raise InvalidArgument(
            f"a slice with the step {step}",
            required="a positive step, or [::-1]",
            suggestions=("write atl.gen(n, lambda i: A[…]) with the index of each element",),
        )
    low = ZERO if start is None else _from_end(start, extent)
    high = extent if stop is None else _from_end(stop, extent)
    return low, high - low if step == 1 else ceildiv(high - low, constant(step)), step


def _from_end(bound: Index, extent: Index) -> Index:
    return extent + bound if bound.constant is not None and bound.constant < 0 else bound


# -- powers -----------------------------------------------------------------------------------------------------------

MAX_FACTORS: Final = 16
"""Maximum number of factors of a power with an integer exponent."""


def power(base: terms.Expr, exponent: terms.Expr) -> terms.Expr:
    """Return a ** b: a product or a square root for some literals b, else exp(b * log(a)).

    Raises `InvalidArgument` for the exponent 0 and for integers with more than `MAX_FACTORS` factors.
    """
    value = exponent.value if isinstance(exponent, terms.Constant) else None
    if value == 0.5:
        return terms.Unary("sqrt", base)
    if value is None or value != round(value):
        return terms.Unary("exp", arithmetic("mul", *broadcast(exponent, terms.Unary("log", base))))
    count = abs(round(value))
    if not 1 <= count <= MAX_FACTORS:
        raise InvalidArgument(
            f"a tensor is raised to the power {value}",
            required=f"an integer of magnitude 1 to {MAX_FACTORS}, or a number that is not an integer",
            suggestions=(f"for positive elements, write atl.exp({value} * atl.log(a))",) if count else ("write 1.0",),
        )
    product = _product(base, count)
    return product if value > 0 else arithmetic("div", terms.Constant(1, None), product)


def _product(base: terms.Expr, count: int) -> terms.Expr:
    """Return the product of equal factors, of equal halves where possible, which a compiler computes once."""
    if count == 1:
        return base
    half = _product(base, count // 2)
    square = terms.Binary("mul", half, half)
    return terms.Binary("mul", square, base) if count % 2 else square


# -- functions that are defined by others -----------------------------------------------------------------------------


def ceiling(e: terms.Expr) -> terms.Expr:
    """Return e rounded up: -floor(-e)."""
    return terms.Unary("neg", terms.Unary("floor", terms.Unary("neg", e)))


def sign(e: terms.Expr) -> terms.Expr:
    """Return -1, 0 or 1 by the sign of e; NaN for NaN."""
    zero, one, minus = (terms.Constant(value, None) for value in (0, 1, -1))
    return choice(arithmetic("lt", e, zero), minus, choice(arithmetic("lt", zero, e), one, e))


def is_finite(e: terms.Expr) -> terms.Expr:
    """Return the test that e is neither infinite nor NaN: |e| is at most the largest number of its type."""
    dtype = e.type.dtype or dtypes.DEFAULT
    if dtype not in dtypes.FLOATS:
        raise DtypeError(f"isfinite of {dtype} elements", required="floating-point elements")
    largest = terms.Constant(float(np.finfo(dtype).max), dtype)
    return arithmetic("le", terms.Unary("abs", e), largest)


# -- NumPy's functions ------------------------------------------------------------------------------------------------

_BINARY: Final = {name: op for op in BINARY for name in OPERATIONS[op].numpy}
_UNARY: Final = {name: op for op in UNARY for name in OPERATIONS[op].numpy}
"""Functions of one operand. SciPy's `erf` follows NumPy's protocol too."""
METHODS: Final = {
    "sum": "sum",
    "prod": "prod",
    "max": "max",
    "amax": "max",
    "min": "min",
    "amin": "min",
    "mean": "mean",
}
"""NumPy functions that are methods of a tensor."""


def elementwise(name: str, operands: Sequence[terms.Expr]) -> terms.Expr | None:
    """Return the term for one of NumPy's elementwise functions; None for an unsupported one."""
    match name, operands:
        case str(), [left, right] if name in _BINARY:
            return arithmetic(_BINARY[name], *broadcast(left, right))
        case str(), [operand] if name in _UNARY:
            return terms.Unary(_UNARY[name], operand)
        case "matmul", [left, right]:
            return matmul(left, right)
        case "power" | "float_power", [base, exponent]:
            return power(base, exponent)
        case "greater" | "greater_equal", [left, right]:
            return arithmetic("lt" if name == "greater" else "le", *broadcast(right, left))
        case "not_equal", [left, right]:
            return terms.Unary("invert", arithmetic("eq", *broadcast(left, right)))
        case "ceil", [operand]:
            return ceiling(operand)
        case "sign", [operand]:
            return sign(operand)
        case "isfinite", [operand]:
            return is_finite(operand)
        case "square", [operand]:
            return terms.Binary("mul", operand, operand)
        case "positive", [operand]:
            return operand
        case _:
            return None
