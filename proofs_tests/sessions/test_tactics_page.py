"""The page of tactics: made of the docstrings, with every call of a session, each before → after and shown at work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from atl.cli import main as command_line
from atl.cli.command import REFUSED
from rewrites import Session
from rewrites.session import catalogue

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tactics.md"


def test_the_page_is_what_the_docstrings_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == catalogue.markdown(), "atl tactics --markdown > docs/tactics.md"


def test_every_call_of_a_session_has_its_entry() -> None:
    headings = re.findall(r"^### (\w+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(headings) == sorted(name for name in dir(Session) if not name.startswith("_"))


@pytest.mark.parametrize("entry", list(catalogue.tactics_of_sessions()), ids=lambda entry: str(entry.name))
def test_a_tactic_says_before_and_after_and_shows_it(entry: catalogue.Entry) -> None:
    assert "→" in entry.text.partition("\n>>> ")[0]
    assert re.search(rf"^>>> s\.{entry.name}\([^>]*:=", entry.text, re.MULTILINE)


def test_the_command_lists_all_tactics_and_prints_one_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line(["tactics"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed] == [entry.name for entry in catalogue.tactics_of_sessions()]
    assert command_line(["tactics", "tile"]) == 0
    assert capsys.readouterr().out.startswith("s.tile(name, by, *, in_=None)\n\nTile a loop by")
    assert command_line(["tactics", "interchang"]) == REFUSED
    assert "did you mean interchange?" in capsys.readouterr().err
