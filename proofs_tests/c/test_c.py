"""C code of loop nests: its text, and that compilers accept it without warnings."""

import math

import numpy as np
import pytest

import atl
from atl.core.index import Array, Var, constant, index, size
from atl.core.predicate import conjunction, less, negation, within
from lowering import compile as compiled
from lowering import lower
from lowering.c.printer import function_names, print_c, print_unit
from lowering.c.text import identifier, reserved
from lowering.nest import loopnest as ln
from lowering.nest.text import print_nest
from proofs_tests.nests.by_hand import (
    ZERO,
    at,
    binary,
    body_of,
    cell,
    i,
    j,
    k,
    l,
    loop,
    m,
    n,
    nest,
    output,
    run,
    tensor,
    vi,
    vj,
    vk,
)

pytestmark = pytest.mark.usefixtures("private_cache", "each_compiler")


def matmul() -> ln.LoopNest:
    a, A = tensor("A", n, k)  # noqa: N806
    b, B = tensor("B", k, m)  # noqa: N806
    out, total = output(n, m), ln.Scalar(5, "total", "float32")
    product = binary("mul", at(A, i, l), at(B, l, j))
    inner = (
        ln.Declare(total, ln.Number(0, "float32")),
        loop(vk, k, ln.Accumulate(total, "add", product)),
        ln.Assign(cell(out, i, j), ln.Load(total)),
    )
    return nest("matmul", [a, b], out, loop(vi, n, loop(vj, m, *inner)), sizes="n k m")


def test_matrix_product_is_readable_c() -> None:
    wanted = """\
#include <stdint.h>

/* matmul: out[n, m] from A[n, k], B[k, m]. */
int matmul(const float *restrict A, const float *restrict B, int64_t n, int64_t k, int64_t m,
        float *restrict out)
{
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < m; j++) {
            float total = 0.0f;
            for (int64_t k2 = 0; k2 < k; k2++) {
                total += A[i * k + k2] * B[k2 * m + j];
            }
            out[i * m + j] = total;
        }
    }
    return 0;
}
"""
    assert print_c(matmul()) == wanted


def test_pseudocode_shows_indices_instead_of_addresses() -> None:
    wanted = """\
matmul(A[n, k], B[k, m]) -> out[n, m]
    for i in 0..n:
        for j in 0..m:
            total = 0.0
            for k2 in 0..k:
                total += A[i, k2] * B[k2, j]
            out[i, j] = total"""
    assert print_nest(matmul()) == wanted


def test_guarded_reads_are_conditional_expressions_without_known_conditions() -> None:
    x, X = tensor("x", n)  # noqa: N806
    out = output(n)
    reads: list[ln.ScalarExpr] = [
        ln.Choose(conjunction((within(ZERO, i + d, n),)), at(X, i + d), ln.Number(0, "float32")) for d in (-1, 0, 1)
    ]
    total = binary("add", binary("add", reads[0], reads[1]), reads[2])
    stored = ln.Assign(cell(out, i), binary("div", total, ln.Number(3, "float32")))
    blur = nest("blur", [x], out, loop(vi, n, stored), sizes="n")
    wanted = """\
/* blur: out[n] from x[n]. */
int blur(const float *restrict x, int64_t n, float *restrict out)
{
    #pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) {
        out[i] = ((1 <= i ? x[i - 1] : 0.0f) + x[i] + (i + 1 < n ? x[i + 1] : 0.0f)) / 3.0f;
    }
    return 0;
}
"""
    assert body_of(blur) == wanted
    given = np.arange(1, 6, dtype=np.float32)
    smooth = (np.convolve(given, [1, 1, 1], "same") / 3).astype(np.float32)
    assert run(blur, [given], [5], 5).tolist() == smooth.tolist()


