/* a smoothing filter: along each row forwards and backwards, then the same along each column of the sum */
void deriche(int64_t w, int64_t h, double alpha, const double *restrict image, double *restrict smooth,
             double *restrict y1, double *restrict y2)
{
    const double e = exp(-alpha), e2 = exp(-2.0 * alpha);
    const double k = (1.0 - e) * (1.0 - e) / (1.0 + 2.0 * alpha * e - exp(2.0 * alpha));
    const double a1 = k, a2 = k * e * (alpha - 1.0), a3 = k * e * (alpha + 1.0), a4 = -k * e2;
    const double b1 = pow(2.0, -alpha), b2 = -e2;
    for (int64_t i = 0; i < w; i++) {
        double x_1 = 0, y_1 = 0, y_2 = 0;
        for (int64_t j = 0; j < h; j++) {
            const double x = image[i * h + j], y = a1 * x + a2 * x_1 + b1 * y_1 + b2 * y_2;
            y1[i * h + j] = y;
            x_1 = x;
            y_2 = y_1;
            y_1 = y;
        }
    }
    for (int64_t i = 0; i < w; i++) {
        double x_1 = 0, x_2 = 0, y_1 = 0, y_2 = 0;
        for (int64_t j = h - 1; j >= 0; j--) {
            const double y = a3 * x_1 + a4 * x_2 + b1 * y_1 + b2 * y_2;
            y2[i * h + j] = y;
            x_2 = x_1;
            x_1 = image[i * h + j];
            y_2 = y_1;
            y_1 = y;
        }
    }
    for (int64_t i = 0; i < w; i++) {
        for (int64_t j = 0; j < h; j++) {
            smooth[i * h + j] = y1[i * h + j] + y2[i * h + j];
        }
    }
    for (int64_t j = 0; j < h; j++) {
        double x_1 = 0, y_1 = 0, y_2 = 0;
        for (int64_t i = 0; i < w; i++) {
            const double x = smooth[i * h + j], y = a1 * x + a2 * x_1 + b1 * y_1 + b2 * y_2;
            y1[i * h + j] = y;
            x_1 = x;
            y_2 = y_1;
            y_1 = y;
        }
    }
    for (int64_t j = 0; j < h; j++) {
        double x_1 = 0, x_2 = 0, y_1 = 0, y_2 = 0;
        for (int64_t i = w - 1; i >= 0; i--) {
            const double y = a3 * x_1 + a4 * x_2 + b1 * y_1 + b2 * y_2;
            y2[i * h + j] = y;
            x_2 = x_1;
            x_1 = smooth[i * h + j];
            y_2 = y_1;
            y_1 = y;
        }
    }
    for (int64_t i = 0; i < w; i++) {
        for (int64_t j = 0; j < h; j++) {
            smooth[i * h + j] = y1[i * h + j] + y2[i * h + j];
        }
    }
}
