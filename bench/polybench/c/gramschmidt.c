/* A = Q R by the modified Gram-Schmidt method, which overwrites A */
void gramschmidt(int64_t m, int64_t n, double *restrict A, double *restrict R, double *restrict Q)
{
    for (int64_t k = 0; k < n; k++) {
        double square = 0;
        for (int64_t i = 0; i < m; i++) {
            square += A[i * n + k] * A[i * n + k];
        }
        R[k * n + k] = sqrt(square);
        for (int64_t i = 0; i < m; i++) {
            Q[i * n + k] = A[i * n + k] / R[k * n + k];
        }
        for (int64_t j = k + 1; j < n; j++) {
            double dot = 0;
            for (int64_t i = 0; i < m; i++) {
                dot += Q[i * n + k] * A[i * n + j];
            }
            R[k * n + j] = dot;
            for (int64_t i = 0; i < m; i++) {
                A[i * n + j] -= Q[i * n + k] * dot;
            }
        }
    }
}
