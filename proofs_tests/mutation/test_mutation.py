"""The mutation tester: its mutants, planting, limits and verdicts."""

from __future__ import annotations

import ast
import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies

import atl
from atl.prove.prover import _smt, without_smt
from proofs_tests.mutation.__main__ import report
from proofs_tests.mutation.edits import NAMES, PARTS, Alike, Mutant, Syntax, mutants
from proofs_tests.mutation.equivalent import EQUIVALENT
from proofs_tests.mutation.packages import HERE, SCOPES
from proofs_tests.mutation.planting import clear_memos, planted
from proofs_tests.mutation.reaching import Reaching, _Traced, reaching
from proofs_tests.mutation.running import Runner, Verdicts, _used_by

TEXT = '''
def inside(low: int, at: int, high: int) -> bool:
    """Whether low <= at < high, 3 times."""
    if not low <= high or at == 7:
        raise ValueError(f"{low} is 1 more than {high}")
    return all(a < b for a, b in ((low, at + 1), (at, high)) if a)


class Box:
    @property
    def size(self) -> int:
        self.check()
        return 2 - 1
'''


def test_all_kinds_of_mutants_are_made() -> None:
    made = mutants("box.py", TEXT)
    changes = "\n".join(mutant.change for mutant in made)
    for kind in ("never", "always", "left out", "exchanged", "forgotten", "becomes", "one more", "nothing", "dropped"):
        assert kind in changes
    assert "another operation" in changes
    assert "any" in changes
    assert "1 is 1" not in changes
    assert len({mutant.key for mutant in made}) == len(made)


def test_mutant_differs_only_in_its_change() -> None:
    plain = ast.unparse(ast.parse(TEXT)).splitlines()
    for mutant in mutants("box.py", TEXT):
        text = ast.unparse(Syntax(TEXT).changed(mutant)).splitlines()
        differing = set(text) ^ set(plain)
        assert 1 <= len(differing) <= 3, mutant
        assert 'Whether low <= at < high, 3 times."""' in "\n".join(text)


n, m = atl.sizes("n m")
program = atl.program("p", [atl.tensor("x", n)], atl.tensor("x", n))
MANY = """
def all_of(left, right, extents, known=()):
    for extent in extents:
        yield less(0, extent)
    if left != right:
        yield shift(left, by=right)
    return (0, *extents)
"""


def test_mutants_of_loops_displays_calls_and_comparisons() -> None:
    changes = {mutant.change for mutant in mutants("many.py", MANY)}
    assert {
        "for extent in extents: the first alone",
        "for extent in extents: the first passed over",
        "yield less(0, extent): left out",
        "less(0, extent): at_most",
        "shift(left, by=right): what it is given",
        "shift(left, by=right): by not passed",
        "(0, *extents): element 0 dropped",
        *(f"left != right: part {part} ignored" for part in range(PARTS)),
    } <= changes
    assert not any("ignored" in mutant.change for mutant in mutants("few.py", "def f(a):\n    return len(a) == a.n\n"))


@pytest.mark.parametrize(
    ("change", "given"),
    [
        ("for extent in extents: the first alone", [1, (4, 5)]),
        ("for extent in extents: the first passed over", [2, 3, (4, 5)]),
        ("yield less(0, extent): left out", [(4, 5)]),
        ("shift(left, by=right): what it is given", [1, 2, 3, (4, 5)]),
        ("left != right: part 0 ignored", [1, 2, 3, (4, 6)]),
        ("left != right: part 1 ignored", [1, 2, 3]),
    ],
)
def test_mutants_behave_as_described(change: str, given: list[object]) -> None:
    (mutant,) = (mutant for mutant in mutants("many.py", MANY) if mutant.change == change)
    names = {**NAMES, "less": lambda _, extent: extent, "shift": lambda left, by: by if "ignored" in change else left}
    exec(compile(Syntax(MANY).changed(mutant), "many.py", "exec"), names)
    assert list(names["all_of"]((4, 5), (4, 6), [1, 2, 3])) == given


@pytest.mark.parametrize(
    ("left", "right", "differing"),
    [
        ((n + 1).node, (n + 2).node, 1),
        ((n.node, m.node), (n.node, n.node), 1),
        (atl.tensor("x", n).node, atl.tensor("x", m).node, 0),
        (program, replace(program, assumptions=((n > 1).node,)), 3),
    ],
)
def test_comparisons_ignore_one_component(left: Any, right: Any, differing: int) -> None:
    for part in range(PARTS):
        alike = Alike()
        assert alike(left, left, part) == left
        assert (alike(left, right, part) == right) is (part == differing)
    assert Alike()(1, 2, 0) == 1


