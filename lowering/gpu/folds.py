"""Scalars that threads fold into: each thread has a part, and all have the whole once the loop is done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from lowering.gpu.kernels import THREADS_OF_A_BLOCK, WARP, Extents, Fold, Folding, axis_of
from lowering.nest.loopnest import (
    Accumulate,
    Allocate,
    Assign,
    Clear,
    Declare,
    For,
    Free,
    If,
    Scalar,
    Statement,
    statements,
)


@dataclass(frozen=True, slots=True)
class Change:
    """A scalar that is changed otherwise than by folding into it."""

    into: Scalar


def folds_into(loop: For) -> tuple[Fold, ...]:
    """The scalars from outside of a loop of threads into which its threads fold, in one way each."""
    found: dict[Scalar, Fold] = {}
    for change in changes_of(loop):
        if isinstance(change, Fold):
            found.setdefault(change.into, change)
    return tuple(found.values())


def changes_of(loop: For) -> Iterator[Fold | Change]:
    """What the threads of a loop do to scalars from outside of it, statement by statement."""
    own = {s.variable for s in statements(loop.body) if isinstance(s, Declare)}
    for statement, axes in _with_axes(loop, ()):
        target = statement.target
        if isinstance(target, Scalar) and target not in own:
            op = _folded(statement)
            yield Change(target) if op is None else Fold(target, op, axes)


def _folded(statement: Assign | Accumulate) -> Folding | None:
    """The operation by which a statement folds into its target, if it is one that may be done in any order."""
    if not isinstance(statement, Accumulate):
        return None
    match statement.op:
        case "add" | "sub":
            return "add"
        case "mul" | "min" | "max":
            return statement.op
        case "div":
            return None
    assert_never(statement.op)


def _with_axes(statement: Statement, axes: tuple[int, ...]) -> Iterator[tuple[Assign | Accumulate, tuple[int, ...]]]:
    """The stores in a statement, with the axes of the loops of threads around each, in order."""
    match statement:
        case For(body=body, mark=mark):
            axis = axis_of(mark)
            inner = axes if axis is None else tuple(sorted((*axes, axis)))
            for part in body:
                yield from _with_axes(part, inner)
        case If(body=body):
            for part in body:
                yield from _with_axes(part, axes)
        case Assign() | Accumulate():
            yield statement, axes
        case Declare() | Allocate() | Clear() | Free():
            pass
        case _:
            assert_never(statement)


def waits_for_all(fold: Fold, extents: Extents) -> bool:
    """Whether the threads of a block wait for each other to fold; those of one warp need not."""
    return not within_a_warp(fold, extents)


def within_a_warp(fold: Fold, extents: Extents) -> bool:
    """Whether all threads that fold into one value are of one warp, and a power of two in number.

    Threads along x are numbered in a row, so that as many of them as divide a warp are of one.
    """
    return by_itself(fold, extents) or (_told_apart(fold, extents) == (0,) and WARP % extents[0] == 0)


def by_itself(fold: Fold, extents: Extents) -> bool:
    """Whether each thread has a whole value, as there is a single one along each axis of the fold."""
    return not _told_apart(fold, extents)


def _told_apart(fold: Fold, extents: Extents) -> tuple[int, ...]:
    """The axes of a fold along which there are several threads."""
    return tuple(axis for axis in fold.axes if extents[axis] > 1)


def all_come(loop: For, inner: For, extents: Extents) -> bool:
    """Whether all threads of a block come to a loop within another one: in loops of all threads of an axis only."""
    axis = axis_of(loop.mark)
    if axis is None or (loop.high - loop.low).constant != extents[axis]:
        return False
    return any(part is inner or (isinstance(part, For) and all_come(part, inner, extents)) for part in loop.body)


def of_all(fold: Fold, extents: Extents) -> bool:
    """Whether all threads of a block fold into one value."""
    return all(axis in fold.axes or extent == 1 for axis, extent in enumerate(extents))


def over_some_axes(fold: Fold, extents: Extents) -> bool:
    """Whether threads of some axes, and not of all, fold over more than a warp."""
    return not within_a_warp(fold, extents) and not of_all(fold, extents)


def values_shared(fold: Fold, extents: Extents) -> int:
    """How many values a block has in shared memory to fold: one of each thread, or one of each warp."""
    if within_a_warp(fold, extents):
        return 0
    return THREADS_OF_A_BLOCK if over_some_axes(fold, extents) else THREADS_OF_A_BLOCK // WARP
