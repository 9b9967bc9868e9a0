"""Instructions of the BLAS (Lawson et al. 1979; Dongarra et al. 1988, 1990) and of the C library.

A matrix has its rows or its columns adjacent in memory, `ld` elements apart. The functions of the BLAS get this leading
dimension, and whether the matrix is transposed. Both follow from the strides.
"""

from __future__ import annotations

from typing import Final

from atl.core.dtypes import ELEMENTS
from atl.parsing.parse import parse
from lowering.instructions.instruction import OUT, Instruction
from lowering.instructions.libraries import BLAS

_LARGEST: Final = 2**31 - 1
"""Largest size and leading dimension, because most libraries have indices of 32 bits."""

_HEADER: Final = """\
/* Names and indices of the BLAS: those of NumPy's OpenBLAS, or the usual ones. */
#ifndef ATL_CBLAS
#ifdef ATL_OPENBLAS_OF_NUMPY
#define ATL_CBLAS(name) scipy_cblas_##name##64_
typedef int64_t blas_index;
#else
#define ATL_CBLAS(name) cblas_##name
typedef int blas_index;
#endif
enum { BLAS_ROWS = 101, BLAS_PLAIN = 111, BLAS_TRANSPOSED = 112 };
#endif
"""

_GEMM: Final = """\
#ifndef ATL_GEMM_{c}
#define ATL_GEMM_{c}
void ATL_CBLAS({c}gemm)(int, int, int, blas_index, blas_index, blas_index, {type}, const {type} *, blas_index,
    const {type} *, blas_index, {type}, {type} *, blas_index);
#endif
"""

_PRODUCT: Final = """\
/* out = a * b, or out += a * b, for matrices of n x k and k x m elements. */
static void {name}({type} *out, int64_t out0, int64_t out1, const {type} *a, int64_t a0, int64_t a1, const {type} *b,
    int64_t b0, int64_t b1, int64_t n, int64_t k, int64_t m, int add)
{{
    (void)out1;
    const int rows_of_a = a1 == 1 && a0 >= k, rows_of_b = b1 == 1 && b0 >= m;
    ATL_CBLAS({c}gemm)(BLAS_ROWS, rows_of_a ? BLAS_PLAIN : BLAS_TRANSPOSED, rows_of_b ? BLAS_PLAIN : BLAS_TRANSPOSED,
        (blas_index)n, (blas_index)m, (blas_index)k, 1, a, (blas_index)(rows_of_a ? a0 : a1), b,
        (blas_index)(rows_of_b ? b0 : b1), add, out, (blas_index)out0);
}}
"""

_BATCH: Final = """\
/* out[q] = a[q] * b[q], or out[q] += a[q] * b[q], for matrices of n x k and k x m elements. */
static void {name}({type} *out, int64_t out0, int64_t out1, int64_t out2, const {type} *a, int64_t a0, int64_t a1,
    int64_t a2, const {type} *b, int64_t b0, int64_t b1, int64_t b2, int64_t q, int64_t n, int64_t k, int64_t m,
    int add)
{{
    (void)out2;
    const int rows_of_a = a2 == 1 && a1 >= k, rows_of_b = b2 == 1 && b1 >= m;
    for (int64_t r = 0; r < q; r++)
        ATL_CBLAS({c}gemm)(BLAS_ROWS, rows_of_a ? BLAS_PLAIN : BLAS_TRANSPOSED,
            rows_of_b ? BLAS_PLAIN : BLAS_TRANSPOSED, (blas_index)n, (blas_index)m, (blas_index)k, 1, a + r * a0,
            (blas_index)(rows_of_a ? a1 : a2), b + r * b0, (blas_index)(rows_of_b ? b1 : b2), add, out + r * out0,
            (blas_index)out1);
}}
"""

_VECTOR: Final = """\
void ATL_CBLAS({c}gemv)(int, int, blas_index, blas_index, {type}, const {type} *, blas_index, const {type} *,
    blas_index, {type}, {type} *, blas_index);
/* out = a * x, or out += a * x, for a matrix of n x k elements. */
static void {name}({type} *out, int64_t out0, const {type} *a, int64_t a0, int64_t a1, const {type} *x, int64_t x0,
    int64_t n, int64_t k, int add)
{{
    if (a1 == 1 && a0 >= k)
        ATL_CBLAS({c}gemv)(BLAS_ROWS, BLAS_PLAIN, (blas_index)n, (blas_index)k, 1, a, (blas_index)a0, x, (blas_index)x0,
            add, out, (blas_index)out0);
    else
        ATL_CBLAS({c}gemv)(BLAS_ROWS, BLAS_TRANSPOSED, (blas_index)k, (blas_index)n, 1, a, (blas_index)a1, x,
            (blas_index)x0, add, out, (blas_index)out0);
}}
"""

