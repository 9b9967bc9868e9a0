"""Sources of the hand-written C baselines of images, as in `bench.baselines.shapes`."""

from __future__ import annotations

from typing import Final

UNSHARP: Final = """
#include <stdlib.h>
static void down(const REAL *restrict a, const REAL *restrict b, const REAL *restrict c, const REAL *restrict d,
                 const REAL *restrict e, REAL *restrict to, int64_t n)
{
    for (int64_t x = 0; x < n; x++)
        to[x] = (REAL)0.0625 * (a[x] + e[x]) + (REAL)0.25 * (b[x] + d[x]) + (REAL)0.375 * c[x];
}
static void across(const REAL *restrict s, const REAL *restrict c, REAL *restrict to, int64_t n)
{
    for (int64_t x = 0; x < n; x++)
        to[x] = (REAL)2.5 * c[x] - (REAL)1.5 * ((REAL)0.0625 * (s[x] + s[x + 4])
            + (REAL)0.25 * (s[x + 1] + s[x + 3]) + (REAL)0.375 * s[x + 2]);
}
void unsharp(const REAL *restrict v, REAL *restrict out, int64_t n)
{
    #pragma omp parallel for
    for (int64_t first = 0; first < n; first += 32) {
        REAL *sum = malloc((n + 4) * sizeof *sum);
        const int64_t end = first + 32 < n ? first + 32 : n, last = n - 1;
        for (int64_t y = first; y < end; y++) {
            down(v + (y > 1 ? y - 2 : 0) * n, v + (y > 0 ? y - 1 : 0) * n, v + y * n,
                 v + (y < last ? y + 1 : last) * n, v + (y + 1 < last ? y + 2 : last) * n, sum + 2, n);
            sum[0] = sum[1] = sum[2];
            sum[n + 2] = sum[n + 3] = sum[n + 1];
            across(sum, v + y * n, out + y * n, n);
        }
        free(sum);
    }
}
"""
"""Fused: the columns of a row are filtered to a buffer in the first-level cache, then its elements."""
