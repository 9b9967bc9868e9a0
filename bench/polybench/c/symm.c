/* C = alpha S B + beta C: each element of the lower triangle of S, in A, is used for both triangles. */
void symm(int64_t m, int64_t n, double alpha, double beta,
          double *restrict C, const double *restrict A, const double *restrict B)
{
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double below = 0;
            for (int64_t k = 0; k < i; k++) {
                C[k * n + j] += alpha * B[i * n + j] * A[i * m + k];
                below += B[k * n + j] * A[i * m + k];
            }
            C[i * n + j] = beta * C[i * n + j] + alpha * B[i * n + j] * A[i * m + i] + alpha * below;
        }
    }
}
