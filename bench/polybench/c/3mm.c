/* G = (A B) (C D) */
static void product(int64_t n, int64_t m, int64_t l, const double *restrict X, const double *restrict Y,
                    double *restrict XY)
{
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < l; j++) {
            XY[i * l + j] = 0;
            for (int64_t k = 0; k < m; k++) {
                XY[i * l + j] += X[i * m + k] * Y[k * l + j];
            }
        }
    }
}

void three_products(int64_t ni, int64_t nj, int64_t nk, int64_t nl, int64_t nm,
                    const double *restrict A, const double *restrict B, const double *restrict C,
                    const double *restrict D, double *restrict E, double *restrict F, double *restrict G)
{
    product(ni, nk, nj, A, B, E);
    product(nj, nm, nl, C, D, F);
    product(ni, nj, nl, E, F, G);
}
