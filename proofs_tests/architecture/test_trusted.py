"""The page about what is trusted names parts that exist, and says about how large they are."""

from __future__ import annotations

import pytest

from proofs_tests.architecture.trusted import PAGE, lines_of, said

ROWS = list(said(PAGE.read_text(encoding="utf-8")))


def test_the_page_counts_something() -> None:
    assert len(ROWS) >= 10


@pytest.mark.parametrize(("names", "lines"), ROWS, ids=[names[0] for names, _ in ROWS])
def test_a_part_is_about_as_large_as_the_page_says(names: tuple[str, ...], lines: int) -> None:
    assert abs(lines_of(names) - lines) <= 0.1 * lines


def test_a_part_that_is_not_there_is_found() -> None:
    with pytest.raises(FileNotFoundError):
        lines_of(("rewrites/kernel_of_old",))
