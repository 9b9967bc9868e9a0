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
