"""Sources of the hand-written C baselines, with REAL for the element type.

Each function takes the inputs, the result and the size. `bench.baselines.c.by_hand` compiles and calls it.
"""

from __future__ import annotations

from typing import Final

BLUR_FUSED: Final = """
void blur_fused(const REAL *restrict v, REAL *restrict out, int64_t n)
{
    #pragma omp parallel for
    for (int64_t y = 0; y < n; y++) {
        for (int64_t e = 0; e < n; e += n > 1 ? n - 1 : 1) {
            REAL sum = 0;
            for (int64_t a = y - 1; a <= y + 1; a++)
                for (int64_t b = e - 1; b <= e + 1; b++)
                    if (a >= 0 && a < n && b >= 0 && b < n) sum += v[a * n + b];
            out[y * n + e] = sum;
        }
        if (y == 0 || y == n - 1) {
            const int64_t other = y == 0 ? y + 1 : y - 1;
            for (int64_t x = 1; x < n - 1; x++) {
                REAL sum = v[y * n + x - 1] + v[y * n + x] + v[y * n + x + 1];
                if (other >= 0 && other < n)
                    sum += v[other * n + x - 1] + v[other * n + x] + v[other * n + x + 1];
                out[y * n + x] = sum;
            }
            continue;
        }
        const REAL *restrict a = v + (y - 1) * n, *restrict b = a + n, *restrict c = b + n;
        REAL *restrict to = out + y * n;
        for (int64_t x = 1; x < n - 1; x++)
            to[x] = (a[x - 1] + a[x] + a[x + 1]) + (b[x - 1] + b[x] + b[x + 1]) + (c[x - 1] + c[x] + c[x + 1]);
    }
}
"""
"""Nine reads per pixel, with separate loops for the border."""

BLUR_RING: Final = """
#include <stdlib.h>
static void sums(const REAL *restrict v, REAL *restrict to, int64_t n)
{
    to[0] = v[0] + (n > 1 ? v[1] : 0);
    for (int64_t x = 1; x < n - 1; x++) to[x] = v[x - 1] + v[x] + v[x + 1];
    if (n > 1) to[n - 1] = v[n - 2] + v[n - 1];
}
void blur_ring(const REAL *restrict v, REAL *restrict out, int64_t n)
{
    const int64_t strip = 64;
    #pragma omp parallel for
    for (int64_t first = 0; first < n; first += strip) {
        const int64_t end = first + strip < n ? first + strip : n;
        REAL *ring = calloc(3 * (size_t)n, sizeof *ring);
        if (first > 0) sums(v + (first - 1) * n, ring + (first - 1) % 3 * n, n);
        sums(v + first * n, ring + first % 3 * n, n);
        for (int64_t y = first; y < end; y++) {
            REAL *restrict next = ring + (y + 1) % 3 * n;
            if (y + 1 < n) sums(v + (y + 1) * n, next, n);
            else for (int64_t x = 0; x < n; x++) next[x] = 0;
            const REAL *restrict a = ring, *restrict b = ring + n, *restrict c = ring + 2 * n;
            REAL *restrict to = out + y * n;
            for (int64_t x = 0; x < n; x++) to[x] = a[x] + b[x] + c[x];
        }
        free(ring);
    }
}
"""
"""A sliding window: strips of rows, with the sums of three rows in a circular buffer."""

