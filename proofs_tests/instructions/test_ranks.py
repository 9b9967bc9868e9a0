"""Products on several ranks whose local parts call a BLAS, which counts its calls."""

from __future__ import annotations

import subprocess
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atl
from examples import calls, distributed
from lowering.c_compiler import find_compiler
from proofs_tests.ranks.arguments import random_arguments

ENGINES = ["simulated", *(["mpi"] if find_spec("mpi4py") else [])]
CASES = {
    "summa": (atl.Mesh(x=2, y=2), {"Q": 2, "nb": 16, "kb": 17, "mb": 18}, 2),
    "contracted": (atl.Mesh(x=4), {"P": 4, "n": 16, "kb": 17, "m": 18}, 1),
    "rows": (atl.Mesh(x=4), {"P": 4, "nb": 16, "kb": 17, "m": 18}, 4),
}
"""The mesh, the sizes, and the number of tiles that a rank multiplies."""


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file to which the BLAS of compiled kernels appends its process at each call."""
    library, file = tmp_path / "libcounting.so", tmp_path / "counted"
    source = Path(__file__).with_name("counting_blas.c")
    command = (*find_compiler().command, "-O1", "-shared", "-fPIC", str(source), "-o", str(library))
    subprocess.run(command, check=True)
    monkeypatch.setenv("ATL_BLAS", str(library))
    monkeypatch.setenv("COUNTED", str(file))
    return file


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "name", ["contracted", *(pytest.param(name, marks=pytest.mark.long) for name in ("summa", "rows"))]
)
def test_each_rank_calls_the_blas_once_for_each_tile(name: str, engine: Any, counted: Path) -> None:
    mesh, sizes, tiles = CASES[name]
    session = getattr(calls, name)()
    kernel = atl.compile(session.goal, mesh=mesh, engine=engine)
    arrays, _ = random_arguments(session.goal, sizes, np.random.default_rng(1))
    np.testing.assert_array_equal(kernel(**arrays), atl.evaluate(session.theorem.lhs, **arrays))
    by_process = Counter(counted.read_text().split())
    expected = [tiles] * mesh.ranks if engine == "mpi" else [tiles * mesh.ranks]
    assert sorted(by_process.values()) == expected


def test_a_sum_of_sums_is_refused_with_the_interchange_that_helps() -> None:
    session = distributed.rows()
    for at in ("po", "pi"):
        with pytest.raises(atl.ATLError, match="terms of the sum over po are sums over pi") as refused:
            session.call("sgemm", at=at)
        assert 's.interchange("j") moves the sum over po outside of j' in str(refused.value)
