"""docs/trusted.md: its parts exist and have about the stated sizes."""

from __future__ import annotations

import pytest

from proofs_tests.architecture.trusted import HERE, PAGE, lines_of, stated_sizes
from proofs_tests.mutation.packages import SCOPES

ROWS = list(stated_sizes(PAGE.read_text(encoding="utf-8")))


def test_page_counts_at_least_ten_parts() -> None:
    assert len(ROWS) >= 10


@pytest.mark.parametrize(("names", "lines"), ROWS, ids=[names[0] for names, _ in ROWS])
def test_stated_size_is_about_right(names: tuple[str, ...], lines: int) -> None:
    assert abs(lines_of(names) - lines) <= 0.1 * lines


def test_missing_part_is_found() -> None:
    with pytest.raises(FileNotFoundError):
        lines_of(("rewrites/kernel_of_old",))


def test_parts_trusted_for_theorems_are_under_mutation_testing() -> None:
    """Mutants of the rules in `rewrites/rules` are other equations: see `proofs_tests/rules/mutation.py`."""
    page = PAGE.read_text(encoding="utf-8")
    section = page[page.index("## Trusted for theorems") : page.index("With Rocq, these parts need not be trusted")]
    mutated = {path for scope in SCOPES.values() for path in scope.paths()}
    parts = [HERE / name for names, _ in stated_sizes(section) for name in names]
    files = {file for part in parts for file in ([part] if part.is_file() else part.rglob("*.py"))}
    trusted = {str(file.relative_to(HERE)) for file in files if file.name != "__init__.py"}
    assert {path for path in trusted - mutated if not path.startswith("rewrites/rules/")} == set()
    assert "rewrites/kernel.py" in trusted
