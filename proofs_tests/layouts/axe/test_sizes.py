"""Axe layouts of symbolic sizes: results hold at numbers; undecided questions are refused."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

import atl
from atl.errors import ATLError
from atl.prove import Proved, Refuted, Unknown
from layouts import NoLayout, as_axe, as_layout, axe, draw, equal, injective, read_function
from layouts.axe import R, S
from layouts.axe.axes import iter_of
from layouts.errors import CannotTabulate, LayoutError
from layouts.foundation.sizes import placed
from proofs_tests.layouts.axe.test_enumeration import sets

n, m, k = atl.sizes("n m k")
lane, warp = axe.axis("lane"), axe.axis("warp")
EXTENTS: tuple[Any, ...] = (1, 2, 3, 4, n, m, 2 * n, n * m)
STRIDES: tuple[Any, ...] = (1, 1, 2, 4, n, 2 * n, 4 * m, n * m, -1, -n, n + 1)
AXES = (lane, warp)
NUMBERS = ({"n": 1, "m": 2}, {"n": 2, "m": 3}, {"n": 4, "m": 1})


def drawn(random: Random, *, replicas: bool = True) -> axe.Axe:
    """Return a random layout, at times contiguous."""
    extents = [random.choice(EXTENTS) for _ in range(random.randint(1, 3))]
    iters = [iter_of(extent, random.choice(STRIDES) @ random.choice(AXES)) for extent in extents]
    if random.random() < 0.5:
        step: Any = 1
        for place in reversed(range(len(extents))):
            iters[place] = iter_of(extents[place], step @ lane)
            step = step * extents[place]
    copies = [
        iter_of(random.choice((2, n, 3)), random.choice(STRIDES) @ random.choice(AXES))
        for _ in range(random.choice((0, 0, 1, 2)))
    ]
    return axe.Axe(iters, copies if replicas else (), axe.Location({lane: random.choice((0, 0, 3))})).given(
        n >= 1, m >= 1
    )


def far(layout: axe.Axe) -> dict[axe.Axis, Any]:
    """Return the span, by enumeration."""
    found = [place for each in sets(layout) for place in each]
    along = {at: [place[at] for place in found] for at in layout.axes}
    return {at: max(steps) - min(steps) + 1 for at, steps in along.items()}  # type: ignore[type-var]


def results(layout: axe.Axe, inner: axe.Axe, shape: list[Any], inner_shape: list[Any]) -> list[Callable[[], axe.Axe]]:
    """Return operations on both."""
    return [
        lambda: axe.canonicalize(layout),
        lambda: axe.group(layout, shape).layout,
        lambda: axe.direct_sum(layout, inner, shape, inner_shape),
        lambda: axe.tile(inner, layout, inner_shape, shape),
    ]


@pytest.mark.long
def test_symbolic_results_agree_with_numeric_sizes() -> None:
    decided = 0
    for seed in range(40):
        random = Random(seed)
        layout, inner = drawn(random), drawn(random, replicas=False)
        shapes = [([1, 1, *(each.extent for each in one.sharded)])[-3:] for one in (layout, inner)]
        found = [made for way in results(layout, inner, *shapes) if (made := decided_or_none(way)) is not None]
        everything = len(found) == 4
        for numbers in NUMBERS:
            small, other = layout.where(**numbers), inner.where(**numbers)
            plain = [[placed(extent, numbers) for extent in each] for each in shapes]
            if everything:
                wanted = [small, small, *(way() for way in results(small, other, *plain)[2:])]
                for made, want in zip(found, wanted, strict=True):
                    assert sets(made.where(**numbers)) == sets(want), f"{layout} {inner} {numbers}"
                    decided += 1
            assert {at: placed(steps, numbers) for at, steps in axe.span(layout).items()} == far(small)
    assert decided > 250


def decided_or_none(way: Callable[[], axe.Axe]) -> axe.Axe | None:
    try:
        return way()
    except CannotTabulate:
        return None


@pytest.mark.long
def test_same_locations_agrees_with_numeric_sizes() -> None:
    answers = []
    for seed in range(120):
        random = Random(seed)
        a = drawn(random)
        try:
            b = axe.canonicalize(a) if random.random() < 0.5 else drawn(random)
            same = axe.same_locations(a, b)
        except CannotTabulate:
            continue
        at_numbers = [sets(a.where(**numbers)) == sets(b.where(**numbers)) for numbers in NUMBERS]
        answers.append(same)
        assert not same or all(at_numbers), f"{a} {b}"
        answer = equal(a, b)
        assert isinstance(answer, Proved) is same
        if isinstance(answer, Refuted):
            sizes = {name: number for name, number in answer.model.numbers.items() if name in ("n", "m")}
            assert sets(a.where(**sizes)) != sets(b.where(**sizes))
    assert answers.count(True) > 20
    assert answers.count(False) > 20


@pytest.mark.parametrize(
    ("made", "shown"),
    [
        (lambda: axe.canonicalize(S[(n, 4):(4, 1)] + R[(2, n):(n, 1)]), "S[4*n:1] + R[2*n:1]"),
        (lambda: axe.canonicalize((S[4:1] + R[(2, 3):(-m, m)]).given(m >= 1)), "S[4:1] + R[4:m] + -m@m"),
        (lambda: axe.tile(S[(n, m):(m, 1)], S[(2, 4):(4, 1)], (n, m), (2, 4)), "S[(n,2,m,4):(8*m,4,8,1)]"),
        (lambda: axe.tile_of(S[(n, 2, m, 4):(8 * m, 4, 8, 1)], S[(2, 4):(4, 1)], (2 * n, 4 * m), (2, 4)), "S[m*n:1]"),
        (lambda: axe.direct_sum_of(S[16 * n:1], S[(2, 2):(4, 1)], (4 * n, 4), (2, 2)), "S[(2*n,2):(8,2)]"),
        (lambda: axe.fuse(S[(n, 4):(1@warp, 1@lane)], "thread", [(warp, n), (lane, 4)]),
         "S[(n,4):(1@thread,n@thread)]"),
        (lambda: axe.group(S[n:1].given(n % 4 == 0), (n // 4, 4)).layout, "S[(n // 4,4):(4,1)]"),
        (lambda: axe.locations(S[(n, 4):(4, 1)] + R[3:n].given(n >= 1), (n - 1, 1)),
         "[(4*n - 3)@m, (5*n - 3)@m, (6*n - 3)@m]"),
        (lambda: axe.span(S[n:-m].given(m >= 1)), "{m: m*n - m + 1}"),
        (lambda: as_axe(as_layout(S[(n, 4):(4, 1)])), "S[(n,4):(4,1)]"),
        (lambda: read_function("S[(n,4):((m + 1)@lane,1@lane)] + R[2:n@warp] + (n - 1)@warp"),
         "S[(n,4):((m + 1)@lane,1@lane)] + R[2:n@warp] + (n - 1)@warp"),
        (lambda: injective(S[(n, 4):(4 @ lane, 1 @ lane)]), "Proved(layer='structure', vacuous=False)"),
        (lambda: draw(S[(n, 2):(2, 1)].where(n=1)).cells, "(('0', '1'),)"),
    ],
)  # fmt: skip
def test_operations_of_symbolic_sizes(made: Callable[[], object], shown: str) -> None:
    assert str(made()) == shown


@pytest.mark.parametrize(
    ("made", "error", "message"),
    [
        (lambda: axe.span(S[n:m]), NoLayout, r"given\(m >= 1\)"),
        (lambda: axe.canonicalize((S[4:1] + R[(2, k):(n, 3)]).given(n >= 1)), CannotTabulate,
         "not known for all sizes"),
        (lambda: axe.same_locations(S[k:1], (S[k:1] + R[n:1]).given(n <= 1)), CannotTabulate,
         "not known for all sizes"),
        (lambda: axe.locations(S[(n, 4):(4, 1)], (n, 0)), LayoutError, "one of 4"),
        (lambda: axe.locations(S[4:1] + R[n:1], 0), CannotTabulate, "not known for all sizes"),
        (lambda: axe.locations(S[4:1] + R[3_000_000:3], 0), CannotTabulate, "3000000"),
        (lambda: axe.group(S[n:1], (m, k)), LayoutError, "the same number"),
        (lambda: axe.group(S[(n, m):(m, 1)], (m, n)), NoLayout, "provably divides"),
        (lambda: axe.slice_of(S[n:1], (n,), [(0, 2)]), LayoutError, "0 <= start < stop <= extent"),
        (lambda: axe.split(S[n:1 @ lane], lane, [("a", 2), ("b", 2)]), CannotTabulate, "an iter that ends there"),
        (lambda: axe.tile_of(S[n:1], S[2:1], (n,), (2,)), NoLayout, "not consist of tiles"),
        (lambda: draw(S[n:1]), CannotTabulate, "where"),
        (lambda: (S[n:1] + R[2:m]).given(m >= 1).where(m=0), LayoutError, "contradicts what is known"),
        (lambda: S[n:0], ATLError, "not 0"),
        (lambda: S[1.5:n], ATLError, "extent 1.5"),
    ],
    ids=range(15),
)  # fmt: skip
def test_undecided_questions_are_refused_with_a_message(
    made: Callable[[], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        made()


def test_undecided_replicas_are_unknown() -> None:
    a, b = ((S[4:1] + R[(2, k) : (n, step)]).given(n >= 1) for step in (3, 3))
    assert isinstance(equal(a, b), Proved)
    assert isinstance(equal((S[4:1] + R[n:1]).given(n <= 1), S[4:1]), Proved | Unknown)
