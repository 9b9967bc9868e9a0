"""The notebooks of the documents: executed, they show what is stored in them, and a reader's kernel shows the same."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from proofs_tests.notebooks.executing import compared, executed
from proofs_tests.notebooks.stored import FOLDER, Cell, cells_of, differences, paths, shown

NAMES = ["fast-product", "first-steps", "layouts-of-four-papers", "sparse-kernel", "tiled-blur"]


def test_there_are_five() -> None:
    assert [path.stem for path in paths()] == NAMES


@pytest.mark.sampled
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_shows_what_is_stored(name: str) -> None:
    assert compared(FOLDER / f"{name}.ipynb") == []


@pytest.mark.long
def test_a_kernel_of_jupyters_shows_the_same() -> None:
    path = FOLDER / "first-steps.ipynb"
    now = [shown(cell["outputs"]) for cell in executed(path).cells if cell["cell_type"] == "code"]
    assert now == [cell.shown for cell in cells_of(path)]


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_says_something_before_each_cell_and_where_to_go_on(name: str) -> None:
    cells = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    kinds = [cell["cell_type"] for cell in cells]
    assert kinds[0] == kinds[-1] == "markdown"
    assert "## Further reading" in "".join(cells[-1]["source"])
    assert [k for k in range(1, len(kinds)) if kinds[k - 1] == kinds[k] == "code"] == []


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_one_machine_is_stored(name: str) -> None:
    text = (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
    found = re.findall(r"\bat 0x[0-9a-f]+|/home/\S+|/root/\S+|/tmp/\S+|ipykernel", text)
    assert found == []


def test_links_lead_somewhere() -> None:
    missing = [
        (path.name, link)
        for path in paths()
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
        if cell["cell_type"] == "markdown"
        for link in re.findall(r"\]\(([^)#:]+)\)", "".join(cell["source"]))
        if not (FOLDER / link).exists()
    ]
    assert missing == []


def test_a_difference_is_found(tmp_path: Path) -> None:
    stored = json.loads((FOLDER / "first-steps.ipynb").read_text(encoding="utf-8"))
    stored["cells"] = stored["cells"][:6]
    output = next(cell for cell in stored["cells"] if cell.get("outputs"))["outputs"][0]
    output["data"]["text/plain"] = ["⌈n / 9⌉"]
    planted = tmp_path / "planted.ipynb"
    planted.write_text(json.dumps(stored), encoding="utf-8")
    (found,) = compared(planted)
    assert "stored: '⌈n / 9⌉'" in found
    assert "now:    '⌈n / 8⌉'" in found


def test_the_numbers_of_a_cell_that_measures_may_differ_and_its_words_may_not() -> None:
    cell = Cell(1, "", True, (("stdout", "NumPy: 9.1 ms, ours: 10 ms\n"),))
    assert differences(cell, (("stdout", "NumPy: 12.75 ms, ours:  8 ms\n"),)) == []
    assert differences(cell, (("stdout", "NumPy: 9.1 s, ours: 10 ms\n"),)) != []
    assert differences(Cell(1, "", False, cell.shown), (("stdout", "NumPy: 9.2 ms, ours: 10 ms\n"),)) != []
