"""Compiler flags for loops that gather, reading elements at indices read from arrays, as sparse kernels do."""

from __future__ import annotations

import platform
from typing import Final

from atl.core.index import Index, Read, Var, atoms
from atl.core.marks import LoopMark
from lowering.compiler import Compiler
from lowering.nest.index_expressions import Computed, IndexUse, index_expressions
from lowering.nest.loopnest import For, LoopNest, statements

NARROW: Final = ("-mprefer-vector-width=128",)
"""Gather instructions, and wide vectors assembled element by element, are slower than short vectors. Sums of rows of 11
to 18 entries took 1.1 to 1.3 times as long with the vector width that gcc chooses for this processor."""
SERIAL: Final = ("-fno-tree-vectorize",)
"""Loops below entries, such as the fibres of a tensor, are short and vary in length. Sums of fibres of 1 to 30 entries
took 1.05 to 1.2 times as long with vectors of any width."""

WITHIN_LINES: Final = ("-falign-loops=64", "-falign-jumps=64")
"""The loop over one row in a segmented reduction is some 40 bytes of code. It took 1.2 to 1.4 times as long when it
happened to cross a cache line."""


def gathering_flags(nest: LoopNest, compiler: Compiler) -> tuple[str, ...]:
    """Return flags for gcc on x86 if each innermost loop gathers, else nothing."""
    x86 = platform.machine() in ("x86_64", "AMD64")
    if not (x86 and compiler.kind == "gcc" and gathers(nest)):
        return ()
    in_runs = any(each.mark is LoopMark.RUNS for each in _loops(nest))
    return (*(SERIAL if has_fibres(nest) else NARROW), *(WITHIN_LINES if in_runs else ()))


def gathers(nest: LoopNest) -> bool:
    """Return whether there are innermost loops, and each reads elements at indices that it reads."""
    innermost = {each.variable for each in _innermost(nest)}
    found = {
        variable
        for each in index_expressions(nest)
        if isinstance(each, Computed) and each.use is IndexUse.ADDRESS
        for variable in _read_at(each.expression)
    }
    return bool(innermost) and innermost <= found


def has_fibres(nest: LoopNest) -> bool:
    """Return whether each innermost loop runs over the entries below an entry of an enclosing sparse loop."""
    ranges = {each.variable: _read_at(each.low) | _read_at(each.high) for each in _loops(nest)}
    return all(any(ranges.get(at) for at in ranges[each.variable]) for each in _innermost(nest))


def _loops(nest: LoopNest) -> list[For]:
    return [each for each in statements(nest.body) if isinstance(each, For)]


def _innermost(nest: LoopNest) -> list[For]:
    return [each for each in _loops(nest) if not any(isinstance(inner, For) for inner in statements(each.body))]


def _read_at(address: Index) -> set[Var]:
    """Return the variables that determine which elements an expression reads."""
    reads = [atom for atom in atoms(address) if isinstance(atom, Read)]
    return {atom for read in reads for at in read.indices for atom in atoms(at) if isinstance(atom, Var)}
