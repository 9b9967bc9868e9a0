/* y = A^T (A x): each row of A is used for both products. */
void atax(int64_t m, int64_t n, const double *restrict A, const double *restrict x, double *restrict y)
{
    for (int64_t j = 0; j < n; j++) {
        y[j] = 0;
    }
    for (int64_t i = 0; i < m; i++) {
        double dot = 0;
        for (int64_t j = 0; j < n; j++) {
            dot += A[i * n + j] * x[j];
        }
        for (int64_t j = 0; j < n; j++) {
            y[j] += A[i * n + j] * dot;
        }
    }
}
