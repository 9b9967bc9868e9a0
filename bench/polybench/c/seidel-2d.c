/* T sweeps of a mean of nine neighbours, of which four are already of this sweep */
void seidel_2d(int64_t T, int64_t n, double *restrict A)
{
    for (int64_t t = 0; t < T; t++) {
        for (int64_t i = 1; i < n - 1; i++) {
            for (int64_t j = 1; j < n - 1; j++) {
                double *at = A + i * n + j;
                at[0] = (at[-n - 1] + at[-n] + at[-n + 1] + at[-1] + at[0] + at[1] + at[n - 1] + at[n] + at[n + 1]) / 9.0;
            }
        }
    }
}
