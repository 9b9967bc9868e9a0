"""Starting the ranks of a call as processes of MPI, and collecting their results."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np

from atl.errors import DistributedFailure, LibraryMissing, MeshError
from atl.text.printing import show_program
from lowering.ranks.engine import Counted, State
from lowering.ranks.mesh import Mesh, letter_of
from lowering.ranks.steps import RankProgram

WORKER: Final = "lowering.ranks.worker"
"""The module that each process runs."""


def launch(
    steps: RankProgram, mesh: Mesh, states: Sequence[State], sizes: Mapping[str, int], deadline: float,
    worker: str = WORKER,
) -> Counted:  # fmt: skip
    """Run the ranks as processes. Each state receives its part of the result.

    If a rank fails, all processes are ended. Raises `DistributedFailure` with the rank and the cause, `MeshError`, and
    `LibraryMissing` without MPI.
    """
    command = [_mpiexec(), "-n", str(mesh.ranks), sys.executable, "-m", worker]
    with tempfile.TemporaryDirectory(prefix="atl-ranks-") as name:
        folder = Path(name)
        _write_task(folder, steps, mesh, states, sizes, deadline)
        status, said = _run([*command, name])
        _raise_failure(folder, status, said)
        counted = Counted()
        for number, state in enumerate(states):
            state.arrays[steps.out] = np.load(folder / f"result.{number}.npy")
            words, messages = json.loads((folder / f"counted.{number}.json").read_text())
            counted.words.append(words)
            counted.messages.append(messages)
        return counted


def _mpiexec() -> str:
    own = Path(sys.executable).parent / "mpiexec"
    found = str(own) if own.exists() else shutil.which("mpiexec")
    if found is None or find_spec("mpi4py") is None:
        raise LibraryMissing(
            f"{'mpiexec was not found' if found is None else 'mpi4py is not installed'}",
            required="mpi4py, and an implementation of MPI",
            suggestions=('pip install "atl-tensor[mpi]"', 'engine="simulated" runs all ranks in this process'),
        )
    return found


def _write_task(
    folder: Path, steps: RankProgram, mesh: Mesh, states: Sequence[State], sizes: Mapping[str, int], deadline: float
) -> None:
    program = steps.program
    sharded = [each.name for each in program.sharded]
    names = [array.name for array in program.inputs]
    task = {
        "program": show_program(program),
        "mesh": {letter_of(axis): extent for axis, extent in mesh.extents.items()},
        "sizes": dict(sizes),
        "arrays": names,
        "sharded": sharded,
        "deadline": deadline,
    }
    (folder / "task.json").write_text(json.dumps(task), encoding="utf-8")
    for name in names:
        for number, state in enumerate(states if name in sharded else states[:1]):
            np.save(folder / f"{name}.{number if name in sharded else 'all'}.npy", state.arrays[name])


def _run(command: Sequence[str]) -> tuple[int, str]:
    """Run a command in a process group of its own, which ends with the call. Return its status and its messages."""
    environment = {
        **os.environ,
        # Open MPI runs more processes than there are cores, and as root, only if it is told to; others ignore these.
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        # Ranks that share a machine with other work are not bound to cores.
        "PRTE_MCA_hwloc_default_binding_policy": "none",
        **({"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.geteuid() == 0 else {}),
    }
    environment.setdefault("OMP_NUM_THREADS", "1")
    root = str(Path(__file__).parents[2])
    environment["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [environment.get("PYTHONPATH")])])
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=environment, start_new_session=True,
    )  # fmt: skip
    try:
        said, _ = process.communicate()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return process.returncode, said


def _raise_failure(folder: Path, status: int, said: str) -> None:
    """Raise the error of the rank that failed first, if one did."""
    reports = [json.loads(path.read_text()) for path in sorted(folder.glob("failed.*.json"))]
    numbers = [int(path.name.split(".")[1]) for path in sorted(folder.glob("failed.*.json"))]
    if not reports and not status:
        return
    # A rank that reports itself is the cause; others report that they were told, or waited.
    own = next((each for each, number in zip(reports, numbers, strict=True) if each["rank"] == number), None)
    first = own or next(iter(reports), None)
    if first is None:
        ended = re.search(r"rank (\d+).*?(signal \d+)", said, re.DOTALL)
        rank = int(ended[1]) if ended else None
        why = f"rank {rank} was ended by {ended[2]}" if ended else f"mpiexec ended with status {status}"
        raise DistributedFailure(why, rank=rank, required="ranks that run to their end", suggestions=(said[-500:],))
    if first["kind"] == "mesh":
        raise MeshError(first["summary"])
    raise DistributedFailure(first["summary"], rank=first["rank"])
