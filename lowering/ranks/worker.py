"""A process of a run that `lowering.ranks.launch` started: `mpiexec … python -m lowering.ranks.worker FOLDER`.

The folder has the program, the sizes, and the parts of the arrays. Each rank writes its part of the result, or why it
failed. The part gets its name only after all ranks have finished.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from atl.errors import ATLError, DistributedFailure
from atl.parsing.parse import parse
from lowering.ranks.engine import State, run
from lowering.ranks.forming import form
from lowering.ranks.kernel import DistributedKernel
from lowering.ranks.mesh import Mesh
from lowering.ranks.mpi import Communicator, digest_of, names_of, world


def main(folder: Path) -> int:
    """Run one rank; return the exit status."""
    comm = world()
    rank = comm.Get_rank()
    try:
        counted = _run(folder, comm, rank)
    except Exception as error:  # noqa: BLE001 (every failure is reported to the process that waits)
        _report(folder, rank, error)
        comm.Abort(1)
        return 1
    (folder / f"counted.{rank}.json").write_text(json.dumps(counted))
    return 0


def _run(folder: Path, comm: Any, rank: int) -> tuple[int, int]:
    task = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    program = parse(task["program"])
    mesh = Mesh(**task["mesh"])
    communicator = Communicator(comm, mesh, task["deadline"])
    kernel = DistributedKernel(form(program), mesh)
    of_rank = {name: str(rank) if name in task["sharded"] else "all" for name in task["arrays"]}
    arrays = {name: np.load(folder / f"{name}.{part}.npy") for name, part in of_rank.items()}
    state = State(mesh, mesh.coordinates(rank), dict(task["sizes"]), arrays)
    digest = digest_of(task["program"], mesh, sorted(task["sizes"].items()), *names_of(arrays))
    communicator.run(run(kernel.steps, state, kernel.compute), digest)
    written = folder / f"result.{rank}.part.npy"
    np.save(written, state.arrays[kernel.steps.out])
    communicator.agree()
    written.rename(folder / f"result.{rank}.npy")
    return communicator.counted.words[0], communicator.counted.messages[0]


def _report(folder: Path, rank: int, error: Exception) -> None:
    summary = error.summary if isinstance(error, ATLError) else f"{type(error).__name__}: {error}"
    of = error.rank if isinstance(error, DistributedFailure) else rank
    mesh = type(error).__name__ == "MeshError"
    data = {"rank": of, "summary": summary, "kind": "mesh" if mesh else "failure"}
    written = folder / f"failed.{rank}.part"
    written.write_text(json.dumps(data))
    written.rename(folder / f"failed.{rank}.json")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
