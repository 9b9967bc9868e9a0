"""The command line: a file for each command or two, above all other rooms. Nothing imports it."""

from atl.cli.main import main

__all__ = ["main"]
