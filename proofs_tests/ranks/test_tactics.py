"""Tactics of programs on ranks, and shardings: results, and the messages of refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import atl
from atl.core.index import constant
from examples.distributed import SHIPPED, summa
from layouts import NoLayout
from layouts.axe import S, axis
from layouts.sharding import sharding_of
from lowering.ranks.forming import form
from lowering.ranks.kernel import DistributedKernel
from lowering.ranks.steps import exchanges

UNTYPED: Any = atl.shards
NUMBER: Any = 3
P, Q, nb, b, n = atl.sizes("P Q nb b n", min=1)


def session(text: str) -> atl.Session:
    return atl.reschedule(atl.parse(text))


def doubled() -> atl.Session:
    x = atl.tensor("x", P * nb, n)
    return atl.reschedule(atl.program("doubled", [x], atl.gen(P * nb, n, lambda i, j: 2 * x[i, j])))


def test_axe_layouts_shard_along_their_axes() -> None:
    x = axis("x")
    by_axe = doubled().shard_result(S[(P, nb, n) : (1 @ x, n, 1)]).shard("x", S[(P, nb, n) : (1 @ x, n, 1)])
    plain = doubled().shard_result(atl.shards(x=(0, P, nb))).shard("x", atl.shards(x=(0, P, nb)))
    assert by_axe.goal == plain.goal
    assert by_axe.goal.sharded == plain.goal.sharded


def test_device_axes_come_first_in_the_order_x_y_z() -> None:
    made, axes = sharding_of(S[(2, 3, 4) : (1 @ axis("y"), 1 @ axis("x"), 1)], constant(6), constant(4))
    assert [each.value for each in axes] == ["device.x", "device.y", ""]
    assert made.places == tuple(map(constant, (3, 2, 4)))
    assert made.place([constant(5), constant(3)]) == tuple(map(constant, (2, 1, 3)))
    assert made.origin([constant(2), constant(1), constant(3)]) == (constant(5), constant(3))


def test_distribute_moves_a_loop_out_of_a_sum() -> None:
    s = session("f (x : float32[P | device.x, m, b]) : float32[P, b] := Σ[k < m] ⊞[d < P] ⊞[i < b] x[d, k, i]")
    s.distribute("d", "x")
    assert str(s.goal).endswith("⊞[d < P | device.x] Σ[k < m] ⊞[i < b] x[d, k, i]")
    assert s.done().rhs == s.goal


def test_shard_keeps_lets_outside_of_the_loops_of_the_result() -> None:
    x = atl.tensor("x", P * b)
    body = atl.let(atl.sum(P * b, lambda i: x[i]), lambda total: atl.gen(P * b, lambda i: x[i] / total), name="total")
    s = atl.reschedule(atl.program("f", [x], body)).shard_result(atl.shards(x=(0, P, b)))
    assert "let total := Σ[i < P*b] x[i] in" in str(s.goal)
    assert str(s.goal).index("let total") < str(s.goal).index("device.x")


def test_cyclic_shards_hold_every_element() -> None:
    x = atl.tensor("x", n)
    program = atl.program("same", [x], atl.gen(n, lambda i: 3 * x[i]))
    s = atl.reschedule(program, given=[n <= P * b])
    s.shard_result(atl.shards("cyclic", x=(0, P, b))).shard("x", atl.shards("cyclic", x=(0, P, b)))
    steps = form(s.goal)
    assert not list(exchanges(steps.steps))
    given = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    kernel = DistributedKernel(steps, atl.Mesh(x=2), "interpreter")
    assert kernel(given, n=5).tolist() == [[3, 6, 9], [12, 15, 0]]


def test_local_parts_take_ordinary_schedules() -> None:
    """The loops of a rank are tiled and marked like those of any program."""
    s = doubled().shard_result(atl.shards(x=(0, P, nb)), ["d", "i", "j"]).shard("x", atl.shards(x=(0, P, nb)))
    s.tile("j", 8).mark("ji", "vector").parallelize("i")
    kernel = atl.compile(s.goal, mesh=atl.Mesh(x=2))
    given = np.ones((2, 3, 20), np.float32)
    assert (kernel(given) == 2).all()
    assert "⊞[ji < 8 | vector]" in str(kernel.steps)


@pytest.mark.long
def test_the_local_part_of_summa_takes_register_tiles() -> None:
    s = summa().interchange("⊞[i < nb] ⊞[j < mb] _").tile(["j", "i"], [32, 8]).interchange("⊞[ji < _] _")
    s.accumulate("Σ[pi < _] _ * _").mark("acc", "registers").tails(strategy="split")
    assert len(s.steps) == 15
    kernel = atl.compile(s.goal, mesh=atl.Mesh(x=2, y=2))
    random = np.random.default_rng(0)
    left, right = (random.integers(1, 9, (2, 2, *shape)).astype(np.float32) for shape in ((37, 21), (21, 70)))
    np.testing.assert_array_equal(kernel(left, right), np.einsum("xkip,kypj->xyij", left, right))


@pytest.mark.long
def test_optimize_makes_the_local_parts_fast() -> None:
    s = SHIPPED["rows"]()
    kernel = atl.compile(s.goal, mesh=atl.Mesh(x=2), optimize=True)
    random = np.random.default_rng(0)
    left, right = random.integers(1, 9, (2, 20, 30)), random.integers(1, 9, (2, 15, 17))
    found = kernel(left.astype(np.float32), right.astype(np.float32))
    np.testing.assert_array_equal(found.reshape(40, 17), left.reshape(40, 30) @ right.reshape(30, 17))


ROWS = "f (x : float32[P | device.x, b]) : float32[P, b] := ⊞[d < P] ⊞[i < b] 2 * x[d, i]"
REFUSED: dict[str, tuple[Callable[[], Any], type[atl.ATLError], str]] = {
    "an unknown axis": (lambda: session(ROWS).distribute("d", "w"), atl.InvalidArgument, "axis 'w'"),
    "an inner loop": (
        lambda: session(ROWS).distribute("i", "x"), atl.DoesNotApply,
        "i does not fill the leading dimension of the result or of a let",
    ),
    "a sum": (
        lambda: session("f (x : float32[P]) : float32 := Σ[d < P] x[d]").distribute("d", "x"), atl.DoesNotApply,
        "d is not a loop that fills a tensor",
    ),
    "a loop over ranks that is not a reduction": (
        lambda: session(ROWS).reduce_over("d", "x"), atl.DoesNotApply, "d is not a reduction",
    ),
    "terms that are equal": (
        lambda: session("f (x : float32) : float32 := Σ[d < P] x").reduce_over("d", "x"), atl.ATLError, "",
    ),
    "a halo after sharding": (
        lambda: session(
            "f (u : float32[P | device.x, b]) : float32[P, b] given 1 <= b := ⊞[d < P | device.x] ⊞[i < b] "
            "([1 <= d*b + i] · u[(d*b + i - 1) // b, (d*b + i - 1) % b]) + u[d, i]"
        ).exchange("u", at="d"),
        atl.DoesNotApply, "whole shards would be exchanged for u_read",
    ),
    "no dimension": (atl.shards, atl.InvalidArgument, "no dimension is sharded"),
    "an axis of shards": (lambda: atl.shards(w=(0, P, b)), atl.InvalidArgument, "unknown axis w"),
    "a shard without a length": (lambda: UNTYPED(x=(0, P)), atl.InvalidArgument, "x=(0, P)"),
    "one dimension twice": (
        lambda: atl.shards(x=(0, P, b), y=(0, Q, b)), atl.InvalidArgument, "sharded along two axes",
    ),
    "an order": (lambda: UNTYPED("random", x=(0, P, b)), atl.InvalidArgument, "order='random'"),
    "a dimension that is not there": (
        lambda: doubled().shard("x", atl.shards(x=(2, P, nb))), NoLayout, "dimension 2 is sharded",
    ),
    "shards that are too short": (
        lambda: doubled().shard_result(atl.shards(x=(1, P, nb))), atl.ATLError, "would be lost",
    ),
    "a layout without device axes": (
        lambda: doubled().shard("x", S[(P * nb, n) : (n, 1)]), NoLayout, "has no device axis",
    ),
    "what is not a layout": (lambda: doubled().shard("x", NUMBER), atl.InvalidArgument, "3 is not a sharding"),
    "names of the loops": (
        lambda: doubled().shard_result(atl.shards(x=(0, P, nb)), ["d"]), atl.InvalidArgument, "3 names",
    ),
    "a scalar result": (
        lambda: session("f (x : float32[P]) : float32 := Σ[d < P] x[d]").shard_result(atl.shards(x=(0, P, b))),
        atl.InvalidArgument, "has no dimensions",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    call, kind, said = REFUSED[name]
    with pytest.raises(kind) as found:
        call()
    assert said in str(found.value)
