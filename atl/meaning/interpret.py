"""The reference interpreter: defines the meaning of a program, element by element.

A term denotes a function from an environment (the values of the surrounding indices and let-bound tensors) and a
position within the term's shape to an element. The semantics is that of Fig. 3.2 and Fig. 5.3, with the reshape
operators of Fig. 4.3 (truncations drop elements: erratum E3) and the pad values of §5.5.1. Evaluation is lazy, so
guards and selections protect their operands. Each element of a let-bound tensor is computed shared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce as fold
from typing import Any, Final, Generic, TypeAlias, TypeVar, assert_never

import numpy as np
import numpy.typing as npt

from atl.core import dtypes, terms
from atl.core.index import Bound, Index, Leaf, Size, value_of
from atl.core.predicate import Predicate, holds
from atl.core.program import Program
from atl.errors import ArgumentError, EscapedIndex, ExtentError, OutOfMemory, TooLarge, brief
from atl.meaning.arguments import at_call, bind, check_rank, index_elements
from atl.meaning.results import split_results
from atl.meaning.scalars import Exact, Machine, Scalars

E = TypeVar("E")
Positions: TypeAlias = tuple[int, ...]
Relevant: TypeAlias = tuple[Positions, tuple["Elements[Any]", ...]]

CACHE_SIZE: Final = 10_000
"""Number of environments for which the elements of one let are cached."""


class Pad:
    """The type of `PAD`: an element to which lowering stores nothing (§5.5.1). It reads as zero."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "PAD"


PAD: Final = Pad()


class Environment:
    """The sizes and the values of the surrounding indices and let-bound tensors, innermost last."""

    __slots__ = ("indices", "sizes", "tensors")

    def __init__(self, sizes: Mapping[str, int], indices: Positions, tensors: tuple[Elements[Any], ...]) -> None:
        self.sizes = sizes
        self.indices = indices
        self.tensors = tensors

    def with_index(self, value: int) -> Environment:
        return Environment(self.sizes, (*self.indices, value), self.tensors)

    def with_tensor(self, tensor: Elements[Any]) -> Environment:
        return Environment(self.sizes, self.indices, (*self.tensors, tensor))

    def relevant_to(self, term: terms.Expr) -> Relevant:
        """Return the part of the environment on which the term depends."""
        indices, tensors = len(self.indices) - term.loose, len(self.tensors) - term.loose_tensors
        return (self.indices[indices:], self.tensors[tensors:])

    def leaf(self, leaf: Leaf) -> int:
        if isinstance(leaf, Bound):
            return self.indices[~leaf.position]
        if isinstance(leaf, Size):
            return self.sizes[leaf.name]
        raise EscapedIndex(f"the index {leaf.name} has no value here", required="a closed term")


ElementAt: TypeAlias = Callable[[Environment, Positions], E | Pad]
"""The denotation of a term."""


class Elements(Generic[E]):
    """The elements of a tensor in an environment, computed on demand and cached."""

    __slots__ = ("_element", "_environment", "_known")

    def __init__(self, element: ElementAt[E], environment: Environment) -> None:
        self._element = element
        self._environment = environment
        self._known: dict[Positions, E | Pad] = {}

    def at(self, positions: Positions) -> E | Pad:
        found = self._known.get(positions)
        if found is None:
            found = self._known[positions] = self._element(self._environment, positions)
        return found


