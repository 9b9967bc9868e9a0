"""Choices that satisfy the premises of a statement, found by backtracking.

Numbers are chosen one after the other. After each, the conditions that depend only on numbers already chosen are
tested, and if one fails another value is tried. An equation with one number left determines it. The conditions are the
premises, and the well-formedness of both sides (`atl.checks.wellformed`), tested at some values of the bound indices.

The search only proposes choices. Whether one counts is decided by its instance (`exhaustion.instance`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from random import Random
from typing import Final, TypeAlias

from atl.checks.scope import Scope
from atl.checks.wellformed import obligations
from atl.core.index import ONE, Array, Index, Leaf, Read, Var, atoms, factor_of, value_of
from atl.core.predicate import FALSE, Predicate, Zero, at_most, atoms_of, conjuncts, equal, holds, negation
from atl.core.terms import Expr, Reduce
from atl.core.traversal import children, subterms
from atl.prove import Facts
from rewrites.rule_statement import RuleStatement

TRIES: Final = 5
"""Number of searches after which premises count as unmet."""
MOST_RANGES: Final = 4
"""Conditions under more binders are not searched for, because they have too many values."""
MOST_NODES: Final = 600
"""Maximum number of values tried in the search for one choice."""
MOST_FAILED: Final = 4
"""The search ends once more than this number of its runs, and more than a quarter of all, have failed."""
DETERMINED: Final = 40
"""Maximum absolute value of a number that an equation determines."""
WITHOUT_ELEMENTS: Final = 4
"""In one choice out of four, the sides need not have elements."""
BOUND_VALUES: Final = 3
"""Number of values of a bound index, from its least one, at which conditions under its binder are tested."""

Choice: TypeAlias = Mapping[str, int]
Truth: TypeAlias = Callable[[int, tuple[int, ...]], bool]
"""The truth of a condition metavariable, given by a number of the choice, at some indices."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A goal that must hold at every value of the bound indices, in their ranges, for which the assumptions hold.

    `names` are the numbers of a choice on which it depends.
    """

    goal: Predicate
    names: frozenset[str]
    ranges: tuple[tuple[Var, Index, Index], ...] = ()
    assumed: tuple[Predicate, ...] = ()


class _Conditions:
    """Conditions without repetition: by the numbers on which they depend, and equations in order."""

    def __init__(self, every: Iterable[Condition]) -> None:
        each = tuple(dict.fromkeys(every))
        self.by_names: dict[frozenset[str], list[Condition]] = {}
        for condition in each:
            self.by_names.setdefault(condition.names, []).append(condition)
        self.equations = [
            (condition.names, parts)
            for condition in each
            if not condition.ranges and not condition.assumed
            if (parts := [part for part in conjuncts(condition.goal) if isinstance(part, Zero)])
        ]


class Search:
    """A search for choices of a statement, in these spaces of its numbers."""

    def __init__(self, stated: RuleStatement, spaces: Mapping[str, Sequence[int]], truth: Truth) -> None:
        self.stated = stated
        self.spaces = spaces
        self._truth = truth
        self._named: dict[Var, str] = {}
        premises = tuple(self._condition(premise) for premise in stated.premises)
        self.premises = tuple(premise for premise in premises if premise is not None)
        every = (*self.premises, *self._of_sides())
        self._conditions = _Conditions(every)
        self._with_elements = _Conditions((*every, *self._of_elements()))

    def choices(self, random: Random, most: int) -> Iterator[dict[str, int]]:
        """Yield up to `most` choices; fewer if some searches fail. They may repeat.

        In most of them the sides have elements, and the folds have terms.
        """
        failed = 0
        for number in range(most):
            found = self._found(random, self._with_elements) if number % WITHOUT_ELEMENTS else None
            found = self._found(random, self._conditions) if found is None else found
            if found is not None:
                yield found
            elif (failed := failed + 1) > MOST_FAILED and failed > most // 4:
                return

    def first_unmet(self, random: Random) -> Predicate | None:
        """Return the first premise that no choice was found for together with those before it; None without one."""
        for count in range(1, len(self.premises) + 1):
            conditions = _Conditions(self.premises[:count])
            if all(self._found(random, conditions) is None for _ in range(TRIES)):
                return self.premises[count - 1].goal
        return None

    # -- conditions ---------------------------------------------------------------------------------------------------

    def _condition(
        self, goal: Predicate, ranges: tuple[tuple[Var, Index, Index], ...] = (), assumed: tuple[Predicate, ...] = ()
    ) -> Condition | None:
        """Return a condition; None if it depends on more than the numbers of a choice."""
        bound = {variable for variable, _, _ in ranges}
        parts = [*atoms_of(goal), *chain.from_iterable(map(atoms_of, assumed))]
        parts += [part for _, low, high in ranges for part in (*atoms(low), *atoms(high))]
        names: set[str] = set()
        for part in parts:
            if isinstance(part, Var) and part not in bound:
                names.add(self.name_of(part))
            elif isinstance(part, Read):
                names.add(part.array.name)
        return Condition(goal, frozenset(names), ranges, assumed) if names <= self.spaces.keys() else None

    def name_of(self, variable: Var) -> str:
        """Return the name of a number of a choice."""
        if variable not in self._named:
            extent = self.stated.extents.get(variable.uid)
            named = self.stated.names.get(variable.uid, "?")
            self._named[variable] = named if extent is None else f"{extent[0]}.{extent[1]}"
        return self._named[variable]

    def _of_elements(self) -> Iterator[Condition]:
        sides = (self.stated.lhs, self.stated.rhs)
        extents = [extent for side in sides for extent in side.type.shape]
        folds = (part for side in sides for part in subterms(side) if isinstance(part, Reduce))
        extents += [fold.high - fold.low for fold in folds]
        found = (self._condition(at_most(ONE, extent)) for extent in extents if not extent.loose)
        yield from (condition for condition in found if condition is not None and condition.names)

    def _of_sides(self) -> Iterator[Condition]:
        sides = self.stated.lhs, self.stated.rhs
        shapes = zip(*(side.type.shape for side in sides), strict=False)
        found = [self._condition(equal(a, b)) for a, b in shapes]
        for side in sides:
            found += self._needed(side, Scope(Facts()), (), ())
        for condition in found:
            if condition is not None and condition.names and len(condition.ranges) <= MOST_RANGES:
                yield condition

    def _needed(
        self, term: Expr, scope: Scope, ranges: tuple[tuple[Var, Index, Index], ...], assumed: tuple[Predicate, ...]
    ) -> Iterator[Condition]:
        for obligation in obligations(term, scope):
            made = None if obligation.goal == FALSE else self._condition(obligation.goal, ranges, assumed)
            if made is not None:
                yield made
        for child in children(term):
            inside, around, known = scope, ranges, assumed
            if child.part.assumes is not None:
                condition = scope.predicate(getattr(term, child.part.assumes))
                known = (*known, negation(condition) if child.part.negated else condition)
            for binder in child.part.indices:
                low, high = (scope.index(getattr(term, at)) for at in (binder.low, binder.high))
                variable, inside = inside.bind(getattr(term, binder.name), low, high)
                around = (*around, (variable, low, high))
            yield from self._needed(child.expr, inside, around, known)

    # -- search -------------------------------------------------------------------------------------------------------

    def _found(self, random: Random, conditions: _Conditions) -> dict[str, int] | None:
        """Return a choice that meets the conditions, or None if none is found within `MOST_NODES` values."""
        names = list(self.spaces)
        random.shuffle(names)
        choice: dict[str, int] = {}
        left = MOST_NODES

        def extended() -> bool:
            nonlocal left
            if len(choice) == len(names):
                return True
            name, values = self._next(choice, names, conditions, random)
            for value in values:
                left -= 1
                if left < 0:
                    return False
                choice[name] = value
                decided = (
                    each for names, each in conditions.by_names.items() if name in names and names <= choice.keys()
                )
                if all(self._met(condition, choice) for each in decided for condition in each) and extended():
                    return True
                del choice[name]
            return False

        return {name: choice[name] for name in self.spaces} if extended() else None

    def _next(
        self, choice: Choice, names: Sequence[str], conditions: _Conditions, random: Random
    ) -> tuple[str, list[int]]:
        """Return the next number to choose and its values: those of an equation, or all in random order."""
        for needed, equations in conditions.equations:
            left = needed - choice.keys()
            if len(left) == 1:
                (name,) = left
                for equation in equations:
                    solved = self._solved(equation, name, choice)
                    if solved is not None:
                        lowest = 0 if "." in name else -DETERMINED
                        return name, [value for value in solved if lowest <= value <= DETERMINED]
        # Choose a number of the condition with the fewest unknown numbers, so that a wrong value is noticed soon.
        lacking = [left for needed in conditions.by_names if (left := needed - choice.keys())]
        first = min(lacking, key=len, default=frozenset(names))
        name = next(each for each in names if each in first and each not in choice)
        values = list(dict.fromkeys(self.spaces[name]))
        random.shuffle(values)
        return name, values

    def _solved(self, part: Zero, name: str, choice: Choice) -> list[int] | None:
        """Return the values of a number that an equation allows; None if it is not linear in the number."""
        variables = [at for at in atoms(part.expression) if isinstance(at, Var) and self.name_of(at) == name]
        factor = factor_of(part.expression, variables[0]) if len(set(variables)) == 1 else None
        if factor is None:
            return None
        rest, by = (self._value(at, {**choice, name: 0}) for at in (part.expression, factor))
        if rest is None or by is None or not by:
            return None
        return [] if rest % by else [-rest // by]

    def _value(self, expression: Index, choice: Choice) -> int | None:
        try:
            return value_of(expression, lambda at: self._of_leaf(at, choice, {}), self._element(choice))
        except (ZeroDivisionError, KeyError):
            return None

    def _of_leaf(self, at: Leaf, choice: Choice, bound: Mapping[Leaf, int]) -> int:
        if at in bound:
            return bound[at]
        assert isinstance(at, Var)
        return choice[self.name_of(at)]

    def _element(self, choice: Choice) -> Callable[[Array, tuple[int, ...]], int]:
        return lambda array, at: 0 if self._truth(choice[array.name], at) else -1

    def _met(self, condition: Condition, choice: Choice) -> bool:
        """Return whether a condition holds for the numbers that are chosen, which decide it."""
        element = self._element(choice)

        def under(ranges: Sequence[tuple[Var, Index, Index]], bound: dict[Leaf, int]) -> bool:
            def leaf(at: Leaf) -> int:
                return self._of_leaf(at, choice, bound)

            if not ranges:
                every = all(holds(each, leaf, element) for each in condition.assumed)
                return not every or holds(condition.goal, leaf, element)
            (variable, low, high), *further = ranges
            first, end = value_of(low, leaf, element), value_of(high, leaf, element)
            some = dict.fromkeys((*range(first, min(first + BOUND_VALUES, end)), *range(max(first, end - 1), end)))
            return all(under(further, {**bound, variable: value}) for value in some)

        try:
            return under(condition.ranges, {})
        except ZeroDivisionError:
            return False
