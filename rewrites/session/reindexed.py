"""Calls of a session that change where elements are stored, or in which order loops run, by a layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from rewrites import tactics
from rewrites.places.choosing import Chosen
from rewrites.tactics.reindexing.formulas import Storable


class Doing(Protocol):
    """What carries out tactics: a session."""

    def do(self, tactic: Any, *arguments: Any, **options: Any) -> Any: ...


S = TypeVar("S", bound=Doing)


def store(self: S, what: Chosen, layout: Storable, *, name: str | None = None) -> S:
    """Stores a let, or a copy of an input, through a layout: … y[i, j] … → … y[to(i, j)] …; the way back is proved."""
    done: S = self.do(tactics.store, what, layout, name=name)
    return done


def reorder(self: S, name: Chosen | Sequence[Chosen], layout: Storable) -> S:
    """Runs nested loops in the order of a layout's places: Σi Σj e(i, j) → Σp Σq [hit(p, q)] · e(back(p, q))."""
    done: S = self.do(tactics.reorder, name, layout)
    return done
