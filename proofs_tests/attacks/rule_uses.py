"""Uses of user-defined rules: arguments of all ranks and element types, and evaluation of theorems."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import isfinite, prod
from typing import Any, Final

import numpy as np

import atl
from atl.checks.scope import Scope, parts_in_scope
from atl.checks.wellformed import obligations
from atl.core.dtypes import DTYPES, is_integer, range_of
from atl.core.index import Array, Index, Size, Var, bound, constant, index, size, value_at, value_of
from atl.core.predicate import FALSE, TRUE, Predicate, Zero
from atl.core.program import Program
from atl.core.terms import Binary, Expr, Gen, Guard, Input, Rec, Reduce, Type
from atl.core.traversal import Path as TermPath
from atl.core.traversal import children, subterms
from atl.errors import NotExact, TooLarge
from atl.prove import Facts
from atl.surface.values import IndexExpr, Tensor
from proofs_tests.programs.choices import Choices, chance, choose
from rewrites.kernel import Theorem
from rewrites.metavariables import Kind
from rewrites.rule_arguments import Argument, Parameter, abstracted, of_indices
from rewrites.rule_statement import RuleStatement, groups_of

LARGEST: Final = 20_000
"""Number of evaluation steps above which a program is skipped."""
SMALL: Final = 8
FAR: Final = (10**5, 2**31 + 1, 2**33, -(2**31) - 2)
"""Indices outside of the range in which rules are tested."""
CLOSE: Final = 1e-6


class Arguments:
    """Random arguments for a statement: small programs over inputs, bound indices, constants and sizes."""

    def __init__(self, stated: RuleStatement, choices: Choices, *, indices: int) -> None:
        self.stated, self.choices = stated, choices
        self.types = {variable: choose(choices, DTYPES) for variable in stated.type_variables}
        self.inputs: dict[str, Array] = {}
        self.extents = [choices.integer(0, 3) if chance(choices, 20) else choices.integer(1, 3) for _ in range(5)]
        self.symbolic = chance(choices, 30)
        self.far = chance(choices, 25)
        self.fixed = dict(_fixed(stated))
        self.pool: list[Index] = [bound(position) for position in range(indices)]
        self.pool += [size("n"), size("m"), size("n") + 1] if self.symbolic else []
        self.known: list[Index] = [constant(choices.integer(0, 3)), constant(choices.integer(1, 3))]

    def arguments(self) -> dict[str, Argument]:
        return {name: self._argument(name, kind) for name, kind in self.stated.metavariables.items()}

    def _argument(self, name: str, kind: Kind) -> Argument:
        match kind.sort:
            case "index":
                return self.fixed.get(name) or self._index()
            case "condition" if not kind.parameters:
                return choose(self.choices, (TRUE, FALSE, self._condition(()), self._condition(())))
            case "condition":
                return abstracted(of_indices(len(kind.parameters)), lambda *at: self._surface_condition(at))
            case "tensor":
                return self._tensor(name, kind)

    def _index(self) -> Index:
        choices = self.choices
        if self.far and chance(choices, 50):
            made = constant(choose(choices, FAR))
        elif chance(choices, 60):
            made = choose(choices, self.known) + (choices.integer(-1, 1) if chance(choices, 20) else 0)
        elif self.pool and chance(choices, 60):
            made = choose(choices, self.pool)
        else:
            made = constant(choices.integer(-1, 4))
        self.known.append(made)
        return made

    def _surface_condition(self, at: Sequence[Any]) -> Any:
        indices = [one for one in at if isinstance(one, IndexExpr)] or [IndexExpr(self._index())]
        left = choose(self.choices, indices)
        match self.choices.integer(0, 3):
            case 0:
                return left % 2 == self.choices.integer(0, 1)
            case 1:
                return left <= self.choices.integer(-1, 3)
            case 2:
                return left != IndexExpr(self._index())
            case _:
                return left * 2 < IndexExpr(self._index())

    def _condition(self, at: Sequence[Any]) -> Predicate:
        made = self._surface_condition(at)
        return (TRUE if made else FALSE) if isinstance(made, bool) else made.node

    def _tensor(self, name: str, kind: Kind) -> Argument:
        extents = [choose(self.choices, self.known) for _ in range(kind.rank)] + self._element(kind)
        dtype = self._dtype(self.stated.element_types[name])
        tensors = iter(range(len(kind.parameters)))
        parameters: list[Parameter] = [
            "index" if each.sort == "index" else self._parameter(name, each, next(tensors)) for each in kind.parameters
        ]
        made = abstracted(tuple(parameters), lambda *given: self._value(extents, dtype, given, 2))
        return made if kind.parameters else made.body

    def _parameter(self, name: str, kind: Kind, at: int) -> Type:
        extents = [choose(self.choices, self.known) for _ in range(kind.rank)] + self._element(kind)
        return Type(self._dtype(self.stated.parameter_types[name, at]), tuple(extents))

    def _dtype(self, of: str) -> str:
        return self.types.get(of, of)

    def _element(self, kind: Kind) -> list[Index]:
        ranks = dict(zip(groups_of(self.stated.metavariables), self.stated.ranks, strict=True))
        return [constant(extent) for extent in self.extents[: ranks.get(kind.group, 0)]]

    def _value(self, extents: list[Index], dtype: str, given: Sequence[Any], depth: int) -> Tensor:
        """Return a tensor of these extents, made of the given terms and of inputs."""
        choices = self.choices
        whole = Type(dtype, tuple(extents))
        alike = [one for one in given if isinstance(one, Tensor) and one.node.type == whole]
        if alike and chance(choices, 50):
            made = choose(choices, alike)
            return made * made + made if chance(choices, 30) else made
        match choices.integer(0, 11) if depth else 11:
            case 9 if extents:
                first, *rest = extents
                return atl.rec(
                    IndexExpr(first),
                    lambda p, y: self._value(rest, dtype, (*given, p, y), depth - 1),
                    of=tuple(map(IndexExpr, rest)),
                    dtype=dtype,
                )
            case 10:
                test = self._value(extents, dtype, given, depth - 1) <= self._value(extents, dtype, given, depth - 1)
                return atl.where(
                    test, self._value(extents, dtype, given, depth - 1), self._value(extents, dtype, given, depth - 1)
                )
            case 0:
                return atl.guard(self._surface_condition(given), self._value(extents, dtype, given, depth - 1))
            case 1:
                return self._value(extents, dtype, given, depth - 1) * self._value(extents, dtype, given, depth - 1)
            case 2:
                return self._value(extents, dtype, given, depth - 1) - self._value(extents, dtype, given, depth - 1)
            case 3 | 4 if extents:
                first, *rest = extents
                return atl.gen(IndexExpr(first), lambda i: self._value(rest, dtype, (*given, i), depth - 1))
            case 5 if extents and extents[0].constant:
                return atl.padr(1, self._value([extents[0] - 1, *extents[1:]], dtype, given, depth - 1))
            case 6:
                return atl.select(
                    self._surface_condition(given), self._value(extents, dtype, given, depth - 1),
                    self._value(extents, dtype, given, depth - 1),
                )  # fmt: skip
            case 7 if not extents:
                indices = [one for one in given if isinstance(one, IndexExpr)] or [IndexExpr(self._index())]
                return Tensor(atl.value(choose(choices, indices)).node) * self._input([], dtype)
            case _:
                return self._read(extents, dtype, given)

    def _read(self, extents: list[Index], dtype: str, given: Sequence[Any]) -> Tensor:
        """Return an input, or its element at given indices."""
        indices = [one for one in given if isinstance(one, IndexExpr)]
        taken = [one for one in indices if chance(self.choices, 70)]
        out = self._input([*[constant(6)] * len(taken), *extents], dtype)
        for at in taken:
            out = out[at * choose(self.choices, (1, 1, 2)) + self.choices.integer(0, 2)]
        return out

    def _input(self, extents: list[Index], dtype: str) -> Tensor:
        usual = tuple(extent if not extent.loose else constant(2) for extent in extents)
        again = [array for array in self.inputs.values() if (array.shape, array.dtype) == (usual, dtype)]
        if not again or chance(self.choices, 60):
            again = [Array(f"x{len(self.inputs)}", usual, dtype)]
            self.inputs[again[0].name] = again[0]
        return Tensor(Input(choose(self.choices, again)))


def _fixed(stated: RuleStatement) -> Iterator[tuple[str, Index]]:
    """Yield the indices that a premise fixes to a number."""
    for premise in stated.premises:
        if isinstance(premise, Zero):
            for uid, name in stated.names.items():
                rest = premise.expression - index(Var(uid, name))
                other = premise.expression + index(Var(uid, name))
                if rest.constant is not None:
                    yield name, -rest
                elif other.constant is not None:
                    yield name, other


def wrapped(term: Expr, choices: Choices, *, indices: int) -> tuple[Expr, TermPath]:
    """Return a term in a larger term, and the path to it."""
    if indices:
        return Gen(constant(0), constant(2), term), (0,)
    match choices.integer(0, 3):
        case 0:
            return Guard(TRUE, term), (0,)
        case 1:
            return Binary("add", term, term), (1,)
        case _:
            return term, ()


MOST_ELEMENTS: Final = 100_000
"""Maximum number of elements of an array with which a theorem is tested."""


def obligations_of(sides: Sequence[Expr], premises: Sequence[Predicate], indices: int) -> tuple[Predicate, ...]:
    """Return the obligations of an instance that are about sizes only."""
    needed = list(premises)
    place = Scope(Facts(), tuple(index(Var(position, "i")) for position in range(indices)))
    for side in sides:
        for _, part, scope in parts_in_scope(side, place):
            needed += [each.goal for each in obligations(part, scope) if not each.goal.free]
    return tuple(dict.fromkeys(each for each in needed if not each.loose and each not in (TRUE, FALSE)))


def _elements(array: Array, shape: tuple[int, ...], choices: Choices) -> Any:
    """Return random elements. Raises `TooLarge` for an extent such as 2**53, which a rule may contain."""
    if prod(max(1, extent) for extent in shape) > MOST_ELEMENTS:
        raise TooLarge(f"{array.name} would have the shape {shape}", required=f"at most {MOST_ELEMENTS}")
    made = np.empty(shape, dtype=array.dtype if is_integer(array.dtype) else object)
    for at in np.ndindex(*shape):
        if not is_integer(array.dtype):
            made[at] = Fraction(choices.integer(-9, 9), choose(choices, (1, 1, 2, 3)))
        elif chance(choices, 30):
            made[at] = choose(choices, range_of(array.dtype))
        else:
            made[at] = choices.integer(-5, 5)
    return made


def _work(term: Expr, sizes: Mapping[str, int]) -> int:
    """Estimate the number of evaluation steps. A bound index in an extent counts as a small number."""
    inner = 1 + sum(_work(child.expr, sizes) for child in children(term))
    if isinstance(term, Rec):
        return inner * max(1, _extent(term.high, sizes))
    return inner * max(1, _extent(term.high - term.low, sizes)) if isinstance(term, Gen | Reduce) else inner


def _extent(expression: Index, sizes: Mapping[str, int]) -> int:
    return value_of(expression, lambda at: sizes[at.name] if isinstance(at, Size) else SMALL, lambda of, at: SMALL)


def differ(theorem: Theorem, choices: Choices) -> str | None:
    """Evaluate both sides in one call and return a difference. Raise `ATLError` if no call exists."""
    inputs = {array.name: array for array in theorem.lhs.inputs}
    sizes = {name: choices.integer(0, 4) for name in dict.fromkeys((*theorem.lhs.sizes, *theorem.rhs.sizes))}
    arrays = {name: _elements(array, _shape(array, sizes), choices) for name, array in inputs.items()}
    left, right = (_evaluated(side, arrays, sizes) for side in (theorem.lhs, theorem.rhs))
    if left.shape != right.shape:
        return f"at {sizes}: the shapes {left.shape} and {right.shape}"
    for at in np.ndindex(*left.shape):
        if _unequal(left[at], right[at]):
            held = {name: value.tolist() for name, value in arrays.items()}
            return f"at {sizes}, {held}: {left[at]} and {right[at]} at {list(at)}"
    return None


def _shape(array: Array, sizes: Mapping[str, int]) -> tuple[int, ...]:
    shape = tuple(value_at(extent, sizes) for extent in array.shape)
    if any(extent < 0 for extent in shape) or prod(shape) > LARGEST:
        raise NotExact("no array has this shape")
    return shape


def _evaluated(program: Program, arrays: Mapping[str, Any], sizes: Mapping[str, int]) -> Any:
    """Return the elements, exactly, or in double precision if a root is irrational."""
    free: dict[str, Any] = {name: sizes[name] for name in program.free_sizes}
    if max(_work(program.body, sizes), prod(_extent(extent, sizes) for extent in program.body.type.shape)) > LARGEST:
        raise NotExact("it takes too many steps")
    try:
        return np.asarray(atl.evaluate(program, exact=True, **arrays, **free), dtype=object)
    except NotExact:
        if any(part.type.dtype == "float32" for part in subterms(program.body)):
            raise
        plain = {array.name: arrays[array.name].astype(array.dtype) for array in program.inputs}
        return np.asarray(atl.evaluate(program, **plain, **free), dtype=object)


def _unequal(left: Any, right: Any) -> bool:
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return left != right
    if not (isfinite(left) and isfinite(right)):
        return False
    return bool(abs(left - right) > CLOSE * max(1.0, abs(left), abs(right)))
