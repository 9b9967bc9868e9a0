/* s = A^T r and q = A p, in one pass over A */
void bicg(int64_t n, int64_t m, const double *restrict A, const double *restrict p,
          const double *restrict r, double *restrict s, double *restrict q)
{
    for (int64_t j = 0; j < m; j++) {
        s[j] = 0;
    }
    for (int64_t i = 0; i < n; i++) {
        q[i] = 0;
        for (int64_t j = 0; j < m; j++) {
            s[j] += r[i] * A[i * m + j];
            q[i] += A[i * m + j] * p[j];
        }
    }
}
