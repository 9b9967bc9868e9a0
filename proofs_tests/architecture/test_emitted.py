"""What is made here is the same in every process: no text depends on how sets are ordered, or on where objects lie."""

from __future__ import annotations

import re

import pytest

from proofs_tests.architecture import emitted
from proofs_tests.architecture.emitted import ALL, PARTS, differing, main, under


@pytest.mark.long
def test_some_of_all_texts_are_the_same_under_two_hash_seeds() -> None:
    """All of them under ten: `python -m proofs_tests.architecture.emitted`."""
    runs = [under(seed, ["some"]) for seed in (1, 77)]
    assert differing(runs) == []
    assert len(runs[0]) > 30
    assert all(re.fullmatch(r"some: .+: [0-9a-f]{16}", line) for line in runs[0])


@pytest.mark.slow
def test_all_texts_are_the_same_under_ten_hash_seeds() -> None:
    assert main([]) == 0


def test_a_text_that_differs_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def planted(seed: int, parts: list[str]) -> list[str]:
        return [f"{part}: a set: {hash(frozenset(map(str, range(seed))))}" for part in parts]

    monkeypatch.setattr(emitted, "under", planted)
    assert main(["prover", "--seeds", "2"]) == 1
    assert capsys.readouterr().out == "prover: a set\n1 texts under 2 hash seeds: 1 differ\n"
    assert differing([["a: 1", "b: 2"], ["b: 2", "a: 1"]]) == ["the order in which texts are made"]


def test_every_part_is_made_by_the_command() -> None:
    assert [*PARTS] == [*(part.__name__ for part in ALL), "some"]
    with pytest.raises(SystemExit):
        main(["nothing"])
