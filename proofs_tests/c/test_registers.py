"""Buffers marked `registers`: variables of vector types in C, with constant indices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pytest

import atl
from atl.core.index import constant
from atl.core.marks import LetMark
from atl.core.predicate import TRUE
from atl.errors import CompilerFailed, InvalidArgument, UnsupportedMark
from examples.everyday import product_packed
from lowering import compile as compiled
from lowering import kernel as kernels
from lowering import kernel_text, lower, print_c, print_nest
from lowering.builds import build_shared
from lowering.c.loops import window_flags
from lowering.c.printer import print_unit
from lowering.c_compiler import find_compiler
from lowering.nest import tiles as loops
from lowering.nest.execution import Trap
from lowering.nest.interpreter import run
from lowering.nest.loopnest import Allocate, Assign, Buffer, Free, If, LoopNest, Number, statements
from lowering.nest.tiles import vectors_of_row
from lowering.passes import registers
from proofs_tests.nests.by_hand import WARNINGS, at, cell, i, loop, n, nest, output, tensor, vi
from proofs_tests.nests.tiles import BODIES, VALUES, tiled
from proofs_tests.programs.agreement import Expected, expected, interpreted, own_cache
from proofs_tests.programs.agreement import compiled as in_c
from proofs_tests.sampling import few_and_rest
from rewrites import reschedule

pytestmark = pytest.mark.sampled

CASES: Final = 30
CONSTANT: Final = "indices that are constant when the loops with constant bounds in the let are unrolled"
LIMIT: Final = "a constant size of 1 to 2048 bytes, the most vector registers that a processor has; it has "
TWO: Final = "f : float32[n], g : int32[n] in [0, 8)"


def program(body: str, shape: str = "n", inputs: str = "f : float32[n]") -> atl.Program:
    return atl.parse(f"t ({inputs}) : float32[{shape}]\n    given 1 <= n :=\n  {body}")


ROWS: Final = program(
    "⊞[r < n] let acc | registers := Σ[p < m] ⊞[c < 20] A[r, p] * B[p, c] in ⊞[c < 20] 2 * acc[c]",
    "n, 20",
    "A : float32[n, m], B : float32[m, 20]",
)


FILTERS: Final = """
    ⊞[o < n] let acc | registers := Σ[q < m] ⊞[r < 4] ⊞[c < 16] {} * B[q, c] in ⊞[r < 4] ⊞[c < 16] acc[r, c]
