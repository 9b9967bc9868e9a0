/* T steps of alternating directions: tridiagonal systems along the columns of u, into v, then along the rows of v */
void adi(int64_t T, int64_t n, double *restrict u, double *restrict v, double *restrict p, double *restrict q)
{
    const double wide = 2.0 * (1.0 / T) / ((1.0 / n) * (1.0 / n)), narrow = 1.0 * (1.0 / T) / ((1.0 / n) * (1.0 / n));
    const double a = -wide / 2.0, b = 1.0 + wide, d = -narrow / 2.0, e = 1.0 + narrow;
    for (int64_t t = 0; t < T; t++) {
        for (int64_t i = 1; i < n - 1; i++) {
            v[i] = 1.0;
            p[i * n] = 0.0;
            q[i * n] = 1.0;
            for (int64_t j = 1; j < n - 1; j++) {
                p[i * n + j] = -a / (a * p[i * n + j - 1] + b);
                q[i * n + j] = (-d * u[j * n + i - 1] + (1.0 + 2.0 * d) * u[j * n + i] - d * u[j * n + i + 1]
                                - a * q[i * n + j - 1]) / (a * p[i * n + j - 1] + b);
            }
            v[(n - 1) * n + i] = 1.0;
            for (int64_t j = n - 2; j >= 1; j--) {
                v[j * n + i] = p[i * n + j] * v[(j + 1) * n + i] + q[i * n + j];
            }
        }
        for (int64_t i = 1; i < n - 1; i++) {
            u[i * n] = 1.0;
            p[i * n] = 0.0;
            q[i * n] = 1.0;
            for (int64_t j = 1; j < n - 1; j++) {
                p[i * n + j] = -d / (d * p[i * n + j - 1] + e);
                q[i * n + j] = (-a * v[(i - 1) * n + j] + (1.0 + 2.0 * a) * v[i * n + j] - a * v[(i + 1) * n + j]
                                - d * q[i * n + j - 1]) / (d * p[i * n + j - 1] + e);
            }
            u[i * n + n - 1] = 1.0;
            for (int64_t j = n - 2; j >= 1; j--) {
                u[i * n + j] = p[i * n + j] * u[i * n + j + 1] + q[i * n + j];
            }
        }
    }
}
