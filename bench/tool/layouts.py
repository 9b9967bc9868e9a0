"""What storing through layouts costs and gains: `python -m bench.tool.layouts`.

The product of matrices of 1024² elements, float32, with the right operand row by row, and stored by one call of
`s.store`, which the kernel does at each call: in panels of 32 columns, or column by column. And the time of the proofs.
CPU time, medians of rounds in which the contestants take turns.
"""

from __future__ import annotations

from statistics import median
from time import process_time
from typing import Final

import numpy as np

from atl.core.index import size
from atl.prove import forget
from examples.schedules import anchors
from layouts import Layout, antidiagonal, backwards, blocked, column_major, injective, morton, padded, skewed, swizzled
from lowering import Kernel, ThreadClock, TimedFunction, alternate, compile  # noqa: A004 (the contract's name)
from rewrites import Session, reschedule

N: Final = 1024
ROUNDS: Final = 15


def tiles(*, panels: bool) -> Session:
    """Tiles of 8 x 32 in registers; the right operand as it is, or in panels of 32 columns."""
    s = reschedule(anchors.product())
    s.interchange("i").tile(["j", "i"], [32, 8]).interchange("ji")
    s.accumulate("Σ[_ < _] _ * _").mark("acc", "registers")
    if panels:
        k, m = s.goal.inputs[1].shape
        s.store("B", Layout((k, (32, (m + 31) // 32)), (32, (1, 32 * k))))
    return s.tails(strategy="split")


def plain(*, columns: bool) -> Session:
    """The product as it is written, its right operand row by row or column by column."""
    s = reschedule(anchors.product())
    return s.store("B", column_major) if columns else s


def called(kernel: Kernel) -> TimedFunction:
    """A call of the kernel."""
    numbers = np.random.default_rng(0)
    a, b = (numbers.random((N, N), dtype=np.float32) for _ in range(2))
    return lambda: kernel(a, b)


def proofs() -> None:
    """How long each storage takes to be proved for every size, with nothing remembered."""
    n, m, k = size("n"), size("m"), size("k")
    matrix, cube = (n, m), (n, m, k)
    ways = {
        "column-major": column_major(matrix),
        "blocked": blocked(4, 8)(matrix),
        "padded": padded(1)(matrix),
        "skewed": skewed(matrix),
        "swizzled": swizzled(8)(matrix),
        "Morton": morton(8)(matrix),
        "bricks": blocked(2, 4, 8)(cube),
        "backwards": backwards(matrix),
        "antidiagonal": antidiagonal(matrix),
    }
    for name, way in ways.items():
        taken, answers = [], []
        for _ in range(5):
            forget()
            before = process_time()
            answers.append(injective(way))
            taken.append(process_time() - before)
        print(f"  {name:14} {1e3 * median(taken):6.1f} ms  {type(answers[-1]).__name__}")


def main() -> None:
    """Prints the table."""
    print(f"product of {N} x {N}, float32, of rows ÷ of what is stored:")
    for name, rows, other in (
        ("tiles in registers, B in panels", tiles(panels=False), tiles(panels=True)),
        ("as written, B column by column", plain(columns=False), plain(columns=True)),
    ):
        runs = {"rows": called(compile(rows.goal)), "stored": called(compile(other.goal))}
        rounds = ROUNDS if "tiles" in name else 3
        samples = alternate(runs, rounds=rounds, seconds=30.0, clock=ThreadClock())
        before, after = (median(samples.clean(which)) for which in runs)
        print(f"  {name}: {before:.1f} ms, {after:.1f} ms: {before / after:.2f}")
    print("a storage proved for every size:")
    proofs()


if __name__ == "__main__":
    main()