PRODUCT: Final = """
#include <stdlib.h>
enum { ROWS = ROWS_OF(2), WIDE = 2 * LANES, DEPTH = 512, BLOCK = 8 * ROWS };
static void tile(const REAL *restrict a, const REAL *restrict b, int64_t depth, REAL *restrict c)
{
    V s[ROWS][2];
    for (int i = 0; i < ROWS; i++) for (int q = 0; q < 2; q++) s[i][q] = *(V *)(c + i * WIDE + q * LANES);
    for (int64_t p = 0; p < depth; p++) {
        const V x = *(const V *)(b + p * WIDE), y = *(const V *)(b + p * WIDE + LANES);
        #pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++) { s[i][0] += a[p * ROWS + i] * x; s[i][1] += a[p * ROWS + i] * y; }
    }
    for (int i = 0; i < ROWS; i++) for (int q = 0; q < 2; q++) *(V *)(c + i * WIDE + q * LANES) = s[i][q];
}
static void block(const REAL *restrict a, const REAL *restrict bp, REAL *restrict out, int64_t n,
                  int64_t io, int64_t ps, int64_t po, REAL *restrict ap)
{
    for (int64_t ii = 0; ii < BLOCK; ii += ROWS)
        for (int64_t p = 0; p < ps; p++)
            for (int64_t i = 0; i < ROWS; i++)
                ap[ii * ps + p * ROWS + i] = io + ii + i < n ? a[(io + ii + i) * n + po + p] : 0;
    for (int64_t jo = 0; jo < n; jo += WIDE)
        for (int64_t ii = 0; ii < BLOCK && io + ii < n; ii += ROWS) {
            REAL c[ROWS * WIDE] = {0};
            const int64_t wide = jo + WIDE <= n ? WIDE : n - jo, high = io + ii + ROWS <= n ? ROWS : n - io - ii;
            REAL *to = out + (io + ii) * n + jo;
            if (po)
                for (int64_t i = 0; i < high; i++)
                    for (int64_t j = 0; j < wide; j++) c[i * WIDE + j] = to[i * n + j];
            tile(ap + ii * ps, bp + jo * ps, ps, c);
            for (int64_t i = 0; i < high; i++)
                for (int64_t j = 0; j < wide; j++) to[i * n + j] = c[i * WIDE + j];
        }
}
void product(const REAL *restrict a, const REAL *restrict b, REAL *restrict out, int64_t n)
{
    const int64_t panels = (n + WIDE - 1) / WIDE;
    REAL *bp = aligned_alloc(64, panels * WIDE * DEPTH * sizeof *bp);
    for (int64_t po = 0; po < n; po += DEPTH) {
        const int64_t ps = po + DEPTH <= n ? DEPTH : n - po;
        #pragma omp parallel for
        for (int64_t jo = 0; jo < n; jo += WIDE)
            for (int64_t p = 0; p < ps; p++)
                for (int64_t j = 0; j < WIDE; j++)
                    bp[jo * ps + p * WIDE + j] = jo + j < n ? b[(po + p) * n + jo + j] : 0;
        #pragma omp parallel for
        for (int64_t io = 0; io < n; io += BLOCK) {
            REAL ap[BLOCK * DEPTH];
            block(a, bp, out, n, io, ps, po, ap);
        }
    }
    free(bp);
}
"""
"""Both operands packed into panels; register tiles two vectors wide."""

