"""Bounded checks of rules: both sides are equal at all small sizes and indices, for all element values.

Each statement of a rule is instantiated with integers for its index metavariables and generic arrays for its tensors. A
function of indices reads a generic array, and a condition takes every threshold. Elements are polynomials, so one run
proves the equation at one choice of integers for all values. In rules about recurrences, elements are numbers modulo a
large prime instead (`atl.meaning.modular`), because polynomials are too large. A choice that violates a premise, or at
which a side is ill-formed, is skipped.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from itertools import count, cycle, islice, product
from math import floor, prod
from random import Random
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

import atl
from atl import IndexExpr, Tensor
from atl.checks.scope import Scope, parts_in_scope
from atl.checks.wellformed import obligations
from atl.core.dtypes import BOOL, DTYPES, FLOATS, is_integer
from atl.core.index import ONE, Array, Index, Leaf, Size, Var, constant, index, value_at
from atl.core.operations import accepts
from atl.core.predicate import FALSE, TRUE, Predicate, atoms_of, equal, holds
from atl.core.program import Program, bool_array
from atl.core.terms import Binary, Cast, Expr, Input, Rec, Reduce, Type, Unary
from atl.core.traversal import children, subterms
from atl.errors import ATLError, ShapeError
from atl.meaning.interpret import Meaning, denote
from atl.meaning.modular import Modular
from atl.meaning.polynomials import Polynomials, symbol
from atl.meaning.scalars import Machine, Scalars
from atl.prove import Facts, Proved, prove
from rewrites.rule import Equation, Kind, Rule
from rewrites.rule_arguments import Argument, Function, abstracted, applied, of_indices
from rewrites.rule_checking.choices import Choices, Seeded, chance, choose
from rewrites.rule_checking.literals import large_indices, literals, near
from rewrites.rule_checking.premises import Search
from rewrites.rule_statement import (
    MAX_ELEMENT_RANK,
    ElementTypes,
    Ranks,
    RuleStatement,
    groups_of,
    unused_indices,
)  # fmt: skip

WINDOW: Final = range(-1, 4)
"""Values of index metavariables."""
EXTENTS: Final = range(4)
"""Extents of tensors."""
ELEMENT_SHAPES: Final = ((2, 1, 3, 1), (1, 3, 1, 2), (3, 2, 1, 1), (2, 2, 2, 2), (0, 2, 1, 3))
"""Extents of elements, used in turn: unequal ones, equal ones for premises that ask for these, and no elements."""
ELEMENT_EXTENTS: Final = (1, 2, 3)
"""Extents of elements in a search."""
NO_ELEMENTS: Final = len(ELEMENT_SHAPES) - 1
LARGE: Final[dict[range, Sequence[int]]] = {WINDOW: range(-2, 9), EXTENTS: range(7)}
NEGATIVE: Final[dict[range, Sequence[int]]] = {WINDOW: (-2, -1, -1, 0, 1, 2, 3)}
"""Wider ranges for random indices and extents, if not every choice can be tried."""
REACH: Final = 10**12
"""A generic function of an index has an independent value at each index from -REACH to REACH."""
LOOKED_AT: Final = (0, 10, 4, 2)
"""Number of elements that a generic function of a tensor reads in each dimension, by number of dimensions."""
UNIT: Final = "unit"
"""A size with value one, used to write indices whose value the canonical form does not know."""
MORE_ROWS: Final = range(-1, 7)
"""Values of index metavariables in further choices for recurrences."""
MORE_ROWS_DRAWS: Final = 200
"""Maximum number of draws of such choices."""
MOST_ELEMENTS: Final = 2_000
"""Maximum number of elements of a side; a choice with more is skipped."""
SOMETIMES: Final = 40
"""Percentage of numbers in a varied choice that come from the literals of a rule, or are large."""
REDRAWN: Final = 5
"""Maximum number of times that a varied choice is drawn again, because it does not satisfy the premises.

