"""Folds of threads into scalars: each thread has a partial value, and all have the whole value after the loop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from lowering.gpu.kernels import MAX_THREADS_PER_BLOCK, WARP, Extents, Fold, Folding, axis_of
from lowering.nest import loopnest as ln


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a scalar other than a fold."""

    into: ln.Scalar


def folds_in(loop: ln.For) -> tuple[Fold, ...]:
    """Return the folds of a loop's threads into scalars from outside of the loop, the first for each scalar."""
    found: dict[ln.Scalar, Fold] = {}
    for change in scalar_changes(loop):
        if isinstance(change, Fold):
            found.setdefault(change.into, change)
    return tuple(found.values())


def scalar_changes(loop: ln.For) -> Iterator[Fold | Change]:
    """Yield the changes that a loop's threads make to scalars from outside of the loop."""
    inner = {s.variable for s in ln.statements(loop.body) if isinstance(s, ln.Declare)}
    for statement, axes in _with_axes(loop, ()):
        target = statement.target
        if isinstance(target, ln.Scalar) and target not in inner:
            op = _fold_operation(statement)
            yield Change(target) if op is None else Fold(target, op, axes)


def _fold_operation(statement: ln.Assign | ln.Accumulate) -> Folding | None:
    """Return the operation of a fold that may be done in any order; None for other statements."""
    if not isinstance(statement, ln.Accumulate):
        return None
    match statement.op:
        case "add" | "sub":
            return "add"
        case "mul" | "min" | "max":
            return statement.op
        case "div":
            return None
    assert_never(statement.op)


def _with_axes(
    statement: ln.Statement, axes: tuple[int, ...]
) -> Iterator[tuple[ln.Assign | ln.Accumulate, tuple[int, ...]]]:
    """Yield the stores in a statement, with the sorted axes of the loops of threads around each."""
    match statement:
        case ln.For(body=body, mark=mark):
            axis = axis_of(mark)
            inner = axes if axis is None else tuple(sorted((*axes, axis)))
            for part in body:
                yield from _with_axes(part, inner)
        case ln.If(body=body):
            for part in body:
                yield from _with_axes(part, axes)
        case ln.Assign() | ln.Accumulate():
            yield statement, axes
        case ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
            pass
        case _:
            assert_never(statement)


def needs_barrier(fold: Fold, extents: Extents) -> bool:
    """Return whether the threads of a block wait for each other in a fold; threads of one warp need not."""
    return not within_a_warp(fold, extents)


def within_a_warp(fold: Fold, extents: Extents) -> bool:
    """Return whether all threads that fold into one value are in one warp, and their number is a power of two.

    Threads along x have consecutive numbers, so a group of them is in one warp if its size divides that of a warp.
    """
    return is_trivial(fold, extents) or (_parallel_axes(fold, extents) == (0,) and WARP % extents[0] == 0)


def is_trivial(fold: Fold, extents: Extents) -> bool:
    """Return whether there is only one thread along each axis of the fold."""
    return not _parallel_axes(fold, extents)


def _parallel_axes(fold: Fold, extents: Extents) -> tuple[int, ...]:
    """Return the axes of a fold along which there are several threads."""
    return tuple(axis for axis in fold.axes if extents[axis] > 1)


def all_threads_reach(loop: ln.For, inner: ln.For, extents: Extents) -> bool:
    """Return whether all threads of a block reach an inner loop: all loops between span all threads of an axis."""
    axis = axis_of(loop.mark)
    if axis is None or (loop.high - loop.low).constant != extents[axis]:
        return False
    return any(
        part is inner or (isinstance(part, ln.For) and all_threads_reach(part, inner, extents)) for part in loop.body
    )


def over_block(fold: Fold, extents: Extents) -> bool:
    """Return whether all threads of a block fold into one value."""
    return all(axis in fold.axes or extent == 1 for axis, extent in enumerate(extents))


def over_some_axes(fold: Fold, extents: Extents) -> bool:
    """Return whether a fold spans some axes but not all, and more than a warp."""
    return not within_a_warp(fold, extents) and not over_block(fold, extents)


def shared_values(fold: Fold, extents: Extents) -> int:
    """Return the number of values in shared memory that a fold needs: one for each thread, or one for each warp."""
    if within_a_warp(fold, extents):
        return 0
    return MAX_THREADS_PER_BLOCK if over_some_axes(fold, extents) else MAX_THREADS_PER_BLOCK // WARP
