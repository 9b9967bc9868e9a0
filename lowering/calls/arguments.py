"""Arguments of a call: fast-path binding with cached validation, and results with an operand's pattern."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from atl.core.program import FindCache, Program, Rebuild, Unpacked
from lowering.element_checks import ElementConstraints

# -- the validation cache ---------------------------------------------------------------------------------------------


AnyArray: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class CachedValidation:
    """A cached validation of a sparse operand: its indices meet these constraints.

    `arrays` are private views of the index arrays, over the same immutable bytes, and the values as passed, which are
    not validated. So changes to the operand's arrays affect neither the validity of `pointers` nor the checked content.
    `shapes` are those of the operand and of its index arrays.
    """

    limits: ElementConstraints
    arrays: tuple[AnyArray, ...]
    pointers: tuple[Any, ...]
    shapes: tuple[tuple[int, ...], ...]


def view_of_bytes(array: AnyArray) -> AnyArray | None:
    """Return a new view of the bytes object that a contiguous array is a view of, or None if it is not."""
    held: Any = array
    while isinstance(held, np.ndarray):
        held = held.base
    if not isinstance(held, bytes) or not array.flags.c_contiguous:
        return None
    if not array.size:
        return np.zeros(array.shape, array.dtype)
    offset = array.ctypes.data - np.frombuffer(held, np.uint8).ctypes.data
    return np.frombuffer(held, array.dtype, array.size, offset).reshape(array.shape)


# -- the fast path ----------------------------------------------------------------------------------------------------


WALKED: Final = 0x101
"""NumPy's flags of an array that is C-contiguous and aligned."""
FLOAT32_LIMIT: Final = 3.4e38


@dataclass(frozen=True, slots=True)
class InputSpec:
    """An input as C takes it: its element type, its rank, and the cffi type of a pointer to an array."""

    dtype: np.dtype[Any]
    rank: int
    kind: Any


@dataclass(frozen=True, slots=True, eq=False)
class OperandSpec:
    """An operand of a kernel: its inputs, and the positions of its index arrays among all inputs of a call.

    A sparse operand is unpacked by `unpack`. This object is the key of the operand in a tensor's validation cache.
    """

    name: str
    inputs: tuple[InputSpec, ...]
    indices: tuple[int, ...] = ()
    unpack: Callable[[object], Unpacked] | None = None
    notes: FindCache | None = None


CacheSlots: TypeAlias = Sequence[tuple[OperandSpec, dict[object, Any], CachedValidation | None, object]]
"""Operands of a call with a validation cache: the operand, its cache, the cached entry, and the passed value."""
BoundArguments: TypeAlias = tuple[Sequence[Any], Sequence[Any], tuple[object, ...] | None, CacheSlots]
"""The inputs in order, the arguments of the C function, a key that determines their validity, and cache slots.

The key is None if the fast path does not apply.
"""


def compile_fast_path(
    operands: Sequence[OperandSpec], from_buffer: Callable[..., Any]
) -> Callable[..., BoundArguments | None]:
    """Generate a function that binds operands passed by position. It returns None if the fast path does not apply.

    The fast path accepts arrays of class `numpy.ndarray` that have the right element type and are contiguous and
    aligned. Their shapes are part of the key, so they determine the rank. For a float scalar, it accepts a float in the
    range of the type. Cached indices of sparse operands are used without a check. The function is generated since loops
    over operands would take twice the time.
    """
    text = _Source({"from_buffer": from_buffer, "ndarray": np.ndarray})
    for number, operand in enumerate(operands):
        if operand.unpack is None:
            text.add_array(operand.inputs[0])
        else:
            text.add_packed(f"_of_{number}", operand)
    known = text.known
    exec(text.whole(), known)
    bind: Callable[..., BoundArguments | None] = known["bind"]
    return bind


