"""Time tiling: the values of tiled stencils at all sizes, the certificate, the loop nest, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import and_
from typing import Any

import numpy as np
import pytest

import atl
from atl import IndexExpr, Program, Session, Tensor
from atl.errors import InvalidArgument
from lowering import lower, print_nest
from lowering.nest.execution import Trap
from lowering.nest.interpreter import run
from lowering.passes import unread_zeros
from rewrites import kernel
from rewrites.certificates.certificate import dumps, loads
from rewrites.errors import DoesNotApply


def stencil(rank: int, steps: int | None = None, before: int = 1, after: int = 1) -> Program:
    """Return the iteration of a sum over neighbours at some distances, which keeps the cells at the borders."""
    n = atl.sizes("n")
    a = atl.tensor("a", *[n] * rank, dtype="int64")

    def step(s: IndexExpr, u: Tensor) -> Tensor:
        def cell(*at: IndexExpr) -> Tensor:
            inside = reduce(and_, [(i >= before) & (i < n - after) for i in at])
            total = u[at]
            for dimension in range(rank):
                for by in (-before, after):
                    total += by * u[tuple(i + by * (d == dimension) for d, i in enumerate(at))]
            return atl.select(inside, total + atl.value(s), u[at])

        cells: tuple[Callable[..., Tensor], ...] = (
            lambda i: cell(i),  # noqa: PLW0108
            lambda i, j: cell(i, j),  # noqa: PLW0108
            lambda i, j, k: cell(i, j, k),  # noqa: PLW0108
        )
        return atl.gen(*[n] * rank, cells[rank - 1])

    return atl.program("stencil", [a], atl.iterate(atl.sizes("T") if steps is None else steps, a, step))


def expected(a: Any, steps: int, before: int = 1, after: int = 1) -> Any:
    state = a.copy()
    inner = (slice(before, max(a.shape[0] - after, before)),) * a.ndim
    for s in range(steps):
        total = state.copy()
        for dimension in range(a.ndim):
            for by in (-before, after):
                total += by * np.roll(state, -by, dimension)
        state[inner] = (total + s)[inner]
    return state


def session(step: Callable[[IndexExpr, Tensor], Tensor], rank: int = 1) -> Session:
    n = atl.sizes("n")
    a = atl.tensor("a", *[n] * rank, dtype="float64")
    return atl.reschedule(atl.program("f", [a], atl.iterate(8, a, lambda s, u: step(n, u))))


CASES = [
    (1, 4, {"i": 8}, 1, 1),
    (1, 3, {"i": 2}, 2, 1),
    (2, 2, {"i": 4, "j": 8}, 1, 1),
    (2, 3, {"i": 5}, 1, 2),
    pytest.param(3, 2, {"i": 4, "j": 3}, 1, 1, marks=pytest.mark.long),
    pytest.param(3, 2, {"i": 4, "j": 3, "k": 5}, 1, 1, marks=pytest.mark.long),
]


@pytest.mark.long
@pytest.mark.parametrize(("rank", "k", "widths", "before", "after"), CASES)
def test_values_at_all_sizes(rank: int, k: int, widths: dict[str, int], before: int, after: int) -> None:
    """Windows reach beyond the domain for most sizes, and blocks of steps leave a remainder."""
    tiled = atl.reschedule(stencil(rank, None, before, after)).time_tile("u", k, **widths)
    run = tiled.compile()
    for n in (0, 1, 2, 3, 5, 8, 9, 13):
        for steps in (0, 1, k - 1, k, 2 * k + 1):
            a = np.random.default_rng(n).integers(-9, 9, (n,) * rank)
            np.testing.assert_array_equal(run(a, T=steps), expected(a, steps, before, after), f"{n} {steps}")


@pytest.mark.long
def test_reference_meaning() -> None:
    s = atl.reschedule(stencil(1)).time_tile("u", 2, i=3)
    for n, steps in ((1, 2), (4, 5), (7, 4)):
        a = np.arange(n)
        np.testing.assert_array_equal(atl.evaluate(s.goal, a, T=steps), expected(a, steps))


@pytest.mark.long
def test_certificate_is_replayed() -> None:
    theorem = atl.reschedule(stencil(1)).time_tile("u", 2, i=4).done()
    text = dumps(theorem)
    read = loads(text)
    assert (read.lhs, read.rhs) == (theorem.lhs, theorem.rhs)
    assert dumps(read) == text
    assert not theorem.caveat
    turned = kernel.symmetry(theorem)
    assert loads(dumps(turned)).rhs == theorem.lhs


@pytest.mark.long
def test_rows_of_windows_are_stored_without_zeros() -> None:
    """The windows shrink on both sides, and the loops over them have the bounds of what is read later."""
    s = atl.reschedule(stencil(1, 8)).time_tile("u", 4, i=16)
    nest = print_nest(lower(s.goal))
    kept, omitted = str(s.explain("w")).splitlines()
    assert kept.startswith("w: 2 rows are kept; ")
    assert omitted == (
        "w: zeros of padding are not stored; every read is proved to be of an element that a step computes"
    )
    assert kept in nest
    assert "alloc w[2, 24], circular on stack" in nest
    assert "for i in max(5 - 16*io, r)..min(24 - r, max(5 - 16*io, n - 16*io + 3)):" in nest
    assert "else 0" not in nest


def test_zeros_that_are_read_are_stored() -> None:
    """A step that adds padding of the row before needs its zeros."""
    n = atl.sizes("n", min=4)
    a = atl.tensor("a", n, dtype="int64")

    def row(s: IndexExpr, u: Tensor) -> Tensor:
        return atl.gen(n, lambda i: atl.guard(i < n - 1, atl.select(i >= 1, u[i - 1] + u[i] + u[i + 1], u[i])))

    program = atl.program("f", [a], atl.gen(2, lambda j: atl.iterate(3, a, row)))
    assert "u[s, n - 1] = 0" in print_nest(lower(program))
    explained = str(atl.reschedule(program).explain("u")).splitlines()
    (stored,) = [line for line in explained if "zeros" in line]
    assert stored.startswith("u: zeros of padding are stored, since `u[s, i] = (u[s - 1, i - 1] + ")
    assert stored.endswith("` may read one")
    np.testing.assert_array_equal(atl.compile(program)(np.arange(6)), atl.evaluate(program, np.arange(6)))


@pytest.mark.long
def test_whole_rows_of_zeros_are_not_stored() -> None:
    """Windows of tiles of two of three dimensions have guards around whole rows."""
    s = atl.reschedule(stencil(3, 4)).time_tile("u", 2, i=4, j=3)
    nest = lower(s.goal)
    assert "] = 0\n" not in print_nest(nest)
    a = np.random.default_rng(0).integers(-9, 9, (6, 6, 6))
    np.testing.assert_array_equal(run(nest, {"n": 6}, {"a": a}), expected(a, 4))


@pytest.mark.long
@pytest.mark.parametrize("fault", [None, "_is_stored", "proves"])
def test_whole_rows_of_zeros_that_are_read_are_stored(fault: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step adds a row of padding of the state before. Without its zeros, the interpreter traps the read."""
    n = atl.sizes("n", min=4)
    a = atl.tensor("a", n, n, dtype="int64")

    def state(s: IndexExpr, u: Tensor) -> Tensor:
        def row(i: IndexExpr) -> Tensor:
            return atl.gen(n, lambda j: atl.select(i >= 1, u[i - 1, j] + u[i, j] + u[i + 1, j], u[i, j]))

        return atl.gen(n, lambda i: atl.guard(i < n - 1, row(i)))

    if fault is not None:
        monkeypatch.setattr(unread_zeros, fault, lambda *_: True)
    program = atl.program("f", [a], atl.gen(2, lambda j: atl.iterate(3, a, state)))
    nest = lower(program)
    numbers = np.arange(36).reshape(6, 6)
    if fault is None:
        np.testing.assert_array_equal(run(nest, {"n": 6}, {"a": numbers}), atl.evaluate(program, numbers))
        return
    with pytest.raises(Trap, match="read"):
        run(nest, {"n": 6}, {"a": numbers})


