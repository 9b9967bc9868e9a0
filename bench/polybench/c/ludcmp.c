/* A x = b: the factors of A in place, then y of L y = b, then x of U x = y */
void ludcmp(int64_t n, double *restrict A, const double *restrict b, double *restrict y, double *restrict x)
{
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            const int64_t terms = j < i ? j : i;
            double rest = A[i * n + j];
            for (int64_t k = 0; k < terms; k++) {
                rest -= A[i * n + k] * A[k * n + j];
            }
            A[i * n + j] = j < i ? rest / A[j * n + j] : rest;
        }
    }
    for (int64_t i = 0; i < n; i++) {
        double rest = b[i];
        for (int64_t j = 0; j < i; j++) {
            rest -= A[i * n + j] * y[j];
        }
        y[i] = rest;
    }
    for (int64_t i = n - 1; i >= 0; i--) {
        double rest = y[i];
        for (int64_t j = i + 1; j < n; j++) {
            rest -= A[i * n + j] * x[j];
        }
        x[i] = rest / A[i * n + i];
    }
}
