"""The coverage tool: reached lines and branches, counted also if test processes are killed."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from proofs_tests import coverage
from proofs_tests.coverage import ABSENT, LIBRARY, Reached, measured, missing
from proofs_tests.mutation.packages import HERE
from proofs_tests.mutation.reaching import _Traced

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
def test_coverage_survives_a_killed_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest-xdist kills workers that take more than ten seconds to end."""
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
    text = " ".join(str(Reached("scope", 9_999, 10_000, 199_999, 200_000)).split())
    assert text == "scope 99.99 % of 200000 branches, 99.99 % of 10000 statements"


def test_trace_function_is_restored() -> None:
    def tracer(frame: FrameType, event: str, argument: object) -> Any:
        return None

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        with _Traced({}).of("a test"):
            assert sys.gettrace() is not tracer
        after = sys.gettrace()
    finally:
        sys.settrace(before)
    assert after is tracer


@pytest.mark.long
def test_uncounted_patterns_match_one_function_each() -> None:
    texts = {path: path.read_text(encoding="utf-8") for package in LIBRARY for path in (HERE / package).rglob("*.py")}
    for pattern in (line for lines in ABSENT.values() for line in lines):
        found = [path.name for path, text in texts.items() for _ in re.finditer(pattern, text, re.MULTILINE)]
        assert found in (["operators.py"], ["training.py"]), pattern
