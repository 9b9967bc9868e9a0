"""Shipped gradients: values against finite differences, certificates, steps and costs, and the table in the docs."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import scipy.sparse

import atl
from examples.gradients import SHIPPED
from proofs_tests.gradients.shipped import cost, row
from rewrites import Session
from rewrites.certificates.certificate import dumps, loads

SMALL: Final = {
    **dict.fromkeys(("n", "L", "W"), 9), **dict.fromkeys(("m", "k", "S", "H", "F"), 7), "E": 5, "C": 3, "K": 4, "b": 2,
    "B": 2, "R": 3, "T": 2, "v": 6,
}  # fmt: skip
"""Sizes without a multiple of a tile."""
LIGHT: Final = ("softmax, keeping", "stencil", "wave step", "embedding", "SpMV")
"""Gradients whose derivations are short. The others are checked in the long run of the tests."""
ALL: Final = [each if each in LIGHT else pytest.param(each, marks=pytest.mark.long) for each in SHIPPED]
MOST_STEPS: Final = 150
MOST_COST: Final = {
    "product": 2.01, "batched product": 2.01, "convolution": 2.1, "strided convolution": 2.1, "2-D convolution": 2.1,
}  # fmt: skip


@cache
def session(name: str) -> Session:
    return SHIPPED[name].session("float64")


def arrays_of(program: atl.Program) -> dict[str, Any]:
    """Return random inputs of a program, a quarter of them nonzero for a sparse matrix."""
    numbers = np.random.default_rng(3)
    found: dict[str, Any] = {}
    for array in program.inputs:
        shape = tuple(int(eval(str(extent), {}, SMALL)) for extent in array.shape)
        found[array.name] = numbers.normal(size=shape) * (numbers.random(shape) < (0.25 if array.name == "A" else 1.0))
        if array.dtype == "int64":
            found[array.name] = numbers.integers(0, SMALL["v"], size=shape)
    return found


@pytest.mark.long
@pytest.mark.thinned(11)
@pytest.mark.parametrize("name", ALL)
def test_schedule_agrees_with_finite_differences(name: str) -> None:
    """Compare Σ gradient · direction with the central difference of Σ dout · program along a random direction."""
    shipped, numbers = SHIPPED[name], np.random.default_rng(4)
    program = shipped.program("float64")
    arrays = arrays_of(program)
    sizes: Any = {size: SMALL[size] for size in ("W", "H") if size in program.free_sizes}
    results: Any = atl.evaluate(shipped.gradient("float64").forward or program, **arrays, **sizes)
    first = results[0] if shipped.keep else np.asarray(results)
    dout = numbers.normal(size=first.shape)
    kept = {each: getattr(results, each) for each in shipped.keep}
    given = {**arrays, **kept, "dout": dout}
    sparse = name in ("SpMV", "SDDMM")
    if sparse:
        given["A"] = scipy.sparse.csr_array(arrays["A"]) if name == "SDDMM" else scipy.sparse.csc_array(arrays["A"])
    made: Any = atl.compile(session(name).goal)(**given)
    found = made if len(shipped.wrt) > 1 else (made,)
    along = {each: numbers.normal(size=arrays[each].shape) for each in shipped.wrt}

    def loss(by: float) -> float:
        at = {each: values + by * along[each] if each in along else values for each, values in arrays.items()}
        return float((dout * np.asarray(atl.evaluate(program, **at, **sizes))).sum())

    expected = (loss(1e-6) - loss(-1e-6)) / 2e-6
    total = sum(float((np.asarray(d) * along[each]).sum()) for each, d in zip(shipped.wrt, found, strict=True))
    assert total == pytest.approx(expected, rel=1e-6, abs=1e-6)


@pytest.mark.thinned(11)
@pytest.mark.parametrize("name", ALL)
def test_certificate_of_the_schedule_is_accepted(name: str) -> None:
    theorem = session(name).done()
    again = loads(dumps(theorem))
    assert (again.lhs, again.rhs) == (theorem.lhs, theorem.rhs)


@pytest.mark.parametrize("name", ALL)
def test_gather_takes_few_steps_and_the_gradient_few_operations(name: str) -> None:
    s = SHIPPED[name].gathered()
    assert len(s.theorem.steps) <= MOST_STEPS
    assert cost(SHIPPED[name], s.goal) <= MOST_COST.get(name, 4.0)


def test_scatter_to_sorted_positions_is_a_segmented_reduction() -> None:
    """A table of numbers: with rows, the loop over an element of a row would leave the order of memory."""
    n, v = atl.sizes("n v")
    table, word = atl.tensor("table", v), atl.tensor("word", n, dtype="int64", range=(0, v), monotonic="nondecreasing")
    rows = atl.gradient(atl.program("rows", [table, word], atl.gen(n, lambda i: table[word[i]])), "table").program
    s = atl.reschedule(rows).gather()
    assert "Σ[i < n | runs] place v word[i] dout[i]" in str(s.goal)
    at, y = np.array([0, 0, 2, 2, 2, 3]), np.arange(6, dtype=np.float32)
    assert np.asarray(s.compile()(np.zeros(5, np.float32), at, y)).tolist() == [1, 0, 9, 5, 0]
    unsorted = atl.parse(str(rows).replace(" rising", ""))
    with pytest.raises(atl.DoesNotApply, match="are data"):
        atl.reschedule(unsorted).gather()


def test_scatter_of_an_embedding_remains_with_a_note() -> None:
    assert "a scatter remains: the positions of place v word[i]" in repr(session("embedding"))


@pytest.mark.long
@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", ALL)
def test_table_of_the_documents_is_generated(name: str) -> None:
    """Regenerate it by `python -m proofs_tests.gradients.shipped`."""
    assert row(name) in (Path(__file__).parents[2] / "docs" / "gradients.md").read_text(encoding="utf-8")
