"""Generic arguments for the metavariables of a statement, and the arrays that they read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count, product
from math import floor
from random import Random
from typing import Any, Final

import atl
from atl import IndexExpr, Tensor
from atl.core.dtypes import BOOL
from atl.core.index import Array, Index, Size, constant, index, value_at
from atl.core.operations import accepts
from atl.core.predicate import FALSE, TRUE
from atl.core.program import Program, bool_array
from atl.core.terms import Binary, Expr, Input, Rec, Reduce, Type, Unary
from atl.core.traversal import subterms
from atl.meaning.polynomials import symbol
from rewrites.rule import Kind
from rewrites.rule_arguments import Argument, Function, abstracted, applied, of_indices
from rewrites.rule_checking.choices import Choices, Seeded, chance
from rewrites.rule_checking.literals import literals, near
from rewrites.rule_checking.small_choices import (
    LARGE,
    REACH,
    SOMETIMES,
    WINDOW,
    generic_condition,
    spaces_of,
    varied,
    weighted_total,
    with_elements,
)
from rewrites.rule_statement import ElementTypes, RuleStatement

ELEMENT_SHAPES: Final = (
    (2, 1, 3, 1, 2, 1), (1, 3, 1, 2, 1, 1), (3, 2, 1, 1, 1, 2), (2, 2, 2, 2, 1, 1), (0, 2, 1, 3, 1, 2),
)  # fmt: skip
"""Extents of elements, used in turn: unequal ones, equal ones for premises that ask for these, and no elements."""
NO_ELEMENTS: Final = len(ELEMENT_SHAPES) - 1
NEGATIVE: Final[dict[range, Sequence[int]]] = {WINDOW: (-2, -1, -1, 0, 1, 2, 3)}
"""Wider ranges for random indices and extents, if not every choice can be tried."""
LOOKED_AT: Final = (0, 10, 4, 2)
"""Number of elements that a generic function of a tensor reads in each dimension, by number of dimensions."""
UNIT: Final = "unit"
"""A size with value one, used to write indices whose value the canonical form does not know."""
CORNERS: Final = 9
"""Maximum number of choices of such indices with values 0 and -1."""
MOST_ELEMENTS: Final = 2_000
"""Maximum number of elements of a side; a choice with more is skipped."""
MOST_TERMS: Final = 5_000
"""Maximum number of terms where elements are polynomials and numbers are varied, because long sums are slow."""
MOST_WORK: Final = 200_000
"""Maximum number of terms computed for a side; a choice that needs more is skipped."""
FLOAT: Final = "float64"


class Lazy:
    """An array whose elements are computed when first read."""

    def __init__(self, shape: tuple[int, ...], element: Callable[[tuple[int, ...]], Any]) -> None:
        self.shape = shape
        self._element = element
        self.known: dict[tuple[int, ...], Any] = {}

    def __getitem__(self, at: tuple[int, ...]) -> Any:
        found = self.known.get(at)
        if found is None:
            found = self.known[at] = self._element(at)
        return found


class Generic:
    """Generic arguments for a statement, for one choice of integers, and the arrays that they read."""

    def __init__(
        self, stated: RuleStatement, choice: dict[str, int], types: ElementTypes | None = None, variant: int = 0
    ) -> None:
        self.stated = stated
        self.choice = choice
        self.types = dict.fromkeys(stated.type_variables, a_type_of(stated)) if types is None else types
        self.shapes = element_shapes(stated, variant)
        self.own_shapes = chosen_extents(stated, choice)
        self.work, self.most_work = 0, MOST_WORK
        self.drawn_tests = False
        self.arrays: dict[str, Any] = {}
        self.inputs: list[Array] = []
        self._programs: dict[int, Program] = {}

    def program(self, side: Expr) -> Program:
        """Return a program with this body, which is the same one in each call: its sizes are computed once."""
        found = self._programs.get(id(side))
        if found is None or found.body is not side:
            found = self._programs[id(side)] = Program("side", tuple(self.inputs), side)
        return found

    def arguments(self) -> dict[str, Argument]:
        """Return an argument for each metavariable."""
        return {name: self.argument(name, kind) for name, kind in self.stated.metavariables.items()}

    def dtype(self, name: str, parameter: int | None = None) -> str:
        """Return the element type of a metavariable, or of one of its tensor parameters."""
        stated = self.stated
        of = stated.element_types[name] if parameter is None else stated.parameter_types[name, parameter]
        return self.types.get(of, of)

    def argument(self, name: str, kind: Kind) -> Argument:
        match kind.sort:
            case "index":
                return constant(self.choice[name])
            case "condition":
                return self._condition(name, kind)
            case "tensor":
                return self._tensor(name, kind)

    def _condition(self, name: str, kind: Kind) -> Argument:
        at = self.choice[name]
        if not kind.parameters:
            return TRUE if at > 0 else FALSE
        return abstracted(of_indices(len(kind.parameters)), lambda *i: generic_condition(at, i))

    def _tensor(self, name: str, kind: Kind) -> Argument:
        of_elements = self.own_shapes.get(name, self.shapes.get(kind.group, ()))
        extents = [*(self.choice[f"{name}.{k}"] for k in range(kind.rank)), *of_elements]
        dtype = self.dtype(name)
        indices = [parameter for parameter in kind.parameters if parameter.sort == "index"]
        source = self.array(name, [2 * REACH + 1] * len(indices) + extents, dtype)
        if not kind.parameters:
            return source.node

        def value(*given: Any) -> Tensor:
            out = source
            for position in (one for one in given if isinstance(one, IndexExpr)):
                out = out[position + REACH]
            for number, bound in enumerate(one for one in given if isinstance(one, Tensor)):
                if dtype == BOOL:
                    out = out ^ (self.weighed(f"{number}_{name}", bound, extents, FLOAT) > 0)
                else:
                    out = out + self.weighed(f"{number}_{name}", bound, extents, dtype)
            return out

        return abstracted(self.parameters(name, kind), value)

    def parameters(self, name: str, kind: Kind) -> tuple[Any, ...]:
        """Return the parameters of a function: "index", or the type of a tensor."""
        numbers = count()
        return tuple(
            "index" if parameter.sort == "index" else self.type_of(parameter, self.dtype(name, next(numbers)))
            for parameter in kind.parameters
        )

    def weighed(self, name: str, bound: Tensor, extents: list[int], dtype: str) -> Tensor:
        """Return a weighted sum of all elements of a tensor, with different weights in each element of the result.

        The result is not linear in the elements, so that rules that hold only for linear functions are refuted.
        """
        if bound.dtype == BOOL:
            bound = atl.cast(FLOAT, bound)
        bound = bound * bound + bound
        if bound.dtype != dtype:
            bound = atl.cast(dtype, bound)
        weights = self.array(name, [*extents, *(extent.node.constant or 0 for extent in bound.shape)], dtype)

        def total(*at: IndexExpr) -> Tensor:
            if not bound.rank:
                return weights[at] * bound if at else weights * bound
            return atl.sum(*bound.shape, lambda *k: weights[(*at, *k)] * bound[k])

        return atl.gen(*extents, total) if extents else total()

    def type_of(self, kind: Kind, dtype: str) -> Type:
        """Return the type of a tensor parameter."""
        extents = [*[LOOKED_AT[min(kind.rank, len(LOOKED_AT) - 1)]] * kind.rank, *self.shapes.get(kind.group, ())]
        return Type(dtype, tuple(constant(extent) for extent in extents))

    def elements(self, name: str, extents: tuple[int, ...], dtype: str, /) -> Lazy:  # noqa: ARG002
        """Return the contents of an array: a symbol for each element, so that the result holds for all values."""
        return Lazy(extents, lambda at: symbol(f"{name}{list(at)}"))

    def array(self, name: str, extents: list[int], dtype: str) -> Tensor:
        """Return an input of these extents, created once for each name."""
        if name not in self.arrays:
            self.arrays[name] = self.elements(name, tuple(extents), dtype)
            shape = tuple(constant(extent) for extent in extents)
            self.inputs.append(bool_array(name, shape) if dtype == BOOL else Array(name, shape, dtype))
        found = next(array for array in self.inputs if array.name == name)
        return Tensor(Input(found))


def a_type_of(stated: RuleStatement) -> str:
    """Return an element type for all type variables: integers for operations on numbers that floats do not have."""
    parts = (part for side in (stated.lhs, stated.rhs) for part in subterms(side))
    # The operations on truth values are those on bits.
    ops = (part.op for part in parts if isinstance(part, Unary | Binary) and part.type.dtype != BOOL)
    return FLOAT if all(accepts(op, FLOAT) for op in ops) else "int64"


def element_shapes(stated: RuleStatement, variant: int) -> dict[str, tuple[int, ...]]:
    """Return the extents of the elements of each group."""
    extents = ELEMENT_SHAPES[variant % len(ELEMENT_SHAPES)]
    return {group: extents[:rank] for group, rank in stated.rank_of_group.items()}


def chosen_extents(stated: RuleStatement, choice: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Return the extents of the elements of the metavariables for which the choice has them."""
    numbers = {
        name: [f"{name}.{leading + at}" for at in range(rank)]
        for name, (leading, rank) in with_elements(stated).items()
    }
    return {name: tuple(choice[each] for each in of) for name, of in numbers.items() if choice.keys() >= set(of)}


