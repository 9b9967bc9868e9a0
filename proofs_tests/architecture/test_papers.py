"""The table of the papers: its paths and tests exist, and what is partial has a reason; all errata are listed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

HERE: Final = Path(__file__).parents[2]
PAGE: Final = (HERE / "docs" / "papers.md").read_text(encoding="utf-8")
ROWS: Final = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| section")
]
QUOTED: Final = re.compile(r"`([^`]+)`")


def problems(row: list[str]) -> list[str]:
    """Return what is wrong with a row of the table."""
    if len(row) != 5:
        return [f"{len(row)} columns"]
    _, _, where, tests, status = row
    found = []
    if status.startswith("not here"):
        return [] if status.removeprefix("not here").strip(": ") else ["no reason"]
    if status.startswith("partial") and not re.fullmatch(r"partial: .{8,}", status):
        found.append("partial without a reason")
    places = QUOTED.findall(where)
    if not places and "](" not in where:
        found.append("no place")
    found += [f"{place} does not exist" for place in places if not (HERE / place).exists()]
    named = QUOTED.findall(tests)
    if not named:
        found.append("no test")
    for test in named:
        path, _, function = test.partition("::")
        file = HERE / path
        if not file.is_file() or not file.name.startswith("test_"):
            found.append(f"{path} is not a file of tests")
        elif function and not re.search(rf"^def {function}\(", file.read_text(encoding="utf-8"), re.MULTILINE):
            found.append(f"{path} has no {function}")
    return found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]} {row[1]}"[:60])
def test_row_names_places_and_tests_that_exist(row: list[str]) -> None:
    assert problems(row) == []


@pytest.mark.parametrize(
    ("column", "text", "problem"),
    [
        (2, "`atl/nowhere.py`", "does not exist"),
        (2, "somewhere", "no place"),
        (3, "`proofs_tests/rules/test_rules.py::test_nothing`", "has no test_nothing"),
        (3, "`proofs_tests/rules/nothing.py`", "is not a file of tests"),
        (3, "", "no test"),
        (4, "partial", "partial without a reason"),
    ],
)
def test_faults_in_a_row_are_found(column: int, text: str, problem: str) -> None:
    row = ["1", "a feature", "`atl`", "`proofs_tests/rules/test_rules.py`", ""]
    assert problems(row) == []
    row[column] = text
    assert any(problem in each for each in problems(row))


def test_every_paper_has_a_table() -> None:
    assert len(re.findall(r"^## ", PAGE, re.MULTILINE)) == PAGE.count("| section |") == 5


def test_page_of_errata_lists_each_one() -> None:
    page = (HERE / "docs" / "errata.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| E(\d+) \|", page, re.MULTILINE), key=int) == [str(at) for at in range(1, 36)]
