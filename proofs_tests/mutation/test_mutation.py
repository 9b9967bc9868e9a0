"""The tool that plants faults: what it changes, that the change is what runs, and what it says of the tests."""

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
from proofs_tests.mutation.__main__ import told
from proofs_tests.mutation.edits import NAMES, PARTS, Alike, Mutant, Syntax, mutants
from proofs_tests.mutation.explained import EXPLAINED
from proofs_tests.mutation.planting import nothing_is_remembered, planted
from proofs_tests.mutation.reaching import Reaching, _Traced, reaching
from proofs_tests.mutation.rooms import HERE, ROOMS
from proofs_tests.mutation.running import Runner, Verdicts, _used_by

TEXT = '''
def inside(low: int, at: int, high: int) -> bool:
    """Whether low <= at < high, 3 times."""
    if not low <= high or at == 7:
        raise ValueError(f"{low} is 1 more than {high}")
    return all(a < b for a, b in ((low, at + 1), (at, high)) if a)


class Box:
    @property
    def room(self) -> int:
        self.check()
        return 2 - 1
'''


def test_every_kind_of_change_is_made_and_words_are_left_alone() -> None:
    made = mutants("box.py", TEXT)
    changes = "\n".join(mutant.change for mutant in made)
    for kind in ("never", "always", "left out", "exchanged", "forgotten", "becomes", "one more", "nothing", "dropped"):
        assert kind in changes
    assert "another operation" in changes
    assert "any" in changes
    assert "1 is 1" not in changes
    assert len({mutant.key for mutant in made}) == len(made)


def test_each_mutant_differs_from_the_file_in_its_change_alone() -> None:
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


def test_faults_of_loops_displays_calls_and_comparisons_are_made() -> None:
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
def test_a_fault_of_a_loop_or_a_comparison_does_what_it_says(change: str, given: list[object]) -> None:
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
def test_a_comparison_may_ignore_each_part_of_what_it_compares(left: Any, right: Any, differing: int) -> None:
    for part in range(PARTS):
        alike = Alike()
        assert alike(left, left, part) == left
        assert (alike(left, right, part) == right) is (part == differing)
    assert Alike()(1, 2, 0) == 1


