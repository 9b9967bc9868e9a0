"""docs/trusted.md: its parts exist and have about the stated sizes."""

from __future__ import annotations

import pytest

from proofs_tests.architecture.trusted import PAGE, lines_of, stated_sizes

ROWS = list(stated_sizes(PAGE.read_text(encoding="utf-8")))


def test_page_counts_at_least_ten_parts() -> None:
    assert len(ROWS) >= 10


@pytest.mark.parametrize(("names", "lines"), ROWS, ids=[names[0] for names, _ in ROWS])
def test_stated_size_is_about_right(names: tuple[str, ...], lines: int) -> None:
    assert abs(lines_of(names) - lines) <= 0.1 * lines


def test_missing_part_is_found() -> None:
    with pytest.raises(FileNotFoundError):
        lines_of(("rewrites/kernel_of_old",))
