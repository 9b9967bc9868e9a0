"""Grade 1 for rules: drawn sizes and indices, bodies of guards, sums, reads and pads, exact rational elements.

What is drawn comes from Hypothesis, which makes a counterexample small, or from a seed.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

import numpy.typing as npt

import atl
from atl import IndexExpr, Tensor
from atl.core.index import constant
from atl.core.predicate import FALSE, TRUE
from atl.errors import NotExact
from atl.meaning.scalars import Exact
from rewrites.grading.choices import Choices, Seeded, chance, choose
from rewrites.grading.exhaustion import LOOKED_AT, Counterexample, Generic, compared, filled
from rewrites.instantiation import Argument, Function, Parameter, abstracted
from rewrites.kinds import Kind
from rewrites.matching.patterns import groups_of
from rewrites.rule import Rule

LIKELY: Final = 60
"""How many extents of a hundred are one of the usual."""


class Sample(Generic):
    """Arguments drawn for a rule: each tensor and each function is a small program of its own."""

    def __init__(self, rule: Rule, choices: Choices) -> None:
        super().__init__({group: choices.integer(0, 2) for group in groups_of(rule)}, {})
        self.choices = choices
        # Most extents are alike, and many indices are one of them or of those before: few premises hold by chance.
        self.usual = [choices.integer(0, 4), choices.integer(1, 3), choices.integer(1, 3)]

    def argument(self, name: str, kind: Kind) -> Argument:
        choices = self.choices
        match kind.sort:
            case "index":
                likely = [*self.usual, *self.choice.values()]
                self.choice[name] = choose(choices, likely) if chance(choices, LIKELY) else choices.integer(-1, 5)
                return constant(self.choice[name])
            case "condition" if not kind.parameters:
                self.choice[name] = choices.integer(0, 1)
                return TRUE if self.choice[name] else FALSE
            case "condition":
                return abstracted(tuple("index" for _ in kind.parameters), lambda *at: self._predicate(at))
            case "tensor":
                return self._drawn(name, kind)

    def _drawn(self, name: str, kind: Kind) -> Argument:
        extents = [
            extent if chance(self.choices, LIKELY) else self.choices.integer(0, 4) for extent in self.usual[: kind.rank]
        ] + [2] * self.ranks.get(kind.group, 0)
        parameters: list[Parameter] = [
            "index" if parameter.sort == "index" else self._type_of(parameter) for parameter in kind.parameters
        ]
        made: Function = abstracted(tuple(parameters), lambda *given: self.tensor(name, extents, given))
        return made if parameters else made.body

    def _type_of(self, kind: Kind) -> Any:
        extents = [LOOKED_AT[kind.rank]] * kind.rank + [2] * self.ranks.get(kind.group, 0)
        return atl.gen(*extents, lambda *_: 0.0 * self.number(())).node.type if extents else self.number(()).node.type

    def tensor(self, name: str, extents: list[int], given: tuple[Any, ...]) -> Tensor:
        """A tensor of these extents, made of indices and tensors."""
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
        choices = self.choices
        match choices.integer(0, 7) if depth else 0:
            case 1:
                return atl.guard(self._predicate(given), self.scalar(given, depth - 1))
            case 2:
                return atl.sum(choices.integer(0, 3), lambda k: self.scalar((*given, k), depth - 1))
            case 3:
                return self.scalar(given, depth - 1) * self.scalar(given, depth - 1)
            case 4:
                return self.scalar(given, depth - 1) - self.scalar(given, depth - 1)
            case 5:
                return atl.select(self._predicate(given), self.scalar(given, depth - 1), self.scalar(given, depth - 1))
            case 6:
                return atl.let(self.scalar(given, depth - 1), lambda x: x + self.scalar(given, depth - 1))
            case _:
                return self.number(given)

    def number(self, given: tuple[Any, ...]) -> Tensor:
        """An element of an array, or of a tensor that is given, at an index that is given; or outside of it."""
        tensors = [one for one in given if isinstance(one, Tensor)]
        if tensors and self.choices.integer(0, 2):
            out = choose(self.choices, tensors)
            while out.rank:
                out = out[self._index(given)]
            return out
        return self.array("numbers", [9])[self._index(given) + 2]

    def _index(self, given: tuple[Any, ...]) -> Any:
        indices = [one for one in given if isinstance(one, IndexExpr)]
        if not indices:
            return self.choices.integer(0, 2)
        return choose(self.choices, indices) + self.choices.integer(-1, 1)

    def _predicate(self, given: tuple[Any, ...]) -> Any:
        indices = [one for one in given if isinstance(one, IndexExpr)]
        if not indices:
            return bool(self.choices.integer(0, 3))
        return choose(self.choices, indices) * choose(self.choices, (1, 1, 2, -1)) <= self.choices.integer(-1, 4)

    def elements(self, _: str, extents: tuple[int, ...], /) -> npt.NDArray[Any]:
        return filled(extents, lambda: Fraction(self.choices.integer(-9, 9), self.choices.integer(1, 4)))


def sampled(rule: Rule, wanted: int = 10, tries: int = 300, seed: int = 0) -> Counterexample | int:
    """In how many samples the sides were equal, until so many are wanted; or one where they are not."""
    equal = 0
    choices = Seeded.by(f"{rule.name} {seed}")
    for _ in range(tries):
        if equal == wanted:
            break
        try:
            found = compared(rule, Sample(rule, choices), Exact())
        except NotExact:
            continue  # a root, say, that is not rational
        if isinstance(found, Counterexample):
            return found
        equal += bool(found)
    return equal
