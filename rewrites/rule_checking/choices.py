"""Sources of decisions for random generators: integers from ranges, of which the lowest is the simplest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol, TypeVar

T = TypeVar("T")


class Choices(Protocol):
    """A source of decisions."""

    def integer(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`, both included."""


@dataclass(frozen=True, slots=True)
class Seeded:
    """Decisions from a seeded generator, the same in every run."""

    random: Random

    @staticmethod
    def by(seed: str) -> Seeded:
        return Seeded(Random(seed))

    def integer(self, low: int, high: int) -> int:
        return self.random.randint(low, high)


def chance(choices: Choices, percent: int) -> bool:
    """Draw True with a probability in percent."""
    return choices.integer(0, 99) >= 100 - percent


def choose(choices: Choices, options: Sequence[T]) -> T:
    """Draw one of the options, all equally likely."""
    return options[choices.integer(0, len(options) - 1)]


def weighted(choices: Choices, options: Sequence[tuple[int, T]]) -> T:
    """Return one of the options, with a probability proportional to its weight."""
    at = choices.integer(0, sum(weight for weight, _ in options) - 1)
    for weight, option in options:
        if at < weight:
            return option
        at -= weight
    raise AssertionError("the weights are not negative")
