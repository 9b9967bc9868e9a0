"""Assembled results computed by C code as one writes it by hand, and as the tensor algebra compiler (TACO) emits it.

The product by Gustavson's algorithm counts the entries of each row, then stores them in the order of their first term.
TACO's kernels compute in one pass, into arrays that they double, and sort each row of a product with `qsort`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np

from bench.sparse.matrices import Matrix
from bench.sparse.taco import NATIVE
from lowering import build_shared, load_shared

_MATRIX: Final = "const int32_t *restrict {0}_pos, const int32_t *restrict {0}_crd, const double *restrict {0}_val"
_TWO: Final = f"{_MATRIX.format('A')}, {_MATRIX.format('B')}"
_GROWN: Final = "int32_t *restrict pos, struct grown *result"

_GUSTAVSON: Final = """
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int count(TWO, int64_t n, int64_t m, int32_t *restrict pos)
{
    int32_t *restrict row_of = malloc((m + 1) * sizeof *row_of);
    if (row_of == NULL) return 1;
    memset(row_of, -1, m * sizeof *row_of);
    int32_t total = 0;
    pos[0] = 0;
    for (int64_t i = 0; i < n; i++) {
        for (int32_t p = A_pos[i]; p < A_pos[i + 1]; p++) {
            const int32_t k = A_crd[p];
            for (int32_t q = B_pos[k]; q < B_pos[k + 1]; q++) {
                const int32_t j = B_crd[q];
                if (row_of[j] != i) {
                    row_of[j] = i;
                    total++;
                }
            }
        }
        pos[i + 1] = total;
    }
    free(row_of);
    return 0;
}

int fill(TWO, int64_t n, int64_t m, const int32_t *restrict pos, int32_t *restrict crd, double *restrict val)
{
    int32_t *restrict entry = malloc((m + 1) * sizeof *entry);
    if (entry == NULL) return 1;
    memset(entry, -1, m * sizeof *entry);
    for (int64_t i = 0; i < n; i++) {
        const int32_t first = pos[i];
        int32_t end = first;
        for (int32_t p = A_pos[i]; p < A_pos[i + 1]; p++) {
            const int32_t k = A_crd[p];
            const double a = A_val[p];
            for (int32_t q = B_pos[k]; q < B_pos[k + 1]; q++) {
                const int32_t j = B_crd[q];
                if (entry[j] < first) {
                    entry[j] = end;
                    crd[end] = j;
                    val[end++] = a * B_val[q];
                } else {
                    val[entry[j]] += a * B_val[q];
                }
            }
        }
    }
    free(entry);
    return 0;
}
""".replace("TWO", _TWO)

_TACO: Final = """
#include <stdint.h>
#include <stdlib.h>

struct grown { int32_t *crd; double *val; int32_t count; };

void release(struct grown *result)
{
    free(result->crd);
    free(result->val);
}

static int by_column(const void *one, const void *other)
{
    const int32_t a = *(const int32_t *)one, b = *(const int32_t *)other;
    return (a > b) - (a < b);
}

#define BEGIN \\
    int32_t crd_size = 1048576, val_size = 1048576, end = 0; \\
    int32_t *restrict crd = malloc(crd_size * sizeof *crd); \\
    double *restrict val = malloc(val_size * sizeof *val); \\
    pos[0] = 0
#define GROW \\
    if (end >= val_size) { val = realloc(val, 2 * (size_t)val_size * sizeof *val); val_size *= 2; } \\
    if (end >= crd_size) { crd = realloc(crd, 2 * (size_t)crd_size * sizeof *crd); crd_size *= 2; }
#define END \\
    result->crd = crd; \\
    result->val = val; \\
    result->count = end

void product(TWO, int32_t n, int32_t m, GROWN)
{
    BEGIN;
    double *restrict sum = malloc(m * sizeof *sum);
    uint8_t *restrict is_set = calloc(m, 1);
    int32_t *restrict list = malloc(m * sizeof *list);
    for (int32_t i = 0; i < n; i++) {
        int32_t length = 0;
        for (int32_t p = A_pos[i]; p < A_pos[i + 1]; p++) {
            const int32_t k = A_crd[p];
            for (int32_t q = B_pos[k]; q < B_pos[k + 1]; q++) {
                const int32_t j = B_crd[q];
                if (!is_set[j]) {
                    sum[j] = A_val[p] * B_val[q];
                    list[length++] = j;
                    is_set[j] = 1;
                } else {
                    sum[j] += A_val[p] * B_val[q];
                }
            }
        }
        qsort(list, length, sizeof *list, by_column);
        for (int32_t r = 0; r < length; r++) {
            const int32_t j = list[r];
            GROW
            crd[end] = j;
            val[end++] = sum[j];
            is_set[j] = 0;
        }
        pos[i + 1] = end;
    }
    free(sum);
    free(is_set);
    free(list);
    END;
}

