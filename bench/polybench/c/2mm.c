/* D = alpha A B C + beta D */
void two_products(int64_t ni, int64_t nj, int64_t nk, int64_t nl, double alpha, double beta,
                  const double *restrict A, const double *restrict B, const double *restrict C,
                  double *restrict D, double *restrict AB)
{
    for (int64_t i = 0; i < ni; i++) {
        for (int64_t j = 0; j < nj; j++) {
            AB[i * nj + j] = 0;
            for (int64_t k = 0; k < nk; k++) {
                AB[i * nj + j] += alpha * A[i * nk + k] * B[k * nj + j];
            }
        }
    }
    for (int64_t i = 0; i < ni; i++) {
        for (int64_t j = 0; j < nl; j++) {
            D[i * nl + j] *= beta;
            for (int64_t k = 0; k < nj; k++) {
                D[i * nl + j] += AB[i * nj + k] * C[k * nl + j];
            }
        }
    }
}
