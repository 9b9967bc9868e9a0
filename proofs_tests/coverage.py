"""`python -m proofs_tests.coverage [ROOM…]`: which lines and branches of the library its tests reach, room by room.

Without rooms the whole suite runs over the whole library; kernel, certificates, padtypes and prove run with the tests
that `proofs_tests.mutation` asks for them. What processes of tests start is counted too, and `--workers` of
pytest-xdist. Needs the package coverage; with `--missing` the lines and branches are listed that no test reaches.

The suite can be run in pieces: `--tests PATH` runs some of it, `--add` counts what earlier runs have reached too.
A branch is a way out of a condition; of a `case` without one, whether it is reached is told by the line below it.
What needs a module that is not installed is not counted, and the last lines say so.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

from proofs_tests.mutation.packages import HERE, SCOPES

LIBRARY: Final = ("atl", "padtypes", "layouts", "rewrites", "lowering", "sparse", "pages", "commands")
FOLDER: Final = HERE / "out" / "coverage"
SETTINGS: Final = """\
[run]
branch = True
parallel = True
data_file = {folder}/data
{looked_at}
patch = subprocess
[report]
exclude_also =
    if TYPE_CHECKING:
    @overload
    case _:\\s+assert_never\\(
    assert_never\\(
    case .*:\\s+raise AssertionError\\(
    raise AssertionError\\(
    @(abc\\.)?abstractmethod
    ^\\s*\\.\\.\\.$
{absent}
partial_also =
    ^\\s*case (?!.* if )
"""
# A match over a closed union has no default: that its last case does not apply is what mypy excludes. What raises
# AssertionError says that no input leads there; no error of a user's is one.
ABSENT: Final = {
    "torch": (
        r"^def torch_operator\(",
        r"^def _operator\(program: Program, operator",
        r"^def _kind_of\(array: Array\)",
    ),
    "jax": (
        r"^    def function\(\*arrays: Any, \*\*named: Any\) -> Any:",
        r"^def _by_name\(program: Program, arrays: Sequence\[Any\]",
        r"^def _is_number\(value: object\)",
        r"^def _check\(array: Array, value: Any\)",
    ),
}
"""The functions of lowering/calls/operators.py that run only where one of these modules is installed."""


@dataclass(frozen=True, slots=True)
class Reached:
    """How much of a room is reached: statements and branches, of how many."""

    name: str
    statements: int
    of_statements: int
    branches: int
    of_branches: int

    def __str__(self) -> str:
        return (
            f"{self.name:14} {_share(self.branches, self.of_branches)} of {self.of_branches} branches, "
            f"{_share(self.statements, self.of_statements)} of {self.of_statements} statements"
        )


def _share(reached: int, of: int) -> str:
    # Rounded down: 100 % is all of it.
    return f"{(10_000 * reached // of if of else 10_000) / 100:6.2f} %"


def main(argv: Sequence[str] | None = None) -> int:
    """The command: 1 if a test fails, 2 without the package coverage."""
    parser = argparse.ArgumentParser(prog="python -m proofs_tests.coverage", description="What the tests reach.")
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=f"{', '.join(SCOPES)} (default: the whole library)")
    parser.add_argument("--workers", default="0", help="processes of pytest-xdist (default: none)")
    parser.add_argument("--tests", action="append", default=[], metavar="PATH", help="some of the tests instead")
    parser.add_argument("--add", action="store_true", help="count what earlier runs have reached too")
    parser.add_argument("--missing", action="store_true", help="list what no test reaches")
    asked = parser.parse_args(argv)
    if unknown := [name for name in asked.rooms if name not in SCOPES]:
        parser.error(f"there is no room {unknown[0]}; one of {', '.join(SCOPES)}")
    if find_spec("coverage") is None:
        print("the package coverage is not installed: pip install coverage", file=sys.stderr)
        return 2
    tests = asked.tests or list(dict.fromkeys(test for name in asked.rooms for test in SCOPES[name].tests))
    # What is looked at costs time: of a room, its files only. Of the library, those that no test imports too.
    of_rooms = ",".join(str(HERE / path) for name in asked.rooms for path in SCOPES[name].paths())
    looked_at = f"include = {of_rooms}" if of_rooms else f"source = {','.join(str(HERE / name) for name in LIBRARY)}"
    code, files = measured(tests, looked_at, asked.workers, add=asked.add)
    for reached in by_room(files, asked.rooms):
        print(reached)
    for module in () if asked.rooms else not_here():
        print(f"not counted, as {module} is not installed: {len(ABSENT[module])} functions that need it")
    if asked.missing:
        wanted = {path for name in asked.rooms for path in SCOPES[name].paths()} or set(files)
        for path in sorted(wanted & set(files)):
            if not_reached := missing(files[path]):
                print(f"{path}: {not_reached}")
    return code


def measured(tests: Sequence[str], looked_at: str, workers: str, *, add: bool) -> tuple[int, dict[str, Any]]:
    """Runs tests, all if none are named; gives their exit code, and what was reached of each file."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob("data.*" if add else "data*"):
        old.unlink()
    settings = FOLDER / "settings"
    absent = "\n".join(f"    {line}" for module in not_here() for line in ABSENT[module])
    settings.write_text(SETTINGS.format(folder=FOLDER, looked_at=looked_at, absent=absent), encoding="utf-8")
    coverage = [sys.executable, "-m", "coverage"]
    rc = f"--rcfile={settings}"
    around = {**os.environ, "COVERAGE_CORE": "ctrace"}
    spread = ["-n", workers] if workers != "0" else []
    run = [*coverage, "run", rc, "-m", "pytest", "-q", "-p", "proofs_tests.coverage", *spread, *tests]
    code = subprocess.run(run, cwd=HERE, env=around, check=False).returncode
    more = ["--append"] if add and (FOLDER / "data").exists() else []
    subprocess.run([*coverage, "combine", rc, "-q", *more], cwd=HERE, env=around, check=True)
    report = FOLDER / "report.json"
    subprocess.run([*coverage, "json", rc, "-q", "-o", str(report)], cwd=HERE, env=around, check=True)
    files: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))["files"]
    return int(code != 0), files


def pytest_sessionfinish() -> None:
    """What a process of the tests has reached is written while it runs: one that is slow to end is killed."""
    from coverage import Coverage

    if (measuring := Coverage.current()) is not None:
        measuring.save()


def not_here() -> list[str]:
    """The modules that are not installed, of those without which some of the library does not run."""
    return [module for module in ABSENT if find_spec(module) is None]


def by_room(files: Mapping[str, Any], rooms: Sequence[str]) -> list[Reached]:
    """The sums over the rooms that are named, or over the rooms of the library and all of it."""
    if rooms:
        return [_sum(name, [files[path] for path in SCOPES[name].paths() if path in files]) for name in rooms]
    found = [_sum(room, [of for path, of in files.items() if path.startswith(f"{room}/")]) for room in LIBRARY]
    return [*found, _sum("the library", list(files.values()))]


def _sum(name: str, files: Sequence[Mapping[str, Any]]) -> Reached:
    def total(field: str) -> int:
        return sum(of["summary"][field] for of in files)

    return Reached(
        name, total("covered_lines"), total("num_statements"), total("covered_branches"), total("num_branches")
    )


def missing(of: Mapping[str, Any]) -> str:
    """The lines, and the branches from a line to another, that no test has reached."""
    lines = [str(line) for line in of["missing_lines"]]
    branches = [f"{a}→{b if b > 0 else 'end'}" for a, b in of["missing_branches"] if a not in of["missing_lines"]]
    return ", ".join((*lines, *branches))


if __name__ == "__main__":
    sys.exit(main())
