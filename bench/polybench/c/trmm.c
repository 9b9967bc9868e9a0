/* B = alpha L^T B: row i needs only rows that are not yet overwritten. */
void trmm(int64_t m, int64_t n, double alpha, const double *restrict A, double *restrict B)
{
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            for (int64_t k = i + 1; k < m; k++) {
                B[i * n + j] += A[k * m + i] * B[k * n + j];
            }
            B[i * n + j] *= alpha;
        }
    }
}