CONVOLUTION: Final = """
#include <stdlib.h>
#include <string.h>
enum { B = 4, K = 64, C = 64, R = 5, WIDTH = 3, ROWS = ROWS_OF(WIDTH), WIDE = WIDTH * LANES };
void convolution(const REAL *restrict x, const REAL *restrict w, REAL *restrict out, int64_t n)
{
    REAL *wp = malloc(sizeof *wp * (K + ROWS) * C * R);
    for (int64_t ko = 0; ko < K; ko += ROWS)
        for (int64_t q = 0; q < C * R; q++)
            for (int64_t k = 0; k < ROWS; k++)
                wp[(ko * C * R) + q * ROWS + k] = ko + k < K ? w[(ko + k) * C * R + q] : 0;
    #pragma omp parallel for
    for (int64_t b = 0; b < B; b++) {
        REAL (*part)[WIDE + R - 1] = malloc(sizeof *part * C);
        for (int64_t p = 0; p < n; p += WIDE) {
            const int64_t wide = p + WIDE <= n ? WIDE : n - p;
            for (int64_t c = 0; c < C; c++)
                for (int64_t q = 0; q < WIDE + R - 1; q++) part[c][q] = p + q < n ? x[(b * C + c) * n + p + q] : 0;
            for (int64_t ko = 0; ko < K; ko += ROWS) {
                V s[ROWS][WIDTH] = {0};
                const REAL *restrict at = wp + ko * C * R;
                for (int64_t c = 0; c < C; c++)
                    for (int64_t r = 0; r < R; r++, at += ROWS) {
                        const V *from = (const V *)(part[c] + r);
                        #pragma GCC unroll 8
                        for (int k = 0; k < ROWS; k++) {
                            #pragma GCC unroll 3
                            for (int q = 0; q < WIDTH; q++) s[k][q] += at[k] * from[q];
                        }
                    }
                for (int64_t k = 0; k < ROWS && ko + k < K; k++)
                    memcpy(out + (b * K + ko + k) * n + p, s[k], wide * sizeof(REAL));
            }
        }
        free(part);
    }
    free(wp);
}
"""
"""Gather: register tiles of channels and three vectors of positions, over packed weights and a padded input."""

TRANSPOSE: Final = """
void transposed(const REAL *restrict x, REAL *restrict out, int64_t n)
{
    enum { T = 16 };
    #pragma omp parallel for
    for (int64_t jo = 0; jo < n; jo += T)
        for (int64_t io = 0; io < n; io += T) {
            const int64_t je = jo + T <= n ? jo + T : n, ie = io + T <= n ? io + T : n;
            for (int64_t j = jo; j < je; j++)
                for (int64_t i = io; i < ie; i++) out[j * n + i] = x[i * n + j];
        }
}
"""
"""Tiles of 16 x 16."""

ADDITION: Final = """
void added(const REAL *restrict a, const REAL *restrict b, REAL *restrict out, int64_t n)
{
    #pragma omp parallel for
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) out[i * n + j] = a[i * n + j] + b[i * n + j];
}
"""

MATRIX_VECTOR: Final = """
void applied(const REAL *restrict a, const REAL *restrict x, REAL *restrict out, int64_t n)
{
    #pragma omp parallel for
    for (int64_t i = 0; i < n - n % 4; i += 4) {
        REAL s0 = 0, s1 = 0, s2 = 0, s3 = 0;
        const REAL *r = a + i * n;
        for (int64_t j = 0; j < n; j++) {
            s0 += r[j] * x[j];
            s1 += r[n + j] * x[j];
            s2 += r[2 * n + j] * x[j];
            s3 += r[3 * n + j] * x[j];
        }
        out[i] = s0, out[i + 1] = s1, out[i + 2] = s2, out[i + 3] = s3;
    }
    for (int64_t i = n - n % 4; i < n; i++) {
        REAL sum = 0;
        for (int64_t j = 0; j < n; j++) sum += a[i * n + j] * x[j];
        out[i] = sum;
    }
}
"""
"""Four rows at a time, so that each element of the vector is read once for four rows."""

STENCIL: Final = """
void stencil(const REAL *restrict v, REAL *restrict out, int64_t n)
{
    #pragma omp parallel for
    for (int64_t x = 0; x < n; x++)
        for (int64_t y = 0; y < n; y++) {
            const REAL *at = v + (x * n + y) * n;
            REAL *restrict to = out + (x * n + y) * n;
            if (x == 0 || x == n - 1 || y == 0 || y == n - 1) {
                for (int64_t z = 0; z < n; z++)
                    to[z] = (REAL)0.4 * at[z] + (REAL)0.1 * ((x > 0 ? at[z - n * n] : 0)
                        + (x < n - 1 ? at[z + n * n] : 0) + (y > 0 ? at[z - n] : 0) + (y < n - 1 ? at[z + n] : 0)
                        + (z > 0 ? at[z - 1] : 0) + (z < n - 1 ? at[z + 1] : 0));
                continue;
            }
            for (int64_t z = 1; z < n - 1; z++)
                to[z] = (REAL)0.4 * at[z] + (REAL)0.1 * (at[z - n * n] + at[z + n * n] + at[z - n] + at[z + n]
                    + at[z - 1] + at[z + 1]);
            to[0] = (REAL)0.4 * at[0] + (REAL)0.1 * (at[-n * n] + at[n * n] + at[-n] + at[n] + at[1]);
            to[n - 1] = (REAL)0.4 * at[n - 1] + (REAL)0.1 * (at[n - 1 - n * n] + at[n - 1 + n * n] + at[-1]
                + at[2 * n - 1] + at[n - 2]);
        }
}
"""
"""Plain loops, with separate loops for the border."""

