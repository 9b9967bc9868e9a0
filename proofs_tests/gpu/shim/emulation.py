"""Emulation of the instructions of warps: the texts of kernels with each instruction replaced by its program in C."""

import re
from itertools import product
from math import prod

import numpy as np

from lowering import lower
from lowering.c.printer import print_c
from lowering.c.scalars import C_TYPES
from lowering.instructions import Instruction, instructions
from lowering.instructions.instruction import OUT


def with_emulated_instructions(source: str) -> str:
    """Replace the definition of each instruction of a warp in a text by its emulation."""
    for instruction in instructions().values():
        if instruction.lanes and instruction.text in source:
            source = source.replace(instruction.text, emulation(instruction))
    return source


def emulation(instruction: Instruction) -> str:
    """Return a function that waits for all lanes of a warp, and then computes the program on their registers.

    A table for each operand gives the register of each element, from the declared layout.
    """
    name, program = instruction.name, instruction.program
    operands = (OUT, *(array.name for array in program.inputs))
    types = {OUT: instruction.form.result.buffer.dtype, **{array.name: array.dtype for array in program.inputs}}
    tables, parts, parameters, copies = [], [], [], []
    for at, each in enumerate(operands):
        table = registers_of(instruction, each)
        count, c_type = len(table), C_TYPES[types[each]]
        constant = "" if each == OUT else "const "
        parameters.append(f"{constant}{c_type} *{each}")
        parts.append(f"{{(void *){each}, {count // 32} * sizeof *{each}, {str(each == OUT).lower()}}}")
        tables.append(f"static const int {name}_{each}[] = {{{', '.join(map(str, table))}}};")
        copies.append(f"{c_type} {each}[{count}], *{each}_held = static_cast<{c_type} *>(held[{at}]);")
        if each != OUT:
            copies.append(f"for (int at = 0; at < {count}; at++) {each}[at] = {each}_held[{name}_{each}[at]];")
    computed = re.sub(r"\brestrict\b", "", print_c(lower(program))).replace(f"int {name}(", f"int {name}_program(")
    arguments = ", ".join((*operands[1:], OUT))
    return "\n".join((
        computed,
        *tables,
        f"static void {name}_emulated(void *const *held)",
        "{",
        *copies,
        f"{name}_program({arguments});",
        f"for (int at = 0; at < {len(registers_of(instruction, OUT))}; at++) out_held[{name}_out[at]] += out[at];",
        "}",
        f"static __attribute__((noinline)) void {name}({', '.join(parameters)})",
        "{",
        f"const shim_operand operands[] = {{{', '.join(parts)}}};",
        f"shim_together({name}_emulated, operands, {len(operands)}, __builtin_return_address(0));",
        "}",
        "",
    ))  # fmt: skip


def registers_of(instruction: Instruction, operand: str) -> list[int]:
    """Return the register of each element of an operand in row-major order, where registers of a lane are adjacent."""
    stored = instruction.form.stored[operand]
    places = tuple(extent.constant or 0 for extent in stored.places)
    shape = tuple(extent.constant or 0 for extent in stored.shape)
    table = [int(np.ravel_multi_index(stored.to(*at), places)) for at in product(*map(range, shape))]
    assert sorted(table) == list(range(prod(places)))
    return table
