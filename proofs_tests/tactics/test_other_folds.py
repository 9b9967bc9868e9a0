"""Maxima, minima and products scheduled as sums are: tiles accumulated, operands copied with borders, loops split."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle, product
from typing import Any, Final

import numpy as np
import pytest

import atl
from atl import Program
from atl.core.terms import Guard, Monoid
from lowering import compile as compiled
from proofs_tests.sessions.session_programs import assert_agrees, body
from rewrites import DoesNotApply, Session, reschedule
from rewrites.cursors.cursor import cursors

n, m, taps = atl.sizes("n m taps")
FOLDS: Final[tuple[Monoid, ...]] = ("max", "min", "product")
NEUTRAL: Final[dict[Monoid, int]] = {"max": -1000, "min": 1000, "product": 1}


def pooled(fold: Monoid, height: int = 2, width: int = 3) -> Program:
    """Return the fold of windows that are within the image."""
    x = atl.tensor("x", n + height - 1, m + width - 1)
    body = atl.gen(n, m, lambda i, j: atl.reduce(fold, height, width, lambda r, q: x[i + r, j + q]))
    return atl.program("pooled", [x], body)


def bordered(fold: Monoid) -> Program:
    """Return the fold of windows of three rows and columns around each element, with a neutral value outside."""
    x = atl.tensor("x", n, m)

    def element(i: Any, j: Any) -> Any:
        inside = (i >= 0) & (i < n) & (j >= 0) & (j < m)
        return atl.select(inside, x[i, j], NEUTRAL[fold])

    body = atl.gen(n, m, lambda i, j: atl.reduce(fold, 3, 3, lambda r, q: element(i + r - 1, j + q - 1)))
    return atl.program("bordered", [x], body)


SCHEDULES: Final[dict[str, Callable[[Session], Session]]] = {
    "accumulated": lambda s: s.accumulate("r"),
    "accumulated, tails": lambda s: s.accumulate("r").tails(strategy="split"),
    "tails": lambda s: s.tails(strategy="split"),
    "padded": lambda s: s.pad("x", at="jo"),
    "accumulated, padded": lambda s: s.accumulate("r").pad("x", at="jo").tails(),
    "packed": lambda s: s.pack("x", at="jo"),
    "accumulated, packed": lambda s: s.accumulate("r").pack("x", at="io", order=["jo", "r", "q", "ii", "ji"]),
    "staged": lambda s: s.stage("x[_, _]", at="jo"),
}


CASES: Final = [
    (schedule, fold, form)
    for (schedule, form), fold in zip(product(SCHEDULES, (pooled, bordered)), cycle(FOLDS), strict=False)
]


@pytest.mark.sampled
@pytest.mark.parametrize(("schedule", "fold", "form"), CASES)
def test_schedules_of_sums_keep_the_values_of_other_folds(
    schedule: str, fold: Monoid, form: Callable[[Monoid], Program]
) -> None:
    assert_agrees(SCHEDULES[schedule](reschedule(form(fold)).tile(["i", "j"], [2, 4])))


def test_reads_beyond_the_last_tile_repeat_the_border() -> None:
    s = reschedule(pooled("max")).tile("j", 4).accumulate("r")
    assert "x[i + r, min(m + 1, 4*jo + q + ji)]" in body(s)


def test_no_guard_or_clamp_remains_in_full_tiles() -> None:
    s = reschedule(pooled("max")).tile(["i", "j"], [2, 4]).accumulate("r").tails(strategy="split")
    assert "max[r < 2] max[q < 3] ⊞[ii < 2] ⊞[ji < 4] x[2*io + r + ii, 4*jo + q + ji]" in body(s)
    assert not any(isinstance(cursor.term, Guard) for cursor in cursors(s.goal))


def test_border_holds_the_neutral_value() -> None:
    s = reschedule(bordered("min")).pad("x")
    assert body(s) == (
        "let xp := ⊞[i < n + 2] ⊞[j < m + 2] select(1 <= i <= n ∧ 1 <= j <= m, x[i - 1, j - 1], 1000) in "
        "⊞[i < n] ⊞[j < m] min[r < 3] min[q < 3] xp[i + r, j + q]"
    )


def blurred() -> Program:
    x = atl.tensor("x", n)
    body = atl.gen(n, lambda i: atl.sum(3, lambda d: x[atl.imin(atl.imax(i + d - 1, 0), n - 1)]))
    return atl.program("blurred", [x], body)


def test_border_of_clamped_reads_repeats_the_last_element() -> None:
    s = reschedule(blurred(), given=[n >= 1]).pad("x")
    assert body(s).endswith("x[min(n - 1, max(0, i - 1))] in ⊞[i < n] Σ[d < 3] xp[i + d]")
    assert_agrees(s, [{"n": size} for size in (1, 2, 7)])


def test_border_of_an_operand_that_may_be_empty_is_refused() -> None:
    with pytest.raises(DoesNotApply, match="with a border around x the goal would not compile"):
        reschedule(blurred()).pad("x")


def test_loop_is_split_at_a_selected_border() -> None:
    s = reschedule(bordered("max")).tails(strategy="split")
    assert_agrees(s)
    assert "max[r < 3] max[q < 3] x[i + r - 1, j + q - 1]" in body(s)


def test_reads_with_different_borders_are_not_copied() -> None:
    x = atl.tensor("x", n)
    body = atl.gen(n, lambda i: atl.maximum(
        atl.select(i >= 1, x[i - 1], 5), atl.select(i + 1 < n, x[i + 1], 7)))  # fmt: skip
    both = reschedule(atl.program("both", [x], body))
    with pytest.raises(DoesNotApply, match="or, at all reads, the same clamps or the same selection"):
        both.pad("x")


def test_position_with_a_factor_has_no_border_copy() -> None:
    x = atl.tensor("x", 2 * n)
    strided = atl.gen(n, lambda i: atl.reduce("max", 3, lambda r: x[atl.imin(2 * i + 2 * r, 2 * n - 1)]))
    with pytest.raises(DoesNotApply, match="no guard around a read of x"):
        reschedule(atl.program("strided", [x], strided)).pad("x")


@pytest.mark.parametrize("fold", FOLDS)
@pytest.mark.parametrize("count", [0, 1, 3])
def test_nested_folds_that_may_be_empty_read_as_zero(fold: Monoid, count: int) -> None:
    # Folded into the elements of the outer fold, an inner fold without terms would leave out its zero.
    x = atl.tensor("x", 2, m, 5)
    rows = atl.reduce(fold, 2, lambda r: atl.reduce(fold, m, lambda q: atl.gen(5, lambda i: x[r, q, i])))
    p = atl.program("rows", [x], rows)
    data = -1 - np.arange(10 * count, dtype=np.float32).reshape(2, count, 5)
    np.testing.assert_array_equal(compiled(p)(data), atl.evaluate(p, x=data))
