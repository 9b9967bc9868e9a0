/* the lower triangle of C = alpha (A B^T + B A^T) + beta C */
void syr2k(int64_t n, int64_t m, double alpha, double beta,
           double *restrict C, const double *restrict A, const double *restrict B)
{
    for (int64_t i = 0; i < n; i++) {
        double *restrict row = C + i * n;
        for (int64_t j = 0; j <= i; j++) {
            row[j] *= beta;
        }
        for (int64_t k = 0; k < m; k++) {
            for (int64_t j = 0; j <= i; j++) {
                row[j] += A[j * m + k] * alpha * B[i * m + k] + B[j * m + k] * alpha * A[i * m + k];
            }
        }
    }
}
