/* the largest number of pairs of bases between i and j, for all i < j */
static int32_t larger(int32_t a, int32_t b)
{
    return a < b ? b : a;
}

void nussinov(int64_t n, const int32_t *restrict seq, int32_t *restrict score)
{
    for (int64_t i = n - 1; i >= 0; i--) {
        for (int64_t j = i + 1; j < n; j++) {
            int32_t best = larger(score[i * n + j], score[i * n + j - 1]);
            if (i + 1 < n) {
                int32_t bonded = score[(i + 1) * n + j - 1];
                if (i < j - 1) {
                    bonded += seq[i] + seq[j] == 3 ? 1 : 0;
                }
                best = larger(larger(best, score[(i + 1) * n + j]), bonded);
            }
            for (int64_t k = i + 1; k < j; k++) {
                best = larger(best, score[i * n + k] + score[(k + 1) * n + j]);
            }
            score[i * n + j] = best;
        }
    }
}
