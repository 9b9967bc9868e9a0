"""Rules of the test suite: `make test` runs some tests of each file, and the memory of a test process is limited."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import atl.checks.scope
from proofs_tests.memory import FULL, MOST, STEP, Memory, peak
from proofs_tests.mutation.planting import memos
from proofs_tests.sampling import MARKS, ONE_IN, few_and_rest, in_part, sample, take_part

HERE = Path(__file__).parents[2]
SELECTIONS = re.findall(r"-m '([^']+)'", (HERE / "Makefile").read_text(encoding="utf-8"))
"""Selections of the test targets in the Makefile."""


def test_selections_cover_every_file_and_test(request: pytest.FixtureRequest) -> None:
    """Checks the tests that this run has collected: with `make test`, all files."""
    if any("::" in argument for argument in request.config.args):
        pytest.skip("of some files only some tests are collected")
    marks = request.config.stash[MARKS]
    taken, left = (
        {name for name, marked in marks.items() if eval(selection, {mark: mark in marked for mark in ("long", "slow")})}
        for selection in SELECTIONS
    )
    assert {name.partition("::")[0] for name in taken} == {name.partition("::")[0] for name in marks}
    assert taken | left == {name for name, marked in marks.items() if "slow" not in marked}
    assert not taken & left


def test_few_and_rest_are_all_cases() -> None:
    few, rest = (parameters.values[0] for parameters in few_and_rest(150))
    assert [*few, *rest] == [*range(150)]  # type: ignore[misc]
    assert len(few) == -(-150 // ONE_IN)  # type: ignore[arg-type]


class _Item:
    """Stand-in for an item of pytest."""

    def __init__(self, test: str, case: int, *marks: str) -> None:
        self.nodeid, self.marks = f"{test}[{case}]", [*marks]

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return getattr(pytest.mark, name)(3).mark if name in self.marks else None

    def add_marker(self, name: str) -> None:
        self.marks.append(name)


def test_sampled_tests_have_few_short_cases() -> None:
    items: list[Any] = [_Item(test, case, "sampled") for test in ("a", "b") for case in range(ONE_IN + 1)]
    whole: list[Any] = [_Item("c", case) for case in range(ONE_IN + 1)]
    sample([*items, *whole])
    short = [item.nodeid for item in items if "long" not in item.marks]
    assert short == ["a[0]", f"a[{ONE_IN}]", "b[0]", f"b[{ONE_IN}]"]
    assert not any(item.marks for item in whole)


def test_thinned_tests_have_few_fast_cases() -> None:
    cases = range(ONE_IN + 2)
    alone: list[Any] = [_Item("a", case, "thinned", "long") for case in cases]
    short: list[Any] = [_Item("c", case, "thinned") for case in cases]
    both: list[Any] = [_Item("b", case, "thinned", "sampled") for case in cases]
    sample([*alone, *both, *short])
    assert [case for case in cases if "slow" not in alone[case].marks] == [*range(0, ONE_IN + 2, 3)]
    assert [case for case in cases if "long" not in both[case].marks] == [0, ONE_IN]
    assert [case for case in cases if "slow" not in both[case].marks] == [0, *range(1, ONE_IN, 3), ONE_IN]
    assert not any("slow" in item.marks for item in short)


def test_every_third_long_case_runs() -> None:
    several: list[Any] = [_Item("a", case, "long") for case in range(5)]
    single: list[Any] = [_Item("b", 0, "long")]
    sample([*several, *single])
    assert ["slow" in item.marks for item in (*several, *single)] == [False, True, True, False, True, False]


def test_each_long_test_is_in_one_part() -> None:
    names = [f"test {number}" for number in range(60)]
    taken: list[str] = []
    for part in ("1/3", "2/3", "3/3"):
        items: list[Any] = [_Item(name, 0, "long") for name in names]
        items.append(_Item("short", 0))
        take_part(items, part)
        taken += [item.nodeid for item in items if item.marks == ["long"]]
        assert items[-1].marks == []
    assert sorted(taken) == sorted(f"{name}[0]" for name in names)
    for malformed in ("0/2", "3/2", "half"):
        with pytest.raises(pytest.UsageError, match="the first of two parts is 1/2"):
            in_part("test", malformed)


@lru_cache
def squared(number: int) -> int:
    return number * number


@pytest.mark.long
def test_memos_are_cleared_after_growth() -> None:
    at = 0
    memory = Memory(lambda: at)
    squared(3)
    at = STEP
    memory.after("a file")
    assert squared.cache_info().currsize == 1
    at = STEP + 1
    memory.after("a file")
    assert squared.cache_info().currsize == 0
    squared(3)
    memory.after("a file")
    assert squared.cache_info().currsize == 1, "it has not grown since"


def test_memos_are_cleared_within_a_file_where_much_memory_is_in_use() -> None:
    at = FULL
    memory = Memory(resident=lambda: at)
    squared(3)
    memory.between_tests()
    assert squared.cache_info().currsize == 1
    at = FULL + 1
    memory.between_tests()
    assert squared.cache_info().currsize == 0
    squared(3)
    at += STEP
    memory.between_tests()
    assert squared.cache_info().currsize == 1, "too little was added since"
    at += 1
    memory.between_tests()
    assert squared.cache_info().currsize == 0


@pytest.mark.long
def test_process_over_the_limit_fails() -> None:
    Memory(lambda: MOST).after("a file")
    memory = Memory(lambda: MOST + (1 << 20))
    with pytest.raises(AssertionError, match="1025 MB in memory when it was done with a file"):
        memory.after("a file")
    memory.after("another file, in which it has not grown")


@pytest.mark.long
@pytest.mark.skipif(peak() == 0, reason="peak memory is unknown on this platform")
def test_peak_memory_is_measured() -> None:
    program = "from proofs_tests.memory import peak; before = peak(); bytearray(1 << 26); print(peak() - before)"
    grown = subprocess.run([sys.executable, "-c", program], cwd=HERE, capture_output=True, text=True, check=True).stdout
    assert 1 << 25 < int(grown) < 1 << 27


def test_memos_of_functions_and_methods_are_found() -> None:
    assert squared in memos()
    assert atl.checks.scope._inside in memos()


def test_properties_have_no_deadline() -> None:
    assert settings().deadline is None


@pytest.mark.long
def test_crash_of_a_process_is_reported_with_its_traceback(tmp_path: Path) -> None:
    """The traceback names the function that crashed. It must follow the name of the test, where it is looked for."""
    (tmp_path / "test_crash.py").write_text(
        "import ctypes\n\ndef reads_null():\n    ctypes.string_at(0)\n\ndef test_crash():\n    reads_null()\n"
    )
    options = ["-n1", "-q", "-pno:cacheprovider", "-pproofs_tests.crashes", f"--rootdir={tmp_path}"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path / "test_crash.py")],
        cwd=HERE,
        capture_output=True,
        text=True,
        check=False,
    )
    report = run.stdout.partition("worker 'gw0' crashed while running")[2]
    assert "Segmentation fault" in report
    assert "in reads_null" in report