It is small, because a choice that still violates them is only skipped.
"""
MOST_EXTENT: Final = 10_000_000
"""Maximum extent of a tensor in a varied choice.

Elements are computed when they are read, so a large extent takes no memory. `MOST_ELEMENTS` limits those of a side.
"""
MOST_TERMS: Final = 5_000
"""Maximum number of terms where elements are polynomials and numbers are varied, because long sums are slow."""
USUAL_WORK: Final = 2_000
"""Number of terms of a side above which a choice counts towards `MOST_LONG_WORK`."""
MOST_LONG_WORK: Final = 200_000
"""Maximum number of terms of a side in all such choices for a rule."""
SPELLED: Final = 40
"""Number of choices tried with such indices."""
UNLIKE: Final = 6
"""Number of choices tried with elements of different extents for one metavariable."""
MIXED: Final = 8
"""Factor of this number for random extents of each metavariable."""
CASES: Final = 300
"""Maximum number of choices for one statement. From a larger space, choices that satisfy the premises are drawn."""
HIGHER: Final = 60
"""Maximum number of choices for all statements with elements of rank 2 or more together."""
FEWEST: Final = len(ELEMENT_SHAPES)
"""Minimum number of choices for each of these statements."""
DRAWS: Final = 20
"""Maximum number of draws for each wanted choice. Few draws may satisfy the premises; then they are searched for."""
ENOUGH: Final = 20
"""Number of choices of a statement that are compared, with larger numbers if the window has fewer."""
MOST_TESTS: Final = 8
"""Maximum number of tests of elements in a recurrence for which every combination of results is tried."""
DRAWN_TESTS: Final = 16
"""Number of random combinations of results that are tried for more tests."""
MOST_WAYS: Final = 256
"""Maximum number of assignments of element types that are tried."""
MOST_WORK: Final = 200_000
"""Maximum number of terms computed for a side; a choice that needs more is skipped."""
ANY_WORK: Final = 10**100
"""More terms and elements than an instance has."""
SOME: Final = 8
"""Estimate for an extent that depends on an index."""
FLOAT: Final = "float64"


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A choice at which the sides of a rule differ; `first` is a differing element, if the shapes are equal.

    `uninterpreted` is true if the sides were compared modulo a prime, and contain functions, extrema or tests.
    """

    choice: str
    left: str
    right: str
    sizes: Mapping[str, int] = field(default_factory=dict, repr=False)
    first: tuple[tuple[int, ...], Any, Any] | None = field(default=None, repr=False)
    elements: Mapping[str, Any] = field(default_factory=dict, repr=False)
    types: ElementTypes = field(default_factory=dict, repr=False)
    uninterpreted: bool = field(default=False, repr=False)


Side: TypeAlias = tuple[tuple[int, ...], npt.NDArray[Any]]
"""The value of a side of a rule: its shape and its elements."""


@dataclass(slots=True)
class Verdict:
    """The result of checking a rule: the number of choices that agree, their ranks, and any counterexample."""

    rule: str
    decided: int = 0
    skipped: int = 0
    exhaustive: bool = True
    counterexample: Counterexample | None = None
    ranks: set[Ranks] = field(default_factory=set)
    drawn_tests: bool = False
    """True if not every combination of results of the tests of elements was tried."""

    def note(self, stated: RuleStatement, found: Counterexample | bool | None) -> None:
        """Count the result for one choice of a statement."""
        if found is None:
            self.skipped += 1
        elif isinstance(found, Counterexample):
            self.counterexample = found
        else:
            self.decided += 1
            self.ranks.add(stated.ranks)


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
        return abstracted(of_indices(len(kind.parameters)), lambda *i: _threshold(at, i))

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
    return {group: extents[:rank] for group, rank in zip(groups_of(stated.metavariables), stated.ranks, strict=True)}


