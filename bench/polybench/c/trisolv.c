/* L x = b for a lower triangular L */
void trisolv(int64_t n, const double *restrict L, const double *restrict b, double *restrict x)
{
    for (int64_t i = 0; i < n; i++) {
        double rest = b[i];
        for (int64_t j = 0; j < i; j++) {
            rest -= L[i * n + j] * x[j];
        }
        x[i] = rest / L[i * n + i];
    }
}
