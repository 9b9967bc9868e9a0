"""`atl run --ranks` runs a program with device loops on ranks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from atl.cli.command import REFUSED
from atl.cli.main import main

FILE = """
import atl
rows = atl.parse("f (x : float32[P | device.x, n]) : float32[P, n] := ⊞[d < P | device.x] ⊞[i < n] 2 * x[d, i]")
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("rows.py").write_text(FILE, encoding="utf-8")
    np.save("x.npy", np.array([[1, 2], [3, 4]], np.float32))
    return tmp_path


def test_run_on_ranks(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "rows.py", "x=x.npy", "--ranks", "2", "-o", "out.npy"]) == 0
    assert "out.npy" in capsys.readouterr().out
    assert np.load(run / "out.npy").tolist() == [[2, 4], [6, 8]]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--ranks", "2x2"], "--ranks 2x2 for the axes x of f"),
        (["--ranks", "3"], "the program has 2 parts along x, and the mesh has 3 ranks"),
        (["--mpi"], "--mpi without --ranks"),
    ],
)
def test_wrong_numbers_of_ranks(run: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str) -> None:
    assert main(["run", "rows.py", "x=x.npy", *options]) == REFUSED
    assert said in capsys.readouterr().err
