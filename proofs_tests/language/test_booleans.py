"""Boolean inputs: they occur in conditions only, and are the same in every way to run a program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atl
from atl import load
from lowering import compile as compiled
from lowering import lower
from lowering.nest.interpreter import run
from lowering.timing.inputs import random_inputs
from rewrites import reschedule

n, m = atl.sizes("n m")
mask = atl.tensor("mask", n, m, dtype="bool")
flag = atl.tensor("flag", dtype="bool")
x = atl.tensor("x", n, m)


def masked() -> atl.Program:
    def element(i: atl.IndexExpr, j: atl.IndexExpr) -> atl.Tensor:
        return atl.guard(mask[i, j] & (i < j) | ~mask[i][j] & flag, x[i, j])

    return atl.program("masked", [mask, flag, x], atl.gen(n, m, element))


@pytest.mark.parametrize("value", [False, True])
def test_all_ways_to_run_accept_booleans(value: bool) -> None:
    random = np.random.default_rng(2)
    program = masked()
    kernel = compiled(program)
    for shape in ((4, 5), (0, 3), (1, 1)):
        held, numbers = random.random(shape) < 0.5, random.random(shape).astype(np.float32)
        i, j = np.indices(shape)
        wanted = np.where((held & (i < j)) | (~held & value), numbers, 0)
        sizes = {"n": shape[0], "m": shape[1]}
        for got in (
            atl.evaluate(program, held, value, numbers),
            atl.evaluate(program, held, value, numbers, exact=True).astype(np.float32),
            run(lower(program), sizes, {"mask": held, "flag": np.asarray(value), "x": numbers}),
            kernel(held, value, numbers),
            kernel(held, value, numbers),
        ):
            assert (got == wanted).all()


def test_cached_call_reads_new_booleans() -> None:
    kernel = compiled(atl.program("p", [mask, x], atl.gen(n, m, lambda i, j: atl.guard(mask[i, j], x[i, j]))))
    for held in (np.eye(2, 3, dtype=bool), np.ones((2, 3), bool), np.zeros((2, 3), bool)):
        assert (kernel(held, np.ones((2, 3), np.float32)) == held).all()


def test_booleans_print_and_compile_as_conditions(tmp_path: Path) -> None:
    program = masked()
    assert str(program) == (
        "masked (mask : bool[n, m], flag : bool, x : float32[n, m]) : float32[n, m] :=\n"
        "  ⊞[i < n] ⊞[j < m] [(mask[i, j] ∧ i < j) ∨ (not mask[i, j] ∧ flag)] · x[i, j]"
    )
    assert atl.parse(str(program)) == program
    s = reschedule(program).tile("i", 2)
    s.done().save(tmp_path / "masked.atl.json")
    assert load(tmp_path / "masked.atl.json").rhs == s.goal
    source = compiled(program).source
    assert "const uint8_t *restrict mask" in source
    assert "!mask[i * m + j]" in source


@pytest.mark.parametrize(
    "made",
    [
        lambda: x * mask,
        lambda: atl.gen(n, lambda i: x[mask[i, 0], 0]),
        lambda: atl.guard(mask[0, 0] == 1, x),
        lambda: atl.value(mask[0, 0]),
        lambda: atl.sum(n, lambda i: mask[i, 0]),
        lambda: -mask,
    ],
    ids=["factor", "index", "compared", "number", "summed", "negated"],
)
def test_booleans_are_refused_as_numbers(made: Callable[[], atl.Tensor]) -> None:
    with pytest.raises(atl.ATLError, match=r"ATL202|ATL102"):
        atl.program("p", [mask, x], made())


@pytest.mark.parametrize("given", [{"range": (0, 2)}, {"monotonic": "increasing"}])
def test_booleans_have_no_range_or_order(given: Any) -> None:
    with pytest.raises(atl.ATLError, match="the elements of mask are bool"):
        atl.tensor("mask", n, dtype="bool", **given)


@pytest.mark.parametrize("given", [np.ones((2, 3), int), np.ones((2, 3), np.float32)], ids=["integers", "floats"])
def test_call_requires_boolean_arrays(given: Any) -> None:
    kernel = compiled(masked())
    with pytest.raises(atl.ATLError, match="not bool") as refused:
        kernel(given, True, np.ones((2, 3), np.float32))
    assert "pass mask.astype(bool)" in str(refused.value)


def test_parser_refuses_booleans_as_indices_and_numbers() -> None:
    for text, said in (
        ("(mask : bool[n], x : float32[n]) := ⊞[i < n] x[mask[i]]", "expected an index, found a condition"),
        ("(mask : bool[n] in [0, 2), x : float32[n]) := x", "ATL"),
        ("(mask : bool[n], x : float32[n]) := mask + x", "ATL202"),
    ):
        with pytest.raises(atl.ATLError, match=said):
            atl.parse(f"p {text}")


def test_random_inputs_include_booleans() -> None:
    made = random_inputs(masked(), {"n": 3, "m": 4})
    assert made["mask"].dtype == np.bool_
    assert made["flag"].dtype == np.bool_
