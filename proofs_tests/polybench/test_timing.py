"""`python -m bench.polybench`."""

from __future__ import annotations

import os

import pytest

from bench.polybench import __main__ as command
from bench.polybench.references import REFERENCES, Reference
from examples.polybench import BENCHMARKS
from lowering import find_compiler


def test_every_kernel_has_a_reference() -> None:
    assert REFERENCES.keys() >= BENCHMARKS.keys()


@pytest.fixture(autouse=True)
def same_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "pinned", lambda: None)


@pytest.mark.long
def test_table_has_a_line_for_each_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    before = dict(os.environ)
    assert command.main(["MINI", "bicg", "jacobi-1d", "--seconds", "0.01"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["C,", "bicg", "jacobi-1d", "geometric"]
    assert os.environ == before


@pytest.mark.long
def test_rivals_have_a_column(capsys: pytest.CaptureFixture[str]) -> None:
    rival = f"{find_compiler().path} -O2"
    assert command.main(["MINI", "bicg", "--seconds", "0.01", "--rival", rival]) == 0
    head, line, mean = capsys.readouterr().out.splitlines()
    assert head.endswith(f" {rival}")
    assert len(line.split()) == len(mean.split()) == 5
    assert len(head) == len(line) == len(mean)


def test_rival_has_constant_sizes() -> None:
    text = REFERENCES["gemm"].with_constants({"ni": 2, "nj": 3, "nk": 4})
    assert text.count(" ni = 2; nj = 3; nk = 4;") == 1
    assert text.replace("\n    ni = 2; nj = 3; nk = 4;", "") == REFERENCES["gemm"].source


@pytest.mark.long
def test_wrong_kernel_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Faulty(Reference):
        @property
        def source(self) -> str:
            return super().source.replace("alpha *", "")

    monkeypatch.setitem(REFERENCES, "gesummv", Faulty("gesummv", ("y",), {"y": ("n",)}))
    with pytest.raises(command.WrongResult, match="gesummv as written: the largest error is"):
        command.main(["MINI", "gesummv", "--seconds", "0.01"])


def test_unknown_kernel_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["MINI", "gem"])
    assert "unknown kernel 'gem'; one of correlation, covariance, gemm, " in capsys.readouterr().err
