"""One line of the catalogue of errors: code that is refused, and what to write in its place."""

from __future__ import annotations

import linecache
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from atl.errors import ATLError

FILE: Final = "example.py"
"""What the examples are called in their messages."""

PRELUDE: Final = """\
import os
import atl, layouts, lowering, padtypes, sparse
import numpy as np
from atl import load, reschedule, rules

n, m, k = atl.sizes("n m k")
x, A = atl.tensor("x", n), atl.tensor("A", n, m)
"""
"""What stands before every example."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A code with an example: `wrong` is refused with it, and is not with `old` replaced by `new`.

    `advice` is the part of the message that says so, where that is not `new` itself. Where causing the error takes a
    stand-in, such as for a missing library, the page has `shown`, what a user writes, and `cure`, what helps.
    """

    code: str
    wrong: str
    old: str
    new: str
    advice: str = ""
    shown: str = ""
    cure: str = ""

    @property
    def example(self) -> str:
        """What the page shows."""
        return self.shown or self.wrong

    @property
    def remedy(self) -> str:
        """What helps, as the page says it."""
        if self.cure or not self.new:
            return self.cure or f"leave out `{self.old}`"
        return f"in place of `{self.old}` write `{self.new}`"

    @property
    def cured(self) -> str:
        """The example as the message advises it."""
        assert self.wrong.count(self.old) >= 1, f"{self.code}: the cure replaces nothing"
        return self.wrong.replace(self.old, self.new)


def refusal(entry: Entry, folder: Path) -> ATLError | None:
    """What the example is refused with, run in a folder of its own."""
    try:
        run(entry.wrong, folder)
    except ATLError as error:
        return error
    return None


def run(code: str, folder: Path) -> None:
    """Runs an example as a file of its own; the environment is as before afterwards."""
    environment, here = dict(os.environ), Path.cwd()
    names: dict[str, Any] = {"__name__": "example"}
    exec(PRELUDE, names)
    linecache.cache[FILE] = (len(code), None, code.splitlines(keepends=True), FILE)
    try:
        os.chdir(folder)
        exec(compile(code, FILE, "exec"), names)
    finally:
        os.chdir(here)
        os.environ.clear()
        os.environ.update(environment)
        linecache.cache.pop(FILE, None)