_DOT: Final = """\
{type} ATL_CBLAS({c}dot)(blas_index, const {type} *, blas_index, const {type} *, blas_index);
/* *out = the sum of x[p] * y[p], or *out += that sum. */
static void {name}({type} *out, const {type} *x, int64_t x0, const {type} *y, int64_t y0, int64_t n, int add)
{{
    const {type} sum = ATL_CBLAS({c}dot)((blas_index)n, x, (blas_index)x0, y, (blas_index)y0);
    *out = add ? *out + sum : sum;
}}
"""


def _rows(name: str, rows: int, columns: int, height: str, width: str, *, transposed: bool = True) -> str:
    """Return the condition that the rows or the columns of a matrix are adjacent, along two of its dimensions."""
    row, column = f"{name}{rows}", f"{name}{columns}"
    adjacent = f"{column} = 1 ∧ {row} >= {width} ∧ {row} <= {_LARGEST}"
    return f"{adjacent} ∨ {row} = 1 ∧ {column} >= {height} ∧ {column} <= {_LARGEST}" if transposed else adjacent


def _step(name: str) -> str:
    return f"{name}0 >= 1 ∧ {name}0 <= {_LARGEST}"


def _given(*sizes: str) -> str:
    return "given " + " ∧ ".join(f"{size} <= {_LARGEST}" for size in sizes)


def _declared(c: str, dtype: str) -> tuple[Instruction, ...]:
    """Declare the functions for one element type, whose letter in the BLAS is `c`."""
    c_type = "float" if dtype == "float32" else "double"

    def made(name: str, program: str, text: str, strides: dict[str, str], faster: str) -> Instruction:
        return Instruction(
            name,
            parse(f"{name} {program}"),
            "c",
            _HEADER + text.format(c=c, type=c_type, name=name),
            strides=strides,
            result="either",
            faster=faster,
            libraries=(BLAS,),
        )

    return (
        made(
            f"{c}gemm",
            f"(a : {dtype}[n, k], b : {dtype}[k, m]) : {dtype}[n, m] {_given(*'nkm')} := "
            "⊞[i < n] ⊞[j < m] Σ[p < k] a[i, p] * b[p, j]",
            _GEMM + _PRODUCT,
            {"a": _rows("a", 0, 1, "n", "k"), "b": _rows("b", 0, 1, "k", "m"),
             OUT: _rows(OUT, 0, 1, "n", "m", transposed=False)},
            "n >= 8 ∧ m >= 8 ∧ n * k * m >= 4096",
        ),
        made(
            f"{c}gemm_batch",
            f"(a : {dtype}[q, n, k], b : {dtype}[q, k, m]) : {dtype}[q, n, m] {_given(*'nkm')} := "
            "⊞[r < q] ⊞[i < n] ⊞[j < m] Σ[p < k] a[r, i, p] * b[r, p, j]",
            _GEMM + _BATCH,
            {"a": _rows("a", 1, 2, "n", "k"), "b": _rows("b", 1, 2, "k", "m"),
             OUT: _rows(OUT, 1, 2, "n", "m", transposed=False)},
            "n >= 8 ∧ m >= 8 ∧ n * k * m >= 4096",
        ),
        made(
            f"{c}gemv",
            f"(a : {dtype}[n, k], x : {dtype}[k]) : {dtype}[n] {_given(*'nk')} := ⊞[i < n] Σ[p < k] a[i, p] * x[p]",
            _VECTOR,
            {"a": _rows("a", 0, 1, "n", "k"), "x": _step("x"), OUT: _step(OUT)},
            "n * k >= 4096",
        ),
        made(
            f"{c}dot",
            f"(x : {dtype}[n], y : {dtype}[n]) : {dtype} {_given('n')} := Σ[p < n] x[p] * y[p]",
            _DOT,
            {"x": _step("x"), "y": _step("y")},
            "n >= 512",
        ),
    )  # fmt: skip


def _copy(dtype: str) -> Instruction:
    name = f"memcpy_{dtype}"
    return Instruction(
        name,
        parse(f"{name} (a : {dtype}[n]) : {dtype}[n] := ⊞[i < n] a[i]"),
        "c",
        f"/* The copy of n elements. */\n"
        f"static void {name}(void *out, const void *a, int64_t n)\n"
        f"{{\n    memcpy(out, a, (size_t)n * {_BYTES[dtype]});\n}}\n",
        result="stored",
    )


_BYTES: Final = {"float32": 4, "float64": 8, "int8": 1, "uint8": 1, "int16": 2, "int32": 4, "int64": 8}
INSTRUCTIONS: Final = (
    *_declared("s", "float32"),
    *_declared("d", "float64"),
    *(_copy(dtype) for dtype in _BYTES if dtype in ELEMENTS),
)
