"""The tables of measured times on disk, from which a second run continues."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from math import log2
from pathlib import Path
from typing import Any, Final

from atl.core.program import Program, checked_program
from atl.errors import InvalidArgument, brief
from atl.files.atomic import reason, write_atomically
from rewrites.certificates.digests import Digests
from rewrites.session.tuning.measuring import Comparison, Interval
from rewrites.session.tuning.space import Choices, Parameters, called, written

FORMAT: Final = 2


@dataclass(frozen=True, slots=True)
class Measured:
    """A measurement of one machine code: its speed relative to the baseline of the table, and its milliseconds."""

    parameters: Mapping[str, str]
    """The parameters from which it was derived when it was measured, as Python source."""
    speed: float
    low: float
    high: float
    rounds: int
    ms: float

    @staticmethod
    def of(parameters: Parameters, speed: Interval, ms: float) -> Measured:
        """Return the entry for an interval of speeds."""
        texts = {name: written(value) for name, value in parameters.items()}
        return Measured(texts, speed.middle, speed.low, speed.high, speed.rounds, ms)

    @property
    def called(self) -> str:
        """The parameters as keyword arguments."""
        return called(self.parameters, str)

    @property
    def interval(self) -> Interval:
        """The speed relative to the baseline."""
        return Interval(self.speed, self.low, self.high, self.rounds)


@dataclass(frozen=True, slots=True)
class Baseline:
    """The candidate that speeds are relative to: the start, or the first candidate.

    `start_ms` is the time of the start, and None if it was not run, for the reason in `note`.
    """

    name: str
    start_ms: float | None
    note: str = ""


@dataclass(slots=True)
class Table:
    """Times of schedules of one program at some sizes under some conditions, by the identity of the machine code.

    There is one file for each program, names of parameters, sizes, machine, compiler and flags. Programs that differ
    only in the names of loops and in marks share one. An unreadable file is replaced. A file that cannot be written
    causes a warning only, since times can be measured again.
    """

    path: Path
    about: Mapping[str, Any]
    baseline: Baseline | None = None
    measured: dict[str, Measured] = field(default_factory=dict)

    def begin(self, baseline: Baseline) -> None:
        """Drop all measurements, and make later ones relative to this baseline."""
        self.baseline = baseline
        self.measured.clear()

    def keep(self, identity: str, entry: Measured) -> None:
        """Add a measurement and save the table."""
        assert self.baseline is not None
        self.measured[identity] = entry
        rows = {name: asdict(row) for name, row in self.measured.items()}
        content = {"format": FORMAT, **self.about, "baseline": asdict(self.baseline), "measured": rows}
        text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically({self.path: lambda stream: stream.write(text.encode())})
        except OSError as error:
            warnings.warn(f"the table {self.path} cannot be written ({reason(error)})", RuntimeWarning, stacklevel=2)


def table_of(
    program: Program,
    names: Iterable[str],
    sizes: Mapping[str, int],
    comparison: Comparison,
    folder: str | os.PathLike[str] | None,
) -> Table:
    """Return the table for parameters of these names and a program at these sizes, loaded if it exists."""
    about = {
        **_subject(program, comparison.conditions),
        "parameters": sorted(names),
        "sizes": dict(sorted(sizes.items())),
    }
    key = hashlib.sha256(json.dumps(about, ensure_ascii=False).encode()).hexdigest()[:24]
    path = (comparison.folder if folder is None else Path(folder)) / f"{_stem(program)}-{key}.json"
    return _read(path, about) or Table(path, about)


def best_known(
    program: Program,
    sizes: Mapping[str, int] | None = None,
    *,
    choices: Choices | None = None,
    fast_math: bool = False,
    folder: str | os.PathLike[str] | None = None,
) -> dict[str, Any] | None:
    """Return the parameters of the fastest schedule that `autotune` has measured for a program, or None.

    They were measured on this machine with this compiler and these flags, at sizes of the same class: each size has the
    same power of two nearest to it. Equal sizes are preferred, then the latest measurement. Without `sizes`, it is the
    latest at any sizes. With `choices`, each of them is a parameter with one of its values. There may be further
    parameters, of recipes that fit only if the sizes are known, such as `stream_results`. Names of loops and marks of
    the program make no difference. Raises `InvalidArgument`.

    >>> import atl, tempfile
    >>> twice = atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i]")
    >>> found = atl.autotune(lambda by: atl.reschedule(twice).tile("i", by), {"by": [8]}, {"n": 4000},
    ...                      folder=(folder := tempfile.mkdtemp()))
    >>> best_known(twice, {"n": 4500}, folder=folder), best_known(twice, {"n": 9000}, folder=folder)
    ({'by': 8}, None)
    """
    from lowering.timing.comparison import conditions, times_folder

    checked_program(program)
    if sizes is not None and (
        not isinstance(sizes, Mapping) or not all(type(value) is int and value >= 0 for value in sizes.values())
    ):
        raise InvalidArgument(f"sizes={brief(sizes)}", required='a dictionary from names to numbers: sizes={"n": 1000}')
    subject = _subject(program, conditions(fast_math=fast_math))
    known: list[tuple[bool, float, dict[str, Any]]] = []
    try:
        paths = sorted((times_folder() if folder is None else Path(folder)).glob(f"{_stem(program)}-*.json"))
    except OSError:
        return None
    for path in paths:
        table = _read(path, subject)
        if table is None or (sizes is not None and size_class(table.about["sizes"]) != size_class(sizes)):
            continue
        if (best := _fastest(table, choices)) is not None:
            known.append((table.about["sizes"] == sizes, path.stat().st_mtime, best))
    return max(known, key=lambda each: each[:2])[2] if known else None


def size_class(sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the exponent of the power of two nearest to each size, on a logarithmic scale; -1 for zero.

    >>> size_class({"n": 1000, "m": 1500, "k": 0})
    {'k': -1, 'm': 11, 'n': 10}
    """
    return {name: round(log2(value)) if value else -1 for name, value in sorted(sizes.items())}


def _subject(program: Program, conditions: Mapping[str, str]) -> dict[str, Any]:
    return {"program": Digests().of_program(program), "conditions": dict(conditions)}


def _stem(program: Program) -> str:
    return program.name[:80]


def _fastest(table: Table, choices: Choices | None) -> dict[str, Any] | None:
    """Return the parameters of the fastest row whose values are literals, and those of the choices among them."""
    for row in sorted(table.measured.values(), key=lambda row: -row.speed):
        try:
            parameters = {name: ast.literal_eval(text) for name, text in row.parameters.items()}
        except (ValueError, SyntaxError):
            continue
        if all(row.parameters.get(name) in [*map(written, values)] for name, values in (choices or {}).items()):
            return parameters
    return None


def _read(path: Path, about: Mapping[str, Any]) -> Table | None:
    """Return the table in a file if it is about this."""
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
        if read["format"] != FORMAT or any(read[name] != value for name, value in about.items()):
            return None
        measured = {name: Measured(**_checked(row)) for name, row in read["measured"].items()}
        known = {name: read[name] for name in ("program", "conditions", "parameters", "sizes")}
        if not all(type(size) is int and size >= 0 for size in known["sizes"].values()):
            return None
        return Table(path, known, Baseline(**read["baseline"]), measured)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _checked(row: dict[str, Any]) -> dict[str, Any]:
    numbers = (row["speed"], row["low"], row["high"], row["ms"])
    texts = (*row["parameters"], *row["parameters"].values())
    if not all(isinstance(each, str) for each in texts) or not all(
        isinstance(number, float) and number > 0 for number in numbers
    ):
        raise ValueError("invalid row")
    return row
