"""Requirements of a GPU on loops marked as axes, in addition to those of all targets in `lowering.targets.legality`.

Data races between iterations are excluded there. The checks here are about grids and blocks: each axis is used once,
blocks are outside of threads, the number of threads is limited, and values outside of loops are private to a thread.
"""

from __future__ import annotations

from collections.abc import Iterator

from atl.core.index import Index, Read, atoms
from atl.core.marks import BLOCKS, THREADS
from atl.errors import IllegalMark
from lowering.gpu import kernels as kn
from lowering.gpu.folds import folds_in, scalar_changes
from lowering.nest import loopnest as ln
from lowering.nest.text import show_index
from lowering.places import UNMARK, Enclosing, axes_of, illegal, repeated_axis
from lowering.targets.legality import raise_all


def check_axes(nest: ln.LoopNest) -> None:
    """Raise `IllegalMark` for loops that cannot be the axes that they are marked as."""
    raise_all(error for around, block, loop in axes_of(nest) for error in _axis(around, block, loop))


def _axis(around: Enclosing, block: ln.Block, loop: ln.For) -> Iterator[IllegalMark]:
    """Yield an error if a loop cannot be the axis that it is marked as."""
    same = repeated_axis(around, loop)
    if same is not None:
        yield same
    elif loop.mark in BLOCKS:
        yield from _check_block_loop(around, block, loop)
    elif loop.mark in THREADS:
        yield from _check_thread_loop(around, loop)


def _check_block_loop(around: Enclosing, block: ln.Block, loop: ln.For) -> Iterator[IllegalMark]:
    nest, name, mark = around.nest, loop.variable.name, loop.mark.value
    inner = next((outer for outer in around.axes if outer.mark in THREADS), None)
    if inner is None and any(outer.mark in BLOCKS for outer in around.axes) and _has_siblings(around, block):
        inner = around.loops[-1]
    if inner is not None:
        outer = inner.variable.name
        yield illegal(
            nest,
            loop,
            f"the loop {name} is marked {mark}, but in the loop {outer} there is more than loops of blocks",
            "perfectly nested loops of blocks, outside of all other statements of the kernel",
            f's.mark("{name}", "thread.x"), or another axis of threads',
            UNMARK.format(name),
            f's.interchange("{outer}") moves loops of blocks next to each other, if the loops are perfectly nested',
        )
    elif not is_known_to_host(loop.high - loop.low, around.loops):
        yield illegal(
            nest,
            loop,
            f"the loop {name} is marked {mark}, but its extent is not known before the kernel runs",
            f"an extent that depends on sizes only; it is {show_index(around.scope, loop.high - loop.low)}",
            UNMARK.format(name),
        )


def _has_siblings(around: Enclosing, block: ln.Block) -> bool:
    """Return whether the loop around a loop of blocks contains anything but loops of blocks."""
    loop = around.loops[-1]
    return loop.mark not in BLOCKS or block is not loop.body or not all(map(_is_block_loop, block))


def _is_block_loop(statement: ln.Statement) -> bool:
    return isinstance(statement, ln.For) and statement.mark in BLOCKS


def is_known_to_host(extent: Index, loops: tuple[ln.For, ...]) -> bool:
    """Return whether the host can compute an extent: it reads no array, and is the same in all blocks."""
    in_grid = {loop.variable.uid for loop in loops if loop.mark in BLOCKS}
    return not in_grid & extent.free and not any(isinstance(atom, Read) for atom in atoms(extent))


def _check_thread_loop(around: Enclosing, loop: ln.For) -> Iterator[IllegalMark]:
    nest, name, mark = around.nest, loop.variable.name, loop.mark.value
    axis = kn.axis_of(loop.mark)
    extent = (loop.high - loop.low).constant
    if extent is None:
        yield illegal(
            nest,
            loop,
            f"the loop {name} is marked {mark}, but its number of threads is not constant",
            f"a constant extent; it is {show_index(around.scope, loop.high - loop.low)}",
            f's.tile("{name}", 32) moves the mark to the loop within a tile',
        )
    elif axis is not None and extent > kn.MAX_THREADS[axis]:
        yield _too_many(
            nest, loop, f"needs {extent} threads", f"at most {kn.MAX_THREADS[axis]} threads along {kn.AXES[axis]}"
        )


def _too_many(nest: ln.LoopNest, loop: ln.For, what: str, required: str) -> IllegalMark:
    name = loop.variable.name
    summary = f"the loop {name} is marked {loop.mark.value}, but {what}"
    return illegal(nest, loop, summary, required, f's.tile("{name}", 32) moves the mark to the loop within a tile')


# -- the threads of a block -------------------------------------------------------------------------------------------


def threads_of(nest: ln.LoopNest, block: ln.Block) -> kn.Extents:
    """Return the number of threads that a kernel needs along each axis. Raises `IllegalMark` if there are too many."""
    loops = [s for s in ln.statements(block) if isinstance(s, ln.For) and s.mark in THREADS]
    found = [1, 1, 1]
    for loop in loops:
        axis = THREADS.index(loop.mark)
        found[axis] = max(found[axis], (loop.high - loop.low).constant or 1)
    x, y, z = found
    if x * y * z > kn.MAX_THREADS_PER_BLOCK:
        largest = max(loops, key=lambda loop: (loop.high - loop.low).constant or 0)
        raise _too_many(
            nest,
            largest,
            f"with the other axes a block has {x} * {y} * {z} = {x * y * z} threads",
            f"at most {kn.MAX_THREADS_PER_BLOCK} threads in a block",
        )
    return x, y, z


# -- scalars that threads fold into -----------------------------------------------------------------------------------


def folds_of(nest: ln.LoopNest, loop: ln.For) -> tuple[kn.Fold, ...]:
    """Return the folds of a loop's threads into scalars from outside of the loop.

    Raises `IllegalMark` if threads change such a scalar in any other way, since each thread has a copy of it.
    """
    found = folds_in(loop)
    for change in scalar_changes(loop):
        if change not in found:
            raise illegal(
                nest,
                loop,
                f"the loop {loop.variable.name} is marked {loop.mark.value}, but its threads change "
                f"{change.into.name}, of which each thread has a copy",
                "one operation by which all threads of the loop fold into it: +, *, min or max",
                UNMARK.format(loop.variable.name),
            )
    return found
