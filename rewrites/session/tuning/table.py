"""The table of measured times on disk, from which a second run continues."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from atl.core.program import Program
from atl.files.atomic import reason, write_atomically
from rewrites.session.tuning.measuring import Comparison, Interval

FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Measured:
    """A measurement of one machine code: its speed relative to the start, and its milliseconds."""

    called: str
    """The parameters from which it was derived when it was measured."""
    speed: float
    low: float
    high: float
    rounds: int
    ms: float

    @staticmethod
    def of(called: str, speed: Interval, ms: float) -> Measured:
        """Return the entry for an interval of speeds."""
        return Measured(called, speed.middle, speed.low, speed.high, speed.rounds, ms)

    @property
    def interval(self) -> Interval:
        """The speed relative to the start."""
        return Interval(self.speed, self.low, self.high, self.rounds)


@dataclass(slots=True)
class Table:
    """Times of schedules of one program at some sizes under some conditions, by the identity of the machine code.

    There is one file for each program, sizes, machine, compiler and flags. An unreadable file is replaced. A file that
    cannot be written causes a warning only, since times can be measured again.
    """

    path: Path
    about: Mapping[str, Any]
    measured: dict[str, Measured] = field(default_factory=dict)

    def keep(self, identity: str, entry: Measured) -> None:
        """Add a measurement and save the table."""
        self.measured[identity] = entry
        rows = {name: asdict(row) for name, row in self.measured.items()}
        text = json.dumps({"format": FORMAT, **self.about, "measured": rows}, indent=1, ensure_ascii=False) + "\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically({self.path: lambda stream: stream.write(text.encode())})
        except OSError as error:
            warnings.warn(f"the table {self.path} cannot be written ({reason(error)})", RuntimeWarning, stacklevel=2)


def table_of(
    program: Program, sizes: Mapping[str, int], comparison: Comparison, folder: str | os.PathLike[str] | None
) -> Table:
    """Return the table for a program at these sizes under the comparison's conditions, loaded if it exists."""
    about = {"program": str(program), "sizes": dict(sorted(sizes.items())), "conditions": dict(comparison.conditions)}
    key = hashlib.sha256(json.dumps(about, ensure_ascii=False).encode()).hexdigest()[:24]
    path = (comparison.folder if folder is None else Path(folder)) / f"{program.name[:80]}-{key}.json"
    return Table(path, about, _read(path, about))


def _read(path: Path, about: Mapping[str, Any]) -> dict[str, Measured]:
    """Return the contents of the file if it is for the same key."""
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
        if read["format"] != FORMAT or any(read[name] != value for name, value in about.items()):
            return {}
        return {name: Measured(**_checked(row)) for name, row in read["measured"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _checked(row: dict[str, Any]) -> dict[str, Any]:
    numbers = (row["speed"], row["low"], row["high"], row["ms"])
    if not isinstance(row["called"], str) or not all(isinstance(number, float) and number > 0 for number in numbers):
        raise ValueError("invalid row")
    return row
