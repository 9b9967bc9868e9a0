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
