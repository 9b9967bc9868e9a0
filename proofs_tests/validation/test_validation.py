"""Validation of C text: what it accepts, which faults it finds, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

import atl
from atl.errors import InvalidArgument, NotInSubset, TextDiffers
from atl.meaning.scalars import Machine
from examples import everyday, fast
from lowering.c.known_functions import KNOWN
from lowering.c.printer import function_names, print_c
from lowering.kernel import Kernel
from lowering.kernel_text import interface
from lowering.pipeline import lower
from lowering.validation.interface import Interface
from lowering.validation.machine import Machine as Executor
from lowering.validation.memory import Heap
from lowering.validation.validate import executed, validate
from lowering.validation.values import Values
from proofs_tests.programs.choices import Seeded
from proofs_tests.programs.generate import Case
from proofs_tests.programs.random_marks import drawn_case

n, m, k = atl.sizes("n m k")
x, A, B = atl.tensor("x", n), atl.tensor("A", n, k), atl.tensor("B", k, m)


def text_of(program: atl.Program, *, strict: bool = False) -> Interface:
    nest = lower(program, strict=strict)
    return interface(program, nest, print_c(nest), function_names((nest,))[0])


def faulty(of: Interface, old: str, new: str) -> Interface:
    assert old in of.text
    return replace(of, text=of.text.replace(old, new, 1))


PRODUCT: Final = atl.program("product", [A, B], atl.gen(n, m, lambda i, j: atl.sum(k, lambda p: A[i, p] * B[p, j])))
ROWS: Final = atl.program(
    "rows",
    [A],
    atl.let(atl.gen(n, lambda i: atl.sum(k, lambda p: A[i, p])), lambda r: atl.gen(n, lambda i: r[i] * r[0])),
)
LARGEST: Final = atl.program(
    "largest", [A], atl.gen(n, lambda i: atl.reduce("max", k, lambda p: A[i, p])), given=[k >= 1]
)


def test_a_product_is_shown_for_all_elements() -> None:
    found = validate(text_of(PRODUCT))
    assert found.domain == "polynomials"
    assert found.complete
    assert "for all real numbers as elements" in str(found)


def test_maxima_by_keys_of_bits_are_polynomials_too() -> None:
    of = text_of(LARGEST)
    assert "max_key_float" in of.text
    assert validate(of).domain == "polynomials"


def test_each_allocation_is_made_to_fail() -> None:
    found = validate(text_of(ROWS))
    assert found.complete
    assert found.failed_allocations >= 6


@pytest.mark.parametrize(
    ("program", "old", "new", "message"),
    [
        (PRODUCT, "A[i * k + p]", "A[i * k + p + 1]", "out of bounds: element"),
        (PRODUCT, "A[i * k + p]", "A[p * k + i]", "out"),
        (PRODUCT, "+=", "=", "is 1"),
        (PRODUCT, "i < n", "i <= n", "out of bounds"),
        (PRODUCT, "j < m", "j < m - 1", "is not written"),
        (PRODUCT, "p++", "p += 2", "is "),
        (ROWS, "free(r);\n    return 0", "return 0", "leak"),
        (ROWS, "free(r);\n    return 0", "free(r);\n    free(r);\n    return 0", "double free"),
        (ROWS, "sizeof *r)", "2)", "out of bounds"),
        (ROWS, "r == NULL", "r != NULL", "leak"),
        (ROWS, "return OUT_OF_MEMORY", "return 0", "allocation 1 fails"),
        (LARGEST, "int64_t p = 0", "int64_t p = 1", "is "),
        (LARGEST, ">> 31", ">> 30", ""),
    ],
)
def test_a_fault_is_found(program: atl.Program, old: str, new: str, message: str) -> None:
    with pytest.raises((TextDiffers, NotInSubset)) as raised:
        validate(faulty(text_of(program), old, new))
    assert message in str(raised.value)


def test_a_misaligned_vector_and_an_input_that_is_written_are_found() -> None:
    text = (
        "typedef float vector4_float __attribute__((vector_size(16), aligned(16)));\n"
        "int f(const float *x, int64_t n, float *out)\n{\n"
        "    for (int64_t i = 0; i < n; i++) out[i] = 0.0f;\n"
        "    if (n >= 5) { *(vector4_float *)&out[1] = (vector4_float){0}; }\n    return 0;\n}\n"
    )
    of = replace(text_of(atl.program("f", [x], atl.gen(n, lambda i: 0 * x[i]))), text=text)
    with pytest.raises(TextDiffers, match="alignment"):
        validate(of)
    with pytest.raises(TextDiffers, match="read-only"):
        validate(replace(of, text="int f(float *x, int64_t n, float *out) { if (n > 0) { x[0] = 1.0f; } return 0; }"))


def test_a_strict_kernel_keeps_the_order_of_sums() -> None:
    total = atl.program("total", [x], atl.sum(n, lambda i: x[i]))
    of = text_of(total, strict=True)
    assert validate(of).domain == "free terms"
    backwards = faulty(of, "int64_t i = 0; i < n; i++", "int64_t i = n - 1; i >= 0; i--")
    assert validate(replace(backwards, strict=False)).domain == "polynomials"
    with pytest.raises(TextDiffers):
        validate(backwards)


def test_a_branch_on_elements_is_decided_over_residues() -> None:
    of = text_of(atl.program("clipped", [x], atl.gen(n, lambda i: atl.maximum(x[i], 0.0))))
    by_branch = replace(
        of,
        text="int clipped(const float *x, int64_t n, float *out) { for (int64_t i = 0; i < n; i++) "
        "{ if (x[i] > 0) { out[i] = x[i]; } else { out[i] = 0.0f; } } return 0; }",
    )
    assert validate(of).domain == "polynomials"
    found = validate(by_branch)
    assert found.domain == "residues"
    assert found.complete


def test_branches_that_did_not_run_are_named() -> None:
    found = validate(text_of(PRODUCT), [{"n": 0, "k": 2, "m": 2}])
    assert not found.complete
    assert "loop" in found.missed[0]


@pytest.mark.parametrize(
    "statement", ["__m128 v;", "out[0] = (float)__builtin_popcount(3);", 'asm("nop");', "x = &out;"]
)
def test_other_statements_are_refused(statement: str) -> None:
    of = text_of(atl.program("f", [x], 2 * x))
    with pytest.raises(NotInSubset):
        validate(replace(of, text=f"int f(const float *x, int64_t n, float *out) {{ {statement} return 0; }}"))


def test_arguments_are_checked() -> None:
    kernel = atl.compile(atl.program("f", [x], 2 * x), validate=True)
    assert isinstance(kernel, Kernel)
    assert kernel.validate([{"n": 2}]).sizes == ({"n": 2},)
    with pytest.raises(InvalidArgument, match="a list of sizes"):
        kernel.validate(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="a number for each of n"):
        kernel.validate([{"m": 2}])
    with pytest.raises(InvalidArgument, match="validate=1"):
        atl.compile(atl.program("f", [x], 2 * x), validate=1)  # type: ignore[call-overload]


def test_known_functions_compute_their_operations() -> None:
    """Those with integers and 16-bit floats are executed; the others call the C library without fused multiply-add."""
    for name, known in KNOWN.items():
        if not name.endswith(("int32", "int64")):
            continue
        text = _helper(name)
        executor = Executor(text, Values(Machine()))
        numbers, scalar = Machine(), np.dtype(known.dtype).type
        for a in (-7, -1, 0, 5, 2**30, -(2**31)):
            for b in (-3, -1, 0, 1, 4, 31, 64):
                wanted = numbers.binary(known.op, known.dtype, scalar(a), scalar(b))  # type: ignore[arg-type]
                assert executor.run(name, [a, b], Heap()) == int(wanted), (name, a, b)


def _helper(name: str) -> str:
    from lowering.c.helpers import preamble

    return preamble(f"{name}(")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_conversions_of_halves_are_executed_by_their_bits(dtype: str) -> None:
    wide = Executor(_helper(f"float_from_{dtype}"), Values(Machine()))
    narrow = Executor(_helper(f"{dtype}_from_float"), Values(Machine()))
    for bits in (0, 1, 0x3C00, 0x3C01, 0x7BFF, 0x8400, 0x0400, 0x03FF):
        number = wide.run(f"float_from_{dtype}", [bits], Heap())
        assert float(number) == float(np.uint16(bits).view(dtype))
        assert narrow.run(f"{dtype}_from_float", [number], Heap()) == bits


SCHEDULES: Final[dict[str, Callable[[], Any]]] = {
    "gaussian": lambda: everyday.gaussian_by_strips(4),
    "softmax": everyday.softmax_by_rows,
    "transpose": lambda: fast.transpose_in_tiles(4),
    "blur": lambda: fast.blur_six_rows(2),
    "layer norm": fast.layer_norm_by_rows,
}


@pytest.mark.long
@pytest.mark.parametrize("name", SCHEDULES)
def test_shipped_schedules_are_validated(name: str) -> None:
    found = validate(text_of(SCHEDULES[name]().goal))
    assert len(found.covered) >= 0.7 * len(found.branches), str(found)


@pytest.mark.long
def test_texts_of_random_programs_are_executed_and_validated() -> None:
    tried = 0
    for number in range(1, 400):
        drawn = drawn_case(Seeded.by(f"40:{number}"), always=False)
        if not isinstance(drawn.made, Case) or drawn.nest is None:
            continue
        text, (name,) = print_c(drawn.nest), function_names((drawn.nest,))
        if len(text) > 2500:
            continue
        of = interface(drawn.made.program, drawn.nest, text, name)
        validate(of, [drawn.made.sizes])
        tried += 1
        if tried == 6:
            break
    assert tried == 6


def test_executed_text_has_the_numbers_of_the_kernel() -> None:
    kernel = atl.compile(PRODUCT)
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((3, 2), np.float32)
    of = text_of(PRODUCT)
    assert np.array_equal(executed(of, {"n": 2, "k": 3, "m": 2}, {"A": a, "B": b}), kernel(a, b))


@pytest.mark.parametrize(
    "endless", ["for (;;) { }", "while (1) { for (int j = 0; j < 3; j++) { } }", "again: if (1) goto again;"]
)
def test_an_endless_loop_at_some_sizes_is_found(endless: str) -> None:
    of = faulty(text_of(PRODUCT), "\n    for (", f"\n    if (n == 1) {{ {endless} }}\n    for (")
    with pytest.raises(TextDiffers, match="endless"):
        validate(of)


@pytest.mark.long
def test_sizes_with_too_many_steps_are_listed_and_not_complete() -> None:
    slow = "if (n == 1) for (int64_t q = 0; q < 200000; q++) { }"
    found = validate(faulty(text_of(PRODUCT), "\n    for (", f"\n    {slow}\n    for ("))
    assert found.skipped
    assert {each["n"] for each in found.skipped} == {1}
    assert not found.complete
    assert "skipped, as too large: n = 1" in str(found)
    with pytest.raises(NotInSubset, match="too many steps"):
        validate(
            faulty(text_of(PRODUCT, strict=True), "\n    for (", f"\n    {slow}\n    for ("), [{"n": 1, "m": 1, "k": 1}]
        )


@pytest.mark.long
def test_sizes_satisfy_the_assumptions() -> None:
    large = atl.sizes("n", min=5000)
    found = validate(text_of(atl.program("f", [atl.tensor("x", large)], 2 * atl.tensor("x", large))))
    assert found.sizes
    assert all(each["n"] >= 5000 for each in found.sizes)


def test_a_validation_without_runs_is_refused() -> None:
    kernel = atl.compile(atl.program("f", [x], 2 * x))
    with pytest.raises(InvalidArgument, match="executed at no sizes"):
        kernel.validate([])
    huge = atl.sizes("n", min=10**9)
    with pytest.raises(InvalidArgument, match="executed at no sizes"):
        validate(text_of(atl.program("f", [atl.tensor("x", huge)], 2 * atl.tensor("x", huge))))


def test_other_sizes_than_those_of_the_kernel_are_refused() -> None:
    for kernel, sizes in (
        (atl.compile(PRODUCT), {"n": 2, "m": 2, "k": 2, "zzz": 3}),
        (atl.compile(PRODUCT, sizes={"n": 2, "m": 2, "k": 2}), {"n": 5, "m": 2, "k": 2}),
    ):
        with pytest.raises(InvalidArgument, match="sizes="):
            kernel.validate([sizes])
    with pytest.raises(atl.ATLError, match="the size k of product is True"):
        atl.compile(PRODUCT).validate([{"n": 2, "m": 2, "k": True}])
    assert atl.compile(PRODUCT, sizes={"n": 2, "m": 2, "k": 2}).validate().sizes == ({},)


def test_a_fused_multiply_add_is_one_rounding() -> None:
    dot = atl.program("dot", [x, atl.tensor("y", n)], atl.sum(n, lambda i: x[i] * atl.tensor("y", n)[i]))
    text = "int dot(const float *x, const float *y, int64_t n, float *out) { float s = 0; for (int i = 0; i < n; i++) "
    of = text_of(dot, strict=True)
    plain = replace(of, text=text + "{ s = s + x[i] * y[i]; } out[0] = s; return 0; }")
    fused = replace(of, text=text + "{ s = fmaf(x[i], y[i], s); } out[0] = s; return 0; }")
    assert validate(plain).domain == "free terms"
    with pytest.raises(TextDiffers, match="out is"):
        validate(fused)
    assert validate(replace(fused, strict=False)).domain == "polynomials"
    a = np.full(2, 1 + 2**-12, np.float32)
    b = np.array([1 + 2**-12, -1], np.float32)
    once = np.float32(np.float64(a[1]) * b[1] + np.float64(a[0] * b[0]))
    assert executed(fused, {"n": 2}, {"x": a, "y": b}) == once
    reverse = {"x": a[::-1].copy(), "y": b[::-1].copy()}
    assert executed(fused, {"n": 2}, reverse) != executed(plain, {"n": 2}, reverse)


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        ("int64_t d = INT64_MIN; d = d / -(n / n);", "undefined"),
        ("int32_t d = INT32_MIN; int32_t e = (int32_t)(n - n) - 1; d = d % e;", "undefined"),
        ("int64_t q = __builtin_ctzll((uint64_t)(n - n));", r"__builtin_ctzll\(0\)"),
        ("float q[4] = {1, 2, 3, 4}; memcpy(q + 1, q, 8);", "overlap"),
        ("float *p = NULL; { float q = 1.0f; p = &q; } out[0] = *p;", "after its block ends"),
        ("float *p = NULL; for (int i = 0; i < 1; i++) { float q[2] = {1, 2}; p = q; } out[0] = p[0];", "block ends"),
        ("float *p = held(1.0f); out[0] = *p;", "block ends"),
        ("out[0] = nothing(n);", "ends without a result"),
    ],
)
def test_undefined_behaviour_is_trapped(statements: str, message: str) -> None:
    helpers = (
        "static inline float *held(float a) { float *p = &a; return p; }\n"
        "static inline int nothing(int64_t n) { if (n < 0) return 1; }\n"
    )
    text = f"{helpers}int f(const float *x, int64_t n, float *out) {{ {statements} return 0; }}"
    with pytest.raises(TextDiffers, match=message):
        validate(replace(text_of(atl.program("f", [x], 2 * x)), text=text), [{"n": 2}])


def test_a_shuffle_by_no_lane_is_refused() -> None:
    text = (
        "typedef float v4 __attribute__((vector_size(16)));\n"
        "int f(const float *x, int64_t n, float *out) "
        "{ v4 a = {1, 2, 3, 4}; v4 b = __builtin_shufflevector(a, a, 0, -1, 2, 3); out[0] = b[1]; return 0; }"
    )
    with pytest.raises(NotInSubset, match="shuffle"):
        validate(replace(text_of(atl.program("f", [x], 2 * x)), text=text), [{"n": 2}])


@pytest.mark.parametrize(
    "text",
    [
        "f (x : int64[n]) : int64 := min[j < n] x[j]",
        "f (x : float64[n]) : float16[n] := ⊞[i < n] cast(float16, x[i])",
        "f (x : float16[n]) : float64[n] := ⊞[i < n] cast(float64, x[i])",
    ],
)
def test_strict_operations_of_several_steps_are_refused(text: str) -> None:
    program = atl.parse(text)
    with pytest.raises(NotInSubset, match="strict text, each of whose operations is one of the program"):
        atl.compile(program, strict=True).validate()
    assert atl.compile(program).validate().complete