class Spelled(Generic):
    """Arguments drawn from a wider window: indices contain a size, functions may ignore their parameters, and
    conditions are arbitrary.

    This finds rules that rely on simplification during instantiation: 0 // k is 0 for every k, and a function that
    ignores p // k does not require a positive k.
    """

    def __init__(self, stated: RuleStatement, choice: dict[str, int], random: Random) -> None:
        super().__init__(stated, choice, variant=random.randrange(len(ELEMENT_SHAPES)))
        self.random = random
        self.written: list[Index] = []
        self.corner: dict[str, Index] = {}

    @staticmethod
    def drawn(stated: RuleStatement, random: Random) -> Spelled:
        # Small and often negative, or large, except that a product of many sums has too many terms, and that rows of a
        # recurrence read all elements of the rows before.
        products = any(isinstance(at, Reduce) and at.monoid == "product" for at in subterms(stated.lhs))
        other = LARGE if not products and not has_recurrences(stated) and random.random() < 0.5 else NEGATIVE
        drawn = {name: random.choice(other.get(of, of)) for name, of in spaces_of(stated).items()}
        made = Spelled(stated, varied(stated, drawn, Seeded(random), MOST_TERMS), random)
        vary_extents(made, Seeded(random))
        made.most_work = MOST_TERMS
        return made

    @staticmethod
    def corners(stated: RuleStatement, random: Random) -> Iterator[Spelled]:
        """Yield arguments whose indices are 0, or have the values 0 and -1, which the canonical form does not know."""
        indices = [name for name, kind in stated.metavariables.items() if kind.sort == "index"]
        every = list(product((constant(0), index(Size(UNIT)) - 1, index(Size(UNIT)) - 2), repeat=min(3, len(indices))))
        for corner in random.sample(every, min(CORNERS, len(every))) if indices else ():
            made = Spelled.drawn(stated, random)
            made.corner = dict(zip(random.sample(indices, len(corner)), corner, strict=True))
            yield made

    def _condition(self, name: str, kind: Kind) -> Argument:
        if not kind.parameters or self.random.random() < 0.5:
            return super()._condition(name, kind)
        period = self.random.randint(2, 5)
        rest = {place for place in range(period) if self.random.random() < 0.5}
        below = self.random.random() < 0.3
        at = self.choice[name]

        def holds(*i: IndexExpr) -> Any:
            anywhere: Any = weighted_total(i) > at if below else False
            for place in rest:
                anywhere = (weighted_total(i) % period == place) | anywhere
            return anywhere

        return abstracted(of_indices(len(kind.parameters)), holds)

    def argument(self, name: str, kind: Kind) -> Argument:
        made = super().argument(name, kind)
        if isinstance(made, Index):
            units = self.random.choice((0, 1, -1, self.choice[name]))
            written = index(Size(UNIT)) * units + (self.choice[name] - units)
            if name in self.corner:
                written = self.corner[name]
            elif self.written and self.random.random() < 0.5:
                # Close to another index or to its negation, so that terms cancel.
                written = self.random.choice(self.written) * self.random.choice((1, -1)) + self.random.randint(-1, 1)
            self.written.append(written)
            self.choice[name] = value_at(written, {UNIT: 1})
            return written
        if isinstance(made, Function) and not made.tensors and self.random.random() < 0.5:
            value: Any = applied(made)
            return abstracted(made.parameters, lambda *given: value(*(0 for _ in given)))
        return made


