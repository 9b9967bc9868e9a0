"""The table of operators: every cell is built, and the page shows what was built."""

from itertools import product
from pathlib import Path

import pytest

from proofs_tests.instructions.operators import CELLS, OPERATORS, SCOPES, entry, page

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"


def test_table_has_no_empty_cell() -> None:
    assert {(cell.operator, cell.scope) for cell in CELLS} == set(product(OPERATORS, SCOPES))


def test_entries_are_read_from_what_is_built() -> None:
    cells = {(cell.operator, cell.scope, cell.layout): cell for cell in CELLS}
    assert entry(cells["gemm", "thread", "rows"]) == "`sgemm`"
    assert entry(cells["pointwise", "thread", "rows"]) == "loops"
    assert entry(cells["copy", "warp", "permuted lanes"]) == "`__shfl_sync`"
    assert entry(cells["reduce", "mesh", "rows"]) == "all-reduce"
    assert entry(cells["gemm", "thread", "overlapping rows"]).startswith("refused: sgemm does not compute p [ATL704]")


@pytest.mark.long
def test_page_is_that_of_the_built_cells() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()
