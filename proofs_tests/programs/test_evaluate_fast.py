"""Fast evaluation: agreement with the reference on random programs, in blocks of any size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import atl
from atl.errors import ArgumentError, OutOfMemory
from atl.meaning import vectorised
from proofs_tests.programs.agreement import Expected, _meaning, disagreement
from proofs_tests.programs.choices import Seeded
from proofs_tests.programs.generate import Case, case

n, m, k = atl.sizes("n m k")


def wanted(numbers: range) -> Iterator[Expected]:
    """Yield the expected results of random programs, with error bounds."""
    for number in numbers:
        made = case(Seeded.by(f"fast:{number}"))
        if isinstance(made, Case):
            found = _meaning(made, None)  # type: ignore[arg-type]
            if isinstance(found, Expected):
                yield found


@pytest.mark.sampled
@pytest.mark.parametrize("elements", [1, 7, 64, 1 << 20])
def test_random_programs_agree_with_the_reference(elements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectorised, "BLOCK_SIZE", elements)
    compared = 0
    for expected in wanted(range(elements % 5 * 40, elements % 5 * 40 + 20)):
        tried = expected.case
        got = atl.evaluate_fast(tried.program, **tried.arrays, **tried.sizes)
        assert got.dtype == tried.program.dtype
        assert disagreement(got, expected) is None, str(tried.program)
        compared += 1
    assert compared > 10


@pytest.mark.long
@pytest.mark.parametrize(
    "fault",
    [
        ("_masked", lambda found, test: found),
        ("_read", lambda held, axes, at: vectorised._element(held.values, (*at, *at)[: held.values.ndim])),
        ("_folded", lambda monoid, dtype, total, values: total + values.sum(axis=-1, dtype=dtype)),
    ],
    ids=lambda fault: fault[0],
)
def test_planted_fault_is_found(fault: tuple[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectorised, *fault)
    found = 0
    for expected in wanted(range(30)):
        tried = expected.case
        try:
            got = atl.evaluate_fast(tried.program, **tried.arrays, **tried.sizes)
        except (IndexError, ValueError):
            found += 1
            continue
        found += disagreement(got, expected) is not None
    assert found


def test_large_arrays_are_evaluated_in_bounded_memory() -> None:
    x = atl.tensor("x", n, k, dtype="float64")
    rows = atl.gen(n, lambda i: atl.let(
        atl.gen(k, lambda j: atl.exp(x[i, j])),
        lambda e: atl.let(atl.sum(k, lambda j: e[j]), lambda t: atl.gen(k, lambda j: e[j] / t)),
    ))  # fmt: skip
    held = np.random.default_rng(1).random((400, 3000))
    got = atl.evaluate_fast(atl.program("softmax", [x], rows), held)
    assert np.allclose(got, np.exp(held) / np.exp(held).sum(axis=1, keepdims=True), rtol=1e-13)
    total = atl.program("total", [x], x.sum())
    assert np.isclose(atl.evaluate_fast(total, held), held.sum(), rtol=1e-13)


def test_range_ends_and_guards_agree_with_the_reference() -> None:
    x = atl.tensor("x", n, dtype="float64")
    pos = atl.tensor("pos", m + 1, dtype="int32", range=(0, n + 1))
    ragged = atl.gen(m, lambda i: atl.sum((pos[i], pos[i + 1]), lambda p: x[p]))
    largest = atl.gen(m, lambda i: atl.reduce("max", (pos[i], pos[i + 1]), lambda p: -x[p]))
    lazy = atl.gen(n, lambda i: atl.guard(i >= 1, 1 / (x[i] - x[0])))
    arrays = {"x": np.array([1.0, 2.0, np.nan, 4.0, 8.0]), "pos": np.array([0, 2, 2, 5, 3], np.int32)}
    for body in (ragged, largest, lazy):
        inputs = [x] if body is lazy else [pos, x]
        program = atl.program("f", inputs, body)
        given: dict[str, Any] = {array.name: arrays[array.name] for array in program.inputs}
        np.testing.assert_array_equal(atl.evaluate_fast(program, **given), atl.evaluate(program, **given))


@pytest.mark.long
def test_invalid_arguments_are_refused() -> None:
    x = atl.tensor("x", n)
    padded = atl.program("padded", [x], atl.padr(k, x))
    with pytest.raises(ArgumentError, match="no array determines the size k"):
        atl.evaluate_fast(padded, np.ones(2, np.float32))
    with pytest.raises(OutOfMemory):
        atl.evaluate_fast(padded, np.ones(2, np.float32), k=2**60)
    assert atl.evaluate_fast(padded, np.zeros(0, np.float32), k=0).shape == (0,)
