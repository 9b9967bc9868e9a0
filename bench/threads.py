"""How many threads the libraries of this process use, from one turn to the next."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any, Final

NEEDED: Final = "threadpoolctl"
THREADS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "HL_NUM_THREADS")
"""The variables of the environment from which libraries take the number, when they are loaded."""


def settable() -> bool:
    """Whether the number can be set while the process runs: threadpoolctl does it."""
    return find_spec(NEEDED) is not None


class Pools:
    """The threads of every BLAS and OpenMP that is loaded now, and of PyTorch if it is."""

    def __init__(self) -> None:
        import numpy as np
        from threadpoolctl import ThreadpoolController

        np.ones((2, 2)) @ np.ones((2, 2))  # loads it
        self._controller = ThreadpoolController()

    def use(self, threads: int) -> None:
        """From now on they are so many."""
        self._controller.limit(limits=threads)
        torch: Any = sys.modules.get("torch")
        if torch is not None:
            torch.set_num_threads(threads)

    def told(self) -> list[dict[str, Any]]:
        """What they are: version, for which processor, how many."""
        parts = ("internal_api", "version", "architecture", "num_threads")
        return [{part: pool[part] for part in parts if part in pool} for pool in self._controller.info()]
