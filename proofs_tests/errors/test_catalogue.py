"""Every code is caused, says what its page says, and is cured by what it advises."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

import atl
from atl import errors
from atl.errors import ATLError
from proofs_tests.architecture.tree import HERE
from proofs_tests.errors.catalogue import ENTRIES, classes, page, shown
from proofs_tests.errors.entry import Entry, refusal, run

PAGE = HERE / "docs" / "errors.md"


def said_on_the_page() -> dict[str, str]:
    """The message of each code, as the page has it."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.findall(r"^### (ATL\d+) .*?^is refused:\n\n(.*?)\n\nCured: ", text, re.MULTILINE | re.DOTALL)
    return {code: dedent(message) for code, message in found}


@pytest.mark.sampled
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: str(entry.code))
def test_a_code_is_caused_and_what_it_advises_cures_it(entry: Entry, tmp_path: Path) -> None:
    assert faults(entry, tmp_path) == []


def faults(entry: Entry, folder: Path) -> list[str]:
    """What is wrong with a line of the catalogue."""
    found = refusal(entry, folder)
    if found is None or type(found).code != entry.code:
        return [f"{entry.code} is not caused, but {found}"]
    out = []
    told = "\n".join(line for line in str(found).splitlines() if re.match(r"\S|  \w|      > ", line))
    if (entry.advice or entry.new) not in told:
        out.append(f"{entry.code} does not advise {entry.advice or entry.new}: {found}")
    if shown(found) != said_on_the_page()[entry.code]:
        out.append(f"{entry.code} says something else than docs/errors.md: python -m proofs_tests.errors.catalogue")
    try:
        run(entry.cured, folder)
    except ATLError as error:
        out.append(f"{entry.code} is not cured: {error}")
    return out


def test_a_line_that_is_wrong_is_found(tmp_path: Path) -> None:
    (right,) = [entry for entry in ENTRIES if entry.code == "ATL206"]
    assert "is not caused" in faults(replace(right, code="ATL205"), tmp_path)[0]
    assert "is not caused" in faults(replace(right, wrong="x[0]\n"), tmp_path)[0]
    assert "does not advise" in faults(replace(right, advice="something else"), tmp_path)[0]
    assert "is not cured" in faults(replace(right, old="n <= 3", new="n <= 2"), tmp_path)[-1]


def test_the_catalogue_is_complete() -> None:
    declared = list(classes())
    assert [entry.code for entry in ENTRIES] == declared
    assert len(declared) >= 60
    for room in ("atl", "padtypes", "layouts", "rewrites", "lowering", "sparse", "bench"):
        for path in (HERE / room).rglob("*.py"):
            for code in re.findall(r'^    code.* = "(ATL\d+)"', path.read_text(encoding="utf-8"), re.MULTILINE):
                assert code in (*declared, "ATL000"), path


def test_the_page_is_what_the_catalogue_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(said_on_the_page())


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: str(entry.code))
def test_an_example_is_what_a_user_writes(entry: Entry) -> None:
    for scaffolding in ("mock", "proofs_tests", "bench.", "commands", "ctypes", "Namespace", "find_spec", "stand-in"):
        assert scaffolding not in entry.example
    assert not re.search(r"\b_[a-z]\w*\(|import _|before, ", entry.example)
    assert bool(entry.shown) == bool(entry.cure)


def test_the_errors_of_the_language_are_reachable_as_its_names() -> None:
    for name, value in vars(errors).items():
        if isinstance(value, type) and issubclass(value, ATLError):
            assert getattr(atl, name) is value
            assert name in atl.__all__