@pytest.mark.long
def test_number_of_steps_that_is_a_multiple_has_no_remainder() -> None:
    T = atl.sizes("T")  # noqa: N806
    s = atl.reschedule(stencil(1), given=[T % 4 == 0]).time_tile("u", 4, i=8)
    assert str(s.goal).count("rec[") == 2
    assert str(s.goal).endswith("[T // 4]")
    assert str(atl.reschedule(stencil(1)).time_tile("u", 4, i=8).goal).endswith("[T % 4]")


def test_loops_may_have_the_names_of_parameters() -> None:
    s = session(lambda n, u: atl.gen(n, lambda k: 2 * u[k])).time_tile("u", 4, k=8)
    assert "⊞[ki < 8]" in str(s.goal)


@pytest.mark.long
def test_tiles_may_be_computed_in_parallel() -> None:
    s = atl.reschedule(stencil(2)).time_tile("u", 2, i=4, j=4).mark("io", "parallel")
    s.check()
    a = np.arange(81).reshape(9, 9)
    np.testing.assert_array_equal(s.compile()(a, T=5), expected(a, 5))


@pytest.mark.parametrize(
    ("rank", "step", "widths", "message", "required"),
    [
        (
            1,
            lambda n, u: atl.gen(n, lambda i: u[n - 1 - i]),
            {"i": 8},
            "the step reads the element at n - i - 1 of dimension 0 for the element at i",
            "reads at i plus a constant in dimension 0",
        ),
        (
            2,
            lambda n, u: atl.gen(n, n, lambda i, j: u[i, 0] + u[i, j]),
            {"i": 8, "j": 8},
            "the step reads the element at 0 of dimension 1 for the element at j",
            "reads at j plus a constant in dimension 1",
        ),
        (
            1,
            lambda n, u: atl.gen(n, lambda i: u[i] + u[i + 1]),
            {"i": 8},
            "the read of the state before at 8*o + i - 3 is not proved to be in the window",
            "8*o + i <= n + 2",
        ),
        (
            2,
            lambda n, u: atl.gen(n, n, lambda i, j: 2 * u[i, j]),
            {"j": 8},
            "tiles of j, and a step that has the loops i, j",
            "widths for the outermost loops of the step, in order: i=…",
        ),
        (
            1,
            lambda n, u: atl.let(atl.gen(n, lambda i: 2 * u[i]), lambda v: atl.gen(n, lambda i: v[i])),
            {"i": 8},
            "tiles of i, and a step that is not a generation",
            "widths for the outermost loops of the step, in order",
        ),
    ],
)
def test_refused_steps(
    rank: int, step: Callable[[Any, Any], Tensor], widths: dict[str, int], message: str, required: str
) -> None:
    s = session(step, rank)
    before = str(s)
    with pytest.raises(DoesNotApply) as caught:
        s.time_tile("u", 4, **widths)
    assert message in str(caught.value)
    assert required in str(caught.value)
    assert str(s) == before


