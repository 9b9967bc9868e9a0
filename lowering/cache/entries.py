"""The cache of builds: what is in it, how old and how large, and how it is cleared beside processes that use it.

A build is up to three files: what was built, the record of how, which comes last when it is made and goes first when it
is removed, and the text that it was built of. A process that has loaded a kernel keeps it: a file that is removed stays
on the disk until nobody runs it. A process that looks for one afterwards builds it again.
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
from lowering.toolchain import wanted_directory

Kind: TypeAlias = Literal["kernel", "program", "times", "left over"]
"""A shared object, an executable, what `autotune` has measured, and what a process that was ended has left behind."""

_BUILT: Final = re.compile(r"(?P<stem>.+-[0-9a-f]{24})(?P<ending>\.[\w.]+)?")
_UNFINISHED: Final = ".build-"
ABANDONED: Final = 3600.0
"""A build that was begun so many seconds ago is finished, or nobody works on it any more."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What is kept of one build: its name, its files, their bytes, when it was built and when it was last read.

    Times are seconds since the epoch. Where the file system notes no reading, `used` is when it was built.
    """

    name: str
    kind: Kind
    files: tuple[Path, ...]
    bytes: int
    built: float
    used: float

    def remove(self) -> bool:
        """Removes the files, the record first; whether all of them are gone. One that is gone already is."""
        for path in self.files:
            try:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
            except FileNotFoundError:
                continue
            except OSError:
                return False
        return True


def location() -> Path:
    """Where builds are kept, whether it is there or not: $ATL_CACHE, else $XDG_CACHE_HOME/atl, else ~/.cache/atl."""
    try:
        return wanted_directory(os.environ.get("ATL_CACHE", ""))
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home directory
        raise InvalidArgument(
            f"there is no place for builds: {error}", required="ATL_CACHE=/a/directory that can be written"
        ) from error


def entries(directory: Path | None = None) -> list[Entry]:
    """What is kept, the builds that were used last first. What is not of our making is passed over.

    Raises `InvalidArgument` where the directory is there and cannot be read.
    """
    directory = location() if directory is None else directory
    if not isinstance(directory, Path):
        raise InvalidArgument(f"a cache at {brief(directory)}", required="a path, or None for the one that is used")
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
            required="a directory of yours; ATL_CACHE names another one",
        ) from error


def _kind(directory: Path, files: Iterable[Path]) -> Kind:
    names = [path.name for path in files]
    if any(path.parent != directory for path in files):
        return "times"
    if any(name.endswith((".so", ".so.json")) for name in names):
        return "kernel"
    # An executable has no ending; a text without what was built of it is of no use any more.
    return "program" if any("." not in name.rpartition("-")[2] for name in names) else "left over"


def _record_first(path: Path) -> tuple[bool, str]:
    return not path.name.endswith(".json"), path.name


def _entry(name: str, kind: Kind, files: Sequence[Path]) -> list[Entry]:
    """The entry, if its files are still there."""
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


def superfluous(found: Sequence[Entry], *, older_than: float | None = None, most: int | None = None) -> list[Entry]:
    """The builds to remove: those not used for so many seconds, and of the others so many, the oldest first, that the
    rest has at most so many bytes. Without either, all.

    >>> superfluous([], most=0)
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
