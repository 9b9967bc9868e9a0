"""Baselines in hand-written C, built by the same compiler and flags as our kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

import numpy as np

from bench.comparison import Problem
from lowering import TimedFunction, build_shared, load_shared
from lowering.c_compiler import Compiler

ARRAYS: Final = {"float32": "float[]", "float64": "double[]", "int32": "int32_t[]"}

VECTORS: Final = """#include <stdint.h>
#ifdef __AVX512F__
#define BYTES 64
#define REGISTERS 32
#elif defined __AVX__
#define BYTES 32
#define REGISTERS 16
#elif defined __aarch64__
#define BYTES 16
#define REGISTERS 32
#else
#define BYTES 16
#define REGISTERS 16
#endif
#if defined __FMA__ || defined __AVX512F__ || defined __aarch64__
#define PRODUCTS 0
#else
#define PRODUCTS 1
#endif
#define LANES (BYTES / (int64_t)sizeof(REAL))
#define FITTING(WIDTH) ((REGISTERS - PRODUCTS - 1 - (WIDTH)) / (WIDTH))
#define ROWS_OF(WIDTH) (FITTING(WIDTH) < 8 ? FITTING(WIDTH) : 8)
typedef REAL V __attribute__((vector_size(BYTES), aligned(sizeof(REAL))));
"""
"""C macros for the vectors of the target processor, and for register tiles.

ROWS_OF(WIDTH) is the number of rows of a register tile that is WIDTH vectors wide. The registers also hold a row of one
operand, an element of the other, and without fused multiply-adds a product. More than eight rows gain nothing.
"""


def built(
    source: str,
    name: str,
    declared: str,
    *,
    threads: int,
    extra: tuple[str, ...] = (),
    compiler: Compiler | None = None,
) -> Callable[..., Callable[[], Any]]:
    """Compile a C function. The result binds arrays and numbers, and returns a function that runs it on them.

    With one thread the loops are not parallel, so no OpenMP is needed, which some clang installations lack.
    """
    several = ("-fopenmp",) if threads > 1 else ()
    source = source if threads > 1 else source.replace("#pragma omp parallel for\n", "\n")
    path = build_shared(source, name=name, compiler=compiler, extra_flags=(*extra, *several), link_flags=several)
    ffi, library = load_shared(path, declared)
    function = getattr(library, name)

    def bound(*values: object) -> Callable[[], Any]:
        kept = [
            ffi.from_buffer(ARRAYS[value.dtype.name], value) if isinstance(value, np.ndarray) else value
            for value in values
        ]

        def run() -> Any:
            # Keep the library and the buffers alive: the function object does not.
            return function(*kept) if library else None

        return run

    return bound


def by_hand(name: str, source: str) -> Callable[[Problem, int], TimedFunction]:
    """Return a baseline that runs a C function of the inputs, the result and the size of a problem.

    REAL in the source is the type of the elements, and V a vector of LANES of them; tiles have ROWS_OF(WIDTH) rows.
    """

    def make(problem: Problem, threads: int) -> TimedFunction:
        real = {"float32": "float", "float64": "double"}[problem.out.dtype.name]
        parameters = ", ".join([f"const {real} *"] * len(problem.inputs))
        declared = f"void {name}({parameters}, {real} *, int64_t);"
        function = built((VECTORS + source).replace("REAL", real), name, declared, threads=threads)
        return function(*problem.inputs, problem.out, problem.size)

    return make


@cache
def stated(macros: Iterable[str]) -> frozenset[str]:
    """Return those of the macros that the compiler predefines with the flags of our kernels."""
    names = tuple(macros)
    bits = "".join(f"\n#ifdef {name}\n| INT64_C({1 << bit})\n#endif\n" for bit, name in enumerate(names))
    source = f"#include <stdint.h>\nint64_t stated(void) {{ return 0 {bits}; }}\n"
    found = built(source, "stated", "int64_t stated(void);", threads=1)()()
    return frozenset(name for bit, name in enumerate(names) if found >> bit & 1)


@cache
def rows_of(width: int) -> int:
    """Return the number of rows of a tile of `width` vectors, as in the C by hand."""
    source = VECTORS.replace("REAL", "float") + "int64_t rows(int64_t width) { return ROWS_OF(width); }\n"
    rows: int = built(source, "rows", "int64_t rows(int64_t);", threads=1)(width)()
    return rows
