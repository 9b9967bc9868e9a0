"""How long derivations take, step by step, and their certificates to replay: `python -m bench.rewriting`."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from statistics import median
from typing import Final

from atl.prove import forget
from examples import derivations
from rewrites import Session

DERIVATIONS: Final[tuple[Callable[[], Session], ...]] = (
    derivations.pipeline_fused,
    derivations.pipeline_split,
    derivations.pipeline_tiled,
    derivations.matmul_tiled,
    derivations.matmul_tiled_with_tails,
    derivations.addition_flat,
    derivations.convolution_shift,
    derivations.scatter_to_gather,
    derivations.im2col,
    derivations.blur_fused,
    derivations.blur_two_stage_with_tails,
    derivations.blur_fused_with_tails,
    derivations.blur_tiled_staged_with_tails,
)


def main() -> None:
    print(f"Python {platform.python_version()} on {platform.machine()}; milliseconds, with an empty memo of the prover")
    print(f"{'derivation':32}{'calls':>6}{'kernel steps':>14}{'all':>9}{'a kernel step':>15}")
    for derive in DERIVATIONS:
        times = []
        session = derive()
        for _ in range(5):
            forget()
            start = time.perf_counter()
            session = derive()
            times.append(1e3 * (time.perf_counter() - start))
        steps = len(session.theorem.steps)
        print(f"{derive.__name__:32}{len(session.steps):6}{steps:14}{median(times):9.1f}{median(times) / steps:15.2f}")


if __name__ == "__main__":
    main()
