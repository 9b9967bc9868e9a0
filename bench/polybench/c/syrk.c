/* the lower triangle of C = alpha A A^T + beta C */
void syrk(int64_t n, int64_t m, double alpha, double beta, double *restrict C, const double *restrict A)
{
    for (int64_t i = 0; i < n; i++) {
        double *restrict row = C + i * n;
        for (int64_t j = 0; j <= i; j++) {
            row[j] *= beta;
        }
        for (int64_t k = 0; k < m; k++) {
            for (int64_t j = 0; j <= i; j++) {
                row[j] += alpha * A[i * m + k] * A[j * m + k];
            }
        }
    }
}
