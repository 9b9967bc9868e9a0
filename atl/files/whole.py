"""Files that are written whole, or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO


def write_whole(files: Mapping[Path, Callable[[IO[bytes]], object]]) -> None:
    """Writes each file in one step, and none before all of them lie complete on the disk; each is given by its writer.

    Raises `OSError`, and leaves nothing half-written behind.
    """
    waiting: dict[Path, Path] = {}
    try:
        for path, write in files.items():
            handle, name = tempfile.mkstemp(prefix=".writing-", suffix=path.suffix, dir=path.parent)
            waiting[path] = Path(name)
            with os.fdopen(handle, "wb") as stream:
                write(stream)
        for path, temporary in waiting.items():
            # A temporary file is for its owner only; a result is as other files of the user are.
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(path)
    finally:
        for temporary in waiting.values():
            temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
