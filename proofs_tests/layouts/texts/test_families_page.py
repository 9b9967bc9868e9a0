"""The page on layout families matches the command's output, and has no empty cell."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from layouts import families_table
from layouts.pictures.support_table import OPERATIONS, families

PAGE = Path(__file__).resolve().parents[3] / "docs" / "layout-families.md"


@pytest.mark.skipif(
    find_spec("islpy") is None, reason="isl, for the row of relations: pip install 'atl-tensor[layouts]'"
)
def test_page_matches_the_command() -> None:
    _, _, printed = PAGE.read_text(encoding="utf-8").partition("The layouts in the table:")
    _, _, made = families_table().partition("The layouts in the table:")
    assert printed == made, "atl layout --families, below the head of docs/layout-families.md"


def test_cells_are_filled_and_numbers_have_reasons() -> None:
    table = families_table()
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("|")]
    assert len(rows) == len(OPERATIONS) + 2
    reasons = {line.partition(". ")[0] for line in table.splitlines() if line[:1].isdigit()}
    for row in rows[2:]:
        cells = [cell.strip() for cell in row]
        assert len(cells) == len(families()) + 1
        assert all(cells)
        assert {cell[1:-1] for cell in cells if cell.startswith("(") and cell[1:-1].isdigit()} <= reasons
