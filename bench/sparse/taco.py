"""C kernels in the form that the tensor algebra compiler (TACO) emits.

They have loops over levels from the outside in, 32-bit indices, and a scalar for a sum along the innermost loop. For
coordinates they search for the end of each segment. Extents of blocks and ranks are parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from lowering import TimedFunction, build_shared, find_compiler, load_shared

NATIVE: Final = ("-ffast-math", "-fno-wrapv")
"""Flags added to those of our kernels. Integer overflow is undefined, as in TACO's kernels."""
OF_GCC: Final = ("-fthread-jumps",)
"""An optimisation of gcc that our kernels disable. clang has no such flag."""
FLAGS: Final = {
    "TACO-shaped C": (*NATIVE, "-march=x86-64", "-mtune=generic"),
    "TACO-shaped C, -march=native": NATIVE,
}

INDEX, REAL, NUMBER = "const int32_t *restrict ", "const double *restrict ", "int32_t "

KERNELS: Final[dict[str, tuple[str, str]]] = {
    "CSR": (
        "pos crd val x n",
        """
    for (int32_t i = 0; i < n; i++) {
        double sum = 0.0;
        for (int32_t p = pos[i]; p < pos[i + 1]; p++) sum += val[p] * x[crd[p]];
        y[i] = sum;
    }""",
    ),
    "CSC": (
        "pos crd val x n",
        """
    memset(y, 0, n * sizeof *y);
    for (int32_t j = 0; j < n; j++) {
        double at_j = x[j];
        for (int32_t p = pos[j]; p < pos[j + 1]; p++) y[crd[p]] += val[p] * at_j;
    }""",
    ),
    "DCSR": (
        "crd1 pos crd val x nnz1 n",
        """
    memset(y, 0, n * sizeof *y);
    for (int32_t q = 0; q < nnz1; q++) {
        double sum = 0.0;
        for (int32_t p = pos[q]; p < pos[q + 1]; p++) sum += val[p] * x[crd[p]];
        y[crd1[q]] = sum;
    }""",
    ),
    "DCSC": (
        "crd1 pos crd val x nnz1 n",
        """
    memset(y, 0, n * sizeof *y);
    for (int32_t q = 0; q < nnz1; q++) {
        double at_j = x[crd1[q]];
        for (int32_t p = pos[q]; p < pos[q + 1]; p++) y[crd[p]] += val[p] * at_j;
    }""",
    ),
    "COO": (
        "crd0 crd1 val x nnz n",
        """
    memset(y, 0, n * sizeof *y);
    int32_t p = 0;
    while (p < nnz) {
        int32_t i = crd0[p], end = p + 1;
        while (end < nnz && crd0[end] == i) end++;
        double sum = 0.0;
        for (int32_t q = p; q < end; q++) sum += val[q] * x[crd1[q]];
        y[i] = sum;
        p = end;
    }""",
    ),
    "BCSR": (
        "pos crd val x blocks rows columns n",
        """
    memset(y, 0, n * sizeof *y);
    for (int32_t i = 0; i < blocks; i++) {
        for (int32_t p = pos[i]; p < pos[i + 1]; p++) {
            int32_t j = crd[p];
            for (int32_t k = 0; k < rows; k++) {
                int32_t row = i * rows + k, at = p * rows + k;
                double sum = 0.0;
                for (int32_t l = 0; l < columns; l++) sum += val[at * columns + l] * x[j * columns + l];
                y[row] += sum;
            }
        }
    }""",
    ),
    "SpMSpV": (
        "pos crd val crdx valx nnzx n",
        """
    for (int32_t i = 0; i < n; i++) {
        double sum = 0.0;
        int32_t p = pos[i], end = pos[i + 1], q = 0;
        while (p < end && q < nnzx) {
            int32_t at = crd[p], atx = crdx[q], j = at < atx ? at : atx;
            if (at == j && atx == j) sum += val[p] * valx[q];
            p += at == j;
            q += atx == j;
        }
        y[i] = sum;
    }""",
    ),
    "SpTSpV": (
        "crd1 pos2 crd2 pos3 crd3 val crdx valx nnzx nnz1 m n",
        """
    memset(y, 0, (int64_t)n * m * sizeof *y);
    for (int32_t p = 0; p < nnz1; p++) {
        int32_t i = crd1[p];
        for (int32_t q = pos2[p]; q < pos2[p + 1]; q++) {
            double sum = 0.0;
            int32_t r = pos3[q], end = pos3[q + 1], s = 0;
            while (r < end && s < nnzx) {
                int32_t at = crd3[r], atx = crdx[s], k = at < atx ? at : atx;
                if (at == k && atx == k) sum += val[r] * valx[s];
                r += at == k;
                s += atx == k;
            }
            y[i * m + crd2[q]] = sum;
        }
    }""",
    ),
    "TTV": (
        "crd1 pos2 crd2 pos3 crd3 val x nnz1 m n",
        """
    memset(y, 0, (int64_t)n * m * sizeof *y);
    for (int32_t p = 0; p < nnz1; p++) {
        int32_t i = crd1[p];
        for (int32_t q = pos2[p]; q < pos2[p + 1]; q++) {
            double sum = 0.0;
            for (int32_t r = pos3[q]; r < pos3[q + 1]; r++) sum += val[r] * x[crd3[r]];
            y[i * m + crd2[q]] = sum;
        }
    }""",
    ),
    "MTTKRP": (
        "crd1 pos2 crd2 pos3 crd3 val d c nnz1 rank n",
        """
    memset(y, 0, (int64_t)n * rank * sizeof *y);
    for (int32_t p = 0; p < nnz1; p++) {
        int32_t i = crd1[p];
        for (int32_t q = pos2[p]; q < pos2[p + 1]; q++) {
            int32_t k = crd2[q];
            for (int32_t r = pos3[q]; r < pos3[q + 1]; r++) {
                int32_t l = crd3[r];
                for (int32_t j = 0; j < rank; j++) {
                    y[i * rank + j] += val[r] * d[l * rank + j] * c[k * rank + j];
                }
            }
        }
    }""",
    ),
    "SDDMM": (
        "pos crd val u v n rank m",
        """
    for (int32_t i = 0; i < n; i++) {
        for (int32_t p = pos[i]; p < pos[i + 1]; p++) {
            int32_t j = crd[p];
            double sum = 0.0;
            for (int32_t k = 0; k < rank; k++) sum += u[i * rank + k] * v[j * rank + k];
            y[p] = val[p] * sum;
        }
    }""",
    ),
}
"""Parameters and body of each kernel. The result `y` follows the parameters."""


