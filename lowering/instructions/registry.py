"""Registry of instructions by name: the built-in ones and those of users."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from atl.errors import InvalidArgument, UnknownMark, brief, did_you_mean
from lowering.instructions import blas, dot_products, tensor_cores
from lowering.instructions.instruction import Instruction

BUILT_IN: Final[Mapping[str, Instruction]] = {
    each.name: each for each in (*tensor_cores.INSTRUCTIONS, *dot_products.INSTRUCTIONS, *blas.INSTRUCTIONS)
}
_declared: Final[dict[str, Instruction]] = {}


def declare(instruction: Instruction) -> Instruction:
    """Make an instruction known by its name, so that sums may be marked with it; return it.

    A later declaration replaces an instruction of this name. Kernels that are compiled already keep their text.

    Raises `InvalidArgument` if a built-in instruction has this name.
    """
    if not isinstance(instruction, Instruction):
        raise InvalidArgument(f"{brief(instruction)} is not an instruction", required="an atl.Instruction")
    name = instruction.name
    if name in BUILT_IN and BUILT_IN[name] != instruction:
        raise InvalidArgument(f"{name} is a built-in instruction", required=f"a name other than {', '.join(BUILT_IN)}")
    _declared[name] = instruction
    return instruction


def instructions() -> Mapping[str, Instruction]:
    """Return the declared instructions by name."""
    return {**BUILT_IN, **_declared}


def instruction_named(name: str) -> Instruction:
    """Return a declared instruction. Raises `UnknownMark`; `InvalidArgument` if the name is not a text."""
    known = instructions()
    if not isinstance(name, str):
        raise InvalidArgument(f"an instruction named {brief(name)}", required=f"one of {', '.join(known)}")
    if name not in known:
        raise UnknownMark(
            f"there is no instruction {brief(name)}",
            required=f"one of {', '.join(known)}, or one of your own: atl.declare(atl.Instruction(…))",
            suggestions=did_you_mean(name, known),
        )
    return known[name]
