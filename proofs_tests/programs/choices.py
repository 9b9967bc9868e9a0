"""Sources of random decisions for a generator: a seed, Hypothesis, or a record of earlier decisions.

Each decision is an integer from a range, and the lowest is the simplest. A recorded case is therefore shrunk by
shortening its record and lowering its numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from rewrites.rule_checking.choices import Choices, Seeded, chance, choose, weighted

__all__ = ["Choices", "Drawn", "Recorded", "Replayed", "Seeded", "chance", "choose", "shrunk", "weighted"]


@dataclass(frozen=True, slots=True)
class Drawn:
    """Decisions drawn and shrunk by Hypothesis."""

    draw: Callable[[st.SearchStrategy[int]], int]

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))


@dataclass(slots=True)
class Recorded:
    """Decisions of another source, recorded as offsets from the lowest."""

    source: Choices
    record: list[int] = field(default_factory=list)

    def integer(self, low: int, high: int) -> int:
        taken = self.source.integer(low, high)
        self.record.append(taken - low)
        return taken


@dataclass(slots=True)
class Replayed:
    """The decisions of a record, clipped to the requested range; after its end, the lowest decisions."""

    record: Sequence[int]
    _at: int = 0

    def integer(self, low: int, high: int) -> int:
        above = self.record[self._at] if self._at < len(self.record) else 0
        self._at += 1
        return min(low + above, high)


def shrunk(record: Sequence[int], failing: Callable[[list[list[int]]], int | None], attempts: int) -> list[int]:
    """Return a simpler record that also fails. `failing` returns the index of the first failing record, if any.

    Remove spans, then lower numbers, until nothing helps or `attempts` records have been tried.
    """
    best = list(record)
    left = attempts
    progress = True
    while progress and left > 0:
        progress = False
        for batch in _batches(best):
            left -= len(batch)
            found = failing(batch)
            if found is not None and _simplicity(batch[found]) < _simplicity(best):
                best = batch[found]
                progress = True
                break
            if left <= 0:
                break
    return best


def _simplicity(record: Sequence[int]) -> tuple[int, int]:
    return len(record), sum(record)


def _batches(record: list[int], size: int = 24) -> Iterator[list[list[int]]]:
    """Yield simpler records, the largest changes first."""
    batch: list[list[int]] = []
    for candidate in _simpler(record):
        batch.append(candidate)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _simpler(record: list[int]) -> Iterator[list[int]]:
    span = len(record) // 2
    while span >= 1:
        for start in range(0, len(record), span):
            yield record[:start] + record[start + span :]
        span //= 2
    for at, number in enumerate(record):
        if number:
            yield [*record[:at], 0, *record[at + 1 :]]
    for at, number in enumerate(record):
        for lower in dict.fromkeys((number // 2, number - 1)):
            if 0 < lower < number:
                yield [*record[:at], lower, *record[at + 1 :]]
