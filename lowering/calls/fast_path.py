"""The fast path of argument binding: a Python function that is generated for each kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from atl.core.program import FindCache, Unpacked
from lowering.calls.validation_cache import CachedValidation

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
