"""The page of tactics is generated from docstrings and covers every call of a session."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from atl.cli import main as command_line
from atl.cli.command import REFUSED
from rewrites import Session
from rewrites.session import catalogue

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tactics.md"


def test_page_matches_the_docstrings() -> None:
    assert PAGE.read_text(encoding="utf-8") == catalogue.markdown(), "atl tactics --markdown > docs/tactics.md"


def test_every_session_call_has_an_entry() -> None:
    headings = re.findall(r"^### (\w+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(headings) == sorted(name for name in dir(Session) if not name.startswith("_"))


@pytest.mark.parametrize("entry", list(catalogue.tactics_of_sessions()), ids=lambda entry: str(entry.name))
def test_tactic_entries_show_before_and_after(entry: catalogue.Entry) -> None:
    assert "→" in entry.text.partition("\n>>> ")[0]
    assert re.search(rf"^>>> s\.{entry.name}\([^>]*:=", entry.text, re.MULTILINE)


def test_command_lists_tactics_and_prints_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line(["tactics"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed] == [entry.name for entry in catalogue.tactics_of_sessions()]
    assert command_line(["tactics", "tile"]) == 0
    assert capsys.readouterr().out.startswith("s.tile(name, by, *, in_=None)\n\nTile a loop by")
    assert command_line(["tactics", "interchang"]) == REFUSED
    assert "did you mean interchange or exchange?" in capsys.readouterr().err
