/* y = alpha A x + beta B x */
void gesummv(int64_t n, double alpha, double beta, const double *restrict A,
             const double *restrict B, const double *restrict x, double *restrict y)
{
    for (int64_t i = 0; i < n; i++) {
        double first = 0, second = 0;
        for (int64_t j = 0; j < n; j++) {
            first += A[i * n + j] * x[j];
            second += B[i * n + j] * x[j];
        }
        y[i] = alpha * first + beta * second;
    }
}
