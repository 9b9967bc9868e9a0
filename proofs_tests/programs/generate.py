"""Random programs over all constructs, well typed and closed, with the sizes and arrays of a call.

A term is generated from its shape and element type down to its leaves. Most programs are safe by construction: accesses
are in range or guarded, and truncations cut pads, guarded elements and split tails. The same code serves Hypothesis
(`cases`) and runs by seed (`case_by_seed`), with different sources of decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

import atl
from atl.core.dtypes import BOOL, DTYPES, ELEMENTS, FLOATS, STORED, is_integer
from atl.core.index import ZERO, Array, Index, Size, constant, value_at
from atl.core.program import Program, is_bool_array
from atl.core.terms import Monoid
from atl.errors import ATLError
from atl.surface.values import Condition, IndexExpr, Tensor, as_tensor
from proofs_tests.programs.choices import Choices, Drawn, Seeded, chance, choose, weighted
from proofs_tests.programs.generate_index import MAX_WORK, Ground, Scope, Shape, array_of, of

AnyArray = npt.NDArray[Any]
Option = tuple[int, Callable[[], Tensor]]
LET_NAMES: Final = ("x", "y", "buf", "n", "out")


@dataclass(frozen=True, slots=True)
class Case:
    """A program with a call. `events` are constructs that are invisible in the program's canonical terms."""

    program: Program
    sizes: Mapping[str, int]
    arrays: Mapping[str, AnyArray]
    events: frozenset[str]


@dataclass(frozen=True, slots=True)
class Rejected:
    """A generated term that is not a valid program; `reason` is the kind of error."""

    reason: str


@dataclass(frozen=True, slots=True)
class Broken:
    """A failure of the language with an internal error.

    `program` is the program being checked, or None if the failure came earlier.
    """

    message: str
    program: Program | None


Made: TypeAlias = Case | Rejected | Broken


def case_by_seed(seed: int, number: int) -> Made:
    """Return the case with this number in the run with this seed."""
    return case(Seeded.by(f"{seed}:{number}"))


@st.composite
def cases(draw: Callable[[st.SearchStrategy[int]], int]) -> Made:
    """Return the Hypothesis strategy."""
    return case(Drawn(draw))


def case(choices: Choices, generator: type[Maker] | None = None) -> Made:
    """Return a random case. Malformed programs are rejected by the language itself."""
    maker = (generator or Maker)(choices)
    ground = maker.ground
    unchecked = None
    try:
        body = maker.whole()
        inputs = list(ground.inputs.values())
        unchecked = Program("fuzzed", tuple(map(array_of, inputs)), body.node)
        made = atl.program("fuzzed", inputs, body)
    except ATLError as error:
        return Rejected(type(error).__name__)
    except Exception as error:  # noqa: BLE001 (Hypothesis stops a draw by an exception of another kind)
        return Broken(f"{type(error).__name__}: {error}", unchecked)
    sizes = {name: ground.sizes[name][1] for name in made.sizes}
    numbers = np.random.default_rng(choices.integer(0, 1 << 16))
    wide = chance(choices, 8)
    arrays = {t.name: random_elements(t, sizes, numbers, ring=maker.ring, wide=wide) for t in made.inputs}
    return Case(made, sizes, arrays, frozenset(ground.events))


def random_elements(
    array: Array, sizes: Mapping[str, int], numbers: np.random.Generator, *, ring: bool, wide: bool
) -> AnyArray:
    """Return small integers for ring programs, floats from 1/4 to 2 of both signs for others, and valid positions."""

    def value(expression: Index) -> int:
        return value_at(expression, sizes)

    shape = tuple(value(extent) for extent in array.shape)
    if is_bool_array(array):
        return numbers.integers(0, 2, shape).astype(np.bool_)
    if array.low is not None and array.high is not None:
        high = value(array.high)
        return numbers.integers(value(array.low), max(high, 1), shape, dtype=array.dtype, endpoint=False)
    if is_integer(array.dtype):
        range_of = np.iinfo(array.dtype)
        bound = range_of.max if wide else 4
        return numbers.integers(max(-bound, range_of.min), bound, shape, dtype=array.dtype)
    if ring:
        return numbers.integers(-3, 4, shape).astype(array.dtype)
    return np.asarray(numbers.uniform(0.25, 2, shape) * numbers.choice((-1, 1), shape)).astype(array.dtype)


