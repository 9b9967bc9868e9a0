"""Examples of every error code, their messages and their corrections."""

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


def messages_on_the_page() -> dict[str, str]:
    text = PAGE.read_text(encoding="utf-8")
    found = re.findall(r"^### (ATL\d+) .*?^raises:\n\n(.*?)\n\nCorrection: ", text, re.MULTILINE | re.DOTALL)
    return {code: dedent(message) for code, message in found}


@pytest.mark.sampled
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: str(entry.code))
def test_example_raises_its_code_and_the_correction_works(entry: Entry, tmp_path: Path) -> None:
    assert faults(entry, tmp_path) == []


def faults(entry: Entry, folder: Path) -> list[str]:
    """Return the faults of an entry."""
    found = refusal(entry, folder)
    if found is None or type(found).code != entry.code:
        return [f"{entry.code} is not caused, but {found}"]
    out = []
    shown_lines = "\n".join(line for line in str(found).splitlines() if re.match(r"\S|  \w|      > ", line))
    if (entry.advice or entry.new) not in shown_lines:
        out.append(f"{entry.code} does not advise {entry.advice or entry.new}: {found}")
    if shown(found) != messages_on_the_page()[entry.code]:
        out.append(f"{entry.code} says something else than docs/errors.md: python -m proofs_tests.errors.catalogue")
    try:
        run(entry.cured, folder)
    except ATLError as error:
        out.append(f"{entry.code} is not cured: {error}")
    return out


def test_wrong_entry_is_found(tmp_path: Path) -> None:
    (right,) = [entry for entry in ENTRIES if entry.code == "ATL206"]
    assert "is not caused" in faults(replace(right, code="ATL205"), tmp_path)[0]
    assert "is not caused" in faults(replace(right, wrong="x[0]\n"), tmp_path)[0]
    assert "does not advise" in faults(replace(right, advice="something else"), tmp_path)[0]
    assert "is not cured" in faults(replace(right, old="n <= 3", new="n <= 2"), tmp_path)[-1]


def test_catalogue_is_complete() -> None:
    declared = list(classes())
    assert [entry.code for entry in ENTRIES] == declared
    assert len(declared) >= 60
    for package in ("atl", "padtypes", "layouts", "rewrites", "lowering", "sparse", "gradients", "bench"):
        for path in (HERE / package).rglob("*.py"):
            for code in re.findall(r'^    code.* = "(ATL\d+)"', path.read_text(encoding="utf-8"), re.MULTILINE):
                assert code in (*declared, "ATL000"), path


def test_page_matches_the_catalogue() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(messages_on_the_page())


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: str(entry.code))
def test_examples_contain_no_test_scaffolding(entry: Entry) -> None:
    for scaffolding in ("mock", "proofs_tests", "bench.", "commands", "ctypes", "Namespace", "find_spec", "stand-in"):
        assert scaffolding not in entry.example
    assert not re.search(r"\b_[a-z]\w*\(|import _|before, ", entry.example)
    assert bool(entry.shown) == bool(entry.cure)


def test_language_errors_are_exported() -> None:
    for name, value in vars(errors).items():
        if isinstance(value, type) and issubclass(value, ATLError):
            assert getattr(atl, name) is value
            assert name in atl.__all__
