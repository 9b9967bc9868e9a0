"""What the tests reach is counted, whatever becomes of the processes that run them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from proofs_tests import coverage
from proofs_tests.coverage import ABSENT, LIBRARY, Reached, measured, missing
from proofs_tests.mutation.reaching import _Traced
from proofs_tests.mutation.rooms import HERE

ENDED: str = """
import os

def pytest_unconfigure():
    os._exit(0)
"""
REACHED: str = """
import sys
sys.path.insert(0, {folder!r})
import sign

def test_one_of_two():
    assert sign.of(3) == 1
"""
SIGN: str = "def of(a):\n    if a < 0:\n        return -1\n    return 1\n"


@pytest.mark.long
def test_what_a_process_has_reached_is_kept_where_its_end_is_cut_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of a process of pytest-xdist is which needs more than ten seconds for it."""
    monkeypatch.setattr(coverage, "FOLDER", tmp_path / "found")
    (tmp_path / "sign.py").write_text(SIGN, encoding="utf-8")
    (tmp_path / "conftest.py").write_text(ENDED, encoding="utf-8")
    (tmp_path / "test_sign.py").write_text(REACHED.format(folder=str(tmp_path)), encoding="utf-8")
    code, files = measured([str(tmp_path)], f"include = {tmp_path / 'sign.py'}", "0", add=False)
    assert code == 0
    ((_, found),) = files.items()
    assert missing(found) == "3, 2→3"
    summary = found["summary"]
    assert (summary["covered_branches"], summary["num_branches"]) == (1, 2)


def test_shares_are_rounded_down() -> None:
    said = " ".join(str(Reached("room", 9_999, 10_000, 199_999, 200_000)).split())
    assert said == "room 99.99 % of 200000 branches, 99.99 % of 10000 statements"


def test_who_looks_on_goes_on_after_a_test_was_traced() -> None:
    def looks_on(frame: FrameType, event: str, argument: object) -> Any:
        return None

    before = sys.gettrace()
    sys.settrace(looks_on)
    try:
        with _Traced({}).of("a test"):
            assert sys.gettrace() is not looks_on
        after = sys.gettrace()
    finally:
        sys.settrace(before)
    assert after is looks_on


def test_what_is_not_counted_where_a_module_is_absent_is_one_function_each() -> None:
    texts = {path: path.read_text(encoding="utf-8") for room in LIBRARY for path in (HERE / room).rglob("*.py")}
    for pattern in (line for lines in ABSENT.values() for line in lines):
        met = [path.name for path, text in texts.items() for _ in re.finditer(pattern, text, re.MULTILINE)]
        assert met == ["operators.py"], pattern
