"""Loops that gather: they read elements at places that they read, as those of sparse kernels do."""

from __future__ import annotations

import platform
from typing import Final

from atl.core.index import Index, Read, Var, atoms
from atl.core.marks import LoopMark
from lowering.compiler import Compiler
from lowering.nest.index_expressions import Computed, IndexUse, index_expressions
from lowering.nest.loopnest import For, LoopNest, statements

NARROW: Final = ("-mprefer-vector-width=128",)
"""Gathering instructions, and wide vectors that are put together element by element, are slower than short vectors:
sums of rows of 11 to 18 entries took 1.1 to 1.3 times as long with the width that gcc chooses for this processor."""
SERIAL: Final = ("-fno-tree-vectorize",)
"""What stands below entries, as the fibres of a tensor do below its rows, is short and now this long, now that: sums of
fibres of 1 to 30 entries took 1.05 to 1.2 times as long in vectors of any width."""

WITHIN_LINES: Final = ("-falign-loops=64", "-falign-jumps=64")
"""Of a loop in runs, what adds up the entries of one row is some 40 bytes of code, which stand in one line of the cache
or in two, as it happens: in two it took 1.2 to 1.4 times as long."""


def gathering_flags(nest: LoopNest, compiler: Compiler) -> tuple[str, ...]:
    """What gcc is told of a nest in which each innermost loop gathers; of any other, nothing."""
    x86 = platform.machine() in ("x86_64", "AMD64")
    if not (x86 and compiler.kind == "gcc" and gathers(nest)):
        return ()
    in_runs = any(each.mark is LoopMark.RUNS for each in _loops(nest))
    return (*(SERIAL if has_fibres(nest) else NARROW), *(WITHIN_LINES if in_runs else ()))


def gathers(nest: LoopNest) -> bool:
    """Whether there are innermost loops, and each reads at places that it reads."""
    innermost = {each.variable for each in _innermost(nest)}
    found = {
        variable
        for each in index_expressions(nest)
        if isinstance(each, Computed) and each.use is IndexUse.ADDRESS
        for variable in _read_at(each.expression)
    }
    return bool(innermost) and innermost <= found


def has_fibres(nest: LoopNest) -> bool:
    """Whether each innermost loop runs over the entries below an entry, which are themselves those below another."""
    ranges = {each.variable: _read_at(each.low) | _read_at(each.high) for each in _loops(nest)}
    return all(any(ranges.get(at) for at in ranges[each.variable]) for each in _innermost(nest))


def _loops(nest: LoopNest) -> list[For]:
    return [each for each in statements(nest.body) if isinstance(each, For)]


def _innermost(nest: LoopNest) -> list[For]:
    return [each for each in _loops(nest) if not any(isinstance(inner, For) for inner in statements(each.body))]


def _read_at(address: Index) -> set[Var]:
    """The variables that decide which elements an expression reads."""
    reads = [atom for atom in atoms(address) if isinstance(atom, Read)]
    return {atom for read in reads for at in read.indices for atom in atoms(at) if isinstance(atom, Var)}
