"""Arrays of other libraries: passed without copies, with results in the caller's kind of array."""

from __future__ import annotations

import array
import threading
import weakref
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import atl
from atl.errors import ArgumentError, ArrayError, InvalidArgument, NoSuchAttribute
from lowering import Kernel, compile  # noqa: A004 (the public API name)
from lowering.calls.exchange import _address, exchanged

n, m = atl.sizes("n m")
X = atl.tensor("X", n, m)

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
needs_jax = pytest.mark.skipif(find_spec("jax") is None, reason="jax is not installed")


class Lent:
    """An array with DLPack only, which lends the memory of a NumPy array."""

    def __init__(self, held: Any, device: tuple[int, int] | None = None) -> None:
        self.held = held
        self.device = device

    def __dlpack__(self, **options: Any) -> Any:
        return self.held.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self.device or self.held.__dlpack_device__()
        return device


class Copying(Lent):
    """An array whose `__array__` returns a copy."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.held.copy()


class Namespace:
    @staticmethod
    def from_dlpack(value: Any) -> Lent:
        return Lent(value)


class Own(Lent):
    """An array whose library imports other arrays."""

    def __array_namespace__(self) -> type[Namespace]:
        return Namespace


@pytest.fixture(scope="module")
def doubling() -> Kernel:
    return compile(atl.program("twice", [X], 2 * X))


@pytest.fixture(scope="module")
def halving() -> Kernel:
    x = atl.tensor("x", n, n, dtype="float64")
    return compile(atl.program("half", [x], x / 2))


def numbers(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def seen_by_c(kernel: Kernel, value: Any, **named: Any) -> int:
    """Return the address that C receives for the only array of a call."""
    addresses: list[int] = []
    through = kernel._function

    def recorded(*passed: Any) -> int:
        addresses.append(int(kernel._code.ffi.cast("uintptr_t", passed[0])))
        return through(*passed)

    kernel._function = recorded
    try:
        kernel(value, **named)
    finally:
        kernel._function = through
    return addresses[0]


def test_arrays_in_memory_are_not_copied(doubling: Kernel) -> None:
    x = numbers(2, 3)
    frozen = x.copy()
    frozen.flags.writeable = False
    view = memoryview(x)
    for given, held in ((x, x), (frozen, frozen), (view, x), (Lent(x), x), (x.view(np.recarray), x)):
        assert seen_by_c(doubling, given) == held.ctypes.data
        assert seen_by_c(doubling, given, copy=False) == held.ctypes.data
    row = compile(atl.parse("f (x : float32[n]) : float32[n] := gen[i < n] 2 * x[i]"))
    buffer = array.array("f", [1, 2, 3])
    assert seen_by_c(row, buffer) == buffer.buffer_info()[0]
    assert row(buffer).tolist() == [2, 4, 6]


@pytest.mark.parametrize("given", [numbers(4, 3)[::2], numbers(4, 3)[::-1], numbers(3, 4).T, numbers(5)[None, ::-2]])
def test_view_is_copied_or_read_by_its_strides(doubling: Kernel, given: Any) -> None:
    for value in (given, Lent(given), memoryview(given)):
        assert np.asarray(doubling(value)).tolist() == (2 * given).tolist()
        assert np.asarray(doubling(value, copy=False)).tolist() == (2 * given).tolist()
    assert doubling(np.ascontiguousarray(given), copy=False).tolist() == (2 * given).tolist()


def test_conversion_is_refused_without_copies(doubling: Kernel) -> None:
    misaligned = np.zeros(17, np.uint8)[1:].view(np.float32).reshape(2, 2)
    with pytest.raises(ArrayError, match="X is not aligned"):
        doubling(misaligned, copy=False)
    square = compile(atl.parse("f (x : float64[n, n]) : float64[n, n] := x"))
    assert square([[1.0]]).tolist() == [[1.0]]
    with pytest.raises(ArrayError, match=r"x is \[\[1.0\]\] \(list\), which would be converted to an array"):
        square(x=[[1.0]], copy=False)
    with pytest.raises(ArrayError, match="X is exported as a copy"):
        doubling(Copying(numbers(2, 2)), copy=False)


@pytest.mark.parametrize("error", [RuntimeError, AttributeError, KeyError, OSError, BufferError])
def test_error_of_an_array_protocol_is_reported(doubling: Kernel, error: type[Exception]) -> None:
    class Failing:
        def __array__(self, *_: object, **__: object) -> Any:
            raise error("no array today")

    message = r"X is (not an array: .*today|<.*which would be converted to an array)"
    calls: list[Any] = [doubling, partial(doubling, copy=False), partial(atl.evaluate, doubling.program)]
    for call in calls:
        with pytest.raises((ArgumentError, ArrayError), match=message):
            call(Failing())


def test_empty_arrays_and_scalars_need_no_copy() -> None:
    scaled = compile(atl.parse("f (x : float32[n], a : float32) : float32[n] := gen[i < n] a * x[i]"))
    assert scaled(np.zeros(8, np.float32)[::2][:0], 2.0, copy=False).shape == (0,)
    assert scaled(numbers(2), np.float32(3), copy=False).tolist() == [0, 3]
    assert scaled(numbers(2), Lent(np.array(3, np.float32)), copy=False).tolist() == [0, 3]


@pytest.mark.long
def test_copy_option_is_validated_and_may_be_an_input_name(doubling: Kernel) -> None:
    for wrong in (True, 1, "no"):
        with pytest.raises(InvalidArgument, match="copy=False, which reads them by strides"):
            doubling(numbers(1, 1), copy=wrong)
    own = compile(
        atl.parse("f (copy : float32[n], seconds : float32[n]) : float32[n] := gen[i < n] copy[i] + seconds[i]")
    )
    assert own(seconds=numbers(3), copy=numbers(3)).tolist() == [0, 2, 4]
    assert own.time(seconds=numbers(3), copy=numbers(3)).samples >= 3


def test_wrong_dtype_rank_or_device_is_refused_with_a_remedy(doubling: Kernel, halving: Kernel) -> None:
    with pytest.raises(ArrayError, match=r"(?s)x are float32, not float64.*try: pass x.astype\('float64'\)"):
        halving(Lent(numbers(2, 2)))
    with pytest.raises(ArrayError, match="X has 1 dimension, not 2"):
        doubling(Lent(numbers(2)))
    message = r"(?s)X is not in the memory of this machine: its DLPack device is \(2, 0\)"
    with pytest.raises(ArgumentError, match=message):
        doubling(Lent(numbers(2, 2), (2, 0)))
    with pytest.raises(ArgumentError, match="X cannot be exported by its library"):
        doubling(Lent(np.zeros((2, 2), np.dtype(">f4"))))


def test_result_has_the_kind_of_the_first_foreign_array(doubling: Kernel) -> None:
    made = doubling(Own(numbers(2, 2)))
    assert type(made) is Lent
    assert made.held.tolist() == (2 * numbers(2, 2)).tolist()
    # Without a library that imports other arrays, the result is a NumPy array.
    assert type(doubling(Lent(numbers(2, 2)))) is np.ndarray
    both = compile(atl.parse("f (x : float32[n], y : float32[n]) : float32[n] := gen[i < n] x[i] + y[i]"))
    assert type(both(numbers(2), y=Own(numbers(2)))) is Lent


def test_out_of_another_library_is_filled(doubling: Kernel) -> None:
    held, x = np.zeros((2, 2), np.float32), numbers(2, 2)
    out = Lent(held)
    for _ in range(2):
        assert doubling(x, out=out) is out
        assert held.tolist() == (2 * x).tolist()
        held[:] = 0
    assert doubling(Own(held), out=out) is out
    filled = np.empty((2, 2), np.float32)
    assert doubling(Own(x), out=filled) is filled
    assert filled.tolist() == (2 * x).tolist()
    with pytest.raises(ArrayError, match="the library of out exports a copy"):
        doubling(x, out=Copying(held))
    with pytest.raises(ArrayError, match="out has the shape"):
        doubling(x, out=Lent(numbers(3, 2)))


def test_copy_of_out_would_be_detected() -> None:
    held = numbers(2, 2)
    assert _address(Lent(held)) == held.ctypes.data != Copying(held).__array__().ctypes.data
    assert exchanged(atl.program("twice", [X], 2 * X), (held,), {}, None) is None


@needs_torch
def test_torch_tensors_are_passed_without_a_copy(doubling: Kernel) -> None:
    import torch

    t = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    assert seen_by_c(doubling, t) == t.data_ptr()
    assert seen_by_c(doubling, t, copy=False) == t.data_ptr()
    made = doubling(t)
    assert type(made) is torch.Tensor
    assert made.tolist() == (2 * t).tolist()
    out = torch.empty(2, 3)
    assert doubling(t, out=out) is out
    assert out.tolist() == made.tolist()
    assert doubling(t.T).tolist() == (2 * t.T).tolist()
    transposed = doubling(t.T, copy=False)
    assert type(transposed) is torch.Tensor
    assert transposed.tolist() == (2 * t.T).tolist()
    shared = t.numpy()
    assert seen_by_c(doubling, shared) == t.data_ptr()


@needs_torch
def test_torch_tensors_that_cannot_be_exported_are_refused(doubling: Kernel, halving: Kernel) -> None:
    import torch

    with pytest.raises(ArgumentError, match=r"(?s)requires grad.*try: pass X.detach\(\)"):
        doubling(torch.ones(2, 2, requires_grad=True))
    with pytest.raises(ArgumentError, match="negative bit"):
        doubling(torch.conj(torch.ones(2, 2, dtype=torch.complex64)).imag)
    with pytest.raises(ArrayError, match=r"the elements of X are bfloat16, not float32"):
        doubling(torch.ones(2, 2, dtype=torch.bfloat16))
    with pytest.raises(ArgumentError, match=r"X cannot be exported by its library: .* meta"):
        doubling(torch.ones(2, 2, device="meta"))
    with pytest.raises(ArrayError, match=r"pass x.to\(torch.float64\)"):
        halving(torch.ones(2, 2))


@needs_jax
def test_jax_arrays_are_passed_without_a_copy(doubling: Kernel) -> None:
    import jax
    import jax.numpy as jnp

    x = jnp.arange(6.0, dtype=jnp.float32).reshape(2, 3)
    assert seen_by_c(doubling, x, copy=False) == x.unsafe_buffer_pointer()
    made = doubling(x)
    assert isinstance(made, jax.Array)
    assert made.tolist() == (2 * x).tolist()
    with pytest.raises(ArrayError, match="out is not writeable"):
        doubling(x, out=x)


def test_interpreter_lock_is_released_during_a_kernel() -> None:
    """Watch the elements of the output appear one after the other."""
    k = atl.sizes("k")
    sums = atl.gen(64, lambda row: atl.sum(k, lambda i: atl.exp(atl.value(i + row) / atl.value(k))))
    slow = compile(atl.program("slow", [], sums))
    out = np.full(64, np.nan, np.float32)
    thread = threading.Thread(target=lambda: slow(k=1_000_000, out=out))
    thread.start()
    stored = 0
    while not stored and thread.is_alive():  # the thread ends early if the kernel fails
        stored = int((~np.isnan(out)).sum())
    thread.join()
    assert stored
    assert stored < 64
    assert not np.isnan(out).any()


def test_prepared_call_reads_and_fills_its_arrays(doubling: Kernel) -> None:
    x, out = numbers(2, 3), np.full((2, 3), np.nan, np.float32)
    run = doubling.prepared(x, out=out)
    assert np.isnan(out).all(), "nothing is computed before it is called"
    for _ in range(2):
        run()
        assert out.tolist() == (2 * x).tolist()
        x += 1
    in_place = doubling.prepared(X=x, out=x)
    want = 2 * x
    in_place()
    assert x.tolist() == want.tolist()
    kept = weakref.ref(x)
    del x
    in_place()
    assert kept() is not None, "the call keeps its memory alive"
    lent = Lent(numbers(2, 2))
    filled = np.empty((2, 2), np.float32)
    doubling.prepared(lent, out=filled)()
    assert filled.tolist() == (2 * numbers(2, 2)).tolist()


def test_prepared_call_refuses_invalid_arguments_and_copies(doubling: Kernel, halving: Kernel) -> None:
    x, out = numbers(3, 3), np.empty((3, 3), np.float32)
    misaligned = np.zeros(37, np.uint8)[1:].view(np.float32).reshape(3, 3)
    for wrong in (misaligned, x.tolist()):
        with pytest.raises(ArrayError, match="forbids copies"):
            doubling.prepared(wrong, out=out)
    for place, message in (
        (np.empty((2, 2), np.float32), "has the shape"),
        (None, "out is a NoneType"),
        (x[:2], "shape"),
    ):
        with pytest.raises(ArrayError, match=message):
            doubling.prepared(x, out=place)
    with pytest.raises(ArrayError, match="float64"):
        halving.prepared(x, out=out)
    rows = np.zeros((4, 3), np.float32)
    with pytest.raises(ArrayError, match="shares memory"):
        doubling.prepared(rows[:3], out=rows[1:])
    below = compile(atl.parse("f (x : float32[n], at : int32[1] in [0, n)) : float32 := x[at[0]]"))
    with pytest.raises(ArrayError, match="at"):
        below.prepared(numbers(3), np.array([3], np.int32), out=np.empty((), np.float32))


def test_kernel_time_has_a_spread(doubling: Kernel) -> None:
    x = numbers(100, 100)
    taken = doubling.time(x, seconds=0.02)
    assert 0 < taken.low <= taken.median <= taken.high
    assert taken.samples >= 3
    assert not taken.threads
    assert str(taken).startswith("twice: ")
    assert "µs a call" in str(taken)
    out = np.empty_like(x)
    doubling.time(X=x, out=out, seconds=0.001)
    assert out.tolist() == (2 * x).tolist()
    for wrong in (0, -1, True, "1", float("nan"), 1e9):
        with pytest.raises(InvalidArgument, match="above 0"):
            doubling.time(x, seconds=wrong)
    with pytest.raises(ArgumentError, match="missing argument 'X' of twice"):
        doubling.time()
    threads = compile(atl.parse("f (x : float32[n]) : float32[n] := gen[i < n | parallel] 2 * x[i]"))
    assert "wall time" in str(threads.time(numbers(10), seconds=0.001))


@pytest.mark.parametrize(("target", "name"), [("c", "validat"), ("cuda", "validate")])
def test_unknown_attribute_of_a_kernel_is_refused_with_the_known_ones(target: Any, name: str) -> None:
    n = atl.sizes("n")
    x = atl.tensor("x", n)
    kernel = atl.compile(atl.program("twice", [x], 2 * x), target=target)
    with pytest.raises(NoSuchAttribute, match=f"has no {name}") as refused:
        getattr(kernel, name)
    assert "source" in str(refused.value.required)
    assert not hasattr(kernel, name)
