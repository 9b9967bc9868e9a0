"""Time the solvers of `examples/solvers.py`, as written and in blocks, against SciPy on one core.

`python -m bench.solvers 2000 lu` factors a matrix of 2000 rows. A triangular system has 1000 right-hand sides. A ratio
is the time of SciPy over ours, so above 1 we are faster. SciPy's `lu_factor` exchanges rows; ours does not.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

import atl
from bench.command import CPU_OVERRIDES
from bench.comparison import Array
from bench.measure import pinned
from bench.threads import THREADS
from examples import solvers
from lowering import ThreadClock, alternate, ratio, spread

RIGHT_SIDES: Final = 1000
TOLERANCE: Final = 1e-9
"""Largest error of a result, relative to the largest element."""

Solver = Callable[..., Any]


def _definite(n: int) -> Array:
    made = np.random.default_rng(0).random((n, n))
    found: Array = made @ made.T / n + np.eye(n)
    return found


def _triangular(n: int) -> tuple[Array, Array]:
    numbers = np.random.default_rng(0)
    return np.tril(numbers.random((n, n))) / n + np.eye(n), numbers.random((n, RIGHT_SIDES))


def _scipy() -> Mapping[str, Solver]:
    """Return the functions of SciPy, which are imported after the number of threads is set."""
    from scipy import linalg

    return {
        "triangular": lambda L, B: linalg.solve_triangular(L, B, lower=True, check_finite=False),  # noqa: N803
        "cholesky": lambda A: linalg.cholesky(A, check_finite=False),  # noqa: N803
        "lu": lambda A: linalg.lu_factor(A, check_finite=False),  # noqa: N803
    }


def _product(name: str, inputs: Sequence[Array], found: Array) -> tuple[Array, Array]:
    """Return two arrays that are equal for a right result."""
    match name:
        case "triangular":
            return inputs[0] @ found, inputs[1]
        case "cholesky":
            return found.T @ found, inputs[0]
        case _:
            return (found[:, 1].T + np.eye(len(found))) @ found[:, 0], inputs[0]


SOLVERS: Final[Mapping[str, tuple[Solver, Solver]]] = {
    "triangular": (solvers.triangular, solvers.triangular_in_blocks),
    "cholesky": (solvers.cholesky, solvers.cholesky_in_blocks),
    "lu": (solvers.lu, solvers.lu_in_blocks),
}
"""The program and the session of each solver."""


def rows(names: Sequence[str], n: int, seconds: float) -> Iterator[str]:
    """Yield the lines of the table."""
    yield f"{'solver':12}{'n':>6}{'SciPy':>10}{'as written':>12}{'in blocks':>12}{'over written':>14}{'over SciPy':>12}"
    for name in names:
        inputs = _triangular(n) if name == "triangular" else (_definite(n),)
        program, session = SOLVERS[name]
        kernels = {"as written": atl.compile(program()), "in blocks": session().compile()}
        for each, kernel in kernels.items():
            found, right = _product(name, inputs, kernel(*inputs))
            if not np.abs(found - right).max() <= TOLERANCE * np.abs(right).max():
                raise SystemExit(f"{name} {each}: the result is wrong")
        functions = {"SciPy": _scipy()[name], **kernels}
        samples = alternate(
            {each: lambda run=run, inputs=inputs: run(*inputs) for each, run in functions.items()},  # type: ignore[misc]
            rounds=1000,
            seconds=seconds,
            clock=ThreadClock(),
        )
        times = [made.middle if (made := spread(samples.clean(each))) else float("nan") for each in functions]
        ratios = [
            made.middle if (made := ratio(samples, each, "in blocks")) else float("nan")
            for each in ("as written", "SciPy")
        ]
        yield f"{name:12}{n:6}{times[0]:10.1f}{times[1]:12.1f}{times[2]:12.1f}{ratios[0]:14.2f}{ratios[1]:12.2f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table of the chosen solvers, in milliseconds."""
    parser = argparse.ArgumentParser(prog="python -m bench.solvers", description=__doc__)
    parser.add_argument("size", type=int, help="number of rows of the matrix")
    parser.add_argument("solvers", nargs="*", metavar="SOLVER", help=f"of {', '.join(SOLVERS)}; without any, all")
    parser.add_argument("--seconds", type=float, default=10.0, help="time for each solver (default: 10)")
    given = parser.parse_intermixed_args(arguments)
    for name in given.solvers:
        if name not in SOLVERS:
            parser.error(f"unknown solver {name!r}; one of {', '.join(SOLVERS)}")
    for name in CPU_OVERRIDES:
        os.environ.pop(name, None)
    os.environ.update(dict.fromkeys(THREADS, "1"))
    pinned()
    for line in rows(given.solvers or list(SOLVERS), given.size, given.seconds):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
