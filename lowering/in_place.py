"""Kernels that run in place: the output overwrites an input whose elements were all read before."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from atl.checks.scope import initial_facts
from atl.core.index import ONE, ZERO, Read, Var, atoms
from atl.errors import ArrayError
from lowering.instructions.calls import without_calls
from lowering.nest.accesses import OverwrittenRead, accesses, find_overwritten_read
from lowering.nest.index_expressions import Computed, index_expressions
from lowering.nest.loopnest import Buffer, Cell, For, LoopNest, in_other_buffers, key, unused_ids
from lowering.nest.text import outermost
from lowering.nest.tiles import cells_of


def with_inputs_in_place(nest: LoopNest, names: Collection[str]) -> LoopNest:
    """Return the loop nest for calls in which these inputs and the output are one array.

    In that nest the inputs alias the output and are not parameters. Raises `ArrayError` unless it is proved, for all
    sizes, that each element is read before the output overwrites it.
    """
    for name in sorted(set(names) & _read_in_indices(nest)):
        raise _refused(name, "its elements are indices, which are read repeatedly", "another array for indices")
    cells = (cell for cell, _ in cells_of(nest.body))
    inputs = {cell.buffer for cell in cells if cell.buffer.role == "input" and cell.buffer.name in names}
    for buffer in sorted(inputs, key=lambda of: of.name):
        _check(nest, buffer)
    # A call may store to the output before it has read all of an input.
    nest = without_calls(nest, {key(nest.output), *map(key, inputs)})
    kept = replace(nest, inputs=tuple(array for array in nest.inputs if array.name not in names), external_rows=None)
    if not inputs:
        return kept
    # Several names of one array are one input.
    one = replace(min(inputs, key=lambda of: of.name), home=nest.output)
    return replace(kept, body=in_other_buffers(nest.body, dict.fromkeys(inputs, one)), in_place=(one,))


def _check(nest: LoopNest, buffer: Buffer) -> None:
    output, name = nest.output, buffer.name
    if not nest.complete:
        raise _refused(
            name,
            "padding in the result is zeroed before anything is read",
            "a result without padding",
            instead="use atl.select(p, e, 0) in place of a guard, which computes the elements that a guard skips",
        )
    if (buffer.extents, buffer.dtype) != (output.extents, output.dtype):
        raise _refused(name, "the shape of the result differs at some sizes", "an input of the result's shape")
    # A loop of one iteration around the whole body, so that `accesses` covers all of the nest.
    once = Var(next(unused_ids(nest)), "once")
    whole = For(once, ZERO, ONE, nest.body)
    facts = initial_facts(nest.assumptions, nest.inputs)
    found = find_overwritten_read(
        list(accesses(outermost(nest), facts, whole, inputs=True)), buffer, output, whole.body
    )
    if found is not None:
        raise _overtaken(name, found)


def _read_in_indices(nest: LoopNest) -> set[str]:
    """Return the arrays whose elements occur in indices or conditions."""
    expressions = [
        occurrence.expression if isinstance(occurrence, Computed) else occurrence.condition.expression
        for occurrence in index_expressions(nest)
    ]
    return {atom.array.name for e in expressions for atom in atoms(e) if isinstance(atom, Read)}


def _overtaken(name: str, found: OverwrittenRead) -> ArrayError:
    read, store, model = found.read.text, found.store.text, found.model
    loop, instead = found.at_once, None
    if loop is not None:
        of = loop.variable.name
        when = f"in an iteration of the {loop.mark.value} loop {of}, whose order is not defined"
        instead = f's.mark("{of}", None) makes the iterations of {of} run in order'
    else:
        when = f"after `{store}` has stored there" if read != store else "in a later iteration"
    required = f"an output of which each element is stored after the element of {name} at that place was read"
    if model is None or not isinstance(found.store.storage, Cell):
        summary = f"its elements are not proved to be read before they are overwritten: `{read}` reads it, {when}"
        return _refused(name, summary, required, instead=instead)
    at = ", ".join(str(model.value(position)) for position, _ in found.store.storage.pairs)
    numbers = {of: value for of, value in model.numbers.items() if of.rstrip("'") != "once"}
    summary = f"{name}[{at}] is read after it was overwritten: `{read}` reads it, {when}"
    return _refused(name, summary, required, numbers, instead=instead)


def _refused(
    name: str, summary: str, required: str, numbers: dict[str, int] | None = None, *, instead: str | None = None
) -> ArrayError:
    return ArrayError(
        f"out is the input {name}, and {summary}",
        required=required,
        numbers=numbers,
        suggestions=(*((instead,) if instead else ()), f"pass a copy of {name}, or omit out=…"),
    )


def inputs_equal_to(names: Sequence[str], out: np.ndarray[Any, Any], passed: Sequence[Any]) -> frozenset[str]:
    """Return the names of the inputs that are `out`. Raises `ArrayError` for a partial overlap."""
    same: list[str] = []
    for name, array in zip(names, passed, strict=True):
        if isinstance(array, np.ndarray) and np.may_share_memory(out, array):
            if (array.ctypes.data, array.shape, array.dtype) != (out.ctypes.data, out.shape, out.dtype):
                raise ArrayError(
                    f"out shares memory with the input {name}",
                    required="an output that overlaps no input, or that is exactly one of the inputs",
                    suggestions=(f"pass a copy of {name}, or omit out=…",),
                )
            same.append(name)
    return frozenset(same)
