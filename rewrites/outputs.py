"""Output methods of theorems. They import the writers lazily, so that the kernel does not depend on them."""

from __future__ import annotations

from os import PathLike
from typing import Any


class Outputs:
    """Base class of `Theorem` with the methods that save and display it."""

    __slots__ = ()

    def save(self: Any, path: str | PathLike[str]) -> None:
        """Save a certificate, which `atl.load` replays with the kernel."""
        from rewrites.certificates.certificate import save

        save(self, path)

    def as_python(self: Any) -> str:
        """Return the derivation as a Python script that uses a session."""
        from rewrites.session.script import as_python

        return as_python(self)

    def to_html(self: Any, path: str | PathLike[str], *, kernel: Any = None, target: str | None = None) -> None:
        """Write the derivation as an HTML page: its steps, the reasons why they hold, and the generated code.

        The code is that of `kernel`, or what `atl.compile` generates for `target`. The default target is CUDA if the
        program has GPU marks, otherwise C. `atl.html.write` does the same, and documents the errors.
        """
        from atl import html

        html.write(self, path, kernel=kernel, target=target)

    def _repr_html_(self: Any) -> str:
        from rewrites.session.display import theorem_html

        return theorem_html(self)
