/* the correlation of each pair of columns, each computed once; a small deviation is replaced by 1 */
void correlation(int64_t n, int64_t m, double *restrict data, double *restrict mean,
                 double *restrict deviation, double *restrict corr)
{
    const double count = n, small = 0.1;
    for (int64_t j = 0; j < m; j++) {
        mean[j] = 0;
        for (int64_t i = 0; i < n; i++) {
            mean[j] += data[i * m + j];
        }
        mean[j] /= count;
    }
    for (int64_t j = 0; j < m; j++) {
        deviation[j] = 0;
        for (int64_t i = 0; i < n; i++) {
            deviation[j] += (data[i * m + j] - mean[j]) * (data[i * m + j] - mean[j]);
        }
        deviation[j] = sqrt(deviation[j] / count);
        if (deviation[j] <= small) {
            deviation[j] = 1;
        }
    }
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < m; j++) {
            data[i * m + j] = (data[i * m + j] - mean[j]) / (sqrt(count) * deviation[j]);
        }
    }
    for (int64_t i = 0; i < m; i++) {
        corr[i * m + i] = 1;
        for (int64_t j = i + 1; j < m; j++) {
            double total = 0;
            for (int64_t k = 0; k < n; k++) {
                total += data[k * m + i] * data[k * m + j];
            }
            corr[i * m + j] = corr[j * m + i] = total;
        }
    }
}
