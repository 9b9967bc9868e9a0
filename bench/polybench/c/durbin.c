/* the solution y of the Yule-Walker equations of r */
void durbin(int64_t n, const double *restrict r, double *restrict y, double *restrict z)
{
    double alpha = -r[0], beta = 1;
    y[0] = alpha;
    for (int64_t k = 1; k < n; k++) {
        beta *= 1 - alpha * alpha;
        double total = 0;
        for (int64_t i = 0; i < k; i++) {
            total += r[k - 1 - i] * y[i];
        }
        alpha = -(r[k] + total) / beta;
        for (int64_t i = 0; i < k; i++) {
            z[i] = y[i] + alpha * y[k - 1 - i];
        }
        for (int64_t i = 0; i < k; i++) {
            y[i] = z[i];
        }
        y[k] = alpha;
    }
}
