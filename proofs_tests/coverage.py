"""`python -m proofs_tests.coverage [ROOM…]`: which lines and branches of the library its tests reach, room by room.

Without rooms the whole suite runs over the whole library; kernel, certificates, padtypes and prove run with the tests
that `proofs_tests.mutation` asks for them. What processes of tests start is counted too, and `--workers` of
pytest-xdist. Needs the package coverage; with `--missing` the lines and branches are listed that no test reaches.
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

from proofs_tests.mutation.rooms import HERE, ROOMS

LIBRARY: Final = ("atl", "padtypes", "layouts", "rewrites", "lowering", "sparse")
FOLDER: Final = HERE / "out" / "coverage"
SETTINGS: Final = """\
[run]
branch = True
parallel = True
data_file = {folder}/data
source = {sources}
patch = subprocess
[report]
exclude_also =
    if TYPE_CHECKING:
    @overload
    assert_never\\(
    @(abc\\.)?abstractmethod
    ^\\s*\\.\\.\\.$
"""


@dataclass(frozen=True, slots=True)
class Reached:
    """How much of a room is reached: statements and branches, of how many."""

    name: str
    statements: int
    of_statements: int
    branches: int
    of_branches: int

    def __str__(self) -> str:
        parts = self.statements + self.branches, self.of_statements + self.of_branches
        share = 100 * parts[0] / parts[1] if parts[1] else 100.0
        lines = f"{self.statements} of {self.of_statements} statements"
        return f"{self.name:28} {share:6.2f} %  {lines}, {self.branches} of {self.of_branches} branches"


def main(argv: Sequence[str] | None = None) -> int:
    """The command: 1 if a test fails, 2 without the package coverage."""
    parser = argparse.ArgumentParser(prog="python -m proofs_tests.coverage", description="What the tests reach.")
    parser.add_argument("rooms", nargs="*", metavar="ROOM", help=f"{', '.join(ROOMS)} (default: the whole library)")
    parser.add_argument("--workers", default="0", help="processes of pytest-xdist (default: none)")
    parser.add_argument("--missing", action="store_true", help="list what no test reaches")
    asked = parser.parse_args(argv)
    if unknown := [name for name in asked.rooms if name not in ROOMS]:
        parser.error(f"there is no room {unknown[0]}; one of {', '.join(ROOMS)}")
    if find_spec("coverage") is None:
        print("the package coverage is not installed: pip install coverage", file=sys.stderr)
        return 2
    tests = list(dict.fromkeys(test for name in asked.rooms for test in ROOMS[name].tests))
    code, files = measured(tests, asked.workers)
    for reached in by_room(files, asked.rooms):
        print(reached)
    if asked.missing:
        wanted = {path for name in asked.rooms for path in ROOMS[name].paths()} or set(files)
        for path in sorted(wanted & set(files)):
            if not_reached := missing(files[path]):
                print(f"{path}: {not_reached}")
    return code


def measured(tests: Sequence[str], workers: str) -> tuple[int, dict[str, Any]]:
    """Runs tests, all if none are named; gives their exit code, and what was reached of each file."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob("data*"):
        old.unlink()
    settings = FOLDER / "settings"
    sources = ",".join(str(HERE / room) for room in LIBRARY)
    settings.write_text(SETTINGS.format(folder=FOLDER, sources=sources), encoding="utf-8")
    coverage = [sys.executable, "-m", "coverage"]
    rc = f"--rcfile={settings}"
    around = {**os.environ, "COVERAGE_CORE": "ctrace"}
    spread = ["-n", workers] if workers != "0" else []
    run = [*coverage, "run", rc, "-m", "pytest", "-q", *spread, *tests]
    code = subprocess.run(run, cwd=HERE, env=around, check=False).returncode
    subprocess.run([*coverage, "combine", rc, "-q"], cwd=HERE, env=around, check=True)
    report = FOLDER / "report.json"
    subprocess.run([*coverage, "json", rc, "-q", "-o", str(report)], cwd=HERE, env=around, check=True)
    files: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))["files"]
    return int(code != 0), files


def by_room(files: Mapping[str, Any], rooms: Sequence[str]) -> list[Reached]:
    """The sums over the rooms that are named, or over the rooms of the library and all of it."""
    if rooms:
        return [_sum(name, [files[path] for path in ROOMS[name].paths() if path in files]) for name in rooms]
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
