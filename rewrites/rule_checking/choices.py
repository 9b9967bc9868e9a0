"""Where a generator of random things gets its decisions from: integers from ranges, the lowest the simplest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol, TypeVar

T = TypeVar("T")


class Choices(Protocol):
    """A source of decisions."""

    def integer(self, low: int, high: int) -> int:
        """An integer from `low` to `high`, both included."""


@dataclass(frozen=True, slots=True)
class Seeded:
    """Decisions by a seed, the same in every run."""

    random: Random

    @staticmethod
    def by(seed: str) -> Seeded:
        return Seeded(Random(seed))

    def integer(self, low: int, high: int) -> int:
        return self.random.randint(low, high)


def chance(choices: Choices, percent: int) -> bool:
    return choices.integer(0, 99) >= 100 - percent


def choose(choices: Choices, options: Sequence[T]) -> T:
    return options[choices.integer(0, len(options) - 1)]


def weighted(choices: Choices, options: Sequence[tuple[int, T]]) -> T:
    """One of the options, each as likely as its weight says."""
    at = choices.integer(0, sum(weight for weight, _ in options) - 1)
    for weight, option in options:
        if at < weight:
            return option
        at -= weight
    raise AssertionError("the weights are not negative")