class Meaning(Generic[E]):
    """The denotation of a program for some sizes and arrays: a shape and elements."""

    def __init__(self, shape: tuple[int, ...], elements: Elements[E], zero: E) -> None:
        self.shape = shape
        self._elements = elements
        self._zero = zero

    def at(self, positions: Positions) -> E | Pad:
        """Return the element at these positions, which are within the shape, or `PAD`."""
        try:
            return self._elements.at(positions)
        except ZeroDivisionError as error:
            raise _bad_divisor(error) from None
        except RecursionError:
            raise TooLarge(
                "the program nests too deeply for the reference interpreter",
                required="lets that read each other through fewer levels",
                suggestions=("compile the program, or raise the limit with sys.setrecursionlimit",),
            ) from None

    def to_numpy(self, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return all elements, with zeros for padding."""
        check_rank(len(self.shape))
        try:
            out = np.full(self.shape, self._zero, dtype=dtype)
        except (ValueError, MemoryError):
            raise OutOfMemory(
                f"the result, of shape {self.shape}, does not fit in memory", required="smaller sizes"
            ) from None
        for positions in np.ndindex(self.shape):
            element = self.at(positions)
            if element is not PAD:
                out[positions] = element
        return out

    def padding(self) -> npt.NDArray[np.bool_]:
        """Return a boolean array that is True for padding."""
        out = np.zeros(self.shape, dtype=np.bool_)
        for positions in np.ndindex(self.shape):
            out[positions] = self.at(positions) is PAD
        return out


def _bad_divisor(error: ZeroDivisionError) -> ExtentError:
    return ExtentError(
        "an index is divided by a number that is not positive",
        required="a positive divisor, as in every well-formed program",
        numbers={"divisor": error.args[0]},
    )


class _Interpreter(Generic[E]):
    """Denotations of terms over given arrays and scalars; equal terms share one."""

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]], scalars: Scalars[E]) -> None:
        self._arrays = arrays
        self._element = index_elements(arrays)
        self._scalars = scalars
        self._denotations: dict[terms.Expr, ElementAt[E]] = {}
        self._tensors: dict[terms.Expr, dict[Relevant, Elements[E]]] = {}

    def meaning(self, term: terms.Expr) -> ElementAt[E]:
        found = self._denotations.get(term)
        if found is None:
            found = self._denotations[term] = self._meaning(term)
        return found

    def _meaning(self, term: terms.Expr) -> ElementAt[E]:
        scalars, dtype = self._scalars, _dtype(term)
        match term:
            case terms.Input(array):
                data = self._arrays[array.name]
                return lambda env, at: scalars.element(data[at], dtype)
            case terms.Local(position):
                return self._computed(lambda env, at: env.tensors[~position].at(at), dtype)
            case terms.TensorVar(name=name) | terms.Metavariable(name=name):
                raise EscapedIndex(f"the tensor {name} has no value here", required="a closed term")
            case terms.Constant(literal):
                return lambda env, at: scalars.constant(literal, dtype)
            case terms.Value(expression):
                value = self.index(expression)
                return lambda env, at: scalars.from_index(value(env), dtype)
            case terms.Gen(low, _, body):
                start, inner = self.index(low), self.meaning(body)
                return lambda env, at: inner(env.with_index(start(env) + at[0]), at[1:])
            case terms.Reduce():
                return self._fold(term)
            case terms.Rec():
                rows = self._recurrence(term)
                return lambda env, at: rows(env).at(at)
            case terms.Guard(predicate, body):
                test, inner = self.test(predicate), self.meaning(body)
                return lambda env, at: inner(env, at) if test(env) else PAD
            case terms.Let(bound, body):
                tensor, inner = self.shared(bound), self.meaning(body)
                return lambda env, at: inner(env.with_tensor(tensor(env)), at)
            case terms.Access():
                return self._access(term)
            case terms.Unary(function, operand):
                x = self.read(operand)
                return lambda env, at: scalars.unary(function, dtype, x(env, at))
            case terms.Binary(op, left, right):
                x, y = self.read(left), self.read(right)
                return lambda env, at: scalars.binary(op, dtype, x(env, at), y(env, at))
            case terms.Select(predicate, left, right):
                test, x, y = self.test(predicate), self.read(left), self.read(right)
                return lambda env, at: x(env, at) if test(env) else y(env, at)
            case terms.Where(condition, left, right):
                true, x, y = self.read(condition), self.read(left), self.read(right)
                return lambda env, at: scalars.where(true(env, at), x(env, at), y(env, at))
            case terms.Cast(_, operand):
                x, source = self.read(operand), _dtype(operand)
                return lambda env, at: scalars.cast(dtype, source, x(env, at))
            case terms.Concat(left, right):
                first, second, n = self.meaning(left), self.meaning(right), self.index(left.type.shape[0])
                return lambda env, at: first(env, at) if at[0] < n(env) else second(env, (at[0] - n(env), *at[1:]))
            case terms.Padding():
                return lambda env, at: PAD
            case terms.Reshape():
                return self._reshape(term)

    def read(self, term: terms.Expr) -> Callable[[Environment, Positions], E]:
        """Return the denotation with padding as zero, as arithmetic reads it."""
        return self._computed(self.meaning(term), _dtype(term))

    def _computed(self, inner: ElementAt[E], dtype: str) -> Callable[[Environment, Positions], E]:
        zero = self._scalars.constant(0, dtype)

        def element(env: Environment, at: Positions) -> E:
            found = inner(env, at)
            return zero if isinstance(found, Pad) else found

        return element

    def shared(self, term: terms.Expr) -> Callable[[Environment], Elements[E]]:
        """Return a function to the term's elements, shared by environments that agree on its free variables."""
        inner = self.meaning(term)
        return _cached(term, self._tensors.setdefault(term, {}), lambda env: Elements(inner, env))

    def _recurrence(self, term: terms.Rec) -> Callable[[Environment], Elements[E]]:
        """Return a function to the elements of a recurrence, shared by environments that agree on its free variables.

        Rows are computed in order, each before an element of a later row, so that Python's stack does not grow with
        their number.
        """
        first, later, low = self.meaning(term.init), self.meaning(term.body), self.index(term.low)
        extents = [self.index(extent) for extent in term.type.shape[1:]]

        def rows_in(env: Environment) -> Elements[E]:
            row_shape = tuple(extent(env) for extent in extents)
            complete = low(env)

            def element(_: Environment, at: Positions) -> E | Pad:
                nonlocal complete
                p, *rest = at
                if p < low(env):
                    return first(env, at)
                while complete < p:
                    complete += 1
                    for position in np.ndindex(row_shape):
                        rows.at((complete - 1, *position))
                return later(inside.with_index(p), tuple(rest))

            rows = Elements(element, env)
            inside = env.with_tensor(rows)
            return rows

        return _cached(term, {}, rows_in)

    def _access(self, term: terms.Access) -> ElementAt[E]:
        """Denote a read: zero for padding and outside the tensor."""
        operand, n, position = term.tensor, self.index(term.tensor.type.shape[0]), self.index(term.index)
        zero = self._scalars.constant(0, _dtype(term))
        if isinstance(operand, (terms.Access, terms.Input, terms.Local)):
            inner = self.meaning(operand)
        else:
            tensor = self.shared(operand)
            inner = lambda env, at: tensor(env).at(at)  # noqa: E731

        def element(env: Environment, at: Positions) -> E:
            i = position(env)
            found = inner(env, (i, *at)) if 0 <= i < n(env) else zero
            return zero if isinstance(found, Pad) else found

        return element

    def _fold(self, term: terms.Reduce) -> ElementAt[E]:
        """Denote a fold: padding for a sum of only padding, and for an empty fold. Other padding is zero."""
        scalars, dtype, monoid = self._scalars, _dtype(term), term.monoid
        op, neutral, zero = terms.OF_MONOID[monoid], scalars.neutral(monoid, dtype), scalars.constant(0, dtype)
        low, high, inner = self.index(term.low), self.index(term.high), self.meaning(term.body)
        start = () if neutral is None else (neutral,)

        def element(env: Environment, at: Positions) -> E | Pad:
            parts = [inner(env.with_index(k), at) for k in range(low(env), high(env))]
            if not parts or (monoid == "sum" and all(part is PAD for part in parts)):
                return PAD
            operands = (*start, *(zero if isinstance(part, Pad) else part for part in parts))
            total: E = fold(lambda x, y: scalars.binary(op, dtype, x, y), operands)
            return total

        return element

    def _reshape(self, term: terms.Reshape) -> ElementAt[E]:
        inner, shape = self.meaning(term.operand), term.operand.type.shape
        match term.op:
            case terms.Transpose():
                return lambda env, at: inner(env, (at[1], at[0], *at[2:]))
            case terms.Flatten():
                m = self.index(shape[1])
                return lambda env, at: inner(env, (*divmod(at[0], m(env)), *at[1:]))
            case terms.Split(by):
                n, k = self.index(shape[0]), self.index(by)

                def piece(env: Environment, at: Positions) -> E | Pad:
                    i = at[0] * k(env) + at[1]
                    return inner(env, (i, *at[2:])) if i < n(env) else PAD

                return piece
            case terms.PadLeft(by):
                k = self.index(by)
                return lambda env, at: inner(env, (at[0] - k(env), *at[1:])) if at[0] >= k(env) else PAD
            case terms.PadRight():
                n = self.index(shape[0])
                return lambda env, at: inner(env, at) if at[0] < n(env) else PAD
            case terms.TruncateLeft(by):
                k = self.index(by)
                return lambda env, at: inner(env, (at[0] + k(env), *at[1:]))
            case terms.TruncateRight():
                return inner
            case terms.Place(_, position):
                place = self.index(position)
                return lambda env, at: inner(env, at[1:]) if at[0] == place(env) else PAD
            case _:
                assert_never(term.op)

    # -- indices -----------------------------------------------------------------------------------------------------

    def index(self, expression: Index) -> Callable[[Environment], int]:
        """Return a function to the value of an index expression; a closed expression is evaluated shared."""
        if (constant := expression.constant) is not None:
            return lambda env: constant
        if isinstance(atom := expression.atom, Bound):
            position = atom.position
            return lambda env: env.indices[~position]
        if expression.loose:
            return lambda env: value_of(expression, env.leaf, self._element)
        known: list[int] = []

        def closed(env: Environment) -> int:
            if not known:
                known.append(value_of(expression, env.leaf, self._element))
            return known[0]

        return closed

    def test(self, predicate: Predicate) -> Callable[[Environment], bool]:
        return lambda env: holds(predicate, env.leaf, self._element)


def _cached(
    term: terms.Expr, known: dict[Relevant, Elements[E]], make: Callable[[Environment], Elements[E]]
) -> Callable[[Environment], Elements[E]]:
    """Return a function that calls `make` once for environments that agree on the free variables of a term."""

    def tensor(env: Environment) -> Elements[E]:
        relevant = env.relevant_to(term)
        found = known.get(relevant)
        if found is None:
            if len(known) >= CACHE_SIZE:
                known.clear()
            found = known[relevant] = make(env)
        return found

    return tensor


def _dtype(term: terms.Expr) -> str:
    return term.type.dtype or dtypes.DEFAULT


# -- programs ---------------------------------------------------------------------------------------------------------


def denote(
    program: Program, sizes: Mapping[str, int], arrays: Mapping[str, npt.NDArray[Any]], scalars: Scalars[E]
) -> Meaning[E]:
    """Return the meaning of a program for sizes and arrays that `atl.meaning.arguments.bind` accepted.

    >>> import atl, numpy as np
    >>> from atl.meaning.interpret import denote
    >>> from atl.meaning.scalars import Exact
    >>> n = atl.sizes("n")
    >>> x = atl.tensor("x", n)
    >>> padded = denote(atl.program("padded", [x], atl.padr(1, x)), {"n": 1}, {"x": np.array([2.5])}, Exact())
    >>> padded.shape, padded.at((0,)), padded.at((1,))
    ((2,), Fraction(5, 2), PAD)
    """
    interpreter = _Interpreter(arrays, scalars)
    outside = Environment(sizes, (), ())
    try:
        shape = tuple(interpreter.index(extent)(outside) for extent in program.type.shape)
    except ZeroDivisionError as error:
        raise _bad_divisor(error) from None
    elements = Elements(interpreter.meaning(program.body), outside)
    return Meaning(shape, elements, scalars.constant(0, program.dtype))


def evaluate(program: Program, /, *positional: Any, exact: bool = False, **arguments: Any) -> Any:
    """Evaluate a program with the reference interpreter, from NumPy arrays to NumPy arrays.

    This is slow, and defines the correct result of every kernel. Arrays are passed in the order of the inputs or by
    name, and sizes that no array determines by name. With `exact=True`, arithmetic is rational and the result is an
    array of Fractions. In both modes, integers wrap and x / 0 is 0. Several results are returned as a named tuple.

    Raise `ArgumentError`, `ArrayError`, `AssumptionError`; with `exact=True` also `NotExact`.

    >>> import atl, numpy as np
    >>> n = atl.sizes("n")
    >>> x = atl.tensor("x", n, dtype="float64")
    >>> mean = atl.program("mean", [x], atl.sum(n, lambda i: x[i]) / atl.value(n))
    >>> atl.evaluate(mean, x=np.array([1.0, 2.0, 4.0, 5.0]))
    array(3.)
    >>> atl.evaluate(mean, x=[1, 0, 0], exact=True)[()]
    Fraction(1, 3)
    """
    if not isinstance(exact, bool):
        raise ArgumentError(
            f"exact={brief(exact)}",
            required="exact=True or exact=False",
            suggestions=("pass an input named exact by position",),
        )
    program = at_call(program, positional, arguments)
    bound = bind(program, positional, arguments, exact=exact)
    scalars: Scalars[Any] = Exact() if exact else Machine()
    meaning = denote(program, bound.sizes, bound.arrays, scalars)
    return split_results(program, meaning.to_numpy(object if exact else program.dtype), bound.sizes, bound.arrays)
