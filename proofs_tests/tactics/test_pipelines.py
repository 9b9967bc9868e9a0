"""Pipelines of steps: the values of stencils at all sizes, the certificate, the storage, and refusals."""

from __future__ import annotations

import numpy as np
import pytest

import atl
from atl.errors import IllegalMark
from lowering import lower, print_nest
from lowering.nest import loopnest as ln
from lowering.nest.interpreter import run
from proofs_tests.tactics.test_time_tiling import expected, session, stencil
from rewrites.certificates.certificate import dumps, loads
from rewrites.errors import DoesNotApply


@pytest.mark.long
@pytest.mark.parametrize(("rank", "k", "before", "after"), [(1, 2, 1, 1), (1, 4, 2, 1), (2, 3, 1, 2), (3, 2, 1, 1)])
def test_values_at_all_sizes(rank: int, k: int, before: int, after: int) -> None:
    """Steps depend on their number, and the last block has fewer steps or none."""
    run = atl.reschedule(stencil(rank, None, before, after)).pipeline_steps("u", k).compile()
    for n in (0, 1, 2, 3, 5, 8):
        for steps in (0, 1, k - 1, k, k + 1, 2 * k + 1):
            a = np.random.default_rng(n).integers(-9, 9, (n,) * rank)
            np.testing.assert_array_equal(run(a, T=steps), expected(a, steps, before, after), f"{n} {steps}")


@pytest.mark.long
def test_reference_meaning_and_certificate() -> None:
    s = atl.reschedule(stencil(1)).pipeline_steps("u", 3)
    for n, steps in ((1, 2), (4, 5), (7, 3)):
        a = np.arange(n)
        np.testing.assert_array_equal(atl.evaluate(s.goal, a, T=steps), expected(a, steps))
    theorem = s.done()
    read = loads(dumps(theorem))
    assert (read.lhs, read.rhs) == (theorem.lhs, theorem.rhs)
    assert not theorem.caveat


def test_one_state_is_in_memory() -> None:
    """Each step keeps three rows, and the state is replaced in place, in the result."""
    s = atl.reschedule(stencil(2)).pipeline_steps("u", 2)
    nest = print_nest(lower(s.goal))
    assert str(s.explain("u1")) == (
        "u1: 3 rows are kept in a circular buffer; iteration i of the loop that reads it needs rows i - 1 to i + 1"
    )
    assert "u: one row is kept, in the result" in nest
    assert [line.strip() for line in nest.splitlines() if "alloc" in line] == ["alloc u1[3, n], circular  # ring"]
    assert "0.0" not in nest


@pytest.mark.long
def test_number_of_steps_that_is_a_multiple_needs_no_copies() -> None:
    T = atl.sizes("T")  # noqa: N806
    for s in (atl.reschedule(stencil(1), given=[T % 3 == 0]), atl.reschedule(stencil(1, 6))):
        assert "3*b <= T" not in str(s.pipeline_steps("u", 3).goal)
    assert "3*b <= T + 1" in str(atl.reschedule(stencil(1)).pipeline_steps("u", 3).goal)


def test_refused_steps() -> None:
    with pytest.raises(DoesNotApply, match="the 3 steps are fewer than k=4"):
        atl.reschedule(stencil(1, 3)).pipeline_steps("u", 4)
    with pytest.raises(DoesNotApply, match="a step does not read u"):
        session(lambda n, _: atl.gen(n, lambda i: 2 * atl.value(i))).pipeline_steps("u", 2)
    backwards = session(lambda n, u: atl.gen(n, lambda i: u[n - 1 - i])).pipeline_steps("u", 2)
    with pytest.raises(IllegalMark, match="u1 is marked ring"):
        backwards.compile()


# -- storage ----------------------------------------------------------------------------------------------------------


def reversed_reader() -> atl.Program:
    """Return a recurrence of which a row is read by a later row of a let, which the loop that stores it reads."""
    return atl.parse(
        "f (x : int64[n, m]) : int64[n, m] := rec[0 <= p < n] y from padding(int64[0, m]) in "
        "let v | ring := ⊞[i < m] select(1 <= p, y[p - 1, i], 0) + x[p, i] in "
        "⊞[i < m] select(1 <= i, v[i - 1], 0) + v[i]"
    )


def test_ring_may_read_another_row_than_its_reader_stores() -> None:
    nest = lower(reversed_reader())
    assert any(
        isinstance(s, ln.Allocate) and s.buffer.name == "v" and s.buffer.rows == 2 for s in ln.statements(nest.body)
    )
    x = np.arange(20).reshape(4, 5)
    np.testing.assert_array_equal(run(nest, {"n": 4, "m": 5}, {"x": x}), atl.evaluate(reversed_reader(), x))
