"""`atl machine`: the model of this machine."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Final

from atl.cli.command import GOOD, Command, declare_json, print_json


def _run(arguments: argparse.Namespace) -> int:
    from lowering import find_compiler, machine

    found = machine()
    if arguments.json:
        print_json({"compiler": str(find_compiler()), **asdict(found)})
    else:
        print(f"compiler        {find_compiler()}\n{found}")
    return GOOD


MACHINE: Final = Command(
    "machine", "Prints the model of this machine, by which tile sizes are chosen", declare_json, _run,
    ("atl machine", "atl machine --json"),
)  # fmt: skip