def test_read_outside_the_state_is_refused_with_numbers() -> None:
    with pytest.raises(DoesNotApply) as caught:
        session(lambda n, u: atl.gen(n, lambda i: u[i] + u[i + 1])).time_tile("u", 4, i=8)
    numbers = caught.value.numbers
    assert isinstance(numbers, dict)
    assert 8 * numbers["o"] + numbers["i"] > numbers["n"] + 2


@pytest.mark.parametrize("steps", [0, 3])
def test_fewer_steps_than_a_block_are_refused(steps: int) -> None:
    with pytest.raises(DoesNotApply, match=f"the {steps} steps are fewer than k=4"):
        atl.reschedule(stencil(1, steps)).time_tile("u", 4, i=8)


def test_refused_recurrences() -> None:
    n = atl.sizes("n", min=2)
    x = atl.tensor("x", n, dtype="float64")
    one, two = (atl.gen(count, lambda i: x[i]) for count in (1, 2))
    older = atl.rec(one, n, lambda p, y: y[p - 1] + atl.select(p >= 2, y[p - 2], 0))
    for body, message in (
        (older[n - 1], "row p of y reads y[p - 2]"),
        (atl.rec(two, n, lambda p, y: y[p - 1] + y[p - 2])[n - 1], "y begins with 2 rows"),
        (atl.rec(one, n, lambda p, y: 2 * y[p - 1]), "all rows of y are read"),
    ):
        with pytest.raises(DoesNotApply, match=message.replace("[", r"\[")):
            atl.reschedule(atl.program("f", [x], body)).time_tile("y", 2, i=4)
    with pytest.raises(DoesNotApply, match="'x' is not a recurrence"):
        atl.reschedule(atl.program("f", [x], older)).time_tile("x", 2, i=4)


@pytest.mark.parametrize(
    ("k", "widths", "required"),
    [
        (0, {"i": 8}, "the number of steps of a block, a positive integer"),
        (4, {"i": "8"}, "the width of tiles of i, a positive integer"),
        (4, {}, "a width for the outermost loop of the step: i=64"),
    ],
)
def test_refused_numbers(k: int, widths: dict[str, Any], required: str) -> None:
    with pytest.raises(InvalidArgument, match=required):
        atl.reschedule(stencil(1)).time_tile("u", k, **widths)


@pytest.mark.long
def test_step_with_a_decided_choice_is_tiled() -> None:
    m, T = atl.sizes("m T")  # noqa: N806
    a = atl.tensor("a", m, dtype="float64")
    step = atl.iterate(T, a, lambda s, u: atl.gen(m, lambda i: atl.select((i >= 0) & (i < m), u[i] * 0.5, u[i])))
    s = atl.reschedule(atl.program("halves", [a], step)).time_tile("u", 2, i=3)
    numbers = np.arange(7.0)
    for steps in range(5):
        np.testing.assert_allclose(s.compile()(numbers, T=steps), numbers * 0.5**steps)
