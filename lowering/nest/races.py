"""Iterations that run at once: what two of them may do to one cell or variable, and which of them have met in one."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from atl.core.marks import BLOCKS, LoopMark
from atl.core.terms import BinaryOp

AccessKind: TypeAlias = Literal["read", "write"] | BinaryOp
"""What is done to a cell or variable: it is read, it gets a value of its own, or one is folded into it."""

REDUCTION_OPS: Final = frozenset(("add", "mul", "min", "max"))
"""The operations by which iterations that run at once may change one scalar variable, but for the blocks of a GPU."""


def canonical_fold(how: AccessKind) -> AccessKind:
    """Foldings that may be done in any order, by their one name: what is subtracted is added, too."""
    return "add" if how == "sub" else how


def is_race_free(mark: LoopMark, one: AccessKind, another: AccessKind) -> bool:
    """Whether two iterations of a loop with this mark may do so to one cell or variable: both read, or both fold.

    The blocks of a grid meet in nothing: none of them waits for another one.

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
    """Two iterations of a loop that meet where they may not, and what they do there: the earlier one first."""

    loop: str
    mark: LoopMark
    iterations: tuple[int, int]
    done: tuple[AccessKind, AccessKind]


@dataclass(slots=True)
class _Running:
    """A loop under way, and who did what to which cell: an iteration, or None for several."""

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
    """Looks on while a nest runs: which cells and variables the iterations of the loops under way touch."""

    def __init__(self) -> None:
        self._running: list[_Running] = []

    @property
    def depth(self) -> int:
        """How many loops are under way. What is made now is of their present iterations, and no other ones see it."""
        return len(self._running)

    def begin(self, name: str, mark: LoopMark) -> None:
        """A loop begins."""
        self._running.append(_Running(name, mark))

    def iterate(self, iteration: int) -> None:
        """The innermost loop goes on to an iteration."""
        self._running[-1].iteration = iteration

    def end(self) -> None:
        """The innermost loop is done."""
        self._running.pop()

    def touch(self, what: Hashable, made: int, how: AccessKind) -> DataRace | None:
        """Notes what is done to a cell or variable that was made at this depth; who meets in it, if any do."""
        return next((met for loop in self._running[made:] if (met := loop.touch(what, how)) is not None), None)
