"""Time to generate the LEGO paper's kernels, compared with Table III: `python -m bench.tool.templates`."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import process_time
from typing import Any, Final

from examples.templates import bricks, grouped, lud, matmul, rows, transpose, wavefront

TABLE_III: Final[dict[str, tuple[Callable[[], Any], float]]] = {
    "layer norm, forward and backward": (rows.layer_norm, 0.33),
    "grouped products": (grouped.grouped, 0.65),
    "softmax": (rows.softmax, 0.05),
    "product": (matmul.matmul, 1.11),
    "LU decomposition": (lud.lud, 0.87),
    "alignment": (wavefront.wavefront, 0.46),
    "bricks, star": (bricks.bricks, 5.95),
    "bricks, cube": (lambda: bricks.bricks("cube", 2), 18.07),
    "transposition, naive": (lambda: transpose.in_cuda(staged=False), 1.07),
    "transposition, staged": (transpose.in_cuda, 1.15),
}
"""The generators, with the seconds printed in the paper (on another machine)."""
RUNS: Final = 15


def main() -> None:
    """Print median CPU times, including layouts and proofs, without the time to load modules."""
    for make, _ in TABLE_III.values():
        make()
    for name, (make, printed) in TABLE_III.items():
        times = []
        for _ in range(RUNS):
            start = process_time()
            make()
            times.append(process_time() - start)
        ours = median(times)
        print(f"{name:34} {1000 * ours:8.1f} ms   printed {1000 * printed:8.0f} ms   {printed / ours:7.0f} x")


if __name__ == "__main__":
    main()
