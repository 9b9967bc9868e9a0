"""Operands that a call passes as one object: taken apart into the inputs that they are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from atl.core.program import Program
from atl.errors import ArgumentError

Shapes: TypeAlias = tuple[tuple[int, ...] | None, ...]
"""For each packed operand the shape of the tensor that it stands for; None where its arrays are passed one by one."""


def taken_apart(
    program: Program, positional: Sequence[object], keywords: Mapping[str, object]
) -> tuple[dict[str, object], Shapes]:
    """The arguments of a call by name, packed operands replaced by their arrays, and the shapes of those operands.

    Raises `ArgumentError` for an operand that is given twice, and whatever the operand's format refuses.
    """
    operands = program.operands
    if len(positional) > len(operands):
        raise ArgumentError(
            f"{program.name} takes {len(operands)} operands by position, {len(positional)} are given",
            required=f"the operands {', '.join(operands) or '(none)'}",
            suggestions=("pass a size by its name",) if program.free_sizes else (),
        )
    named: dict[str, Any] = dict(zip(operands, positional, strict=False))
    for name, value in keywords.items():
        if name in named:
            raise _twice(program, name)
        named[name] = value
    shapes: list[tuple[int, ...] | None] = []
    for packed in program.packed:
        if packed.name not in named:
            shapes.append(None)
            continue
        arrays, shape = packed.unpack(named.pop(packed.name))
        for name, array in zip(packed.arrays, arrays, strict=True):
            if name in named:
                raise _twice(program, name)
            named[name] = array
        shapes.append(shape)
    return named, tuple(shapes)


def _twice(program: Program, name: str) -> ArgumentError:
    return ArgumentError(f"{program.name} is given {name} twice", required=f"one argument for {name}")