def chosen_extents(stated: RuleStatement, choice: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Return the extents of the elements of the metavariables for which the choice has them."""
    extents = {
        name: [choice.get(f"{name}.{leading + at}") for at in range(rank)]
        for name, (leading, rank) in with_elements(stated).items()
    }
    return {name: tuple(filter(None, of)) for name, of in extents.items() if all(of)}


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

    def _condition(self, name: str, kind: Kind) -> Argument:
        if not kind.parameters or self.random.random() < 0.5:
            return super()._condition(name, kind)
        period = self.random.randint(2, 5)
        rest = {place for place in range(period) if self.random.random() < 0.5}
        below = self.random.random() < 0.3
        at = self.choice[name]

        def holds(*i: IndexExpr) -> Any:
            anywhere: Any = _total(i) > at if below else False
            for place in rest:
                anywhere = (_total(i) % period == place) | anywhere
            return anywhere

        return abstracted(of_indices(len(kind.parameters)), holds)

    def argument(self, name: str, kind: Kind) -> Argument:
        made = super().argument(name, kind)
        if isinstance(made, Index):
            units = self.random.choice((0, 1, -1, self.choice[name]))
            written = index(Size(UNIT)) * units + (self.choice[name] - units)
            if self.written and self.random.random() < 0.5:
                # Close to another index or to its negation, so that terms cancel.
                written = self.random.choice(self.written) * self.random.choice((1, -1)) + self.random.randint(-1, 1)
            self.written.append(written)
            return written
        if isinstance(made, Function) and not made.tensors and self.random.random() < 0.5:
            value: Any = applied(made)
            return abstracted(made.parameters, lambda *given: value(*(0 for _ in given)))
        return made


def _threshold(at: int, indices: tuple[Any, ...]) -> Any:
    """Return a generic condition: below a threshold, or at a single index."""
    return _total(indices) == at if at % 2 else _total(indices) < at


def _total(indices: tuple[Any, ...]) -> Any:
    total = indices[0]
    for other in indices[1:]:
        total = total + 2 * other
    return total


# -- deciding a rule --------------------------------------------------------------------------------------------------


def decide(rule: Rule, cases: int = CASES, seed: int = 0) -> Verdict:
    """Compare both sides of each statement at every choice, or at `cases` choices."""
    every = rule.statements.values()
    verdict = Verdict(rule.name, exhaustive=all(size(spaces_of(stated)) <= cases for stated in every))
    in_window = 0
    for stated in rule.statements.values():
        before = verdict.decided
        _compare_all(verdict, stated, generics(stated, cases, seed))
        in_window += verdict.decided - before
        enough = before + (ENOUGH if is_low(stated) else FEWEST)
        _compare_all(verdict, stated, more_generics(stated, verdict, enough, seed))
        if verdict.counterexample is not None:
            return verdict
    verdict.exhaustive &= in_window >= ENOUGH or not spaces(rule.metavariables)
    verdict.counterexample = (
        found_spelled_out(rule, seed) or found_of_unlike_elements(rule, seed) or found_of_more_rows(rule, seed)
    )
    return verdict


def _compare_all(verdict: Verdict, stated: RuleStatement, every: Iterable[Generic]) -> None:
    """Compare the sides of a statement for these arguments, up to a counterexample."""
    for generic in every:
        if verdict.counterexample is not None:
            return
        verdict.note(stated, compared(stated, generic))
        verdict.drawn_tests |= generic.drawn_tests


def generics(stated: RuleStatement, cases: int, seed: int = 0) -> Iterator[Generic]:
    """Yield generic arguments for a statement, fewer for elements of rank 2 or more."""
    most = most_cases(stated, cases)
    # Polynomials depend on element types only through casts.
    typed: Sequence[ElementTypes | None] = ways(stated) if has_casts(stated) else (None,)
    # Few choices are repeated, so that elements of all shapes are tried.
    chosen = list(choices(stated, most, seed))
    repeats = -(-FEWEST // len(chosen)) if chosen and any(stated.ranks) else 1
    for variant, choice in enumerate(chosen * repeats):
        yield Generic(stated, choice, typed[variant % len(typed)], variant)


def more_generics(stated: RuleStatement, verdict: Verdict, enough: int, seed: int) -> Iterator[Generic]:
    """Yield generic arguments with larger numbers, searched for, until the verdict has enough choices."""
    wanted = enough - verdict.decided
    if wanted <= 0 or not searched_spaces(stated):
        return
    typed: Sequence[ElementTypes | None] = ways(stated) if has_casts(stated) else (None,)
    for variant, choice in enumerate(search_of(stated).choices(Random(seed), 2 * wanted)):
        if verdict.decided >= enough:
            return
        yield Generic(stated, choice, typed[variant % len(typed)], variant)


def searched_spaces(stated: RuleStatement) -> dict[str, Sequence[int]]:
    """Return the spaces of numbers for a search: wider ones, and extents of elements if a premise is about these."""
    found: dict[str, Sequence[int]] = {name: LARGE.get(of, of) for name, of in spaces_of(stated).items()}
    if not all(_is_of_choice(stated, premise) for premise in stated.premises):
        for name, (leading, rank) in with_elements(stated).items():
            found |= {f"{name}.{leading + at}": ELEMENT_EXTENTS for at in range(rank)}
    return found


def search_of(stated: RuleStatement) -> Search:
    """Return a search for choices that satisfy the premises of a statement."""
    return Search(stated, searched_spaces(stated), _true_at)


def _true_at(threshold: int, at: tuple[int, ...]) -> bool:
    """Return the truth of a generic condition."""
    return bool(_threshold(threshold, at)) if at else threshold > 0


@lru_cache(maxsize=256)
def ways(stated: RuleStatement, *, integers: bool | None = None) -> tuple[ElementTypes, ...]:
    """Return assignments of element types to type variables: every one, or `MOST_WAYS` random ones.

    With `integers`, they have at least one integer type; if it is false, all types are float types.
    """
    variables, among = stated.type_variables, FLOATS if integers is False else DTYPES
    random = Random(0)
    if len(among) ** len(variables) <= MOST_WAYS:
        every: Iterable[Sequence[str]] = product(among, repeat=len(variables))
    else:
        every = (random.choices(among, k=len(variables)) for _ in range(MOST_WAYS))
    chosen = (types for types in every if not integers or any(map(is_integer, types)))
    return tuple(dict(zip(variables, types, strict=True)) for types in chosen)


def most_cases(stated: RuleStatement, cases: int) -> int:
    """Return the number of choices tried for a statement, limited for higher ranks, which have many statements."""
    if is_low(stated):
        return cases
    higher: int = (MAX_ELEMENT_RANK + 1) ** len(stated.ranks) - 2 ** len(stated.ranks)
    return min(max(FEWEST, HIGHER // higher), cases)


def has_casts(stated: RuleStatement) -> bool:
    """Return whether a side of a statement has a cast."""
    return any(isinstance(at, Cast) for side in (stated.lhs, stated.rhs) for at in subterms(side))


def has_recurrences(stated: RuleStatement) -> bool:
    """Return whether a side of a statement has a recurrence."""
    return any(isinstance(at, Rec) for side in (stated.lhs, stated.rhs) for at in subterms(side))


def domains_of(stated: RuleStatement) -> Iterator[Modular | Polynomials]:
    """Yield the domains in which the sides of a statement are compared: numbers modulo a prime for recurrences.

    These are repeated with all results of tests, or with random ones if there are more than `MOST_TESTS` tests.
    """
    if not has_recurrences(stated):
        yield Polynomials()
        return
    tests = draw = 0
    while draw < 2**tests:
        domain = Modular(draw, enumerated=True)
        yield domain
        draw += 1
        tests = max(tests, len(domain.tests))
        if tests > MOST_TESTS:
            yield from map(Modular, range(DRAWN_TESTS))
            return


def is_low(stated: RuleStatement) -> bool:
    """Return whether a statement has only elements of rank 0 and 1."""
    return all(rank <= 1 for rank in stated.ranks)


def found_spelled_out(rule: Rule, seed: int = 0) -> Counterexample | None:
    """Return a counterexample with arguments of the class `Spelled`, if one is found."""
    random = Random(seed)
    for stated in filter(is_low, rule.statements.values()):
        for _ in range(SPELLED):
            found = compared(stated, Spelled.drawn(stated, random))
            if isinstance(found, Counterexample):
                return found
    return None


def found_of_more_rows(rule: Rule, seed: int = 0) -> Counterexample | None:
    """Return a counterexample with larger indices for a rule about recurrences, if one is found.

    Row 4 is the first one that is neither in the first block nor the first row of a block.
    """
    random = Random(seed)
    indices = [name for name, of in spaces(rule.metavariables).items() if of == WINDOW]
    stated = next(filter(is_low, rule.statements.values()), None)
    if stated is None or not indices or not has_recurrences(stated):
        return None
    compared_choices = 0
    for _ in range(MORE_ROWS_DRAWS):
        drawn = {name: random.choice(of) for name, of in spaces_of(stated).items()}
        drawn |= {name: random.choice(MORE_ROWS) for name in indices}
        if max(drawn[name] for name in indices) not in WINDOW:
            found = compared(stated, Generic(stated, drawn))
            if isinstance(found, Counterexample):
                return found
            compared_choices += found is not None
        if compared_choices == UNLIKE * len(indices):
            break
    return None


def found_of_unlike_elements(rule: Rule, seed: int = 0) -> Counterexample | None:
    """Return a counterexample with elements of different extents in one group, if one is found.

    Either one metavariable differs from the others, or the extents of each are random, so that some have no elements.
    """
    random = Random(seed)
    for stated in rule.statements.values():
        of_elements = with_elements(stated)
        mixed = (MIXED if is_low(stated) else 1) * UNLIKE if len(of_elements) > 1 else 0
        one = product(of_elements, enumerate(list(choices(stated, UNLIKE, seed))))
        several = product((None,), enumerate(islice(cycle(choices(stated, mixed, seed)), mixed)))
        for name, (variant, choice) in (*one, *several):
            generic = Generic(stated, dict(choice), variant=variant)
            mix_extents(generic, variant, random, name)
            found = compared(stated, generic)
            if isinstance(found, Counterexample):
                return found
    return None


def mix_extents(generic: Generic, variant: int, random: Random, name: str | None = None) -> None:
    """Give one metavariable elements of other extents than the others have. Without `name`, each has random extents."""
    for other, (leading, rank) in with_elements(generic.stated).items():
        which = variant + (other == name) if name else random.choice((variant, variant + 1, NO_ELEMENTS))
        extents = generic.own_shapes[other] = ELEMENT_SHAPES[which % len(ELEMENT_SHAPES)][:rank]
        generic.choice.update((f"{other}.{leading + at}", extent) for at, extent in enumerate(extents))


class Budget:
    """The work that is left for choices with many terms."""

    def __init__(self) -> None:
        self.left = MOST_LONG_WORK

    def limit(self, generic: Generic) -> None:
        """Limit the work of the next choice to what is left."""
        generic.most_work = max(USUAL_WORK, min(MOST_WORK, self.left))

    def spend(self, generic: Generic) -> None:
        """Subtract the work of a choice."""
        self.left -= generic.work if USUAL_WORK < generic.work <= generic.most_work else 0


def vary_extents(generic: Generic, source: Choices) -> None:
    """Give the elements of some groups an extent that comes from the literals of the statement."""
    known = literals(generic.stated)
    for group, extents in generic.shapes.items():
        if known and extents and chance(source, SOMETIMES):
            drawn, at = floor(near(source, known)), source.integer(0, len(extents) - 1)
            if 0 <= drawn <= MOST_ELEMENTS:
                generic.shapes[group] = (*extents[:at], drawn, *extents[at + 1 :])


def with_elements(stated: RuleStatement) -> dict[str, tuple[int, int]]:
    """Return the rank and that of the elements, for each metavariable whose elements are not scalars."""
    ranks = dict(zip(groups_of(stated.metavariables), stated.ranks, strict=True))
    kinds = {name: kind for name, kind in stated.metavariables.items() if kind.sort == "tensor"}
    found = {name: (kind.rank, ranks.get(kind.group, 0)) for name, kind in kinds.items()}
    return {name: pair for name, pair in found.items() if pair[1]}


def instance(stated: RuleStatement, generic: Generic, most: int = MOST_ELEMENTS) -> Equation | None:
    """Return the instance for these arguments; None unless its premises hold and both sides are well-formed.

    It is also None if it takes too much work, or if a side has more than `most` elements.
    """
    try:
        arguments = generic.arguments()
        if not all(map(_holds, stated.premises_for(arguments))):
            return None
        made = stated.instance(arguments)
        sides = made.lhs, made.rhs
        generic.work = max(work(side) * _count(side) for side in sides)
    except (ATLError, ZeroDivisionError):  # a divisor is not positive
        return None
    if generic.work > generic.most_work or max(map(_count, sides)) > most:
        return None
    # The kernel accepts no instance whose sides have different shapes. It then claims nothing of this choice, if the
    # sides differ in shape only because operands do in code that is never executed.
    everywhere = not _have_one_shape(*sides)
    return made if all(_meaningful(side, everywhere=everywhere) for side in sides) else None


def has_instance(stated: RuleStatement) -> bool:
    """Return whether the statement has an instance, possibly one that is too large to be evaluated."""
    for choice in search_of(stated).choices(Random(0), ENOUGH):
        generic = Generic(stated, choice)
        generic.most_work = ANY_WORK
        if instance(stated, generic, most=ANY_WORK) is not None:
            return True
    return False


def _count(term: Expr) -> int:
    """Return the number of elements of a side, at least 1."""
    return max(1, prod(map(_value, term.type.shape)))


def _value(extent: Index) -> int:
    """Return the value of an extent, or an estimate if it depends on a bound index."""
    return SOME if extent.loose else max(0, value_at(extent, {UNIT: 1}))


def work(term: Expr) -> int:
    """Estimate the number of terms computed for a side, whose extents may be too large to evaluate."""
    total = 1
    for child in children(term):
        times = 1
        for binder in child.part.indices:
            times *= _value(getattr(term, binder.high) - getattr(term, binder.low))
        total += times * work(child.expr)
    return total


def compared(
    stated: RuleStatement, generic: Generic, scalars: Scalars[Any] | None = None
) -> Counterexample | bool | None:
    """Return True if the sides are equal in shape and values, a counterexample, or None if the choice is skipped.

    They are compared in the given domain, or in those of the statement.
    """
    made = instance(stated, generic)
    if made is None:
        return None
    for domain in domains_of(stated) if scalars is None else (scalars,):
        left, right = (meant(term, generic, domain) for term in (made.lhs, made.rhs))
        found = counterexample(generic, left, right, operator.ne)
        if found is not None:
            uninterpreted = isinstance(domain, Modular) and domain.uninterpreted
            return replace(found, uninterpreted=uninterpreted)
        generic.drawn_tests |= isinstance(domain, Modular) and len(domain.tests) > MOST_TESTS
    return True


def meant(term: Expr, generic: Generic, scalars: Scalars[Any]) -> Side:
    """Evaluate a side for the arrays of these arguments."""
    meaning = _denoted(term, generic, generic.arrays, scalars)
    return meaning.shape, meaning.to_numpy(object)


def _denoted(term: Expr, generic: Generic, arrays: Mapping[str, Any], scalars: Scalars[Any]) -> Meaning[Any]:
    program = generic.program(term)
    return denote(program, dict.fromkeys(program.sizes, 1), arrays, scalars)


def elements_read(term: Expr, generic: Generic, at: tuple[int, ...]) -> dict[tuple[str, tuple[int, ...]], Any]:
    """Return the elements that a side reads at a position, by name of the array and position in it."""
    found: dict[tuple[str, tuple[int, ...]], Any] = {}

    def noted(name: str, known: Lazy) -> Lazy:
        return Lazy(known.shape, lambda place: found.setdefault((name, place), known[place]))

    arrays = {name: noted(name, known) for name, known in generic.arrays.items()}
    _denoted(term, generic, arrays, Machine()).at(at)
    return found


def counterexample(
    generic: Generic, left: Side, right: Side, differ: Callable[[Any, Any], bool]
) -> Counterexample | None:
    """Return a counterexample if the sides differ in shape or in an element; otherwise None."""
    (shape, ours), (other, theirs) = left, right
    first = None
    if shape == other:
        differing = (at for at in np.ndindex(*shape) if differ(ours[at], theirs[at]))
        first = next(((at, ours[at], theirs[at]) for at in differing), None)
        if first is None:
            return None
    shown = f"{shape} {ours.tolist()}"[:400], f"{other} {theirs.tolist()}"[:400]
    return Counterexample(str(generic.choice), *shown, dict(generic.choice), first, types=dict(generic.types))


KNOWN: Final = Facts((equal(index(Size(UNIT)), ONE),))


def _holds(premise: Predicate) -> bool:
    return isinstance(prove(KNOWN, premise), Proved)


def _have_one_shape(left: Expr, right: Expr) -> bool:
    return left.type.rank == right.type.rank and all(map(_holds, map(equal, left.type.shape, right.type.shape)))


def _meaningful(term: Expr, *, everywhere: bool) -> bool:
    """Return whether a side is well-formed; with `everywhere`, operands agree in shape also where nothing is computed.

    The kernel does not require the latter: an operation in an empty sum may have operands of different shapes.
    """
    for _, at, scope in parts_in_scope(term, Scope(KNOWN)):
        for obligation in obligations(at, scope):
            known = KNOWN if everywhere and issubclass(obligation.error, ShapeError) else scope.facts
            if not isinstance(prove(known, obligation.goal), Proved):
                return False
    return True


def spaces(metavariables: Mapping[str, Kind]) -> dict[str, range]:
    """Return the window of choices: values of indices, thresholds of conditions, and extents of tensors."""
    found: dict[str, range] = {}
    for name, kind in metavariables.items():
        if kind.sort == "index":
            found[name] = WINDOW
        elif kind.sort == "condition":
            found[name] = range(-1, 5) if kind.parameters else range(2)
        else:
            found.update({f"{name}.{k}": EXTENTS for k in range(kind.rank)})
    return found


def spaces_of(stated: RuleStatement) -> dict[str, range]:
    """Return the window of choices of a statement: an index that it does not use is zero."""
    unused = unused_indices(stated)
    return {name: range(1) if name in unused else of for name, of in spaces(stated.metavariables).items()}


def size(of: dict[str, range]) -> int:
    """Return the number of choices."""
    return prod(map(len, of.values()))


def choices(
    stated: RuleStatement, most: int, seed: int = 0, extra: Mapping[str, range] = MappingProxyType({})
) -> Iterator[dict[str, int]]:
    """Yield every choice, or up to `most` random ones that satisfy the premises. `extra` adds names with values."""
    of = {**spaces_of(stated), **extra}
    if size(of) <= most:
        for values in product(*of.values()):
            yield dict(zip(of, values, strict=True))
        return
    random = Random(seed)
    chosen = _of_choices(stated)
    possible = {name: _possible(stated, chosen, name, space) for name, space in of.items()}
    if not all(possible.values()):
        return
    drawn = (_drawn(possible, random) for _ in range(most * DRAWS))
    found = 0
    for choice in islice(filter(satisfying(stated), drawn), most):
        found += 1
        yield choice
    if found < most and not extra:
        yield from search_of(stated).choices(random, min(most - found, ENOUGH))


def _of_choices(stated: RuleStatement) -> list[Predicate]:
    return [premise for premise in stated.premises if _is_of_choice(stated, premise)]


def satisfying(stated: RuleStatement) -> Callable[[dict[str, int]], bool]:
    """Return a test of choices: whether they satisfy the premises that depend only on chosen numbers."""
    chosen = _of_choices(stated)
    return lambda choice: _all_hold(stated, chosen, choice)


def _drawn(possible: Mapping[str, Sequence[int]], random: Random) -> dict[str, int]:
    """Draw a number for each name. In half of the choices, tensors have equal extents in each dimension if they can."""
    out = {name: random.choice(values) for name, values in possible.items()}
    if random.randrange(2):
        first: dict[str, int] = {}
        for name, own in list(out.items()):
            _, _, dimension = name.partition(".")
            value = first.setdefault(dimension, own)
            if dimension and value in possible[name]:
                out[name] = value
    return out


def _possible(stated: RuleStatement, premises: Sequence[Predicate], name: str, space: range) -> list[int]:
    """Return the values of one number that satisfy the premises about it alone."""
    alone = [premise for premise in premises if {_name_of(stated, atom) for atom in atoms_of(premise)} == {name}]
    return [value for value in space if _all_hold(stated, alone, {name: value})]


def _name_of(stated: RuleStatement, atom: object) -> str:
    """Return the name of a number in a choice; that of a condition is not compared."""
    if not isinstance(atom, Var):
        return ""
    name, dimension = stated.extents.get(atom.uid, ("", 0))
    return f"{name}.{dimension}" if name else stated.names[atom.uid]


def varied(
    stated: RuleStatement, choice: Mapping[str, int], source: Choices, most: int = MOST_EXTENT
) -> dict[str, int]:
    """Return a choice in which some numbers come from the literals of the statement, up to `most` in size of extents.

    Some indices are large, if elements are made of them. Some extents are the smallest with an element at an index.
    """
    premises = [premise for premise in stated.premises if _is_of_choice(stated, premise)]
    out = _varied(stated, choice, source, most)
    for _ in range(REDRAWN):
        if _all_hold(stated, premises, out):
            break
        out = _varied(stated, choice, source, most)
    return out


def _varied(stated: RuleStatement, choice: Mapping[str, int], source: Choices, most: int) -> dict[str, int]:
    known, large = literals(stated), large_indices(stated)
    out = dict(choice)
    found = spaces_of(stated)
    indices = [name for name, of in found.items() if of == WINDOW]
    for name in indices:
        if large and chance(source, SOMETIMES):
            out[name] = choose(source, large)
        elif known and chance(source, SOMETIMES):
            out[name] = floor(near(source, known, tuple(map(Fraction, out.values()))))
    further = [name for name in indices if out[name] not in WINDOW]
    for name in (name for name, of in found.items() if of == EXTENTS and known):
        if further and chance(source, SOMETIMES):
            drawn = out[choose(source, further)] + 1
            out[name] = drawn if 0 <= drawn <= REACH else out[name]
        elif chance(source, SOMETIMES):
            drawn = floor(near(source, known, tuple(map(Fraction, out.values()))))
            out[name] = drawn if 0 <= drawn <= most else out[name]
    return out


def _is_of_choice(stated: RuleStatement, premise: Predicate) -> bool:
    """Return whether a premise depends only on chosen numbers, not on the extents of elements."""
    variables = (atom.uid for atom in atoms_of(premise) if isinstance(atom, Var))
    extents = (stated.extents[uid] for uid in variables if uid in stated.extents)
    return all(dimension < stated.metavariables[name].rank for name, dimension in extents)


def _all_hold(stated: RuleStatement, premises: Sequence[Predicate], choice: Mapping[str, int]) -> bool:
    def leaf(at: Leaf) -> int:
        assert isinstance(at, Var)
        return choice[_name_of(stated, at)]

    def element(array: Array, at: tuple[int, ...]) -> int:
        threshold = choice[array.name]
        return 0 if _true_at(threshold, at) else -1

    try:
        return all(holds(premise, leaf, element) for premise in premises)
    except ZeroDivisionError:
        return False
