"""The calls of a session by which a program becomes kernels of a GPU."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from rewrites import tactics
from rewrites.derivation import Derivation
from rewrites.places.choosing import Chosen, within

P = ParamSpec("P")
S = TypeVar("S", bound="OnGpu")


class OnGpu(ABC):
    """What carries out tactics, with the calls for a GPU."""

    @abstractmethod
    def do(self: S, tactic: Callable[Concatenate[Derivation, P], object], *arguments: P.args, **options: P.kwargs) -> S:
        """Carries out a tactic as one call."""

    def gpu_map(self: S, name: Chosen | Sequence[Chosen], by: Any, *, in_: Chosen | None = None) -> S:
        """Runs loops in tiles, a block for each, and the loops within as its threads; the last one along x."""
        return self.do(tactics.gpu_map, within(name, in_), by)

    def coalesce(self: S, what: Chosen) -> S:
        """Gives the threads along x to the loop along which what is read lies side by side in memory."""
        return self.do(tactics.coalesce, what)

    def stage_shared(self: S, what: Chosen, *, at: Chosen, name: str | None = None) -> S:
        """Copies what a block reads of an operand to a tile in shared memory, by all of its threads."""
        return self.do(tactics.stage_shared, what, at=at, name=name)

    def stage_registers(self: S, what: Chosen, *, at: Chosen, name: str | None = None) -> S:
        """Keeps a sum, or what is read, in the registers of the threads, within each iteration of a loop."""
        return self.do(tactics.stage_registers, what, at=at, name=name)

    def pad_rows(self: S, name: Chosen, by: Any = 1) -> S:
        """Stores a let with room for so many more elements after each row, which nobody reads."""
        return self.do(tactics.pad_rows, name, by)

    def store_transposed(self: S, name: Chosen) -> S:
        """Stores a let with its last two dimensions exchanged."""
        return self.do(tactics.store_transposed, name)
