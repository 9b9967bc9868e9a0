"""Vectorised loops in CUDA: loads and stores of 8 or 16 bytes, with the lanes computed one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from atl.core.predicate import TRUE, Predicate, conjunction
from lowering.c.index import predicate_text
from lowering.c.text import AND, OR, indented
from lowering.cuda.scalars import ThreadScope, accumulated, print_cell, scalar
from lowering.gpu.kernels import Wide, WideLoad
from lowering.gpu.passes import lanes_of
from lowering.nest.loopnest import Accumulate, Assign, Cell, For, If, Scalar, at_iteration, cell_at

VECTOR_TYPES: Final = {
    ("float32", 4): "float4",
    ("float32", 2): "float2",
    ("float64", 2): "double2",
    ("int32", 4): "int4",
    ("int32", 2): "int2",
    ("int64", 2): "longlong2",
}
"""CUDA types that are loaded and stored by one instruction, aligned to their size."""

LANES: Final = "xyzw"

StoreTest = Callable[[Cell | Scalar], str]
"""A function that returns the test under which a thread makes a store; empty if all threads do."""


def wide_loop(loop: For, wide: Wide, here: ThreadScope, store_test: StoreTest) -> list[str]:
    """Print a vectorised loop: its vector loads, then each lane, or one store of all lanes.

    The threads that make the store also make the loads.
    """
    here = replace(here, scope=here.scope.under(loop.range))
    lines: list[str] = []
    vectors: list[tuple[WideLoad, str]] = []
    scope = here.scope
    for load in wide.loads:
        kind = VECTOR_TYPES[load.cell.buffer.dtype, wide.lanes]
        first = print_cell(here, cell_at(load.cell, loop.variable, loop.low)).text
        value = f"*(const {kind} *)&{first}"
        if load.under:
            condition = predicate_text(here.scope, conjunction(load.under)).at(OR)
            value = f"{condition} ? {value} : {kind}()"
        name, scope = scope.bind(("wide", load.cell), f"{load.cell.buffer.name}{wide.lanes}")
        lines.append(f"const {kind} {name} = {value};")
        vectors.append((load, name))
    here = replace(here, scope=scope)
    values: list[str] = []
    target: Cell | Scalar | None = None
    predicate: Predicate = TRUE
    for lane, at in zip(LANES, lanes_of(loop), strict=False):
        known = {
            cell_at(load.cell, loop.variable, at): (f"{name}.{lane}", conjunction(load.under)) for load, name in vectors
        }
        predicate, statement = _innermost(at_iteration(loop, at))
        inside = replace(here, lanes=known, scope=here.scope.under(predicate))
        if wide.stores:
            target = target or statement.target
            values.append(scalar(inside, statement.value).text)
        elif isinstance(statement, Accumulate):
            lines.append(accumulated(inside, statement.target, statement.op, statement.value))
        else:
            lines.append(f"{print_cell(inside, statement.target).text} = {scalar(inside, statement.value).text};")
    if isinstance(target, Cell):
        kind, made = VECTOR_TYPES[target.buffer.dtype, wide.lanes], ", ".join(values)
        first = print_cell(replace(here, scope=here.scope.under(predicate)), target).text
        whole = (name for _, name in vectors if values == [f"{name}.{lane}" for lane in LANES[: wide.lanes]])
        lines.append(f"*({kind} *)&{first} = {next(whole, f'make_{kind}({made})')};")
    tests = [
        store_test(_innermost(loop.body)[1].target),
        "" if predicate == TRUE else predicate_text(here.scope, predicate).at(AND),
    ]
    condition = " && ".join(filter(None, tests))
    return [f"if ({condition}) {{" if condition else "{", *indented(lines), "}"]


def _innermost(block: tuple[object, ...]) -> tuple[Predicate, Assign | Accumulate]:
    """Return an iteration's store, and its condition."""
    (statement,) = block
    under: list[Predicate] = []
    while isinstance(statement, If):
        under.append(statement.predicate)
        (statement,) = statement.body
    assert isinstance(statement, Assign | Accumulate)
    return conjunction(under), statement
