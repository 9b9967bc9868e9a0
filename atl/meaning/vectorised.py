"""Fast evaluation of programs with NumPy, for whole boxes of elements at once.

A term is evaluated at arrays of positions that broadcast against each other. Each axis of a box is one axis of all
arrays. A fold adds an axis, in blocks, which bounds the memory. Elements that a guard masks are computed and discarded.
Sums are added in another order than in the reference interpreter; otherwise the results are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any, Final, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt

from atl.core import dtypes, terms
from atl.core.index import AnyAtom, Bound, Extremum, Index, Quotient, Read, Size, Var, Xor
from atl.core.operations import BinaryOp
from atl.core.predicate import All, NonNegative, NonZero, Predicate, Zero
from atl.core.predicate import Any as AnyOf
from atl.core.program import Program
from atl.errors import EscapedIndex, OutOfMemory
from atl.meaning.arguments import at_call, bind, check_rank
from atl.meaning.results import split_results
from atl.meaning.scalars import Machine, converted

Numbers: TypeAlias = npt.NDArray[Any]
Truths: TypeAlias = npt.NDArray[np.bool_]
At: TypeAlias = tuple[Numbers, ...]
Found: TypeAlias = tuple[Numbers, Truths]
"""Values, with zeros for padding, and a mask that is True where an element is not padding."""

BLOCK_SIZE: Final = 1 << 20
"""Approximate number of elements computed at a time."""
_MACHINE: Final = Machine()


def evaluate_fast(program: Program, /, *positional: Any, **arguments: Any) -> Any:
    """Evaluate a program with NumPy. The result is that of `atl.evaluate` up to the order of summation.

    The arguments and exceptions are those of `evaluate` without `exact=`. Each operator takes a few passes over memory.
    On large arrays this is hundreds of times as fast as the reference, but much slower than a kernel.

    >>> import atl, numpy as np
    >>> n, m, k = atl.sizes("n m k")
    >>> A, B = atl.tensor("A", n, k, dtype="float64"), atl.tensor("B", k, m, dtype="float64")
    >>> a, b = np.random.rand(100, 200), np.random.rand(200, 50)
    >>> bool(np.allclose(atl.evaluate_fast(atl.program("matmul", [A, B], A @ B), a, b), a @ b))
    True
    """
    program = at_call(program, positional, arguments)
    call = bind(program, positional, arguments)
    evaluator = _Evaluator(call.sizes, call.arrays)
    outside = _Environment(0, (), (), np.array(True))
    shape = tuple(int(evaluator.index(extent, outside)) for extent in program.shape)
    check_rank(len(shape))
    with np.errstate(all="ignore"):
        whole = evaluator.whole(program.body, outside, shape)
    return split_results(program, whole, call.sizes, call.arrays)


@dataclass(frozen=True, slots=True)
class _Tensor:
    """A let-bound tensor: its elements, preceded by the surrounding axes on which they depend."""

    values: Numbers
    axes: int


@dataclass(frozen=True, slots=True)
class _Environment:
    """The values of the surrounding indices and tensors for all elements of a box, innermost last.

    All arrays broadcast over `axes` axes. Results where `active` is false are discarded.
    """

    axes: int
    indices: tuple[Numbers, ...]
    tensors: tuple[_Tensor, ...]
    active: Truths

    def with_index(self, value: Numbers) -> _Environment:
        return replace(self, indices=(*self.indices, value))

    def where(self, test: Truths) -> _Environment:
        return replace(self, active=self.active & test)

    def with_axes(self, count: int) -> _Environment:
        """Append axes."""
        return _Environment(
            self.axes + count,
            tuple(_append_axes(each, count) for each in self.indices),
            self.tensors,
            _append_axes(self.active, count),
        )


def _append_axes(array: Any, count: int) -> Any:
    return array.reshape(array.shape + (1,) * count)


def _along(axis: int, axes: int, values: Numbers) -> Numbers:
    """Reshape numbers to lie along one of several axes."""
    return values.reshape((1,) * axis + (-1,) + (1,) * (axes - axis - 1))


def _boxes(shape: tuple[int, ...], most: int) -> Iterator[tuple[range, ...]]:
    """Cover a shape by boxes of at most `most` elements: blocks of rows, and blocks of long rows."""
    steps: list[int] = []
    left = most
    for extent in reversed(shape):
        steps.append(max(1, min(extent, left)))
        left = max(1, left // max(1, extent))
    blocks = (
        [range(low, min(low + step, extent)) for low in range(0, extent, step)]
        for extent, step in zip(shape, reversed(steps), strict=True)
    )
    yield from product(*blocks)


class _Evaluator:
    """Evaluates terms for given sizes and arrays."""

    def __init__(self, sizes: Mapping[str, int], arrays: Mapping[str, Numbers]) -> None:
        self._sizes = sizes
        self._arrays = arrays
        self._outer_tensors: dict[tuple[object, ...], tuple[terms.Expr, tuple[_Tensor, ...], _Tensor]] = {}
        self._outer_rows: dict[tuple[object, ...], tuple[terms.Expr, tuple[_Tensor, ...], tuple[_Tensor, _Tensor]]] = {}

    def whole(self, term: terms.Expr, env: _Environment, shape: tuple[int, ...]) -> Numbers:
        """Return all elements of a term outside loops, computed box by box."""
        try:
            out = np.zeros(shape, _dtype(term))
        except (ValueError, MemoryError):
            raise OutOfMemory(
                f"the result, of shape {shape}, does not fit in memory", required="smaller sizes"
            ) from None
        axes = len(shape)
        inside = env.with_axes(axes)
        for box in _boxes(shape, BLOCK_SIZE):
            at = tuple(_along(axis, axes, np.arange(r.start, r.stop)) for axis, r in enumerate(box))
            values, _ = self.meaning(term, inside, at)
            out[tuple(slice(r.start, r.stop) for r in box)] = values
        return out

    def meaning(self, term: terms.Expr, env: _Environment, at: At) -> Found:
        dtype = _dtype(term)
        match term:
            case terms.Input(array):
                return self._not_padding(_element(self._arrays[array.name], at).astype(dtype, copy=False), env)
            case terms.Local(position):
                return self._not_padding(_read(env.tensors[~position], env.axes, at), env)
            case terms.TensorVar(name=name) | terms.Metavariable(name=name):
                raise EscapedIndex(f"the tensor {name} has no value here", required="a closed term")
            case terms.Constant(literal):
                return self._not_padding(np.asarray(_MACHINE.constant(literal, dtype)), env)
            case terms.Value(expression):
                return self._not_padding(np.asarray(self.index(expression, env), np.int64).astype(dtype), env)
            case terms.Gen(low, _, body):
                return self.meaning(body, env.with_index(self.index(low, env) + at[0]), at[1:])
            case terms.Reduce():
                return self._fold(term, env, at)
            case terms.Rec():
                rows, mask = self._recurrence(term, env)
                return _read(rows, env.axes, at), _read(mask, env.axes, at)
            case terms.Guard(predicate, body):
                test = self.test(predicate, env)
                return _masked(self.meaning(body, env.where(test), at), test)
            case terms.Let(bound, body):
                return self.meaning(body, replace(env, tensors=(*env.tensors, self._let_tensor(bound, env))), at)
            case terms.Access(operand, index):
                reached, n = self.index(index, env), self.index(operand.type.shape[0], env)
                there = (reached >= 0) & (reached < n)
                values, _ = self.meaning(operand, env.where(there), (reached, *at))
                return self._not_padding(np.where(there, values, np.zeros((), dtype)), env)
            case terms.Unary(function, operand):
                return self._not_padding(_MACHINE.unary(function, dtype, self.meaning(operand, env, at)[0]), env)
            case terms.Binary(op, left, right):
                x, y = self.meaning(left, env, at)[0], self.meaning(right, env, at)[0]
                return self._not_padding(_binary(op, dtype, x, y), env)
            case terms.Select(predicate, left, right):
                test = self.test(predicate, env)
                x, y = self.meaning(left, env.where(test), at)[0], self.meaning(right, env.where(~test), at)[0]
                return self._not_padding(np.where(test, x, y), env)
            case terms.Where(condition, left, right):
                chosen = (self.meaning(part, env, at)[0] for part in (condition, left, right))
                return self._not_padding(np.where(*chosen), env)
            case terms.Cast(_, operand):
                return self._not_padding(_cast(dtype, self.meaning(operand, env, at)[0]), env)
            case terms.Concat(left, right):
                n = self.index(left.type.shape[0], env)
                before = at[0] < n
                x, known = self.meaning(left, env.where(before), at)
                y, other = self.meaning(right, env.where(~before), (at[0] - n, *at[1:]))
                return np.where(before, x, y), np.where(before, known, other)
            case terms.Padding():
                return _with_all_axes(np.zeros((), dtype), env), _with_all_axes(np.array(False), env)
            case terms.Reshape():
                return self._reshape(term, env, at)

    def _not_padding(self, values: Any, env: _Environment) -> Found:
        return _with_all_axes(values, env), _with_all_axes(np.array(True), env)

    def _let_tensor(self, bound: terms.Expr, env: _Environment) -> _Tensor:
        """Evaluate a let-bound tensor. A tensor outside loops is evaluated once for all boxes."""
        extents = [self.index(extent, env) for extent in bound.type.shape]
        tensors = env.tensors[len(env.tensors) - bound.loose_tensors :]
        if not bound.loose and all(not tensor.axes for tensor in tensors):
            key = (id(bound), *map(id, tensors))
            if key not in self._outer_tensors:
                alone = _Environment(0, (), env.tensors, np.array(True))
                shape = tuple(int(np.max(extent)) for extent in extents)
                self._outer_tensors[key] = (bound, tensors, _Tensor(self.whole(bound, alone, shape), 0))
            return self._outer_tensors[key][2]
        longest = [int(np.max(np.where(env.active, extent, 0), initial=0)) for extent in extents]
        axes = env.axes + len(longest)
        at = tuple(_along(env.axes + k, axes, np.arange(extent)) for k, extent in enumerate(longest))
        values, _ = self.meaning(bound, env.with_axes(len(longest)), at)
        return _Tensor(values, env.axes)

    def _recurrence(self, term: terms.Rec, env: _Environment) -> tuple[_Tensor, _Tensor]:
        """Return the rows of a recurrence, and which of their elements are stored. Outside loops they are shared."""
        tensors = env.tensors[len(env.tensors) - term.loose_tensors :]
        if term.loose or any(tensor.axes for tensor in tensors):
            return self._rows(term, env)
        key = (id(term), *map(id, tensors))
        if key not in self._outer_rows:
            rows = self._rows(term, _Environment(0, (), env.tensors, np.array(True)))
            self._outer_rows[key] = (term, tensors, rows)
        return self._outer_rows[key][2]

    def _rows(self, term: terms.Rec, env: _Environment) -> tuple[_Tensor, _Tensor]:
        """Evaluate the rows of a recurrence one after the other, each for all positions along the current axes."""
        low, high = self.index(term.low, env), self.index(term.high, env)
        extents = [self.index(extent, env) for extent in term.type.shape]
        longest = [int(np.max(np.where(env.active, extent, 0), initial=0)) for extent in extents]
        outer = np.broadcast_shapes(
            low.shape, high.shape, env.active.shape,
            *(each.shape for each in env.indices[len(env.indices) - term.loose :]),
            *(tensor.values.shape[: tensor.axes] + (1,) * (env.axes - tensor.axes)
              for tensor in env.tensors[len(env.tensors) - term.loose_tensors :]),
        )  # fmt: skip
        values, stored = np.zeros((*outer, *longest), _dtype(term)), np.zeros((*outer, *longest), np.bool_)

        def at_all(positions: list[Numbers]) -> At:
            axes = env.axes + len(positions)
            return tuple(_along(env.axes + k, axes, each) for k, each in enumerate(positions))

        whole = env.with_axes(len(longest))
        at = at_all([np.arange(extent) for extent in longest])
        begun = at[0] < _append_axes(low, len(longest))
        first, known = self.meaning(term.init, whole.where(begun), at)
        values[...], stored[...] = np.where(begun, first, values), begun & known
        tensor = _Tensor(values, env.axes)
        row = env.with_axes(len(longest) - 1)
        at = at_all([np.arange(extent) for extent in longest[1:]])
        reached = int(np.min(np.where(env.active, low, longest[0]), initial=longest[0]))
        for p in range(reached, longest[0]):
            here = _append_axes((low <= p) & (p < high), len(longest) - 1)
            inside = replace(row.with_index(np.full((1,) * row.axes, p)), tensors=(*row.tensors, tensor)).where(here)
            later, known = self.meaning(term.body, inside, at)
            # The rows are views of both arrays.
            new, mask = (np.moveaxis(each, env.axes, 0)[p : p + 1] for each in (values, stored))
            new[0], mask[0] = np.where(here, later, new[0]), np.where(here, known, mask[0])
        return tensor, _Tensor(stored, env.axes)

    def _fold(self, term: terms.Reduce, env: _Environment, at: At) -> Found:
        """Evaluate a fold along a new axis, block by block."""
        dtype, monoid = _dtype(term), term.monoid
        neutral = _MACHINE.neutral(monoid, dtype)
        low, high = self.index(term.low, env), self.index(term.high, env)
        count = np.where(env.active, np.maximum(high - low, 0), 0)
        longest = int(np.max(count, initial=0))
        total, stored = np.full((1,) * env.axes, neutral, dtype), np.zeros((1,) * env.axes, np.bool_)
        shapes = np.broadcast_shapes(count.shape, *(each.shape for each in (*at, *env.indices)))
        step = max(1, BLOCK_SIZE // max(1, prod(shapes)))
        inner, spread = env.with_axes(1), tuple(_append_axes(each, 1) for each in at)
        for start in range(0, longest, step):
            k = np.arange(start, min(start + step, longest))
            inside = k < _append_axes(count, 1)
            here = inner.with_index(_append_axes(low, 1) + k).where(inside)
            values, known = self.meaning(term.body, here, spread)
            values = np.where(inside, values, neutral)
            stored = stored | (np.any(inside & known, axis=-1) if monoid == "sum" else np.any(inside, axis=-1))
            total = _folded(monoid, dtype, total, values)
        return np.where(stored, total, np.zeros((), dtype)), stored

    def _reshape(self, term: terms.Reshape, env: _Environment, at: At) -> Found:
        shape = term.operand.type.shape
        match term.op:
            case terms.Transpose():
                return self.meaning(term.operand, env, (at[1], at[0], *at[2:]))
            case terms.Flatten():
                m = np.maximum(self.index(shape[1], env), 1)
                return self.meaning(term.operand, env, (at[0] // m, at[0] % m, *at[1:]))
            case terms.Split(by):
                whole = at[0] * self.index(by, env) + at[1]
                return self._where(term.operand, env, whole < self.index(shape[0], env), (whole, *at[2:]))
            case terms.PadLeft(by):
                k = self.index(by, env)
                return self._where(term.operand, env, at[0] >= k, (at[0] - k, *at[1:]))
            case terms.PadRight():
                return self._where(term.operand, env, at[0] < self.index(shape[0], env), at)
            case terms.TruncateLeft(by):
                return self.meaning(term.operand, env, (at[0] + self.index(by, env), *at[1:]))
            case terms.TruncateRight():
                return self.meaning(term.operand, env, at)
            case terms.Place(_, position):
                return self._where(term.operand, env, at[0] == self.index(position, env), at[1:])
            case _:
                assert_never(term.op)

    def _where(self, operand: terms.Expr, env: _Environment, there: Truths, at: At) -> Found:
        return _masked(self.meaning(operand, env.where(there), at), there)

    # -- indices ------------------------------------------------------------------------------------------------------

    def index(self, expression: Index, env: _Environment) -> Numbers:
        """Return the values of an index expression, with all axes."""
        total = np.zeros((1,) * env.axes, np.int64)
        for monomial, coefficient in expression.terms:
            term = np.full((1,) * env.axes, coefficient, np.int64)
            for atom in monomial:
                term = term * self._atom(atom, env)
            total = total + term
        return total

    def _atom(self, atom: AnyAtom, env: _Environment) -> Numbers:
        match atom:
            case Size(name):
                return np.full((1,) * env.axes, self._sizes[name], np.int64)
            case Bound(position):
                return env.indices[~position]
            case Var(name=name):
                raise EscapedIndex(f"the index {name} has no value here", required="a closed term")
            case Quotient(numerator, denominator):
                divisor = self.index(denominator, env)
                # A divisor of a well-formed program is positive wherever its value is used.
                return self.index(numerator, env) // np.maximum(divisor, 1)
            case Extremum(kind, choices):
                values = [self.index(choice, env) for choice in choices]
                return np.asarray((np.min if kind == "min" else np.max)(np.broadcast_arrays(*values), axis=0))
            case Xor(parts):
                bits = [self.index(part, env) for part in parts]
                return np.asarray(np.bitwise_xor.reduce(np.broadcast_arrays(*bits)))
            case Read(array, indices):
                data = self._arrays[array.name]
                at = tuple(self.index(index, env) for index in indices)
                there: Truths = np.ones((1,) * env.axes, np.bool_)
                for each, extent in zip(at, data.shape, strict=True):
                    there = there & (each >= 0) & (each < extent)
                return np.asarray(_with_all_axes(np.where(there, _element(data, at).astype(np.int64), 0), env))
        assert_never(atom)

    def test(self, predicate: Predicate, env: _Environment) -> Truths:
        match predicate:
            case NonNegative(expression):
                return np.asarray(self.index(expression, env) >= 0)
            case Zero(expression):
                return np.asarray(self.index(expression, env) == 0)
            case NonZero(expression):
                return np.asarray(self.index(expression, env) != 0)
            case All(parts):
                found = np.ones((1,) * env.axes, np.bool_)
                for part in parts:
                    found = found & self.test(part, env)
                return found
            case AnyOf(parts):
                found = np.zeros((1,) * env.axes, np.bool_)
                for part in parts:
                    found = found | self.test(part, env)
                return found
            case _:
                assert_never(predicate)


# -- arrays -----------------------------------------------------------------------------------------------------------


def _with_all_axes(values: Any, env: _Environment) -> Any:
    """Give a scalar all axes; other arrays already have them."""
    return values.reshape((1,) * env.axes) if values.ndim == 0 else values


def _masked(found: Found, test: Truths) -> Found:
    values, stored = found
    return np.where(test, values, np.zeros((), values.dtype)), stored & test


def _element(data: Numbers, at: At) -> Numbers:
    """Gather elements at some positions; positions outside are clipped, as their values are not used."""
    if not data.size:
        return np.zeros(np.broadcast_shapes(*(each.shape for each in at)), data.dtype)
    clipped = tuple(np.clip(each, 0, extent - 1) for each, extent in zip(at, data.shape, strict=True))
    return np.asarray(data[clipped])


def _read(tensor: _Tensor, axes: int, at: At) -> Numbers:
    """Gather the elements of a let-bound tensor at the current positions."""
    positions = tuple(
        _along(axis, axes, np.arange(extent)) for axis, extent in enumerate(tensor.values.shape[: tensor.axes])
    )
    return _element(tensor.values, (*positions, *at))


def _binary(op: BinaryOp, dtype: str, x: Numbers, y: Numbers) -> Numbers:
    if op == "div":
        return np.where(y == 0, np.zeros((), dtype), np.divide(x, np.where(y == 0, np.ones((), dtype), y)))
    return np.asarray(_MACHINE.binary(op, dtype, x, y))


def _cast(dtype: str, x: Numbers) -> Numbers:
    if not dtypes.is_integer(dtype) or x.dtype.kind in "iub":
        return np.asarray(converted(x, dtype))
    near = np.abs(x) < float(1 << 62)
    out = np.where(near, x, 0).astype(np.int64).astype(dtype)
    for at in np.argwhere(~near):
        out[tuple(at)] = _MACHINE.cast(dtype, "float64", np.float64(x[tuple(at)]))
    return out


def _folded(monoid: terms.Monoid, dtype: str, total: Numbers, values: Numbers) -> Numbers:
    match monoid:
        case "sum":
            return np.asarray(total + np.sum(values, axis=-1, dtype=dtype))
        case "product":
            return np.asarray(total * np.prod(values, axis=-1, dtype=dtype))
        case "max":
            return np.asarray(np.maximum(total, np.max(values, axis=-1)))
        case "min":
            return np.asarray(np.minimum(total, np.min(values, axis=-1)))


def _dtype(term: terms.Expr) -> str:
    return term.type.dtype or dtypes.DEFAULT
