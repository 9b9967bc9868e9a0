/* the covariance of each pair of columns, each computed once */
void covariance(int64_t n, int64_t m, double *restrict data, double *restrict mean, double *restrict cov)
{
    for (int64_t j = 0; j < m; j++) {
        mean[j] = 0;
        for (int64_t i = 0; i < n; i++) {
            mean[j] += data[i * m + j];
        }
        mean[j] /= (double)n;
    }
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < m; j++) {
            data[i * m + j] -= mean[j];
        }
    }
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = i; j < m; j++) {
            double total = 0;
            for (int64_t k = 0; k < n; k++) {
                total += data[k * m + i] * data[k * m + j];
            }
            total /= (double)n - 1;
            cov[i * m + j] = cov[j * m + i] = total;
        }
    }
}
