/* A += u1 v1^T + u2 v2^T, x = beta A^T y + z, w = alpha A x */
void gemver(int64_t n, double alpha, double beta, double *restrict A,
            const double *restrict u1, const double *restrict v1,
            const double *restrict u2, const double *restrict v2,
            const double *restrict y, const double *restrict z,
            double *restrict x, double *restrict w)
{
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            A[i * n + j] += u1[i] * v1[j] + u2[i] * v2[j];
        }
    }
    for (int64_t i = 0; i < n; i++) {
        x[i] = 0;
        for (int64_t j = 0; j < n; j++) {
            x[i] += beta * A[j * n + i] * y[j];
        }
    }
    for (int64_t i = 0; i < n; i++) {
        x[i] += z[i];
    }
    for (int64_t i = 0; i < n; i++) {
        w[i] = 0;
        for (int64_t j = 0; j < n; j++) {
            w[i] += alpha * A[i * n + j] * x[j];
        }
    }
}
