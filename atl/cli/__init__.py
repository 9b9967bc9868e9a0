"""The command line: the top layer, with a file for each command or two."""

from atl.cli.main import main

__all__ = ["main"]