def test_hoisted_buffer_is_checked_cleared_and_freed() -> None:
    x, X = tensor("x", n, m)  # noqa: N806
    out, row = output(n, m), ln.Buffer(7, "row", "float32", (m,))
    of = nest(
        *("rows", [x], out),
        ln.Allocate(row, m, zeroed=False),
        loop(
            *(vi, n),
            ln.Clear(row, ln.elements((m,))),
            loop(vj, m, ln.Accumulate(cell(row, j), "add", at(X, i, j))),
            loop(vk, m, ln.Assign(cell(out, i, l), at(row, l))),
        ),
        ln.Free(row),
        sizes="n m",
    )
    wanted = """\
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { OUT_OF_MEMORY = 1 };

/* a * b, or PTRDIFF_MAX if the product does not fit into a size_t. */
static inline size_t saturating_product(size_t a, size_t b)
{
    size_t product;
    return __builtin_mul_overflow(a, b, &product) ? PTRDIFF_MAX : product;
}

#if !defined __STDC_VERSION__ || __STDC_VERSION__ < 201112L
#error "aligned_alloc needs C11: compile with -std=c11 or later"
#endif
#if defined __linux__ && !defined __cplusplus
int madvise(void *begin, size_t size, int advice); /* sys/mman.h hides it if the standard is C11 */
#endif
/* Memory that begins at a cache line, or NULL. Linux is asked for huge pages in large buffers: fewer page faults. */
static inline void *aligned_storage(size_t size)
{
    void *made = size < PTRDIFF_MAX ? aligned_alloc(64, (size / 64 + 1) * 64) : NULL;
#if defined __linux__ && !defined __cplusplus
    if (made != NULL && size >= 4194304) {
        size_t skipped = -(uintptr_t)made % 65536; /* up to the next page */
        madvise((char *)made + skipped, size - skipped, 14); /* MADV_HUGEPAGE; without effect if it fails */
    }
#endif
    return made;
}

/* rows: out[n, m] from x[n, m]. */
int rows(const float *restrict x, int64_t n, int64_t m, float *restrict out)
{
    float *restrict row = aligned_storage(saturating_product(m, sizeof *row));
    if (row == NULL) {
        return OUT_OF_MEMORY;
    }
    for (int64_t i = 0; i < n; i++) {
        memset(row, 0, m * sizeof *row);
        for (int64_t j = 0; j < m; j++) {
            row[j] += x[i * m + j];
        }
        for (int64_t k = 0; k < m; k++) {
            out[i * m + k] = row[k];
        }
    }
    free(row);
    return 0;
}
"""
    assert print_c(of) == wanted
    given = np.arange(6, dtype=np.float32)
    assert run(of, [given], [2, 3], 6).tolist() == given.tolist()


def test_heap_buffers_are_freed_on_every_exit() -> None:
    a, b, c = (ln.Buffer(uid, name, "float64", (n, n)) for uid, name in ((1, "a"), (2, "b"), (3, "c")))
    out = output(dtype="float64")
    fill = [
        loop(vi, n, loop(vj, n, ln.Assign(cell(x, i, j), ln.Number(value, "float64")))) for value, x in ((1, a), (2, b))
    ]
    last = (
        ln.Allocate(c, n * n),
        ln.Accumulate(cell(c, ZERO, ZERO), "add", binary("add", at(a, ZERO, ZERO), at(b, ZERO, ZERO))),
        ln.Assign(cell(out), at(c, ZERO, ZERO)),
        ln.Free(c),
    )
    ends = ln.Free(b), ln.Free(a)
    of = nest(
        "three", [], out, ln.Allocate(a, n * n), ln.Allocate(b, n * n, zeroed=False), *fill, *last, *ends, sizes="n"
    )
    text = body_of(of)
    assert (
        """\
    double *restrict a = aligned_zeros(saturating_product(saturating_product(n, n), sizeof *a));
    double *restrict b = aligned_storage(saturating_product(saturating_product(n, n), sizeof *b));
    if (a == NULL || b == NULL) {
        free(b);
        free(a);
        return OUT_OF_MEMORY;
    }
"""
        in text
    )
    assert (
        """\
    double *restrict c = aligned_zeros(saturating_product(saturating_product(n, n), sizeof *c));
    if (c == NULL) {
        free(b);
        free(a);
        return OUT_OF_MEMORY;
    }
    c[0] = a[0] + b[0];
    free(b);
    free(a);
    *out = c[0];
    free(c);
    return 0;
"""
        in text
    )
    assert run(of, [], [3]).tolist() == [3.0]


