/* T time steps of an electric field (ex, ey) and a magnetic field hz, with a source in row 0 of ey */
void fdtd_2d(int64_t T, int64_t nx, int64_t ny, double *restrict ex, double *restrict ey, double *restrict hz,
             const double *restrict source)
{
    for (int64_t t = 0; t < T; t++) {
        for (int64_t j = 0; j < ny; j++) {
            ey[j] = source[t];
        }
        for (int64_t i = 1; i < nx; i++) {
            for (int64_t j = 0; j < ny; j++) {
                ey[i * ny + j] -= 0.5 * (hz[i * ny + j] - hz[(i - 1) * ny + j]);
            }
        }
        for (int64_t i = 0; i < nx; i++) {
            for (int64_t j = 1; j < ny; j++) {
                ex[i * ny + j] -= 0.5 * (hz[i * ny + j] - hz[i * ny + j - 1]);
            }
        }
        for (int64_t i = 0; i < nx - 1; i++) {
            for (int64_t j = 0; j < ny - 1; j++) {
                hz[i * ny + j] -= 0.7 * (ex[i * ny + j + 1] - ex[i * ny + j] + ey[(i + 1) * ny + j] - ey[i * ny + j]);
            }
        }
    }
}
