"""Workloads of recurrences: a prefix sum, a recursive filter and a recurrent layer."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from bench.baselines.libraries import numpy, scipy, torch
from bench.comparison import Array, Ours, Problem, Roofline, Workload, moved, posed
from examples import recurrences

INPUTS: Final = 64
UNITS: Final = 128


def _filtered(b: Array, a: Array, x: Array) -> Array:
    from scipy.signal import lfilter

    made: Array = lfilter(b, (1, *a[1:]), x)
    return made


def _states(x: Array, w: Array, u: Array, bw: Array, bu: Array, start: Array) -> Array:
    """Compute the states of a gated recurrent unit."""
    states = [start]
    of_inputs = np.einsum("gij,tj->tgi", w, x) + bw
    for reset, update, new in of_inputs:
        h = states[-1]
        of_state = u @ h + bu
        r, z = (1 / (1 + np.exp(-(a + b))) for a, b in ((reset, of_state[0]), (update, of_state[1])))
        states.append((1 - z) * np.tanh(new + r * of_state[2]) + z * h)
    return np.array(states)


def _torch_gru(library: Any, x: Any, w: Any, u: Any, bw: Any, bu: Any, start: Any, out: Any) -> None:
    weights = [w.reshape(-1, INPUTS), u.reshape(-1, UNITS), bw.reshape(-1), bu.reshape(-1)]
    states, _ = library.gru(x[:, None], start[None, None], weights, True, 1, 0.0, False, False, False)
    out[0] = start
    out[1:] = states[:, 0]


def _shapes_of_gru(n: int) -> tuple[tuple[int, ...], ...]:
    weights = ((3, UNITS, INPUTS), (3, UNITS, UNITS), (3, UNITS), (3, UNITS))
    return ((n, INPUTS), *weights, (UNITS,), (n + 1, UNITS))


def _operations_of_gru(problem: Problem) -> float:
    return 6.0 * problem.size * UNITS * (INPUTS + UNITS)


PREFIX_SUM: Final = Workload(
    "prefix-sum",
    "the sums of the first elements of n",
    (1_000_000,),
    posed(np.cumsum, lambda n: ((n,), (n,)), terms=lambda n: n),
    (Ours(recurrences.prefix_sum),),
    (numpy("NumPy cumsum", lambda x, out: np.cumsum(x, out=out)),),
    Roofline("copy", moved),
    max_size=100_000_000,
)

BIQUAD: Final = Workload(
    "biquad",
    "a recursive filter of second order over n samples, float64",
    (1_000_000,),
    posed(_filtered, lambda n: ((3,), (3,), (n,), (n,)), dtype="float64"),
    (Ours(recurrences.biquad),),
    (scipy("SciPy lfilter", lambda b, a, x, _: _filtered(b, a, x), allocates=True),),
    Roofline("copy", moved),
    max_size=100_000_000,
)

GRU: Final = Workload(
    "gru",
    f"a gated recurrent unit of {UNITS} states over n inputs of {INPUTS}",
    (100,),
    posed(_states, _shapes_of_gru, terms=lambda _: INPUTS + UNITS, scales=(1.0, 0.02, 0.02, 0.1, 0.1, 1.0)),
    (Ours(recurrences.gru),),
    (torch("PyTorch GRU", _torch_gru),),
    Roofline("fma", _operations_of_gru),
    max_size=100_000,
)

WORKLOADS: Final = (PREFIX_SUM, BIQUAD, GRU)