def test_stack_buffer_is_an_array() -> None:
    eight = constant(8)
    x, X = tensor("x", eight)  # noqa: N806
    out = output(eight)
    tile, empty = ln.Buffer(1, "tile", "float32", (eight,)), ln.Buffer(2, "empty", "float32", (ZERO,))
    of = nest(
        *("tiles", [x], out),
        ln.Allocate(tile, eight, "stack", zeroed=False),
        ln.Allocate(empty, ZERO, "stack"),
        loop(vi, eight, ln.Assign(cell(tile, i), binary("add", at(X, i), at(X, i)))),
        loop(vi, eight, ln.Assign(cell(out, i), at(tile, constant(7) - i))),
        loop(vi, ZERO, ln.Accumulate(cell(out, i), "add", at(empty, i))),
        ln.Free(empty),
        ln.Free(tile),
    )
    text = body_of(of)
    # A C array has at least one element.
    assert "    float tile[8];\n    float empty[1] = {0};\n" in text
    assert "free" not in text
    assert "out[i] = tile[7 - i];" in text
    assert run(of, [np.arange(8, dtype=np.float32)], [], 8).tolist() == list(range(14, -1, -2))


def test_code_that_the_output_does_not_depend_on_is_removed() -> None:
    x, X = tensor("x", n)  # noqa: N806
    out, first, second = output(n), ln.Scalar(5, "first", "float32"), ln.Scalar(6, "second", "float32")
    buffer, kept = ln.Buffer(1, "unused", "float32", (n,)), ln.Scalar(7, "kept", "float32")
    of = nest(
        *("partly", [x], out),
        ln.Allocate(buffer, n),
        loop(
            *(vi, n),
            ln.Declare(first, at(X, i)),
            ln.Declare(second, ln.Load(first)),
            ln.Declare(kept, at(X, i)),
            ln.Clear(buffer, n),
            ln.If(less(ZERO, i), (ln.Accumulate(cell(buffer, i), "add", ln.Load(second)),)),
            ln.Assign(cell(out, i), ln.Load(kept)),
        ),
        ln.Free(buffer),
        sizes="n",
    )
    wanted = """\
    for (int64_t i = 0; i < n; i++) {
        float kept = x[i];
        out[i] = kept;
    }
    return 0;
"""
    assert body_of(of).split("{\n", 1)[1] == wanted + "}\n"
    assert "unused" in print_nest(of)


def test_opposite_conditions_become_else_and_nested_ones_are_joined() -> None:
    out = output(n)
    first = less(i, m)
    one, two = (ln.Assign(cell(out, i), ln.Number(value, "float32")) for value in (1, 2))
    of = nest("halves", [], out, loop(vi, n, ln.If(first, (one,)), ln.If(negation(first), (two,))), sizes="n m")
    wanted = """\
        if (i < m) {
            out[i] = 1.0f;
        } else {
            out[i] = 2.0f;
        }
"""
    assert wanted in body_of(of)
    assert run(of, [], [3, 1], 3).tolist() == [1, 2, 2]
    inner = ln.If(less(i * i, m), (ln.If(less(i * i, k), (one,)),))
    nested = nest("both", [], out, loop(vi, n, inner), sizes="n m k", complete=False)
    assert "        if (i * i < m && i * i < k) {\n" in body_of(nested)
    assert "    memset(out, 0, n * sizeof *out);\n" in body_of(nested)
    assert run(nested, [], [3, 1, 2], 3).tolist() == [1, 0, 0]


def test_known_condition_is_not_tested() -> None:
    out = output(n)
    value = ln.Scalar(9, "x", "float32")
    inside = (ln.Declare(value, ln.Number(1, "float32")), ln.Assign(cell(out, i), ln.Load(value)))
    of = nest("known", [], out, loop(vi, n, ln.If(less(i, n), inside), ln.If(less(n, i), inside)), sizes="n")
    assert "if" not in body_of(of)
    assert run(of, [], [2], 2).tolist() == [1, 1]


