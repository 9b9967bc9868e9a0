"""The set of the places of replicas along one axis: a run of so many steps, or the sums of several, listed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final, TypeAlias

from atl.core.index import index
from atl.core.predicate import at_most
from layouts.axe.axes import Iter
from layouts.errors import NoLayout, NotByTable
from layouts.foundation.known import Known
from layouts.foundation.tuples import Extent

MOST_REPLICAS: Final = 2**16
"""So many places of an element are listed."""


@dataclass(frozen=True, slots=True)
class Run:
    """Steps from 0 on, so many, of a stride that is positive."""

    extent: Extent
    stride: Extent


Copies: TypeAlias = Run | tuple[int, ...]
"""A set with 0 in it and nothing below, as a run wherever it is one; else its elements in order."""


def sign(stride: Extent, known: Known) -> int:
    """1 or -1. Raises `NoLayout` where it is not decided which way a stride goes."""
    if known.less(0, stride):
        return 1
    if known.less(stride, 0):
        return -1
    raise NoLayout(
        f"which way a stride of {stride} goes is not decided for all sizes",
        required=f"{stride} >= 1, or {stride} <= -1",
        suggestions=(f"state it: layout.given({stride} >= 1)", "layout.where(...) has numbers for sizes"),
    )


def copies_of(iters: Sequence[Iter], known: Known) -> Copies:
    """The sums of steps of iters along one axis, those that go down begun from below.

    Raises `NotByTable` where several runs stay apart, and sizes are symbolic or the sums too many.
    """
    runs = [Run(each.extent, each.stride * sign(each.stride, known)) for each in iters if each.extent != 1]
    if all(isinstance(part, int) for run in runs for part in (run.extent, run.stride)):
        runs.sort(key=lambda run: (run.stride, run.extent))  # so that the one to go on with stands behind
    merged = True
    while merged:
        merged = False
        for a in runs:
            for b in runs:
                if a is not b and (both := _joined(a, b, known)) is not None:
                    runs = [both, *(run for run in runs if run is not a and run is not b)]
                    merged = True
                    break
            if merged:
                break
    if len(runs) < 2:
        return runs[0] if runs else (0,)
    return listed_sums(runs)


def _joined(a: Run, b: Run, known: Known) -> Run | None:
    """The sums of both as a run, where the second goes on by steps that the first fills."""
    steps = known.quotient(b.stride, a.stride)
    if steps is None or not known.holds(at_most(index(steps), index(a.extent))):
        return None
    return Run(known.simple(a.extent + (b.extent - 1) * steps), a.stride)


def listed_sums(runs: Sequence[Run]) -> tuple[int, ...]:
    """All sums of runs whose parts are numbers, in order."""
    pairs = [(run.extent, run.stride) for run in runs]
    numbers = [(n, d) for n, d in pairs if isinstance(n, int) and isinstance(d, int)]
    said = " + ".join(f"{n}:{d}" for n, d in pairs)
    if len(numbers) < len(pairs):
        raise NotByTable(
            f"which replicas of {said} are at one place is not decided for all sizes",
            required="numbers for sizes: layout.where(...)",
        )
    if prod(n for n, _ in numbers) > MOST_REPLICAS:
        raise NotByTable(f"the replicas {said} are {prod(n for n, _ in numbers)}", required=f"up to {MOST_REPLICAS}")
    found = {0}
    for n, d in numbers:
        found = {step + k * d for step in found for k in range(n)}
    return tuple(sorted(found))


def listed(copies: Copies) -> tuple[Extent, ...]:
    """The elements of a set. Raises `NotByTable` where they are too many, or as many as sizes say."""
    if not isinstance(copies, Run):
        return copies
    if isinstance(copies.extent, int) and copies.extent <= MOST_REPLICAS:
        return tuple(k * copies.stride for k in range(copies.extent))
    return listed_sums([copies])


def same_copies(a: Copies, b: Copies, known: Known) -> bool:
    """Whether two sets are known to be the same."""
    if isinstance(a, Run) and isinstance(b, Run):
        return known.same(a.extent, b.extent) and known.same(a.stride, b.stride)
    return a == b


def number(part: Extent) -> int:
    """A part that is a number. Raises `NotByTable` where it is none."""
    if not isinstance(part, int):
        raise NotByTable(f"{part} is not decided for all sizes", required="numbers for sizes: layout.where(...)")
    return part
