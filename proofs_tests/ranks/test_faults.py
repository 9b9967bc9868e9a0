"""Planted faults: in the steps of all ranks, in those of one rank, and in the messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import atl
from atl.meaning.arguments import bind
from lowering.ranks import steps as st
from lowering.ranks.engine import Round, run, simulate
from lowering.ranks.kernel import DistributedKernel
from lowering.ranks.mesh import Mesh
from proofs_tests.ranks.arguments import mesh_of, random_arguments, random_sizes
from proofs_tests.ranks.faults import mutants
from proofs_tests.ranks.test_shipped import derived

UNCHANGED: Mapping[str, Mapping[str, int]] = {
    # A stencil of five points does not read the corners of its halo.
    "stencil_2d": {"exchange left out": 4, "message of the sender": 4},
    # The result does not depend on the number that is subtracted from the exponents.
    "softmax": {"maximum": 1},
}
"""The number of mutants that compute the same."""
FAULTY = (
    "rows", "contracted", "contracted_and_scattered", "summa", "cube", "stencil", "two_steps", "stencil_2d",
    "softmax", "redistribution",
)  # fmt: skip


def is_found(name: str, steps: st.RankProgram) -> bool:
    """Return whether a call of the steps fails or returns a wrong result on some mesh."""
    session, _ = derived(name)
    random = np.random.default_rng(5)
    for ranks in (2, 3, 3):
        sizes = {each: ranks if each in "PQRTC" else 3 for each in random_sizes(steps, random)}
        arrays, free = random_arguments(session.goal, sizes, random)
        kernel = DistributedKernel(steps, mesh_of(steps, sizes), "interpreter")
        try:
            found = kernel(**arrays, **free)
        except (atl.ATLError, ValueError, IndexError, KeyError):
            return True
        wanted = atl.evaluate_fast(session.goal, **arrays, **free)
        if not np.allclose(found, wanted, rtol=1e-4):
            return True
    return False


@pytest.mark.long
def test_more_than_a_hundred_planted_faults_are_found() -> None:
    found, hidden = 0, Counter[tuple[str, str]]()
    for name in FAULTY:
        _, steps = derived(name)
        for what, made in mutants(steps.steps, steps):
            if is_found(name, replace(steps, steps=made)):
                found += 1
            else:
                hidden[name, what] += 1
    assert hidden == {(name, what): count for name, each in UNCHANGED.items() for what, count in each.items()}
    assert found >= 100


def test_some_planted_faults_are_found() -> None:
    _, steps = derived("stencil")
    assert all(is_found("stencil", replace(steps, steps=made)) for _, made in mutants(steps.steps, steps))


ROWS = "f (x : float32[P | device.x, n]) : float32[n] given 1 <= P := ⊞[i < n] Σ[d < P] x[d, i]"


LONGER = (
    ROWS.replace("float32[n] given", "float32[n + 3] given")
    .replace("i < n]", "i < n + 3]")
    .replace("x[d, i]", "[i < n] · x[d, i]")
)
"""The same with more elements."""


def ranks_of(text: str, *, others: str | None = None) -> list[Any]:
    """Return three ranks of a program, the last of which runs another one."""
    mesh = Mesh(x=3)
    kernels = [atl.compile(atl.parse(each), mesh=mesh) for each in (text, text, others or text)]
    x = np.ones((3, 4), np.float32)
    made = []
    for at, kernel in zip(mesh.all(), kernels, strict=True):
        call = bind(kernel.program, [x], {})
        made.append(run(kernel.steps, kernel.state(at, call), kernel.compute))
    return made


def test_ranks_that_run_the_same_program_agree() -> None:
    assert simulate(ranks_of(ROWS)).messages == [4, 4, 4]


@pytest.mark.parametrize(
    ("others", "said"),
    [
        (ROWS.replace("Σ[d < P] x[d, i]", "x[0, i]"), "rank 2 is in broadcast out, but rank 0 is in all-reduce out"),
        ("f (x : float32[P | device.x, n]) : float32[P, n] := ⊞[d < P | device.x] x[d]", "rank 2 has ended"),
        (LONGER,
         "in all-reduce out, rank"),
    ],
)  # fmt: skip
def test_ranks_that_disagree_are_found(others: str, said: str) -> None:
    with pytest.raises(atl.DistributedFailure, match=said):
        simulate(ranks_of(ROWS, others=others))


def test_a_rank_that_raises_is_named() -> None:
    def failing() -> Any:
        yield Round("all-reduce out", {}, {}, np.dtype(np.float32))
        raise atl.OutOfMemory("no memory")

    def idle() -> Any:
        yield Round("all-reduce out", {}, {}, np.dtype(np.float32))

    with pytest.raises(atl.DistributedFailure, match="rank 1 failed: no memory") as found:
        simulate([idle(), failing()])
    assert found.value.rank == 1
