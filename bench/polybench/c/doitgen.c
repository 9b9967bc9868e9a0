/* A[r, q] = A[r, q] C, with a buffer for one row */
void doitgen(int64_t nr, int64_t nq, int64_t np, double *restrict A, const double *restrict C,
             double *restrict row)
{
    for (int64_t r = 0; r < nr; r++) {
        for (int64_t q = 0; q < nq; q++) {
            double *restrict old = A + (r * nq + q) * np;
            for (int64_t p = 0; p < np; p++) {
                row[p] = 0;
                for (int64_t s = 0; s < np; s++) {
                    row[p] += old[s] * C[s * np + p];
                }
            }
            for (int64_t p = 0; p < np; p++) {
                old[p] = row[p];
            }
        }
    }
}
