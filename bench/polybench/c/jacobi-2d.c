/* a mean of five neighbours, from A to B and back in each of T steps; borders are not written */
static void step(int64_t n, const double *restrict from, double *restrict to)
{
    for (int64_t i = 1; i < n - 1; i++) {
        for (int64_t j = 1; j < n - 1; j++) {
            const double *at = from + i * n + j;
            to[i * n + j] = 0.2 * (at[0] + at[-1] + at[1] + at[n] + at[-n]);
        }
    }
}

void jacobi_2d(int64_t T, int64_t n, double *restrict A, double *restrict B)
{
    for (int64_t t = 0; t < T; t++) {
        step(n, A, B);
        step(n, B, A);
    }
}
