"""Overflow of indices: what a kernel computes for indices fits into 64 bits, or the call is refused."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import atl
from atl import IndexExpr, Program
from atl.errors import IndexOverflow
from examples.schedules import blur, convolution, matmul, tensor_addition
from lowering import compile as compile_program
from lowering import lower
from lowering.index_overflow import IndexOverflowCheck

AnyArray = npt.NDArray[Any]
n, m, k = atl.sizes("n m k")
x = atl.tensor("x", n)
idx = atl.tensor("idx", m, dtype="int64")
HELD = np.arange(1, 6, dtype=np.float32)
TOP = 2**63 - 1

pytestmark = pytest.mark.usefixtures("private_cache")


def int64(*elements: int) -> AnyArray:
    return np.array(elements, np.int64)


def agrees(program: Program, *arrays: AnyArray, **sizes: int) -> bool:
    """Return whether the kernel agrees with the reference, which has unbounded integers."""
    named: dict[str, Any] = dict(sizes)
    found = compile_program(program)(*arrays, **named)
    return np.array_equal(found, atl.evaluate(program, *arrays, **named))


def after() -> Program:
    """Return a program that reads the element after the one that `idx` points at."""
    return atl.program(
        "after", [x, idx], atl.gen(m, lambda i: atl.guard((idx[i] >= 0) & (idx[i] + 1 < n), x[idx[i] + 1]))
    )


def doubled(*, first: bool = False) -> Program:
    def element(i: IndexExpr) -> atl.Tensor:
        inside = (idx[i] >= 0) & (idx[i] < n) if first else idx[i] >= 0
        return atl.guard(inside & (2 * idx[i] < n), x[2 * idx[i]])

    return atl.program("doubled", [x, idx], atl.gen(m, element))


def product_of_sizes() -> Program:
    return atl.program("product", [x], atl.gen(n, lambda i: x[atl.imin(m * k, i)]))


def test_elements_are_compared_without_adding_a_constant() -> None:
    assert agrees(after(), HELD, int64(0, 3, 4, -1, TOP, TOP - 1, -TOP - 1))
    assert "idx[i] < n - 1" in compile_program(after()).source


@pytest.mark.sampled
@pytest.mark.parametrize("sign", ["<", "<=", "==", "!="])
@pytest.mark.parametrize("by", [-2, -1, 1, 2])
def test_comparison_of_element_and_constant_does_not_wrap(sign: str, by: int) -> None:
    conditions = {
        "<": lambda e, i: (e + by < i) & (i < e + by + 4),
        "<=": lambda e, i: (e + by <= i) & (i <= e + by + 4),
        "==": lambda e, i: e + by == i,
        "!=": lambda e, i: e + by != i,
    }
    program = atl.program(
        "near", [x, idx], atl.gen(m, n, lambda i, j: atl.guard(conditions[sign](idx[i], j + 1), x[j]))
    )
    assert agrees(program, HELD, int64(0, 3, -3, TOP, TOP - 1, TOP - 2, -TOP - 1, -TOP, 1 - TOP))


def test_largest_valid_elements_run_and_the_next_is_refused() -> None:
    assert agrees(doubled(), HELD, int64(0, 2, 3, -1, 2**62 - 1, -(2**62)))
    kernel = compile_program(doubled())
    with pytest.raises(
        IndexOverflow, match=r"^2\*idx\[i\], which doubled computes, may not fit into 64 bits"
    ) as caught:
        kernel(HELD, int64(1, 2**62))
    assert caught.value.code == "ATL406"
    assert isinstance(caught.value, OverflowError)
    assert caught.value.numbers == {"i": "0 … 1", "idx[i]": f"1 … {2**62}"}
    assert f"its known range is 2 to {2**63}" in str(caught.value)
    np.testing.assert_array_equal(kernel(HELD, int64(1, 2)), [3, 5])
    # Cached shapes imply nothing about elements.
    with pytest.raises(IndexOverflow):
        kernel(HELD, int64(1, 2**62))


def test_suggestion_of_the_refusal_works() -> None:
    with pytest.raises(IndexOverflow) as caught:
        compile_program(doubled())(HELD, int64(1, TOP))
    assert caught.value.suggestions == (
        "declare range=(low, high) of idx, or guard with bounds of idx[i] in the outermost condition",
    )
    assert agrees(doubled(first=True), HELD, int64(1, TOP, -TOP - 1))
    limited = atl.tensor("idx", m, dtype="int64", range=(0, n))
    program = atl.program(
        "doubled", [x, limited], atl.gen(m, lambda i: atl.guard(2 * limited[i] < n, x[2 * limited[i]]))
    )
    assert agrees(program, HELD, int64(1, 4))
    for given in (doubled(first=True), program):
        assert IndexOverflowCheck(lower(given)).scanned == ()


def test_empty_array_is_accepted() -> None:
    assert compile_program(doubled())(HELD, int64()).shape == (0,)


def test_scalar_input_is_checked_like_an_array() -> None:
    a = atl.tensor("a", dtype="int64")
    program = atl.program("strided", [x, a], atl.gen(n, lambda i: atl.guard((3 * a >= 0) & (i + 3 * a < n), x[i])))
    assert agrees(program, HELD, np.array(1, np.int64))
    assert agrees(program, HELD, np.array(-1, np.int64))
    with pytest.raises(IndexOverflow, match=r"3\*a"):
        compile_program(program)(HELD, TOP)


def test_elements_of_32_bits_are_never_checked() -> None:
    narrow = atl.tensor("idx", m, dtype="int32")
    program = atl.program(
        "narrow", [x, narrow], atl.gen(m, lambda i: atl.guard((narrow[i] >= 0) & (2 * narrow[i] < n), x[2 * narrow[i]]))
    )
    assert IndexOverflowCheck(lower(program)).scanned == ()
    assert agrees(program, HELD, np.array([0, 2, 3, -1, 2**31 - 1, -(2**31)], np.int32))


def test_value_of_an_index_wraps_like_an_integer() -> None:
    program = atl.program("value", [idx], atl.gen(m, lambda i: atl.value(3 * idx[i])))
    assert agrees(program, int64(1, TOP, -TOP - 1, 2**62))


def test_products_of_sizes_run_up_to_the_largest_that_fits() -> None:
    program = product_of_sizes()
    for pair in ((1, 2), (2**31, 2**31), (3037000499, 3037000500), (2**56, 127), (7 * 73 * 127 * 337, 92737 * 649657)):
        assert agrees(program, HELD, m=pair[0], k=pair[1])
    for pair in ((3037000500, 3037000500), (2**56, 128), (2**32, 2**31)):
        with pytest.raises(IndexOverflow, match=r"^k\*m, which product computes") as caught:
            compile_program(program)(HELD, m=pair[0], k=pair[1])
        assert caught.value.numbers == {"k": str(pair[1]), "m": str(pair[0])}
        assert caught.value.suggestions == ("call it with smaller sizes",)


def test_divisors_bounds_and_numerators_must_fit() -> None:
    divided = atl.program("divided", [x], atl.gen(n, lambda i: x[i // (m * k + 1)]))
    assert agrees(divided, HELD, m=1, k=2)
    with pytest.raises(IndexOverflow, match=r"k\*m \+ 1"):
        compile_program(divided)(HELD, m=2**32, k=2**31)
    last = atl.program("last", [x], atl.gen(n, lambda i: atl.sum(atl.imin(i, m * k), lambda j: x[j])))
    assert agrees(last, HELD, m=1, k=2)
    with pytest.raises(IndexOverflow, match=r"k\*m"):
        compile_program(last)(HELD, m=2**32, k=2**31)
    above = atl.program("above", [x], atl.gen(n, lambda i: x[atl.imin(i, (m * k + i) // 3)]))
    assert agrees(above, HELD, m=1, k=2)
    with pytest.raises(IndexOverflow, match=r"k\*m \+ i"):
        compile_program(above)(HELD, m=2**32, k=2**31)


def test_unreachable_overflow_is_not_refused() -> None:
    program = product_of_sizes()
    assert compile_program(program)(HELD[:0], m=2**40, k=2**40).shape == (0,)
    guarded = atl.program("guarded", [x], atl.gen(n, lambda i: atl.guard(m <= 1000, x[atl.imin(m * m * m, i)])))
    assert agrees(guarded, HELD, m=2)
    assert agrees(guarded, HELD, m=2**56)


def test_hoisted_buffer_has_the_size_known_outside_the_loop() -> None:
    def element(i: IndexExpr) -> atl.Tensor:
        return atl.let(atl.gen(i + 1, lambda j: x[j] + 1.0), lambda row: row[i] + row[0])

    program = atl.program("rows", [x], atl.gen(n, element))
    assert agrees(program, HELD)
    assert IndexOverflowCheck(lower(program)).reach == 2**62


def test_sizes_that_fit_only_some_elements_are_checked_per_call() -> None:
    narrow = atl.tensor("idx", n, dtype="int32")
    program = atl.program(
        "scaled", [x, narrow], atl.gen(n, lambda i: atl.guard((narrow[i] * m >= 0) & (narrow[i] * m < n), x[i]))
    )
    kernel = compile_program(program)
    small, large = np.array([0, 1, 2], np.int32), np.array([0, 1, 2**20], np.int32)
    np.testing.assert_array_equal(kernel(HELD[:3], small, m=2**50), [1, 0, 0])
    with pytest.raises(IndexOverflow):
        kernel(HELD[:3], large, m=2**50)
    np.testing.assert_array_equal(kernel(HELD[:3], large, m=2), [1, 2, 0])


@pytest.mark.parametrize(
    "make",
    [
        *(convolution.gather, convolution.direct, matmul.naive, matmul.tiled, matmul.tiled_with_tails, blur.two_stage),
        *(blur.fused_with_tails, blur.tiled_staged_with_tails, tensor_addition.nested),
    ],
)
def test_schedules_fit_for_all_sizes_in_memory(make: Any) -> None:
    fitting = IndexOverflowCheck(lower(make()))
    assert fitting.scanned == ()
    assert fitting.reach >= 2**31


def _sum_of(chosen: random.Random, i: IndexExpr, depth: int) -> Any:
    if not depth:
        leaves: list[Any] = [i, idx[i], k, k, atl.imin(idx[i], k), n]
        return chosen.choice(leaves)
    left, right = _sum_of(chosen, i, depth - 1), _sum_of(chosen, i, depth - 1)
    match chosen.randrange(7):
        case 0:
            return left + right
        case 1:
            return left - right
        case 2:
            return left * right
        case 3:
            return left * chosen.choice((2, 3, -1, 2**31)) + chosen.choice((-1, 1, 2**40))
        case 4:
            return atl.imax(left, right)
        case 5:
            return left // chosen.choice((2, 7, k + 1))
        case _:
            return left % chosen.choice((2, 7, k + 1))


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(12))
def test_call_agrees_with_unbounded_integers_or_is_refused(seed: int) -> None:
    chosen = random.Random(seed)
    elements = [0, 1, 2, 3, -1, 2**31, -(2**31), 2**32 - 1, 2**62, -(2**62), TOP, -TOP - 1, TOP - 1]

    def element(i: IndexExpr) -> atl.Tensor:
        at = _sum_of(chosen, i, 2)
        return atl.guard((at >= 0) & (at < n), x[at]) + atl.guard(_sum_of(chosen, i, 2) < _sum_of(chosen, i, 1), x[0])

    program = atl.program("odd", [x, idx], atl.gen(m, element), given=[n > 0])
    kernel = compile_program(program)
    ran = 0
    for _ in range(40):
        held = int64(*chosen.sample(elements[: chosen.choice((5, 8, 13))], 4))
        size = chosen.choice((0, 1, 2, 5, 2**31 - 1, 2**32, 2**56))
        try:
            found = kernel(HELD, held, k=size)
        except IndexOverflow:
            continue
        ran += 1
        np.testing.assert_array_equal(found, atl.evaluate(program, HELD, held, k=size))
    assert ran > 3
