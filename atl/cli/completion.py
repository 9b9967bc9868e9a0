"""`atl completion`: what a shell completes, made of the parser itself."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Final

from atl.cli.foundation.command import Command

SHELLS: Final = ("bash", "zsh", "fish")
PLACES: Final = {
    "bash": "~/.local/share/bash-completion/completions/atl",
    "zsh": "a folder of $fpath, as _atl",
    "fish": "~/.config/fish/completions/atl.fish",
}
"""Where each shell looks for it."""


def completion(parser: Callable[[], argparse.ArgumentParser]) -> Command:
    """The command, for a parser that is made when it is asked for."""

    def run(arguments: argparse.Namespace) -> int:
        import shtab

        print(shtab.complete(parser(), shell=arguments.shell))
        return 0

    return Command(
        "completion", "Prints what a shell completes of this command line", _declare, run, ("atl completion bash",)
    )


def _declare(parser: argparse.ArgumentParser) -> None:
    where = "; ".join(f"{shell}: {place}" for shell, place in PLACES.items())
    parser.add_argument("shell", choices=SHELLS, help=f"which shell; what is printed goes into: {where}")
