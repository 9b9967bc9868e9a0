/* the lengths of the shortest paths between all nodes */
void floyd_warshall(int64_t n, int32_t *restrict path)
{
    for (int64_t k = 0; k < n; k++) {
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = 0; j < n; j++) {
                const int32_t by = path[i * n + k] + path[k * n + j];
                path[i * n + j] = by < path[i * n + j] ? by : path[i * n + j];
            }
        }
    }
}
