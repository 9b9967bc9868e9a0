"""`atl check-instruction`: comparison of the C text of instructions with their programs."""

from __future__ import annotations

import argparse
from typing import Final

from atl.cli.command import FAILED, GOOD, Command
from atl.errors import InvalidArgument


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "instruction",
        metavar="FILE[:NAME]",
        help="a Python file that declares instructions, all of which are checked, or one of them; or a built-in name",
    )
    parser.add_argument("--largest", type=int, default=6, help="largest size of the sizes that are all tested (6)")


def _run(arguments: argparse.Namespace) -> int:
    from atl.files.programs import load_module
    from lowering import check_instruction
    from lowering.instructions import instruction_named, instructions

    where, _, name = arguments.instruction.partition(":")
    before = instructions()
    if where in before:
        chosen = [where]
    else:
        load_module(where)
        chosen = [each for each, found in instructions().items() if before.get(each) is not found]
    if name:
        chosen = [instruction_named(name).name]
    if not chosen:
        raise InvalidArgument(
            f"{where} declares no instruction", required="@atl.instruction(…) or atl.declare_instruction(…)"
        )
    results = [check_instruction(instruction_named(each), largest=arguments.largest) for each in chosen]
    print(*results, sep="\n")
    return FAILED if any(result.fault for result in results) else GOOD


CHECK_INSTRUCTION: Final = Command(
    "check-instruction",
    "Compares the C function of an instruction with its program, at all small sizes, strides and ends of memory",
    _declare,
    _run,
    ("atl check-instruction sdot", "atl check-instruction examples/own_instruction.py"),
)
