"""The shipped distributed programs: values, theorems, forms of exchanges, and traffic."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import atl
from examples.distributed import SHIPPED
from lowering.ranks.forming import form
from lowering.ranks.kernel import DistributedKernel
from lowering.ranks.steps import RankProgram, exchanges
from proofs_tests.ranks.arguments import mesh_of, random_arguments, random_sizes
from rewrites.certificates.certificate import dumps, loads

CALLS_AND_FORMS = {
    "rows": (6, ["all-gather"]),
    "contracted": (5, ["all-reduce"]),
    "contracted_and_scattered": (6, ["reduce-scatter"]),
    "summa": (9, ["broadcast", "broadcast"]),
    "cube": (6, ["all-reduce"]),
    "stencil": (3, ["shift", "shift"]),
    "uneven_stencil": (3, ["shift", "shift"]),
    "two_steps": (4, ["shift", "shift"]),
    "stencil_2d": (3, ["shift"] * 8),
    "reduction": (4, ["all-reduce"]),
    "softmax": (7, ["all-reduce", "all-reduce"]),
    "attention": (4, []),
    "sparse_product": (2, ["all-gather"]),
    "redistribution": (2, ["exchange by counts"]),
}


@cache
def derived(name: str) -> tuple[atl.Session, RankProgram]:
    session = SHIPPED[name]()
    return session, form(session.goal)


@pytest.mark.parametrize("name", SHIPPED)
def test_calls_and_forms(name: str) -> None:
    session, steps = derived(name)
    assert (len(session.steps), [each.form for each in exchanges(steps.steps)]) == CALLS_AND_FORMS[name]


@pytest.mark.parametrize("name", SHIPPED)
def test_agrees_with_the_first_program_and_its_traffic(name: str) -> None:
    session, steps = derived(name)
    random = np.random.default_rng(7)
    traffic = session.traffic()
    for _ in range(3):
        sizes = random_sizes(steps, random)
        mesh = mesh_of(steps, sizes)
        arrays, free = random_arguments(session.goal, sizes, random)
        kernel = DistributedKernel(steps, mesh, "interpreter")
        # The first program has the arrays of all parts; its value is that of the program before it was sharded.
        given: dict[str, Any] = {**arrays, **free}
        np.testing.assert_allclose(kernel(**given), atl.evaluate(session.theorem.lhs, **given), rtol=1e-4)
        assert kernel.counted is not None
        assert traffic.of(mesh, **sizes) == (kernel.counted.words, kernel.counted.messages)


@pytest.mark.long
@pytest.mark.thinned(13)
@pytest.mark.parametrize("name", SHIPPED)
def test_compiled_parts_agree(name: str) -> None:
    session, steps = derived(name)
    random = np.random.default_rng(11)
    sizes = random_sizes(steps, random, ranks=3)
    arrays, free = random_arguments(session.goal, sizes, random)
    kernel = atl.compile(session.goal, mesh=mesh_of(steps, sizes))
    given: dict[str, Any] = {**arrays, **free}
    np.testing.assert_allclose(kernel(**given), atl.evaluate(session.theorem.lhs, **given), rtol=1e-4)


@pytest.mark.long
@pytest.mark.thinned(13)
@pytest.mark.parametrize("name", SHIPPED)
def test_certificates_keep_shardings_and_marks(name: str) -> None:
    theorem = SHIPPED[name]().done()
    loaded = loads(dumps(theorem))
    assert loaded.rhs == theorem.rhs
    assert (str(loaded.rhs), loaded.rhs.sharded) == (str(theorem.rhs), theorem.rhs.sharded)
    assert form(loaded.rhs).axes


def test_sharded_product_equals_the_product() -> None:
    _, steps = derived("rows")
    random = np.random.default_rng(3)
    sizes = {"P": 3, "nb": 2, "kb": 4, "m": 5}
    left, right = random.integers(1, 9, (6, 12)).astype(np.float32), random.integers(1, 9, (12, 5)).astype(np.float32)
    kernel = DistributedKernel(steps, mesh_of(steps, sizes), "interpreter")
    np.testing.assert_array_equal(kernel(left.reshape(3, 2, 12), right.reshape(3, 4, 5)).reshape(6, 5), left @ right)


def test_the_stencil_receives_one_word_from_each_neighbour() -> None:
    session, _ = derived("stencil")
    assert session.traffic().of(atl.Mesh(x=4), P=4, b=100) == ([1, 2, 2, 1], [1, 2, 2, 1])


def test_ranks_of_the_cube_receive_one_block_each() -> None:
    session, _ = derived("cube")
    words, _ = session.traffic().of(atl.Mesh(x=2, y=2, z=2), R=2, C=2, T=2, nb=8, mb=8, kb=8)
    # Each rank adds one half of the block of its pair, and receives the other half.
    assert words == [64] * 8
