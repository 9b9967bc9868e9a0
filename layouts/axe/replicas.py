"""The set of locations of replicas along one axis: a single run, or a list of sums of several runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final, TypeAlias

from atl.core.index import index
from atl.core.predicate import at_most
from layouts.axe.axes import Iter
from layouts.errors import CannotTabulate, NoLayout
from layouts.foundation.facts import Known
from layouts.foundation.tuples import Extent

MOST_REPLICAS: Final = 2**16
"""Largest number of locations of an element that is listed."""


@dataclass(frozen=True, slots=True)
class Run:
    """`extent` multiples of a positive stride, from 0."""

    extent: Extent
    stride: Extent


Copies: TypeAlias = Run | tuple[int, ...]
"""A set of steps whose minimum is 0: a run if possible, else the sorted elements."""


def sign(stride: Extent, known: Known) -> int:
    """Return 1 or -1. Raises `NoLayout` if the sign of the stride is unknown."""
    if known.less(0, stride):
        return 1
    if known.less(stride, 0):
        return -1
    raise NoLayout(
        f"the sign of the stride {stride} is not known for all sizes",
        required=f"{stride} >= 1, or {stride} <= -1",
        suggestions=(f"state it: layout.given({stride} >= 1)", "give numbers for the sizes: layout.where(...)"),
    )


def copies_of(iters: Sequence[Iter], known: Known) -> Copies:
    """Return the sums of steps of iters along one axis, with negative strides reversed.

    Raises `CannotTabulate` if several runs cannot be merged and sizes are symbolic or there are too many sums.
    """
    runs = [Run(each.extent, each.stride * sign(each.stride, known)) for each in iters if each.extent != 1]
    if all(isinstance(part, int) for run in runs for part in (run.extent, run.stride)):
        runs.sort(key=lambda run: (run.stride, run.extent))  # a run comes before the runs that continue it
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
    """Return the sums of both as one run, if the steps of `b` continue `a`."""
    steps = known.quotient(b.stride, a.stride)
    if steps is None or not known.holds(at_most(index(steps), index(a.extent))):
        return None
    return Run(known.simple(a.extent + (b.extent - 1) * steps), a.stride)


def listed_sums(runs: Sequence[Run]) -> tuple[int, ...]:
    """Return all sums of runs with numeric extents and strides, sorted."""
    pairs = [(run.extent, run.stride) for run in runs]
    numbers = [(n, d) for n, d in pairs if isinstance(n, int) and isinstance(d, int)]
    text = " + ".join(f"{n}:{d}" for n, d in pairs)
    if len(numbers) < len(pairs):
        raise CannotTabulate(
            f"it is not known for all sizes which replicas of {text} coincide",
            required="numbers for sizes: layout.where(...)",
        )
    if prod(n for n, _ in numbers) > MOST_REPLICAS:
        raise CannotTabulate(f"{text} has {prod(n for n, _ in numbers)} replicas", required=f"up to {MOST_REPLICAS}")
    found = {0}
    for n, d in numbers:
        found = {step + k * d for step in found for k in range(n)}
    return tuple(sorted(found))


def listed(copies: Copies) -> tuple[Extent, ...]:
    """Return the elements of a set. Raises `CannotTabulate` if they are too many or their number is symbolic."""
    if not isinstance(copies, Run):
        return copies
    if isinstance(copies.extent, int) and copies.extent <= MOST_REPLICAS:
        return tuple(k * copies.stride for k in range(copies.extent))
    return listed_sums([copies])


def same_copies(a: Copies, b: Copies, known: Known) -> bool:
    """Return whether two sets are proved equal."""
    if isinstance(a, Run) and isinstance(b, Run):
        return known.same(a.extent, b.extent) and known.same(a.stride, b.stride)
    return a == b


def number(part: Extent) -> int:
    """Return a value that must be a number. Raises `CannotTabulate` if it is symbolic."""
    if not isinstance(part, int):
        raise CannotTabulate(f"{part} is not known for all sizes", required="numbers for sizes: layout.where(...)")
    return part
