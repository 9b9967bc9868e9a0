"""The benchmark of sparse kernels: results are compared, ratios computed, and wrong baselines reported."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import sparse
from bench.sparse import __main__ as command
from bench.sparse import assembled, by_hand, comparison, ours, report
from bench.sparse.__main__ import comparisons, main
from bench.sparse.comparison import Comparison, Line, WrongResult
from bench.sparse.matrices import MATRICES, example, tensor
from bench.sparse.taco import KERNELS, NATIVE, shaped
from lowering import Samples, ThreadClock, TimedFunction
from lowering import compile as compiled
from proofs_tests.sparse.matrices import MATRICES as EDGES
from proofs_tests.sparse.matrices import dense
from rewrites import Session
from rewrites.certificates.certificate import dumps, loads


@pytest.mark.parametrize("kind", MATRICES)
def test_generated_matrices_are_reproducible(kind: str) -> None:
    matrix = MATRICES[kind](20_000)
    assert 0.85 * 20_000 < matrix.nnz <= 20_500
    assert (matrix != MATRICES[kind](20_000)).nnz == 0
    assert matrix.has_sorted_indices
    assert matrix.indices.dtype == np.int32


@pytest.mark.sampled
@pytest.mark.parametrize("name", ["CSR", "DCSC", "COO", "COO-cells", "DIA"])
def test_all_spmv_implementations_agree(name: str) -> None:
    made = comparison.product(name, MATRICES["banded"](3_000))
    samples = comparison.measured(made, ThreadClock(), seconds=0.01, rounds=3)
    lines = comparison.lines_of(samples, name, "banded", 3_000)
    assert lines[0].name == "ours"
    assert lines[1].name == comparison.PREPARED
    assert len(lines) == 2 + len(made.baselines)


@pytest.mark.long
@pytest.mark.parametrize(
    ("form", "schedule"),
    [(sparse.BCSR, ours.by_blocks), (sparse.BCSR(2, 8), ours.by_blocks), (sparse.DIA, ours.by_diagonals)],
    ids=["BCSR", "BCSR(2, 8)", "DIA"],
)
def test_register_blocks_and_tiled_diagonals_agree_with_dense(
    form: sparse.Format, schedule: Callable[[sparse.Format], Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ours, "COLUMNS", 4)  # smaller than the test matrices
    theorem = schedule(form).done()
    assert loads(dumps(theorem)).rhs == theorem.rhs
    kernel = compiled(theorem.rhs)
    for name, made in EDGES.items():
        matrix: Any = made()
        x = np.arange(1.0, matrix.shape[1] + 1)
        assert np.array_equal(kernel(matrix, x), dense(matrix) @ x), name


@pytest.mark.long
def test_tensor_and_sddmm_kernels_agree_with_baselines() -> None:
    cube = tensor(1e-3, 40)
    poses = (
        comparison.tensor_times_vector(cube),
        comparison.matricised(cube),
        comparison.sampled(MATRICES["uniform"](2_000)),
        *(comparison.matrix_times_sparse(MATRICES["banded"](2_000), density) for density in (0.0, 0.1, 1.0)),
        *(comparison.tensor_times_sparse(cube, density) for density in (0.0, 0.1, 1.0)),
    )
    for made in poses:
        comparison.measured(made, ThreadClock(), seconds=0.01, rounds=3)


@pytest.mark.long
def test_all_baseline_kernels_are_built() -> None:
    assert all(callable(shaped(name, NATIVE)) for name in KERNELS)


def test_wrong_baseline_results_are_reported() -> None:
    right, out = np.ones(3), np.empty(3)
    theirs: dict[str, TimedFunction] = {
        "twice the result": lambda: 2.0 * right,
        "NaN": lambda: np.nan * right,
        "nothing stored": lambda: None,
        "all elements but one": lambda: out[1:].fill(1.0),
    }
    for name, run in theirs.items():
        ours = (lambda: out.fill(1.0),) * 2
        made = Comparison(*ours, {name: run}, out, lambda made: out if made is None else made, right)
        with pytest.raises(WrongResult, match=name):
            comparison.measured(made, ThreadClock(), seconds=0.01, rounds=3)


def test_ratios_are_baseline_time_over_atl_time() -> None:
    taken: dict[str, list[float | None]] = {
        "ours": [1.0, 2.0, 4.0],
        comparison.PREPARED: [0.5, 1.0, 2.0],
        "theirs": [2.0, 4.0, 8.0],
    }
    lines = comparison.lines_of(Samples(taken), "CSR", "banded", 7)
    found = [(line.name, line.ratio, line.of_minima, line.of_prepared) for line in lines]
    assert found == [("ours", 1.0, 1.0, 2.0), (comparison.PREPARED, 0.5, 0.5, 1.0), ("theirs", 2.0, 2.0, 4.0)]


def test_faster_flags_of_a_baseline_count(tmp_path: Path) -> None:
    lines = [
        Line("CSR", "banded", 7, "ours", 1.0, 1.0, 1.0, 1.5),
        Line("CSR", "banded", 7, comparison.PREPARED, 0.7, 0.7, 0.7, 1.0),
        Line("CSR", "banded", 7, "TACO-shaped C", 3.0, 3.0, 3.0, 4.0),
        Line("CSR", "banded", 7, "TACO-shaped C, -march=native", 2.0, 2.0, 2.0, 4.5),
        Line("CSR", "uniform", 7, "TACO-shaped C", 8.0, 8.0, 8.0, 8.0),
    ]
    assert sorted(line.ratio for line in report.best_of(lines)) == [2.0, 8.0]
    row = report.means(lines).splitlines()[-1]
    assert "4.00" in row
    assert row.endswith("6.00")
    if find_spec("matplotlib") is not None:  # optional dependency
        report.plot(tmp_path / "ratios.png", lines)
        assert (tmp_path / "ratios.png").stat().st_size > 1000


def test_uninstalled_matrices_are_reported_as_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyamg.gallery", None)
    monkeypatch.setattr(command, "comparisons", lambda *_, **__: [("CSR", "pyamg bar", lambda: example("bar"))])
    assert main(["CSR"]) == 0
    assert "pyamg bar" in (output := capsys.readouterr().out)
    assert "SKIPPED: pyamg.gallery is not installed" in output


def test_small_matrices_have_separate_means() -> None:
    lines = [
        Line("CSR", matrix, 7, "scipy", 1.0, ratio, ratio, ratio) for matrix, ratio in (("pyamg bar", 0.5), ("a", 2.0))
    ]
    output = report.means(lines).splitlines()
    assert "2.00" in output[-2]
    assert output[-1].startswith("CSR, pyamg")
    assert "0.50" in output[-1]


def test_benchmarks_are_selected_by_name_and_size(capsys: pytest.CaptureFixture[str]) -> None:
    asked = [(name, matrix) for name, matrix, _ in comparisons(["BCSR", "DIA"], [1000], quick=True)]
    assert ("BCSR", "blocks 1e+03") in asked
    assert ("DIA", "uniform 1e+03") not in asked
    asked = [(name, matrix) for name, matrix, _ in comparisons(["SpMSpV", "SpTSpV"], [1000], quick=True)]
    assert len(asked) == 3 * (len(MATRICES) + 2)
    assert ("SpMSpV", "banded 1e+03, 0.01") in asked
    with pytest.raises(SystemExit):
        main(["CSRX"])
    assert "unknown format or kernel 'CSRX'" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["uniform", "blocks"])
def test_baselines_in_c_assemble_what_scipy_does(kind: str) -> None:
    left = MATRICES[kind](2_000)
    right = left[::-1].copy()
    for made, wanted in (
        (by_hand.gustavson(left, right), left @ right),
        (by_hand.taco("product")(left, right), left @ right),
        (by_hand.taco("sum")(left, right), left + right),
        (by_hand.taco("elementwise_product")(left, right), left.multiply(right)),
    ):
        assembled._check(kind, made.matrix(), wanted)


def test_assembled_results_are_compared_with_all_baselines() -> None:
    matrix = MATRICES["banded"](1_000)
    runs = assembled.CANDIDATES["A + B"].runs(assembled._kernel("A + B"), matrix, matrix)
    assert set(runs) == {"ours", "scipy", assembled.TACO}
    assembled._check("A + B", runs["ours"](), runs["scipy"]())


def test_wrong_assembled_results_are_reported() -> None:
    right = scipy.sparse.csr_array(np.eye(3))
    assembled._check("A + B", right, right)
    for wrong in (2 * right, np.nan * right, scipy.sparse.csr_array((3, 3))):
        with pytest.raises(WrongResult, match=r"A \+ B: the largest error is"):
            assembled._check("A + B", wrong, right)