def has_recurrences(stated: RuleStatement) -> bool:
    """Return whether a side of a statement has a recurrence."""
    return any(isinstance(at, Rec) for side in (stated.lhs, stated.rhs) for at in subterms(side))


def mix_extents(generic: Generic, variant: int, random: Random, name: str | None = None) -> None:
    """Give one metavariable elements of other extents than the others have. Without `name`, each has random extents."""
    for other, (leading, rank) in with_elements(generic.stated).items():
        which = variant + (other == name) if name else random.choice((variant, variant + 1, NO_ELEMENTS))
        extents = generic.own_shapes[other] = ELEMENT_SHAPES[which % len(ELEMENT_SHAPES)][:rank]
        generic.choice.update((f"{other}.{leading + at}", extent) for at, extent in enumerate(extents))


def vary_extents(generic: Generic, source: Choices) -> None:
    """Give the elements of some groups an extent that comes from the literals of the statement."""
    known = literals(generic.stated)
    for group, extents in generic.shapes.items():
        if known and extents and chance(source, SOMETIMES):
            drawn, at = floor(near(source, known)), source.integer(0, len(extents) - 1)
            if 0 <= drawn <= MOST_ELEMENTS:
                generic.shapes[group] = (*extents[:at], drawn, *extents[at + 1 :])
