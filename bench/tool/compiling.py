"""Time to check and lower programs: `python -m bench.tool.compiling`.

Measures the programs of Fig. 8.6, a program of twenty loops, and the import of the package. Times are medians of
several rounds, each with an empty prover cache; a second column has the time with a warm cache. `bench.tool.growth`
measures how such times grow.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Final

import atl
import padtypes
from atl import Program, Tensor
from atl.prove import forget
from examples.schedules import blur, convolution, matmul, tensor_addition
from lowering import ThreadClock, alternate, spread

ROUNDS: Final = 7

PROGRAMS: Final[tuple[Callable[[], Program], ...]] = (
    convolution.gather,
    convolution.scatter,
    convolution.direct,
    convolution.im2col,
    matmul.naive,
    matmul.tiled,
    matmul.tiled_with_tails,
    blur.two_stage,
    blur.fused,
    blur.fused_with_tails,
    blur.tiled_staged_with_tails,
    tensor_addition.nested,
    tensor_addition.flat,
)


def milliseconds(work: Callable[[], object], *, cold: bool) -> float:
    """Return the median CPU time of `work`, with an empty prover cache if `cold`."""

    def run() -> None:
        if cold:
            forget()
        work()

    taken = spread(alternate({"work": run}, rounds=ROUNDS, seconds=60, clock=ThreadClock()).clean("work"))
    return taken.middle if taken else float("nan")


def twenty_loops() -> Program:
    """Return ten stages of two loops, each reading neighbours in the stage before."""
    n, m = atl.sizes("n m")
    x = atl.tensor("x", n, m)

    def stages(before: Tensor, left: int) -> Tensor:
        def element(i: atl.IndexExpr, j: atl.IndexExpr) -> Tensor:
            return atl.guard(i >= 1, before[i - 1, j]) + before[i, j] + atl.guard(j + 1 < m, before[i, j + 1])

        stage = atl.gen(n, m, element)
        return stage if left == 1 else atl.let(stage, lambda y: stages(y, left - 1), name=f"stage{left}")

    return atl.program("twenty_loops", [x], stages(x, 10))


def import_time() -> float:
    """Return the median time of `import atl` in a fresh interpreter, minus that of an empty program."""

    def run(code: str) -> float:
        times = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            times.append(1e3 * (time.perf_counter() - start))
        return median(times)

    return run("import atl") - run("pass")


def main() -> None:
    print(f"Python {platform.python_version()} on {platform.machine()}, medians of {ROUNDS} rounds, in milliseconds")
    print(f"{'program':24}{'pad-sets':>10}{'warm':>8}{'atl.lower + C':>12}{'warm':>8}")
    slowest = ("", 0.0)
    for make in (*PROGRAMS, twenty_loops):
        program = make()

        def check(program: Program = program) -> None:
            padtypes.check(program)

        def print_it(program: Program = program) -> str:
            return atl.print_c(atl.lower(program))

        pads = milliseconds(check, cold=True)
        slowest = max(slowest, (program.name, pads), key=lambda pair: pair[1])
        row = (
            pads,
            milliseconds(check, cold=False),
            milliseconds(print_it, cold=True),
            milliseconds(print_it, cold=False),
        )
        print(f"{program.name:24}{row[0]:10.1f}{row[1]:8.1f}{row[2]:12.1f}{row[3]:8.1f}")
    print(f"slowest check of pad-sets: {slowest[0]}, {slowest[1]:.1f} ms")
    print(f"import atl: {import_time():.0f} ms")


if __name__ == "__main__":
    main()
