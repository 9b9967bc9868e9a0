"""The limits of the machine, measured in the same run: copying, reading, and fused multiply-adds.

Each is one C function. The chains of multiply-adds are kept apart by an empty piece of assembly: equal ones are merged
by the compiler, which then counts one operation as ten.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from bench.contest import Array, Limit, Problem
from bench.rivals.c import VECTORS, built
from lowering import TimedFunction, find_compiler

CHAINS: Final = 12
ROUNDS: Final = 200_000
"""How often each chain takes a step in one run: about a millisecond."""

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
    apart = ", ".join(f'"+" R (a{k})' for k in chains)
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
    for (int64_t i = 0; i < n; i++) {{ {steps} __asm__ volatile("" : {apart}); }}
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


def limit_of(limit: Limit, problem: Problem, threads: int) -> tuple[TimedFunction, float]:
    """What runs at the limit, and by what its time is multiplied to be that of the problem's work."""
    match limit.kind:
        case "copy":
            return _over_memory("copied", limit.work(problem) / 2, threads), 1.0
        case "read":
            return _over_memory("added", limit.work(problem), threads), 1.0
        case "fma":
            return _peak(problem.out.dtype.name, limit.work(problem), threads)


def _over_memory(name: str, of_bytes: float, threads: int) -> TimedFunction:
    count = max(1, int(of_bytes) // 4)
    # With a call of memcpy it would be another loop than those that anybody writes.
    extra = ("-fno-tree-loop-distribute-patterns" if find_compiler().kind == "gcc" else "-fno-builtin",)
    function = built(MEMORY.replace("REAL", "float"), name, DECLARED.format(name=name), threads=threads, extra=extra)
    read: Array = np.ones(count, np.float32)
    written: Array = np.zeros(count if name == "copied" else 8, np.float32)
    return function(read, written, count)


def _peak(dtype: str, operations: float, threads: int) -> tuple[TimedFunction, float]:
    real = {"float32": "float", "float64": "double"}[dtype]
    source = (VECTORS + _peak_source()).replace("REAL", real)
    function = built(source, "peak", f"int64_t peak({real} *, int64_t, int64_t);", threads=threads)
    room: Array = np.zeros(64 * threads, dtype)
    run: Callable[[], object] = function(room, threads, ROUNDS)
    done = run()
    assert isinstance(done, int)
    return run, operations / done
