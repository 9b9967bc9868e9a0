"""A page as a file."""

from __future__ import annotations

import os

from atl.files.whole import file_named, write_text
from atl.html.document import page
from atl.html.errors import PageError
from lowering import GpuKernel, Kernel
from rewrites import Theorem


def write(
    theorem: Theorem,
    path: str | os.PathLike[str],
    *,
    kernel: Kernel | GpuKernel | None = None,
    target: str | None = None,
) -> None:
    """Writes the page of a derivation, one file that asks for nothing else; `theorem.to_html(path)` is the same.

    What is on it `page` says. The file is written whole, or not at all. Raises what `page` raises, and `PageError`.

    >>> import atl, tempfile, pathlib
    >>> from rewrites import reschedule
    >>> s = reschedule(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] x[i] * 2"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(s.rw("mul_comm").done(), pathlib.Path(folder) / "f.html")
    ...     (pathlib.Path(folder) / "f.html").read_text(encoding="utf-8")[:15]
    '<!DOCTYPE html>'
    """
    file = file_named(path, refused=PageError, like="x.html")
    write_text(file, page(theorem, kernel=kernel, target=target), refused=PageError)
