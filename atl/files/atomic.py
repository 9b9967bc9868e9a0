"""Atomic file writes: a file is written completely, or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from stat import S_IMODE, S_ISREG
from typing import IO, Final, TypeAlias

from atl.errors import ATLError, InvalidArgument, brief

Writer: TypeAlias = Callable[[IO[bytes]], object]

LONGEST_SUFFIX: Final = 16
"""Maximum length of a suffix that is also given to the temporary file."""


def write_atomically(files: Mapping[Path, Writer]) -> None:
    """Write several files atomically, each with a function that writes to a stream.

    No file is replaced before all of them are complete on the disk. Symbolic links are followed. An existing file keeps
    its permissions, a new file gets those of the umask. Special files, such as devices and pipes, are written directly.

    Raise `OSError`; then no partial files are left.
    """
    waiting: dict[Path, Path] = {}
    through: dict[Path, bytes] = {}
    modes: dict[Path, int] = {}
    try:
        for given, write in files.items():
            path = Path(os.path.realpath(given))
            there = path.stat().st_mode if path.exists() else None
            if there is not None and not S_ISREG(there):
                # A writer may call tell(), which pipes do not support.
                write(buffer := BytesIO())
                through[path] = buffer.getvalue()
                continue
            suffix = path.suffix if len(path.suffix) <= LONGEST_SUFFIX else ""
            handle, name = tempfile.mkstemp(prefix=".writing-", suffix=suffix, dir=path.parent)
            waiting[path] = Path(name)
            modes[path] = 0o666 & ~_umask() if there is None else S_IMODE(there)
            with os.fdopen(handle, "wb") as stream:
                write(stream)
        for path, content in through.items():
            with path.open("wb") as stream:
                stream.write(content)
        for path, temporary in waiting.items():
            # Temporary files are private to the user; the result has normal permissions.
            temporary.chmod(modes[path])
            temporary.replace(path)
    finally:
        for temporary in waiting.values():
            temporary.unlink(missing_ok=True)


def write_text(
    path: object,
    text: str,
    *,
    refused: type[ATLError] = InvalidArgument,
    what: str = "",
    required: str = "a writable path",
) -> None:
    """Write a text to a file atomically.

    Raise `refused` on failure, with `what` as the name of the text in the message, and the given `required` part.
    """
    named = f"{what} {path if isinstance(path, str | os.PathLike) else brief(path)}".lstrip()
    try:
        write_atomically({Path(path): lambda stream: stream.write(text.encode())})  # type: ignore[arg-type]
    except (OSError, ValueError, TypeError) as error:  # also for invalid file names and other objects
        raise refused(f"{named} cannot be written: {reason(error)}", required=required) from error


def as_path(path: object, *, refused: type[ATLError] = InvalidArgument, like: str) -> Path:
    """Convert `path` to a Path. Raise `refused` with the example path `like` if that is impossible."""
    try:
        return Path(path)  # type: ignore[arg-type]
    except TypeError:
        raise refused(f"{brief(path)} is not a path", required=f'a path: "{like}"') from None


def reason(error: Exception) -> str:
    """Return the system's message for an error with a file, without its number and the file name."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
