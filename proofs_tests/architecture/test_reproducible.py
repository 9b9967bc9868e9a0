"""Reproducibility of generated text under different hash seeds."""

from __future__ import annotations

import re

import pytest

from proofs_tests.architecture import reproducible
from proofs_tests.architecture.reproducible import ALL, PARTS, differing, main, under


@pytest.mark.long
def test_sample_of_texts_under_two_hash_seeds() -> None:
    runs = [under(seed, ["some"]) for seed in (1, 77)]
    assert differing(runs) == []
    assert len(runs[0]) > 30
    assert all(re.fullmatch(r"some: .+: [0-9a-f]{16}", line) for line in runs[0])


@pytest.mark.slow
def test_all_texts_under_ten_hash_seeds() -> None:
    assert main([]) == 0


def test_differing_text_is_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def varying(seed: int, parts: list[str]) -> list[str]:
        return [f"{part}: a set: {hash(frozenset(map(str, range(seed))))}" for part in parts]

    monkeypatch.setattr(reproducible, "under", varying)
    assert main(["prover", "--seeds", "2"]) == 1
    assert capsys.readouterr().out == "prover: a set\n1 texts under 2 hash seeds: 1 differ\n"
    assert differing([["a: 1", "b: 2"], ["b: 2", "a: 1"]]) == ["the order in which texts are made"]


def test_command_makes_every_part() -> None:
    assert [*PARTS] == [*(part.__name__ for part in ALL), "some"]
    with pytest.raises(SystemExit):
        main(["nothing"])
