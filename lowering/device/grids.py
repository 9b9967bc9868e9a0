"""Grid sizes of a call: checks the number of blocks of each launch before anything is launched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, assert_never

from atl.core.index import Array, Bound, Index, Leaf, Size, Var, value_of
from atl.core.marks import BLOCKS
from atl.core.predicate import holds
from atl.errors import GridTooLarge
from atl.text.printing import show_index
from lowering.gpu.kernels import AXES, HostBlock, HostBranch, HostLoop, Kernels, Launch
from lowering.nest.loopnest import Allocate, Clear, For, Free

MAX_BLOCKS: Final = (2**31 - 1, 65_535, 65_535)
"""Largest number of blocks of a grid along each axis."""

Elements = Callable[[Array, tuple[int, ...]], int]


def check_grids(kernels: Kernels, sizes: Mapping[str, int], elements: Elements) -> None:
    """Raise `GridTooLarge` for sizes with which a grid has more blocks along an axis than CUDA can launch."""
    for loop, blocks in _extents(kernels.body, sizes, {}, elements):
        axis = BLOCKS.index(loop.mark)
        if blocks > MAX_BLOCKS[axis]:
            name, most = loop.variable.name, MAX_BLOCKS[0]
            along_x = (f'mark it block.x, which allows {most}: s.mark("{name}", "block.x")',)
            raise GridTooLarge(
                f"the loop {name} of {kernels.nest.name}, marked {loop.mark.value}, has {blocks} iterations",
                required=f"at most {MAX_BLOCKS[axis]} blocks along {AXES[axis]}",
                numbers={**sizes, show_index(loop.high - loop.low): blocks},
                suggestions=(*(along_x if axis else ()), f"use larger tiles, so that {name} has fewer iterations"),
            )


def _extents(
    block: HostBlock, sizes: Mapping[str, int], variables: Mapping[Var | Bound, int], elements: Elements
) -> Iterator[tuple[For, int]]:
    """Yield the loops of each grid that is launched, with their numbers of blocks."""

    def leaf(at: Leaf) -> int:
        return sizes[at.name] if isinstance(at, Size) else variables[at]

    def value(e: Index) -> int:
        return value_of(e, leaf, elements)

    for step in block:
        match step:
            case Launch(grid):
                found = [(loop, value(loop.high - loop.low)) for loop in grid]
                if all(blocks > 0 for _, blocks in found):
                    yield from found
            case HostLoop(variable, low, high, body):
                for number in range(value(low), value(high)):
                    yield from _extents(body, sizes, {**variables, variable: number}, elements)
            case HostBranch(predicate, body):
                if holds(predicate, leaf, elements):
                    yield from _extents(body, sizes, variables, elements)
            case Allocate() | Clear() | Free():
                pass
            case _:
                assert_never(step)