def shaped(kernel: str, flags: Sequence[str]) -> Callable[..., TimedFunction]:
    """Compile a kernel. The result binds arrays, numbers and the result, and returns a function that runs it."""
    words, body = KERNELS[kernel]
    declared = ", ".join(_kind(word) + word for word in words.split())
    head = f"void {kernel.lower()}({declared}, double *restrict y)"
    source = f"#include <stdint.h>\n#include <string.h>\n\n{head}\n{{{body}\n}}\n"
    gcc_flags = OF_GCC if find_compiler().kind == "gcc" else ()
    ffi, library = load_shared(
        build_shared(source, name=f"taco_{kernel.lower()}", extra_flags=(*flags, *gcc_flags)),
        head.replace("restrict ", "") + ";",
    )
    function = getattr(library, kernel.lower())

    def bound(*values: object) -> TimedFunction:
        kept = [
            ffi.from_buffer("int32_t[]" if value.dtype == np.int32 else "double[]", value)
            if isinstance(value, np.ndarray)
            else value
            for value in values
        ]

        def run(_library: Any = library) -> Any:  # keeps the library open
            return function(*kept)

        return run

    return bound


def _kind(word: str) -> str:
    real = word in ("val", "valx", "x", "d", "c", "u", "v")
    return INDEX if word[:3] in ("pos", "crd") else REAL if real else NUMBER
