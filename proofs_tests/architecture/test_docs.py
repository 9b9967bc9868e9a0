"""Documents: their examples run, and their links have targets."""

from __future__ import annotations

import doctest
import re
import tomllib
from pathlib import Path

import pytest

import atl
from proofs_tests.rules.declarations import declaration
from proofs_tests.rules.page import statement, status_of
from rewrites.rules import RULES

HERE = Path(__file__).resolve().parents[2]
DOCUMENTS = (HERE / "README.md", *sorted((HERE / "docs").glob("*.md")))
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#([^)]+))?\)")


def named(document: Path) -> str:
    return str(document.relative_to(HERE))


def anchors(text: str) -> set[str]:
    """Return the link anchors of the headings."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


# pytest collects the examples in docs/ itself.
@pytest.mark.long
def test_readme_examples_run() -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    found = doctest.testfile(str(HERE / "README.md"), module_relative=False, optionflags=flags, encoding="utf-8")
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_every_python_block_is_a_doctest(document: Path) -> None:
    for language, block in FENCED.findall(document.read_text(encoding="utf-8")):
        assert language == "python", f"a block of {language or 'no language'}: {block[:60]}"
        lines = [line for line in block.splitlines() if line.strip()]
        assert lines[0].startswith(">>> ")
        assert block.endswith("\n\n") or not lines[-1].startswith((" ", "...")), "the fence would be read as output"


@pytest.mark.parametrize("document", [*DOCUMENTS, HERE / "CONTRIBUTING.md"], ids=named)
def test_links_have_targets(document: Path) -> None:
    for target, anchor in LINK.findall(document.read_text(encoding="utf-8")):
        there = document.parent / target
        assert there.is_file(), target
        if anchor:
            assert anchor in anchors(there.read_text(encoding="utf-8"))


def test_page_lists_extras_and_the_cache() -> None:
    page = (HERE / "docs" / "install.md").read_text(encoding="utf-8")
    project = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert [extra for extra in project["optional-dependencies"] if extra != "dev" and f"`{extra}`" not in page] == []
    assert re.findall(r"ATL_\w+", page) == ["ATL_CACHE"]


def test_pictures_are_small() -> None:
    assert all(picture.stat().st_size < 200_000 for picture in (HERE / "docs").glob("*.png"))


def test_page_lists_the_recipes_in_order() -> None:
    page = (HERE / "docs" / "fast.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| .* \| `(\w+)` \|$", page, re.MULTILINE) == [recipe.name for recipe in atl.RECIPES]


@pytest.mark.long
def test_page_of_rules_matches_the_declarations() -> None:
    page = (HERE / "docs" / "rules.md").read_text(encoding="utf-8")
    listed = []
    for entry in re.split(r"^### ", page, flags=re.MULTILINE)[1:]:
        first, _, text = entry.partition("\n")
        likewise = re.search(r"Likewise (.+)\.$", text, re.MULTILINE)
        others = re.findall(r"`(\w+)`", likewise[1]) if likewise else []
        assert f"\n### {entry}".startswith(statement(RULES[first]))
        assert {(declaration(RULES[name]), status_of(RULES[name])) for name in others} <= {
            (declaration(RULES[first]), status_of(RULES[first]))
        }
        listed += [first, *others]
    assert listed == list(RULES)
