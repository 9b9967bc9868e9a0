"""Random tensors come out of every format as they went in, and a fault in an encoder does not stay unseen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from proofs_tests.sparse import fuzz
from proofs_tests.sparse.fuzz_kernels import FORMULAS
from sparse.levels import Compressed, Stored


def test_no_cell_of_random_tensors_is_wrong() -> None:
    report = fuzz.run_sparse(range(400), 11)
    assert report.findings == []
    assert len(report.formats) >= 13
    assert "in disorder" in str(report)
    assert "A v" in str(report)


def test_a_cell_that_is_wrong_is_said_in_the_table_and_ends_the_command_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = replace(FORMULAS[0], meant=lambda a, v: 2.0 * (a @ v))
    monkeypatch.setattr(fuzz, "FORMULAS", (broken,))
    assert fuzz.main(["--n", "60", "--seed", "3"]) == 1
    assert "WRONG" in capsys.readouterr().out


def test_a_value_that_goes_to_its_neighbour_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Compressed.store

    def shifted(self: Compressed, *arguments: Any, **options: Any) -> Stored:
        made = original(self, *arguments, **options)
        count = made.metadata.count
        return Stored(made.metadata, (made.positions + 1) % count if count > 4 else made.positions)

    monkeypatch.setattr(Compressed, "store", shifted)
    report = fuzz.run_sparse(range(400), 11, first=True)
    assert "is wrong" in report.findings[0]
    assert "entries [" in report.findings[0]
