"""Loops that run in many places: ranks of a mesh, blocks of a grid, threads of a block (`atl.core.marks.LEVELS`).

The one traversal of such loops, the check that nested loops have different axes, and the form of a read of another
place. Further requirements of a level are checked with its target: `lowering.gpu.legality`, `lowering.ranks`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, assert_never

from atl.core.index import Index
from atl.core.marks import LoopMark, level_of
from atl.errors import IllegalMark
from lowering.nest import loopnest as ln
from lowering.nest.accesses import after
from lowering.nest.text import TextScope, outermost
from lowering.targets.legality import place_of

CopyForm: TypeAlias = Literal["broadcast", "shift", "copy"]
"""The form of a copy between places: from one place to all, at a constant distance, or another."""

UNMARK: Final = 's.mark("{0}", None) removes the mark'


@dataclass(frozen=True, slots=True)
class Enclosing:
    """The loops around a block, and those of them that are axes."""

    nest: ln.LoopNest
    scope: TextScope
    loops: tuple[ln.For, ...] = ()
    axes: tuple[ln.For, ...] = ()


def axes_of(nest: ln.LoopNest) -> Iterator[tuple[Enclosing, ln.Block, ln.For]]:
    """Yield each loop that is an axis with the block that contains it and what is around, outer loops first."""
    return _in_block(Enclosing(nest, outermost(nest)), nest.body)


def _in_block(around: Enclosing, block: ln.Block) -> Iterator[tuple[Enclosing, ln.Block, ln.For]]:
    for statement in block:
        match statement:
            case ln.For(variable, body=body):
                is_axis = level_of(statement.mark) is not None
                if is_axis:
                    yield around, block, statement
                _, scope = around.scope.bind(variable, variable.name)
                axes = (*around.axes, statement) if is_axis else around.axes
                yield from _in_block(replace(around, scope=scope, loops=(*around.loops, statement), axes=axes), body)
            case ln.If(body=body):
                yield from _in_block(around, body)
            case ln.Assign() | ln.Accumulate() | ln.Clear() | ln.Free() | ln.Gather():
                pass
            case ln.Declare() | ln.Allocate():
                around = replace(around, scope=after(around.scope, statement))
            case _:
                assert_never(statement)


def repeated_axis(around: Enclosing, loop: ln.For) -> IllegalMark | None:
    """Return the error of a loop inside another loop along the same axis, if there is one."""
    same = next((outer for outer in around.axes if outer.mark is loop.mark), None)
    level = level_of(loop.mark)
    if same is None or level is None:
        return None
    used = {outer.mark for outer in around.axes}
    unused = next((mark for mark in level.axes if mark not in used), LoopMark.UNROLL)
    outer, name, mark = same.variable.name, loop.variable.name, loop.mark.value
    return illegal(
        around.nest,
        loop,
        f"the nested loops {outer} and {name} are both marked {mark}",
        "a different axis for each of several nested loops",
        f's.mark("{name}", "{unused.value}")',
        UNMARK.format(outer),
    )


def owner_form(moving: Collection[tuple[Index, Index]], varies: Callable[[Index], bool]) -> CopyForm:
    """Return the form of a read of another place.

    `moving` has the owner's and the own coordinate along each axis where they differ. `varies` returns whether
    an expression depends on the place that reads.
    """
    if not any(varies(owner) for owner, _ in moving):
        return "broadcast"
    return "shift" if all((owner - own).constant is not None for owner, own in moving) else "copy"


def illegal(nest: ln.LoopNest, loop: ln.For, summary: str, required: str, *suggestions: str) -> IllegalMark:
    """Return the error for an illegal mark of a loop."""
    return IllegalMark(
        summary,
        binder=loop.variable.name,
        mark=loop.mark.value,
        place=place_of(nest, loop.binder),
        required=required,
        suggestions=suggestions,
    )