"""


@pytest.mark.parametrize(
    ("read", "is_window"),
    [("f[4 * o + r + q]", True), ("f[3 * o + 2 * r + q]", True), ("f[o + r + 2 * q]", True), ("f[r * m + q]", False)],
)
def test_gcc_loads_elements_of_windows_again(read: str, *, is_window: bool) -> None:
    goal = program(FILTERS.format(read), "n, 4, 16", "f : float32[4 * n * m + 2 * m + 9 * n + 9], B : float32[m, 16]")
    found, tile = find_compiler(), lower(goal)
    assert bool(window_flags(tile, replace(found, kind="gcc"))) is is_window
    assert not window_flags(tile, replace(found, kind="clang"))
    assert not window_flags(lower(reschedule(goal).mark("acc", None).goal), replace(found, kind="gcc"))


def body_of(source: str) -> list[str]:
    """Return the lines of the function after its opening brace."""
    return [line.strip() for line in source.partition("{\n")[2].splitlines()]


def test_tile_with_single_element_stores_is_scalar_variables() -> None:
    body = "flatten ⊞[r < n] let acc | registers := Σ[p < m] ⊞[c < 4] A[4*r + c, p] * x[p] in ⊞[c < 4] acc[c]"
    lines = body_of(print_c(lower(program(body, "4*n", "A : float32[4*n, m], x : float32[m]"))))
    assert "float acc_0 = 0.0f, acc_1 = 0.0f, acc_2 = 0.0f, acc_3 = 0.0f;" in lines
    assert "acc_3 += A[(4 * r + 3) * m + p] * x[p];" in lines
    assert "out[4 * r + 3] = acc_3;" in lines
    assert not any("vector" in line for line in lines)


def test_tile_has_a_variable_for_each_vector() -> None:
    source = print_c(lower(ROWS))
    assert "typedef float vector16_float __attribute__((vector_size(64), aligned(4), may_alias));" in source
    assert body_of(source) == [
        "for (int64_t r = 0; r < n; r++) {",
        "vector16_float acc_0 = {0};",
        "vector4_float acc_1 = {0};",
        "for (int64_t p = 0; p < m; p++) {",
        "acc_0 += A[r * m + p] * *(const vector16_float *)&B[p * 20];",
        "acc_1 += A[r * m + p] * *(const vector4_float *)&B[p * 20 + 16];",
        "}",
        "*(vector16_float *)&out[r * 20] = 2.0f * acc_0;",
        "*(vector4_float *)&out[r * 20 + 16] = 2.0f * acc_1;",
        "}",
        "return 0;",
        "}",
    ]


def test_loop_nest_shows_a_loop_for_each_vector() -> None:
    assert print_nest(lower(ROWS)).splitlines()[1:8] == [
        "    for r in 0..n:",
        "        zeros acc[20] in registers  # registers",
        "        for p in 0..m:",
        "            for c in 0..16:",
        "                acc[c] += A[r, p] * B[p, c]",
        "            for c in 16..20:",
        "                acc[c] += A[r, p] * B[p, c]",
    ]


@pytest.mark.parametrize(
    ("length", "dtype", "size", "lengths"),
    [
        (32, "float32", 64, (16, 16)),
        (14, "float32", 64, (8, 4, 1, 1)),
        (14, "float32", 16, (4, 4, 4, 1, 1)),
        (7, "float64", 32, (4, 2, 1)),
        (3, "int32", 64, (1, 1, 1)),
        (9, "int64", 64, (8, 1)),
    ],
)
def test_row_is_split_into_the_longest_vectors(length: int, dtype: str, size: int, lengths: tuple[int, ...]) -> None:
    assert vectors_of_row(length, dtype, size) == lengths


@pytest.mark.parametrize("size", [16, 32, 64])
def test_vectors_have_the_length_of_the_machine(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "find_compiler", lambda: replace(find_compiler(), vector_bytes=size))
    kernel = compiled(ROWS)
    assert f"vector{size // 4}_float acc_0" in kernel.source
    draw = np.random.default_rng(1)
    a, b = draw.integers(-9, 9, (3, 5)).astype(np.float32), draw.integers(-9, 9, (5, 20)).astype(np.float32)
    np.testing.assert_array_equal(kernel(a, b), 2 * a @ b)


def test_compiler_reports_the_vector_length() -> None:
    assert find_compiler().vector_bytes in (16, 32, 64)


def test_tile_read_in_another_order_is_copied() -> None:
    turned = program(
        "⊞[r < n] let acc | registers := ⊞[q < 8] ⊞[c < 16] A[r, q] * A[r, c] in ⊞[c < 16] ⊞[q < 8] acc[q, c]",
        "n, 16, 8",
        "A : float32[n, 16]",
    )
    lines = body_of(print_c(lower(turned)))
    assert "float acc_copy[128];" in lines
    assert "*(vector16_float *)&acc_copy[112] = acc_7;" in lines
    assert "out[(r * 16 + c) * 8 + q] = acc_copy[q * 16 + c];" in lines


def test_loop_over_part_of_a_tile_is_unrolled_under_tests() -> None:
    lines = body_of(print_c(lower(product_packed(3, 16).goal)))
    at_two = lines.index("if (3 * io + 1 < n) {")
    assert lines[at_two + 1] == "acc_1 += A[(3 * io + 1) * k + p] * *(const vector16_float *)&Bp[(jo * k + p) * 16];"
    assert "if (0) {" not in lines


def test_tile_without_vectors_is_scalar_variables() -> None:
    small = program("⊞[r < n] let s | registers := ⊞[c < 3] f[r] + value(c) in s[0] * s[1] * s[2]")
    assert body_of(print_c(lower(small)))[1:6] == [
        "float s_0 = 0.0f, s_1 = 0.0f, s_2 = 0.0f;",
        "s_0 = f[r] + 0.0f;",
        "s_1 = f[r] + 1.0f;",
        "s_2 = f[r] + 2.0f;",
        "out[r] = s_0 * s_1 * s_2;",
    ]


@pytest.mark.parametrize("mark", ["", " | vector"])
def test_tile_of_booleans_is_scalar_variables(mark: str) -> None:
    body = f"⊞[i < n] let t | registers := ⊞[j < 5{mark}] x[i, j] < y[j] in ⊞[j < 5] t[4 - j] & (0 < x[i, j])"
    kernel = compiled(atl.parse(f"f (x : float32[n, 5], y : float32[5]) : bool[n, 5] := {body}"))
    x, y = np.random.default_rng(2).uniform(-1, 1, (6, 5)).astype("float32"), np.zeros(5, "float32")
    np.testing.assert_array_equal(kernel(x, y), (x < y)[:, ::-1] & (x > 0))


def test_broadcast_to_all_lanes_keeps_the_sign_of_zero() -> None:
    same = program("⊞[r < n] let s | registers := ⊞[c < 4] f[r] in ⊞[c < 4] s[c]", "n, 4")
    assert "s_0 = f[r] - (vector4_float){0};" in print_c(lower(same))
    assert np.signbit(compiled(same)(np.array([-0.0], np.float32))).all()


@pytest.mark.long
def test_unary_functions_of_vectors_agree_with_scalars() -> None:
    edges = [0.0, -0.0, 1.5, -1.5, 2.25, -1e-40, 1e30, -1e30, np.inf, -np.inf, np.nan, 88.0, -100.0]
    for dtype, functions in (
        ("float32", "abs sqrt exp"),
        ("float64", "abs sqrt exp"),
        ("int32", "abs"),
        ("int64", "abs"),
    ):
        least = [int(np.iinfo(dtype).min), -7] if dtype.startswith("int") else edges
        given = np.resize(np.array(least, dtype), (3, 22))
        for function in functions.split():
            bound = f"let a | registers := ⊞[c < 22] {function}(f[r, c]) in ⊞[c < 22] a[c]"
            text = f"t (f : {dtype}[n, 22]) := ⊞[r < n] {bound}"
            in_lanes, plain = atl.parse(text), atl.parse(text.replace(" | registers", ""))
            for size in (16, 64):
                assert f"{function}_vector" in print_c(lower(in_lanes, vector_bytes=size))
            with np.errstate(all="ignore"):
                wanted, got = compiled(plain)(given), compiled(in_lanes)(given)
            assert wanted.tobytes() == got.tobytes(), (dtype, function)
            assert run(lower(in_lanes), {"n": 3}, {"f": given}).shape == (3, 22)


@pytest.mark.long
def test_c_with_tiles_compiles_without_warnings(each_target: str) -> None:
    made = [tiled(f"warnings:{seed}") for seed in range(8)]
    nests = [lower(one.case.program) for one in made if one is not None]
    accepted = [of for of in nests if not of.refused]
    assert len(accepted) >= 5
    with own_cache():
        build_shared(print_unit(accepted), name="t", extra_flags=WARNINGS)


def test_compiler_without_vector_size_is_refused() -> None:
    with own_cache(), pytest.raises(CompilerFailed, match="needs a compiler with vector_size"):
        build_shared(print_c(lower(ROWS)), name="t", extra_flags=("-D__attribute__(ignored)=",))


PADDED: Final = program(
    "⊞[r < n] let acc | registers := padr (8 - min(k, 8)) ⊞[i < min(k, 8)] x[i] in ⊞[i < 8] acc[7 - i]",
    "n, 8",
    "x : float32[k], n : size",
)


@pytest.mark.parametrize("inner", [0, 1, 5, 8, 11])
def test_stores_past_a_variable_end_are_unrolled_under_tests(inner: int) -> None:
    nest, x = lower(PADDED), np.arange(1, inner + 1, dtype=np.float32)
    assert not nest.refused
    assert storages(nest) == ["registers"]
    wanted = np.tile(np.concatenate((x[:8], np.zeros(max(0, 8 - inner), np.float32)))[::-1], (2, 1))
    np.testing.assert_array_equal(run(nest, {"n": 2, "k": inner}, {"x": x}), wanted)
    np.testing.assert_array_equal(compiled(PADDED)(x=x, n=2), wanted)


REFUSALS: Final = {
    "of no constant size": (
        program("let b | registers := ⊞[i < n] f[i] in ⊞[i < n] b[n - 1 - i]"),
        "it is too large, or its size is not constant",
        LIMIT + "n elements of float32",
    ),
    "too large": (
        program("let b | registers := ⊞[i < 513] f[0] in ⊞[i < 513] b[512 - i]", "513"),
        "it is too large, or its size is not constant",
        LIMIT + "513 elements of float32",
    ),
    "an index of a loop around the let": (
        program("⊞[r < n] let b | registers := ⊞[i < 8] f[r] + value(i) in b[r % 8]"),
        "its index r % 8 is not constant",
        CONSTANT,
    ),
    "an index that is an element": (
        program("⊞[r < n] let b | registers := ⊞[i < 8] f[r] + value(i) in b[g[r]]", inputs=TWO),
        "its index g[r] is not constant",
        CONSTANT,
    ),
    "stores in a loop whose range is not constant": (
        program("let b | registers := Σ[p < n] place 8 (p % 8) f[p] in ⊞[i < 8] b[7 - i]", "8"),
        "the range of the loop p, which indexes it, from 0 to n, has no proved constant bounds",
        "loops with constant bounds, which can be unrolled",
    ),
    "iterations beyond those that index it": (
        program("let b | registers := Σ[p < n] (⊞[i < 8] f[p]) + [p < 8] · place 8 p f[p] in ⊞[i < 8] b[7 - i]", "8"),
        "the range of the loop p, which indexes it, from 0 to n, has no proved constant bounds",
        "loops with constant bounds, which can be unrolled",
    ),
    "iterations that run at the same time": (
        program("let b | registers := ⊞[i < 8 | parallel] f[0] + value(i) in ⊞[i < 8] b[7 - i]", "8"),
        "the loop i, which indexes it, is marked parallel",
        "loops that may be unrolled: a register belongs to one thread",
    ),
    "too much text": (
        program(
            "let b | registers := Σ[p < 9] Σ[q < 50] Σ[r < 16] place 16 ((p + q + r) % 16) f[0] in ⊞[i < 16] b[15 - i]",
            "16",
        ),
        "unrolling the loops that index it, such as r, gives more than 4096 statements",
        "at most 4096 statements",
    ),
}
"""Programs with a tile b that cannot be in registers, with the reason and the requirement."""


@pytest.mark.parametrize("refused", REFUSALS)
def test_tile_that_cannot_be_in_registers_is_refused(refused: str) -> None:
    of, summary, required = REFUSALS[refused]
    (found,) = lower(of).refused
    assert (found.name, found.mark, found.summary, found.required) == ("b", LetMark.REGISTERS, summary, required)
    assert not any(isinstance(s, Allocate) and s.storage == "registers" for s in statements(lower(of).body))
    if refused != "iterations that run at the same time":  # the parallel mark is refused first
        for refuse in (compiled, lambda of: print_c(lower(of))):
            with pytest.raises(UnsupportedMark) as caught:
                refuse(of)
            assert caught.value.summary == f"the buffer b is marked registers; {summary}"
            assert caught.value.required == required
            assert caught.value.place is not None
            assert caught.value.place.text[caught.value.place.start :].startswith("let b | registers")
            assert caught.value.suggestions


@pytest.mark.parametrize("refused", REFUSALS)
def test_suggestion_for_a_refused_tile_is_accepted(refused: str) -> None:
    of, _, _ = REFUSALS[refused]
    assert lower(replace(of, body=reschedule(of).mark("b", "stack").mark("_", None).goal.body)).refused == ()


def test_session_reports_tiles_too_large_for_registers() -> None:
    (found,) = reschedule(REFUSALS["too large"][0]).check().diagnostics
    assert isinstance(found, UnsupportedMark)
    assert found.summary == "the buffer b is marked registers; it is too large, or its size is not constant"


def test_fixed_sizes_make_a_tile_of_constant_size() -> None:
    of, _, _ = REFUSALS["of no constant size"]
    kernel = compiled(of, sizes={"n": 8})
    np.testing.assert_array_equal(kernel(np.arange(8, dtype=np.float32)), np.arange(8, dtype=np.float32)[::-1])
    assert "b_0[" in kernel.source


def test_impossible_vector_length_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="vector_bytes=48"):
        lower(ROWS, vector_bytes=48)


@lru_cache(maxsize=1)
def agreeing(numbers: range) -> tuple[Expected, ...]:
    """Return random programs with tiles in registers, all correct in the loop-nest interpreter."""
    found: list[Expected] = []
    for number in numbers:
        made = tiled(f"tiles:{number}")
        assert made is not None
        wanted = expected(made.case)
        assert isinstance(wanted, Expected), wanted
        assert interpreted(wanted) is None
        if not wanted.nest.refused:
            assert any(isinstance(s, Allocate) and s.storage == "registers" for s in statements(wanted.nest.body))
            found.append(wanted)
    return tuple(found)


@pytest.mark.long
@pytest.mark.parametrize("numbers", few_and_rest(CASES))
def test_random_tiles_agree_in_interpreter_and_sanitized_c(numbers: range) -> None:
    cases = agreeing(numbers)
    assert len(cases) >= 0.8 * len(numbers)
    with own_cache():
        assert [fault for fault in in_c(cases) if fault is not None] == []


@pytest.mark.long
def test_random_tiles_cover_all_values_and_bodies() -> None:
    made = [tiled(f"tiles:{number}") for number in range(4 * CASES)]
    assert {one.value for one in made if one} == set(range(len(VALUES)))
    assert {one.body for one in made if one} == set(range(len(BODIES)))


@pytest.mark.long
@pytest.mark.parametrize("tile", [(3, 32), (2, 20)])
def test_packed_product_accumulates_in_registers(tile: tuple[int, int]) -> None:
    kernel = compiled(product_packed(*tile).goal)
    assert "vector" in kernel.source
    draw = np.random.default_rng(3)
    for rows, inner, columns in ((1, 1, 1), (3, 5, 32), (7, 2, 45), (8, 9, 64)):
        a = draw.integers(-9, 9, (rows, inner)).astype(np.float32)
        b = draw.integers(-9, 9, (inner, columns)).astype(np.float32)
        np.testing.assert_array_equal(kernel(a, b), a @ b)


def read_down(rows: int, columns: int, dtype: str, element: str = "tile[i, j]") -> atl.Program:
    """Return a program that stores a tile row by row and reads it column by column."""
    inputs = f"Z : {dtype}[{rows}, {columns}], x : {dtype}[{columns}], y : {dtype}[{rows}]"
    return atl.parse(
        f"t ({inputs}) : {dtype}[{columns}, {rows}] :="
        f" let tile | registers := ⊞[i < {rows}] ⊞[j < {columns}] Z[i, j] in ⊞[j < {columns}] ⊞[i < {rows}] {element}"
    )


def storages(nest: LoopNest) -> list[str]:
    return [statement.storage for statement in statements(nest.body) if isinstance(statement, Allocate)]


def given_for(made: atl.Program) -> dict[str, Any]:
    draw = np.random.default_rng(5)
    return {
        one.name: draw.integers(-99, 99, [extent.constant or 0 for extent in one.shape]).astype(one.dtype)
        for one in made.inputs
    }


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("size", [16, 32, 64])
@pytest.mark.parametrize(("down", "across"), [(1, 1), (1, 2), (2, 1)])
def test_tile_of_squares_is_transposed_by_lane_exchange(dtype: str, size: int, down: int, across: int) -> None:
    lanes = size // np.dtype(dtype).itemsize
    made = read_down(down * lanes, across * lanes, dtype)
    nest = lower(made, vector_bytes=size)
    assert storages(nest) == ["registers"] * lanes.bit_length()
    given = given_for(made)
    np.testing.assert_array_equal(run(nest, {}, given), given["Z"].T)


@pytest.mark.long
@pytest.mark.parametrize(("stored", "read"), [("⊞[o < 1] ⊞[i < 16]", "0, i"), ("⊞[i < 16] ⊞[o < 1]", "i, 0")])
def test_dimensions_of_one_element_do_not_prevent_a_transpose(stored: str, read: str) -> None:
    """Staging in a batch of tiles makes such dimensions."""
    made = atl.parse(
        "t (Z : float32[2, 16, 32]) : float32[2, 32, 16] := ⊞[q < 2]"
        f" let tile | registers := {stored} ⊞[j < 32] Z[q, i, j] in ⊞[j < 32] ⊞[i < 16] tile[{read}, j]"
    )
    nest, given = lower(made, vector_bytes=64), given_for(made)
    assert storages(nest) == ["registers"] * 5
    wanted = given["Z"].transpose(0, 2, 1)
    np.testing.assert_array_equal(run(nest, {}, given), wanted)
    np.testing.assert_array_equal(compiled(made)(**given), wanted)


READ: Final[dict[str, tuple[Callable[..., Any], bool]]] = {
    "tile[i, j]": (lambda z, x, y: z.T, True),
    "2 * tile[i, j] - x[j]": (lambda z, x, y: 2 * z.T - x[:, None], True),
    "max(tile[i, j], y[i]) * tile[i, 3]": (lambda z, x, y: np.maximum(z.T, y) * z[:, 3], True),
    "tile[i, 15 - j]": (lambda z, x, y: z[:, ::-1].T, True),
    "tile[i, j] + tile[j, i]": (lambda z, x, y: z.T + z, False),
    "tile[15 - i, j]": (lambda z, x, y: z[::-1].T, False),
}
"""Elements read from a tile of 16 x 16, and whether the transposed tile suffices for them."""


@pytest.mark.long
@pytest.mark.parametrize("element", READ)
def test_reads_other_than_a_column_are_correct(element: str) -> None:
    made, (meaning, transposed) = read_down(16, 16, "float32", element), READ[element]
    nest, given = lower(made, vector_bytes=64), given_for(made)
    assert ("stack" not in storages(nest)) == transposed
    wanted = meaning(given["Z"], given["x"], given["y"])
    np.testing.assert_array_equal(run(nest, {}, given), wanted)
    np.testing.assert_array_equal(compiled(made)(**given), wanted)


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_both_shuffle_builtins_choose_the_same_lanes(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if find_compiler().kind != "gcc":
        pytest.skip("only gcc has __builtin_shuffle")
    lanes = 64 // np.dtype(dtype).itemsize
    made = read_down(lanes, lanes, dtype)
    given = given_for(made)
    newer = "defined(__clang__) || __GNUC__ >= 12"
    sources: list[str] = []

    def older(nest: LoopNest) -> str:
        printed = print_c(lower(made, vector_bytes=64))
        sources.append(printed)
        return printed.replace(newer, "0")

    np.testing.assert_array_equal(compiled(made)(**given), given["Z"].T)
    monkeypatch.setattr(kernel_text, "print_c", older)
    with own_cache():
        np.testing.assert_array_equal(compiled(made)(**given), given["Z"].T)
    assert newer in sources[0]


def test_tile_not_made_of_squares_is_copied_to_memory() -> None:
    for rows, columns in ((8, 16), (16, 20), (12, 12)):
        made = read_down(rows, columns, "float32")
        nest, given = lower(made, vector_bytes=64), given_for(made)
        assert "stack" in storages(nest)
        np.testing.assert_array_equal(run(nest, {}, given), given["Z"].T)


ROUND: Final = registers._round

WRONG_ROUNDS: Final[dict[str, Callable[..., Any]]] = {
    "all rounds have distance 1": lambda source, target, distance, length, lane: ROUND(
        source, target, max(1, length // 2) if 2 * distance == length else 1, length, lane
    ),
    "the last round exchanges nothing": lambda source, target, distance, length, lane: ROUND(
        source, target, distance, 2 * length, lane
    ),
}


@pytest.mark.parametrize("fault", WRONG_ROUNDS)
def test_wrong_transposition_round_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registers, "_round", WRONG_ROUNDS[fault])
    made = read_down(16, 8, "float32")
    given = given_for(made)
    try:
        found = run(lower(made, vector_bytes=32), {}, given)
    except (Trap, AssertionError):
        return
    assert not np.array_equal(found, given["Z"].T)


VECTORS: Final = loops.vectors

FAULTS: Final[dict[str, tuple[Any, str, Callable[..., object]]]] = {
    "an iteration that reads a cell stored by another one is a lane": (loops, "_has_lanes", lambda *_: True),
    "all stored cells are assumed consecutive": (loops, "step", lambda *_: 1),
    "loops over part of a tile cover all of it": (registers, "within", lambda *_: TRUE),
    "all vectors of a row have one length": (registers, "vectors_of_row", lambda length, *_: (4,) * (length // 4)),
    "a copy lacks the last vector of the tile": (registers, "vectors", lambda *given: list(VECTORS(*given))[:-1]),
}
"""Planted faults: a module, a name in it, and a faulty replacement."""


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
def test_wrong_tile_is_found_by_the_interpreter(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = agreeing(range(CASES))
    monkeypatch.setattr(*FAULTS[fault])
    assert any(_goes_wrong(wanted) for wanted in cases)


def _goes_wrong(wanted: Expected) -> bool:
    try:
        return interpreted(replace(wanted, nest=lower(wanted.case.program))) is not None
    except AssertionError:  # some elements of a tile are in none of its vectors
        return True


A, MADE = tensor("A", n)
OUT: Final = output(n)


def in_registers(*body: Any, lengths: tuple[int, ...] = (4, 4)) -> LoopNest:
    """Return a nest with a tile of eight elements."""
    return nest("t", [A], OUT, Allocate(TILE, constant(8), "registers", vectors=lengths), *body, Free(TILE), sizes="n")


TILE: Final = Buffer(77, "tile", "float32", (constant(8),))
TRAPS: Final = {
    "at an index that is not constant": Assign(cell(OUT, n - 1), at(TILE, n - 1)),
    "are not one vector of it": loop(vi, constant(8), Assign(cell(TILE, i), at(MADE, i))),
    "is not lane 1 of the vector at 0": loop(vi, constant(4), Assign(cell(TILE, i), at(MADE, 2 * i))),
    "If is not an operation on vectors": loop(vi, constant(4), If(TRUE, (Assign(cell(TILE, i), at(MADE, i)),))),
}


@pytest.mark.parametrize("message", TRAPS)
def test_interpreter_traps_invalid_register_operations(message: str) -> None:
    with pytest.raises(Trap, match=message) as caught:
        run(in_registers(TRAPS[message]), {"n": 8}, {"A": np.ones(8, np.float32)})
    assert caught.value.kind == "register"


def test_lanes_come_from_at_most_two_vectors() -> None:
    tile = Buffer(78, "tile", "float32", (constant(16),))
    ends = Allocate(tile, constant(16), "registers", vectors=(4,) * 4), Free(tile)

    def chosen(position: Any, lanes: int = 4) -> LoopNest:
        into = [loop(vi, constant(4), Assign(cell(tile, i + 4 * part), at(MADE, i))) for part in range(4)]
        read = loop(vi, constant(lanes), Assign(cell(OUT, i), at(tile, position)))
        rest = [Assign(cell(OUT, constant(lane)), Number(0, "float32")) for lane in range(lanes, 4)]
        return nest("t", [A], OUT, ends[0], *into, read, *rest, ends[1], sizes="n")

    given = {"A": np.arange(4, dtype=np.float32)}
    assert run(chosen(3 * i % 8), {"n": 4}, given).tolist() == [0, 3, 2, 1]
    for wrong in (chosen(4 * i), chosen(3 * i % 8, 2)):
        with pytest.raises(Trap, match="cannot be selected from 2 vectors"):
            run(wrong, {"n": 4}, given)
