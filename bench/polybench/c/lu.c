/* A = L U in place, without pivots; L has ones on its diagonal */
void lu(int64_t n, double *restrict A)
{
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < i; j++) {
            for (int64_t k = 0; k < j; k++) {
                A[i * n + j] -= A[i * n + k] * A[k * n + j];
            }
            A[i * n + j] /= A[j * n + j];
        }
        for (int64_t j = i; j < n; j++) {
            for (int64_t k = 0; k < i; k++) {
                A[i * n + j] -= A[i * n + k] * A[k * n + j];
            }
        }
    }
}
