"""Pipelines of steps: the values of stencils at all sizes, the certificate, the storage, and refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import atl
from atl.core.index import index
from atl.errors import IllegalMark
from lowering import lower, print_nest
from lowering.c import helpers
from lowering.c.functions import streams
from lowering.c.loops import with_aligned_stores
from lowering.c.printer import print_c
from lowering.nest import loopnest as ln
from lowering.nest.interpreter import run
from lowering.nest.tiles import cells
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


SMOOTH = """smooth (x : float32[n, m], T : size) : float32[n, m] := (rec[1 <= p < T + 1] u from ⊞[_ < 1] x in
    ⊞[j < n] ⊞[i < m] select(1 <= j < n - 1 ∧ 1 <= i < m - 1, u[p - 1, j - 1, i - 1] + u[p - 1, j - 1, i + 1]
    + u[p - 1, j + 1, i + 1], u[p - 1, j, i]))[T]"""


def smoothed() -> atl.Session:
    return atl.reschedule(atl.parse(SMOOTH)).pipeline_steps("u", 2)


def test_steps_store_aligned_vectors() -> None:
    """The first part stores a line, which reaches to the first whole line at least."""
    source = print_c(lower(smoothed().goal))
    at = source.index("for (int part = 0;")
    lines = [line.strip() for line in source[at:].splitlines()[:5]]
    assert lines[:4] == [
        "for (int part = 0; part < 2; part++) {",
        "const int64_t i2_begin = part == 0 ? 1 : 1 + elements_to_line(&u1_row[1], sizeof(float));",
        "const int64_t i2_end = part == 0 ? min_int64(m - 1, 17) : m - 1;",
        "for (int64_t i2 = i2_begin; i2 < i2_end; i2++) {",
    ]


def test_aligned_stores_need_neighbours_in_other_storage() -> None:
    """Iterations run twice, so none may change what another reads."""
    nest = with_aligned_stores(lower(smoothed().goal))
    (loop, *_) = (each for each in ln.statements(nest.body) if isinstance(each, ln.For) and each.aligned)
    (store,) = loop.body
    assert isinstance(store, ln.Assign)
    assert isinstance(store.target, ln.Cell)
    (read, *_) = (cell for cell in cells(store.value) if cell.buffer != store.target.buffer)
    others = {store.target.buffer: read.buffer}
    in_one_buffer = replace(loop, aligned=False, body=ln.in_other_buffers(loop.body, others))
    strided = replace(loop, aligned=False, body=ln.at_iteration(loop, 2 * index(loop.variable)))
    for body, marked in ((loop,), True), ((in_one_buffer,), False), ((strided,), False):
        found = with_aligned_stores(replace(nest, body=body))
        assert [each.aligned for each in ln.statements(found.body) if isinstance(each, ln.For)] == [marked]


@pytest.mark.parametrize("is_planted", [False, True])
def test_aligned_stores_begin_anywhere(is_planted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several alignments of the result, and each length around one and two lines. A longer distance loses elements."""
    if is_planted:
        planted = streams.STREAMS["elements_to_line"].replace(" / size);", " / size) + 17;")
        monkeypatch.setitem(helpers._HELPERS, "elements_to_line", planted)
    kernel, wrong = smoothed().compile(), 0
    for n in (*range(4), *range(14, 20), *range(30, 36), 70):
        x = np.random.default_rng(n).integers(-9, 9, (4, n)).astype(np.float32)
        want = x.copy()
        for _ in range(5):
            want[1:-1, 1:-1] = want[:-2, :-2] + want[:-2, 2:] + want[2:, 2:]
        for shift in range(0, 17, 5):
            around = np.full(4 * n + 64, 7, np.float32)
            kernel(x, T=5, out=around[shift : shift + 4 * n].reshape(4, n))
            wrong += not np.array_equal(around[shift : shift + 4 * n].reshape(4, n), want)
            assert (np.delete(around, slice(shift, shift + 4 * n)) == 7).all()
    assert (wrong > 0) is is_planted
