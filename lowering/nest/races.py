"""Data races between concurrent iterations: which accesses may share a cell, and detection during a run."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from atl.core.marks import BLOCKS, LoopMark
from atl.core.terms import BinaryOp

AccessKind: TypeAlias = Literal["read", "write"] | BinaryOp
"""Kind of an access to a cell or variable: a read, an assignment, or an operation that folds a value into it."""

REDUCTION_OPS: Final = frozenset(("add", "mul", "min", "max"))
"""Operations by which concurrent iterations may update one scalar variable. Blocks of a GPU may not."""


def canonical_fold(how: AccessKind) -> AccessKind:
    """Return the common name of operations that commute with each other: "add" for "sub"."""
    return "add" if how == "sub" else how


def is_race_free(mark: LoopMark, one: AccessKind, another: AccessKind) -> bool:
    """Return whether two iterations of a loop with this mark may access one cell or variable in these ways.

    They may if both read it, or both fold into it. Blocks of a grid may only read, since they do not synchronise.

    >>> is_race_free(LoopMark.PARALLEL, "add", "sub"), is_race_free(LoopMark.PARALLEL, "add", "read")
    (True, False)
    """
    if one == another == "read":
        return True
    return (
        mark not in BLOCKS and canonical_fold(one) == canonical_fold(another) and canonical_fold(one) in REDUCTION_OPS
    )


@dataclass(frozen=True, slots=True)
class DataRace:
    """A data race: two iterations of a loop and their conflicting accesses, the earlier one first."""

    loop: str
    mark: LoopMark
    iterations: tuple[int, int]
    accesses: tuple[AccessKind, AccessKind]


@dataclass(slots=True)
class _Running:
    """A running loop, with the iteration that accessed each cell, by kind. None denotes several iterations."""

    name: str
    mark: LoopMark
    iteration: int = 0
    seen: dict[Hashable, dict[AccessKind, int | None]] = field(default_factory=dict)

    def touch(self, what: Hashable, how: AccessKind) -> DataRace | None:
        seen = self.seen.setdefault(what, {})
        for done, by in seen.items():
            if by != self.iteration and not is_race_free(self.mark, done, how):
                earlier = self.iteration if by is None else by
                return DataRace(self.name, self.mark, (earlier, self.iteration), (done, how))
        seen[how] = self.iteration if seen.get(how, self.iteration) == self.iteration else None
        return None


class RaceDetector:
    """A record of the accesses of concurrent iterations while a nest runs, which detects data races."""

    def __init__(self) -> None:
        self._running: list[_Running] = []

    @property
    def depth(self) -> int:
        """Number of running concurrent loops. Storage allocated now is private to their current iterations."""
        return len(self._running)

    def begin(self, name: str, mark: LoopMark) -> None:
        """Enter a loop."""
        self._running.append(_Running(name, mark))

    def iterate(self, iteration: int) -> None:
        """Start an iteration of the innermost loop."""
        self._running[-1].iteration = iteration

    def end(self) -> None:
        """Leave the innermost loop."""
        self._running.pop()

    def touch(self, what: Hashable, allocated_depth: int, how: AccessKind) -> DataRace | None:
        """Record an access to a cell or variable, and return the data race, if any."""
        return next(
            (met for loop in self._running[allocated_depth:] if (met := loop.touch(what, how)) is not None), None
        )
