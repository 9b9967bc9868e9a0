"""Programs for elements of several ranks: `Program.at_rank`, its meaning and theorems about it."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atl
from atl.core.program import Program

n, m = atl.sizes("n m")


def blur() -> Program:
    f = atl.tensor("f", n, dtype="float64")

    def sum_of_two(i: atl.IndexExpr) -> atl.Tensor:
        return atl.guard(i >= 1, f[i - 1]) + 3 * f[i]

    return atl.program(
        "blur",
        [f],
        atl.let(atl.gen(n, sum_of_two), lambda b: atl.gen(n, lambda i: atl.guard(i >= 1, b[i - 1]) + b[i])),
    )


def addition() -> Program:
    x, y = atl.tensor("x", n, dtype="float64"), atl.tensor("y", n, dtype="float64")
    return atl.program("addition", [x, y], atl.gen(n, lambda i: x[i] + y[i]))


def layer_norm() -> Program:
    x, g = atl.tensor("x", n, dtype="float64"), atl.tensor("g", n, dtype="float64")
    mean = atl.sum(n, lambda i: x[i]) / atl.value(n)

    def normalised(mu: atl.Tensor) -> atl.Tensor:
        variance = atl.sum(n, lambda i: (x[i] - mu) * (x[i] - mu)) / atl.value(n)
        return atl.let(variance, lambda v: atl.gen(n, lambda i: g[i] * (x[i] - mu) / atl.sqrt(v + 1e-5)))

    return atl.program("layer_norm", [x, g], atl.let(mean, normalised), given=[n >= 1])


def prefix_sums() -> Program:
    x = atl.tensor("x", n, dtype="float64")
    return atl.program("prefix", [x], atl.rec(n, lambda p, y: atl.guard(p >= 1, y[p - 1]) + x[p], of=()))


def weighted() -> Program:
    x, w = atl.tensor("x", n, m, dtype="float64"), atl.tensor("w", m, dtype="float64")
    total = atl.gen(m, lambda j: w[j] * 2)
    return atl.program(
        "weighted",
        [x, w],
        atl.let(total, lambda t: atl.gen(n, lambda i: atl.concat(t, atl.gen(m, lambda j: x[i, j])))),
    )


def sliced(program: Program, rank: int, kept: tuple[str, ...], random: np.random.Generator) -> None:
    """Compare element (p, t) at a rank with element p of the program on the slices at t."""
    shape = (2, 1, 3)[:rank]
    of = {"n": 4, "m": 3}
    arrays: dict[str, Any] = {
        array.name: random.random(
            (*(of[str(extent)] for extent in array.shape), *(() if array.name in kept else shape))
        )
        for array in program.inputs
    }
    extended = program.at_rank(rank, [array.name for array in program.inputs if array.name not in kept])
    found = atl.evaluate(extended, **arrays)
    compiled = atl.compile(extended)(**arrays)
    np.testing.assert_allclose(compiled, found, rtol=1e-12)
    for t in np.ndindex(*shape):
        one: dict[str, Any] = {name: array if name in kept else array[(..., *t)] for name, array in arrays.items()}
        np.testing.assert_allclose(found[(..., *t)], atl.evaluate(program, **one), rtol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("rank", range(4))
@pytest.mark.parametrize(
    ("made", "kept"),
    [
        (blur, ()),
        (addition, ()),
        (addition, ("y",)),
        (layer_norm, ()),
        (layer_norm, ("g",)),
        (prefix_sums, ()),
        (weighted, ("w",)),
        (weighted, ("x",)),
    ],
)
def test_an_element_is_computed_from_the_slices(made: Callable[[], Program], kept: tuple[str, ...], rank: int) -> None:
    sliced(made(), rank, kept, np.random.default_rng(rank))


def test_a_let_whose_value_is_not_used_keeps_its_body() -> None:
    x, y = atl.tensor("x", n, dtype="float64"), atl.tensor("y", n, dtype="float64")
    program = atl.program("ignored", [x, y], atl.let(2 * x, lambda _: y), given=[n >= 1])
    sliced(program, 2, ("y",), np.random.default_rng(0))


@pytest.mark.long
@pytest.mark.parametrize("rank", range(4))
def test_a_theorem_holds_at_each_rank(rank: int, tmp_path: Path) -> None:
    session = atl.reschedule(blur())
    session.fuse("b")
    theorem = session.done()
    if not rank:
        theorem.save(tmp_path / "blur.atl.json")
        check = [sys.executable, "-m", "atl", "check", str(tmp_path / "blur.atl.json")]
        subprocess.run(check, check=True, capture_output=True)
    again = atl.reschedule(theorem.lhs.at_rank(rank))
    assert again.equal_to(theorem.rhs.at_rank(rank)).rhs == theorem.rhs.at_rank(rank)


def test_unsupported_ranks_and_inputs_are_refused() -> None:
    for rank in (-1, 9, True, "2"):
        with pytest.raises(atl.RankError, match="elements of rank"):
            addition().at_rank(rank)  # type: ignore[arg-type]
    with pytest.raises(atl.InvalidArgument, match="names of inputs"):
        addition().at_rank(1, ["z"])
    at = atl.tensor("at", n, dtype="int32", range=(0, n))
    x = atl.tensor("x", n)
    gather = atl.program("gather", [x, at], atl.gen(n, lambda i: x[at[i]]))
    assert [len(array.shape) for array in gather.at_rank(2).inputs] == [3, 1]
    with pytest.raises(atl.InvalidArgument, match="read in indices"):
        gather.at_rank(1, ["at"])
    with pytest.raises(atl.InvalidArgument, match="several results"):
        atl.program("two", [x], (x, x)).at_rank(1)
