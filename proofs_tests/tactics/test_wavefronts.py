"""Wavefronts: values, the certificate, parallel lines, and refusals."""

from __future__ import annotations

import numpy as np
import pytest

import atl
from atl import IndexExpr, Program, Tensor
from atl.errors import InvalidArgument
from examples.polybench.stencils import seidel_2d
from rewrites.certificates.certificate import dumps, loads
from rewrites.errors import DoesNotApply


def table(*, above: bool = True) -> Program:
    """Return a program of which each element reads the one before in its row, and the one above it."""
    n, m = atl.sizes("n m")
    x = atl.tensor("x", n, m, dtype="int64")

    def row(i: IndexExpr, v: Tensor) -> Tensor:
        def cell(j: IndexExpr, r: Tensor) -> Tensor:
            read = 2 * v[i - 1, j] + r[j - 1] if above else r[j - 1]
            return x[i, j] + atl.select((i >= 1) & (j >= 1), read, 0)

        return atl.rec(m, cell, dtype="int64")

    return atl.program("table", [x], atl.rec(n, row, of=(m,), dtype="int64"))


@pytest.mark.parametrize("skew", [1, 2, 3])
def test_values_at_all_sizes(skew: int) -> None:
    s = atl.reschedule(table()).wavefront("v", skew)
    run, expected = s.compile(), atl.compile(table())
    for n, m in ((0, 0), (0, 3), (3, 0), (1, 1), (2, 5), (5, 2), (6, 6)):
        x = np.random.default_rng(n).integers(-9, 9, (n, m))
        np.testing.assert_array_equal(run(x), expected(x))
        np.testing.assert_array_equal(atl.evaluate(s.goal, x), expected(x))


@pytest.mark.long
def test_seidel_by_wavefronts() -> None:
    """The sweep is below the binders of the time steps, and needs a skew of 2."""
    s = atl.reschedule(seidel_2d())
    with pytest.raises(
        DoesNotApply, match=r"the read at \[i - 1, p - i \+ 1\] is not proved to be of an earlier line"
    ) as caught:
        s.wavefront("v")
    assert isinstance(caught.value.numbers, dict)
    assert "skew=2" in str(caught.value)
    theorem = s.wavefront("v", 2).done()
    text = dumps(theorem)
    assert loads(text).rhs == theorem.rhs
    assert not theorem.caveat
    run, expected = atl.compile(theorem.rhs), atl.compile(seidel_2d())
    for n, steps in ((0, 1), (2, 2), (3, 1), (7, 3)):
        a = np.random.default_rng(n).random((n, n))
        np.testing.assert_allclose(run(a, T=steps), expected(a, T=steps), rtol=1e-12)


def test_elements_of_a_line_may_be_computed_in_parallel() -> None:
    s = atl.reschedule(table()).wavefront("v")
    s.mark("i", "parallel", in_="w")
    s.check()
    x = np.arange(12).reshape(3, 4)
    np.testing.assert_array_equal(s.compile()(x), atl.compile(table())(x))


def test_refusals() -> None:
    s = atl.reschedule(table())
    with pytest.raises(DoesNotApply, match="'x' is not a recurrence"):
        s.wavefront("x")
    with pytest.raises(DoesNotApply, match="a row of r is not a recurrence of elements"):
        s.wavefront("r")
    with pytest.raises(DoesNotApply, match="no element depends on an earlier row"):
        atl.reschedule(table(above=False)).wavefront("v")
    with pytest.raises(InvalidArgument, match="1 or more"):
        s.wavefront("v", 0)
    assert s.goal == table()
