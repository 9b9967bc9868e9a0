/* A = L L^T: L overwrites the lower triangle of A */
void cholesky(int64_t n, double *restrict A)
{
    for (int64_t i = 0; i < n; i++) {
        double *restrict row = A + i * n;
        for (int64_t j = 0; j < i; j++) {
            const double *restrict other = A + j * n;
            for (int64_t k = 0; k < j; k++) {
                row[j] -= row[k] * other[k];
            }
            row[j] /= other[j];
        }
        for (int64_t k = 0; k < i; k++) {
            row[i] -= row[k] * row[k];
        }
        row[i] = sqrt(row[i]);
    }
}
