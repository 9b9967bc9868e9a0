"""Arrays with strides: kernels that read and fill slices, transposes and column-major arrays without a copy.

An element is at the sum of its indices, each times the stride of its dimension. The strides are parameters of the
function, in elements; they may be negative or zero. A stride of one element is a constant, so that loops along that
dimension are vectorised. Every access is proved to be within the shape of its array, and every element of a NumPy array
is in memory. So a kernel is memory-safe for all strides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from atl.core.index import ONE, Index, Read, Var, atoms, index
from atl.core.marks import LoopMark
from atl.core.program import facts_of
from atl.errors import ArrayError
from lowering.calls.strides import UnitStrides
from lowering.nest import loopnest as ln
from lowering.nest.index_expressions import Computed, index_expressions
from lowering.nest.tiles import cells_of
from lowering.passes.buffers import (
    with_external_rows,
    with_lets_in_output_rows,
    with_reused_buffers,
    with_row_in_output,
)
from lowering.passes.simplification import with_cache_lines

NOTHING_STRIDED: Final[Mapping[str | None, UnitStrides]] = MappingProxyType({})
NOT_STRIDED: Final = (
    with_row_in_output,
    with_reused_buffers,
    with_lets_in_output_rows,
    with_cache_lines,
    with_external_rows,
)
"""The passes that store other tensors in the output, or whole cache lines. They need contiguous arrays."""
_FIRST_ID: Final = 1 << 58


def with_strides(nest: ln.LoopNest, strided: Mapping[str | None, UnitStrides]) -> ln.LoopNest:
    """Return a loop nest, before the passes, in which some inputs, and the output for None, have strides.

    Loops marked `stream` are ordinary loops, since cache lines of strided rows are stored in part.
    """
    found = [(buffer.name, buffer) for buffer in _inputs(nest)]
    others: dict[ln.Buffer, ln.Buffer] = {}
    parameters: dict[str | None, tuple[Index, ...]] = {}
    variables: list[Var] = []
    names = [*(array.name for array in nest.inputs), None]
    for number, name in enumerate(name for name in names if name in strided):
        called = nest.output.name if name is None else name
        made = tuple(Var(_FIRST_ID + 64 * number + at, f"{called}_stride{at}") for at in range(len(strided[name])))
        parameters[name] = tuple(ONE if unit else index(v) for unit, v in zip(strided[name], made, strict=True))
        variables += [v for unit, v in zip(strided[name], made, strict=True) if not unit]
    for name, buffer in (*found, (None, nest.output)):
        if name in parameters:
            others[buffer] = replace(buffer, strides=parameters[name])
    body = ln.in_other_buffers(_without_streams(nest.body), others)
    return replace(nest, body=body, output=others.get(nest.output, nest.output), strides=tuple(variables))


def _inputs(nest: ln.LoopNest) -> list[ln.Buffer]:
    """Return the buffers of the inputs that are read as elements."""
    cells = (cell for cell, _ in cells_of(nest.body))
    return list(dict.fromkeys(cell.buffer for cell in cells if cell.buffer.role == "input"))


def _without_streams(block: ln.Block) -> ln.Block:
    return tuple(map(_without_stream, block))


def _without_stream(statement: ln.Statement) -> ln.Statement:
    if isinstance(statement, ln.For) and statement.mark is LoopMark.STREAM:
        statement = replace(statement, mark=LoopMark.NONE)
    return (
        ln.with_body(statement, _without_streams(statement.body))
        if isinstance(statement, ln.For | ln.If)
        else statement
    )


def check_strides(nest: ln.LoopNest) -> None:
    """Raise `ArrayError` if a statement of a lowered nest treats an array with strides as contiguous memory."""
    for statement in ln.statements(nest.body):
        if isinstance(statement, ln.Clear) and statement.buffer.storage.strides is not None:
            raise _contiguous(f"{statement.buffer.name} is cleared as a whole")
        if isinstance(statement, ln.For) and (statement.call is not None or statement.lines is not None):
            raise _contiguous(f"the loop {statement.variable.name} is replaced by an instruction")


def _contiguous(why: str) -> ArrayError:
    return ArrayError(
        f"this kernel needs contiguous arrays: {why}",
        required="C-contiguous arrays",
        suggestions=("pass np.ascontiguousarray(…), or omit copy=False and out=…",),
    )


def may_have_strides(nest: ln.LoopNest) -> frozenset[str]:
    """Return the inputs that may have strides: their elements are not indices, and have no declared properties."""
    expressions = [
        occurrence.expression if isinstance(occurrence, Computed) else occurrence.condition.expression
        for occurrence in index_expressions(nest)
    ]
    indices = {atom.array.name for e in expressions for atom in atoms(e) if isinstance(atom, Read)}
    return frozenset(
        array.name for array in nest.inputs if array.shape and array.name not in indices and not [*facts_of(array)]
    )
