"""`atl completion`: shell completion scripts, generated from the argument parser."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Final

from atl.cli.command import Command

SHELLS: Final = ("bash", "zsh", "fish")
SCRIPT_FILES: Final = {
    "bash": "~/.local/share/bash-completion/completions/atl",
    "zsh": "_atl in a folder of $fpath",
    "fish": "~/.config/fish/completions/atl.fish",
}
"""The file in which each shell looks for the script."""


def completion(parser: Callable[[], argparse.ArgumentParser]) -> Command:
    """Return the command for a parser that is built when the command runs."""

    def run(arguments: argparse.Namespace) -> int:
        import shtab

        print(shtab.complete(parser(), shell=arguments.shell))
        return 0

    return Command(
        "completion", "Print a script for tab completion in a shell", _declare, run, ("atl completion bash",)
    )


def _declare(parser: argparse.ArgumentParser) -> None:
    files = "; ".join(f"{shell}: {file}" for shell, file in SCRIPT_FILES.items())
    parser.add_argument("shell", choices=SHELLS, help=f"save the output as: {files}")
