/* A BLAS that appends a line with the number of its process to the file $COUNTED at each product. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void cblas_sgemm(int order, int of_a, int of_b, int n, int m, int k, float alpha, const float *a, int lda,
    const float *b, int ldb, float beta, float *out, int ldo)
{
    FILE *counted = fopen(getenv("COUNTED"), "a");
    if (order != 101 || counted == NULL || fprintf(counted, "%ld\n", (long)getpid()) < 0 || fclose(counted) != 0)
        abort();
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            float sum = 0;
            for (int p = 0; p < k; p++)
                sum += (of_a == 111 ? a[i * lda + p] : a[p * lda + i]) * (of_b == 111 ? b[p * ldb + j] : b[j * ldb + p]);
            out[i * ldo + j] = alpha * sum + (beta != 0 ? beta * out[i * ldo + j] : 0);
        }
}
