"""The documents are true: every example in them runs, every command gives what is shown, every link leads somewhere."""

from __future__ import annotations

import doctest
import re
import tomllib
from pathlib import Path

import pytest

from proofs_tests.rules.page import statement
from rewrites.rules import RULES

HERE = Path(__file__).resolve().parents[2]
DOCUMENTS = (HERE / "README.md", *sorted((HERE / "docs").glob("*.md")))
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#([^)]+))?\)")


def named(document: Path) -> str:
    return str(document.relative_to(HERE))


def anchors(text: str) -> set[str]:
    """What the headings of a document are linked to by."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


# pytest collects those in docs/ by itself.
@pytest.mark.long
def test_the_examples_in_the_readme_run() -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    found = doctest.testfile(str(HERE / "README.md"), module_relative=False, optionflags=flags, encoding="utf-8")
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_no_python_block_escapes_from_being_run(document: Path) -> None:
    for language, block in FENCED.findall(document.read_text(encoding="utf-8")):
        assert language == "python", f"a block of {language or 'no language'}: {block[:60]}"
        lines = [line for line in block.splitlines() if line.strip()]
        assert lines[0].startswith(">>> ")
        assert block.endswith("\n\n") or not lines[-1].startswith((" ", "...")), "the fence would be read as output"


@pytest.mark.parametrize("document", [*DOCUMENTS, HERE / "CONTRIBUTING.md"], ids=named)
def test_every_link_leads_somewhere(document: Path) -> None:
    for target, anchor in LINK.findall(document.read_text(encoding="utf-8")):
        there = document.parent / target
        assert there.is_file(), target
        if anchor:
            assert anchor in anchors(there.read_text(encoding="utf-8"))


def test_every_extra_and_where_builds_are_kept_is_told() -> None:
    told = (HERE / "docs" / "install.md").read_text(encoding="utf-8")
    project = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert [extra for extra in project["optional-dependencies"] if extra != "dev" and f"`{extra}`" not in told] == []
    assert re.findall(r"ATL_\w+", told) == ["ATL_CACHE"]


def test_pictures_are_small() -> None:
    assert all(picture.stat().st_size < 200_000 for picture in (HERE / "docs").glob("*.png"))


@pytest.mark.long
def test_the_page_of_rules_says_what_is_declared() -> None:
    page = (HERE / "docs" / "rules.md").read_text(encoding="utf-8")
    assert [rule for rule in RULES.values() if statement(rule) not in page] == []
    assert re.findall(r"^### (.+)$", page, re.MULTILINE) == list(RULES)
