"""Kernels whose result takes the place of an input: where every element of it has been read before."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from atl.checks.scope import initial_facts
from atl.core.index import ONE, ZERO, Read, Var, atoms
from atl.errors import ArrayError
from lowering.nest.accesses import accesses
from lowering.nest.computed import Computed, computed
from lowering.nest.loopnest import Buffer, Cell, For, LoopNest, unused_ids
from lowering.nest.overtaking import Overtaken, overtaken
from lowering.nest.substitution import in_other_buffers
from lowering.nest.text_scope import outermost
from lowering.nest.tiles import cells_of


def with_inputs_in_place(nest: LoopNest, names: Collection[str]) -> LoopNest:
    """The loop nest for calls in which these inputs and the output are one array.

    It is the same nest, in which they stand in the storage of the output, and are no arguments of their own. Raises
    `ArrayError` where it is not proved, for all sizes, that each element is read before the output is stored in its
    place.
    """
    for name in sorted(set(names) & _read_in_indices(nest)):
        raise _refused(name, "its elements are indices, which are read again and again", "another array for indices")
    cells = (cell for cell, _ in cells_of(nest.body))
    inputs = {cell.buffer for cell in cells if cell.buffer.role == "input" and cell.buffer.name in names}
    for buffer in sorted(inputs, key=lambda of: of.name):
        _check(nest, buffer)
    kept = replace(nest, inputs=tuple(array for array in nest.inputs if array.name not in names))
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
            instead="where a guard leaves elements out, atl.select(p, e, 0) computes them",
        )
    if (buffer.extents, buffer.dtype) != (output.extents, output.dtype):
        raise _refused(name, "the result has not the shape of it at all sizes", "an input of the result's own shape")
    # One iteration of a loop around all: what is done in it is what the nest does.
    once = Var(next(unused_ids(nest)), "once")
    whole = For(once, ZERO, ONE, nest.body)
    facts = initial_facts(nest.assumptions, nest.inputs)
    found = overtaken(list(accesses(whole, facts, outermost(nest), inputs=True)), buffer, output, whole.body)
    if found is not None:
        raise _overtaken(name, found)


def _read_in_indices(nest: LoopNest) -> set[str]:
    """The arrays whose elements decide what is computed where."""
    expressions = [
        occurrence.expression if isinstance(occurrence, Computed) else occurrence.condition.expression
        for occurrence in computed(nest)
    ]
    return {atom.array.name for e in expressions for atom in atoms(e) if isinstance(atom, Read)}


def _overtaken(name: str, found: Overtaken) -> ArrayError:
    read, store, model = found.read.text, found.store.text, found.model
    loop, instead = found.at_once, None
    if loop is not None:
        of = loop.variable.name
        when = f"in an iteration of {of}, marked {loop.mark.value}, that need not come first"
        instead = f's.mark("{of}", None) lets the iterations of {of} run one after the other'
    else:
        when = f"after `{store}` has stored there" if read != store else "in a later iteration"
    required = f"an output in which nothing is stored before the element of {name} in its place was read"
    if model is None or not isinstance(found.store.storage, Cell):
        said = f"it is not proved that none of its elements is read after it was overwritten: `{read}` reads it, {when}"
        return _refused(name, said, required, instead=instead)
    at = ", ".join(str(model.value(position)) for position, _ in found.store.storage.pairs)
    numbers = {of: value for of, value in model.numbers.items() if of.rstrip("'") != "once"}
    said = f"{name}[{at}] is read after it was overwritten: `{read}` reads it, {when}"
    return _refused(name, said, required, numbers, instead=instead)


def _refused(
    name: str, summary: str, required: str, numbers: dict[str, int] | None = None, *, instead: str | None = None
) -> ArrayError:
    return ArrayError(
        f"out is the input {name}, and {summary}",
        required=required,
        numbers=numbers,
        suggestions=(*((instead,) if instead else ()), f"pass a copy of {name}, or leave out=… away"),
    )
