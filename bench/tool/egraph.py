"""Cost of a search: e-nodes and instances per second, memory and time, by number of stages and depth of a nest.

    python -m bench.tool.egraph [--ranks]

`--ranks` compiles schedules of the matrix product of different modelled costs, and compares these with measured times.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

import atl
from atl.core.program import Program
from examples import beyond_the_paper, derivations
from examples.schedules import blur, convolution, matmul

FAR = 8_000
"""Maximum number of terms of a graph."""


def stages(count: int) -> Program:
    """Return a pipeline of `count` stages, each of which adds to each element its neighbour."""
    n = atl.sizes("n", min=1)
    f = atl.tensor("f", n)

    def stage(x: Any) -> Any:
        return atl.gen(n, lambda i: atl.guard(i >= 1, x[i - 1]) + x[i])

    def whole(x: Any, left: int) -> Any:
        return stage(x) if left == 1 else atl.let(stage(x), lambda y: whole(y, left - 1))

    return atl.program(f"stages_{count}", [f], whole(f, count))


def sums(depth: int) -> Program:
    """Return `depth` nested sums, which have depth! orders."""
    names = " ".join(f"n{level}" for level in range(depth))
    extents = [atl.sizes(name) for name in names.split()]
    inputs = [atl.tensor(f"x{level}", extent) for level, extent in enumerate(extents)]

    def body(*at: Any) -> Any:
        return reduce(lambda a, b: a * b, (x[i] for x, i in zip(inputs, at, strict=True)))

    return atl.program(f"sums_{depth}", inputs, atl.sum(*extents, body))


def searched(name: str, program: Program, rules: list[str] | None = None) -> None:
    """Run a search to its end, and print a line about it."""
    begun = time.process_time()
    found = atl.reschedule(program).saturate(rules=rules, limit=FAR)
    spent = time.process_time() - begun
    at, nodes = found.progress, sum(map(len, found.nodes.values()))
    begun = time.process_time()
    found.best(k=8)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"{name:34} {spent:6.2f} s  {at.classes:6} classes {nodes:6} e-nodes {at.contexts:5} contexts  "
        f"{nodes / spent:6.0f} e-nodes/s {at.instances / spent:5.0f} instances/s  8 best in "
        f"{time.process_time() - begun:5.2f} s  {memory} MB  {at.stopped}"
    )


def compared(made: Callable[[], atl.Session]) -> None:
    """Prove the equation of an example derivation by search, from its start and end."""
    derived = made().done()
    s = atl.reschedule(derived.lhs)
    begun = time.process_time()
    try:
        result = f"{len(s.equal_to(derived.rhs).steps):5} steps"
    except atl.ATLError as error:
        result = f"  {error.summary}"
    print(f"{made.__name__:34} {time.process_time() - begun:6.2f} s  {result}")


def ranks(extent: int = 1_000, kept: int = 400, count: int = 16) -> None:
    """Compare modelled costs of schedules of the product with the times of their kernels.

    Runs `count` of the `kept` cheapest schedules, with costs spread evenly between the least and the greatest.
    """

    found = atl.reschedule(matmul.naive()).saturate(limit=FAR)
    every = found.best(k=kept, sizes=dict.fromkeys("MNK", extent))
    rng = np.random.default_rng(0)
    a, b = (rng.random((extent, extent), dtype=np.float32) for _ in range(2))
    measured: list[tuple[float, float]] = []
    for choice in _spread(every, count):
        kernel = atl.compile(atl.reschedule(matmul.naive()).take(choice).goal)
        times = []
        for _ in range(3):
            begun = time.thread_time()
            kernel(a, b)
            times.append(time.thread_time() - begun)
        measured.append((choice.cost, min(times)))
        print(f"{choice.label:60} {min(times) * 1e3:8.1f} ms", flush=True)
    by_cost, by_time = (np.argsort(np.argsort([pair[side] for pair in measured])) for side in (0, 1))
    fastest = min(spent for _, spent in measured)
    print(f"rank correlation {np.corrcoef(by_cost, by_time)[0, 1]:.2f} (Spearman), of {len(every)} schedules")
    print(f"the cheapest schedule takes {measured[0][1] / fastest:.2f} times as long as the fastest")


def _spread(choices: Sequence[Any], count: int) -> list[Any]:
    """Select `count` choices, including the cheapest, with costs spread evenly on a logarithmic scale."""
    left = list(choices)
    spread: list[Any] = []
    for wanted in np.geomspace(left[0].cost, left[-1].cost, count):
        nearest = min(left, key=lambda choice: abs(np.log(choice.cost / wanted)))
        left.remove(nearest)
        spread.append(nearest)
    return sorted(spread, key=lambda choice: choice.cost)


def main() -> None:
    """Print the costs of searches."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", action="store_true")
    if parser.parse_args().ranks:
        return ranks()
    for made in (*_made_in(derivations), *_made_in(beyond_the_paper)):
        compared(made)
    for program in (blur.two_stage(), convolution.scatter(), matmul.naive()):
        alone(program.name, program)
    for count in (1, 2, 3, 4, 5):
        alone(f"{count} stages", stages(count), ["unfold_let", "gen_interchange"])
    for depth in (2, 3, 4, 5):
        alone(f"{depth} sums", sums(depth), ["sum_swap"])
    return None


def alone(name: str, program: Program, rules: list[str] | None = None) -> None:
    """Run `searched` in a separate process, so that its peak memory is that of this search."""
    process = multiprocessing.get_context("spawn").Process(target=searched, args=(name, program, rules))
    process.start()
    process.join()


def _made_in(module: Any) -> list[Callable[[], atl.Session]]:
    skipped = ("pipeline", "shifting_convolution")
    defined = (value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__)
    return [value for value in defined if value.__name__[0] != "_" and value.__name__ not in skipped]


if __name__ == "__main__":
    main()
