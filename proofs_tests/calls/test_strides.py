"""Calls with slices, transposes and column-major arrays, which are read and filled by their strides."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

import atl
from atl.errors import ArrayError
from lowering import Kernel
from lowering import compile as compiled
from proofs_tests.programs.agreement import Expected, disagreement, expected
from proofs_tests.programs.generate import Case, case_by_seed
from rewrites import reschedule

Array = npt.NDArray[Any]
n, m, k = atl.sizes("n m k")
A, B = atl.tensor("A", n, k), atl.tensor("B", k, m)


def product() -> atl.Program:
    return atl.program("product", [A, B], atl.gen(n, m, lambda i, j: atl.sum(k, lambda p: A[i, p] * B[p, j])))


def tiled() -> atl.Session:
    return (
        reschedule(product()).tile(["i", "j"], [2, 8]).accumulate("p").mark("acc", "registers").mark("io", "parallel")
    )


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return compiled(product())


VIEWS: Final[dict[str, Callable[[Array], Array]]] = {
    "rows of a wider array": lambda x: _inside(x, slice(None), slice(3, 3 + x.shape[1])),
    "every other column": lambda x: _inside(x, slice(1, 1 + x.shape[0]), slice(0, 2 * x.shape[1], 2)),
    "backwards": lambda x: np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1],
    "column-major": np.asfortranarray,
}


def _inside(x: Array, rows: slice, columns: slice) -> Array:
    """Return a view with the elements of x, within a larger array of other numbers."""
    view = np.full((x.shape[0] + 4, 2 * x.shape[1] + 4), -77, x.dtype)[rows, columns][: x.shape[0], : x.shape[1]]
    view[...] = x
    return view


def numbers(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(np.float32)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("made", [product, tiled])
def test_views_are_read_and_filled_without_a_copy(view: str, made: Callable[[], Any]) -> None:
    of = VIEWS[view]
    kernel = made().compile() if made is tiled else compiled(made())
    a, b, out = of(numbers(9, 7)), of(numbers(7, 21)), of(numbers(9, 21))
    around = out.base
    assert not a.flags.c_contiguous and not out.flags.c_contiguous  # noqa: PT018
    assert kernel(a, b, out=out, copy=False) is out
    np.testing.assert_array_equal(out, a @ b)
    if isinstance(around, np.ndarray) and around.size > out.size:
        out[...] = -77
        assert (around == -77).all(), "an element outside of the view was stored"


def test_addresses_of_views_are_passed(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, out = numbers(6, 9)[::2, 1:5], np.asfortranarray(numbers(4, 5)), numbers(8, 3, 5)[1:7:2, 1]
    seen: list[int] = []
    through = Kernel._pointer

    def recorded(self: Kernel, array: Array, kind: Any) -> Any:
        pointer = through(self, array, kind)
        seen.append(int(self._code.ffi.cast("uintptr_t", pointer)))
        return pointer

    monkeypatch.setattr(Kernel, "_pointer", recorded)
    kernel(a, b, out=out, copy=False)
    assert seen == [a.ctypes.data, b.ctypes.data, out.ctypes.data]


def test_elements_of_a_broadcast_input_may_share_memory(kernel: Kernel) -> None:
    a, b = np.broadcast_to(numbers(5), (3, 5)), numbers(5, 4)
    np.testing.assert_array_equal(kernel(a, b, copy=False), a @ b)


def test_padding_of_a_view_is_zero() -> None:
    x = atl.tensor("x", n)
    padded = compiled(atl.program("padded", [x], atl.padr(2, atl.gen(n, lambda i: atl.guard(i >= 1, x[i])))))
    table = np.full((2, 12), 9, np.float32)
    padded(np.ones(4, np.float32), out=table[1, ::2])
    assert table.tolist() == [[9.0] * 12, [0, 9, 1, 9, 1, 9, 1, 9, 0, 9, 0, 9]]


def test_function_is_built_once_for_each_form(kernel: Kernel) -> None:
    fresh = compiled(product())
    wide = numbers(30, 40)
    for size in (3, 4, 5):
        for out in (wide[:size, :size], wide[::2, ::-1][:size, :size]):
            fresh(np.ones((size, 2), np.float32), np.ones((2, size), np.float32), out=out)
    assert len(fresh._built_strided) == 2


def test_prepared_call_fills_a_view(kernel: Kernel) -> None:
    a, b, table = numbers(3, 4).T, numbers(3, 5), np.zeros((4, 9), np.float32)
    run = kernel.prepared(a, b, out=table[:, 2:7])
    a[...] = numbers(4, 3)
    run()
    np.testing.assert_array_equal(table[:, 2:7], a @ b)


def test_prepared_call_keeps_the_memory_of_views(kernel: Kernel) -> None:
    a, b, table = numbers(3, 4).T.copy(order="F"), numbers(3, 5), np.zeros((4, 9), np.float32)
    wanted, kept = a @ b, weakref.ref(a)
    run = kernel.prepared(a, b, out=table[:, 2:7])
    del a
    assert kept() is not None
    run()
    np.testing.assert_array_equal(table[:, 2:7], wanted)


def test_recurrence_fills_a_view() -> None:
    x = atl.tensor("x", n)
    sums = compiled(atl.program("sums", [x], atl.rec(n, lambda p, y: x[p] + atl.select(p >= 1, y[p - 1], 0))))
    table = np.zeros((7, 2), np.float32)
    sums(numbers(7), out=table[:, 1])
    np.testing.assert_array_equal(table, np.stack([np.zeros(7), np.cumsum(numbers(7))], 1))


def test_streamed_loop_fills_a_view() -> None:
    x = atl.tensor("x", n, m)
    twice = reschedule(atl.program("twice", [x], atl.gen(n, m, lambda i, j: 2 * x[i, j]))).mark("j", "stream").compile()
    table = np.zeros((5, 300), np.float32)
    twice(numbers(5, 200), out=table[:, 50:250])
    np.testing.assert_array_equal(table[:, 50:250], 2 * numbers(5, 200))
    assert not table[:, :50].any()
    assert not table[:, 250:].any()


# -- refusals ---------------------------------------------------------------------------------------------------------


def test_view_that_shares_elements_with_an_input_is_refused(kernel: Kernel) -> None:
    table = numbers(6, 12)
    for a, out in ((table[:, :6], table[:, 4:10]), (table[:6, :6], table[:6, :6].T), (table[:, :6], table[:, :6])):
        with pytest.raises(ArrayError, match="out shares memory with an input"):
            kernel(a, numbers(6, 6), out=out, copy=False)
    interleaved = numbers(6, 12)
    kernel(np.ascontiguousarray(interleaved[:, ::2]), numbers(6, 6), out=interleaved[:, ::2])
    kernel(interleaved[:, 1::2], numbers(6, 6), out=interleaved[:, ::2], copy=False)


def test_view_whose_elements_share_memory_is_refused(kernel: Kernel) -> None:
    overlapping = np.lib.stride_tricks.as_strided(np.zeros(9, np.float32), (3, 3), (8, 4))
    constant = np.lib.stride_tricks.as_strided(np.zeros(9, np.float32), (3, 3), (0, 4))
    for out in (overlapping, constant):
        with pytest.raises(
            ArrayError, match=r"(?s)elements of out may share memory.*with its elements at different places"
        ):
            kernel(numbers(3, 3), numbers(3, 3), out=out)


def test_wrong_views_are_refused(kernel: Kernel) -> None:
    fields = np.zeros(9, [("a", "f4"), ("b", "u1")])["a"].reshape(3, 3)
    frozen = numbers(3, 6)[:, ::2]
    frozen.flags.writeable = False
    cases = [
        (numbers(3, 8)[:, ::2], "out has float32 of shape"),
        (numbers(3, 6).astype(np.float64)[:, ::2], "out has float64 of shape"),
        (fields, "out is not"),
        (frozen, "out is not writeable"),
    ]
    for out, message in cases:
        with pytest.raises(ArrayError, match=message):
            kernel(numbers(3, 3), numbers(3, 3), out=out)
    with pytest.raises(ArrayError, match=r"A is not (aligned|C-contiguous)"):
        kernel(fields, numbers(3, 3), copy=False)


def test_array_of_indices_is_not_read_by_strides() -> None:
    at, x = atl.tensor("at", m, dtype="int64", range=(0, n)), atl.tensor("x", n)
    taken = compiled(atl.program("taken", [at, x], atl.gen(m, lambda i: x[at[i]])))
    positions = np.array([2, 9, 0, 9, 1, 9])[::2]
    assert taken(positions, numbers(6)[::2]).tolist() == numbers(6)[::2][positions].tolist()
    assert taken(positions.copy(), numbers(6)[::2], copy=False).tolist() == numbers(6)[::2][positions].tolist()
    with pytest.raises(ArrayError, match="at is not C-contiguous"):
        taken(positions, numbers(3), copy=False)


# -- random programs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("numbers", [range(3), pytest.param(range(3, 12), marks=pytest.mark.long)])
def test_random_programs_agree_with_strides(numbers: range) -> None:
    called = 0
    for number in numbers:
        made = case_by_seed(61, number)
        wanted = expected(made) if isinstance(made, Case) else None
        if not isinstance(wanted, Expected) or not wanted.values.ndim:
            continue
        case, kernel = wanted.case, compiled(wanted.case.program)
        arrays = {
            name: _spread(array) if name in kernel._may_have_strides else array for name, array in case.arrays.items()
        }
        out = _spread(np.full(wanted.values.shape, 99, wanted.values.dtype))
        around = out.base
        kernel(**arrays, **case.sizes, out=out, copy=False)
        assert disagreement(out, wanted) is None, case.program
        out[...] = 99
        assert around is None or (np.asarray(around) == 99).all(), case.program
        called += 1
    assert called >= len(numbers) // 3


def _spread(array: Array) -> Array:
    """Return the array with its dimensions in reverse order in memory, backwards, and with gaps."""
    whole = np.full([2 * extent + 1 for extent in reversed(array.shape)], 99).astype(array.dtype)
    view = whole.T[tuple(slice(-2, None, -2) if extent else slice(0, 0) for extent in array.shape)]
    view[...] = array
    return view