@pytest.mark.long
def test_planted_mutant_runs() -> None:
    mutant = Mutant("padtypes/__init__.py", "no_such_function", 1, "", 0, 0)
    assert not planted(mutant, ast.parse("def other(a):\n    return a + 1\n"))
    child = os.fork()  # a mutant is never removed
    if child == 0:
        os._exit(0 if planted(UNFILTERED, Syntax(SCOPE_TEXT).changed(UNFILTERED)) and not is_filtered() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert is_filtered()


@pytest.mark.long
def test_mutant_is_planted_in_a_decorated_function() -> None:
    file = "atl/prove/prover.py"
    text = (HERE / file).read_text(encoding="utf-8")
    mutant = next(each for each in mutants(file, text) if each.function == "without_smt" and "negated" in each.change)
    child = os.fork()
    if child == 0:
        done = planted(mutant, Syntax(text).changed(mutant))
        with without_smt():
            os._exit(0 if done and _smt.get() else 1)
    assert os.waitpid(child, 0)[1] == 0
    with without_smt():
        assert not _smt.get()


SCOPE_FILE = "proofs_tests/mutation/packages.py"
SCOPE_TEXT = (HERE / SCOPE_FILE).read_text(encoding="utf-8")
FIRST, *_ = _MUTANTS = mutants(SCOPE_FILE, SCOPE_TEXT)
UNFILTERED = next(each for each in _MUTANTS if each.function == "Scope.paths" and "dropped" in each.change)


def is_filtered() -> bool:
    """Return whether `Scope.paths` leaves `__init__.py` out, which UNFILTERED breaks."""
    return not any(path.endswith("__init__.py") for path in SCOPES["padtypes"].paths())


def runner_of(folder: Path, *tested: Mutant, workers: int = 1) -> Runner:
    texts = {SCOPE_FILE: SCOPE_TEXT}
    return Runner(tested, texts, Verdicts(folder / "verdicts", texts), workers=workers)


class _Item:
    """The part of pytest's test items that the runner uses."""

    def __init__(self, name: str, runner: Runner, passes: Callable[[], bool]) -> None:
        self.nodeid, self.config, self.hook = name, self, self
        self._runner, self._passes = runner, passes

    def pytest_runtest_protocol(self, **_: object) -> None:
        self._runner._failed |= not self._passes()


@pytest.mark.long
def test_mutants_are_killed_survive_or_time_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proofs_tests.mutation.running.AT_LEAST", 2)
    clear_memos()  # else each child would clear the memos of earlier tests
    runner = runner_of(tmp_path, UNFILTERED, workers=2)

    def for_ever() -> bool:
        while not is_filtered():
            pass
        return True

    def sent(*tests: Callable[[], bool]) -> None:
        items: Any = [(_Item(test.__name__, runner, test), 0.0) for test in tests]
        runner._send(1, UNFILTERED, Syntax(SCOPE_TEXT), items)

    sent(lambda: True)
    sent(lambda: True, is_filtered, for_ever)
    sent(for_ever, is_filtered)
    while runner._at_work:
        runner._receive()
    kept = [json.loads(line)[2:] for line in (tmp_path / "verdicts").read_text(encoding="utf-8").splitlines()]
    assert sorted(kept) == [["killed", "is_filtered"], ["survived", ""], ["timeout", ""]]
    assert is_filtered(), "this process has no mutant"


def test_child_times_out_only_when_idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used = iter((1, 2, 3, 3))
    monkeypatch.setattr("proofs_tests.mutation.running.AT_MOST", 0.01)
    monkeypatch.setattr("proofs_tests.mutation.running._used_by", lambda _: next(used))
    runner = runner_of(tmp_path, FIRST)

    def waits() -> bool:
        signal.pause()
        return True

    waiting: list[Any] = [(_Item("waiting", runner, waits), 0.0)]
    runner._send(1, FIRST, Syntax(SCOPE_TEXT), waiting)
    runner._receive()
    assert list(used) == []
    ((*_, verdict, _),) = map(json.loads, (tmp_path / "verdicts").read_text(encoding="utf-8").splitlines())
    assert verdict == "timeout"


def test_failing_properties_are_not_shrunk(tmp_path: Path) -> None:
    tried: list[int] = []
    before = settings.get_current_profile_name()
    Runner([], {}, Verdicts(tmp_path / "none.jsonl", {})).pytest_configure()
    quick = settings(database=None)
    settings.load_profile(before)

    @quick
    @given(strategies.integers())
    def small(number: int) -> None:
        tried.append(number)
        assert abs(number) < 100

    with pytest.raises(AssertionError):
        small()
    assert all(abs(number) < 100 for number in tried[:-2])
    assert tried[-2] == tried[-1], "the failing case is run once more for the report"


@pytest.mark.long
def test_each_test_has_its_own_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proofs_tests.mutation.running.AT_LEAST", 0)
    runner = runner_of(tmp_path, FIRST)

    def taking(seconds: float) -> Callable[[], bool]:
        def wait() -> bool:
            until = _used_by(os.getpid()) + seconds * os.sysconf("SC_CLK_TCK")
            while _used_by(os.getpid()) < until:
                pass
            return True

        return wait

    def verdict(seconds: float, usual: float) -> str:
        before: Any = _Item("before", runner, taking(1.5))
        last: Any = _Item("last", runner, taking(seconds))
        runner._send(1, FIRST, Syntax(SCOPE_TEXT), [(before, 100.0), (last, usual)])
        runner._receive()
        return str(runner._verdicts.of(FIRST))

    # On a busy machine, Linux counts less time for the limit than it reports here.
    assert verdict(60, 0.0) == "timeout"
    assert verdict(1.5, 100.0) == "survived"


def test_processor_time_is_read() -> None:
    before = _used_by(os.getpid())
    while _used_by(os.getpid()) == before:
        pass
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    os.close(reader)
    assert _used_by(child) <= before
    os.close(writer)
    os.waitpid(child, 0)


@pytest.mark.long
def test_reached_lines_are_merged_over_processes(tmp_path: Path) -> None:
    runner = runner_of(tmp_path, workers=2)
    passes = is_filtered, lambda: False, is_filtered
    tests: list[Any] = [_Item(f"test {n}", runner, test) for n, test in enumerate(passes)]
    seen = runner._seen(tests)
    assert [bool(seen.lines[f"test {number}"]) for number in range(3)] == [True, False, True]
    assert set(seen.seconds) == {"test 0", "test 1", "test 2"}
    assert seen.broken == ["test 1"]


@pytest.mark.parametrize("way", [reaching, _Traced])
def test_reached_lines_are_recorded_by_test(way: Callable[[dict[str, str]], Reaching], tmp_path: Path) -> None:
    place = tmp_path / "reached_here.py"
    place.write_text("def sign(a):\n    if a < 0:\n        return -1\n    return 1\n", encoding="utf-8")
    names: dict[str, Any] = {}
    exec(compile(place.read_text(encoding="utf-8"), str(place), "exec"), names)
    look = way({str(place): "reached_here.py"})
    for test, numbers in (("below", [-3]), ("above", [3]), ("neither", []), ("both", [1, -1])):
        with look.of(test):
            for number in numbers:
                names["sign"](number)
    reached = {test: {line for _, line in lines if line > 1} for test, lines in look.lines().items()}
    assert reached == {"below": {2, 3}, "above": {2, 4}, "neither": set(), "both": {2, 3, 4}}


def test_verdicts_are_cached_until_the_function_changes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second, *_ = mutants("box.py", TEXT)
    kept = Verdicts(tmp_path / "box.jsonl", {"box.py": TEXT})
    kept.keep(first, "killed", "")
    kept.keep(second, "survived", "")
    again = Verdicts(tmp_path / "box.jsonl", {"box.py": TEXT})
    assert (again.of(first), again.of(second)) == ("killed", "survived")
    other = {"box.py": TEXT.replace("2 - 1", "2 - 0")}
    assert Verdicts(tmp_path / "box.jsonl", other).of(first) == "killed"
    other = {"box.py": TEXT.replace("at + 1", "at + 0")}
    assert Verdicts(tmp_path / "box.jsonl", other).of(first) is None
    assert report([first, second], again) == 1
    assert "NOT EXPLAINED" in capsys.readouterr().out
    assert report([first], again) == 0
    assert "1 killed; 100.0% found" in capsys.readouterr().out


@pytest.mark.long
def test_equivalent_mutants_exist() -> None:
    texts = {file: (HERE / file).read_text(encoding="utf-8") for scope in SCOPES.values() for file in scope.paths()}
    named = {file: text for file, text in texts.items() if any(key.startswith(file) for key in EQUIVALENT)}
    assert set(EQUIVALENT) <= {mutant.key for file, text in named.items() for mutant in mutants(file, text)}
