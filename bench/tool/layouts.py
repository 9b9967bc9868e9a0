"""Cost and gain of storing through layouts: `python -m bench.tool.layouts`.

Multiplies float32 matrices of 1024² elements. The right operand is row-major, or stored by `s.store` at each call, in
panels of 32 columns or column-major. Also measures the time of the proofs. Times are medians of CPU time over rounds in
which the candidates take turns.
"""

from __future__ import annotations

from statistics import median
from time import process_time
from typing import Final

import numpy as np

import atl
from atl.core.index import size
from atl.prove import forget
from examples.schedules import anchors
from layouts import injective
from lowering import ThreadClock, TimedFunction, alternate

N: Final = 1024
ROUNDS: Final = 15


def tiles(*, panels: bool) -> atl.Session:
    """Derive a product in register tiles of 8 x 32, with the right operand row-major or in panels of 32 columns."""
    s = atl.reschedule(anchors.product())
    s.interchange("i").tile(["j", "i"], [32, 8]).interchange("ji")
    s.accumulate("Σ[_ < _] _ * _").mark("acc", "registers")
    if panels:
        k, m = s.goal.inputs[1].shape
        s.store("B", atl.Layout((k, (32, (m + 31) // 32)), (32, (1, 32 * k))))
    return s.tails(strategy="split")


def plain(*, columns: bool) -> atl.Session:
    """Return the unscheduled product, with its right operand row-major or column-major."""
    s = atl.reschedule(anchors.product())
    return s.store("B", atl.column_major) if columns else s


def called(kernel: atl.Kernel) -> TimedFunction:
    """Return a function that calls the kernel."""
    numbers = np.random.default_rng(0)
    a, b = (numbers.random((N, N), dtype=np.float32) for _ in range(2))
    return lambda: kernel(a, b)


def proofs() -> None:
    """Measure the proof for all sizes that each storage is injective, with an empty cache."""
    n, m, k = size("n"), size("m"), size("k")
    matrix, cube = (n, m), (n, m, k)
    storages = {
        "column-major": atl.column_major(matrix),
        "blocked": atl.blocked(4, 8)(matrix),
        "padded": atl.padded(1)(matrix),
        "skewed": atl.skewed(matrix),
        "swizzled": atl.swizzled(8)(matrix),
        "Morton": atl.morton(8)(matrix),
        "bricks": atl.blocked(2, 4, 8)(cube),
        "backwards": atl.backwards(matrix),
        "antidiagonal": atl.antidiagonal(matrix),
    }
    for name, storage in storages.items():
        taken, answers = [], []
        for _ in range(5):
            forget()
            before = process_time()
            answers.append(injective(storage))
            taken.append(process_time() - before)
        print(f"  {name:14} {1e3 * median(taken):6.1f} ms  {type(answers[-1]).__name__}")


def main() -> None:
    """Print the table."""
    print(f"product of {N} x {N}, float32, time with a row-major B ÷ time with the stored B:")
    for name, rows, other in (
        ("register tiles, B in panels", tiles(panels=False), tiles(panels=True)),
        ("as written, B column-major", plain(columns=False), plain(columns=True)),
    ):
        runs = {"rows": called(atl.compile(rows.goal)), "stored": called(atl.compile(other.goal))}
        rounds = ROUNDS if name.startswith("register") else 3
        samples = alternate(runs, rounds=rounds, seconds=30.0, clock=ThreadClock())
        before, after = (median(samples.clean(which)) for which in runs)
        print(f"  {name}: {before:.1f} ms, {after:.1f} ms: {before / after:.2f}")
    print("proofs for all sizes:")
    proofs()


if __name__ == "__main__":
    main()
