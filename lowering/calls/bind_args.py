"""Argument binding on the fast path, which serves nearly all calls but the first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from atl.core.program import Program
from lowering.calls.fast_path import BoundArguments, CacheSlots, InputSpec, OperandSpec, compile_fast_path
from lowering.calls.validation_cache import AnyArray, CachedValidation, view_of_bytes
from lowering.facts import ElementConstraints


class ArgumentBinder:
    """A binder of the arguments of a program's calls, with the validation cache of sparse operands."""

    def __init__(self, program: Program, inputs: Sequence[InputSpec], from_buffer: Callable[..., Any]) -> None:
        self._from_buffer = from_buffer
        at = {array.name: number for number, array in enumerate(program.inputs)}
        packed = {each.name: each for each in program.packed}
        operands, order = [], []
        for name in program.operands:
            each = packed.get(name)
            places = [at[array] for array in each.arrays] if each else [at[name]]
            order += places
            own = tuple(inputs[place] for place in places)
            ways = (tuple(places[:-1]), each.unpack, each.validation_cache) if each else ()
            operands.append(OperandSpec(name, own, *ways))
        self._operands = tuple(operands)
        # The arrays of a sparse operand may not be adjacent among the inputs; then there is no fast path.
        self._bind = compile_fast_path(operands, from_buffer) if order == [*range(len(inputs))] else _no_fast_path

    def __call__(self, arrays: tuple[object, ...], named: Mapping[str, object]) -> BoundArguments:
        """Bind arguments on the fast path, without a key if it does not apply. Raises the errors of unpacking."""
        if not named and len(arrays) == len(self._operands):
            return self._bind(*arrays) or (arrays, (), None, ())
        rest = [operand.name for operand in self._operands[len(arrays) :]]
        sizes = tuple((name, value) for name, value in named.items() if name not in rest)
        if len(arrays) + len(named) - len(sizes) != len(self._operands) or any(type(n) is not int for _, n in sizes):
            return arrays, (), None, ()
        passed, pointers, key, slots = self._bind(*arrays, *[named[name] for name in rest]) or (arrays, (), None, ())
        return passed, pointers, key if key is None else (*key, sizes), slots

    def note(self, limits: ElementConstraints, slots: CacheSlots, pointers: Sequence[Any]) -> None:
        """Cache that the indices of the operands of a call meet the constraints."""
        for operand, notes, note, value in slots:
            if note is not None and limits.agrees_on(note.limits, operand.indices):
                continue
            # Check the cached views again: another thread may have changed the arrays since they were checked.
            found = self._found(operand, value, limits)
            if found is None or [*map(len, found.pointers)] != [len(pointers[place]) for place in operand.indices]:
                continue
            given = [*pointers]
            for place, pointer in zip(operand.indices, found.pointers, strict=True):
                given[place] = pointer
            if not any(
                violates(description, *pick(given)) for violates, description, pick in limits.checks_of(operand.indices)
            ):
                notes[operand] = found

    def _found(self, operand: OperandSpec, value: object, limits: ElementConstraints) -> CachedValidation | None:
        """Return the cache entry of an operand, to be stored once its indices are known to meet the constraints."""
        assert operand.unpack is not None
        (*indices, values), shape = operand.unpack(value)
        own: list[AnyArray] = []
        pointers: list[Any] = []
        for each, wanted in zip(indices, operand.inputs, strict=False):
            held = view_of_bytes(each)
            if held is None or held.dtype is not wanted.dtype:
                return None
            own.append(held)
            pointers.append(self._from_buffer(wanted.kind, held))
        shapes = (shape, *(each.shape for each in own))
        return CachedValidation(limits, (*own, values), tuple(pointers), shapes)


def validated_indices(limits: ElementConstraints, slots: CacheSlots) -> tuple[tuple[int, ...], ...]:
    """Return the positions of the index arrays of each operand that is cached to meet the constraints."""
    return tuple(
        [
            operand.indices
            for operand, _, note, _ in slots
            if note is not None and (note.limits is limits or limits.agrees_on(note.limits, operand.indices))
        ]
    )


def _no_fast_path(*_: object) -> None:
    return None
