"""Files that are written whole, or not at all."""

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
"""A temporary file has the suffix of the file that it will be, unless that is longer than this."""


def write_whole(files: Mapping[Path, Writer]) -> None:
    """Writes each file in one step, and none before all of them lie complete on the disk; each is given by its writer.

    A symbolic link is followed. A file that there is already keeps its permissions, a new one has those that the user's
    umask leaves. What is no regular file, such as a device or a pipe, is written through and stays what it is.

    Raises `OSError`, and leaves nothing half-written behind.
    """
    waiting: dict[Path, Path] = {}
    through: dict[Path, bytes] = {}
    modes: dict[Path, int] = {}
    try:
        for given, write in files.items():
            path = Path(os.path.realpath(given))
            there = path.stat().st_mode if path.exists() else None
            if there is not None and not S_ISREG(there):
                # A writer may ask for its position, which a pipe does not have.
                write(held := BytesIO())
                through[path] = held.getvalue()
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
            # A temporary file is for its owner only; a result is as other files of the user are.
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
    required: str = "a place for a file",
) -> None:
    """Writes a text to a file, all of it or nothing.

    Raises `refused` where that cannot be: `what` is what it calls the text, and `required` what it asks for.
    """
    named = f"{what} {path if isinstance(path, str | os.PathLike) else brief(path)}".lstrip()
    try:
        write_whole({Path(path): lambda stream: stream.write(text.encode())})  # type: ignore[arg-type]
    except (OSError, ValueError, TypeError) as error:  # a name that no file has, and what is no name
        raise refused(f"{named} cannot be written: {reason(error)}", required=required) from error


def file_named(path: object, *, refused: type[ATLError] = InvalidArgument, like: str) -> Path:
    """The path of a file. Raises `refused`, with the name of a file such as is meant, for what is no path."""
    try:
        return Path(path)  # type: ignore[arg-type]
    except TypeError:
        raise refused(f"{brief(path)} is no path of a file", required=f'a path: "{like}"') from None


def reason(error: Exception) -> str:
    """What the system says of a file that it does not read or write, without its number and the file's name."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
