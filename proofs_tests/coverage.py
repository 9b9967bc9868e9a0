"""Coverage of the library by its tests, by package: `python -m proofs_tests.coverage [PACKAGE…]`.

Without arguments the whole suite runs and the whole library is measured. A package runs with the tests that
`proofs_tests.mutation` lists for it. Subprocesses of tests and the `--workers` of pytest-xdist are measured too.
coverage.py must be installed. `--missing` lists the lines and branches that no test reaches.

`--tests PATH` runs a part of the suite, and `--add` adds the results of earlier runs. A branch is an outcome of a
condition. A `case` without a condition is not counted as a branch: the line below it shows if it is reached. Functions
that need a module which is not installed are excluded, and the last lines of the report list them.
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

LIBRARY: Final = ("atl", "padtypes", "layouts", "rewrites", "lowering", "sparse", "gradients")
FOLDER: Final = HERE / "out" / "coverage"
SETTINGS: Final = """\
[run]
branch = True
parallel = True
data_file = {folder}/data
{measured_files}
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
# mypy checks that the last case of a match over a closed union applies. No input reaches a line that raises
# AssertionError.
ABSENT: Final = {
    "torch": (
        r"^def torch_operator\(",
        r"^def registered\(",
        r"^def unused_name\(name",
        r"^def torch_type\(",
        r"^def _caller\(program: Program, call",
        r"^def _over_batch\(operator",
        r"^def with_named_results\(program: Program, operator",
        r"^def _kind_of\(array: Array",
        r"^    def torch\(self\) -> Any:",
        r"^    def _operator\(self\) -> Any:",
        r"^    def _registered\(self, name",
        r"^    def operator_named\(self, name",
        r"^    def needs_sizes\(self\) -> bool:",
        r"^    def reads\(self\) -> tuple",
        r"^def _with_tensors\($",
        r"^def _refuse_tangents\(program",
        r"^def _joined\(cotangents",
    ),
    "jax": (
        r"^    def function\(\*arrays: Any, \*\*named: Any\) -> Any:",
        r"^    def whole\(sizes: Mapping",
        r"^def jax_call\(program",
        r"^def _by_name\(program: Program, arrays: Sequence\[Any\]",
        r"^def _is_number\(value: object\)",
        r"^def _check\(array: Array, value: Any\)",
        r"^    def jax\(self\) -> Callable",
        r"^    def whole\(self, sizes",
        r"^    def _whole_functions\(self\)",
        r"^    def _custom_vjp\(self, sizes",
        r"^    def _plain\(self\) -> Differentiable:",
        r"^class _Pullback:",
    ),
}
"""Code of lowering/calls/operators.py and gradients/training.py that runs only where a module is installed."""


@dataclass(frozen=True, slots=True)
class Reached:
    """Numbers of covered statements and branches of a package."""

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
    # Rounded down, so that 100 % means all.
    return f"{(10_000 * reached // of if of else 10_000) / 100:6.2f} %"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Return 1 if a test fails, 2 if coverage.py is not installed."""
    parser = argparse.ArgumentParser(
        prog="python -m proofs_tests.coverage", description="Measure the coverage of the tests."
    )
    parser.add_argument("packages", nargs="*", metavar="PACKAGE", help=f"{', '.join(SCOPES)} (default: all)")
    parser.add_argument("--workers", default="0", help="processes of pytest-xdist (default: none)")
    parser.add_argument("--tests", action="append", default=[], metavar="PATH", help="run only these tests")
    parser.add_argument("--add", action="store_true", help="count what earlier runs have reached too")
    parser.add_argument("--missing", action="store_true", help="list what no test reaches")
    asked = parser.parse_args(argv)
    if unknown := [name for name in asked.packages if name not in SCOPES]:
        parser.error(f"unknown package {unknown[0]}; one of {', '.join(SCOPES)}")
    if find_spec("coverage") is None:
        print("the package coverage is not installed: pip install coverage", file=sys.stderr)
        return 2
    tests = asked.tests or list(dict.fromkeys(test for name in asked.packages for test in SCOPES[name].tests))
    # Measuring is slow: include the files of the given packages only. For the whole library, include unimported files.
    included = ",".join(str(HERE / path) for name in asked.packages for path in SCOPES[name].paths())
    source = ",".join(str(HERE / name) for name in LIBRARY)
    measured_files = f"include = {included}" if included else f"source = {source}"
    code, files = measured(tests, measured_files, asked.workers, add=asked.add)
    for reached in by_package(files, asked.packages):
        print(reached)
    for module in () if asked.packages else absent_modules():
        print(f"not counted, as {module} is not installed: {len(ABSENT[module])} functions that need it")
    if asked.missing:
        wanted = {path for name in asked.packages for path in SCOPES[name].paths()} or set(files)
        for path in sorted(wanted & set(files)):
            if not_reached := missing(files[path]):
                print(f"{path}: {not_reached}")
    return code


def measured(tests: Sequence[str], measured_files: str, workers: str, *, add: bool) -> tuple[int, dict[str, Any]]:
    """Run tests (all if none are given). Return their exit code and the coverage of each file."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob("data.*" if add else "data*"):
        old.unlink()
    settings = FOLDER / "settings"
    absent = "\n".join(f"    {line}" for module in absent_modules() for line in ABSENT[module])
    settings.write_text(SETTINGS.format(folder=FOLDER, measured_files=measured_files, absent=absent), encoding="utf-8")
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
    """Write the results of a worker early, because slow ones are killed."""
    from coverage import Coverage

    if (measuring := Coverage.current()) is not None:
        measuring.save()


def absent_modules() -> list[str]:
    """Return the optional modules that are not installed."""
    return [module for module in ABSENT if find_spec(module) is None]


def by_package(files: Mapping[str, Any], packages: Sequence[str]) -> list[Reached]:
    """Return the sums for these packages, or for the library's packages and the whole library."""
    if packages:
        return [_sum(name, [files[path] for path in SCOPES[name].paths() if path in files]) for name in packages]
    found = [_sum(package, [of for path, of in files.items() if path.startswith(f"{package}/")]) for package in LIBRARY]
    return [*found, _sum("the library", list(files.values()))]


def _sum(name: str, files: Sequence[Mapping[str, Any]]) -> Reached:
    def total(field: str) -> int:
        return sum(of["summary"][field] for of in files)

    return Reached(
        name, total("covered_lines"), total("num_statements"), total("covered_branches"), total("num_branches")
    )


def missing(of: Mapping[str, Any]) -> str:
    """Return the lines and branches that no test has reached."""
    lines = [str(line) for line in of["missing_lines"]]
    branches = [f"{a}→{b if b > 0 else 'end'}" for a, b in of["missing_branches"] if a not in of["missing_lines"]]
    return ", ".join((*lines, *branches))


if __name__ == "__main__":
    sys.exit(main())
