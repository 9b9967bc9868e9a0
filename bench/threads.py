"""Number of threads that the libraries of this process use."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any, Final

NEEDED: Final = "threadpoolctl"
THREADS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "HL_NUM_THREADS")
"""Environment variables from which libraries read the number when they are loaded."""


def settable() -> bool:
    """Return True if the number can be set in a running process, which needs threadpoolctl."""
    return find_spec(NEEDED) is not None


class Pools:
    """The thread pools of every loaded BLAS and OpenMP, and of PyTorch if loaded."""

    def __init__(self) -> None:
        import numpy as np
        from threadpoolctl import ThreadpoolController

        np.ones((2, 2)) @ np.ones((2, 2))  # loads the BLAS
        self._controller = ThreadpoolController()

    def use(self, threads: int) -> None:
        """Set the number of threads."""
        self._controller.limit(limits=threads)
        torch: Any = sys.modules.get("torch")
        if torch is not None:
            torch.set_num_threads(threads)

    def info(self) -> list[dict[str, Any]]:
        """Return the version, processor and number of threads of each pool."""
        parts = ("internal_api", "version", "architecture", "num_threads")
        return [{part: pool[part] for part in parts if part in pool} for pool in self._controller.info()]