def _equal(left: Tensor, right: Tensor) -> Tensor:
    made = left == right
    assert isinstance(made, Tensor)
    return made


class Maker:
    """Generator of the terms of one program. `ring` programs have no quotients, roots or fractions."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.ground = Ground(choices)
        self.ring = not chance(choices, 35)
        self.fuel = choices.integer(1, 26)

    def whole(self) -> Tensor:
        of_type = ((8, "float32"), (4, "float64"), *(((6, "int32"), (8, "int64"), (2, BOOL)) if self.ring else ()))
        dtype = weighted(self.choices, (*of_type, *((1, stored) for stored in STORED)))
        return self.tensor(Scope(), self.ground.shape(Scope()), dtype)

    def tensor(self, scope: Scope, shape: Shape, dtype: str) -> Tensor:
        """Return a term of this shape and element type."""
        if dtype == BOOL:
            return self._truths(scope.unfolded, shape)
        self.fuel -= 1
        options = self._ranked(scope, shape, dtype) if shape else self._scalar(scope, dtype)
        if self.fuel > 0:
            options += self._common(scope, shape, dtype)
        return weighted(self.choices, options)()

    def _common(self, scope: Scope, shape: Shape, dtype: str) -> list[Option]:
        """Return the constructors available at every rank."""
        options: list[Option] = [
            (3, lambda: self._let(scope, shape, dtype)),
            (2, lambda: self._access(scope, shape, dtype)),
            (2, lambda: self._select(scope.unfolded, shape, dtype)),
            (3, lambda: self._where(scope.unfolded, shape, dtype)),
            (4 if dtype in STORED else 2, lambda: self._cast(scope.unfolded, shape, dtype)),
            (1, lambda: self._iteration(scope, shape, dtype)),
            (1, lambda: self._position_of_extremum(scope, shape, dtype)),
        ]
        if dtype not in STORED:
            options += [
                (2, lambda: self._reduction("sum", scope, shape, dtype)),
                (2, lambda: self._reduction(choose(self.choices, ("max", "min", "product")), scope, shape, dtype)),
                (3, lambda: self._arithmetic(scope.unfolded, shape, dtype)),
                (2 if self.ring else 12, lambda: self._unary(scope.unfolded, shape, dtype)),
            ]
        if _holding(scope, shape, dtype):
            options.append((6, lambda: self._access(scope, shape, dtype)))
        if not scope.folded:
            options.append((3, lambda: atl.guard(self.ground.condition(scope), self.tensor(scope, shape, dtype))))
        return options

    def _let(self, scope: Scope, shape: Shape, dtype: str) -> Tensor:
        kind = dtype if chance(self.choices, 75) else choose(self.choices, ELEMENTS)
        bound = self.ground.shape(scope, local=True)
        if chance(self.choices, 25):
            bound = shape
        value = self.tensor(scope.unfolded, bound, kind)
        name = choose(self.choices, LET_NAMES)

        def body(x: Tensor) -> Tensor:
            inside = scope.knowing(x)
            if not chance(self.choices, 40):
                return self.tensor(inside, shape, dtype)
            inside = inside.unfolded
            return atl.maximum(self.tensor(inside, shape, dtype), self.tensor(inside, shape, dtype))

        return atl.let(value, body, name=name)

    def _access(self, scope: Scope, shape: Shape, dtype: str) -> Tensor:
        """Return an element or a slice of a term, guarded where it may be out of range."""
        inner = scope.unfolded
        known = _holding(scope, shape, dtype)
        if known and chance(self.choices, 80):
            tensor = choose(self.choices, known)
        else:
            more = self.ground.shape(inner, local=self.fuel > 0, least=1)[: 4 - len(shape)]
            if self.ground.elements((*more, *shape), inner) > MAX_WORK or not more:
                more = (constant(2),)
            closed = not any(extent.free for extent in (*more, *shape))
            if closed and (self.fuel <= 0 or chance(self.choices, 50)):
                tensor = self.ground.declared((*more, *shape), dtype)
            else:
                tensor = self.tensor(inner, (*more, *shape), dtype)
        conditions: list[Condition] = []
        for extent in tensor.node.type.shape[: tensor.rank - len(shape)]:
            position, needed = self.ground.position(extent, scope)
            conditions += needed
            tensor = tensor[position]
        return self._under(conditions, tensor, scope, shape, dtype)

    def _under(self, conditions: list[Condition], e: Tensor, scope: Scope, shape: Shape, dtype: str) -> Tensor:
        if not conditions:
            return e
        condition = conditions[0]
        for other in conditions[1:]:
            condition = condition & other
        if scope.folded or chance(self.choices, 30):
            self.fuel -= 2
            return atl.select(condition, e, self.tensor(scope, shape, dtype))
        return atl.guard(condition, e)

    def _reduction(self, monoid: Monoid, scope: Scope, shape: Shape, dtype: str) -> Tensor:
        low, high = self._range(scope, local=True)
        times = max(0, self.ground.value(high, scope) - self.ground.value(low, scope))
        if times * scope.work * self.ground.elements(shape, scope) > MAX_WORK or (monoid == "product" and times > 5):
            low, high, times = ZERO, constant(2), 2

        def body(i: IndexExpr) -> Tensor:
            inside = replace(scope.inside(i, low, high, times), folded=scope.folded or monoid != "sum")
            return self.tensor(inside, shape, dtype)

        bounds = of(high) if low is ZERO else (of(low), of(high))
        return atl.reduce(monoid, bounds, self._binder(body))

    def _range(self, scope: Scope, *, local: bool) -> tuple[Index, Index]:
        """Return bounds; those of a reduction may be reversed."""
        high = self.ground.extent(scope, local=local)
        if not chance(self.choices, 30):
            return ZERO, high
        low = choose(self.choices, (constant(1), self.ground.constant()))
        return low, high + choose(self.choices, (ZERO, low))

    def _binder(self, body: Callable[[IndexExpr], Tensor]) -> Callable[[IndexExpr], Tensor]:
        """Return the body with a name for its index: fresh, reused, or that of a size or an input."""
        named: tuple[Callable[[IndexExpr], Tensor], ...] = (
            lambda i: body(i),  # noqa: PLW0108 (the parameter's name is what matters)
            lambda j: body(j),  # noqa: PLW0108
            lambda k: body(k),  # noqa: PLW0108
            lambda A: body(A),  # noqa: N803, PLW0108
            lambda int_: body(int_),  # noqa: PLW0108
        )
        return choose(self.choices, named)

    def _arithmetic(self, scope: Scope, shape: Shape, dtype: str) -> Tensor:
        def operand() -> Tensor:
            scalar = bool(shape) and chance(self.choices, 15)
            return self.tensor(scope, () if scalar else shape, dtype)

        left = self.tensor(scope, shape, dtype)
        if is_integer(dtype) and chance(self.choices, 75):
            return self._of_integers(left, operand())
        kind = weighted(
            self.choices, ((4, "+"), (3, "*"), (3, "-"), (1, "min"), (1, "max"), (0 if self.ring else 6, "/"))
        )
        match kind:
            case "*":
                return left * operand()
            case "-":
                return left - operand() if chance(self.choices, 70) else operand() - left
            case "min":
                return atl.minimum(left, operand())
            case "max":
                return atl.maximum(operand(), left)
            case "/" if not self.ring and not is_integer(dtype):
                return left / (atl.abs(operand()) + choose(self.choices, (1, 0.5)))
            case _:
                return left + operand()

    def _of_integers(self, left: Tensor, right: Tensor) -> Tensor:
        match self.choices.integer(0, 14):
            case 0:
                return left & right
            case 1:
                return left | right
            case 2:
                return left ^ right
            case 3 | 7:
                return left // right
            case 4 | 8:
                return left % right
            case 5 | 9 | 10:
                return left << (right if chance(self.choices, 50) else choose(self.choices, (1, 3, 31, 63)))
            case _:
                return left >> (right if chance(self.choices, 50) else choose(self.choices, (1, 3, 31, 63)))

    def _where(self, scope: Scope, shape: Shape, dtype: str) -> Tensor:
        return atl.where(self._test(scope, shape), self.tensor(scope, shape, dtype), self.tensor(scope, shape, dtype))

    def _test(self, scope: Scope, shape: Shape, *, simple: bool = False) -> Tensor:
        """Return a Boolean tensor: a comparison, or two of them."""
        compared = choose(self.choices, DTYPES if self.ring else FLOATS)
        left, right = self.tensor(scope, shape, compared), self.tensor(scope, shape, compared)
        match self.choices.integer(0, 3 if simple else 9):
            case 0:
                return left < right
            case 1:
                return left >= right
            case 2:
                return _equal(left, right)
            case 3:
                return ~(left <= right)
            case 4 | 5:
                return ~_equal(left, right) & self._test(scope, shape, simple=True)
            case 6 | 7:
                return (left <= right) | self._test(scope, shape, simple=True)
            case _:
                return _equal(left, right) ^ self._test(scope, shape, simple=True)

    def _truths(self, scope: Scope, shape: Shape) -> Tensor:
        """Return a Boolean tensor: tests, with lets, generations, recurrences or inputs of Boolean elements."""
        options: list[Option] = [(4, lambda: self._test(scope, shape))]
        if shape:
            options.append((2, lambda: self._generation(scope, shape, BOOL)))
        if _holding(scope, shape, BOOL):
            options.append((6, lambda: self._access(scope, shape, BOOL)))
        if self.fuel > 0:
            self.fuel -= 1
            options.append((1, lambda: self._let(scope, shape, BOOL)))
            options.append((1, lambda: self._iteration(scope, shape, BOOL)))
            options.append((1, lambda: ~self.tensor(scope, shape, BOOL)))
            options.append((1, lambda: self._select(scope, shape, BOOL)))
            if shape:
                options.append((2, lambda: self._recurrence(scope, shape, BOOL)))
            if not any(extent.free for extent in shape):
                options.append((2, lambda: self.ground.declared(shape, BOOL)))
        return weighted(self.choices, options)()

    def _unary(self, scope: Scope, shape: Shape, dtype: str) -> Tensor:
        operand = self.tensor(scope, shape, dtype)
        if is_integer(dtype) and chance(self.choices, 30):
            return ~operand
        if chance(self.choices, 6):
            return atl.sign(operand) if chance(self.choices, 50) else atl.clip(operand, -1, 2)
        if chance(self.choices, 3):
            return operand ** self.choices.integer(1, 3)
        if not is_integer(dtype) and chance(self.choices, 15):
            # The derivative of these functions is zero too.
            return choose(self.choices, (atl.floor, atl.round, atl.ceil))(atl.stop(operand))
        if not is_integer(dtype) and chance(self.choices, 5):
            return atl.where(atl.isfinite(operand), operand, self.tensor(scope, shape, dtype))
        if self.ring or is_integer(dtype):
            return -operand if chance(self.choices, 50) else atl.abs(operand)
        kinds = (
            *((3, "sqrt"), (1, "neg"), (1, "abs"), (2, "exp"), (2, "log"), (2, "tanh")),
            *((2, "erf"), (3, "sin"), (2, "cos"), (2, "log1p"), (2, "expm1")),
        )
        kind = weighted(self.choices, kinds)
        match kind:
            case "sqrt":
                return atl.sqrt(atl.abs(operand))
            case "exp":
                return atl.exp(atl.minimum(operand, 2))
            case "log":
                return atl.log(atl.abs(operand) + 0.5)
            case "log1p":
                return atl.log1p(atl.abs(operand))
            case "expm1":
                return atl.expm1(atl.minimum(operand, 2))
            case "tanh":
                return atl.tanh(operand)
            case "erf":
                return atl.erf(operand)
            case "sin":
                return atl.sin(operand)
            case "cos":
                return atl.cos(operand)
            case "abs":
                return atl.abs(operand)
            case _:
                return -operand

    def _select(self, scope: Scope, shape: Shape, dtype: str) -> Tensor:
        condition = self.ground.condition(scope)
        return atl.select(condition, self.tensor(scope, shape, dtype), self.tensor(scope, shape, dtype))

    def _cast(self, scope: Scope, shape: Shape, dtype: str) -> Tensor:
        sources = [each for each in (*DTYPES, *DTYPES, *STORED) if each != dtype]
        return atl.cast(dtype, self.tensor(scope, shape, choose(self.choices, sources)))

    def _scalar(self, scope: Scope, dtype: str) -> list[Option]:
        options: list[Option] = [
            (1, lambda: self._literal(dtype)),
            (1, lambda: atl.cast(dtype, atl.value(self.ground.any_index(scope)))),
            (6 if self.fuel > -20 else 1, lambda: self._access(scope, (), dtype)),
        ]
        if scalars := [t for t in scope.tensors if not t.rank and t.dtype == dtype]:
            options.append((5, lambda: choose(self.choices, scalars)))
        if chance(self.choices, 10):
            options.append((2, lambda: self.ground.declared((), dtype)))
        return options

    def _literal(self, dtype: str) -> Tensor:
        whole = self.ring or dtype not in FLOATS
        literal: float = choose(self.choices, (1, 2, 0, -1, 3) if whole else (1, 0.5, 0, -1.25, 0.1, 3))
        literal = abs(literal) if dtype == "uint8" else literal
        return atl.cast(dtype, as_tensor(literal))

    def _ranked(self, scope: Scope, shape: Shape, dtype: str) -> list[Option]:
        generate: Option = (8, lambda: self._generation(scope, shape, dtype))
        recur: Option = (2, lambda: self._recurrence(scope, shape, dtype))
        same = [t for t in scope.tensors if t.dtype == dtype and t.node.type.shape == shape]
        closed = not any(extent.free for extent in shape)
        options: list[Option] = [(3, lambda: self.ground.declared(shape, dtype))] if closed else []
        if same:
            options.append((8, lambda: choose(self.choices, same)))
        if self.fuel <= 0:
            return options or [generate]
        return [*options, generate, recur, *self._reshapes(scope, shape, dtype)]

    def _generation(self, scope: Scope, shape: Shape, dtype: str) -> Tensor:
        extent, *rest = shape
        low = ZERO
        if chance(self.choices, 20):
            low = choose(self.choices, (constant(1), self.ground.size(), constant(2), constant(-1)))
        times = self.ground.value(extent, scope)

        def body(i: IndexExpr) -> Tensor:
            return self.tensor(scope.inside(i, low, low + extent, times), tuple(rest), dtype)

        bounds = of(extent) if low is ZERO else (of(low), of(low + extent))
        return atl.gen(bounds, self._binder(body))

    def _recurrence(self, scope: Scope, shape: Shape, dtype: str) -> Tensor:
        """Return a recurrence of no first rows or some, whose later rows may read earlier ones."""
        extent, *rest = shape
        times = self.ground.value(extent, scope)
        parts = self._parts(extent)
        first = ZERO if parts is None or chance(self.choices, 30) else parts[0]

        def row(p: IndexExpr, rows: Tensor) -> Tensor:
            inside = scope.inside(p, first, extent, times).knowing(rows)
            if chance(self.choices, 50):
                return self.tensor(inside, tuple(rest), dtype)
            earlier = self._access(inside, tuple(rest), dtype)
            return self._combined(earlier, self.tensor(inside.unfolded, tuple(rest), dtype), dtype)

        if first == ZERO:
            return atl.rec(of(extent), row, of=tuple(map(of, rest)), dtype=dtype)
        return atl.rec(self.tensor(scope, (first, *rest), dtype), of(extent), row)

    def _iteration(self, scope: Scope, shape: Shape, dtype: str) -> Tensor:
        """Return the last state of some steps. A step often reads elements near its own and keeps others."""
        steps = choose(self.choices, (self.ground.size(), self.ground.constant()))
        times = self.ground.value(steps, scope)
        if times * scope.work * self.ground.elements(shape, scope) > MAX_WORK:
            steps, times = constant(2), 2
        outer = scope.unfolded
        self.ground.events.add("iterate")

        def element(inside: Scope, u: Tensor, at: tuple[IndexExpr, ...], rest: Shape) -> Tensor:
            if rest:
                extent, *others = rest
                return atl.gen(
                    of(extent),
                    lambda i: element(
                        inside.inside(i, ZERO, extent, self.ground.value(extent, inside)), u, (*at, i), tuple(others)
                    ),
                )
            near = self._access(replace(inside, tensors=(u,)), (), dtype) if shape else u
            if chance(self.choices, 40):
                near = self._combined(near, self.tensor(inside, (), dtype), dtype)
            return atl.select(self.ground.condition(inside), near, u[at]) if chance(self.choices, 60) else near

        def step(s: IndexExpr, u: Tensor) -> Tensor:
            inside = outer.inside(s, ZERO, steps, times).knowing(u)
            return element(inside, u, (), shape) if chance(self.choices, 70) else self.tensor(inside, shape, dtype)

        first = self.tensor(outer, shape, dtype)
        if chance(self.choices, 75):
            return atl.iterate(of(steps), first, step)
        second = self.tensor(outer, shape, dtype)

        def both(s: IndexExpr, u: tuple[Tensor, Tensor], new: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            one, other = u
            inside = outer.inside(s, ZERO, steps, times).knowing(other)
            return step(s, one), self._combined(new[0], self.tensor(inside, shape, dtype), dtype)

        return atl.iterate(of(steps), (first, second), both, lambda last: self._combined(last[0], last[1], dtype))

    def _combined(self, a: Tensor, b: Tensor, dtype: str) -> Tensor:
        if dtype in STORED:
            return choose(self.choices, (a, b))
        return a ^ b if dtype == BOOL else choose(self.choices, (a + b, a - b, atl.maximum(a, b)))

    def _position_of_extremum(self, scope: Scope, shape: Shape, dtype: str) -> Tensor:
        """Return the first positions of the maxima or minima along an axis, converted to the element type."""
        extent = choose(self.choices, (constant(1), constant(3), self.ground.size()))
        if not self.ground.positive(extent, scope) or len(shape) > 3:
            extent = constant(2)
        of_type = choose(self.choices, DTYPES if self.ring else FLOATS)
        self.ground.events.add("position of an extremum")
        operand = self.tensor(scope.unfolded, (*shape, extent), of_type)
        return atl.cast(dtype, choose(self.choices, (atl.argmax, atl.argmin))(operand))

    def _reshapes(self, scope: Scope, shape: Shape, dtype: str) -> list[Option]:
        """Return the operators with a result of this shape."""
        extent, *rest = shape
        options: list[Option] = [
            (2, lambda: atl.flatten(self.tensor(scope, (constant(1), *shape), dtype))),
            (3, lambda: self._truncated(scope, shape, dtype)),
        ]
        if self.ground.positive(extent, scope):
            options.append((2, lambda: self._placed(scope, extent, tuple(rest), dtype)))
        options.append((1, lambda: self._scattered(scope, extent, tuple(rest), dtype)))
        if len(shape) >= 2:
            swapped = (shape[1], shape[0], *shape[2:])
            options.append((4, lambda: atl.transpose(self.tensor(scope, swapped, dtype))))
            if (pieces := self.ground.splits.get((shape[0], shape[1]))) is not None:
                n, k = pieces
                options.append((12, lambda: atl.split(of(k), self.tensor(scope, (n, *shape[2:]), dtype))))
        if (factors := self._factors(extent)) is not None and len(shape) <= 3:
            options.append((6, lambda: atl.flatten(self.tensor(scope, (*factors, *rest), dtype))))
        if (parts := self._parts(extent)) is not None:
            first, second = parts
            options.append((5, lambda: self._concat(scope, first, second, tuple(rest), dtype)))
            options.append((3, lambda: atl.padr(of(second), self.tensor(scope, (first, *rest), dtype))))
            options.append((3, lambda: atl.padl(of(second), self.tensor(scope, (first, *rest), dtype))))
        return options

    def _placed(self, scope: Scope, extent: Index, rest: Shape, dtype: str) -> Tensor:
        """Return an element placed in a tensor; the only fold that may contain it is a sum."""
        if scope.folded:
            return self._generation(scope, (extent, *rest), dtype)
        position, conditions = self.ground.position(extent, scope)
        return self._guarded_by(conditions, atl.place(of(extent), position, self.tensor(scope, rest, dtype)))

    def _scattered(self, scope: Scope, extent: Index, rest: Shape, dtype: str) -> Tensor:
        """Return a sum of placed terms, at positions that may repeat."""
        if scope.folded or dtype in STORED:
            return self._generation(scope, (extent, *rest), dtype)
        high = self.ground.extent(scope, local=True)
        times = self.ground.value(high, scope)
        if times * scope.work * self.ground.elements((extent, *rest), scope) > MAX_WORK:
            high, times = constant(2), 2

        def term(p: IndexExpr) -> Tensor:
            inside = scope.inside(p, ZERO, high, times)
            position, conditions = self.ground.position(extent, inside)
            return self._guarded_by(conditions, atl.place(of(extent), position, self.tensor(inside, rest, dtype)))

        return atl.sum(of(high), term)

    def _guarded_by(self, conditions: Sequence[Condition], e: Tensor) -> Tensor:
        for condition in conditions:
            e = atl.guard(condition, e)
        return e

    def _concat(self, scope: Scope, first: Index, second: Index, rest: Shape, dtype: str) -> Tensor:
        return atl.concat(self.tensor(scope, (first, *rest), dtype), self.tensor(scope, (second, *rest), dtype))

    def _factors(self, extent: Index) -> tuple[Index, Index] | None:
        value = extent.constant
        if value in (4, 6):
            return constant(2), constant(value // 2)
        return self.ground.products.get(extent)

    def _parts(self, extent: Index) -> tuple[Index, Index] | None:
        """Return two non-negative extents that add up to this one."""
        if extent in self.ground.sums:
            return self.ground.sums[extent]
        value = extent.constant
        if value is not None:
            second = self.choices.integer(0, value)
            return constant(value - second), constant(second)
        least = atom.minimum if isinstance(atom := extent.atom, Size) else 0
        return (extent - least, constant(least)) if least else None

    def _truncated(self, scope: Scope, shape: Shape, dtype: str) -> Tensor:
        """Return a truncation of a longer term whose cut elements are padding."""
        extent, *rest = shape
        amount = choose(self.choices, (self.ground.constant(), self.ground.size()))
        longer = extent + amount
        kind = weighted(self.choices, ((3, "pad"), (3, "tiles"), (2, "guard"), (1, "concat"), (1, "let"), (1, "rash")))
        left = chance(self.choices, 40)
        if kind == "tiles" and len(shape) <= 3:
            k = self.ground.tile()
            tiles, _ = self.ground.split_of(extent, k)
            tiled = self.ground.product_of(tiles, k)
            return atl.truncr(
                of(tiled - extent),
                atl.flatten(self.tensor(scope, (tiles, k, *rest), dtype))
                if chance(self.choices, 15)
                else atl.flatten(atl.split(of(k), self.tensor(scope, shape, dtype))),
            )
        if kind == "guard" and not scope.folded:
            inner: Tensor = self._guarded(scope, longer, tuple(rest), dtype, low=amount if left else ZERO, kept=extent)
        elif kind == "rash" and chance(self.choices, 30):
            inner = self.tensor(scope, (longer, *rest), dtype)
        else:
            inner = self._padded(kind, scope, shape, dtype, amount, left=left)
        return (atl.truncl if left else atl.truncr)(of(amount), inner)

    def _padded(self, kind: str, scope: Scope, shape: Shape, dtype: str, amount: Index, *, left: bool) -> Tensor:
        pad = atl.padl if left else atl.padr
        if kind == "concat":
            nothing = pad(of(amount), self._generation(scope, (ZERO, *shape[1:]), dtype))
            e = self.tensor(scope, shape, dtype)
            return atl.concat(nothing, e) if left else atl.concat(e, nothing)
        if kind == "let":
            value = self.tensor(scope.unfolded, shape, dtype)
            return atl.let(value, lambda x: pad(of(amount), self.tensor(scope.knowing(x), shape, dtype)))
        return pad(of(amount), self.tensor(scope, shape, dtype))

    def _guarded(self, scope: Scope, longer: Index, rest: Shape, dtype: str, *, low: Index, kept: Index) -> Tensor:
        """Return a generation in which only the elements from `low` to `low + kept` are not padding."""

        def body(i: IndexExpr) -> Tensor:
            condition = (i >= of(low)) & (i < of(low + kept))
            inside = scope.inside(i, ZERO, longer, self.ground.value(longer, scope))
            return atl.guard(condition, self.tensor(inside, rest, dtype))

        return atl.gen(of(longer), self._binder(body))


def _holding(scope: Scope, shape: Shape, dtype: str) -> list[Tensor]:
    """Return the let-bound tensors with parts of this shape and element type."""
    return [
        t
        for t in scope.tensors
        if t.dtype == dtype and t.rank > len(shape) and t.node.type.shape[t.rank - len(shape) :] == shape
    ]
