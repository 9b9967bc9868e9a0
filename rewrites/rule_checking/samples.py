"""Random tests of rules: sizes, indices, bodies (guards, sums, reads, pads) and exact rational elements are drawn.

Decisions come from Hypothesis, which shrinks a counterexample, or from a seeded generator.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from itertools import cycle, islice
from math import floor
from random import Random
from types import MappingProxyType
from typing import Any, Final

import atl
from atl import IndexExpr, Tensor
from atl.core.dtypes import BOOL, is_integer
from atl.core.index import constant
from atl.core.predicate import FALSE, TRUE
from atl.core.terms import Monoid
from atl.errors import NotExact
from rewrites.metavariables import Kind
from rewrites.rule import Rule
from rewrites.rule_arguments import Argument, Function, abstracted
from rewrites.rule_checking import exhaustion, generic_arguments, small_choices
from rewrites.rule_checking.choices import Choices, Seeded, chance, choose
from rewrites.rule_checking.literals import as_element, large_indices, literals, near
from rewrites.rule_checking.numbers import NEAR_LITERALS, compared_exactly, extremes
from rewrites.rule_checking.small_choices import MOST_EXTENT, REACH, WINDOW
from rewrites.rule_statement import ElementTypes, RuleStatement, axis_numbers

OF_LITERALS: Final = 40
"""Percentage of indices and extents drawn from the literals of a rule that has any."""
EXTREME: Final = 40
"""Percentage of elements drawn from the extremes of their type."""
AT_HIGHER_RANKS: Final = 30
"""Percentage of samples that may have elements of rank 2 or more."""
UNLIKE: Final = 25
"""Percentage of samples in which elements of one group may have different extents, or may not exist."""
NEAR_BY: Final = 4
"""Largest index, of either sign, of most arrays."""
REACHED: Final = 3
"""In one sample out of three, indices and extents are searched for, because few premises hold by chance."""
SEARCHED: Final = 12
"""Number of searches for such choices of a statement."""
NOT_FIXED: Final[tuple[dict[str, int], ...]] = ({},)
LIKELY: Final = 60
"""Percentage of extents and indices drawn from the values in use."""


class Sample(generic_arguments.Generic):
    """Random arguments for a rule. Each tensor and each function is a small random program."""

    def __init__(
        self, stated: RuleStatement, choices: Choices, types: ElementTypes | None = None,
        fixed: Mapping[str, int] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        variant = choices.integer(0, len(generic_arguments.ELEMENT_SHAPES) - 1)
        super().__init__(stated, {}, types, variant)
        self.fixed = fixed
        self.own_shapes = generic_arguments.chosen_extents(stated, fixed)
        self.choices = choices
        self._dtype = generic_arguments.FLOAT
        self.literals, self.large = literals(stated), large_indices(stated)
        self.near_literals = choose(choices, NEAR_LITERALS)
        if chance(choices, UNLIKE):
            generic_arguments.vary_extents(self, choices)
        self.earlier: list[Fraction] = []
        # Few premises hold by chance, so most extents and indices repeat earlier values.
        self.usual = [choices.integer(0, 4), choices.integer(1, 3), choices.integer(1, 3)]
        self.unlike: list[dict[str, tuple[int, ...]]] = []
        if any(stated.ranks) and chance(choices, UNLIKE):
            of = (variant, variant + 1, generic_arguments.NO_ELEMENTS)
            self.unlike = [generic_arguments.element_shapes(stated, each) for each in of]

    def argument(self, name: str, kind: Kind) -> Argument:
        choices = self.choices
        match kind.sort:
            case "index":
                number = axis_numbers(self.stated).get(name) if kind.permutes else self.fixed.get(name)
                self.choice[name] = self._index_value() if number is None else number
                return constant(self.choice[name])
            case "condition" if not kind.parameters:
                self.choice[name] = choices.integer(0, 1)
                return TRUE if self.choice[name] else FALSE
            case "condition":
                return abstracted(tuple("index" for _ in kind.parameters), lambda *at: self._predicate(at))
            case "tensor":
                return self._drawn(name, kind)

    def _index_value(self) -> int:
        choices, earlier = self.choices, list(self.choice.values())
        if self.large and chance(choices, OF_LITERALS):
            return choose(choices, self.large)
        if self.literals and chance(choices, OF_LITERALS):
            return floor(near(choices, self.literals, tuple(map(Fraction, earlier))))
        return choose(choices, [*self.usual, *earlier]) if chance(choices, LIKELY) else choices.integer(-1, 5)

    def _extent(self, usual: int) -> int:
        choices = self.choices
        further = [value for value in self.choice.values() if value not in WINDOW]
        if self.literals and further and chance(choices, OF_LITERALS // 2):
            return min(max(0, choose(choices, further) + 1), REACH)
        if self.literals and chance(choices, OF_LITERALS // 2):
            return min(max(0, floor(near(choices, self.literals))), MOST_EXTENT)
        return usual if chance(choices, LIKELY) else choices.integer(0, 4)

    def _drawn(self, name: str, kind: Kind) -> Argument:
        extents = [
            self.fixed[f"{name}.{at}"] if f"{name}.{at}" in self.fixed else self._extent(extent)
            for at, extent in enumerate(islice(cycle(self.usual), kind.rank))
        ]
        shapes = choose(self.choices, self.unlike) if self.unlike else self.shapes
        extents += self.own_shapes.get(name, shapes.get(kind.group, ()))
        self._dtype = self.dtype(name)
        made: Function = abstracted(self.parameters(name, kind), lambda *given: self.tensor(name, extents, given))
        return made if kind.parameters else made.body

    def tensor(self, name: str, extents: list[int], given: tuple[Any, ...]) -> Tensor:
        """Return a random tensor of these extents that uses the given indices and tensors."""
        if not extents:
            return self.scalar(given, 2)
        choices, (first, *rest) = self.choices, extents
        match choices.integer(0, 5):
            case 1 if first:
                pad = choose(choices, (atl.padl, atl.padr))
                return pad(1, self.tensor(name, [first - 1, *rest], given))
            case 2:
                cut = choose(choices, (atl.truncl, atl.truncr))
                return cut(1, self.tensor(name, [first + 1, *rest], given))
            case 3:
                return atl.guard(self._predicate(given), self.tensor(name, extents, given))
            case _:
                return atl.gen(first, lambda i: self.tensor(name, rest, (*given, i)))

    def scalar(self, given: tuple[Any, ...], depth: int) -> Tensor:
        choices, truths = self.choices, self._dtype == BOOL
        match choices.integer(0, 7) if depth else 0:
            case 1:
                return atl.guard(self._predicate(given), self.scalar(given, depth - 1))
            case 2:
                fold: Monoid = "max" if truths else "sum"
                return atl.reduce(fold, choices.integer(0, 3), lambda k: self.scalar((*given, k), depth - 1))
            case 3:
                left, right = self.scalar(given, depth - 1), self.scalar(given, depth - 1)
                return left & right if truths else left * right
            case 4:
                left, right = self.scalar(given, depth - 1), self.scalar(given, depth - 1)
                return left ^ right if truths else left - right
            case 5:
                return atl.select(self._predicate(given), self.scalar(given, depth - 1), self.scalar(given, depth - 1))
            case 6:
                return atl.let(
                    self.scalar(given, depth - 1),
                    lambda x: x | self.scalar(given, depth - 1) if truths else x + self.scalar(given, depth - 1),
                )
            case _:
                return self.number(given)

    def number(self, given: tuple[Any, ...]) -> Tensor:
        """Return an element of an array or of a given tensor, at or near a given index, possibly out of range."""
        tensors = [one for one in given if isinstance(one, Tensor)]
        if tensors and self.choices.integer(0, 2):
            out = choose(self.choices, tensors)
            while out.rank:
                out = out[self._index(given)]
            return out if out.dtype == self._dtype else atl.cast(self._dtype, out)
        # Functions of indices also need independent values at large literals.
        far = any(abs(value) >= NEAR_BY for value in self.literals) and self.choices.integer(0, 1)
        name, reach = ("far", MOST_EXTENT) if far else ("numbers", NEAR_BY)
        return self.array(f"{name}_{self._dtype}", [2 * reach + 1], self._dtype)[self._index(given) + reach]

    def _index(self, given: tuple[Any, ...]) -> Any:
        indices = [one for one in given if isinstance(one, IndexExpr)]
        if not indices:
            return self.choices.integer(0, 2)
        return choose(self.choices, indices) + self.choices.integer(-1, 1)

    def _predicate(self, given: tuple[Any, ...]) -> Any:
        indices = [one for one in given if isinstance(one, IndexExpr)]
        if not indices:
            return bool(self.choices.integer(0, 3))
        far = self.literals and chance(self.choices, OF_LITERALS)
        threshold = floor(near(self.choices, self.literals)) if far else self.choices.integer(-1, 4)
        return choose(self.choices, indices) * choose(self.choices, (1, 1, 2, -1)) <= threshold

    def elements(self, _: str, extents: tuple[int, ...], dtype: str, /) -> generic_arguments.Lazy:
        return generic_arguments.Lazy(extents, lambda _: self._element(dtype))

    def _element(self, dtype: str) -> Fraction:
        made = self._number(dtype)
        self.earlier.append(made)
        return made

    def _number(self, dtype: str) -> Fraction:
        choices = self.choices
        if dtype == BOOL:
            return Fraction(choices.integer(0, 1))
        if self.literals and chance(choices, self.near_literals):
            return as_element(near(choices, self.literals, self.earlier[-4:]), dtype)
        if chance(choices, EXTREME):
            return choose(choices, extremes(dtype))
        return Fraction(choices.integer(-9, 9), 1 if is_integer(dtype) else choices.integer(1, 4))


@lru_cache(maxsize=256)
def reached(stated: RuleStatement) -> tuple[dict[str, int], ...]:
    """Return some choices of indices and extents that satisfy the premises of a statement that has any."""
    if not stated.premises:
        return ()
    return tuple(small_choices.search_of(stated).choices(Random(0), SEARCHED))


def drawn_statement(rule: Rule, choices: Choices) -> RuleStatement:
    """Return a random statement of the rule, usually for elements of rank 0 and 1."""
    every = list(rule.statements.values())
    low = [stated for stated in every if exhaustion.is_low(stated)]
    return choose(choices, every if not low or chance(choices, AT_HIGHER_RANKS) else low)


def sampled(
    rule: Rule, wanted: int = 10, tries: int = 300, seed: int = 0, *, integers: bool = False
) -> exhaustion.Counterexample | int:
    """Return the number of samples in which the sides are equal, `wanted` at most, or a counterexample."""
    verdict = sample(rule, wanted, tries, seed, integers=integers)
    return verdict.decided if verdict.counterexample is None else verdict.counterexample


def sample(
    rule: Rule, wanted: int = 10, tries: int = 300, seed: int = 0, *, integers: bool = False
) -> exhaustion.Verdict:
    """Compare both sides in samples until `wanted` of them agree or one differs.

    Samples run through the assignments of float types to the type variables of the rule. With `integers` they run
    through those with at least one integer type.
    """
    verdict, budget = exhaustion.Verdict(rule.name, exhaustive=False), exhaustion.Budget()
    choices = Seeded.by(str(seed))
    for number in range(tries if rule.statements else 0):
        if verdict.decided == wanted:
            break
        stated = drawn_statement(rule, choices)
        typed = exhaustion.ways(stated, integers=integers)
        if not typed:
            continue
        fixed = choose(choices, reached(stated) or NOT_FIXED) if number % REACHED == 0 else {}
        generic = Sample(stated, choices, typed[number % len(typed)], fixed)
        budget.limit(generic)
        made = exhaustion.instance(stated, generic)
        budget.spend(generic)
        try:
            verdict.note(stated, None if made is None else compared_exactly(made, generic) or True)
        except NotExact:
            continue  # for instance an irrational root
        if verdict.counterexample is not None:
            break
    return verdict
