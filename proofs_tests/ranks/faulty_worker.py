"""A worker with a planted fault, which the environment variable FAULT names. Rank 1 has the fault."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from lowering.ranks import worker
from lowering.ranks.engine import Round
from lowering.ranks.mpi import Communicator, world


def _with_fault(fault: str) -> None:
    carried, rank = Communicator._carried, world().Get_rank()

    def faulty(self: Communicator, round_: Round) -> Any:
        if rank == 1:
            match fault:
                case "raise":
                    raise ValueError("planted")
                case "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                case "stop":
                    os.kill(os.getpid(), signal.SIGSTOP)
                case "sleep":
                    time.sleep(30)
                case "longer":
                    sends = {to: np.resize(each, each.size + 1) for to, each in round_.sends.items()}
                    round_ = Round(round_.what, sends, round_.receives, round_.dtype)
                case "end":
                    sys.exit(0)
                case _:
                    raise AssertionError(fault)
        return carried(self, round_)

    if fault == "program":
        module: Any = worker
        digest = module.digest_of
        module.digest_of = lambda *parts: digest(*parts, rank)
    else:
        Communicator._carried = faulty  # type: ignore[method-assign]


if __name__ == "__main__":
    _with_fault(os.environ["FAULT"])
    sys.exit(worker.main(Path(sys.argv[1])))
