#include <stdint.h>

/* out[i] = the sum of a[i][p] * w[p] for k p, k <= 128, for n rows of a at a distance of a0 elements. */
static void weighted_sums(float *out, const float *a, int64_t a0, int64_t a1, const float *w, int64_t n, int64_t k)
{
    float weights[128];
    (void)a1; /* it is 1 */
    for (int64_t p = 0; p < k; p++)
        weights[p] = w[p];
    for (int64_t i = 0; i < n; i++) {
        float sum = 0;
        for (int64_t p = 0; p < k; p++)
            sum += a[i * a0 + p] * weights[p];
        out[i] = sum;
    }
}
