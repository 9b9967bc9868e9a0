"""Recurrences: meaning, storage, notation, and refusals of rows that are not known yet."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import atl
import padtypes
from atl import IndexExpr, Program, Tensor, cast, concat, gen, guard, imax, imin, iterate, maximum, rec, select, value
from atl.core.dtypes import BOOL, DEFAULT, DTYPES
from atl.core.index import Leaf, Size
from atl.core.marks import LoopMark
from atl.core.terms import Rec
from atl.core.traversal import subterms
from atl.errors import (
    ATLError,
    DtypeError,
    ExtentError,
    IllegalMark,
    InvalidArgument,
    ParseError,
    RankError,
    ShapeError,
    UnsafeAccess,
)
from atl.meaning.interpret import PAD, denote
from atl.meaning.scalars import Machine
from atl.text.latex import latex
from atl.text.printing import show_program
from lowering import lower, print_nest
from lowering.nest.interpreter import execute
from proofs_tests.programs.reproduce import as_python
from rewrites import reschedule

AnyArray = npt.NDArray[Any]
F = "float64"
UNTYPED: Any = atl
n = atl.sizes("n", min=3)
T = atl.sizes("T")
x, y, b = (atl.tensor(name, n, dtype=F) for name in "xyb")
A, L = (atl.tensor(name, n, n, dtype=F) for name in "AL")
KERNELS: dict[str, Program] = {}


def kernel(*inputs: Tensor) -> Callable[[Callable[[], Any]], None]:
    def add(body: Callable[[], Any]) -> None:
        KERNELS[body.__name__] = atl.program(body.__name__, list(inputs), body())

    return add


def inner(*indices: IndexExpr) -> Any:
    """Return the condition that no index is at a border."""
    out: Any = True
    for i in indices:
        out = (i >= 1) & (i < n - 1) & out
    return out


@kernel(x)
def prefix_sum() -> Tensor:
    return rec(n, lambda p, y: select(p >= 1, y[p - 1], 0.0) + x[p], dtype=F)


@kernel(x)
def two_rows_back() -> Tensor:
    return rec(gen(2, lambda i: x[i]), n, lambda p, y: 0.5 * y[p - 1] + y[p - 2] + x[p])


@kernel(L, b)
def trisolv() -> Tensor:
    return rec(n, lambda i, x: (b[i] - atl.sum(i, lambda j: L[i, j] * x[j])) / L[i, i], dtype=F)


@kernel(A)
def lu() -> Tensor:
    def row(i: IndexExpr, above: Tensor) -> Tensor:
        def element(j: IndexExpr, r: Tensor) -> Tensor:
            below = (A[i, j] - atl.sum(j, lambda k: r[k] * above[k, j])) / above[j, j]
            return select(j < i, below, A[i, j] - atl.sum(i, lambda k: r[k] * above[k, j]))

        return rec(n, element, dtype=F)

    return rec(n, row, of=(n,), dtype=F)


@kernel(A)
def cholesky() -> Tensor:
    def row(i: IndexExpr, above: Tensor) -> Tensor:
        def element(j: IndexExpr, r: Tensor) -> Tensor:
            below = (A[i, j] - atl.sum(j, lambda k: r[k] * above[j, k])) / above[j, j]
            diagonal = atl.sqrt(A[i, i] - atl.sum(i, lambda k: r[k] * r[k]))
            return guard(j <= i, select(j < i, below, diagonal))

        return rec(n, element, dtype=F)

    return rec(n, row, of=(n,), dtype=F)


@kernel(x)
def jacobi_1d() -> Tensor:
    def step(_: IndexExpr, u: Tensor) -> Tensor:
        return gen(n, lambda i: select(inner(i), (u[imax(i - 1, 0)] + u[i] + u[imin(i + 1, n - 1)]) / 3, u[i]))

    return iterate(2 * T, x, step)


@kernel(A)
def jacobi_2d() -> Tensor:
    def step(_: IndexExpr, u: Tensor) -> Tensor:
        def cell(i: IndexExpr, j: IndexExpr) -> Tensor:
            mean = 0.2 * (u[i, j] + u[i, j - 1] + u[i, j + 1] + u[i + 1, j] + u[i - 1, j])
            return select(inner(i, j), mean, u[i, j])

        return gen(n, n, cell)

    return iterate(2 * T, A, step)


@kernel(A)
def seidel_2d() -> Tensor:
    def step(_: IndexExpr, u: Tensor) -> Tensor:
        def cell(i: IndexExpr, j: IndexExpr, above: Tensor, left: Tensor) -> Tensor:
            new = above[i - 1, j - 1] + above[i - 1, j] + above[i - 1, j + 1] + left[j - 1]
            old = u[i, j] + u[i, j + 1] + u[i + 1, j - 1] + u[i + 1, j] + u[i + 1, j + 1]
            return select(inner(i, j), (new + old) / 9, u[i, j])

        return rec(n, lambda i, above: rec(n, lambda j, left: cell(i, j, above, left), dtype=F), of=(n,), dtype=F)

    return iterate(T, A, step)


s, t = (atl.tensor(name, n, dtype="int32") for name in "st")


@kernel(s, t)
def needleman_wunsch() -> Tensor:
    def cell(i: IndexExpr, j: IndexExpr, above: Tensor, r: Tensor) -> Tensor:
        aligned = above[i - 1, j - 1] + select(s[i - 1] == t[j - 1], 1, -1)
        best = maximum(aligned, maximum(above[i - 1, j], r[j - 1]) - 1)
        return select(i == 0, cast("int32", value(-j)), select(j == 0, cast("int32", value(-i)), best))

    def row(i: IndexExpr, above: Tensor) -> Tensor:
        return rec(n + 1, lambda j, r: cell(i, j, above, r), dtype="int32")

    return rec(n + 1, row, of=(n + 1,), dtype="int32")


@kernel(x, y)
def two_states() -> Any:
    def step(k: IndexExpr, u: dict[str, Tensor], new: dict[str, Tensor]) -> dict[str, Tensor]:
        first = gen(n, lambda i: u["a"][i] + 0.5 * u["b"][n - 1 - i] + atl.cast(F, value(k)))
        return {"a": first, "b": gen(n, lambda i: new["a"][i] - u["b"][i])}

    return iterate(T, {"a": x, "b": y}, step)


@kernel(x)
def padded_rows() -> Tensor:
    """A recurrence whose rows are partly padding, below operators that store rows elsewhere and drop some."""
    first = gen(1, n, lambda _, j: guard(j < 2, x[j]))
    rows = rec(first, n, lambda p, y: gen(n, lambda j: guard(j <= p, y[p - 1, j] + x[j])))
    return atl.transpose(concat(rows, atl.padl(1, rows)))


@kernel(x)
def added() -> Tensor:
    """A recurrence added to a sum of tensors, and read by arithmetic."""
    total = atl.sum(n, lambda k: gen(n, lambda i: x[i] * x[k]))
    sums = rec(n, lambda p, y: select(p >= 1, y[p - 1], 0.0) + x[p], dtype=F)
    return total + sums * 2 - atl.truncr(1, rec(x, n + 1, lambda p, y: guard(p < n, y[p - 1] + y[0])))


@kernel(x)
def in_loops() -> Tensor:
    """Recurrences within a loop, a let and a sum."""
    return gen(n, lambda i: atl.let(
        rec(n, lambda p, y: x[p] * x[i] + select(p >= 1, y[p - 1], 0.0), dtype=F),
        lambda r: r[i] + atl.sum(n, lambda k: rec(x, n + 2, lambda p, z: z[p - 2] + x[i])[k]),
    ))  # fmt: skip


@kernel(x)
def all_first_rows() -> Tensor:
    return rec(x, n, lambda p, y: y[p - 1])


def arguments(program: Program, size: int) -> dict[str, AnyArray]:
    random = np.random.default_rng(size)
    given: dict[str, AnyArray] = {}
    for array in program.inputs:
        shape = tuple(size for _ in array.shape)
        if array.dtype == "int32":
            given[array.name] = random.integers(0, 3, shape).astype("int32")
            continue
        values = random.random(shape)
        given[array.name] = values + values.T + 2 * size * np.eye(size) if len(shape) == 2 else values
    return given


def in_numpy(name: str, at: dict[str, AnyArray], steps: int) -> AnyArray | tuple[AnyArray, ...] | None:
    """Return the result of a kernel, computed by a plain loop over NumPy arrays; None if no such loop exists."""
    match name:
        case "prefix_sum":
            return np.asarray(np.cumsum(at["x"]))
        case "two_rows_back":
            out = at["x"].copy()
            for p in range(2, len(out)):
                out[p] += 0.5 * out[p - 1] + out[p - 2]
            return out
        case "trisolv":
            return np.linalg.solve(np.tril(at["L"]), at["b"])
        case "lu":
            out = at["A"].copy()
            for k in range(len(out)):
                out[k + 1 :, k] /= out[k, k]
                out[k + 1 :, k + 1 :] -= np.outer(out[k + 1 :, k], out[k, k + 1 :])
            return out
        case "cholesky":
            return np.linalg.cholesky(at["A"])
        case "jacobi_1d":
            u = at["x"].copy()
            for _ in range(2 * steps):
                u[1:-1] = (u[:-2] + u[1:-1] + u[2:]) / 3
            return u
        case "jacobi_2d":
            u = at["A"].copy()
            for _ in range(2 * steps):
                u[1:-1, 1:-1] = 0.2 * (u[1:-1, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] + u[2:, 1:-1] + u[:-2, 1:-1])
            return u
        case "seidel_2d":
            u = at["A"].copy()
            for _ in range(steps):
                for i in range(1, len(u) - 1):
                    for j in range(1, len(u) - 1):
                        u[i, j] = u[i - 1 : i + 2, j - 1 : j + 2].sum() / 9
            return u
        case "needleman_wunsch":
            count = len(at["s"]) + 1
            out = -np.add.outer(np.arange(count), np.arange(count))
            for i in range(1, count):
                for j in range(1, count):
                    same = 1 if at["s"][i - 1] == at["t"][j - 1] else -1
                    out[i, j] = max(out[i - 1, j - 1] + same, out[i - 1, j] - 1, out[i, j - 1] - 1)
            return out
        case "two_states":
            u, v = at["x"], at["y"]
            for k in range(steps):
                u = u + 0.5 * v[::-1] + k
                v = u - v
            return u, v
        case "all_first_rows":
            return np.asarray(at["x"])
        case _:
            return None


@pytest.mark.parametrize(("size", "steps"), [(3, 0), (4, 1), (7, 3)])
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.sampled
def test_interpreters_nests_and_c_agree(name: str, size: int, steps: int) -> None:
    program = KERNELS[name]
    at = arguments(program, size)
    sizes = {"n": size, "T": steps}
    free: dict[str, Any] = {name: sizes[name] for name in program.free_sizes}
    every = {name: sizes[name] for name in program.sizes}
    meaning = UNTYPED.evaluate(program, **at, **free)
    several = meaning if isinstance(meaning, tuple) else (meaning,)
    known = in_numpy(name, at, steps)
    for one, other in zip(several, known if isinstance(known, tuple) else (known,), strict=True):
        if other is not None:
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    flat = np.concatenate([each.reshape(-1) for each in several])
    for run in (partial(atl.evaluate_fast, program), atl.compile(program)):
        found = run(**at, **free)
        for one, other in zip(several, found if isinstance(found, tuple) else (found,), strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-12, atol=1e-12)
    outcomes = [execute(lower(program, registers=registers), every, at) for registers in (True, False)]
    for outcome in outcomes:
        np.testing.assert_allclose(outcome.to_numpy().reshape(-1), flat, rtol=1e-12, atol=1e-12)
    # Without registers, exactly the elements that are not padding are stored.
    denoted = denote(program, every, at, Machine())
    stored = np.zeros(flat.size, dtype=bool)
    stored[list(outcomes[1].cells)] = True
    np.testing.assert_array_equal(~stored, denoted.padding().reshape(-1))
    pads = padtypes.infer(program)[()]

    def sized(leaf: Leaf) -> int:
        assert isinstance(leaf, Size)
        return sizes[leaf.name]

    for position in np.ndindex(denoted.shape):
        assert pads.contains(position, sized) == (denoted.at(position) is PAD)


@pytest.mark.parametrize("name", KERNELS)
def test_text_and_certificate_keep_the_program(name: str, tmp_path: Path) -> None:
    program = KERNELS[name]
    for text in (str(program), show_program(program, ascii=True)):
        assert atl.parse(text) == program
        assert str(atl.parse(text)) == str(program)
    reschedule(program).done().save(tmp_path / "same.atl.json")
    assert atl.load(tmp_path / "same.atl.json").rhs == program
    assert "\\mathbf{rec}" in latex(program)


def test_python_text_builds_the_program() -> None:
    scope: dict[str, Any] = {"atl": atl}
    for name in ("prefix_sum", "seidel_2d", "two_rows_back"):
        exec(as_python(KERNELS[name]), scope)
        assert scope["program"] == KERNELS[name]


def test_rows_are_read_where_they_are_stored() -> None:
    assert print_nest(lower(KERNELS["prefix_sum"])) == (
        "prefix_sum(x[n]) -> out[n]\n    out[0] = 0.0 + x[0]\n    for p in 1..n:\n        out[p] = out[p - 1] + x[p]"
    )
    assert "alloc" not in print_nest(lower(KERNELS["lu"]))


def test_no_rows_and_first_rows_only() -> None:
    k = atl.sizes("k")
    z = atl.tensor("z", k, dtype=F)
    sums = atl.program("sums", [z], rec(k, lambda p, y: select(p >= 1, y[p - 1], 0.0) + z[p], dtype=F))
    same = atl.program("same", [z], rec(z, k, lambda p, y: y[p - 1]))
    for run in (atl.evaluate, atl.evaluate_fast, lambda p, *a: atl.compile(p)(*a)):
        assert run(sums, np.zeros(0)).shape == (0,)
        assert run(same, np.zeros(0)).shape == (0,)
        np.testing.assert_array_equal(run(same, np.array([3.0, 4.0])), [3.0, 4.0])


@pytest.mark.parametrize("dtype", [*DTYPES, BOOL])
def test_element_type_follows_from_the_row(dtype: str) -> None:
    k = atl.sizes("k")
    z = atl.tensor("z", k, dtype=dtype)
    assert rec(k, lambda p, y: atl.maximum(select(p >= 1, y[p - 1], z[p]), z[p])).dtype == dtype
    assert rec(k, lambda p, y: rec(k, lambda q, v: select(q >= 1, v[q - 1], z[q])), of=(k,)).dtype == dtype
    if dtype != BOOL:
        assert atl.scan(k, 0, lambda s, total: total + z[s]).dtype == dtype


def test_element_type_of_literals_is_the_default() -> None:
    assert rec(n, lambda p, y: select(p >= 1, y[p - 1], 1)).dtype == DEFAULT
    assert rec(n, lambda p, y: 1).dtype == DEFAULT


@pytest.mark.long
def test_interpreters_need_no_stack_for_many_rows() -> None:
    ones = np.ones(10_000)
    assert sys.getrecursionlimit() < len(ones)
    assert atl.evaluate(KERNELS["prefix_sum"], ones)[-1] == 10_000
    assert atl.evaluate_fast(KERNELS["prefix_sum"], ones)[-1] == 10_000


def test_scan_returns_all_states() -> None:
    sums = atl.program("sums", [x], atl.scan(n, cast(F, 0), lambda k, total: total + x[k]))
    np.testing.assert_array_equal(atl.evaluate(sums, [1.0, 2.0, 3.0]), [0, 1, 3, 6])


def test_states_of_iterate_are_a_tuple_or_an_argument() -> None:
    def fibonacci(_: IndexExpr, u: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return u[1], u[0] + u[1]

    zero, one = cast("int64", 0), cast("int64", 1)
    both = atl.program("both", [], iterate(T, (zero, one), fibonacci))
    assert [int(each) for each in atl.evaluate(both, T=10)] == [55, 89]
    first = atl.program("first", [], iterate(T, (zero, one), fibonacci, lambda u: u[0]))
    assert atl.evaluate(first, T=10) == atl.compile(first)(T=10) == 55


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "summary", "suggestion"),
    [
        (lambda p, y: y[p], "row p of y reads row p, but only rows before row p are known", "write p - 1"),
        (lambda p, y: y[p + 1], "row p of y reads row p + 1, but only rows before row p are known", "0 to p - 1"),
        (lambda p, y: y[p - 1], "row p of y reads row p - 1, but only rows before row p are known", "guard the access"),
        (lambda p, y: y[-1], "row p of y reads row -1, but only rows before row p are known", "write p - 1"),
        (lambda p, y: y[n - 1 - p], "row p of y reads row n - p - 1, but only rows", "guard the access"),
    ],
)
def test_a_row_reads_earlier_rows_only(row: Any, summary: str, suggestion: str) -> None:
    program = atl.program("bad", [x], rec(n, row, dtype=F))
    with pytest.raises(UnsafeAccess) as caught:
        lower(program)
    assert caught.value.summary.startswith(summary)
    assert suggestion in str(caught.value.suggestions)
    assert caught.value.numbers is not None
    assert set(caught.value.numbers) == {"n", "p"}
    assert caught.value.place is not None


def test_an_access_to_another_tensor_has_the_usual_message() -> None:
    copied = atl.program("copied", [x], rec(n, lambda p, y: atl.let(x + 0, lambda t: t[p + 1]), dtype=F))
    with pytest.raises(UnsafeAccess, match="an access at p \\+ 1 to the let-bound tensor"):
        atl.check_safe(copied)


ROWS = gen(2, n, lambda i, j: x[j])


@pytest.mark.parametrize(
    ("make", "error", "summary"),
    [
        (lambda: rec(gen(5, lambda i: 1.0), n, lambda p, y: y[p - 1]), ExtentError, "begins with 5 rows, but has n"),
        (lambda: rec(ROWS, n, lambda p, y: x[p]), RankError, "rows of rank 1 and continues with rows of rank 0"),
        (lambda: rec(x, n, lambda p, y: x), RankError, "rows of rank 0 and continues with rows of rank 1"),
        (lambda: rec(x[0], n, lambda p, y: x[p]), RankError, "rec needs 1 dimension, but this tensor has 0"),
        (lambda: rec(x, n + 1, lambda p, y: s[0]), DtypeError, "type float64 and continues with"),
        (lambda: rec(ROWS, n, lambda p, y: gen(n + 1, lambda j: 1.0)), ShapeError, "rows of shape (n) and continues"),
        (lambda: UNTYPED.rec(n, lambda p: 1.0), InvalidArgument, "a function of 1 parameter"),
        (lambda: UNTYPED.rec(n), InvalidArgument, "rec needs the first rows"),
        (lambda: UNTYPED.rec(x, n, lambda p, y: 1.0, of=(n,)), InvalidArgument, "of= or dtype="),
        (lambda: UNTYPED.rec(n, lambda p, y: 1.0, of=n), InvalidArgument, "of="),
        (lambda: UNTYPED.iterate(n, x, 3), InvalidArgument, "iterate needs a number of steps"),
        (lambda: UNTYPED.scan(n, x, None), InvalidArgument, "scan needs a number of steps"),
        (lambda: UNTYPED.iterate(n, (), lambda k, u: u), InvalidArgument, "iterate got no states"),
        (lambda: UNTYPED.iterate(n, (x, A), lambda k, u: u), RankError, "states of rank 1 and 2"),
        (lambda: UNTYPED.iterate(n, (x, atl.cast("int64", x)), lambda k, u: u), DtypeError, "float64 and int64"),
        (lambda: UNTYPED.iterate(n, (x, y), lambda k, u: (x,)), InvalidArgument, "returns other states"),
        (lambda: UNTYPED.iterate(n, {"a": x, "b": y}, lambda k, u: {"a": x}), InvalidArgument, "returns other"),
        (lambda: UNTYPED.iterate(n, x, lambda k, u: u, lambda u: u), InvalidArgument, "of one state got result="),
        (lambda: UNTYPED.iterate(n, x, lambda u: u), InvalidArgument, "iterate got a function of 1 parameter"),
        (lambda: UNTYPED.iterate(x, n, lambda k, u: u), InvalidArgument, "the number is the tensor x"),
        (lambda: UNTYPED.scan(x, 0, lambda k, u: u), InvalidArgument, "the tensor x, and the tensor is 0"),
        (lambda: UNTYPED.rec(n, x, lambda p, y: y[p - 1]), InvalidArgument, "tensor x, and the tensor is n"),
        (lambda: atl.iterate(n, x, lambda k, u: u[0]), RankError, "a tensor of rank 0 for a state of rank 1"),
    ],
)  # fmt: skip
def test_refusals(make: Callable[[], Tensor], error: type[ATLError], summary: str) -> None:
    with pytest.raises(error) as caught:
        atl.program("bad", [x, y, A, s], make())
    assert summary in caught.value.summary
    assert caught.value.required


def test_a_later_state_cannot_be_read() -> None:
    def step(_: IndexExpr, u: Any, new: Any) -> Any:
        return u[0] + new[1], u[1]

    program = atl.program("bad", [x, y], iterate(n, (x, y), step))
    with pytest.raises(UnsafeAccess, match="row c of new reads row 1, but only rows before row c are known"):
        atl.check_safe(program)


def test_first_rows_have_the_extent_in_the_range() -> None:
    for text, error in (
        ("f (x : float64[n]) := rec[2 <= p < n + 2] y from x in y[p - 1]", ShapeError),
        ("f (x : float64[n]) := rec[n <= p < n + 2] y x in y[p - 1]", ParseError),
        ("f (x : float64[n]) := rec[n <= p < n + 2] y from x y[p - 1]", ParseError),
        ("f (x : float64) := rec[0 <= p < 2] y from x in y[p - 1]", RankError),
    ):
        with pytest.raises(error):
            atl.parse(text)


@pytest.mark.parametrize("mark", ["parallel", "vector", "thread.x"])
def test_concurrent_rows_are_refused_with_two_iterations(mark: str) -> None:
    marked = reschedule(KERNELS["prefix_sum"]).mark("p", mark)
    target = "cuda" if mark == "thread.x" else "c"
    with pytest.raises(IllegalMark, match=f"the loop p is marked {mark}, but iterations .* both access out"):
        lower(marked.goal, target=target)


def test_rows_that_read_no_others_may_be_concurrent() -> None:
    squares = atl.program("squares", [x], rec(n, lambda p, y: x[p] * x[p], dtype=F))
    marked = reschedule(squares).mark("p", "parallel")
    assert "| parallel]" in str(marked)
    assert "# parallel" in print_nest(lower(marked.goal))
    np.testing.assert_array_equal(marked.compile()(np.arange(5.0)), np.arange(5.0) ** 2)


def test_a_pattern_finds_a_recurrence() -> None:
    for pattern in ("rec[_ < n] r from _ in select(_, _, _)", "j", "rec[_ < _] _ from _ in select(_, _, _)"):
        marked = reschedule(KERNELS["lu"]).mark(pattern, "unroll")
        found = [term for term in subterms(marked.goal.body) if isinstance(term, Rec)]
        assert [term.mark for term in found] == [LoopMark.NONE, LoopMark.UNROLL]


def test_inner_loops_of_a_step_may_be_parallel() -> None:
    marked = reschedule(KERNELS["jacobi_2d"]).mark("⊞[i < n] _", "parallel")
    a = np.random.default_rng(1).random((6, 6))
    expected = atl.evaluate(KERNELS["jacobi_2d"], a, T=2)
    np.testing.assert_allclose(marked.compile()(a, T=2), expected, rtol=1e-12)
    assert "# parallel" in print_nest(lower(marked.goal))
