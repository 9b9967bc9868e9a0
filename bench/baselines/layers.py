"""Sources of the hand-written C baselines of layers, as in `bench.baselines.shapes`."""

from __future__ import annotations

from typing import Final

EXPONENTIAL: Final = """
#include <string.h>
static inline float power(float x)
{
    x = x < -87 ? -87 : x > 88 ? 88 : x;
    const float whole = __builtin_rintf(x * 1.44269504f);
    const float t = x - whole * 0.693145752f - whole * 1.42860677e-6f;
    float e = 1.3888889e-3f;
    e = e * t + 8.3333333e-3f;
    e = e * t + 4.1666667e-2f;
    e = e * t + 1.6666667e-1f;
    e = e * t + 0.5f;
    e = e * t + 1;
    e = e * t + 1;
    const int32_t bits = ((int32_t)whole + 127) << 23;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return e * scale;
}
"""
"""The exponential by a polynomial, without branches, so that loops over it are vectorised."""

DENSE_GELU: Final = (
    EXPONENTIAL
    + """
#include <stdlib.h>
enum { D = 512, H = 2048, ROWS = ROWS_OF(2), WIDE = 2 * LANES };
static void tile(const REAL *restrict x, const REAL *restrict panel, const REAL *restrict bias, int64_t high,
                 REAL *restrict out)
{
    V s[ROWS][2] = {0};
    for (int64_t p = 0; p < D; p++) {
        const V a = *(const V *)(panel + p * WIDE), b = *(const V *)(panel + p * WIDE + LANES);
        #pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++) { s[i][0] += x[i * D + p] * a; s[i][1] += x[i * D + p] * b; }
    }
    for (int64_t i = 0; i < high; i++)
        for (int64_t j = 0; j < WIDE; j++) {
            const REAL v = ((REAL *)s[i])[j] + bias[j], u = v + (REAL)0.044715 * v * v * v;
            out[i * H + j] = v / (1 + power((REAL)(-2 * 0.7978845608) * u));
        }
}
void dense_gelu(const REAL *restrict x, const REAL *restrict w, const REAL *restrict bias, REAL *restrict out,
                int64_t n)
{
    #pragma omp parallel for
    for (int64_t h = 0; h < H; h += WIDE) {
        REAL *panel = aligned_alloc(64, D * WIDE * sizeof *panel);
        for (int64_t p = 0; p < D; p++) memcpy(panel + p * WIDE, w + p * H + h, WIDE * sizeof *panel);
        int64_t i = 0;
        for (; i + ROWS <= n; i += ROWS) tile(x + i * D, panel, bias + h, ROWS, out + i * H + h);
        if (i < n) {
            REAL *rest = calloc(ROWS * D, sizeof *rest);
            memcpy(rest, x + i * D, (n - i) * D * sizeof *rest);
            tile(rest, panel, bias + h, n - i, out + i * H + h);
            free(rest);
        }
        free(panel);
    }
}
"""
)
"""Register tiles over packed panels. GELU is x / (1 + exp(-2u)), which is its form by tanh with one function less."""

ATTENTION: Final = (
    EXPONENTIAL
    + """
#include <stdlib.h>
enum { HEADS = 8, E = 64, ROWS = ROWS_OF(2), WIDE = 2 * LANES };
static void product(const REAL *restrict a, int64_t pitch, const REAL *restrict panel, int64_t between, int64_t depth,
                    const REAL *restrict scale, REAL *restrict to, int64_t to_pitch, int64_t high, int64_t wide)
{
    V s[ROWS][2] = {0};
    for (int64_t p = 0; p < depth; p++) {
        const V x = *(const V *)(panel + p * between), y = *(const V *)(panel + p * between + LANES);
        #pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++) { s[i][0] += a[i * pitch + p] * x; s[i][1] += a[i * pitch + p] * y; }
    }
    for (int64_t i = 0; i < high; i++)
        for (int64_t j = 0; j < wide; j++) to[i * to_pitch + j] = ((REAL *)s[i])[j] * scale[i];
}
void attention(const REAL *restrict q, const REAL *restrict k, const REAL *restrict v, REAL *restrict out, int64_t n)
{
    const int64_t padded = (n + WIDE - 1) / WIDE * WIDE;
    #pragma omp parallel for
    for (int64_t b = 0; b < HEADS; b++) {
        const REAL *query = q + b * n * E, *key = k + b * n * E, *values = v + b * n * E;
        REAL *turned = calloc(padded * E, sizeof *turned), *score = calloc(ROWS * padded, sizeof *score);
        REAL *rest = calloc(ROWS * E, sizeof *rest), scale[ROWS], share[ROWS];
        for (int64_t j = 0; j < n; j++)
            for (int64_t e = 0; e < E; e++) turned[(j / WIDE * E + e) * WIDE + j % WIDE] = key[j * E + e];
        for (int64_t io = 0; io < n; io += ROWS) {
            const int64_t high = io + ROWS <= n ? ROWS : n - io;
            const REAL *rows = query + io * E;
            if (high < ROWS) rows = memcpy(rest, rows, high * E * sizeof *rest);
            for (int64_t i = 0; i < ROWS; i++) scale[i] = (REAL)0.125;
            for (int64_t jo = 0; jo < n; jo += WIDE)
                product(rows, E, turned + jo * E, WIDE, E, scale, score + jo, padded, ROWS, WIDE);
            for (int64_t i = 0; i < high; i++) {
                REAL *restrict of = score + i * padded, top = of[0], total = 0;
                for (int64_t j = 1; j < n; j++) top = of[j] > top ? of[j] : top;
                for (int64_t j = 0; j < n; j++) of[j] = power(of[j] - top), total += of[j];
                share[i] = 1 / total;
            }
            for (int64_t f = 0; f < E; f += WIDE)
                product(score, padded, values + f, E, n, share, out + (b * n + io) * E + f, E, high, WIDE);
        }
        free(turned), free(score), free(rest);
    }
}
"""
)
"""Blocks of rows with their scores in a buffer, both products in register tiles, and the keys packed."""

