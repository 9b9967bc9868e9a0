"""Flash attention: its derivation, its certificate, its memory, and its results compared with those of NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import atl
from atl import IndexExpr, Tensor
from atl.core.index import value_at
from examples import flash_attention
from examples.flash_attention import Attention, Extent
from examples.schedules.networks import (
    causal_attention,
    multi_head_attention,
    numpy_causal_attention,
    numpy_multi_head_attention,
)
from lowering import lower
from lowering.nest.loopnest import Allocate, statements
from rewrites.certificates.certificate import dumps, loads
from rewrites.egraph import equality
from rewrites.errors import NotFound
from rewrites.rules.bounded import OVER_REALS

LONG = pytest.mark.long

KEYS = 4
SIZES = ((1, 1), (3, 4), (2, 5), (5, 11), (9, 16))
numbers = np.random.default_rng(0)


@pytest.fixture(scope="module")
def derived() -> atl.Session:
    return flash_attention.flash_attention(KEYS)


@pytest.fixture(scope="module")
def in_registers(derived: atl.Session) -> atl.Session:
    return flash_attention.scheduled(derived.branch(), rows=2, columns=8)


@pytest.fixture(scope="module")
def causal() -> atl.Session:
    return flash_attention.causal_flash_attention(KEYS)


@pytest.fixture(scope="module")
def causal_in_registers(causal: atl.Session) -> atl.Session:
    return flash_attention.causal_scheduled(causal.branch(), rows=2, columns=8)


def inputs(queries: int, keys: int, scale: float = 1.0) -> list[np.ndarray]:
    shapes = (2, queries, 6), (2, keys, 6), (2, keys, 10)
    return [(scale * numbers.standard_normal(shape)).astype("float32") for shape in shapes]


@LONG
@pytest.mark.parametrize(("name", "attention"), [("derived", multi_head_attention), ("causal", causal_attention)])
def test_derivation_is_replayed(
    name: str, attention: Callable[[], atl.Program], request: pytest.FixtureRequest
) -> None:
    session: atl.Session = request.getfixturevalue(name)
    assert len(session.steps) <= 15
    theorem = session.done()
    assert theorem.lhs == attention()
    assert not theorem.unproved
    again = loads(dumps(theorem))
    assert again.rhs == theorem.rhs
    lemmas = {step.rule.name for each in theorem.steps for lemma in each.lemmas for step in lemma.steps}
    assert lemmas & OVER_REALS == {"sum_exp_rescale", "weighted_sum_exp_rescale"}


@LONG
@pytest.mark.parametrize("schedule", ["derived", "in_registers"])
def test_results_are_those_of_numpy(schedule: str, request: pytest.FixtureRequest) -> None:
    kernel = atl.compile(request.getfixturevalue(schedule).goal)
    for queries, keys in SIZES:
        arrays = inputs(queries, keys)
        np.testing.assert_allclose(kernel(*arrays), numpy_multi_head_attention(*arrays), rtol=1e-5, atol=1e-6)


@LONG
@pytest.mark.parametrize("schedule", ["causal", "causal_in_registers"])
def test_causal_results_are_those_of_numpy(schedule: str, request: pytest.FixtureRequest) -> None:
    kernel = atl.compile(request.getfixturevalue(schedule).goal)
    for queries, keys in ((1, 1), (1, 3), (3, 4), (5, 5), (8, 8), (11, 13), (16, 16)):
        arrays = inputs(queries, keys)
        np.testing.assert_allclose(kernel(*arrays), numpy_causal_attention(*arrays), rtol=1e-5, atol=1e-6)


@LONG
def test_a_mask_off_by_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Query i reads key i + 1 too."""
    block = Attention.block

    def off_by_one(
        self: Attention,
        begin: Extent,
        width: Extent,
        old: Tensor | None = None,
        count: Callable[[IndexExpr], Extent] | None = None,
    ) -> Tensor:
        return block(self, begin, width, old, count and (lambda i: i + 2))

    monkeypatch.setattr(Attention, "block", off_by_one)
    # The search for a proof, which comes before the numbers, uses all its time.
    monkeypatch.setattr(equality, "LIMIT", replace(equality.LIMIT, seconds=0.5))
    with pytest.raises(NotFound, match="the formula differs from the first rows") as caught:
        flash_attention.causal_flash_attention(KEYS)
    assert caught.value.numbers


def test_large_scores_do_not_overflow(derived: atl.Session) -> None:
    """exp of these scores is infinite, and so is that of their differences from the first block's greatest score."""
    query, key, value = inputs(3, 11, scale=40.0)
    key[:, :KEYS] *= 0.01
    scores = query @ key.transpose(0, 2, 1) / np.sqrt(6)
    assert (scores.max(axis=2) - scores[:, :, :KEYS].max(axis=2)).max() > 100
    found = atl.compile(derived.goal)(query, key, value)
    np.testing.assert_allclose(found, numpy_multi_head_attention(query, key, value), rtol=1e-4, atol=1e-4)


@LONG
@pytest.mark.parametrize("schedule", ["derived", "in_registers", "causal", "causal_in_registers"])
def test_no_buffer_grows_with_the_number_of_keys(schedule: str, request: pytest.FixtureRequest) -> None:
    """No buffer holds a row of scores: the number of its elements is the same for twice as many keys."""
    nest = lower(request.getfixturevalue(schedule).goal)
    buffers = [each for each in statements(nest.body) if isinstance(each, Allocate)]
    assert buffers
    for each in buffers:
        few, many = (
            value_at(each.capacity, {"B": 1, "L": 100, "S": 1000 * KEYS * times, "E": 6, "F": 10}) for times in (1, 2)
        )
        assert few == many, str(each.buffer.name)