def test_output_that_may_keep_padding_is_cleared_first() -> None:
    out = output(n, m + 2)
    of = nest("hollow", [], out, sizes="n m", complete=False)
    assert "memset(out, 0, n * (m + 2) * sizeof *out);" in body_of(of)
    assert run(of, [], [2, 1], 6).tolist() == [0] * 6
    scalar = nest("nothing", [], output(), complete=False)
    assert "memset(out, 0, sizeof *out);" in body_of(scalar)


def test_unused_parameters_are_marked() -> None:
    x, _ = tensor("x", n)
    of = nest("constant", [x], output(), ln.Assign(cell(output()), ln.Number(1, "float32")), sizes="n")
    assert "{\n    (void)x;\n    (void)n;\n    *out = 1.0f;\n" in body_of(of)
    assert run(of, [np.zeros(2, np.float32)], [2]).tolist() == [1]


def test_only_needed_headers_are_included() -> None:
    of = nest("one", [], output(), ln.Assign(cell(output()), ln.Number(1, "float32")))
    assert print_c(of).startswith("/* one: out. */\nint one(float *restrict out)\n")


def test_comment_states_the_assumptions() -> None:
    pos = Array("pos", (n + 1,), "int32", ZERO, m, "increasing")
    of = ln.LoopNest("facts", ("n", "m"), (pos,), output(), (), (less(ZERO, n),), complete=True)
    assert body_of(of).startswith(
        "/* facts: out from pos[n + 1], where 1 <= n, 0 <= pos[...] < m, pos increases strictly along its last\n"
        "   dimension. */\n"
    )


def test_long_lines_break_at_the_outermost_brackets() -> None:
    x, X = tensor("a_rather_long_name", n)  # noqa: N806
    total: ln.ScalarExpr = at(X, ZERO)
    for d in range(1, 9):
        total = binary("add", total, at(X, constant(d)))
    of = nest("long_sum", [x], output(), ln.Assign(cell(output()), total), sizes="n")
    lines = body_of(of).split("\n")
    assert max(map(len, lines)) <= 110
    assert any(line.startswith("            + a_rather_long_name[") for line in lines)
    assert run(of, [np.ones(9, np.float32)], [9]).tolist() == [9]


def test_loop_that_never_runs_may_contain_a_division_by_zero() -> None:
    thirds = atl.ceildiv(atl.sizes("n"), 3)
    a = atl.tensor("a", 1, thirds, 3)
    nothing = atl.gen(0, lambda i: atl.abs(atl.flatten(a)))
    of = lower(atl.program("nothing", [a], atl.split(3, nothing)))
    assert "for (int64_t i = 0; i < 0; i++)" in body_of(of)


HOSTILE = "int double register NULL exp expf malloc free memset INT64_MAX int64_t min_float OUT_OF_MEMORY main y1 asm"


@pytest.mark.thinned(13)
@pytest.mark.sampled
@pytest.mark.parametrize("name", HOSTILE.split())
def test_names_reserved_in_c_are_changed(name: str) -> None:
    x, X = tensor(name, size("if"))  # noqa: N806
    out = output(size("if"), name="return")
    for_variable, scalar = Var(4, name), ln.Scalar(6, name, "float32")
    p = index(for_variable)
    value = ln.Apply("exp", (ln.Apply("min", (at(X, p), ln.Number(math.inf, "float32")), "float32"),), "float32")
    stores = ln.Declare(scalar, value), ln.Assign(cell(out, p), ln.Load(scalar))
    of = nest(name, [x], out, loop(for_variable, size("if"), *stores), sizes="if")
    given = np.array([0.0, 1.0], np.float32)
    np.testing.assert_allclose(run(of, [given], [2], 2), np.exp(given), rtol=1e-6)


