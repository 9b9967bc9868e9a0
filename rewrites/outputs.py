"""The files and displays of a theorem: methods that import what writes them, so that the kernel imports none of it."""

from __future__ import annotations

from os import PathLike
from typing import Any


class Outputs:
    """The base of theorems, with the methods that write and display one."""

    __slots__ = ()

    def save(self: Any, path: str | PathLike[str]) -> None:
        """Writes a certificate, which `atl.load` replays with the kernel alone."""
        from rewrites.certificates.certificate import save

        save(self, path)

    def as_python(self: Any) -> str:
        """Returns the derivation as a script for a session."""
        from rewrites.session.script import as_python

        return as_python(self)

    def to_html(self: Any, path: str | PathLike[str], *, kernel: Any = None, target: str | None = None) -> None:
        """Writes the derivation as a page for a browser, one file: its steps, why each holds, and the code at the end.

        The code is that of `kernel`, or what `atl.compile` would make for `target`: by default for a GPU if the program
        has marks for one, else C. `html.write` does the same, and says what it raises.
        """
        from atl import html

        html.write(self, path, kernel=kernel, target=target)

    def _repr_html_(self: Any) -> str:
        from rewrites.session.display import theorem_html

        return theorem_html(self)