FILTERS: Final = """
#include <stdlib.h>
enum { K = 64, C = 64, R = 3, WIDTH = 2, ROWS = ROWS_OF(WIDTH), WIDE = WIDTH * LANES };
void filters(const REAL *restrict x, const REAL *restrict w, REAL *restrict out, int64_t n)
{
    const int64_t pitch = n + R - 1, around = (n + WIDE - 1) / WIDE * WIDE + R - 1;
    REAL *wp = calloc((K + ROWS) * C * R * R, sizeof *wp), *xp = calloc(C * pitch * around, sizeof *xp);
    for (int64_t k = 0; k < K; k++)
        for (int64_t q = 0; q < C * R * R; q++)
            wp[(k - k % ROWS) * C * R * R + q * ROWS + k % ROWS] = w[k * C * R * R + q];
    #pragma omp parallel for
    for (int64_t row = 0; row < C * pitch; row++)
        for (int64_t p = 0; p < pitch; p++) xp[row * around + p] = x[row * pitch + p];
    #pragma omp parallel for
    for (int64_t y = 0; y < n; y++)
        for (int64_t p = 0; p < n; p += WIDE)
            for (int64_t ko = 0; ko < K; ko += ROWS) {
                V s[ROWS][WIDTH] = {0};
                const REAL *restrict at = wp + ko * C * R * R;
                for (int64_t c = 0; c < C; c++)
                    for (int64_t r = 0; r < R; r++)
                        #pragma GCC unroll 3
                        for (int64_t q = 0; q < R; q++, at += ROWS) {
                            const V *from = (const V *)(xp + (c * pitch + y + r) * around + p + q);
                            #pragma GCC unroll 8
                            for (int k = 0; k < ROWS; k++) {
                                #pragma GCC unroll 3
                                for (int v = 0; v < WIDTH; v++) s[k][v] += at[k] * from[v];
                            }
                        }
                const int64_t wide = p + WIDE <= n ? WIDE : n - p;
                for (int64_t k = 0; k < ROWS && ko + k < K; k++)
                    for (int64_t j = 0; j < wide; j++) out[((ko + k) * n + y) * n + p + j] = ((REAL *)s[k])[j];
            }
    free(xp);
    free(wp);
}
"""
"""Register tiles of channels and two vectors of columns, over packed weights and zero-padded rows."""

LAYER_NORM: Final = """
#include <math.h>
void layer_norm(const REAL *restrict x, REAL *restrict out, int64_t n)
{
    enum { M = 1000 };
    #pragma omp parallel for
    for (int64_t i = 0; i < n; i++) {
        const REAL *restrict at = x + i * M;
        REAL sum = 0, squares = 0;
        for (int64_t j = 0; j < M; j++) sum += at[j];
        const REAL mean = sum / M;
        for (int64_t j = 0; j < M; j++) squares += (at[j] - mean) * (at[j] - mean);
        const REAL factor = 1 / sqrt(squares / M + (REAL)1e-5);
        for (int64_t j = 0; j < M; j++) out[i * M + j] = (at[j] - mean) * factor;
    }
}
"""
"""Three passes over each row; the last multiplies by the inverse deviation."""
