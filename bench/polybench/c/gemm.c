/* C = alpha A B + beta C */
void gemm(int64_t ni, int64_t nj, int64_t nk, double alpha, double beta,
          double *restrict C, const double *restrict A, const double *restrict B)
{
    for (int64_t i = 0; i < ni; i++) {
        double *restrict row = C + i * nj;
        for (int64_t j = 0; j < nj; j++) {
            row[j] *= beta;
        }
        for (int64_t k = 0; k < nk; k++) {
            for (int64_t j = 0; j < nj; j++) {
                row[j] += alpha * A[i * nk + k] * B[k * nj + j];
            }
        }
    }
}
