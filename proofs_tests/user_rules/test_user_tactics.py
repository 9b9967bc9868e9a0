"""User-defined tactics: recorded, undone and refused as one call."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import atl
from atl.cli import main
from atl.errors import ATLError, InvalidArgument, InvalidName, NoSuchAttribute
from proofs_tests.sessions.random_tactics import TACTICS
from proofs_tests.sessions.session_programs import matmul
from proofs_tests.user_rules.samples import blocks, doubled
from rewrites import Session, reschedule
from rewrites.errors import DoesNotApply, NotATheorem
from rewrites.user_rules import read, tactic, tactics


def test_tactic_is_one_call() -> None:
    by_hand = doubled().tile("i", 8).rename("io", "block").mark("block", "parallel")
    called: Any = doubled()
    for s in (doubled().apply(blocks, "i", 8), doubled().apply("blocks", "i", by=8), called.blocks("i", 8)):
        assert str(s.goal) == str(by_hand.goal)
        (call,) = s.steps
        assert call.text in ("blocks('i', 8)", "blocks('i', by=8)")
        assert len(call.traced()) == len(by_hand.theorem.steps) == len(s.theorem.steps)
        assert str(s.undo().goal) == str(doubled().goal)
        assert str(s.redo().goal) == str(by_hand.goal)


def test_failed_tactic_leaves_the_session_unchanged() -> None:
    s = doubled()

    def tile_and_fail(s: Session) -> None:
        s.tile("i", 8).interchange("nothing")

    with pytest.raises(DoesNotApply, match="after 1 call of tile_and_fail"):
        s.apply(tile_and_fail)
    assert len(s.steps) == 0
    assert str(s.goal) == str(doubled().goal)


async def later(s: Session) -> None:
    s.tile("i", 8)


def in_steps(s: Session) -> Iterator[None]:
    s.tile("i", 8)
    yield


@pytest.mark.parametrize("never_run", [later, in_steps])
def test_coroutine_or_generator_is_not_a_tactic(never_run: Any) -> None:
    with pytest.raises(InvalidArgument, match="did not run"):
        doubled().apply(never_run)


def test_tactic_may_do_nothing_or_only_mark() -> None:
    s = doubled()
    assert s.apply(lambda s: None) is s
    assert len(s.steps) == 0
    s.apply(lambda s: s.mark("i", "parallel"))
    assert "parallel" in str(s.goal)
    assert [call.traced() for call in s.steps] == [[]]


def test_tactic_cannot_undo_earlier_calls() -> None:
    s = doubled().tile("i", 8)
    with pytest.raises(InvalidArgument, match="undid calls that it did not make"):
        s.apply(lambda s: s.undo())
    with pytest.raises(InvalidArgument, match="undid calls that it did not make"):
        s.apply(lambda s: s.undo().tile("i", 4).mark("io", "parallel"))


def test_recorded_call_must_begin_at_the_goal() -> None:
    s = doubled()
    (call,) = s.branch().tile("i", 8).steps
    assert len(s.record_call(call).steps) == 1
    with pytest.raises(NotATheorem, match="not a call from this session's goal"):
        s.record_call(call)


def no_arrow(s: Session) -> None:
    """Does something."""


def no_session() -> None:
    """a → b"""


def tile(s: Session) -> None:
    """a → b"""


@pytest.mark.parametrize(
    ("function", "of", "says"),
    [
        (no_arrow, InvalidArgument, "has no →"),
        (no_session, InvalidArgument, "has no parameter for the session"),
        (tile, InvalidName, "a name that no method of sessions has"),
        (lambda s: s, InvalidName, "a name that no method of sessions has"),
        (7, InvalidArgument, "7 is not a function"),
    ],
)
def test_invalid_tactic_is_refused(function: Any, of: type[ATLError], says: str) -> None:
    before = tactics()
    with pytest.raises(of) as caught:
        tactic(function)
    assert says in str(caught.value)
    assert tactics() == before


def test_invalid_call_of_a_tactic_is_refused() -> None:
    s: Any = doubled()
    with pytest.raises(InvalidArgument, match="missing a required argument: 'by'"):
        s.blocks("i")
    with pytest.raises(InvalidArgument, match="did you mean blocks"):
        s.apply("block", "i")
    with pytest.raises(InvalidArgument, match="7 is not a tactic"):
        s.apply(7)
    with pytest.raises(NoSuchAttribute):
        s.blocs("i")


FILE = """
from rewrites.user_rules import tactic

@tactic
def rows_apart(s, by):
    '''Runs rows in blocks: ⊞[i < n] e → ⊞[io < _] ⊞[ii < by] e.'''
    s.tile("i", by)
"""


def test_command_lists_tactics_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "own_rows.py"
    path.write_text(FILE, encoding="utf-8")
    assert main(["tactics", "--user", str(path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("rows_apart       Runs rows in blocks: ⊞")
    assert main(["tactics", "--user", str(path), "rows_apart"]) == 0
    assert capsys.readouterr().out.startswith("s.rows_apart(by)\n\nRuns rows in blocks")
    assert set(read(path).tactics) == {"rows_apart"}


def test_output_of_a_tactics_file_goes_to_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "own_that_prints.py"
    path.write_text(FILE + "print('loaded', rows_apart.__name__)\n", encoding="utf-8")
    assert main(["tactics", "--json", "--user", str(path), "rows_apart"]) == 0
    said = capsys.readouterr()
    assert [each["name"] for each in json.loads(said.out)] == ["rows_apart"]
    assert "loaded rows_apart" in said.err


def test_random_calls_in_a_tactic_equal_single_calls() -> None:
    names = list(TACTICS)
    made = 0
    for seed in range(6):

        def chain(s: Session, seed: int = seed) -> None:
            random = Random(seed)
            for _ in range(4):
                at = s.branch()
                try:
                    moved = TACTICS[random.choice(names)](at, random)
                except ATLError:
                    continue
                if moved is not None:
                    for call in moved.steps[len(s.steps) :]:
                        s.record_call(call)

        by_hand, s = reschedule(matmul()), reschedule(matmul())
        chain(by_hand)
        s.apply(chain)
        assert str(s.goal) == str(by_hand.goal)
        assert len(s.steps) == (1 if by_hand.steps else 0)
        made += len(s.theorem.steps)
        a, b = (np.arange(r * c, dtype=np.float32).reshape(r, c) for r, c in ((2, 3), (3, 4)))
        assert np.allclose(atl.evaluate(s.goal, A=a, B=b), a @ b)
    assert made > 10


def test_a_misspelt_tactic_is_answered_with_its_name() -> None:
    @tactic
    def rowwise_blocks(s: Session, by: int) -> None:
        """Tile the rows: ⊞[i < n] e → ⊞[io < _] ⊞[ii < by] e."""
        s.tile("i", by)

    x = atl.tensor("x", 8)
    s = reschedule(atl.program("doubled", [x], atl.gen(8, lambda i: 2 * x[i])))
    misspelt = "rowwise_block"
    with pytest.raises(NoSuchAttribute, match=r"did you mean s\.rowwise_blocks"):
        getattr(s, misspelt)
