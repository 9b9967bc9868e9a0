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

HARRIS: Final = """
#include <stdlib.h>
static void gradients(const REAL *restrict a, const REAL *restrict b, const REAL *restrict c, REAL *restrict gx,
                      REAL *restrict gy, int64_t n)
{
    for (int64_t x = 1; x < n - 1; x++) {
        gx[x + 1] = (a[x + 1] + 2 * b[x + 1] + c[x + 1]) - (a[x - 1] + 2 * b[x - 1] + c[x - 1]);
        gy[x + 1] = (c[x - 1] + 2 * c[x] + c[x + 1]) - (a[x - 1] + 2 * a[x] + a[x + 1]);
    }
    for (int64_t at = -1; at <= n; at += at == 0 && n > 1 ? n - 1 : 1) {
        const int64_t x = at < 0 ? 0 : at < n ? at : n - 1, l = at > 1 ? at - 1 : 0, r = at + 1 < n ? at + 1 : n - 1;
        gx[at + 1] = (a[r] + 2 * b[r] + c[r]) - (a[l] + 2 * b[l] + c[l]);
        gy[at + 1] = (c[l] + 2 * c[x] + c[r]) - (a[l] + 2 * a[x] + a[r]);
    }
}
static void columns(const REAL *restrict px, const REAL *restrict qx, const REAL *restrict rx,
                    const REAL *restrict py, const REAL *restrict qy, const REAL *restrict ry,
                    REAL *restrict xx, REAL *restrict xy, REAL *restrict yy, int64_t n)
{
    for (int64_t x = 0; x < n + 2; x++) {
        xx[x] = px[x] * px[x] + qx[x] * qx[x] + rx[x] * rx[x];
        xy[x] = px[x] * py[x] + qx[x] * qy[x] + rx[x] * ry[x];
        yy[x] = py[x] * py[x] + qy[x] * qy[x] + ry[x] * ry[x];
    }
}
static void measure(const REAL *restrict xx, const REAL *restrict xy, const REAL *restrict yy, REAL *restrict to,
                    int64_t n)
{
    for (int64_t x = 0; x < n; x++) {
        const REAL a = xx[x] + xx[x + 1] + xx[x + 2], b = xy[x] + xy[x + 1] + xy[x + 2];
        const REAL c = yy[x] + yy[x + 1] + yy[x + 2];
        to[x] = a * c - b * b - (REAL)0.04 * (a + c) * (a + c);
    }
}
static void row(const REAL *restrict v, REAL *restrict ring, int64_t y, int64_t n)
{
    const int64_t last = n - 1, wide = n + 2, at = y < 0 ? 0 : y < n ? y : last;
    gradients(v + (y > 1 ? y - 1 : 0) * n, v + at * n, v + (y + 1 < n ? y + 1 : last) * n,
              ring + (y + 3) % 3 * wide, ring + (3 + (y + 3) % 3) * wide, n);
}
void harris(const REAL *restrict v, REAL *restrict out, int64_t n)
{
    const int64_t strip = 64, wide = n + 2;
    #pragma omp parallel for
    for (int64_t first = 0; first < n; first += strip) {
        const int64_t end = first + strip < n ? first + strip : n;
        REAL *ring = malloc(9 * wide * sizeof *ring), *sums = ring + 6 * wide;
        row(v, ring, first - 1, n);
        row(v, ring, first, n);
        for (int64_t y = first; y < end; y++) {
            row(v, ring, y + 1, n);
            const REAL *p = ring + (y + 2) % 3 * wide, *q = ring + y % 3 * wide, *r = ring + (y + 1) % 3 * wide;
            columns(p, q, r, p + 3 * wide, q + 3 * wide, r + 3 * wide, sums, sums + wide, sums + 2 * wide, n);
            measure(sums, sums + wide, sums + 2 * wide, out + y * n, n);
        }
        free(ring);
    }
}
"""
"""Strips of rows: three rows of both gradients in circular buffers, and the sums of their products by columns."""
