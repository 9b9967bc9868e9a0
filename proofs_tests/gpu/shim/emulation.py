"""Emulation of instructions: the texts of kernels without inline PTX.

Each instruction of a warp is replaced by its program in C. The shim has the functions of asynchronous copies.
"""

import re
from itertools import product
from math import prod

import numpy as np

from lowering import lower
from lowering.c.printer import print_c
from lowering.c.scalars import C_TYPES
from lowering.cuda.helpers import ASYNCHRONOUS
from lowering.instructions import Instruction, instructions
from lowering.instructions.instruction import OUT


def with_emulated_instructions(source: str) -> str:
    """Replace the definition of each instruction in a text by its emulation."""
    for definition in ASYNCHRONOUS.values():
        source = source.replace(definition, "")
    for instruction in instructions().values():
        if instruction.lanes and instruction.text in source:
            source = source.replace(instruction.text, emulation(instruction))
    return source


def emulation(instruction: Instruction) -> str:
    """Return a function that waits for all lanes of a warp, and then computes the program on their registers.

    A table for each operand gives the register of each element, from the declared layout.
    """
    name, program = instruction.name, instruction.program
    if instruction.rows_of_lanes:
        return _emulated_load(instruction)
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


def _emulated_load(instruction: Instruction) -> str:
    """Return a function that reads the row of each lane, and then gives the lanes the elements of their fragments.

    Each lane reads before others have come to the call, so rows that others store need a barrier before it.
    """
    name = instruction.name
    rows, columns = (extent.constant or 0 for extent in instruction.form.stored[OUT].shape)
    registers = registers_of(instruction, OUT)
    elements = sorted(range(len(registers)), key=lambda element: registers[element])
    # Lanes 0 to 15 read the first 8 elements of the rows, and lanes 16 to 31 the next 8, if there are 16.
    read = [(column // 8 * rows + row) * 8 + column % 8 for row, column in (divmod(e, columns) for e in elements)]
    return f"""\
static const int {name}_read[] = {{{", ".join(map(str, read))}}};
static void {name}_emulated(void *const *held)
{{
    for (int at = 0; at < {len(read)}; at++)
        static_cast<uint16_t *>(held[0])[at] = static_cast<const uint16_t *>(held[1])[{name}_read[at]];
}}
static __attribute__((noinline)) void {name}(uint16_t *out, const uint16_t *a)
{{
    int4 read = *(const int4 *)a;
    const shim_operand operands[] = {{{{out, {len(read) // 32} * sizeof *out, true}}, {{&read, sizeof read, false}}}};
    shim_together({name}_emulated, operands, 2, __builtin_return_address(0));
}}
"""


def registers_of(instruction: Instruction, operand: str) -> list[int]:
    """Return the register of each element of an operand in row-major order, where registers of a lane are adjacent."""
    stored = instruction.form.stored[operand]
    places = tuple(extent.constant or 0 for extent in stored.places)
    shape = tuple(extent.constant or 0 for extent in stored.shape)
    table = [int(np.ravel_multi_index(stored.to(*at), places)) for at in product(*map(range, shape))]
    assert sorted(table) == list(range(prod(places)))
    return table