DEPTHWISE: Final = """
enum { C = 64 };
static void pixel(const REAL *restrict v, const REAL *restrict w, REAL *restrict to, int64_t y, int64_t x, int64_t n)
{
    REAL sums[C] = {0};
    for (int64_t r = y > 0 ? 0 : 1; r < 3 && y + r <= n; r++)
        for (int64_t q = x > 0 ? 0 : 1; q < 3 && x + q <= n; q++) {
            const REAL *restrict from = v + ((y + r - 1) * n + x + q - 1) * C, *restrict by = w + (r * 3 + q) * C;
            for (int64_t c = 0; c < C; c++) sums[c] += from[c] * by[c];
        }
    for (int64_t c = 0; c < C; c++) to[c] = sums[c];
}
static void inside(const REAL *restrict a, const REAL *restrict b, const REAL *restrict d, const REAL *restrict w,
                   REAL *restrict to, int64_t n)
{
    for (int64_t c = 0; c < C; c += LANES) {
        V by[9];
        for (int i = 0; i < 9; i++) by[i] = *(const V *)(w + i * C + c);
        V a0 = *(const V *)(a + c), a1 = *(const V *)(a + C + c), b0 = *(const V *)(b + c);
        V b1 = *(const V *)(b + C + c), d0 = *(const V *)(d + c), d1 = *(const V *)(d + C + c);
        #pragma GCC unroll 3
        for (int64_t x = 1; x < n - 1; x++) {
            const int64_t next = (x + 1) * C + c;
            const V a2 = *(const V *)(a + next), b2 = *(const V *)(b + next), d2 = *(const V *)(d + next);
            *(V *)(to + x * C + c) = (a0 * by[0] + a1 * by[1] + a2 * by[2]) + (b0 * by[3] + b1 * by[4] + b2 * by[5])
                + (d0 * by[6] + d1 * by[7] + d2 * by[8]);
            a0 = a1, a1 = a2, b0 = b1, b1 = b2, d0 = d1, d1 = d2;
        }
    }
}
void depthwise(const REAL *restrict v, const REAL *restrict w, REAL *restrict out, int64_t n)
{
    #pragma omp parallel for
    for (int64_t y = 0; y < n; y++) {
        REAL *to = out + y * n * C;
        const REAL *b = v + y * n * C;
        const int whole = y > 0 && y + 1 < n;
        if (whole) inside(b - n * C, b, b + n * C, w, to, n);
        for (int64_t x = 0; x < n; x += whole && x == 0 && n > 1 ? n - 1 : 1) pixel(v, w, to + x * C, y, x, n);
    }
}
"""
"""A sliding window of 3 x 3 vectors of channels, with the filters in registers. The border is computed separately."""

MATRIX_VECTORS: Final = """
enum { B = 64 };
void applied(const REAL *restrict a, const REAL *restrict x, REAL *restrict out, int64_t n)
{
    #pragma omp parallel for
    for (int64_t b = 0; b < B; b++) {
        const REAL *restrict at = a + b * n * n, *restrict by = x + b * n;
        int64_t i = 0;
        for (; i + 4 <= n; i += 4) {
            REAL s0 = 0, s1 = 0, s2 = 0, s3 = 0;
            const REAL *r = at + i * n;
            for (int64_t j = 0; j < n; j++) {
                s0 += r[j] * by[j];
                s1 += r[n + j] * by[j];
                s2 += r[2 * n + j] * by[j];
                s3 += r[3 * n + j] * by[j];
            }
            REAL *to = out + b * n + i;
            to[0] = s0, to[1] = s1, to[2] = s2, to[3] = s3;
        }
        for (; i < n; i++) {
            REAL sum = 0;
            for (int64_t j = 0; j < n; j++) sum += at[i * n + j] * by[j];
            out[b * n + i] = sum;
        }
    }
}
"""
"""Four rows at a time, so that each element of a vector is read once for four rows."""

SPMM: Final = """
enum { WIDE = 32, VECTORS = WIDE / LANES };
void spmm(const int32_t *restrict pos, const int32_t *restrict crd, const REAL *restrict val, const REAL *restrict x,
          REAL *restrict out, int64_t n)
{
    #pragma omp parallel for
    for (int64_t i = 0; i < n; i++) {
        V sums[VECTORS] = {0};
        for (int64_t p = pos[i]; p < pos[i + 1]; p++) {
            const REAL *restrict at = x + (int64_t)crd[p] * WIDE;
            #pragma GCC unroll 8
            for (int64_t q = 0; q < VECTORS; q++) sums[q] += val[p] * *(const V *)(at + q * LANES);
        }
        for (int64_t q = 0; q < VECTORS; q++) *(V *)(out + i * WIDE + q * LANES) = sums[q];
    }
}
"""
"""A matrix in the format CSR times 32 columns, with a row of the result in registers."""
