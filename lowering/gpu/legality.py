"""What a GPU asks of the loops that are marked as its axes, beyond what `lowering.targets.legality` asks of all marks.

That the iterations of such a loop touch no cell that another one changes was proved there. Here is what a grid and its
blocks can be: each axis once, blocks outside of threads, so many threads, values that each thread can have by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, assert_never

from atl.core.index import Index, Read, atoms
from atl.core.marks import BLOCKS, THREADS, LoopMark
from atl.errors import IllegalMark
from lowering.gpu.folds import changes_of, folds_into
from lowering.gpu.kernels import (
    AXES,
    MOST_THREADS,
    THREADS_OF_A_BLOCK,
    Extents,
    Fold,
    axis_of,
)
from lowering.nest.accesses import after
from lowering.nest.loopnest import (
    Accumulate,
    Allocate,
    Assign,
    Block,
    Clear,
    Declare,
    For,
    Free,
    If,
    LoopNest,
    Statement,
    statements,
)
from lowering.nest.text_scope import TextScope, outermost, show_index
from lowering.targets.mark_checks import place_of, raise_all

TAKEN_AWAY: Final = 's.mark("{0}", None) takes the mark away'


def check_axes(nest: LoopNest) -> None:
    """Raises `IllegalMark` for the loops of a nest that cannot be the axes that they are marked as."""
    raise_all(_in_block(_Around(nest, outermost(nest)), nest.body))


@dataclass(frozen=True, slots=True)
class _Around:
    """What is around a block: the loops, and those of them that are axes."""

    nest: LoopNest
    scope: TextScope
    loops: tuple[For, ...] = ()
    axes: tuple[For, ...] = ()

    @property
    def in_grid(self) -> bool:
        return any(loop.mark in BLOCKS for loop in self.axes)


def _in_block(around: _Around, block: Block) -> Iterator[IllegalMark]:
    for statement in block:
        match statement:
            case For(variable, body=body):
                yield from _axis(around, block, statement)
                _, scope = around.scope.bind(variable, variable.name)
                is_axis = statement.mark in BLOCKS or statement.mark in THREADS
                axes = (*around.axes, statement) if is_axis else around.axes
                yield from _in_block(replace(around, scope=scope, loops=(*around.loops, statement), axes=axes), body)
            case If(body=body):
                yield from _in_block(around, body)
            case Assign() | Accumulate() | Clear() | Free():
                pass
            case Declare() | Allocate():
                around = replace(around, scope=after(around.scope, statement))
            case _:
                assert_never(statement)


def _axis(around: _Around, block: Block, loop: For) -> Iterator[IllegalMark]:
    """What is wrong with a loop that is an axis."""
    if loop.mark not in BLOCKS and loop.mark not in THREADS:
        return
    nest, name, mark = around.nest, loop.variable.name, loop.mark.value
    same = next((outer for outer in around.axes if outer.mark is loop.mark), None)
    if same is not None:
        outer = same.variable.name
        yield illegal(
            nest,
            loop,
            f"the loops {outer} and {name}, one within the other, are both marked {mark}",
            "each axis once: a loop within another one runs along an axis of its own",
            f's.mark("{name}", "{_another(around, loop)}")',
            f's.mark("{outer}", None) takes the mark away',
        )
    elif loop.mark in BLOCKS:
        yield from _block_loop(around, block, loop)
    else:
        yield from _thread_loop(around, loop)


def _another(around: _Around, loop: For) -> str:
    """An axis of the same kind that none of the loops around has."""
    kind = BLOCKS if loop.mark in BLOCKS else THREADS
    used = {outer.mark for outer in around.axes}
    return next((mark for mark in kind if mark not in used), LoopMark.UNROLL).value


def _block_loop(around: _Around, block: Block, loop: For) -> Iterator[IllegalMark]:
    nest, name, mark = around.nest, loop.variable.name, loop.mark.value
    inner = next((outer for outer in around.axes if outer.mark in THREADS), None)
    if inner is None and around.in_grid and _stands_beside(around, block):
        inner = around.loops[-1]
    if inner is not None:
        outer = inner.variable.name
        yield illegal(
            nest,
            loop,
            f"the loop {name} is marked {mark}, and in the loop {outer} it is not alone with loops of blocks",
            "loops of blocks outside of all else that a kernel does, directly one within the other",
            f's.mark("{name}", "thread.x"), or another axis of threads',
            TAKEN_AWAY.format(name),
            f's.interchange("{outer}") brings loops of blocks together, where nothing stands between them',
        )
    elif not is_of_host(loop.high - loop.low, around.loops):
        yield illegal(
            nest,
            loop,
            f"the loop {name} is marked {mark}, and its extent is not known before the kernel runs",
            f"an extent over sizes alone; it is {show_index(around.scope, loop.high - loop.low)}",
            TAKEN_AWAY.format(name),
        )


def _stands_beside(around: _Around, block: Block) -> bool:
    """Whether what is around a loop of blocks, within another one, is more than loops of blocks."""
    loop = around.loops[-1]
    return loop.mark not in BLOCKS or block is not loop.body or not all(map(_is_block_loop, block))


def _is_block_loop(statement: Statement) -> bool:
    return isinstance(statement, For) and statement.mark in BLOCKS


def is_of_host(extent: Index, loops: tuple[For, ...]) -> bool:
    """Whether the host can work the extent out: it reads no array, and is the same in all blocks."""
    in_grid = {loop.variable.uid for loop in loops if loop.mark in BLOCKS}
    return not in_grid & extent.free and not any(isinstance(atom, Read) for atom in atoms(extent))


def _thread_loop(around: _Around, loop: For) -> Iterator[IllegalMark]:
    nest, name, mark = around.nest, loop.variable.name, loop.mark.value
    axis = axis_of(loop.mark)
    extent = (loop.high - loop.low).constant
    if extent is None:
        yield illegal(
            nest,
            loop,
            f"the loop {name} is marked {mark}, and it is not known how many threads it takes",
            f"a constant extent; it is {show_index(around.scope, loop.high - loop.low)}",
            f's.tile("{name}", 32) puts the mark on the loop within a tile',
        )
    elif axis is not None and extent > MOST_THREADS[axis]:
        yield _too_many(
            nest, loop, f"takes {extent} threads", f"at most {MOST_THREADS[axis]} threads along {AXES[axis]}"
        )


def _too_many(nest: LoopNest, loop: For, what: str, required: str) -> IllegalMark:
    name = loop.variable.name
    summary = f"the loop {name} is marked {loop.mark.value}, and {what}"
    return illegal(nest, loop, summary, required, f's.tile("{name}", 32) puts the mark on the loop within a tile')


# -- the threads of a block -------------------------------------------------------------------------------------------


def threads_of(nest: LoopNest, block: Block) -> Extents:
    """How many threads the loops of a kernel need along each axis. Raises `IllegalMark` where they are too many."""
    loops = [s for s in statements(block) if isinstance(s, For) and s.mark in THREADS]
    found = [1, 1, 1]
    for loop in loops:
        axis = THREADS.index(loop.mark)
        found[axis] = max(found[axis], (loop.high - loop.low).constant or 1)
    x, y, z = found
    if x * y * z > THREADS_OF_A_BLOCK:
        largest = max(loops, key=lambda loop: (loop.high - loop.low).constant or 0)
        raise _too_many(
            nest,
            largest,
            f"with the other axes a block has {x} * {y} * {z} = {x * y * z} threads",
            f"at most {THREADS_OF_A_BLOCK} threads in a block",
        )
    return x, y, z


# -- scalars that threads fold into -----------------------------------------------------------------------------------


def folds_of(nest: LoopNest, loop: For) -> tuple[Fold, ...]:
    """The scalars from outside of a loop of threads into which its threads fold.

    Raises `IllegalMark` where threads do something else to such a scalar: all threads have it, each its own copy.
    """
    found = folds_into(loop)
    for change in changes_of(loop):
        if change not in found:
            raise illegal(
                nest,
                loop,
                f"the loop {loop.variable.name} is marked {loop.mark.value}, and its threads change "
                f"{change.into.name}, of which each thread has a copy",
                "one operation by which all threads of the loop fold into it: +, *, min or max",
                TAKEN_AWAY.format(loop.variable.name),
            )
    return found


# -- what is said -----------------------------------------------------------------------------------------------------


def illegal(nest: LoopNest, loop: For, summary: str, required: str, *suggestions: str) -> IllegalMark:
    return IllegalMark(
        summary,
        binder=loop.variable.name,
        mark=loop.mark.value,
        place=place_of(nest, loop.binder),
        required=required,
        suggestions=suggestions,
    )
