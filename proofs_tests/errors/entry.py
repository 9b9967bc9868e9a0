"""Entries of the catalogue of errors."""

from __future__ import annotations

import linecache
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from atl.errors import ATLError

FILE: Final = "example.py"
"""File name of the examples in their messages."""

PRELUDE: Final = """\
import os
import atl, layouts, lowering, padtypes, sparse
import numpy as np
from atl import load, reschedule, rules

n, m, k = atl.sizes("n m k")
x, A = atl.tensor("x", n), atl.tensor("A", n, m)
"""
"""Code that runs before every example."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Example of an error code: `wrong` raises it, and does not after `old` is replaced by `new`.

    `advice` is the suggestion in the message, if it is not `new` itself. Where an example needs a stand-in, such as for
    a missing library, the page has `shown`, the code that a user writes, and `cure`, the correction.
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
        """Text of the example on the page."""
        return self.shown or self.wrong

    @property
    def remedy(self) -> str:
        """Correction on the page."""
        if self.cure or not self.new:
            return self.cure or f"remove `{self.old}`"
        return f"replace `{self.old}` with `{self.new}`"

    @property
    def cured(self) -> str:
        """Example with the correction."""
        assert self.wrong.count(self.old) >= 1, f"{self.code}: the cure replaces nothing"
        return self.wrong.replace(self.old, self.new)


def refusal(entry: Entry, folder: Path) -> ATLError | None:
    """Return the error that the example raises in a new folder."""
    try:
        run(entry.wrong, folder)
    except ATLError as error:
        return error
    return None


def run(code: str, folder: Path) -> None:
    """Run an example as a file, and restore the environment."""
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
