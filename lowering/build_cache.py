"""The cache of builds: its entries, and their removal while other processes use them.

A build consists of up to three files: the binary, its source text, and the record of the build. The record is written
last and removed first. A process that has loaded a kernel can use it after its removal, because the file system keeps
an open file. Other processes build it again.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from atl.errors import InvalidArgument, brief
from atl.files.atomic import reason
from lowering.builds import wanted_directory

EntryKind: TypeAlias = Literal["kernel", "program", "times", "left over"]
"""Kind of an entry: a shared object, an executable, measurements of `autotune`, or files of an interrupted build."""

_BUILT: Final = re.compile(r"(?P<stem>.+-[0-9a-f]{24})(?P<ending>\.[\w.]+)?")
_UNFINISHED: Final = ".build-"
ABANDONED: Final = 3600.0
"""Seconds after which an unfinished build is considered abandoned."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A build in the cache: its name, files, size in bytes, and times of building and of last use.

    Times are seconds since the epoch. If the file system does not record reads, `used` is the time of building.
    """

    name: str
    kind: EntryKind
    files: tuple[Path, ...]
    bytes: int
    built: float
    used: float

    def remove(self) -> bool:
        """Remove the files, the record first, and return whether none is left. Missing files are ignored."""
        for path in self.files:
            try:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
            except FileNotFoundError:
                continue
            except OSError:
                return False
        return True


def location() -> Path:
    """Return the directory of the cache, which may not exist: $ATL_CACHE, $XDG_CACHE_HOME/atl or ~/.cache/atl."""
    try:
        return wanted_directory(os.environ.get("ATL_CACHE", ""))
    except (OSError, RuntimeError) as error:  # RuntimeError: no home directory
        raise InvalidArgument(
            f"no directory for builds: {error}", required="ATL_CACHE=/a/directory that can be written"
        ) from error


def entries(directory: Path | None = None) -> list[Entry]:
    """Return the entries of the cache, the most recently used first. Other files are ignored.

    Raises `InvalidArgument` if the directory exists and cannot be read.
    """
    directory = location() if directory is None else directory
    if not isinstance(directory, Path):
        raise InvalidArgument(f"directory={brief(directory)}", required="a path, or None for the default cache")
    groups: dict[str, list[Path]] = {}
    found: list[Entry] = []
    for path in [*_listed(directory), *_listed(directory / "tuned")]:
        if path.name.startswith(_UNFINISHED):
            found += _entry(path.name, "left over", [path])
        elif (built := _BUILT.fullmatch(path.name)) is not None and not path.is_dir():
            groups.setdefault(str(path.parent / built["stem"]), []).append(path)
    for stem, files in groups.items():
        found += _entry(Path(stem).name, _kind(directory, files), sorted(files, key=_record_first))
    now = time.time()
    old = [entry for entry in found if entry.kind != "left over" or now - entry.built > ABANDONED]
    return sorted(old, key=lambda entry: -entry.used)


def _listed(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise InvalidArgument(
            f"the cache {directory} cannot be read: {reason(error)}",
            required="a readable directory; ATL_CACHE selects another one",
        ) from error


def _kind(directory: Path, files: Iterable[Path]) -> EntryKind:
    names = [path.name for path in files]
    if any(path.parent != directory for path in files):
        return "times"
    if any(name.endswith((".so", ".so.json")) for name in names):
        return "kernel"
    # An executable has no suffix. A source text without its binary is left over.
    return "program" if any("." not in name.rpartition("-")[2] for name in names) else "left over"


def _record_first(path: Path) -> tuple[bool, str]:
    return not path.name.endswith(".json"), path.name


def _entry(name: str, kind: EntryKind, files: Sequence[Path]) -> list[Entry]:
    """Return the entry if its files still exist."""
    size, built, used = 0, 0.0, 0.0
    there = []
    for path in files:
        try:
            for each in (path, *path.rglob("*")) if kind == "left over" and path.is_dir() else (path,):
                status = each.lstat()
                size += status.st_size
                built, used = max(built, status.st_mtime), max(used, status.st_mtime, status.st_atime)
        except OSError:
            continue
        there.append(path)
    return [Entry(name, kind, tuple(there), size, built, used)] if there else []


def evictable(found: Sequence[Entry], *, older_than: float | None = None, most: int | None = None) -> list[Entry]:
    """Return the builds to remove.

    These are the builds that were not used for `older_than` seconds, and of the others the least recently used ones,
    until the rest has at most `most` bytes. Without either limit, these are all builds.

    >>> evictable([], most=0)
    []
    """
    if older_than is None and most is None:
        return list(found)
    now = time.time()
    old = [entry for entry in found if older_than is not None and now - entry.used > older_than]
    left = [entry for entry in found if entry not in old]
    size = sum(entry.bytes for entry in left)
    for entry in sorted(left, key=lambda each: each.used):
        if most is None or size <= most:
            break
        old.append(entry)
        size -= entry.bytes
    return old
