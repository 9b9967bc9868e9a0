"""The tool that plants faults: what it changes, that the change is what runs, and what it says of the tests."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

from proofs_tests.mutation.__main__ import told
from proofs_tests.mutation.edits import Mutant, changed, mutants
from proofs_tests.mutation.explained import EXPLAINED
from proofs_tests.mutation.planting import planted
from proofs_tests.mutation.rooms import HERE, ROOMS
from proofs_tests.mutation.running import Verdicts

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
        text = ast.unparse(changed(mutant, TEXT)).splitlines()
        differing = set(text) ^ set(plain)
        assert 1 <= len(differing) <= 3, mutant
        assert 'Whether low <= at < high, 3 times."""' in "\n".join(text)


def test_a_planted_fault_is_what_runs() -> None:
    """In a process of its own, as a fault is not taken back."""
    file = "padtypes/__init__.py"
    mutant = Mutant(file, "no_such_function", 1, "", 0, 0)
    assert not planted(mutant, "def other(a):\n    return a + 1\n")
    file = "proofs_tests/mutation/rooms.py"
    text = (HERE / file).read_text(encoding="utf-8")
    nothing = next(each for each in mutants(file, text) if each.function == "Room.paths" and "dropped" in each.change)
    child = os.fork()
    if child == 0:
        done = planted(nothing, text) and any(path.endswith("__init__.py") for path in ROOMS["padtypes"].paths())
        os._exit(0 if done else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert not any(path.endswith("__init__.py") for path in ROOMS["padtypes"].paths())


def test_verdicts_are_kept_and_hold_for_the_file_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second, *_ = mutants("box.py", TEXT)
    kept = Verdicts(tmp_path / "box.jsonl", {"box.py": TEXT})
    kept.keep(first, "killed", "")
    kept.keep(second, "survived", "")
    again = Verdicts(tmp_path / "box.jsonl", {"box.py": TEXT})
    assert (again.of(first), again.of(second)) == ("killed", "survived")
    assert Verdicts(tmp_path / "box.jsonl", {"box.py": f"{TEXT}\n"}).of(first) is None
    assert told([first, second], again) == 1
    assert "NOT EXPLAINED" in capsys.readouterr().out
    assert told([first], again) == 0
    assert "1 killed; 100.0% found" in capsys.readouterr().out


def test_what_is_explained_is_still_a_mutant() -> None:
    texts = {file: (HERE / file).read_text(encoding="utf-8") for room in ROOMS.values() for file in room.paths()}
    named = {file: text for file, text in texts.items() if any(key.startswith(file) for key in EXPLAINED)}
    assert set(EXPLAINED) <= {mutant.key for file, text in named.items() for mutant in mutants(file, text)}
