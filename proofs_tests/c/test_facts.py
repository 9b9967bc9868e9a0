"""Facts about elements: checked by C code once a kernel has validated the shapes; messages stay the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import _cffi_backend
import numpy as np
import pytest
from cffi import FFI

import atl
from atl.core.dtypes import range_of
from atl.errors import ArrayError
from lowering import compile as compiled
from lowering import element_checks
from lowering.calls.arguments import CachedValidation, OperandSpec, validated_indices
from lowering.element_checks import ElementConstraint, ElementConstraints
from proofs_tests.crashes import in_child

n, m = atl.sizes("n m")
x = atl.tensor("x", m)


def gathering(dtype: str, **declared: Any) -> atl.Program:
    """Return a program that reads x at the indices in A, in rows of three."""
    indices = atl.tensor("A", n, 3, dtype=dtype, **declared)
    return atl.program("gathering", [indices, x], atl.gen(n, 3, lambda i, j: x[indices[i, j]]))


@pytest.mark.long
@pytest.mark.sampled
@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("at", [0, 1, 7, 63, 1000, 2999])
@pytest.mark.parametrize("fault", [-1, 100, 2**31 - 1, -(2**31)])
def test_element_out_of_range_is_found_at_any_position(dtype: str, at: int, fault: int) -> None:
    kernel = compiled(gathering(dtype, range=(0, m)))
    held = np.random.default_rng(1).integers(0, 100, (1000, 3)).astype(dtype)
    values = np.arange(100, dtype=np.float32)
    for _ in range(2):
        assert np.array_equal(kernel(held, values), values[held])
    held.flat[at] = fault
    with pytest.raises(ArrayError, match=rf"A\[{at // 3}, {at % 3}\] is out of the declared range"):
        kernel(held, values)


@pytest.mark.long
def test_decreasing_row_is_found_and_row_boundaries_are_ignored() -> None:
    kernel = compiled(gathering("int32", range=(0, m), monotonic="increasing"))
    values = np.arange(9, dtype=np.float32)
    right = np.array([[6, 7, 8], [0, 4, 5]], np.int32)
    for _ in range(2):
        assert np.array_equal(kernel(right, values), values[right])
    with pytest.raises(ArrayError, match="are not strictly increasing"):
        kernel(np.array([[6, 7, 8], [0, 4, 4]], np.int32), values)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 9, 19])
def test_checks_of_many_arrays_run_together_and_find_each_fault(count: int) -> None:
    """Compare each limit with NumPy; a fault in any array is a fault of the combined check."""
    random = np.random.default_rng(count)
    arrays, limits = [], []
    for place in range(count):
        dtype = ("int32", "int64")[place % 2]
        arrays.append(np.sort(random.integers(0, 50, 24)).astype(dtype))
        positions = ("int32", "int64")[max(place - 1, 0) % 2]
        limits += [
            ElementConstraint(f"outside {dtype}", (place,), 24, (0, 49)),
            ElementConstraint(f"unsorted {dtype}", (place,), 24, range_of(dtype), (4, 0)),
            ElementConstraint(
                f"unsorted {dtype} between {positions}", (place, max(place - 1, 0)), 24, range_of(dtype), (24, 0)
            ),
        ]
    pointers = [_cffi_backend.from_buffer(FFI().typeof(f"{array.dtype}_t[]"), array) for array in arrays]

    def finds(asked: Sequence[element_checks.ConstraintCheck]) -> bool:
        return any(finds_fault(told, *pick(pointers)) for finds_fault, told, pick in asked)

    together = ElementConstraints(limits)
    assert len(together.checks) == 1 or count > 8
    assert not finds(together.checks)
    for place, array in enumerate(arrays):
        for at, fault in ((23, 50), (0, -1), (7, 0)):
            before, array[at] = array[at], fault
            outside, falls = not 0 <= fault < 50, bool((np.diff(array.reshape(6, 4)) < 0).any())
            for limit in limits[3 * place : 3 * place + 2]:
                assert finds(ElementConstraints([limit]).checks) is (
                    outside if limit.question.startswith("out") else falls
                )
            assert finds(together.checks) is (outside or falls or finds(ElementConstraints(limits[2::3]).checks))
            array[at] = before
    alone = [limit for limit in limits if len(set(limit.places)) == 1]
    left = together.checks_except(tuple((place,) for place in range(count)))
    assert sum(told[0] for _, told, _ in left) == len(limits) - len(alone)


@pytest.mark.sampled
@pytest.mark.parametrize(("dtype", "positions"), [("int32", "int32"), ("int64", "int32"), ("int32", "int64")])
@pytest.mark.parametrize("strict", [0, 1])
def test_rows_between_positions_are_checked_to_their_ends(dtype: str, positions: str, strict: int) -> None:
    """Compare all rows of four small numbers, between all positions and in turn for all ranges, with the definition."""
    a, at = np.zeros(4, dtype), np.zeros(3, positions)
    pointers = [_cffi_backend.from_buffer(FFI().typeof(f"{array.dtype}_t[]"), array) for array in (a, at)]
    question = f"unsorted {dtype} between {positions}"
    ranges = ((0, 2), (1, 2), (0, 1), range_of(dtype), (1, 1))
    asked = [
        ElementConstraints([ElementConstraint(question, (0, 1), 4, within, (3, strict))]).checks[0] for within in ranges
    ]
    for turn, ends in enumerate(product(range(-1, 6), repeat=3)):
        at[:] = ends
        spans = [range(max(low, 0) + 1, min(high, 4)) for low, high in pairwise(ends)]
        for row in product(range(3), repeat=4):
            a[:] = row
            falls = any(row[i] < row[i - 1] + strict for span in spans for i in span)
            low, high = ranges[(turn + row[0]) % len(ranges)]
            finds_fault, told, pick = asked[(turn + row[0]) % len(ranges)]
            outside = not low <= min(row) <= max(row) <= high
            assert finds_fault(told, *pick(pointers)) == (falls or outside), (row, ends, low, high)


@pytest.mark.parametrize(
    "ends", [(2**63 - 1, 100, 100), (0, 2**63 - 1, 5), (-(2**63), 5, 2**63 - 1), (2**63 - 1, 0, 3)]
)
def test_extreme_positions_read_nothing_outside_of_a_row(ends: tuple[int, ...]) -> None:
    """Adding 1 to the largest number wraps to the least, which is not a valid address."""
    z, rows = atl.sizes("z rows")
    pos = atl.tensor("pos", rows + 1, dtype="int64", range=(0, z + 1))
    crd = atl.tensor("crd", z, dtype="int64", range=(0, m), monotonic=("increasing", pos))
    kernel = compiled(atl.program("gathered", [pos, crd, x], atl.gen(z, lambda i: x[crd[i]])))
    indices, values = np.arange(100), np.arange(100, dtype=np.float32)
    assert np.array_equal(kernel(np.array([0, 50, 100]), indices, values), values)
    with pytest.raises(ArrayError, match=r"pos.* is out of the declared range"):
        kernel(np.array(ends), indices, values)


def test_decrease_in_a_long_row_is_found_at_any_position() -> None:
    count = 2**21 + 7
    crd = np.arange(count, dtype=np.int32)
    pos = np.array([3, 3, 5, 4100, 4100, 2**20, 2**20, 2**20 + 4, count - 2], np.int32)
    pointers = [_cffi_backend.from_buffer(FFI().typeof("int32_t[]"), array) for array in (crd, pos)]
    ((finds_fault, told, pick),) = ElementConstraints(
        [ElementConstraint("unsorted int32 between int32", (0, 1), count, (0, count - 1), (len(pos), 1))]
    ).checks
    assert not finds_fault(told, *pick(pointers))
    for at, is_one in ((2, 0), (3, 0), (4, 1), (5, 0), (4098, 1), (4099, 1), (4100, 0), (4101, 1), (2**20 - 1, 1),
                       (2**20, 0), (2**20 + 1, 1), (2**20 + 4, 0), (2**20 + 5, 1), (2**20 + 6, 1), (count - 3, 1),
                       (count - 2, 0), (count - 1, 0)):  # fmt: skip
        crd[at] = crd[at - 1]
        assert finds_fault(told, *pick(pointers)) == is_one, at
        crd[at] = at
    for at in (0, 2, 3, 4, 5, 4099, 4100, 2**20, count - 3, count - 2, count - 1):
        for outside in (-1, count):
            crd[at] = outside
            assert finds_fault(told, *pick(pointers)), at
        crd[at] = at


def test_note_applies_only_to_limits_with_equal_checks() -> None:
    first, other = (
        ElementConstraint("outside int32", (0,), 3, (0, 4)),
        ElementConstraint("outside int32", (1,), 3, (0, 9)),
    )
    limits = ElementConstraints([first, other])
    wider = ElementConstraints([first, replace(other, within=(0, 5))])
    for places, agree in (((0,), True), ((1,), False), ((0, 1), False)):
        assert limits.agrees_on(wider, places) is wider.agrees_on(limits, places) is agree
        operand = OperandSpec("A", (), places)
        note = CachedValidation(wider, (), (), ())
        assert validated_indices(limits, [(operand, {}, note, None)]) == ((places,) if agree else ())
        assert validated_indices(wider, [(operand, {}, note, None)]) == (places,)
        assert validated_indices(limits, [(operand, {}, None, None)]) == ()


def test_validated_shapes_are_cached_though_elements_have_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = compiled(gathering("int64", range=(0, m)))
    values, held = np.arange(9, dtype=np.float32), np.array([[0, 1, 8]])
    first = kernel(held, values)
    monkeypatch.setattr("lowering.kernel.bind", None)
    assert np.array_equal(kernel(held, values), first)


def test_empty_range_is_satisfied_only_by_empty_arrays() -> None:
    kernel = compiled(gathering("int32", range=(5, 5)))
    values = np.zeros(9, np.float32)
    for _ in range(2):
        assert kernel(np.zeros((0, 3), np.int32), values).shape == (0, 3)
    with pytest.raises(ArrayError, match="out of the declared range"):
        kernel(np.full((1, 3), 5, np.int32), values)
    held = np.full(3, 5, np.int32)
    ((finds_fault, told, pick),) = ElementConstraints([ElementConstraint("outside int32", (0,), 3, (0, -1))]).checks
    assert finds_fault(told, *pick([_cffi_backend.from_buffer(FFI().typeof("int32_t[]"), held)]))


def test_off_by_one_in_the_check_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an element equal to the upper bound pass; the kernel would then read past the end."""
    original = element_checks.Facts.limits

    def wider(self: element_checks.Facts, sizes: Any) -> ElementConstraints:
        found = original(self, sizes).each
        return ElementConstraints(replace(limit, within=(limit.within[0], limit.within[1] + 1)) for limit in found)

    monkeypatch.setattr(element_checks.Facts, "limits", wider)

    def missed() -> str:
        with pytest.raises(pytest.fail.Exception) as found:
            test_element_out_of_range_is_found_at_any_position("int32", 63, 100)
        return str(found.value)

    assert "DID NOT RAISE" in in_child(missed)
