"""A look at the arguments of a call that is as short as Python can make it: its text is written for each kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from atl.core.program import FindCache, Unpacked
from lowering.calls.validation_cache import CachedValidation

WALKED: Final = 0x101
"""The flags of NumPy's for an array that is C-contiguous and aligned."""
FLOAT32_LIMIT: Final = 3.4e38


@dataclass(frozen=True, slots=True)
class InputSpec:
    """An input as C takes it: its element type and rank, and cffi's type of a pointer to an array."""

    dtype: np.dtype[Any]
    rank: int
    kind: Any


@dataclass(frozen=True, slots=True, eq=False)
class OperandSpec:
    """An operand of a kernel: its inputs, in the order of a call, and where among all of them its indices stand.

    A packed one is taken `apart` into its inputs. The notes of a tensor have what is noted of it under this object.
    """

    name: str
    inputs: tuple[InputSpec, ...]
    indices: tuple[int, ...] = ()
    apart: Callable[[object], Unpacked] | None = None
    notes: FindCache | None = None


CacheSlots: TypeAlias = Sequence[tuple[OperandSpec, dict[object, Any], CachedValidation | None, object]]
"""The operands of a call that have notes: where these are, what is noted, and the operand as it was passed."""
BoundArguments: TypeAlias = tuple[Sequence[Any], Sequence[Any], tuple[object, ...] | None, CacheSlots]
"""The inputs in order, what C is passed for them, a key of all that decides whether they fit, and what has notes.

There is no key where a closer look is needed.
"""


def compile_fast_path(
    operands: Sequence[OperandSpec], from_buffer: Callable[..., Any]
) -> Callable[..., BoundArguments | None]:
    """What takes these operands, passed by position, as C takes them; it gives None where a closer look is needed.

    What is taken for an array is one of NumPy's and of no other class, of the element type, contiguous and aligned; its
    rank is seen from its shape, and all shapes are in the key. For a scalar that is a float, a float is taken that C
    may convert. Indices of which there is a note are taken as noted. Loops over operands would take twice the time.
    """
    text = _Text({"from_buffer": from_buffer, "ndarray": np.ndarray})
    for number, operand in enumerate(operands):
        if operand.apart is None:
            text.take_array(operand.inputs[0])
        else:
            text.take_packed(f"_of_{number}", operand)
    known = text.known
    exec(text.whole(), known)
    look: Callable[..., BoundArguments | None] = known["look"]
    return look


class _Text:
    """The text of a look, as far as it is written, and what the names in it mean."""

    def __init__(self, known: dict[str, Any]) -> None:
        self.known = known
        self._parameters: list[str] = []
        self._lines: list[str] = []
        self._wanted: list[str] = []
        self._passed: list[str] = []
        self._pointers: list[str] = []
        self._key: list[str] = []
        self._notable: list[str] = []

    def take_array(self, wanted: InputSpec) -> None:
        """Takes one array, or one number."""
        (name,) = names = self._named((wanted,))
        self._parameters.append(name)
        self._look_at(names, (wanted,))

    def take_packed(self, of: str, operand: OperandSpec) -> None:
        """Takes a packed operand apart, or its indices as they are noted; its values are looked at."""
        *indices, values = names = self._named(operand.inputs)
        self._parameters.append(f"packed{of}")
        self.known |= {f"apart{of}": operand.apart, f"find_notes{of}": operand.notes, f"operand{of}": operand}
        notes = "None" if operand.notes is None else f"find_notes{of}(packed{of})"
        self._lines += [
            f"notes{of} = {notes}",
            f"note{of} = None if notes{of} is None else notes{of}.get(operand{of})",
            f"if note{of} is None:",
            f"    ({_all(names)}), shape = apart{of}(packed{of})",
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
        self._notable.append(f"(() if notes{of} is None else ((operand{of}, notes{of}, note{of}, packed{of}),))")
        self._look_at([values], operand.inputs[-1:])

    def whole(self) -> str:
        """The text."""
        lines = [
            *self._lines,
            f"if {' and '.join(self._wanted) or 'True'}:",
            f"    key = ({_all(self._key)})",
            f"    return ({_all(self._passed)}), ({_all(self._pointers)}), key, {' + '.join(self._notable) or '()'}",
            "return None",
        ]
        return "\n    ".join((f"def look({', '.join(self._parameters)}):", *lines))

    def _named(self, inputs: Sequence[InputSpec]) -> list[str]:
        names = [f"a{len(self._passed) + number}" for number in range(len(inputs))]
        self._passed += names
        for name, each in zip(names, inputs, strict=True):
            self.known |= {f"{name}_dtype": each.dtype, f"{name}_kind": each.kind}
        return names

    def _look_at(self, names: Sequence[str], inputs: Sequence[InputSpec]) -> None:
        self._wanted.append(self._fit(names, inputs))
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
