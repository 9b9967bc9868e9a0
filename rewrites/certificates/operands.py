"""Sparse operands in certificates: the name of the format, from which the operand is rebuilt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias

from atl.core.dtypes import ELEMENTS
from atl.core.index import Array
from atl.core.program import Assembly, Program, SparseOperand, Unpacked
from atl.errors import ArgumentError, ATLError
from atl.surface.declarations import parse_extent
from atl.text.printing import show_index
from rewrites.certificates.digests import Digests
from rewrites.certificates.term_json import Json, abbreviated
from rewrites.errors import CertificateError
from rewrites.tactics.sparse.operands import AssembledFormat, OperandFormat


class CompleteFormat(OperandFormat, AssembledFormat, Protocol):
    """A format for operands and for results."""


Formats: TypeAlias = Callable[[str], CompleteFormat | None]
"""A function from the name of a sparse format to the format; None for an unknown name."""


def unknown(_: str) -> None:
    """Return None: no format has a name."""


def written(program: Program) -> dict[str, Json]:
    """Return the part of a certificate that describes sparse operands; empty if there are none."""
    if not program.packed:
        return {}
    dtypes = {array.name: array.dtype for array in program.inputs}
    return {
        "packed": [
            {
                "name": each.name,
                "shape": [show_index(extent).replace(" ", "") for extent in each.shape],
                "dtype": dtypes[each.arrays[-1]],
                "arrays": list(each.arrays),
                "format": each.format,
                **({} if each.meaning is None else {"meaning": Digests().of_term(each.meaning)}),
                **({"result": True} if each.result is not None else {}),
            }
            for each in program.packed
        ]
    }


def with_packed(program: Program, recorded: Sequence[Json], formats: Formats) -> Program:
    """Return the program with the sparse operands of a certificate. Raises `CertificateError` if they do not fit.

    If the format of an operand is unknown, its arrays can still be passed one by one.
    """
    return replace(program, packed=tuple(_read(program, each, formats) for each in recorded))


def assembly_written(program: Program) -> dict[str, Json]:
    """Return the part of a certificate that describes an assembled result; empty for a dense result."""
    if program.assembly is None:
        return {}
    return {"assembled": {"format": program.assembly.format, "zeros": program.assembly.zeros}}


def read_assembly(program: Program, recorded: Json, formats: Formats) -> Assembly:
    """Return how the result of a program is stored. Raises `CertificateError` if the format is unknown."""
    match recorded:
        case {"format": str(text), "zeros": bool(zeros)} if len(recorded) == 2:
            pass
        case _:
            raise CertificateError(
                f"{abbreviated(recorded)} is not an assembled result",
                field="assembled",
                required="its format, and whether entries with the value zero are stored",
            )
    form = formats(text)
    if form is None:
        raise CertificateError(
            f"the format {text} of the result is unknown",
            field="assembled",
            suggestions=("load the certificate with atl.load(path), with custom={...} for custom formats by name",),
        )
    try:
        return form.assembly(program.type.rank, zeros=zeros)
    except ATLError as error:
        raise CertificateError(f"the format of the result is refused: {error.summary}", field="assembled") from error


def _read(program: Program, recorded: Json, formats: Formats) -> SparseOperand:
    match recorded:
        case {
            "name": str(name),
            "shape": [*extents],
            "dtype": str(dtype),
            "arrays": [*arrays],
            "format": str(text),
            **further,
        } if (
            further.keys() <= {"result", "meaning"}
            and further.get("result", True) is True
            and isinstance(further.get("meaning", ""), str)
            and dtype in ELEMENTS
            and all(isinstance(each, str) for each in (*extents, *arrays))
        ):
            result = "result" in further
        case _:
            raise CertificateError(
                f"{abbreviated(recorded)} is not a sparse operand",
                field="packed",
                required="its name, shape, dtype, arrays and format",
            )
    inputs = {array.name: array for array in program.inputs}
    if any(each not in inputs for each in arrays):
        raise CertificateError(f"the arrays of {name} are not inputs of the program", field="packed")
    try:
        shape = tuple(parse_extent(str(extent)) for extent in extents)
        form = formats(text)
        if form is None:
            return SparseOperand(name, shape, tuple(map(str, arrays)), text, _Unknown(name, text))
        made = form.operand(Array(name, shape, dtype), inputs.keys() - set(arrays), distinct=result)
    except ATLError as error:
        raise CertificateError(f"the operand {name} is refused: {error.summary}", field="packed") from error
    if any(inputs.get(each.name) != each for each in made.inputs) or made.packed.arrays != tuple(arrays):
        raise CertificateError(
            f"the format {text} declares other arrays for {name} than the program has",
            field="packed",
            required="the inputs that the format declares",
        )
    found = Digests().of_term(made.meaning)
    if further.get("meaning", found) != found:
        raise CertificateError(
            f"the format {text} has another meaning here: its arrays represent a different tensor {name}",
            field="packed",
            required=f"the format {text} with which the certificate was made",
            suggestions=("load the certificate with atl.load(path, custom={...}), custom formats by name",),
        )
    return made.of_result if result else made.packed


class _Unknown:
    """Placeholder for an unknown format: it raises an error when an operand is passed."""

    def __init__(self, name: str, form: str) -> None:
        self._name, self._form = name, form

    def __call__(self, _: object) -> Unpacked:
        raise ArgumentError(
            f"the format {self._form} of {self._name} was unknown when the certificate was loaded",
            required="the arrays of the operand, one by one",
            suggestions=("load the certificate with atl.load(path), with custom={...} for custom formats by name",),
        )


__all__ = ["Formats", "Mapping", "assembly_written", "read_assembly", "unknown", "with_packed", "written"]
