"""Roofline of the machine, measured in the same run: copying, reading, and fused multiply-adds.

Each is one C function. An empty assembly statement separates the chains of multiply-adds. Otherwise the compiler would
merge equal chains, and one operation would be counted ten times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from bench.baselines.c import VECTORS, built
from bench.comparison import Array, Problem, Roofline
from lowering import TimedFunction, find_compiler

CHAINS: Final = 12
ROUNDS: Final = 200_000
"""Steps of each chain in one run, which takes about a millisecond."""

MEMORY: Final = (
    VECTORS
    + """
void copied(const float *restrict from, float *restrict to, int64_t n)
{
    #pragma omp parallel for
    for (int64_t i = 0; i < n; i++) to[i] = from[i];
}
void added(const float *restrict from, float *restrict to, int64_t n)
{
    const int64_t block = 4 * BYTES / sizeof(float);
    #pragma omp parallel for
    for (int64_t part = 0; part < 8; part++) {
        const int64_t end = (part + 1) * (n / 8);
        V a = {0}, b = {0}, c = {0}, d = {0};
        for (int64_t i = part * (n / 8); i + block <= end; i += block) {
            const V *at = (const V *)(from + i);
            a += at[0], b += at[1], c += at[2], d += at[3];
        }
        V all = a + b + c + d;
        to[part] = all[0] + all[1];
    }
}
"""
)
DECLARED: Final = "void {name}(const float *, float *, int64_t);"


def _peak_source() -> str:
    chains = range(CHAINS)
    starts = "".join(f"V a{k} = x + {k + 1};" for k in chains)
    steps = "".join(f"a{k} = a{k} * x + y;" for k in chains)
    operands = ", ".join(f'"+" R (a{k})' for k in chains)
    total = " + ".join(f"a{k}" for k in chains)
    return f"""
#ifdef __x86_64__
#define R "v"
#elif defined __aarch64__
#define R "w"
#endif
static void chain(REAL *restrict to, int64_t n)
{{
    V x = {{0}}, y = x + (REAL)1e-6;
    x += (REAL)0.999;
    {starts}
    for (int64_t i = 0; i < n; i++) {{ {steps} __asm__ volatile("" : {operands}); }}
    V all = {total};
    for (int k = 0; k < (int)(BYTES / sizeof(REAL)); k++) to[k] = all[k];
}}
int64_t peak(REAL *restrict to, int64_t threads, int64_t n)
{{
    #pragma omp parallel for
    for (int64_t t = 0; t < threads; t++) chain(to + 64 * t, n);
    return threads * n * {2 * CHAINS} * (int64_t)(BYTES / sizeof(REAL));
}}
"""


def roofline_of(roofline: Roofline, problem: Problem, threads: int) -> tuple[TimedFunction, float]:
    """Return a function that runs at the roofline, and the factor from its time to that of the problem's work."""
    match roofline.kind:
        case "copy":
            return _over_memory("copied", roofline.work(problem) / 2, threads), 1.0
        case "read":
            return _over_memory("added", roofline.work(problem), threads), 1.0
        case "fma":
            return _peak(problem.out.dtype.name, roofline.work(problem), threads)


def _over_memory(name: str, of_bytes: float, threads: int) -> TimedFunction:
    count = max(1, int(of_bytes) // 4)
    # Without memcpy, so that it is a loop like those that it is compared with.
    extra = ("-fno-tree-loop-distribute-patterns" if find_compiler().kind == "gcc" else "-fno-builtin",)
    function = built(MEMORY.replace("REAL", "float"), name, DECLARED.format(name=name), threads=threads, extra=extra)
    read: Array = np.ones(count, np.float32)
    written: Array = np.zeros(count if name == "copied" else 8, np.float32)
    return function(read, written, count)


def _peak(dtype: str, operations: float, threads: int) -> tuple[TimedFunction, float]:
    real = {"float32": "float", "float64": "double"}[dtype]
    source = (VECTORS + _peak_source()).replace("REAL", real)
    function = built(source, "peak", f"int64_t peak({real} *, int64_t, int64_t);", threads=threads)
    sums: Array = np.zeros(64 * threads, dtype)
    run: Callable[[], object] = function(sums, threads, ROUNDS)
    done = run()
    assert isinstance(done, int)
    return run, operations / done
