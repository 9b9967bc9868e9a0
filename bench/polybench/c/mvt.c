/* x1 += A y1 and x2 += A^T y2 */
void mvt(int64_t n, double *restrict x1, double *restrict x2, const double *restrict y1,
         const double *restrict y2, const double *restrict A)
{
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            x1[i] += A[i * n + j] * y1[j];
        }
    }
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            x2[i] += A[j * n + i] * y2[j];
        }
    }
}
