"""Values in C: index arithmetic, literals, scalar operations and sizes of allocations."""

from __future__ import annotations

import itertools
import math
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from atl.core import index as ix
from atl.core.predicate import NonNegative, conjunction, disjunction, equal, holds, less, negation
from lowering.builds import build_shared, load
from lowering.c.printer import declaration, function_names, print_c
from lowering.c.scalars import literal
from lowering.nest import loopnest as ln
from proofs_tests.nests.by_hand import (
    WARNINGS,
    ZERO,
    at,
    binary,
    body_of,
    cell,
    i,
    j,
    k,
    loop,
    m,
    n,
    nest,
    output,
    run,
    tensor,
    vi,
    vj,
)

pytestmark = pytest.mark.usefixtures("private_cache", "each_compiler")


def address(expression: ix.Index, *, low: int = 0, extent: ix.Index = n) -> str:
    """Return the C text of an index expression, for i from `low` and j in 0..m."""
    x, X = tensor("x", extent)  # noqa: N806
    out = output(n, m)
    store = ln.Assign(cell(out, i - low, j), at(X, expression))
    of = nest("f", [x], out, loop(vi, n, loop(vj, m, store), low=ix.constant(low)), sizes="n m k")
    (line,) = (line for line in body_of(of).split("\n") if "= x[" in line)
    return line[line.index("x[") + 2 : -2]


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (i * m * k + j * k + 1, "(i * m + j) * k + 1"),
        ((i * 64 + j) * m, "(64 * i + j) * m"),
        (n - i - 1, "n - i - 1"),
        (j - i, "j - i"),
        (n * 2 + m * 2, "2 * (m + n)"),
        (n - i * k - j * k, "n - (i + j) * k"),
        (i // 64, "i / 64"),
        (i - (i // 64) * 64, "i % 64"),
        ((i - (i // 64) * 64) * m + j, "(i % 64) * m + j"),
        ((i + j) % (m + 1), "(i + j) % (m + 1)"),
        ((i + j) // (m + 1) * k, "((i + j) / (m + 1)) * k"),
        ((i - j) // 8, "floor_div(i - j, 8)"),
        ((i - 5) // 8, "(i + 3) / 8 - 1"),
        ((i - j) % 4, "floor_mod(i - j, 4)"),
        (ix.imin(i, j), "min_int64(i, j)"),
        (ix.imax(i + 1, j, k), "max_int64(k, max_int64(i + 1, j))"),
    ],
)
def test_index_expressions_are_readable_c(expression: ix.Index, text: str) -> None:
    assert address(expression) == text


def test_loop_bounds_choose_between_plain_and_floor_division() -> None:
    assert address((i + 1) // 8, low=-1) == "(i + 1) / 8"
    assert address((i + 1) // 8, low=-2) == "floor_div(i + 1, 8)"


def test_address_follows_the_structure_of_its_indices() -> None:
    x, X = tensor("x", n, m + 2)  # noqa: N806
    out = output(n)
    of = nest("f", [x], out, loop(vi, n, ln.Assign(cell(out, i), at(X, i, i + 1))), sizes="n m")
    assert "x[i * (m + 2) + i + 1]" in body_of(of)
    of = nest("f", [x], out, loop(vi, n, ln.Assign(cell(out, i), at(X, ix.constant(1), i))), sizes="n m")
    assert "x[m + 2 + i]" in body_of(of)
    tiled = ln.Cell(out, ((i // 64, n), (i % 64, ix.constant(64))))
    of = nest("f", [], out, loop(vi, n, ln.Assign(tiled, ln.Number(1, "float32"))), sizes="n")
    assert "out[i] = " in body_of(of)


def table(name: str, expressions: Sequence[ix.Index], ranges: Sequence[tuple[int, int]]) -> ln.LoopNest:
    """Return a nest that stores the values of the expressions for all i, j in their ranges."""
    (low_i, high_i), (low_j, high_j) = ranges
    shape = (ix.constant(high_i - low_i), ix.constant(high_j - low_j), ix.constant(len(expressions)))
    out = output(*shape, dtype="int64")
    stores: ln.Block = tuple(
        ln.Assign(cell(out, i - low_i, j - low_j, ix.constant(place)), ln.FromIndex(e, "int64"))
        for place, e in enumerate(expressions)
    )
    inner = loop(vj, ix.constant(high_j), *stores, low=ix.constant(low_j))
    return nest(name, [], out, loop(vi, ix.constant(high_i), inner, low=ix.constant(low_i)))


def leaves(p: int, q: int) -> Callable[[ix.Leaf], int]:
    return lambda leaf: p if leaf == vi else q


def values(expression: ix.Index, p: int, q: int) -> int:
    return ix.value_of(expression, leaves(p, q), lambda array, where: 0)


@pytest.mark.parametrize("ranges", [((-9, 10), (1, 7)), ((0, 10), (1, 7)), ((-9, 0), (1, 7))])
def test_division_agrees_with_python_for_small_values(ranges: Sequence[tuple[int, int]]) -> None:
    expressions = [i // j, i % j, (i - 3) // j, (i + j) % (j + 1), (i * 2 - 5) // 3]
    expressions += [i // 4 * 4, i - i // 4 * 4, -i // 3]
    of = table("divisions", expressions, ranges)
    (low_i, high_i), (low_j, high_j) = ranges
    found = run(of, count=(high_i - low_i) * (high_j - low_j) * len(expressions))
    wanted = [values(e, p, q) for p in range(low_i, high_i) for q in range(low_j, high_j) for e in expressions]
    assert found.tolist() == wanted


def random_index(numbers: np.random.Generator, depth: int) -> ix.Index:
    choice = int(numbers.integers(0, 9 if depth else 3))
    if choice < 3:
        return (i, j, ix.constant(int(numbers.integers(-7, 8))))[choice]
    a, b = random_index(numbers, depth - 1), random_index(numbers, depth - 1)
    divisor = ix.constant(int(numbers.integers(1, 9))) if numbers.integers(0, 2) else j
    match choice:
        case 3:
            return a + b
        case 4:
            return a - b
        case 5:
            return a * b
        case 6:
            return a // divisor
        case 7:
            return a % divisor
        case _:
            return ix.imin(a, b) if numbers.integers(0, 2) else ix.imax(a, b)


@pytest.mark.long
def test_random_index_expressions_agree_with_their_meaning() -> None:
    numbers = np.random.default_rng(20)
    expressions = [random_index(numbers, 4) for _ in range(150)]
    ranges = ((-3, 5), (1, 6))
    found = run(table("indices", expressions, ranges), count=8 * 5 * 150).reshape(8, 5, 150)
    for p, q in itertools.product(range(-3, 5), range(1, 6)):
        assert found[p + 3, q - 1].tolist() == [values(e, p, q) for e in expressions], (p, q)


@pytest.mark.long
def test_random_predicates_agree_with_their_meaning() -> None:
    numbers = np.random.default_rng(21)

    def random_predicate(depth: int) -> Any:
        choice = int(numbers.integers(0, 6 if depth else 3))
        e = random_index(numbers, 2)
        if choice < 3:
            return (NonNegative(e), equal(e, ZERO), negation(equal(e, ZERO)))[choice]
        parts = [random_predicate(depth - 1) for _ in range(3)]
        return conjunction(parts) if choice == 3 else disjunction(parts) if choice == 4 else negation(parts[0])

    predicates = [random_predicate(2) for _ in range(120)]
    out = output(ix.constant(8), ix.constant(5), ix.constant(len(predicates)), dtype="int32")
    stores = [
        ln.Assign(cell(out, i + 3, j - 1, ix.constant(at)), ln.Choose(p, ln.Number(1, "int32"), ln.Number(0, "int32")))
        for at, p in enumerate(predicates)
    ]
    inner = loop(vj, ix.constant(6), *stores, low=ix.constant(1))
    of = nest("predicates", [], out, loop(vi, ix.constant(5), inner, low=ix.constant(-3)))
    found = run(of, count=8 * 5 * len(predicates)).reshape(8, 5, -1)
    for p, q in itertools.product(range(-3, 5), range(1, 6)):
        wanted = [holds(each, leaves(p, q), lambda array, where: 0) for each in predicates]
        assert found[p + 3, q - 1].astype(bool).tolist() == wanted


def test_int32_elements_do_not_overflow_in_index_arithmetic() -> None:
    crd = ix.Array("crd", (n,), "int32", ZERO, m)
    element = ix.index(ix.Read(crd, (i,)))
    out = output(n, dtype="int64")
    store = ln.Assign(cell(out, i), ln.FromIndex(element * 4 + 3, "int64"))
    of = nest("wide", [crd], out, loop(vi, n, store), sizes="n m")
    assert "out[i] = 4 * (int64_t)crd[i] + 3;" in body_of(of)
    assert run(of, [np.array([2**31 - 1], np.int32)], [1, 0]).tolist() == [4 * (2**31 - 1) + 3]
    x, X = tensor("x", m)  # noqa: N806
    loads = loop(vi, n, ln.Assign(cell(output(n), i), at(X, element)))
    gathered = nest("gather", [crd, x], output(n), loads, sizes="n m")
    assert "out[i] = x[crd[i]];" in body_of(gathered)


def test_float_literals_round_trip() -> None:
    numbers = np.random.default_rng(22)
    doubles = [0.1, 1.0, 1e22, 1e16, 5e-324, 1.7976931348623157e308, -0.0, 1 / 3, 2.0**70, math.inf, -math.inf]
    doubles += [struct.unpack("d", numbers.bytes(8))[0] for _ in range(300)]
    doubles = [x for x in doubles if not math.isnan(x)]
    for dtype in ("float32", "float64"):
        out = output(ix.constant(len(doubles)), dtype=dtype)
        stores = [ln.Assign(cell(out, ix.constant(p)), ln.Number(x, dtype)) for p, x in enumerate(doubles)]
        of = nest("literals", [], out, *stores)
        with np.errstate(over="ignore"):
            wanted = np.array(doubles).astype(dtype)
        assert run(of, count=len(doubles)).tobytes() == wanted.tobytes()


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (0.1, "float32", "0.1f"),
        (1, "float32", "1.0f"),
        (1e20, "float32", "1e20f"),
        (1e300, "float32", "INFINITY"),
        (0.1, "float64", "0.1"),
        (1e-7, "float64", "1e-7"),
        (-math.inf, "float64", "-INFINITY"),
        (math.nan, "float32", "NAN"),
        (7, "int32", "7"),
        (-(2**31), "int32", "INT32_MIN"),
        (-(2**63), "int64", "INT64_MIN"),
        (2**63 - 1, "int64", "INT64_MAX"),
        (-(2**31), "int64", "-2147483648"),
    ],
)
def test_literals_are_short(value: float, dtype: str, text: str) -> None:
    assert literal(value, dtype).text == text


def scalar_results(*of: ln.ScalarExpr) -> list[tuple[str, Any]]:
    """Return the text and the value of each expression, all of one type."""
    out = output(ix.constant(len(of)), dtype=of[0].dtype)
    made = nest("scalars", [], out, *(ln.Assign(cell(out, ix.constant(place)), e) for place, e in enumerate(of)))
    texts = re.findall(r"^ *out\[\d+\] = (.*);$", body_of(made), re.MULTILINE)
    return [*zip(texts, run(made, count=len(of), flags=("-Wno-overflow", "-Wno-integer-overflow")), strict=True)]


def scalar_result(e: ln.ScalarExpr) -> tuple[str, Any]:
    return scalar_results(e)[0]


def test_integers_wrap_at_their_width() -> None:
    big = ln.Number(2_000_000_000, "int64")
    assert scalar_result(binary("add", big, big)) == ("INT64_C(2000000000) + INT64_C(2000000000)", 4_000_000_000)
    small = ln.Number(2_000_000_000, "int32")
    assert scalar_result(binary("add", small, small))[1] == 4_000_000_000 - 2**32
    lowest = ln.Number(-(2**63), "int64")
    assert scalar_result(ln.Apply("neg", (lowest,), "int64")) == ("-INT64_MIN", -(2**63))
    assert scalar_result(ln.Apply("abs", (lowest,), "int64"))[1] == -(2**63)
    among = ln.Choose(less(ZERO, ZERO), big, big)
    assert scalar_result(binary("mul", among, big))[1] == 4 * 10**18


@pytest.mark.long
def test_parentheses_are_written_only_where_needed() -> None:
    a, b, c = (ln.Number(x, "float64") for x in (8, 4, 2))
    meaning = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
    written: dict[str, ln.ScalarExpr] = {}
    for outer, inner in itertools.product(meaning, repeat=2):
        written[f"(8.0 {meaning[inner]} 4.0) {meaning[outer]} 2.0"] = binary(outer, binary(inner, a, b), c)
        written[f"8.0 {meaning[outer]} (4.0 {meaning[inner]} 2.0)"] = binary(outer, a, binary(inner, b, c))
    for meant, (text, value) in zip(written, scalar_results(*written.values()), strict=True):
        assert value == eval(meant)
        assert eval(text) == eval(meant)
    assert scalar_result(ln.Apply("neg", (ln.Apply("neg", (a,), "float64"),), "float64"))[0] == "-(-8.0)"
    assert scalar_result(binary("sub", a, ln.Number(-4, "float64"))) == ("8.0 - -4.0", 12)
    assert scalar_result(ln.Apply("neg", (binary("add", a, b),), "float64")) == ("-(8.0 + 4.0)", -12)
    assert scalar_result(ln.Convert(binary("div", a, ln.Number(3, "float64")), "int32")) == ("(int32_t)(8.0 / 3.0)", 2)


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_operations_agree_with_numpy_for_each_dtype(dtype: str) -> None:
    x, X = tensor("x", n, dtype=dtype)  # noqa: N806
    y, Y = tensor("y", n, dtype=dtype)  # noqa: N806
    a, b = at(X, i), at(Y, i)
    operations: list[tuple[Any, Any]] = [
        ("min", np.minimum),
        ("max", np.maximum),
        ("add", np.add),
        ("mul", np.multiply),
    ]
    functions: list[tuple[Any, Any]] = [("abs", np.abs), ("neg", np.negative)]
    if dtype.startswith("float"):
        functions += [("sqrt", np.sqrt), ("exp", np.exp), ("log", np.log), ("tanh", np.tanh)]
        operations += [("div", np.divide)]
    given = np.array([1, 2, 7, 4], dtype), np.array([3, 2, 1, -5], dtype)
    wanted = [*(numpy(*given) for _, numpy in operations * 2), *(numpy(given[0]) for _, numpy in functions)]
    out = output(ix.constant(len(wanted)), n, dtype=dtype)
    cells = iter([cell(out, ix.constant(row), i) for row in range(len(wanted))])
    stores: list[Any] = [ln.Assign(next(cells), binary(op, a, b)) for op, _ in operations]
    for op, _ in operations:
        into = next(cells)
        stores += [ln.Assign(into, a), ln.Accumulate(into, op, b)]
    stores += [ln.Assign(next(cells), ln.Apply(op, (a,), dtype)) for op, _ in functions]
    of = nest("operations", [x, y], out, loop(vi, n, *stores), sizes="n")
    got = run(of, given, [4], 4 * len(wanted))
    np.testing.assert_allclose(got.reshape(len(wanted), 4), wanted, rtol=1e-6)


def test_scalars_are_passed_by_value_and_returned_by_address() -> None:
    alpha, buffer = tensor("alpha")
    of = nest("square", [alpha], output(), ln.Assign(cell(output()), binary("mul", at(buffer), at(buffer))))
    assert "int square(float alpha, float *restrict out)\n{\n    *out = alpha * alpha;" in body_of(of)
    assert run(of, [3.0]).tolist() == [9]


def test_index_becomes_a_scalar_by_a_cast() -> None:
    out = output(n)
    value = binary("mul", ln.FromIndex(i - m, "float32"), ln.FromIndex(ix.constant(2), "float32"))
    of = nest("ramp", [], out, loop(vi, n, ln.Assign(cell(out, i), value)), sizes="n m")
    assert "out[i] = (float)(i - m) * 2.0f;" in body_of(of)
    assert run(of, [], [3, 1], 3).tolist() == [-2, 0, 2]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("capacity", "extents", "sizes"),
    [
        (n * m, (n, m), [2**32, 2**32]),  # n * m * 4 is 0 modulo 2^64
        (n * m * 4, (n, m, ix.constant(4)), [2**31, 2**31]),
        (n * m - m, (m,), [2**33, 2**33]),  # hoisted: not the product of the extents
        (n * n + m * m, (m,), [2**32, 2**32]),
        (m, (m,), [1, 2**62]),
    ],
)
def test_overflowing_product_of_sizes_is_not_a_small_allocation(
    capacity: ix.Index, extents: tuple[ix.Index, ...], sizes: list[int]
) -> None:
    buffer = ln.Buffer(7, "big", "float32", extents)
    first = cell(buffer, *(ZERO for _ in extents))
    uses = ln.Accumulate(first, "add", ln.Number(1, "float32")), ln.Assign(cell(output()), ln.Load(first))
    for zeroed in (False, True):
        ends = ln.Allocate(buffer, capacity, zeroed=zeroed), ln.Free(buffer)
        of = nest("huge", [], output(), ends[0], *uses, ends[1], sizes="n m")
        (name,) = function_names((of,))
        path = build_shared(print_c(of), name=name, extra_flags=("-fno-builtin-aligned_alloc", *WARNINGS))
        ffi, library = load(path, declaration(of, name))
        out = ffi.new("float[1]")
        assert library.huge(*sizes, out) == 1
        assert library.huge(2, 3, out) == 0
