"""The documents' notebooks: their outputs agree with the stored ones, in this process and in a Jupyter kernel."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from proofs_tests.notebooks.executing import compared, executed
from proofs_tests.notebooks.stored import FOLDER, Cell, cells_of, differences, paths, shown

NAMES = ["fast-product", "first-steps", "gradients", "layouts-of-four-papers", "sparse-kernel", "tiled-blur"]


def test_notebooks_are_known_by_name() -> None:
    assert [path.stem for path in paths()] == NAMES


@pytest.mark.long
@pytest.mark.sampled
@pytest.mark.parametrize("name", NAMES)
def test_notebook_shows_the_stored_outputs(name: str) -> None:
    assert compared(FOLDER / f"{name}.ipynb") == []


@pytest.mark.long
def test_jupyter_kernel_shows_the_same() -> None:
    path = FOLDER / "first-steps.ipynb"
    now = [shown(cell["outputs"]) for cell in executed(path).cells if cell["cell_type"] == "code"]
    assert now == [cell.shown for cell in cells_of(path)]


@pytest.mark.parametrize("name", NAMES)
def test_notebook_explains_each_cell_and_ends_with_further_reading(name: str) -> None:
    cells = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    kinds = [cell["cell_type"] for cell in cells]
    assert kinds[0] == kinds[-1] == "markdown"
    assert "## Further reading" in "".join(cells[-1]["source"])
    assert [k for k in range(1, len(kinds)) if kinds[k - 1] == kinds[k] == "code"] == []


@pytest.mark.parametrize("name", NAMES)
def test_stored_outputs_contain_no_machine_paths(name: str) -> None:
    text = (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
    found = re.findall(r"\bat 0x[0-9a-f]+|/home/\S+|/root/\S+|/tmp/\S+|ipykernel", text)
    assert found == []


def test_links_have_targets() -> None:
    missing = [
        (path.name, link)
        for path in paths()
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
        if cell["cell_type"] == "markdown"
        for link in re.findall(r"\]\(([^)#:]+)\)", "".join(cell["source"]))
        if not (FOLDER / link).exists()
    ]
    assert missing == []


def test_changed_output_is_found(tmp_path: Path) -> None:
    stored = json.loads((FOLDER / "first-steps.ipynb").read_text(encoding="utf-8"))
    stored["cells"] = stored["cells"][:6]
    output = next(cell for cell in stored["cells"] if cell.get("outputs"))["outputs"][0]
    output["data"]["text/plain"] = ["⌈n / 9⌉"]
    planted = tmp_path / "planted.ipynb"
    planted.write_text(json.dumps(stored), encoding="utf-8")
    (found,) = compared(planted)
    assert "stored: '⌈n / 9⌉'" in found
    assert "now:    '⌈n / 8⌉'" in found


def test_measured_numbers_may_differ_but_words_may_not() -> None:
    cell = Cell(1, "", True, (("stdout", "NumPy: 9.1 ms, ours: 10 ms\n"),))
    assert differences(cell, (("stdout", "NumPy: 12.75 ms, ours:  8 ms\n"),)) == []
    assert differences(cell, (("stdout", "NumPy: 9.1 s, ours: 10 ms\n"),)) != []
    assert differences(Cell(1, "", False, cell.shown), (("stdout", "NumPy: 9.2 ms, ours: 10 ms\n"),)) != []