@pytest.mark.long
def test_a_planted_fault_is_what_runs() -> None:
    """In a process of its own, as a fault is not taken back."""
    file = "padtypes/__init__.py"
    mutant = Mutant(file, "no_such_function", 1, "", 0, 0)
    assert not planted(mutant, ast.parse("def other(a):\n    return a + 1\n"))
    file = "proofs_tests/mutation/rooms.py"
    text = (HERE / file).read_text(encoding="utf-8")
    nothing = next(each for each in mutants(file, text) if each.function == "Room.paths" and "dropped" in each.change)
    child = os.fork()
    if child == 0:
        done = planted(nothing, Syntax(text).changed(nothing)) and any(
            path.endswith("__init__.py") for path in ROOMS["padtypes"].paths()
        )
        os._exit(0 if done else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert not any(path.endswith("__init__.py") for path in ROOMS["padtypes"].paths())


@pytest.mark.long
def test_a_fault_is_planted_in_what_a_decorator_has_wrapped() -> None:
    file = "atl/prove/prover.py"
    text = (HERE / file).read_text(encoding="utf-8")
    asked = next(each for each in mutants(file, text) if each.function == "without_smt" and "negated" in each.change)
    child = os.fork()
    if child == 0:
        done = planted(asked, Syntax(text).changed(asked))
        with without_smt():
            os._exit(0 if done and _smt.get() else 1)
    assert os.waitpid(child, 0)[1] == 0
    with without_smt():
        assert not _smt.get()


class _Asked:
    """A test as pytest has it, as far as the runner asks."""

    def __init__(self, name: str, runner: Runner, passes: Callable[[], bool]) -> None:
        self.nodeid, self.config, self.hook = name, self, self
        self._runner, self._passes = runner, passes

    def pytest_runtest_protocol(self, **_: object) -> None:
        self._runner._failed |= not self._passes()


@pytest.mark.long
def test_a_mutant_is_killed_by_the_test_that_fails_and_one_that_runs_for_ever_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proofs_tests.mutation.running.AT_LEAST", 2)
    nothing_is_remembered()  # what other tests here have left would be forgotten by each child, at its expense
    file = "proofs_tests/mutation/rooms.py"
    text = (HERE / file).read_text(encoding="utf-8")
    nothing = next(each for each in mutants(file, text) if each.function == "Room.paths" and "dropped" in each.change)
    runner = Runner([nothing], {file: text}, Verdicts(tmp_path / "rooms.jsonl", {file: text}), workers=2)

    def same() -> bool:
        return not any(path.endswith("__init__.py") for path in ROOMS["padtypes"].paths())

    def for_ever() -> bool:
        while not same():
            pass
        return True

    def sent(*tests: Callable[[], bool]) -> None:
        items: Any = [(_Asked(test.__name__, runner, test), 0.0) for test in tests]
        runner._send(1, nothing, Syntax(text), items)

    sent(lambda: True)
    sent(lambda: True, same, for_ever)
    sent(for_ever, same)
    while runner._at_work:
        runner._receive()
    kept = [json.loads(line)[2:] for line in (tmp_path / "rooms.jsonl").read_text(encoding="utf-8").splitlines()]
    assert sorted(kept) == [["killed", "same"], ["survived", ""], ["timeout", ""]]
    assert same(), "nothing is planted here"


def test_a_mutant_is_waited_for_as_long_as_it_uses_the_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How busy the machine is gives no verdict; nothing is waited for that waits itself."""
    used = iter((1, 2, 3, 3))
    monkeypatch.setattr("proofs_tests.mutation.running.AT_MOST", 0.01)
    monkeypatch.setattr("proofs_tests.mutation.running._used_by", lambda _: next(used))
    file = "proofs_tests/mutation/rooms.py"
    text = (HERE / file).read_text(encoding="utf-8")
    mutant = mutants(file, text)[0]
    runner = Runner([mutant], {file: text}, Verdicts(tmp_path / "rooms.jsonl", {file: text}))

    def waits() -> bool:
        signal.pause()
        return True

    waiting: list[Any] = [(_Asked("waiting", runner, waits), 0.0)]
    runner._send(1, mutant, Syntax(text), waiting)
    runner._receive()
    assert list(used) == []
    ((*_, verdict, _),) = map(json.loads, (tmp_path / "rooms.jsonl").read_text(encoding="utf-8").splitlines())
    assert verdict == "timeout"


def test_a_property_that_fails_is_not_tried_on_smaller_cases(tmp_path: Path) -> None:
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
    assert tried[-2] == tried[-1], "the case that fails is run once more, to say it"


@pytest.mark.long
def test_each_test_has_its_own_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is slow without the fault too leaves no more of it to the others."""
    monkeypatch.setattr("proofs_tests.mutation.running.AT_LEAST", 0)
    file = "proofs_tests/mutation/rooms.py"
    text = (HERE / file).read_text(encoding="utf-8")
    mutant = mutants(file, text)[0]
    runner = Runner([mutant], {file: text}, Verdicts(tmp_path / "rooms.jsonl", {file: text}))

    def slow() -> bool:
        until = _used_by(os.getpid()) + 3 * os.sysconf("SC_CLK_TCK") // 2
        while _used_by(os.getpid()) < until:
            pass
        return True

    def verdict(usual: float) -> str:
        waits: Any = _Asked("slow", runner, slow)
        runner._send(1, mutant, Syntax(text), [(waits, 100.0), (waits, usual)])
        runner._receive()
        return str(runner._verdicts.of(mutant))

    assert verdict(0.0) == "timeout"
    assert verdict(100.0) == "survived"


def test_what_a_process_has_used_is_read() -> None:
    before = _used_by(os.getpid())
    while _used_by(os.getpid()) == before:
        pass
    asked, said = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(said)
        os.read(asked, 1)
        os._exit(0)
    os.close(asked)
    assert _used_by(child) <= before
    os.close(said)
    os.waitpid(child, 0)


@pytest.mark.long
def test_what_tests_reach_is_put_together_by_several_processes(tmp_path: Path) -> None:
    file = "proofs_tests/mutation/rooms.py"
    text = (HERE / file).read_text(encoding="utf-8")
    runner = Runner([], {file: text}, Verdicts(tmp_path / "rooms.jsonl", {file: text}), workers=2)

    def looks() -> bool:
        return bool(list(ROOMS["padtypes"].paths()))

    tests: list[Any] = [_Asked(f"test {n}", runner, passes) for n, passes in enumerate((looks, lambda: False, looks))]
    seen = runner._seen(tests)
    assert [bool(seen.lines[f"test {number}"]) for number in range(3)] == [True, False, True]
    assert set(seen.seconds) == {"test 0", "test 1", "test 2"}
    assert seen.broken == ["test 1"]


@pytest.mark.parametrize("way", [reaching, _Traced])
def test_which_test_reaches_which_line_is_seen(way: Callable[[dict[str, str]], Reaching], tmp_path: Path) -> None:
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


def test_verdicts_are_kept_and_hold_for_the_function_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    assert told([first, second], again) == 1
    assert "NOT EXPLAINED" in capsys.readouterr().out
    assert told([first], again) == 0
    assert "1 killed; 100.0% found" in capsys.readouterr().out


@pytest.mark.long
def test_what_is_explained_is_still_a_mutant() -> None:
    texts = {file: (HERE / file).read_text(encoding="utf-8") for room in ROOMS.values() for file in room.paths()}
    named = {file: text for file, text in texts.items() if any(key.startswith(file) for key in EXPLAINED)}
    assert set(EXPLAINED) <= {mutant.key for file, text in named.items() for mutant in mutants(file, text)}
