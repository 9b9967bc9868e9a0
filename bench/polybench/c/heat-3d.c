/* heat in a cube, from A to B and back in each of T steps; borders are not written */
static void step(int64_t n, const double *restrict from, double *restrict to)
{
    for (int64_t i = 1; i < n - 1; i++) {
        for (int64_t j = 1; j < n - 1; j++) {
            for (int64_t k = 1; k < n - 1; k++) {
                const double *at = from + (i * n + j) * n + k;
                to[(i * n + j) * n + k] = 0.125 * (at[n * n] - 2 * at[0] + at[-n * n])
                    + 0.125 * (at[n] - 2 * at[0] + at[-n]) + 0.125 * (at[1] - 2 * at[0] + at[-1]) + at[0];
            }
        }
    }
}

void heat_3d(int64_t T, int64_t n, double *restrict A, double *restrict B)
{
    for (int64_t t = 0; t < T; t++) {
        step(n, A, B);
        step(n, B, A);
    }
}
