"""Growth of the cost of ATL itself with the size of programs: `python -m bench.tool`.

Programs are pipelines of stages, one let within the next. Times are medians of CPU time over several rounds in which
the sizes take turns. The exponent is the slope between the logarithms of nodes and times: 1 means linear growth. The
prover's cache is warm, as in a session, unless a row says that it is empty.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from math import log
from typing import Final

import numpy as np

import atl
import padtypes
from atl import Program, Tensor
from atl.core.terms import Expr
from atl.core.traversal import children
from atl.prove import forget
from examples import beyond_the_paper
from lowering import Clock, ThreadClock, TimedFunction, alternate, spread

STAGES: Final = (10, 20, 40, 80)
ROUNDS: Final = 7


def stages(count: int) -> Program:
    """Return a pipeline of `count` stages, each of which adds to each element its left neighbour."""
    n = atl.sizes("n")
    x = atl.tensor("x", n)

    def staged(before: Tensor, left: int) -> Tensor:
        stage = atl.gen(n, lambda i: atl.guard(i >= 1, before[i - 1]) + before[i])
        return stage if left == 1 else atl.let(stage, lambda y: staged(y, left - 1), name=f"stage{left}")

    return atl.program("stages", [x], staged(x, count))


def nodes(term: Expr) -> int:
    """Return the number of nodes of a term, as a tree."""
    return 1 + sum(nodes(child.expr) for child in children(term))


def rewriting(count: int) -> TimedFunction:
    """Rewrite the innermost stage, and build the resulting program."""
    work, path = atl.reschedule(stages(count)).begin(), (*[1] * (count - 1), 0)

    def rewritten() -> Program:
        work.rewrite("add_comm", path)
        return work.goal

    return rewritten


def searching(count: int) -> TimedFunction:
    """Search for the last match, and rewrite it."""
    s = atl.reschedule(stages(count))
    return lambda: s.rw("add_comm", nth=count - 1)


def rewriting_everywhere(count: int) -> TimedFunction:
    """Rewrite every stage."""
    program = stages(count)
    return lambda: atl.reschedule(program).rw("add_comm", all=True).goal


def checking(count: int) -> TimedFunction:
    """Check accesses and truncations, with an empty cache."""
    program = stages(count)

    def check() -> None:
        forget()
        atl.check_safe(program)
        padtypes.check(program)

    return check


def lowering(count: int) -> TimedFunction:
    """Lower to a loop nest and print C, with an empty cache."""
    return _lowered(stages(count))


def _lowered(program: Program) -> TimedFunction:
    def lowered() -> None:
        forget()
        atl.print_c(atl.lower(program))

    return lowered


WORK: Final[tuple[tuple[str, Callable[[int], TimedFunction]], ...]] = (
    ("a rewrite within all lets", rewriting),
    ("a search for the last match", searching),
    ("a rewrite of every match", rewriting_everywhere),
    ("checks, empty cache", checking),
    ("lowering and C, empty cache", lowering),
)


def exponent(sizes: Sequence[float], times: Sequence[float]) -> float:
    """Return the exponent of growth: the slope of a line through the logarithms.

    >>> exponent([10, 20, 40], [3.0, 12.0, 48.0])
    2.0
    """
    slope, _ = np.polyfit([log(size) for size in sizes], [log(time) for time in times], 1)
    return round(float(slope), 6)


def grown(make: Callable[[int], TimedFunction], clock: Clock, counts: Sequence[int] = STAGES) -> list[float]:
    """Measure the milliseconds for each number of stages."""
    runs = {str(count): make(count) for count in counts}
    samples = alternate(runs, rounds=ROUNDS, seconds=20, clock=clock)
    found = [spread(samples.clean(name)) for name in runs]
    return [one.middle if one else float("nan") for one in found]


def main() -> None:
    """Print a row for each kind of work, and the time of the largest example."""
    clock = ThreadClock()
    sizes = [nodes(stages(count).body) for count in STAGES]
    print(f"Python {platform.python_version()} on {platform.machine()}; milliseconds of CPU time, medians")
    print(f"{'':32}" + "".join(f"{f'{size} nodes':>12}" for size in sizes) + f"{'exponent':>10}")
    for name, make in WORK:
        times = grown(make, clock)
        print(f"{name:32}" + "".join(f"{time:12.2f}" for time in times) + f"{exponent(sizes, times):10.2f}", flush=True)
    program = beyond_the_paper.stencils_tiled().goal
    samples = alternate({"lowered": _lowered(program)}, rounds=ROUNDS, seconds=20, clock=clock)
    taken = spread(samples.clean("lowered"))
    print(f"stencils_tiled, {nodes(program.body)} nodes: {taken.middle if taken else 0:.0f} ms to lower and print")


if __name__ == "__main__":
    main()