class _Source:
    """The partial source of a binding function, and the values of its global names."""

    def __init__(self, known: dict[str, Any]) -> None:
        self.known = known
        self._parameters: list[str] = []
        self._lines: list[str] = []
        self._checks: list[str] = []
        self._passed: list[str] = []
        self._pointers: list[str] = []
        self._key: list[str] = []
        self._slots: list[str] = []

    def add_array(self, wanted: InputSpec) -> None:
        """Add the code for one array or scalar."""
        (name,) = names = self._named((wanted,))
        self._parameters.append(name)
        self._check(names, (wanted,))

    def add_packed(self, of: str, operand: OperandSpec) -> None:
        """Add the code for a sparse operand: unpack it, or use its cached indices, and check its values."""
        *indices, values = names = self._named(operand.inputs)
        self._parameters.append(f"packed{of}")
        self.known |= {f"unpack{of}": operand.unpack, f"find_notes{of}": operand.notes, f"operand{of}": operand}
        notes = "None" if operand.notes is None else f"find_notes{of}(packed{of})"
        self._lines += [
            f"notes{of} = {notes}",
            f"note{of} = None if notes{of} is None else notes{of}.get(operand{of})",
            f"if note{of} is None:",
            f"    ({_all(names)}), shape = unpack{of}(packed{of})",
            f"    if not ({self._fit(indices, operand.inputs)}):",
            "        return None",
            f"    pointers{of} = ({_all(map(_pointer, indices, operand.inputs))})",
            f"    shapes{of} = (shape, {_all(_shapes(indices, operand.inputs))})",
            "else:",
            f"    {_all(names)} = note{of}.arrays",
            f"    pointers{of}, shapes{of} = note{of}.pointers, note{of}.shapes",
        ]
        self._pointers.append(f"*pointers{of}")
        self._key.append(f"shapes{of}")
        self._slots.append(f"(() if notes{of} is None else ((operand{of}, notes{of}, note{of}, packed{of}),))")
        self._check([values], operand.inputs[-1:])

    def whole(self) -> str:
        """Return the source."""
        lines = [
            *self._lines,
            f"if {' and '.join(self._checks) or 'True'}:",
            f"    key = ({_all(self._key)})",
            f"    return ({_all(self._passed)}), ({_all(self._pointers)}), key, {' + '.join(self._slots) or '()'}",
            "return None",
        ]
        return "\n    ".join((f"def bind({', '.join(self._parameters)}):", *lines))

    def _named(self, inputs: Sequence[InputSpec]) -> list[str]:
        names = [f"a{len(self._passed) + number}" for number in range(len(inputs))]
        self._passed += names
        for name, each in zip(names, inputs, strict=True):
            self.known |= {f"{name}_dtype": each.dtype, f"{name}_kind": each.kind}
        return names

    def _check(self, names: Sequence[str], inputs: Sequence[InputSpec]) -> None:
        self._checks.append(self._fit(names, inputs))
        self._pointers += map(_pointer, names, inputs)
        self._key += _shapes(names, inputs)

    def _fit(self, names: Sequence[str], inputs: Sequence[InputSpec]) -> str:
        return " and ".join(map(_fits, names, inputs)) or "True"


def _all(parts: Iterable[str]) -> str:
    return "".join(f"{each}, " for each in parts)


def _fits(name: str, wanted: InputSpec) -> str:
    if wanted.rank:
        return f"type({name}) is ndarray and {name}.dtype is {name}_dtype and {name}.flags.num & {WALKED} == {WALKED}"
    if wanted.dtype.kind != "f":
        return "False"
    within = "" if wanted.dtype.itemsize == 8 else f" and -{FLOAT32_LIMIT} < {name} < {FLOAT32_LIMIT}"
    return f"type({name}) is float{within}"


def _pointer(name: str, wanted: InputSpec) -> str:
    return f"from_buffer({name}_kind, {name})" if wanted.rank else name


def _shapes(names: Sequence[str], inputs: Sequence[InputSpec]) -> list[str]:
    return [f"{name}.shape" for name, wanted in zip(names, inputs, strict=False) if wanted.rank]


# -- argument binding -------------------------------------------------------------------------------------------------


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
        # The arrays of a sparse operand may not be adjacent among the inputs; then the fast path is not used.
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


# -- results with the pattern of an operand ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PatternResult:
    """The operand whose pattern a result has: its position in a call, its arrays, and the function that assembles."""

    name: str
    place: int
    arrays: tuple[int, ...]
    rebuild: Rebuild

    def result(self, given: Sequence[object], named: Mapping[str, object], passed: Sequence[Any], values: Any) -> Any:
        """Return the assembled result, or the values alone if the operand was passed array by array."""
        if self.place < len(given):
            operand = given[self.place]
        elif self.name in named:
            operand = named[self.name]
        else:
            return values
        return self.rebuild(operand, [passed[at] for at in self.arrays], values)


def values_of(program: Program) -> tuple[Program, PatternResult | None]:
    """Return the program that computes the values of a result with an operand's pattern. Others are unchanged."""
    stored = program.stored
    if stored is None:
        return program, None
    operand, values = stored
    assert operand.rebuild is not None
    at = {array.name: number for number, array in enumerate(program.inputs)}
    place = program.operands.index(operand.name)
    pattern = PatternResult(operand.name, place, tuple(at[name] for name in operand.arrays), operand.rebuild)
    return replace(program, body=values), pattern