def test_changed_names_do_not_clash_with_existing_ones() -> None:
    assert identifier("int") == "int_"
    assert identifier("λ") == "v"
    assert identifier("__x") == "x_"
    assert identifier("2x") == "v2x"
    assert identifier("y1") == "y1"
    assert identifier("y1", of_function=True) == "y1_"
    assert not any(map(reserved, ("i", "n", "blur", "total", "x2")))
    a, A = tensor("int", n)  # noqa: N806
    b, B = tensor("int_", n)  # noqa: N806
    of = nest("pair", [a, b], output(), ln.Assign(cell(output()), binary("sub", at(A, ZERO), at(B, ZERO))), sizes="n")
    assert "const float *restrict int_, const float *restrict int_2" in body_of(of)
    assert run(of, [np.array([3], np.float32), np.array([1], np.float32)], [1]).tolist() == [2]


def test_sibling_loops_share_a_name_and_nested_loops_do_not() -> None:
    again, out = Var(8, "i"), output(n, n)
    of = nest(
        *("twice", [], out),
        loop(vi, n, loop(again, n, ln.Assign(cell(out, i, index(again)), ln.Number(1, "float32")))),
        loop(Var(9, "i"), n),
        loop(Var(10, "i"), n, ln.Assign(cell(out, ZERO, index(Var(10, "i"))), ln.Number(2, "float32"))),
        sizes="n",
    )
    text = body_of(of)
    assert "for (int64_t i2 = 0; i2 < n; i2++)" in text
    assert text.count("for (int64_t i = 0; i < n; i++)") == 2  # the empty loop is gone


def test_functions_of_a_file_have_distinct_names() -> None:
    of = nest("f", [], output(), ln.Assign(cell(output()), ln.Number(1, "float32")))
    assert function_names((of, of, of)) == ("f", "f2", "f3")
    assert print_unit((of, of)).count("int f") == 2


EDGED = "⊞[i < n] [1 <= i] · x[i - 1] + part_part1[i]"


def in_parts(body: str, patch: pytest.MonkeyPatch, name: str = "part") -> atl.Program:
    """Parse a program whose C functions all exceed the length at which they are split."""
    patch.setattr("lowering.c.printer.MAX_LINES", 1)
    return atl.parse(f"{name} (x : float32[n], part_part1 : float32[n]) : float32[2 * n] :=\n  {body}")


def test_long_function_is_split_into_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part takes only the arguments that it uses, and its name is distinct from all others."""
    kernel = compiled(in_parts(f"({EDGED}) ∘ ⊞[i < n] x[i] * x[i]", monkeypatch))
    assert kernel.source.count("static __attribute__((noinline)) void part_part") == 2
    head = "void part_part1_(const float *restrict x, const float *restrict part_part1, int64_t n, float *restrict out)"
    assert head in " ".join(kernel.source.split())
    assert "\n    part_part2(x, n, out);\n    return 0;" in kernel.source
    for count in (0, 1, 7):
        x, y = (np.arange(count, dtype=np.float32) + start for start in (1, 5))
        shifted = np.concatenate([np.zeros(min(count, 1), np.float32), x[:-1]])
        np.testing.assert_array_equal(kernel(x, y), np.concatenate([shifted + y, x * x]))


def test_functions_of_a_file_have_distinct_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    both = [lower(in_parts(f"({EDGED}) ∘ ⊞[i < n] x[i]", monkeypatch, name)) for name in ("f", "f_part1")]
    text = print_unit(both)
    assert [text.count(f" {name}(") for name in ("f", "f_part1", "f_part1_", "f_part1_part1")] == [1, 1, 2, 2]


@pytest.mark.parametrize(
    "body",
    [
        "let t := ⊞[i < n] x[i] + x[i] in (⊞[i < n] t[n - 1 - i]) ∘ ⊞[i < n] t[i] * part_part1[i]",
        "⊞[i < 2 * n] [i < n] · x[i]",
    ],
    ids=["heap storage", "one loop"],
)
def test_function_with_heap_storage_or_one_loop_is_not_split(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "noinline" not in print_c(lower(in_parts(body, monkeypatch)))
