"""Kernels: arguments and results of calls, refusals, and lack of memory."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import atl
from atl import errors
from atl.core.index import Index
from atl.core.program import Program
from atl.meaning.specialise import specialise
from lowering import Kernel, compile, lower  # noqa: A004 (the public API name)
from lowering.builds import build_shared, find_compiler, has_sanitizers
from lowering.c.printer import print_unit
from lowering.nest.loopnest import Assign, Block, Cell, For, If, LoopNest
from proofs_tests.c.scripts import script
from proofs_tests.nests.by_hand import WARNINGS
from proofs_tests.programs import batch
from proofs_tests.programs.batch import Call, Report, Sanitized, compile_many

AnyArray = npt.NDArray[Any]

n, m, k = atl.sizes("n m k")

pytestmark = pytest.mark.usefixtures("cache_of_the_file")


def matmul() -> Program:
    A, B = atl.tensor("A", n, k), atl.tensor("B", k, m)  # noqa: N806
    return atl.program("matmul", [A, B], atl.gen(n, m, lambda i, j: atl.sum(k, lambda p: A[i, p] * B[p, j])))


def twice(dtype: str = "float32") -> Program:
    x = atl.tensor("x", n, dtype=dtype)
    return atl.program("twice", [x], atl.gen(n, lambda i: x[i] + x[i]))


def scaled() -> Program:
    x, alpha = atl.tensor("x", n), atl.tensor("alpha")
    return atl.program("scaled", [x, alpha], atl.gen(n, lambda i: alpha * x[i]))


def total() -> Program:
    x = atl.tensor("x", n, dtype="float64")
    return atl.program("total", [x], atl.sum(n, lambda i: x[i]))


def padded() -> Program:
    x = atl.tensor("x", n)
    return atl.program("padded", [x], atl.padr(k, x))


def gathered() -> Program:
    at = atl.tensor("at", n, dtype="int32", range=(0, m))
    x = atl.tensor("x", m, dtype="int64")
    return atl.program("gathered", [at, x], atl.gen(n, lambda i: x[at[i]]))


def buffered(rows: Any, columns: Any) -> Program:
    """Return a program that reads one element of a let-bound table of this shape."""
    x = atl.tensor("x")
    table = atl.gen(rows, columns, lambda i, j: x + atl.value(i * j))
    body = atl.let(table, lambda t: atl.gen(k, lambda i: t[0, 0]), name="table")
    return atl.program("buffered", [x], body, given=[rows >= 1, columns >= 1])


@pytest.fixture(scope="module")
def product() -> Kernel:
    return compile(matmul())


@pytest.fixture(scope="module")
def doubling() -> Kernel:
    return compile(twice())


def numbers(*shape: int, dtype: str = "float32") -> AnyArray:
    return np.random.default_rng(3).integers(-9, 9, shape).astype(dtype)


@pytest.mark.long
def test_kernel_computes_what_its_program_means() -> None:
    for program, arguments in (
        (matmul(), {"A": numbers(3, 4), "B": numbers(4, 5)}),
        (twice("int64"), {"x": numbers(7, dtype="int64")}),
        (scaled(), {"x": numbers(5), "alpha": 2.5}),
        (total(), {"x": numbers(9, dtype="float64")}),
        (padded(), {"x": numbers(4), "k": 3}),
        (gathered(), {"at": np.array([2, 0, 1, 1], np.int32), "x": numbers(3, dtype="int64")}),
        (buffered(n, m), {"x": 1.0, "n": 4, "m": 6, "k": 3}),
    ):
        found = compile(program)(**arguments)
        wanted = atl.evaluate(program, **arguments)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


def test_arrays_are_passed_by_position_or_name(product: Kernel) -> None:
    a, b = numbers(3, 4), numbers(4, 5)
    for found in (product(a, b), product(a, B=b), product(A=a, B=b), product(B=b, A=a)):
        np.testing.assert_array_equal(found, a @ b)
    np.testing.assert_array_equal(product(a, b, n=3), a @ b)


def test_repeated_shapes_use_the_fast_path_and_others_do_not(product: Kernel) -> None:
    for rows in (3, 3, 5, 3, 0, 5):
        a, b = numbers(rows, 4), numbers(4, 2)
        np.testing.assert_array_equal(product(a, b), a @ b)
    with pytest.raises(errors.ArrayError):
        product(numbers(3, 4), numbers(5, 2))
    for last in range(100):
        product(numbers(1, last), numbers(last, 1))


def test_empty_arrays_are_accepted(product: Kernel) -> None:
    assert product(numbers(0, 4), numbers(4, 5)).shape == (0, 5)
    assert product(numbers(2, 0), numbers(0, 2)).tolist() == [[0, 0], [0, 0]]


def test_any_memory_layout_is_accepted(product: Kernel) -> None:
    a, b = numbers(3, 4), numbers(4, 5)
    raw = np.zeros(4 * 4 * 3 + 1, np.uint8)
    misaligned = raw[1:].view(np.float32).reshape(3, 4)
    misaligned[...] = a
    assert not misaligned.flags.aligned
    read_only = a.copy()
    read_only.flags.writeable = False
    for given in (np.asfortranarray(a), numbers(6, 8)[::2, ::-2], misaligned, read_only, a[::-1]):
        np.testing.assert_array_equal(product(given, b), np.ascontiguousarray(given) @ b)
    np.testing.assert_array_equal(product(a, np.broadcast_to(b[:1], (4, 5))), a @ np.repeat(b[:1], 4, 0))


def test_scalar_inputs_are_numbers_or_arrays_of_rank_0() -> None:
    kernel = compile(scaled())
    x = numbers(4)
    for alpha in (2.5, 2, np.float32(2.5), np.array(2.5, np.float32), np.float32(-0.0)):
        np.testing.assert_array_equal(kernel(x, alpha), np.float32(alpha) * x)
    assert np.isinf(kernel(np.ones(1, np.float32), np.inf)).all()
    with pytest.raises(errors.ArrayError, match="float32"):
        kernel(x, 1e300)
    with pytest.raises(errors.ArrayError):
        kernel(x, np.float64(2.5))


def test_result_of_rank_0_is_an_array() -> None:
    kernel = compile(total())
    found = kernel(np.arange(4.0))
    assert isinstance(found, np.ndarray)
    assert (found.shape, found.item()) == ((), 6.0)
    out = np.empty(())
    assert kernel(np.arange(4.0), out=out) is out
    assert out == 6.0


def test_undetermined_size_is_a_keyword() -> None:
    kernel = compile(padded())
    assert kernel(np.ones(2, np.float32), k=2).tolist() == [1, 1, 0, 0]
    assert kernel(np.ones(2, np.float32), k=np.int64(1)).tolist() == [1, 1, 0]
    with pytest.raises(errors.ArgumentError, match="k"):
        kernel(np.ones(2, np.float32))
    with pytest.raises(errors.ArgumentError, match=r"2\.5"):
        kernel(np.ones(2, np.float32), k=2.5)
    with pytest.raises(errors.AssumptionError):
        kernel(np.ones(2, np.float32), k=-1)


@pytest.mark.parametrize(
    ("positional", "named"), [(0, ""), (2, ""), (1, "x"), (1, "y")], ids=["none", "two", "twice", "another"]
)
def test_missing_or_extra_arguments_are_refused(doubling: Kernel, positional: int, named: str) -> None:
    with pytest.raises(errors.ArgumentError):
        doubling(*([numbers(3)] * positional), **{name: numbers(3) for name in named})


def masked() -> AnyArray:
    return np.ma.masked_array(np.zeros(3, np.float32), [False, True, False])


@pytest.mark.parametrize(
    "x",
    [numbers(3, dtype="float64"), numbers(3, 3), numbers(3).astype(">f4"), masked()],
    ids=["float64", "rank 2", "big-endian", "masked"],
)
def test_arrays_of_wrong_type_are_refused(doubling: Kernel, x: AnyArray) -> None:
    with pytest.raises((errors.ArrayError, errors.ArgumentError)):
        doubling(x)


def test_declared_facts_are_checked_in_every_call() -> None:
    kernel = compile(gathered())
    x = numbers(3, dtype="int64")
    good = np.array([0, 2], np.int32)
    for _ in range(3):
        np.testing.assert_array_equal(kernel(good, x), x[good])
        with pytest.raises(errors.ArrayError, match="range"):
            kernel(np.array([0, 3], np.int32), x)


def test_assumptions_are_checked_in_every_call() -> None:
    x = atl.tensor("x", n)
    kernel = compile(atl.program("first", [x], x[0], given=[n >= 1]))
    for _ in range(2):
        assert kernel(np.ones(2, np.float32)).item() == 1
        with pytest.raises(errors.AssumptionError):
            kernel(np.ones(0, np.float32))


def test_out_is_filled_and_returned(doubling: Kernel) -> None:
    x, out = numbers(3), np.full(3, 99, np.float32)
    for _ in range(2):
        assert doubling(x, out=out) is out
        assert out.tolist() == (2 * x).tolist()


def unfit() -> list[tuple[Any, str]]:
    frozen = np.zeros(3, np.float32)
    frozen.flags.writeable = False
    return [
        (np.zeros(4, np.float32), "shape"),
        (np.zeros((3, 1), np.float32), "shape"),
        (np.zeros(3, np.float64), "float64"),
        (np.zeros(3, np.dtype(">f4")), ">f4"),
        (
            np.lib.stride_tricks.as_strided(np.zeros(3, np.float32), (3,), (0,)),
            "elements of out may share memory: its strides are (0,)",
        ),
        (np.zeros(13, np.uint8)[1:].view(np.float32), "aligned"),
        (frozen, "writeable"),
        (masked(), "MaskedArray"),
        ([0.0, 0.0, 0.0], "list"),
    ]


@pytest.mark.parametrize(("out", "what"), unfit(), ids=[f"{at} {what}" for at, (_, what) in enumerate(unfit())])
def test_unsuitable_out_is_refused_and_unchanged(doubling: Kernel, out: Any, what: str) -> None:
    before = np.array(out)
    with pytest.raises(errors.ArrayError, match=f"(?s){re.escape(what)}.*required"):
        doubling(numbers(3) + 1, out=out)
    assert np.array(out).tolist() == before.tolist()


def test_out_may_equal_an_input_but_not_overlap_it(doubling: Kernel) -> None:
    base = numbers(6)
    before = base.copy()
    for x, out in ((base[:3], base[2:5]), (base[1:4], base[:3])):
        with pytest.raises(errors.ArrayError, match="shares memory with the input x"):
            doubling(x, out=out)
    assert base.tolist() == before.tolist()
    doubling(base[:3], out=base[3:])
    assert base[3:].tolist() == (2 * before[:3]).tolist()
    doubling(base[:3], out=base[:3])
    assert base[:3].tolist() == (2 * before[:3]).tolist()


def test_copied_input_may_be_a_view_of_out(doubling: Kernel) -> None:
    out = np.arange(3, dtype=np.float32)
    assert doubling(out[::-1], out=out).tolist() == [4, 2, 0]


def test_failed_allocation_is_an_error() -> None:
    kernel = compile(buffered(n, m))
    with pytest.raises(errors.OutOfMemory, match="table") as caught:
        kernel(1.0, n=2**25, m=2**25, k=1)
    assert "n = 33554432" in str(caught.value)
    assert kernel(1.0, n=2, m=2, k=1).tolist() == [1.0]


def test_overflowing_product_of_sizes_is_refused_before_the_call() -> None:
    kernel = compile(buffered(n, n))
    with pytest.raises(errors.OutOfMemory, match="too large for any memory"):
        kernel(1.0, n=2**31, k=1)
    out = np.zeros(1, np.float32)
    # The C detects it too: 2^32 * 2^32 * 4 is 0 modulo 2^64.
    sizes = [2**32 if name == "n" else 1 for name in kernel.nest.sizes]
    assert kernel._function(1.0, *sizes, kernel._code.ffi.from_buffer(kernel._result, out)) == 1


def test_buffer_with_a_minimum_as_extent_has_that_size() -> None:
    x = atl.tensor("x", n)
    shorter = atl.gen(atl.imin(m * k, n), lambda j: 2 * x[j])
    body = atl.let(shorter, lambda b: atl.sum(atl.imin(m * k, n), lambda j: b[j]))
    kernel = compile(atl.program("shorter", [x], body))
    assert kernel(np.ones(4, np.float32), m=2**31, k=2**31 - 1) == 8
    with pytest.raises(errors.IndexOverflow, match="m"):
        kernel(np.ones(4, np.float32), m=2**31, k=2**32)


@pytest.mark.parametrize("count", [2**40, 2**56, 2**60, 2**63 - 1])
def test_result_too_large_for_memory_is_an_error(count: int) -> None:
    kernel = compile(atl.program("ones", [], atl.gen(n, m, lambda i, j: atl.value(1))))
    with pytest.raises(errors.OutOfMemory):
        kernel(n=count, m=2**20)


def test_sizes_beyond_any_array_are_refused() -> None:
    x = atl.tensor("x", n)
    shifted = atl.gen(n, lambda i: atl.guard(i + m < n, x[i + m]))
    kernel = compile(atl.program("shifted", [x], shifted))
    assert kernel(numbers(3), m=2**56).tolist() == [0, 0, 0]
    with pytest.raises(errors.OutOfMemory, match=r"2\*\*56"):
        kernel(numbers(3), m=2**63 - 1)


def test_calls_run_concurrently() -> None:
    kernel = compile(buffered(n, m))
    double = compile(twice())

    def work(seed: int) -> bool:
        x = np.full(1000 + seed, seed, np.float32)
        right = all((double(x) == 2 * seed).all() for _ in range(200))
        return right and all(kernel(float(seed), n=20, m=20 + seed, k=2).tolist() == [seed] * 2 for _ in range(200))

    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(work, range(1, 7)))


def test_kernel_has_its_program_nest_source_and_path(product: Kernel) -> None:
    assert product.program.name == "matmul"
    assert isinstance(product.nest, LoopNest)
    assert "int matmul(" in product.source
    assert product.path.with_suffix(".c").read_text() == product.source
    assert repr(product) == "<Kernel matmul(A[n, k], B[k, m])>"


def test_c_of_programs_compiles_without_warnings(each_target: str) -> None:
    programs = [matmul(), twice("int32"), scaled(), total(), padded(), gathered(), buffered(n, m), buffered(4, 4)]
    build_shared(print_unit([lower(program) for program in programs]), name="clean", extra_flags=WARNINGS)


def test_fixed_sizes_are_constants_of_the_kernel() -> None:
    kernel = compile(matmul(), sizes={"n": 3, "k": 4})
    declared = "int matmul(const float *restrict A, const float *restrict B, int64_t m, float *restrict out)"
    assert declared in kernel.source
    a, b = numbers(3, 4), numbers(4, 5)
    np.testing.assert_array_equal(kernel(a, b), a @ b)
    with pytest.raises(errors.ArrayError, match="not 3"):
        kernel(numbers(2, 4), b)
    with pytest.raises(errors.ArgumentError):
        kernel(a, b, n=3)


@pytest.mark.parametrize("sizes", [{"n": -1}, {"n": 1.5}, {"n": True}, {"q": 3}, {"n": 2**60}])
def test_invalid_fixed_sizes_are_refused(sizes: dict[str, Any]) -> None:
    with pytest.raises(errors.ArgumentError):
        compile(matmul(), sizes=sizes)


def test_fixed_size_must_satisfy_the_assumptions() -> None:
    x = atl.tensor("x", n)
    program = atl.program("first", [x], x[m], given=[m < n, n >= 1])
    with pytest.raises(errors.AssumptionError, match="fixed") as caught:
        compile(program, sizes={"n": 0})
    assert "n = 0" in str(caught.value)
    assert compile(program, sizes={"n": 4})(np.arange(4, dtype=np.float32), m=2).item() == 2
    assert compile(program, sizes={"n": 4, "m": 2})(np.arange(4, dtype=np.float32)).item() == 2


def test_fixed_size_is_substituted_everywhere() -> None:
    at = atl.tensor("at", n, dtype="int64", range=(0, m), monotonic="increasing")
    x = atl.tensor("x", m)
    chosen = atl.gen(n, lambda i: atl.select(i < m, x[at[i]], atl.cast("float32", atl.value(atl.imin(at[i], m) // k))))
    body = atl.split(k, chosen)
    program = atl.program("all", [at, x], body, given=[k >= 1])
    fixed = specialise(program, {"m": 5, "k": 2})
    assert fixed.sizes == ("n",)
    arguments: dict[str, Any] = {"at": np.array([0, 2, 4]), "x": numbers(5)}
    wanted = atl.evaluate(program, **arguments, k=2)
    np.testing.assert_array_equal(atl.evaluate(fixed, **arguments), wanted)
    np.testing.assert_array_equal(compile(fixed)(**arguments), wanted)
    assert specialise(program, {}) is program


def test_fast_math_builds_a_separate_kernel() -> None:
    plain, fast = compile(twice()), compile(twice(), fast_math=True)
    assert plain.path != fast.path
    assert fast(numbers(3)).tolist() == plain(numbers(3)).tolist()


def test_invalid_programs_and_targets_are_refused() -> None:
    with pytest.raises(errors.InvalidArgument, match=r"target='llvm'(?s:.*)one of 'c', 'cuda'"):
        compile(twice(), target="llvm")
    with pytest.raises(errors.InvalidArgument, match=r"atl\.program"):
        compile(atl.tensor("x", n))  # type: ignore[call-overload]


def test_input_or_size_named_out_is_refused() -> None:
    out = atl.tensor("out", n)
    with pytest.raises(errors.InvalidName, match="out="):
        compile(atl.program("echo", [out], atl.gen(n, lambda i: out[i])))
    size = atl.sizes("out")
    with pytest.raises(errors.InvalidName, match="out="):
        compile(atl.program("ones", [], atl.gen(size, lambda i: atl.value(1))))


def test_unsafe_program_is_not_compiled() -> None:
    x = atl.tensor("x", n)
    with pytest.raises(errors.UnsafeAccess):
        compile(atl.program("beyond", [x], atl.gen(n, lambda i: x[i + 1])))


def test_failing_compiler_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = f'case "$*" in *-c*) echo no >&2; exit 1;; esac\nexec {find_compiler().path} "$@"'
    monkeypatch.setenv("CC", str(script(tmp_path / "cc", body)))
    with pytest.raises(errors.CompilerFailed, match="> no"):
        compile(twice())


def test_many_kernels_share_an_object() -> None:
    kernels = compile_many([twice(), twice("int32"), matmul(), total()])
    assert len({kernel.path for kernel in kernels}) == 1
    assert kernels[0](numbers(3)).tolist() == (2 * numbers(3)).tolist()
    assert kernels[1](numbers(3, dtype="int32")).dtype == np.int32
    a, b = numbers(3, 4), numbers(4, 5)
    np.testing.assert_array_equal(kernels[2](a, b), a @ b)
    assert kernels[3](np.arange(3.0)).item() == 3
    assert compile_many([]) == []


needs_sanitizers = pytest.mark.skipif(
    not has_sanitizers(find_compiler()), reason="the libraries of the sanitizers are not installed"
)


@needs_sanitizers
def test_sanitized_kernels_compute_the_same() -> None:
    programs = [matmul(), scaled(), total(), padded(), gathered(), buffered(n, m)]
    calls = [
        Call(0, {"A": numbers(3, 4), "B": numbers(4, 5)}),
        Call(0, {"A": numbers(0, 4), "B": numbers(4, 5)}),
        Call(1, {"x": numbers(5), "alpha": 2.5}),
        Call(2, {"x": numbers(9, dtype="float64")}),
        Call(3, {"x": numbers(4), "k": 3}),
        Call(4, {"at": np.array([2, 0], np.int32), "x": numbers(3, dtype="int64")}),
        Call(5, {"x": 1.0, "n": 4, "m": 6, "k": 3}),
    ]
    for call, found in zip(calls, Sanitized(programs).run(calls), strict=True):
        assert isinstance(found, np.ndarray), found
        arguments: dict[str, Any] = dict(call.arguments)
        wanted = atl.evaluate(programs[call.which], **arguments)
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_array_equal(found, wanted)


def moved(block: Block, by: int) -> Block:
    """Return the statements with every store to the output moved by `by` cells."""

    def one(statement: Any) -> Any:
        match statement:
            case For() | If():
                return replace(statement, body=tuple(map(one, statement.body)))
            case Assign(Cell(buffer, pairs), value) if buffer.role == "output":
                last: tuple[Index, Index] = (pairs[-1][0] + by, pairs[-1][1])
                return Assign(Cell(buffer, (*pairs[:-1], last)), value)
            case _:
                return statement

    return tuple(map(one, block))


@needs_sanitizers
@pytest.mark.parametrize("by", [1, -1])
def test_sanitizers_find_a_store_one_cell_outside(by: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(program: Program) -> LoopNest:
        nest = lower(program)
        return replace(nest, body=moved(nest.body, by)) if program.name == "wrong" else nest

    monkeypatch.setattr(batch, "lower", wrong)
    x = atl.tensor("x", n)
    bad = atl.program("wrong", [x], atl.gen(n, lambda i: x[i] + x[i]))
    x3 = numbers(3)
    calls = [Call(0, {"x": x3}), Call(1, {"x": x3}), Call(0, {"x": x3}), Call(1, {"x": x3[:0]})]
    found = Sanitized([twice(), bad]).run(calls)
    assert [isinstance(result, Report) for result in found] == [False, True, False, False]
    assert isinstance(found[1], Report)
    assert "heap-buffer-overflow" in found[1].text
    # clang needs llvm-symbolizer of its version to name functions.
    place = re.search(r"#0 0x\w+( in \w+)?", found[1].text)
    assert place is not None
    assert place[1] in (None, " in kernel_1")


@needs_sanitizers
def test_incompletely_stored_output_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    def shorter(program: Program) -> LoopNest:
        nest = lower(program)
        loop = nest.body[0]
        assert isinstance(loop, For)
        return replace(nest, body=(replace(loop, high=loop.high - 1),))

    monkeypatch.setattr(batch, "lower", shorter)
    (found,) = Sanitized([twice()]).run([Call(0, {"x": numbers(3)})])
    assert isinstance(found, np.ndarray)
    assert found[-1] > 1e38


@pytest.mark.long
@needs_sanitizers
def test_leaking_or_endless_kernel_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def leaking(program: Program) -> LoopNest:
        nest = lower(program)
        return replace(nest, body=nest.body[:-1]) if program.name == "buffered" else nest

    monkeypatch.setattr(batch, "lower", leaking)
    calls = [Call(0, {"x": numbers(3)}), Call(1, {"x": 1.0, "n": 4, "m": 6, "k": 3})]
    found = Sanitized([twice(), buffered(n, m)]).run(calls)
    if all(isinstance(result, np.ndarray) for result in found):
        pytest.skip("this system finds no leaks")
    assert isinstance(found[1], Report)
    # Both calls are reported if the report does not name the function.
    assert isinstance(found[0], Report) == ("kernel_1" not in found[1].text)
    slow = Call(0, {"x": 1.0, "n": 2**14, "m": 2**14, "k": 1})
    (late,) = Sanitized([buffered(n, m)]).run([slow], seconds=0.05)
    assert isinstance(late, Report)
    assert "more than" in late.text


@needs_sanitizers
def test_sanitized_kernel_reports_lack_of_memory() -> None:
    huge = Call(0, {"x": 1.0, "n": 2**25, "m": 2**25, "k": 1})
    (found,) = Sanitized([buffered(n, m)]).run([huge])
    assert isinstance(found, Report)