void sum(TWO, int32_t n, int32_t m, GROWN)
{
    BEGIN;
    for (int32_t i = 0; i < n; i++) {
        int32_t p = A_pos[i], q = B_pos[i];
        const int32_t p_end = A_pos[i + 1], q_end = B_pos[i + 1];
        while (p < p_end && q < q_end) {
            const int32_t a = A_crd[p], b = B_crd[q], j = a < b ? a : b;
            GROW
            crd[end] = j;
            if (a == j && b == j) val[end] = A_val[p] + B_val[q];
            else if (a == j) val[end] = A_val[p];
            else val[end] = B_val[q];
            end++;
            p += a == j;
            q += b == j;
        }
        while (p < p_end) {
            GROW
            crd[end] = A_crd[p];
            val[end++] = A_val[p++];
        }
        while (q < q_end) {
            GROW
            crd[end] = B_crd[q];
            val[end++] = B_val[q++];
        }
        pos[i + 1] = end;
    }
    (void)m;
    END;
}

void elementwise_product(TWO, int32_t n, int32_t m, GROWN)
{
    BEGIN;
    for (int32_t i = 0; i < n; i++) {
        int32_t p = A_pos[i], q = B_pos[i];
        const int32_t p_end = A_pos[i + 1], q_end = B_pos[i + 1];
        while (p < p_end && q < q_end) {
            const int32_t a = A_crd[p], b = B_crd[q], j = a < b ? a : b;
            if (a == j && b == j) {
                GROW
                crd[end] = j;
                val[end++] = A_val[p] * B_val[q];
            }
            p += a == j;
            q += b == j;
        }
        pos[i + 1] = end;
    }
    (void)m;
    END;
}
""".replace("TWO", _TWO).replace("GROWN", _GROWN)

_ARRAYS: Final = _TWO.replace("restrict ", "")
_OF_GUSTAVSON: Final = (
    f"int count({_ARRAYS}, int64_t n, int64_t m, int32_t *pos);"
    f"int fill({_ARRAYS}, int64_t n, int64_t m, const int32_t *pos, int32_t *crd, double *val);"
)
_OF_TACO: Final = (
    "struct grown { int32_t *crd; double *val; int32_t count; }; void release(struct grown *result);"
    + "".join(
        f"void {name}({_ARRAYS}, int32_t n, int32_t m, int32_t *pos, struct grown *result);"
        for name in ("product", "sum", "elementwise_product")
    )
)


@cache
def _library(source: str, declared: str, name: str, flags: tuple[str, ...]) -> tuple[Any, Any]:
    return load_shared(build_shared(source, name=name, extra_flags=flags), declared)


def _pointers(ffi: Any, *matrices: Matrix) -> list[Any]:
    kinds = (("indptr", "int32_t[]"), ("indices", "int32_t[]"), ("data", "double[]"))
    return [ffi.from_buffer(kind, getattr(matrix, name)) for matrix in matrices for name, kind in kinds]


@dataclass(frozen=True, slots=True)
class Result:
    """A csr matrix as arrays of NumPy, or as arrays of C that are released with this object."""

    shape: tuple[int, int]
    pos: Any
    crd: Any
    val: Any
    owner: Any = None

    def matrix(self) -> Matrix:
        """Return a copy as a csr matrix of scipy."""
        import scipy.sparse as sp

        count = int(self.pos[-1])
        crd = np.frombuffer(_buffer(self.crd, 4 * count), np.int32) if self.owner is not None else self.crd
        val = np.frombuffer(_buffer(self.val, 8 * count), np.float64) if self.owner is not None else self.val
        return sp.csr_array((val.copy(), crd.copy(), self.pos), shape=self.shape)


def _buffer(pointer: Any, size: int) -> Any:
    ffi, _ = _library(_TACO, _OF_TACO, "taco_assembled", NATIVE)
    return ffi.buffer(pointer, size)


def gustavson(a: Matrix, b: Matrix) -> Result:
    """Return the product of two csr matrices; the columns of its rows are in any order."""
    ffi, library = _library(_GUSTAVSON, _OF_GUSTAVSON, "gustavson", ())
    given, (rows, columns) = _pointers(ffi, a, b), (a.shape[0], b.shape[1])
    pos = np.empty(rows + 1, np.int32)
    bounds = ffi.from_buffer("int32_t[]", pos)
    if library.count(*given, rows, columns, bounds):
        raise MemoryError
    crd, val = np.empty(pos[-1], np.int32), np.empty(pos[-1])
    if library.fill(*given, rows, columns, bounds, ffi.from_buffer("int32_t[]", crd), ffi.from_buffer("double[]", val)):
        raise MemoryError
    return Result((rows, columns), pos, crd, val)


def taco(name: str) -> Callable[[Matrix, Matrix], Result]:
    """Return a function of two csr matrices with sorted rows, as TACO emits it."""

    def run(a: Matrix, b: Matrix) -> Result:
        ffi, library = _library(_TACO, _OF_TACO, "taco_assembled", NATIVE)
        pos, made = np.empty(a.shape[0] + 1, np.int32), ffi.gc(ffi.new("struct grown *"), library.release)
        function = getattr(library, name)
        function(*_pointers(ffi, a, b), a.shape[0], b.shape[1], ffi.from_buffer("int32_t[]", pos), made)
        return Result((a.shape[0], b.shape[1]), pos, made.crd, made.val, made)

    return run
